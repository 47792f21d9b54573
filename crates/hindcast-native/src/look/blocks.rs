//! The blocks of glibc's heap, one after the other as it keeps them. Where they do not fit together, none is told.

use std::ops::Range;

use crate::sys::Mapping;

/// Blocks in the order of their addresses: what can be used of them.
#[derive(Debug, Default)]
pub(crate) struct Blocks(Vec<Range<u64>>);

/// What the allocator keeps before a block: the size of the one before, then its own with marks in the lowest bits.
const HEADER: u64 = 16;
const MARKS: u64 = 0b111;
/// A block has no less, except for the marks at the end of a piece of the heap.
const SMALLEST: u64 = 32;
const FENCE: u64 = 16;
const WINDOW: usize = 1 << 20;

impl Blocks {
    pub(crate) fn of(mappings: &[Mapping], read: &dyn Fn(u64, &mut [u8]) -> usize) -> Self {
        let mut heaps = mappings.iter().filter(|mapping| mapping.name == "[heap]");
        match (heaps.next(), heaps.next()) {
            (Some(heap), None) => Self(followed(heap.start..heap.end, read).unwrap_or_default()),
            _ => Self::default(),
        }
    }

    /// The block that an address is in.
    pub(crate) fn around(&self, address: u64) -> Option<Range<u64>> {
        let next = self.0.partition_point(|block| block.end <= address);
        self.0.get(next).filter(|block| block.contains(&address)).cloned()
    }
}

/// Follows the sizes from block to block. The last one must end where the heap does.
fn followed(heap: Range<u64>, read: &dyn Fn(u64, &mut [u8]) -> usize) -> Option<Vec<Range<u64>>> {
    let mut window = Window { start: 0, bytes: vec![0; WINDOW], length: 0 };
    let mut blocks = Vec::new();
    let mut at = heap.start;
    while at < heap.end {
        let size = window.word(at + 8, read)? & !MARKS;
        let end = at.checked_add(size).filter(|end| *end <= heap.end)?;
        if size >= SMALLEST {
            // The last word is where the next one keeps the size of this one, while it is free.
            blocks.push(at + HEADER..(end + 8).min(heap.end));
        } else if size != FENCE {
            return None;
        }
        at = end;
    }
    // What comes last was not given to anybody.
    blocks.pop();
    Some(blocks)
}

struct Window {
    start: u64,
    bytes: Vec<u8>,
    length: usize,
}

impl Window {
    fn word(&mut self, address: u64, read: &dyn Fn(u64, &mut [u8]) -> usize) -> Option<u64> {
        let is_there = |window: &Self| {
            let offset = usize::try_from(address.checked_sub(window.start)?).ok()?;
            window.bytes[..window.length].get(offset..offset.checked_add(8)?)?.try_into().ok()
        };
        if is_there(self).is_none() {
            self.start = address;
            self.length = read(address, &mut self.bytes);
        }
        is_there(self).map(u64::from_le_bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn heap(sizes: &[u64]) -> (Vec<u8>, Mapping) {
        let mut bytes = Vec::new();
        for size in sizes {
            bytes.extend(0_u64.to_le_bytes());
            bytes.extend((size | 1).to_le_bytes());
            bytes.resize(bytes.len() + *size as usize - 16, 0);
        }
        let mapping = Mapping {
            start: 0x1000,
            end: 0x1000 + bytes.len() as u64,
            permissions: "rw-p".into(),
            offset: 0,
            name: "[heap]".into(),
            inode: 0,
        };
        (bytes, mapping)
    }

    fn blocks(sizes: &[u64]) -> Blocks {
        let (bytes, mapping) = heap(sizes);
        Blocks::of(&[mapping], &|address, into| {
            let from = (address - 0x1000) as usize;
            let count = into.len().min(bytes.len() - from);
            into[..count].copy_from_slice(&bytes[from..from + count]);
            count
        })
    }

    #[test]
    fn blocks_are_followed_by_their_sizes() {
        let blocks = blocks(&[0x290, 0x20, 0x40, 0x1000]);
        assert_eq!(blocks.around(0x1290 + 0x10), Some(0x12a0..0x12b8));
        assert_eq!(blocks.around(0x12b7), Some(0x12a0..0x12b8));
        assert_eq!(blocks.around(0x12b8), None);
        assert_eq!(blocks.around(0x12c0), Some(0x12c0..0x12f8));
        assert_eq!(blocks.around(0x1400), None, "the rest was given to nobody");
    }

    #[test]
    fn a_heap_of_another_kind_has_no_blocks() {
        let (mut bytes, mapping) = heap(&[0x40, 0x60]);
        bytes[0x48] = 0x68;
        let read = |address: u64, into: &mut [u8]| {
            let from = (address - 0x1000) as usize;
            let count = into.len().min(bytes.len() - from);
            into[..count].copy_from_slice(&bytes[from..from + count]);
            count
        };
        assert!(Blocks::of(&[mapping], &read).around(0x1010).is_none());
    }
}
