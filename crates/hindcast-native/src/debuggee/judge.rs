//! Who says at which of the places that a search meets the user wants to stop.

use hindcast_core::debug::BreakpointId;

use crate::replay::{Gate, Pause, ReplayError, Replica};

/// The breakpoints that a replica met at once.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Claims {
    /// Those whose condition holds.
    pub(crate) breakpoints: Vec<BreakpointId>,
    /// Whether only a look at the program tells if it stops, as with exceptions.
    pub(crate) needs_look: bool,
}

impl Claims {
    pub(super) fn is_empty(&self) -> bool {
        self.breakpoints.is_empty() && !self.needs_look
    }
}

/// Knows the user's breakpoints.
pub(crate) trait Judge {
    /// Where its breakpoints are, if it does not judge those that the process has.
    fn places(&self) -> Option<Vec<u64>> {
        None
    }

    /// A replica begins to run through a stretch.
    fn begin(&mut self, replica: &Replica);

    /// Who wants to stop for what a replica met.
    fn meet(&mut self, replica: &Replica, pause: &Pause) -> Result<Claims, ReplayError>;

    /// Whether to stop there. Asked once for each place where somebody wants to, the last one first.
    fn stops(&mut self, claims: &Claims) -> bool;

    /// The places where hits can be counted by code: all of the breakpoints that they belong to.
    fn gates(&self) -> Vec<Gate> {
        Vec::new()
    }

    /// The last of so many hits of a breakpoint, right before what was passed, that it stops at; from 1 on.
    fn last_stop(&self, _breakpoint: BreakpointId, _hits: u64) -> Option<u64> {
        None
    }

    /// Passes so many hits of a breakpoint that is counted by code.
    fn pass(&mut self, _breakpoint: BreakpointId, _hits: u64) {}

    /// On the way forwards, the first of so many hits to come that a breakpoint stops at; from 1 on.
    fn first_stop(&self, _breakpoint: BreakpointId, _hits: u64) -> Option<u64> {
        None
    }

    /// On the way forwards, passes so many hits.
    fn go_past(&mut self, _breakpoint: BreakpointId, _hits: u64) {}
}
