//! Stores behind the seams of `hindcast-core`.

mod embed;
mod lexical;
mod ollama;
mod sqlite;
mod tls;
mod vectors;

pub use embed::{MINI_LM, MiniLm, ModelSource, PullError, pull_model};
pub use lexical::LexicalIndex;
pub use ollama::Ollama;
pub use sqlite::{SqliteKnowledge, SqliteStore};
pub use vectors::VectorIndex;
