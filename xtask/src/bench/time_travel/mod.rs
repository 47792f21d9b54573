//! `cargo xtask bench time-travel`: what recording costs and how fast one goes back, against native runs and gdb's `record`.

mod back;
mod gdb_record;
mod record;
mod report;

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::Result;
use clap::Args;

use super::{document, machine};
use crate::scratch::ScratchFolder;
use crate::workspace::{Profile, Workspace};
use crate::{command, install};
use report::Results;

/// How to measure.
#[derive(Args)]
pub(crate) struct Options {
    /// Rounds of each; the shortest counts
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u16).range(1..))]
    rounds: u16,
    /// Print the section instead of writing it to docs/benchmarks.md
    #[arg(long)]
    print: bool,
}

/// Rounds of the `spin` that is recorded.
const SPIN_ROUNDS: u64 = 400_000_000;
/// Instructions in a round of `spin`.
const INSTRUCTIONS_A_ROUND: u64 = 5;

/// Measures everything in one run, so that the ratios compare like with like.
pub(super) fn run(workspace: &Workspace, options: &Options) -> Result<()> {
    for (program, package) in [
        ("gcc", "gcc"),
        ("gdb", "gdb"),
        ("find", "findutils"),
        ("git", "git"),
        ("sqlite3", "sqlite3"),
        ("taskset", "util-linux"),
    ] {
        install::ensure_program(program, package)?;
    }
    let hindcast = workspace.build_hindcast(Profile::Dist)?;
    let scratch = ScratchFolder::create(workspace, "bench-time-travel")?;
    let bench = Bench {
        work: compile(scratch.path())?,
        packed: clone(&workspace.root, &scratch.path().join("packed"))?,
        repository: workspace.root.clone(),
        data: scratch.path().join("data"),
        hindcast,
    };
    let watch = machine::TreeWatch::start()?;
    let results = Results {
        machine: machine::describe()?,
        rounds: options.rounds,
        recordings: record::measure(&bench, options.rounds)?,
        back: back::measure(&bench)?,
        gdb: gdb_record::measure(&bench.work)?,
        neighbours_share: watch.share()?,
    };
    let section = results.section();
    println!("\n{section}");
    if options.print {
        return Ok(());
    }
    document::write_section(workspace, "time-travel", &section)
}

/// A repository with all objects in one file.
fn clone(repository: &Path, to: &Path) -> Result<PathBuf> {
    command::run(Command::new("git").args(["clone", "--quiet", "--no-local"]).arg(repository).arg(to))?;
    command::run(Command::new("git").arg("-C").arg(to).args(["repack", "-adq"]))?;
    Ok(to.to_owned())
}

/// What is measured with.
struct Bench {
    hindcast: PathBuf,
    /// The program that is recorded.
    work: PathBuf,
    /// A repository whose history is read.
    repository: PathBuf,
    /// The same, with all its objects in one file: those of the other one are mapped one by one where they are new.
    packed: PathBuf,
    data: PathBuf,
}

fn compile(folder: &Path) -> Result<PathBuf> {
    let source = folder.join("work.c");
    std::fs::write(&source, include_str!("work.c"))?;
    let program = folder.join("work");
    command::run(Command::new("gcc").args(["-O2", "-g", "-pthread", "-o"]).arg(&program).arg(&source))?;
    Ok(program)
}
