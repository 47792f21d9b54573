//! What goes over the wire to Ollama and back.

use std::collections::HashMap;

use hindcast_core::knowledge::{ChatError, Message, Speaker, bytes_of};
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
    options: ChatOptions,
}

#[derive(Serialize)]
struct ChatOptions {
    num_ctx: usize,
}

/// Room for the answer, in tokens.
const ANSWER_TOKENS: usize = 2048;

/// Context is taken in steps: another one makes the server load the model again.
const CONTEXT_STEP: usize = 4096;

/// This is little, also for languages other than English.
const TOKEN_BYTES: usize = 3;

/// More does not fit the memory of most machines.
const MOST_CONTEXT: usize = 32 * 1024;

/// The context that messages of so many bytes need. Without it a server takes its own, which is small, and forgets what was said
/// first without saying so.
fn context_for(bytes: usize) -> usize {
    (bytes / TOKEN_BYTES + ANSWER_TOKENS).next_multiple_of(CONTEXT_STEP).min(MOST_CONTEXT)
}

/// What fits the largest context beside the answer.
pub(super) const MOST_BYTES: usize = (MOST_CONTEXT - ANSWER_TOKENS) * TOKEN_BYTES;

#[derive(Serialize)]
struct WireMessage<'a> {
    role: &'static str,
    content: &'a str,
}

impl<'a> ChatRequest<'a> {
    pub(super) fn new(model: &'a str, messages: &'a [Message], room: usize) -> Self {
        let message = |message: &'a Message| WireMessage {
            role: match message.speaker {
                Speaker::System => "system",
                Speaker::User => "user",
                Speaker::Assistant => "assistant",
            },
            content: &message.text,
        };
        let num_ctx = context_for(room.max(bytes_of(messages)));
        Self {
            model,
            messages: messages.iter().map(message).collect(),
            stream: true,
            options: ChatOptions { num_ctx },
        }
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_context_fits_what_is_sent() {
        let message = |length: usize| Message { speaker: Speaker::User, text: "x".repeat(length) };
        for (length, expected) in [(10, 4096), (9_000, 8192), (1_000_000, 32_768)] {
            let messages = [message(length)];
            let sent = serde_json::to_value(ChatRequest::new("m", &messages, 0)).unwrap();
            assert_eq!(sent["options"]["num_ctx"], expected, "{length}");
        }
        let short = [message(10)];
        let sent = serde_json::to_value(ChatRequest::new("m", &short, 9_000)).unwrap();
        assert_eq!(sent["options"]["num_ctx"], 8192, "as large as what comes after it");
    }
}
