//! XML Schema 1.0 and 1.1: a schema is compiled once and documents are held against it.

mod load;
mod names;
mod plain;
mod validate;
mod violation;

use std::sync::Arc;

use thiserror::Error;
use xsd_schema::{SchemaSet, XsdVersion};

use crate::error::Position;
pub use violation::{Verdict, Violation};

/// Where the texts of schemas come from: the schema itself and what it includes, imports and redefines.
pub trait SchemaFiles: Send + Sync + std::fmt::Debug {
    /// The bytes of a file, or why there are none. `location` is a path, or an address that is not one.
    fn read(&self, location: &str) -> Result<Vec<u8>, String>;
}

/// Why there is no verdict.
#[derive(Debug, Clone, PartialEq, Error, serde::Serialize, serde::Deserialize)]
pub enum SchemaError {
    /// The schema is wrong, whatever the document.
    #[error("the schema is not valid: {problem}")]
    Invalid {
        /// What is wrong, with the rule of the standard.
        problem: String,
        /// In which file.
        file: Option<String>,
        /// Where in it.
        position: Option<Position>,
    },
    /// A file that the schema names could not be had.
    #[error("the schema refers to `{location}`: {problem}")]
    Unreachable {
        /// What was named.
        location: String,
        /// Why it is not there.
        problem: String,
    },
    /// The schema or the document is beyond what can be decided.
    #[error("the validation was given up: {0}")]
    GivenUp(String),
}

/// A compiled schema.
pub struct Schema {
    set: SchemaSet,
    plain: Option<plain::Plans>,
    version: XsdVersion,
    sources: Vec<String>,
    source_bytes: usize,
}

impl Schema {
    /// Compiles the schema at `location`, as XML Schema 1.0 or, where it is not one but is 1.1, as 1.1.
    pub fn load(location: &str, files: Arc<dyn SchemaFiles>) -> Result<Self, SchemaError> {
        load::load(location, files)
    }

    /// `1.0` or `1.1`.
    pub fn version(&self) -> &'static str {
        if self.version == XsdVersion::V1_1 { "1.1" } else { "1.0" }
    }

    /// Every file that was read for it.
    pub fn sources(&self) -> &[String] {
        &self.sources
    }

    /// About how many bytes it takes: a component takes some ten times its text.
    pub fn bytes(&self) -> usize {
        self.source_bytes * 10 + self.set.name_table.heap_bytes()
    }
}

impl std::fmt::Debug for Schema {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Schema").field("version", &self.version()).field("sources", &self.sources).finish()
    }
}
