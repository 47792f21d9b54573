//! Stores behind the seams of `hindcast-core`.

mod embed;
mod lexical;
mod sqlite;
mod vectors;

pub use embed::{MINI_LM, MiniLm, ModelSource, PullError, pull_model};
pub use lexical::LexicalIndex;
pub use sqlite::SqliteStore;
pub use vectors::VectorIndex;
