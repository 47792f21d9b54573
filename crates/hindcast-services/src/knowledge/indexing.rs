//! Keeping the derived indexes at the truth.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    sync::{Arc, Mutex, PoisonError, atomic::AtomicBool},
};

use hindcast_core::knowledge::{
    ChunkChanges, ChunkId, CollectionKey, EmbedError, Generation, IndexError, KnowledgeStore, LexicalEntry,
    LexicalWrite, Models, VectorEntry,
};

use super::{
    blocking,
    meaning::Meaning,
    sharing::{Trouble, Uploading},
};
use crate::{Failure, FailureKind};

/// Chunks that go into an index at once.
pub(super) const BATCH: usize = 1000;

/// Opens what finds words.
pub type OpenLexical = Box<dyn Fn() -> Result<Arc<dyn LexicalWrite>, IndexError> + Send + Sync>;

/// The two indexes, and how far they are.
pub(super) struct Indexing {
    pub(super) store: Arc<dyn KnowledgeStore>,
    open_lexical: OpenLexical,
    lexical: Mutex<Option<Arc<dyn LexicalWrite>>>,
    /// The model that collections have unless they choose another.
    usual: Arc<Meaning>,
    /// The others, by their names; opened when they are needed first.
    others: Mutex<BTreeMap<String, Arc<Meaning>>>,
    models: Option<Arc<dyn Models>>,
    /// One brings the indexes in the data folder to the truth; the others wait for it.
    pub(super) turn: tokio::sync::Mutex<()>,
    /// What all of those have seen, in memory.
    seen: Mutex<Option<Generation>>,
    /// Whether somebody in this process keeps vectors on servers at the truth.
    pub(super) keeps_shared: AtomicBool,
    /// Notified when this process has written something, for whoever keeps those.
    pub(super) written: tokio::sync::Notify,
}

impl Indexing {
    pub(super) fn new(
        store: Arc<dyn KnowledgeStore>,
        open_lexical: OpenLexical,
        usual: Meaning,
        models: Option<Arc<dyn Models>>,
    ) -> Self {
        Self {
            store,
            open_lexical,
            lexical: Mutex::default(),
            usual: Arc::new(usual),
            others: Mutex::default(),
            models,
            turn: tokio::sync::Mutex::default(),
            seen: Mutex::default(),
            keeps_shared: AtomicBool::new(false),
            written: tokio::sync::Notify::new(),
        }
    }

    /// The usual model.
    pub(super) fn usual(&self) -> &Arc<Meaning> {
        &self.usual
    }

    /// A model that is open.
    pub(super) fn opened_meaning(&self, model: &str) -> Option<Arc<Meaning>> {
        if self.usual.embedder.model() == model {
            return Some(self.usual.clone());
        }
        lock(&self.others).get(model).cloned()
    }

    /// Opens a model and the index of its vectors. Blocks.
    pub(super) fn open_meaning(&self, model: &str) -> Result<Arc<Meaning>, EmbedError> {
        let models = self.models.as_ref().ok_or_else(|| EmbedError::NotInstalled(model.into()))?;
        let embedder = models.embedder(model)?;
        let vectors = models.vectors(&*embedder).map_err(|error| EmbedError::Failed(error.to_string()))?;
        let opened = Arc::new(Meaning::new(embedder, vectors));
        let meaning = lock(&self.others).entry(model.to_owned()).or_insert(opened).clone();
        // Its index has to catch up, however far the others are.
        *lock(&self.seen) = None;
        Ok(meaning)
    }

    /// All models that are open.
    pub(super) fn meanings(&self) -> Vec<Arc<Meaning>> {
        let mut all = vec![self.usual.clone()];
        all.extend(lock(&self.others).values().cloned());
        all
    }

    /// Removes the vectors of a collection from the index of a model that it has no more.
    pub(super) async fn leave_model(&self, collection: CollectionKey, model: &str) -> Result<(), Failure> {
        let Some(meaning) = self.opened_meaning(model) else { return Ok(()) };
        let vectors = meaning.vectors.clone();
        if meaning.is_shared() {
            if let Err(error) = blocking(move || vectors.remove_collection(collection)).await? {
                tracing::warn!(%error, "vectors of a model that a collection has no more stay until the next `reindex`");
            }
            return Ok(());
        }
        let _turn = self.turn.lock().await;
        blocking(move || vectors.remove_collection(collection)).await??;
        if let Some(seen) = meaning.seen() {
            meaning.note_seen(seen);
        }
        Ok(())
    }

    /// What finds words; opened when it is needed first.
    pub(super) fn lexical(&self) -> Result<Arc<dyn LexicalWrite>, IndexError> {
        let mut lexical = lock(&self.lexical);
        match &*lexical {
            Some(lexical) => Ok(lexical.clone()),
            None => Ok(lexical.insert((self.open_lexical)()?).clone()),
        }
    }

    /// Whether all of them have been at the truth in this process, and none was opened since.
    pub(super) fn has_caught_up(&self) -> bool {
        get(&self.seen).is_some()
    }

    /// Brings the indexes to where the truth is now. Cheap when they are there. That a server which keeps vectors is away is no
    /// failure: the truth has what it lacks.
    pub(super) async fn catch_up(&self, uploading: Uploading) -> Result<(), Failure> {
        let now = self.store.generation().await?;
        // Where nothing ever was, there is nothing to index.
        if now == Generation::default() {
            return Ok(());
        }
        self.catch_up_here(now).await?;
        for meaning in self.shared_meanings() {
            self.catch_up_shared(&meaning, now, uploading).await?;
        }
        Ok(())
    }

    /// The same for the indexes in the data folder.
    async fn catch_up_here(&self, now: Generation) -> Result<(), Failure> {
        if get(&self.seen) == Some(now) {
            return Ok(());
        }
        let _turn = self.turn.lock().await;
        if get(&self.seen).is_some_and(|seen| seen >= now) {
            return Ok(());
        }
        // It may have moved on while another had the turn.
        let now = self.store.generation().await?;
        self.catch_up_lexical(now).await?;
        for meaning in self.own_meanings() {
            self.catch_up_vectors(&meaning, now).await?;
        }
        *lock(&self.seen) = Some(now);
        Ok(())
    }

    /// The models whose vectors are in the data folder.
    fn own_meanings(&self) -> impl Iterator<Item = Arc<Meaning>> {
        self.meanings().into_iter().filter(|meaning| !meaning.is_shared())
    }

    /// Compares everything with the truth, whatever the indexes say about themselves.
    pub(super) async fn compare_all(&self) -> Result<(), Failure> {
        {
            let _turn = self.turn.lock().await;
            let now = self.store.generation().await?;
            let changes = self.compare(None).await?.changes;
            self.apply_lexical(changes, now).await?;
            for meaning in self.own_meanings() {
                let changes = self.compare(Some(&meaning)).await?.changes;
                self.apply_vectors(&meaning, changes).await?;
                meaning.note_seen(now);
            }
            *lock(&self.seen) = Some(now);
        }
        for meaning in self.shared_meanings() {
            self.fill(&meaning).await?;
        }
        Ok(())
    }

    async fn catch_up_lexical(&self, now: Generation) -> Result<(), Failure> {
        let seen = self.lexical()?.generation();
        if seen == Some(now) {
            return Ok(());
        }
        let known = match seen {
            Some(after) => self.store.chunk_changes(after).await?,
            None => None,
        };
        let changes = match known {
            Some(changes) => changes,
            None => self.compare(None).await?.changes,
        };
        self.apply_lexical(changes, now).await
    }

    async fn apply_lexical(&self, changes: ChunkChanges, now: Generation) -> Result<(), Failure> {
        let orphaned = self.orphaned(self.lexical()?.collections()?).await?;
        let lexical = self.lexical()?;
        let removed: Vec<_> = changes.removed.iter().map(|(_, chunk)| *chunk).collect();
        blocking(move || {
            for collection in orphaned {
                lexical.remove_collection(collection)?;
            }
            lexical.remove(&removed)
        })
        .await??;
        for batch in changes.added.chunks(BATCH) {
            let ids: Vec<_> = batch.iter().map(|(_, chunk)| *chunk).collect();
            let chunks = self.store.indexed_chunks(&ids).await?;
            let lexical = self.lexical()?;
            blocking(move || {
                let entries: Vec<_> = chunks
                    .iter()
                    .map(|chunk| LexicalEntry {
                        chunk: chunk.chunk,
                        collection: chunk.collection,
                        headings: &chunk.headings,
                        text: &chunk.text,
                        is_code: chunk.is_code,
                        language: chunk.language,
                    })
                    .collect();
                lexical.add(&entries)
            })
            .await??;
        }
        let lexical = self.lexical()?;
        blocking(move || lexical.commit(now)).await??;
        Ok(())
    }

    async fn catch_up_vectors(&self, meaning: &Meaning, now: Generation) -> Result<(), Failure> {
        let seen = match meaning.seen() {
            Some(seen) => Some(seen),
            None => meaning.vectors.generation()?,
        };
        if seen == Some(now) {
            meaning.note_committed(now);
            return Ok(());
        }
        let known = match seen {
            Some(after) => self.store.vector_changes(meaning.embedder.model(), after).await?,
            None => None,
        };
        let changes = match known {
            Some(changes) => changes,
            None => self.compare(Some(meaning)).await?.changes,
        };
        self.apply_vectors(meaning, changes).await?;
        meaning.note_seen(now);
        Ok(())
    }

    async fn apply_vectors(&self, meaning: &Meaning, changes: ChunkChanges) -> Result<(), Trouble> {
        let orphaned = self.orphaned(meaning.vectors.collections()?).await?;
        self.remove_vectors(meaning, orphaned, &changes).await?;
        for batch in changes.added.chunks(BATCH) {
            let ids: Vec<_> = batch.iter().map(|(_, chunk)| *chunk).collect();
            self.add_vectors(meaning, &ids).await?;
        }
        Ok(())
    }

    /// Removes collections, and the chunks that went, from a model's vectors.
    pub(super) async fn remove_vectors(
        &self,
        meaning: &Meaning,
        collections: Vec<CollectionKey>,
        changes: &ChunkChanges,
    ) -> Result<(), Trouble> {
        let vectors = meaning.vectors.clone();
        let removed = by_collection(&changes.removed);
        blocking(move || {
            for collection in collections {
                vectors.remove_collection(collection)?;
            }
            removed.iter().try_for_each(|(collection, chunks)| vectors.remove(*collection, chunks))
        })
        .await??;
        Ok(())
    }

    /// Puts the vectors that the truth has of these chunks into the index.
    pub(super) async fn add_vectors(&self, meaning: &Meaning, chunks: &[ChunkId]) -> Result<(), Trouble> {
        let found = self.store.vectors(meaning.embedder.model(), chunks).await?;
        let vectors = meaning.vectors.clone();
        blocking(move || {
            let entries: Vec<_> = found
                .iter()
                .map(|(collection, chunk, numbers)| VectorEntry {
                    chunk: *chunk,
                    collection: *collection,
                    vector: numbers,
                })
                .collect();
            vectors.add(&entries)
        })
        .await??;
        Ok(())
    }

    /// Makes the vectors durable. A crash before costs only time: they are in the truth.
    pub(super) async fn commit(&self) -> Result<(), Failure> {
        let _turn = self.turn.lock().await;
        for meaning in self.meanings() {
            if let Some(seen) = meaning.take_dirty() {
                let vectors = meaning.vectors.clone();
                blocking(move || vectors.commit(seen)).await??;
            }
        }
        Ok(())
    }

    /// The collections of an index that the truth does not have.
    async fn orphaned(&self, indexed: Vec<CollectionKey>) -> Result<Vec<CollectionKey>, Failure> {
        let truth: BTreeSet<_> = self.store.collection_keys().await?.into_iter().collect();
        Ok(indexed.into_iter().filter(|key| !truth.contains(key)).collect())
    }

    /// What separates an index from the truth: that of a model, or without one that of the words.
    pub(super) async fn compare(&self, meaning: Option<&Meaning>) -> Result<Comparison, Trouble> {
        let mut comparison = Comparison::default();
        let vectors = meaning.map(|meaning| meaning.vectors.clone());
        let is_empty = blocking(move || vectors.map_or(Ok(false), |vectors| vectors.is_empty())).await??;
        for collection in self.store.collection_keys().await? {
            let truth = self.of_truth(meaning, collection).await?;
            let held = if is_empty { BTreeSet::new() } else { self.of_index(meaning, collection).await? };
            comparison.total += truth.len() as u64;
            let changes = &mut comparison.changes;
            changes.added.extend(truth.difference(&held).map(|chunk| (collection, *chunk)));
            changes.removed.extend(held.difference(&truth).map(|chunk| (collection, *chunk)));
        }
        Ok(comparison)
    }

    async fn of_truth(
        &self,
        meaning: Option<&Meaning>,
        collection: CollectionKey,
    ) -> Result<BTreeSet<ChunkId>, Trouble> {
        let truth = match meaning {
            None => self.store.chunk_ids(collection).await?,
            Some(meaning) => self.store.vector_ids(collection, meaning.embedder.model()).await?,
        };
        Ok(truth.into_iter().collect())
    }

    async fn of_index(
        &self,
        meaning: Option<&Meaning>,
        collection: CollectionKey,
    ) -> Result<BTreeSet<ChunkId>, Trouble> {
        let (lexical, vectors) = (self.lexical()?, meaning.map(|meaning| meaning.vectors.clone()));
        let held = blocking(move || match vectors {
            None => lexical.contents(collection),
            Some(vectors) => vectors.contents(collection),
        })
        .await??;
        Ok(held.into_iter().collect())
    }

    /// Chunks of a collection that are not found by meaning, and vectors of it that belong to no chunk.
    pub(super) async fn check(&self, collection: CollectionKey, model: &str) -> Result<Check, Failure> {
        self.catch_up(self.uploading_of_readers()).await?;
        let chunks: BTreeSet<_> = self.store.chunk_ids(collection).await?.into_iter().collect();
        let meaning = self.opened_meaning(model);
        let vectors = meaning.as_ref().unwrap_or(&self.usual).vectors.clone();
        let (held, index_bytes) = blocking(move || {
            Ok::<_, IndexError>((vectors.contents(collection)?, vectors.stored_bytes(collection)?))
        })
        .await??;
        let held: BTreeSet<_> = held.into_iter().collect();
        Ok(Check {
            missing_vectors: chunks.difference(&held).count() as u64,
            orphaned_vectors: held.difference(&chunks).count() as u64,
            index_bytes,
        })
    }
}

/// What a comparison of an index with the truth showed.
#[derive(Default)]
pub(super) struct Comparison {
    /// What the index has to take over.
    pub(super) changes: ChunkChanges,
    /// How many chunks or vectors the truth has.
    pub(super) total: u64,
}

/// What a comparison of a collection with its vectors showed.
pub(super) struct Check {
    pub(super) missing_vectors: u64,
    pub(super) orphaned_vectors: u64,
    pub(super) index_bytes: u64,
}

fn by_collection(chunks: &[(CollectionKey, ChunkId)]) -> HashMap<CollectionKey, Vec<ChunkId>> {
    let mut grouped: HashMap<_, Vec<_>> = HashMap::new();
    for (collection, chunk) in chunks {
        grouped.entry(*collection).or_default().push(*chunk);
    }
    grouped
}

fn lock<T>(value: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    value.lock().unwrap_or_else(PoisonError::into_inner)
}

fn get<T: Copy>(value: &Mutex<T>) -> T {
    *lock(value)
}

impl From<IndexError> for Failure {
    fn from(error: IndexError) -> Self {
        let failure = |kind| Self::new(kind, error.to_string());
        match error {
            IndexError::Unreachable { .. } | IndexError::Lost { .. } => {
                failure(FailureKind::StoreUnreachable)
                    .hint("try again in a moment; nothing is lost meanwhile")
            }
            IndexError::Refused { .. } | IndexError::Mismatch { .. } => failure(FailureKind::Internal)
                .hint("the server's log says why; its operator can run `hindcast doctor`"),
            IndexError::Corrupt(_) | IndexError::Unavailable(_) | IndexError::Dimension { .. } => {
                failure(FailureKind::Internal)
                    .hint("`hindcast knowledge reindex` makes the indexes again; nothing is lost with them")
            }
        }
    }
}
