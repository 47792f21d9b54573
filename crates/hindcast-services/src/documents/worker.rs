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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::FailureKind;

    struct Desk {
        folder: tempfile::TempDir,
        worker: Worker,
    }

    impl Desk {
        /// A schema that includes another one, and a document that conforms.
        fn new() -> Self {
            let desk = Self { folder: tempfile::tempdir().unwrap(), worker: Worker::default() };
            desk.write_schema(
                "order.xsd",
                "<xs:include schemaLocation='types.xsd'/><xs:element name='r' type='t'/>",
            );
            desk.write_type("xs:int");
            desk.write("order.xml", "<r>7</r>");
            desk
        }

        fn write(&self, name: &str, text: &str) {
            std::fs::write(self.folder.path().join(name), text).unwrap();
        }

        fn write_schema(&self, name: &str, inside: &str) {
            let schema =
                format!("<xs:schema xmlns:xs='http://www.w3.org/2001/XMLSchema'>{inside}</xs:schema>");
            self.write(name, &schema);
        }

        fn write_type(&self, base: &str) {
            let inside = format!("<xs:simpleType name='t'><xs:restriction base='{base}'/></xs:simpleType>");
            self.write_schema("types.xsd", &inside);
        }

        fn run(&mut self, schema: &str) -> Reply {
            let files = FilePolicy { folders: vec![self.folder.path().to_owned()], max_bytes: 8 << 20 };
            let (document, schema) = ("order.xml".into(), schema.into());
            self.worker.run(&Task { document, schema, limit: 10, files })
        }
    }

    #[test]
    fn a_schema_is_compiled_once_until_one_of_its_files_changes() {
        let mut desk = Desk::new();
        for was_cached in [false, true, true] {
            let done = desk.run("order.xsd").unwrap();
            assert_eq!((done.schema_was_cached, done.verdict.total), (was_cached, 0));
            assert_eq!(done.sources.len(), 3, "both schemas and the document: {:?}", done.sources);
        }
        desk.write_type("xs:boolean");
        let done = desk.run("order.xsd").unwrap();
        assert_eq!((done.schema_was_cached, done.verdict.total), (false, 1));
        assert_eq!((done.held.len(), done.held[0].hits), (1, 0));
    }

    #[test]
    fn a_schema_that_cannot_be_compiled_any_more_is_not_kept() {
        let mut desk = Desk::new();
        desk.run("order.xsd").unwrap();
        desk.write("types.xsd", "<broken");
        let failure = desk.run("order.xsd").unwrap_err();
        assert_eq!(failure.kind, FailureKind::InvalidInput);
        assert!(desk.worker.schemas.is_empty());
        desk.write_type("xs:int");
        assert_eq!(desk.run("order.xsd").unwrap().verdict.total, 0);
    }

    #[test]
    fn compiled_schemas_are_bounded() {
        let mut desk = Desk::new();
        // A schema counts ten times its text.
        let filler = format!("<!--{}-->", "x".repeat(1 << 20));
        let mut held = Vec::new();
        for number in 0..8 {
            let name = format!("{number}.xsd");
            desk.write_schema(&name, &format!("{filler}<xs:element name='r' type='xs:int'/>"));
            held = desk.run(&name).unwrap().held;
            let bytes: usize = held.iter().map(|schema| schema.bytes).sum();
            assert!(bytes <= SCHEMA_BYTES || held.len() == 1, "{bytes}");
        }
        assert!(held.len() < 8, "none was given up: {held:?}");
        assert!(held.last().unwrap().path.ends_with("7.xsd"));
    }
}
