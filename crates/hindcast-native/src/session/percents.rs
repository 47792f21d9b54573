//! Moments by the share of the time that the program had computed.

use std::collections::BTreeMap;

use hindcast_core::debug::DebugError;

use super::{
    Session,
    travel::{Halted, function_around},
};
use crate::replay::Position;

/// What was told. Times are guessed between checkpoints, and checkpoints come and go: without this, a later share could
/// lead to an earlier moment.
#[derive(Debug, Default)]
pub(super) struct Percents {
    /// What the history ended with.
    end: (u64, Option<Position>),
    told: BTreeMap<u8, Position>,
}

impl Percents {
    /// A moment that stands in the right order to those that were told.
    fn in_order(&self, percent: u8, found: Position) -> Position {
        let before = self.told.range(..percent).next_back().map(|(_, position)| position);
        let after = self.told.range(percent..).next().map(|(_, position)| position);
        match (before, after) {
            (Some(before), _) if found < *before => before.clone(),
            (_, Some(after)) if found > *after => after.clone(),
            _ => found,
        }
    }
}

impl Session {
    /// The moment at which the program had computed for so many percent of the time.
    pub(super) fn at_percent(&mut self, percent: u8) -> Result<Position, Halted> {
        let recorder = self.process.recorder();
        let end = recorder.map(|recorder| (recorder.log.len(), recorder.timeline.frontier().cloned()));
        let end = end.unwrap_or_default();
        if end != self.percents.end {
            self.percents = Percents { end, told: BTreeMap::new() };
        }
        if let Some(told) = self.percents.told.get(&percent) {
            return Ok(told.clone());
        }
        let (symbols, share) = (&self.symbols, f64::from(percent) / 100.0);
        let found = self.process.at_share(share, &|address| function_around(symbols, address))?;
        let found = found.ok_or_else(|| DebugError::NoHistory("the recording is empty".into()))?;
        let found = self.percents.in_order(percent, found);
        self.percents.told.insert(percent, found.clone());
        Ok(found)
    }
}
