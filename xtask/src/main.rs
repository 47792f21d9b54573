//! Project chores, run as `cargo xtask <task>`.
//!
//! `ci` is exactly what the continuous integration runs and installs what it needs; `check` is the fast loop. Every step of
//! `ci` is a task of its own, so that a failed step can be repeated alone.
#![allow(clippy::print_stdout)]

use std::process::ExitCode;

use anyhow::Result;
use clap::{Parser, Subcommand};

mod adapters;
mod bench;
mod cargo_metadata;
mod command;
mod conformance;
mod dotnet;
mod early_step;
mod hindcast_process;
mod http;
mod install;
mod licences;
mod peers;
mod scratch;
mod spdx;
mod steps;
mod tidy;
mod workspace;

use workspace::Workspace;

#[derive(Parser)]
#[command(bin_name = "cargo xtask", about = "Project chores", disable_help_subcommand = true)]
struct Arguments {
    #[command(subcommand)]
    task: Task,
}

#[derive(Subcommand)]
enum Task {
    /// Everything CI runs, installing what it needs; stops at the first failure
    Ci,
    /// The fast loop: fmt, tidy, clippy and unit tests
    Check,
    /// Check the formatting
    Fmt,
    /// Hold the crate arrows and the source rules
    Tidy,
    /// Check that every dependency has a licence we accept
    Licences,
    /// Lint the whole workspace, warnings are errors
    Clippy,
    /// Build all tests and what they drive; clippy compiles, and warnings are errors
    Build,
    /// Prepare the official SDKs, the conformance suite, Node, newer Pythons and .NET under `target/peers`
    Peers,
    /// Build and run all tests; what follows `--` goes to the test runner
    Test {
        /// Arguments for `cargo nextest run` (or `cargo test` where nextest is missing)
        #[arg(last = true)]
        runner_arguments: Vec<String>,
    },
    /// Unit tests of libraries and binaries only
    UnitTest,
    /// Run the examples in the documentation comments
    Doctest,
    /// Run the official conformance suite against the dev binary
    Conformance(conformance::Options),
    /// Write the reference pages anew from the code
    Docs,
    /// Measure, and write the result to docs/benchmarks.md
    Bench {
        #[command(subcommand)]
        subject: bench::Subject,
    },
}

fn main() -> ExitCode {
    match run(Arguments::parse().task) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run(task: Task) -> Result<()> {
    let workspace = Workspace::find()?;
    match task {
        Task::Ci => steps::run_all(&workspace.compiled_by_clippy()?, steps::CI),
        Task::Check => steps::run_all(&workspace, steps::CHECK),
        Task::Fmt => steps::fmt(&workspace),
        Task::Tidy => tidy::run(&workspace),
        Task::Licences => licences::run(&workspace),
        Task::Clippy => steps::clippy(&workspace),
        Task::Build => steps::build(&workspace.compiled_by_clippy()?),
        Task::Peers => peers::prepare(&workspace),
        Task::Test { runner_arguments } => steps::test(&workspace, &runner_arguments),
        Task::UnitTest => steps::unit_test(&workspace),
        Task::Doctest => steps::doctest(&workspace),
        Task::Conformance(options) => conformance::run(&workspace, &options),
        Task::Docs => steps::docs(&workspace),
        Task::Bench { subject } => bench::run(&workspace, &subject),
    }
}
