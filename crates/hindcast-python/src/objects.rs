//! The values of built-in types, and the attributes of instances.

use num_bigint::{BigInt, Sign};

use crate::{
    ReadError, Reader, Slot, Target,
    kind::Kind,
    layout::{Attributes, IntForm},
    reader::{HAS_INLINE_VALUES, HAS_MANAGED_DICT, TypeInfo},
};

/// In objects that have a size.
const SIZE: u64 = 16;
/// No container is believed to be larger.
const LARGEST: u64 = 1 << 40;

/// An entry of a dictionary.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Entry {
    pub(crate) key: u64,
    pub(crate) value: u64,
    /// Where the pointer to the value is.
    pub(crate) slot: u64,
}

impl Entry {
    pub(crate) fn slot_in(&self, dict: u64) -> Slot {
        Slot { address: self.slot, target: Target::Entry { dict, key: self.key } }
    }
}

/// An attribute that an instance has itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Attribute {
    pub(crate) name: String,
    pub(crate) value: u64,
    pub(crate) slot: u64,
}

/// A text, or the beginning of one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Text {
    pub(crate) text: String,
    /// How many characters it has in all.
    pub(crate) length: u64,
    pub(crate) is_cut: bool,
}

/// Half of a pair of UTF-16 is no character, but Python keeps it. It becomes one that nobody uses.
fn surrogate(number: u32) -> char {
    char::from_u32(crate::text::SURROGATES + (number & 0x7ff)).unwrap_or(char::REPLACEMENT_CHARACTER)
}

impl Reader<'_> {
    /// The number in an object that has a size.
    pub(crate) fn size(&self, object: u64) -> Result<u64, ReadError> {
        let size = self.word(object + SIZE)?;
        if size > LARGEST { Err(ReadError::damaged(object, "its size is impossible")) } else { Ok(size) }
    }

    pub(crate) fn int(&self, object: u64) -> Result<BigInt, ReadError> {
        /// Longer ones are not for reading.
        const MOST_DIGITS: u64 = 1 << 16;
        const DIGITS: u64 = 24;
        const BITS: u32 = 30;
        let head = self.word(object + SIZE)?;
        let (count, sign) = match self.python.layout.int_form {
            IntForm::SignedSize => {
                let size = head as i64;
                let sign = match size.signum() {
                    -1 => Sign::Minus,
                    0 => Sign::NoSign,
                    _ => Sign::Plus,
                };
                (size.unsigned_abs(), sign)
            }
            IntForm::Tag => {
                let sign = match head & 3 {
                    0 => Sign::Plus,
                    1 => Sign::NoSign,
                    2 => Sign::Minus,
                    _ => return Err(ReadError::damaged(object, "its sign is impossible")),
                };
                (head >> 3, sign)
            }
        };
        if count > MOST_DIGITS {
            return Err(ReadError::damaged(object, "it has too many digits"));
        }
        if sign == Sign::NoSign {
            return Ok(BigInt::ZERO);
        }
        let bytes = self.bytes(object + DIGITS, count as usize * 4)?;
        let mut value = BigInt::ZERO;
        for digit in bytes.chunks_exact(4).rev() {
            let digit = u32::from_le_bytes(digit.try_into().unwrap_or_default());
            if digit >> BITS != 0 {
                return Err(ReadError::damaged(object, "it has an impossible digit"));
            }
            value = (value << BITS) + digit;
        }
        Ok(if sign == Sign::Minus { -value } else { value })
    }

    pub(crate) fn float(&self, object: u64) -> Result<f64, ReadError> {
        Ok(f64::from_bits(self.word(object + SIZE)?))
    }

    /// At most `limit` characters of a text.
    pub(crate) fn text(&self, object: u64, limit: u64) -> Result<Text, ReadError> {
        const STATE: u64 = 32;
        let layout = self.python.layout;
        let length = self.size(object)?;
        let state = self.half(object + STATE)?;
        let (kind, is_compact, is_ascii) = (state >> 2 & 7, state >> 5 & 1 == 1, state >> 6 & 1 == 1);
        let data = match (is_compact, is_ascii) {
            (true, true) => object + layout.ascii_head,
            (true, false) => object + layout.compact_head,
            (false, _) => self.word(object + layout.compact_head)?,
        };
        let taken = length.min(limit) as usize;
        let lossy = |numbers: &mut dyn Iterator<Item = u32>| {
            numbers.map(|number| char::from_u32(number).unwrap_or(surrogate(number))).collect()
        };
        let bytes = self.bytes(data, taken * kind as usize)?;
        let text: String = match kind {
            1 => lossy(&mut bytes.iter().map(|&byte| u32::from(byte))),
            2 => lossy(&mut bytes.chunks_exact(2).map(|two| u32::from(u16::from_le_bytes([two[0], two[1]])))),
            4 => lossy(
                &mut bytes
                    .chunks_exact(4)
                    .map(|four| u32::from_le_bytes([four[0], four[1], four[2], four[3]])),
            ),
            _ => return Err(ReadError::damaged(object, "its text has no known form")),
        };
        Ok(Text { text, length, is_cut: length > limit })
    }

    /// The text of a name: of a file, a function, an attribute.
    pub(crate) fn name(&self, object: u64) -> Result<String, ReadError> {
        const LONGEST: u64 = 4096;
        if self.type_of(object)?.kind != Kind::Str {
            return Err(ReadError::damaged(object, "a name is no text"));
        }
        Ok(self.text(object, LONGEST)?.text)
    }

    /// At most `limit` bytes of a `bytes`.
    pub(crate) fn byte_string(&self, object: u64, limit: u64) -> Result<Vec<u8>, ReadError> {
        const BYTES: u64 = 32;
        let size = self.size(object)?.min(limit);
        self.bytes(object + BYTES, size as usize)
    }

    /// At most `limit` bytes of a `bytearray`.
    pub(crate) fn byte_array(&self, object: u64, limit: u64) -> Result<Vec<u8>, ReadError> {
        const START: u64 = 40;
        let size = self.size(object)?.min(limit);
        if size == 0 { Ok(Vec::new()) } else { self.bytes(self.word(object + START)?, size as usize) }
    }

    /// Where the elements of a list or tuple are kept, and how many there are.
    pub(crate) fn sequence(&self, object: u64, kind: Kind) -> Result<(u64, u64), ReadError> {
        const ITEMS: u64 = 24;
        let size = self.size(object)?;
        let items = match kind {
            Kind::Tuple => object + self.python.layout.tuple_items,
            _ => self.word(object + ITEMS)?,
        };
        Ok((items, size))
    }

    /// At most `limit` elements of a list or tuple from `offset` on.
    pub(crate) fn items(
        &self,
        object: u64,
        kind: Kind,
        offset: u64,
        limit: u64,
    ) -> Result<Vec<u64>, ReadError> {
        let (items, size) = self.sequence(object, kind)?;
        let count = size.saturating_sub(offset).min(limit);
        if count == 0 { Ok(Vec::new()) } else { self.words(items + offset * 8, count as usize) }
    }

    /// At most `limit` entries of a dictionary, in their order.
    pub(crate) fn entries(&self, dict: u64, limit: usize) -> Result<Vec<Entry>, ReadError> {
        let mut entries = Vec::new();
        self.each_entry(dict, |entry| {
            entries.push(entry);
            Ok(entries.len() < limit)
        })?;
        Ok(entries)
    }

    /// The entry of a dictionary whose key is this text.
    pub(crate) fn entry_named(&self, dict: u64, name: &str) -> Result<Option<Entry>, ReadError> {
        let mut found = None;
        self.each_entry(dict, |entry| {
            if self.is_text(entry.key, name)? {
                found = Some(entry);
            }
            Ok(found.is_none())
        })?;
        Ok(found)
    }

    /// Whether an object is this text.
    pub(crate) fn is_text(&self, object: u64, name: &str) -> Result<bool, ReadError> {
        if self.type_of(object)?.kind != Kind::Str || self.size(object)? != name.chars().count() as u64 {
            return Ok(false);
        }
        Ok(self.text(object, u64::MAX)?.text == name)
    }

    /// Goes through a dictionary until `look` has seen enough.
    pub(crate) fn each_entry(
        &self,
        dict: u64,
        mut look: impl FnMut(Entry) -> Result<bool, ReadError>,
    ) -> Result<(), ReadError> {
        const KEYS: u64 = 32;
        const VALUES: u64 = 40;
        let (keys, values) = (self.word(dict + KEYS)?, self.word(dict + VALUES)?);
        let values = match (values, self.python.layout.attributes) {
            (0, _) => None,
            (values, Attributes::Inline { head, .. }) => Some(values + head),
            (values, _) => Some(values),
        };
        self.each_key(keys, |index, key, own| {
            let (slot, value) = match values {
                Some(values) => (values + index * 8, self.word(values + index * 8)?),
                None => own,
            };
            // Both are absent where an entry was deleted.
            if key == 0 || value == 0 { Ok(true) } else { look(Entry { key, value, slot }) }
        })
    }

    /// Goes through the table of keys that dictionaries may share: the number of each, the key, and its own slot and value.
    fn each_key(
        &self,
        keys: u64,
        mut look: impl FnMut(u64, u64, (u64, u64)) -> Result<bool, ReadError>,
    ) -> Result<(), ReadError> {
        const INDEX_BYTES: u64 = 9;
        const KIND: u64 = 10;
        const COUNT: u64 = 24;
        const INDICES: u64 = 32;
        const AT_ONCE: u64 = 256;
        let index_bytes = self.byte(keys + INDEX_BYTES)?;
        let count = self.word(keys + COUNT)?;
        if index_bytes > 48 || count > LARGEST {
            return Err(ReadError::damaged(keys, "the table of a dictionary is impossible"));
        }
        // General tables keep the hash of each key as well.
        let words = if self.byte(keys + KIND)? == 0 { 3 } else { 2 };
        let entries = keys + INDICES + (1 << index_bytes);
        for first in (0..count).step_by(AT_ONCE as usize) {
            let taken = (count - first).min(AT_ONCE);
            let read = self.words(entries + first * words * 8, (taken * words) as usize)?;
            for (index, entry) in (first..).zip(read.chunks_exact(words as usize)) {
                let (key, value) = (entry[words as usize - 2], entry[words as usize - 1]);
                let slot = entries + (index * words + words - 1) * 8;
                if !look(index, key, (slot, value))? {
                    return Ok(());
                }
            }
        }
        Ok(())
    }

    /// At most `limit` elements of a set, in the order of its table, and how many there are.
    pub(crate) fn set(&self, object: u64, limit: usize) -> Result<(Vec<u64>, u64), ReadError> {
        const USED: u64 = 24;
        const MASK: u64 = 32;
        const TABLE: u64 = 40;
        const AT_ONCE: u64 = 256;
        let (used, mask) = (self.word(object + USED)?, self.word(object + MASK)?);
        if used > LARGEST || mask > LARGEST {
            return Err(ReadError::damaged(object, "its size is impossible"));
        }
        let table = self.word(object + TABLE)?;
        let mut found = Vec::new();
        for first in (0..=mask).step_by(AT_ONCE as usize) {
            let taken = (mask + 1 - first).min(AT_ONCE);
            for entry in self.words(table + first * 16, taken as usize * 2)?.chunks_exact(2) {
                // A deleted entry has a key that is no element, and this hash.
                if entry[0] != 0 && entry[1] != u64::MAX && found.len() < limit {
                    found.push(entry[0]);
                }
            }
            if found.len() as u64 >= used.min(limit as u64) {
                break;
            }
        }
        Ok((found, used))
    }

    /// At most `limit` elements of a deque from `offset` on, with the places of their pointers, and how many there are.
    pub(crate) fn deque(
        &self,
        object: u64,
        offset: u64,
        limit: u64,
    ) -> Result<(Vec<(u64, u64)>, u64), ReadError> {
        const LEFT: u64 = 24;
        const LEFT_INDEX: u64 = 40;
        const BLOCK: u64 = 64;
        const RIGHT_LINK: u64 = 8 + BLOCK * 8;
        const MOST_BLOCKS: u64 = 1 << 22;
        let size = self.size(object)?;
        let (mut block, left) = (self.word(object + LEFT)?, self.word(object + LEFT_INDEX)?);
        if left >= BLOCK && size > 0 {
            return Err(ReadError::damaged(object, "its first index is impossible"));
        }
        let mut at = left + offset.min(size);
        if at / BLOCK > MOST_BLOCKS {
            return Err(ReadError::damaged(object, "its size is impossible"));
        }
        for _ in 0..at / BLOCK {
            block = self.word(block + RIGHT_LINK)?;
        }
        at %= BLOCK;
        let mut found = Vec::new();
        for _ in 0..size.saturating_sub(offset).min(limit) {
            if at == BLOCK {
                (block, at) = (self.word(block + RIGHT_LINK)?, 0);
            }
            let slot = block + 8 + at * 8;
            found.push((slot, self.word(slot)?));
            at += 1;
        }
        Ok((found, size))
    }

    /// The attributes that an instance has itself, at most `limit`: those of its dictionary, and its slots.
    pub(crate) fn attributes(&self, object: u64, limit: usize) -> Result<Vec<Attribute>, ReadError> {
        let info = self.type_of(object)?;
        let mut found = Vec::new();
        match self.home_of_attributes(object, &info)? {
            Home::Values { keys, values } => self.each_key(keys, |index, key, _| {
                let slot = values + index * 8;
                let value = self.word(slot)?;
                if key != 0 && value != 0 {
                    found.push(Attribute { name: self.name(key)?, value, slot });
                }
                Ok(found.len() < limit)
            })?,
            Home::Dict(dict) => self.each_entry(dict, |entry| {
                if self.type_of(entry.key)?.kind == Kind::Str {
                    found.push(Attribute {
                        name: self.name(entry.key)?,
                        value: entry.value,
                        slot: entry.slot,
                    });
                }
                Ok(found.len() < limit)
            })?,
            Home::Nowhere => {}
        }
        self.slots(object, &info, limit, &mut found)?;
        Ok(found)
    }

    /// Where the dictionary of an instance, or what stands for it, is.
    fn home_of_attributes(&self, object: u64, info: &TypeInfo) -> Result<Home, ReadError> {
        if info.flags & HAS_MANAGED_DICT == 0 {
            return match info.dict_offset {
                offset if offset > 0 => Ok(Home::of_dict(self.word(object + offset as u64)?)),
                _ => Ok(Home::Nowhere),
            };
        }
        let keys = || self.word(info.address + self.python.layout.cached_keys);
        match self.python.layout.attributes {
            Attributes::BeforeObject => match self.word(object - 32)? {
                0 => Ok(Home::of_dict(self.word(object - 24)?)),
                values => Ok(Home::Values { keys: keys()?, values }),
            },
            Attributes::Tagged => match self.word(object - 24)? {
                word if word & 1 == 1 => Ok(Home::Values { keys: keys()?, values: word + 1 }),
                dict => Ok(Home::of_dict(dict)),
            },
            Attributes::Inline { head, valid } => {
                let inline = object + info.basic_size;
                let has_inline = info.flags & HAS_INLINE_VALUES != 0 && self.byte(inline + valid)? != 0;
                match has_inline {
                    true => Ok(Home::Values { keys: keys()?, values: inline + head }),
                    false => Ok(Home::of_dict(self.word(object - 24)?)),
                }
            }
        }
    }

    /// What `__slots__` of the class and its bases declare.
    fn slots(
        &self,
        object: u64,
        info: &TypeInfo,
        limit: usize,
        found: &mut Vec<Attribute>,
    ) -> Result<(), ReadError> {
        const MEMBER: u64 = 40;
        const MOST_BASES: usize = 64;
        const MOST_MEMBERS: u64 = 1024;
        /// An object, and one whose absence is an error.
        const OBJECTS: [u32; 2] = [6, 16];
        let mut info = std::rc::Rc::new(info.clone());
        for _ in 0..MOST_BASES {
            if !info.is_heap_type() {
                break;
            }
            for number in 0..if info.members == 0 { 0 } else { MOST_MEMBERS } {
                let member = info.members + number * MEMBER;
                let name = self.word(member)?;
                if name == 0 || found.len() >= limit {
                    break;
                }
                let (kind, offset) = (self.half(member + 8)?, self.word(member + 16)?);
                let name = self.c_text(name)?;
                if !OBJECTS.contains(&kind) || offset > LARGEST || name.starts_with("__") {
                    continue;
                }
                let (slot, value) = (object + offset, self.word(object + offset)?);
                if value != 0 {
                    found.push(Attribute { name, value, slot });
                }
            }
            if info.base == 0 {
                break;
            }
            info = self.type_info(info.base)?;
        }
        Ok(())
    }
}

/// Where the attributes of an instance are.
enum Home {
    Nowhere,
    Dict(u64),
    Values { keys: u64, values: u64 },
}

impl Home {
    fn of_dict(dict: u64) -> Self {
        if dict == 0 { Self::Nowhere } else { Self::Dict(dict) }
    }
}
