//! Sieves in the live program: the same code as in replicas, which can also tell, wherever a thread is stopped in it, what
//! the thread would be at the breakpoint. So nobody but the process that it is put into has to know of it.
//!
//! A pass that was not finished is taken back, and made again when the thread goes on; its count is taken back with it.

use std::ops::Range;

use hindcast_core::debug::BreakpointId;
use hindcast_symbols::{
    Memory as _,
    expression::{Check, Number},
};
use iced_x86::{Decoder, DecoderOptions};

use super::{
    super::{
        Functions, ReplayError,
        room::{lasting_entry, site_in},
        trampoline::{self, Code, RCX, RDX, ROOM, Site, mapped_around},
    },
    Gate,
    code::{self, RAX, Slot, Writer},
    meets, range_of,
};
use crate::{
    process::Overlay,
    sys::{self, GeneralRegisters, ProcessMemory, Tid, TraceError},
};

/// A place in the live program where hits are counted.
#[derive(Debug, Clone)]
pub(crate) struct LiveGate {
    pub(crate) gate: Gate,
    /// The hit with this number, counted from here on, stops the program.
    pub(crate) limit: u64,
    /// What each hit notes, so that hits are counted apart by it.
    pub(crate) number: Option<Number>,
}

/// So many hits are noted at most, before the program stops for somebody to look at them.
pub(crate) const VALUES: u64 = 1 << 16;

/// Code for one place of a breakpoint in the live program.
#[derive(Debug)]
pub(crate) struct LiveSieve {
    pub(crate) breakpoint: BreakpointId,
    pub(crate) check: Option<Check>,
    pub(crate) number: Option<Number>,
    /// Where hits are counted down, for all places of the breakpoint.
    pub(crate) counter: u64,
    site: Site,
    entry: u64,
    code: LiveCode,
}

/// The code and its landmarks.
#[derive(Debug)]
struct LiveCode {
    bytes: Vec<u8>,
    /// Up to here all registers are as they were; from `saved` on they are kept.
    untouched: u64,
    saved: u64,
    /// From here on it is known whether this pass was counted; between the other two it was, though that is not noted yet.
    begun: u64,
    counted: u64,
    noted: u64,
    /// The code that reads the program's memory.
    judging: Range<u64>,
    stop: u64,
    doubt: u64,
    /// What goes to `doubt`.
    gives_up: u64,
    resume: u64,
    moved: Vec<(u64, u64)>,
    /// The same again, for a thread that goes on from a hit that was told of.
    again: Vec<(u64, u64)>,
}

/// What a thread is where it was stopped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Back {
    /// Nowhere in this code.
    Elsewhere,
    /// It stands in the program now.
    InProgram,
    /// It stands in the program at the breakpoint, before it was judged.
    Unjudged,
    /// It stands in the program at the breakpoint, of which was told already.
    Passed,
    /// It stands before the breakpoint, which is hit or has to be judged by somebody else.
    Hit,
    /// It has to go on in this code, which is none of anybody's business.
    GoesOn,
}

impl LiveSieve {
    /// A sieve for a place in a process that stands still; `None` where no code fits, or where it could change.
    pub(crate) fn plan(
        (process, memory, overlay): (Tid, &ProcessMemory, &Overlay),
        functions: Functions<'_>,
        LiveGate { gate, number, .. }: &LiveGate,
        values: Option<u64>,
        others: &[Self],
    ) -> Result<Option<Self>, ReplayError> {
        let Some(site) = site_in(memory, overlay, functions, gate.address) else { return Ok(None) };
        let range = range_of(&site);
        if others.iter().any(|other| meets(&range_of(&other.site), &range)) || !is_fixed(process, &range)? {
            return Ok(None);
        }
        let taken: Vec<_> = others.iter().map(Self::room).collect();
        let Some(entry) = lasting_entry(process, &site, &taken)? else { return Ok(None) };
        let known = others.iter().find(|other| other.breakpoint == gate.breakpoint);
        let counter = known.map_or_else(|| code::counter_of(entry), |other| other.counter);
        let Some(code) = build(&site, entry, (gate.check.as_ref(), number.as_ref().zip(values)), counter)
        else {
            return Ok(None);
        };
        let (breakpoint, check, number) = (gate.breakpoint, gate.check.clone(), number.clone());
        Ok(Some(Self { breakpoint, check, number, counter, site, entry, code }))
    }

    pub(crate) fn address(&self) -> u64 {
        self.site.address
    }

    /// What is to be mapped for it.
    pub(crate) fn room(&self) -> Range<u64> {
        let start = mapped_around(self.entry).start;
        start..start + ROOM
    }

    /// The code, and where it belongs.
    pub(crate) fn code(&self) -> (u64, &[u8]) {
        (self.entry, &self.code.bytes)
    }

    /// What leads there, at the breakpoint.
    pub(crate) fn jump(&self) -> Vec<u8> {
        trampoline::jump(&self.site, self.entry)
    }

    /// The instructions behind the first that gave way: where they were, and where they are.
    pub(crate) fn detours(&self) -> impl Iterator<Item = (u64, u64)> + '_ {
        let copy_of = |inner: u64| self.code.moved.iter().find(move |(_, original)| *original == inner);
        self.site.inner_addresses().filter_map(move |inner| copy_of(inner).map(|&(copy, _)| (inner, copy)))
    }

    /// Whether its code was where this memory is.
    pub(crate) fn is_in(&self, range: &Range<u64>) -> bool {
        meets(&range_of(&self.site), range) || meets(&self.room(), range)
    }

    /// Where a thread goes on from the breakpoint without hitting it: from where, and to where.
    pub(crate) fn way_past(&self) -> Option<(u64, u64)> {
        self.code.again.first().map(|&(copy, original)| (original, copy))
    }

    /// Where a thread stands that was stopped by a signal, which has the code `cause` where the system itself sent it.
    pub(crate) fn after_signal(
        &self,
        registers: &mut GeneralRegisters,
        memory: &ProcessMemory,
        (signal, cause): (i32, i32),
    ) -> Result<Back, TraceError> {
        let pc = registers.pc();
        let by_processor = cause > 0;
        if signal == libc::SIGILL && by_processor {
            let copy = self.detours().find(|(inner, _)| *inner == pc);
            if let Some((_, copy)) = copy {
                registers.set("rip", copy);
                return Ok(Back::GoesOn);
            }
        }
        if !self.room().contains(&pc) {
            return Ok(Back::Elsewhere);
        }
        if matches!(signal, libc::SIGSEGV | libc::SIGBUS) && by_processor && self.code.judging.contains(&pc) {
            registers.set("rip", self.code.gives_up);
            return Ok(Back::GoesOn);
        }
        if by_processor && signal != libc::SIGTRAP && pc == self.code.resume {
            // The program's own instruction failed, and the hit came before that.
            write_word(memory, code::address(self.entry, Slot::Counted), 0)?;
            registers.set("rip", self.site.address);
            return Ok(Back::Passed);
        }
        let trap = pc.wrapping_sub(1);
        if signal == libc::SIGTRAP
            && cause == libc::SI_KERNEL
            && [self.code.stop, self.code.doubt].contains(&trap)
        {
            self.take_back(registers, memory)?;
            return Ok(Back::Hit);
        }
        self.stand(registers, memory)
    }

    /// Where a thread stands that was stopped anywhere.
    pub(crate) fn stand(
        &self,
        registers: &mut GeneralRegisters,
        memory: &ProcessMemory,
    ) -> Result<Back, TraceError> {
        let pc = registers.pc();
        if !self.room().contains(&pc) {
            return Ok(Back::Elsewhere);
        }
        let mut copies = self.code.moved.iter().chain(&self.code.again);
        match copies.find(|(copy, _)| *copy == pc) {
            Some(&(copy, original)) if copy != self.code.resume => {
                registers.set("rip", original);
                let is_past = self.way_past().is_some_and(|(_, again)| again == pc);
                return Ok(if is_past { Back::Passed } else { Back::InProgram });
            }
            _ => self.take_back(registers, memory)?,
        }
        Ok(Back::Unjudged)
    }

    /// A thread that has not passed yet stands before the breakpoint again, with nothing counted.
    fn take_back(&self, registers: &mut GeneralRegisters, memory: &ProcessMemory) -> Result<(), TraceError> {
        /// Carry, parity, adjust, zero, sign; overflow is apart.
        const LOW_FLAGS: u64 = 0xd5;
        const OVERFLOW: u64 = 0x800;
        let pc = registers.pc();
        let slot = |slot: Slot| read_word(memory, code::address(self.entry, slot));
        registers.set("rip", self.site.address);
        let is_noted = pc >= self.code.begun && slot(Slot::Counted)? == 1;
        if is_noted || (self.code.counted..self.code.noted).contains(&pc) {
            write_word(memory, self.counter, read_word(memory, self.counter)?.wrapping_add(1))?;
            write_word(memory, code::address(self.entry, Slot::Counted), 0)?;
        }
        // Behind the copies, and before them, all are in their places already: what is kept may be of an earlier pass.
        if pc <= self.code.untouched || pc == self.code.resume {
            return Ok(());
        }
        registers.set("rax", slot(Slot::Rax)?);
        registers.set("rcx", slot(Slot::Rcx)?);
        registers.set("rdx", slot(Slot::Rdx)?);
        if pc >= self.code.saved {
            let kept = slot(Slot::Flags)?;
            let flags = registers.get("eflags").unwrap_or_default() & !(LOW_FLAGS | OVERFLOW);
            registers.set("eflags", flags | (kept >> 8 & LOW_FLAGS) | (kept & 1) << 11);
        }
        Ok(())
    }
}

fn read_word(memory: &ProcessMemory, address: u64) -> Result<u64, TraceError> {
    let mut bytes = [0; 8];
    memory.read(address, &mut bytes).map_err(|_| TraceError::Gone)?;
    Ok(u64::from_le_bytes(bytes))
}

fn write_word(memory: &ProcessMemory, address: u64, value: u64) -> Result<(), TraceError> {
    memory.write(address, &value.to_le_bytes()).map_err(|_| TraceError::Gone)
}

/// Whether code is from a file, and cannot be written by the program.
fn is_fixed(process: Tid, range: &Range<u64>) -> Result<bool, TraceError> {
    let mappings = sys::mappings(process).map_err(|_| TraceError::Gone)?;
    let around = mappings.iter().find(|mapping| (mapping.start..mapping.end).contains(&range.start));
    Ok(around.is_some_and(|mapping| {
        mapping.permissions == "r-xp" && mapping.inode != 0 && range.end <= mapping.end
    }))
}

fn build(
    site: &Site,
    entry: u64,
    (check, number): (Option<&Check>, Option<(&Number, u64)>),
    counter: u64,
) -> Option<LiveCode> {
    if !code::keeps_flags() {
        return None;
    }
    let mut writer = Writer { code: Code::at(entry), entry };
    // What `save` writes: three registers, then the flags, which need the third.
    writer.store(RCX, Slot::Rcx);
    writer.store(RDX, Slot::Rdx);
    writer.store(RAX, Slot::Rax);
    let untouched = writer.code.here();
    // lahf; seto al
    writer.code.push(&[0x9f, 0x0f, 0x90, 0xc0]);
    writer.store(RAX, Slot::Flags);
    let saved = writer.code.here();
    writer.code.constant(RCX, 0);
    writer.store(RCX, Slot::Counted);
    let begun = writer.code.here();
    let passes = match check {
        Some(check) => writer.jumps_where(check, false)?,
        None => Vec::new(),
    };
    if let Some((number, _)) = number {
        writer.number(number)?;
        writer.store(RAX, Slot::Value);
    }
    let judged = writer.code.here();
    writer.code.constant(RDX, counter);
    // mov rcx, [rdx]; lea rcx, [rcx - 1]; mov [rdx], rcx
    writer.code.push(&[0x48, 0x8b, 0x0a, 0x48, 0x8d, 0x49, 0xff, 0x48, 0x89, 0x0a]);
    let counted = writer.code.here();
    writer.code.constant(RAX, 1);
    writer.store(RAX, Slot::Counted);
    let noted = writer.code.here();
    if let Some((_, values)) = number {
        writer.load(RAX, Slot::Value);
        writer.code.constant(RDX, values);
        // mov [rdx + rcx * 8], rax: where the number of hits that are left says
        writer.code.push(&[0x48, 0x89, 0x04, 0xca]);
    }
    let stops = writer.code.jump_if_zero();
    let out = writer.code.here();
    for place in passes {
        writer.code.patch(place, out);
    }
    writer.restore(true);
    let resume = writer.code.here();
    let moved = writer.code.move_from(site)?;
    if !are_single(&writer.code, resume, &moved) {
        return None;
    }
    let again_at = writer.code.here();
    let again = writer.code.move_from(site)?;
    if !are_single(&writer.code, again_at, &again) {
        return None;
    }
    let stop_block = writer.code.here();
    writer.code.patch(stops, stop_block);
    let stop = writer.trap(true);
    let gives_up = writer.code.here();
    let doubt = writer.trap(true);
    (writer.code.here() <= code::address(entry, Slot::Value)).then_some(LiveCode {
        bytes: writer.code.bytes,
        untouched,
        saved,
        begun,
        counted,
        noted,
        judging: begun..judged,
        stop,
        doubt,
        gives_up,
        resume,
        moved,
        again,
    })
}

/// Whether each instruction that gave way is one instruction here, too: then wherever a thread stands among them it stands
/// somewhere in the program.
fn are_single(code: &Code, start: u64, moved: &[(u64, u64)]) -> bool {
    let from = code.bytes.len() - (code.here() - start) as usize;
    let decoded = Decoder::with_ip(64, &code.bytes[from..], start, DecoderOptions::NONE);
    let here: Vec<_> = decoded.into_iter().map(|instruction| instruction.ip()).collect();
    here.iter().eq(moved.iter().map(|(copy, _)| copy))
}
