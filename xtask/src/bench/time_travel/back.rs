//! Going back, through the tools of `hindcast mcp`.

use std::{fs, process::Command, thread, time::Duration};

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};

use super::{Bench, INSTRUCTIONS_A_ROUND};
use crate::bench::mcp_client::McpClient;
use crate::bench::series::Series;

/// What was measured of going back.
pub(super) struct Back {
    /// One instruction back from somewhere in a program of ten megabytes: from a pause, and from a breakpoint.
    pub(super) first_step: Series,
    pub(super) first_step_from_breakpoint: Series,
    /// The same by somebody who reads the answer first.
    pub(super) first_step_after_reading: Series,
    /// The next ones.
    pub(super) next_steps: Series,
    /// To a breakpoint before a thousand million instructions.
    pub(super) reverse_continue: Series,
    /// A write before all of them, with nothing written near it since and with much; and the last of them.
    pub(super) last_write_secluded: Series,
    pub(super) last_write_sparse: Series,
    pub(super) last_write_hot: Series,
    /// What a call takes beside its data, in bytes: in memory, and in a trace.
    pub(super) event_in_memory: f64,
    pub(super) event_in_trace: f64,
    /// To the one pass of a million at which a condition holds, back and forth, and to the first but ten by counting.
    pub(super) back_to_condition: Series,
    pub(super) on_to_condition: Series,
    pub(super) back_to_hit: Series,
    /// Instructions of the longest recording, whose first moment was gone to.
    pub(super) history: u64,
    pub(super) to_the_start: Series,
}

/// Rounds of `spin` that make a thousand million instructions.
const ROUNDS: u64 = 1_000_000_000 / INSTRUCTIONS_A_ROUND;
const STOPS: u64 = 40;
const NEXT_STEPS: usize = 30;
/// An agent takes longer between two calls.
const READING: Duration = Duration::from_millis(1500);
const REPETITIONS: usize = 5;

pub(super) fn measure(bench: &Bench) -> Result<Back> {
    let (first_step, next_steps) = steps(bench)?;
    let first_step_from_breakpoint = steps_from_breakpoint(bench, Duration::ZERO)?;
    let first_step_after_reading = steps_from_breakpoint(bench, READING)?;
    let [reverse_continue, last_write_secluded, last_write_sparse, last_write_hot] = searches(bench)?;
    let (history, to_the_start) = history(bench)?;
    let (event_in_memory, event_in_trace) = event_sizes(bench)?;
    let (back_to_condition, on_to_condition, back_to_hit) = passes(bench)?;
    Ok(Back {
        back_to_condition,
        on_to_condition,
        back_to_hit,
        first_step,
        first_step_from_breakpoint,
        first_step_after_reading,
        next_steps,
        reverse_continue,
        last_write_secluded,
        last_write_sparse,
        last_write_hot,
        event_in_memory,
        event_in_trace,
        history,
        to_the_start,
    })
}

struct Debugger(McpClient);

impl Debugger {
    fn launch(bench: &Bench, arguments: [&str; 2]) -> Result<Self> {
        println!("going back: {}", arguments.join(" "));
        let mut mcp = Command::new(&bench.hindcast);
        mcp.args(["mcp", "--data-dir"]).arg(&bench.data);
        let mut debugger = Self(McpClient::start("hindcast", &mut mcp)?);
        debugger.ask("debugger/launch", &json!({ "program": bench.work, "args": arguments }))?;
        Ok(debugger)
    }

    fn ask(&mut self, tool: &str, arguments: &Value) -> Result<Value> {
        Ok(self.0.call(tool, arguments)?.structured)
    }

    fn run_to(&mut self, function: &str) -> Result<()> {
        self.ask("debugger/set_breakpoint", &json!({ "function": function }))?;
        let stopped = self.ask("debugger/continue", &json!({ "timeout_ms": 50_000 }))?;
        ensure!(stopped["reason"] == "breakpoint", "it did not come to `{function}`: {stopped}");
        Ok(())
    }

    fn return_to_present(&mut self) -> Result<()> {
        self.ask("debugger/goto", &json!({ "moment": "present" })).map(drop)
    }
}

fn steps(bench: &Bench) -> Result<(Series, Series)> {
    let mut debugger = Debugger::launch(bench, ["table", "100000000000"])?;
    let (mut first, mut next) = (Series::default(), Series::default());
    for stop in 0..STOPS {
        // Not a rhythm that checkpoints could fall in with.
        let pause = 20 + stop * 37 % 100;
        debugger.ask("debugger/continue", &json!({ "timeout_ms": pause }))?;
        debugger.ask("debugger/pause", &json!({}))?;
        let back = json!({ "granularity": "instruction" });
        first.time(|| debugger.ask("debugger/step_backward", &back))?;
        for _ in 0..NEXT_STEPS {
            next.time(|| debugger.ask("debugger/step_backward", &back))?;
        }
        debugger.return_to_present()?;
    }
    Ok((first, next))
}

fn steps_from_breakpoint(bench: &Bench, reading: Duration) -> Result<Series> {
    let mut debugger = Debugger::launch(bench, ["marks", "30000000"])?;
    debugger.ask("debugger/set_breakpoint", &json!({ "function": "mark" }))?;
    let mut first = Series::default();
    for _ in 0..STOPS {
        let stopped = debugger.ask("debugger/continue", &json!({ "timeout_ms": 50_000 }))?;
        ensure!(stopped["reason"] == "breakpoint", "it did not come to `mark`: {stopped}");
        thread::sleep(reading);
        first.time(|| debugger.ask("debugger/step_backward", &json!({ "granularity": "instruction" })))?;
        debugger.return_to_present()?;
    }
    Ok(first)
}

fn searches(bench: &Bench) -> Result<[Series; 4]> {
    let rounds = ROUNDS.to_string();
    let [mut back, mut secluded, mut sparse, mut hot] = <[Series; 4]>::default();
    for _ in 0..REPETITIONS {
        let mut debugger = Debugger::launch(bench, ["spin", &rounds])?;
        debugger.run_to("begin")?;
        debugger.run_to("end")?;
        let variables = [
            ("hot", &mut hot, rounds.as_str()),
            ("sparse", &mut sparse, "main"),
            ("secluded[0]", &mut secluded, "main"),
        ];
        for (variable, series, wanted) in variables {
            let question = json!({ "expression": variable });
            let found = series.time(|| debugger.ask("debugger/last_write", &question))?;
            ensure!(found.to_string().contains(wanted), "another write: {found}");
            debugger.return_to_present()?;
        }
        let there =
            back.time(|| debugger.ask("debugger/reverse_continue", &json!({ "timeout_ms": 50_000 })))?;
        ensure!(there.to_string().contains("begin"), "it did not come to `begin`: {there}");
    }
    Ok([back, secluded, sparse, hot])
}

/// A function that is come to a million times.
fn passes(bench: &Bench) -> Result<(Series, Series, Series)> {
    const PASSES: u64 = 1_000_000;
    let (mut back, mut on, mut hit) = (Series::default(), Series::default(), Series::default());
    let patience = json!({ "timeout_ms": 50_000 });
    for _ in 0..REPETITIONS {
        let mut debugger = Debugger::launch(bench, ["passes", &PASSES.to_string()])?;
        debugger.run_to("end")?;
        let is_at = |debugger: &mut Debugger, round: u64| -> Result<()> {
            let value = debugger.ask("debugger/evaluate", &json!({ "expression": "round" }))?;
            let is_there = value["value"].as_str() == Some(round.to_string().as_str());
            ensure!(is_there, "another pass than {round}: {value}");
            Ok(())
        };
        let set = |debugger: &mut Debugger, more: Value| -> Result<Value> {
            let mut wanted = json!({ "function": "visit" });
            if let (Some(wanted), Value::Object(more)) = (wanted.as_object_mut(), more) {
                wanted.extend(more);
            }
            Ok(debugger.ask("debugger/set_breakpoint", &wanted)?["id"].clone())
        };
        let id = set(&mut debugger, json!({ "condition": "round == 10" }))?;
        back.time(|| debugger.ask("debugger/reverse_continue", &patience))?;
        is_at(&mut debugger, 10)?;
        debugger.ask("debugger/remove_breakpoint", &json!({ "id": id }))?;
        let id = set(&mut debugger, json!({ "condition": format!("round == {}", PASSES - 10) }))?;
        on.time(|| debugger.ask("debugger/continue", &patience))?;
        is_at(&mut debugger, PASSES - 10)?;
        debugger.ask("debugger/remove_breakpoint", &json!({ "id": id }))?;
        debugger.return_to_present()?;
        set(&mut debugger, json!({ "hit_count": PASSES - 10 }))?;
        hit.time(|| debugger.ask("debugger/reverse_continue", &patience))?;
        is_at(&mut debugger, 10)?;
    }
    Ok((back, on, hit))
}

/// What calls take that each read bytes which cannot be compressed, less what a program takes that makes none.
fn event_sizes(bench: &Bench) -> Result<(f64, f64)> {
    const CALLS: u64 = 100_000;
    const DATA: f64 = 64.0;
    let (memory, trace) = log_sizes(bench, CALLS)?;
    let (empty_memory, empty_trace) = log_sizes(bench, 0)?;
    let each = |all: f64, empty: f64| (all - empty) / CALLS as f64 - DATA;
    Ok((each(memory, empty_memory), each(trace, empty_trace)))
}

/// What the log takes in memory, and the whole recording in a file.
fn log_sizes(bench: &Bench, calls: u64) -> Result<(f64, f64)> {
    let mut debugger = Debugger::launch(bench, ["random", &calls.to_string()])?;
    debugger.run_to("end")?;
    let timeline = debugger.ask("debugger/timeline", &json!({}))?;
    let bytes = timeline["recording"]["bytes"].as_f64();
    let bytes = bytes.with_context(|| format!("the timeline has no `bytes`: {timeline}"))?;
    let trace = bench.work.with_file_name(format!("random-{calls}.trace"));
    debugger.ask("debugger/export_trace", &json!({ "format": "binary", "path": trace }))?;
    let size = trace.metadata()?.len();
    fs::remove_file(&trace)?;
    Ok((bytes, size as f64))
}

fn history(bench: &Bench) -> Result<(u64, Series)> {
    let rounds = 10 * ROUNDS;
    let mut debugger = Debugger::launch(bench, ["spin", &rounds.to_string()])?;
    debugger.run_to("end")?;
    let mut to_the_start = Series::default();
    for _ in 0..REPETITIONS {
        to_the_start.time(|| debugger.ask("debugger/goto", &json!({ "moment": "start" })))?;
        let hot = debugger.ask("debugger/evaluate", &json!({ "expression": "hot" }))?;
        ensure!(hot["value"] == "0", "the start is somewhere else: {hot}");
        debugger.return_to_present()?;
    }
    Ok((rounds * INSTRUCTIONS_A_ROUND, to_the_start))
}
