//! `cargo xtask bench debugger`: hindcast against mcp-debugger, gdb and lldb, doing the same work in one run.

mod contender;
mod gdb;
mod hindcast;
mod large;
mod lldb;
mod mcp_debugger;
mod report;
mod small;

use anyhow::Result;
use clap::Args;

use contender::Inspector;
pub(super) use contender::{Debugger, Place, Program};
pub(super) use gdb::Gdb;
use hindcast::{Entry, Hindcast};
use lldb::Lldb;
use mcp_debugger::McpDebugger;
use report::Results;

use super::{document, machine};
use crate::scratch::ScratchFolder;
use crate::workspace::{Profile, Workspace};
use crate::{install, peers};

/// What the tables call ourselves.
const OURSELVES: &str = "hindcast";
const MCP_DEBUGGER: &str = "mcp-debugger";
const GDB: &str = "gdb";

/// How to measure.
#[derive(Args)]
pub(crate) struct Options {
    /// Rounds of each debugger that count; one more goes before them
    #[arg(long, default_value_t = 7, value_parser = clap::value_parser!(u16).range(1..))]
    rounds: u16,
    /// Print the section instead of writing it to docs/benchmarks.md
    #[arg(long)]
    print: bool,
    /// Measure the peers only
    #[arg(long, hide = true)]
    peers_only: bool,
}

/// Something that can be started again and again.
struct Contender<'a, Kind: ?Sized> {
    name: &'static str,
    start: Box<dyn Fn() -> Result<Box<Kind>> + 'a>,
}

/// Measures everything in one run, so that the ratios compare like with like.
pub(super) fn run(workspace: &Workspace, options: &Options) -> Result<()> {
    for (program, package) in [("gcc", "gcc"), ("gdb", "gdb")] {
        install::ensure_program(program, package)?;
    }
    let lldb_is_missing = install::ensure_program("lldb", "lldb").is_err();
    peers::prepare_debuggers(workspace)?;
    let debuggee = workspace.build_hindcast(Profile::Debuggee)?;
    let binary = match options.peers_only {
        true => None,
        false => Some(workspace.build_hindcast(Profile::Dist)?),
    };
    let scratch = ScratchFolder::create(workspace, "bench-debugger")?;
    let data_folder = scratch.path().join("data");

    let mut on_small: Vec<Contender<'_, dyn Inspector>> = Vec::new();
    let mut on_large: Vec<Contender<'_, dyn Debugger>> = Vec::new();
    if let Some(binary) = &binary {
        let data_folder = &data_folder;
        on_small.push(Contender {
            name: OURSELVES,
            start: Box::new(move || Ok(Box::new(Hindcast::start(binary, data_folder, Entry::Main)?))),
        });
        on_large.push(Contender {
            name: OURSELVES,
            start: Box::new(move || Ok(Box::new(Hindcast::start(binary, data_folder, Entry::Loader)?))),
        });
    }
    on_small.push(Contender {
        name: MCP_DEBUGGER,
        start: Box::new(|| Ok(Box::new(McpDebugger::start(workspace, scratch.path())?))),
    });
    on_small.push(Contender { name: GDB, start: Box::new(|| Ok(Box::new(Gdb::start()?))) });
    on_large.push(Contender { name: GDB, start: Box::new(|| Ok(Box::new(Gdb::start()?))) });
    if !lldb_is_missing {
        on_large.push(Contender { name: "lldb", start: Box::new(|| Ok(Box::new(Lldb::start()?))) });
    }

    let rounds = usize::from(options.rounds);
    let results = Results {
        machine: machine::describe()?,
        rounds,
        versions: report::versions()?,
        small: small::measure(&on_small, rounds)?,
        large: large::measure(workspace, &debuggee, &on_large, rounds)?,
        large_bytes: std::fs::metadata(&debuggee)?.len(),
        lldb_is_missing,
    };
    let section = results.section();
    println!("\n{section}");
    if options.print || options.peers_only {
        return Ok(());
    }
    document::write_section(workspace, "debugger", &section)
}
