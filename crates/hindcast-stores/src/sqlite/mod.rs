//! The embedded store: one SQLite file is the truth.
//!
//! Whatever waits to be written is put into one transaction, so that the cost of a commit is shared by
//! all requests in flight and every answer still waits for its own.

mod audit;
mod keys;
mod knowledge;
mod quota;
mod schema;
mod transaction;
mod writer;

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
    quota::{Limits, Reservation, Usage},
    store::{MetadataStore, StoreError},
};
use rusqlite::Connection;

pub use knowledge::SqliteKnowledge;
use quota::Counters;
use writer::{Unit, Writer};

/// Keys, usage and audit trail in one SQLite file. Several processes may hold the same file.
pub struct SqliteStore {
    audit_key: Arc<AuditKey>,
    counters: Arc<Counters>,
    /// None for a store that is only looked at.
    writer: Option<Writer>,
    /// For look-ups of some microseconds on the request path, while the writer writes.
    lookups: Mutex<Connection>,
    /// For long reads, which must not hold up a look-up.
    scans: Arc<Mutex<Connection>>,
}

impl SqliteStore {
    /// Opens or makes the file. A new trail starts with a row that says so, sealed with `audit_key`;
    /// a trail that was sealed with another key is refused.
    pub fn open(path: &Path, audit_key: SigningKey, now: Timestamp) -> Result<Self, StoreError> {
        let audit_key = Arc::new(AuditKey::new(audit_key));
        let connection = schema::open(path)?;
        schema::migrate(&connection)?;
        audit::open_trail(&connection, &audit_key, now)?;
        let counters = Arc::<Counters>::default();
        Ok(Self {
            writer: Some(Writer::new(connection, audit_key.clone(), counters.clone())),
            audit_key,
            counters,
            lookups: Mutex::new(schema::open(path)?),
            scans: Arc::new(Mutex::new(schema::open(path)?)),
        })
    }

    /// Opens the file only to look at it, in whatever state it is. `audit_key` is what its head should
    /// be sealed with.
    pub fn inspect(path: &Path, audit_key: SigningKey) -> Result<Self, StoreError> {
        if !path.exists() {
            return Err(StoreError::Missing(format!("store at `{}`", path.display())));
        }
        Ok(Self {
            writer: None,
            audit_key: Arc::new(AuditKey::new(audit_key)),
            counters: Arc::default(),
            lookups: Mutex::new(schema::open(path)?),
            scans: Arc::new(Mutex::new(schema::open(path)?)),
        })
    }

    async fn write<T: Send + 'static>(
        &self,
        job: impl FnOnce(&mut Unit<'_>) -> Result<T, StoreError> + Send + 'static,
    ) -> Result<T, StoreError> {
        match &self.writer {
            Some(writer) => writer.run(job).await,
            None => Err(StoreError::Unavailable("it is open for looking only".into())),
        }
    }

    fn look_up<T>(&self, read: impl Fn(&Connection) -> rusqlite::Result<T>) -> Result<T, StoreError> {
        // The writer does not wait for other processes; what fails there for that is tried again here.
        match self.writer.as_ref().and_then(|writer| writer.read_if_idle(&read)) {
            Some(Ok(found)) => Ok(found),
            _ => read(&lock(&self.lookups)).map_err(unavailable),
        }
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
        if let Some(writer) = &self.writer {
            writer.finish();
        }
    }
}

/// A reader that panicked left nothing half done: statements are reset when they are dropped.
fn lock(connection: &Mutex<Connection>) -> std::sync::MutexGuard<'_, Connection> {
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
        self.write(move |unit| keys::insert(unit.transaction(), &key)).await
    }

    async fn find_key(&self, id: &KeyId) -> Result<Option<KeyRecord>, StoreError> {
        self.look_up(|connection| keys::find(connection, id))
    }

    async fn list_keys(&self) -> Result<Vec<KeyRecord>, StoreError> {
        self.scan(keys::list).await
    }

    async fn replace_secret(&self, id: &KeyId, secret: SecretHash, now: Timestamp) -> Result<(), StoreError> {
        let id = id.clone();
        self.write(move |unit| keys::replace_secret(unit.transaction(), &id, &secret, now)).await
    }

    async fn revoke_key(&self, id: &KeyId, now: Timestamp) -> Result<(), StoreError> {
        let id = id.clone();
        self.write(move |unit| keys::revoke(unit.transaction(), &id, now)).await
    }

    async fn reserve_quota(
        &self,
        id: &KeyId,
        limits: Limits,
        now: Timestamp,
    ) -> Result<Reservation, StoreError> {
        self.look_up(|connection| self.counters.reserve(connection, id, limits, now))
    }

    async fn usage(&self, id: &KeyId, limits: Limits, now: Timestamp) -> Result<Usage, StoreError> {
        self.look_up(|connection| self.counters.usage(connection, id, limits, now))
    }

    async fn append_audit(&self, record: AuditRecord) -> Result<(), StoreError> {
        self.write(move |unit| unit.append(&record)).await
    }

    async fn audit_head(&self) -> Result<Option<SignedHead>, StoreError> {
        Ok(self.look_up(audit::head)?.map(|head| head.signed(&self.audit_key)))
    }

    async fn audit_rows(&self, after: u64, limit: usize) -> Result<Vec<AuditRow>, StoreError> {
        self.scan(move |connection| audit::rows(connection, after, limit)).await
    }

    async fn search_audit(&self, filter: AuditFilter) -> Result<AuditPage, StoreError> {
        self.scan(move |connection| audit::search(connection, &filter)).await
    }
}

#[cfg(test)]
mod tests;
