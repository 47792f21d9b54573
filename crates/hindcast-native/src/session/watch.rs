//! Watchpoints, by the processor's debug registers.

use hindcast_core::debug::{Access, BreakpointId, DebugError, Watched, Watchpoint};
use hindcast_symbols::{Memory, value::Storage};

use super::{Session, system};
use crate::{
    look::FrameScope,
    sys::{Tid, WatchKind},
};

/// Memory that is being watched.
#[derive(Debug, Clone)]
pub(super) struct Watching {
    pub(super) address: u64,
    size: u64,
    access: Access,
    /// Debug registers; empty while it is disabled.
    slots: Vec<usize>,
    /// As it was when last looked at.
    last: Vec<u8>,
    /// What the user calls it.
    name: String,
}

impl Watching {
    pub(super) fn is_hit_by(&self, slots: &[usize]) -> bool {
        self.slots.iter().any(|slot| slots.contains(slot))
    }
}

impl Session {
    /// Begins to watch.
    pub(super) fn watch(&mut self, wanted: &Watchpoint) -> Result<Watching, DebugError> {
        let (address, size, name) = match &wanted.watched {
            Watched::Memory { address, size } => (address.0, *size, format!("{size} bytes at {address}")),
            Watched::Expression { text, frame } => {
                let tid = self.known_thread(frame.thread)?;
                let placed = self
                    .with_scope(tid, frame.index, |scope: &FrameScope<'_>| scope.place_of(text))?
                    .map_err(|error| DebugError::BreakpointFailed(error.to_string()))?;
                let Storage::Memory(address) = placed.storage else {
                    return Err(DebugError::BreakpointFailed(format!(
                        "`{text}` is not in memory here, so it cannot be watched · hint: watch what it was computed from"
                    )));
                };
                let size = self.size_of(placed.type_ref).unwrap_or(0);
                (address, size, text.clone())
            }
        };
        if size == 0 {
            return Err(DebugError::BreakpointFailed(format!(
                "`{name}` has no size, so it cannot be watched"
            )));
        }
        let mut last = vec![0; usize::try_from(size.min(32)).unwrap_or(32)];
        self.process
            .memory()
            .read(address, &mut last)
            .map_err(|error| DebugError::BreakpointFailed(format!("`{name}` cannot be watched: {error}")))?;
        let mut watching = Watching { address, size, access: wanted.access, slots: Vec::new(), last, name };
        self.arm(&mut watching)?;
        Ok(watching)
    }

    fn arm(&mut self, watching: &mut Watching) -> Result<(), DebugError> {
        let kind = match watching.access {
            Access::Write => WatchKind::Write,
            Access::Read | Access::ReadWrite => WatchKind::ReadWrite,
        };
        let slots = self.process.watch(watching.address, watching.size, kind).map_err(system)?;
        watching.slots = slots.ok_or_else(|| {
            DebugError::BreakpointFailed(format!(
                "`{}` ({} bytes) needs more than the processor's free debug registers (four of up to 8 aligned bytes) · hint: watch a part of it, or remove another watchpoint",
                watching.name, watching.size
            ))
        })?;
        Ok(())
    }

    pub(super) fn resume_watching(&mut self, id: BreakpointId) -> Result<(), DebugError> {
        let Some(mut watching) = self.breakpoints.get(id)?.watching.clone() else { return Ok(()) };
        if watching.slots.is_empty() {
            self.arm(&mut watching)?;
            self.breakpoints.get_mut(id)?.watching = Some(watching);
        }
        Ok(())
    }

    pub(super) fn suspend_watching(&mut self, id: BreakpointId) -> Result<(), DebugError> {
        let Some(watching) = &mut self.breakpoints.get_mut(id)?.watching else { return Ok(()) };
        let slots = std::mem::take(&mut watching.slots);
        if self.process.ended().is_none() {
            self.process.unwatch(&slots).map_err(system)?;
        }
        Ok(())
    }

    /// What is to be said where it stops.
    pub(super) fn watch_hit(&mut self, tid: Tid, id: BreakpointId) -> Result<Option<String>, DebugError> {
        let Some(watching) = self.breakpoints.get(id)?.watching.clone() else { return Ok(None) };
        let mut now = vec![0; watching.last.len()];
        if self.process.memory().read(watching.address, &mut now).is_err() {
            return Ok(None);
        }
        let changed = now != watching.last;
        // The processor cannot tell a read from a write; the value can, unless the same was written.
        if watching.access == Access::Read && changed {
            self.remember(id, now)?;
            return Ok(None);
        }
        let detail = if changed {
            format!("{}: {} → {}", watching.name, number(&watching.last), number(&now))
        } else {
            let what =
                if watching.access == Access::Write { "written with the same value" } else { "accessed" };
            format!("{} {what}: {}", watching.name, number(&now))
        };
        self.remember(id, now)?;
        if !self.condition_holds(tid, id)? {
            return Ok(None);
        }
        self.breakpoints.get_mut(id)?.hit_count += 1;
        Ok(Some(detail))
    }

    fn remember(&mut self, id: BreakpointId, now: Vec<u8>) -> Result<(), DebugError> {
        if let Some(watching) = &mut self.breakpoints.get_mut(id)?.watching {
            watching.last = now;
        }
        Ok(())
    }
}

/// Up to eight bytes as a number, more as bytes.
fn number(bytes: &[u8]) -> String {
    match bytes.len() {
        1 | 2 | 4 | 8 => {
            let mut wide = [0; 8];
            wide[..bytes.len()].copy_from_slice(bytes);
            let value = u64::from_le_bytes(wide);
            format!("{value} ({value:#x})")
        }
        _ => {
            let digits: Vec<_> = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
            digits.join(" ")
        }
    }
}
