//! The memory of a program, wherever it is kept.

use std::{cell::RefCell, collections::HashMap};

/// Memory that cannot be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("cannot read memory at {0:#x}")]
pub struct Unreadable(pub u64);

/// The memory of a program, without any breakpoints that are in it.
pub trait Memory {
    /// Fills `buffer` from `address` on, or tells the first address that cannot be read.
    fn read(&self, address: u64, buffer: &mut [u8]) -> Result<(), Unreadable>;

    /// An unsigned number of up to eight bytes, little-endian.
    fn read_uint(&self, address: u64, size: usize) -> Result<u64, Unreadable> {
        let mut bytes = [0; 8];
        self.read(address, &mut bytes[..size.min(8)])?;
        Ok(u64::from_le_bytes(bytes))
    }

    /// A pointer.
    fn read_pointer(&self, address: u64) -> Result<u64, Unreadable> {
        self.read_uint(address, 8)
    }

    /// Whether reading the same again costs next to nothing.
    fn is_in_pages(&self) -> bool {
        false
    }

    /// Whether somebody notes what is read: then nothing more is to be read than is needed.
    fn is_noted(&self) -> bool {
        false
    }
}

const PAGE: u64 = 4096;
/// How many pages are kept.
const MOST_PAGES: usize = 16_384;

/// Memory that is read in whole pages, and kept: for those who read many small pieces while the program stands still.
pub struct Pages<'m> {
    memory: &'m dyn Memory,
    /// By their number; none where a page cannot be read as a whole.
    pages: RefCell<HashMap<u64, Option<Box<[u8]>>>>,
}

impl<'m> Pages<'m> {
    /// Nothing is read yet.
    pub fn over(memory: &'m dyn Memory) -> Self {
        Self { memory, pages: RefCell::default() }
    }
}

impl Memory for Pages<'_> {
    fn read(&self, address: u64, buffer: &mut [u8]) -> Result<(), Unreadable> {
        let (number, offset) = (address / PAGE, (address % PAGE) as usize);
        if offset + buffer.len() > PAGE as usize {
            return self.memory.read(address, buffer);
        }
        let mut pages = self.pages.borrow_mut();
        if pages.len() >= MOST_PAGES {
            pages.clear();
        }
        let page = pages.entry(number).or_insert_with(|| {
            let mut page = vec![0; PAGE as usize].into_boxed_slice();
            self.memory.read(number * PAGE, &mut page).is_ok().then_some(page)
        });
        match page {
            Some(page) => buffer.copy_from_slice(&page[offset..offset + buffer.len()]),
            None => return self.memory.read(address, buffer),
        }
        Ok(())
    }

    fn is_in_pages(&self) -> bool {
        true
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;

    /// Two pages from 0x1000 on, each byte its own address, of which the second ends in its middle.
    #[derive(Default)]
    struct Counting(Cell<u32>);

    impl Memory for Counting {
        fn read(&self, address: u64, buffer: &mut [u8]) -> Result<(), Unreadable> {
            self.0.set(self.0.get() + 1);
            for (byte, at) in buffer.iter_mut().zip(address..) {
                *byte = if (0x1000..0x2800).contains(&at) { at as u8 } else { return Err(Unreadable(at)) };
            }
            Ok(())
        }
    }

    #[test]
    fn a_page_is_read_once_and_parts_of_pages_as_they_are() {
        let memory = Counting::default();
        let pages = Pages::over(&memory);
        for address in 0x1000..0x1100 {
            assert_eq!(pages.read_uint(address, 1), Ok(address & 0xff));
        }
        assert_eq!(memory.0.get(), 1);
        assert_eq!(pages.read_uint(0x1ffe, 4), memory.read_uint(0x1ffe, 4));
        assert_eq!(pages.read_uint(0x27fe, 2), Ok(0xfffe));
        assert_eq!(pages.read_uint(0x27fe, 4), Err(Unreadable(0x2800)));
        assert_eq!(pages.read_uint(0x0ffe, 1), Err(Unreadable(0x0ffe)));
    }
}
