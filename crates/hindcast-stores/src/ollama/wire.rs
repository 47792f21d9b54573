//! What goes over the wire to Ollama and back.

use std::collections::HashMap;

use hindcast_core::knowledge::{ChatError, Message, Speaker};
use serde::{Deserialize, Serialize};
use serde_json::Value;

#[derive(Deserialize)]
pub(super) struct TagList {
    #[serde(default)]
    pub(super) models: Vec<Tag>,
}

#[derive(Deserialize)]
pub(super) struct Tag {
    pub(super) name: String,
    #[serde(default)]
    pub(super) size: u64,
    #[serde(default)]
    pub(super) digest: String,
}

#[derive(Serialize)]
pub(super) struct ShowRequest<'a> {
    pub(super) model: &'a str,
}

#[derive(Deserialize, Clone, Default)]
pub(super) struct Shown {
    #[serde(default)]
    pub(super) capabilities: Vec<String>,
    #[serde(default)]
    model_info: HashMap<String, Value>,
}

impl Shown {
    pub(super) fn can(&self, capability: &str) -> bool {
        self.capabilities.iter().any(|known| known == capability)
    }

    /// `nomic-bert.embedding_length` and its like.
    pub(super) fn dimension(&self) -> Option<u64> {
        let length = self.model_info.iter().find(|(name, _)| name.ends_with(".embedding_length"));
        length.and_then(|(_, length)| length.as_u64())
    }
}

#[derive(Deserialize)]
pub(super) struct Refusal {
    pub(super) error: String,
}

#[derive(Serialize)]
pub(super) struct ChatRequest<'a> {
    model: &'a str,
    messages: Vec<WireMessage<'a>>,
    stream: bool,
}

#[derive(Serialize)]
struct WireMessage<'a> {
    role: &'static str,
    content: &'a str,
}

impl<'a> ChatRequest<'a> {
    pub(super) fn new(model: &'a str, messages: &'a [Message]) -> Self {
        let message = |message: &'a Message| WireMessage {
            role: match message.speaker {
                Speaker::System => "system",
                Speaker::User => "user",
                Speaker::Assistant => "assistant",
            },
            content: &message.text,
        };
        Self { model, messages: messages.iter().map(message).collect(), stream: true }
    }
}

/// One line of a streamed answer.
#[derive(Deserialize)]
pub(super) struct ChatLine {
    message: Option<LineMessage>,
    #[serde(default)]
    pub(super) done: bool,
    #[serde(default)]
    prompt_eval_count: u64,
    #[serde(default)]
    eval_count: u64,
    error: Option<String>,
}

#[derive(Deserialize)]
struct LineMessage {
    #[serde(default)]
    content: String,
}

impl ChatLine {
    pub(super) fn read(line: &[u8]) -> Result<Self, ChatError> {
        let line: Self = serde_json::from_slice(line)
            .map_err(|error| ChatError::BrokeOff(format!("a line of it cannot be read: {error}")))?;
        match line.error {
            Some(reason) => Err(ChatError::BrokeOff(reason)),
            None => Ok(line),
        }
    }

    pub(super) fn text(&self) -> &str {
        self.message.as_ref().map_or("", |message| &message.content)
    }

    pub(super) fn tokens(&self) -> u64 {
        self.prompt_eval_count + self.eval_count
    }
}
