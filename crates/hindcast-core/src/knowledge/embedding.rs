//! The seam to whatever turns text into vectors.

use std::sync::Arc;

use super::{IndexError, VectorWrite};
use crate::progress::Progress;

/// Why a text has no vector.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum EmbedError {
    /// The model is not on this machine; search goes on by words alone.
    #[error("the embedding model `{0}` is not installed · hint: run `hindcast models pull`")]
    NotInstalled(String),
    /// The model is not on this machine and could not be brought here.
    #[error("the embedding model could not be installed: {0}")]
    Unobtainable(String),
    /// The model's files are there but are not what they should be.
    #[error("the embedding model `{model}` is damaged: {reason} · hint: run `hindcast models pull`")]
    Damaged {
        /// Which model.
        model: String,
        /// What is wrong with it.
        reason: String,
    },
    /// The model ran and failed.
    #[error("the embedding model failed: {0}")]
    Failed(String),
}

/// Turns texts into vectors of length one. Blocks for as long as it computes: call it where waiting is allowed.
pub trait Embedder: Send + Sync {
    /// The model's name. Vectors of different models do not compare, so it is kept beside them.
    fn model(&self) -> &str;

    /// How many numbers a vector has.
    fn dimension(&self) -> usize;

    /// Brings the model onto this machine if it is not there and may be fetched. Blocks for as long as that takes.
    fn install(&self, _progress: &dyn Progress) -> Result<(), EmbedError> {
        Ok(())
    }

    /// One vector for each text, in order. Texts beyond the model's window are cut, not refused.
    fn embed(&self, texts: &[&str]) -> Result<Vec<Vec<f32>>, EmbedError>;

    /// The vector of a question, which some models read otherwise than a passage.
    fn embed_question(&self, question: &str) -> Result<Vec<f32>, EmbedError> {
        let made = self.embed(&[question])?.into_iter().next();
        made.ok_or_else(|| EmbedError::Failed("it made no vector".into()))
    }

    /// The cosine of texts that have nothing to do with each other: models differ in where their scale begins.
    fn unrelated(&self) -> Result<f32, EmbedError> {
        Ok(0.0)
    }

    /// Whether it knows more than English.
    fn is_multilingual(&self) -> bool {
        false
    }
}

/// Says how well passages answer a question, having read both. Blocks for as long as it computes.
pub trait Reranker: Send + Sync {
    /// The model's name.
    fn model(&self) -> &str;

    /// For each passage how well it answers, as the model says it: the log-odds that it does.
    fn judge(&self, question: &str, passages: &[&str]) -> Result<Vec<f32>, EmbedError>;

    /// Whether it reads more than English.
    fn is_multilingual(&self) -> bool {
        false
    }
}

/// The models that a collection may choose besides the usual one. Blocks: opening one may read files or ask a server.
pub trait Models: Send + Sync {
    /// The embedder of that name, the same one each time.
    fn embedder(&self, name: &str) -> Result<Arc<dyn Embedder>, EmbedError>;

    /// Opens the index of an embedder's vectors.
    fn vectors(&self, embedder: &dyn Embedder) -> Result<Arc<dyn VectorWrite>, IndexError>;

    /// What reranks, where it is installed.
    fn reranker(&self) -> Option<Arc<dyn Reranker>>;
}
