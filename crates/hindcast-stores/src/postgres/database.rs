//! Connections to PostgreSQL: where it is, a pool of them, and what their errors mean.

use std::{
    error::Error as _,
    future::poll_fn,
    path::PathBuf,
    pin::Pin,
    sync::{
        Mutex, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    time::{Duration, Instant},
};

use deadpool_postgres::{
    Connect, Manager, ManagerConfig, Object, Pool, PoolError, RecyclingMethod, Runtime as PoolRuntime,
    TimeoutType,
};
use hindcast_core::store::StoreError;
use tokio::{
    io::{AsyncRead, AsyncWrite},
    runtime::Handle,
    task::JoinHandle,
    time::timeout,
};
use tokio_postgres::{
    AsyncMessage, Client, Config, Connection, Error, NoTls, Row, Statement,
    config::SslMode,
    types::{FromSql, ToSql},
};

use super::{
    address::{config_of, is_local, name_of},
    tls::Tls,
};

/// The longest wait for a connection.
const LONGEST_WAIT: Duration = Duration::from_secs(5);
/// The longest that a request waits for a key or a count.
const LONGEST_LOOKUP: Duration = Duration::from_secs(5);
/// The longest that any other statement may take. Longer than [`LONGEST_SILENCE`], after which a server that stands still
/// releases the chain.
const LONGEST_STATEMENT: Duration = Duration::from_secs(20);
/// PostgreSQL ends a statement that takes too long. When it has not answered this much later, it does not answer at all.
const GRACE: Duration = Duration::from_secs(1);
/// The longest silence of the other side before a connection counts as broken.
const LONGEST_SILENCE: Duration = Duration::from_secs(10);
/// How often the log says that the database fails.
const TOLD_AGAIN: Duration = Duration::from_secs(10);
/// SQLSTATEs of a server that starts or stops, or has no free connection.
const STARTING_OR_STOPPING: [&str; 3] = ["57P", "53300", "08"];
/// SQLSTATEs of time limits: a statement was cancelled, a lock was not free, a transaction was left open too long.
const OUT_OF_TIME: [&str; 3] = ["57014", "55P03", "25P03"];

/// Where PostgreSQL is, and how to get in.
#[derive(Clone, Default)]
pub struct PostgresSettings {
    /// `postgres://user@host:port/database?sslmode=require`.
    pub url: String,
    /// Takes the place of a password in the address.
    pub password: Option<String>,
    /// A PEM file with the certificates that are trusted instead of the system's.
    pub tls_ca: Option<PathBuf>,
    /// The most connections for what is on the way of requests. A few others are for the rest.
    pub connections: usize,
}

/// How many connections there are at most, besides those for look-ups.
#[derive(Clone, Copy)]
pub(super) struct Most {
    pub(super) work: usize,
    pub(super) writers: usize,
}

/// The database that several servers share.
pub(super) struct Database {
    /// For what every request waits for: keys and counts.
    lookups: Pool,
    /// For changes of keys and long reads, which must not hold up a look-up.
    work: Pool,
    /// For transactions that wait for those of other servers, which must hold up nothing else.
    writers: Pool,
    config: Config,
    /// Makes connections that listen.
    listening: Connector,
    /// Where it is, without any password.
    name: String,
    is_local: bool,
    /// When the log last said that it fails.
    told: Mutex<Option<Instant>>,
}

impl Database {
    /// Makes the pools. They connect when a connection is first needed, and run their connections in `runtime`.
    pub(super) fn new(settings: &PostgresSettings, most: Most, runtime: &Handle) -> Result<Self, StoreError> {
        let config = config_of(settings)?;
        let name = name_of(&config);
        let is_local = is_local(&config);
        let tls = match config.get_ssl_mode() {
            SslMode::Disable => None,
            _ => Some(Tls::trusting(settings.tls_ca.as_deref())?),
        };
        let connecting = |session: String| Connector { runtime: runtime.clone(), tls: tls.clone(), session };
        let listening = connecting(String::new());
        // A count is durable when the row of what was counted is: the log is written in its order.
        let hasty = connecting(session("off", LONGEST_LOOKUP));
        let durable = connecting(session("on", LONGEST_STATEMENT));
        let lookups = pool(&config, hasty, settings.connections.max(1), &name)?;
        let work = pool(&config, durable.clone(), most.work, &name)?;
        let writers = pool(&config, durable, most.writers, &name)?;
        let told = Mutex::new(None);
        Ok(Self { lookups, work, writers, config, listening, name, is_local, told })
    }

    /// Connects to hear what other servers announce on a channel. Calls `on_news` when it listens and then for each announcement;
    /// returns when the connection has ended, or why there was none.
    pub(super) async fn listen(&self, channel: &str, on_news: impl Fn()) -> Result<(), StoreError> {
        let heard = self.listening.listen(&with_time_limits(&self.config), channel, on_news).await;
        heard.map_err(|error| self.failed(&error))
    }

    /// Where it is, without any password.
    pub(super) fn name(&self) -> &str {
        &self.name
    }

    /// Whether what is sent there does not leave this machine.
    pub(super) fn is_local(&self) -> bool {
        self.is_local
    }

    /// A connection for what a request waits for. What it commits may be lost until something is committed through
    /// [`work`](Self::work).
    pub(super) async fn lookup(&self) -> Result<Lease<'_>, StoreError> {
        self.lease(&self.lookups, LONGEST_LOOKUP).await
    }

    /// A connection for everything else. What it commits is durable.
    pub(super) async fn work(&self) -> Result<Lease<'_>, StoreError> {
        self.lease(&self.work, LONGEST_STATEMENT).await
    }

    /// A connection for a transaction that waits for others. What it commits is durable.
    pub(super) async fn writer(&self) -> Result<Lease<'_>, StoreError> {
        self.lease(&self.writers, LONGEST_STATEMENT).await
    }

    async fn lease(&self, pool: &Pool, longest: Duration) -> Result<Lease<'_>, StoreError> {
        match pool.get().await {
            Ok(client) => Ok(Lease {
                client: Some(client),
                longest,
                is_broken: AtomicBool::new(false),
                is_inside: AtomicBool::new(false),
                database: self,
            }),
            Err(PoolError::Backend(error)) => Err(self.failed(&error)),
            // Whoever has them waits for PostgreSQL.
            Err(PoolError::Timeout(TimeoutType::Wait)) => Err(self.too_slow(&format!(
                "all {} connections were busy for {} s · hint: if PostgreSQL is not slow, raise `store.connections`",
                pool.status().max_size,
                LONGEST_WAIT.as_secs()
            ))),
            Err(PoolError::Timeout(_)) => {
                Err(self.unreachable(&format!("no connection within {} s", LONGEST_WAIT.as_secs())))
            }
            Err(error) => Err(self.unreachable(&error.to_string())),
        }
    }

    /// What an error of the database means for whoever asked.
    fn failed(&self, error: &Error) -> StoreError {
        if let Some(error) = error.as_db_error() {
            let code = error.code().code();
            let told = format!("{} ({code})", error.message());
            let is_among = |classes: &[&str]| classes.iter().any(|class| code.starts_with(class));
            return match code {
                _ if is_among(&STARTING_OR_STOPPING) => self.unreachable(&told),
                _ if is_among(&OUT_OF_TIME) => self.too_slow(&told),
                _ => self.refused(&told),
            };
        }
        let mut reason = error.to_string();
        let mut cause = error.source();
        while let Some(error) = cause {
            let text = error.to_string();
            if !reason.contains(&text) {
                reason = format!("{reason}: {text}");
            }
            cause = error.source();
        }
        self.unreachable(&reason)
    }

    /// An answer that did not come within `waited`.
    pub(super) fn silent(&self, waited: Duration) -> StoreError {
        self.too_slow(&format!("no answer within {} s", waited.as_secs()))
    }

    fn unreachable(&self, reason: &str) -> StoreError {
        self.logged(StoreError::Unreachable { server: SERVER, details: self.here(reason) })
    }

    fn too_slow(&self, reason: &str) -> StoreError {
        self.logged(StoreError::TooSlow { server: SERVER, details: self.here(reason) })
    }

    fn refused(&self, reason: &str) -> StoreError {
        self.logged(StoreError::Refused { server: SERVER, details: self.here(reason) })
    }

    fn here(&self, reason: &str) -> String {
        format!("{}: {reason}", self.name)
    }

    /// Tells the operator, though not for each request: callers are not told where the database is and what it says.
    fn logged(&self, error: StoreError) -> StoreError {
        let mut told = self.told.lock().unwrap_or_else(PoisonError::into_inner);
        if told.is_none_or(|told| told.elapsed() > TOLD_AGAIN) {
            *told = Some(Instant::now());
            tracing::error!("{error}");
        }
        error
    }
}

const SERVER: &str = "PostgreSQL";

/// What a connection is set to, whatever the server, the database, the role or the address prefer: nobody may weaken what a commit
/// or a transaction means here. Statements, because poolers refuse such settings in the packet that opens a connection.
fn session(synchronous_commit: &str, longest: Duration) -> String {
    format!(
        "SET synchronous_commit = {synchronous_commit};
         SET default_transaction_isolation = 'read committed';
         SET statement_timeout = {};
         SET idle_in_transaction_session_timeout = {}",
        longest.as_millis(),
        // A server that stands still must not keep the others from the chain.
        LONGEST_SILENCE.as_millis()
    )
}

/// A connection that is this caller's for a while.
pub(super) struct Lease<'a> {
    /// None only while it is dropped.
    client: Option<Object>,
    /// The longest that a statement may take.
    longest: Duration,
    is_broken: AtomicBool,
    /// A transaction is open.
    is_inside: AtomicBool,
    database: &'a Database,
}

/// What a statement is given.
pub(super) type Given<'a> = &'a [&'a (dyn ToSql + Sync)];

impl Lease<'_> {
    pub(super) async fn rows(&self, sql: &str, given: Given<'_>) -> Result<Vec<Row>, StoreError> {
        let client = self.client()?;
        self.timed(async { client.query(&client.prepare_cached(sql).await?, given).await }).await
    }

    pub(super) async fn row(&self, sql: &str, given: Given<'_>) -> Result<Option<Row>, StoreError> {
        let client = self.client()?;
        self.timed(async { client.query_opt(&client.prepare_cached(sql).await?, given).await }).await
    }

    /// Runs a statement; gives how many rows it changed.
    pub(super) async fn execute(&self, sql: &str, given: Given<'_>) -> Result<u64, StoreError> {
        let client = self.client()?;
        self.timed(async { client.execute(&client.prepare_cached(sql).await?, given).await }).await
    }

    /// Begins a transaction each statement of which may take longer than usual.
    pub(super) async fn begin_long(&mut self, longest: Duration) -> Result<(), StoreError> {
        self.longest = longest;
        self.batch(&format!("BEGIN; SET LOCAL statement_timeout = {}", longest.as_millis())).await?;
        self.set_inside(true);
        Ok(())
    }

    /// Ends a transaction: keeps what was done if that succeeded, and else undoes it.
    pub(super) async fn end<T>(&self, done: Result<T, StoreError>) -> Result<T, StoreError> {
        match done {
            Ok(done) => self.commit().await.map(|()| done),
            Err(error) => {
                // A connection that failed, or fails now, is not used again.
                if !self.is_broken.load(Ordering::Relaxed) && self.batch("ROLLBACK").await.is_ok() {
                    self.set_inside(false);
                }
                Err(error)
            }
        }
    }

    /// Begins a transaction. Where it does not come to [`commit`](Self::commit), it ends with the connection.
    pub(super) async fn begin(&self) -> Result<(), StoreError> {
        self.batch("BEGIN").await?;
        self.is_inside.store(true, Ordering::Relaxed);
        Ok(())
    }

    /// Keeps what was done since [`begin`](Self::begin).
    pub(super) async fn commit(&self) -> Result<(), StoreError> {
        self.batch("COMMIT").await?;
        self.is_inside.store(false, Ordering::Relaxed);
        Ok(())
    }

    /// Runs statements without parameters or results.
    pub(super) async fn batch(&self, sql: &str) -> Result<(), StoreError> {
        let client = self.client()?;
        self.timed(client.batch_execute(sql)).await
    }

    pub(super) async fn prepare(&self, sql: &str) -> Result<Statement, StoreError> {
        let client = self.client()?;
        self.timed(client.prepare_cached(sql)).await
    }

    /// The client, to send several statements at once.
    pub(super) fn client(&self) -> Result<&Object, StoreError> {
        self.client.as_ref().ok_or_else(|| self.database.silent(Duration::ZERO))
    }

    /// Waits for an answer, but not for ever. A connection that failed is not used again: something may be half done in it.
    pub(super) async fn timed<T>(
        &self,
        work: impl Future<Output = Result<T, Error>>,
    ) -> Result<T, StoreError> {
        self.is_broken.store(true, Ordering::Relaxed);
        match timeout(self.longest + GRACE, work).await {
            Ok(Ok(done)) => {
                self.is_broken.store(false, Ordering::Relaxed);
                Ok(done)
            }
            Ok(Err(error)) => Err(self.database.failed(&error)),
            Err(_) => Err(self.database.silent(self.longest)),
        }
    }

    /// Says whether a transaction is open, where that was not begun or ended here.
    pub(super) fn set_inside(&self, is_inside: bool) {
        self.is_inside.store(is_inside, Ordering::Relaxed);
    }
}

impl Drop for Lease<'_> {
    fn drop(&mut self) {
        if let Some(client) = self.client.take()
            && (self.is_broken.load(Ordering::Relaxed) || self.is_inside.load(Ordering::Relaxed))
        {
            drop(Object::take(client));
        }
    }
}

/// A value of a row. One that is not of its type was never written by us.
pub(super) fn column<'a, T: FromSql<'a>>(row: &'a Row, place: usize) -> Result<T, StoreError> {
    row.try_get(place).map_err(|error| StoreError::Corrupt(error.to_string()))
}

/// Connects in a runtime that outlives the caller: the runtimes of the server's threads end before the store does.
#[derive(Clone)]
struct Connector {
    runtime: Handle,
    tls: Option<Tls>,
    /// Statements that every new connection begins with.
    session: String,
}

type Connecting<'a> = Pin<Box<dyn Future<Output = Result<(Client, JoinHandle<()>), Error>> + Send + 'a>>;

impl Connect for Connector {
    fn connect(&self, config: &Config) -> Connecting<'_> {
        let (config, this) = (config.clone(), self.clone());
        let mut connecting = AbortOnDrop(self.runtime.spawn(async move { this.connected(&config).await }));
        Box::pin(async move {
            match (&mut connecting.0).await {
                Ok(connected) => connected,
                // The store is being closed. Whoever still waits stops when its time is up.
                Err(_) => std::future::pending().await,
            }
        })
    }
}

impl Connector {
    async fn connected(self, config: &Config) -> Result<(Client, JoinHandle<()>), Error> {
        let (client, task) = match self.tls {
            Some(tls) => {
                let (client, connection) = config.connect(tls).await?;
                (client, self.runtime.spawn(until_it_ends(connection)))
            }
            None => {
                let (client, connection) = config.connect(NoTls).await?;
                (client, self.runtime.spawn(until_it_ends(connection)))
            }
        };
        client.batch_execute(&self.session).await?;
        Ok((client, task))
    }

    async fn listen(&self, config: &Config, channel: &str, on_news: impl Fn()) -> Result<(), Error> {
        match self.tls.clone() {
            Some(tls) => {
                let (client, connection) = config.connect(tls).await?;
                heard(&client, connection, channel, on_news).await
            }
            None => {
                let (client, connection) = config.connect(NoTls).await?;
                heard(&client, connection, channel, on_news).await
            }
        }
    }
}

/// Runs a connection, and tells what is announced there, until it ends.
async fn heard<S, T>(
    client: &Client,
    mut connection: Connection<S, T>,
    channel: &str,
    on_news: impl Fn(),
) -> Result<(), Error>
where
    S: AsyncRead + AsyncWrite + Unpin,
    T: AsyncRead + AsyncWrite + Unpin,
{
    let listen = format!("LISTEN {channel}");
    let run = async {
        while let Some(message) = poll_fn(|context| connection.poll_message(context)).await {
            if let AsyncMessage::Notification(_) = message? {
                on_news();
            }
        }
        Ok::<(), Error>(())
    };
    let begin = async {
        client.batch_execute(&listen).await?;
        // What was announced before is not heard any more.
        on_news();
        Ok::<(), Error>(())
    };
    tokio::try_join!(run, begin).map(|((), ())| ())
}

/// A try to connect that ends when nobody waits for it any more: a server that hangs must not gather them.
struct AbortOnDrop<T>(JoinHandle<T>);

impl<T> Drop for AbortOnDrop<T> {
    fn drop(&mut self) {
        self.0.abort();
    }
}

async fn until_it_ends(connection: impl Future<Output = Result<(), Error>>) {
    if let Err(error) = connection.await {
        tracing::debug!(%error, "a connection to PostgreSQL has ended");
    }
}

fn with_time_limits(config: &Config) -> Config {
    let mut config = config.clone();
    config.connect_timeout(LONGEST_WAIT).tcp_user_timeout(LONGEST_SILENCE).keepalives_idle(LONGEST_SILENCE);
    config
}

fn pool(config: &Config, connect: Connector, size: usize, name: &str) -> Result<Pool, StoreError> {
    let manager = Manager::from_connect(
        with_time_limits(config),
        connect,
        ManagerConfig { recycling_method: RecyclingMethod::Fast },
    );
    Pool::builder(manager)
        .max_size(size)
        .wait_timeout(Some(LONGEST_WAIT))
        .create_timeout(Some(LONGEST_WAIT))
        .recycle_timeout(Some(LONGEST_WAIT))
        .runtime(PoolRuntime::Tokio1)
        .build()
        .map_err(|error| StoreError::Unavailable(format!("PostgreSQL at {name}: {error}")))
}
