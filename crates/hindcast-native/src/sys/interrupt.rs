//! Stopping a replica from another thread than the one that traces it. It is ours alone, so that a signal can do that.

use std::os::fd::{AsRawFd, OwnedFd};

use hindcast_core::debug::Interrupt;

use super::{Tid, TraceError};

/// Sent along with the signal, so that it is not taken for one of somebody else.
pub(crate) const INTERRUPT_MARK: u64 = 0x6869_6e64_6361_7374;

/// The same, at the end of a time that a replica was given.
pub(crate) const ALARM_MARK: u64 = INTERRUPT_MARK + 1;

/// Sends a marked `SIGSTOP`: it cannot be blocked, and the tracing thread sees it before the process
/// does, and keeps it.
#[derive(Debug)]
pub(crate) struct ProcessInterrupt {
    /// Not a number, which another process could have by now.
    process: OwnedFd,
}

impl ProcessInterrupt {
    pub(crate) fn new(process: Tid) -> Result<Self, TraceError> {
        super::bell::descriptor(process).map(|process| Self { process })
    }

    /// Stops the process, with this mark.
    pub(crate) fn send(&self, mark: u64) {
        // SAFETY: all zeroes is a valid siginfo.
        let mut info: libc::siginfo_t = unsafe { std::mem::zeroed() };
        info.si_signo = libc::SIGSTOP;
        info.si_code = libc::SI_QUEUE;
        // The layout of a signal with a value: number, errno, code, padding, pid, uid, value.
        let words: *mut u64 = (&raw mut info).cast();
        // SAFETY: a siginfo is 128 bytes, aligned to 8; the value is its fourth word.
        unsafe { *words.add(3) = mark };
        // A process that is gone needs no interruption.
        // SAFETY: `info` lives for the call.
        unsafe {
            libc::syscall(
                libc::SYS_pidfd_send_signal,
                self.process.as_raw_fd(),
                libc::SIGSTOP,
                &raw const info,
                0,
            )
        };
    }
}

impl Interrupt for ProcessInterrupt {
    fn interrupt(&self) {
        self.send(INTERRUPT_MARK);
    }
}
