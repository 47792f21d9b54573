//! The embedded store: one SQLite file is the truth, behind a journal of what is on its way there.

mod audit;
mod journal;
mod keys;
mod knowledge;
mod ledger;
mod lookups;
mod moving;
mod quota;
mod schema;
mod transaction;

use std::{
    path::Path,
    sync::{Arc, Mutex},
};

use async_trait::async_trait;
use ed25519_dalek::SigningKey;
use hindcast_core::{
    Timestamp,
    audit::{AuditFilter, AuditKey, AuditPage, AuditRecord, AuditRow, SignedHead},
    identity::{KeyId, KeyRecord, SecretHash},
    quota::{FreeRate, Limits, Reservation, Usage},
    store::{MetadataStore, StoreError},
};
use rusqlite::Connection;

use journal::Journal;
pub use knowledge::{KnowledgeFile, MovedCollection, SqliteKnowledge};
use ledger::Ledger;
use lookups::Lookups;
use quota::{Counter, Counters, FreeRequests};

/// Keys, usage and audit trail in one SQLite file and its journal. Several processes may hold the same file.
pub struct SqliteStore {
    audit_key: Arc<AuditKey>,
    counters: Arc<Counters>,
    free_requests: FreeRequests,
    ledger: Ledger,
    /// For what takes some microseconds on the way of a request.
    lookups: Arc<Mutex<Lookups>>,
    /// For long reads, which must not hold up a look-up.
    scans: Arc<Mutex<Connection>>,
}

impl SqliteStore {
    /// Opens or makes the file. A new trail starts with a row that says so, sealed with `audit_key`;
    /// a trail that was sealed with another key is refused.
    pub fn open(path: &Path, audit_key: SigningKey, now: Timestamp) -> Result<Self, StoreError> {
        let audit_key = Arc::new(AuditKey::new(audit_key));
        let connection = schema::open(path)?;
        schema::migrate(&connection, &schema::MIGRATIONS)?;
        audit::open_trail(&connection, &audit_key, now)?;
        let store = Self::over(path, connection, audit_key)?;
        store.ledger.settle_here()?;
        Ok(store)
    }

    /// Opens the file to look at it, in whatever state it is. `audit_key` is what its head should be
    /// sealed with.
    pub fn inspect(path: &Path, audit_key: SigningKey) -> Result<Self, StoreError> {
        if !path.exists() {
            return Err(StoreError::Missing(format!("store at `{}`", path.display())));
        }
        Self::over(path, schema::open(path)?, Arc::new(AuditKey::new(audit_key)))
    }

    fn over(path: &Path, tables: Connection, audit_key: Arc<AuditKey>) -> Result<Self, StoreError> {
        let counters = Arc::<Counters>::default();
        let lookups = Arc::new(Mutex::new(Lookups::open(path)?));
        let journal = Journal::new(path.with_extension("journal"), audit_key.clone());
        let ledger = Ledger::new(journal, tables, lookups.clone(), counters.clone(), audit_key.clone());
        let scans = Arc::new(Mutex::new(schema::open(path)?));
        Ok(Self { audit_key, counters, free_requests: FreeRequests::default(), ledger, lookups, scans })
    }

    fn stored_counter(&self, id: &KeyId) -> rusqlite::Result<Counter> {
        Counter::read(&lock(&self.lookups).connection, id)
    }

    async fn scan<T: Send + 'static>(
        &self,
        read: impl FnOnce(&Connection) -> rusqlite::Result<T> + Send + 'static,
    ) -> Result<T, StoreError> {
        let scans = self.scans.clone();
        tokio::task::spawn_blocking(move || read(&lock(&scans)).map_err(unavailable))
            .await
            .map_err(|error| StoreError::Unavailable(error.to_string()))?
    }
}

impl Drop for SqliteStore {
    fn drop(&mut self) {
        if let Err(error) = self.ledger.finish() {
            tracing::error!(%error, "the journal was not taken over; the next start tries again");
        }
    }
}

/// A reader that panicked left nothing half done: statements are reset when they are dropped.
fn lock<T>(connection: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    connection.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
}

fn unavailable(error: rusqlite::Error) -> StoreError {
    match error {
        rusqlite::Error::FromSqlConversionFailure(..)
        | rusqlite::Error::Utf8Error(..)
        | rusqlite::Error::InvalidColumnType(..)
        | rusqlite::Error::IntegralValueOutOfRange(..) => StoreError::Corrupt(error.to_string()),
        _ => StoreError::Unavailable(error.to_string()),
    }
}

#[async_trait]
impl MetadataStore for SqliteStore {
    async fn insert_key(&self, key: KeyRecord) -> Result<(), StoreError> {
        self.ledger.write(move |transaction| keys::insert(transaction, &key)).await
    }

    async fn find_key(&self, id: &KeyId) -> Result<Option<Arc<KeyRecord>>, StoreError> {
        lock(&self.lookups).find(id).map_err(unavailable)
    }

    async fn list_keys(&self) -> Result<Vec<KeyRecord>, StoreError> {
        self.scan(keys::list).await
    }

    async fn replace_secret(&self, id: &KeyId, secret: SecretHash, now: Timestamp) -> Result<(), StoreError> {
        let id = id.clone();
        self.ledger.write(move |transaction| keys::replace_secret(transaction, &id, &secret, now)).await
    }

    async fn revoke_key(&self, id: &KeyId, now: Timestamp) -> Result<(), StoreError> {
        let id = id.clone();
        self.ledger.write(move |transaction| keys::revoke(transaction, &id, now)).await
    }

    async fn reserve_quota(
        &self,
        id: &KeyId,
        limits: Limits,
        now: Timestamp,
    ) -> Result<Reservation, StoreError> {
        self.counters.reserve(id, limits, now, || self.stored_counter(id)).map_err(unavailable)
    }

    async fn admit_free(&self, id: &KeyId, rate: FreeRate, now: Timestamp) -> Result<bool, StoreError> {
        Ok(self.free_requests.admit(id, rate, now))
    }

    async fn usage(&self, id: &KeyId, limits: Limits, now: Timestamp) -> Result<Usage, StoreError> {
        self.counters.usage(id, limits, now, || self.stored_counter(id)).map_err(unavailable)
    }

    async fn append_audit(&self, record: AuditRecord) -> Result<(), StoreError> {
        self.ledger.append(record).await
    }

    async fn settle_audit(&self) -> Result<(), StoreError> {
        self.ledger.settle().await
    }

    async fn audit_head(&self) -> Result<Option<SignedHead>, StoreError> {
        let head = audit::head(&lock(&self.lookups).connection).map_err(unavailable)?;
        Ok(head.map(|head| head.signed(&self.audit_key)))
    }

    async fn audit_rows(&self, after: u64, limit: usize) -> Result<Vec<AuditRow>, StoreError> {
        self.scan(move |connection| audit::rows(connection, after, limit)).await
    }

    async fn search_audit(&self, filter: AuditFilter) -> Result<AuditPage, StoreError> {
        self.scan(move |connection| audit::search(connection, &filter)).await
    }

    async fn probe(&self) -> Result<(), StoreError> {
        audit::head(&lock(&self.lookups).connection).map_err(unavailable)?;
        Ok(())
    }
}

#[cfg(test)]
mod tests;
