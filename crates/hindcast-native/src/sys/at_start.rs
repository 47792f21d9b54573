//! What this process was started with. Rust's runtime changes some of it before `main`: it opens what is closed among
//! the standard streams and ignores SIGPIPE. A program that inherits from us is to get it as we did.

use std::{
    os::fd::RawFd,
    sync::atomic::{AtomicBool, AtomicU8, AtomicU64, Ordering},
};

/// A bit for each standard stream that was closed.
static CLOSED: AtomicU8 = AtomicU8::new(0);
static IGNORES_PIPE: AtomicBool = AtomicBool::new(false);
/// A bit for each blocked signal, the first for signal 1.
static BLOCKED: AtomicU64 = AtomicU64::new(0);

const SIGNALS: std::ops::RangeInclusive<i32> = 1..=64;

/// Called by the dynamic linker, before anything of Rust's.
#[used]
// SAFETY: the section holds pointers to functions of this type, and `look` needs nothing that is set up later.
#[unsafe(link_section = ".init_array")]
static LOOK: extern "C" fn() = look;

extern "C" fn look() {
    let mut closed = 0;
    for stream in 0..=2 {
        // SAFETY: fcntl with F_GETFD takes no pointer.
        if unsafe { libc::fcntl(stream, libc::F_GETFD) } == -1 {
            closed |= 1 << stream;
        }
    }
    CLOSED.store(closed, Ordering::Relaxed);
    // SAFETY: all zeroes is a valid value of both, and they live for the calls.
    unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        libc::sigaction(libc::SIGPIPE, std::ptr::null(), &raw mut action);
        IGNORES_PIPE.store(action.sa_sigaction == libc::SIG_IGN, Ordering::Relaxed);
        let mut set: libc::sigset_t = std::mem::zeroed();
        libc::sigprocmask(libc::SIG_BLOCK, std::ptr::null(), &raw mut set);
        let blocked = SIGNALS.filter(|&signal| libc::sigismember(&raw const set, signal) == 1);
        BLOCKED.store(blocked.fold(0, |bits, signal| bits | 1 << (signal - 1)), Ordering::Relaxed);
    }
}

/// Closes the standard streams that were closed, and sets the signals as they were.
///
/// # Safety
/// Only in a forked child, which makes only async-signal-safe calls.
pub(super) unsafe fn restore() {
    let closed = CLOSED.load(Ordering::Relaxed);
    // SAFETY: the calls are async-signal-safe, and what they are given lives for them.
    unsafe {
        for stream in (0..=2).filter(|stream: &RawFd| closed & 1 << stream != 0) {
            libc::close(stream);
        }
        if IGNORES_PIPE.load(Ordering::Relaxed) {
            libc::signal(libc::SIGPIPE, libc::SIG_IGN);
        }
        let blocked = BLOCKED.load(Ordering::Relaxed);
        let mut set: libc::sigset_t = std::mem::zeroed();
        libc::sigemptyset(&raw mut set);
        for signal in SIGNALS.filter(|signal| blocked & 1 << (signal - 1) != 0) {
            libc::sigaddset(&raw mut set, signal);
        }
        libc::sigprocmask(libc::SIG_SETMASK, &raw const set, std::ptr::null_mut());
    }
}
