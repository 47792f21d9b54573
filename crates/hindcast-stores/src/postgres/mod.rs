//! PostgreSQL as the store of several servers: keys, limits, the audit trail and the license.

mod address;
mod audit;
mod database;
mod keys;
mod knowledge;
mod moving;
mod quota;
mod schema;
mod texts;
mod tls;
mod writer;

use std::{fmt, sync::Arc, time::Duration};

use async_trait::async_trait;
use ed25519_dalek::SigningKey;
use hindcast_core::{
    Timestamp,
    audit::{AuditFilter, AuditKey, AuditPage, AuditRecord, AuditRow, SignedHead},
    identity::{KeyId, KeyRecord, SecretHash},
    quota::{FreeRate, Limits, Reservation, Usage},
    store::{MetadataStore, StoreError},
};
use tokio::{
    runtime::{Builder, Handle, Runtime},
    time::timeout,
};
use tokio_postgres::Row;

pub use database::PostgresSettings;
use database::{Database, Most, column};
pub use knowledge::PostgresKnowledge;
use writer::Writer;

/// Connections for what is not on the way of every request. Only one appends to the trail: one batch after the other.
const CONNECTIONS: Most = Most { work: 3, writers: 1 };
/// The longest that a probe waits: whoever asks for it, such as a load balancer, wants to know soon.
const LONGEST_PROBE: Duration = Duration::from_secs(3);

/// Keys, usage, audit trail and license in a PostgreSQL database, which any number of servers share.
///
/// Nothing is kept in the process: limits are counted by the database, a key is read at each request, and whoever holds the
/// row of the chain's head appends to it.
pub struct PostgresStore {
    audit_key: Arc<AuditKey>,
    database: Arc<Database>,
    writer: Writer,
    /// The last to go.
    _thread: ConnectionThread,
}

impl PostgresStore {
    /// Connects and brings the tables up to date. A new trail starts with a row that says so, sealed with `audit_key`; a
    /// trail that was sealed with another key is refused.
    pub async fn open(
        settings: &PostgresSettings,
        audit_key: SigningKey,
        now: Timestamp,
    ) -> Result<Self, StoreError> {
        let store = Self::over(settings, audit_key)?;
        schema::migrate(&store.database).await?;
        audit::open_trail(&store.database, &store.audit_key, now).await?;
        Ok(store)
    }

    /// Connects to look at what is there, in whatever state it is. `audit_key` is what its head should be sealed with.
    pub async fn inspect(settings: &PostgresSettings, audit_key: SigningKey) -> Result<Self, StoreError> {
        let store = Self::over(settings, audit_key)?;
        if schema::version(&store.database.work().await?).await? == 0 {
            return Err(StoreError::Missing(format!("store in PostgreSQL at {}", store.database.name())));
        }
        Ok(store)
    }

    /// Connects to see whether the database answers, and what it is. Nothing is made or changed.
    pub async fn look(settings: &PostgresSettings) -> Result<PostgresFound, StoreError> {
        let thread = ConnectionThread::start()?;
        look(&Database::new(settings, CONNECTIONS, thread.handle()?)?).await
    }

    /// Connects to count what is kept. Nothing is made or changed, and no audit key is needed.
    pub async fn tally(settings: &PostgresSettings) -> Result<StoreTally, StoreError> {
        let thread = ConnectionThread::start()?;
        let database = Database::new(settings, CONNECTIONS, thread.handle()?)?;
        let lease = database.work().await?;
        let place = database.name().to_owned();
        if schema::version(&lease).await? == 0 {
            return Ok(StoreTally { place, ..StoreTally::default() });
        }
        let counted = "
            SELECT (SELECT count(*) FROM hindcast.keys), (SELECT coalesce(max(seq), 0) FROM hindcast.audit),
                   EXISTS (SELECT FROM hindcast.audit_head)";
        let row = lease.row(counted, &[]).await?;
        let row = row.ok_or_else(|| StoreError::Corrupt("a count has no result".into()))?;
        let number = |row: &Row, place| {
            column::<i64>(row, place).map(|count| u64::try_from(count).unwrap_or_default())
        };
        let mut tally = StoreTally {
            place,
            keys: number(&row, 0)?,
            rows: number(&row, 1)?,
            is_sealed: column(&row, 2)?,
            ..StoreTally::default()
        };
        if schema::version(&lease).await? >= knowledge::VERSION
            && let Some(row) = lease.row(knowledge::TALLY, &[]).await?
        {
            (tally.collections, tally.documents, tally.chunks) =
                (number(&row, 0)?, number(&row, 1)?, number(&row, 2)?);
            tally.is_being_moved = column(&row, 3)?;
        }
        Ok(tally)
    }

    fn over(settings: &PostgresSettings, audit_key: SigningKey) -> Result<Self, StoreError> {
        let thread = ConnectionThread::start()?;
        let audit_key = Arc::new(AuditKey::new(audit_key));
        let database = Arc::new(Database::new(settings, CONNECTIONS, thread.handle()?)?);
        let writer = Writer::start(database.clone(), audit_key.clone(), thread.handle()?);
        Ok(Self { audit_key, database, writer, _thread: thread })
    }

    /// The license file that all servers go by, if there is one.
    pub async fn license(&self) -> Result<Option<String>, StoreError> {
        let found = self.database.work().await?.row("SELECT file FROM hindcast.license", &[]).await?;
        found.as_ref().map(|row| column(row, 0)).transpose()
    }

    /// Keeps a license file for all servers, in the place of the one before.
    pub async fn install_license(&self, file: &str) -> Result<(), StoreError> {
        let install = "INSERT INTO hindcast.license (single, file) VALUES (1, $1) ON CONFLICT (single) DO UPDATE SET file = $1";
        self.database.work().await?.execute(install, &[&file]).await.map(|_| ())
    }
}

/// How much a store keeps.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct StoreTally {
    /// Where it is, without any password.
    pub place: String,
    /// API keys.
    pub keys: u64,
    /// Rows of the audit trail.
    pub rows: u64,
    /// The trail has its sealed head. A trail without one is being moved here.
    pub is_sealed: bool,
    /// Collections of the knowledge base.
    pub collections: u64,
    /// Their documents.
    pub documents: u64,
    /// The documents' chunks.
    pub chunks: u64,
    /// A knowledge base is being moved here.
    pub is_being_moved: bool,
}

/// A database that answers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PostgresFound {
    /// Where it is, without any password.
    pub place: String,
    /// The server's version.
    pub version: String,
    /// The version of the tables; 0 where there are none yet.
    pub tables: usize,
    /// What is asked and answered is encrypted on its way.
    pub is_encrypted: bool,
    /// It does not leave this machine.
    pub is_local: bool,
}

impl fmt::Display for PostgresFound {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "PostgreSQL {} answers at {}", self.version, self.place)?;
        match self.tables {
            0 => f.write_str("; the first server makes its tables"),
            version => write!(f, ", tables of version {version}"),
        }
    }
}

async fn look(database: &Database) -> Result<PostgresFound, StoreError> {
    let lease = database.work().await?;
    let asked = "
        SELECT current_setting('server_version'),
               coalesce((SELECT ssl FROM pg_stat_ssl WHERE pid = pg_backend_pid()), false)";
    let (version, is_encrypted) = match lease.row(asked, &[]).await? {
        Some(row) => (column(&row, 0)?, column(&row, 1)?),
        None => (String::new(), false),
    };
    let tables = schema::version(&lease).await?;
    let (place, is_local) = (database.name().to_owned(), database.is_local());
    Ok(PostgresFound { place, version, tables, is_encrypted, is_local })
}

/// The thread that runs the connections. Dropping it never waits, so it may be dropped inside another runtime.
struct ConnectionThread(Option<Runtime>);

impl ConnectionThread {
    fn start() -> Result<Self, StoreError> {
        let runtime =
            Builder::new_multi_thread().worker_threads(1).thread_name("postgres").enable_all().build();
        let failed = |error| StoreError::Unavailable(format!("no thread for connections: {error}"));
        Ok(Self(Some(runtime.map_err(failed)?)))
    }

    fn handle(&self) -> Result<&Handle, StoreError> {
        let ended = || StoreError::Unavailable("the store is being closed".into());
        self.0.as_ref().map(Runtime::handle).ok_or_else(ended)
    }
}

impl Drop for ConnectionThread {
    fn drop(&mut self) {
        if let Some(runtime) = self.0.take() {
            // No statement is lost: whoever waits for one holds the store.
            runtime.shutdown_background();
        }
    }
}

#[cfg(test)]
mod tests;

#[async_trait]
impl MetadataStore for PostgresStore {
    async fn insert_key(&self, key: KeyRecord) -> Result<(), StoreError> {
        keys::insert(&self.database, &key).await
    }

    async fn find_key(&self, id: &KeyId) -> Result<Option<Arc<KeyRecord>>, StoreError> {
        Ok(keys::find(&self.database, id).await?.map(Arc::new))
    }

    async fn list_keys(&self) -> Result<Vec<KeyRecord>, StoreError> {
        keys::list(&self.database).await
    }

    async fn replace_secret(&self, id: &KeyId, secret: SecretHash, now: Timestamp) -> Result<(), StoreError> {
        keys::replace_secret(&self.database, id, &secret, now).await
    }

    async fn revoke_key(&self, id: &KeyId, now: Timestamp) -> Result<(), StoreError> {
        keys::revoke(&self.database, id, now).await
    }

    async fn reserve_quota(
        &self,
        id: &KeyId,
        limits: Limits,
        now: Timestamp,
    ) -> Result<Reservation, StoreError> {
        quota::reserve(&self.database, id, limits, now).await
    }

    async fn admit_free(&self, id: &KeyId, rate: FreeRate, now: Timestamp) -> Result<bool, StoreError> {
        quota::admit_free(&self.database, id, rate, now).await
    }

    async fn usage(&self, id: &KeyId, limits: Limits, now: Timestamp) -> Result<Usage, StoreError> {
        quota::usage(&self.database, id, limits, now).await
    }

    async fn append_audit(&self, record: AuditRecord) -> Result<(), StoreError> {
        self.writer.append(record).await
    }

    /// Rows can be read as soon as they are appended.
    async fn settle_audit(&self) -> Result<(), StoreError> {
        Ok(())
    }

    async fn audit_head(&self) -> Result<Option<SignedHead>, StoreError> {
        let head = audit::head(&self.database).await?;
        Ok(head.map(|head| head.signed(&self.audit_key)))
    }

    async fn audit_rows(&self, after: u64, limit: usize) -> Result<Vec<AuditRow>, StoreError> {
        audit::rows(&self.database, after, limit).await
    }

    async fn search_audit(&self, filter: AuditFilter) -> Result<AuditPage, StoreError> {
        audit::search(&self.database, &filter).await
    }

    fn server(&self) -> Option<&str> {
        Some(self.database.name())
    }

    async fn probe(&self) -> Result<(), StoreError> {
        let probe = async { self.database.lookup().await?.row("SELECT 1", &[]).await.map(|_| ()) };
        timeout(LONGEST_PROBE, probe).await.unwrap_or_else(|_| Err(self.database.silent(LONGEST_PROBE)))
    }
}
