//! Processes that were killed. To take their memory apart can take the system milliseconds, for which nobody waits.

use std::{
    cell::RefCell,
    os::fd::{AsRawFd, OwnedFd},
};

use super::{
    TraceError,
    bell::descriptor,
    tracee::{Tid, kill},
};

thread_local! {
    /// Only the thread that traced a process hears of its end.
    static DYING: RefCell<Dying> = const { RefCell::new(Dying(Vec::new())) };
}

struct Dying(Vec<Tid>);

/// Kills a process. Its end is taken note of at one of the next times, or when the thread ends.
pub(crate) fn dismiss(process: Tid) {
    kill(process);
    let _ = DYING.try_with(|dying| {
        let dying = &mut dying.borrow_mut().0;
        dying.retain(|&process| !reap(process, libc::WNOHANG));
        dying.push(process);
    });
}

/// Kills a process, and waits for its end.
pub(crate) fn end(process: Tid) {
    kill(process);
    reap(process, 0);
}

/// Waits for the ends of all that were dismissed.
pub(super) fn bury_dismissed() {
    let _ = DYING.try_with(|dying| {
        dying.borrow_mut().0.drain(..).for_each(|process| {
            reap(process, 0);
        })
    });
}

/// Waits for the end of a process that ends by itself.
pub(super) fn bury(process: Tid) {
    reap(process, 0);
}

/// Somebody else took note of the end of a process.
pub(super) fn is_dead(process: Tid) {
    let _ = DYING.try_with(|dying| dying.borrow_mut().0.retain(|&other| other != process));
}

/// Tells whether the end of a process was taken note of.
#[derive(Debug)]
pub(crate) struct Life(OwnedFd);

impl Life {
    pub(crate) fn of(process: Tid) -> Result<Self, TraceError> {
        descriptor(process).map(Self)
    }

    /// Whether nothing is left of it, so that there is nothing to wait for.
    pub(crate) fn is_over(&self) -> bool {
        let (process, no_info) = (self.0.as_raw_fd(), std::ptr::null::<libc::siginfo_t>());
        // SAFETY: the call may be given no siginfo, and no signal.
        let sent = unsafe { libc::syscall(libc::SYS_pidfd_send_signal, process, 0, no_info, 0) };
        sent == -1 && std::io::Error::last_os_error().raw_os_error() == Some(libc::ESRCH)
    }
}

impl Drop for Dying {
    fn drop(&mut self) {
        for &process in &self.0 {
            reap(process, 0);
        }
    }
}

/// Takes note of the end of a process, if it has come.
fn reap(process: Tid, how: i32) -> bool {
    loop {
        let mut status = 0;
        // SAFETY: `status` lives for the call.
        match unsafe { libc::waitpid(process.0, &mut status, libc::__WALL | how) } {
            0 => return false,
            // Somebody else took note of it.
            -1 if std::io::Error::last_os_error().kind() != std::io::ErrorKind::Interrupted => return true,
            // What it told before it was killed.
            found if found > 0 && libc::WIFSTOPPED(status) => {}
            -1 => {}
            _ => return true,
        }
    }
}
