//! One writer of the audit trail for each process. While a transaction is under way, further rows gather for the next one.

use std::sync::Arc;

use hindcast_core::{
    audit::{AuditKey, AuditRecord, ChainEnd},
    store::StoreError,
};
use tokio::{
    runtime::Handle,
    sync::{mpsc, oneshot},
};

use super::{audit, database::Database};

/// The most rows in a transaction. Other servers wait meanwhile.
const LARGEST_BATCH: usize = 512;

/// Takes records, and answers when they are in the chain.
pub(super) struct Writer(mpsc::Sender<Waiting>);

struct Waiting {
    record: AuditRecord,
    written: oneshot::Sender<Result<(), StoreError>>,
}

impl Writer {
    /// Writes in `runtime`, for as long as this exists: a record is finished, whatever becomes of the request that it is of.
    pub(super) fn start(database: Arc<Database>, key: Arc<AuditKey>, runtime: &Handle) -> Self {
        let (sender, queue) = mpsc::channel(LARGEST_BATCH);
        runtime.spawn(write(queue, database, key));
        Self(sender)
    }

    pub(super) async fn append(&self, record: AuditRecord) -> Result<(), StoreError> {
        let (written, done) = oneshot::channel();
        let ended = || StoreError::Unavailable("the store is being closed".into());
        self.0.send(Waiting { record, written }).await.map_err(|_| ended())?;
        done.await.map_err(|_| ended())?
    }
}

async fn write(mut queue: mpsc::Receiver<Waiting>, database: Arc<Database>, key: Arc<AuditKey>) {
    let mut gathered = Vec::new();
    let mut seen = ChainEnd::GENESIS;
    while queue.recv_many(&mut gathered, LARGEST_BATCH).await > 0 {
        let (records, waiting): (Vec<_>, Vec<_>) =
            gathered.drain(..).map(|waiting| (waiting.record, waiting.written)).unzip();
        let appended = audit::append(&database, &key, records, seen).await;
        if let Ok(end) = appended {
            seen = end;
        }
        for written in waiting {
            // Nobody may be waiting any more.
            let _ = written.send(appended.as_ref().map(|_| ()).map_err(same));
        }
    }
}

/// The same error for another one who waits.
fn same(error: &StoreError) -> StoreError {
    match error {
        StoreError::Corrupt(reason) => StoreError::Corrupt(reason.clone()),
        StoreError::Unreachable { server, details } => {
            StoreError::Unreachable { server, details: details.clone() }
        }
        StoreError::TooSlow { server, details } => StoreError::TooSlow { server, details: details.clone() },
        StoreError::Refused { server, details } => StoreError::Refused { server, details: details.clone() },
        StoreError::Unavailable(reason) => StoreError::Unavailable(reason.clone()),
        other => StoreError::Unavailable(other.to_string()),
    }
}
