//! Files that are cut short while they are mapped: zeros take the place of what is gone.

use std::{
    io, mem,
    ops::Range,
    ptr,
    sync::{
        OnceLock,
        atomic::{AtomicUsize, Ordering},
    },
};

/// As many mappings as are guarded at a time.
const MOST: usize = 2048;

/// What the signal's handler looks at: it may neither wait nor allocate. A range whose end is 0 is
/// free.
static GUARDED: [Slot; MOST] =
    [const { Slot { start: AtomicUsize::new(0), end: AtomicUsize::new(0) } }; MOST];
static PREVIOUS: OnceLock<Handler> = OnceLock::new();

#[derive(Debug)]
struct Slot {
    start: AtomicUsize,
    end: AtomicUsize,
}

struct Handler(libc::sigaction);

/// A range of addresses where SIGBUS does no harm, until this is dropped.
#[derive(Debug)]
pub(crate) struct Guarded {
    slot: &'static Slot,
}

impl Guarded {
    pub(crate) fn new(range: Range<usize>) -> io::Result<Self> {
        install();
        let free = |slot: &&Slot| {
            let taken = slot.end.compare_exchange(0, range.end, Ordering::AcqRel, Ordering::Relaxed);
            taken.is_ok()
        };
        let slot = GUARDED.iter().find(free).ok_or_else(|| io::Error::other("too many files are mapped"))?;
        slot.start.store(range.start, Ordering::Release);
        Ok(Self { slot })
    }
}

impl Drop for Guarded {
    fn drop(&mut self) {
        // Until both are written the slot must not look as if it covered more than it did.
        self.slot.start.store(usize::MAX, Ordering::Release);
        self.slot.end.store(0, Ordering::Release);
    }
}

/// Whoever comes second waits until the handler is there.
fn install() {
    PREVIOUS.get_or_init(|| {
        // SAFETY: all zeros is a valid action, and an empty mask.
        let (mut action, mut previous): (libc::sigaction, libc::sigaction) = unsafe { mem::zeroed() };
        let handler: extern "C" fn(i32, *mut libc::siginfo_t, *mut libc::c_void) = handle;
        action.sa_sigaction = handler as usize;
        action.sa_flags = libc::SA_SIGINFO | libc::SA_ONSTACK;
        // SAFETY: the handler does only what handlers may. It cannot fail: the signal exists and may
        // be caught.
        unsafe { libc::sigaction(libc::SIGBUS, &action, &mut previous) };
        Handler(previous)
    });
}

/// Runs within whoever touched a page that is gone: puts zeros there, and lets it try again.
extern "C" fn handle(_signal: i32, details: *mut libc::siginfo_t, _context: *mut libc::c_void) {
    // SAFETY: the system passes the details of a signal with SA_SIGINFO.
    let address = unsafe { (*details).si_addr() } as usize;
    if !is_guarded(address) || !put_zeros(address) {
        pass_on();
    }
}

fn is_guarded(address: usize) -> bool {
    GUARDED.iter().any(|slot| {
        let start = slot.start.load(Ordering::Acquire);
        start != 0 && start <= address && address < slot.end.load(Ordering::Acquire)
    })
}

fn put_zeros(address: usize) -> bool {
    let page = super::page_size();
    let at = ptr::without_provenance_mut(address / page * page);
    let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_FIXED;
    // SAFETY: a page of a mapping of ours, of which nothing could be read any more.
    unsafe { libc::mmap(at, page, libc::PROT_READ, flags, -1, 0) != libc::MAP_FAILED }
}

/// Whoever was there before us is asked when the access is tried again.
fn pass_on() {
    // SAFETY: all zeros is the default action: the process ends.
    let default = unsafe { mem::zeroed() };
    let previous = PREVIOUS.get().map_or(&default, |Handler(previous)| previous);
    // SAFETY: the default, or an action that the system gave us.
    unsafe { libc::sigaction(libc::SIGBUS, previous, ptr::null_mut()) };
}
