//! Recording: what a program is told from outside is written down, and the program is copied from
//! time to time, so that any moment of its past can be made again.

mod attribution;
mod calls;
mod capabilities;
mod chaos;
mod controls;
mod export;
mod instructions;
mod joining;
mod log;
mod mapped_files;
mod metronome;
pub(crate) mod page;
mod pending_call;
pub(crate) mod random_numbers;
mod recorder;
mod running;
mod scratch;
mod self_check;
mod sharing;
mod space;
mod threads;
mod written;

use hindcast_symbols::Memory as _;

pub(crate) use self::{
    calls::is_made_again,
    capabilities::{capabilities, try_capabilities},
    chaos::Decision,
    export::{call_name, export},
    instructions::{CPUID_LENGTH, answer, apply},
    log::{
        Answer, BUDGET, Call, Event, Kept, Leaves, Log, MOST_EVENTS, Made, Packed, Replay, Told, Write,
        after_call, unpack,
    },
    mapped_files::MappedFile,
    recorder::{Recorder, visible},
    scratch::is_scratch,
    space::redefined,
};
#[cfg(test)]
pub(crate) use self::{
    calls::{Effect, effect},
    self_check::SELF_CHECK,
};
use crate::sys::{self, ProcessMemory, SYSCALL, SignalInfo, Stopped, Tid, TraceError, remote_call};

/// Where a process has a system call instruction that nobody else uses.
pub(crate) fn gate(process: Tid) -> Result<u64, TraceError> {
    let missing = || TraceError::System {
        what: "cannot find a place to make system calls from",
        source: std::io::ErrorKind::NotFound.into(),
    };
    let mappings = sys::mappings(process).map_err(|_| TraceError::Gone)?;
    let kernel = mappings.iter().find(|mapping| mapping.name == "[vdso]").ok_or_else(missing)?;
    let memory = ProcessMemory::open(process).map_err(|_| TraceError::Gone)?;
    let mut code = vec![0; (kernel.end - kernel.start) as usize];
    memory.read(kernel.start, &mut code).map_err(|_| missing())?;
    let offset = code.windows(2).position(|pair| pair == SYSCALL).ok_or_else(missing)?;
    Ok(kernel.start + offset as u64)
}

/// Takes away from a program at its first instruction what would not be the same in a second run:
/// system calls that are not seen, the time stamp counter, what the processor says of itself.
fn tame(leader: Stopped, gate: u64) -> Result<Stopped, TraceError> {
    if !is_left(Wild::KernelFunctions) {
        hide_kernel_functions(&leader)?;
    }
    trap_instructions(leader, gate, !is_left(Wild::TimeStampCounter))
}

/// What is not the same in a second run, unless it is taken away.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Wild {
    KernelFunctions,
    TimeStampCounter,
    RestartableSequence,
}

#[cfg(not(test))]
fn is_left(_: Wild) -> bool {
    false
}

/// A test leaves it to the program, to see that it matters.
#[cfg(test)]
fn is_left(what: Wild) -> bool {
    LEFT.get() == Some(what)
}

#[cfg(test)]
thread_local! {
    pub(crate) static LEFT: std::cell::Cell<Option<Wild>> = const { std::cell::Cell::new(None) };
}

/// As [`set_traps`], of a process that nobody sends signals to.
pub(crate) fn trap_instructions(thread: Stopped, gate: u64, trap: bool) -> Result<Stopped, TraceError> {
    set_traps(thread, gate, trap, &mut Vec::new())
}

/// Whether instructions that are never the same twice trap; a new process has it from its parent. Signals that come
/// meanwhile are held.
pub(crate) fn set_traps(
    thread: Stopped,
    gate: u64,
    trap: bool,
    held: &mut Vec<SignalInfo>,
) -> Result<Stopped, TraceError> {
    const ARCH_CPUID_SET: u64 = 0x1012;
    let counter = if trap { libc::PR_TSC_SIGSEGV } else { libc::PR_TSC_ENABLE };
    let calls = [
        (libc::SYS_prctl, [libc::PR_SET_TSC as u64, counter as u64, 0, 0, 0, 0]),
        // Refused where the processor cannot do that; then it is not hidden.
        (libc::SYS_arch_prctl, [ARCH_CPUID_SET, u64::from(!trap), 0, 0, 0, 0]),
    ];
    let mut thread = thread;
    for (number, arguments) in calls {
        let remote = remote_call(thread, gate, number, arguments)?;
        thread = remote.thread;
        held.extend(remote.held);
    }
    Ok(thread)
}

/// The program is not told of the functions that the kernel maps into it, so that it asks for the
/// time by system calls, which are seen.
fn hide_kernel_functions(leader: &Stopped) -> Result<(), TraceError> {
    let memory = ProcessMemory::open(leader.tid()).map_err(|_| TraceError::Gone)?;
    let word = |address: u64| memory.read_pointer(address).map_err(|_| TraceError::Gone);
    let stack = leader.registers()?.sp();
    // The number of arguments, they themselves, a zero, the environment, a zero, then pairs.
    let mut at = stack + 8 * (word(stack)? + 2);
    while word(at)? != 0 {
        at += 8;
    }
    at += 8;
    loop {
        let kind = word(at)?;
        if kind == libc::AT_NULL {
            return Ok(());
        }
        if kind == libc::AT_SYSINFO_EHDR {
            let _ = memory.write(at, &libc::AT_IGNORE.to_le_bytes());
        }
        at += 16;
    }
}
