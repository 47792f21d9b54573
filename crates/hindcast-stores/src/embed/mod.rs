//! Sentence encoders and cross-encoders in process, from their published checkpoints.

mod attention;
mod background;
mod build;
mod checkpoint;
mod cross;
mod description;
mod families;
mod local;
mod network;
mod pull;
mod scale;
mod shelf;
mod tokens;

use std::{
    path::Path,
    sync::{Mutex, OnceLock, PoisonError},
    time::Duration,
};

use hindcast_core::{
    knowledge::{EmbedError, Embedder},
    progress::Progress,
};

pub use cross::CrossEncoder;
pub use pull::{ModelSource, OFFERED, OfferedModel, PullError, Pulled, pull_model, pull_named};
pub use shelf::ModelShelf;

pub(crate) use families::prefixes_of;
pub(crate) use scale::{UNRELATED, mean_cosine};
pub(crate) use shelf::is_model_name;

use background::in_background;
use local::LocalModel;

/// The name of the model that is used unless a collection has another; also its folder's.
pub const MINI_LM: &str = "all-MiniLM-L6-v2";
/// The two files that every model has.
pub(crate) const CHECKPOINT: &str = "model.safetensors";
pub(crate) const VOCABULARY: &str = "tokenizer.json";

/// A sentence encoder of the families BERT, RoBERTa and ModernBERT, in a folder.
pub struct SentenceEncoder {
    model: LocalModel,
    /// Where it is fetched from when it is needed and not there.
    sources: Vec<ModelSource>,
    fetching: Mutex<()>,
    unrelated: OnceLock<f32>,
}

impl SentenceEncoder {
    /// all-MiniLM-L6-v2 in the folder `models`, where it need not be yet. With a limit it leaves memory after being idle for so
    /// long.
    pub fn mini_lm(models: &Path, idle_limit: Option<Duration>) -> Result<Self, EmbedError> {
        Self::open(models, MINI_LM, idle_limit)
    }

    /// The model of that name in the folder `models`.
    pub fn open(models: &Path, name: &str, idle_limit: Option<Duration>) -> Result<Self, EmbedError> {
        Ok(Self {
            model: LocalModel::open(models, name, idle_limit)?,
            sources: Vec::new(),
            fetching: Mutex::new(()),
            unrelated: OnceLock::new(),
        })
    }

    /// The same, fetched from the first of these that has it when it is needed and not there.
    #[must_use]
    pub fn fetched_from(mut self, sources: Vec<ModelSource>) -> Self {
        self.sources = sources;
        self
    }

    /// Whether the model's files are there.
    pub fn is_installed(&self) -> bool {
        self.model.is_installed()
    }

    /// What its files take; none when they are not there.
    pub fn installed_bytes(&self) -> Option<u64> {
        self.model.installed_bytes()
    }

    /// Whether it is in memory now.
    pub fn is_loaded(&self) -> bool {
        self.model.is_loaded()
    }
}

impl Embedder for SentenceEncoder {
    fn model(&self) -> &str {
        &self.model.name
    }

    fn dimension(&self) -> usize {
        self.model.description.width
    }

    fn install(&self, progress: &dyn Progress) -> Result<(), EmbedError> {
        // Whoever comes second waits, and finds it there.
        let _fetching = self.fetching.lock().unwrap_or_else(PoisonError::into_inner);
        if self.is_installed() {
            return Ok(());
        }
        let name = &self.model.name;
        if self.sources.is_empty() {
            return Err(EmbedError::NotInstalled(name.clone()));
        }
        let models = self.model.folder.parent().unwrap_or(&self.model.folder);
        let origin = pull_model(models, &self.sources, progress)
            .map_err(|error| EmbedError::Unobtainable(error.to_string()))?;
        tracing::info!("the embedding model {name} was installed from {origin}");
        Ok(())
    }

    fn embed(&self, texts: &[&str]) -> Result<Vec<Vec<f32>>, EmbedError> {
        if texts.is_empty() {
            return Ok(Vec::new());
        }
        let prefix = &self.model.description.passage_prefix;
        self.model.with(|loaded| in_background(|| loaded.vectors(prefix, texts)))
    }

    fn embed_question(&self, question: &str) -> Result<Vec<f32>, EmbedError> {
        let prefix = &self.model.description.question_prefix;
        let made = self.model.with(|loaded| loaded.vectors(prefix, &[question]))?;
        made.into_iter().next().ok_or_else(|| EmbedError::Failed("it made no vector".into()))
    }

    fn unrelated(&self) -> Result<f32, EmbedError> {
        // The scale of relevances was found with this one.
        if self.model.name == MINI_LM {
            return Ok(0.0);
        }
        if let Some(unrelated) = self.unrelated.get() {
            return Ok(*unrelated);
        }
        let measured = mean_cosine(&self.embed(&UNRELATED)?);
        Ok(*self.unrelated.get_or_init(|| measured))
    }

    fn is_multilingual(&self) -> bool {
        self.model.name != MINI_LM
            && self.model.with(|loaded| Ok(loaded.tokens.is_multilingual())).unwrap_or(false)
    }
}

#[cfg(test)]
mod tests;
