//! A system call between its beginning and its end, and how it is replayed.

use super::{
    Recorder,
    calls::{self, Effect},
    controls,
    log::{Event, Replay},
    scratch::Redirect,
    sharing::{Unrepeatable, Way},
    written::{Places, printed, receives_descriptors, sends_control_data, written},
};
use crate::sys::{self, ProcessMemory, Stopped, TraceError};

#[derive(Debug, Clone)]
pub(super) struct PendingCall {
    pub(super) number: i64,
    pub(super) arguments: [u64; 6],
    pub(super) pc: u64,
    pub(super) effect: Effect,
    /// Whether the numbers are those of 32-bit programs.
    pub(super) is_32_bit: bool,
    /// Where it writes, beside what its arguments say; `None` where that cannot be told.
    pub(super) places: Option<Places>,
    /// Where it writes instead, as long as others may run meanwhile.
    pub(super) redirect: Option<Redirect>,
}

impl PendingCall {
    pub(super) fn new(number: i64, arguments: [u64; 6], pc: u64, memory: &ProcessMemory) -> Self {
        let effect = calls::effect_of(number, &arguments);
        let places = match effect {
            Effect::Writes(outs) => Places::read(memory, outs, &arguments),
            _ => Some(Places::default()),
        };
        Self { number, arguments, pc, effect, is_32_bit: false, places, redirect: None }
    }

    pub(super) fn of_32_bits(number: i64, arguments: [u64; 6], pc: u64) -> Self {
        let effect = calls::effect_in_32_bits(number);
        Self { number, arguments, pc, effect, is_32_bit: true, places: None, redirect: None }
    }

    /// What makes a process, under its 64-bit number.
    pub(super) fn cloning(&self) -> i64 {
        if self.is_32_bit { calls::cloning_in_64_bits(self.number).unwrap_or(0) } else { self.number }
    }

    /// Whether it may open a file.
    pub(super) fn opens(&self) -> bool {
        self.is_32_bit || opens(self.number)
    }
}

impl Recorder {
    /// How a call that is over is replayed; `None` where it cannot be, so that a checkpoint has to follow.
    pub(super) fn replay(
        &mut self,
        call: &PendingCall,
        result: i64,
        memory: &ProcessMemory,
    ) -> Result<Option<Replay>, Unrepeatable> {
        const FAILED: std::ops::Range<i64> = -4095..0;
        let PendingCall { number, arguments, .. } = *call;
        let nothing = || Ok(Some(Replay::Emulate(Box::default())));
        let failed = FAILED.contains(&result);
        if call.is_32_bit {
            self.sharing.forget_who_opens();
            return Ok(None);
        }
        self.sharing.on_descriptors(number, &arguments, failed);
        match number {
            libc::SYS_memfd_create if !failed => self.sharing.on_memory_file(result),
            libc::SYS_sendmsg | libc::SYS_sendmmsg if sends_control_data(memory, number, &arguments) => {
                self.sharing.on_descriptors_sent()?;
            }
            libc::SYS_recvmsg | libc::SYS_recvmmsg
                if receives_descriptors(memory, number, &arguments, result) =>
            {
                self.sharing.on_descriptors_received();
            }
            _ if opens(number) => self.sharing.after_opening(result as i32)?,
            _ if !failed && confines(number) => self.confined = true,
            _ => {}
        }
        if !failed && self.sharing.is_written_by(number, &arguments) {
            return Ok(None);
        }
        match call.effect {
            Effect::Result if number == libc::SYS_write && matches!(arguments[0], 1 | 2) => {
                Ok(Some(Replay::Emulate(printed(memory, &arguments, result))))
            }
            Effect::Result => {
                if number == libc::SYS_madvise && !failed && controls::keeps_from_forks(arguments[2] as i32) {
                    self.sharing.keep_from_forks();
                }
                nothing()
            }
            // Some calls write until they come upon memory that is not there.
            Effect::Writes(_) if result == -i64::from(libc::EFAULT) => Ok(None),
            Effect::Writes(_) if self.writes_beyond(call, result) => Ok(None),
            Effect::Writes(outs) => {
                let places = call.places.as_ref();
                let writes = places.and_then(|places| written(memory, outs, places, &arguments, result));
                Ok(writes.map(Replay::Emulate))
            }
            Effect::SignalReturn => Ok(Some(Replay::Real)),
            Effect::Space if failed => nothing(),
            Effect::Space if number == libc::SYS_mmap => self.mapped(&arguments),
            // In a replica, shared memory is private, for which these mean something else.
            Effect::Space
                if matches!(number, libc::SYS_madvise | libc::SYS_mremap)
                    && !self.sharing.areas().is_empty() =>
            {
                Ok(None)
            }
            Effect::Space => Ok(Some(Replay::Real)),
            Effect::EndsRecording(_) | Effect::Thread if failed => nothing(),
            Effect::EndsRecording(reason) => {
                Err(Unrepeatable { reason: reason.to_owned(), since_last_look: false })
            }
            // There is no such call, or no such request: nothing was done.
            _ if [-i64::from(libc::ENOSYS), -i64::from(libc::ENOTTY)].contains(&result) => nothing(),
            _ => Ok(None),
        }
    }

    /// A call is interrupted, and will be made again from where the program stands then.
    pub(super) fn interrupted(&mut self, call: &PendingCall, memory: &ProcessMemory) {
        let outs = calls::written_when_interrupted(call.number);
        let writes = written(memory, outs, &Places::default(), &call.arguments, 0).unwrap_or_default();
        if !writes.is_empty() {
            self.log.push(Event::Interrupted { number: call.number, pc: call.pc, writes });
            self.timeline.leave_frontier();
        }
    }

    /// How a new mapping is made again.
    fn mapped(&mut self, arguments: &[u64; 6]) -> Result<Option<Replay>, Unrepeatable> {
        let [_, _, _, flags, descriptor, _] = *arguments;
        let (flags, descriptor) = (flags as i32, descriptor as i32);
        let shared = flags & libc::MAP_TYPE != libc::MAP_PRIVATE;
        if flags & libc::MAP_ANONYMOUS != 0 {
            if flags & libc::MAP_TYPE == MAP_DROPPABLE {
                self.sharing.keep_from_forks();
            }
            return Ok((!shared).then_some(Replay::Map(None)));
        }
        if self.sharing.map(descriptor, shared)? == Way::Copied {
            return Ok(None);
        }
        // A file that cannot be read can be mapped by who opened it, but not by us.
        let file = self.log.files.open(&format!("/proc/{}/fd/{descriptor}", self.process.0));
        Ok(file.ok().filter(|_| !self.confined).map(|file| Replay::Map(Some(file))))
    }

    /// Whether a call that reads may have written more than its result says: around the page cache, whole blocks are read.
    fn writes_beyond(&self, call: &PendingCall, result: i64) -> bool {
        let asked = match call.number {
            libc::SYS_read | libc::SYS_pread64 => call.arguments[2] as i64,
            // How much that is stands in a list.
            libc::SYS_readv | libc::SYS_preadv | libc::SYS_preadv2 => i64::MAX,
            _ => return false,
        };
        result < asked && self.sharing.reads_around_cache(call.arguments[0] as i32)
    }
}

/// The libc crate does not name it.
const MAP_DROPPABLE: i32 = 8;

/// Whether a call opens a file.
fn opens(number: i64) -> bool {
    const CALLS: [i64; 7] = [
        libc::SYS_open,
        libc::SYS_openat,
        libc::SYS_openat2,
        libc::SYS_creat,
        libc::SYS_open_by_handle_at,
        libc::SYS_execve,
        libc::SYS_execveat,
    ];
    CALLS.contains(&number)
}

/// Whether the process may be unable to open what we can, once it has made a call.
fn confines(number: i64) -> bool {
    const CALLS: [i64; 14] = [
        libc::SYS_chroot,
        libc::SYS_pivot_root,
        libc::SYS_unshare,
        libc::SYS_setns,
        libc::SYS_landlock_restrict_self,
        libc::SYS_capset,
        libc::SYS_setuid,
        libc::SYS_setreuid,
        libc::SYS_setresuid,
        libc::SYS_setfsuid,
        libc::SYS_setgid,
        libc::SYS_setregid,
        libc::SYS_setresgid,
        libc::SYS_setgroups,
    ];
    CALLS.contains(&number)
}

/// The call in which a process was stopped that will be made again, under another name where it has to go on with what is
/// left of it.
pub(super) fn interrupted_call(thread: &Stopped) -> Result<Option<PendingCall>, TraceError> {
    let registers = thread.registers()?;
    let value = |name: &str| registers.get(name).unwrap_or_default();
    let number = value("orig_rax") as i64;
    if number < 0 || !sys::restarts(value("rax") as i64) {
        return Ok(None);
    }
    let arguments = ["rdi", "rsi", "rdx", "r10", "r8", "r9"].map(value);
    let memory = ProcessMemory::open(thread.tid()).map_err(|_| TraceError::Gone)?;
    Ok(Some(PendingCall::new(number, arguments, registers.pc(), &memory)))
}
