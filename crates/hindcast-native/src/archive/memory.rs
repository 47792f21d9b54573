//! How the memory of a process is laid out, and what of it stays from one checkpoint to the next.

use std::io;

use super::{
    ArchiveError,
    stream::{Sink, Source},
};
use crate::sys::{self, Mapping, PAGE};

/// A mapping, as it is made again. All are private: what was shared is a copy of its own in a checkpoint.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Area {
    pub(super) start: u64,
    pub(super) end: u64,
    pub(super) protection: u64,
    /// Whether it grows downwards when it is accessed below its start, as the stack does.
    pub(super) grows: bool,
    /// The file behind it, by its number in the recording, and where in that it begins.
    pub(super) file: Option<(u64, u64)>,
}

/// Above this there is nothing that a program can map.
const HIGHEST: u64 = 0x7fff_ffff_f000;
const LOWEST: u64 = PAGE;
/// The system allows no more unless it is told to.
const MOST: u64 = 1 << 20;
const NO_FILE: u64 = u64::MAX;

impl Area {
    /// `None` for what the system maps into every process, and nobody looks at.
    pub(super) fn of(mapping: &Mapping, file: Option<usize>) -> Option<Self> {
        if mapping.name.starts_with("[vvar") || mapping.end > HIGHEST {
            return None;
        }
        Some(Self {
            start: mapping.start,
            end: mapping.end,
            protection: sys::protection(&mapping.permissions),
            grows: mapping.name == "[stack]",
            file: file.map(|file| (file as u64, mapping.offset)),
        })
    }

    /// Up to where it is one that there was before, perhaps shorter or longer: its content stays.
    pub(super) fn kept(&self, before: &[Self]) -> u64 {
        let same = before.binary_search_by_key(&self.start, |area| area.start).map(|index| &before[index]);
        match same {
            Ok(old)
                if (Self { end: old.end, ..self.clone() }) == *old
                    && (old.end == self.end || !self.grows) =>
            {
                old.end.min(self.end)
            }
            _ => self.start,
        }
    }

    pub(super) fn write(&self, sink: &mut Sink<'_, '_>) -> io::Result<()> {
        let (file, offset) = self.file.unwrap_or((NO_FILE, 0));
        sink.numbers(&[self.start, self.end, self.protection | u64::from(self.grows) << 8, file, offset])
    }
}

/// The layout of a process, which must be one that can be.
pub(super) fn read(source: &mut Source) -> Result<Vec<Area>, ArchiveError> {
    let count = source.count(MOST)?;
    let mut areas: Vec<Area> = Vec::new();
    for _ in 0..count {
        let [start, end, kind, file, offset] = source.numbers()?;
        let lowest = areas.last().map_or(LOWEST, |area| area.end);
        let aligned = [start, end, offset].iter().all(|address| address.is_multiple_of(PAGE));
        if !aligned || start < lowest || start >= end || end > HIGHEST || kind >> 9 != 0 {
            return Err(ArchiveError::Malformed("a mapping in it is impossible"));
        }
        let file = (file != NO_FILE).then_some((file, offset));
        areas.push(Area { start, end, protection: kind & 7, grows: kind >> 8 == 1, file });
    }
    Ok(areas)
}

/// Where nothing is, neither in one layout nor in the other: room for so many pages.
pub(super) fn gap(areas: &[Area], others: &[Mapping], pages: u64) -> Option<u64> {
    // Far from where anything grows, below what the system fills from above.
    const SEARCHED: std::ops::Range<u64> = 0x1000_0000..0x7000_0000_0000;
    let length = pages * PAGE;
    let taken = areas.iter().map(|area| (area.start, area.end));
    let mut taken: Vec<_> = taken.chain(others.iter().map(|mapping| (mapping.start, mapping.end))).collect();
    taken.sort_unstable();
    let mut at = SEARCHED.start;
    for (start, end) in taken {
        if start >= at + 2 * length {
            break;
        }
        at = at.max(end + length);
    }
    (at + length <= SEARCHED.end).then_some(at)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn area(start: u64, end: u64, file: Option<(u64, u64)>) -> Area {
        Area { start, end, protection: 3, grows: false, file }
    }

    #[test]
    fn what_has_the_same_beginning_and_kind_keeps_its_content() {
        let before = [area(0x1000, 0x4000, None), area(0x8000, 0x9000, Some((1, 0)))];
        assert_eq!(area(0x1000, 0x4000, None).kept(&before), 0x4000);
        assert_eq!(area(0x1000, 0x6000, None).kept(&before), 0x4000);
        assert_eq!(area(0x1000, 0x2000, None).kept(&before), 0x2000);
        assert_eq!(area(0x2000, 0x4000, None).kept(&before), 0x2000);
        assert_eq!(area(0x8000, 0x9000, Some((2, 0))).kept(&before), 0x8000);
        assert_eq!(area(0x8000, 0x9000, Some((1, 0x1000))).kept(&before), 0x8000);
        let read_only = Area { protection: 1, ..area(0x1000, 0x4000, None) };
        assert_eq!(read_only.kept(&before), 0x1000);
        let stack = Area { grows: true, ..area(0x1000, 0x4000, None) };
        assert_eq!(stack.kept(&before), 0x1000);
        assert_eq!(stack.kept(std::slice::from_ref(&stack)), 0x4000);
    }

    #[test]
    fn room_is_found_where_neither_layout_has_anything() {
        let taken = [area(0x1000_0000, 0x1000_4000, None), area(0x1000_5000, 0x2000_0000, None)];
        let found = gap(&taken, &[], 2).unwrap();
        assert!(taken.iter().all(|area| found + 2 * PAGE <= area.start || found >= area.end), "{found:#x}");
        assert_eq!(gap(&[area(0x1000, HIGHEST, None)], &[], 2), None);
    }
}
