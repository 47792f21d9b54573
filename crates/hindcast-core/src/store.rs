//! The seam to whatever keeps the truth. Its verbs are whole transactions, not table access.

use std::sync::Arc;

use async_trait::async_trait;
use jiff::Timestamp;

use crate::{
    audit::{AuditFilter, AuditPage, AuditRecord, AuditRow, SignedHead},
    identity::{KeyId, KeyRecord, SecretHash},
    quota::{FreeRate, Limits, Reservation, Usage},
};

/// Why the store could not do what was asked.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// It did not answer or answered with an error of its own.
    #[error("the store is unavailable: {0}")]
    Unavailable(String),
    /// The server that keeps it is down, or the way there is. `details` are for its operator alone.
    #[error("{server} cannot be reached: {details}")]
    Unreachable {
        /// What kind of server it is, such as `PostgreSQL`.
        server: &'static str,
        /// Where it is, and what became of the try.
        details: String,
    },
    /// The server that keeps it runs, as far as is known, but did not answer in time. `details` are for its operator alone.
    #[error("{server} did not answer in time: {details}")]
    TooSlow {
        /// What kind of server it is.
        server: &'static str,
        /// Where it is, and what was waited for.
        details: String,
    },
    /// The server that keeps it answers, but does not do what it is asked. `details` are for its operator alone.
    #[error("{server} refuses: {details}")]
    Refused {
        /// What kind of server it is.
        server: &'static str,
        /// Where it is, and what it says.
        details: String,
    },
    /// What it holds does not make sense.
    #[error("the store holds something unreadable: {0}")]
    Corrupt(String),
    /// A new thing would take an existing thing's place.
    #[error("{0} exists already")]
    Exists(String),
    /// There is nothing by that name.
    #[error("there is no {0}")]
    Missing(String),
    /// The collection was removed meanwhile.
    #[error("there is no such collection any more")]
    CollectionGone,
    /// The document was removed meanwhile.
    #[error("there is no such document any more")]
    DocumentGone,
    /// Another writer was faster.
    #[error("{0} has changed meanwhile")]
    Changed(String),
}

/// Keys, usage and audit trail, which all processes with the same store share. Every verb is atomic among them, and durable when
/// it returns unless it says otherwise.
#[async_trait]
pub trait MetadataStore: Send + Sync {
    /// Keeps a new key.
    async fn insert_key(&self, key: KeyRecord) -> Result<(), StoreError>;

    /// The key with this id, whatever its state, as it is now: also where another process has just changed it.
    async fn find_key(&self, id: &KeyId) -> Result<Option<Arc<KeyRecord>>, StoreError>;

    /// Every key, oldest first.
    async fn list_keys(&self) -> Result<Vec<KeyRecord>, StoreError>;

    /// From now on only the new secret opens the key; usage and rights stay.
    async fn replace_secret(&self, id: &KeyId, secret: SecretHash, now: Timestamp) -> Result<(), StoreError>;

    /// From now on the key opens nothing. Revoking twice keeps the first time.
    async fn revoke_key(&self, id: &KeyId, now: Timestamp) -> Result<(), StoreError>;

    /// Admits one request: counts it against both limits, or against none. Durable at the latest when an audit row of the key
    /// that is appended afterwards is. Exact under concurrency among all that count: a store in a file has one server that
    /// does, a database server may have many.
    async fn reserve_quota(
        &self,
        id: &KeyId,
        limits: Limits,
        now: Timestamp,
    ) -> Result<Reservation, StoreError>;

    /// Admits a request that is free unless it comes too often, for all who count together. Need not outlive whoever counts.
    async fn admit_free(&self, id: &KeyId, rate: FreeRate, now: Timestamp) -> Result<bool, StoreError>;

    /// Where the key stands, without counting.
    async fn usage(&self, id: &KeyId, limits: Limits, now: Timestamp) -> Result<Usage, StoreError>;

    /// Appends to the one chain behind whatever is its end then, and vouches for its new end. The row may wait to be read
    /// until [`settle_audit`](Self::settle_audit).
    async fn append_audit(&self, record: AuditRecord) -> Result<(), StoreError>;

    /// Makes all rows that were appended so far readable, whichever process appended them. Fails with
    /// [`StoreError::Corrupt`] where the next row cannot stand in the chain; those before it are readable then.
    async fn settle_audit(&self) -> Result<(), StoreError>;

    /// The end of the chain, signed if the store still vouches for it; none while it is empty.
    async fn audit_head(&self) -> Result<Option<SignedHead>, StoreError>;

    /// Up to `limit` rows that follow row `after`, in order, as they are stored.
    async fn audit_rows(&self, after: u64, limit: usize) -> Result<Vec<AuditRow>, StoreError>;

    /// One page of the rows that match, newest first.
    async fn search_audit(&self, filter: AuditFilter) -> Result<AuditPage, StoreError>;

    /// Where the database server is; none for a store in a file.
    fn server(&self) -> Option<&str> {
        None
    }

    /// Asks for something small, to see whether the store answers.
    async fn probe(&self) -> Result<(), StoreError>;
}
