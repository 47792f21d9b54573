//! Calls into the runtime's debugging library that never return, because the program was killed in the middle of them.

use std::{
    ffi::c_int,
    io,
    sync::{
        Arc, Weak,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

use super::remains::Remains;

/// The exit code of a process whose session waits for a program that was killed, and cannot stop waiting.
pub const STUCK: i32 = 87;
/// How long a call may take to return after the program's end.
const RETURNS_WITHIN: Duration = Duration::from_secs(4);
/// How long to wait before looking whether it has returned.
const GLANCE: Duration = Duration::from_millis(20);
/// How long to wait for a program's end before looking whether its session is still there.
const WATCH_MS: c_int = 1000;

/// Counts the calls of a session. One that is under way when the program is killed may wait for the program's answer for ever.
#[derive(Debug, Default)]
pub(crate) struct Calls(AtomicU64);

/// A call that is under way.
pub(crate) struct Call(Arc<Calls>);

impl Calls {
    pub(crate) fn enter(self: &Arc<Self>) -> Call {
        self.0.fetch_add(1, Ordering::SeqCst);
        Call(self.clone())
    }

    /// The call that is under way.
    fn current(&self) -> Option<u64> {
        Some(self.0.load(Ordering::SeqCst)).filter(|count| count % 2 == 1)
    }

    /// Ends this process if a call that was under way at the end of the program does not return: nothing else can be done.
    pub(super) fn leave_if_stuck(&self) {
        let Some(call) = self.current() else { return };
        let until = Instant::now() + RETURNS_WITHIN;
        while Instant::now() < until {
            std::thread::sleep(GLANCE);
            if self.current() != Some(call) {
                return;
            }
        }
        tracing::error!("the runtime's debugging library waits for a program that has ended");
        // SAFETY: the library's own code is not run at the end, which would wait, too.
        unsafe { libc::_exit(STUCK) }
    }

    /// Watches for the end of a program that was running before. Of one that we have started, its guardian tells the end.
    pub(crate) fn watch(self: &Arc<Self>, program: Remains) -> io::Result<()> {
        let calls: Weak<Self> = Arc::downgrade(self);
        let watch = move || {
            while await_end(program, WATCH_MS) == Waited::Lives {
                if calls.strong_count() == 0 {
                    return;
                }
            }
            if let Some(calls) = calls.upgrade() {
                calls.leave_if_stuck();
            }
        };
        std::thread::Builder::new().name("debuggee-exit".into()).spawn(watch).map(drop)
    }
}

impl Drop for Call {
    fn drop(&mut self) {
        self.0.0.fetch_add(1, Ordering::SeqCst);
    }
}

/// Ends this process as if somebody had killed it: whoever started it then lets go of the program in its place.
pub(crate) fn give_up(why: &str) -> ! {
    tracing::error!("{why}");
    // SAFETY: neither takes a pointer; the second is never reached.
    unsafe {
        libc::kill(libc::getpid(), libc::SIGKILL);
        libc::_exit(STUCK)
    }
}

/// What became of a program that was waited for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Waited {
    Lives,
    Ended,
}

/// Waits for the end of a program. Nothing here allocates: the handler of faults uses it.
pub(super) fn await_end(program: Remains, milliseconds: c_int) -> Waited {
    if program.is_alive() {
        // SAFETY: these calls are safe in a handler, and the descriptor is ours.
        unsafe {
            let descriptor = libc::syscall(libc::SYS_pidfd_open, program.pid(), 0);
            let mut ended = libc::pollfd {
                fd: c_int::try_from(descriptor).unwrap_or(-1),
                events: libc::POLLIN,
                revents: 0,
            };
            // Without a descriptor, where the system has none to give, this only waits.
            libc::poll(&mut ended, 1, milliseconds);
            if ended.fd >= 0 {
                libc::close(ended.fd);
            }
        }
    }
    if program.is_alive() { Waited::Lives } else { Waited::Ended }
}
