//! The section of docs/benchmarks.md that `cargo xtask bench dotnet` writes.

use super::figures::{Figures, Looks};
use crate::bench::document::{self, goal, megabytes};
use crate::bench::series::Series;

/// The first stop may take so many times as long as the program alone takes to `Main`, …
const START_RATIO_GOAL: f64 = 1.3;
/// … and so many milliseconds.
const START_GOAL: f64 = 150.0;
const CALL_GOAL: f64 = 5.0;

/// Everything one run measured.
pub(super) struct Results {
    /// Where.
    pub(super) machine: String,
    /// How many rounds.
    pub(super) rounds: u16,
    /// Whether `--release` was asked for.
    pub(super) is_release: bool,
    /// On each runtime.
    pub(super) figures: Vec<Figures>,
    /// Which share of the processor other programs took.
    pub(super) neighbours_share: f64,
}

const WHAT_A_STEP_TAKES: [&str; 3] = [
    "What a step takes: whenever the program goes on, the runtime's debugging library forgets all that it has read of it, and gets new",
    "memory for what it reads next, which the kernel clears. At the next stop it reads the stack and the values that the answer shows",
    "anew. Of a step with many collections the program itself takes some 2 ms: it formats and writes a line.",
];

/// Something with a row of its own.
struct Timed {
    title: &'static str,
    series: fn(&Figures) -> &Series,
}

const STARTS: [Timed; 3] = [
    Timed { title: "`launch` to the stop in `Main`", series: |figures| &figures.stop_from_launch },
    Timed {
        title: "start of `hindcast mcp` to the stop in `Main`",
        series: |figures| &figures.stop_from_start,
    },
    Timed {
        title: "`launch` to a breakpoint behind the first line",
        series: |figures| &figures.breakpoint_from_launch,
    },
];

/// A frame, and how the rows of it begin.
struct Looked {
    frame: &'static str,
    looks: fn(&Figures) -> &Looks,
}

const LOOKED: [Looked; 2] = [
    Looked { frame: "a few variables", looks: |figures| &figures.simple },
    Looked { frame: "many collections", looks: |figures| &figures.collections },
];

impl Results {
    /// The section as Markdown.
    pub(super) fn section(&self) -> String {
        let mut lines = vec![
            "## .NET".to_owned(),
            String::new(),
            format!(
                "`cargo xtask bench dotnet --rounds {}{}` on {}.",
                self.rounds,
                if self.is_release { " --release" } else { "" },
                self.machine
            ),
            String::new(),
            "Sessions of `hindcast mcp` with .NET programs, with the way over the protocol; the runtimes take turns in one run. No registry"
                .into(),
            "has another debugger for .NET on Linux to compare with, so the program alone is the peer: from the start of its process until"
                .into(),
            "it has written a line first thing in `Main`. Attaching is to a program that runs. The answer to every stop shows the variables"
                .into(),
            "in brief, so a first look finds the framework's assemblies open. Milliseconds, p50 / p95 (times measured)."
                .into(),
            String::new(),
        ];
        lines.extend(document::busy_warning(self.neighbours_share));
        lines.extend(self.table());
        lines.extend([String::new(), "Goals:".to_owned(), String::new()]);
        lines.extend(self.figures.iter().flat_map(goals));
        lines.push(String::new());
        lines.extend(WHAT_A_STEP_TAKES.map(str::to_owned));
        lines.join("\n")
    }

    fn table(&self) -> Vec<String> {
        let titles: String =
            self.figures.iter().map(|figures| format!(" .NET {} |", figures.version)).collect();
        let mut lines = vec![format!("| |{titles}"), format!("|---|{}", "--:|".repeat(self.figures.len()))];
        lines.push(self.row("alone, start to `Main`", |figures| &figures.undebugged));
        lines.extend(STARTS.iter().map(|timed| self.row(timed.title, timed.series)));
        for Looked { frame, looks } in &LOOKED {
            lines.push(self.row(&format!("step over, {frame}"), |figures| &looks(figures).step));
            lines.push(
                self.row(&format!("variables, first look, {frame}"), |figures| &looks(figures).first_locals),
            );
            lines.push(
                self.row(&format!("variables after a step, {frame}"), |figures| &looks(figures).locals),
            );
        }
        lines.push(self.row("a hit whose condition does not hold", |figures| &figures.condition));
        lines.push(self.row("attach", |figures| &figures.attach));
        lines.push(self.row("detach", |figures| &figures.detach));
        let memory = |figures: &Figures| format!(" {:.1} |", megabytes(figures.peak_memory));
        let cells: String = self.figures.iter().map(memory).collect();
        lines.push(format!("| peak memory of server and worker, MB |{cells}"));
        lines
    }

    fn row(&self, title: &str, series: impl Fn(&Figures) -> &Series) -> String {
        let cell = |figures: &Figures| {
            let series = series(figures);
            format!(" {:.1} / {:.1} ({}) |", series.median(), series.percentile(95), series.count())
        };
        let cells: String = self.figures.iter().map(cell).collect();
        format!("| {title} |{cells}")
    }
}

fn goals(figures: &Figures) -> Vec<String> {
    let alone = figures.undebugged.median();
    let most = START_RATIO_GOAL * alone + START_GOAL;
    let start = |timed: &Timed| {
        let median = (timed.series)(figures).median();
        let text = format!(
            ".NET {}, {}, p50, at most {START_RATIO_GOAL} times as long as alone and {START_GOAL} ms: {median:.1} ms of {most:.1} ms",
            figures.version, timed.title
        );
        goal(median <= most, &text)
    };
    let call = |what: &str, frame: &str, series: &Series| {
        let median = series.median();
        let text =
            format!(".NET {}, {what}, {frame}, p50, at most {CALL_GOAL} ms: {median:.2} ms", figures.version);
        goal(median <= CALL_GOAL, &text)
    };
    let mut goals: Vec<String> = STARTS.iter().map(start).collect();
    for Looked { frame, looks } in &LOOKED {
        let looks = looks(figures);
        goals.push(call("step over", frame, &looks.step));
        goals.push(call("variables, first look", frame, &looks.first_locals));
        goals.push(call("variables after a step", frame, &looks.locals));
    }
    goals
}
