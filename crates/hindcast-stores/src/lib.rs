//! Stores behind the seams of `hindcast-core`.

mod embed;
mod grants;
mod instants;
mod knowledge_transfer;
mod lexical;
mod ollama;
mod openai;
mod postgres;
mod qdrant;
mod served;
mod sqlite;
mod tls;
mod transfer;
mod vectors;
mod web;

pub use embed::{
    CrossEncoder, MINI_LM, ModelShelf, ModelSource, OFFERED, OfferedModel, PullError, Pulled,
    SentenceEncoder, pull_model, pull_named,
};
pub use knowledge_transfer::{
    Cell, Cells, Counters, Kind, MovableKnowledge, MovedKnowledge, Standing, Table, transfer_knowledge,
};
pub use lexical::LexicalIndex;
pub use ollama::Ollama;
pub use openai::OpenAi;
pub use postgres::{PostgresFound, PostgresKnowledge, PostgresSettings, PostgresStore, StoreTally};
pub use qdrant::{Qdrant, QdrantFound, QdrantSettings};
pub use sqlite::{KnowledgeFile, MovedCollection, SqliteKnowledge, SqliteStore};
pub use transfer::{KeyCount, MovableStore, Moved, TransferError, transfer};
pub use vectors::VectorIndex;
pub use web::WebClient;

#[cfg(test)]
mod store_tests;
#[cfg(test)]
mod vector_tests;
