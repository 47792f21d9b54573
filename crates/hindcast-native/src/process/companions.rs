//! Processes that the debuggee makes. They are not debugged, but those of a program that we started
//! stay traced: so they die with us, whatever kills us and however they try to get away.

use std::{collections::HashSet, path::PathBuf};

use libc::c_int;

use super::overlay::Overlay;
use crate::sys::{self, ProcessMemory, Resume, Stopped, Tid};

/// The debuggee's children, their threads and their children.
#[derive(Debug, Default)]
pub(super) struct Companions {
    /// Told of by the one that made them, but not yet seen.
    expected: HashSet<Tid>,
    /// Seen before they were told of. They may be gone, or followed, by the time they are.
    early: HashSet<Tid>,
    traced: HashSet<Tid>,
    /// Those that a signal ended, as far as nobody was told.
    crashes: Vec<Crash>,
}

/// A process that a signal is about to end.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Crash {
    pub(crate) process: Tid,
    pub(crate) program: PathBuf,
    pub(crate) signal: c_int,
}

/// What programs do not do on purpose.
const CRASHES: [c_int; 7] =
    [libc::SIGSEGV, libc::SIGBUS, libc::SIGILL, libc::SIGFPE, libc::SIGABRT, libc::SIGTRAP, libc::SIGSYS];

impl Companions {
    pub(super) fn expect(&mut self, tid: Tid) {
        if !self.early.remove(&tid) && !self.traced.contains(&tid) {
            self.expected.insert(tid);
        }
    }

    /// Whether it was seen or told of.
    pub(super) fn knows(&self, tid: Tid) -> bool {
        self.expected.contains(&tid) || self.traced.contains(&tid)
    }

    pub(super) fn expects(&self, tid: Tid) -> bool {
        self.expected.contains(&tid)
    }

    /// A new one stands at its first instruction, or one that we know is stopped with its process.
    pub(super) fn begin(&mut self, stopped: Stopped, signal: c_int, overlay: &Overlay, keep: bool) {
        let tid = stopped.tid();
        let is_early = !self.expected.remove(&tid);
        if !self.traced.insert(tid) {
            match signal {
                libc::SIGTRAP => self.resume(stopped, 0),
                // Gone or not, it is no longer ours to move.
                _ => drop(stopped.listen()),
            }
            return;
        }
        // It has a copy of the memory, with our breakpoints in it.
        if let Ok(memory) = ProcessMemory::open(tid) {
            overlay.write_originals(&memory);
        }
        if is_early {
            self.early.insert(tid);
        }
        if keep {
            self.resume(stopped, 0);
        } else {
            self.traced.remove(&tid);
            let _ = stopped.detach(0);
        }
    }

    /// A signal is about to reach one.
    pub(super) fn signalled(&mut self, stopped: Stopped, signal: c_int) {
        let tid = stopped.tid();
        if CRASHES.contains(&signal) && !sys::is_handled(tid, signal) {
            let program = sys::executable(tid).unwrap_or_default();
            self.crashes.push(Crash { process: sys::process_of(tid).unwrap_or(tid), program, signal });
        }
        self.resume(stopped, signal);
    }

    /// Those that a signal ended since this was last asked.
    pub(super) fn take_crashes(&mut self) -> Vec<Crash> {
        std::mem::take(&mut self.crashes)
    }

    pub(super) fn resume(&mut self, stopped: Stopped, signal: c_int) {
        self.traced.insert(stopped.tid());
        // One that was killed tells so itself.
        let _ = stopped.resume(Resume::Continue, signal);
    }

    /// One is gone, or no longer one of them. Whoever made it may still have to tell of it.
    pub(super) fn forget(&mut self, tid: Tid) {
        self.expected.remove(&tid);
        self.traced.remove(&tid);
    }

    /// A thread of one was told of.
    pub(super) fn made_thread(&mut self, tid: Tid) {
        self.early.remove(&tid);
    }

    pub(super) fn is_empty(&self) -> bool {
        self.traced.is_empty()
    }

    pub(super) fn kill(&self) {
        for &tid in self.traced.iter().chain(&self.expected) {
            sys::kill(tid);
        }
    }

    /// Whether some were told of that have not been seen.
    pub(super) fn expects_any(&self) -> bool {
        !self.expected.is_empty()
    }

    /// Asks all to stop; those that are dead tell so themselves.
    pub(super) fn interrupt(&self) {
        self.traced.iter().for_each(|&tid| sys::interrupt(tid));
    }

    /// One was seen before it was told of.
    pub(super) fn came_early(&mut self, tid: Tid) {
        self.early.insert(tid);
    }
}
