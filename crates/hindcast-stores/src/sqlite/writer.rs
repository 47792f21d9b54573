//! Writing: whatever waits is put into one transaction.
//!
//! There is no writing thread. Whoever brings a job and finds nobody writing writes for all who wait;
//! the others only leave their job and wait for the answer. A lone request so pays for its commit and
//! not for two changes of thread, and under load the batches grow by themselves.

use std::sync::{
    Arc, Mutex, MutexGuard, PoisonError, TryLockError,
    atomic::{AtomicBool, Ordering},
};

use hindcast_core::{
    audit::{AuditKey, AuditRecord},
    store::StoreError,
};
use rusqlite::{Connection, ErrorCode};
use tokio::sync::oneshot;

use super::{audit::Appender, quota::Counters, schema::BUSY_TIMEOUT, transaction::Transaction, unavailable};

/// What is told to a job's sender after the commit.
type Announce = Box<dyn FnOnce(Result<(), StoreError>) + Send>;
type Job = Box<dyn FnOnce(&mut Unit<'_>) -> Announce + Send>;

/// Takes jobs from any task and runs them in batches.
#[derive(Clone)]
pub(super) struct Writer(Arc<Shared>);

struct Shared {
    waiting: Mutex<Vec<Job>>,
    /// Somebody came to write and found the connection in use.
    wanted: AtomicBool,
    connection: Mutex<Connection>,
    audit_key: Arc<AuditKey>,
    counters: Arc<Counters>,
}

/// One transaction, shared by the jobs of a batch.
pub(super) struct Unit<'a> {
    transaction: &'a Transaction<'a>,
    audit_key: &'a AuditKey,
    appender: Option<Appender>,
    /// Set by a job that failed in the database: then nobody's work is kept.
    broken: Option<String>,
}

impl Unit<'_> {
    pub(super) fn transaction(&self) -> &Transaction<'_> {
        self.transaction
    }

    /// Appends to the audit trail; the head is sealed once for the whole batch.
    pub(super) fn append(&mut self, record: &AuditRecord) -> Result<(), StoreError> {
        let appender = match &mut self.appender {
            Some(appender) => appender,
            none => none.insert(Appender::at_end(self.transaction, self.audit_key)?),
        };
        appender.append(self.transaction, record).map_err(unavailable)
    }
}

impl Writer {
    pub(super) fn new(connection: Connection, audit_key: Arc<AuditKey>, counters: Arc<Counters>) -> Self {
        Self(Arc::new(Shared {
            waiting: Mutex::default(),
            wanted: AtomicBool::new(false),
            connection: Mutex::new(connection),
            audit_key,
            counters,
        }))
    }

    /// The connection, to read on while nobody writes. Its page cache outlives the writer's commits,
    /// which make every other connection read its pages anew.
    pub(super) fn read_if_idle<T>(&self, read: impl FnOnce(&Connection) -> T) -> Option<T> {
        let value = read(&*self.0.try_connection()?);
        // Only then: jobs that merely wait are about to be written together.
        if self.0.wanted.swap(false, Ordering::SeqCst) {
            self.write_what_waits();
        }
        Some(value)
    }

    /// Writes what was counted and not yet written.
    pub(super) fn finish(&self) {
        let connection = self.0.connection.lock().unwrap_or_else(PoisonError::into_inner);
        self.0.write_batch(&connection, Patience::Some);
    }

    /// Runs `job` in a transaction and returns once that is committed. A job that fails must not
    /// have written anything, unless the database itself refused.
    pub(super) async fn run<T: Send + 'static>(
        &self,
        job: impl FnOnce(&mut Unit<'_>) -> Result<T, StoreError> + Send + 'static,
    ) -> Result<T, StoreError> {
        let (sender, answer) = oneshot::channel();
        let job: Job = Box::new(move |unit| {
            let result = job(unit);
            if let Err(StoreError::Unavailable(reason) | StoreError::Corrupt(reason)) = &result {
                unit.broken = Some(reason.clone());
            }
            Box::new(move |committed| {
                // A caller that went away does not need to hear.
                let _ = sender.send(committed.and(result));
            })
        });
        self.0.waiting().push(job);
        // Let those who are about to leave a job do so: the batch grows, and with it what a commit is shared by.
        tokio::task::yield_now().await;
        self.write_what_waits();
        answer.await.map_err(|_| StoreError::Unavailable("the write was not carried out".into()))?
    }

    /// Writes one batch, unless somebody else has the connection: they look again when they are done.
    fn write_what_waits(&self) {
        if self.0.waiting().is_empty() {
            // Somebody took our job along.
            return;
        }
        let outcome = {
            let Some(connection) = self.0.connection_or_request() else { return };
            self.0.write_batch(&connection, Patience::None)
        };
        if let Outcome::Busy = outcome {
            // Another process writes. Waiting for it would hold up a thread that serves others.
            let shared = self.0.clone();
            tokio::task::spawn_blocking(move || shared.write_patiently());
        } else if !self.0.waiting().is_empty() {
            // Jobs that came meanwhile are not this caller's to wait for.
            let writer = self.clone();
            tokio::spawn(async move { writer.write_what_waits() });
        }
    }
}

/// Whether to wait for another process that writes.
#[derive(Clone, Copy, PartialEq)]
enum Patience {
    None,
    Some,
}

enum Outcome {
    Done,
    /// Another process is writing; the jobs still wait.
    Busy,
}

impl Shared {
    fn waiting(&self) -> MutexGuard<'_, Vec<Job>> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn try_connection(&self) -> Option<MutexGuard<'_, Connection>> {
        match self.connection.try_lock() {
            Ok(connection) => Some(connection),
            // A panic left no transaction behind: dropping it rolled it back.
            Err(TryLockError::Poisoned(poisoned)) => Some(poisoned.into_inner()),
            Err(TryLockError::WouldBlock) => None,
        }
    }

    /// The connection; or whoever has it will know that it is wanted.
    fn connection_or_request(&self) -> Option<MutexGuard<'_, Connection>> {
        self.try_connection().or_else(|| {
            self.wanted.store(true, Ordering::SeqCst);
            // They may have let go, and looked, before that.
            self.try_connection()
        })
    }

    fn write_patiently(&self) {
        // Looks again after letting go: who came before that went away.
        while !self.waiting().is_empty() {
            let connection = self.connection.lock().unwrap_or_else(PoisonError::into_inner);
            self.write_batch(&connection, Patience::Some);
        }
    }

    /// Takes all that waits into one transaction and announces how that went.
    fn write_batch(&self, connection: &Connection, patience: Patience) -> Outcome {
        let wait = if patience == Patience::Some { BUSY_TIMEOUT } else { std::time::Duration::ZERO };
        let begun = connection.busy_timeout(wait).and_then(|()| Transaction::begin(connection));
        let mut announcements = Vec::new();
        let committed = match begun {
            Err(error)
                if patience == Patience::None
                    && error.sqlite_error_code() == Some(ErrorCode::DatabaseBusy) =>
            {
                return Outcome::Busy;
            }
            Err(error) => {
                // The jobs cannot run; dropping them tells those who wait.
                self.waiting().clear();
                Err(unavailable(error))
            }
            Ok(transaction) => {
                let batch = std::mem::take(&mut *self.waiting());
                self.fill(transaction, batch, &mut announcements)
            }
        };
        if let Err(error) = &committed {
            tracing::error!(%error, "a batch of writes was not carried out");
        }
        for announce in announcements {
            announce(match &committed {
                Ok(()) => Ok(()),
                Err(error) => Err(StoreError::Unavailable(error.to_string())),
            });
        }
        Outcome::Done
    }

    fn fill(
        &self,
        transaction: Transaction<'_>,
        batch: Vec<Job>,
        announcements: &mut Vec<Announce>,
    ) -> Result<(), StoreError> {
        // After the jobs were taken: what they wait for was counted before they came.
        let counted = self.counters.write(&transaction).map_err(unavailable)?;
        let mut unit =
            Unit { transaction: &transaction, audit_key: &self.audit_key, appender: None, broken: None };
        for job in batch {
            announcements.push(job(&mut unit));
        }
        if let Some(reason) = unit.broken {
            return Err(StoreError::Unavailable(reason));
        }
        if let Some(appender) = unit.appender {
            appender.seal(&transaction, &self.audit_key).map_err(unavailable)?;
        }
        transaction.commit().map_err(unavailable)?;
        self.counters.written(counted);
        Ok(())
    }
}
