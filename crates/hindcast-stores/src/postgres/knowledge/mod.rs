//! The truth of the knowledge base in PostgreSQL, which several servers share.

mod catalogue;
mod chunks;
mod collections;
mod documents;
mod moving;
mod rows;
mod tables;
mod usage;

use std::{
    sync::{
        Arc, OnceLock,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use hindcast_core::{
    identity::PrincipalId,
    knowledge::{Generation, Ownership},
    store::StoreError,
};
use tokio::{sync::Notify, time::timeout};

use super::{
    ConnectionThread, PostgresSettings,
    database::{Database, Lease, Most, column},
    schema,
    texts::kept,
};

pub(super) use tables::TABLES;

/// The first version of the tables that has a knowledge base.
pub(super) const VERSION: usize = 3;

/// How much there is, and whether it is still being moved here.
pub(super) const TALLY: &str = "
    SELECT count(*), coalesce(sum(document_count), 0)::bigint, coalesce(sum(chunk_count), 0)::bigint,
           (SELECT NOT is_moved FROM hindcast.generation)
    FROM hindcast.collections";

/// For how many generations it is known what they changed. An index that is further behind compares everything.
const REMEMBERED: u64 = 10_000;
/// What is too old is removed each time so many generations have come.
const FORGET_EVERY: i64 = 100;
/// Connections that read, and those that write documents. What is used is written on others.
const CONNECTIONS: Most = Most { work: 4, writers: 2 };
const FOR_USE: usize = 2;
/// The longest that a statement of a transaction may take that writes. Writers wait for each other.
const LONGEST_WRITE: Duration = Duration::from_secs(60);
/// The longest that it may take to remove a collection. Nobody but its users waits for that.
const LONGEST_REMOVAL: Duration = Duration::from_secs(600);
/// Where writers announce that they have written.
const CHANNEL: &str = "hindcast_knowledge";
/// How often those who listen look as well: use is not announced.
const LOOK_EVERY: Duration = Duration::from_secs(1);
/// The same while nobody can listen.
const LOOK_EVERY_ALONE: Duration = Duration::from_millis(250);
/// How soon a connection that listened is made again.
const LISTEN_AGAIN: Duration = Duration::from_secs(1);

/// Collections, documents, chunks, vectors and their use in a PostgreSQL database, which any number of servers share.
///
/// Files belong to the machine that they are on. Documents of a machine's files are found by their path, and watches are
/// listed as its own, only on that machine.
pub struct PostgresKnowledge {
    database: Arc<Database>,
    machine: String,
    truth: String,
    news: Arc<News>,
    is_followed: OnceLock<()>,
    /// The last to go.
    thread: ConnectionThread,
}

/// What is heard from other servers.
#[derive(Default)]
struct News {
    heard: Notify,
    is_listening: AtomicBool,
}

impl PostgresKnowledge {
    /// Connects and brings the tables up to date. Servers that read the same files have the same name of a `machine`.
    pub async fn open(settings: &PostgresSettings, machine: String) -> Result<Self, StoreError> {
        let knowledge = Self::over(settings, machine).await?;
        let moved = "SELECT is_moved FROM hindcast.generation";
        let moved = knowledge.database.work().await?.row(moved, &[]).await?;
        match moved.as_ref().map(|row| column(row, 0)).transpose()? {
            Some(true) => Ok(knowledge),
            _ => Err(StoreError::Corrupt(
                "a knowledge base was moved here in part · hint: finish `hindcast store migrate`".into(),
            )),
        }
    }

    /// The same whatever is there.
    async fn over(settings: &PostgresSettings, machine: String) -> Result<Self, StoreError> {
        let thread = ConnectionThread::start()?;
        let settings = PostgresSettings { connections: FOR_USE, ..settings.clone() };
        let database = Arc::new(Database::new(&settings, CONNECTIONS, thread.handle()?)?);
        schema::migrate(&database).await?;
        let truth = "SELECT truth FROM hindcast.generation";
        let truth = match database.work().await?.row(truth, &[]).await? {
            Some(row) => column(&row, 0)?,
            None => return Err(StoreError::Corrupt("the knowledge base has lost its generation".into())),
        };
        let (news, is_followed) = Default::default();
        Ok(Self { database, machine, truth, news, is_followed, thread })
    }

    /// A name that this knowledge base has and no other: what was derived from another one is of no use with it.
    pub fn truth(&self) -> &str {
        &self.truth
    }

    /// A connection that reads.
    async fn read(&self) -> Result<Lease<'_>, StoreError> {
        self.database.work().await
    }

    /// A connection in a transaction that writes; to be ended with [`Lease::end`].
    async fn write(&self) -> Result<Lease<'_>, StoreError> {
        let mut lease = self.database.writer().await?;
        lease.begin_long(LONGEST_WRITE).await?;
        Ok(lease)
    }

    /// Waits for news, and not for long.
    async fn wait_for_news(&self) {
        self.is_followed.get_or_init(|| {
            if let Ok(handle) = self.thread.handle() {
                handle.spawn(listen(self.database.clone(), self.news.clone()));
            }
        });
        let is_listening = self.news.is_listening.load(Ordering::Relaxed);
        let longest = if is_listening { LOOK_EVERY } else { LOOK_EVERY_ALONE };
        // Whoever waited looks in both cases.
        let _ = timeout(longest, self.news.heard.notified()).await;
    }
}

/// Listens for as long as the store is there, on whichever connection.
async fn listen(database: Arc<Database>, news: Arc<News>) {
    loop {
        let on_news = || {
            news.is_listening.store(true, Ordering::Relaxed);
            news.heard.notify_one();
        };
        let ended = database.listen(CHANNEL, on_news).await;
        news.is_listening.store(false, Ordering::Relaxed);
        tracing::debug!(?ended, "changes are looked for until they are announced again");
        tokio::time::sleep(LISTEN_AGAIN).await;
    }
}

/// What changed in a transaction; kept so that every server hears of it.
struct Change<'a> {
    ownership: &'a Ownership,
    collection: &'a str,
    document: Option<&'a str>,
    is_membership: bool,
}

const NEXT: &str = "
    WITH next AS (
        UPDATE hindcast.generation SET value = value + cardinality($2::text[]) RETURNING value
    ), told AS (
        INSERT INTO hindcast.changes (generation, owner, collection, document, is_membership)
        SELECT value - cardinality($2) + place, owner, collection, document, is_membership
        FROM next, unnest($1::text[], $2::text[], $3::text[], $4::bool[])
            WITH ORDINALITY AS change (owner, collection, document, is_membership, place)
    )
    SELECT value, pg_notify($5, '') FROM next";

/// Begins a generation for each change and writes down what they change; gives the last one. From here on all others who write
/// wait for the commit.
async fn next_generations(lease: &Lease<'_>, changes: &[Change<'_>]) -> Result<i64, StoreError> {
    let owners: Vec<_> = changes.iter().map(|change| owner(change.ownership).map(kept)).collect();
    let collections: Vec<_> = changes.iter().map(|change| kept(change.collection)).collect();
    let documents: Vec<_> = changes.iter().map(|change| change.document.map(kept)).collect();
    let memberships: Vec<_> = changes.iter().map(|change| change.is_membership).collect();
    let row = lease.row(NEXT, &[&owners, &collections, &documents, &memberships, &CHANNEL]).await?;
    let last: i64 = made(row.as_ref())?;
    let before = last - i64::try_from(changes.len()).unwrap_or(i64::MAX);
    if before / FORGET_EVERY != last / FORGET_EVERY {
        let forgotten = last - i64::try_from(REMEMBERED).unwrap_or(i64::MAX);
        lease.execute("DELETE FROM hindcast.changes WHERE generation <= $1", &[&forgotten]).await?;
        lease.execute("DELETE FROM hindcast.removed_chunks WHERE generation <= $1", &[&forgotten]).await?;
    }
    Ok(last)
}

/// Keeps all others who write waiting until the transaction ends, without a generation of its own.
async fn hold_generation(lease: &Lease<'_>) -> Result<(), StoreError> {
    let row = lease.row("SELECT value FROM hindcast.generation FOR UPDATE", &[]).await?;
    made(row.as_ref()).map(drop)
}

/// The number that a statement made, of which there is always one.
fn made(row: Option<&tokio_postgres::Row>) -> Result<i64, StoreError> {
    let row =
        row.ok_or_else(|| StoreError::Corrupt("the knowledge base has lost a row that counts".into()))?;
    column(row, 0)
}

async fn generation(lease: &Lease<'_>) -> Result<Generation, StoreError> {
    let row = lease.row("SELECT value FROM hindcast.generation", &[]).await?;
    made(row.as_ref()).map(|value| Generation(count(value)))
}

/// A count; a negative one was never written by us.
fn count(number: i64) -> u64 {
    u64::try_from(number).unwrap_or_default()
}

fn owner(ownership: &Ownership) -> Option<&str> {
    match ownership {
        Ownership::Shared => None,
        Ownership::Private(PrincipalId(owner)) => Some(owner),
    }
}

fn ownership(owner: Option<String>) -> Ownership {
    owner.map_or(Ownership::Shared, |owner| Ownership::Private(PrincipalId(owner.into())))
}
