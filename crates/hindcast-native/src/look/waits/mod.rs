//! What blocked threads wait for: by the system call that each is in, the functions that made it, and the memory of locks.

mod call;
mod files;
mod functions;

use std::cell::OnceCell;

use hindcast_core::debug::{RuntimeAddr, Thread, ThreadId, Wait, WaitKind};

use self::{
    call::{Blocking, blocking_call},
    functions::{Function, Layout},
};
use super::{Scene, Walk, walk};
use crate::sys::{self, GeneralRegisters, Mapping, Tid};

/// Library code between a wait and the code that waits is not deeper than this.
const NEAR: usize = 32;
/// Where glibc keeps the number of a thread, behind the beginning of its thread-local storage.
const NUMBER_OF_THREAD: u64 = 0x2d0;
/// Where a `pthread_mutex_t` keeps the thread that holds it.
const HOLDER_OF_MUTEX: u64 = 8;
/// Where a `pthread_rwlock_t` keeps the thread that writes, and its words that threads wait at: the second one is where only
/// writers wait.
const WRITER_OF_RWLOCK: u64 = 24;
const WORDS_OF_RWLOCK: [u64; 2] = [8, 12];
/// Where the words of a `pthread_cond_t` are that threads wait at, before and since glibc 2.41.
const WORDS_OF_CONDITION: [u64; 4] = [40, 44, 32, 36];
/// The registers that functions keep for their callers, by their DWARF numbers: rbx, rbp, r12 to r15.
const KEPT_REGISTERS: [u16; 6] = [3, 6, 12, 13, 14, 15];

/// A thread where it stands.
pub(crate) struct Standing {
    pub(crate) id: ThreadId,
    pub(crate) registers: GeneralRegisters,
    pub(crate) stage: Stage,
}

/// What a thread's registers tell of the call that it is in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Stage {
    /// It stands behind the call, which is made again when it goes on.
    Live,
    /// The same in a core file, where nobody has mended the calls that fail when their thread is stopped.
    Dead,
    /// It does not run at this moment of a recording, and stands before the call that it is in.
    Off,
    /// It runs at this moment of a recording: a call that it stands before may be over at once.
    On,
}

/// The threads of a program that stands still.
pub(crate) struct Waits<'a> {
    scene: &'a Scene<'a>,
    threads: &'a [Standing],
    /// The process, where it is the one that is looked at.
    process: Option<Tid>,
    /// Whether a signal could make a thread act.
    handles_signals: bool,
    /// Read when it is first asked for.
    mappings: OnceCell<Vec<Mapping>>,
}

/// Says what the threads wait for in words, too.
pub(crate) fn put_into_words(threads: &mut [Thread]) {
    let names: Vec<_> = threads.iter().map(|thread| (thread.id, thread.name.clone())).collect();
    for thread in threads {
        let own = thread.id;
        let name = |id: ThreadId| match names.iter().find(|(known, _)| *known == id) {
            _ if id == own => "the same thread".to_owned(),
            Some((_, name)) if !name.is_empty() => format!("thread {id} ({name})"),
            Some(_) => format!("thread {id}"),
            None => format!("thread {id} (no longer in this process)"),
        };
        thread.waits_for = thread.wait.as_ref().map(|wait| wait.in_words(name));
    }
}

/// The call of the system by which threads wait at a word of memory.
struct Futex {
    word: u64,
    operation: i32,
    expected: u32,
    /// Whether no other process can wake it.
    is_private: bool,
    timeout: u64,
}

impl<'a> Waits<'a> {
    /// `process` is the process, where it is the one that is looked at.
    pub(crate) fn new(scene: &'a Scene<'a>, threads: &'a [Standing], process: Option<Tid>) -> Self {
        let handles_signals = process.is_none_or(sys::handles_signals);
        Self { scene, threads, process, handles_signals, mappings: OnceCell::new() }
    }

    /// What a thread waits for; none where it does not wait, or where that cannot be told.
    pub(crate) fn of(&self, thread: &Standing) -> Option<Wait> {
        let walk = || walk(self.scene, &thread.registers, 0, NEAR);
        let call = blocking_call(self.scene, thread, walk)?;
        if call.number != libc::SYS_futex {
            return (thread.stage != Stage::On).then(|| self.outside(&call)).flatten();
        }
        let [word, operation, expected, timeout, ..] = call.arguments;
        let operation = operation as i32;
        let futex = Futex {
            word,
            operation: operation & !(libc::FUTEX_PRIVATE_FLAG | libc::FUTEX_CLOCK_REALTIME),
            expected: expected as u32,
            is_private: operation & libc::FUTEX_PRIVATE_FLAG != 0,
            timeout,
        };
        let wait = match futex.operation {
            // Once the word has changed, the thread goes on, even if nobody wakes it: the system looks again.
            libc::FUTEX_WAIT | libc::FUTEX_WAIT_BITSET if self.word(word) != Some(futex.expected) => None,
            libc::FUTEX_WAIT | libc::FUTEX_WAIT_BITSET => Some(self.at_word(thread, &futex, &walk())),
            // A mutex whose holder inherits the priority of those who wait.
            libc::FUTEX_LOCK_PI | libc::FUTEX_LOCK_PI2 => Some(self.at_mutex(thread, &futex)),
            _ => None,
        }?;
        Some(self.limited(wait, &futex))
    }

    /// The wait with what can end it beside the one who has to act.
    fn limited(&self, wait: Wait, futex: &Futex) -> Wait {
        let is_within = futex.is_private || self.is_in_own_memory(futex.word);
        let only_threads = is_within && !self.handles_signals;
        match futex.timeout {
            0 => Wait { only_threads, ..wait },
            // The moment when it ends.
            _ if futex.operation != libc::FUTEX_WAIT => Wait { may_time_out: true, ..wait },
            timeout => self.timed(wait, timeout, 1_000_000),
        }
    }

    /// Whether no other process can write to the memory at an address.
    fn is_in_own_memory(&self, address: u64) -> bool {
        let mappings = self
            .mappings
            .get_or_init(|| self.process.and_then(|process| sys::mappings(process).ok()).unwrap_or_default());
        let around = mappings.iter().find(|mapping| (mapping.start..mapping.end).contains(&address));
        around.is_some_and(|mapping| mapping.permissions.ends_with('p'))
    }

    fn at_word(&self, thread: &Standing, futex: &Futex, walk: &Walk) -> Wait {
        if let Some(joined) = self.thread_that_clears(futex) {
            return Wait { held_by: Some(joined), ..Wait::new(WaitKind::Thread) };
        }
        let functions = functions::up_to_own(self.scene, walk);
        let Some((at, found)) = functions::innermost(&functions) else {
            return self.part_of(of(WaitKind::Signal, "futex"), futex.word);
        };
        if matches!(found.kind, WaitKind::Unpark | WaitKind::Condition)
            && let Some(made_of_it) = functions::made_of_others(&functions)
        {
            return of(made_of_it.kind, made_of_it.object);
        }
        match found.layout {
            Layout::Mutex => self.at_mutex(thread, futex),
            // A thread that was signalled wants the mutex back. Those that were not have another operation.
            Layout::Condition if futex.operation == libc::FUTEX_WAIT && futex.expected == 2 => {
                self.at_mutex(thread, futex)
            }
            Layout::Condition => {
                let physical = functions.get(at).and_then(|function| walk.physical.get(function.physical));
                let kept = physical.map(|frame| {
                    KEPT_REGISTERS.map(|register| frame.registers.get(register).unwrap_or_default())
                });
                self.at_condition(futex, kept.unwrap_or_default(), found)
            }
            Layout::RwLock => self.at_rwlock(thread, futex),
            Layout::Word(offset) => self.named(of(found.kind, found.object), futex.word - offset),
            Layout::Silent => {
                let wait = Wait { holder_unknown: true, ..of(WaitKind::Lock, found.object) };
                self.part_of(wait, futex.word)
            }
            Layout::Part => self.part_of(of(found.kind, found.object), futex.word),
            Layout::Elsewhere => {
                Wait { holder_unknown: found.kind == WaitKind::Lock, ..of(found.kind, found.object) }
            }
        }
    }

    /// The thread whose number the system clears at its end, where it is waited for.
    fn thread_that_clears(&self, futex: &Futex) -> Option<ThreadId> {
        let is_it = |thread: &&Standing| {
            thread.id.0 == futex.expected
                && thread.registers.fs_base().wrapping_add(NUMBER_OF_THREAD) == futex.word
        };
        self.threads.iter().find(is_it).map(|thread| thread.id)
    }

    fn at_mutex(&self, thread: &Standing, futex: &Futex) -> Wait {
        let wait = self.named(of(WaitKind::Lock, "pthread_mutex_t"), futex.word);
        self.held(wait, thread, futex.word.wrapping_add(HOLDER_OF_MUTEX))
    }

    fn at_rwlock(&self, thread: &Standing, futex: &Futex) -> Wait {
        // The lock itself is aligned.
        let [both, writers] = WORDS_OF_RWLOCK;
        let start = futex.word.wrapping_sub(if futex.word.is_multiple_of(8) { both } else { writers });
        let wait = self.named(of(WaitKind::Lock, "pthread_rwlock_t"), start);
        let writer = start.wrapping_add(WRITER_OF_RWLOCK);
        // Those who read are only counted.
        match self.threads.iter().any(|known| Some(known.id.0) == self.word(writer)) {
            true => self.held(wait, thread, writer),
            false => Wait { holder_unknown: true, ..wait },
        }
    }

    /// The function that waits has the condition variable in one of its registers, or nobody knows where it begins.
    fn at_condition(&self, futex: &Futex, kept: [u64; 6], found: &Function) -> Wait {
        let mut starts = kept
            .into_iter()
            .filter(|start| WORDS_OF_CONDITION.iter().any(|word| start.wrapping_add(*word) == futex.word));
        let wait = of(WaitKind::Condition, found.object);
        match (starts.next(), starts.next()) {
            (Some(start), None) => self.named(wait, start),
            _ => Wait { object_address: None, ..self.part_of(wait, futex.word) },
        }
    }

    /// The lock with the thread that the word at `address` names.
    fn held(&self, wait: Wait, thread: &Standing, address: u64) -> Wait {
        // Other libraries have other locks, and in another namespace threads have other numbers.
        let number = thread.registers.fs_base().wrapping_add(NUMBER_OF_THREAD);
        let is_glibc = self.word(number) == Some(thread.id.0);
        match self.word(address) {
            // It is being taken or left just now.
            Some(0) => wait,
            Some(holder) if is_glibc => {
                Wait { held_by: Some(ThreadId(holder)), holder_address: Some(RuntimeAddr(address)), ..wait }
            }
            _ => Wait { holder_unknown: true, ..wait },
        }
    }

    /// The wait at an object that begins at `address`.
    fn named(&self, wait: Wait, address: u64) -> Wait {
        let name = self.scene.symbols.variable_at(address).map(|(name, offset)| match offset {
            0 => name,
            offset => format!("{name}+{offset}"),
        });
        Wait { name, object_address: Some(RuntimeAddr(address)), ..wait }
    }

    /// The wait at an object that `address` is somewhere in.
    fn part_of(&self, wait: Wait, address: u64) -> Wait {
        let name = self.scene.symbols.variable_at(address).map(|(name, _)| name);
        Wait { name, object_address: Some(RuntimeAddr(address)), ..wait }
    }

    fn word(&self, address: u64) -> Option<u32> {
        let word = self.scene.memory.read_uint(address, 4).ok()?;
        u32::try_from(word).ok()
    }

    /// The wait for at most the time at `address`: seconds, and parts of which `in_millisecond` make one; for ever without.
    fn timed(&self, wait: Wait, address: u64, in_millisecond: u64) -> Wait {
        if address == 0 {
            return wait;
        }
        let number = |address| self.scene.memory.read_uint(address, 8).ok();
        let milliseconds = || {
            let (seconds, parts) = (number(address)?, number(address.wrapping_add(8))?);
            let milliseconds = seconds.checked_mul(1000)?.checked_add(parts.div_ceil(in_millisecond))?;
            u32::try_from(milliseconds).ok()
        };
        match milliseconds() {
            Some(timeout) => Wait { timeout_ms: Some(timeout), ..wait },
            None => Wait { may_time_out: true, ..wait },
        }
    }

    /// For what comes from outside: input, time, other processes.
    fn outside(&self, call: &Blocking) -> Option<Wait> {
        let [first, second, third, fourth, ..] = call.arguments;
        Some(match call.number {
            libc::SYS_nanosleep => self.timed(Wait::new(WaitKind::Time), first, 1_000_000),
            libc::SYS_clock_nanosleep if second as i32 & libc::TIMER_ABSTIME == 0 => {
                self.timed(Wait::new(WaitKind::Time), third, 1_000_000)
            }
            libc::SYS_clock_nanosleep => Wait { may_time_out: true, ..Wait::new(WaitKind::Time) },
            libc::SYS_wait4 => self.child(first as i32),
            libc::SYS_waitid => self.child(if first == u64::from(libc::P_PID) { second as i32 } else { -1 }),
            libc::SYS_pause | libc::SYS_rt_sigsuspend => Wait::new(WaitKind::SystemSignal),
            libc::SYS_rt_sigtimedwait => self.timed(Wait::new(WaitKind::SystemSignal), third, 1_000_000),
            libc::SYS_semop => of(WaitKind::Signal, "System V semaphore"),
            libc::SYS_semtimedop => self.timed(of(WaitKind::Signal, "System V semaphore"), fourth, 1_000_000),
            _ => return self.for_files(call),
        })
    }

    fn child(&self, process: i32) -> Wait {
        let process = u32::try_from(process).ok().filter(|process| *process != 0);
        Wait { process, ..Wait::new(WaitKind::Process) }
    }
}

/// A wait at an object of this type.
fn of(kind: WaitKind, object: &str) -> Wait {
    Wait { object: Some(object.to_owned()), ..Wait::new(kind) }
}
