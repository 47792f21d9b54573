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
const LANGUAGES: [(&str, &str); 4] = [
    ("python", "python/sums.py"),
    ("javascript", "javascript/sums.js"),
    ("go", "go/sums/main.go"),
    ("ruby", "ruby/sums.rb"),
];
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
            match measure_peer(&mut peer, language, &script) {
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
    let head = "| language | first stop of the adapter by itself | first stop | step over | locals | bytes a step |\n|---|---|---|---|---|---|";
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
    let cell = |series: fn(&Figures) -> &Series| match theirs {
        Some(theirs) => {
            let (mine, other) = (series(ours).median(), series(theirs).median());
            format!("{mine:.1} to {other:.1} ({:.1} ×)", other / mine)
        }
        None => format!("{:.1}, the peer fails", series(ours).median()),
    };
    let bytes = theirs.map_or_else(
        || ours.step_bytes.to_string(),
        |theirs| format!("{} to {}", ours.step_bytes, theirs.step_bytes),
    );
    format!(
        "| {language} | {:.1} | {} | {} | {} | {bytes} |",
        ours.by_itself.median(),
        cell(|figures| &figures.first_stop),
        cell(|figures| &figures.step),
        cell(|figures| &figures.locals)
    )
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
fn measure_peer(command: &mut Command, language: &str, script: &Script) -> Result<Figures> {
    let mut client = McpClient::start("mcp-debugger", command)?;
    let mut figures = Figures::default();
    let begin = Instant::now();
    let created = said(&mut client, "create_debug_session", &json!({ "language": language }))?.1;
    let session = created["sessionId"].as_str().context("mcp-debugger did not name its session")?.to_owned();
    let line = script.line("loop_body");
    said(&mut client, "set_breakpoint", &json!({ "sessionId": session, "file": script.path, "line": line }))?;
    said(
        &mut client,
        "start_debugging",
        &json!({ "sessionId": session, "scriptPath": script.path, "args": [] }),
    )?;
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
