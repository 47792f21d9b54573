//! The seam to whatever serves language models.

use async_trait::async_trait;

/// A model that can be used.
#[derive(Debug, Clone, PartialEq)]
pub struct InstalledModel {
    /// Its name.
    pub name: String,
    /// Its size in bytes.
    pub size: u64,
    /// Whether it makes vectors rather than text.
    pub embeds: bool,
    /// Whether it can call tools.
    pub calls_tools: bool,
    /// How many numbers its vectors have, where it makes vectors.
    pub dimension: Option<u64>,
}

/// Who said something.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum Speaker {
    System,
    User,
    Assistant,
}

/// Something that was said.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Message {
    /// Who said it.
    pub speaker: Speaker,
    /// What was said.
    pub text: String,
}

/// What messages take, with what stands around each.
pub fn bytes_of(messages: &[Message]) -> usize {
    messages.iter().map(|message| message.text.len() + 16).sum()
}

/// A whole answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reply {
    /// What was said.
    pub text: String,
    /// Tokens in and out, as the server counts them.
    pub tokens: u64,
}

/// Why there is no answer.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ChatError {
    /// Nobody listens there.
    #[error("no model server answers at {address}: {reason}")]
    Unreachable {
        /// Where it was looked for.
        address: String,
        /// What happened instead.
        reason: String,
    },
    /// It did not answer in time.
    #[error("the model server at {address} did not answer within {seconds} s")]
    TimedOut {
        /// Where it was asked.
        address: String,
        /// How long was waited.
        seconds: u64,
    },
    /// It refused.
    #[error("the model server refused: {0}")]
    Refused(String),
    /// It began to answer and did not end.
    #[error("the answer broke off: {0}")]
    BrokeOff(String),
    /// The caller does not want the answer any more.
    #[error("the question was withdrawn")]
    Cancelled,
}

/// Takes an answer as it comes. Gives back whether more is wanted.
pub type OnText<'a> = &'a mut (dyn FnMut(&str) -> bool + Send);

/// Talks to language models, streaming.
#[async_trait]
pub trait ChatModel: Send + Sync {
    /// Where it is looked for, for people.
    fn address(&self) -> &str;

    /// What people call it.
    fn server(&self) -> &'static str {
        "The model server"
    }

    /// Whether it is an Ollama, which people can give other models.
    fn is_ollama(&self) -> bool {
        false
    }

    /// How many bytes of messages it reads at once, as [`bytes_of`] counts them; none where only the server knows.
    fn most_bytes(&self) -> Option<usize> {
        None
    }

    /// What is installed.
    async fn models(&self) -> Result<Vec<InstalledModel>, ChatError>;

    /// Asks a model; `on_text` gets the answer piece by piece. `room` is how many bytes the messages of this request and those that
    /// go with it take at most: a server that loads a model for a size loads it once for all of them.
    async fn chat(
        &self,
        model: &str,
        messages: &[Message],
        room: usize,
        on_text: OnText<'_>,
    ) -> Result<Reply, ChatError>;
}
