//! What is measured on one runtime.

use crate::bench::series::Series;

/// What was measured on one runtime.
#[derive(Default)]
pub(super) struct Figures {
    /// The runtime's version.
    pub(super) version: &'static str,
    /// The program alone, from the start of its process until it has written a line first thing in `Main`.
    pub(super) undebugged: Series,
    /// From the start of `hindcast mcp` until `launch` is answered with a stop in `Main`.
    pub(super) stop_from_start: Series,
    /// The same from the call of `launch`.
    pub(super) stop_from_launch: Series,
    /// From the call of `launch` until the program stands at a breakpoint behind the line that it writes.
    pub(super) breakpoint_from_launch: Series,
    /// In a frame with a few variables.
    pub(super) simple: Looks,
    /// In a frame full of collections.
    pub(super) collections: Looks,
    /// One hit of a breakpoint whose condition does not hold.
    pub(super) condition: Series,
    /// To a program that runs.
    pub(super) attach: Series,
    /// From it.
    pub(super) detach: Series,
    /// Of server and worker together, in kB, at most.
    pub(super) peak_memory: u64,
}

/// What was measured of looking at one frame.
#[derive(Default)]
pub(super) struct Looks {
    /// One step over a line.
    pub(super) step: Series,
    /// Variables at the first stop of a session.
    pub(super) first_locals: Series,
    /// Variables after each step.
    pub(super) locals: Series,
}

impl Figures {
    /// Nothing so far.
    pub(super) fn new(version: &'static str) -> Self {
        Self { version, ..Self::default() }
    }

    /// Adds what a round measured.
    pub(super) fn append(&mut self, round: Self) {
        self.undebugged.append(round.undebugged);
        self.stop_from_start.append(round.stop_from_start);
        self.stop_from_launch.append(round.stop_from_launch);
        self.breakpoint_from_launch.append(round.breakpoint_from_launch);
        self.simple.append(round.simple);
        self.collections.append(round.collections);
        self.condition.append(round.condition);
        self.attach.append(round.attach);
        self.detach.append(round.detach);
        self.peak_memory = self.peak_memory.max(round.peak_memory);
    }

    /// A round in one line.
    pub(super) fn summary(&self) -> String {
        format!(
            ".NET {}: alone {:.0} ms, first stop {:.0} ms, step {:.2} and {:.2} ms, first locals {:.2} and {:.2} ms, \
             locals {:.2} and {:.2} ms, condition {:.2} ms, attach {:.0} ms, {} kB",
            self.version,
            self.undebugged.median(),
            self.stop_from_launch.median(),
            self.simple.step.median(),
            self.collections.step.median(),
            self.simple.first_locals.median(),
            self.collections.first_locals.median(),
            self.simple.locals.median(),
            self.collections.locals.median(),
            self.condition.median(),
            self.attach.median(),
            self.peak_memory,
        )
    }
}

impl Looks {
    fn append(&mut self, round: Self) {
        self.step.append(round.step);
        self.first_locals.append(round.first_locals);
        self.locals.append(round.locals);
    }
}
