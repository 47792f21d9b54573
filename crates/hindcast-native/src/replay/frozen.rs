//! A process at a standstill that can be copied: what a checkpoint is, and what a replica begins as.

use std::{ffi::CString, fs::File, os::fd::OwnedFd};

use crate::{
    process::{Overlay, end_of_exec},
    record,
    sys::{
        self, GeneralRegisters, ProcessMemory, SignalInfo, SpawnError, SpawnPlan, SpawnStreams, Stopped, Tid,
        TraceError, remote_call,
    },
};

/// A copy of a process, of one thread, that stands still. It is gone when this is dropped.
pub(crate) struct Frozen {
    /// Only absent while it makes a call for us.
    thread: Option<Stopped>,
    tid: Tid,
    /// Where a system call instruction is.
    gate: u64,
}

/// A copy of a live process, and what came up while it was made.
pub(crate) struct Copied {
    pub(crate) original: Stopped,
    pub(crate) copy: Frozen,
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

const SYSCALL_LENGTH: u64 = 2;

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

/// Copies a live process. The copy has no descriptors, shares no memory and has none of our
/// breakpoints, so that whatever it does, nobody outside sees it. It has a process group of its own, so
/// that what is typed at the program's terminal does not reach it.
pub(crate) fn copy_live(
    original: Stopped,
    gate: u64,
    overlay: &Overlay,
    shares: bool,
    kin: Kin,
) -> Result<Copied, TraceError> {
    let Forked { original, made, held } = match kin {
        Kin::Ours => fork(original, gate, libc::CLONE_PARENT)?,
        Kin::Orphan => fork_twice(original, gate)?,
    };
    let tid = made.tid();
    let mut copy = Frozen { thread: Some(made), tid, gate };
    copy.set_registers(&settled(original.registers()?))?;
    copy.call(libc::SYS_close_range, [0, u64::from(u32::MAX), 0, 0, 0, 0])?;
    copy.call(libc::SYS_setpgid, [0; 6])?;
    if let Ok(memory) = ProcessMemory::open(tid) {
        overlay.write_originals(&memory);
        if shares {
            unshare(&mut copy, &memory)?;
        }
    }
    Ok(Copied { original, copy, held })
}

/// In a call that will be made again, the program stands before it.
pub(super) fn settled(mut registers: GeneralRegisters) -> GeneralRegisters {
    let number = registers.get("orig_rax").unwrap_or(u64::MAX);
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
    made: Stopped,
    held: Vec<SignalInfo>,
}

/// With `CLONE_PARENT` a brother, so that the program's `wait` never sees it; in any case without a signal at its end.
fn fork(original: Stopped, gate: u64, flags: i32) -> Result<Forked, TraceError> {
    let call = remote_call(original, gate, libc::SYS_clone, [flags as u64, 0, 0, 0, 0, 0])?;
    let made = call.made.ok_or_else(|| not_copied(call.result))?;
    Ok(Forked { original: call.thread, made, held: call.held })
}

/// A copy of a copy that is gone.
fn fork_twice(original: Stopped, gate: u64) -> Result<Forked, TraceError> {
    let Forked { original, made: between, mut held } = fork(original, gate, 0)?;
    let tid = between.tid();
    between.die_with_us()?;
    let copied = fork(between, gate, 0).and_then(|forked| {
        forked.made.die_with_us()?;
        Ok(forked.made)
    });
    sys::end(tid);
    let wait = [tid.0 as u64, 0, libc::__WALL as u64, 0, 0, 0];
    let waited = remote_call(original, gate, libc::SYS_wait4, wait)?;
    held.extend(waited.held);
    Ok(Forked { original: waited.thread, made: copied?, held })
}

fn not_copied(result: i64) -> TraceError {
    TraceError::System {
        what: "cannot copy the process",
        source: std::io::Error::from_raw_os_error(i32::try_from(-result).unwrap_or(libc::EAGAIN)),
    }
}

/// Puts private copies in the place of shared memory.
fn unshare(copy: &mut Frozen, memory: &ProcessMemory) -> Result<(), TraceError> {
    let mappings = sys::mappings(copy.tid).map_err(|_| TraceError::Gone)?;
    for mapping in mappings.iter().filter(|mapping| mapping.permissions.ends_with('s')) {
        let length = mapping.end - mapping.start;
        let mut bytes = vec![0; length as usize];
        let count = memory.read_some(mapping.start, &mut bytes);
        let protection = sys::protection(&mapping.permissions);
        let flags = libc::MAP_FIXED | libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
        copy.call(libc::SYS_mmap, [mapping.start, length, protection, flags as u64, u64::MAX, 0])?;
        let _ = memory.write(mapping.start, &bytes[..count]);
    }
    Ok(())
}

impl Frozen {
    /// A process that stands still, with the place where it has a system call instruction.
    pub(crate) fn new(thread: Stopped, gate: u64) -> Self {
        Self { tid: thread.tid(), thread: Some(thread), gate }
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
        let copy = Self { tid: made.tid(), thread: Some(made), gate: self.gate };
        copy.set_registers(&settled(self.registers()?))?;
        Ok(copy)
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
