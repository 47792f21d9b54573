//! Programs that run alone and recorded.

use std::path::Path;
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
    /// How many times as long it may take recorded.
    pub(super) limit: Option<f64>,
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

/// A program to record.
struct Program<'a> {
    name: &'static str,
    arguments: Vec<&'a str>,
    calls: Option<u64>,
    limit: Option<f64>,
    /// What starts it where it is not recorded.
    alone: &'a [&'a str],
    /// What it leaves, which the next run must not find.
    leaves: Option<&'a Path>,
}

/// A million rows in one transaction.
const INSERT: &str = "create table t(a integer primary key, b text, c real); begin; \
    insert into t select value, 'text ' || value, value * 1.5 from generate_series(1, 1000000); commit;";

pub(super) fn measure(bench: &Bench, rounds: u16) -> Result<Vec<Recording>> {
    let work = bench.work.display().to_string();
    let (repository, packed) = (bench.repository.display().to_string(), bench.packed.display().to_string());
    let (calls, spin_rounds) = (CALLS.to_string(), SPIN_ROUNDS.to_string());
    let database = bench.work.with_file_name("rows.db");
    let database_name = database.display().to_string();
    let program =
        |name, arguments, limit| Program { name, arguments, calls: None, limit, alone: &[], leaves: None };
    let programs = [
        program(
            "computing in registers and one place (`spin`)",
            vec![&work, "spin", &spin_rounds],
            Some(1.1),
        ),
        program("computing in 10 MB (`table`)", vec![&work, "table", "100000000"], Some(1.15)),
        Program {
            alone: &["taskset", "-c", "0"],
            ..program(
                "four computing threads (alone on one processor)",
                vec![&work, "threads", "300000000"],
                Some(1.15),
            )
        },
        Program {
            calls: Some(CALLS),
            ..program("20,000 small reads", vec![&work, "calls", &calls], Some(5.0))
        },
        program("500,000 lines by `printf`", vec![&work, "lines", "500000"], Some(2.0)),
        program("two million allocations", vec![&work, "allocate", "2000000"], None),
        program("writing 1 GB of memory four times", vec![&work, "memory", "1024"], None),
        program("`find /usr`", vec!["find", "/usr", "-name", "*.h"], Some(3.0)),
        program(
            "`git log --stat`",
            vec!["git", "-C", &packed, "--no-pager", "log", "--stat", "-n", "100"],
            Some(2.0),
        ),
        program(
            "the same with loose objects, each of which is mapped",
            vec!["git", "-C", &repository, "--no-pager", "log", "--stat", "-n", "100"],
            None,
        ),
        Program {
            leaves: Some(&database),
            ..program("a million rows into SQLite", vec!["sqlite3", &database_name, INSERT], Some(1.3))
        },
        program("nothing (`true`)", vec!["true"], None),
    ];
    let mut recordings = Vec::new();
    for Program { name, arguments, calls, limit, alone, leaves } in programs {
        println!("recording: {name}");
        let (native, recorded) = (Series::default(), Series::default());
        let mut recording = Recording { name, native, recorded, calls, limit };
        let clear = || leaves.map_or(Ok(()), std::fs::remove_file);
        for _ in 0..rounds {
            let command = [alone, &arguments].concat();
            recording.native.push(time(Command::new(command[0]).args(&command[1..]))?);
            clear()?;
            let mut recorded = Command::new(&bench.hindcast);
            recorded.args(["record", "--data-dir"]).arg(&bench.data).arg("--").args(&arguments);
            recording.recorded.push(time(&mut recorded)?);
            clear()?;
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
