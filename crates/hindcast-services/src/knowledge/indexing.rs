//! Keeping the derived indexes at the truth.

mod words;

use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    sync::{Arc, Mutex, PoisonError, atomic::AtomicBool},
};

use hindcast_core::knowledge::{
    ChunkChanges, ChunkId, CollectionKey, EmbedError, Generation, IndexError, KnowledgeStore, LexicalRead,
    LexicalWrite, Models, VectorEntry,
};

use super::{
    blocking,
    meaning::Meaning,
    sharing::{Trouble, Uploading},
};
use crate::{Failure, FailureKind};
use words::WordIndex;

/// Chunks that go into an index at once.
pub(super) const BATCH: usize = 1000;

/// Opens what finds words.
pub type OpenLexical = Box<dyn Fn() -> Result<Arc<dyn LexicalWrite>, IndexError> + Send + Sync>;

/// The two indexes, and how far they are.
pub(super) struct Indexing {
    pub(super) store: Arc<dyn KnowledgeStore>,
    words: Arc<WordIndex>,
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
            words: Arc::new(WordIndex::new(store.clone(), open_lexical)),
            store,
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

    /// What finds words; opened when it is needed first, and made again where a search finds it damaged.
    pub(super) fn lexical(&self) -> Result<Arc<dyn LexicalRead>, IndexError> {
        self.words.reader()
    }

    /// Whether all of them have been at the truth in this process, and none was opened since.
    pub(super) async fn has_caught_up(&self) -> Result<bool, Failure> {
        Ok(get(&self.seen).is_some() && !self.words.is_lost().await?)
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
        if get(&self.seen) == Some(now) && !self.words.is_lost().await? {
            return Ok(());
        }
        let _turn = self.turn.lock().await;
        if get(&self.seen).is_some_and(|seen| seen >= now) && !self.words.is_lost().await? {
            return Ok(());
        }
        // It may have moved on while another had the turn.
        let now = self.store.generation().await?;
        self.words.catch_up(now).await?;
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
            self.words.compare_all(now).await?;
            for meaning in self.own_meanings() {
                let changes = self.compare(&meaning).await?.changes;
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
            None => self.compare(meaning).await?.changes,
        };
        self.apply_vectors(meaning, changes).await?;
        meaning.note_seen(now);
        Ok(())
    }

    async fn apply_vectors(&self, meaning: &Meaning, changes: ChunkChanges) -> Result<(), Trouble> {
        let orphaned = orphaned(&*self.store, meaning.vectors.collections()?).await?;
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

    /// What separates the index of a model from the truth.
    pub(super) async fn compare(&self, meaning: &Meaning) -> Result<Comparison, Trouble> {
        let mut comparison = Comparison::default();
        let vectors = meaning.vectors.clone();
        let is_empty = blocking(move || vectors.is_empty()).await??;
        for collection in self.store.collection_keys().await? {
            let truth = self.store.vector_ids(collection, meaning.embedder.model()).await?;
            let vectors = meaning.vectors.clone();
            let held = match is_empty {
                true => Vec::new(),
                false => blocking(move || vectors.contents(collection)).await??,
            };
            comparison.note(collection, &truth.into_iter().collect(), &held.into_iter().collect());
        }
        Ok(comparison)
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

impl Comparison {
    fn note(&mut self, collection: CollectionKey, truth: &BTreeSet<ChunkId>, held: &BTreeSet<ChunkId>) {
        self.total += truth.len() as u64;
        self.changes.added.extend(truth.difference(held).map(|chunk| (collection, *chunk)));
        self.changes.removed.extend(held.difference(truth).map(|chunk| (collection, *chunk)));
    }
}

/// The collections of an index that the truth does not have.
async fn orphaned(
    store: &dyn KnowledgeStore,
    indexed: Vec<CollectionKey>,
) -> Result<Vec<CollectionKey>, Failure> {
    let truth: BTreeSet<_> = store.collection_keys().await?.into_iter().collect();
    Ok(indexed.into_iter().filter(|key| !truth.contains(key)).collect())
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
        let details = error.to_string();
        let failure = |kind| Self::new(kind, details);
        match error {
            IndexError::Unreachable { .. } | IndexError::Lost { .. } => {
                failure(FailureKind::StoreUnreachable)
                    .hint("try again in a moment; nothing is lost meanwhile")
            }
            IndexError::Refused { .. } | IndexError::Mismatch { .. } => failure(FailureKind::Internal)
                .hint("the server's log says why; its operator can run `hindcast doctor`"),
            IndexError::Unavailable(reason) if is_for_lack_of_room(&reason) => failure(FailureKind::Internal)
                .hint("make room on the server's disk; nothing is lost meanwhile"),
            IndexError::Corrupt(_) | IndexError::Unavailable(_) | IndexError::Dimension { .. } => {
                failure(FailureKind::Internal)
                    .hint("`hindcast knowledge reindex` makes the indexes again; nothing is lost with them")
            }
        }
    }
}

/// Whether a file could not be written because the disk, or the owner's share of it, is full. Engines give only the system's words.
fn is_for_lack_of_room(reason: &str) -> bool {
    ["os error 28)", "os error 122)", "StorageFull", "QuotaExceeded"]
        .iter()
        .any(|words| reason.contains(words))
}
