//! Language models by an Ollama server.

mod wire;

use std::{
    collections::HashMap,
    sync::{Mutex, OnceLock, PoisonError},
    time::Duration,
};

use async_trait::async_trait;
use futures::StreamExt;
use hindcast_core::knowledge::{ChatError, ChatModel, InstalledModel, Message, OnText, Reply};
use reqwest::{Client, Response, Url};
use serde::{Serialize, de::DeserializeOwned};

use crate::{
    openai::{LONGEST_LIST, LONGEST_REFUSAL, bounded},
    tls,
};
use wire::{ChatLine, ChatRequest, MOST_BYTES, Refusal, ShowRequest, Shown, TagList};

/// Who does not take the connection by then is not there.
const CONNECT_LIMIT: Duration = Duration::from_secs(2);

/// Lists are short; the health of the server is judged by how long they take.
const LIST_LIMIT: Duration = Duration::from_secs(11);

/// Loading a large model takes long; silence after that is a fault.
const SILENCE_LIMIT: Duration = Duration::from_secs(180);

/// A line of a stream has a few words; this is no line.
const LONGEST_LINE: usize = 1 << 20;

/// An Ollama server.
pub struct Ollama {
    /// Made when it is first needed.
    client: OnceLock<Client>,
    address: String,
    base: Url,
    silence_limit: Duration,
    /// What models can do, by the digest that changes when they do.
    shown: Mutex<HashMap<String, Shown>>,
}

impl Ollama {
    /// The server at an address such as `http://localhost:11434`. Nothing is sent yet.
    pub fn at(address: &str) -> Result<Self, ChatError> {
        let unusable = |reason: String| ChatError::Unreachable { address: address.into(), reason };
        let with_slash = format!("{}/", address.trim_end_matches('/'));
        let base = Url::parse(&with_slash).map_err(|error| unusable(error.to_string()))?;
        Ok(Self {
            client: OnceLock::new(),
            address: address.into(),
            base,
            silence_limit: SILENCE_LIMIT,
            shown: Mutex::default(),
        })
    }

    /// The same with less patience.
    #[must_use]
    pub fn with_silence_limit(mut self, limit: Duration) -> Self {
        self.silence_limit = limit;
        self
    }

    fn client(&self) -> Result<&Client, ChatError> {
        if let Some(client) = self.client.get() {
            return Ok(client);
        }
        tls::ensure_provider();
        // A server on this machine or in this house is not asked through a proxy.
        let mut client = Client::builder().connect_timeout(CONNECT_LIMIT).no_proxy();
        if self.base.scheme() == "http" {
            // Reading the system's certificates takes time and memory.
            client = client.tls_certs_only([]);
        }
        let made = client.build().map_err(|error| self.unreachable(&error.to_string()))?;
        Ok(self.client.get_or_init(|| made))
    }

    fn url(&self, path: &str) -> Result<Url, ChatError> {
        self.base.join(path).map_err(|error| self.unreachable(&error.to_string()))
    }

    fn unreachable(&self, reason: &str) -> ChatError {
        ChatError::Unreachable { address: self.address.clone(), reason: reason.into() }
    }

    fn timed_out(&self, limit: Duration) -> ChatError {
        ChatError::TimedOut { address: self.address.clone(), seconds: limit.as_secs() }
    }

    fn failed(&self, error: &reqwest::Error, limit: Duration) -> ChatError {
        if error.is_timeout() && !error.is_connect() {
            return self.timed_out(limit);
        }
        // The outermost message only says that it failed; the innermost says why.
        let mut cause: &dyn std::error::Error = error;
        while let Some(inner) = cause.source() {
            cause = inner;
        }
        self.unreachable(&cause.to_string())
    }

    /// Sends something and waits for the head of the answer.
    async fn post(&self, path: &str, body: &impl Serialize, limit: Duration) -> Result<Response, ChatError> {
        let body = serde_json::to_vec(body).map_err(|error| ChatError::Refused(error.to_string()))?;
        let request =
            self.client()?.post(self.url(path)?).header("content-type", "application/json").body(body);
        let answer = tokio::time::timeout(limit, request.send()).await.map_err(|_| self.timed_out(limit))?;
        self.accepted(answer.map_err(|error| self.failed(&error, limit))?).await
    }

    /// The answer, unless it is a refusal.
    async fn accepted(&self, answer: Response) -> Result<Response, ChatError> {
        let status = answer.status();
        if status.is_success() {
            return Ok(answer);
        }
        let body = tokio::time::timeout(LIST_LIMIT, bounded(answer, LONGEST_REFUSAL));
        let body = body.await.map_err(|_| self.timed_out(LIST_LIMIT))?.unwrap_or_default();
        let reason = serde_json::from_slice::<Refusal>(&body)
            .map_or_else(|_| format!("status {status}"), |refusal| refusal.error);
        Err(ChatError::Refused(reason))
    }

    async fn whole<T: DeserializeOwned>(&self, answer: Response) -> Result<T, ChatError> {
        let bytes = tokio::time::timeout(LIST_LIMIT, bounded(answer, LONGEST_LIST)).await;
        let bytes = bytes.map_err(|_| self.timed_out(LIST_LIMIT))??;
        serde_json::from_slice(&bytes)
            .map_err(|error| ChatError::Refused(format!("its answer is not Ollama's: {error}")))
    }

    /// What a model can do. Servers that cannot say so are taken to have models that answer.
    async fn show(&self, name: &str, digest: &str) -> Shown {
        let known = self.shown.lock().unwrap_or_else(PoisonError::into_inner).get(digest).cloned();
        if let Some(known) = known {
            return known;
        }
        let asked = async {
            let answer = self.post("api/show", &ShowRequest { model: name }, LIST_LIMIT).await?;
            self.whole::<Shown>(answer).await
        };
        match asked.await {
            Ok(shown) => {
                let mut known = self.shown.lock().unwrap_or_else(PoisonError::into_inner);
                known.insert(digest.into(), shown.clone());
                shown
            }
            Err(_) => Shown::default(),
        }
    }
}

#[async_trait]
impl ChatModel for Ollama {
    fn address(&self) -> &str {
        &self.address
    }

    fn server(&self) -> &'static str {
        "Ollama"
    }

    fn is_ollama(&self) -> bool {
        true
    }

    fn most_bytes(&self) -> Option<usize> {
        Some(MOST_BYTES)
    }

    async fn models(&self) -> Result<Vec<InstalledModel>, ChatError> {
        let request = self.client()?.get(self.url("api/tags")?).send();
        let answer =
            tokio::time::timeout(LIST_LIMIT, request).await.map_err(|_| self.timed_out(LIST_LIMIT))?;
        let answer = self.accepted(answer.map_err(|error| self.failed(&error, LIST_LIMIT))?).await?;
        let list: TagList = self.whole(answer).await?;
        let mut models = Vec::with_capacity(list.models.len());
        for tag in list.models {
            let shown = self.show(&tag.name, &tag.digest).await;
            models.push(InstalledModel {
                embeds: shown.can("embedding")
                    || (shown.capabilities.is_empty() && tag.name.contains("embed")),
                calls_tools: shown.can("tools"),
                dimension: shown.dimension(),
                name: tag.name,
                size: tag.size,
            });
        }
        Ok(models)
    }

    async fn chat(
        &self,
        model: &str,
        messages: &[Message],
        room: usize,
        on_text: OnText<'_>,
    ) -> Result<Reply, ChatError> {
        let request = ChatRequest::new(model, messages, room);
        let answer = self.post("api/chat", &request, self.silence_limit).await?;
        let mut stream = answer.bytes_stream();
        let (mut waiting, mut text) = (Vec::new(), String::new());
        loop {
            let next = tokio::time::timeout(self.silence_limit, stream.next()).await;
            let Some(bytes) = next.map_err(|_| self.timed_out(self.silence_limit))? else {
                return Err(ChatError::BrokeOff("the connection ended before the answer did".into()));
            };
            waiting.extend(bytes.map_err(|error| ChatError::BrokeOff(error.to_string()))?);
            while let Some(end) = waiting.iter().position(|byte| *byte == b'\n') {
                let line: Vec<u8> = waiting.drain(..=end).collect();
                let line = ChatLine::read(&line)?;
                let piece = line.text();
                text.push_str(piece);
                if !piece.is_empty() && !on_text(piece) {
                    return Err(ChatError::Cancelled);
                }
                if line.done {
                    return Ok(Reply { text, tokens: line.tokens() });
                }
            }
            if waiting.len() > LONGEST_LINE {
                return Err(ChatError::BrokeOff("what came is not an answer".into()));
            }
        }
    }
}

#[cfg(test)]
mod tests;
