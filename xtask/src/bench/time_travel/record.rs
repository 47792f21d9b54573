//! Programs that run alone and recorded.

use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Result, ensure};

use super::{Bench, SPIN_ROUNDS};
use crate::bench::series::Series;

/// A program with both its times.
pub(super) struct Recording {
    pub(super) name: &'static str,
    pub(super) native: Series,
    pub(super) recorded: Series,
    /// How often it asks the system, where that is known.
    pub(super) calls: Option<u64>,
}

impl Recording {
    /// How many times as long it takes recorded.
    pub(super) fn ratio(&self) -> f64 {
        self.recorded.best() / self.native.best()
    }

    /// What one call takes longer, in microseconds.
    pub(super) fn call_cost(&self) -> Option<f64> {
        Some((self.recorded.best() - self.native.best()) * 1e3 / self.calls? as f64)
    }
}

const CALLS: u64 = 20_000;

pub(super) fn measure(bench: &Bench, rounds: u16) -> Result<Vec<Recording>> {
    let work = bench.work.display().to_string();
    let repository = bench.repository.display().to_string();
    let (calls, spin_rounds) = (CALLS.to_string(), SPIN_ROUNDS.to_string());
    let programs: [(&'static str, Vec<&str>, Option<u64>); 7] = [
        ("computing in registers and one place (`spin`)", vec![&work, "spin", &spin_rounds], None),
        ("computing in 10 MB (`table`)", vec![&work, "table", "100000000"], None),
        ("20,000 small reads", vec![&work, "calls", &calls], Some(CALLS)),
        ("two million allocations", vec![&work, "allocate", "2000000"], None),
        ("writing 1 GB of memory four times", vec![&work, "memory", "1024"], None),
        ("`find /usr`", vec!["find", "/usr", "-name", "*.h"], None),
        (
            "`git log --stat`",
            vec!["git", "-C", &repository, "--no-pager", "log", "--stat", "-n", "100"],
            None,
        ),
    ];
    let mut recordings = Vec::new();
    for (name, arguments, calls) in programs {
        println!("recording: {name}");
        let mut recording = Recording { name, native: Series::default(), recorded: Series::default(), calls };
        for _ in 0..rounds {
            let mut native = Command::new(arguments[0]);
            recording.native.push(time(native.args(&arguments[1..]))?);
            let mut recorded = Command::new(&bench.hindcast);
            recorded.args(["record", "--data-dir"]).arg(&bench.data).arg("--").args(&arguments);
            recording.recorded.push(time(&mut recorded)?);
        }
        recordings.push(recording);
    }
    Ok(recordings)
}

fn time(command: &mut Command) -> Result<Duration> {
    let begin = Instant::now();
    let status = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).status()?;
    let elapsed = begin.elapsed();
    ensure!(status.success(), "{command:?} ended with {status}");
    Ok(elapsed)
}
