//! A process that was running already: what would not be the same in a second run is taken away from it, and given back
//! when it is let go.
//!
//! Its time stamp counter is left alone: should we be killed, it would die of reading it. A program that does so cannot be
//! replayed exactly, which is found out.

use hindcast_symbols::Memory as _;
use object::{Object as _, ObjectSymbol as _};

use super::remote_call;
use crate::sys::{self, Event, ProcessMemory, RestartableSequence, Resume, SignalInfo, Stopped, TraceError};

/// What a process had before.
#[derive(Debug, Default)]
pub(super) struct Taken {
    sequence: Option<RestartableSequence>,
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

/// Takes away what is not the same twice; signals that come meanwhile are held.
pub(super) fn take(
    thread: Stopped,
    gate: u64,
    held: &mut Vec<SignalInfo>,
) -> Result<(Stopped, Taken), TraceError> {
    let process = thread.tid();
    let memory = ProcessMemory::open(process).map_err(|_| TraceError::Gone)?;
    let mappings = sys::mappings(process).map_err(|_| TraceError::Gone)?;
    let mut taken = Taken::default();
    let mut thread = thread;
    if let Some(kernel) = mappings.iter().find(|mapping| mapping.name == "[vdso]") {
        for _ in 0..MOST_STEPS {
            if !(kernel.start..kernel.end).contains(&thread.registers()?.pc()) {
                break;
            }
            thread = step(thread, held)?;
        }
        let mut code = vec![0; (kernel.end - kernel.start) as usize];
        memory.read(kernel.start, &mut code).map_err(|_| TraceError::Gone)?;
        for (address, number) in functions(&code, kernel.start) {
            let mut before = [0; STUB];
            memory.read(address, &mut before).map_err(|_| TraceError::Gone)?;
            memory.write(address, &stub(number)).map_err(|_| TraceError::Gone)?;
            taken.code.push((address, before));
        }
    }
    // The system writes to it whenever the process is moved to another processor.
    if let Some(sequence) = thread.restartable_sequence() {
        let remote = remote_call(thread, gate, libc::SYS_rseq, sequence.call(true))?;
        thread = remote.thread;
        held.extend(remote.held);
        taken.sequence = (remote.result == 0).then_some(sequence);
    }
    Ok((thread, taken))
}

/// Gives everything back.
pub(super) fn give_back(
    thread: Stopped,
    gate: u64,
    taken: &Taken,
    held: &mut Vec<SignalInfo>,
) -> Result<Stopped, TraceError> {
    let memory = ProcessMemory::open(thread.tid()).map_err(|_| TraceError::Gone)?;
    let mut thread = thread;
    let is_in_stub =
        |pc| taken.code.iter().any(|(address, _)| (address + 1..address + STUB as u64).contains(&pc));
    while is_in_stub(thread.registers()?.pc()) {
        thread = step(thread, held)?;
    }
    for (address, before) in &taken.code {
        let _ = memory.write(*address, before);
    }
    let Some(sequence) = &taken.sequence else { return Ok(thread) };
    let remote = remote_call(thread, gate, libc::SYS_rseq, sequence.call(false))?;
    held.extend(remote.held);
    Ok(remote.thread)
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
