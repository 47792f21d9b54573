//! Going back, through the tools of `hindcast mcp`.

use std::process::Command;

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};

use super::{Bench, INSTRUCTIONS_A_ROUND};
use crate::bench::mcp_client::McpClient;
use crate::bench::series::Series;

/// What was measured of going back.
pub(super) struct Back {
    /// One instruction back from somewhere in a program of ten megabytes.
    pub(super) first_step: Series,
    /// The next ones.
    pub(super) next_steps: Series,
    /// To a breakpoint before a thousand million instructions.
    pub(super) reverse_continue: Series,
    /// A write before all of them, and the last of them.
    pub(super) last_write_sparse: Series,
    pub(super) last_write_hot: Series,
    /// What the log takes for a call, in bytes.
    pub(super) bytes_an_event: f64,
    /// Instructions of the longest recording, whose first moment was gone to.
    pub(super) history: u64,
    pub(super) to_the_start: Series,
}

/// Rounds of `spin` that make a thousand million instructions.
const ROUNDS: u64 = 1_000_000_000 / INSTRUCTIONS_A_ROUND;
const STOPS: u64 = 40;
const NEXT_STEPS: usize = 10;
const REPETITIONS: usize = 5;

pub(super) fn measure(bench: &Bench) -> Result<Back> {
    let (first_step, next_steps) = steps(bench)?;
    let (reverse_continue, last_write_sparse, last_write_hot) = searches(bench)?;
    let (history, to_the_start) = history(bench)?;
    Ok(Back {
        first_step,
        next_steps,
        reverse_continue,
        last_write_sparse,
        last_write_hot,
        bytes_an_event: bytes_an_event(bench)?,
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

fn searches(bench: &Bench) -> Result<(Series, Series, Series)> {
    let rounds = ROUNDS.to_string();
    let (mut back, mut sparse, mut hot) = (Series::default(), Series::default(), Series::default());
    for _ in 0..REPETITIONS {
        let mut debugger = Debugger::launch(bench, ["spin", &rounds])?;
        debugger.run_to("begin")?;
        debugger.run_to("end")?;
        let last_hot = hot.time(|| debugger.ask("debugger/last_write", &json!({ "expression": "hot" })))?;
        ensure!(last_hot.to_string().contains(&rounds), "another write: {last_hot}");
        debugger.return_to_present()?;
        let only = sparse.time(|| debugger.ask("debugger/last_write", &json!({ "expression": "sparse" })))?;
        ensure!(only.to_string().contains("main"), "another write: {only}");
        debugger.return_to_present()?;
        let there =
            back.time(|| debugger.ask("debugger/reverse_continue", &json!({ "timeout_ms": 50_000 })))?;
        ensure!(there.to_string().contains("begin"), "it did not come to `begin`: {there}");
    }
    Ok((back, sparse, hot))
}

fn bytes_an_event(bench: &Bench) -> Result<f64> {
    let mut debugger = Debugger::launch(bench, ["calls", "100000"])?;
    debugger.run_to("end")?;
    let timeline = debugger.ask("debugger/timeline", &json!({}))?;
    let figure = |name: &str| {
        timeline["recording"][name]
            .as_f64()
            .with_context(|| format!("the timeline has no `{name}`: {timeline}"))
    };
    Ok(figure("bytes")? / figure("events")?)
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
