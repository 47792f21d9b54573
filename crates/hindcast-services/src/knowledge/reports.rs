//! What became of files, in numbers and in as many lines as somebody may read.

use super::{FileOutcome, FileReport};

/// Files that are listed, besides those that failed.
const MOST_LINES: usize = 10_000;
/// Files that failed and are listed.
const MOST_FAILED: usize = 10_000;

/// How many files there were of each outcome.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct FileCounts {
    /// New ones.
    pub added: usize,
    /// Those that say something else than before.
    pub updated: usize,
    /// Those that say what they said before.
    pub unchanged: usize,
    /// Documents whose files are gone or not taken any more.
    pub removed: usize,
    /// Those that were not taken in.
    pub failed: usize,
}

impl FileCounts {
    /// All of them.
    pub fn total(&self) -> usize {
        self.added + self.updated + self.unchanged + self.removed + self.failed
    }

    fn count(&mut self, outcome: &FileOutcome) {
        let count = match outcome {
            FileOutcome::Added { .. } => &mut self.added,
            FileOutcome::Updated { .. } => &mut self.updated,
            FileOutcome::Unchanged { .. } => &mut self.unchanged,
            FileOutcome::Removed { .. } => &mut self.removed,
            FileOutcome::Failed { .. } => &mut self.failed,
        };
        *count += 1;
    }
}

/// Counts all files and keeps the first ones, so that a million files take no more memory than ten thousand.
#[derive(Debug, Default)]
pub(super) struct Reports {
    pub(super) files: Vec<FileReport>,
    pub(super) counts: FileCounts,
    listed_failed: usize,
}

impl Reports {
    pub(super) fn push(&mut self, report: FileReport) {
        self.counts.count(&report.outcome);
        let is_listed = if matches!(report.outcome, FileOutcome::Failed { .. }) {
            self.listed_failed += 1;
            self.listed_failed <= MOST_FAILED
        } else {
            self.files.len() - self.listed_failed.min(MOST_FAILED) < MOST_LINES
        };
        if is_listed {
            self.files.push(report);
        }
    }
}

impl Extend<FileReport> for Reports {
    fn extend<T: IntoIterator<Item = FileReport>>(&mut self, reports: T) {
        reports.into_iter().for_each(|report| self.push(report));
    }
}

impl From<Vec<FileReport>> for Reports {
    fn from(reports: Vec<FileReport>) -> Self {
        let mut all = Self::default();
        all.extend(reports);
        all
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_files_are_counted_and_the_first_are_listed_also_those_that_failed_late() {
        let report = |number: usize, outcome| FileReport { path: format!("{number}.md"), outcome };
        let mut reports = Reports::default();
        reports
            .extend((0..MOST_LINES + 5).map(|number| {
                report(number, FileOutcome::Added { document: number.to_string(), chunks: 1 })
            }));
        reports.extend(
            (0..MOST_FAILED + 7)
                .map(|number| report(number, FileOutcome::Failed { reason: "it is empty".into() })),
        );
        reports.push(report(0, FileOutcome::Removed { document: "gone".into() }));
        let FileCounts { added, removed, failed, .. } = reports.counts;
        assert_eq!((added, removed, failed), (MOST_LINES + 5, 1, MOST_FAILED + 7));
        assert_eq!(reports.counts.total(), MOST_LINES + MOST_FAILED + 13);
        assert_eq!(reports.files.len(), MOST_LINES + MOST_FAILED);
        let failed = |file: &&FileReport| matches!(file.outcome, FileOutcome::Failed { .. });
        assert_eq!(reports.files.iter().filter(failed).count(), MOST_FAILED);
    }
}
