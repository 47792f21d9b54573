//! What can be wrong with a document.

use thiserror::Error;

/// A place in a document's text.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Position {
    /// The line, from 1.
    pub line: u32,
    /// The character in the line, from 1.
    pub column: u32,
}

/// Why a document could not be read.
#[derive(Debug, Clone, PartialEq, Error)]
pub enum XmlError {
    /// The text is not XML.
    #[error("line {}, column {}: {problem}", position.line, position.column)]
    NotWellFormed {
        /// What is wrong.
        problem: String,
        /// Where.
        position: Position,
    },
    /// The bytes are not text in the encoding they claim.
    #[error("{0}")]
    Encoding(String),
    /// The document is beyond what is read.
    #[error("line {}, column {}: {problem}", position.line, position.column)]
    Limit {
        /// Which limit.
        problem: String,
        /// Where it was passed.
        position: Position,
    },
}
