//! Vectors by a server: Ollama, or any that speaks OpenAI's embeddings.

use std::{io::Read as _, sync::OnceLock, time::Duration};

use hindcast_core::knowledge::{EmbedError, Embedder};
use reqwest::blocking::Client;
use serde::Deserialize;
use serde_json::{Value, json};

use crate::{
    embed::{UNRELATED, mean_cosine, prefixes_of},
    tls,
};

/// Loading a model takes long; silence after that is a fault.
const PATIENCE: Duration = Duration::from_secs(120);
const CONNECT_LIMIT: Duration = Duration::from_secs(2);

/// Many times what the vectors of a batch take.
const LONGEST: u64 = 64 << 20;

/// Some servers do not take more texts at once.
const MOST_TEXTS: usize = 32;

/// How a server is asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Protocol {
    Ollama,
    OpenAi,
}

/// A model of a server that makes vectors. Cannot be used on a thread of an asynchronous runtime.
pub(crate) struct ServedEmbedder {
    client: Client,
    protocol: Protocol,
    url: String,
    key: Option<String>,
    /// As collections name it.
    name: String,
    /// As the server does.
    served: String,
    dimension: usize,
    unrelated: OnceLock<f32>,
}

#[derive(Deserialize)]
struct OllamaAnswer {
    embeddings: Vec<Vec<f32>>,
}

#[derive(Deserialize)]
struct OpenAiAnswer {
    data: Vec<OpenAiVector>,
}

#[derive(Deserialize)]
struct OpenAiVector {
    index: usize,
    embedding: Vec<f32>,
}

impl ServedEmbedder {
    /// A model of the Ollama at an address. Asks for a first vector, which tells how many numbers they have.
    pub(crate) fn of_ollama(address: &str, name: &str, model: &str) -> Result<Self, EmbedError> {
        // A server on this machine or in this house is not asked through a proxy.
        let client = Client::builder().no_proxy();
        Self::connect(client, Protocol::Ollama, format!("{}/api/embed", base(address)), None, name, model)
    }

    /// The same of a server with an address such as `http://localhost:8080/v1`, with the key it asks for.
    pub(crate) fn of_openai(
        address: &str,
        key: Option<String>,
        name: &str,
        model: &str,
    ) -> Result<Self, EmbedError> {
        let mut client = Client::builder();
        if address.starts_with("http://") {
            client = client.no_proxy();
        }
        Self::connect(client, Protocol::OpenAi, format!("{}/embeddings", base(address)), key, name, model)
    }

    fn connect(
        client: reqwest::blocking::ClientBuilder,
        protocol: Protocol,
        url: String,
        key: Option<String>,
        name: &str,
        model: &str,
    ) -> Result<Self, EmbedError> {
        tls::ensure_provider();
        let client = client.connect_timeout(CONNECT_LIMIT).timeout(PATIENCE).build();
        let mut embedder = Self {
            client: client.map_err(|error| EmbedError::Failed(error.to_string()))?,
            protocol,
            url,
            key,
            name: name.into(),
            served: model.into(),
            dimension: 0,
            unrelated: OnceLock::new(),
        };
        embedder.dimension = embedder.ask(&["a".into()])?[0].len();
        Ok(embedder)
    }

    fn failed(&self, reason: &str) -> EmbedError {
        let hint = match self.protocol {
            Protocol::Ollama => format!("`ollama pull {}`, and see that it runs", self.served),
            Protocol::OpenAi => format!("see that the server runs and has the model `{}`", self.served),
        };
        EmbedError::Failed(format!("{reason} · hint: {hint}"))
    }

    /// The vectors of texts, each with what the model wants to stand before it.
    fn vectors(&self, prefix: &str, texts: &[&str]) -> Result<Vec<Vec<f32>>, EmbedError> {
        let texts: Vec<String> = texts.iter().map(|text| format!("{prefix}{text}")).collect();
        let mut vectors = Vec::with_capacity(texts.len());
        for part in texts.chunks(MOST_TEXTS) {
            vectors.extend(self.ask(part)?);
        }
        Ok(vectors)
    }

    fn ask(&self, texts: &[String]) -> Result<Vec<Vec<f32>>, EmbedError> {
        let body = match self.protocol {
            Protocol::Ollama => json!({ "model": self.served, "input": texts, "truncate": true }),
            Protocol::OpenAi => json!({ "model": self.served, "input": texts, "encoding_format": "float" }),
        };
        let mut request = self.client.post(&self.url).header("content-type", "application/json");
        if let Some(key) = &self.key {
            request = request.bearer_auth(key);
        }
        let answer = request.body(body.to_string()).send();
        let answer = answer.map_err(|error| self.failed(&error.without_url().to_string()))?;
        let status = answer.status();
        let mut bytes = Vec::new();
        let read = answer.take(LONGEST).read_to_end(&mut bytes);
        read.map_err(|error| self.failed(&format!("it broke off: {error}")))?;
        if !status.is_success() {
            let said: Option<Value> = serde_json::from_slice(&bytes).ok();
            let said =
                said.as_ref().and_then(|said| said["error"]["message"].as_str().or(said["error"].as_str()));
            return Err(self.failed(&said.map_or_else(|| format!("status {status}"), str::to_owned)));
        }
        let mut vectors = self.read(&bytes).map_err(|reason| self.failed(&reason))?;
        let width = vectors.first().map_or(0, Vec::len);
        let is_whole = width > 0
            && vectors.len() == texts.len()
            && vectors.iter().flatten().all(|number| number.is_finite())
            && vectors.iter().all(|vector| vector.len() == width);
        if !is_whole || (self.dimension != 0 && width != self.dimension) {
            let dimension = self.dimension;
            return Err(
                self.failed(&format!("its answer has no vector of {dimension} numbers for each text"))
            );
        }
        for vector in &mut vectors {
            let length =
                vector.iter().map(|number| number * number).sum::<f32>().sqrt().max(f32::MIN_POSITIVE);
            vector.iter_mut().for_each(|number| *number /= length);
        }
        Ok(vectors)
    }

    /// The vectors of an answer, in the order of the texts.
    fn read(&self, bytes: &[u8]) -> Result<Vec<Vec<f32>>, String> {
        let unread = |error: serde_json::Error| format!("its answer has no vectors: {error}");
        match self.protocol {
            Protocol::Ollama => Ok(serde_json::from_slice::<OllamaAnswer>(bytes).map_err(unread)?.embeddings),
            Protocol::OpenAi => {
                let mut data = serde_json::from_slice::<OpenAiAnswer>(bytes).map_err(unread)?.data;
                data.sort_by_key(|vector| vector.index);
                if data.iter().enumerate().any(|(place, vector)| vector.index != place) {
                    return Err("its answer does not have each vector once".into());
                }
                Ok(data.into_iter().map(|vector| vector.embedding).collect())
            }
        }
    }
}

fn base(address: &str) -> &str {
    address.trim_end_matches('/')
}

impl Embedder for ServedEmbedder {
    fn model(&self) -> &str {
        &self.name
    }

    fn dimension(&self) -> usize {
        self.dimension
    }

    fn embed(&self, texts: &[&str]) -> Result<Vec<Vec<f32>>, EmbedError> {
        self.vectors(prefixes_of(&self.served).1, texts)
    }

    fn embed_question(&self, question: &str) -> Result<Vec<f32>, EmbedError> {
        let made = self.vectors(prefixes_of(&self.served).0, &[question])?.into_iter().next();
        made.ok_or_else(|| EmbedError::Failed("it made no vector".into()))
    }

    fn unrelated(&self) -> Result<f32, EmbedError> {
        if let Some(unrelated) = self.unrelated.get() {
            return Ok(*unrelated);
        }
        let measured = mean_cosine(&self.embed(&UNRELATED)?);
        Ok(*self.unrelated.get_or_init(|| measured))
    }

    fn is_multilingual(&self) -> bool {
        // Which languages it knows cannot be asked; what is found by it counts as for any.
        true
    }
}

#[cfg(test)]
mod tests {
    use std::{
        io::{BufRead, BufReader, Read, Write},
        net::TcpListener,
        sync::mpsc,
    };

    use super::*;

    /// Stands in for a server: each text has a vector of three numbers, of which the first is large for all. Tells what it was asked,
    /// the head and the body of each request.
    fn fake_server(is_ollama: bool) -> (String, mpsc::Receiver<(String, Value)>) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = format!("http://{}", listener.local_addr().unwrap());
        let (sender, asked) = mpsc::channel();
        std::thread::spawn(move || {
            for mut socket in listener.incoming().map_while(Result::ok) {
                let mut reader = BufReader::new(socket.try_clone().unwrap());
                let (mut head, mut line, mut length) = (String::new(), String::new(), 0);
                while reader.read_line(&mut line).unwrap_or(0) > 2 {
                    if let Some(value) = line.to_lowercase().strip_prefix("content-length:") {
                        length = value.trim().parse().unwrap();
                    }
                    head += &std::mem::take(&mut line);
                }
                let mut content = vec![0; length];
                reader.read_exact(&mut content).unwrap();
                let body: Value = serde_json::from_slice(&content).unwrap();
                let texts = body["input"].as_array().unwrap().len();
                let vectors =
                    (0..texts).map(|place| if place % 2 == 0 { [3.0, 4.0, 0.0] } else { [3.0, 0.0, 4.0] });
                let answer = match is_ollama {
                    true => json!({ "embeddings": vectors.collect::<Vec<_>>() }),
                    // In the wrong order, which the protocol allows.
                    false => {
                        let data = vectors
                            .enumerate()
                            .map(|(index, vector)| json!({ "index": index, "embedding": vector }));
                        json!({ "data": data.rev().collect::<Vec<_>>() })
                    }
                };
                let _ = sender.send((head, body));
                write!(socket, "HTTP/1.1 200 OK\r\nconnection: close\r\n\r\n{answer}").unwrap();
            }
        });
        (address, asked)
    }

    fn close(one: f32, other: f32) -> bool {
        (one - other).abs() < 1e-5
    }

    #[test]
    fn texts_begin_as_the_family_of_the_model_wants_and_its_scale_is_measured_once() {
        let (address, asked) = fake_server(true);
        let model =
            ServedEmbedder::of_ollama(&address, "ollama:nomic-embed-text", "nomic-embed-text").unwrap();
        assert_eq!((model.dimension(), model.model()), (3, "ollama:nomic-embed-text"));
        model.embed(&["a heron"]).unwrap();
        model.embed_question("a heron?").unwrap();
        let inputs: Vec<_> = asked.try_iter().map(|(_, body)| body["input"].clone()).collect();
        assert_eq!(inputs[1..], [json!(["search_document: a heron"]), json!(["search_query: a heron?"])]);
        // Of eight texts 12 pairs are alike and 16 have a cosine of 0.36.
        let mean = (12.0 + 16.0 * 0.36) / 28.0;
        for _ in 0..2 {
            let unrelated = model.unrelated().unwrap();
            assert!(close(unrelated, mean), "{unrelated}");
        }
        assert_eq!(asked.try_iter().count(), 1, "measured once");
    }

    #[test]
    fn a_server_of_openais_kind_makes_vectors_in_the_order_of_the_texts() {
        let (address, asked) = fake_server(false);
        let address = format!("{address}/v1/");
        let model = ServedEmbedder::of_openai(&address, Some("sesame".into()), "openai:e", "e").unwrap();
        let texts = ["text"; MOST_TEXTS + 1];
        let vectors = model.embed(&texts).unwrap();
        assert_eq!(vectors.len(), texts.len());
        assert!(close(vectors[0][0], 0.6) && close(vectors[0][1], 0.8) && close(vectors[1][2], 0.8));
        assert_eq!(model.embed(&[]).unwrap(), Vec::<Vec<f32>>::new());
        let asked: Vec<_> = asked.try_iter().collect();
        assert_eq!(asked.len(), 3, "the first vector, and two parts");
        let (head, body) = &asked[0];
        assert!(head.starts_with("POST /v1/embeddings ") && head.contains("Bearer sesame"), "{head}");
        assert_eq!(*body, json!({ "model": "e", "input": ["a"], "encoding_format": "float" }));
    }

    #[test]
    fn a_refusal_says_why_and_does_not_speak_of_another_server() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = format!("http://{}/v1", listener.local_addr().unwrap());
        let server = std::thread::spawn(move || {
            let (mut socket, _) = listener.accept().unwrap();
            let mut asked = BufReader::new(socket.try_clone().unwrap());
            while asked.read_line(&mut String::new()).unwrap() > 2 {}
            let said = "{\"error\":{\"message\":\"no such model\"}}";
            write!(socket, "HTTP/1.1 404 Not Found\r\ncontent-length: {}\r\n\r\n{said}", said.len()).unwrap();
        });
        let refused = ServedEmbedder::of_openai(&address, None, "openai:e", "e").err().unwrap().to_string();
        server.join().unwrap();
        assert!(refused.contains("no such model") && !refused.to_lowercase().contains("ollama"), "{refused}");
    }
}
