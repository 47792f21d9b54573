//! Processes that the debuggee makes. They are not debugged, but those of a program that we started
//! stay traced: so they die with us, whatever kills us and however they try to get away.

use std::collections::HashSet;

use libc::c_int;

use super::overlay::Overlay;
use crate::sys::{self, ProcessMemory, Resume, Stopped, Tid};

/// The debuggee's children, their threads and their children.
#[derive(Debug, Default)]
pub(super) struct Companions {
    /// Told of by the one that made them, but not yet seen.
    expected: HashSet<Tid>,
    /// Seen and let go before they were told of.
    early: HashSet<Tid>,
    traced: HashSet<Tid>,
}

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
        if keep {
            self.resume(stopped, 0);
        } else {
            self.traced.remove(&tid);
            if is_early {
                self.early.insert(tid);
            }
            let _ = stopped.detach(0);
        }
    }

    pub(super) fn resume(&mut self, stopped: Stopped, signal: c_int) {
        self.traced.insert(stopped.tid());
        // One that was killed tells so itself.
        let _ = stopped.resume(Resume::Continue, signal);
    }

    pub(super) fn forget(&mut self, tid: Tid) {
        self.expected.remove(&tid);
        self.early.remove(&tid);
        self.traced.remove(&tid);
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

    /// Lets all go on without us.
    pub(super) fn detach(&mut self) {
        for tid in std::mem::take(&mut self.traced) {
            sys::detach_running(tid);
        }
    }
}
