//! Searching by meaning, with the model that each collection has.

use std::{
    collections::BTreeSet,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    time::{Duration, Instant},
};

use hindcast_core::knowledge::{
    ChunkSet, Collection, CollectionKey, EmbedError, Embedder, Generation, IndexError, ScoredChunk,
    VectorWrite,
};

use super::{KnowledgeService, blocking};
use crate::Failure;

/// A model, and the index of its vectors.
pub(super) struct Meaning {
    pub(super) embedder: Arc<dyn Embedder>,
    pub(super) vectors: Arc<dyn VectorWrite>,
    /// What this process has brought into the index or found there, also beyond the last commit.
    seen: Mutex<Option<Generation>>,
    is_dirty: AtomicBool,
    /// Of an index on a server: one brings it to the truth, the others wait.
    pub(super) turn: tokio::sync::Mutex<()>,
    shared: Mutex<SharedState>,
}

/// What is known of an index on a server that others write to.
#[derive(Default)]
struct SharedState {
    standing: Standing,
    /// What it had, and since when that has been less than the truth.
    behind: Option<(Generation, Instant)>,
    /// The collections that it may have something of.
    collections: Option<BTreeSet<CollectionKey>>,
}

/// How an index on a server does.
#[derive(Debug, Clone, PartialEq, Default)]
pub(super) enum Standing {
    /// As far as is known, well.
    #[default]
    Good,
    /// It has lost its vectors, or never had them: they are filled in.
    Filling {
        /// Vectors that are there.
        done: u64,
        /// All that there should be.
        total: u64,
    },
    /// It did not do what was asked of it last.
    Away(IndexError),
}

impl Meaning {
    pub(super) fn new(embedder: Arc<dyn Embedder>, vectors: Arc<dyn VectorWrite>) -> Self {
        Self {
            embedder,
            vectors,
            seen: Mutex::default(),
            is_dirty: AtomicBool::new(false),
            turn: tokio::sync::Mutex::default(),
            shared: Mutex::default(),
        }
    }

    /// Whether the index is on a server that other processes write to as well.
    pub(super) fn is_shared(&self) -> bool {
        self.vectors.server().is_some()
    }

    pub(super) fn seen(&self) -> Option<Generation> {
        *self.seen.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Notes what is in the index now; it is to be committed.
    pub(super) fn note_seen(&self, now: Generation) {
        self.note_committed(now);
        self.is_dirty.store(true, Ordering::SeqCst);
    }

    /// Notes what is in the index and committed.
    pub(super) fn note_committed(&self, now: Generation) {
        *self.seen.lock().unwrap_or_else(PoisonError::into_inner) = Some(now);
    }

    /// What is to be committed; nothing where all is.
    pub(super) fn take_dirty(&self) -> Option<Generation> {
        self.seen().filter(|_| self.is_dirty.swap(false, Ordering::SeqCst))
    }

    pub(super) fn standing(&self) -> Standing {
        self.shared().standing.clone()
    }

    pub(super) fn note_standing(&self, standing: Standing) {
        self.shared().standing = standing;
    }

    /// Why the server did not do what was asked of it last.
    pub(super) fn away(&self) -> Option<IndexError> {
        match self.standing() {
            Standing::Away(error) => Some(error),
            Standing::Good | Standing::Filling { .. } => None,
        }
    }

    /// What somebody who searches should know while the server does not have all vectors.
    pub(super) fn notice_of_filling(&self) -> Option<String> {
        let server = self.vectors.server()?;
        match self.standing() {
            Standing::Filling { done, total } => Some(format!(
                "not everything can be found by meaning yet: {server} has {done} of {total} vectors, the others are being filled in"
            )),
            Standing::Good | Standing::Away(_) => None,
        }
    }

    /// Notes that more of the vectors are there.
    pub(super) fn note_filled(&self, more: u64) {
        if let Standing::Filling { done, .. } = &mut self.shared().standing {
            *done += more;
        }
    }

    /// How long the server has been at this generation, behind the truth.
    pub(super) fn unmoved_for(&self, kept: Generation) -> Duration {
        let mut shared = self.shared();
        match shared.behind {
            Some((at, since)) if at == kept => since.elapsed(),
            _ => {
                shared.behind = Some((kept, Instant::now()));
                Duration::ZERO
            }
        }
    }

    pub(super) fn note_caught_up(&self) {
        let mut shared = self.shared();
        (shared.standing, shared.behind) = (Standing::Good, None);
    }

    /// Notes that the server answers, and has all but the newest.
    pub(super) fn note_answer(&self) {
        self.shared().standing = Standing::Good;
    }

    /// The collections that the index may have something of, as far as this process knows.
    pub(super) fn known_collections(&self) -> Option<BTreeSet<CollectionKey>> {
        self.shared().collections.clone()
    }

    pub(super) fn note_collections(&self, collections: BTreeSet<CollectionKey>) {
        self.shared().collections = Some(collections);
    }

    fn shared(&self) -> std::sync::MutexGuard<'_, SharedState> {
        self.shared.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The chunks nearest to a question, on the scale that all models share: 0 is what unrelated texts have.
    pub(super) fn nearest(
        &self,
        question: &str,
        within: &[CollectionKey],
        only: Option<&ChunkSet>,
        limit: usize,
    ) -> Result<Result<Vec<ScoredChunk>, IndexError>, EmbedError> {
        let vector = self.embedder.embed_question(question)?;
        let unrelated = self.embedder.unrelated()?;
        let scaled =
            |hit: ScoredChunk| ScoredChunk { score: (hit.score - unrelated) / (1.0 - unrelated), ..hit };
        let found = self.vectors.nearest(&vector, Some(within), only, limit);
        Ok(found.map(|found| found.into_iter().map(scaled).collect()))
    }
}

/// What is said where the server that keeps the vectors does not find anything.
pub(super) fn words_only(error: &IndexError) -> String {
    format!("found by words only, not by meaning: {error}")
}

/// Whether an error means that a server is away or has lost its vectors, so that searches go on without it.
pub(super) fn is_away(error: &IndexError) -> bool {
    matches!(
        error,
        IndexError::Unreachable { .. }
            | IndexError::Refused { .. }
            | IndexError::Lost { .. }
            | IndexError::Mismatch { .. }
    )
}

impl KnowledgeService {
    /// The model that a collection should have.
    pub(super) fn wanted_model<'a>(&'a self, collection: &'a Collection) -> &'a str {
        collection.settings.model.as_deref().unwrap_or_else(|| self.embedder.model())
    }

    /// The model by whose vectors a collection is found now.
    pub(super) fn serving_model<'a>(&'a self, collection: &'a Collection) -> &'a str {
        collection.vectors_by.as_deref().unwrap_or_else(|| self.wanted_model(collection))
    }

    /// The model of that name, or why it cannot be used.
    pub(super) async fn meaning(&self, model: &str) -> Result<Result<Arc<Meaning>, EmbedError>, Failure> {
        if let Some(meaning) = self.indexing.opened_meaning(model) {
            return Ok(Ok(meaning));
        }
        let (indexing, model) = (self.indexing.clone(), model.to_owned());
        blocking(move || indexing.open_meaning(&model)).await
    }
}
