//! The section of docs/benchmarks.md.

use super::{INSTRUCTIONS_A_ROUND, SPIN_ROUNDS, back::Back, gdb_record::GdbRecord, record::Recording};
use crate::bench::document::{busy_warning, goal};

/// What was measured.
pub(super) struct Results {
    pub(super) machine: String,
    pub(super) rounds: u16,
    pub(super) recordings: Vec<Recording>,
    pub(super) back: Back,
    pub(super) gdb: GdbRecord,
    pub(super) neighbours_share: f64,
}

/// Why goals can be missed; what is true of all runs.
const REASONS: &str = "\
What stands in the way:

- *Short programs:* to begin and end a recording takes some milliseconds, which is much for a program that takes a few: 20,000 small
  reads, 500,000 lines.
- *Computing:* the run takes about a second, in which the start of the recording and its checkpoints weigh.
- *Threads:* they run one at a time, and at each switch the recorder stops one and lets the next go on. In an earlier run this took 1.08
  times as much of the processor's time; where the rest goes was not measured.
- *The next steps back:* the engine puts back what an instruction wrote. Most of the time goes into the protocol, and into the stack,
  the locals and the source of each answer.
- *Memory:* a page that a checkpoint shares has to be copied when it is written next, 5 to 15 µs each on a virtual machine. A program
  that writes everywhere in its memory pays that after every checkpoint, so it has fewer of them, and a step back has further to go.
- *The first step back:* from a pause the way is known, because its last steps are made one by one. From a breakpoint it is searched:
  all that ran since the last checkpoint runs again, and the end of it a few times more, to find the last instruction. That is done
  while nobody asks for anything; only who goes back at once has to wait for it.
- *A write long ago:* what was recorded since is looked through, as fast as the program ran. Only where nothing wrote to the page in
  between, that need not be done; to know it takes the right to see where pages are.";

impl Results {
    pub(super) fn section(&self) -> String {
        let mut lines = vec![
            "## Time travel".to_owned(),
            String::new(),
            format!("`cargo xtask bench time-travel --rounds {}` on {}.", self.rounds, self.machine),
            String::new(),
            "Whole programs, alone and by `hindcast record` (its own start is included); the shortest of all \
             rounds. Then going back"
                .to_owned(),
            "through the tools of `hindcast mcp`, with the way over the protocol.".to_owned(),
            String::new(),
        ];
        lines.extend(busy_warning(self.neighbours_share));
        lines.extend([
            "| recorded | alone, ms | recorded, ms | ratio |".to_owned(),
            "|---|--:|--:|--:|".to_owned(),
        ]);
        for recording in &self.recordings {
            lines.push(format!(
                "| {} | {:.0} | {:.0} | {:.2} |",
                recording.name,
                recording.native.best(),
                recording.recorded.best(),
                recording.ratio()
            ));
        }
        let back = &self.back;
        lines.extend([
            String::new(),
            "| going back | p50, ms | p95, ms | times |".to_owned(),
            "|---|--:|--:|--:|".to_owned(),
        ]);
        for (name, series) in [
            ("first instruction back from a pause, 10 MB resident", &back.first_step),
            (
                "first instruction back from a breakpoint, 1.5 s after the stop",
                &back.first_step_after_reading,
            ),
            ("first instruction back from a breakpoint, at once", &back.first_step_from_breakpoint),
            ("the next ones", &back.next_steps),
            ("`reverse_continue` over 10⁹ instructions", &back.reverse_continue),
            (
                "`last_write` over 10⁹ instructions, one write before them and none near it",
                &back.last_write_secluded,
            ),
            (
                "`last_write` over 10⁹ instructions, one write before them and 2·10⁸ near it",
                &back.last_write_sparse,
            ),
            ("`last_write` over 10⁹ instructions, written 2·10⁸ times", &back.last_write_hot),
            ("`reverse_continue` to the one of 10⁶ passes where a condition holds", &back.back_to_condition),
            (
                "`continue` in the past to the one of 10⁶ passes where a condition holds",
                &back.on_to_condition,
            ),
            ("`reverse_continue` with a hit count over 10⁶ passes", &back.back_to_hit),
            ("`goto` the start of 10¹⁰ instructions", &back.to_the_start),
        ] {
            lines.push(format!(
                "| {name} | {:.2} | {:.2} | {} |",
                series.percentile(50),
                series.percentile(95),
                series.count()
            ));
        }
        lines.extend([
            String::new(),
            format!(
                "gdb's `record full` takes {:.1} µs for an instruction of `spin`, {:.0} times as long as running alone, keeps \
                 200,000 of them and",
                self.gdb.instruction.as_secs_f64() * 1e6,
                self.gdb_ratio()
            ),
            format!("steps one back in {:.2} ms (median).", self.gdb.reverse_step.median()),
            String::new(),
            "Goals:".to_owned(),
            String::new(),
        ]);
        lines.extend(self.goals());
        lines.extend([String::new(), REASONS.to_owned()]);
        lines.join("\n")
    }

    /// How many times as long an instruction takes under gdb as alone.
    fn gdb_ratio(&self) -> f64 {
        let alone = self.recordings.first().map_or(f64::NAN, |spin| spin.native.best());
        let instruction = alone / 1e3 / (SPIN_ROUNDS * INSTRUCTIONS_A_ROUND) as f64;
        self.gdb.instruction.as_secs_f64() / instruction
    }

    fn goals(&self) -> Vec<String> {
        let back = &self.back;
        let mut goals: Vec<String> = self
            .recordings
            .iter()
            .filter_map(|recording| {
                let (ratio, limit) = (recording.ratio(), recording.limit?);
                let name = recording.name;
                Some(goal(
                    ratio <= limit,
                    &format!("recording takes at most {limit} times as long, {name}: {ratio:.2}"),
                ))
            })
            .collect();
        let start = self
            .recordings
            .last()
            .map_or(f64::NAN, |nothing| nothing.recorded.best() - nothing.native.best());
        let call = self.recordings.iter().find_map(Recording::call_cost).unwrap_or(f64::NAN);
        let at_most = |name: &str, limit: f64, measured: f64, unit: &str| {
            goal(measured <= limit, &format!("{name} at most {limit} {unit}: {measured:.2} {unit}"))
        };
        let first_steps = [
            ("pause", &back.first_step),
            ("breakpoint, 1.5 s after the stop,", &back.first_step_after_reading),
            ("breakpoint, at once,", &back.first_step_from_breakpoint),
        ];
        goals.extend([
            at_most("a logged system call costs", 2.0, call, "µs"),
            at_most("to begin and end a recording takes", 20.0, start, "ms"),
            at_most("an event takes in memory, beside its data,", 16.0, back.event_in_memory, "bytes"),
            at_most("an event takes in a trace, beside its data,", 16.0, back.event_in_trace, "bytes"),
            goal(
                back.history >= 10_000_000_000,
                &format!("history of 10¹⁰ instructions: {:.0e}", back.history as f64),
            ),
        ]);
        for (name, series) in first_steps {
            for (percentile, limit) in [(50, 30.0), (95, 150.0)] {
                let name = format!("the first step back from a {name} takes, p{percentile},");
                goals.push(at_most(&name, limit, series.percentile(percentile), "ms"));
            }
        }
        goals.extend([
            at_most("the next ones take, p50,", 0.5, back.next_steps.percentile(50), "ms"),
            at_most("`reverse_continue` takes", 1000.0, back.reverse_continue.percentile(50), "ms"),
            at_most(
                "`reverse_continue` with a condition over 10⁶ passes takes",
                5000.0,
                back.back_to_condition.percentile(95),
                "ms",
            ),
            at_most(
                "`reverse_continue` with a hit count over 10⁶ passes takes",
                5000.0,
                back.back_to_hit.percentile(95),
                "ms",
            ),
            at_most(
                "`last_write`, rare and nothing near it, takes",
                500.0,
                back.last_write_secluded.percentile(50),
                "ms",
            ),
            at_most(
                "`last_write`, rare and much near it, takes",
                500.0,
                back.last_write_sparse.percentile(50),
                "ms",
            ),
            at_most("`last_write`, hot, takes", 2000.0, back.last_write_hot.percentile(50), "ms"),
        ]);
        goals
    }
}
