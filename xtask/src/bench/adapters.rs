//! `cargo xtask bench adapters`: debugging through debug adapters, against mcp-debugger with the same adapters, in one run.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use clap::Args;
use hindcast_fixtures::adapters::{self, Script};
use serde_json::{Value, json};

use super::mcp_client::McpClient;
use super::series::Series;
use super::{document, machine, raw_adapter};
use crate::peers;
use crate::scratch::ScratchFolder;
use crate::workspace::{Profile, Workspace};

/// The languages that both can debug, and their programs.
const LANGUAGES: [(&str, &str); 5] = [
    ("python", "python/sums.py"),
    ("javascript", "javascript/sums.js"),
    ("go", "go/sums/main.go"),
    ("ruby", "ruby/sums.rb"),
    ("java", "java/Sums.java"),
];
/// What is to be reached: the first stop this much later than the adapter by itself at most, and how many times as fast as the peer.
const BEHIND_THE_ADAPTER: f64 = 50.0;
const FIRST_STOP_TIMES: f64 = 1.3;
const STEP_TIMES: f64 = 3.0;
/// Steps in one round, each followed by a look at the variables.
const STEPS: usize = 10;
/// How often mcp-debugger is asked whether the program stands.
const MOST_QUESTIONS: usize = 20_000;
const BETWEEN_QUESTIONS: Duration = Duration::from_millis(2);

/// How to measure.
#[derive(Args)]
pub(crate) struct Options {
    /// Rounds that count; one more goes before them
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u16).range(1..))]
    rounds: u16,
    /// Measure this program instead of building one
    #[arg(long)]
    binary: Option<PathBuf>,
    /// Print the section instead of writing it to docs/benchmarks.md
    #[arg(long)]
    print: bool,
}

/// What was measured of one debugger in one language.
#[derive(Default)]
struct Figures {
    /// From the request to launch until the variables at the breakpoint.
    first_stop: Series,
    /// The same of the adapter by itself.
    by_itself: Series,
    step: Series,
    locals: Series,
    /// The longest answer to a step, in bytes of text.
    step_bytes: usize,
}

/// Measures both in turns.
pub(super) fn run(workspace: &Workspace, options: &Options) -> Result<()> {
    crate::adapters::prepare(workspace)?;
    let binary = match &options.binary {
        Some(binary) => binary.clone(),
        None => workspace.build_hindcast(Profile::Dist)?,
    };
    let scratch = ScratchFolder::create(workspace, "bench-adapters")?;
    let environment = adapters::environment().context("the adapters are not installed")?;
    let mut rows = Vec::new();
    for (language, file) in LANGUAGES {
        let script = Script::new(file);
        let (mut ours, mut theirs) = (Figures::default(), Some(Figures::default()));
        for round in 0..=options.rounds {
            let mut hindcast = Command::new(&binary);
            hindcast.args(["mcp", "--data-dir"]).arg(scratch.path().join("data")).envs(environment.clone());
            let mut measured = measure_hindcast(&mut hindcast, &script)?;
            match raw_adapter::first_stop(&environment, language, &script, scratch.path()) {
                Ok(taken) => measured.by_itself.push(taken),
                Err(error) => println!("the adapter by itself, {language}: {error:#}"),
            }
            // The first only warms the caches.
            if round > 0 {
                ours.append(measured);
            }
            let mut peer = mcp_debugger(workspace, scratch.path());
            peer.envs(environment.clone());
            match measure_peer(&mut peer, language, &script, scratch.path()) {
                Ok(measured) if round > 0 => {
                    if let Some(theirs) = &mut theirs {
                        theirs.append(measured);
                    }
                }
                Ok(_) => {}
                Err(error) => {
                    println!("mcp-debugger, {language}: {error:#}");
                    theirs = None;
                }
            }
        }
        println!("{}", row(language, &ours, theirs.as_ref()));
        rows.push(row(language, &ours, theirs.as_ref()));
    }
    let head = format!(
        "| language | first stop of the adapter by itself | ours later (goal +{BEHIND_THE_ADAPTER:.0} ms) | first stop | \
         goal {FIRST_STOP_TIMES} × | step over | goal {STEP_TIMES:.0} × | locals | goal {STEP_TIMES:.0} × | \
         bytes a step (goal fewer) |\n|---|---|---|---|---|---|---|---|---|---|"
    );
    let described = match &options.binary {
        Some(_) => machine::describe_with("unknown")?,
        None => machine::describe()?,
    };
    let section = format!(
        "Debugging through debug adapters, hindcast against mcp-debugger with the same adapters; medians of {} rounds, in \
         milliseconds, and how many times as fast. {}\n\n{head}\n{}\n",
        options.rounds,
        described,
        rows.join("\n")
    );
    println!("\n{section}");
    if options.print {
        return Ok(());
    }
    document::write_section(workspace, "adapters", &section)
}

impl Figures {
    fn append(&mut self, round: Self) {
        self.first_stop.append(round.first_stop);
        self.by_itself.append(round.by_itself);
        self.step.append(round.step);
        self.locals.append(round.locals);
        self.step_bytes = self.step_bytes.max(round.step_bytes);
    }
}

fn row(language: &str, ours: &Figures, theirs: Option<&Figures>) -> String {
    let (by_itself, first) = (ours.by_itself.median(), ours.first_stop.median());
    let later = first - by_itself;
    let against = |series: fn(&Figures) -> &Series, goal: f64| match theirs {
        Some(theirs) => {
            let (mine, other) = (series(ours).median(), series(theirs).median());
            let times = other / mine;
            format!("{mine:.1} to {other:.1} | {times:.1} × {}", verdict(times >= goal))
        }
        None => format!("{:.1} | the peer fails", series(ours).median()),
    };
    let bytes = match theirs {
        Some(theirs) => {
            let (mine, other) = (ours.step_bytes, theirs.step_bytes);
            format!("{mine} to {other} {}", verdict(mine < other))
        }
        None => format!("{}, the peer fails", ours.step_bytes),
    };
    format!(
        "| {language} | {by_itself:.1} | {later:+.1} {} | {} | {} | {} | {bytes} |",
        verdict(later <= BEHIND_THE_ADAPTER),
        against(|figures| &figures.first_stop, FIRST_STOP_TIMES),
        against(|figures| &figures.step, STEP_TIMES),
        against(|figures| &figures.locals, STEP_TIMES),
    )
}

fn verdict(is_reached: bool) -> &'static str {
    if is_reached { "✓" } else { "missed" }
}

fn measure_hindcast(command: &mut Command, script: &Script) -> Result<Figures> {
    let mut client = McpClient::start("hindcast", command)?;
    let mut figures = Figures::default();
    let begin = Instant::now();
    let folder = script.path.parent().context("a fixture is in a folder")?;
    client
        .call("debugger/launch", &json!({ "program": script.path, "cwd": folder, "timeout_ms": 60_000 }))?;
    client
        .call("debugger/set_breakpoint", &json!({ "file": script.path, "line": script.line("loop_body") }))?;
    let stop = client.call("debugger/continue", &json!({}))?;
    if stop.structured["reason"] != "breakpoint" {
        bail!("hindcast did not get to the breakpoint: {}", stop.answer.text);
    }
    client.call("debugger/get_variables", &json!({}))?;
    figures.first_stop.push(begin.elapsed());
    for _ in 0..STEPS {
        let stepped =
            figures.step.time(|| client.call("debugger/step_forward", &json!({ "granularity": "over" })))?;
        figures.step_bytes = figures.step_bytes.max(stepped.answer.text.len());
        let seen = figures.locals.time(|| client.call("debugger/get_variables", &json!({})))?;
        mentions(&seen.answer.text)?;
    }
    client.call("debugger/disconnect", &json!({}))?;
    Ok(figures)
}

fn mcp_debugger(workspace: &Workspace, folder: &Path) -> Command {
    let packages = peers::debuggers_folder(workspace).join("node_modules");
    let mut server = Command::new(packages.join("node/bin/node"));
    server.arg(packages.join("@debugmcp/mcp-debugger/dist/cli")).arg("stdio");
    server.current_dir(folder).env("NODE_ENV", "production");
    server
}

/// In the order that its own instructions recommend.
fn measure_peer(command: &mut Command, language: &str, script: &Script, scratch: &Path) -> Result<Figures> {
    let mut client = McpClient::start("mcp-debugger", command)?;
    let mut figures = Figures::default();
    let begin = Instant::now();
    let created = said(&mut client, "create_debug_session", &json!({ "language": language }))?.1;
    let session = created["sessionId"].as_str().context("mcp-debugger did not name its session")?.to_owned();
    let line = script.line("loop_body");
    said(&mut client, "set_breakpoint", &json!({ "sessionId": session, "file": script.path, "line": line }))?;
    let mut start = json!({ "sessionId": session, "scriptPath": script.path, "args": [] });
    if language == "java" {
        // It debugs classes only.
        raw_adapter::compile(script, scratch)?;
        let class = script.path.file_stem().and_then(|name| name.to_str());
        start["dapLaunchArgs"] =
            json!({ "mainClass": class, "classpath": scratch, "cwd": scratch, "stopOnEntry": false });
    }
    said(&mut client, "start_debugging", &start)?;
    await_pause(&mut client)?;
    let at = said(&mut client, "get_stack_trace", &json!({ "sessionId": session }))?.1;
    if at["stackFrames"][0]["line"] != line {
        said(&mut client, "continue_execution", &json!({ "sessionId": session }))?;
        await_pause(&mut client)?;
    }
    let (text, _) = said(&mut client, "get_local_variables", &json!({ "sessionId": session }))?;
    if !text.contains("price") {
        bail!("`price` is missing in `{text}`");
    }
    figures.first_stop.push(begin.elapsed());
    for _ in 0..STEPS {
        let arguments = json!({ "sessionId": session });
        let (text, _) = figures.step.time(|| said(&mut client, "step_over", &arguments))?;
        figures.step_bytes = figures.step_bytes.max(text.len());
        // It shows the innermost scope only, which may have no variables.
        figures.locals.time(|| said(&mut client, "get_local_variables", &arguments))?;
    }
    said(&mut client, "close_debug_session", &json!({ "sessionId": session }))?;
    Ok(figures)
}

/// A quick answer that is not one would win every comparison.
fn mentions(text: &str) -> Result<()> {
    if !text.contains("result") {
        bail!("`result` is missing in `{text}`");
    }
    Ok(())
}

fn said(client: &mut McpClient, tool: &str, arguments: &Value) -> Result<(String, Value)> {
    let text = client.call(tool, arguments)?.answer.text;
    let said: Value = serde_json::from_str(&text).with_context(|| format!("{tool}: no JSON: {text}"))?;
    if said["success"] != true {
        bail!("{tool}: {text}");
    }
    Ok((text, said))
}

fn await_pause(client: &mut McpClient) -> Result<()> {
    for _ in 0..MOST_QUESTIONS {
        let sessions = said(client, "list_debug_sessions", &json!({}))?.1;
        match sessions["sessions"][0]["state"].as_str() {
            Some("paused") => return Ok(()),
            Some("running" | "initializing" | "created" | "ready") => std::thread::sleep(BETWEEN_QUESTIONS),
            other => bail!("mcp-debugger did not stop: {other:?}"),
        }
    }
    bail!("mcp-debugger never stopped")
}
