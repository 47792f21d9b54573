//! The index of words: at the truth, and made again where it turns out to be damaged.

use std::{
    collections::BTreeSet,
    sync::{Arc, Mutex},
};

use hindcast_core::knowledge::{
    ChunkChanges, ChunkSet, CollectionKey, Generation, IndexError, KnowledgeStore, Language, LexicalEntry,
    LexicalRead, LexicalWrite, ScoredChunk,
};
use tokio::runtime::Handle;

use super::{BATCH, Comparison, OpenLexical, blocking, lock, orphaned};
use crate::{Failure, knowledge::sharing::Trouble};

/// The index of words, and what it is made from.
pub(super) struct WordIndex {
    store: Arc<dyn KnowledgeStore>,
    open: OpenLexical,
    opened: Mutex<Option<Arc<dyn LexicalWrite>>>,
    /// One changes it; the others wait.
    turn: tokio::sync::Mutex<()>,
}

impl WordIndex {
    pub(super) fn new(store: Arc<dyn KnowledgeStore>, open: OpenLexical) -> Self {
        Self { store, open, opened: Mutex::default(), turn: tokio::sync::Mutex::default() }
    }

    /// The index, opened when it is needed first.
    fn index(&self) -> Result<Arc<dyn LexicalWrite>, IndexError> {
        let mut opened = lock(&self.opened);
        match &*opened {
            Some(index) => Ok(index.clone()),
            None => Ok(opened.insert((self.open)()?).clone()),
        }
    }

    /// What finds words; it makes the index again where a search finds it damaged.
    pub(super) fn reader(self: &Arc<Self>) -> Result<Arc<dyn LexicalRead>, IndexError> {
        Ok(Arc::new(MendingReader { index: self.index()?, words: self.clone() }))
    }

    /// Whether the index was at the truth and is to be made again since, because its files were damaged.
    pub(super) async fn is_lost(&self) -> Result<bool, Failure> {
        let opened = lock(&self.opened).clone();
        match opened {
            Some(index) => Ok(seen(index).await?.is_none()),
            None => Ok(false),
        }
    }

    /// Brings the index to the truth of a generation.
    pub(super) async fn catch_up(&self, now: Generation) -> Result<(), Failure> {
        let _turn = self.turn.lock().await;
        match self.take_over_news(now).await {
            // It was begun anew: now everything is added.
            Err(Trouble::Index(IndexError::Corrupt(_))) => Ok(self.take_over_news(now).await?),
            done => Ok(done?),
        }
    }

    /// The same by a comparison of everything, whatever the index says about itself.
    pub(super) async fn compare_all(&self, now: Generation) -> Result<(), Failure> {
        let _turn = self.turn.lock().await;
        match self.take_over_all(now).await {
            Err(Trouble::Index(IndexError::Corrupt(_))) => Ok(self.take_over_all(now).await?),
            done => Ok(done?),
        }
    }

    async fn take_over_news(&self, now: Generation) -> Result<(), Trouble> {
        // Before it is asked how far it is: whatever it loses from here on is noticed at the commit.
        self.begin_run().await?;
        let seen = seen(self.index()?).await?;
        if seen == Some(now) {
            return Ok(());
        }
        let known = match seen {
            Some(after) => self.store.chunk_changes(after).await?,
            None => None,
        };
        match known {
            Some(changes) => self.apply(changes, now).await,
            None => self.take_over_all(now).await,
        }
    }

    async fn take_over_all(&self, now: Generation) -> Result<(), Trouble> {
        self.begin_run().await?;
        let changes = self.compare().await?.changes;
        self.apply(changes, now).await
    }

    /// Begins a run of changes, which may have to wait for somebody who looks at damaged files.
    async fn begin_run(&self) -> Result<(), Trouble> {
        let index = self.index()?;
        Ok(blocking(move || index.begin()).await?)
    }

    /// What separates the index from the truth.
    pub(super) async fn compare(&self) -> Result<Comparison, Trouble> {
        let mut comparison = Comparison::default();
        for collection in self.store.collection_keys().await? {
            let truth: BTreeSet<_> = self.store.chunk_ids(collection).await?.into_iter().collect();
            let index = self.index()?;
            let held = blocking(move || index.contents(collection)).await??;
            comparison.note(collection, &truth, &held.into_iter().collect());
        }
        Ok(comparison)
    }

    async fn apply(&self, changes: ChunkChanges, now: Generation) -> Result<(), Trouble> {
        let index = self.index()?;
        let orphaned = orphaned(&*self.store, index.collections()?).await?;
        let removed: Vec<_> = changes.removed.iter().map(|(_, chunk)| *chunk).collect();
        blocking(move || {
            for collection in orphaned {
                index.remove_collection(collection)?;
            }
            index.remove(&removed)
        })
        .await??;
        for batch in changes.added.chunks(BATCH) {
            let ids: Vec<_> = batch.iter().map(|(_, chunk)| *chunk).collect();
            let chunks = self.store.indexed_chunks(&ids).await?;
            let index = self.index()?;
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
                index.add(&entries)
            })
            .await??;
        }
        let index = self.index()?;
        blocking(move || index.commit(now)).await??;
        Ok(())
    }

    /// Fills an index that was begun anew.
    async fn make_again(&self) -> Result<(), Failure> {
        let now = self.store.generation().await?;
        self.catch_up(now).await
    }
}

/// Which generation an index has seen. It looks at its files first.
async fn seen(index: Arc<dyn LexicalWrite>) -> Result<Option<Generation>, Failure> {
    blocking(move || index.generation()).await
}

/// Searches the index; once it turns out to be damaged, waits until it is made again and searches once more.
struct MendingReader {
    index: Arc<dyn LexicalWrite>,
    words: Arc<WordIndex>,
}

impl LexicalRead for MendingReader {
    fn search(
        &self,
        query: &str,
        within: Option<&[CollectionKey]>,
        only: Option<&ChunkSet>,
        limit: usize,
    ) -> Result<Vec<ScoredChunk>, IndexError> {
        let damage = match self.index.search(query, within, only, limit) {
            Err(IndexError::Corrupt(damage)) => damage,
            done => return done,
        };
        // A search blocks, so it is where waiting is allowed.
        let Ok(runtime) = Handle::try_current() else { return Err(IndexError::Corrupt(damage)) };
        if let Err(failure) = runtime.block_on(self.words.make_again()) {
            return Err(IndexError::Unavailable(format!("{damage}; making it again failed: {failure}")));
        }
        self.index.search(query, within, only, limit)
    }

    fn is_telling(&self, query: &str) -> bool {
        self.index.is_telling(query)
    }

    fn language_of(&self, query: &str) -> Language {
        self.index.language_of(query)
    }

    fn len(&self) -> usize {
        self.index.len()
    }
}
