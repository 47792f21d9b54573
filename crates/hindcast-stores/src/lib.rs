//! Stores behind the seams of `hindcast-core`.

mod sqlite;

pub use sqlite::{SqliteKnowledge, SqliteStore};
