//! `cargo xtask conformance`: the official suite against the dev binary, with keys, limits and audit on.

mod proxy;
mod verdict;

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};
use clap::Args;

use self::verdict::{Case, ExpectedFailure, Verdict};
use crate::hindcast_process::{HindcastServer, Home, Transport, create_key};
use crate::scratch::ScratchFolder;
use crate::workspace::{Profile, Workspace};
use crate::{http, peers};

const STATEFUL: &str = "2025-11-25";
const STATELESS: &str = "2026-07-28";
const BOTH: &[&str] = &[STATEFUL, STATELESS];

/// The scenarios that mean something for a server without the suite's fixture tools, and the revisions they exist in.
const SCENARIOS: &[(&str, &[&str])] = &[
    ("server-initialize", &[STATEFUL]),
    ("server-session-lifecycle", &[STATEFUL]),
    ("server-stateless", &[STATELESS]),
    ("ping", &[STATEFUL]),
    ("logging-set-level", &[STATEFUL]),
    ("completion-complete", BOTH),
    ("tools-list", BOTH),
    ("resources-list", BOTH),
    ("resources-subscribe", &[STATEFUL]),
    ("resources-unsubscribe", &[STATEFUL]),
    ("sep-2164-resource-not-found", &[STATELESS]),
    ("prompts-list", BOTH),
    ("dns-rebinding-protection", BOTH),
    ("caching", &[STATELESS]),
    ("http-header-validation", &[STATELESS]),
    ("server-sse-polling", &[STATEFUL]),
    ("server-sse-multiple-streams", BOTH),
];

const EXPECTED_FAILURES: &str = "peers/conformance-expected-failures.txt";

/// What to run.
#[derive(Args, Default)]
pub(crate) struct Options {
    /// Run only the scenarios whose name contains this
    #[arg(long)]
    scenario: Option<String>,
    /// Also show the suite's own report of each scenario
    #[arg(long)]
    verbose: bool,
}

/// Runs the scenarios, prints a table and fails unless all pass.
pub(crate) fn run(workspace: &Workspace, options: &Options) -> Result<()> {
    peers::prepare(workspace)?;
    let expected = read_expected(workspace)?;
    let cases: Vec<Case> = all_cases().filter(|case| options.selects(case)).collect();
    let binary = workspace.build_hindcast(Profile::Dev)?;
    let scratch = ScratchFolder::create(workspace, "conformance")?;
    let data_folder = scratch.path().join("data");
    let key = create_key(&binary, Home::folder(&data_folder), "conformance")?;
    let server = HindcastServer::start(&binary, Home::folder(&data_folder), Transport::Http)?;
    let (address, path) = http::split_url(&server.url)?;
    let suite = Suite {
        node: peers::node(workspace),
        script: peers::node_folder(workspace)
            .join("node_modules/@modelcontextprotocol/conformance/dist/index.js"),
        url: format!("http://{}{path}", proxy::start(address, &key)?),
        results: scratch.path().join("results"),
        verbose: options.verbose,
    };
    let verdicts: Vec<Verdict> =
        cases.iter().map(|case| suite.judge(case, &expected)).collect::<Result<_>>()?;
    report(&verdicts)
}

impl Options {
    fn selects(&self, case: &Case) -> bool {
        self.scenario.as_ref().is_none_or(|part| case.scenario.contains(part))
    }
}

fn all_cases() -> impl Iterator<Item = Case> {
    SCENARIOS.iter().flat_map(|(scenario, revisions)| {
        revisions
            .iter()
            .map(|revision| Case { scenario: (*scenario).to_owned(), revision: (*revision).to_owned() })
    })
}

fn read_expected(workspace: &Workspace) -> Result<Vec<ExpectedFailure>> {
    let text = std::fs::read_to_string(workspace.root.join(EXPECTED_FAILURES))
        .with_context(|| format!("cannot read {EXPECTED_FAILURES}"))?;
    let expected = verdict::parse_expected(&text).context(EXPECTED_FAILURES)?;
    let stray = verdict::stray_expectations(&expected, &all_cases().collect::<Vec<_>>());
    if !stray.is_empty() {
        bail!("{EXPECTED_FAILURES} names what is not run: {} · hint: delete these lines", stray.join(", "));
    }
    Ok(expected)
}

/// The command line of the conformance suite.
struct Suite {
    node: PathBuf,
    script: PathBuf,
    url: String,
    results: PathBuf,
    verbose: bool,
}

impl Suite {
    fn judge(&self, case: &Case, expected: &[ExpectedFailure]) -> Result<Verdict> {
        let folder = self.results.join(case.to_string());
        let mut suite = Command::new(&self.node);
        suite.arg(&self.script).args(["server", "--url", &self.url]);
        suite
            .args(["--scenario", &case.scenario, "--spec-version", &case.revision, "--output-dir"])
            .arg(&folder);
        // The exit code says only that a check failed; what counts is which.
        let output = suite.output().context("cannot start the conformance suite")?;
        let printed = String::from_utf8_lossy(&output.stdout);
        if self.verbose {
            println!("--- {case}\n{printed}");
        }
        match find_checks(&folder) {
            Some(checks) => Verdict::from_json(case, &std::fs::read_to_string(checks)?, expected),
            None => {
                let complaint = String::from_utf8_lossy(&output.stderr);
                let last = printed.lines().chain(complaint.lines()).last().unwrap_or("it printed nothing");
                Ok(Verdict::not_run(case, format!("not run: {last}")))
            }
        }
    }
}

/// The suite puts its checks into a folder named after the time.
fn find_checks(folder: &Path) -> Option<PathBuf> {
    let entries = std::fs::read_dir(folder).ok()?;
    entries.flatten().map(|entry| entry.path().join("checks.json")).find(|path| path.is_file())
}

fn report(verdicts: &[Verdict]) -> Result<()> {
    println!("\n{:<44} {:>6} {:>8} {:>8}  result", "scenario", "checks", "expected", "warnings");
    for verdict in verdicts {
        println!(
            "{:<44} {:>6} {:>8} {:>8}  {}",
            verdict.case.to_string(),
            verdict.succeeded,
            verdict.expected_failures,
            verdict.warnings.len(),
            if verdict.passed() { "passed" } else { "FAILED" },
        );
    }
    for verdict in verdicts {
        for warning in &verdict.warnings {
            println!("{}: warning: {warning}", verdict.case);
        }
    }
    for verdict in verdicts {
        for problem in &verdict.problems {
            println!("{}: FAILED: {problem}", verdict.case);
        }
    }
    let passed = verdicts.iter().filter(|verdict| verdict.passed()).count();
    let failed = verdicts.len() - passed;
    println!("{passed} passed, {failed} failed");
    if failed > 0 || verdicts.is_empty() {
        bail!("{failed} of {} conformance scenarios failed", verdicts.len());
    }
    Ok(())
}
