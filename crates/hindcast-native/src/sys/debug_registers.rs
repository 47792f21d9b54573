//! The four hardware watchpoints of each thread.

use super::{Stopped, TraceError};

/// What the processor can watch for. It cannot watch for reads alone.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum WatchKind {
    Write,
    ReadWrite,
}

/// What the debug registers are to hold; the same for all threads of a process.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct DebugRegisters {
    slots: [Option<Slot>; 4],
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Slot {
    address: u64,
    size: u8,
    kind: WatchKind,
}

const STATUS: usize = 6;
const CONTROL: usize = 7;

impl DebugRegisters {
    /// Takes as many slots as `size` bytes from `address` on need; `None` when there are too few.
    pub(crate) fn watch(&mut self, address: u64, size: u64, kind: WatchKind) -> Option<Vec<usize>> {
        let mut taken = Vec::new();
        let mut next = *self;
        let end = address.checked_add(size)?;
        let mut at = address;
        while at < end {
            // A slot covers 1, 2, 4 or 8 bytes, at a multiple of its size.
            let piece = [8u8, 4, 2, 1]
                .into_iter()
                .find(|&piece| at.is_multiple_of(u64::from(piece)) && at + u64::from(piece) <= end)?;
            let free = next.slots.iter().position(Option::is_none)?;
            next.slots[free] = Some(Slot { address: at, size: piece, kind });
            taken.push(free);
            at += u64::from(piece);
        }
        *self = next;
        Some(taken)
    }

    /// Gives slots back.
    pub(crate) fn release(&mut self, slots: &[usize]) {
        for &slot in slots {
            self.slots[slot] = None;
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.slots.iter().all(Option::is_none)
    }

    /// Writes them into a thread.
    pub(crate) fn apply(&self, thread: &Stopped) -> Result<(), TraceError> {
        // Off first: the kernel checks each address against what is switched on.
        thread.set_user_word(offset(CONTROL), 0)?;
        let mut control = 0u64;
        for (index, slot) in self.slots.iter().enumerate() {
            let Some(slot) = slot else { continue };
            thread.set_user_word(offset(index), slot.address)?;
            let length: u64 = match slot.size {
                1 => 0b00,
                2 => 0b01,
                4 => 0b11,
                _ => 0b10,
            };
            let condition: u64 = match slot.kind {
                WatchKind::Write => 0b01,
                WatchKind::ReadWrite => 0b11,
            };
            control |= 1 << (2 * index) | (condition | length << 2) << (16 + 4 * index);
        }
        thread.set_user_word(offset(CONTROL), control)
    }

    /// Which slots stopped a thread, and forgets it.
    pub(crate) fn hits(thread: &Stopped) -> Result<Vec<usize>, TraceError> {
        let status = thread.user_word(offset(STATUS))?;
        thread.set_user_word(offset(STATUS), 0)?;
        Ok((0..4).filter(|slot| status & 1 << slot != 0).collect())
    }
}

fn offset(register: usize) -> usize {
    std::mem::offset_of!(libc::user, u_debugreg) + 8 * register
}
