//! The seam to whatever turns text into vectors.

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
}
