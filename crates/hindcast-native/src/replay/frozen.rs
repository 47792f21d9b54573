//! A process at a standstill that can be copied: what a checkpoint is, and what a replica begins as.

use std::{ffi::CString, fs::File, os::fd::OwnedFd, rc::Rc};

use super::{Actor, Cast};
use crate::{
    process::{Overlay, end_of_exec},
    record,
    sys::{
        self, GeneralRegisters, Mapping, ProcessMemory, SYSCALL_LENGTH, SignalInfo, SpawnError, SpawnPlan,
        SpawnStreams, Stopped, Tid, TraceError, remote_call,
    },
};

/// A copy of a process that stands still. It has one system thread, whatever threads the program has. It is gone when this
/// is dropped.
pub(crate) struct Frozen {
    /// Only absent while it makes a call for us.
    thread: Option<Stopped>,
    tid: Tid,
    /// Where a system call instruction is.
    gate: u64,
    cast: Cast,
}

/// A copy of a live process, and what came up while it was made.
pub(crate) struct Copied {
    pub(crate) original: Stopped,
    /// Fails where the system does not allow another process.
    pub(crate) copy: Result<Frozen, TraceError>,
    pub(crate) held: Vec<SignalInfo>,
}

/// Whose child a copy is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kin {
    /// Ours, as the process itself is.
    Ours,
    /// Nobody's: neither the process, which is not ours, nor its parent ever hears of it.
    Orphan,
}

/// Where a system call instruction is, in a live process and in its copies.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Gates {
    pub(crate) live: u64,
    pub(crate) copy: u64,
}

/// A process of a program before its first instruction, which nobody reads from or writes to.
pub(crate) fn begin(program: CString) -> Result<Frozen, SpawnError> {
    let null = || {
        let opened = File::options().read(true).write(true).open("/dev/null");
        opened.map(OwnedFd::from).map_err(SpawnError::System)
    };
    let plan = SpawnPlan {
        arguments: vec![program.clone()],
        program,
        environment: Vec::new(),
        folder: None,
        streams: SpawnStreams::Own { stdin: null()?, stdout: null()?, stderr: null()? },
    };
    let leader = sys::spawn(&plan)?;
    let process = leader.tid();
    let begun = end_of_exec(leader).and_then(|leader| Ok((record::gate(process)?, leader)));
    let (gate, leader) = begun.inspect_err(|_| sys::end(process))?;
    Ok(Frozen::new(leader, gate))
}

/// Memory that a copy made by `fork` would share, or lack.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct CopiedArea {
    pub(crate) start: u64,
    pub(crate) end: u64,
    pub(crate) protection: u64,
    pub(crate) is_shared: bool,
}

impl CopiedArea {
    pub(crate) fn of(mapping: &Mapping) -> Self {
        Self {
            start: mapping.start,
            end: mapping.end,
            protection: sys::protection(&mapping.permissions),
            is_shared: mapping.permissions.ends_with('s'),
        }
    }
}

/// Copies a live process. The copy has no descriptors, its own memory in `areas` and none of our
/// breakpoints, so that whatever it does, nobody outside sees it. It has a process group of its own, so
/// that what is typed at the program's terminal does not reach it.
pub(crate) fn copy_live(
    original: Stopped,
    gates: Gates,
    overlay: &Overlay,
    areas: &[CopiedArea],
    interrupted: Option<i64>,
    (kin, cast): (Kin, Cast),
) -> Result<Copied, TraceError> {
    let Forked { original, made, held } = match kin {
        Kin::Ours => fork(original, gates.live, libc::CLONE_PARENT)?,
        Kin::Orphan => fork_twice(original, gates.live)?,
    };
    let registers = settled(original.registers()?, interrupted);
    let copy = made.and_then(|made| {
        let mut copy = Frozen::new(made, gates.copy);
        copy.cast = cast;
        copy.set_registers(&registers)?;
        isolated(copy, &original, overlay, areas)
    });
    Ok(Copied { original, copy, held })
}

/// A copy that has just been made, cut off from everything outside.
fn isolated(
    mut copy: Frozen,
    original: &Stopped,
    overlay: &Overlay,
    areas: &[CopiedArea],
) -> Result<Frozen, TraceError> {
    let tid = copy.tid;
    copy.call(libc::SYS_close_range, [0, u64::from(u32::MAX), 0, 0, 0, 0])?;
    copy.call(libc::SYS_setpgid, [0; 6])?;
    let memory = ProcessMemory::open(tid).map_err(|_| TraceError::Gone)?;
    overlay.write_originals(&memory);
    if !areas.is_empty() {
        let live = ProcessMemory::open(original.tid()).map_err(|_| TraceError::Gone)?;
        areas.iter().try_for_each(|area| copy.take_over(area, &live, &memory))?;
    }
    Ok(copy)
}

/// In a call that will be made again, the program stands before it. Once the system has gone on with what was left of a call,
/// only `interrupted` knows which it was.
pub(crate) fn settled(mut registers: GeneralRegisters, interrupted: Option<i64>) -> GeneralRegisters {
    let number = match (registers.get("orig_rax").unwrap_or(u64::MAX), interrupted) {
        (number, Some(interrupted)) if number == libc::SYS_restart_syscall as u64 => interrupted as u64,
        (number, _) => number,
    };
    let result = registers.get("rax").unwrap_or_default() as i64;
    if number != u64::MAX && sys::restarts(result) {
        registers.set("rax", number);
        registers.set("rip", registers.pc() - SYSCALL_LENGTH);
    }
    registers.set("orig_rax", u64::MAX);
    registers
}

struct Forked {
    original: Stopped,
    made: Result<Stopped, TraceError>,
    held: Vec<SignalInfo>,
}

/// With `CLONE_PARENT` a brother, so that the program's `wait` never sees it; in any case without a signal at its end.
fn fork(original: Stopped, gate: u64, flags: i32) -> Result<Forked, TraceError> {
    let call = remote_call(original, gate, libc::SYS_clone, [flags as u64, 0, 0, 0, 0, 0])?;
    let made = call.made.ok_or_else(|| not_copied(call.result));
    Ok(Forked { original: call.thread, made, held: call.held })
}

/// A copy of a copy that is gone.
fn fork_twice(original: Stopped, gate: u64) -> Result<Forked, TraceError> {
    let Forked { original, made: between, mut held } = fork(original, gate, 0)?;
    let between = match between {
        Ok(between) => between,
        Err(error) => return Ok(Forked { original, made: Err(error), held }),
    };
    let tid = between.tid();
    between.die_with_us()?;
    let copied = fork(between, gate, 0).and_then(|forked| {
        let made = forked.made?;
        made.die_with_us()?;
        Ok(made)
    });
    sys::end(tid);
    let wait = [tid.0 as u64, 0, libc::__WALL as u64, 0, 0, 0];
    let waited = remote_call(original, gate, libc::SYS_wait4, wait)?;
    held.extend(waited.held);
    Ok(Forked { original: waited.thread, made: copied, held })
}

fn not_copied(result: i64) -> TraceError {
    TraceError::System {
        what: "cannot copy the process",
        source: std::io::Error::from_raw_os_error(i32::try_from(-result).unwrap_or(libc::EAGAIN)),
    }
}

impl Frozen {
    /// A process that stands still, with the place where it has a system call instruction.
    pub(crate) fn new(thread: Stopped, gate: u64) -> Self {
        let tid = thread.tid();
        Self { tid, thread: Some(thread), gate, cast: Cast::alone(tid) }
    }

    pub(crate) fn gate(&self) -> u64 {
        self.gate
    }

    pub(crate) fn set_gate(&mut self, gate: u64) {
        self.gate = gate;
    }

    /// Has something done with its thread.
    pub(crate) fn put_through(
        &mut self,
        work: impl FnOnce(Stopped) -> Result<Stopped, TraceError>,
    ) -> Result<(), TraceError> {
        let thread = work(self.take()?)?;
        self.put(thread);
        Ok(())
    }

    /// The process, which whoever gets it has to end.
    pub(crate) fn release(mut self) -> Result<Stopped, TraceError> {
        let thread = self.take()?;
        std::mem::forget(self);
        Ok(thread)
    }

    pub(crate) fn tid(&self) -> Tid {
        self.tid
    }

    pub(crate) fn thread(&self) -> Result<&Stopped, TraceError> {
        self.thread.as_ref().ok_or(TraceError::Gone)
    }

    /// Takes the thread, to let it run; [`Self::put`] gives it back.
    pub(crate) fn take(&mut self) -> Result<Stopped, TraceError> {
        self.thread.take().ok_or(TraceError::Gone)
    }

    pub(crate) fn put(&mut self, thread: Stopped) {
        self.thread = Some(thread);
    }

    pub(crate) fn registers(&self) -> Result<GeneralRegisters, TraceError> {
        self.thread()?.registers()
    }

    pub(crate) fn set_registers(&self, registers: &GeneralRegisters) -> Result<(), TraceError> {
        self.thread()?.set_registers(registers)
    }

    /// Another one like this.
    pub(crate) fn fork(&mut self) -> Result<Self, TraceError> {
        let Forked { original, made, .. } = fork(self.take()?, self.gate, libc::CLONE_PARENT)?;
        self.put(original);
        let mut copy = Self::new(made?, self.gate);
        copy.cast = self.cast.clone();
        copy.set_registers(&settled(self.registers()?, None))?;
        Ok(copy)
    }

    /// The threads of the program.
    pub(crate) fn cast(&self) -> &Cast {
        &self.cast
    }

    /// Says which threads the program has.
    pub(crate) fn set_cast(&mut self, cast: Cast) {
        self.cast = cast;
    }

    /// A thread of the program is made.
    pub(super) fn enter(&mut self, tid: Tid, actor: Rc<Actor>) {
        self.cast.enter(tid, actor);
    }

    /// Another thread of the program runs from now on; false where there is none of this number.
    pub(crate) fn turn(&mut self, to: Tid) -> Result<bool, TraceError> {
        let leaving = Actor::of(self.thread()?)?;
        self.play(to, Some(leaving))
    }

    /// The same where the thread that ran has ended.
    pub(super) fn turn_for_good(&mut self, to: Tid) -> Result<bool, TraceError> {
        self.play(to, None)
    }

    fn play(&mut self, to: Tid, leaving: Option<Actor>) -> Result<bool, TraceError> {
        let Some(next) = self.cast.turn(to, leaving) else { return Ok(false) };
        self.thread()?.set_vector_registers(&next.vectors)?;
        self.set_registers(&next.registers)?;
        Ok(true)
    }

    /// Puts private memory in the place of an area, with what the live process has there.
    fn take_over(
        &mut self,
        area: &CopiedArea,
        live: &ProcessMemory,
        memory: &ProcessMemory,
    ) -> Result<(), TraceError> {
        const PIECE: u64 = 256 << 10;
        let flags = (libc::MAP_FIXED | libc::MAP_PRIVATE | libc::MAP_ANONYMOUS) as u64;
        let length = area.end - area.start;
        let result = self.call(libc::SYS_mmap, [area.start, length, area.protection, flags, u64::MAX, 0])?;
        if result as u64 != area.start {
            return Err(not_copied(result));
        }
        let mut bytes = vec![0; PIECE.min(length) as usize];
        for at in (area.start..area.end).step_by(PIECE as usize) {
            let wanted = PIECE.min(area.end - at) as usize;
            // Behind the end of a file there is nothing to read.
            let count = live.read_some(at, &mut bytes[..wanted]);
            let is_empty = bytes[..count].iter().all(|&byte| byte == 0);
            if !is_empty {
                memory.write(at, &bytes[..count]).map_err(|_| TraceError::Gone)?;
            }
        }
        Ok(())
    }

    /// Makes a system call in it.
    pub(crate) fn call(&mut self, number: i64, arguments: [u64; 6]) -> Result<i64, TraceError> {
        let remote = remote_call(self.take()?, self.gate, number, arguments)?;
        self.put(remote.thread);
        Ok(remote.result)
    }
}

impl Drop for Frozen {
    fn drop(&mut self) {
        sys::dismiss(self.tid);
    }
}
