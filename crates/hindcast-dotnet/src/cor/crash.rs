//! Crashes of the runtime's debugging library when its program is killed.
//!
//! The library uses objects of a process that has just ended, and faults (in about one of a hundred programs that are killed).
//! The process that it takes with it then says that the program was killed, not that the debugger is broken.

use std::{
    cell::UnsafeCell,
    ffi::{c_int, c_void},
    mem::MaybeUninit,
    sync::{Once, RwLock},
};

use super::{
    remains::Remains,
    stuck::{STUCK, Waited, await_end},
};

/// How long a program that was killed may take to be gone.
const GONE_WITHIN_MS: c_int = 500;

/// The program that is debugged.
static PROGRAM: RwLock<Option<Remains>> = RwLock::new(None);

/// What handled faults before: the language's own message about a stack that overflows.
struct Before(UnsafeCell<MaybeUninit<libc::sigaction>>);

// SAFETY: written once, before the handler that reads it is there.
unsafe impl Sync for Before {}

static BEFORE: Before = Before(UnsafeCell::new(MaybeUninit::uninit()));

/// Has this process say, should it fault because a program is gone, that it is.
pub(crate) fn blame(program: Remains) {
    static ONCE: Once = Once::new();
    *PROGRAM.write().unwrap_or_else(std::sync::PoisonError::into_inner) = Some(program);
    // SAFETY: the handler calls only what is safe in one, and is given what it is declared with.
    ONCE.call_once(|| unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        action.sa_sigaction = handle as *const () as usize;
        action.sa_flags = libc::SA_SIGINFO | libc::SA_ONSTACK;
        libc::sigemptyset(&mut action.sa_mask);
        libc::sigaction(libc::SIGSEGV, &action, BEFORE.0.get().cast());
    });
}

/// # Safety
/// Called by the system when this process faults.
unsafe extern "C" fn handle(_: c_int, _: *mut libc::siginfo_t, _: *mut c_void) {
    // Whoever writes it has not faulted.
    let program = PROGRAM.try_read().ok().and_then(|program| *program);
    // SAFETY: nothing here allocates.
    unsafe {
        // The system takes the memory of a program away before it shows it as ended.
        if program.is_some_and(|program| await_end(program, GONE_WITHIN_MS) == Waited::Ended) {
            libc::_exit(STUCK);
        }
        // Back to what was there; the instruction faults again.
        libc::sigaction(libc::SIGSEGV, BEFORE.0.get().cast(), std::ptr::null_mut());
    }
}

#[cfg(test)]
mod tests {
    use std::process::{Command, Stdio};

    use nix::{
        sys::{
            signal::Signal,
            wait::{WaitStatus, waitpid},
        },
        unistd::{ForkResult, fork},
    };

    use super::*;

    /// How a process ends that faults while it debugs a program.
    fn end_of_fault(program: Remains) -> WaitStatus {
        // SAFETY: the child only faults.
        match unsafe { fork() }.unwrap() {
            ForkResult::Parent { child } => waitpid(child, None).unwrap(),
            ForkResult::Child => {
                // It leaves no core file.
                nix::sys::resource::setrlimit(nix::sys::resource::Resource::RLIMIT_CORE, 0, 0).unwrap();
                blame(program);
                // SAFETY: nobody has this address, which is what is tried.
                unsafe { std::ptr::without_provenance::<u8>(8).read_volatile() };
                std::process::exit(0)
            }
        }
    }

    #[test]
    fn a_fault_is_blamed_on_the_end_of_the_program_and_on_nothing_else() {
        let mut program = Command::new("cat").stdin(Stdio::piped()).spawn().unwrap();
        let remains = Remains::of(program.id()).unwrap();
        let fault = end_of_fault(remains);
        assert!(matches!(fault, WaitStatus::Signaled(_, Signal::SIGSEGV, _)), "{fault:?}");
        program.kill().unwrap();
        // Whether it is gone already or goes now.
        assert!(matches!(end_of_fault(remains), WaitStatus::Exited(_, STUCK)));
        program.wait().unwrap();
        assert!(matches!(end_of_fault(remains), WaitStatus::Exited(_, STUCK)));
    }
}
