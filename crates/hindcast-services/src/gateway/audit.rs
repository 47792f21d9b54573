//! Writing the audit trail, showing it and checking it.

use std::sync::Arc;

use ed25519_dalek::VerifyingKey;
use hindcast_core::{
    audit::{
        AuditFilter, AuditPage, AuditRecord, AuditRow, BadRow, ChainVerifier, ExportFooter, ExportHeader,
        Problem, SignedHead,
    },
    progress::Progress,
    store::{MetadataStore, StoreError},
};

use crate::{Events, Failure, FailureKind};

/// Rows read at a time while checking or exporting.
const CHUNK: usize = 1000;

/// The trail of one server.
pub struct AuditTrail {
    store: Arc<dyn MetadataStore>,
    public_key: VerifyingKey,
    events: Events,
    uri: Arc<str>,
}

/// Whether the chain holds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ChainVerdict {
    /// Every row is as it was written, and the head is signed.
    Verified {
        /// How many there are.
        rows: u64,
    },
    /// The first row that is not.
    Broken(BadRow),
    /// The check was given up on the caller's wish.
    Unfinished {
        /// How many were good until then.
        rows: u64,
    },
}

/// A page of the trail and what is known about the whole.
#[derive(Debug)]
pub struct AuditReport {
    /// Newest first.
    pub rows: Vec<AuditRow>,
    /// Where the next page starts, if there is one.
    pub next: Option<u64>,
    /// Whether the whole chain holds.
    pub verdict: ChainVerdict,
}

impl AuditTrail {
    /// The resource that shows the end of the trail.
    pub const URI: &'static str = "hindcast://audit";

    /// The trail in `store`, signed by the holder of `public_key`'s other half.
    pub fn new(store: Arc<dyn MetadataStore>, public_key: VerifyingKey, events: Events) -> Self {
        Self { store, public_key, events, uri: Self::URI.into() }
    }

    /// Writes down what was done; it is durable when this returns.
    pub async fn append(&self, record: AuditRecord) -> Result<(), Failure> {
        self.store.append_audit(record).await?;
        self.events.changed(&self.uri);
        Ok(())
    }

    /// One page of what matches.
    pub async fn search(&self, filter: AuditFilter) -> Result<AuditPage, Failure> {
        self.settle().await?;
        Ok(self.store.search_audit(filter).await?)
    }

    /// The signed end of the trail.
    pub async fn head(&self) -> Result<Option<SignedHead>, Failure> {
        self.settle().await?;
        Ok(self.store.audit_head().await?)
    }

    /// Makes what was appended readable. Where that ends before the end, gives why: the rows up to there
    /// are worth looking at.
    async fn settle(&self) -> Result<Option<String>, Failure> {
        match self.store.settle_audit().await {
            Ok(()) => Ok(None),
            Err(StoreError::Corrupt(reason)) => {
                tracing::warn!(reason, "not all of the audit trail can be read");
                Ok(Some(reason))
            }
            Err(error) => Err(error.into()),
        }
    }

    /// One page of what matches, newest first, and where the next one starts, if there is one.
    pub async fn page(&self, filter: AuditFilter) -> Result<(Vec<AuditRow>, Option<u64>), Failure> {
        let page = self.search(filter).await?;
        let next = page.rows.last().filter(|_| page.more).map(|row| row.seq);
        Ok((page.rows, next))
    }

    /// One page of what matches, together with a check of the whole chain.
    pub async fn report(&self, filter: AuditFilter, progress: &dyn Progress) -> Result<AuditReport, Failure> {
        let (rows, next) = self.page(filter).await?;
        Ok(AuditReport { next, verdict: self.verify(progress).await?, rows })
    }

    /// Checks every row from the first to the signed head.
    pub async fn verify(&self, progress: &dyn Progress) -> Result<ChainVerdict, Failure> {
        let mut verifier = ChainVerifier::default();
        match self.walk(&mut verifier, progress, |_| Ok(())).await {
            Ok(Some(_)) => Ok(ChainVerdict::Verified { rows: verifier.rows() }),
            Ok(None) => Ok(ChainVerdict::Unfinished { rows: verifier.rows() }),
            Err(WalkError::Broken(bad)) => Ok(ChainVerdict::Broken(bad)),
            Err(WalkError::Failed(failure)) => Err(failure),
        }
    }

    /// Writes the trail line by line to `sink`, up to and including its signed head. A chain that
    /// does not hold is not exported.
    pub async fn export(
        &self,
        sink: &mut (dyn std::io::Write + Send),
        progress: &dyn Progress,
    ) -> Result<u64, Failure> {
        let mut verifier = ChainVerifier::default();
        write_line(sink, &ExportHeader::new(&self.public_key))?;
        match self.walk(&mut verifier, progress, |row| write_line(sink, row)).await {
            Ok(Some(head)) => {
                write_line(sink, &ExportFooter { head })?;
                Ok(verifier.rows())
            }
            Ok(None) => Err(Failure::new(FailureKind::Internal, "the export was given up")),
            Err(WalkError::Broken(bad)) => {
                Err(Failure::new(FailureKind::Internal, format!("the trail is broken: {bad}"))
                    .hint("restore the data folder from a backup taken before that row"))
            }
            Err(WalkError::Failed(failure)) => Err(failure),
        }
    }

    /// Feeds all rows to the verifier and `visit`; gives the head they lead to, or nothing when
    /// cancelled.
    async fn walk(
        &self,
        verifier: &mut ChainVerifier,
        progress: &dyn Progress,
        mut visit: impl FnMut(&AuditRow) -> Result<(), Failure> + Send,
    ) -> Result<Option<SignedHead>, WalkError> {
        let unreadable = self.settle().await.map_err(WalkError::Failed)?;
        let total = self.store.audit_head().await.ok().flatten().map(|head| head.seq);
        let mut ended_at = None;
        let mut chunk = CHUNK;
        loop {
            if progress.cancelled() {
                return Ok(None);
            }
            let rows = match self.store.audit_rows(verifier.rows(), chunk).await {
                Ok(rows) => rows,
                // One of many cannot be read: find out which.
                Err(StoreError::Corrupt(_)) if chunk > 1 => {
                    chunk = 1;
                    continue;
                }
                Err(StoreError::Corrupt(reason)) => {
                    let row = verifier.rows() + 1;
                    return Err(WalkError::Broken(BadRow { row, problem: Problem::Unreadable(reason) }));
                }
                Err(error) => return Err(WalkError::Failed(error.into())),
            };
            for row in &rows {
                verifier.feed(row).map_err(WalkError::Broken)?;
                visit(row).map_err(WalkError::Failed)?;
            }
            progress.report(verifier.rows(), total, "checking the audit trail");
            if !rows.is_empty() {
                continue;
            }
            // Rows and head change together. A head that is ahead of the rows just read may be that
            // of a row written since; if a second look finds no such row, it is missing.
            let head = self.head_of_walk(verifier.rows()).await?;
            let ahead = head.as_ref().is_some_and(|head| head.seq > verifier.rows());
            if ahead && ended_at != Some(verifier.rows()) {
                ended_at = Some(verifier.rows());
                continue;
            }
            let rows = verifier.finish(head.as_ref(), &self.public_key).map_err(WalkError::Broken)?;
            return match unreadable {
                None => Ok(head),
                Some(reason) => {
                    Err(WalkError::Broken(BadRow { row: rows + 1, problem: Problem::Unreadable(reason) }))
                }
            };
        }
    }
}

impl AuditTrail {
    async fn head_of_walk(&self, rows: u64) -> Result<Option<SignedHead>, WalkError> {
        self.store.audit_head().await.map_err(|error| match error {
            StoreError::Corrupt(reason) => {
                WalkError::Broken(BadRow { row: rows.max(1), problem: Problem::Unreadable(reason) })
            }
            other => WalkError::Failed(other.into()),
        })
    }
}

enum WalkError {
    Broken(BadRow),
    Failed(Failure),
}

fn write_line(sink: &mut (dyn std::io::Write + Send), value: &impl serde::Serialize) -> Result<(), Failure> {
    let failed =
        |error: String| Failure::new(FailureKind::Internal, format!("cannot write the export: {error}"));
    let line = serde_json::to_string(value).map_err(|error| failed(error.to_string()))?;
    writeln!(sink, "{line}").map_err(|error| failed(error.to_string()))
}
