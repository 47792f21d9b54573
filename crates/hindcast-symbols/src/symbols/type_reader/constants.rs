//! Constants in debug information, and what their bits mean.

use gimli::AttributeValue;

use super::Reading;
use crate::dwarf::{DieRef, Entry, Value, View};
use crate::module::LoadedModule;

/// Aliases around a type: longer chains are damage.
const LONGEST_CHAIN: usize = 16;

impl<'a> Reading<'_, 'a> {
    pub(super) fn enumerators(&self) -> Vec<(String, i128)> {
        let signed = self
            .type_of(self.entry)
            .map(|underlying| is_signed(self.module, DieRef::decode(underlying.entry)))
            // Without an underlying type, C's enumerators are signed where one of them says so.
            .unwrap_or(true);
        let mut found = Vec::new();
        self.children(|child| {
            if child.tag() == gimli::DW_TAG_enumerator
                && let Some(name) = self.view.name(child)
                && let Some(value) = child.attr_value(gimli::DW_AT_const_value)
            {
                found.extend(constant(&value, signed).map(|value| (name.into_owned(), value)));
            }
            true
        });
        found
    }

    /// A constant attribute of a child that has a type of its own.
    pub(super) fn constant_of(&self, entry: &Entry<'a>, attribute: gimli::DwAt) -> Option<i128> {
        let value = entry.attr_value(attribute)?;
        let signed = self.type_of(entry).is_some_and(|of| is_signed(self.module, DieRef::decode(of.entry)));
        constant(&value, signed)
    }
}

/// A constant; forms of a fixed size do not tell whether they are signed.
pub(in crate::symbols) fn constant(value: &Value<'_>, signed: bool) -> Option<i128> {
    let of = |unsigned: u64, bits: u32| {
        let shift = 64 - bits;
        if signed { i128::from((unsigned << shift) as i64 >> shift) } else { i128::from(unsigned) }
    };
    match *value {
        AttributeValue::Data1(value) => Some(of(value.into(), 8)),
        AttributeValue::Data2(value) => Some(of(value.into(), 16)),
        AttributeValue::Data4(value) => Some(of(value.into(), 32)),
        AttributeValue::Data8(value) => Some(of(value, 64)),
        AttributeValue::Udata(value) => Some(value.into()),
        AttributeValue::Sdata(value) => Some(value.into()),
        AttributeValue::Flag(value) => Some(value.into()),
        AttributeValue::Block(bytes) => {
            let mut wide = [0; 16];
            let bytes = bytes.slice();
            wide.get_mut(..bytes.len())?.copy_from_slice(bytes);
            let shift = 128 - 8 * bytes.len() as u32;
            let wide = u128::from_le_bytes(wide);
            if signed && shift < 128 { Some((wide << shift) as i128 >> shift) } else { Some(wide as i128) }
        }
        _ => None,
    }
}

/// Calls `each` with the entry of a type and of what it is an alias of, until it answers.
pub(in crate::symbols) fn through_aliases<'a, T>(
    module: &'a LoadedModule,
    die: DieRef,
    mut each: impl FnMut(&View<'a>, &Entry<'a>) -> Option<T>,
) -> Option<T> {
    let debug = module.debug()?;
    let mut next = die;
    for _ in 0..LONGEST_CHAIN {
        let view = debug.view_of(next)?;
        let entry = view.entry(next)?;
        if let Some(answer) = each(&view, &entry) {
            return Some(answer);
        }
        let is_alias = matches!(
            entry.tag(),
            gimli::DW_TAG_typedef
                | gimli::DW_TAG_const_type
                | gimli::DW_TAG_volatile_type
                | gimli::DW_TAG_restrict_type
                | gimli::DW_TAG_atomic_type
                | gimli::DW_TAG_enumeration_type
                | gimli::DW_TAG_subrange_type
        );
        next = debug
            .attribute_reference(&view, &entry, gimli::DW_AT_signature)
            .or_else(|| debug.attribute_reference(&view, &entry, gimli::DW_AT_type).filter(|_| is_alias))?;
    }
    None
}

/// Whether a type's numbers have a sign.
pub(super) fn is_signed(module: &LoadedModule, die: DieRef) -> bool {
    let encoding = through_aliases(module, die, |_, entry| match entry.attr_value(gimli::DW_AT_encoding) {
        Some(AttributeValue::Encoding(encoding)) => Some(encoding),
        _ => None,
    });
    matches!(encoding, Some(gimli::DW_ATE_signed | gimli::DW_ATE_signed_char))
}
