//! The seam to whatever finds near vectors.

use super::{ChunkId, ChunkSet, CollectionKey, Generation, IndexError, ScoredChunk};

/// What is kept of a chunk.
#[derive(Debug, Clone, Copy)]
pub struct VectorEntry<'a> {
    /// Which chunk.
    pub chunk: ChunkId,
    /// Where it belongs.
    pub collection: CollectionKey,
    /// Its vector, of length one.
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
    fn len(&self) -> usize;

    /// Whether there are none.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// What the vectors of a collection take on disk, in bytes, as of the last commit.
    fn stored_bytes(&self, collection: CollectionKey) -> u64;
}

/// Changes. What was changed is found at once, and is kept once it is committed.
pub trait VectorWrite: VectorRead {
    /// Adds chunks; a chunk that is there already gets the new vector.
    fn add(&self, entries: &[VectorEntry<'_>]) -> Result<(), IndexError>;

    /// Removes chunks of one collection; those that are not there do not matter.
    fn remove(&self, collection: CollectionKey, chunks: &[ChunkId]) -> Result<(), IndexError>;

    /// Removes a collection and frees its disk space at the next commit.
    fn remove_collection(&self, collection: CollectionKey) -> Result<(), IndexError>;

    /// The collections it has something of.
    fn collections(&self) -> Vec<CollectionKey>;

    /// The chunks it holds of a collection, ascending, to compare with the truth.
    fn contents(&self, collection: CollectionKey) -> Result<Vec<ChunkId>, IndexError>;

    /// What the last commit had seen; none if there was none.
    fn generation(&self) -> Option<Generation>;

    /// Makes everything so far durable, atomically, and notes which generation of the truth that is.
    fn commit(&self, generation: Generation) -> Result<(), IndexError>;
}
