//! Language models by any server that speaks OpenAI's chat completions: llama.cpp, vLLM, LM Studio and others.

use std::{sync::OnceLock, time::Duration};

use async_trait::async_trait;
use futures::StreamExt;
use hindcast_core::knowledge::{ChatError, ChatModel, InstalledModel, Message, OnText, Reply, Speaker};
use reqwest::{Client, RequestBuilder, Response, Url};
use serde::Deserialize;
use serde_json::json;

use crate::tls;

/// Who does not take the connection by then is not there.
const CONNECT_LIMIT: Duration = Duration::from_secs(2);

/// Lists are short.
const LIST_LIMIT: Duration = Duration::from_secs(11);

/// Loading a large model takes long; silence after that is a fault.
const SILENCE_LIMIT: Duration = Duration::from_secs(180);

/// A line of a stream has a few words; this is no line.
const LONGEST_LINE: usize = 1 << 20;

/// A refusal says a sentence or two.
pub(crate) const LONGEST_REFUSAL: usize = 64 << 10;

/// Names of thousands of models.
pub(crate) const LONGEST_LIST: usize = 8 << 20;

/// The body of an answer, which must not be longer than so many bytes.
pub(crate) async fn bounded(answer: Response, most: usize) -> Result<Vec<u8>, ChatError> {
    let mut stream = answer.bytes_stream();
    let mut body = Vec::new();
    while let Some(bytes) = stream.next().await {
        body.extend(bytes.map_err(|error| ChatError::BrokeOff(error.to_string()))?);
        if body.len() > most {
            return Err(ChatError::BrokeOff(format!("it is longer than {most} bytes")));
        }
    }
    Ok(body)
}

/// A server with an address that ends in `/v1`.
pub struct OpenAi {
    client: OnceLock<Client>,
    address: String,
    base: Url,
    key: Option<String>,
    silence_limit: Duration,
}

#[derive(Deserialize)]
struct ModelList {
    #[serde(default)]
    data: Vec<ListedModel>,
}

#[derive(Deserialize)]
struct ListedModel {
    id: String,
}

#[derive(Deserialize)]
struct StreamLine {
    #[serde(default)]
    choices: Vec<Choice>,
    usage: Option<Usage>,
    error: Option<serde_json::Value>,
}

#[derive(Deserialize)]
struct Choice {
    #[serde(default)]
    delta: Delta,
}

#[derive(Deserialize, Default)]
struct Delta {
    content: Option<String>,
}

#[derive(Deserialize)]
struct Usage {
    #[serde(default)]
    total_tokens: u64,
}

impl OpenAi {
    /// Whether an address is one of this kind and not Ollama's own.
    pub fn is_meant_by(address: &str) -> bool {
        address.trim_end_matches('/').ends_with("/v1")
    }

    /// The server at an address such as `http://localhost:8080/v1`, with the key it asks for. Nothing is sent yet.
    pub fn at(address: &str, key: Option<String>) -> Result<Self, ChatError> {
        let with_slash = format!("{}/", address.trim_end_matches('/'));
        let base = Url::parse(&with_slash)
            .map_err(|error| ChatError::Unreachable { address: address.into(), reason: error.to_string() })?;
        Ok(Self { client: OnceLock::new(), address: address.into(), base, key, silence_limit: SILENCE_LIMIT })
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
        let mut client = Client::builder().connect_timeout(CONNECT_LIMIT);
        if self.base.scheme() == "http" {
            // Reading the system's certificates takes time and memory; a server in this house is not asked through a proxy.
            client = client.tls_certs_only([]).no_proxy();
        }
        let made = client.build().map_err(|error| self.unreachable(&error))?;
        Ok(self.client.get_or_init(|| made))
    }

    fn url(&self, path: &str) -> Result<Url, ChatError> {
        self.base.join(path).map_err(|error| self.unreachable(&error))
    }

    fn unreachable(&self, error: &dyn std::error::Error) -> ChatError {
        // The outermost message only says that it failed; the innermost says why.
        let mut cause = error;
        while let Some(inner) = cause.source() {
            cause = inner;
        }
        ChatError::Unreachable { address: self.address.clone(), reason: cause.to_string() }
    }

    fn timed_out(&self, limit: Duration) -> ChatError {
        ChatError::TimedOut { address: self.address.clone(), seconds: limit.as_secs() }
    }

    /// Sends something and waits for the head of an answer that is no refusal.
    async fn send(&self, request: RequestBuilder, limit: Duration) -> Result<Response, ChatError> {
        let request = match &self.key {
            Some(key) => request.bearer_auth(key),
            None => request,
        };
        let answer = tokio::time::timeout(limit, request.send()).await.map_err(|_| self.timed_out(limit))?;
        let answer = answer.map_err(|error| self.unreachable(&error))?;
        let status = answer.status();
        if status.is_success() {
            return Ok(answer);
        }
        let body = tokio::time::timeout(limit, bounded(answer, LONGEST_REFUSAL));
        let body = body.await.map_err(|_| self.timed_out(limit))?.unwrap_or_default();
        let said = serde_json::from_slice::<serde_json::Value>(&body).ok();
        let said =
            said.as_ref().and_then(|said| said["error"]["message"].as_str().or(said["error"].as_str()));
        Err(ChatError::Refused(said.map_or_else(|| format!("status {status}"), str::to_owned)))
    }
}

#[async_trait]
impl ChatModel for OpenAi {
    fn address(&self) -> &str {
        &self.address
    }

    async fn models(&self) -> Result<Vec<InstalledModel>, ChatError> {
        let answer = self.send(self.client()?.get(self.url("models")?), LIST_LIMIT).await?;
        let bytes = tokio::time::timeout(LIST_LIMIT, bounded(answer, LONGEST_LIST)).await;
        let bytes = bytes.map_err(|_| self.timed_out(LIST_LIMIT))??;
        let list: ModelList = serde_json::from_slice(&bytes)
            .map_err(|error| ChatError::Refused(format!("its answer is no list of models: {error}")))?;
        let model = |listed: ListedModel| InstalledModel {
            // The list says nothing more than names.
            embeds: listed.id.to_lowercase().contains("embed"),
            calls_tools: false,
            dimension: None,
            size: 0,
            name: listed.id,
        };
        Ok(list.data.into_iter().map(model).collect())
    }

    async fn chat(
        &self,
        model: &str,
        messages: &[Message],
        _room: usize,
        on_text: OnText<'_>,
    ) -> Result<Reply, ChatError> {
        let role = |speaker: Speaker| match speaker {
            Speaker::System => "system",
            Speaker::User => "user",
            Speaker::Assistant => "assistant",
        };
        let messages: Vec<_> = messages
            .iter()
            .map(|message| json!({ "role": role(message.speaker), "content": message.text }))
            .collect();
        let body = json!({
            "model": model,
            "messages": messages,
            "stream": true,
            "stream_options": { "include_usage": true },
        });
        let request = self.client()?.post(self.url("chat/completions")?);
        let request = request.header("content-type", "application/json").body(body.to_string());
        let answer = self.send(request, self.silence_limit).await?;
        let mut stream = answer.bytes_stream();
        let (mut waiting, mut text, mut tokens) = (Vec::new(), String::new(), 0);
        loop {
            let next = tokio::time::timeout(self.silence_limit, stream.next()).await;
            let Some(bytes) = next.map_err(|_| self.timed_out(self.silence_limit))? else {
                return Err(ChatError::BrokeOff("the connection ended before the answer did".into()));
            };
            waiting.extend(bytes.map_err(|error| ChatError::BrokeOff(error.to_string()))?);
            while let Some(end) = waiting.iter().position(|byte| *byte == b'\n') {
                let line: Vec<u8> = waiting.drain(..=end).collect();
                let line = String::from_utf8_lossy(&line);
                let Some(data) = line.trim().strip_prefix("data:").map(str::trim) else { continue };
                if data == "[DONE]" {
                    return Ok(Reply { text, tokens });
                }
                let line: StreamLine = serde_json::from_str(data)
                    .map_err(|error| ChatError::BrokeOff(format!("a line of it cannot be read: {error}")))?;
                if let Some(error) = line.error {
                    return Err(ChatError::BrokeOff(
                        error["message"].as_str().unwrap_or("it failed").to_owned(),
                    ));
                }
                tokens = line.usage.map_or(tokens, |usage| usage.total_tokens);
                for piece in line.choices.into_iter().filter_map(|choice| choice.delta.content) {
                    text.push_str(&piece);
                    if !piece.is_empty() && !on_text(&piece) {
                        return Err(ChatError::Cancelled);
                    }
                }
            }
            if waiting.len() > LONGEST_LINE {
                return Err(ChatError::BrokeOff("what came is not an answer".into()));
            }
        }
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

    /// A server that gives one answer, and tells what it was asked.
    fn server(body: &'static str) -> (String, mpsc::Receiver<String>) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = format!("http://{}/v1", listener.local_addr().unwrap());
        let (sender, asked) = mpsc::channel();
        std::thread::spawn(move || {
            let (mut socket, _) = listener.accept().unwrap();
            let mut reader = BufReader::new(socket.try_clone().unwrap());
            let (mut head, mut line, mut length) = (String::new(), String::new(), 0);
            while reader.read_line(&mut line).unwrap() > 2 {
                if let Some(value) = line.to_lowercase().strip_prefix("content-length:") {
                    length = value.trim().parse().unwrap();
                }
                head += &std::mem::take(&mut line);
            }
            let mut content = vec![0; length];
            reader.read_exact(&mut content).unwrap();
            sender.send(head + &String::from_utf8(content).unwrap()).unwrap();
            socket.write_all(body.as_bytes()).unwrap();
        });
        (address, asked)
    }

    async fn ask(body: &'static str) -> (Result<Reply, ChatError>, String) {
        let (address, asked) = server(body);
        let server = OpenAi::at(&address, Some("sesame".into())).unwrap();
        let question = [Message { speaker: Speaker::User, text: "why?".into() }];
        let reply = server.chat("tiny", &question, 0, &mut |_| true).await;
        (reply, asked.recv().unwrap())
    }

    #[tokio::test]
    async fn an_answer_comes_piece_by_piece_and_the_key_is_sent() {
        let (reply, asked) = ask(concat!(
            "HTTP/1.1 200 OK\r\nconnection: close\r\n\r\n",
            "data: {\"choices\":[{\"delta\":{\"role\":\"assistant\"}}]}\n\n",
            "data: {\"choices\":[{\"delta\":{\"content\":\"Be\"}}]}\n\ndata: {\"choices\":[{\"delta\":{\"content\":\"cause\"}}]}\n\n",
            ": a comment\ndata: {\"choices\":[],\"usage\":{\"total_tokens\":9}}\n\ndata: [DONE]\n\n",
        ))
        .await;
        assert_eq!(reply, Ok(Reply { text: "Because".into(), tokens: 9 }));
        assert!(
            asked.starts_with("POST /v1/chat/completions ") && asked.contains("Bearer sesame"),
            "{asked}"
        );
        assert!(asked.contains("\"stream\":true") && asked.contains("\"content\":\"why?\""), "{asked}");
    }

    #[tokio::test]
    async fn a_refusal_and_a_broken_answer_say_why() {
        let (reply, _) = ask(concat!(
            "HTTP/1.1 401 Unauthorized\r\nconnection: close\r\n\r\n",
            "{\"error\":{\"message\":\"wrong key\"}}",
        ))
        .await;
        assert_eq!(reply, Err(ChatError::Refused("wrong key".into())));
        let (reply, _) =
            ask("HTTP/1.1 200 OK\r\nconnection: close\r\n\r\ndata: {\"choices\":[{\"delta\":{\"content\":\"Be\"}}]}\n").await;
        assert!(matches!(reply, Err(ChatError::BrokeOff(_))), "{reply:?}");
    }

    #[tokio::test]
    async fn an_answer_without_an_end_is_not_read_to_its_end() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = format!("http://{}/v1", listener.local_addr().unwrap());
        let writer = std::thread::spawn(move || {
            for head in ["HTTP/1.1 500 No\r\n\r\n", "HTTP/1.1 200 OK\r\n\r\n"] {
                let (mut socket, _) = listener.accept().unwrap();
                let mut asked = BufReader::new(socket.try_clone().unwrap());
                while asked.read_line(&mut String::new()).unwrap() > 2 {}
                socket.write_all(head.as_bytes()).unwrap();
                let part = vec![b' '; 1 << 16];
                // Until the other end has had enough; a gigabyte is far beyond every limit.
                let sent = (0..1 << 14).take_while(|_| socket.write_all(&part).is_ok()).count();
                assert!(sent < 1 << 14, "all of it was read");
            }
        });
        let server = OpenAi::at(&address, None).unwrap();
        assert!(matches!(server.models().await, Err(ChatError::Refused(said)) if said.contains("500")));
        assert!(matches!(server.models().await, Err(ChatError::BrokeOff(said)) if said.contains("longer")));
        // The connection is closed by a task that must be able to run meanwhile.
        tokio::task::spawn_blocking(move || writer.join().unwrap()).await.unwrap();
    }

    #[tokio::test]
    async fn models_are_listed() {
        let (address, _asked) = server(
            "HTTP/1.1 200 OK\r\nconnection: close\r\n\r\n{\"data\":[{\"id\":\"qwen\"},{\"id\":\"nomic-embed\"}]}",
        );
        let models = OpenAi::at(&address, None).unwrap().models().await.unwrap();
        let told: Vec<_> = models.iter().map(|model| (&*model.name, model.embeds)).collect();
        assert_eq!(told, [("qwen", false), ("nomic-embed", true)]);
        assert!(OpenAi::is_meant_by("http://x/v1/") && !OpenAi::is_meant_by("http://x:11434"));
    }
}
