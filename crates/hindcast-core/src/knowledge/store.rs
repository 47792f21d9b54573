//! The seams to the truth of the knowledge base. Their verbs are whole transactions.

use std::ops::Range;

use async_trait::async_trait;
use jiff::Timestamp;

use super::{
    AnswerFigures, AnswerRecord, ChunkId, ChunkSet, Collection, CollectionKey, CollectionSettings, Document,
    DocumentFilter, DocumentKey, DocumentVersion, FoundChunk, Generation, Language, ModelFigures,
    NewDocument, NewVector, NewWatch, Ownership, QueryFigures, QueryRecord, TextHash, Turn, Used, Watch,
};
use crate::{identity::PrincipalId, store::StoreError};

/// Collections and documents.
#[async_trait]
pub trait Catalogue: Send + Sync {
    /// Makes a collection, or gives the one that has this owner and id already.
    async fn open_collection(
        &self,
        ownership: Ownership,
        maker: PrincipalId,
        id: String,
        name: String,
        now: Timestamp,
    ) -> Result<Collection, StoreError>;

    /// What `principal` sees: its own and the shared ones, oldest first; everybody's without a principal.
    async fn collections(&self, principal: Option<PrincipalId>) -> Result<Vec<Collection>, StoreError>;

    /// Gives a collection another id and name.
    async fn rename_collection(
        &self,
        key: CollectionKey,
        id: String,
        name: String,
        now: Timestamp,
    ) -> Result<(), StoreError>;

    /// Decides something for a collection. With another language its chunks are indexed again; the vectors that are there
    /// answer until others are complete.
    async fn change_settings(
        &self,
        key: CollectionKey,
        settings: CollectionSettings,
    ) -> Result<(), StoreError>;

    /// Removes a collection with everything in it, and gives its space back to the disk.
    async fn remove_collection(&self, key: CollectionKey) -> Result<(), StoreError>;

    /// Removes a collection that has no document and no watch, in one transaction with that check: another process may put
    /// something in meanwhile. Returns whether it was removed.
    async fn remove_unused_collection(&self, key: CollectionKey) -> Result<bool, StoreError>;

    /// Notes that a collection was looked at.
    async fn touch_collection(&self, key: CollectionKey, now: Timestamp) -> Result<(), StoreError>;

    /// The documents of a collection, oldest first.
    async fn documents(&self, collection: CollectionKey) -> Result<Vec<Document>, StoreError>;

    /// Some of them, by where they stand in that order. There may be a million.
    async fn some_documents(
        &self,
        collection: CollectionKey,
        wanted: Range<usize>,
    ) -> Result<Vec<Document>, StoreError>;

    /// One document by its id.
    async fn find_document(
        &self,
        collection: CollectionKey,
        id: &str,
    ) -> Result<Option<Document>, StoreError>;

    /// The text of a document as it is served.
    async fn document_text(&self, document: DocumentKey) -> Result<String, StoreError>;

    /// The document that was made from the file at `path`.
    async fn document_at(
        &self,
        collection: CollectionKey,
        path: &str,
    ) -> Result<Option<Document>, StoreError>;

    /// The documents that were made from the file at `path` or from files below it.
    async fn documents_below(
        &self,
        collection: CollectionKey,
        path: &str,
    ) -> Result<Vec<Document>, StoreError>;

    /// The same in the order of their paths: at most `limit`, from the first path behind `after` on. There may be a million.
    async fn some_documents_below(
        &self,
        collection: CollectionKey,
        path: &str,
        after: &str,
        limit: usize,
    ) -> Result<Vec<Document>, StoreError>;

    /// The documents of files whose content hashes to `hash`.
    async fn documents_of_content(
        &self,
        collection: CollectionKey,
        hash: TextHash,
    ) -> Result<Vec<Document>, StoreError>;

    /// Keeps a document, whole. A document made from a file is identified by its path, another by its id. Chunks that were there
    /// keep their ids and vectors.
    ///
    /// Fails with [`StoreError::CollectionGone`] when the collection is gone, and with [`StoreError::Changed`] when what is there is
    /// not what the document says it replaces: then look again.
    async fn keep_document(&self, document: NewDocument) -> Result<Document, StoreError>;

    /// Gives a document tags besides those it has. Does nothing when it is gone.
    async fn add_tags(&self, document: DocumentKey, tags: Vec<String>) -> Result<(), StoreError>;

    /// Notes that a document's file was touched but says the same. Does nothing when the document has changed meanwhile.
    async fn refresh_source(&self, document: DocumentVersion, modified: i64) -> Result<(), StoreError>;

    /// Removes a document with all its chunks, and gives its space back to the disk.
    async fn remove_document(&self, document: DocumentKey, now: Timestamp) -> Result<(), StoreError>;

    /// Removes those of the documents that have not changed meanwhile; returns which these were.
    async fn remove_unchanged(
        &self,
        documents: Vec<DocumentVersion>,
        now: Timestamp,
    ) -> Result<Vec<DocumentKey>, StoreError>;

    /// What is watched.
    async fn watches(&self) -> Result<Vec<Watch>, StoreError>;

    /// Watches a file or folder from now on. The local user's grant stays when a key gives the same folder.
    async fn watch(&self, watch: NewWatch) -> Result<(), StoreError>;

    /// Watches a file or folder of a collection no more, or nothing of it without a path. Returns the paths.
    async fn unwatch(
        &self,
        collection: CollectionKey,
        path: Option<String>,
    ) -> Result<Vec<String>, StoreError>;

    /// What the truth takes on disk, in bytes.
    async fn size(&self) -> Result<u64, StoreError>;
}

/// One thing that happened to the truth.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ChangeRecord {
    /// The generation it made.
    pub generation: Generation,
    /// Whose collection it was in.
    pub ownership: Ownership,
    /// The collection's id.
    pub collection: String,
    /// The document's id; none when the collection itself came, went or was renamed.
    pub document: Option<String>,
    /// Whether a document or collection came or went: lists differ then.
    pub is_membership: bool,
}

/// A chunk as indexes need it.
#[derive(Debug, Clone, PartialEq)]
pub struct IndexedChunk {
    /// Which chunk.
    pub chunk: ChunkId,
    /// Where it belongs.
    pub collection: CollectionKey,
    /// The document's title and the headings that lead to the chunk.
    pub headings: String,
    /// Its text.
    pub text: String,
    /// Whether it is source code.
    pub is_code: bool,
    /// What its document is written in, where that is known.
    pub language: Option<Language>,
}

/// What an index has to take over.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ChunkChanges {
    /// Chunks, or their vectors, that came since.
    pub added: Vec<(CollectionKey, ChunkId)>,
    /// Chunks that went since; some of them may have come since, too.
    pub removed: Vec<(CollectionKey, ChunkId)>,
}

/// Chunks and vectors, as derived indexes follow them.
#[async_trait]
pub trait ChunkSource: Send + Sync {
    /// How often the truth has changed, also by other processes.
    async fn generation(&self) -> Result<Generation, StoreError>;

    /// Waits until another process may have changed or used something. Returns within a second in any case, so whoever looks
    /// after each wait misses nothing, also where a store cannot tell.
    async fn await_news(&self);

    /// What happened after `generation`, oldest first; what is long past is forgotten.
    async fn changes(&self, after: Generation) -> Result<Vec<ChangeRecord>, StoreError>;

    /// Which chunks came and went after `generation`; none when that is too long ago to tell.
    async fn chunk_changes(&self, after: Generation) -> Result<Option<ChunkChanges>, StoreError>;

    /// Which vectors of a model came, and which chunks went, after `generation`.
    async fn vector_changes(
        &self,
        model: &str,
        after: Generation,
    ) -> Result<Option<ChunkChanges>, StoreError>;

    /// Every collection's key.
    async fn collection_keys(&self) -> Result<Vec<CollectionKey>, StoreError>;

    /// The chunks of a collection, ascending.
    async fn chunk_ids(&self, collection: CollectionKey) -> Result<Vec<ChunkId>, StoreError>;

    /// The chunks of a collection that have a vector of this model, ascending.
    async fn vector_ids(&self, collection: CollectionKey, model: &str) -> Result<Vec<ChunkId>, StoreError>;

    /// These chunks for an index; those that are gone are left out.
    async fn indexed_chunks(&self, chunks: &[ChunkId]) -> Result<Vec<IndexedChunk>, StoreError>;

    /// The vectors of these chunks; those without are left out.
    async fn vectors(
        &self,
        model: &str,
        chunks: &[ChunkId],
    ) -> Result<Vec<(CollectionKey, ChunkId, Vec<f32>)>, StoreError>;

    /// These chunks with all that a hit tells; those that are gone are left out.
    async fn found_chunks(&self, chunks: &[ChunkId]) -> Result<Vec<FoundChunk>, StoreError>;

    /// The texts of up to `count` chunks before and after one in its document, in order; nothing when it is gone.
    async fn neighbours(
        &self,
        chunk: ChunkId,
        count: usize,
    ) -> Result<(Vec<String>, Vec<String>), StoreError>;

    /// The chunks of the documents of these collections that the filter lets through.
    async fn filtered_chunks(
        &self,
        collections: &[CollectionKey],
        filter: &DocumentFilter,
    ) -> Result<ChunkSet, StoreError>;

    /// The chunks of a document that have a vector of this model already, by what they hash to.
    async fn embedded_hashes(&self, document: DocumentKey, model: &str) -> Result<Vec<TextHash>, StoreError>;

    /// The vectors that chunks of this collection with these hashes have already, in any document: what says the same needs one
    /// vector. Never those of another collection, which may have been imported with vectors that nobody can check.
    async fn vectors_of(
        &self,
        collection: CollectionKey,
        model: &str,
        hashes: Vec<TextHash>,
    ) -> Result<Vec<(TextHash, Vec<f32>)>, StoreError>;

    /// Up to `limit` chunks of a document that have no vector of this model, in order.
    async fn document_without_vector(
        &self,
        document: DocumentKey,
        model: &str,
        limit: usize,
    ) -> Result<Vec<IndexedChunk>, StoreError>;

    /// Up to `limit` chunks of a collection that have no vector of this model.
    async fn without_vector(
        &self,
        collection: CollectionKey,
        model: &str,
        limit: usize,
    ) -> Result<Vec<IndexedChunk>, StoreError>;

    /// Keeps vectors that were made later; of chunks that have gone meanwhile, none.
    async fn keep_vectors(&self, vectors: Vec<(ChunkId, NewVector)>) -> Result<(), StoreError>;

    /// Lets the vectors of this model answer for a collection, and forgets those of every other, once its are complete.
    async fn retire_other_models(&self, collection: CollectionKey, model: &str) -> Result<(), StoreError>;

    /// What the vectors of a collection take, how many of its chunks have none of this model, and how many bytes its chunks
    /// and kept documents have.
    async fn storage(&self, collection: CollectionKey, model: &str) -> Result<Storage, StoreError>;
}

/// What a collection takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Storage {
    /// Bytes of its vectors.
    pub vector_bytes: u64,
    /// Bytes of its chunks.
    pub chunk_bytes: u64,
    /// Bytes of the documents as they came.
    pub original_bytes: u64,
    /// The texts that were made of originals which are no text.
    pub text_bytes: u64,
    /// Bytes of the documents as they are kept.
    pub stored_bytes: u64,
    /// Chunks without a vector of the model.
    pub missing_vectors: u64,
}

/// Queries, conversations and models.
#[async_trait]
pub trait UsageLog: Send + Sync {
    /// Keeps a query, and notes that its collections were looked at.
    async fn record_query(&self, query: QueryRecord) -> Result<(), StoreError>;

    /// The queries that touched a collection; recent means from `since` on.
    async fn query_figures(
        &self,
        collection: CollectionKey,
        since: Timestamp,
    ) -> Result<QueryFigures, StoreError>;

    /// How often each collection was queried from `since` on.
    async fn recent_queries(&self, since: Timestamp) -> Result<Vec<(CollectionKey, u64)>, StoreError>;

    /// Keeps a question to a model and its answer, if any.
    async fn record_answer(&self, answer: AnswerRecord) -> Result<(), StoreError>;

    /// The answered turns of a conversation, oldest first; none when `owner` has no such conversation.
    async fn conversation(&self, id: &str, owner: &PrincipalId) -> Result<Option<Vec<Turn>>, StoreError>;

    /// What was used after `position`, by any process; none when nothing was.
    async fn used_since(&self, position: u64) -> Result<Option<Used>, StoreError>;

    /// How each model did for `owner`, ever.
    async fn model_figures(&self, owner: &PrincipalId) -> Result<Vec<ModelFigures>, StoreError>;

    /// How answering `owner` went from `since` on, with the errors from `errors_since` on.
    async fn answer_figures(
        &self,
        owner: &PrincipalId,
        since: Timestamp,
        errors_since: Timestamp,
    ) -> Result<AnswerFigures, StoreError>;
}

/// The whole truth.
pub trait KnowledgeStore: Catalogue + ChunkSource + UsageLog {}

impl<T: Catalogue + ChunkSource + UsageLog> KnowledgeStore for T {}
