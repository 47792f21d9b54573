//! Watchpoints: by the processor's debug registers, or by looking after every instruction.
//!
//! Memory on the stack is watched until its function returns: afterwards it is something else.

use hindcast_core::debug::{Access, BreakpointId, DebugError, Reason, Stop, StopReason, Watched, Watchpoint};
use hindcast_symbols::{
    Memory, Symbols,
    types::Encoding,
    value::{Home, Placed, Storage},
};

use super::{
    Session,
    access::accessed,
    awaited::{Sought, Watch},
    movement::Verdict,
    system,
    writes::Cell,
};
use crate::{
    look::FrameScope,
    process::{CleanMemory, Halt},
    sys::{GeneralRegisters, Tid, TraceError, WatchKind},
};

/// More memory than this cannot be looked for by any means: values are smaller.
const MOST_SOUGHT: u64 = 1 << 20;

/// What is compared after every instruction must be small.
const LARGEST_BY_STEPS: u64 = 4096;
/// More than that is told as what changed.
const TOLD_WHOLE: usize = 32;
/// Functions that call nothing may use so much below their stack pointer.
const RED_ZONE: u64 = 128;

/// Memory that is being watched.
#[derive(Debug, Clone)]
pub(super) struct Watching {
    pub(super) address: u64,
    size: u64,
    /// Whether it is a number with a sign.
    signed: bool,
    access: Access,
    means: Means,
    /// As it was when last looked at.
    last: Vec<u8>,
    /// Whether it could be looked at: memory may be watched before it is mapped.
    is_mapped: bool,
    /// What the user calls it.
    name: String,
    frame: Option<WatchedFrame>,
}

/// How it is watched.
#[derive(Debug, Clone, PartialEq)]
enum Means {
    /// It is disabled.
    None,
    /// By these debug registers.
    Registers(Vec<usize>),
    /// By looking after every instruction.
    Steps,
}

/// The frame that watched memory is part of.
#[derive(Debug, Clone, Copy, PartialEq)]
struct WatchedFrame {
    thread: Tid,
    /// Where its function returns to: a breakpoint instruction is there while it is watched.
    returns_to: u64,
    /// What the stack pointer is then, at least.
    end: u64,
}

impl Watching {
    pub(super) fn is_hit_by(&self, slots: &[usize]) -> bool {
        matches!(&self.means, Means::Registers(own) if own.iter().any(|slot| slots.contains(slot)))
    }

    /// Whether there is something to watch.
    pub(super) fn is_mapped(&self) -> bool {
        self.is_mapped
    }

    /// What is there, as far as it is looked at.
    pub(super) fn read(&self, memory: &CleanMemory<'_>) -> Option<Vec<u8>> {
        let mut now = vec![0; self.last.len()];
        memory.read(self.address, &mut now).is_ok().then_some(now)
    }

    /// Whether it is about the access that a thread with these registers has just made.
    pub(super) fn wants(
        &self,
        memory: &CleanMemory<'_>,
        symbols: &Symbols,
        registers: &GeneralRegisters,
        changed: bool,
    ) -> bool {
        if self.access != Access::Read {
            return true;
        }
        let range = self.address..self.address.saturating_add(self.size);
        // Where the instruction does not tell, the value does, unless the same was written.
        accessed(memory, symbols, registers, &range).map_or(!changed, |accessed| accessed.reads)
    }

    /// What is to be said when it is set.
    pub(super) fn note(&self) -> Option<String> {
        if !self.is_mapped {
            return Some(format!(
                "nothing is mapped at {:#x} now; it is watched as soon as it is",
                self.address
            ));
        }
        (self.means == Means::Steps).then(|| {
            format!(
                "`{}` ({} bytes) does not fit into the processor's free debug registers: it is watched by single steps of one thread, thousands of times slower; to be faster, watch a part of it, or remove another watchpoint",
                self.name, self.size
            )
        })
    }
}

impl Session {
    /// What is watched has other values after a travel, which nobody wrote, or other places.
    pub(super) fn look_again(&mut self) -> Result<(), DebugError> {
        self.look_at_watched()?;
        self.look_for_awaited()
    }

    /// Sees whether what could not be read can be read by now.
    pub(super) fn look_at_unmapped(&mut self) -> Result<(), DebugError> {
        let unmapped = |(_, entry): &(BreakpointId, &super::breakpoints::Entry)| {
            entry.watching.as_ref().is_some_and(|watching| !watching.is_mapped)
        };
        if self.breakpoints.iter().any(|entry| unmapped(&entry)) { self.look_at_watched() } else { Ok(()) }
    }

    fn look_at_watched(&mut self) -> Result<(), DebugError> {
        let ids: Vec<_> = self.breakpoints.iter().map(|(id, _)| id).collect();
        for id in ids {
            let Some(watching) = self.breakpoints.get(id)?.watching.clone() else { continue };
            let mut now = vec![0; watching.last.len()];
            if self.process.memory().read(watching.address, &mut now).is_ok() {
                self.remember(id, now)?;
            }
        }
        Ok(())
    }

    /// Where something that is to be looked for is in memory.
    pub(super) fn place_of(&mut self, watched: &Watched) -> Result<Cell, DebugError> {
        if let Watched::Expression { frame, .. } = watched {
            self.refuse_in_python(*frame, "this cannot be asked about a Python value")?;
        }
        let (address, size, name, type_ref) = match watched {
            Watched::Memory { address, size }
                if *size > MOST_SOUGHT || address.0.checked_add(*size).is_none() =>
            {
                let reason = Reason::new(format!("{size} bytes at {address} cannot be looked for at once"));
                return Err(DebugError::Expression(reason.advise("give `size` 1 to 32, or a member's name")));
            }
            Watched::Memory { address, size } => {
                (address.0, *size, format!("{size} bytes at {address}"), None)
            }
            Watched::Expression { text, frame } => {
                let tid = self.known_thread(frame.thread)?;
                let placed = self
                    .with_scope(tid, frame.index, |scope: &FrameScope<'_>| scope.place_of(text))?
                    .map_err(|error| DebugError::Expression(error.into()))?;
                let Storage::Memory(address) = placed.storage else {
                    return Err(DebugError::Expression(why_no_place(text, &placed)));
                };
                let size = self.size_of(placed.type_ref).unwrap_or(0);
                (address, size, text.clone(), Some(placed.type_ref))
            }
        };
        match size {
            0 => Err(DebugError::Expression(format!("`{name}` has no size").into())),
            size => Ok(Cell { address, size, type_ref }),
        }
    }

    /// Begins to watch, or to wait until there is something to watch.
    pub(super) fn watch(&mut self, wanted: &Watchpoint) -> Result<Watch, DebugError> {
        if let Watched::Expression { frame, .. } = &wanted.watched {
            self.refuse_in_python(*frame, "a Python value cannot be watched")?;
        }
        let mut signed = false;
        let (address, size, name, frame) = match &wanted.watched {
            Watched::Memory { address, size } => {
                (address.0, *size, format!("{size} bytes at {address}"), None)
            }
            Watched::Expression { text, frame } => {
                let tid = self.known_thread(frame.thread)?;
                let placed = match self.seek(tid, frame.index, text)? {
                    Sought::Found(placed) => placed,
                    Sought::NotYet(reason, reads) => {
                        return self.await_place(tid, frame.index, &reason, &reads);
                    }
                };
                let Storage::Memory(address) = placed.storage else {
                    return Err(DebugError::BreakpointFailed(why_no_place(text, &placed)));
                };
                let size = self.size_of(placed.type_ref).unwrap_or(0);
                signed = self.encoding_of(placed.type_ref) == Some(Encoding::Signed);
                (address, size, text.clone(), self.frame_of_memory(tid, address)?)
            }
        };
        if size == 0 {
            return Err(DebugError::BreakpointFailed(
                format!("`{name}` has no size, so it cannot be watched").into(),
            ));
        }
        let mut last = vec![0; usize::try_from(size.min(LARGEST_BY_STEPS)).unwrap_or(TOLD_WHOLE)];
        let is_mapped = self.process.memory().read(address, &mut last).is_ok();
        let means = Means::None;
        let mut watching =
            Watching { address, size, signed, access: wanted.access, means, last, is_mapped, name, frame };
        if wanted.enabled {
            self.arm(&mut watching)?;
        }
        Ok(Watch::Begun(watching))
    }

    /// The frame of `tid` that `address` is part of, if it is on its stack.
    fn frame_of_memory(&self, tid: Tid, address: u64) -> Result<Option<WatchedFrame>, DebugError> {
        let walk = self.walk(tid, 64)?;
        let mut below = RED_ZONE;
        for pair in walk.physical.windows(2) {
            let (start, end) = (pair[0].registers.sp(), pair[0].cfa);
            if let (Some(start), Some(end)) = (start, end)
                && (start.saturating_sub(below)..end).contains(&address)
            {
                // A signal's frame does not return, but is undone by the system.
                let returns = !pair[0].signal;
                return Ok(returns.then_some(WatchedFrame { thread: tid, returns_to: pair[1].pc, end }));
            }
            below = 0;
        }
        Ok(None)
    }

    fn arm(&mut self, watching: &mut Watching) -> Result<(), DebugError> {
        let kind = match watching.access {
            Access::Write => WatchKind::Write,
            Access::Read | Access::ReadWrite => WatchKind::ReadWrite,
        };
        let slots = self.process.watch(watching.address, watching.size, kind).map_err(system)?;
        watching.means = match slots {
            Some(slots) => Means::Registers(slots),
            None if watching.access == Access::Write && watching.size <= LARGEST_BY_STEPS => Means::Steps,
            None => {
                let limit = match watching.access {
                    Access::Write => format!("and more than {LARGEST_BY_STEPS} bytes cannot be watched"),
                    _ => "and only writes can be watched without them".to_owned(),
                };
                return Err(DebugError::BreakpointFailed(Reason::new(format!("`{}` ({} bytes) needs more than the processor's free debug registers (four of up to 8 aligned bytes), {limit}",
                    watching.name, watching.size
                )).advise("watch a part of it, or remove another watchpoint")));
            }
        };
        // Where the return cannot be seen, it is watched for longer than it should be.
        if let Some(frame) = watching.frame
            && self.process.insert_breakpoint(frame.returns_to).is_err()
        {
            watching.frame = None;
        }
        Ok(())
    }

    pub(super) fn resume_watching(&mut self, id: BreakpointId) -> Result<(), DebugError> {
        let Some(mut watching) = self.breakpoints.get(id)?.watching.clone() else {
            return self.look_for_awaited();
        };
        if watching.means == Means::None {
            self.arm(&mut watching)?;
            self.breakpoints.get_mut(id)?.watching = Some(watching);
        }
        Ok(())
    }

    pub(super) fn suspend_watching(&mut self, id: BreakpointId) -> Result<(), DebugError> {
        let Some(watching) = &mut self.breakpoints.get_mut(id)?.watching else {
            return self.stop_awaiting(id);
        };
        let means = std::mem::replace(&mut watching.means, Means::None);
        if means == Means::None {
            return Ok(());
        }
        if let Some(frame) = watching.frame {
            self.process.remove_breakpoint(frame.returns_to);
        }
        let released = match means {
            Means::Registers(slots) => self.process.unwatch(&slots).map_err(system),
            Means::Steps | Means::None => Ok(()),
        };
        // What has ended keeps its registers only in our books.
        if self.process.ended().is_some() { Ok(()) } else { released }
    }

    /// Lets the program go on: at once, or by one instruction where something is to be looked at after
    /// each.
    pub(super) fn run_watching(&mut self) -> Result<Halt, TraceError> {
        let watches = |(_, entry): (_, &super::breakpoints::Entry)| {
            entry.watching.as_ref().is_some_and(|watching| watching.means == Means::Steps)
        };
        if !self.breakpoints.iter().any(watches) {
            let symbols = &self.symbols;
            return self.process.run(&|address| super::function_around(symbols, address));
        }
        let known = self.process.has_thread(self.current);
        self.process.creep(if known { self.current } else { self.process.acting() })
    }

    /// After an instruction: whether it left a frame, or changed something, that is watched.
    pub(super) fn judge_step(&mut self, tid: Tid) -> Result<Verdict, DebugError> {
        if self.breakpoints.iter().all(|(_, entry)| entry.watching.is_none()) {
            return Ok(Verdict::Stepped(tid));
        }
        let pc = self.process.registers(tid).map_err(system)?.pc();
        if let Some(stop) = self.left_frames(tid, Some(pc))? {
            return Ok(Verdict::Stop(stop));
        }
        let changed: Vec<_> = self
            .breakpoints
            .iter()
            .filter(|(_, entry)| entry.watching.as_ref().is_some_and(|watching| self.is_changed(watching)))
            .map(|(id, _)| id)
            .collect();
        self.judge_watched(tid, changed)
    }

    fn is_changed(&self, watching: &Watching) -> bool {
        let mut now = vec![0; watching.last.len()];
        watching.means == Means::Steps
            && self.process.memory().read(watching.address, &mut now).is_ok()
            && (now != watching.last || !watching.is_mapped)
    }

    /// Ends the watchpoints on frames of `tid` that are gone: those that return to `at`, or all.
    pub(super) fn left_frames(&mut self, tid: Tid, at: Option<u64>) -> Result<Option<Box<Stop>>, DebugError> {
        let stack = self.process.registers(tid).map_err(system)?.sp();
        let is_left = |frame: &WatchedFrame| {
            frame.thread == tid && stack >= frame.end && at.is_none_or(|at| frame.returns_to == at)
        };
        let left: Vec<_> = self
            .breakpoints
            .iter()
            .filter_map(|(id, entry)| entry.watching.as_ref().map(|watching| (id, watching)))
            .filter(|(_, watching)| watching.means != Means::None)
            .filter(|(_, watching)| watching.frame.as_ref().is_some_and(is_left))
            .map(|(id, watching)| (id, watching.name.clone()))
            .collect();
        if left.is_empty() {
            return Ok(None);
        }
        self.process.pass_breakpoint(tid);
        let mut stop = self.stop_at(tid, StopReason::Watchpoint);
        let said = left.iter().map(|(id, name)| {
            format!("`{name}` is gone: the function it belonged to has returned; watchpoint {id} is removed")
        });
        stop.detail = Some(said.collect::<Vec<_>>().join("; "));
        for (id, _) in left {
            self.removed(id)?;
            stop.breakpoints.push(id);
        }
        Ok(Some(Box::new(stop)))
    }

    /// What is to be said where it stops.
    pub(super) fn watch_hit(&mut self, tid: Tid, id: BreakpointId) -> Result<Option<String>, DebugError> {
        let Some(watching) = self.breakpoints.get(id)?.watching.clone() else { return Ok(None) };
        let memory = self.process.memory();
        let Some(now) = watching.read(&memory) else { return Ok(None) };
        let changed = !watching.is_mapped || now != watching.last;
        let registers = self.process.registers(tid).map_err(system)?;
        if !watching.wants(&memory, &self.symbols, &registers, changed) {
            self.remember(id, now)?;
            return Ok(None);
        }
        let told = |now: &[u8]| number(&now[..now.len().min(TOLD_WHOLE)], watching.signed);
        let detail = if !watching.is_mapped {
            format!("{}: not mapped → {}", watching.name, told(&now))
        } else if changed {
            told_change(&watching, &now)
        } else {
            let what =
                if watching.access == Access::Write { "written with the same value" } else { "accessed" };
            format!("{} {what}: {}", watching.name, told(&now))
        };
        self.remember(id, now)?;
        if !self.condition_holds(tid, id)? {
            return Ok(None);
        }
        self.breakpoints.get_mut(id)?.hit_count += 1;
        Ok(Some(detail))
    }

    fn remember(&mut self, id: BreakpointId, now: Vec<u8>) -> Result<(), DebugError> {
        let entry = self.breakpoints.get_mut(id)?;
        if let Some(watching) = &mut entry.watching {
            watching.last = now;
            if !std::mem::replace(&mut watching.is_mapped, true) {
                entry.note = watching.note();
            }
        }
        Ok(())
    }
}

/// What it was and what it is; of much only where it differs first.
fn told_change(watching: &Watching, now: &[u8]) -> String {
    let Watching { name, last: before, signed, .. } = watching;
    if before.len() <= TOLD_WHOLE {
        return format!("{name}: {} → {}", number(before, *signed), number(now, *signed));
    }
    let first = before.iter().zip(now).position(|(before, now)| before != now).unwrap_or(0);
    let part = first..before.len().min(first + 8);
    let (before, now) = (bytes_of(&before[part.clone()]), bytes_of(&now[part]));
    format!("{name} from byte {first} on: {before} → {now}")
}

/// Up to eight bytes as a number, more as bytes.
pub(super) fn number(bytes: &[u8], signed: bool) -> String {
    match bytes.len() {
        1 | 2 | 4 | 8 => {
            let mut wide = [0; 8];
            wide[..bytes.len()].copy_from_slice(bytes);
            let value = u64::from_le_bytes(wide);
            let unused = 64 - 8 * bytes.len() as u32;
            let with_sign = (value << unused) as i64 >> unused;
            if signed { format!("{with_sign} ({value:#x})") } else { format!("{value} ({value:#x})") }
        }
        _ => bytes_of(bytes),
    }
}

fn bytes_of(bytes: &[u8]) -> String {
    let digits: Vec<_> = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
    digits.join(" ")
}

/// Why something that has a value has no bytes of its own that could be watched.
fn why_no_place(text: &str, placed: &Placed) -> Reason {
    match placed.home {
        Some(Home::Bits { address, first, count }) => {
            let size = (first + count).div_ceil(8);
            Reason::new(format!("`{text}` is a bit field, and shares its bytes with others")).advise(format!(
                "give `address` \"{address:#x}\" and `size` {size} for the bytes that it is in"
            ))
        }
        _ => Reason::new(format!("`{text}` is not in memory here")).advise("name what it was computed from"),
    }
}
