//! Embeddings in process: all-MiniLM-L6-v2, from its published checkpoint.

mod network;
mod pull;
mod tokens;

use std::{
    path::{Path, PathBuf},
    sync::{Arc, Mutex, MutexGuard, PoisonError, Weak},
    time::{Duration, Instant},
};

use hindcast_core::{
    knowledge::{EmbedError, Embedder},
    progress::Progress,
};
use rayon::prelude::*;

pub use pull::{ModelSource, PullError, pull_model};

use network::{DIMENSION, Network};
use tokens::Tokens;

/// The model's name, which is also its folder's.
pub const MINI_LM: &str = "all-MiniLM-L6-v2";
/// The two files that make it.
pub(crate) const CHECKPOINT: &str = "model.safetensors";
pub(crate) const VOCABULARY: &str = "tokenizer.json";

/// Tokens that go through the network together: enough that reading the weights costs little, and few enough that a short
/// question does not wait long behind them.
const BATCH_TOKENS: usize = 512;

/// all-MiniLM-L6-v2. It is read from disk when it is needed first and given back when it was idle for a while.
pub struct MiniLm {
    folder: PathBuf,
    idle_limit: Option<Duration>,
    /// Where it is fetched from when it is needed and not there.
    sources: Vec<ModelSource>,
    fetching: Mutex<()>,
    seat: Arc<Mutex<Seat>>,
}

/// Where the loaded model sits.
#[derive(Default)]
struct Seat {
    loaded: Option<Arc<Loaded>>,
    last_used: Option<Instant>,
}

struct Loaded {
    network: Network,
    tokens: Tokens,
}

impl MiniLm {
    /// The model in the folder `models`, where it need not be yet. With a limit it leaves memory after being idle for so
    /// long.
    pub fn in_folder(models: &Path, idle_limit: Option<Duration>) -> Self {
        Self {
            folder: models.join(MINI_LM),
            idle_limit,
            sources: Vec::new(),
            fetching: Mutex::new(()),
            seat: Arc::default(),
        }
    }

    /// The same, fetched from the first of these that has it when it is needed and not there.
    #[must_use]
    pub fn fetched_from(mut self, sources: Vec<ModelSource>) -> Self {
        self.sources = sources;
        self
    }

    /// Whether the model's files are there.
    pub fn is_installed(&self) -> bool {
        [CHECKPOINT, VOCABULARY].iter().all(|file| self.folder.join(file).is_file())
    }

    /// What its files take; none when they are not there.
    pub fn installed_bytes(&self) -> Option<u64> {
        let sizes = [CHECKPOINT, VOCABULARY].map(|file| std::fs::metadata(self.folder.join(file)).ok());
        sizes.into_iter().map(|size| size.map(|size| size.len())).sum()
    }

    /// Whether it is in memory now.
    pub fn is_loaded(&self) -> bool {
        lock(&self.seat).loaded.is_some()
    }

    fn loaded(&self) -> Result<Arc<Loaded>, EmbedError> {
        let mut seat = lock(&self.seat);
        seat.last_used = Some(Instant::now());
        if let Some(loaded) = &seat.loaded {
            return Ok(loaded.clone());
        }
        // The lock is kept meanwhile: whoever comes second needs the same model.
        let loaded = Arc::new(self.load()?);
        seat.loaded = Some(loaded.clone());
        if let Some(limit) = self.idle_limit {
            give_back_when_idle(Arc::downgrade(&self.seat), limit);
        }
        Ok(loaded)
    }

    fn load(&self) -> Result<Loaded, EmbedError> {
        if !self.is_installed() {
            return Err(EmbedError::NotInstalled(MINI_LM.into()));
        }
        let damaged = |file: &str, reason: String| EmbedError::Damaged {
            model: MINI_LM.into(),
            reason: format!("{file}: {reason}"),
        };
        let read = |file: &str| {
            std::fs::read(self.folder.join(file)).map_err(|error| damaged(file, error.to_string()))
        };
        let network =
            Network::from_checkpoint(&read(CHECKPOINT)?).map_err(|reason| damaged(CHECKPOINT, reason))?;
        let tokens = Tokens::from_json(&read(VOCABULARY)?).map_err(|reason| damaged(VOCABULARY, reason))?;
        Ok(Loaded { network, tokens })
    }
}

impl Embedder for MiniLm {
    fn model(&self) -> &str {
        MINI_LM
    }

    fn dimension(&self) -> usize {
        DIMENSION
    }

    fn install(&self, progress: &dyn Progress) -> Result<(), EmbedError> {
        // Whoever comes second waits, and finds it there.
        let _fetching = self.fetching.lock().unwrap_or_else(PoisonError::into_inner);
        if self.is_installed() {
            return Ok(());
        }
        if self.sources.is_empty() {
            return Err(EmbedError::NotInstalled(MINI_LM.into()));
        }
        let models = self.folder.parent().unwrap_or(&self.folder);
        let origin = pull_model(models, &self.sources, progress)
            .map_err(|error| EmbedError::Unobtainable(error.to_string()))?;
        tracing::info!("the embedding model {MINI_LM} was installed from {origin}");
        Ok(())
    }

    fn embed(&self, texts: &[&str]) -> Result<Vec<Vec<f32>>, EmbedError> {
        if texts.is_empty() {
            return Ok(Vec::new());
        }
        let loaded = self.loaded()?;
        let vectors = loaded.embed(texts).map_err(EmbedError::Failed);
        lock(&self.seat).last_used = Some(Instant::now());
        vectors
    }
}

impl Loaded {
    fn embed(&self, texts: &[&str]) -> Result<Vec<Vec<f32>>, String> {
        let tokens: Vec<Vec<u32>> = texts.par_iter().map(|text| self.tokens.of(text)).collect();
        let batches: Vec<&[Vec<u32>]> = batches(&tokens);
        let run =
            |batch: &&[Vec<u32>]| self.network.run(&batch.iter().map(Vec::as_slice).collect::<Vec<_>>());
        let vectors = batches.par_iter().map(run).collect::<Result<Vec<_>, _>>()?;
        Ok(vectors.into_iter().flatten().collect())
    }
}

/// Neighbours, as many as stay within the batch's tokens, at least one.
fn batches(texts: &[Vec<u32>]) -> Vec<&[Vec<u32>]> {
    let mut batches = Vec::new();
    let mut rest = texts;
    while !rest.is_empty() {
        let mut tokens = 0;
        let fitting = rest.iter().take_while(|text| {
            tokens += text.len();
            tokens <= BATCH_TOKENS
        });
        let (batch, others) = rest.split_at(fitting.count().max(1));
        batches.push(batch);
        rest = others;
    }
    batches
}

/// Watches one loading of the model, for as long as its owner lives.
fn give_back_when_idle(seat: Weak<Mutex<Seat>>, limit: Duration) {
    let watch = move || {
        let mut wait = limit;
        loop {
            std::thread::sleep(wait);
            let Some(seat) = seat.upgrade() else { return };
            let mut seat = lock(&seat);
            let idle = seat.last_used.map_or(limit, |used| used.elapsed());
            if idle >= limit {
                seat.loaded = None;
                return;
            }
            wait = limit - idle;
        }
    };
    // Without the thread the model stays in memory, which is no reason to fail.
    if let Err(error) = std::thread::Builder::new().name("model-idle".into()).spawn(watch) {
        tracing::warn!("the embedding model stays loaded: {error}");
    }
}

/// A panic while loading leaves an empty seat, which is a good state.
fn lock(seat: &Mutex<Seat>) -> MutexGuard<'_, Seat> {
    seat.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests;
