//! Reads of the debuggee's memory, a page at a time.
//!
//! At every stop the runtime's library reads a table of 1,103 numbers, one by one, each by a system call, and values little by
//! little. So its `pread` comes to us: small reads are taken from the page around them, which is read once.
//!
//! What is shown must be what is there. A page is good for one question of the user, until this process says something to the
//! program, or hears of it, and not for longer than a moment, because a program that stands still has threads that work for the
//! runtime.

use std::{
    cell::RefCell,
    ffi::{c_int, c_void},
    sync::atomic::{AtomicU64, Ordering},
    time::{Duration, Instant},
};

use super::redirect::Redirection;

const PAGE: usize = 4096;
/// How many pages a thread keeps.
const PAGES: usize = 16;
/// Larger reads go to the system.
const SMALL: usize = 256;
/// How long a page is good at most.
const GOOD_FOR: Duration = Duration::from_millis(1);
/// Files are shorter than this; the memory of programs is mostly beyond it.
const BEYOND_FILES: i64 = 1 << 32;

/// How often something was said to the program, or heard of it.
static MESSAGES: AtomicU64 = AtomicU64::new(0);

thread_local! {
    static CACHE: RefCell<Vec<Page>> = const { RefCell::new(Vec::new()) };
}

type Pread = unsafe extern "C" fn(c_int, *mut c_void, usize, i64) -> isize;
type Read = unsafe extern "C" fn(c_int, *mut c_void, usize) -> isize;
type Write = unsafe extern "C" fn(c_int, *const c_void, usize) -> isize;

/// For the library that reads memory.
pub(super) fn read_ahead() -> Redirection {
    let (system, ours): (Pread, Pread) = (libc::pread64, read_at);
    Redirection { names: &["pread64", "pread"], system: system as usize, ours: ours as usize }
}

/// For the library that messages with the program.
pub(super) fn count_messages() -> [Redirection; 2] {
    let (system_read, our_read): (Read, Read) = (libc::read, counted_read);
    let (system_write, our_write): (Write, Write) = (libc::write, counted_write);
    [
        Redirection { names: &["read"], system: system_read as usize, ours: our_read as usize },
        Redirection { names: &["write"], system: system_write as usize, ours: our_write as usize },
    ]
}

/// Lets nothing that was read before be used: what somebody else has written to shared memory since is not heard of.
pub(crate) fn forget_pages() {
    MESSAGES.fetch_add(1, Ordering::Release);
}

struct Page {
    file: c_int,
    offset: i64,
    messages: u64,
    since: Instant,
    bytes: Box<[u8; PAGE]>,
}

impl Page {
    fn is_good(&self, file: c_int, offset: i64) -> bool {
        self.file == file
            && self.offset == offset
            && self.messages == MESSAGES.load(Ordering::Acquire)
            && self.since.elapsed() < GOOD_FOR
    }

    /// Reads a page; none where not all of it can be read.
    fn read(file: c_int, offset: i64) -> Option<Self> {
        let (messages, since) = (MESSAGES.load(Ordering::Acquire), Instant::now());
        let mut bytes = Box::new([0; PAGE]);
        // SAFETY: as many bytes as there is room for.
        let read = unsafe { libc::pread64(file, bytes.as_mut_ptr().cast(), PAGE, offset) };
        (read == PAGE as isize).then_some(Self { file, offset, messages, since, bytes })
    }
}

/// Fills a small buffer from the page around; false where that cannot be done.
fn fill(buffer: &mut [u8], file: c_int, offset: i64) -> bool {
    // Also what is beyond the largest number, which no program has.
    if buffer.len() > SMALL || offset < BEYOND_FILES {
        return false;
    }
    let within = (offset % PAGE as i64) as usize;
    if within + buffer.len() > PAGE {
        return false;
    }
    let page = offset - within as i64;
    let filled = CACHE.try_with(|cache| {
        let mut cache = cache.try_borrow_mut().ok()?;
        let at = match cache.iter().position(|known| known.is_good(file, page)) {
            Some(at) => at,
            None => {
                let read = Page::read(file, page)?;
                let place = (page / PAGE as i64) as usize % PAGES;
                match cache.get_mut(place) {
                    Some(old) => {
                        *old = read;
                        place
                    }
                    None => {
                        cache.push(read);
                        cache.len() - 1
                    }
                }
            }
        };
        buffer.copy_from_slice(&cache[at].bytes[within..within + buffer.len()]);
        Some(())
    });
    matches!(filled, Ok(Some(())))
}

/// As `pread`.
///
/// # Safety
/// As that of `pread`.
unsafe extern "C" fn read_at(file: c_int, buffer: *mut c_void, length: usize, offset: i64) -> isize {
    if length > 0 && length <= SMALL {
        // SAFETY: by contract, there is room for as many bytes, and nobody else uses it.
        let buffer = unsafe { std::slice::from_raw_parts_mut(buffer.cast(), length) };
        if fill(buffer, file, offset) {
            return length as isize;
        }
    }
    // SAFETY: by contract.
    unsafe { libc::pread64(file, buffer, length, offset) }
}

/// As `read`.
///
/// # Safety
/// As that of `read`.
unsafe extern "C" fn counted_read(file: c_int, buffer: *mut c_void, length: usize) -> isize {
    // SAFETY: by contract.
    let read = unsafe { libc::read(file, buffer, length) };
    MESSAGES.fetch_add(1, Ordering::Release);
    read
}

/// As `write`.
///
/// # Safety
/// As that of `write`.
unsafe extern "C" fn counted_write(file: c_int, buffer: *const c_void, length: usize) -> isize {
    // SAFETY: by contract.
    let written = unsafe { libc::write(file, buffer, length) };
    MESSAGES.fetch_add(1, Ordering::Release);
    written
}

#[cfg(test)]
mod tests {
    use std::{fs::File, os::fd::AsRawFd};

    use super::*;

    /// What the library would see of a number of ours.
    fn seen(memory: &File, number: &AtomicU64) -> u64 {
        let mut bytes = [0; 8];
        let address = std::ptr::from_ref(number).addr() as i64;
        // SAFETY: as many bytes as there is room for.
        let read = unsafe { read_at(memory.as_raw_fd(), bytes.as_mut_ptr().cast(), bytes.len(), address) };
        assert_eq!(read, 8);
        u64::from_ne_bytes(bytes)
    }

    fn talk(with: fn(c_int)) {
        let (reader, mut writer) = std::io::pipe().unwrap();
        std::io::Write::write_all(&mut writer, b"x").unwrap();
        with(reader.as_raw_fd());
    }

    #[test]
    fn what_changes_is_seen_after_every_word_with_the_program() {
        let memory = File::open("/proc/self/mem").unwrap();
        let number = Box::new(AtomicU64::new(0));
        for round in 0..100 {
            assert_eq!(seen(&memory, &number), round);
            assert_eq!(seen(&memory, &number), round);
            number.store(round + 1, Ordering::SeqCst);
            // SAFETY: one byte each, into and from what has room for it.
            match round % 2 {
                0 => talk(|file| unsafe {
                    assert_eq!(counted_read(file, [0u8].as_mut_ptr().cast(), 1), 1);
                }),
                _ => unsafe {
                    let null = File::options().write(true).open("/dev/null").unwrap();
                    assert_eq!(counted_write(null.as_raw_fd(), b"x".as_ptr().cast(), 1), 1);
                },
            }
        }
    }

    #[test]
    fn what_changes_is_seen_after_a_moment_also_in_silence() {
        let memory = File::open("/proc/self/mem").unwrap();
        let number = Box::new(AtomicU64::new(1));
        assert_eq!(seen(&memory, &number), 1);
        let since = Instant::now();
        number.store(2, Ordering::SeqCst);
        loop {
            let age = since.elapsed();
            if seen(&memory, &number) == 2 {
                break;
            }
            assert!(age < GOOD_FOR, "it is too old");
        }
    }

    #[test]
    fn every_question_sees_what_is_there() {
        let memory = File::open("/proc/self/mem").unwrap();
        let number = Box::new(AtomicU64::new(0));
        for round in 0..100 {
            forget_pages();
            assert_eq!(seen(&memory, &number), round);
            number.store(round + 1, Ordering::SeqCst);
        }
    }

    #[test]
    fn many_small_reads_are_a_few_of_the_system() {
        let memory = File::open("/proc/self/mem").unwrap();
        let table = vec![7u32; 3000];
        let mut pages = 0;
        let mut last = None;
        for number in &table {
            let mut bytes = [0; 4];
            let address = std::ptr::from_ref(number).addr() as i64;
            // SAFETY: as many bytes as there is room for.
            unsafe { read_at(memory.as_raw_fd(), bytes.as_mut_ptr().cast(), bytes.len(), address) };
            assert_eq!(u32::from_ne_bytes(bytes), 7);
            let newest = CACHE.with_borrow(|cache| cache.iter().map(|page| page.since).max());
            pages += usize::from(newest != std::mem::replace(&mut last, newest));
        }
        // Four pages, and again where this was not done in a moment.
        assert!((3..300).contains(&pages), "{pages}");
    }

    #[test]
    fn what_cannot_be_read_fails_as_it_does() {
        let memory = File::open("/proc/self/mem").unwrap();
        let mut byte = [0];
        // SAFETY: room for one byte; nothing is mapped there.
        let read = unsafe { read_at(memory.as_raw_fd(), byte.as_mut_ptr().cast(), 1, i64::MAX & !0xfff) };
        assert_eq!((read, std::io::Error::last_os_error().raw_os_error()), (-1, Some(libc::EIO)));
    }
}
