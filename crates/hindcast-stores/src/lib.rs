//! Stores behind the seams of `hindcast-core`.

mod embed;
mod lexical;
mod ollama;
mod openai;
mod sqlite;
mod tls;
mod vectors;

pub use embed::{MINI_LM, MiniLm, ModelSource, PullError, pull_model};
pub use lexical::LexicalIndex;
pub use ollama::Ollama;
pub use openai::OpenAi;
pub use sqlite::{MovedCollection, SqliteKnowledge, SqliteStore};
pub use vectors::VectorIndex;
