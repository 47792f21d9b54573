//! The slots of hash tables, read from memory many at a time.

use crate::cor::{ArrayValue, Com, Value};

use super::{
    answer::Answer,
    collections::{element, length},
    seen::{Seen, Values},
};

/// How much memory is read at once.
const BLOCK: u64 = 1 << 20;

/// What the field of a slot may be called that tells whether the slot is in use, and what it is then.
pub(super) type Mark<'a> = (&'a [&'a str], fn(i32) -> bool);

/// A field of the structs in an array.
struct Column {
    /// Where the first struct is.
    first: u64,
    /// How far each struct is from the one before.
    stride: u64,
    /// Where the field is in the struct.
    offset: u64,
    size: u64,
}

impl Values<'_> {
    /// The slot before which so many are in use, by a number in each slot that tells.
    pub(super) fn slot_after(
        &self,
        entries: &Com<ArrayValue>,
        used: u64,
        skipped: u64,
        (names, is_live): Mark<'_>,
    ) -> Option<u64> {
        let column = self.column(entries, used, names)?;
        let mut found = 0;
        self.find_slot(&column, used, |bytes| {
            let number = i32::from_le_bytes(column.field(bytes)?.try_into().ok()?);
            let is_it = found == skipped;
            found += u64::from(is_live(number));
            Some(is_it)
        })?
    }

    /// The slot in use whose key has these bytes; `None` within where there is none.
    pub(super) fn slot_with_key(
        &self,
        entries: &Com<ArrayValue>,
        used: u64,
        key: &[u8],
    ) -> Option<Option<u64>> {
        let keys = self.column(entries, used, &["key"])?;
        let next = self.column(entries, used, &["next"])?;
        if keys.size != key.len() as u64 {
            return None;
        }
        self.find_slot(&keys, used, |bytes| {
            let next = i32::from_le_bytes(next.field(bytes)?.try_into().ok()?);
            Some(next >= -1 && keys.field(bytes)? == key)
        })
    }

    /// The first slot that `is_it` takes; none at all where the memory cannot be read, or not in time.
    fn find_slot(
        &self,
        column: &Column,
        used: u64,
        mut is_it: impl FnMut(&[u8]) -> Option<bool>,
    ) -> Option<Option<u64>> {
        let stride = usize::try_from(column.stride).ok()?;
        let in_block = (BLOCK / column.stride).max(1);
        for from in (0..used).step_by(usize::try_from(in_block).ok()?) {
            let count = in_block.min(used - from);
            let size = u32::try_from(count * column.stride).ok()?;
            let bytes = self.process.read_memory(column.first + from * column.stride, size).ok()?;
            if bytes.len() != size as usize || Answer::is_over() {
                return None;
            }
            for (slot, bytes) in (from..).zip(bytes.chunks_exact(stride)) {
                if is_it(bytes)? {
                    return Some(Some(slot));
                }
            }
        }
        Some(None)
    }

    /// Where a field is in the slots; none where memory is not as it should be.
    fn column(&self, entries: &Com<ArrayValue>, used: u64, names: &[&str]) -> Option<Column> {
        let last = used.min(length(entries)).checked_sub(1).filter(|last| *last > 0)?;
        let slot = |at| self.see(&element(entries, at).ok()?).ok();
        let place = |at| element(entries, at).ok()?.address().ok();
        let field = |slot: &Seen| -> Option<Com<Value>> { self.any_raw(slot, names) };
        let (first, second) = (place(0)?, place(1)?);
        let in_first = field(&slot(0)?)?;
        let stride = second.checked_sub(first).filter(|stride| *stride > 0)?;
        let offset = in_first.address().ok()?.checked_sub(first)?;
        let size = u64::from(in_first.size().ok()?);
        if offset + size > stride {
            return None;
        }
        // The runtime shows the same in the last one.
        let in_last = field(&slot(last)?)?;
        let is_there = in_last.address().ok()? == first + last * stride + offset;
        let bytes =
            self.process.read_memory(first + last * stride + offset, u32::try_from(size).ok()?).ok()?;
        let is_same = self.see(&in_last).ok()?.bytes()? == bytes;
        (is_there && is_same).then_some(Column { first, stride, offset, size })
    }
}

impl Column {
    /// The field in the bytes of a struct.
    fn field<'a>(&self, bytes: &'a [u8]) -> Option<&'a [u8]> {
        let from = usize::try_from(self.offset).ok()?;
        bytes.get(from..from + usize::try_from(self.size).ok()?)
    }
}
