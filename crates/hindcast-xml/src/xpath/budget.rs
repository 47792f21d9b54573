//! How much a query may cost. Queries are checked while they run, so that none has to be killed.

use std::{
    cell::Cell,
    time::{Duration, Instant},
};

use super::error::XPathError;

/// How long a query may take, and how much memory.
#[derive(Debug, Clone, Copy)]
pub struct Allowance {
    /// The time.
    pub time: Duration,
    /// The bytes of nodes and text at any moment.
    pub memory: usize,
}

impl Default for Allowance {
    fn default() -> Self {
        Self { time: Duration::from_secs(2), memory: 128 << 20 }
    }
}

/// Work after which the clock is read: some tens of microseconds.
const STRIDE: u64 = 1 << 16;

pub(super) struct Budget {
    allowance: Allowance,
    started: Instant,
    done: Cell<u64>,
    next_look: Cell<u64>,
}

impl Budget {
    pub(super) fn new(allowance: Allowance) -> Self {
        Self { allowance, started: Instant::now(), done: Cell::new(0), next_look: Cell::new(STRIDE) }
    }

    /// Counts work: about a node or some bytes of text each.
    pub(super) fn charge(&self, work: usize) -> Result<(), XPathError> {
        let done = self.done.get() + work as u64;
        self.done.set(done);
        if done < self.next_look.get() {
            return Ok(());
        }
        self.next_look.set(done + STRIDE);
        let taken = self.started.elapsed();
        if taken > self.allowance.time { Err(XPathError::OutOfTime(taken.as_millis())) } else { Ok(()) }
    }

    /// Refuses what is larger than everything together may be.
    pub(super) fn check_memory(&self, bytes: usize) -> Result<(), XPathError> {
        if bytes > self.allowance.memory {
            Err(XPathError::OutOfMemory(self.allowance.memory >> 20))
        } else {
            Ok(())
        }
    }
}
