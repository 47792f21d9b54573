//! The section of docs/benchmarks.md.

use std::time::Duration;

use super::{QUERY, cost::Cost, warm::Warm};
use crate::bench::document::{goal, megabytes};

/// The same work, done by both.
pub(super) struct Row {
    name: &'static str,
    pub(super) ours: Vec<Cost>,
    pub(super) theirs: Vec<Cost>,
}

impl Row {
    pub(super) fn new(name: &'static str) -> Self {
        Self { name, ours: Vec::new(), theirs: Vec::new() }
    }
}

/// What was measured.
pub(super) struct Results {
    pub(super) machine: String,
    pub(super) version: String,
    pub(super) bytes: u64,
    pub(super) query: Row,
    pub(super) validation: Row,
    pub(super) warm: Warm,
}

/// The cheapest round: what else the machine did can only add.
fn cheapest(costs: &[Cost]) -> Cost {
    let processor = costs.iter().map(|cost| cost.processor).min().unwrap_or_default();
    Cost { processor, peak: costs.iter().map(|cost| cost.peak).min().unwrap_or_default() }
}

fn times(theirs: Duration, ours: Duration) -> f64 {
    theirs.as_secs_f64() / ours.as_secs_f64()
}

impl Results {
    pub(super) fn section(&self, size: u32, rounds: u16) -> String {
        let (query, validation) = (&self.query, &self.validation);
        let mut lines = vec![
            "## XML".to_owned(),
            String::new(),
            format!("`cargo xtask bench xml --megabytes {size} --rounds {rounds}` on {}.", self.machine),
            String::new(),
            format!(
                "A document of {:.1} MB, `{QUERY}`, and a schema with patterns, enumerations, numbers and dates; the cheapest of",
                self.bytes as f64 / 1e6
            ),
            "all rounds, `hindcast xml` (its worker process included) against `xmllint`".to_owned(),
            format!(
                "(`{}`). Processor time of all processes; memory is the most at once.",
                self.version.trim()
            ),
            String::new(),
            "| cold | hindcast, s | hindcast, MB | xmllint, s | xmllint, MB | times as fast |".to_owned(),
            "|---|--:|--:|--:|--:|--:|".to_owned(),
        ];
        for row in [query, validation] {
            let (ours, theirs) = (cheapest(&row.ours), cheapest(&row.theirs));
            lines.push(format!(
                "| {} | {:.2} | {:.0} | {:.2} | {:.0} | {:.1} |",
                row.name,
                ours.processor.as_secs_f64(),
                megabytes(ours.peak),
                theirs.processor.as_secs_f64(),
                megabytes(theirs.peak),
                times(theirs.processor, ours.processor)
            ));
        }
        lines.extend([
            String::new(),
            format!(
                "A `hindcast mcp` that has the document ({:.0} MB resident) answers the same calls again:",
                megabytes(self.warm.resident)
            ),
            String::new(),
            "| warm | hindcast, ms | times as fast as xmllint cold |".to_owned(),
            "|---|--:|--:|".to_owned(),
        ]);
        let warm_query = times(cheapest(&query.theirs).processor, self.warm.query);
        let warm_validation = times(cheapest(&validation.theirs).processor, self.warm.validation);
        for (name, time, factor) in [
            ("query", self.warm.query, warm_query),
            ("validate (no file has changed)", self.warm.validation, warm_validation),
        ] {
            lines.push(format!("| {name} | {:.2} | {factor:.0} |", time.as_secs_f64() * 1e3));
        }
        let cold = |row: &Row| times(cheapest(&row.theirs).processor, cheapest(&row.ours).processor);
        lines.extend([
            String::new(),
            "Goals:".to_owned(),
            String::new(),
            goal(cold(query) >= 1.0, &format!("as fast as xmllint cold, query: {:.1} times", cold(query))),
            goal(
                cold(validation) >= 1.0,
                &format!("as fast as xmllint cold, validation: {:.1} times", cold(validation)),
            ),
            goal(
                warm_query >= 20.0,
                &format!("20 times xmllint cold from the cache, query: {warm_query:.0}"),
            ),
            goal(
                warm_validation >= 20.0,
                &format!("20 times xmllint cold from the cache, validation: {warm_validation:.0}"),
            ),
        ]);
        lines.join("\n")
    }
}
