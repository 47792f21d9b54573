//! What stands for a name in an index of names.

use gimli::{AttributeValue, SectionId};
use memchr::memmem;

use crate::dwarf::{DebugInfo, Value, View};

/// Where a name is in the table of strings; its hash, where it is not in the module's own table.
///
/// So the table is not read while an index is made, and only once, from its beginning to its end, when
/// a name is looked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct NameKey(u32);

const IS_HASH: u32 = 1 << 31;

impl NameKey {
    /// Of an attribute that is a string.
    pub(super) fn of<'a>(view: &View<'a>, value: Value<'a>) -> Option<Self> {
        let offset = match value {
            AttributeValue::DebugStrRef(offset) => Some(offset),
            AttributeValue::DebugStrOffsetsIndex(index) => view.dwarf.string_offset(&view.unit, index).ok(),
            _ => None,
        };
        let place = offset.and_then(|offset| u32::try_from(offset.0).ok());
        if let Some(place) = place.filter(|&place| view.file == 0 && place < IS_HASH) {
            return Some(Self(place));
        }
        let name = view.dwarf.attr_string(&view.unit, value).ok()?;
        Some(Self::hashed(base_bytes(name.slice())))
    }

    fn hashed(name: &[u8]) -> Self {
        let hash = name
            .iter()
            .fold(0x811c_9dc5_u32, |hash, &byte| (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193));
        Self(hash | IS_HASH)
    }

    /// Calls `each` with everything that may stand for `name`, and for it with generic arguments.
    pub(super) fn each_of(debug: &DebugInfo, name: &str, mut each: impl FnMut(Self)) {
        // Read in parts, so that what was searched can be given back.
        const PART: usize = 1 << 20;
        each(Self::hashed(name.as_bytes()));
        let sections = debug.own().sections();
        let table = sections.bytes(SectionId::DebugStr);
        let finder = memmem::Finder::new(name.as_bytes());
        for start in (0..table.len().min(IS_HASH as usize)).step_by(PART) {
            let end = (start + PART + name.len()).min(table.len());
            let part = &table[start..end];
            // Linkers let strings share their ends: a name may begin anywhere.
            for at in finder.find_iter(part).take_while(|&at| at < PART) {
                if matches!(table.get(start + at + name.len()), None | Some(0 | b'<')) {
                    each(Self((start + at) as u32));
                }
            }
            sections.passed(PART);
        }
    }
}

/// A name without its generic arguments: `f` of `f<int>`.
pub(crate) fn base_name(name: &str) -> &str {
    &name[..base_bytes(name.as_bytes()).len()]
}

fn base_bytes(name: &[u8]) -> &[u8] {
    match memchr::memchr(b'<', name) {
        Some(at) if at > 0 && !name.starts_with(b"operator") => &name[..at],
        _ => name,
    }
}
