//! System calls that a stopped thread makes for us.

use libc::c_int;

use super::{Event, Resume, SYSCALL_LENGTH, SignalInfo, Stopped, Tid, TraceError, tracee};

/// What came of a call.
pub(crate) struct Remote {
    pub(crate) thread: Stopped,
    pub(crate) result: i64,
    /// The process that the call made.
    pub(crate) made: Option<Stopped>,
    /// Signals that came meanwhile, and were not delivered.
    pub(crate) held: Vec<SignalInfo>,
}

/// Results of calls that were interrupted and are made again by themselves.
const RESTARTS: std::ops::RangeInclusive<i64> = -516..=-512;

/// Whether a call with this result is made again, without the program's noticing.
pub(crate) fn restarts(result: i64) -> bool {
    RESTARTS.contains(&result)
}

/// Makes a system call in the thread, by the instruction at `gate`; the registers are then as before.
pub(crate) fn remote_call(
    thread: Stopped,
    gate: u64,
    number: i64,
    arguments: [u64; 6],
) -> Result<Remote, TraceError> {
    const TRAP: u64 = 1 << (libc::SIGTRAP - 1);
    let before = thread.registers()?;
    let mask = thread.signal_mask()?;
    let mut registers = before;
    let [first, second, third, fourth, fifth, sixth] = arguments;
    for (name, value) in [
        ("rip", gate),
        ("rax", number as u64),
        ("rdi", first),
        ("rsi", second),
        ("rdx", third),
        ("r10", fourth),
        ("r8", fifth),
        ("r9", sixth),
        // Not in a call already: nothing is to be restarted.
        ("orig_rax", u64::MAX),
    ] {
        registers.set(name, value);
    }
    thread.set_registers(&registers)?;
    if mask & TRAP != 0 {
        // The end of a step is a trap. Where a program blocks traps, the system takes its handler away for one.
        thread.set_signal_mask(mask & !TRAP)?;
    }
    let mut call = Pending { tid: thread.tid(), gate, held: Vec::new(), made: None };
    let thread = call.finish(thread)?;
    let result = thread.registers()?.get("rax").unwrap_or_default() as i64;
    thread.set_registers(&before)?;
    if mask & TRAP != 0 {
        thread.set_signal_mask(mask)?;
    }
    Ok(Remote { thread, result, made: call.made, held: call.held })
}

/// A call ends with a signal, which the thread would get if we died now, and die of. It stands still without one then;
/// signals that come meanwhile are held.
pub(crate) fn rest(thread: Stopped, held: &mut Vec<SignalInfo>) -> Result<Stopped, TraceError> {
    let tid = thread.tid();
    // Asked before it goes on, it stops before it does anything.
    let mut asked = thread.asked_to_stop()?;
    loop {
        asked.resume(Resume::Continue, 0)?;
        asked = match tracee::wait_for(tid)? {
            Event::Stop(thread, _) => return Ok(thread),
            Event::Signal(thread, _) => {
                held.push(thread.signal()?);
                thread
            }
            _ => return Err(TraceError::Gone),
        };
    }
}

struct Pending {
    tid: Tid,
    gate: u64,
    held: Vec<SignalInfo>,
    made: Option<Stopped>,
}

impl Pending {
    fn finish(&mut self, thread: Stopped) -> Result<Stopped, TraceError> {
        thread.resume(Resume::Step, 0)?;
        loop {
            match tracee::wait_for(self.tid)? {
                Event::Signal(thread, signal) if self.is_done(&thread, signal)? => return Ok(thread),
                Event::Signal(thread, libc::SIGSEGV | libc::SIGBUS) if self.is_without_gate(&thread)? => {
                    // The program has unmapped the instruction. The call fails, as one does that is told of no memory.
                    let mut registers = thread.registers()?;
                    registers.set("rax", (-i64::from(libc::EFAULT)).cast_unsigned());
                    thread.set_registers(&registers)?;
                    return Ok(thread);
                }
                Event::Signal(thread, signal) => {
                    let info = thread.signal()?;
                    let is_by_processor = signal == libc::SIGTRAP && info.details().code > 0;
                    if !is_by_processor {
                        self.held.push(info);
                    }
                    thread.resume(Resume::Step, 0)?;
                }
                Event::Clone(thread, made) | Event::Fork(thread, made) => {
                    self.made = Some(first_stop(made)?);
                    thread.resume(Resume::Step, 0)?;
                }
                Event::Exited(..) | Event::Killed(..) => return Err(TraceError::Gone),
                Event::Stop(thread, _)
                | Event::Call(thread)
                | Event::Vfork(thread, _)
                | Event::VforkDone(thread)
                | Event::Exec(thread)
                | Event::Other(thread) => {
                    thread.resume(Resume::Step, 0)?;
                }
            }
        }
    }

    /// Whether the processor could not read the instruction that makes the call.
    fn is_without_gate(&self, thread: &Stopped) -> Result<bool, TraceError> {
        let details = thread.signal()?.details();
        Ok(details.code > 0 && details.address == Some(self.gate) && thread.registers()?.pc() == self.gate)
    }

    fn is_done(&self, thread: &Stopped, signal: c_int) -> Result<bool, TraceError> {
        if signal != libc::SIGTRAP {
            return Ok(false);
        }
        let registers = thread.registers()?;
        let result = registers.get("rax").unwrap_or_default() as i64;
        // A signal that came meanwhile has the call made again once it is out of the way.
        Ok(registers.pc() == self.gate + SYSCALL_LENGTH && !restarts(result))
    }
}

fn first_stop(tid: Tid) -> Result<Stopped, TraceError> {
    match tracee::wait_for(tid)? {
        Event::Stop(stopped, _) => Ok(stopped),
        _ => Err(TraceError::Gone),
    }
}
