//! The memory of failures: what was found out about one is kept, and found again when another is like it.
//!
//! ```text
//! crash ─▶ fingerprint ─┬─▶ document of a collection (save)
//!                       └─▶ likeness ┐
//! text  ─▶ words, meaning ───────────┴─▶ weighing ─▶ findings, issues, commits, passages (similar)
//! ```

mod document;
mod fingerprint;
mod likeness;
mod normal;
mod saving;
mod similar;
mod traces;
mod weighing;

use std::{
    collections::HashMap,
    sync::{Arc, Mutex},
};

use hindcast_core::{
    identity::{Caller, Scope},
    knowledge::{DocumentKey, TextHash},
};

pub use fingerprint::{Fingerprint, FrameMark};
pub use saving::{NewFinding, SavedFinding};
pub use similar::{Likely, LikelyKind, Similar, SimilarRequest};

use crate::{Failure, FailureKind, debug::DebugService, knowledge::KnowledgeService};

/// Keeps and finds what is known about failures.
pub struct FindingService {
    debug: Arc<DebugService>,
    knowledge: Arc<KnowledgeService>,
    /// What was read from documents already. A document that changes has another hash.
    read: Mutex<HashMap<DocumentKey, Read>>,
}

/// What a document hashed to when it was read, and the fingerprint in it.
type Read = (TextHash, Option<Arc<Fingerprint>>);

impl FindingService {
    /// Over the sessions and the collections there are.
    pub fn new(debug: Arc<DebugService>, knowledge: Arc<KnowledgeService>) -> Self {
        Self { debug, knowledge, read: Mutex::default() }
    }

    /// Whether the caller sees a finding. Cheap enough to be asked after each autopsy.
    pub async fn has_findings(&self, caller: &Caller) -> bool {
        let may_read = caller.may(Some(Scope::KnowledgeRead));
        may_read && self.knowledge.has_labelled(caller, document::TAG).await.unwrap_or_default()
    }
}

fn needs(caller: &Caller, scope: Scope, what: &str) -> Result<(), Failure> {
    if caller.may(Some(scope)) {
        return Ok(());
    }
    Err(Failure::new(FailureKind::PermissionDenied, format!("{what} needs the scope `{scope}`"))
        .hint(format!("use a key that has `{scope}`: `hindcast keys create --scope {scope} …`"))
        .fact("required_scope", scope.name()))
}

fn invalid(details: impl Into<String>) -> Failure {
    Failure::new(FailureKind::InvalidInput, details)
}
