//! How the knowledge base is used: queries, conversations, models.

use jiff::Timestamp;

use super::{CollectionKey, Ownership};
use crate::identity::PrincipalId;

/// A search or question that was answered.
#[derive(Debug, Clone)]
pub struct QueryRecord {
    /// The collections it touched.
    pub collections: Vec<CollectionKey>,
    /// Whether it was asked of them by name, and not of everything: only then does it tell what they are asked about.
    pub is_asked: bool,
    /// What was asked.
    pub text: String,
    /// How long it took, in microseconds.
    pub latency_us: u64,
    /// The best hit's relevance; none when nothing was found.
    pub best_score: Option<f32>,
    /// When.
    pub at: Timestamp,
}

/// The queries that touched one collection.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct QueryFigures {
    /// Since the time that was asked for.
    pub recent: u64,
    /// Ever.
    pub total: u64,
    /// The mean of the best hits' relevances; none without any hit.
    pub mean_best_score: Option<f64>,
    /// What was asked of it by name and how often, most frequent first.
    pub texts: Vec<(String, u64)>,
}

/// A question to a model, with its answer if it came.
#[derive(Debug, Clone)]
pub struct AnswerRecord {
    /// The conversation it belongs to.
    pub conversation: String,
    /// Whose conversation that is.
    pub owner: PrincipalId,
    /// Which model was asked.
    pub model: String,
    /// What was asked.
    pub question: String,
    /// What it said; none when it failed.
    pub answer: Option<String>,
    /// How long it took, in milliseconds.
    pub duration_ms: u64,
    /// Tokens in and out, as the model's server counts them.
    pub tokens: u64,
    /// When.
    pub at: Timestamp,
}

/// One turn of a conversation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Turn {
    /// What was asked.
    pub question: String,
    /// What was answered.
    pub answer: String,
}

/// How a model did.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct ModelFigures {
    /// Its name.
    pub model: String,
    /// Conversations it took part in.
    pub conversations: u64,
    /// Questions it was asked.
    pub asked: u64,
    /// Questions it answered.
    pub answered: u64,
    /// The mean time of an answer, in milliseconds.
    pub mean_duration_ms: Option<f64>,
    /// Tokens in and out.
    pub tokens: u64,
    /// When it was last asked.
    pub last_used: Option<Timestamp>,
}

/// How answering went lately.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct AnswerFigures {
    /// Questions since the time that was asked for.
    pub asked: u64,
    /// Of them answered.
    pub answered: u64,
    /// The mean time of an answer, in milliseconds.
    pub mean_duration_ms: Option<f64>,
    /// Failures since the other time that was asked for.
    pub recent_errors: u64,
    /// Conversations ever.
    pub conversations: u64,
}

/// What was used since somebody last looked.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Used {
    /// Where to go on next time.
    pub position: u64,
    /// The collections that were searched or read, by id.
    pub collections: Vec<(Ownership, String)>,
    /// Who asked a model.
    pub askers: Vec<PrincipalId>,
}
