//! A process at a standstill that can be copied: what a checkpoint is, and what a replica begins as.

use crate::{
    process::Overlay,
    sys::{self, GeneralRegisters, ProcessMemory, Remote, SignalInfo, Stopped, Tid, TraceError, remote_call},
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

const SYSCALL_LENGTH: u64 = 2;

/// Copies a live process. The copy has no descriptors, shares no memory and has none of our
/// breakpoints, so that whatever it does, nobody outside sees it.
pub(crate) fn copy_live(
    original: Stopped,
    gate: u64,
    overlay: &Overlay,
    shares: bool,
) -> Result<Copied, TraceError> {
    let Remote { thread: original, made, held, result } = fork(original, gate)?;
    let made = made.ok_or_else(|| not_copied(result))?;
    let tid = made.tid();
    let mut copy = Frozen { thread: Some(made), tid, gate };
    copy.set_registers(&settled(original.registers()?))?;
    copy.call(libc::SYS_close_range, [0, u64::from(u32::MAX), 0, 0, 0, 0])?;
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

fn fork(thread: Stopped, gate: u64) -> Result<Remote, TraceError> {
    // Our own child, so that the program's `wait` never sees it; without a signal at its end.
    remote_call(thread, gate, libc::SYS_clone, [libc::CLONE_PARENT as u64, 0, 0, 0, 0, 0])
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
        let thread = self.take()?;
        let remote = fork(thread, self.gate)?;
        self.put(remote.thread);
        let made = remote.made.ok_or_else(|| not_copied(remote.result))?;
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
