//! The steps of `ci` and `check`, and how they are reported.

use std::process::Command;
use std::time::Instant;

use anyhow::{Context, Result};
use hindcast_fixtures::debian::PROGRAMS;

use crate::workspace::Workspace;
use crate::{command, conformance, early_step::EarlyStep, install, licences, peers, tidy};

/// One step; `task` is also the name under which it runs alone.
pub(crate) struct Step {
    task: &'static str,
    run: fn(&Workspace) -> Result<()>,
    /// Whether it begins beside the step before it, because it waits for downloads while that one compiles.
    early: bool,
}

impl Step {
    const fn new(task: &'static str, run: fn(&Workspace) -> Result<()>) -> Self {
        Self { task, run, early: false }
    }
}

/// Everything that must hold before a change is accepted; cheap steps first.
pub(crate) const CI: &[Step] = &[
    Step::new("fmt", fmt),
    Step::new("tidy", tidy::run),
    Step::new("licences", licences::run),
    Step::new("build", build),
    Step { task: "peers", run: peers::prepare, early: true },
    Step::new("test", |workspace| test(workspace, &[])),
    Step::new("doctest", doctest),
    Step::new("conformance", |workspace| conformance::run(workspace, &conformance::Options::default())),
];

/// What is quick enough to run after every edit.
pub(crate) const CHECK: &[Step] = &[
    Step::new("fmt", fmt),
    Step::new("tidy", tidy::run),
    Step::new("clippy", clippy),
    Step::new("unit-test", unit_test),
];

/// Runs the steps in order and stops at the first failure, saying how to repeat only that step.
pub(crate) fn run_all(workspace: &Workspace, steps: &[Step]) -> Result<()> {
    let start = Instant::now();
    let mut begun: Option<EarlyStep> = None;
    for (index, step) in steps.iter().enumerate() {
        println!("\n=== {}/{} {} ===", index + 1, steps.len(), step.task);
        let step_start = Instant::now();
        let early = begun.take();
        if let Some(next) = steps.get(index + 1).filter(|next| next.early) {
            begun = Some(EarlyStep::begin(workspace, next.task)?);
        }
        early.map_or_else(|| (step.run)(workspace), EarlyStep::finish).with_context(|| {
            format!(
                "step `{}` failed after {:.1} s · hint: repeat only this step with `cargo xtask {}`",
                step.task,
                step_start.elapsed().as_secs_f32(),
                step.task,
            )
        })?;
        println!("=== {} fine, {:.1} s", step.task, step_start.elapsed().as_secs_f32());
    }
    println!("\nall {} steps fine, {:.1} s", steps.len(), start.elapsed().as_secs_f32());
    Ok(())
}

/// Checks the formatting of every crate.
pub(crate) fn fmt(workspace: &Workspace) -> Result<()> {
    install::ensure_toolchain_component("fmt", "rustfmt")?;
    command::run(&mut workspace.cargo(&["fmt", "--all", "--check"])).context("hint: run `cargo fmt --all`")
}

/// Lints everything; warnings are errors.
pub(crate) fn clippy(workspace: &Workspace) -> Result<()> {
    install::ensure_toolchain_component("clippy", "clippy")?;
    command::run(&mut workspace.cargo(&["clippy", "--workspace", "--all-targets", "--", "-D", "warnings"]))
}

/// Builds everything that is tested.
pub(crate) fn build(workspace: &Workspace) -> Result<()> {
    command::run(test_runner(workspace).args(["--workspace", "--no-run"]))
}

/// What compiles debuggees, and what judges how they are debugged and how documents are read.
fn ensure_tools() -> Result<()> {
    for (program, package) in [
        ("gcc", "gcc"),
        ("g++", "g++"),
        ("clang", "clang"),
        ("clang++", "clang"),
        ("objcopy", "binutils"),
        ("gdb", "gdb"),
        ("strace", "strace"),
        // These are recorded.
        ("/usr/bin/python3", "python3"),
        ("/usr/bin/sqlite3", "sqlite3"),
        ("xmllint", "libxml2-utils"),
        ("pdftotext", "poppler-utils"),
    ] {
        install::ensure_program(program, package)?;
    }
    ensure_recorded_programs()
}

/// The programs that are recorded with `HINDCAST_ORACLES=full`.
fn ensure_recorded_programs() -> Result<()> {
    let size = hindcast_fixtures::oracle_size(0, PROGRAMS.len());
    for program in &PROGRAMS[..size] {
        for (file, package) in program.files() {
            install::ensure_program(file, package)?;
        }
    }
    Ok(())
}

/// Builds and runs all tests, with the peers where `cargo xtask peers` put them.
pub(crate) fn test(workspace: &Workspace, runner_arguments: &[String]) -> Result<()> {
    ensure_tools()?;
    let mut tests = test_runner(workspace);
    tests.arg("--workspace");
    let is_nextest = tests.get_args().any(|argument| argument == "nextest");
    let is_said = runner_arguments
        .iter()
        .any(|argument| ["--test-threads", "-j", "--jobs"].iter().any(|option| argument.starts_with(option)));
    if is_nextest && !is_said && std::env::var_os("NEXTEST_TEST_THREADS").is_none() {
        tests.arg(format!("--test-threads={}", tests_at_once()));
    }
    tests.args(runner_arguments);
    let peers = workspace.peers();
    if peers.is_dir() {
        // Tests that need an SDK skip loudly without the first variable; with the second they fail instead.
        tests.env("HINDCAST_PEERS", peers).env("HINDCAST_REQUIRE_PEERS", "1");
    } else {
        println!(
            "no {}: tests against official SDKs are skipped · hint: `cargo xtask peers`",
            peers.display()
        );
    }
    command::run(&mut tests)
}

/// How many tests run at the same time: more than there are cores, because half of their time they wait for other programs.
fn tests_at_once() -> usize {
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    cores + cores.div_ceil(2)
}

/// Runs only the tests beside the code.
pub(crate) fn unit_test(workspace: &Workspace) -> Result<()> {
    ensure_tools()?;
    command::run(test_runner(workspace).args(["--workspace", "--lib", "--bins"]))
}

/// Runs the examples in documentation comments; nextest leaves them out.
pub(crate) fn doctest(workspace: &Workspace) -> Result<()> {
    command::run(&mut workspace.cargo(&["test", "--workspace", "--doc"]))
}

/// Writes docs/reference anew; a test holds it against the code.
pub(crate) fn docs(workspace: &Workspace) -> Result<()> {
    command::run(&mut workspace.cargo(&[
        "run",
        "--quiet",
        "--package",
        "hindcast",
        "--",
        "reference",
        "docs/reference",
    ]))
}

fn test_runner(workspace: &Workspace) -> Command {
    if command::succeeds(&mut workspace.cargo(&["nextest", "--version"])) {
        workspace.cargo(&["nextest", "run"])
    } else {
        workspace.cargo(&["test"])
    }
}
