//! Waking the thread that traces, from another thread.
//!
//! That thread sleeps in `waitpid`, and only it may interrupt what it traces. A signal to the program would wake it, too, but
//! such a signal can come too late and stop a program that was let go, or get lost with a `SIGCONT`. So the thread traces one
//! process more, which does nothing but get signals.

use std::{
    os::fd::{AsRawFd, FromRawFd, OwnedFd},
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
};

use hindcast_core::debug::Interrupt;

use super::{Event, Resume, Stopped, Tid, TraceError, attach_thread, dying};

/// Ignored by default: harmless, whoever gets it.
const RING: libc::c_int = libc::SIGURG;
const STACK: usize = 16 << 10;

/// Belongs to the thread that traces.
#[derive(Debug)]
pub(crate) struct Bell {
    /// The process that gets the signals. It shares our memory, and needs only a stack of its own. None where it was killed
    /// and no other could be started.
    process: Option<Tid>,
    stack: Box<[u128]>,
    rope: Arc<Rope>,
}

/// What others ring the bell with.
#[derive(Debug)]
pub(crate) struct Rope {
    /// Not a number, which another process could have by now.
    process: Mutex<OwnedFd>,
    interrupts: AtomicBool,
    beats: AtomicBool,
}

/// What the bell was rung for.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Rung {
    /// Somebody wants the program to stop.
    pub(crate) interrupt: bool,
    /// It is time for another checkpoint.
    pub(crate) beat: bool,
}

impl Bell {
    /// For this thread.
    pub(crate) fn new() -> Result<Self, TraceError> {
        let mut stack = vec![0u128; STACK / size_of::<u128>()].into_boxed_slice();
        let (process, descriptor) = hang(&mut stack)?;
        let rope = Rope {
            process: Mutex::new(descriptor),
            interrupts: AtomicBool::new(false),
            beats: AtomicBool::new(false),
        };
        Ok(Self { process: Some(process), stack, rope: Arc::new(rope) })
    }

    pub(crate) fn rope(&self) -> Arc<Rope> {
        self.rope.clone()
    }

    /// What an event of the bell means; gives back the events of others.
    pub(crate) fn hear(&mut self, event: Event) -> Result<Rung, Event> {
        match event {
            Event::Signal(stopped, _) | Event::Stop(stopped, _) if Some(stopped.tid()) == self.process => {
                Ok(self.answer(stopped))
            }
            Event::Exited(tid, _) | Event::Killed(tid, _) if Some(tid) == self.process => {
                Ok(self.hang_another())
            }
            other => Err(other),
        }
    }

    /// Somebody killed the process that gets the signals.
    fn hang_another(&mut self) -> Rung {
        self.process = None;
        match hang(&mut self.stack) {
            Ok((process, descriptor)) => {
                self.process = Some(process);
                *self.rope.process.lock().unwrap_or_else(PoisonError::into_inner) = descriptor;
                // Somebody may have rung the old one.
                self.rung()
            }
            // A program that cannot be stopped any more is stopped now.
            Err(_) => Rung { interrupt: true, beat: false },
        }
    }

    /// What the bell was rung for, also where its event has not come yet.
    pub(crate) fn rung(&self) -> Rung {
        let Rope { interrupts, beats, .. } = &*self.rope;
        Rung {
            interrupt: interrupts.swap(false, Ordering::SeqCst),
            beat: beats.swap(false, Ordering::SeqCst),
        }
    }

    fn answer(&self, stopped: Stopped) -> Rung {
        // First, so that who rings now is heard again.
        let _ = stopped.resume(Resume::Continue, 0);
        self.rung()
    }
}

impl Drop for Bell {
    fn drop(&mut self) {
        if let Some(process) = self.process {
            dying::end(process);
        }
    }
}

impl Rope {
    /// Says that it is time for another checkpoint.
    pub(crate) fn beat(&self) {
        self.beats.store(true, Ordering::SeqCst);
        self.pull();
    }

    /// Nobody needs to hear of an interruption that has not been heard yet.
    pub(crate) fn forget_interruption(&self) {
        self.interrupts.store(false, Ordering::SeqCst);
    }

    fn pull(&self) {
        let process = self.process.lock().unwrap_or_else(PoisonError::into_inner);
        let no_info = std::ptr::null::<libc::siginfo_t>();
        // A bell that is gone needs no ringing.
        // SAFETY: the call may be given no siginfo.
        unsafe { libc::syscall(libc::SYS_pidfd_send_signal, process.as_raw_fd(), RING, no_info, 0) };
    }
}

impl Interrupt for Rope {
    fn interrupt(&self) {
        self.interrupts.store(true, Ordering::SeqCst);
        self.pull();
    }
}

/// Starts the process that gets the signals, and traces it.
fn hang(stack: &mut [u128]) -> Result<(Tid, OwnedFd), TraceError> {
    let process = start(stack)?;
    let descriptor = attach_thread(process, true).and_then(|_| descriptor(process));
    let descriptor = descriptor.inspect_err(|_| dying::end(process))?;
    Ok((process, descriptor))
}

/// Starts a process that waits for signals. All but one are blocked, from its beginning.
fn start(stack: &mut [u128]) -> Result<Tid, TraceError> {
    // SAFETY: the signal sets live for the calls and are initialised by them; the child runs `idle` on a stack that is
    // freed only after its end, and has our memory and descriptors.
    let process = unsafe {
        let (mut blocked, mut before): (libc::sigset_t, libc::sigset_t) =
            (std::mem::zeroed(), std::mem::zeroed());
        libc::sigfillset(&raw mut blocked);
        libc::sigdelset(&raw mut blocked, RING);
        libc::pthread_sigmask(libc::SIG_SETMASK, &raw const blocked, &raw mut before);
        let top = stack.as_mut_ptr_range().end.cast();
        let process =
            libc::clone(idle, top, libc::CLONE_VM | libc::CLONE_FILES | libc::CLONE_FS, std::ptr::null_mut());
        let failed = TraceError::last("cannot start a process");
        libc::pthread_sigmask(libc::SIG_SETMASK, &raw const before, std::ptr::null_mut());
        if process == -1 {
            return Err(failed);
        }
        process
    };
    Ok(Tid(process))
}

/// Uses nothing that belongs to a thread, because that is our thread's.
extern "C" fn idle(_: *mut libc::c_void) -> libc::c_int {
    loop {
        // SAFETY: `pause` takes nothing and changes only the registers that are named.
        unsafe {
            core::arch::asm!(
                "syscall",
                inlateout("rax") libc::SYS_pause => _,
                out("rcx") _,
                out("r11") _,
                options(nostack)
            );
        }
    }
}

/// Holds a process without its number.
pub(super) fn descriptor(process: Tid) -> Result<OwnedFd, TraceError> {
    // SAFETY: the call takes no pointers.
    let descriptor = unsafe { libc::syscall(libc::SYS_pidfd_open, process.0, 0) };
    if descriptor == -1 {
        return Err(TraceError::last("cannot open the process"));
    }
    // SAFETY: the system gave it to us just now.
    Ok(unsafe { OwnedFd::from_raw_fd(descriptor as i32) })
}
