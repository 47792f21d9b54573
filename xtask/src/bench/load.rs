//! Load from Debian's `wrk`.

use std::path::PathBuf;
use std::process::Command;

use anyhow::{Context, Result, bail};
use serde::Deserialize;

use crate::command;
use crate::workspace::Workspace;

/// What `peers/bench/tools_call.lua` prints.
#[derive(Debug, Clone, Copy, Deserialize)]
pub(super) struct Load {
    requests: u64,
    microseconds: u64,
    /// Half of the answers came within this, in µs.
    pub(super) p50: u64,
    /// All but one in a hundred came within this, in µs.
    pub(super) p99: u64,
    /// Answers that were not 2xx.
    refused: u64,
    /// Connections that failed, and answers that did not come in time.
    broken: u64,
}

impl Load {
    /// Answers a second over the whole run.
    pub(super) fn requests_per_second(&self) -> f64 {
        self.requests as f64 * 1e6 / self.microseconds as f64
    }
}

/// Where to send what.
pub(super) struct Target {
    /// The MCP endpoint.
    pub(super) url: String,
    /// The tool to call without arguments.
    pub(super) tool: &'static str,
    /// Sent as a bearer token.
    pub(super) key: Option<String>,
}

/// The load generator.
pub(super) struct Wrk {
    script: PathBuf,
}

impl Wrk {
    /// Takes the load script from the repository.
    pub(super) fn new(workspace: &Workspace) -> Self {
        Self { script: workspace.root.join("peers/bench/tools_call.lua") }
    }

    /// Calls the tool on `connections` for some seconds. An answer that is not a success fails the measurement: a quick
    /// refusal is no throughput.
    pub(super) fn measure(&self, target: &Target, connections: u32, seconds: u32) -> Result<Load> {
        let mut wrk = Command::new("wrk");
        // One thread is enough for all of them, and leaves the second core to the server.
        wrk.arg("--threads=1")
            .arg(format!("--connections={connections}"))
            .arg(format!("--duration={seconds}s"))
            .args(["--timeout=10s", "--script"])
            .arg(&self.script)
            .arg(&target.url)
            .env("BENCH_TOOL", target.tool)
            .env("BENCH_KEY", target.key.as_deref().unwrap_or_default());
        let load = parse(&command::capture(&mut wrk)?)?;
        if load.requests == 0 || load.refused > 0 || load.broken > 0 {
            bail!("{} at {connections} connections did not answer every call: {load:?}", target.url);
        }
        Ok(load)
    }
}

fn parse(printed: &str) -> Result<Load> {
    let json = printed.lines().rev().find(|line| line.starts_with('{')).context("wrk printed no result")?;
    serde_json::from_str(json).with_context(|| format!("wrk printed `{json}`"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_result_is_the_last_line_of_json() {
        let printed = "Running 1s test\n  1 threads\n\n\
                       {\"requests\":500,\"microseconds\":2000000,\"p50\":1200,\"p99\":3400,\"refused\":0,\"broken\":0}\n";
        let load = parse(printed).expect("a result");
        assert_eq!((load.p50, load.p99), (1200, 3400));
        assert!((load.requests_per_second() - 250.0).abs() < 1e-9);
        assert!(parse("Running 1s test\n").is_err());
    }
}
