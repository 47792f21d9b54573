//! A frame whose names mean the same at other moments: what is kept in memory stays where it is while the frame exists.

use std::{cell::RefCell, collections::BTreeMap, ops::Range};

use hindcast_core::debug::DebugError;
use hindcast_symbols::{InlineFrame, Memory, Pages, Unreadable};

use super::{FrameScope, PhysicalFrame, Scene, ThreadScene, walk};
use crate::sys::GeneralRegisters;

/// A frame of a thread, for other moments than the one at which it was looked at.
#[derive(Clone)]
pub(crate) struct FixedFrame {
    registers: GeneralRegisters,
    physical: PhysicalFrame,
    source: Option<InlineFrame>,
}

impl FixedFrame {
    /// The frame number `index`, from 0 for the innermost.
    pub(crate) fn of(scene: &Scene<'_>, thread: &ThreadScene, index: u32) -> Result<Self, DebugError> {
        let walk = walk(scene, &thread.registers, thread.hidden, index as usize + 1);
        let frames = u32::try_from(walk.logical.len()).unwrap_or(u32::MAX);
        let logical = walk.logical.get(index as usize).ok_or(DebugError::NoSuchFrame { index, frames })?;
        let physical = walk.physical[logical.physical].clone();
        Ok(Self { registers: thread.registers, physical, source: logical.source.clone() })
    }

    /// An address within it.
    pub(crate) fn base(&self) -> Option<u64> {
        self.physical.cfa.and_then(|end| end.checked_sub(8))
    }

    /// Looks at a program with the names of this frame. Those of registers are unknown. The second argument tells what was
    /// read so far.
    pub(crate) fn with<T>(
        &self,
        scene: &Scene<'_>,
        look: impl FnOnce(&FrameScope<'_>, &dyn Fn() -> ReadSet) -> T,
    ) -> T {
        let memory = Traced { pages: Pages::over(scene.memory), reads: RefCell::default() };
        let scene = Scene { memory: &memory, ..*scene };
        let thread = ThreadScene { registers: self.registers, vectors: None, hidden: 0 };
        let scope = FrameScope::fixed(&scene, &thread, self.physical.clone(), self.source.clone());
        look(&scope, &|| memory.reads.borrow().clone())
    }
}

/// Which words of memory were read.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct ReadSet {
    /// One bit a word, by the number of the page.
    pages: BTreeMap<u64, [u64; 8]>,
}

const WORD: u64 = 8;
const PAGE: u64 = 4096;

impl ReadSet {
    pub(crate) fn add(&mut self, address: u64, size: u64) {
        if size == 0 {
            return;
        }
        let last = address.saturating_add(size - 1) / WORD;
        for word in address / WORD..=last {
            let (page, bit) = (word * WORD / PAGE, word % (PAGE / WORD));
            self.pages.entry(page).or_default()[(bit / 64) as usize] |= 1 << (bit % 64);
        }
    }

    pub(crate) fn join(&mut self, other: Self) {
        for (page, bits) in other.pages {
            let own = self.pages.entry(page).or_default();
            own.iter_mut().zip(bits).for_each(|(own, bits)| *own |= bits);
        }
    }

    /// In the order of addresses; what adjoins is one.
    pub(crate) fn words(&self) -> Vec<Range<u64>> {
        let mut ranges: Vec<Range<u64>> = Vec::new();
        for (page, bits) in &self.pages {
            for bit in (0..PAGE / WORD).filter(|bit| bits[(bit / 64) as usize] >> (bit % 64) & 1 == 1) {
                let start = page * PAGE + bit * WORD;
                match ranges.last_mut().filter(|last| last.end == start) {
                    Some(last) => last.end = start + WORD,
                    None => ranges.push(start..start + WORD),
                }
            }
        }
        ranges
    }

    /// Whether all of it is in these ranges.
    pub(crate) fn is_within(&self, ranges: &[Range<u64>]) -> bool {
        let is_in =
            |word: &Range<u64>| ranges.iter().any(|range| range.start <= word.start && word.end <= range.end);
        self.words().iter().all(is_in)
    }
}

/// Memory that takes down what is read.
struct Traced<'m> {
    pages: Pages<'m>,
    reads: RefCell<ReadSet>,
}

impl Memory for Traced<'_> {
    fn read(&self, address: u64, buffer: &mut [u8]) -> Result<(), Unreadable> {
        self.reads.borrow_mut().add(address, buffer.len() as u64);
        self.pages.read(address, buffer)
    }

    fn is_in_pages(&self) -> bool {
        true
    }

    fn is_noted(&self) -> bool {
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_that_adjoin_are_one_range_also_across_pages() {
        let mut set = ReadSet::default();
        set.add(0x1ffc, 8);
        set.add(0x2010, 1);
        set.add(0x2018, 4);
        assert_eq!(set.words(), [0x1ff8..0x2008, 0x2010..0x2020]);
        let around = 0x1ff0..0x2020;
        assert!(set.is_within(std::slice::from_ref(&around)));
        assert!(!set.is_within(&[0x1ff8..0x2008, 0x2010..0x2018]));
        let mut other = ReadSet::default();
        other.add(0x2008, 8);
        set.join(other);
        let whole = 0x1ff8..0x2020;
        assert_eq!(set.words(), std::slice::from_ref(&whole));
    }
}
