//! How long `hindcast` takes from being started to its first answer, and what it weighs when idle.

use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};

use super::machine;
use crate::hindcast_process::{HindcastServer, Home, Transport};
use crate::http;

const RUNS: usize = 11;
const SETTLE: Duration = Duration::from_secs(2);
const INITIALIZE: &str = r#"{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"bench","version":"1.0.0"}}}"#;
const TOOLS_LIST: &str = r#"{"jsonrpc":"2.0","id":1,"method":"tools/list","params":{}}"#;

/// Start and idle weight of one way to run hindcast.
pub(super) struct Started {
    /// The command.
    pub(super) name: &'static str,
    /// Median time to the first answer.
    pub(super) first_answer: Duration,
    /// Resident memory two seconds after it, in kB.
    pub(super) idle_memory: u64,
}

/// `serve` on an existing data folder: from start to status 200 for `tools/list`.
pub(super) fn serve(binary: &Path, data_folder: &Path, key: &str) -> Result<Started> {
    let authorization = format!("Bearer {key}");
    let start = || {
        let begin = Instant::now();
        let server = HindcastServer::start(binary, Home::folder(data_folder), Transport::Http)?;
        let answer = http::post_json(&server.url, &[("Authorization", &authorization)], TOOLS_LIST)?;
        let elapsed = begin.elapsed();
        if answer.status != 200 || !answer.body.contains("\"tools\"") {
            bail!("tools/list: status {}: {}", answer.status, answer.body);
        }
        Ok((elapsed, server))
    };
    measure("hindcast serve", start, HindcastServer::process)
}

/// `mcp`: from start to the answer to `initialize`.
pub(super) fn mcp(binary: &Path, data_folder: &Path) -> Result<Started> {
    let start = || {
        let begin = Instant::now();
        let mut mcp = Stdioed::start(binary, data_folder)?;
        let answer = mcp.ask(INITIALIZE)?;
        let elapsed = begin.elapsed();
        if !answer.contains("\"protocolVersion\"") {
            bail!("initialize: {answer}");
        }
        Ok((elapsed, mcp))
    };
    measure("hindcast mcp", start, |mcp| mcp.child.id())
}

/// Starts several times one after the other; the last process is left running to be weighed.
fn measure<Process>(
    name: &'static str,
    start: impl Fn() -> Result<(Duration, Process)>,
    process_number: impl Fn(&Process) -> u32,
) -> Result<Started> {
    let mut times = Vec::new();
    for _ in 1..RUNS {
        times.push(start()?.0);
    }
    let (elapsed, last) = start()?;
    times.push(elapsed);
    std::thread::sleep(SETTLE);
    let idle_memory = machine::memory(process_number(&last))?.resident;
    let first_answer = median(times);
    println!("{name}: first answer after {first_answer:.1?}, idle {idle_memory} kB");
    Ok(Started { name, first_answer, idle_memory })
}

fn median(mut times: Vec<Duration>) -> Duration {
    times.sort_unstable();
    times[times.len() / 2]
}

/// `hindcast mcp` with its standard streams in our hands; ends with this value.
struct Stdioed {
    child: Child,
}

impl Stdioed {
    fn start(binary: &Path, data_folder: &Path) -> Result<Self> {
        let mut mcp = Command::new(binary);
        mcp.args(["mcp", "--data-dir"]).arg(data_folder);
        let child = mcp.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null()).spawn();
        Ok(Self { child: child.with_context(|| format!("cannot start {}", binary.display()))? })
    }

    fn ask(&mut self, request: &str) -> Result<String> {
        let stdin = self.child.stdin.as_mut().context("no standard input")?;
        stdin.write_all(format!("{request}\n").as_bytes())?;
        stdin.flush()?;
        let stdout = self.child.stdout.as_mut().context("no standard output")?;
        let mut line = String::new();
        BufReader::new(stdout).read_line(&mut line)?;
        Ok(line)
    }
}

impl Drop for Stdioed {
    fn drop(&mut self) {
        // Both fail only when it has already ended.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_median_ignores_outliers() {
        let times = [9, 1, 500, 2, 8].map(Duration::from_millis).to_vec();
        assert_eq!(median(times), Duration::from_millis(8));
    }
}
