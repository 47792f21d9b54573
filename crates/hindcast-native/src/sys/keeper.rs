//! A process that takes our breakpoints out of a program that we attached to, should we be killed: it would die of them.
//!
//! It waits for a lock that the thread which traces holds. The system gives such a lock away when that thread dies, and it
//! does so before it lets go of what the thread traced, so that the program mostly still stands still then.

use std::{
    ffi::CString,
    io,
    os::fd::AsRawFd,
    ptr::NonNull,
    sync::atomic::{AtomicU64, Ordering},
};

use libc::{c_int, c_void};

use super::{ProcessMemory, Tid, TraceError, dying, tracee};

const BREAKPOINT: u8 = 0xcc;
/// More than anybody sets; what is not used takes no memory.
const ENTRIES: usize = 1 << 20;
/// So many milliseconds are waited for the system to let go of a thread.
const PATIENCE: u32 = 5000;

// SAFETY: as the C library declares it; the libc crate does not.
unsafe extern "C" {
    fn pthread_mutexattr_setrobust(attributes: *mut libc::pthread_mutexattr_t, robust: c_int) -> c_int;
}
const PTHREAD_MUTEX_ROBUST: c_int = 1;

/// Belongs to the thread that traces.
#[derive(Debug)]
pub(crate) struct Keeper {
    process: Tid,
    ledger: NonNull<Ledger>,
    free: Vec<usize>,
}

/// In memory that both processes see.
#[repr(C)]
struct Ledger {
    lock: libc::pthread_mutex_t,
    /// Whether debug registers are in use.
    watches: AtomicU64,
    /// So many entries were ever used.
    used: AtomicU64,
    entries: [Entry; ENTRIES],
}

/// A byte of the program's code that a breakpoint has taken the place of.
#[repr(C)]
struct Entry {
    /// 0 where there is none.
    address: AtomicU64,
    original: AtomicU64,
}

impl Keeper {
    /// For a program that this thread traces.
    pub(crate) fn start(program: Tid, memory: &ProcessMemory) -> Result<Self, TraceError> {
        let failed = |source| TraceError::System { what: "cannot keep the program from harm", source };
        let threads =
            CString::new(format!("/proc/{}/task", program.0)).map_err(|error| failed(error.into()))?;
        let ledger = Ledger::shared().map_err(failed)?;
        let descriptor = memory.descriptor().as_raw_fd();
        // SAFETY: the child only makes calls that are allowed after a fork, until it exits.
        let process = match unsafe { libc::fork() } {
            -1 => {
                let error = io::Error::last_os_error();
                // SAFETY: nobody else knows of it.
                unsafe { release(ledger) };
                return Err(failed(error));
            }
            // SAFETY: this is the child, with a copy of everything.
            0 => unsafe { keep(ledger.as_ref(), descriptor, &threads) },
            process => Tid(process),
        };
        Ok(Self { process, ledger, free: Vec::new() })
    }

    fn ledger(&self) -> &Ledger {
        // SAFETY: mapped as long as we live; everything but the lock is atomic.
        unsafe { self.ledger.as_ref() }
    }

    /// Before a breakpoint is written. Gives the name to forget it by.
    pub(crate) fn note(&mut self, address: u64, original: u8) -> Option<usize> {
        let name = self.free.pop().unwrap_or_else(|| self.ledger().used.load(Ordering::SeqCst) as usize);
        let entry = self.ledger().entries.get(name)?;
        entry.original.store(u64::from(original), Ordering::SeqCst);
        entry.address.store(address, Ordering::SeqCst);
        self.ledger().used.fetch_max(name as u64 + 1, Ordering::SeqCst);
        Some(name)
    }

    /// After it was taken out.
    pub(crate) fn forget(&mut self, name: usize) {
        self.ledger().entries[name].address.store(0, Ordering::SeqCst);
        self.free.push(name);
    }

    /// Whether debug registers are in use.
    pub(crate) fn watches(&self, any: bool) {
        self.ledger().watches.store(any.into(), Ordering::SeqCst);
    }
}

impl Drop for Keeper {
    fn drop(&mut self) {
        dying::end(self.process);
        // SAFETY: the other process is gone.
        unsafe { release(self.ledger) };
    }
}

impl Ledger {
    /// With the lock held by this thread.
    fn shared() -> io::Result<NonNull<Self>> {
        let (access, flags) = (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_SHARED | libc::MAP_ANONYMOUS);
        // SAFETY: new memory, of zeroes, which is a valid ledger but for the lock; that is initialised here.
        unsafe {
            let memory = libc::mmap(
                std::ptr::null_mut(),
                size_of::<Self>(),
                access,
                flags | libc::MAP_NORESERVE,
                -1,
                0,
            );
            let ledger = NonNull::new(memory.cast::<Self>()).filter(|_| memory != libc::MAP_FAILED);
            let ledger = ledger.ok_or_else(io::Error::last_os_error)?;
            let lock = &raw mut (*ledger.as_ptr()).lock;
            let mut attributes: libc::pthread_mutexattr_t = std::mem::zeroed();
            libc::pthread_mutexattr_init(&raw mut attributes);
            libc::pthread_mutexattr_setpshared(&raw mut attributes, libc::PTHREAD_PROCESS_SHARED);
            pthread_mutexattr_setrobust(&raw mut attributes, PTHREAD_MUTEX_ROBUST);
            libc::pthread_mutex_init(lock, &raw const attributes);
            libc::pthread_mutexattr_destroy(&raw mut attributes);
            libc::pthread_mutex_lock(lock);
            Ok(ledger)
        }
    }
}

/// # Safety
/// Nobody uses it any more.
unsafe fn release(ledger: NonNull<Ledger>) {
    // SAFETY: see above; the system must not look for a lock that is no longer there.
    unsafe {
        libc::pthread_mutex_unlock(&raw mut (*ledger.as_ptr()).lock);
        libc::munmap(ledger.as_ptr().cast(), size_of::<Ledger>());
    }
}

/// # Safety
/// Only in a forked child. Allocates nothing.
unsafe fn keep(ledger: &Ledger, memory: c_int, threads: &CString) -> ! {
    // SAFETY: see above; all pointers are to memory that the fork copied, or that is shared.
    unsafe {
        // What is meant for whoever started us is not meant for it.
        libc::setsid();
        let mut all: libc::sigset_t = std::mem::zeroed();
        libc::sigfillset(&raw mut all);
        libc::sigprocmask(libc::SIG_SETMASK, &raw const all, std::ptr::null_mut());
        // Who waits for the end of our descriptors waits for us, not for it.
        if memory > 0 {
            libc::syscall(libc::SYS_close_range, 0, memory - 1, 0);
        }
        libc::syscall(libc::SYS_close_range, memory + 1, c_int::MAX, 0);
        let lock = (&raw const ledger.lock).cast_mut();
        if libc::pthread_mutex_lock(lock) == libc::EOWNERDEAD {
            restore(ledger, memory);
            if ledger.watches.load(Ordering::SeqCst) != 0 {
                clear_watches(threads);
            }
        }
        libc::_exit(0)
    }
}

/// # Safety
/// As [`keep`].
unsafe fn restore(ledger: &Ledger, memory: c_int) {
    for entry in &ledger.entries[..ledger.used.load(Ordering::SeqCst) as usize] {
        let address = entry.address.load(Ordering::SeqCst) as i64;
        let original = entry.original.load(Ordering::SeqCst) as u8;
        let mut there = 0u8;
        // SAFETY: both bytes live for the calls.
        unsafe {
            if address != 0
                && libc::pread(memory, (&raw mut there).cast(), 1, address) == 1
                && there == BREAKPOINT
            {
                libc::pwrite(memory, (&raw const original).cast(), 1, address);
            }
        }
    }
}

/// # Safety
/// As [`keep`].
unsafe fn clear_watches(threads: &CString) {
    const FIRST_ENTRY: usize = 19;
    let mut buffer = [0u64; 4096];
    // SAFETY: the system writes whole entries, of the length that each says, and a name that ends with a zero.
    unsafe {
        let folder = libc::open(threads.as_ptr(), libc::O_RDONLY | libc::O_DIRECTORY);
        loop {
            let read = libc::syscall(libc::SYS_getdents64, folder, buffer.as_mut_ptr(), size_of_val(&buffer));
            if read <= 0 {
                return;
            }
            let mut at = buffer.as_ptr().cast::<u8>();
            let end = at.add(read as usize);
            while at < end {
                let name = at.add(FIRST_ENTRY).cast::<libc::c_char>();
                if libc::atoi(name) > 0 {
                    clear_watches_of(folder, name);
                }
                at = at.add(usize::from(at.add(16).cast::<u16>().read_unaligned()));
            }
        }
    }
}

/// Whether only the number of a thread is left, which nobody can attach to.
///
/// # Safety
/// As [`keep`]; `name` ends with a zero.
unsafe fn is_dead(folder: c_int, name: *const libc::c_char) -> bool {
    let (mut path, mut text) = ([0u8; 32], [0u8; 512]);
    // SAFETY: the name of a thread's folder is its number, and so shorter than the path; the buffers live for the calls.
    let read = unsafe {
        let length = libc::strnlen(name, 16);
        std::ptr::copy_nonoverlapping(name.cast(), path.as_mut_ptr(), length);
        path[length..length + 5].copy_from_slice(b"/stat");
        let file = libc::openat(folder, path.as_ptr().cast(), libc::O_RDONLY);
        let read = libc::read(file, text.as_mut_ptr().cast(), text.len());
        libc::close(file);
        read
    };
    let text = &text[..read.max(0) as usize];
    // Behind the program's name, which can be anything.
    let state = text.iter().rposition(|&byte| byte == b')').and_then(|end| text.get(end + 2));
    matches!(state, None | Some(b'Z' | b'X'))
}

/// # Safety
/// As [`is_dead`].
unsafe fn clear_watches_of(folder: c_int, name: *const libc::c_char) {
    const CONTROL: usize = 7;
    let none = std::ptr::null_mut::<c_void>();
    // SAFETY: no request takes a pointer; `status` lives for the call.
    unsafe {
        let thread = libc::atoi(name);
        for _ in 0..PATIENCE {
            if libc::ptrace(libc::PTRACE_SEIZE, thread, none, none) == 0 {
                break;
            }
            if *libc::__errno_location() == libc::ESRCH || is_dead(folder, name) {
                return;
            }
            libc::usleep(1000);
        }
        if libc::ptrace(libc::PTRACE_INTERRUPT, thread, none, none) == -1 {
            return;
        }
        let mut status = 0;
        if libc::waitpid(thread, &raw mut status, libc::__WALL) != thread || !libc::WIFSTOPPED(status) {
            return;
        }
        let control = std::mem::offset_of!(libc::user, u_debugreg) + 8 * CONTROL;
        libc::ptrace(libc::PTRACE_POKEUSER, thread, control, none);
        tracee::mend_call(Tid(thread));
        let signal = if status >> 16 == 0 { libc::WSTOPSIG(status) } else { 0 };
        libc::ptrace(libc::PTRACE_DETACH, thread, none, signal as usize as *mut c_void);
    }
}
