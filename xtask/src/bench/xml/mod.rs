//! `cargo xtask bench xml`: queries and validation of a large document, against `xmllint` in one run.

mod corpus;
mod cost;
mod report;
mod warm;

use std::process::Command;

use anyhow::{Context, Result};
use clap::Args;

use super::{document, machine};
use crate::scratch::ScratchFolder;
use crate::workspace::{Profile, Workspace};
use crate::{command, install};
use cost::Cost;
use report::{Results, Row};

/// How to measure.
#[derive(Args)]
pub(crate) struct Options {
    /// Size of the document in megabytes
    #[arg(long, default_value_t = 50, value_parser = clap::value_parser!(u32).range(1..=60))]
    megabytes: u32,
    /// Rounds of each; the cheapest counts
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u16).range(1..))]
    rounds: u16,
    /// Print the section instead of writing it to docs/benchmarks.md
    #[arg(long)]
    print: bool,
}

/// What is asked.
const QUERY: &str = "count(//item[price > 500])";

/// Measures everything in one run, so that the ratios compare like with like.
pub(super) fn run(workspace: &Workspace, options: &Options) -> Result<()> {
    install::ensure_program("xmllint", "libxml2-utils")?;
    let hindcast = workspace.build_hindcast(Profile::Dist)?;
    let scratch = ScratchFolder::create(workspace, "bench-xml")?;
    let corpus = corpus::write(scratch.path(), u64::from(options.megabytes) * 1_000_000)?;
    let data = scratch.path().join("data");
    let ours = |arguments: &[&str]| {
        let mut command = Command::new(&hindcast);
        command.args(arguments).arg("--data-dir").arg(&data).current_dir(scratch.path());
        command
    };
    let theirs = |arguments: &[&str]| {
        let mut command = Command::new("xmllint");
        command.args(arguments).current_dir(scratch.path());
        command
    };
    let mut query = Row::new("read and query");
    let mut validation = Row::new("read and validate");
    for round in 0..options.rounds {
        println!("round {} of {}", round + 1, options.rounds);
        query.ours.push(Cost::of(&mut ours(&["xml", "query", corpus::DOCUMENT, QUERY]))?);
        query.theirs.push(Cost::of(&mut theirs(&["--xpath", QUERY, corpus::DOCUMENT]))?);
        validation.ours.push(Cost::of(&mut ours(&["xml", "validate", corpus::DOCUMENT, corpus::SCHEMA]))?);
        let judged = ["--noout", "--schema", corpus::SCHEMA, corpus::DOCUMENT];
        validation.theirs.push(Cost::of(&mut theirs(&judged))?);
    }
    let warm = warm::measure(&mut ours(&["mcp"]), QUERY)?;
    let version = command::capture(Command::new("sh").args(["-c", "xmllint --version 2>&1"]))?;
    let version = version.lines().next().context("xmllint tells no version")?.to_owned();
    let results = Results { machine: machine::describe()?, version, bytes: corpus, query, validation, warm };
    let section = results.section(options.megabytes, options.rounds);
    if options.print {
        println!("{section}");
        return Ok(());
    }
    document::write_section(workspace, "xml", &section)
}
