//! A model in a folder, which is in memory only while it is needed.

use std::{
    path::{Path, PathBuf},
    sync::{Arc, Mutex, MutexGuard, PoisonError, Weak},
    time::{Duration, Instant},
};

use hindcast_core::knowledge::EmbedError;
use rayon::prelude::*;

use super::{
    CHECKPOINT, MINI_LM, VOCABULARY,
    description::Description,
    network::Network,
    tokens::{Text, Tokens},
};

/// Tokens that go through the network together: enough that reading the weights costs little, and few enough that a short
/// question does not wait long behind them.
const BATCH_TOKENS: usize = 512;

/// A model in a folder. It is read from disk when it is needed first and given back when it was idle for a while.
pub(super) struct LocalModel {
    pub(super) name: String,
    pub(super) folder: PathBuf,
    pub(super) description: Description,
    idle_limit: Option<Duration>,
    seat: Arc<Mutex<Seat>>,
}

/// Where the loaded model sits.
#[derive(Default)]
struct Seat {
    loaded: Option<Arc<Loaded>>,
    last_used: Option<Instant>,
}

/// A model in memory.
pub(super) struct Loaded {
    network: Network,
    pub(super) tokens: Tokens,
}

/// Whether a folder of a model can be called so, and is below the one of all models.
pub(super) fn is_local_name(name: &str) -> bool {
    !name.is_empty() && !name.starts_with('.') && !name.contains(['/', '\\', '\0'])
}

impl LocalModel {
    /// The model of that name below `models`. With a limit it leaves memory after being idle for so long.
    pub(super) fn open(models: &Path, name: &str, idle_limit: Option<Duration>) -> Result<Self, EmbedError> {
        if !is_local_name(name) {
            return Err(EmbedError::NotInstalled(name.into()));
        }
        let folder = models.join(name);
        let description = if name == MINI_LM && !folder.join("config.json").is_file() {
            Description::of_mini_lm()
        } else if folder.is_dir() {
            Description::read(&folder).map_err(|reason| EmbedError::Damaged { model: name.into(), reason })?
        } else {
            return Err(EmbedError::NotInstalled(name.into()));
        };
        Ok(Self { name: name.into(), folder, description, idle_limit, seat: Arc::default() })
    }

    /// Whether the model's files are there.
    pub(super) fn is_installed(&self) -> bool {
        [CHECKPOINT, VOCABULARY].iter().all(|file| self.folder.join(file).is_file())
    }

    /// What its files take; none when they are not there.
    pub(super) fn installed_bytes(&self) -> Option<u64> {
        let sizes = [CHECKPOINT, VOCABULARY].map(|file| std::fs::metadata(self.folder.join(file)).ok());
        sizes.into_iter().map(|size| size.map(|size| size.len())).sum()
    }

    /// Whether it is in memory now.
    pub(super) fn is_loaded(&self) -> bool {
        lock(&self.seat).loaded.is_some()
    }

    /// Does something with the model, which is loaded if it is not in memory.
    pub(super) fn with<T>(&self, work: impl FnOnce(&Loaded) -> Result<T, String>) -> Result<T, EmbedError> {
        let loaded = self.loaded()?;
        let done = work(&loaded).map_err(EmbedError::Failed);
        lock(&self.seat).last_used = Some(Instant::now());
        done
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
            return Err(EmbedError::NotInstalled(self.name.clone()));
        }
        let damaged = |file: &str, reason: String| EmbedError::Damaged {
            model: self.name.clone(),
            reason: format!("{file}: {reason}"),
        };
        let read = |file: &str| {
            std::fs::read(self.folder.join(file)).map_err(|error| damaged(file, error.to_string()))
        };
        let network = Network::from_checkpoint(&read(CHECKPOINT)?, self.description.clone())
            .map_err(|reason| damaged(CHECKPOINT, reason))?;
        let tokens = Tokens::from_json(&read(VOCABULARY)?, self.description.window)
            .map_err(|reason| damaged(VOCABULARY, reason))?;
        Ok(Loaded { network, tokens })
    }
}

impl Loaded {
    /// A vector for each text, which begins as the model wants it to.
    pub(super) fn vectors(&self, prefix: &str, texts: &[&str]) -> Result<Vec<Vec<f32>>, String> {
        let cut = |text: &&str| match prefix {
            "" => self.tokens.of(text),
            prefix => self.tokens.of(&format!("{prefix}{text}")),
        };
        let texts = texts.par_iter().map(cut).collect::<Result<Vec<_>, _>>()?;
        self.in_batches(&texts, |batch| self.network.vectors(batch))
    }

    /// A judgement of each passage.
    pub(super) fn judgements(&self, question: &str, passages: &[&str]) -> Result<Vec<f32>, String> {
        let cut = |passage: &&str| self.tokens.of_pair(question, passage);
        let texts = passages.par_iter().map(cut).collect::<Result<Vec<_>, _>>()?;
        let none = "it only makes vectors and does not compare a question with passages";
        self.in_batches(&texts, |batch| self.network.judgements(batch)?.ok_or_else(|| none.into()))
    }

    fn in_batches<T: Send>(
        &self,
        texts: &[Text],
        run: impl Fn(&[&Text]) -> Result<Vec<T>, String> + Sync,
    ) -> Result<Vec<T>, String> {
        let run = |batch: &&[Text]| run(&batch.iter().collect::<Vec<_>>());
        let done = batches(texts).par_iter().map(run).collect::<Result<Vec<_>, _>>()?;
        Ok(done.into_iter().flatten().collect())
    }
}

/// Neighbours, as many as stay within the batch's tokens, at least one.
pub(super) fn batches(texts: &[Text]) -> Vec<&[Text]> {
    let mut batches = Vec::new();
    let mut rest = texts;
    while !rest.is_empty() {
        let mut tokens = 0;
        let fitting = rest.iter().take_while(|text| {
            tokens += text.tokens.len();
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
                drop(seat);
                return give_memory_back();
            }
            wait = limit - idle;
        }
    };
    // Without the thread the model stays in memory, which is no reason to fail.
    if let Err(error) = std::thread::Builder::new().name("model-idle".into()).spawn(watch) {
        tracing::warn!("the model stays loaded: {error}");
    }
}

/// The allocator gives what was freed back to the system a second later, and only when more is freed then. In a server at rest nothing
/// is: without this it keeps the room of the model until the next call.
fn give_memory_back() {
    const LATER: Duration = Duration::from_millis(1500);
    const MORE: usize = 1 << 20;
    std::thread::sleep(LATER);
    drop(std::hint::black_box(Vec::<u8>::with_capacity(MORE)));
}

/// A panic while loading leaves an empty seat, which is a good state.
fn lock(seat: &Mutex<Seat>) -> MutexGuard<'_, Seat> {
    seat.lock().unwrap_or_else(PoisonError::into_inner)
}
