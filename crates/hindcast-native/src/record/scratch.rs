//! Calls that may wait while other threads run write to memory of ours first. What they wrote gets to its place when the
//! thread runs again, which is when a replay writes it: otherwise another thread could have seen it earlier.

use std::ops::Range;

use hindcast_symbols::Memory as _;

use super::{Recorder, calls::Effect, pending_call::PendingCall, written::read_word};
use crate::sys::{ProcessMemory, Stopped, Tid, TraceError, remote_call};

/// Where this memory is, in every process that is recorded and has threads. Programs have nothing there by themselves.
pub(crate) const SCRATCH: Range<u64> = 0x6fff_0000_0000..0x6fff_0400_0000;
/// For one thread. Calls that ask for more are made as they are.
const SLOT: u64 = 256 << 10;
const MOST_THREADS: u64 = (SCRATCH.end - SCRATCH.start) / SLOT;
/// Each buffer begins at a multiple of this.
const ALIGNMENT: u64 = 64;
const ARGUMENTS: [&str; 6] = ["rdi", "rsi", "rdx", "r10", "r8", "r9"];

/// A call that was made with other buffers.
#[derive(Debug, Clone)]
pub(super) struct Redirect {
    buffers: Vec<Buffer>,
}

#[derive(Debug, Clone)]
struct Buffer {
    argument: usize,
    real: u64,
    scratch: u64,
    length: u64,
    back: Back,
}

/// How much of a buffer was written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Back {
    /// All of it may be; it began with what the program has there.
    Whole,
    /// As many as the result says, of this size.
    Result(u64),
}

/// What a call that may wait writes: the number of the argument, how long, and how much of that.
fn buffers(number: i64, arguments: &[u64; 6], memory: &ProcessMemory) -> Vec<(usize, u64, Back)> {
    const TIME: u64 = 16;
    const USAGE: u64 = 144;
    const SIGNAL: u64 = 128;
    let named = |at: usize| read_word(memory, arguments[at]).unwrap_or(0) & 0xffff_ffff;
    match number {
        libc::SYS_read => vec![(1, arguments[2], Back::Result(1))],
        libc::SYS_recvfrom => {
            vec![(1, arguments[2], Back::Result(1)), (4, named(5), Back::Whole), (5, 4, Back::Whole)]
        }
        libc::SYS_accept | libc::SYS_accept4 => vec![(1, named(2), Back::Whole), (2, 4, Back::Whole)],
        libc::SYS_poll => vec![(0, arguments[1].saturating_mul(8), Back::Whole)],
        libc::SYS_ppoll => {
            vec![(0, arguments[1].saturating_mul(8), Back::Whole), (2, TIME, Back::Whole)]
        }
        libc::SYS_select | libc::SYS_pselect6 => {
            let sets = arguments[0].div_ceil(64).saturating_mul(8);
            let set = |at: usize| (at, sets, Back::Whole);
            vec![set(1), set(2), set(3), (4, TIME, Back::Whole)]
        }
        libc::SYS_epoll_wait | libc::SYS_epoll_pwait | libc::SYS_epoll_pwait2 => {
            vec![(1, arguments[2].saturating_mul(12), Back::Result(12))]
        }
        libc::SYS_wait4 => vec![(1, 4, Back::Whole), (3, USAGE, Back::Whole)],
        libc::SYS_waitid => vec![(2, SIGNAL, Back::Whole), (4, USAGE, Back::Whole)],
        libc::SYS_nanosleep => vec![(1, TIME, Back::Whole)],
        libc::SYS_clock_nanosleep => vec![(3, TIME, Back::Whole)],
        libc::SYS_rt_sigtimedwait => vec![(1, SIGNAL, Back::Whole)],
        _ => Vec::new(),
    }
}

impl Redirect {
    /// Copies what the call reads to a thread's slot; `None` where something is unreadable or does not fit.
    fn prepare(call: &PendingCall, slot: u64, memory: &ProcessMemory) -> Option<Self> {
        let mut next = slot;
        let mut made = Vec::new();
        for (argument, length, back) in buffers(call.number, &call.arguments, memory) {
            let real = call.arguments[argument];
            if real == 0 || length == 0 {
                continue;
            }
            let end = next.checked_add(length.checked_next_multiple_of(ALIGNMENT)?)?;
            if end > slot + SLOT {
                return None;
            }
            if back == Back::Whole {
                let mut bytes = vec![0; length as usize];
                memory.read(real, &mut bytes).ok()?;
                memory.write(next, &bytes).ok()?;
            }
            made.push(Buffer { argument, real, scratch: next, length, back });
            next = end;
        }
        (!made.is_empty()).then_some(Self { buffers: made })
    }

    fn set_arguments(&self, thread: &Stopped, choose: fn(&Buffer) -> u64) -> Result<(), TraceError> {
        let mut registers = thread.registers()?;
        for buffer in &self.buffers {
            registers.set(ARGUMENTS[buffer.argument], choose(buffer));
        }
        thread.set_registers(&registers)
    }
}

impl PendingCall {
    /// The call is over, or interrupted: the program finds its own buffers, with what was written.
    pub(super) fn copy_back(
        &mut self,
        thread: &Stopped,
        result: i64,
        memory: &ProcessMemory,
    ) -> Result<(), TraceError> {
        let Some(redirect) = &self.redirect else { return Ok(()) };
        redirect.set_arguments(thread, |buffer| buffer.real)?;
        if crate::sys::restarts(result) {
            // What is left of it goes on with the same buffers.
            return Ok(());
        }
        for buffer in &redirect.buffers {
            let length = match buffer.back {
                Back::Whole => buffer.length,
                Back::Result(size) => {
                    u64::try_from(result).unwrap_or(0).saturating_mul(size).min(buffer.length)
                }
            };
            let mut bytes = vec![0; length as usize];
            let is_moved = memory.read(buffer.scratch, &mut bytes).is_ok()
                && (bytes.is_empty() || memory.write(buffer.real, &bytes).is_ok());
            if !is_moved {
                return Err(TraceError::System {
                    what: "what a system call wrote cannot be written",
                    source: std::io::ErrorKind::InvalidInput.into(),
                });
            }
        }
        self.redirect = None;
        Ok(())
    }
}

impl Recorder {
    /// Has a call that may wait write to the thread's scratch memory, where there are other threads.
    pub(super) fn redirect(
        &mut self,
        thread: &Stopped,
        call: &mut PendingCall,
        memory: &ProcessMemory,
    ) -> Result<(), TraceError> {
        if call.is_32_bit || !matches!(call.effect, Effect::Writes(_)) || !self.threads.has_others() {
            return Ok(());
        }
        let Some(slot) = self.threads.slot(thread.tid()) else { return Ok(()) };
        if let Some(redirect) = Redirect::prepare(call, slot, memory) {
            redirect.set_arguments(thread, |buffer| buffer.scratch)?;
            call.redirect = Some(redirect);
        }
        Ok(())
    }

    /// Maps the scratch memory, before there is a second thread. Where it cannot be had, calls are made as they are.
    pub(super) fn map_scratch(&mut self, thread: Stopped) -> Result<Stopped, TraceError> {
        if self.threads.has_scratch() {
            return Ok(thread);
        }
        let protection = (libc::PROT_READ | libc::PROT_WRITE) as u64;
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE | libc::MAP_FIXED_NOREPLACE;
        let length = SCRATCH.end - SCRATCH.start;
        let arguments = [SCRATCH.start, length, protection, flags as u64, u64::MAX, 0];
        let remote = remote_call(thread, self.live_gate(), libc::SYS_mmap, arguments)?;
        self.held.extend(remote.held);
        self.threads.set_scratch(remote.result as u64 == SCRATCH.start);
        Ok(remote.thread)
    }
}

/// The memory of a thread, by its place among those that were ever made.
pub(super) fn slot(index: u64) -> Option<u64> {
    (index < MOST_THREADS).then(|| SCRATCH.start + SLOT * index)
}

/// Whether memory is ours, and never seen by the program.
pub(crate) fn is_scratch(address: u64) -> bool {
    SCRATCH.contains(&address) || super::page::is_here(address)
}

/// Slots are given by thread number, in the order in which threads were seen.
#[derive(Debug, Default)]
pub(super) struct Slots {
    given: std::collections::HashMap<Tid, u64>,
    free: Vec<u64>,
    next: u64,
}

impl Slots {
    pub(super) fn of(&mut self, tid: Tid) -> Option<u64> {
        let (free, next) = (&mut self.free, &mut self.next);
        let index = *self.given.entry(tid).or_insert_with(|| {
            free.pop().unwrap_or_else(|| {
                *next += 1;
                *next - 1
            })
        });
        slot(index)
    }

    /// The thread is gone.
    pub(super) fn give_back(&mut self, tid: Tid) {
        self.free.extend(self.given.remove(&tid));
    }
}
