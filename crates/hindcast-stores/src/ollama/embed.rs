//! Vectors by an Ollama server.

use std::{io::Read as _, time::Duration};

use hindcast_core::knowledge::{EmbedError, Embedder};
use reqwest::blocking::Client;
use serde::{Deserialize, Serialize};

use super::wire::Refusal;
use crate::tls;

/// Loading a model takes long; silence after that is a fault.
const PATIENCE: Duration = Duration::from_secs(120);
const CONNECT_LIMIT: Duration = Duration::from_secs(2);

/// Many times what the vectors of a batch take.
const LONGEST: u64 = 64 << 20;

/// A model of an Ollama server that makes vectors. Cannot be used on a thread of an asynchronous runtime.
pub struct OllamaEmbedder {
    client: Client,
    url: String,
    /// As collections name it.
    name: String,
    /// As the server does.
    served: String,
    dimension: usize,
}

#[derive(Serialize)]
struct Request<'a> {
    model: &'a str,
    input: &'a [&'a str],
    truncate: bool,
}

#[derive(Deserialize)]
struct Answer {
    embeddings: Vec<Vec<f32>>,
}

impl OllamaEmbedder {
    /// Asks the server at an address for a first vector, which tells how many numbers they have.
    pub fn connect(address: &str, name: &str, model: &str) -> Result<Self, EmbedError> {
        tls::ensure_provider();
        let client = Client::builder().connect_timeout(CONNECT_LIMIT).timeout(PATIENCE).no_proxy().build();
        let mut embedder = Self {
            client: client.map_err(|error| EmbedError::Failed(error.to_string()))?,
            url: format!("{}/api/embed", address.trim_end_matches('/')),
            name: name.into(),
            served: model.into(),
            dimension: 0,
        };
        embedder.dimension = embedder.ask(&["a"])?[0].len();
        Ok(embedder)
    }

    fn ask(&self, texts: &[&str]) -> Result<Vec<Vec<f32>>, EmbedError> {
        let failed = |reason: String| {
            EmbedError::Failed(format!(
                "{reason} · hint: `ollama pull {}`, and see that it runs",
                self.served
            ))
        };
        let request = Request { model: &self.served, input: texts, truncate: true };
        let body = serde_json::to_vec(&request).map_err(|error| failed(error.to_string()))?;
        let request = self.client.post(&self.url).header("content-type", "application/json").body(body);
        let answer = request.send().map_err(|error| failed(error.without_url().to_string()))?;
        let status = answer.status();
        let mut bytes = Vec::new();
        answer
            .take(LONGEST)
            .read_to_end(&mut bytes)
            .map_err(|error| failed(format!("it broke off: {error}")))?;
        if !status.is_success() {
            let refusal = serde_json::from_slice::<Refusal>(&bytes);
            return Err(failed(refusal.map_or_else(|_| format!("status {status}"), |refusal| refusal.error)));
        }
        let answer: Answer = serde_json::from_slice(&bytes)
            .map_err(|error| failed(format!("its answer is not Ollama's: {error}")))?;
        let mut vectors = answer.embeddings;
        let width = vectors.first().map_or(0, Vec::len);
        let is_whole = width > 0
            && vectors.len() == texts.len()
            && vectors
                .iter()
                .all(|vector| vector.len() == width && vector.iter().all(|number| number.is_finite()));
        if !is_whole || (self.dimension != 0 && width != self.dimension) {
            return Err(failed(format!(
                "its answer has no vector of {} numbers for each text",
                self.dimension
            )));
        }
        for vector in &mut vectors {
            let length =
                vector.iter().map(|number| number * number).sum::<f32>().sqrt().max(f32::MIN_POSITIVE);
            vector.iter_mut().for_each(|number| *number /= length);
        }
        Ok(vectors)
    }
}

impl Embedder for OllamaEmbedder {
    fn model(&self) -> &str {
        &self.name
    }

    fn dimension(&self) -> usize {
        self.dimension
    }

    fn embed(&self, texts: &[&str]) -> Result<Vec<Vec<f32>>, EmbedError> {
        if texts.is_empty() { Ok(Vec::new()) } else { self.ask(texts) }
    }

    fn is_multilingual(&self) -> bool {
        // Which languages it knows cannot be asked; what is found by it counts as for any.
        true
    }
}
