//! Writing: audit rows go to the journal, and from there to the tables many at a time.
//!
//! Whoever appends waits for one line to be written and for nothing else. The tables take the lines over
//! when there are many, when somebody wants to read them, and when a store is opened or closed, by whichever
//! process comes first.

use std::{
    collections::HashMap,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    thread,
    time::{Duration, Instant},
};

use hindcast_core::{
    audit::{AuditKey, AuditRecord},
    store::StoreError,
};
use rusqlite::Connection;

use super::{
    audit::Appender,
    journal::{self, Held, Journal},
    lock,
    lookups::Lookups,
    quota::Counters,
    schema::BUSY_TIMEOUT,
    transaction::Transaction,
    unavailable,
};

/// A journal of this length is taken over: two or three thousand rows, so that a commit, which waits for the
/// disk, is shared by many.
const LONG: u64 = 1 << 20;
/// A journal of this length is appended to no more: the tables are not taking it over.
const TOO_LONG: u64 = 64 << 20;
/// How soon a lock that another process has is tried again.
const PAUSE: Duration = Duration::from_millis(1);

/// The one way in for everything that is written.
#[derive(Clone)]
pub(super) struct Ledger(Arc<Shared>);

struct Shared {
    journal: Mutex<Journal>,
    /// The connection that writes.
    tables: Mutex<Connection>,
    lookups: Arc<Mutex<Lookups>>,
    counters: Arc<Counters>,
    audit_key: Arc<AuditKey>,
    /// The journal is being taken over, or is about to be.
    settling: AtomicBool,
    /// The tables do not take it over, and trying again will not help.
    stuck: AtomicBool,
}

impl Ledger {
    pub(super) fn new(
        journal: Journal,
        tables: Connection,
        lookups: Arc<Mutex<Lookups>>,
        counters: Arc<Counters>,
        audit_key: Arc<AuditKey>,
    ) -> Self {
        Self(Arc::new(Shared {
            journal: Mutex::new(journal),
            tables: Mutex::new(tables),
            lookups,
            counters,
            audit_key,
            settling: AtomicBool::new(false),
            stuck: AtomicBool::new(false),
        }))
    }

    /// Appends to the audit trail, together with what was counted for the record's key.
    pub(super) async fn append(&self, record: AuditRecord) -> Result<(), StoreError> {
        if self.0.stuck.load(Ordering::Relaxed) {
            self.settle().await?;
        }
        let length = match self.0.append_at_once(record)? {
            Appended::Length(length) => length,
            Appended::Not(record) => {
                // Another process has the journal. Waiting for it would hold up a thread that serves others.
                self.blocking(move |shared| shared.append_patiently(*record)).await?
            }
        };
        if length >= LONG && !self.0.settling.swap(true, Ordering::Relaxed) {
            let settling = Settling(self.0.clone());
            tokio::task::spawn_blocking(move || {
                if let Err(error) = settling.0.settle() {
                    tracing::error!(%error, "the journal was not taken over");
                }
            });
        }
        Ok(())
    }

    /// Runs `job` in a transaction that is kept if it succeeds.
    pub(super) async fn write<T: Send + 'static>(
        &self,
        job: impl FnOnce(&Transaction<'_>) -> Result<T, StoreError> + Send + 'static,
    ) -> Result<T, StoreError> {
        self.blocking(move |shared| shared.write(job)).await
    }

    /// Brings all that was appended so far, by whichever process, into the tables.
    pub(super) async fn settle(&self) -> Result<(), StoreError> {
        self.blocking(|shared| shared.settle()).await
    }

    /// The same, on this thread.
    pub(super) fn settle_here(&self) -> Result<(), StoreError> {
        self.0.settle()
    }

    /// Leaves nothing in the journal or in memory.
    pub(super) fn finish(&self) -> Result<(), StoreError> {
        self.0.settle()?;
        if self.0.counters.is_empty() {
            return Ok(());
        }
        self.0.write(|transaction| self.0.counters.write(transaction).map_err(unavailable))
    }

    async fn blocking<T: Send + 'static>(
        &self,
        job: impl FnOnce(&Shared) -> Result<T, StoreError> + Send + 'static,
    ) -> Result<T, StoreError> {
        let shared = self.0.clone();
        tokio::task::spawn_blocking(move || job(&shared))
            .await
            .map_err(|error| StoreError::Unavailable(error.to_string()))?
    }
}

/// One taking over in the background, however it ends.
struct Settling(Arc<Shared>);

impl Drop for Settling {
    fn drop(&mut self) {
        self.0.settling.store(false, Ordering::Relaxed);
    }
}

/// What became of a record.
enum Appended {
    /// It is in the journal, which has this length now.
    Length(u64),
    /// Another process has the journal.
    Not(Box<AuditRecord>),
}

impl Shared {
    /// A panic left the journal as it was, or such that the next one catches up.
    fn journal(&self) -> MutexGuard<'_, Journal> {
        self.journal.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn append_at_once(&self, record: AuditRecord) -> Result<Appended, StoreError> {
        let mut journal = self.journal();
        match journal.hold().map_err(journal_unavailable)? {
            Some(mut held) => self.append(&mut held, record).map(Appended::Length),
            None => Ok(Appended::Not(Box::new(record))),
        }
    }

    fn append_patiently(&self, record: AuditRecord) -> Result<u64, StoreError> {
        self.holding(|held| self.append(held, record))
    }

    fn append(&self, held: &mut Held<'_>, record: AuditRecord) -> Result<u64, StoreError> {
        if held.length() > TOO_LONG {
            return Err(StoreError::Unavailable(
                "the journal is full, and the tables do not take it over".into(),
            ));
        }
        // Looked at while the journal is held, so that later lines have later counts.
        let usage = record.key_id.as_ref().and_then(|id| self.counters.of(id));
        held.append(record, usage, || {
            Ok(Appender::at_end(&lock(&self.lookups).connection, &self.audit_key)?.end())
        })
    }

    /// Does something with the journal, waiting for other processes. This process's own requests are not held up
    /// meanwhile.
    fn holding<T>(&self, job: impl FnOnce(&mut Held<'_>) -> Result<T, StoreError>) -> Result<T, StoreError> {
        let begun = Instant::now();
        loop {
            if let Some(mut held) = self.journal().hold().map_err(journal_unavailable)? {
                return job(&mut held);
            }
            if begun.elapsed() > BUSY_TIMEOUT {
                return Err(StoreError::Unavailable("another process keeps the journal".into()));
            }
            thread::sleep(PAUSE);
        }
    }

    fn write<T>(&self, job: impl FnOnce(&Transaction<'_>) -> Result<T, StoreError>) -> Result<T, StoreError> {
        let tables = lock(&self.tables);
        let transaction = Transaction::begin(&tables).map_err(unavailable)?;
        let done = job(&transaction)?;
        transaction.commit().map_err(unavailable)?;
        Ok(done)
    }

    fn settle(&self) -> Result<(), StoreError> {
        let settled = self.take_journal_over();
        let stuck = matches!(settled, Err(StoreError::Corrupt(_)));
        self.stuck.store(stuck, Ordering::Relaxed);
        settled
    }

    fn take_journal_over(&self) -> Result<(), StoreError> {
        if self.journal().is_empty() {
            return Ok(());
        }
        let lines = self.holding(|held| held.lines())?;
        let fault = self.write(|transaction| take_over(transaction, &lines.bytes, &self.audit_key))?;
        match fault {
            Some(fault) => Err(fault),
            // Only now, when the commit is on the disk: a row is in the journal or in the tables.
            None => self.holding(|held| held.forget(&lines)),
        }
    }
}

/// Puts rows and counts into the tables, except those that are there. Gives what is wrong with the first line
/// that has something wrong with it; those before it are taken over.
fn take_over(
    transaction: &Transaction<'_>,
    lines: &[u8],
    audit_key: &AuditKey,
) -> Result<Option<StoreError>, StoreError> {
    let mut appender = Appender::at_end(transaction, audit_key)?;
    let begin = appender.end();
    let mut counted = HashMap::new();
    let mut fault = None;
    for entry in journal::entries(lines, audit_key) {
        let entry = match entry {
            Ok(entry) if entry.row.seq <= begin.seq => continue,
            Ok(entry) if appender.end().precedes(&entry.row) => entry,
            Ok(entry) => {
                fault = Some(journal::does_not_follow(entry.row.seq, appender.end()));
                break;
            }
            Err(error) => {
                fault = Some(error);
                break;
            }
        };
        appender.append(transaction, &entry.row).map_err(unavailable)?;
        if let (Some(id), Some(usage)) = (entry.row.record.key_id, entry.usage) {
            counted.insert(id, usage);
        }
    }
    for (id, usage) in counted {
        usage.write(transaction, &id).map_err(unavailable)?;
    }
    if appender.end() != begin {
        appender.seal(transaction, audit_key).map_err(unavailable)?;
    }
    Ok(fault)
}

fn journal_unavailable(error: std::io::Error) -> StoreError {
    StoreError::Unavailable(format!("the journal: {error}"))
}
