//! The audit trail: who did what, in a chain that shows every later change.

mod chain;
mod file;
mod seal;

use std::borrow::Cow;

use jiff::Timestamp;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

pub use chain::{BadRow, ChainEnd, ChainHash, ChainVerifier, Problem, SignedHead};
pub use file::{ExportFooter, ExportHeader, FileVerifier};
pub use seal::{AuditKey, SealedHead};

use crate::identity::{KeyId, PrincipalId};

/// One thing that was done. Never holds a secret or a value of the debuggee.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct AuditRecord {
    /// When it ended.
    pub time: Timestamp,
    /// Who did it; none when nobody was let in.
    pub principal: Option<PrincipalId>,
    /// The key they showed.
    pub key_id: Option<KeyId>,
    /// Where they came from.
    pub ip: Option<String>,
    /// The kind of request.
    pub method: Cow<'static, str>,
    /// The tool that was called.
    pub tool: Option<String>,
    /// What it was aimed at: a process, a program, a document, a resource.
    pub target: Option<String>,
    /// The debug session it belongs to.
    pub session_id: Option<String>,
    /// `ok`, or the name of the failure.
    pub outcome: Cow<'static, str>,
    /// How long it took.
    pub duration_us: u64,
}

impl AuditRecord {
    const OPENING: &'static str = "audit/open";

    /// The first record of every trail.
    pub fn opening(now: Timestamp) -> Self {
        Self {
            time: now,
            principal: None,
            key_id: None,
            ip: None,
            method: Self::OPENING.into(),
            tool: None,
            target: None,
            session_id: None,
            outcome: "ok".into(),
            duration_us: 0,
        }
    }

    /// Whether it only says that a trail begins.
    pub fn is_opening(&self) -> bool {
        *self == Self::opening(self.time)
    }
}

/// A record in its place in the chain.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct AuditRow {
    /// Its place, from 1, without gaps.
    pub seq: u64,
    /// What was done.
    #[serde(flatten)]
    pub record: AuditRecord,
    /// Covers the record, its place and the row before.
    pub hash: ChainHash,
}

/// Which rows to show.
#[derive(Debug, Clone, Default)]
pub struct AuditFilter {
    /// Only this principal's.
    pub principal: Option<PrincipalId>,
    /// Only from here on.
    pub start_time: Option<Timestamp>,
    /// Only up to here, inclusive.
    pub end_time: Option<Timestamp>,
    /// Only this debug session's.
    pub session_id: Option<String>,
    /// Not what is written down under this method.
    pub without_method: Option<&'static str>,
    /// Only rows before this one: where the previous page ended.
    pub before: Option<u64>,
    /// How many at most.
    pub limit: usize,
}

/// Some of the rows that match.
#[derive(Debug, Clone)]
pub struct AuditPage {
    /// Newest first.
    pub rows: Vec<AuditRow>,
    /// Whether older ones match too.
    pub more: bool,
}
