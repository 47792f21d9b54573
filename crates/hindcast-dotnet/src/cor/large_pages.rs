//! Large pages for the library that reads the debuggee's memory.
//!
//! `libmscordaccore.so` notes what it has read in a block of 4 MB. It gives the block back whenever the program goes on, and
//! touches all of a new one at the next stop. With pages of 4 kB these are 1,024 page faults, twice in every step, and more
//! than half of the time that a step takes. So its calls of `mmap` come to us, and we ask the kernel for large pages.

use std::{ffi::c_int, ops::RangeInclusive};

use super::{com::Raw, redirect::Redirection};

/// Which blocks get large pages. Longer ones are addresses that the library only reserves.
const BLOCKS: RangeInclusive<usize> = (2 << 20)..=(16 << 20);

type Map = unsafe extern "C" fn(Raw, usize, c_int, c_int, c_int, i64) -> Raw;

/// Gives large pages to whoever maps memory.
pub(super) fn large_pages() -> Redirection {
    let (system, ours): (Map, Map) = (libc::mmap, map);
    Redirection { names: &["mmap", "mmap64"], system: system as usize, ours: ours as usize }
}

/// As `mmap`, with large pages where the kernel has them.
///
/// # Safety
/// As that of `mmap`.
unsafe extern "C" fn map(
    address: Raw,
    length: usize,
    protection: c_int,
    flags: c_int,
    file: c_int,
    offset: i64,
) -> Raw {
    // SAFETY: by contract.
    let mapped = unsafe { libc::mmap(address, length, protection, flags, file, offset) };
    if mapped != libc::MAP_FAILED && flags & libc::MAP_ANONYMOUS != 0 && BLOCKS.contains(&length) {
        // SAFETY: the mapping was just made; the advice changes nothing that a program sees.
        unsafe { libc::madvise(mapped, length, libc::MADV_HUGEPAGE) };
    }
    mapped
}
