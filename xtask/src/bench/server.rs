//! `cargo xtask bench server`: hindcast with everything on against the two official ways to write a server.

use std::path::Path;

use anyhow::{Context, Result};
use clap::Args;
use hindcast_fixtures::postgres::Cluster;

use super::contender::{Contender, Measured};
use super::load::Wrk;
use super::report::Results;
use super::{document, machine, start};
use crate::hindcast_process::{Home, Transport, create_key};
use crate::scratch::ScratchFolder;
use crate::workspace::{Profile, Workspace};
use crate::{install, peers};

/// How to measure.
#[derive(Args)]
pub(crate) struct Options {
    /// Seconds for each number of connections
    #[arg(long, default_value_t = 10)]
    seconds: u32,
    /// Print the section instead of writing it to docs/benchmarks.md
    #[arg(long)]
    print: bool,
    /// Measure the peers only
    #[arg(long, hide = true)]
    peers_only: bool,
}

/// Measures everything in one run, so that the ratios compare like with like.
pub(super) fn run(workspace: &Workspace, options: &Options) -> Result<()> {
    install::ensure_program("wrk", "wrk")?;
    peers::prepare(workspace)?;
    let wrk = Wrk::new(workspace);
    let peers = |workspace: &Workspace| -> Result<[Measured; 2]> {
        Ok([
            Contender::fastmcp(workspace)?.measure(&wrk, options.seconds)?,
            Contender::typescript_sdk(workspace)?.measure(&wrk, options.seconds)?,
        ])
    };
    if options.peers_only {
        peers(workspace)?;
        return Ok(());
    }

    let binary = workspace.build_hindcast(Profile::Dist)?;
    let scratch = ScratchFolder::create(workspace, "bench")?;
    let data_folder = scratch.path().join("data");
    let home = Home::folder(&data_folder);
    let key = create_key(&binary, home, "bench")?;
    let started = [start::serve(&binary, &data_folder, &key)?, start::mcp(&binary, &data_folder)?];
    let hindcast = |name, transport| {
        Contender::hindcast(name, &binary, home, &key, transport)?.measure(&wrk, options.seconds)
    };
    let plain = hindcast("hindcast, HTTP", Transport::Http)?;
    let tls = hindcast("hindcast, HTTPS", Transport::Https)?;
    let on_postgres = on_postgres(&binary, &scratch, &wrk, options.seconds)?;
    let results = Results {
        machine: machine::describe()?,
        seconds: options.seconds,
        plain,
        tls,
        on_postgres,
        peers: peers(workspace)?,
        started,
    };
    let section = results.section();
    println!("\n{section}");
    if options.print {
        return Ok(());
    }
    document::write_section(workspace, "server", &section)
}

/// hindcast with its keys, limits and audit trail in PostgreSQL, whose commits reach the disk as those of the data folder do.
fn on_postgres(binary: &Path, scratch: &ScratchFolder, wrk: &Wrk, seconds: u32) -> Result<Measured> {
    let cluster = Cluster::start_with(&["fsync=on"], |_| ()).context("PostgreSQL is not installed")?;
    let (database, data_folder) = (cluster.new_database(), scratch.path().join("postgres"));
    let home = Home { data_folder: &data_folder, database: Some(&database) };
    let key = create_key(binary, home, "bench")?;
    Contender::hindcast("hindcast, HTTP, PostgreSQL", binary, home, &key, Transport::Http)?
        .measure(wrk, seconds)
}
