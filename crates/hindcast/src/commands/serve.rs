//! `hindcast serve`.

use std::{path::PathBuf, process::ExitCode, sync::Arc, time::Duration};

use anyhow::{Context, Result};
use hindcast_core::{
    debug::Layer,
    identity::{Environment, ScopeSet, Tier},
};
use hindcast_server::{
    App,
    http::{Certificate, Front, Listener, serve},
};
use hindcast_services::{
    Events,
    gateway::{Gateway, KeyRequest},
};

use super::{print_text, shed_the_start, small_runtime};
use crate::{
    ballast::Ballast,
    config::Config,
    data_folder::{DataFolder, keep_from_others, private_folder},
    wiring, workspaces,
};

/// How long work that cannot be interrupted keeps a server that stops.
const LONGEST_WAIT: Duration = Duration::from_secs(3);

pub(super) fn run(config: &Config) -> Result<ExitCode> {
    raise_open_file_limit();
    keep_from_others();
    let folder = DataFolder::open(&config.data_dir)?;
    let lock = folder.lock()?;
    let ballast = Ballast::of(&config.data_dir);
    workspaces::prepare(config)?;
    // The recording of a server that starts a process ends there, so one that is traced does without.
    let layers = (!is_traced()).then(|| wiring::confining_layers(config));
    let events = Events::default();
    let gateway = wiring::gateway(config, &folder, &events)?;
    if let Some(notice) = gateway.license().notice {
        tracing::warn!("{notice}");
    }
    // For what happens once: accepting connections and stopping. The rest has threads of its own.
    let runtime = small_runtime()?;
    runtime.block_on(async {
        let certificate = certificate(config, &folder)?;
        let listener = Listener::bind(config.server.listen, certificate.as_ref()).await?;
        let port = listener.address()?.port();
        let (knowledge, indexes) = wiring::knowledge(config, &folder, Some(gateway.clone()), &events)?;
        let engine = wiring::debug_engine_in_workers(&config.debug)?;
        let app = wiring::app(config, gateway.clone(), knowledge.clone(), engine, events, Vec::new())?;
        let keeping_up = tokio::spawn(knowledge.clone().keep_up());
        tokio::spawn(shed_the_start());
        tokio::spawn(ballast.keep());
        let front = Front::new(app.clone(), wiring::http_policy(&config.server, folder.tickets()));
        // From here on a stop is waited for, so whoever reads the lines below may send one.
        let stop = stop_signal()?;
        let (watched, stopping) = (keeping_up.abort_handle(), knowledge.clone());
        let stop = async move {
            stop.await;
            // Nobody waits for what is read in the background, and what is taken in for a caller stops between two files.
            watched.abort();
            stopping.stop();
        };
        let key = match first_key(&gateway, config).await? {
            Some(text) => Some(FirstKey::show(text, &folder)?),
            None => None,
        };
        let page = PageAddress::write(&folder, &address(config, certificate.as_ref(), port))?;
        let mut greeting = greeting(config, certificate.as_ref(), port, key.as_ref(), gateway.database());
        greeting += &confinement(layers.as_ref());
        print_text(&greeting)?;
        let idle = tokio::spawn(end_idle_sessions(app.clone(), config.debug.idle_minutes));
        let keyless = tokio::spawn(end_sessions_of_ended_keys(app.clone()));
        let served = serve(listener, front, stop).await;
        idle.abort();
        keyless.abort();
        app.end_debug_sessions().await;
        knowledge.finish().await?;
        drop(indexes);
        drop(page);
        served?;
        tracing::info!("stopped");
        anyhow::Ok(())
    })?;
    // The store's writer ends, and with it the last commit, before another server may start. A file that never answers is not
    // waited for.
    runtime.shutdown_timeout(LONGEST_WAIT);
    drop(gateway);
    drop(lock);
    Ok(ExitCode::SUCCESS)
}

/// Looks after debug sessions that nobody asks for any more, for as long as the server runs.
async fn end_idle_sessions(app: Arc<App>, minutes: u32) {
    const LOOK_AGAIN: Duration = Duration::from_secs(30);
    if minutes == 0 {
        return;
    }
    let idle = Duration::from_secs(u64::from(minutes) * 60);
    loop {
        tokio::time::sleep(LOOK_AGAIN).await;
        app.end_idle_debug_sessions(idle).await;
    }
}

/// Lets go of what a key that is revoked or expired has attached to, for as long as the server runs.
async fn end_sessions_of_ended_keys(app: Arc<App>) {
    const LOOK_AGAIN: Duration = Duration::from_secs(2);
    loop {
        tokio::time::sleep(LOOK_AGAIN).await;
        app.end_debug_sessions_of_ended_keys().await;
    }
}

/// Every connection takes a descriptor, and the usual soft limit is lower than the connections we allow.
fn raise_open_file_limit() {
    #[cfg(unix)]
    {
        use nix::sys::resource::{Resource, getrlimit, setrlimit};
        let raised = getrlimit(Resource::RLIMIT_NOFILE)
            .and_then(|(_, hard)| setrlimit(Resource::RLIMIT_NOFILE, hard, hard));
        if let Err(error) = raised {
            tracing::warn!(%error, "cannot raise the limit of open files; fewer connections fit");
        }
    }
}

fn certificate(config: &Config, folder: &DataFolder) -> Result<Option<Certificate>> {
    let server = &config.server;
    if server.http {
        return Ok(None);
    }
    if let (Some(cert), Some(key)) = (&server.tls_cert, &server.tls_key) {
        return Ok(Some(Certificate { cert: cert.clone(), key: key.clone() }));
    }
    Ok(Some(Certificate::self_signed(&folder.tls()?, &server.allowed_hosts)?))
}

/// A server nobody has a key for gets one, so that it can be used at once.
async fn first_key(gateway: &Gateway, config: &Config) -> Result<Option<String>> {
    if !gateway.list_keys().await?.is_empty() {
        return Ok(None);
    }
    let request = KeyRequest {
        name: "first key".into(),
        owner: None,
        environment: match config.environment {
            crate::config::Environment::Live => Environment::Live,
            crate::config::Environment::Test => Environment::Test,
        },
        tier: Tier::Enterprise,
        own_limits: None,
        // It is the operator's own, who may run programs on this machine anyway.
        scopes: ScopeSet::of_operator(),
        expires_at: None,
        allowed_ips: Vec::new(),
    };
    Ok(Some(gateway.create_key(request).await?.text))
}

/// Where the page is, for people on this machine.
fn address(config: &Config, certificate: Option<&Certificate>, port: u16) -> String {
    let address = config.server.listen.ip();
    let host = match address {
        address if address.is_loopback() || address.is_unspecified() => "localhost".into(),
        std::net::IpAddr::V6(address) => format!("[{address}]"),
        std::net::IpAddr::V4(address) => address.to_string(),
    };
    let scheme = if certificate.is_some() { "https" } else { "http" };
    format!("{scheme}://{host}:{port}")
}

/// A file that tells `hindcast ui` where the page is; gone with this.
struct PageAddress(PathBuf);

impl PageAddress {
    fn write(folder: &DataFolder, address: &str) -> Result<Self> {
        private_folder(&folder.tickets()).context("cannot make the folder of tickets")?;
        let path = folder.page_address();
        std::fs::write(&path, address).with_context(|| format!("cannot write `{}`", path.display()))?;
        Ok(Self(path))
    }
}

impl Drop for PageAddress {
    fn drop(&mut self) {
        if let Err(error) = std::fs::remove_file(&self.0) {
            tracing::debug!(%error, "the page's address stays");
        }
    }
}

fn greeting(
    config: &Config,
    certificate: Option<&Certificate>,
    port: u16,
    key: Option<&FirstKey>,
    database: Option<&str>,
) -> String {
    let page = address(config, certificate, port);
    let url = format!("{page}/mcp");
    let elsewhere = database.map_or_else(String::new, |database| {
        format!("; knowledge base, keys, limits, license and audit trail: PostgreSQL at {database}")
    });
    let mut text = format!(
        "hindcast {} serves MCP at {url}\ndata folder: {}{elsewhere}\n",
        env!("CARGO_PKG_VERSION"),
        config.data_dir.display()
    );
    let trust = match certificate {
        Some(certificate) if config.server.tls_cert.is_none() => {
            format!(" --cacert {}", quoted(&certificate.cert))
        }
        _ => String::new(),
    };
    let shown = format!("page for people: {page}/ (`hindcast ui` opens it)\n");
    let Some(key) = key else {
        text += "keys: `hindcast keys list` shows them, `hindcast keys create --name NAME` makes another\n";
        text += &shown;
        return text;
    };
    let (told, given) = match key {
        FirstKey::Text(key) => (format!("API key (shown only now): {key}"), key.clone()),
        FirstKey::File(path) => {
            let told = format!("API key: in the file {} (yours alone; move it away)", path.display());
            (told, format!("$(cat {})", quoted(path)))
        }
    };
    text += &format!(
        "{told}\n{shown}It is for you: what it launches is not confined. Make others with `hindcast keys create --name NAME`.\n\n\
         Try it:\n  curl{trust} -X POST {url} \\\n    \
         -H \"Authorization: Bearer {given}\" \\\n    -H \"Content-Type: application/json\" \\\n    \
         -d '{{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"tools/list\",\"params\":{{}}}}'\n"
    );
    text
}

/// What keeps the programs of key holders in.
fn confinement(layers: Option<&Result<Vec<Layer>>>) -> String {
    match layers {
        None => "confinement of what keys launch: not tried, because this server is being debugged\n".into(),
        Some(Ok(layers)) => {
            let names: Vec<_> = layers.iter().map(|layer| layer.name()).collect();
            format!("confinement of what keys launch: {}\n", names.join(", "))
        }
        Some(Err(error)) => {
            tracing::warn!(%error, "what keys launch cannot be confined here");
            "confinement of what keys launch: none here, so only keys with the scope `debug:unconfined` launch programs; \
             `hindcast doctor` says what is missing\n"
                .into()
        }
    }
}

/// Whether a debugger has this process.
fn is_traced() -> bool {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let tracer = status.lines().find_map(|line| line.strip_prefix("TracerPid:"));
    tracer.is_some_and(|tracer| tracer.trim() != "0")
}

/// How the first key reaches whoever started the server.
enum FirstKey {
    Text(String),
    /// Logs are read by others.
    File(PathBuf),
}

impl FirstKey {
    fn show(text: String, folder: &DataFolder) -> Result<Self> {
        match is_kept() {
            true => Ok(Self::File(folder.keep_first_key(&text)?)),
            false => Ok(Self::Text(text)),
        }
    }
}

/// Whether what is printed stays for others to read: in a file, or with the system's log, which listens at a socket. A
/// terminal and a pipe have somebody who reads now.
#[cfg(unix)]
fn is_kept() -> bool {
    use std::os::{fd::AsFd, unix::fs::FileTypeExt};
    let kind = std::io::stdout()
        .as_fd()
        .try_clone_to_owned()
        .and_then(|stdout| std::fs::File::from(stdout).metadata())
        .map(|about| about.file_type());
    kind.is_ok_and(|kind| kind.is_file() || kind.is_socket())
}

#[cfg(not(unix))]
fn is_kept() -> bool {
    false
}

fn quoted(path: &std::path::Path) -> String {
    format!("'{}'", path.display().to_string().replace('\'', r"'\''"))
}

/// Ends at the first request to stop. A second one ends the process at once.
fn stop_signal() -> Result<impl Future<Output = ()>> {
    let mut signals = StopSignals::new()?;
    Ok(async move {
        signals.next().await;
        tracing::info!("stopping: requests in flight may finish, new ones are turned away");
        tokio::spawn(async move {
            signals.next().await;
            std::process::exit(130);
        });
    })
}

/// The signals that ask the server to stop; heard from when this is made.
pub(super) struct StopSignals {
    #[cfg(unix)]
    terminate: tokio::signal::unix::Signal,
}

impl StopSignals {
    pub(super) fn new() -> Result<Self> {
        Ok(Self {
            #[cfg(unix)]
            terminate: tokio::signal::unix::signal(tokio::signal::unix::SignalKind::terminate())
                .context("cannot wait for signals")?,
        })
    }

    pub(super) async fn next(&mut self) {
        #[cfg(unix)]
        tokio::select! {
            _ = self.terminate.recv() => {}
            _ = tokio::signal::ctrl_c() => {}
        }
        #[cfg(not(unix))]
        let _ = tokio::signal::ctrl_c().await;
    }
}
