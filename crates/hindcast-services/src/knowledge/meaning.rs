//! Searching by meaning, with the model that each collection has.

use std::sync::{
    Arc, Mutex, PoisonError,
    atomic::{AtomicBool, Ordering},
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
    /// What the index has seen, also beyond its last commit.
    seen: Mutex<Option<Generation>>,
    is_dirty: AtomicBool,
}

impl Meaning {
    pub(super) fn new(embedder: Arc<dyn Embedder>, vectors: Arc<dyn VectorWrite>) -> Self {
        let seen = Mutex::new(vectors.generation());
        Self { embedder, vectors, seen, is_dirty: AtomicBool::new(false) }
    }

    pub(super) fn seen(&self) -> Option<Generation> {
        *self.seen.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn note_seen(&self, now: Generation) {
        *self.seen.lock().unwrap_or_else(PoisonError::into_inner) = Some(now);
        self.is_dirty.store(true, Ordering::SeqCst);
    }

    /// What is to be committed; nothing where all is.
    pub(super) fn take_dirty(&self) -> Option<Generation> {
        self.seen().filter(|_| self.is_dirty.swap(false, Ordering::SeqCst))
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
