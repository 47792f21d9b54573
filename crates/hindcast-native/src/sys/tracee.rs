//! Threads that we trace. What can be done with one depends on whether it stands still, and so does
//! its type: only [`Stopped`] has registers, and resuming it leaves a [`Running`].

use std::io;

use libc::{c_int, c_long, c_void, pid_t};

use super::{GeneralRegisters, SignalDetails, SignalInfo, VectorRegisters};

/// A thread, by the system's number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Tid(pub(crate) pid_t);

/// A request to the tracing system failed. `Gone` is common: a debuggee can be killed at any time.
#[derive(Debug, thiserror::Error)]
pub(crate) enum TraceError {
    #[error("the thread is gone")]
    Gone,
    #[error("the replay differs from the recording: {0}")]
    Diverged(String),
    /// A program's recording does not lead to where the program is.
    #[error("self-check: {0}")]
    SelfCheck(String),
    #[error("{0}")]
    NotRecordable(&'static str),
    #[error("thread {} does not run at this moment: threads of a recorded program run one at a time", .0.0)]
    OffStage(Tid),
    /// A recording from a file has nothing beyond its last moment.
    #[error("the recording ends here")]
    RecordingEnds,
    #[error("{what}: {source}")]
    System { what: &'static str, source: io::Error },
}

impl TraceError {
    pub(super) fn last(what: &'static str) -> Self {
        let source = io::Error::last_os_error();
        match source.raw_os_error() {
            Some(libc::ESRCH) => Self::Gone,
            _ => Self::System { what, source },
        }
    }
}

/// A traced thread that runs, or has stopped without our having looked yet.
#[derive(Debug)]
pub(crate) struct Running(Tid);

/// A traced thread that stands still.
#[derive(Debug)]
pub(crate) struct Stopped {
    tid: Tid,
    /// The signal that it is about to get, where that is why it stands still.
    signal: Option<c_int>,
}

/// How to let a thread go on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Resume {
    Continue,
    /// One instruction.
    Step,
    /// To the next end of a system call, which is told.
    Call,
    /// To the next system call, which is told and not made.
    Emulate,
    /// One instruction; a system call is told and not made.
    EmulateStep,
}

/// What a wait found.
#[derive(Debug)]
pub(crate) enum Event {
    /// A signal is about to be delivered.
    Signal(Stopped, c_int),
    /// It stopped because we interrupted it, or is new and has not run yet; or its whole process is
    /// being stopped by the given signal.
    Stop(Stopped, c_int),
    /// It is about to make a system call, or has made it.
    Call(Stopped),
    /// It made a thread.
    Clone(Stopped, Tid),
    /// It made a process.
    Fork(Stopped, Tid),
    /// It made a process that uses its memory until it calls exec.
    Vfork(Stopped, Tid),
    /// The process of a [`Event::Vfork`] no longer uses its memory.
    VforkDone(Stopped),
    /// It runs another program now; all its other threads are gone.
    Exec(Stopped),
    /// It has ended by itself.
    Exited(Tid, c_int),
    /// A signal ended it.
    Killed(Tid, c_int),
    /// Something else; it may go on.
    Other(Stopped),
}

/// The set of registers that XSAVE saves; the libc crate does not name it.
const NT_X86_XSTATE: usize = 0x202;

/// Requests that the libc crate does not name.
const PTRACE_SYSEMU: u32 = 31;
const AUDIT_ARCH_X86_64: u32 = 0xc000_003e;
const PTRACE_SYSEMU_SINGLESTEP: u32 = 32;

/// Not named by the libc crate.
const SYS_IO_PGETEVENTS: i64 = 333;

/// Calls that the system does not make again by itself; those on sockets only where these have a time limit.
const INTERRUPTED: [i64; 21] = [
    libc::SYS_epoll_wait,
    libc::SYS_epoll_pwait,
    libc::SYS_epoll_pwait2,
    libc::SYS_rt_sigtimedwait,
    libc::SYS_semop,
    libc::SYS_semtimedop,
    libc::SYS_io_getevents,
    SYS_IO_PGETEVENTS,
    libc::SYS_io_uring_enter,
    libc::SYS_read,
    libc::SYS_readv,
    libc::SYS_write,
    libc::SYS_writev,
    libc::SYS_recvfrom,
    libc::SYS_recvmsg,
    libc::SYS_recvmmsg,
    libc::SYS_sendto,
    libc::SYS_sendmsg,
    libc::SYS_accept,
    libc::SYS_accept4,
    libc::SYS_connect,
];

/// What is told to us about our tracees.
const OPTIONS: c_int = libc::PTRACE_O_TRACESYSGOOD
    | libc::PTRACE_O_TRACECLONE
    | libc::PTRACE_O_TRACEFORK
    | libc::PTRACE_O_TRACEVFORK
    | libc::PTRACE_O_TRACEVFORKDONE
    | libc::PTRACE_O_TRACEEXEC;

/// Begins to trace a thread, without stopping it. With `exit_kill` it dies when we do.
pub(crate) fn attach_thread(tid: Tid, exit_kill: bool) -> Result<Running, TraceError> {
    let options = OPTIONS | if exit_kill { libc::PTRACE_O_EXITKILL } else { 0 };
    request(libc::PTRACE_SEIZE, tid, 0, options as usize as *mut c_void, "cannot trace")?;
    Ok(Running(tid))
}

/// Kills a whole process. It may be gone already.
pub(crate) fn kill(process: Tid) {
    // SAFETY: kill takes no pointers.
    unsafe { libc::kill(process.0, libc::SIGKILL) };
}

/// Sends a signal that was taken from a thread to it again, with all that came with it as far as the system allows: it
/// lets nobody pretend to be the system.
pub(crate) fn send_again(process: Tid, thread: Tid, info: &SignalInfo) {
    let (signal, from) = (info.0.si_signo, &raw const info.0);
    let is_queued = info.0.si_code < 0 && info.0.si_code != libc::SI_TKILL;
    // It may be gone already.
    // SAFETY: the siginfo lives for the call.
    unsafe {
        if !is_queued || libc::syscall(libc::SYS_rt_tgsigqueueinfo, process.0, thread.0, signal, from) == -1 {
            libc::syscall(libc::SYS_tgkill, process.0, thread.0, signal);
        }
    }
}

/// Waits until one of this thread's tracees has something to tell.
pub(crate) fn wait_for_any() -> Result<Event, TraceError> {
    loop {
        if let Some(event) = wait(-1, 0)? {
            return Ok(event);
        }
    }
}

/// Looks whether one of this thread's tracees has something to tell.
pub(crate) fn wait_for_any_now() -> Result<Option<Event>, TraceError> {
    wait(-1, libc::WNOHANG)
}

/// Waits until this one has something to tell, whatever the others do.
pub(crate) fn wait_for(tid: Tid) -> Result<Event, TraceError> {
    loop {
        if let Some(event) = wait(tid.0, 0)? {
            return Ok(event);
        }
    }
}

/// Where the system finds the locks that a thread holds and that it frees when the thread ends.
pub(crate) fn robust_list(tid: Tid) -> Option<u64> {
    let (mut head, mut length) = (0_u64, 0_usize);
    // SAFETY: both places live for the call.
    let result = unsafe { libc::syscall(libc::SYS_get_robust_list, tid.0, &raw mut head, &raw mut length) };
    (result == 0 && head != 0).then_some(head)
}

/// How a thread has ended, if it has; does not wait.
pub(crate) fn death_of(tid: Tid) -> Option<Event> {
    let look = |how: c_int| {
        // SAFETY: the kernel fills `info`, which lives for the call; where there is nothing to tell it stays zero.
        unsafe {
            let how = libc::WEXITED | libc::WNOHANG | libc::__WALL | libc::__WNOTHREAD | how;
            let mut info: libc::siginfo_t = std::mem::zeroed();
            let found = libc::waitid(libc::P_PID, tid.0.unsigned_abs(), &raw mut info, how) == 0;
            (found && info.si_pid() == tid.0).then(|| (info.si_code, info.si_status()))
        }
    };
    // The stops of one that is traced are told as well, and are not for us to take.
    let (code, status) = look(libc::WNOWAIT)?;
    if !matches!(code, libc::CLD_EXITED | libc::CLD_KILLED | libc::CLD_DUMPED) {
        return None;
    }
    look(0)?;
    super::dying::is_dead(tid);
    Some(if code == libc::CLD_EXITED { Event::Exited(tid, status) } else { Event::Killed(tid, status) })
}

fn wait(whom: pid_t, how: c_int) -> Result<Option<Event>, TraceError> {
    let mut status = 0;
    // __WNOTHREAD: sessions have a thread each, and must not take each other's events.
    // SAFETY: `status` lives for the call.
    let pid = unsafe { libc::waitpid(whom, &mut status, libc::__WALL | libc::__WNOTHREAD | how) };
    if pid == 0 {
        return Ok(None);
    }
    if pid == -1 {
        let error = io::Error::last_os_error();
        return match error.raw_os_error() {
            Some(libc::EINTR) => Ok(None),
            // Nothing left to wait for.
            Some(libc::ECHILD) => Err(TraceError::Gone),
            _ => Err(TraceError::System { what: "cannot wait", source: error }),
        };
    }
    let tid = Tid(pid);
    if libc::WIFEXITED(status) || libc::WIFSIGNALED(status) {
        super::dying::is_dead(tid);
    }
    if libc::WIFEXITED(status) {
        return Ok(Some(Event::Exited(tid, libc::WEXITSTATUS(status))));
    }
    if libc::WIFSIGNALED(status) {
        return Ok(Some(Event::Killed(tid, libc::WTERMSIG(status))));
    }
    let signal = libc::WSTOPSIG(status);
    let is_signal = status >> 16 == 0 && signal != libc::SIGTRAP | 0x80;
    let stopped = Stopped { tid, signal: is_signal.then_some(signal) };
    Ok(Some(match status >> 16 {
        0 if signal == libc::SIGTRAP | 0x80 => Event::Call(stopped),
        0 => Event::Signal(stopped, signal),
        libc::PTRACE_EVENT_STOP => Event::Stop(stopped, signal),
        libc::PTRACE_EVENT_CLONE => with_message(stopped, Event::Clone),
        libc::PTRACE_EVENT_FORK => with_message(stopped, Event::Fork),
        libc::PTRACE_EVENT_VFORK => with_message(stopped, Event::Vfork),
        libc::PTRACE_EVENT_VFORK_DONE => Event::VforkDone(stopped),
        libc::PTRACE_EVENT_EXEC => Event::Exec(stopped),
        _ => Event::Other(stopped),
    }))
}

fn with_message(stopped: Stopped, event: fn(Stopped, Tid) -> Event) -> Event {
    match stopped.made() {
        Ok(made) => event(stopped, made),
        // It was killed meanwhile; that is the next event.
        Err(_) => Event::Other(stopped),
    }
}

impl Running {
    /// Asks it to stop; an [`Event::Stop`] follows, unless something else stops it first.
    pub(crate) fn interrupt(&self) -> Result<(), TraceError> {
        request(libc::PTRACE_INTERRUPT, self.0, 0, std::ptr::null_mut(), "cannot interrupt").map(drop)
    }
}

impl Stopped {
    /// One that is known to stand still, though its handle was lost.
    pub(crate) fn still(tid: Tid) -> Self {
        Self { tid, signal: None }
    }

    /// It will stop again before it does anything.
    pub(crate) fn asked_to_stop(self) -> Result<Self, TraceError> {
        Running(self.tid).interrupt()?;
        Ok(self)
    }

    pub(crate) fn tid(&self) -> Tid {
        self.tid
    }

    /// Whether it is about to get a `SIGTRAP`, and dies of it if we die now.
    pub(crate) fn is_trapped(&self) -> bool {
        self.signal == Some(libc::SIGTRAP)
    }

    /// Whether a signal that it is resumed with reaches it.
    pub(crate) fn takes_signal(&self) -> bool {
        self.signal.is_some()
    }

    /// Lets it go on, with a signal unless 0.
    pub(crate) fn resume(self, how: Resume, signal: c_int) -> Result<Running, TraceError> {
        let kind = match how {
            Resume::Continue => libc::PTRACE_CONT,
            Resume::Step => libc::PTRACE_SINGLESTEP,
            Resume::Call => libc::PTRACE_SYSCALL,
            Resume::Emulate => PTRACE_SYSEMU,
            Resume::EmulateStep => PTRACE_SYSEMU_SINGLESTEP,
        };
        request(kind, self.tid, 0, signal as usize as *mut c_void, "cannot resume")?;
        Ok(Running(self.tid))
    }

    /// Stays in the stop that the whole process is in, and hears when that ends.
    pub(crate) fn listen(self) -> Result<Running, TraceError> {
        request(libc::PTRACE_LISTEN, self.tid, 0, std::ptr::null_mut(), "cannot listen")?;
        Ok(Running(self.tid))
    }

    /// Some calls fail with `EINTR` when their thread is stopped, although no signal is handled. Makes such a call one that
    /// the system makes again when the thread goes on, unless a signal is handled then.
    pub(crate) fn mend_call(&self) -> Result<(), TraceError> {
        const RESTARTS_WITHOUT_HANDLER: i64 = -514;
        let mut registers = self.registers()?;
        let failed = registers.0.rax as i64 == -i64::from(libc::EINTR);
        if failed && INTERRUPTED.contains(&(registers.0.orig_rax as i64)) {
            registers.0.rax = RESTARTS_WITHOUT_HANDLER as u64;
            self.set_registers(&registers)?;
        }
        Ok(())
    }

    /// Whether an instruction of its own has failed or trapped and it has not been told yet: our interruption came first.
    pub(crate) fn is_about_to_trap(&self) -> Result<bool, TraceError> {
        const PTRACE_PEEKSIGINFO: u32 = 0x4209;
        const TRAPS: [c_int; 6] =
            [libc::SIGSEGV, libc::SIGTRAP, libc::SIGBUS, libc::SIGFPE, libc::SIGILL, libc::SIGSYS];
        #[repr(C)]
        struct Which {
            offset: u64,
            flags: u32,
            count: i32,
        }
        const MOST: usize = 16;
        let which = Which { offset: 0, flags: 0, count: MOST as i32 };
        // SAFETY: all zeroes is a valid siginfo.
        let mut found: [libc::siginfo_t; MOST] = unsafe { std::mem::zeroed() };
        let (from, to) = ((&raw const which) as usize, (&raw mut found).cast());
        let count = request(PTRACE_PEEKSIGINFO, self.tid, from, to, "cannot ask for signals")?;
        // A positive code comes from the kernel.
        let found = &found[..usize::try_from(count).unwrap_or(0)];
        Ok(found.iter().any(|info| TRAPS.contains(&info.si_signo) && info.si_code > 0))
    }

    /// Ends the tracing, with a signal unless 0.
    pub(crate) fn detach(self, signal: c_int) -> Result<(), TraceError> {
        request(libc::PTRACE_DETACH, self.tid, 0, signal as usize as *mut c_void, "cannot detach").map(drop)
    }

    pub(crate) fn registers(&self) -> Result<GeneralRegisters, TraceError> {
        // SAFETY: all zeroes is a valid value of plain numbers.
        let mut registers: libc::user_regs_struct = unsafe { std::mem::zeroed() };
        let target = (&raw mut registers).cast();
        request(libc::PTRACE_GETREGS, self.tid, 0, target, "cannot read registers")?;
        Ok(GeneralRegisters(registers))
    }

    pub(crate) fn set_registers(&self, registers: &GeneralRegisters) -> Result<(), TraceError> {
        let source = (&raw const registers.0).cast_mut().cast();
        request(libc::PTRACE_SETREGS, self.tid, 0, source, "cannot write registers").map(drop)
    }

    pub(crate) fn vector_registers(&self) -> Result<VectorRegisters, TraceError> {
        let mut area = vec![0u8; VectorRegisters::LARGEST];
        let length = self.regset(libc::PTRACE_GETREGSET, &mut area, "cannot read vector registers")?;
        area.truncate(length);
        Ok(VectorRegisters::new(area))
    }

    pub(crate) fn set_vector_registers(&self, registers: &VectorRegisters) -> Result<(), TraceError> {
        let mut area = registers.area().to_vec();
        self.regset(libc::PTRACE_SETREGSET, &mut area, "cannot write vector registers").map(drop)
    }

    fn regset(&self, kind: u32, area: &mut [u8], what: &'static str) -> Result<usize, TraceError> {
        let mut vector = libc::iovec { iov_base: area.as_mut_ptr().cast(), iov_len: area.len() };
        // SAFETY: the kernel touches at most `iov_len` bytes of `area`, which outlives the call.
        let result = unsafe { libc::ptrace(kind as _, self.tid.0, NT_X86_XSTATE, &raw mut vector) };
        if result == -1 { Err(TraceError::last(what)) } else { Ok(vector.iov_len) }
    }

    /// Reads a word of the system's record of the thread, where the debug registers are.
    pub(super) fn user_word(&self, offset: usize) -> Result<u64, TraceError> {
        // The call returns the word itself, so that only errno tells an error from a word of ones.
        // SAFETY: errno is this thread's own; the request takes no pointer.
        let (word, error) = unsafe {
            *libc::__errno_location() = 0;
            let word =
                libc::ptrace(libc::PTRACE_PEEKUSER, self.tid.0, offset, std::ptr::null_mut::<c_void>());
            (word, *libc::__errno_location())
        };
        if error == 0 { Ok(word as u64) } else { Err(TraceError::last("cannot read debug registers")) }
    }

    pub(super) fn set_user_word(&self, offset: usize, word: u64) -> Result<(), TraceError> {
        let word = word as usize as *mut c_void;
        request(libc::PTRACE_POKEUSER, self.tid, offset, word, "cannot write debug registers").map(drop)
    }

    /// Which system call it is at the beginning or at the end of.
    pub(crate) fn call(&self) -> Result<Call, TraceError> {
        // SAFETY: all zeroes is a valid value of plain numbers.
        let mut info: libc::ptrace_syscall_info = unsafe { std::mem::zeroed() };
        let (size, target) = (size_of_val(&info), (&raw mut info).cast());
        request(libc::PTRACE_GET_SYSCALL_INFO, self.tid, size, target, "cannot ask for the system call")?;
        // SAFETY: `op` says which part of the union the kernel filled.
        Ok(match info.op {
            libc::PTRACE_SYSCALL_INFO_ENTRY => {
                let entry = unsafe { info.u.entry };
                Call::Entry {
                    number: entry.nr,
                    arguments: entry.args,
                    pc: info.instruction_pointer,
                    is_32_bit: info.arch != AUDIT_ARCH_X86_64,
                }
            }
            libc::PTRACE_SYSCALL_INFO_EXIT => Call::Exit { result: unsafe { info.u.exit }.sval },
            _ => Call::None,
        })
    }

    /// The number that it had before it became another program.
    pub(crate) fn former(&self) -> Result<Tid, TraceError> {
        self.made()
    }

    /// The thread or process that it made.
    fn made(&self) -> Result<Tid, TraceError> {
        let mut message: libc::c_ulong = 0;
        let target = (&raw mut message).cast();
        request(libc::PTRACE_GETEVENTMSG, self.tid, 0, target, "cannot ask for an event")?;
        Ok(Tid(message as pid_t))
    }

    /// The memory in which the system tells the thread where it runs, if it asked for that.
    pub(crate) fn restartable_sequence(&self) -> Option<RestartableSequence> {
        const PTRACE_GET_RSEQ_CONFIGURATION: libc::c_uint = 0x420f;
        let mut sequence = RestartableSequence::default();
        let (size, target) = (size_of::<RestartableSequence>(), (&raw mut sequence).cast());
        request(PTRACE_GET_RSEQ_CONFIGURATION, self.tid, size, target, "cannot ask for the sequence").ok()?;
        (sequence.address != 0).then_some(sequence)
    }

    /// From now on it dies when we do.
    pub(crate) fn die_with_us(&self) -> Result<(), TraceError> {
        let options = (OPTIONS | libc::PTRACE_O_EXITKILL) as usize as *mut c_void;
        request(libc::PTRACE_SETOPTIONS, self.tid, 0, options, "cannot bind a copy to us").map(drop)
    }

    /// The signal it stopped for, to be given back by [`Self::set_signal`].
    pub(crate) fn signal(&self) -> Result<SignalInfo, TraceError> {
        // SAFETY: all zeroes is a valid siginfo.
        let mut info: libc::siginfo_t = unsafe { std::mem::zeroed() };
        request(libc::PTRACE_GETSIGINFO, self.tid, 0, (&raw mut info).cast(), "cannot ask for the signal")?;
        Ok(SignalInfo(info))
    }

    /// Makes it so that the signal it gets when it is resumed comes with this.
    pub(crate) fn set_signal(&self, info: &SignalInfo) -> Result<(), TraceError> {
        let source = (&raw const info.0).cast_mut().cast();
        request(libc::PTRACE_SETSIGINFO, self.tid, 0, source, "cannot set the signal").map(drop)
    }

    /// The signals that are blocked. In a call that blocks others while it waits, those that are blocked after it.
    pub(crate) fn signal_mask(&self) -> Result<u64, TraceError> {
        const PTRACE_GETSIGMASK: libc::c_uint = 0x420a;
        let mut mask = 0_u64;
        request(PTRACE_GETSIGMASK, self.tid, 8, (&raw mut mask).cast(), "cannot read the signal mask")?;
        Ok(mask)
    }

    /// Blocks these signals and no others.
    pub(crate) fn set_signal_mask(&self, mask: u64) -> Result<(), TraceError> {
        const PTRACE_SETSIGMASK: libc::c_uint = 0x420b;
        let source = (&raw const mask).cast_mut().cast();
        request(PTRACE_SETSIGMASK, self.tid, 8, source, "cannot set the signal mask").map(drop)
    }

    /// What is known of the signal it stopped for.
    pub(crate) fn signal_details(&self) -> Result<SignalDetails, TraceError> {
        Ok(self.signal()?.details())
    }
}

/// A system call, as it is told.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Call {
    /// `pc` is behind the instruction.
    Entry {
        number: u64,
        arguments: [u64; 6],
        pc: u64,
        /// Whether the numbers are those of 32-bit programs, as with `int 0x80`.
        is_32_bit: bool,
    },
    Exit {
        result: i64,
    },
    None,
}

/// As the system lays it out.
#[derive(Debug, Clone, Default)]
#[repr(C)]
pub(crate) struct RestartableSequence {
    address: u64,
    size: u32,
    signature: u32,
    flags: u32,
    padding: u32,
}

impl RestartableSequence {
    /// The arguments of the call that ends or begins it.
    pub(crate) fn call(&self, end: bool) -> [u64; 6] {
        [self.address, u64::from(self.size), u64::from(end), u64::from(self.signature), 0, 0]
    }
}

fn request(
    kind: u32,
    tid: Tid,
    address: usize,
    data: *mut c_void,
    what: &'static str,
) -> Result<c_long, TraceError> {
    // SAFETY: callers pass a number, or a pointer to a value of the size that `kind` reads or writes.
    let result = unsafe { libc::ptrace(kind as _, tid.0, address, data) };
    if result == -1 { Err(TraceError::last(what)) } else { Ok(result) }
}

/// As [`Stopped::mend_call`], of a thread that stands still. Allocates nothing.
pub(super) fn mend_call(tid: Tid) {
    // One that was killed needs no mending.
    let _ = Stopped { tid, signal: None }.mend_call();
}

/// Asks a traced thread to stop, if it is there.
pub(crate) fn interrupt(tid: Tid) {
    let _ = Running(tid).interrupt();
}

/// Ends the tracing of a thread that runs or is dying: it must be stopped for that, or buried.
pub(crate) fn detach_running(tid: Tid) {
    // One that is dead cannot be interrupted.
    interrupt(tid);
    detach_next(tid);
}

/// Waits until a thread stops, and ends its tracing. What it stopped for happens to it.
fn detach_next(tid: Tid) {
    let _ = match wait_for(tid) {
        Ok(Event::Signal(stopped, signal)) => stopped.detach(signal),
        Ok(Event::Clone(stopped, made) | Event::Fork(stopped, made) | Event::Vfork(stopped, made)) => {
            let detached = stopped.detach(0);
            detach_next(made);
            detached
        }
        Ok(
            Event::Stop(stopped, _)
            | Event::Call(stopped)
            | Event::VforkDone(stopped)
            | Event::Exec(stopped)
            | Event::Other(stopped),
        ) => stopped.detach(0),
        // It is gone.
        Ok(Event::Exited(..) | Event::Killed(..)) | Err(_) => Ok(()),
    };
}
