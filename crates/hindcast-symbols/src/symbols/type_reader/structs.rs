//! Structs, classes, unions and Rust's enums.

use std::{borrow::Cow, ops::RangeInclusive};

use gimli::AttributeValue;

use super::{Reading, children_of, constants::constant};
use crate::{
    dwarf::{Entry, Offset, die::flag},
    types::{
        Base, Member, StaticMember, StructFlavour, StructType, TemplateParameter, TypeRef, Variant,
        VariantPart,
    },
};

impl<'a> Reading<'_, 'a> {
    pub(super) fn structure(&self) -> StructType {
        let flavour = match self.entry.tag() {
            gimli::DW_TAG_union_type => StructFlavour::Union,
            gimli::DW_TAG_class_type | gimli::DW_TAG_interface_type => StructFlavour::Class,
            _ => StructFlavour::Struct,
        };
        let mut found = StructType {
            flavour,
            bases: Vec::new(),
            members: Vec::new(),
            statics: Vec::new(),
            parameters: Vec::new(),
            variants: None,
        };
        let mut variant_part = None;
        self.children(|child| {
            match child.tag() {
                gimli::DW_TAG_inheritance => found.bases.extend(self.base(child)),
                gimli::DW_TAG_member | gimli::DW_TAG_variable if is_static(child) => {
                    found.statics.extend(self.static_member(child));
                }
                gimli::DW_TAG_member => found.members.extend(self.member(child)),
                gimli::DW_TAG_template_type_parameter | gimli::DW_TAG_template_value_parameter => {
                    found.parameters.push(self.parameter(child));
                }
                gimli::DW_TAG_variant_part => variant_part = Some(child.offset()),
                _ => {}
            }
            true
        });
        found.variants = variant_part.map(|offset| self.variant_part(offset));
        found
    }

    fn base(&self, entry: &Entry<'a>) -> Option<Base> {
        let is_virtual = entry.has_attr(gimli::DW_AT_virtuality)
            && matches!(
                entry.attr_value(gimli::DW_AT_data_member_location),
                Some(AttributeValue::Exprloc(_))
            );
        let offset = if is_virtual { None } else { Some(self.member_place(entry)?.0) };
        let vtable_offset = if is_virtual { self.vtable_offset(entry) } else { None };
        Some(Base { type_ref: self.type_of(entry)?, offset, vtable_offset })
    }

    fn member(&self, entry: &Entry<'a>) -> Option<Member> {
        let (offset, bits) = self.member_place(entry)?;
        Some(Member {
            name: self.view.name(entry).map(Cow::into_owned),
            type_ref: self.type_of(entry)?,
            offset,
            bits,
            artificial: flag(entry, gimli::DW_AT_artificial),
        })
    }

    fn static_member(&self, entry: &Entry<'a>) -> Option<StaticMember> {
        Some(StaticMember {
            name: self.view.name(entry)?.into_owned(),
            type_ref: self.type_of(entry)?,
            constant: self.constant_of(entry, gimli::DW_AT_const_value),
        })
    }

    fn parameter(&self, entry: &Entry<'a>) -> TemplateParameter {
        TemplateParameter {
            name: self.view.name(entry).map(Cow::into_owned),
            type_ref: self.type_of(entry),
            value: self.constant_of(entry, gimli::DW_AT_const_value),
        }
    }

    fn variant_part(&self, offset: Offset) -> VariantPart {
        let discriminant_at =
            self.view.unit.entry(offset).ok().and_then(|part| match part.attr_value(gimli::DW_AT_discr) {
                Some(AttributeValue::UnitRef(offset)) => Some(offset),
                _ => None,
            });
        let mut discriminant = None;
        let mut signed = false;
        let mut cases = Vec::new();
        let _ = children_of(self.view, offset, &mut |child| {
            match child.tag() {
                gimli::DW_TAG_member if discriminant_at.is_none_or(|at| at == child.offset()) => {
                    discriminant = self.member(child);
                    signed = self.has_sign(child);
                }
                gimli::DW_TAG_variant => cases.push(child.offset()),
                _ => {}
            }
            true
        });
        let variants = cases.into_iter().filter_map(|case| self.variant(case, signed)).collect();
        VariantPart { discriminant, variants }
    }

    fn has_sign(&self, member: &Entry<'a>) -> bool {
        let of = self.type_of(member).map(|of| crate::dwarf::DieRef::decode(of.entry));
        of.is_some_and(|of| super::constants::is_signed(self.module, of))
    }

    fn variant(&self, offset: Offset, signed: bool) -> Option<Variant> {
        let entry = self.view.unit.entry(offset).ok()?;
        let mut values: Vec<RangeInclusive<i128>> = Vec::new();
        if let Some(value) = entry.attr_value(gimli::DW_AT_discr_value) {
            let value = constant(&value, signed)?;
            values.push(value..=value);
        }
        if let Some(AttributeValue::Block(list)) = entry.attr_value(gimli::DW_AT_discr_list) {
            values.extend(discriminant_list(list, signed));
        }
        let mut members = Vec::new();
        let _ = children_of(self.view, offset, &mut |child| {
            if child.tag() == gimli::DW_TAG_member {
                let state = self.coroutine_state(child);
                members.extend(
                    self.member(child).map(|member| Member { name: state.or(member.name), ..member }),
                );
            }
            true
        });
        Some(Variant { values, members })
    }

    /// What a state of a coroutine is called: Rust numbers the states of what `async` makes, and names their types. The line is that of
    /// the `await` at which it is suspended.
    fn coroutine_state(&self, case: &Entry<'a>) -> Option<String> {
        let number = self.view.name(case)?;
        if !number.bytes().all(|byte| byte.is_ascii_digit()) {
            return None;
        }
        let state = crate::dwarf::DieRef::decode(self.type_of(case)?.entry);
        let name = self.view.name(&self.view.entry(state)?)?;
        let line = case.attr_value(gimli::DW_AT_decl_line).and_then(|line| line.udata_value());
        match line {
            Some(line) if name.starts_with("Suspend") => Some(format!("{name} at line {line}")),
            _ => Some(name.into_owned()),
        }
    }

    pub(super) fn parameter_types(&self) -> Vec<TypeRef> {
        let mut found = Vec::new();
        self.children(|child| {
            if child.tag() == gimli::DW_TAG_formal_parameter {
                found.extend(self.type_of(child));
            }
            true
        });
        found
    }
}

/// Values and ranges of values, each led by a byte that tells which.
fn discriminant_list(mut list: crate::dwarf::Slice<'_>, signed: bool) -> Vec<RangeInclusive<i128>> {
    use gimli::Reader;
    let mut values = Vec::new();
    let number = |list: &mut crate::dwarf::Slice<'_>| {
        if signed {
            list.read_sleb128().map(i128::from).ok()
        } else {
            list.read_uleb128().map(i128::from).ok()
        }
    };
    while let Ok(kind) = list.read_u8() {
        let Some(first) = number(&mut list) else { break };
        let last = if kind == 0 { Some(first) } else { number(&mut list) };
        let Some(last) = last else { break };
        values.push(first..=last);
    }
    values
}

fn is_static(entry: &Entry<'_>) -> bool {
    entry.tag() == gimli::DW_TAG_variable
        || flag(entry, gimli::DW_AT_external)
        || flag(entry, gimli::DW_AT_declaration)
}
