//! Why something was not done, in words that say what to do next.

use std::fmt;

use hindcast_core::{debug::Remedy, store::StoreError};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::ToolNames;

/// What kind of failure it is. The transport gives each its code.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum FailureKind {
    /// What was asked makes no sense.
    InvalidInput,
    /// There is nothing to read at that URI.
    ResourceNotFound,
    /// What was given as a URI is none that could name a resource.
    InvalidUri,
    /// A source file that is not shown; the details are the message.
    SourceNotServed,
    /// Nobody's fault but ours.
    Internal,
    /// A server that keeps keys, limits and trail, or vectors, is down.
    StoreUnreachable,
    /// No or a bad key.
    AuthenticationFailed,
    /// A limit is used up.
    QuotaExceeded,
    /// The caller may not do that.
    PermissionDenied,
    /// There is no such process.
    ProcessNotFound,
    /// There is no debug session to do it in.
    NotAttached,
    /// A breakpoint could not be set.
    BreakpointFailed,
    /// That past is not known.
    HistoryUnavailable,
    /// There is no such XML document.
    DocumentNotFound,
    /// The document breaks its schema.
    SchemaInvalid,
    /// No language model answers.
    ModelUnavailable,
    /// The license for this feature has ended.
    LicenseExpired,
}

/// A failure: its kind, what happened, what helps.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Failure {
    /// What kind it is.
    pub kind: FailureKind,
    /// What happened, with the values that matter.
    pub details: String,
    /// What to do next, the best first; where empty, the kind's general remedy holds.
    pub remedies: Vec<Remedy>,
    /// Further facts for a program to read.
    pub facts: Map<String, Value>,
}

impl Failure {
    /// A failure of `kind`, for the reason given.
    pub fn new(kind: FailureKind, details: impl Into<String>) -> Self {
        Self { kind, details: details.into(), remedies: Vec::new(), facts: Map::new() }
    }

    /// Says what to do next, in words.
    #[must_use]
    pub fn hint(self, hint: impl Into<String>) -> Self {
        self.remedied(vec![Remedy::advice(hint.into())])
    }

    /// Says what to do next.
    #[must_use]
    pub fn remedied(mut self, remedies: Vec<Remedy>) -> Self {
        self.remedies = remedies;
        self
    }

    /// What to do next in words, where it is known, with the tools as the client calls them.
    pub fn advice(&self, names: ToolNames) -> Option<String> {
        let said: Vec<_> = self.remedies.iter().map(|remedy| names.say(remedy)).collect();
        (!said.is_empty()).then(|| said.join("; "))
    }

    /// Adds a fact for a program to read.
    #[must_use]
    pub fn fact(mut self, name: &str, value: impl Into<Value>) -> Self {
        self.facts.insert(name.into(), value.into());
        self
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.details)?;
        match self.advice(ToolNames::Slash) {
            Some(hint) => write!(f, " · hint: {hint}"),
            None => Ok(()),
        }
    }
}

impl std::error::Error for Failure {}

impl From<StoreError> for Failure {
    fn from(error: StoreError) -> Self {
        match error {
            StoreError::Missing(_) | StoreError::Exists(_) => {
                Self::new(FailureKind::InvalidInput, error.to_string())
            }
            StoreError::CollectionGone => Self::new(FailureKind::InvalidInput, error.to_string())
                .hint("`hindcast knowledge list` and the resource `resource://knowledge/collections` list them"),
            StoreError::DocumentGone => Self::new(FailureKind::InvalidInput, error.to_string()).hint(
                "`hindcast knowledge show` and the resource `resource://knowledge/{collectionId}/documents` list them",
            ),
            StoreError::Changed(_) => {
                Self::new(FailureKind::InvalidInput, error.to_string()).hint("try again")
            }
            // Callers need not know where it is. The store has told its log.
            StoreError::Unreachable { server, .. } => {
                Self::new(FailureKind::StoreUnreachable, format!("{server}, which keeps keys and limits, is down"))
            }
            StoreError::TooSlow { server, .. } => Self::new(
                FailureKind::StoreUnreachable,
                format!("{server}, which keeps keys and limits, did not answer in time"),
            ),
            StoreError::Refused { server, .. } => Self::new(
                FailureKind::Internal,
                format!("{server}, which keeps keys and limits, refuses what the server asks of it"),
            )
            .hint("the server's log says why; its operator can run `hindcast doctor`"),
            StoreError::Unavailable(_) | StoreError::Corrupt(_) => {
                Self::new(FailureKind::Internal, error.to_string())
                    .hint("try again; if it stays, run `hindcast doctor` on the server")
            }
        }
    }
}
