//! The seam to whatever finds near vectors: an index in the data folder, or a server that several processes share.
//!
//! Every call may fail and may wait for a disk or a network, so call it where waiting is allowed. It is not asynchronous: the
//! index in the data folder computes for as long as a call takes, and would need a thread that may be blocked either way.

use super::{ChunkId, ChunkSet, CollectionKey, Generation, IndexError, ScoredChunk};

/// What is kept of a chunk.
#[derive(Debug, Clone, Copy)]
pub struct VectorEntry<'a> {
    /// Which chunk.
    pub chunk: ChunkId,
    /// Where it belongs.
    pub collection: CollectionKey,
    /// Its vector, of length one. A chunk has the same vector of a model for as long as it exists.
    pub vector: &'a [f32],
}

/// Finds. Many may search at once, also while somebody writes.
pub trait VectorRead: Send + Sync {
    /// The chunks whose vectors are nearest, best first, scored by cosine. `within` narrows to these collections and
    /// `only` to these chunks, before the best are chosen; none means all.
    fn nearest(
        &self,
        query: &[f32],
        within: Option<&[CollectionKey]>,
        only: Option<&ChunkSet>,
        limit: usize,
    ) -> Result<Vec<ScoredChunk>, IndexError>;

    /// How many vectors there are.
    fn len(&self) -> Result<usize, IndexError>;

    /// Whether there are none. Cheap enough to be asked before every search.
    fn is_empty(&self) -> Result<bool, IndexError>;

    /// What the vectors of a collection take on this machine's disk, in bytes, as of the last commit.
    fn stored_bytes(&self, collection: CollectionKey) -> Result<u64, IndexError>;

    /// The name of the server that keeps the vectors, for people; none where they are in the data folder.
    ///
    /// Other processes write to such a server, too: what was read from it a moment ago may be out of date, and it may be emptied
    /// or restored at any time.
    fn server(&self) -> Option<&'static str> {
        None
    }
}

/// Changes. What was changed is found at once. All changes can be repeated without harm, also by another process.
pub trait VectorWrite: VectorRead {
    /// Adds chunks; a chunk that is there already gets the new vector.
    fn add(&self, entries: &[VectorEntry<'_>]) -> Result<(), IndexError>;

    /// Removes chunks of one collection; those that are not there do not matter.
    fn remove(&self, collection: CollectionKey, chunks: &[ChunkId]) -> Result<(), IndexError>;

    /// Removes a collection and frees its disk space, at the latest at the next commit.
    fn remove_collection(&self, collection: CollectionKey) -> Result<(), IndexError>;

    /// The collections it has something of.
    fn collections(&self) -> Result<Vec<CollectionKey>, IndexError>;

    /// The chunks it holds of a collection, ascending, to compare with the truth.
    fn contents(&self, collection: CollectionKey) -> Result<Vec<ChunkId>, IndexError>;

    /// Those of the chunks that have to be added; it may name some that are there.
    fn absent(&self, chunks: &[ChunkId]) -> Result<Vec<ChunkId>, IndexError> {
        Ok(chunks.to_vec())
    }

    /// The generation of the truth that the last commit named, by whichever process. None where there was no commit: then
    /// anything may be missing.
    fn generation(&self) -> Result<Option<Generation>, IndexError>;

    /// Makes everything so far durable, and notes that all of the truth up to this generation is there. After a failure or a
    /// crash the last commit before holds; what came since may be there or not.
    fn commit(&self, generation: Generation) -> Result<(), IndexError>;
}
