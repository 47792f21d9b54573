//! Cross-encoders: they read a question and a passage together and say how well they belong together.

use std::{path::Path, time::Duration};

use hindcast_core::knowledge::{EmbedError, Reranker};

use super::local::LocalModel;

/// A cross-encoder in a folder, by the same loader as sentence encoders.
pub struct CrossEncoder {
    model: LocalModel,
}

impl CrossEncoder {
    /// The model of that name in the folder `models`; none where it is not installed.
    pub fn open(models: &Path, name: &str, idle_limit: Option<Duration>) -> Result<Option<Self>, EmbedError> {
        match LocalModel::open(models, name, idle_limit) {
            Ok(model) if model.is_installed() => Ok(Some(Self { model })),
            Ok(_) | Err(EmbedError::NotInstalled(_)) => Ok(None),
            Err(error) => Err(error),
        }
    }
}

impl Reranker for CrossEncoder {
    fn model(&self) -> &str {
        &self.model.name
    }

    fn judge(&self, question: &str, passages: &[&str]) -> Result<Vec<f32>, EmbedError> {
        if passages.is_empty() {
            return Ok(Vec::new());
        }
        let judged = self.model.with(|loaded| loaded.judgements(question, passages))?;
        if judged.len() != passages.len() {
            return Err(EmbedError::Failed(format!(
                "`{}` has more than one judgement for a passage, so it is no reranker",
                self.model.name
            )));
        }
        Ok(judged)
    }

    fn is_multilingual(&self) -> bool {
        self.model.is_installed()
            && self.model.with(|loaded| Ok(loaded.tokens.is_multilingual())).unwrap_or(false)
    }
}
