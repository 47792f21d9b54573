//! XML documents: read once, asked often, held against schemas.
//!
//! Documents and queries live in the server: the reader and the query engine are our own, bounded in all they do, and a
//! document that is there already is asked without a detour. Schemas run in worker processes ([`worker`]).

mod cache;
mod files;
mod pool;
mod query;
mod verdicts;
pub mod worker;

use std::{
    collections::{HashMap, HashSet},
    path::PathBuf,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use hindcast_core::{Timestamp, identity::PrincipalId, time::Clock};
use hindcast_xml::{Document, Limits, XmlError, schema::SchemaError};

use crate::{Failure, FailureKind};
pub use cache::{CachedDocument, Counts};
use cache::{DocumentCache, Fetched};
use files::Opened;
pub use files::{FilePolicy, FileStamp};
pub(crate) use files::{lexically, opened_path};
pub use hindcast_xml::schema::{Verdict, Violation};
use pool::WorkerPool;
pub use pool::{Assignment, OUT_OF_MEMORY, OUT_OF_TIME, WorkerCommand};
pub use query::{FoundNode, QueryAnswer, QueryRequest, QueryValue};
use verdicts::VerdictCache;
use worker::{HeldSchema, Task};

/// What the operator allows.
#[derive(Debug, Clone)]
pub struct DocumentPolicy {
    /// What may be read.
    pub files: FilePolicy,
    /// Memory for documents that have been read.
    pub cache_bytes: usize,
    /// How long a query may take.
    pub query_time: Duration,
    /// How schemas are run.
    pub worker: WorkerCommand,
}

/// The documents.
pub struct DocumentService {
    files: FilePolicy,
    query_time: Duration,
    cache: Arc<DocumentCache>,
    verdicts: VerdictCache,
    workers: WorkerPool,
    /// The schemas that each reader has used.
    schemas_of: Mutex<HashMap<PrincipalId, HashSet<PathBuf>>>,
    clock: Arc<dyn Clock>,
}

/// What became of a document that was to be read ahead.
#[derive(Debug)]
pub struct Preloaded {
    /// As it was asked for.
    pub document: String,
    /// Its id, size, nodes and whether it was there already; or why it could not be read.
    pub outcome: Result<PreloadedDocument, Failure>,
}

/// A document that was read ahead.
#[derive(Debug)]
pub struct PreloadedDocument {
    /// What queries also take for the path.
    pub id: String,
    /// The memory it takes.
    pub bytes: usize,
    /// Its nodes, attributes apart.
    pub nodes: usize,
    /// Whether it was there already.
    pub was_cached: bool,
}

/// What the caches hold and how well they do.
#[derive(Debug)]
pub struct CacheContents {
    /// The counts of documents.
    pub counts: Counts,
    /// Memory that documents may take.
    pub max_bytes: usize,
    /// The documents, the most recently used first.
    pub documents: Vec<CachedDocument>,
    /// Compiled schemas, in the workers.
    pub schemas: Vec<HeldSchema>,
    /// Verdicts that are kept, and how often one was asked for again.
    pub verdicts: (usize, u64),
    /// Now, to tell ages.
    pub now: Timestamp,
}

/// A verdict, and what it is about.
#[derive(Debug, Clone)]
pub struct Validation {
    /// The verdict.
    pub verdict: Verdict,
    /// The version of XML Schema.
    pub schema_version: String,
    /// Whether the same files had been judged before.
    pub was_cached: bool,
}

impl DocumentService {
    /// Nothing is read yet, no worker runs.
    pub fn new(policy: DocumentPolicy, clock: Arc<dyn Clock>) -> Self {
        Self {
            files: policy.files,
            query_time: policy.query_time,
            cache: Arc::new(DocumentCache::new(policy.cache_bytes)),
            verdicts: VerdictCache::default(),
            workers: WorkerPool::new(policy.worker),
            schemas_of: Mutex::default(),
            clock,
        }
    }

    /// Asks a document.
    pub async fn query(&self, reader: &PrincipalId, request: QueryRequest) -> Result<QueryAnswer, Failure> {
        let reader = reader.clone();
        let (files, cache, now, time) =
            (self.files.clone(), self.cache.clone(), self.clock.now(), self.query_time);
        blocking(move || {
            // A query that is wrong is told so before anything is read.
            let query = request.parse()?;
            let fetched = fetch(&files, &cache, &reader, &request.document, now)?;
            query::answer(&request, &query, &fetched, time)
        })
        .await
    }

    /// Validates a document against a schema; returns the first `limit` violations.
    pub async fn validate(
        &self,
        reader: &PrincipalId,
        document: &str,
        schema: &str,
        limit: usize,
    ) -> Result<Validation, Failure> {
        let (files, cache) = (self.files.clone(), self.cache.clone());
        let names = (document.to_owned(), schema.to_owned());
        let (document, schema, bytes) = blocking(move || {
            let document = files.open(&named(&cache, &names.0))?;
            let schema = files.open(&names.1)?;
            Ok((document.path, schema.path, document.stamp.size()))
        })
        .await?;
        self.schemas_of().entry(reader.clone()).or_default().insert(schema.clone());
        if let Some(known) = self.verdicts.find(&document, &schema, limit) {
            return Ok(known);
        }
        let task = Task {
            document: document.display().to_string(),
            schema: schema.display().to_string(),
            limit,
            files: self.files.clone(),
        };
        let done = *self.workers.run(task, bytes).await?;
        let validation =
            Validation { verdict: done.verdict, schema_version: done.version, was_cached: false };
        self.verdicts.keep(document, schema, limit, done.sources, validation.clone());
        Ok(validation)
    }

    /// Reads documents ahead.
    pub async fn preload(
        &self,
        reader: &PrincipalId,
        documents: Vec<String>,
    ) -> Result<Vec<Preloaded>, Failure> {
        let reader = reader.clone();
        let (files, cache, now) = (self.files.clone(), self.cache.clone(), self.clock.now());
        blocking(move || {
            let preload = |document: String| {
                let outcome =
                    fetch(&files, &cache, &reader, &document, now).map(|fetched| PreloadedDocument {
                        bytes: fetched.document.bytes(),
                        nodes: fetched.document.node_count(),
                        was_cached: fetched.was_cached,
                        id: fetched.id,
                    });
                Preloaded { document, outcome }
            };
            Ok(documents.into_iter().map(preload).collect())
        })
        .await
    }

    /// What the caches hold that this reader has used; without a reader, all.
    pub fn contents(&self, reader: Option<&PrincipalId>) -> CacheContents {
        let (counts, documents) = self.cache.contents(reader);
        let mut schemas = self.workers.held();
        if let Some(reader) = reader {
            let schemas_of = self.schemas_of();
            let used = schemas_of.get(reader);
            schemas.retain(|schema| used.is_some_and(|used| used.contains(&schema.path)));
        }
        CacheContents {
            counts,
            max_bytes: self.cache.max_bytes(),
            documents,
            schemas,
            verdicts: self.verdicts.counts(),
            now: self.clock.now(),
        }
    }

    fn schemas_of(&self) -> MutexGuard<'_, HashMap<PrincipalId, HashSet<PathBuf>>> {
        self.schemas_of.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Reading and asking block; that is done where blocking is no harm.
async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, Failure> + Send + 'static,
) -> Result<T, Failure> {
    tokio::task::spawn_blocking(work).await.unwrap_or_else(|error| {
        Err(Failure::new(FailureKind::Internal, format!("the call ended in a fault of the server: {error}"))
            .hint("report it with the server's log, which has the place"))
    })
}

/// The path that a caller means, who may have given an id.
fn named(cache: &DocumentCache, name: &str) -> String {
    cache.path_of(name).map_or_else(|| name.to_owned(), |path| path.display().to_string())
}

fn fetch(
    files: &FilePolicy,
    cache: &DocumentCache,
    reader: &PrincipalId,
    name: &str,
    now: Timestamp,
) -> Result<Fetched, Failure> {
    let opened = files.open(&named(cache, name))?;
    let (path, stamp) = (opened.path.clone(), opened.stamp.clone());
    cache.fetch(reader, &path, &stamp, now, || load_document(opened, files))
}

/// Reads a file as a document.
fn load_document(opened: Opened, files: &FilePolicy) -> Result<Document, Failure> {
    let path = opened.path.display().to_string();
    let bytes = opened.read(files)?;
    let document = hindcast_xml::decode(bytes).and_then(|text| hindcast_xml::read(text, &Limits::default()));
    document.map_err(|error| {
        let failure =
            Failure::new(FailureKind::InvalidInput, format!("`{path}` is not well-formed XML: {error}"));
        let (failure, position) = match &error {
            XmlError::NotWellFormed { position, .. } => {
                (failure.hint("mend the document at the line and column named"), Some(*position))
            }
            XmlError::Encoding(_) => {
                (failure.hint("save the document in the encoding that it declares"), None)
            }
            XmlError::Limit { position, .. } => (
                Failure::new(FailureKind::InvalidInput, format!("`{path}` is not read: {error}")).hint(
                    "documents are read only within limits of depth, size and entities; split or flatten it",
                ),
                Some(*position),
            ),
        };
        let failure = failure.fact("document", path.clone());
        match position {
            Some(position) => failure.fact("line", position.line).fact("column", position.column),
            None => failure,
        }
    })
}

/// A schema that is itself wrong is not the document's fault.
fn not_valid_schema(schema: &str, error: &SchemaError) -> Failure {
    let failure =
        Failure::new(FailureKind::InvalidInput, format!("`{schema}`: {error}")).fact("schema", schema);
    match error {
        SchemaError::Invalid { file, position, .. } => {
            let failure = failure.hint("mend the schema; the document was not judged");
            let failure = match file {
                Some(file) => failure.fact("file", file.clone()),
                None => failure,
            };
            match position {
                Some(position) => failure.fact("line", position.line).fact("column", position.column),
                None => failure,
            }
        }
        SchemaError::Unreachable { location, .. } => failure
            .hint("put the file where the schema says, below an allowed folder; nothing is read from the network")
            .fact("file", location.clone()),
        SchemaError::GivenUp(_) => failure.hint("simplify the schema; the document was not judged"),
    }
}
