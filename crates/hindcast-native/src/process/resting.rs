//! A program that is not ours while it stands still.

use super::{Process, task::Pending};
use crate::sys::{self, DebugRegisters, Stopped, TraceError};

impl Process {
    /// Lets a program that we attached to stand by itself: nothing of ours is in it until it moves again. One that stands at a breakpoint would hit it
    /// when we are killed; one that stands behind a breakpoint or a step would get a signal; and die of that.
    pub(crate) fn rest(&mut self) -> Result<(), TraceError> {
        if self.owned || self.ended.is_some() {
            return Ok(());
        }
        if !self.overlay.is_lifted() {
            self.overlay.lift_all(&self.memory);
            if !self.debug_registers.is_empty() {
                let without = DebugRegisters::default();
                self.tasks.values().filter_map(|task| task.handle().ok()).for_each(|thread| {
                    // One that was killed tells so itself.
                    let _ = without.apply(thread);
                });
                self.keeper_watches(false);
            }
            self.rests = true;
        }
        for (&tid, task) in &mut self.tasks {
            let is_told = task.signal != 0 || matches!(task.pending, Some(Pending::Signal(_)));
            if is_told || !task.handle().is_ok_and(Stopped::is_trapped) {
                continue;
            }
            let mut held = Vec::new();
            let rested = sys::rest(task.take()?, &mut held);
            for info in held {
                sys::send_again(self.pid, tid, &info);
            }
            match rested {
                Ok(thread) => task.put(thread),
                // It was killed, and tells so itself.
                Err(TraceError::Gone) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    pub(super) fn keeper_watches(&self, any: bool) {
        if let Some(keeper) = self.overlay.keeper() {
            keeper.watches(any);
        }
    }

    /// Ends [`Self::rest`].
    pub(super) fn wake(&mut self) {
        self.forget_unjudged();
        if std::mem::take(&mut self.rests) {
            self.overlay.lower_all(&self.memory);
            if !self.debug_registers.is_empty() {
                // One that was killed tells so itself.
                let _ = self.apply_debug_registers();
            }
        }
    }
}
