//! Changes of the address space: what memory has another content after a call, though nothing wrote there.

use std::ops::Range;

use super::{Call, Event, Log, Replay};

const PAGE: u64 = 4096;
/// The libc crate does not name them all.
const MADV_DONTNEED_LOCKED: i32 = 24;
const MADV_GUARD_INSTALL: i32 = 102;

/// Memory that event number `index` mapped, unmapped, moved or emptied; empty ranges where it did none of that.
pub(crate) fn redefined(log: &Log, index: u64) -> [Range<u64>; 2] {
    const NONE: Range<u64> = 0..0;
    let event = log.get(index);
    let Some(Event::Call(call)) = event.as_deref() else { return [NONE; 2] };
    if matches!(call.replay, Replay::Emulate(_)) {
        return [NONE; 2];
    }
    let [start, length, new_length, ..] = call.arguments;
    let result = call.result as u64;
    match call.number {
        libc::SYS_mmap => [pages(result, length), NONE],
        libc::SYS_munmap => [pages(start, length), NONE],
        // In place: what is no longer there, or new.
        libc::SYS_mremap if result == start => {
            [between(start.saturating_add(length), start.saturating_add(new_length)), NONE]
        }
        libc::SYS_mremap => [pages(result, new_length), pages(start, length)],
        libc::SYS_madvise if empties(new_length as i32) => [pages(start, length), NONE],
        libc::SYS_brk => match break_before(log, index) {
            Some(before) => [between(before, result), NONE],
            None => [NONE; 2],
        },
        _ => [NONE; 2],
    }
}

impl Call {
    /// Where the bytes at an address were before the call moved them there, if it did.
    pub(crate) fn moved_from(&self, address: u64, size: u64) -> Option<u64> {
        let [old, old_length, new_length, ..] = self.arguments;
        let offset = address.checked_sub(self.result as u64)?;
        let moved = pages(0, old_length).end.min(pages(0, new_length).end);
        let is_moved = self.number == libc::SYS_mremap
            && !matches!(self.replay, Replay::Emulate(_))
            && self.result as u64 != old
            && offset.checked_add(size)? <= moved;
        is_moved.then(|| old.wrapping_add(offset))
    }
}

fn empties(advice: i32) -> bool {
    [libc::MADV_DONTNEED, libc::MADV_FREE, libc::MADV_REMOVE, MADV_DONTNEED_LOCKED, MADV_GUARD_INSTALL]
        .contains(&advice)
}

/// Where the heap ended before an event.
fn break_before(log: &Log, index: u64) -> Option<u64> {
    log.range(0, index).rev().find_map(|(_, event)| match &*event {
        Event::Call(call) if call.number == libc::SYS_brk => Some(call.result as u64),
        _ => None,
    })
}

fn pages(start: u64, length: u64) -> Range<u64> {
    start..start.saturating_add(length).checked_next_multiple_of(PAGE).unwrap_or(u64::MAX)
}

/// The pages from the end of one to the end of another, whichever is further.
fn between(one: u64, other: u64) -> Range<u64> {
    let end = |address: u64| address.checked_next_multiple_of(PAGE).unwrap_or(u64::MAX);
    end(one.min(other))..end(one.max(other))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn call(number: i64, arguments: [u64; 3], result: u64) -> Event {
        let [first, second, third] = arguments;
        let arguments = [first, second, third, 0, 0, 0];
        Event::Call(Call { number, arguments, pc: 0, result: result as i64, replay: Replay::Real })
    }

    #[test]
    fn only_pages_whose_content_changes_are_named() {
        let check = |number, arguments, result, expected: [Range<u64>; 2]| {
            let mut log = Log::default();
            log.push(call(libc::SYS_brk, [0; 3], 0x9100));
            log.push(call(number, arguments, result));
            assert_eq!(redefined(&log, 1), expected, "{number} {arguments:x?}");
        };
        let nothing = 0..0;
        check(libc::SYS_mmap, [0, 0x1800, 3], 0x4000, [0x4000..0x6000, nothing.clone()]);
        check(libc::SYS_munmap, [0x4000, 1, 0], 0, [0x4000..0x5000, nothing.clone()]);
        check(libc::SYS_mremap, [0x4000, 0x1000, 0x3000], 0x4000, [0x5000..0x7000, nothing.clone()]);
        check(libc::SYS_mremap, [0x4000, 0x3000, 0x1000], 0x4000, [0x5000..0x7000, nothing.clone()]);
        check(libc::SYS_mremap, [0x4000, 0x1000, 0x3000], 0x8000, [0x8000..0xb000, 0x4000..0x5000]);
        check(libc::SYS_brk, [0xb000, 0, 0], 0xb000, [0xa000..0xb000, nothing.clone()]);
        check(libc::SYS_madvise, [0x4000, 0x1000, 3], 0, [nothing.clone(), nothing.clone()]);
        check(libc::SYS_madvise, [0x4000, 0x1000, 4], 0, [0x4000..0x5000, nothing.clone()]);
        check(libc::SYS_mprotect, [0x4000, 0x1000, 3], 0, [nothing.clone(), nothing]);
    }

    #[test]
    fn what_was_moved_is_found_at_its_old_place() {
        let Event::Call(moved) = call(libc::SYS_mremap, [0x4000, 0x1000, 0x3000], 0x8000) else { panic!() };
        assert_eq!(moved.moved_from(0x8010, 4), Some(0x4010));
        assert_eq!(moved.moved_from(0x8ffe, 4), None, "half of it is new");
        assert_eq!(moved.moved_from(0x4010, 4), None, "that is the old place");
        let Event::Call(grown) = call(libc::SYS_mremap, [0x4000, 0x1000, 0x3000], 0x4000) else { panic!() };
        assert_eq!(grown.moved_from(0x4010, 4), None);
    }
}
