//! What the knowledge base is talked about in, and the seams to the engines that search it.
//!
//! A store of its own has the truth; what stands behind the index seams is derived from it and can be made again. So an
//! index says which [`Generation`] of the truth it has seen and which chunks it holds, and whoever keeps the truth
//! catches it up.

mod chat;
mod embedding;
#[cfg(feature = "test-support")]
mod fake;
mod language;
mod lexical;
mod names;
mod record;
mod store;
mod usage;
mod vectors;
mod web;

pub use chat::{ChatError, ChatModel, InstalledModel, Message, OnText, Reply, Speaker, bytes_of};

pub use embedding::{EmbedError, Embedder, Models, Reranker};
#[cfg(feature = "test-support")]
pub use fake::WordEmbedder;
pub use language::{Language, is_unspaced};
pub use lexical::{LexicalEntry, LexicalRead, LexicalWrite};
pub use names::{check_id, id_of_name};
pub use record::{
    Collection, CollectionSettings, Document, DocumentFilter, DocumentKey, DocumentVersion, FoundChunk,
    LARGEST_PASSAGE, NewChunk, NewDocument, NewVector, NewWatch, Ownership, Patterns, Place,
    SMALLEST_PASSAGE, SourceFile, Tags, TextHash, Watch, WatchGrant, hash_of,
};
pub use store::{
    Catalogue, ChangeRecord, ChunkChanges, ChunkSource, IndexedChunk, KnowledgeStore, Storage, UsageLog,
};
pub use usage::{AnswerFigures, AnswerRecord, ModelFigures, QueryFigures, QueryRecord, Turn, Used};
pub use vectors::{VectorEntry, VectorRead, VectorWrite};
pub use web::{Web, WebAnswer, WebError};

/// A chunk, by its row in the truth. Never given to another chunk, also when this one is gone.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ChunkId(pub i64);

/// Chunks that a search is narrowed to.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ChunkSet(Vec<ChunkId>);

impl ChunkSet {
    /// Whether this chunk may be found.
    pub fn contains(&self, chunk: ChunkId) -> bool {
        self.0.binary_search(&chunk).is_ok()
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether nothing may be found.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// All of them, ascending.
    pub fn iter(&self) -> impl Iterator<Item = ChunkId> {
        self.0.iter().copied()
    }
}

impl FromIterator<ChunkId> for ChunkSet {
    fn from_iter<I: IntoIterator<Item = ChunkId>>(chunks: I) -> Self {
        let mut chunks: Vec<_> = chunks.into_iter().collect();
        chunks.sort_unstable();
        chunks.dedup();
        Self(chunks)
    }
}

/// A collection, by its row in the truth.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CollectionKey(pub i64);

/// How often the truth has changed; an index that was committed with it has seen everything up to there.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Generation(pub u64);

/// A hit and how good it is. Scores of one list compare with each other; every list is best first.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ScoredChunk {
    /// Which chunk.
    pub chunk: ChunkId,
    /// The higher, the better.
    pub score: f32,
}

/// Why a derived index cannot do what it was asked.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum IndexError {
    /// What is on disk cannot be read; it must be made again from the truth.
    #[error("the index is unreadable: {0} · hint: `hindcast knowledge reindex` makes it again")]
    Corrupt(String),
    /// The system or the engine failed.
    #[error("the index is unavailable: {0}")]
    Unavailable(String),
    /// The server that keeps the index is down, or does not answer in time.
    #[error("{server}, which keeps the vectors, does not answer")]
    Unreachable {
        /// What it is called.
        server: &'static str,
        /// Why, and where it is: for the log and the operator, not for callers.
        reason: String,
    },
    /// The server that keeps the index answers, but does not do what is asked of it.
    #[error("{server}, which keeps the vectors, refuses what is asked of it")]
    Refused {
        /// What it is called.
        server: &'static str,
        /// Why: for the log and the operator, not for callers.
        reason: String,
    },
    /// The server that keeps the index does not have it any more, or never had it.
    #[error(
        "{server}, which keeps the vectors, does not have them yet or any more; they are filled in from the documents"
    )]
    Lost {
        /// What it is called.
        server: &'static str,
    },
    /// What is there was made for something else.
    #[error("the vectors in {server} are {found} where {expected} are needed")]
    Mismatch {
        /// What it is called.
        server: &'static str,
        /// What the server has.
        found: String,
        /// What it should have.
        expected: String,
    },
    /// A vector of another length than the index's.
    #[error("a vector of {given} numbers where the index has {expected}")]
    Dimension {
        /// What the index holds.
        expected: usize,
        /// What was given.
        given: usize,
    },
}
