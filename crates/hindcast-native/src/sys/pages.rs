//! Which pages of a process there are, without looking at what is in them.

use std::{
    fs::File,
    io,
    ops::Range,
    os::{fd::AsRawFd, unix::fs::FileExt},
};

use super::{ProcessMemory, Tid};

pub(crate) const PAGE: u64 = 4096;

/// Kinds of pages, as `PAGEMAP_SCAN` has them.
const IS_FILE: u64 = 1 << 2;
const IS_PRESENT: u64 = 1 << 3;
const IS_SWAPPED: u64 = 1 << 4;
const IS_ZERO: u64 = 1 << 5;

/// As the system lays them out.
#[repr(C)]
#[derive(Clone, Copy, Default)]
struct Region {
    start: u64,
    end: u64,
    categories: u64,
}

#[repr(C)]
#[derive(Default)]
struct ScanRequest {
    size: u64,
    flags: u64,
    start: u64,
    end: u64,
    walk_end: u64,
    vector: u64,
    vector_length: u64,
    most_pages: u64,
    inverted: u64,
    all_of: u64,
    any_of: u64,
    told: u64,
}

/// The pages of `range` that the process has for itself: not those that were never touched, and not those that are as in
/// the file they are mapped from, unless `with_files`.
pub(crate) fn touched(process: Tid, range: Range<u64>, with_files: bool) -> io::Result<Vec<Range<u64>>> {
    let pages = File::open(format!("/proc/{}/pagemap", process.0))?;
    match scanned(&pages, range.clone(), with_files) {
        // Before Linux 6.7 there is no such request.
        Err(error) if error.raw_os_error() == Some(libc::ENOTTY) => listed(&pages, range, with_files),
        result => result,
    }
}

fn scanned(pages: &File, range: Range<u64>, with_files: bool) -> io::Result<Vec<Range<u64>>> {
    /// `_IOWR('f', 16, struct pm_scan_arg)`
    const PAGEMAP_SCAN: libc::c_ulong = 0xc060_6610;
    let excluded = if with_files { IS_ZERO } else { IS_ZERO | IS_FILE };
    let mut regions = [Region::default(); 512];
    let mut found = Vec::new();
    let mut at = range.start;
    while at < range.end {
        let mut request = ScanRequest {
            size: size_of::<ScanRequest>() as u64,
            start: at,
            end: range.end,
            vector: regions.as_mut_ptr() as u64,
            vector_length: regions.len() as u64,
            inverted: excluded,
            all_of: excluded,
            any_of: IS_PRESENT | IS_SWAPPED,
            told: IS_PRESENT,
            ..ScanRequest::default()
        };
        // SAFETY: `request` and the regions that it names live for the call, and their sizes are told.
        let count = unsafe { libc::ioctl(pages.as_raw_fd(), PAGEMAP_SCAN, &raw mut request) };
        if count < 0 {
            return Err(io::Error::last_os_error());
        }
        for region in regions.iter().take(count as usize) {
            add(&mut found, region.start..region.end);
        }
        if request.walk_end <= at {
            return Err(io::Error::other("the pages of a process cannot be listed"));
        }
        at = request.walk_end;
    }
    Ok(found)
}

/// The same, page by page.
fn listed(pages: &File, range: Range<u64>, with_files: bool) -> io::Result<Vec<Range<u64>>> {
    const FILE: u64 = 1 << 61;
    const SWAPPED: u64 = 1 << 62;
    const PRESENT: u64 = 1 << 63;
    let mut entries = vec![0; 256 << 10];
    let mut found = Vec::new();
    let mut at = range.start;
    while at < range.end {
        let wanted = ((range.end - at) / PAGE * 8).min(entries.len() as u64) as usize;
        pages.read_exact_at(&mut entries[..wanted], at / PAGE * 8)?;
        for entry in entries[..wanted].as_chunks::<8>().0 {
            let entry = u64::from_le_bytes(*entry);
            if entry & (PRESENT | SWAPPED) != 0 && (with_files || entry & FILE == 0) {
                add(&mut found, at..at + PAGE);
            }
            at += PAGE;
        }
    }
    Ok(found)
}

/// Whether two processes have the very same pages of physical memory in a range: then neither has written there since they
/// were one. False where that cannot be told, as without the right to see where pages are.
pub(crate) fn share_pages(one: Tid, other: Tid, range: Range<u64>) -> bool {
    const PRESENT: u64 = 1 << 63;
    // What others may write to as well.
    const FILE_OR_SHARED: u64 = 1 << 61;
    const FRAME: u64 = (1 << 55) - 1;
    // The system may join pages of the same content (KSM), which leaves no trace of a write.
    let joins = std::fs::read_to_string("/sys/kernel/mm/ksm/run").is_ok_and(|state| state.trim() != "0");
    let frames = |process: Tid| -> io::Result<Vec<u64>> {
        let pages = File::open(format!("/proc/{}/pagemap", process.0))?;
        let (first, last) = (range.start / PAGE, range.end.saturating_sub(1) / PAGE);
        let mut entries = vec![0; 8 * (last - first + 1) as usize];
        pages.read_exact_at(&mut entries, 8 * first)?;
        Ok(entries.as_chunks::<8>().0.iter().map(|entry| u64::from_le_bytes(*entry)).collect())
    };
    let is_known = |entry: &u64| entry & (PRESENT | FILE_OR_SHARED) == PRESENT && entry & FRAME != 0;
    // The system may also put one page that is all zeroes in the place of others.
    let is_empty = ProcessMemory::open(one).map_or(true, |memory| {
        let mut bytes = vec![0; PAGE as usize];
        (range.start & !(PAGE - 1)..range.end).step_by(PAGE as usize).any(|page| {
            let count = memory.read_some(page, &mut bytes);
            bytes[..count].iter().all(|&byte| byte == 0)
        })
    });
    let (Ok(one), Ok(other)) = (frames(one), frames(other)) else { return false };
    !joins
        && !is_empty
        && one.iter().all(is_known)
        && one.iter().zip(&other).all(|(one, other)| one & FRAME == other & FRAME && is_known(other))
}

/// Adds a range behind the others.
fn add(ranges: &mut Vec<Range<u64>>, range: Range<u64>) {
    match ranges.last_mut() {
        Some(last) if last.end == range.start => last.end = range.end,
        _ => ranges.push(range),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_ways_tell_the_pages_that_were_written() {
        const PAGES: usize = 64;
        let memory = nix::sys::memfd::memfd_create(c"file", nix::sys::memfd::MFdFlags::empty()).unwrap();
        let file = File::from(memory);
        file.set_len(PAGES as u64 * PAGE).unwrap();
        for shared_file in [None, Some(&file)] {
            let (flags, descriptor) = match shared_file {
                None => (libc::MAP_PRIVATE | libc::MAP_ANONYMOUS, -1),
                Some(file) => (libc::MAP_PRIVATE, file.as_raw_fd()),
            };
            let protection = libc::PROT_READ | libc::PROT_WRITE;
            // SAFETY: a mapping of our own, of that many pages, which is written within its bounds.
            let start = unsafe {
                let start =
                    libc::mmap(std::ptr::null_mut(), PAGES * PAGE as usize, protection, flags, descriptor, 0);
                assert_ne!(start, libc::MAP_FAILED);
                libc::madvise(start, PAGES * PAGE as usize, libc::MADV_NOHUGEPAGE);
                let start = start.cast::<u8>();
                for page in [3, 4, 40] {
                    start.add(page * PAGE as usize).write_volatile(1);
                }
                std::hint::black_box(start.add(20 * PAGE as usize).read_volatile());
                start as u64
            };
            let pages = File::open("/proc/self/pagemap").unwrap();
            let range = start..start + PAGES as u64 * PAGE;
            let expected = vec![start + 3 * PAGE..start + 5 * PAGE, start + 40 * PAGE..start + 41 * PAGE];
            let mine: Vec<_> = listed(&pages, range.clone(), false).unwrap();
            // A page that was only read is the one page of zeroes, which this way does not tell.
            let mine: Vec<_> = mine.into_iter().filter(|found| found.start != start + 20 * PAGE).collect();
            assert_eq!(mine, expected);
            assert_eq!(touched(Tid(std::process::id() as i32), range, false).unwrap(), expected);
        }
    }
}
