//! Keeping the derived indexes at the truth.

use std::{
    collections::{BTreeSet, HashMap},
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
};

use hindcast_core::knowledge::{
    ChunkChanges, ChunkId, CollectionKey, Embedder, Generation, IndexError, IndexedChunk, KnowledgeStore,
    Language, LexicalEntry, LexicalWrite, VectorEntry, VectorWrite,
};

use hindcast_extract::written_in;

use super::blocking;
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
    pub(super) vectors: Arc<dyn VectorWrite>,
    embedder: Arc<dyn Embedder>,
    /// One catches up; the others wait for it.
    turn: tokio::sync::Mutex<()>,
    /// What both have seen, in memory.
    seen: Mutex<Option<Generation>>,
    /// What the vectors have seen beyond their last commit.
    vectors_seen: Mutex<Option<Generation>>,
    is_dirty: AtomicBool,
}

impl Indexing {
    pub(super) fn new(
        store: Arc<dyn KnowledgeStore>,
        open_lexical: OpenLexical,
        vectors: Arc<dyn VectorWrite>,
        embedder: Arc<dyn Embedder>,
    ) -> Self {
        let vectors_seen = Mutex::new(vectors.generation());
        Self {
            store,
            open_lexical,
            lexical: Mutex::default(),
            vectors,
            embedder,
            turn: tokio::sync::Mutex::default(),
            seen: Mutex::default(),
            vectors_seen,
            is_dirty: AtomicBool::new(false),
        }
    }

    /// What finds words; opened when it is needed first.
    pub(super) fn lexical(&self) -> Result<Arc<dyn LexicalWrite>, IndexError> {
        let mut lexical = lock(&self.lexical);
        match &*lexical {
            Some(lexical) => Ok(lexical.clone()),
            None => Ok(lexical.insert((self.open_lexical)()?).clone()),
        }
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
        self.catch_up_vectors(now).await?;
        *lock(&self.seen) = Some(now);
        Ok(())
    }

    /// Compares everything with the truth, whatever the indexes say about themselves.
    pub(super) async fn compare_all(&self) -> Result<(), Failure> {
        let _turn = self.turn.lock().await;
        let now = self.store.generation().await?;
        let changes = self.compare(IndexKind::Lexical).await?;
        self.apply_lexical(changes, now).await?;
        let changes = self.compare(IndexKind::Vectors).await?;
        self.apply_vectors(changes, now).await?;
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
            None => self.compare(IndexKind::Lexical).await?,
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
                        language: language_of(chunk),
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

    async fn catch_up_vectors(&self, now: Generation) -> Result<(), Failure> {
        let seen = get(&self.vectors_seen);
        if seen == Some(now) {
            return Ok(());
        }
        let known = match seen {
            Some(after) => self.store.vector_changes(self.embedder.model(), after).await?,
            None => None,
        };
        let changes = match known {
            Some(changes) => changes,
            None => self.compare(IndexKind::Vectors).await?,
        };
        self.apply_vectors(changes, now).await
    }

    async fn apply_vectors(&self, changes: ChunkChanges, now: Generation) -> Result<(), Failure> {
        let orphaned = self.orphaned(self.vectors.collections()).await?;
        let vectors = self.vectors.clone();
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
            let found = self.store.vectors(self.embedder.model(), &ids).await?;
            let vectors = self.vectors.clone();
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
        *lock(&self.vectors_seen) = Some(now);
        self.is_dirty.store(true, Ordering::SeqCst);
        Ok(())
    }

    /// Makes the vectors durable. A crash before costs only time: they are in the truth.
    pub(super) async fn commit(&self) -> Result<(), Failure> {
        let _turn = self.turn.lock().await;
        let Some(seen) = get(&self.vectors_seen).filter(|_| self.is_dirty.swap(false, Ordering::SeqCst))
        else {
            return Ok(());
        };
        let vectors = self.vectors.clone();
        blocking(move || vectors.commit(seen)).await??;
        Ok(())
    }

    /// The collections of an index that the truth does not have.
    async fn orphaned(&self, indexed: Vec<CollectionKey>) -> Result<Vec<CollectionKey>, Failure> {
        let truth: BTreeSet<_> = self.store.collection_keys().await?.into_iter().collect();
        Ok(indexed.into_iter().filter(|key| !truth.contains(key)).collect())
    }

    /// What separates an index from the truth.
    async fn compare(&self, kind: IndexKind) -> Result<ChunkChanges, Failure> {
        let mut changes = ChunkChanges::default();
        for collection in self.store.collection_keys().await? {
            let (truth, held) = self.both(kind, collection).await?;
            changes.added.extend(truth.difference(&held).map(|chunk| (collection, *chunk)));
            changes.removed.extend(held.difference(&truth).map(|chunk| (collection, *chunk)));
        }
        Ok(changes)
    }

    async fn both(
        &self,
        kind: IndexKind,
        collection: CollectionKey,
    ) -> Result<(BTreeSet<ChunkId>, BTreeSet<ChunkId>), Failure> {
        let truth = match kind {
            IndexKind::Lexical => self.store.chunk_ids(collection).await?,
            IndexKind::Vectors => self.store.vector_ids(collection, self.embedder.model()).await?,
        };
        let (lexical, vectors) = (self.lexical()?, self.vectors.clone());
        let held = blocking(move || match kind {
            IndexKind::Lexical => lexical.contents(collection),
            IndexKind::Vectors => vectors.contents(collection),
        })
        .await??;
        Ok((truth.into_iter().collect(), held.into_iter().collect()))
    }

    /// Chunks of a collection that are not found by meaning, and vectors of it that belong to no chunk.
    pub(super) async fn check(&self, collection: CollectionKey) -> Result<Check, Failure> {
        self.catch_up().await?;
        let chunks: BTreeSet<_> = self.store.chunk_ids(collection).await?.into_iter().collect();
        let vectors = self.vectors.clone();
        let held: BTreeSet<_> = blocking(move || vectors.contents(collection)).await??.into_iter().collect();
        Ok(Check {
            missing_vectors: chunks.difference(&held).count() as u64,
            orphaned_vectors: held.difference(&chunks).count() as u64,
            index_bytes: self.vectors.stored_bytes(collection),
        })
    }
}

/// What a comparison of a collection with its vectors showed.
pub(super) struct Check {
    pub(super) missing_vectors: u64,
    pub(super) orphaned_vectors: u64,
    pub(super) index_bytes: u64,
}

#[derive(Clone, Copy)]
enum IndexKind {
    Lexical,
    Vectors,
}

/// What a chunk is written in. Of documents that came before that was noted it is told from the chunk itself.
fn language_of(chunk: &IndexedChunk) -> Option<Language> {
    match chunk.language {
        None if !chunk.is_code => written_in(&chunk.text).and_then(Language::of_tag),
        language => language,
    }
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
