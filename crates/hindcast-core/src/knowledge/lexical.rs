//! The seam to whatever finds words.

use super::{ChunkId, ChunkSet, CollectionKey, Generation, IndexError, Language, ScoredChunk};

/// What is indexed of a chunk.
#[derive(Debug, Clone, Copy)]
pub struct LexicalEntry<'a> {
    /// Which chunk.
    pub chunk: ChunkId,
    /// Where it belongs.
    pub collection: CollectionKey,
    /// The document's title and the headings that lead to the chunk.
    pub headings: &'a str,
    /// The chunk itself.
    pub text: &'a str,
    /// Whether it is source code: identifiers are then found by their parts too.
    pub is_code: bool,
    /// What it is written in, which decides how its words are stemmed; English where that is not known.
    pub language: Option<Language>,
}

/// Finds. Many may search at once, also while somebody writes.
pub trait LexicalRead: Send + Sync {
    /// The chunks that have the query's words, best first. Any text is a query; there is no syntax to get wrong. `within`
    /// narrows to these collections and `only` to these chunks, before the best are chosen; none means all.
    ///
    /// A score is BM25 as a share of what a chunk could have at most for this query, so 0..1 and comparable between
    /// queries: words that nothing has make every score low.
    fn search(
        &self,
        query: &str,
        within: Option<&[CollectionKey]>,
        only: Option<&ChunkSet>,
        limit: usize,
    ) -> Result<Vec<ScoredChunk>, IndexError>;

    /// Whether a query has a word that tells one text from another, and not only words such as `the` and `of`.
    fn is_telling(&self, query: &str) -> bool;

    /// The language that the query's small words are of, among those that chunks are written in. English where they tell
    /// nothing.
    fn language_of(&self, query: &str) -> Language;

    /// How many chunks there are.
    fn len(&self) -> usize;

    /// Whether there are none.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// Changes. What was changed is found and kept once it is committed.
pub trait LexicalWrite: LexicalRead {
    /// Begins a run of changes, of which there is one at a time. If the index loses its files before the run is committed, the commit
    /// fails with `Corrupt`: the changes alone would look like everything.
    fn begin(&self);

    /// Adds chunks; a chunk that is there already is replaced.
    fn add(&self, entries: &[LexicalEntry<'_>]) -> Result<(), IndexError>;

    /// Removes chunks; those that are not there do not matter.
    fn remove(&self, chunks: &[ChunkId]) -> Result<(), IndexError>;

    /// Removes a collection.
    fn remove_collection(&self, collection: CollectionKey) -> Result<(), IndexError>;

    /// The collections it has something of.
    fn collections(&self) -> Result<Vec<CollectionKey>, IndexError>;

    /// The committed chunks of a collection, ascending, to compare with the truth.
    fn contents(&self, collection: CollectionKey) -> Result<Vec<ChunkId>, IndexError>;

    /// What the last commit had seen; none if there was none.
    fn generation(&self) -> Option<Generation>;

    /// Makes everything so far durable and found, atomically, and notes which generation of the truth that is.
    fn commit(&self, generation: Generation) -> Result<(), IndexError>;
}
