//! gdb's `record full`, on as much of the same work as it can be waited for.

use std::path::Path;
use std::time::Duration;

use anyhow::Result;

use super::INSTRUCTIONS_A_ROUND;
use crate::bench::debugger::{Debugger, Gdb, Place, Program};
use crate::bench::series::Series;

/// What gdb does.
pub(super) struct GdbRecord {
    /// How long it records an instruction of `spin`.
    pub(super) instruction: Duration,
    pub(super) reverse_step: Series,
}

/// Within gdb's own limit of 200,000 instructions.
const ROUNDS: u64 = 30_000;
const STEPS: usize = 20;

pub(super) fn measure(work: &Path) -> Result<GdbRecord> {
    println!("gdb: record full");
    let mut gdb = Gdb::start()?;
    let program = Program { path: work.into(), arguments: vec!["spin".into(), ROUNDS.to_string()] };
    gdb.run_to(&program, &Place::Function("spin".into()))?;
    gdb.ask("-interpreter-exec console \"record full\"")?;
    gdb.ask("-break-insert end")?;
    let mut recording = Series::default();
    recording.time(|| gdb.travel("-exec-continue", &["breakpoint-hit"]))?;
    let mut reverse_step = Series::default();
    for _ in 0..STEPS {
        let back = "-exec-step-instruction --reverse";
        reverse_step.time(|| gdb.travel(back, &["end-stepping-range", "breakpoint-hit"]))?;
    }
    let seconds = recording.best() / 1e3 / (ROUNDS * INSTRUCTIONS_A_ROUND) as f64;
    Ok(GdbRecord { instruction: Duration::from_secs_f64(seconds), reverse_step })
}
