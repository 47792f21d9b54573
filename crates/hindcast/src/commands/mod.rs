//! One module a command.

mod audit;
mod collection_settings;
mod demo;
mod escaping_log;
mod eval;
mod keys;
mod knowledge;
mod license;
mod mcp;
mod models;
mod progress_line;
#[cfg(target_os = "linux")]
mod record;
mod reference;
mod replay;
mod serve;
mod store;
mod transfer;
mod ui;
mod worker;
mod xml;

use std::{
    io::{IsTerminal, Write},
    process::ExitCode,
    sync::Arc,
};

use anyhow::Result;
use clap::CommandFactory;
use hindcast_core::{printable::printable_lines, progress::Unwatched};
use hindcast_services::debug::Patience;
use tracing_subscriber::EnvFilter;

use escaping_log::EscapingLog;

use crate::{
    config::{self, Config, Loaded, Sources},
    doctor,
    options::{Command, ConfigCommand, Json, Options},
};

/// Does what was asked.
pub(crate) fn run(options: Options) -> Result<ExitCode> {
    // A worker is told everything by the server that started it, whatever the configuration says by now.
    if let Command::Worker(kind) = &options.command {
        return worker::run(kind);
    }
    let loaded = Config::load(&Sources::from_process(options.everywhere.config.clone(), options.flags()))?;
    start_logging(&loaded.config.log)?;
    for warning in &loaded.warnings {
        tracing::warn!("{warning}");
    }
    let config = &loaded.config;
    match options.command {
        Command::Serve(_) => serve::run(config),
        Command::Mcp(mcp) => mcp::run(config, mcp),
        Command::Ui(ui) => ui::run(config, &ui),
        Command::Keys(keys) => keys::run(config, keys),
        Command::Audit(audit) => audit::run(config, audit),
        Command::License(license) => license::run(config, license),
        Command::Store(store) => store::run(config, &store),
        Command::Knowledge(command) => knowledge::run(config, command),
        Command::Models(models) => models::run(config, models),
        Command::Config(ConfigCommand::Show(output)) => show_config(&loaded, output),
        #[cfg(target_os = "linux")]
        Command::Record(record) => record::run(config, record),
        #[cfg(not(target_os = "linux"))]
        Command::Record(_) => {
            anyhow::bail!("nothing is recorded on this system · hint: record on Linux x86-64")
        }
        Command::Replay(replay) => replay::run(config, &replay),
        Command::Demo => demo::run(config),
        Command::Xml(xml) => xml::run(config, xml),
        Command::Doctor(output) => run_doctor(config, output),
        Command::Completions { shell } => {
            let mut script = Vec::new();
            clap_complete::generate(shell, &mut Options::command(), "hindcast", &mut script);
            std::io::stdout().write_all(&script)?;
            Ok(ExitCode::SUCCESS)
        }
        Command::Reference { folder } => reference::run(&folder),
        Command::Worker(kind) => worker::run(&kind),
    }
}

/// Logs go to standard error; standard output belongs to the answer.
fn start_logging(log: &config::Log) -> Result<()> {
    let filter = match std::env::var("HINDCAST_LOG") {
        Ok(filter) => EnvFilter::try_new(filter)?,
        // The protocol library reports every session's ordinary end, and the one that watches folders every folder that is gone.
        Err(_) => EnvFilter::try_new(format!("{},rmcp=off,notify=error", log.level.as_str()))?,
    };
    let coloured = std::io::stderr().is_terminal() && matches!(log.format, config::LogFormat::Text);
    let lines = tracing_subscriber::fmt().with_env_filter(filter).with_writer(EscapingLog { coloured });
    match log.format {
        config::LogFormat::Text => lines.with_ansi(coloured).init(),
        config::LogFormat::Json => lines.json().init(),
    }
    Ok(())
}

fn show_config(loaded: &Loaded, output: Json) -> Result<ExitCode> {
    if output.json {
        print_json(&config::show_json(loaded))?;
    } else {
        print_text(&config::show_text(loaded))?;
    }
    Ok(ExitCode::SUCCESS)
}

fn run_doctor(config: &Config, output: Json) -> Result<ExitCode> {
    let mut input = doctor::DoctorInput::from_process(config);
    input.confinement = Some(crate::wiring::confining_layers(config).map_err(|error| error.to_string()));
    let checks = doctor::run(&input);
    if output.json {
        print_json(&doctor::render_json(&checks))?;
    } else {
        // What it shows is this machine's; the colours are ours.
        print_raw(&doctor::render_text(&checks, std::io::stdout().is_terminal()))?;
    }
    Ok(if doctor::is_healthy(&checks) { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Servers give back what only their start needed.
async fn shed_the_start() {
    tokio::time::sleep(std::time::Duration::from_secs(1)).await;
    #[cfg(target_os = "linux")]
    if let Err(error) = hindcast_mapping::give_back_code() {
        tracing::debug!(%error, "the code stays in memory");
    }
}

/// A runtime for commands that ask the store a few things.
fn small_runtime() -> Result<tokio::runtime::Runtime> {
    Ok(tokio::runtime::Builder::new_current_thread().enable_all().build()?)
}

/// A runtime for commands that debug: what waits for a program must not wait for us.
fn recorded_runtime() -> Result<tokio::runtime::Runtime> {
    Ok(tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?)
}

/// For whoever watches neither progress nor cancels.
fn patience(timeout_ms: u64) -> Patience {
    Patience::new(timeout_ms, Arc::new(Unwatched))
}

/// Enough for what a person waits for.
fn usual_patience() -> Patience {
    patience(50_000)
}

fn print_json(value: &serde_json::Value) -> Result<()> {
    print_text(&format!("{value}\n"))
}

/// Prints text, in which only lines and tabs do anything on a terminal: much of it was written by others.
fn print_text(text: &str) -> Result<()> {
    print_raw(&printable_lines(text))
}

/// Prints what was asked for itself, such as a document: as it is for a file or another program.
fn print_content(text: &str) -> Result<()> {
    if std::io::stdout().is_terminal() { print_text(text) } else { print_raw(text) }
}

/// Prints without the panic that `print!` ends in when nobody reads any more.
fn print_raw(text: &str) -> Result<()> {
    let mut out = std::io::stdout().lock();
    out.write_all(text.as_bytes())?;
    Ok(out.flush()?)
}
