//! A process that was running already: what would not be the same in a second run is taken away from it, and given back
//! when it is let go.
//!
//! The time stamp counter of one that we did not start is left alone: should we be killed, it would die of reading it. A
//! program that does so cannot be replayed exactly, which is found out.

use hindcast_symbols::Memory as _;
use object::{Object as _, ObjectSymbol as _};

use super::remote_call;
use crate::sys::{
    self, Event, ProcessMemory, RestartableSequence, Resume, SignalInfo, Stopped, Tid, TraceError,
};

/// What a process had before.
#[derive(Debug, Default)]
pub(super) struct Taken {
    sequences: Vec<(Tid, RestartableSequence)>,
    /// Beginnings of functions.
    code: Vec<(u64, [u8; STUB])>,
}

/// Functions that the kernel maps into every process, and the calls that do the same.
const FUNCTIONS: [(&str, i64); 6] = [
    ("__vdso_clock_gettime", libc::SYS_clock_gettime),
    ("__vdso_gettimeofday", libc::SYS_gettimeofday),
    ("__vdso_time", libc::SYS_time),
    ("__vdso_getcpu", libc::SYS_getcpu),
    ("__vdso_clock_getres", libc::SYS_clock_getres),
    ("__vdso_getrandom", libc::SYS_getrandom),
];
const STUB: usize = 8;
/// None of these functions is longer.
const MOST_STEPS: usize = 100_000;

/// Takes away what is not the same twice, from all threads of a process.
pub(super) fn take(
    threads: Vec<Stopped>,
    process: Tid,
    gate: u64,
) -> Result<(Vec<Stopped>, Taken), TraceError> {
    let memory = ProcessMemory::open(process).map_err(|_| TraceError::Gone)?;
    let mappings = sys::mappings(process).map_err(|_| TraceError::Gone)?;
    let mut taken = Taken::default();
    let mut threads = threads;
    if let Some(kernel) = mappings.iter().find(|mapping| mapping.name == "[vdso]") {
        let kernel = kernel.start..kernel.end;
        threads = step_out(threads, process, MOST_STEPS, |pc| kernel.contains(&pc))?;
        let mut code = vec![0; (kernel.end - kernel.start) as usize];
        memory.read(kernel.start, &mut code).map_err(|_| TraceError::Gone)?;
        for (address, number) in functions(&code, kernel.start) {
            let mut before = [0; STUB];
            memory.read(address, &mut before).map_err(|_| TraceError::Gone)?;
            memory.write(address, &stub(number)).map_err(|_| TraceError::Gone)?;
            taken.code.push((address, before));
        }
    }
    // The system writes to it whenever a thread is moved to another processor.
    let without = |thread: Stopped| {
        let Some(sequence) = thread.restartable_sequence() else { return Ok(thread) };
        let tid = thread.tid();
        let remote = remote_call(thread, gate, libc::SYS_rseq, sequence.call(true))?;
        send_again(process, tid, &remote.held);
        if remote.result == 0 {
            taken.sequences.push((tid, sequence));
        }
        Ok(remote.thread)
    };
    let threads = threads.into_iter().map(without).collect::<Result<_, TraceError>>()?;
    Ok((threads, taken))
}

/// Gives everything back.
pub(super) fn give_back(
    threads: Vec<Stopped>,
    process: Tid,
    gate: u64,
    taken: &Taken,
) -> Result<Vec<Stopped>, TraceError> {
    let is_in_stub =
        |pc| taken.code.iter().any(|(address, _)| (address + 1..address + STUB as u64).contains(&pc));
    let threads = step_out(threads, process, MOST_STEPS, is_in_stub)?;
    let witness = threads.first().ok_or(TraceError::Gone)?.tid();
    let memory = ProcessMemory::open(witness).map_err(|_| TraceError::Gone)?;
    for (address, before) in &taken.code {
        let _ = memory.write(*address, before);
    }
    let with = |thread: Stopped| {
        let tid = thread.tid();
        let Some((_, sequence)) = taken.sequences.iter().find(|(whose, _)| *whose == tid) else {
            return Ok(thread);
        };
        let remote = remote_call(thread, gate, libc::SYS_rseq, sequence.call(false))?;
        send_again(process, tid, &remote.held);
        Ok(remote.thread)
    };
    threads.into_iter().map(with).collect()
}

/// Steps each thread until it is out of some code.
fn step_out(
    threads: Vec<Stopped>,
    process: Tid,
    most: usize,
    is_in: impl Fn(u64) -> bool,
) -> Result<Vec<Stopped>, TraceError> {
    let out = |mut thread: Stopped| {
        let (tid, mut held) = (thread.tid(), Vec::new());
        for _ in 0..most {
            if !is_in(thread.registers()?.pc()) {
                break;
            }
            thread = step(thread, &mut held)?;
        }
        send_again(process, tid, &held);
        Ok(thread)
    };
    threads.into_iter().map(out).collect()
}

/// What came meanwhile is still to come.
fn send_again(process: Tid, thread: Tid, held: &[SignalInfo]) {
    held.iter().for_each(|info| sys::send_again(process, thread, info));
}

/// Where the kernel's functions are, and the calls that do the same.
fn functions(code: &[u8], start: u64) -> Vec<(u64, i64)> {
    let Ok(file) = object::File::parse(code) else { return Vec::new() };
    let call = |name: &str| FUNCTIONS.iter().find(|(known, _)| *known == name).map(|&(_, call)| call);
    let symbols = file.dynamic_symbols();
    symbols.filter_map(|symbol| Some((start + symbol.address(), call(symbol.name().ok()?)?))).collect()
}

/// mov eax, number; syscall; ret
fn stub(number: i64) -> [u8; STUB] {
    let [a, b, c, d] = (number as u32).to_le_bytes();
    [0xb8, a, b, c, d, 0x0f, 0x05, 0xc3]
}

fn step(thread: Stopped, held: &mut Vec<SignalInfo>) -> Result<Stopped, TraceError> {
    let tid = thread.tid();
    thread.resume(Resume::Step, 0)?;
    loop {
        match sys::wait_for(tid)? {
            Event::Signal(thread, libc::SIGTRAP) => return Ok(thread),
            Event::Signal(thread, _) => {
                held.push(thread.signal()?);
                thread.resume(Resume::Step, 0)?;
            }
            Event::Exited(..) | Event::Killed(..) => return Err(TraceError::Gone),
            Event::Stop(thread, _) | Event::Other(thread) | Event::Call(thread) => {
                thread.resume(Resume::Step, 0)?;
            }
            _ => return Err(TraceError::Gone),
        }
    }
}
