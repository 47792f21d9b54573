//! Connections to PostgreSQL: where it is, a pool of them, and what their errors mean.

use std::{
    error::Error as _,
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
use tokio::{runtime::Handle, task::JoinHandle, time::timeout};
use tokio_postgres::{
    Client, Config, Error, NoTls, Row, Statement,
    config::{Host, SslMode},
    types::{FromSql, ToSql},
};

use super::tls::Tls;

/// How long is waited for a connection.
const LONGEST_WAIT: Duration = Duration::from_secs(5);
/// How long a statement may take. A connection whose statement takes longer is given up.
const LONGEST_STATEMENT: Duration = Duration::from_secs(20);
/// After so long a silence of the other side a connection counts as broken.
const LONGEST_SILENCE: Duration = Duration::from_secs(10);
/// Connections for what is not on the way of every request.
const FOR_WORK: usize = 3;
/// How often the log says that the database is down.
const TOLD_AGAIN: Duration = Duration::from_secs(10);
/// SQLSTATEs of a server that begins or ends, or has no room, and will have.
const STARTING_OR_STOPPING: [&str; 3] = ["57P", "53300", "08"];

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

/// The database that several servers share.
pub(super) struct Database {
    /// For what every request waits for: keys and counts.
    lookups: Pool,
    /// For changes of keys and long reads, which must not hold up a look-up.
    work: Pool,
    /// For appending to the trail, one batch after the other.
    chain: Pool,
    /// Where it is, without any password.
    name: String,
    is_local: bool,
    /// When the log last said that it is down.
    told: Mutex<Option<Instant>>,
}

impl Database {
    /// Connects when there is something to ask. Connections live in `runtime`, whoever asks for them.
    pub(super) fn new(settings: &PostgresSettings, runtime: &Handle) -> Result<Self, StoreError> {
        let config = config_of(settings)?;
        let name = name_of(&config);
        let is_local = config.get_hosts().iter().all(is_here);
        let tls = match config.get_ssl_mode() {
            SslMode::Disable => None,
            _ => Some(Tls::trusting(settings.tls_ca.as_deref())?),
        };
        let connect = Connector { runtime: runtime.clone(), tls };
        let mut hasty = config.clone();
        // A count is durable when the row of what was counted is: the log is written in its order.
        with_option(&mut hasty, "synchronous_commit=off");
        let lookups = pool(hasty, connect.clone(), settings.connections.max(1), &name)?;
        let work = pool(config.clone(), connect.clone(), FOR_WORK, &name)?;
        let chain = pool(config, connect, 1, &name)?;
        Ok(Self { lookups, work, chain, name, is_local, told: Mutex::new(None) })
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
        self.lease(&self.lookups).await
    }

    /// A connection for everything else. What it commits is durable.
    pub(super) async fn work(&self) -> Result<Lease<'_>, StoreError> {
        self.lease(&self.work).await
    }

    /// The connection that appends to the trail.
    pub(super) async fn chain(&self) -> Result<Lease<'_>, StoreError> {
        self.lease(&self.chain).await
    }

    async fn lease(&self, pool: &Pool) -> Result<Lease<'_>, StoreError> {
        match pool.get().await {
            Ok(client) => Ok(Lease {
                client: Some(client),
                is_broken: AtomicBool::new(false),
                is_inside: AtomicBool::new(false),
                database: self,
            }),
            Err(PoolError::Backend(error)) => Err(self.failed(&error)),
            Err(PoolError::Timeout(TimeoutType::Wait)) => Err(StoreError::Unavailable(format!(
                "all {} connections to PostgreSQL at {} are busy · hint: raise `store.connections`",
                pool.status().max_size,
                self.name
            ))),
            Err(PoolError::Timeout(_)) => Err(self.silent(LONGEST_WAIT)),
            Err(error) => Err(self.unreachable(&error.to_string())),
        }
    }

    /// What an error of the database means for whoever asked.
    fn failed(&self, error: &Error) -> StoreError {
        if let Some(error) = error.as_db_error() {
            let (message, code) = (error.message(), error.code().code());
            let is_down = STARTING_OR_STOPPING.iter().any(|class| code.starts_with(class));
            if is_down {
                return self.unreachable(&format!("{message} ({code})"));
            }
            return StoreError::Unavailable(format!(
                "PostgreSQL at {} refuses: {message} ({code})",
                self.name
            ));
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

    fn silent(&self, waited: Duration) -> StoreError {
        self.unreachable(&format!("no answer within {} s", waited.as_secs()))
    }

    /// Tells the operator, though not for each request, and whoever asked.
    fn unreachable(&self, reason: &str) -> StoreError {
        let mut told = self.told.lock().unwrap_or_else(PoisonError::into_inner);
        if told.is_none_or(|told| told.elapsed() > TOLD_AGAIN) {
            *told = Some(Instant::now());
            tracing::error!("PostgreSQL at {} cannot be reached: {reason}", self.name);
        }
        StoreError::Unreachable { server: "PostgreSQL", details: format!("{}: {reason}", self.name) }
    }
}

/// A connection that is this caller's for a while.
pub(super) struct Lease<'a> {
    /// None only while it is dropped.
    client: Option<Object>,
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

    /// Runs statements that are given and give nothing.
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
        match timeout(LONGEST_STATEMENT, work).await {
            Ok(Ok(done)) => {
                self.is_broken.store(false, Ordering::Relaxed);
                Ok(done)
            }
            Ok(Err(error)) => Err(self.database.failed(&error)),
            Err(_) => Err(self.database.silent(LONGEST_STATEMENT)),
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

/// Connects in a runtime that outlives whoever asks: those of the server's threads end before the store does.
#[derive(Clone)]
struct Connector {
    runtime: Handle,
    tls: Option<Tls>,
}

type Connecting<'a> = Pin<Box<dyn Future<Output = Result<(Client, JoinHandle<()>), Error>> + Send + 'a>>;

impl Connect for Connector {
    fn connect(&self, config: &Config) -> Connecting<'_> {
        let (config, tls, runtime) = (config.clone(), self.tls.clone(), self.runtime.clone());
        let connecting = self.runtime.spawn(async move {
            Ok(match tls {
                Some(tls) => {
                    let (client, connection) = config.connect(tls).await?;
                    (client, runtime.spawn(until_it_ends(connection)))
                }
                None => {
                    let (client, connection) = config.connect(NoTls).await?;
                    (client, runtime.spawn(until_it_ends(connection)))
                }
            })
        });
        Box::pin(async move {
            match connecting.await {
                Ok(connected) => connected,
                // The store is being closed. Whoever still waits stops when its time is up.
                Err(_) => std::future::pending().await,
            }
        })
    }
}

async fn until_it_ends(connection: impl Future<Output = Result<(), Error>>) {
    if let Err(error) = connection.await {
        tracing::debug!(%error, "a connection to PostgreSQL has ended");
    }
}

fn pool(config: Config, connect: Connector, size: usize, name: &str) -> Result<Pool, StoreError> {
    let manager =
        Manager::from_connect(config, connect, ManagerConfig { recycling_method: RecyclingMethod::Fast });
    Pool::builder(manager)
        .max_size(size)
        .wait_timeout(Some(LONGEST_WAIT))
        .create_timeout(Some(LONGEST_WAIT))
        .recycle_timeout(Some(LONGEST_WAIT))
        .runtime(PoolRuntime::Tokio1)
        .build()
        .map_err(|error| StoreError::Unavailable(format!("PostgreSQL at {name}: {error}")))
}

fn config_of(settings: &PostgresSettings) -> Result<Config, StoreError> {
    let mut config: Config = settings.url.parse().map_err(|error: Error| {
        // The address may hold a password: only what is wrong with it is told.
        let reason = error.source().map_or_else(|| error.to_string(), ToString::to_string);
        StoreError::Unavailable(format!(
            "`store.url` is not an address of PostgreSQL: {reason} · hint: write `postgres://USER@HOST:PORT/DATABASE`"
        ))
    })?;
    if let Some(password) = &settings.password {
        config.password(password);
    }
    if config.get_application_name().is_none() {
        config.application_name("hindcast");
    }
    // A server that stands still must not keep the others from the chain.
    with_option(&mut config, &format!("idle_in_transaction_session_timeout={}", LONGEST_SILENCE.as_millis()));
    config.connect_timeout(LONGEST_WAIT);
    config.tcp_user_timeout(LONGEST_SILENCE);
    config.keepalives_idle(LONGEST_SILENCE);
    if !settings.url.contains("sslmode=") {
        let stays_here = config.get_hosts().iter().all(is_here);
        config.ssl_mode(if stays_here { SslMode::Disable } else { SslMode::Require });
    }
    Ok(config)
}

fn with_option(config: &mut Config, option: &str) {
    let others = config.get_options().map(|others| format!("{others} ")).unwrap_or_default();
    config.options(format!("{others}-c {option}"));
}

/// Whether what is sent there does not leave this machine.
fn is_here(host: &Host) -> bool {
    match host {
        Host::Tcp(name) => {
            name == "localhost" || name.parse::<std::net::IpAddr>().is_ok_and(|address| address.is_loopback())
        }
        #[cfg(unix)]
        Host::Unix(_) => true,
    }
}

fn name_of(config: &Config) -> String {
    let hosts = config.get_hosts().iter().enumerate().map(|(place, host)| {
        let ports = config.get_ports();
        let port = ports.get(place).or(ports.first()).copied().unwrap_or(5432);
        match host {
            Host::Tcp(host) => format!("{host}:{port}"),
            #[cfg(unix)]
            Host::Unix(folder) => format!("{}:{port}", folder.display()),
        }
    });
    let hosts = hosts.collect::<Vec<_>>().join(",");
    match config.get_dbname() {
        Some(database) => format!("{hosts}/{database}"),
        None => hosts,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn config(url: &str) -> Config {
        config_of(&PostgresSettings { url: url.into(), ..Default::default() }).unwrap()
    }

    #[test]
    fn what_leaves_the_machine_is_encrypted_unless_somebody_says_otherwise() {
        for (url, expected) in [
            ("postgres://ada@db.example.org/hindcast", SslMode::Require),
            ("postgres://ada@10.0.0.7/hindcast", SslMode::Require),
            ("postgres://ada@localhost,db.example.org/hindcast", SslMode::Require),
            ("postgres://ada@localhost/hindcast", SslMode::Disable),
            ("postgres://ada@[::1]/hindcast", SslMode::Disable),
            ("postgres:///hindcast?host=/run/postgresql&user=ada", SslMode::Disable),
            ("postgres://ada@localhost/hindcast?sslmode=require", SslMode::Require),
            ("postgres://ada@db.example.org/hindcast?sslmode=disable", SslMode::Disable),
        ] {
            assert_eq!(config(url).get_ssl_mode(), expected, "{url}");
        }
    }

    #[test]
    fn the_name_of_a_database_has_no_password() {
        for (url, expected) in [
            ("postgres://ada:s3cret@db.example.org/hindcast", "db.example.org:5432/hindcast"),
            ("postgres://ada:s3cret@a:1,b:2/hindcast", "a:1,b:2/hindcast"),
            ("postgres://ada:s3cret@/h?host=/run/postgresql", "/run/postgresql:5432/h"),
        ] {
            assert_eq!(name_of(&config(url)), expected);
        }
    }

    #[test]
    fn an_address_that_makes_no_sense_is_refused_without_repeating_it() {
        for url in
            ["postgres://ada:s3cret@host:port/db", "postgres://ada:s3cret@host/db?sslmode=maybe", "s3cret"]
        {
            let settings = PostgresSettings { url: url.into(), ..Default::default() };
            let refused = config_of(&settings).err().unwrap().to_string();
            assert!(refused.contains("store.url") && refused.contains("hint: "), "{refused}");
            assert!(!refused.contains("s3cret"), "{refused}");
        }
    }
}
