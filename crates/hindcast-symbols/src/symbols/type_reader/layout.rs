//! Sizes, and where members and bits are.

use gimli::AttributeValue;

use super::{Reading, constants::through_aliases};
use crate::{
    dwarf::{DieRef, Entry, View},
    module::LoadedModule,
    types::TypeKind,
};

/// Arrays of arrays of …: deeper is damage.
const DEEPEST: u32 = 8;

impl<'a> Reading<'_, 'a> {
    pub(super) fn size(&self, kind: &TypeKind) -> Option<u64> {
        match kind {
            TypeKind::Declaration => None,
            TypeKind::Alias { .. } | TypeKind::Array { .. } | TypeKind::Enum { .. } => {
                size_of(self.module, self.view.die_ref(self.entry.offset()))
            }
            TypeKind::Pointer { .. } => self.view.udata(self.entry, gimli::DW_AT_byte_size).or(Some(8)),
            _ => self.view.udata(self.entry, gimli::DW_AT_byte_size),
        }
    }

    /// How many elements in each dimension.
    pub(super) fn counts(&self) -> Vec<Option<u64>> {
        counts(self.view, self.entry)
    }

    /// The byte a member begins at and, for a bit-field, its bits.
    pub(super) fn member_place(&self, member: &Entry<'a>) -> Option<(u64, Option<(u64, u64)>)> {
        let offset = self.byte_offset(member).unwrap_or(0);
        let Some(bit_size) = self.view.udata(member, gimli::DW_AT_bit_size) else {
            return Some((offset, None));
        };
        let storage = self.view.udata(member, gimli::DW_AT_byte_size).or_else(|| {
            let of = self.type_of(member)?;
            size_of(self.module, DieRef::decode(of.entry))
        });
        if let Some(first) = self.view.udata(member, gimli::DW_AT_data_bit_offset) {
            return Some(from_data_bit_offset(offset, first, bit_size, storage));
        }
        // DWARF 4 and before: counted from the highest bit of a storage unit.
        let storage_bits = storage.unwrap_or(4).checked_mul(8)?;
        let from_top = match member.attr_value(gimli::DW_AT_bit_offset)? {
            AttributeValue::Sdata(value) => value,
            value => i64::try_from(value.udata_value()?).ok()?,
        };
        let first = i128::from(storage_bits) - i128::from(from_top) - i128::from(bit_size);
        match u64::try_from(first) {
            Ok(first) => Some((offset, Some((first, bit_size)))),
            Err(_) => None,
        }
    }

    fn byte_offset(&self, member: &Entry<'a>) -> Option<u64> {
        match member.attr_value(gimli::DW_AT_data_member_location)? {
            AttributeValue::Exprloc(expression) => {
                let mut operations = expression.operations(self.view.unit.encoding());
                match operations.next().ok()?? {
                    gimli::Operation::PlusConstant { value } => Some(value),
                    _ => None,
                }
            }
            value => value.udata_value(),
        }
    }

    /// Where a virtual base's offset is, from the address in the vtable pointer.
    pub(super) fn vtable_offset(&self, base: &Entry<'a>) -> Option<i64> {
        let AttributeValue::Exprloc(expression) = base.attr_value(gimli::DW_AT_data_member_location)? else {
            return None;
        };
        // `dup deref constu N minus deref plus`: the offset is N before what the pointer points to.
        let mut operations = expression.operations(self.view.unit.encoding());
        let mut distance = None;
        for _ in 0..8 {
            match operations.next().ok()?? {
                gimli::Operation::UnsignedConstant { value } => distance = i64::try_from(value).ok(),
                gimli::Operation::SignedConstant { value } => distance = Some(value),
                gimli::Operation::Minus => return distance?.checked_neg(),
                gimli::Operation::Plus => return distance,
                _ => {}
            }
        }
        None
    }
}

/// Counted from the member's first byte, so that reading its storage unit reads the field.
fn from_data_bit_offset(
    offset: u64,
    first: u64,
    bits: u64,
    storage: Option<u64>,
) -> (u64, Option<(u64, u64)>) {
    let unit = storage.filter(|&size| matches!(size, 1 | 2 | 4 | 8 | 16)).unwrap_or(1);
    let aligned = first / (unit * 8) * unit;
    let within = first - aligned * 8;
    if within.saturating_add(bits) <= unit * 8 {
        return (offset.saturating_add(aligned), Some((within, bits)));
    }
    (offset.saturating_add(first / 8), Some((first % 8, bits)))
}

fn counts(view: &View<'_>, array: &Entry<'_>) -> Vec<Option<u64>> {
    let mut counts = Vec::new();
    let _ = super::children_of(view, array.offset(), &mut |child| {
        if matches!(child.tag(), gimli::DW_TAG_subrange_type | gimli::DW_TAG_enumeration_type) {
            counts.push(count(child));
        }
        counts.len() < 64
    });
    if counts.is_empty() {
        counts.push(None);
    }
    counts
}

/// How many elements in a dimension, where the type itself says so.
pub(in crate::symbols) fn count(subrange: &Entry<'_>) -> Option<u64> {
    if let Some(count) = subrange.attr_value(gimli::DW_AT_count) {
        // clang says -1 for an array of unknown size.
        return count.udata_value().filter(|&count| count != u64::MAX && count != u64::from(u32::MAX));
    }
    let lower =
        subrange.attr_value(gimli::DW_AT_lower_bound).and_then(|lower| lower.sdata_value()).unwrap_or(0);
    let upper = subrange.attr_value(gimli::DW_AT_upper_bound)?;
    let upper = match upper {
        // An expression or a variable: only the running program knows.
        AttributeValue::Exprloc(_) | AttributeValue::UnitRef(_) | AttributeValue::DebugInfoRef(_) => {
            return None;
        }
        AttributeValue::Sdata(value) => value,
        value => value.udata_value()? as i64,
    };
    // `int[0]` has the upper bound -1.
    u64::try_from(upper.checked_sub(lower)?.checked_add(1)?).ok()
}

/// The size of a type, through aliases and arrays.
pub(in crate::symbols) fn size_of(module: &LoadedModule, die: DieRef) -> Option<u64> {
    bounded_size(module, die, DEEPEST)
}

fn bounded_size(module: &LoadedModule, die: DieRef, depth: u32) -> Option<u64> {
    let depth = depth.checked_sub(1)?;
    through_aliases(module, die, |view, entry| {
        if let Some(size) = view.udata(entry, gimli::DW_AT_byte_size) {
            return Some(size);
        }
        match entry.tag() {
            gimli::DW_TAG_array_type => {
                let element = module.debug()?.attribute_reference(view, entry, gimli::DW_AT_type)?;
                let element = bounded_size(module, element, depth)?;
                counts(view, entry).into_iter().try_fold(element, |size, count| size.checked_mul(count?))
            }
            gimli::DW_TAG_pointer_type
            | gimli::DW_TAG_reference_type
            | gimli::DW_TAG_rvalue_reference_type => Some(8),
            _ => None,
        }
    })
}
