//! The one thread that writes.

use std::{
    sync::{Mutex, mpsc},
    thread::JoinHandle,
};

use ed25519_dalek::SigningKey;
use hindcast_core::{audit::AuditRecord, store::StoreError};
use rusqlite::{Connection, Transaction, TransactionBehavior};
use tokio::sync::oneshot;

use super::{audit::Appender, unavailable};

/// More than this many jobs never share a transaction, which bounds the wait of the first.
const LARGEST_BATCH: usize = 256;

/// What is told to a job's sender after the commit.
type Announce = Box<dyn FnOnce(Result<(), StoreError>) + Send>;
type Job = Box<dyn FnOnce(&mut Unit<'_>) -> Announce + Send>;

/// Hands jobs to the writing thread. Dropping it lets the thread finish what it has and end.
pub(super) struct Writer {
    jobs: Option<mpsc::Sender<Job>>,
    thread: Mutex<Option<JoinHandle<()>>>,
}

/// One transaction, shared by the jobs of a batch.
pub(super) struct Unit<'a> {
    transaction: &'a Transaction<'a>,
    appender: Option<Appender>,
    /// Set by a job that failed in the database: then nobody's work is kept.
    broken: Option<String>,
}

impl Unit<'_> {
    pub(super) fn transaction(&self) -> &Transaction<'_> {
        self.transaction
    }

    /// Appends to the audit trail; the head is signed once for the whole batch.
    pub(super) fn append(&mut self, record: &AuditRecord) -> Result<(), StoreError> {
        if self.appender.is_none() {
            self.appender = Some(Appender::at_end(self.transaction).map_err(unavailable)?);
        }
        match &mut self.appender {
            Some(appender) => appender.append(self.transaction, record).map_err(unavailable),
            None => Ok(()),
        }
    }
}

impl Writer {
    pub(super) fn start(connection: Connection, audit_key: SigningKey) -> Result<Self, StoreError> {
        let (jobs, queue) = mpsc::channel();
        let thread = std::thread::Builder::new()
            .name("sqlite-writer".into())
            .spawn(move || write_batches(connection, &audit_key, &queue))
            .map_err(|error| StoreError::Unavailable(error.to_string()))?;
        Ok(Self { jobs: Some(jobs), thread: Mutex::new(Some(thread)) })
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
        let gone = || StoreError::Unavailable("the write was not carried out".into());
        self.jobs.as_ref().ok_or_else(gone)?.send(job).map_err(|_| gone())?;
        answer.await.map_err(|_| gone())?
    }
}

impl Drop for Writer {
    fn drop(&mut self) {
        self.jobs = None;
        let thread = self.thread.lock().unwrap_or_else(std::sync::PoisonError::into_inner).take();
        if let Some(thread) = thread {
            // A panic in the writer was already reported to whoever waited for it.
            let _ = thread.join();
        }
    }
}

fn write_batches(mut connection: Connection, audit_key: &SigningKey, queue: &mpsc::Receiver<Job>) {
    while let Ok(first) = queue.recv() {
        let batch = std::iter::once(first).chain(queue.try_iter()).take(LARGEST_BATCH);
        let mut announcements = Vec::new();
        let committed = write_batch(&mut connection, audit_key, batch, &mut announcements);
        if let Err(error) = &committed {
            tracing::error!(%error, "a batch of writes was rolled back");
        }
        for announce in announcements {
            announce(match &committed {
                Ok(()) => Ok(()),
                Err(error) => Err(StoreError::Unavailable(error.to_string())),
            });
        }
    }
}

fn write_batch(
    connection: &mut Connection,
    audit_key: &SigningKey,
    batch: impl Iterator<Item = Job>,
    announcements: &mut Vec<Announce>,
) -> Result<(), StoreError> {
    let transaction = Transaction::new(connection, TransactionBehavior::Immediate).map_err(unavailable)?;
    let mut unit = Unit { transaction: &transaction, appender: None, broken: None };
    for job in batch {
        announcements.push(job(&mut unit));
    }
    if let Some(reason) = unit.broken {
        return Err(StoreError::Unavailable(reason));
    }
    if let Some(appender) = unit.appender {
        appender.sign(&transaction, audit_key).map_err(unavailable)?;
    }
    transaction.commit().map_err(unavailable)
}
