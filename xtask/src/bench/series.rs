//! The same thing timed many times.

use std::time::{Duration, Instant};

/// Times of one kind, in the order they were taken.
#[derive(Default)]
pub(super) struct Series(Vec<Duration>);

impl Series {
    /// Adds a time that was taken elsewhere.
    pub(super) fn push(&mut self, time: Duration) {
        self.0.push(time);
    }

    /// Does something and adds how long it took.
    pub(super) fn time<Outcome>(&mut self, work: impl FnOnce() -> Outcome) -> Outcome {
        let begin = Instant::now();
        let outcome = work();
        self.push(begin.elapsed());
        outcome
    }

    /// Adds all times of another.
    pub(super) fn append(&mut self, other: Self) {
        self.0.extend(other.0);
    }

    /// The one in the middle, in milliseconds; outliers do not move it.
    pub(super) fn median(&self) -> f64 {
        let mut sorted = self.0.clone();
        sorted.sort_unstable();
        sorted.get(sorted.len() / 2).map_or(f64::NAN, milliseconds)
    }

    /// So many of a hundred are not longer, in milliseconds.
    pub(super) fn percentile(&self, percent: usize) -> f64 {
        let mut sorted = self.0.clone();
        sorted.sort_unstable();
        let index = (sorted.len() * percent).div_ceil(100).saturating_sub(1);
        sorted.get(index).map_or(f64::NAN, milliseconds)
    }

    /// The shortest, in milliseconds: what it takes when nobody disturbs.
    pub(super) fn best(&self) -> f64 {
        self.0.iter().min().map_or(f64::NAN, milliseconds)
    }

    /// How many there are.
    pub(super) fn count(&self) -> usize {
        self.0.len()
    }
}

fn milliseconds(time: &Duration) -> f64 {
    time.as_secs_f64() * 1e3
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_median_ignores_outliers_and_the_best_is_the_shortest() {
        let series = Series([9, 1, 500, 2, 8].map(Duration::from_millis).to_vec());
        assert!((series.median() - 8.0).abs() < 1e-9);
        assert!((series.best() - 1.0).abs() < 1e-9);
        assert!((series.percentile(95) - 500.0).abs() < 1e-9);
        assert!((series.percentile(50) - 8.0).abs() < 1e-9);
    }
}
