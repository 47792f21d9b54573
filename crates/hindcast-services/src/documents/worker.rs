//! What a worker process does: it holds documents against schemas.
//!
//! Schemas are programs of a kind. Patterns, content models and assertions can be written to run for ever, so they run in
//! a process that can be ended. Compiled schemas live there, too.

use std::{path::PathBuf, sync::Arc};

use hindcast_xml::schema::{Schema, SchemaFiles, Verdict};
use serde::{Deserialize, Serialize};

use super::{
    files::{FilePolicy, FileStamp},
    load_document, not_valid_schema,
};
use crate::Failure;

/// A document, a schema, and what may be read for them.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Task {
    /// The document's file.
    pub document: String,
    /// The schema's file.
    pub schema: String,
    /// How many violations are told.
    pub limit: usize,
    /// What may be read.
    pub files: FilePolicy,
}

/// The verdict, and on what it rests.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Done {
    /// The verdict.
    pub verdict: Verdict,
    /// The document's file.
    pub document: PathBuf,
    /// `1.0` or `1.1`.
    pub version: String,
    /// Whether the schema had been compiled before.
    pub schema_was_cached: bool,
    /// Every file that was read, as it was then.
    pub sources: Vec<(PathBuf, FileStamp)>,
    /// All schemas that the worker holds.
    pub held: Vec<HeldSchema>,
}

/// A compiled schema in a worker.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct HeldSchema {
    /// The file.
    pub path: PathBuf,
    /// `1.0` or `1.1`.
    pub version: String,
    /// About the memory it takes.
    pub bytes: usize,
    /// How often it was used after it had been compiled.
    pub hits: u64,
}

/// The answer to a task.
pub type Reply = Result<Box<Done>, Failure>;

/// What a worker keeps between tasks.
#[derive(Default)]
pub struct Worker {
    schemas: Vec<CompiledSchema>,
}

struct CompiledSchema {
    path: PathBuf,
    schema: Schema,
    sources: Vec<(PathBuf, FileStamp)>,
    files: FilePolicy,
    hits: u64,
}

/// Schemas are kept up to this size all together.
const SCHEMA_BYTES: usize = 64 << 20;

impl Worker {
    /// Does a task.
    pub fn run(&mut self, task: &Task) -> Reply {
        let opened = task.files.open(&task.document)?;
        let (path, stamp) = (opened.path.clone(), opened.stamp.clone());
        let document = load_document(opened, &task.files)?;
        let (index, schema_was_cached) = self.schema(task)?;
        let compiled = &self.schemas[index];
        let verdict = compiled
            .schema
            .validate(&document, task.limit)
            .map_err(|error| not_valid_schema(&task.schema, &error))?;
        let mut sources = compiled.sources.clone();
        sources.push((path.clone(), stamp));
        Ok(Box::new(Done {
            verdict,
            document: path,
            version: compiled.schema.version().to_owned(),
            schema_was_cached,
            sources,
            held: self.held(),
        }))
    }

    /// The schema's place in the list, and whether it was there; the most recently used is last.
    fn schema(&mut self, task: &Task) -> Result<(usize, bool), Failure> {
        let path = task.files.open(&task.schema)?.path;
        let known = self.schemas.iter().position(|known| known.path == path);
        if let Some(mut known) = known.map(|index| self.schemas.remove(index))
            && known.files == task.files
            && known.sources.iter().all(|(path, stamp)| FileStamp::now(path).as_ref() == Some(stamp))
        {
            known.hits += 1;
            self.schemas.push(known);
            return Ok((self.schemas.len() - 1, true));
        }
        let location = path.display().to_string();
        let reader = Arc::new(PolicedFiles { files: task.files.clone() });
        let schema =
            Schema::load(&location, reader).map_err(|error| not_valid_schema(&task.schema, &error))?;
        let mut sources = Vec::new();
        for source in schema.sources() {
            let opened = task.files.open(source)?;
            sources.push((opened.path, opened.stamp));
        }
        self.schemas.push(CompiledSchema { path, schema, sources, files: task.files.clone(), hits: 0 });
        while self.schemas.len() > 1
            && self.schemas.iter().map(|known| known.schema.bytes()).sum::<usize>() > SCHEMA_BYTES
        {
            self.schemas.remove(0);
        }
        Ok((self.schemas.len() - 1, false))
    }

    fn held(&self) -> Vec<HeldSchema> {
        let held = self.schemas.iter().map(|known| HeldSchema {
            path: known.path.clone(),
            version: known.schema.version().to_owned(),
            bytes: known.schema.bytes(),
            hits: known.hits,
        });
        held.collect()
    }
}

/// What a schema includes and imports, read by the same rules as documents.
#[derive(Debug)]
struct PolicedFiles {
    files: FilePolicy,
}

impl SchemaFiles for PolicedFiles {
    fn read(&self, location: &str) -> Result<Vec<u8>, String> {
        let opened = self.files.open(location).map_err(|failure| failure.details)?;
        opened.read(&self.files).map_err(|failure| failure.details)
    }
}
