//! What the system answers a trial.
//!
//! What is asked of one file must be asked in the same order as in the recording, with the same sizes; what is asked by a path
//! must name the same path. Calls that only tell about the process or the time are answered anew where the recording has no
//! answer left. All others are known only as long as everything about them is the same.

use std::{
    collections::{BTreeSet, HashMap, VecDeque},
    hash::{DefaultHasher, Hasher as _},
    rc::Rc,
};

use super::{
    Inputs,
    printed::{LONGEST_WRITE, pieces},
};
use crate::{
    record::{self, Call, Event, Log},
    sys::{GeneralRegisters, ProcessMemory, Tid},
};

/// More events than this are not looked at.
const MOST_EVENTS: u64 = 400_000;
/// Paths are not longer.
const LONGEST_PATH: usize = 4096;

/// What is known about a call.
pub(super) enum Known {
    /// What this event answered.
    Event(u64),
    /// A result, with so many zeroes written.
    Result {
        result: i64,
        zeroes: Option<(u64, usize)>,
    },
    /// The copy may make it: it changes nothing but the copy.
    Real,
    Nothing,
}

impl Known {
    fn result(result: i64) -> Self {
        Self::Result { result, zeroes: None }
    }
}

/// What is answered in order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Queue {
    File(i32),
    Number(i64),
    Processor,
}

/// The answers that are left.
pub(super) struct Answers {
    left: HashMap<Queue, VecDeque<u64>>,
    inputs: Option<Rc<Inputs>>,
    pub(super) seen: Inputs,
    /// Whether memory was mapped otherwise than in the recording.
    has_other_space: bool,
    /// Whether something else was written than in the recording, which may come back by a pipe or a file.
    wrote_otherwise: bool,
    pub(super) notes: BTreeSet<&'static str>,
}

impl Answers {
    pub(super) fn from(log: &Log, event: u64, inputs: Option<Rc<Inputs>>) -> Self {
        let mut left: HashMap<Queue, VecDeque<u64>> = HashMap::new();
        let mut notes = BTreeSet::new();
        for (index, event) in log.range(event, log.len().min(event + MOST_EVENTS)) {
            let queue = match &*event {
                Event::Call(call) => queue_of(call.number, &call.arguments),
                Event::Answer(_) => Queue::Processor,
                Event::Signal { .. } => {
                    notes.insert("signals that came to the program then come to neither copy");
                    continue;
                }
                Event::Edit => {
                    notes.insert("what was changed by hand later is changed in neither copy");
                    continue;
                }
                _ => continue,
            };
            left.entry(queue).or_default().push_back(index);
        }
        Self { left, inputs, seen: Inputs::new(), has_other_space: false, wrote_otherwise: false, notes }
    }

    /// The registers after an instruction that asks the processor, if it is one.
    pub(super) fn of_processor(
        &mut self,
        log: &Log,
        registers: GeneralRegisters,
        memory: &ProcessMemory,
    ) -> Option<GeneralRegisters> {
        let queue = self.left.entry(Queue::Processor).or_default();
        if let Some(event) = queue.front().and_then(|&index| log.get(index))
            && let Event::Answer(answer) = &*event
            && answer.pc == registers.pc()
        {
            queue.pop_front();
            return Some(record::apply(answer, registers));
        }
        let answer = record::answer(&registers, memory)?;
        self.notes.insert("the processor's clock was read anew");
        Some(record::apply(&answer, registers))
    }

    pub(super) fn of_system(
        &mut self,
        log: &Log,
        number: i64,
        arguments: &[u64; 6],
        memory: &ProcessMemory,
        acting: Tid,
    ) -> Known {
        let queue = queue_of(number, arguments);
        if self.wrote_otherwise && reads(number) {
            self.notes.insert("it had written something else before, which may be what it reads");
            return Known::Nothing;
        }
        let given = given(number, arguments, memory);
        let front = self.left.get(&queue).and_then(|queue| queue.front().copied());
        let recorded = front.and_then(|index| Some((index, log.get(index)?)));
        let known = recorded.filter(|(index, event)| match &**event {
            Event::Call(call) => self.is_same(*index, call, number, arguments, given.as_deref()),
            _ => false,
        });
        let known = known.map(|(index, _)| index);
        if let Some(index) = known {
            self.left.entry(queue).or_default().pop_front();
            self.seen.extend(given.map(|given| (index, given)));
            return Known::Event(index);
        }
        if self.inputs.is_some() || front.is_none() {
            self.without_record(number, arguments, memory, acting)
        } else {
            // Without a change everything is as it was.
            Known::Nothing
        }
    }

    /// Whether a call of the recording is the one that is made now.
    fn is_same(
        &self,
        index: u64,
        call: &Call,
        number: i64,
        arguments: &[u64; 6],
        given: Option<&[u8]>,
    ) -> bool {
        if call.number != number {
            return false;
        }
        let Some(inputs) = &self.inputs else { return call.arguments == *arguments };
        if record::is_made_again(number, arguments) {
            return !self.has_other_space && call.arguments == *arguments && number != libc::SYS_rt_sigreturn;
        }
        let Some(shape) = shape(number, arguments) else { return false };
        let same = |(at, kind): (usize, &Kind)| match kind {
            Kind::Same => call.arguments[at] == arguments[at],
            Kind::Out => (call.arguments[at] == 0) == (arguments[at] == 0),
            Kind::Path | Kind::Content => inputs.get(&index).map(Vec::as_slice) == given,
            Kind::Any => true,
        };
        shape.iter().enumerate().all(same)
    }

    /// Whoever asks how signals are handled is told something made up.
    fn note_signals(&mut self, asked_for: u64) {
        if asked_for != 0 {
            self.notes.insert("a question how signals were handled before was answered with the usual way");
        }
    }

    fn without_record(
        &mut self,
        number: i64,
        arguments: &[u64; 6],
        memory: &ProcessMemory,
        acting: Tid,
    ) -> Known {
        match number {
            libc::SYS_write | libc::SYS_pwrite64 | libc::SYS_writev => {
                self.notes.insert("what it wrote is taken to have succeeded");
                self.wrote_otherwise |= !is_printed(arguments);
                // The sequence of the file goes on behind what was written then.
                let queue = self.left.entry(queue_of(number, arguments)).or_default();
                queue.pop_front();
                let length = pieces(number, arguments, memory).iter().map(|(_, length)| length).sum::<u64>();
                Known::result(length as i64)
            }
            libc::SYS_close | libc::SYS_fsync | libc::SYS_fdatasync | libc::SYS_sched_yield => {
                Known::result(0)
            }
            libc::SYS_nanosleep | libc::SYS_clock_nanosleep => {
                self.notes.insert("it did not really sleep");
                Known::result(0)
            }
            libc::SYS_getpid | libc::SYS_gettid => Known::result(i64::from(acting.0)),
            libc::SYS_rt_sigprocmask => {
                self.note_signals(arguments[2]);
                Known::Result { result: 0, zeroes: (arguments[2] != 0).then_some((arguments[2], 8)) }
            }
            libc::SYS_rt_sigaction => {
                self.note_signals(arguments[2]);
                Known::Result { result: 0, zeroes: (arguments[2] != 0).then_some((arguments[2], 32)) }
            }
            libc::SYS_futex if is_wake(arguments) => Known::result(0),
            libc::SYS_clock_gettime
            | libc::SYS_gettimeofday
            | libc::SYS_time
            | libc::SYS_times
            | libc::SYS_getrusage => {
                self.notes.insert("the clock was read anew");
                Known::Real
            }
            libc::SYS_getrandom => {
                self.notes.insert("random numbers were drawn anew");
                Known::Real
            }
            libc::SYS_uname | libc::SYS_sysinfo => Known::Real,
            libc::SYS_mmap if arguments[3] & libc::MAP_ANONYMOUS as u64 == 0 => Known::Nothing,
            libc::SYS_rt_sigreturn | libc::SYS_arch_prctl => Known::Nothing,
            number if record::is_made_again(number, arguments) => {
                self.has_other_space = true;
                Known::Real
            }
            _ => Known::Nothing,
        }
    }
}

/// What is asked of one file is asked in order, whatever it is.
fn queue_of(number: i64, arguments: &[u64; 6]) -> Queue {
    match number {
        libc::SYS_read
        | libc::SYS_readv
        | libc::SYS_pread64
        | libc::SYS_write
        | libc::SYS_writev
        | libc::SYS_pwrite64
        | libc::SYS_lseek
        | libc::SYS_fstat
        | libc::SYS_getdents64
        | libc::SYS_ftruncate
        | libc::SYS_fsync
        | libc::SYS_fdatasync
        | libc::SYS_ioctl
        | libc::SYS_fcntl
        | libc::SYS_close => Queue::File(arguments[0] as i32),
        number => Queue::Number(number),
    }
}

/// What an argument is.
enum Kind {
    /// A number.
    Same,
    /// Where the answer goes.
    Out,
    /// The address of a path.
    Path,
    /// The address of what is written.
    Content,
    /// What it names does not matter for the answer.
    Any,
}

/// The arguments of calls that are the same where these are.
fn shape(number: i64, arguments: &[u64; 6]) -> Option<&'static [Kind]> {
    use Kind::{Any, Content, Out, Path, Same};
    Some(match number {
        // What is printed comes back to nobody.
        libc::SYS_write if is_printed(arguments) => &[Same, Any, Same],
        libc::SYS_write | libc::SYS_writev => &[Same, Content, Same],
        libc::SYS_pwrite64 => &[Same, Content, Same, Same],
        libc::SYS_pipe => &[Out],
        libc::SYS_pipe2 => &[Out, Same],
        libc::SYS_read | libc::SYS_getdents64 => &[Same, Out, Same],
        libc::SYS_pread64 => &[Same, Out, Same, Same],
        libc::SYS_fstat | libc::SYS_clock_gettime | libc::SYS_getrusage | libc::SYS_getrlimit => &[Same, Out],
        libc::SYS_gettimeofday => &[Out, Out],
        libc::SYS_time | libc::SYS_times | libc::SYS_uname | libc::SYS_sysinfo => &[Out],
        libc::SYS_getrandom => &[Out, Same, Same],
        libc::SYS_getcwd => &[Out, Same],
        libc::SYS_open => &[Path, Same],
        libc::SYS_openat => &[Same, Path, Same],
        libc::SYS_stat | libc::SYS_lstat => &[Path, Out],
        libc::SYS_newfstatat | libc::SYS_readlinkat => &[Same, Path, Out, Same],
        libc::SYS_statx => &[Same, Path, Same, Same, Out],
        libc::SYS_access | libc::SYS_mkdir | libc::SYS_chmod => &[Path, Same],
        libc::SYS_unlink | libc::SYS_rmdir | libc::SYS_chdir => &[Path],
        libc::SYS_faccessat2 => &[Same, Path, Same, Same],
        libc::SYS_faccessat | libc::SYS_unlinkat | libc::SYS_mkdirat => &[Same, Path, Same],
        libc::SYS_readlink => &[Path, Out, Same],
        libc::SYS_ioctl if matches!(arguments[1], libc::TCGETS | libc::TIOCGWINSZ | libc::FIONREAD) => {
            &[Same, Same, Out]
        }
        libc::SYS_fcntl if matches!(arguments[1] as i32, libc::F_GETFD | libc::F_GETFL) => &[Same, Same],
        libc::SYS_fcntl if matches!(arguments[1] as i32, libc::F_SETFD | libc::F_SETFL) => {
            &[Same, Same, Same]
        }
        libc::SYS_prlimit64 if arguments[2] == 0 => &[Same, Same, Same, Out],
        libc::SYS_rt_sigprocmask | libc::SYS_rt_sigaction => &[Same, Any, Out, Same],
        libc::SYS_sigaltstack => &[Any, Out],
        libc::SYS_sched_getaffinity => &[Same, Same, Out],
        libc::SYS_set_robust_list | libc::SYS_set_tid_address => &[Any],
        libc::SYS_nanosleep => &[Any, Out],
        libc::SYS_clock_nanosleep => &[Same, Same, Any, Out],
        libc::SYS_futex if is_wake(arguments) => &[Same, Same, Same],
        libc::SYS_lseek | libc::SYS_dup3 => &[Same, Same, Same],
        libc::SYS_dup2 | libc::SYS_ftruncate | libc::SYS_getpriority | libc::SYS_membarrier => &[Same, Same],
        libc::SYS_close
        | libc::SYS_dup
        | libc::SYS_fsync
        | libc::SYS_fdatasync
        | libc::SYS_umask
        | libc::SYS_alarm => &[Same],
        libc::SYS_sched_yield
        | libc::SYS_getpid
        | libc::SYS_gettid
        | libc::SYS_getppid
        | libc::SYS_getuid
        | libc::SYS_geteuid
        | libc::SYS_getgid
        | libc::SYS_getegid
        | libc::SYS_getpgrp => &[],
        _ => return None,
    })
}

fn is_wake(arguments: &[u64; 6]) -> bool {
    let command = arguments[1] as i32 & !(libc::FUTEX_PRIVATE_FLAG | libc::FUTEX_CLOCK_REALTIME);
    command == libc::FUTEX_WAKE
}

/// Standard output and error.
fn is_printed(arguments: &[u64; 6]) -> bool {
    matches!(arguments[0], 1 | 2)
}

/// Whether a call tells what is in a file, a pipe or a folder, or about one.
fn reads(number: i64) -> bool {
    matches!(
        number,
        libc::SYS_read
            | libc::SYS_readv
            | libc::SYS_pread64
            | libc::SYS_getdents64
            | libc::SYS_lseek
            | libc::SYS_fstat
            | libc::SYS_stat
            | libc::SYS_lstat
            | libc::SYS_newfstatat
            | libc::SYS_statx
    )
}

/// What a call is given in memory, as far as that decides about its answer.
fn given(number: i64, arguments: &[u64; 6], memory: &ProcessMemory) -> Option<Vec<u8>> {
    match number {
        libc::SYS_write | libc::SYS_writev | libc::SYS_pwrite64 if !is_printed(arguments) => {
            // Whether it is the same is all that is asked.
            let mut hasher = DefaultHasher::new();
            for (address, length) in pieces(number, arguments, memory) {
                let mut bytes = vec![0; length.min(LONGEST_WRITE) as usize];
                let count = memory.read_some(address, &mut bytes);
                hasher.write(&bytes[..count]);
            }
            Some(hasher.finish().to_le_bytes().to_vec())
        }
        _ => path_of(number, arguments, memory),
    }
}

/// The path that a call names, if it names one.
pub(super) fn path_of(number: i64, arguments: &[u64; 6], memory: &ProcessMemory) -> Option<Vec<u8>> {
    let at = shape(number, arguments)?.iter().position(|kind| matches!(kind, Kind::Path))?;
    let mut bytes = vec![0; LONGEST_PATH];
    let count = memory.read_some(arguments[at], &mut bytes);
    let end = bytes[..count].iter().position(|&byte| byte == 0)?;
    bytes.truncate(end);
    Some(bytes)
}

/// Where something that a call of the recording wrote goes now.
pub(super) fn moved(call: &Call, arguments: &[u64; 6], address: u64) -> u64 {
    let outs = shape(call.number, arguments).unwrap_or_default().iter().enumerate();
    let out = outs
        .filter(|(at, kind)| matches!(kind, Kind::Out) && call.arguments[*at] <= address)
        .max_by_key(|(at, _)| call.arguments[*at]);
    out.map_or(address, |(at, _)| address - call.arguments[at] + arguments[at])
}

/// The signal that a process sends to itself, where that would end it.
pub(super) fn signal_to_itself(number: i64, arguments: &[u64; 6], acting: Tid) -> Option<i32> {
    let (to, signal) = match number {
        libc::SYS_kill | libc::SYS_tkill => (arguments[0], arguments[1]),
        libc::SYS_tgkill => (arguments[1], arguments[2]),
        _ => return None,
    };
    let is_fatal =
        !matches!(signal as i32, 0 | libc::SIGCHLD | libc::SIGURG | libc::SIGWINCH | libc::SIGCONT);
    (to as i32 == acting.0 && is_fatal).then_some(signal as i32)
}
