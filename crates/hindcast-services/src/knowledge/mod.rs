//! What the product does with knowledge.
//!
//! ```text
//! add ─▶ walk ─▶ extraction ─▶ chunks ─▶ vectors ─▶ store (the truth, one transaction a document)
//!                                                      │ generations
//!                                   indexing ◀─────────┤
//!                                   follow ─▶ Events ◀─┘
//! search ─▶ lexical + vectors ─▶ fusion ─▶ store ─▶ hits          ask ─▶ search ─▶ chat model
//! ```

mod add;
mod adding;
mod alike;
mod allowance;
mod answer_numbers;
mod answer_text;
mod ask;
mod byte_lock;
mod collections;
mod documents;
mod embedding;
mod extraction;
mod figures;
mod follow;
pub mod fusion;
mod health;
mod hits;
mod indexing;
mod ingests;
mod installing;
mod intake;
mod issues;
mod lease;
mod meaning;
mod model_probe;
mod models;
mod names;
mod preparing;
pub mod quality;
mod readers;
mod reading;
mod reports;
mod search;
mod selection;
mod settings;
mod sharing;
mod sources;
mod topics;
mod vanishing;
mod walk;
mod watch;
mod weighing;

use std::{
    path::PathBuf,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use hindcast_core::{
    knowledge::{ChatModel, Embedder, KnowledgeStore, Models, VectorWrite, Web},
    time::Clock,
};
use tokio::sync::Notify;

pub use add::{AddReport, AddRequest, FileOutcome, FileReport, Material, SkippedKind};
pub use alike::{Alike, Labelled};
pub use ask::{AskAnswer, AskRequest, Citation};
pub use collections::CollectionView;
pub use documents::ReadDocument;
pub use extraction::{Extractor, answer_extraction};
pub use figures::{Activity, CollectionStats};
pub use health::{ComponentHealth, ComponentStatus, Health, OverallStatus, Synchronization};
pub use hindcast_extract::Format;
pub use indexing::OpenLexical;
pub use ingests::IngestStatus;
pub use issues::{ISSUE_TAG, IssueRequest};
pub use models::{ModelReport, ModelRow};
pub use names::{
    COLLECTIONS_URI, HEALTH_URI, MODELS_URI, ResourceName, document_uri, documents_uri, stats_uri,
};
pub use reading::ReadPolicy;
pub use reports::FileCounts;
pub use search::{FileState, Hit, SearchAnswer, SearchMode, SearchRequest, moment};
pub use settings::{LARGEST_PASSAGE, SMALLEST_PASSAGE, SettingsChange};

use crate::{Events, Failure, FailureKind, gateway::Gateway};
use adding::Additions;
use allowance::Allowance;
use extraction::Deadly;
use indexing::Indexing;
use ingests::Ingests;
use installing::Installing;
use meaning::Meaning;
use model_probe::ModelProbe;
use readers::Readers;
use sharing::Uploading;

/// How long a program that was told to stop waits for its indexes.
const LONGEST_FINISH: Duration = Duration::from_secs(3);

/// What the operator decided about knowledge.
#[derive(Debug, Clone)]
pub struct KnowledgePolicy {
    /// Larger files are refused.
    pub max_file_bytes: u64,
    /// What documents, passages and vectors of a key's owner may take.
    pub owner_bytes: u64,
    /// Where all of it is kept; nothing is taken in where this disk is full.
    pub disk: Option<PathBuf>,
    /// Where files may be read from.
    pub reading: ReadPolicy,
    /// The file by which processes agree who watches a folder, and see that others add documents; without one every process watches.
    pub lock_file: Option<PathBuf>,
    /// Who reads formats that need a parser of their own.
    pub extractor: Extractor,
    /// Whether an Ollama was named: one that was must be there.
    pub ollama_is_expected: bool,
    /// The model that answers when none is named.
    pub chat_model: Option<String>,
    /// Hosts whose pages may be taken in; `*` stands for any beginning.
    pub web_hosts: Vec<String>,
}

/// What the knowledge base is put together from.
pub struct KnowledgeParts {
    /// The truth.
    pub store: Arc<dyn KnowledgeStore>,
    /// Opens what finds words, when that is needed first.
    pub open_lexical: OpenLexical,
    /// Finds near vectors.
    pub vectors: Arc<dyn VectorWrite>,
    /// Makes vectors.
    pub embedder: Arc<dyn Embedder>,
    /// Other models that collections may choose; none where there are no others.
    pub models: Option<Arc<dyn Models>>,
    /// Answers; none where that is switched off.
    pub chat: Option<Arc<dyn ChatModel>>,
    /// Gets pages; none where no host is allowed.
    pub web: Option<Arc<dyn Web>>,
    /// Knows whether a key is still good; without it no folder of a key is watched.
    pub keys: Option<Arc<Gateway>>,
    /// Where changes are announced.
    pub events: Events,
    /// The time.
    pub clock: Arc<dyn Clock>,
    /// What the operator decided.
    pub policy: KnowledgePolicy,
}

/// Collections, documents, search, answers and their figures.
pub struct KnowledgeService {
    store: Arc<dyn KnowledgeStore>,
    embedder: Arc<dyn Embedder>,
    models: Option<Arc<dyn Models>>,
    chat: Option<Arc<dyn ChatModel>>,
    web: Option<Arc<dyn Web>>,
    keys: Option<Arc<Gateway>>,
    events: Events,
    clock: Arc<dyn Clock>,
    policy: KnowledgePolicy,
    indexing: Arc<Indexing>,
    installing: Installing,
    ingests: Ingests,
    additions: Additions,
    readers: Readers,
    allowance: Allowance,
    /// What is not read again.
    deadly: Deadly,
    model_probe: ModelProbe,
    /// Somebody wants to know how the parts do.
    health_wanted: Notify,
    /// Something was written here: whoever follows need not wait for its next look.
    wrote: Notify,
    /// Something was searched or asked here, and the figures of it written down.
    used: Notify,
    /// What is watched may be something else now.
    watches_changed: Notify,
    /// Something was written, maybe what is decided for a collection.
    settings_changed: Notify,
    stopping: Stopping,
}

/// Whether the program is about to end: long work stops at the next safe point.
#[derive(Debug, Clone, Default)]
struct Stopping(Arc<AtomicBool>);

impl Stopping {
    fn set(&self) {
        self.0.store(true, Ordering::SeqCst);
    }

    fn is_set(&self) -> bool {
        self.0.load(Ordering::SeqCst)
    }
}

impl KnowledgeService {
    /// Puts the parts together; nothing is read yet.
    pub fn new(parts: KnowledgeParts) -> Arc<Self> {
        let usual = Meaning::new(parts.embedder.clone(), parts.vectors);
        let indexing =
            Arc::new(Indexing::new(parts.store.clone(), parts.open_lexical, usual, parts.models.clone()));
        Arc::new(Self {
            store: parts.store,
            embedder: parts.embedder,
            models: parts.models,
            chat: parts.chat,
            web: parts.web,
            keys: parts.keys,
            events: parts.events,
            clock: parts.clock,
            indexing,
            installing: Installing::default(),
            ingests: Ingests::default(),
            additions: Additions::in_file(parts.policy.lock_file.as_deref()),
            readers: Readers::default(),
            allowance: Allowance::default(),
            deadly: Deadly::default(),
            model_probe: ModelProbe::default(),
            health_wanted: Notify::new(),
            wrote: Notify::new(),
            used: Notify::new(),
            watches_changed: Notify::new(),
            settings_changed: Notify::new(),
            stopping: Stopping::default(),
            policy: parts.policy,
        })
    }

    /// The model that makes vectors where a collection does not choose another, and how many numbers they have.
    pub fn usual_vectors(&self) -> (String, usize) {
        (self.embedder.model().to_owned(), self.embedder.dimension())
    }

    /// How many numbers the vectors of a model have; none if it cannot be used here.
    pub async fn vector_length(&self, model: &str) -> Result<Option<usize>, Failure> {
        Ok(self.meaning(model).await?.ok().map(|meaning| meaning.embedder.dimension()))
    }

    /// Lets long work stop at the next safe point: the program is about to end. What is taken in file by file stops between two
    /// files, and a second run goes on.
    pub fn stop(&self) {
        self.stopping.set();
    }

    /// Makes what was indexed durable; for when the program ends. A program that was told to stop does not wait for the indexes
    /// to catch up: they do so at the next start.
    pub async fn finish(&self) -> Result<(), Failure> {
        if !self.stopping.is_set() {
            self.ingests.end().await;
            self.indexing.catch_up(Uploading::AtOnce).await?;
            return self.indexing.commit().await;
        }
        let end = async {
            self.ingests.end().await;
            self.indexing.commit().await
        };
        match tokio::time::timeout(LONGEST_FINISH, end).await {
            Ok(committed) => committed,
            Err(_) => {
                tracing::info!("the vectors were not written out; they are read again at the next start");
                Ok(())
            }
        }
    }
}

fn invalid(details: impl Into<String>) -> Failure {
    Failure::new(FailureKind::InvalidInput, details)
}

/// Runs something that computes or waits for files where it holds up nobody.
async fn blocking<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> Result<T, Failure> {
    tokio::task::spawn_blocking(work).await.map_err(|error| {
        Failure::new(FailureKind::Internal, format!("the work ended in a fault: {error}"))
            .hint("report it with the server's log, which has the place")
    })
}

#[cfg(test)]
mod tests;
