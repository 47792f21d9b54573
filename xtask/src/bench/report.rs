//! The section of docs/benchmarks.md that `cargo xtask bench server` writes.

use std::time::Duration;

use super::contender::{CONNECTIONS, Measured};
use super::document::{self, goal, megabytes};
use super::start::Started;

const PLAIN_GOAL: f64 = 20.0;
const TLS_GOAL: f64 = 10.0;
const START_GOAL: Duration = Duration::from_millis(50);
const IDLE_MEMORY_GOAL: u64 = 20_000;

/// Everything one run measured.
pub(super) struct Results {
    /// Where.
    pub(super) machine: String,
    /// How long each load lasted.
    pub(super) seconds: u32,
    /// Ourselves over HTTP.
    pub(super) plain: Measured,
    /// Ourselves over HTTPS.
    pub(super) tls: Measured,
    /// Ourselves over HTTP, with keys, limits and audit trail in PostgreSQL on the same machine.
    pub(super) on_postgres: Measured,
    /// The others.
    pub(super) peers: [Measured; 2],
    /// Start and idle memory of `serve` and `mcp`.
    pub(super) started: [Started; 2],
}

impl Results {
    /// The section as Markdown.
    pub(super) fn section(&self) -> String {
        let mut lines = vec![
            "## Server".to_owned(),
            String::new(),
            format!("`cargo xtask bench server --seconds {}` on {}.", self.seconds, self.machine),
            String::new(),
            "`tools/call` of a trivial tool on connections that stay open, load by `wrk` with one thread on the same".into(),
            "machine, all servers in one run. hindcast checks the key, counts against limit and quota and writes the audit".into(),
            "trail for every call; the peers (versions in `peers/`) run stateless with plain JSON answers and do none of it.".into(),
            "Every answer was a success. With PostgreSQL, the database shares the machine; memory is that of hindcast alone.".into(),
            String::new(),
        ];
        lines.extend(self.warning());
        lines.extend(self.load_table());
        lines.push(String::new());
        lines.extend(self.ratio_table());
        lines.push(String::new());
        lines.extend(self.start_table());
        lines.push(String::new());
        lines.push("Goals:".into());
        lines.push(String::new());
        lines.extend(self.goals());
        lines.join("\n")
    }

    fn warning(&self) -> Vec<String> {
        document::busy_warning(self.all().map(|measured| measured.neighbours_share).fold(0.0, f64::max))
    }

    fn all(&self) -> impl Iterator<Item = &Measured> {
        [&self.plain, &self.tls, &self.on_postgres].into_iter().chain(&self.peers)
    }

    fn load_table(&self) -> Vec<String> {
        let mut lines = vec![
            "| server | connections | requests/s | p50 ms | p99 ms | idle MB | peak MB |".to_owned(),
            "|---|--:|--:|--:|--:|--:|--:|".to_owned(),
        ];
        for measured in self.all() {
            for (connections, load) in CONNECTIONS.iter().zip(&measured.loads) {
                lines.push(format!(
                    "| {} | {connections} | {:.0} | {:.2} | {:.2} | {:.1} | {:.1} |",
                    measured.name,
                    load.requests_per_second(),
                    load.p50 as f64 / 1e3,
                    load.p99 as f64 / 1e3,
                    megabytes(measured.idle_memory),
                    megabytes(measured.peak_memory),
                ));
            }
        }
        lines
    }

    fn ratio_table(&self) -> Vec<String> {
        let mut header = "| times as many requests/s |".to_owned();
        let mut rule = "|---|".to_owned();
        for connections in CONNECTIONS {
            header.push_str(&format!(" {connections} |"));
            rule.push_str("--:|");
        }
        let mut lines = vec![header, rule];
        for ours in [&self.plain, &self.tls, &self.on_postgres] {
            for peer in &self.peers {
                let cells: String = (0..CONNECTIONS.len())
                    .map(|index| format!(" {:.1} |", ratio(ours, peer, index)))
                    .collect();
                lines.push(format!("| {} against {} |{cells}", ours.name, peer.name));
            }
        }
        let cells: String = (0..CONNECTIONS.len())
            .map(|index| format!(" {:.2} |", ratio(&self.on_postgres, &self.plain, index)))
            .collect();
        lines.push(format!("| {} against {} |{cells}", self.on_postgres.name, self.plain.name));
        lines
    }

    fn start_table(&self) -> Vec<String> {
        let mut lines = vec![
            "| command | first answer, median of 11, ms | idle MB |".to_owned(),
            "|---|--:|--:|".to_owned(),
        ];
        lines.extend(self.started.iter().map(|started| {
            format!(
                "| `{}` | {:.1} | {:.1} |",
                started.name,
                started.first_answer.as_secs_f64() * 1e3,
                megabytes(started.idle_memory)
            )
        }));
        lines
    }

    fn goals(&self) -> Vec<String> {
        let mut goals = Vec::new();
        for (ours, transport, wanted) in [(&self.plain, "HTTP", PLAIN_GOAL), (&self.tls, "HTTPS", TLS_GOAL)] {
            for (index, connections) in CONNECTIONS.iter().enumerate() {
                let worst =
                    self.peers.iter().map(|peer| ratio(ours, peer, index)).fold(f64::INFINITY, f64::min);
                goals.push(goal(
                    worst >= wanted,
                    &format!(
                        "{wanted} times either peer over {transport} (connections: {connections}): {worst:.1}"
                    ),
                ));
            }
        }
        for started in &self.started {
            let milliseconds = started.first_answer.as_secs_f64() * 1e3;
            let memory = megabytes(started.idle_memory);
            goals.push(goal(
                started.first_answer < START_GOAL,
                &format!("`{}` answers within 50 ms: {milliseconds:.1} ms", started.name),
            ));
            goals.push(goal(
                started.idle_memory < IDLE_MEMORY_GOAL,
                &format!("`{}` idles below 20 MB: {memory:.1} MB", started.name),
            ));
        }
        goals
    }
}

/// How many times as many requests a second, at one of [`CONNECTIONS`].
fn ratio(ours: &Measured, peer: &Measured, index: usize) -> f64 {
    ours.loads[index].requests_per_second() / peer.loads[index].requests_per_second()
}
