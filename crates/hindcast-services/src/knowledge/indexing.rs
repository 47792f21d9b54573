//! Keeping the derived indexes at the truth.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    sync::{Arc, Mutex, PoisonError},
};

use hindcast_core::knowledge::{
    ChunkChanges, ChunkId, CollectionKey, EmbedError, Generation, IndexError, KnowledgeStore, LexicalEntry,
    LexicalWrite, Models, VectorEntry,
};

use super::{blocking, meaning::Meaning};
use crate::Failure;

/// Chunks that go into an index at once.
const BATCH: usize = 1000;

/// Opens what finds words.
pub type OpenLexical = Box<dyn Fn() -> Result<Arc<dyn LexicalWrite>, IndexError> + Send + Sync>;

/// The two indexes, and how far they are.
pub(super) struct Indexing {
    store: Arc<dyn KnowledgeStore>,
    open_lexical: OpenLexical,
    lexical: Mutex<Option<Arc<dyn LexicalWrite>>>,
    /// The model that collections have unless they choose another.
    usual: Arc<Meaning>,
    /// The others, by their names; opened when they are needed first.
    others: Mutex<BTreeMap<String, Arc<Meaning>>>,
    models: Option<Arc<dyn Models>>,
    /// One catches up; the others wait for it.
    pub(super) turn: tokio::sync::Mutex<()>,
    /// What all of them have seen, in memory.
    seen: Mutex<Option<Generation>>,
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
    fn meanings(&self) -> Vec<Arc<Meaning>> {
        let mut all = vec![self.usual.clone()];
        all.extend(lock(&self.others).values().cloned());
        all
    }

    /// Removes the vectors of a collection from the index of a model that it has no more.
    pub(super) async fn leave_model(&self, collection: CollectionKey, model: &str) -> Result<(), Failure> {
        let Some(meaning) = self.opened_meaning(model) else { return Ok(()) };
        let _turn = self.turn.lock().await;
        let vectors = meaning.vectors.clone();
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

    /// Brings both indexes to where the truth is now. Cheap when they are there.
    pub(super) async fn catch_up(&self) -> Result<(), Failure> {
        let now = self.store.generation().await?;
        // Where nothing ever was, there is nothing to index.
        if get(&self.seen) == Some(now) || now == Generation::default() {
            return Ok(());
        }
        let _turn = self.turn.lock().await;
        if get(&self.seen).is_some_and(|seen| seen >= now) {
            return Ok(());
        }
        self.catch_up_lexical(now).await?;
        for meaning in self.meanings() {
            self.catch_up_vectors(&meaning, now).await?;
        }
        *lock(&self.seen) = Some(now);
        Ok(())
    }

    /// Compares everything with the truth, whatever the indexes say about themselves.
    pub(super) async fn compare_all(&self) -> Result<(), Failure> {
        let _turn = self.turn.lock().await;
        let now = self.store.generation().await?;
        let changes = self.compare(None).await?;
        self.apply_lexical(changes, now).await?;
        for meaning in self.meanings() {
            let changes = self.compare(Some(&meaning)).await?;
            self.apply_vectors(&meaning, changes, now).await?;
        }
        *lock(&self.seen) = Some(now);
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
            None => self.compare(None).await?,
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
        let seen = meaning.seen();
        if seen == Some(now) {
            return Ok(());
        }
        let known = match seen {
            Some(after) => self.store.vector_changes(meaning.embedder.model(), after).await?,
            None => None,
        };
        let changes = match known {
            Some(changes) => changes,
            None => self.compare(Some(meaning)).await?,
        };
        self.apply_vectors(meaning, changes, now).await
    }

    async fn apply_vectors(
        &self,
        meaning: &Meaning,
        changes: ChunkChanges,
        now: Generation,
    ) -> Result<(), Failure> {
        let orphaned = self.orphaned(meaning.vectors.collections()).await?;
        let vectors = meaning.vectors.clone();
        let removed = by_collection(&changes.removed);
        blocking(move || {
            for collection in orphaned {
                vectors.remove_collection(collection)?;
            }
            removed.iter().try_for_each(|(collection, chunks)| vectors.remove(*collection, chunks))
        })
        .await??;
        for batch in changes.added.chunks(BATCH) {
            let ids: Vec<_> = batch.iter().map(|(_, chunk)| *chunk).collect();
            let found = self.store.vectors(meaning.embedder.model(), &ids).await?;
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
        }
        meaning.note_seen(now);
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
    async fn compare(&self, meaning: Option<&Meaning>) -> Result<ChunkChanges, Failure> {
        let mut changes = ChunkChanges::default();
        for collection in self.store.collection_keys().await? {
            let (truth, held) = self.both(meaning, collection).await?;
            changes.added.extend(truth.difference(&held).map(|chunk| (collection, *chunk)));
            changes.removed.extend(held.difference(&truth).map(|chunk| (collection, *chunk)));
        }
        Ok(changes)
    }

    async fn both(
        &self,
        meaning: Option<&Meaning>,
        collection: CollectionKey,
    ) -> Result<(BTreeSet<ChunkId>, BTreeSet<ChunkId>), Failure> {
        let truth = match meaning {
            None => self.store.chunk_ids(collection).await?,
            Some(meaning) => self.store.vector_ids(collection, meaning.embedder.model()).await?,
        };
        let (lexical, vectors) = (self.lexical()?, meaning.map(|meaning| meaning.vectors.clone()));
        let held = blocking(move || match vectors {
            None => lexical.contents(collection),
            Some(vectors) => vectors.contents(collection),
        })
        .await??;
        Ok((truth.into_iter().collect(), held.into_iter().collect()))
    }

    /// Chunks of a collection that are not found by meaning, and vectors of it that belong to no chunk.
    pub(super) async fn check(&self, collection: CollectionKey, model: &str) -> Result<Check, Failure> {
        self.catch_up().await?;
        let chunks: BTreeSet<_> = self.store.chunk_ids(collection).await?.into_iter().collect();
        let meaning = self.opened_meaning(model);
        let vectors = meaning.as_ref().unwrap_or(&self.usual).vectors.clone();
        let index_bytes = vectors.stored_bytes(collection);
        let held: BTreeSet<_> = blocking(move || vectors.contents(collection)).await??.into_iter().collect();
        Ok(Check {
            missing_vectors: chunks.difference(&held).count() as u64,
            orphaned_vectors: held.difference(&chunks).count() as u64,
            index_bytes,
        })
    }
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
        Self::new(crate::FailureKind::Internal, error.to_string())
            .hint("`hindcast knowledge reindex` makes the indexes again; nothing is lost with them")
    }
}
