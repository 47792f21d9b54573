//! Types, read from debug information when asked for and kept.

mod constants;
mod layout;
mod named;
mod structs;

use std::sync::{Arc, PoisonError};

pub(super) use layout::{count as constant_count, size_of};

use super::Symbols;
use crate::{
    dwarf::{DieRef, Entry, View, die::flag},
    module::{LoadedModule, NameClass, base_name, unit_language},
    types::{AliasFlavour, Encoding, Language, PointerFlavour, Type, TypeKind, TypeRef, Types},
};

/// Members, enumerators and the like of one type: more is damage.
pub(super) const MOST_CHILDREN: usize = 1 << 16;

impl Types for Symbols {
    fn get(&self, type_ref: TypeRef) -> Option<Arc<Type>> {
        let module = self.module(type_ref.module)?;
        let lock = || module.types.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = lock().get(&type_ref.entry) {
            return known.clone();
        }
        let found = self.complete(module, DieRef::decode(type_ref.entry));
        lock().insert(type_ref.entry, found.clone());
        found
    }

    fn named(&self, name: &str) -> Option<TypeRef> {
        self.type_named(name)
    }

    fn symbol_at(&self, address: u64) -> Option<(String, u64)> {
        self.name_at(address)
    }

    fn producer(&self, type_ref: TypeRef) -> Option<String> {
        let view = self.module(type_ref.module)?.debug()?.view_of(DieRef::decode(type_ref.entry))?;
        view.producer()
    }
}

impl Symbols {
    /// The type, and for a declaration its definition from wherever there is one.
    fn complete(&self, module: &LoadedModule, die: DieRef) -> Option<Arc<Type>> {
        let declared = TypeReader { module, die }.read()?;
        if declared.kind != TypeKind::Declaration || declared.name.is_empty() {
            return Some(Arc::new(declared));
        }
        let others = self.loaded().iter().filter(|other| other.id != module.id);
        for candidate in std::iter::once(module).chain(others) {
            let plain = base_name(last_component(&declared.name));
            let definition = candidate.named(plain, &[NameClass::Types]).find_map(|named| {
                let found = TypeReader { module: candidate, die: named.die }.read()?;
                let fits = found.name == declared.name && !matches!(found.kind, TypeKind::Alias { .. });
                fits.then_some(found)
            });
            if let Some(definition) = definition {
                return Some(Arc::new(definition));
            }
        }
        Some(Arc::new(declared))
    }
}

/// The last component of a qualified name, with its generic arguments.
pub(super) fn last_component(name: &str) -> &str {
    crate::symbols::functions::components(name).last().copied().unwrap_or(name)
}

/// Reads one entry as a type.
pub(super) struct TypeReader<'m> {
    pub(super) module: &'m LoadedModule,
    pub(super) die: DieRef,
}

/// The entry being read, and the unit it is in.
pub(super) struct Reading<'m, 'a> {
    pub(super) module: &'m LoadedModule,
    pub(super) view: &'m View<'a>,
    pub(super) entry: &'m Entry<'a>,
}

impl TypeReader<'_> {
    pub(super) fn read(&self) -> Option<Type> {
        let debug = self.module.debug()?;
        let view = debug.view_of(self.die)?;
        let entry = view.entry(self.die)?;
        // A declaration may name the unit that has its definition.
        if let Some(definition) = debug.attribute_reference(&view, &entry, gimli::DW_AT_signature)
            && definition != self.die
        {
            let view = debug.view_of(definition)?;
            let entry = view.entry(definition)?;
            return Reading { module: self.module, view: &view, entry: &entry }.read();
        }
        if entry.tag() == gimli::DW_TAG_subprogram {
            // Code that stands apart from its declaration leaves its type there.
            let declared = self.module.declared_at(self.die);
            let view = debug.view_of(declared)?;
            let entry = view.entry(declared)?;
            return Reading { module: self.module, view: &view, entry: &entry }.read();
        }
        Reading { module: self.module, view: &view, entry: &entry }.read()
    }
}

impl<'a> Reading<'_, 'a> {
    fn read(&self) -> Option<Type> {
        let kind = if self.is_only_declared() { TypeKind::Declaration } else { self.kind()? };
        Some(Type { name: self.name(), size: self.size(&kind), language: unit_language(self.view), kind })
    }

    fn is_only_declared(&self) -> bool {
        let may_be = matches!(
            self.entry.tag(),
            gimli::DW_TAG_structure_type
                | gimli::DW_TAG_class_type
                | gimli::DW_TAG_union_type
                | gimli::DW_TAG_enumeration_type
        );
        may_be && flag(self.entry, gimli::DW_AT_declaration)
    }

    fn kind(&self) -> Option<TypeKind> {
        let alias = |flavour| Some(TypeKind::Alias { target: self.target(), flavour });
        let pointer = |flavour| Some(TypeKind::Pointer { target: self.target(), flavour });
        match self.entry.tag() {
            gimli::DW_TAG_base_type => Some(TypeKind::Base(self.encoding())),
            gimli::DW_TAG_pointer_type => pointer(PointerFlavour::Pointer),
            gimli::DW_TAG_reference_type => pointer(PointerFlavour::Reference),
            gimli::DW_TAG_rvalue_reference_type => pointer(PointerFlavour::RvalueReference),
            gimli::DW_TAG_typedef | gimli::DW_TAG_template_alias => alias(AliasFlavour::Typedef),
            gimli::DW_TAG_const_type => alias(AliasFlavour::Const),
            gimli::DW_TAG_volatile_type => alias(AliasFlavour::Volatile),
            gimli::DW_TAG_restrict_type => alias(AliasFlavour::Restrict),
            gimli::DW_TAG_atomic_type => alias(AliasFlavour::Atomic),
            gimli::DW_TAG_immutable_type
            | gimli::DW_TAG_packed_type
            | gimli::DW_TAG_shared_type
            | gimli::DW_TAG_subrange_type => alias(AliasFlavour::Other),
            gimli::DW_TAG_structure_type
            | gimli::DW_TAG_class_type
            | gimli::DW_TAG_interface_type
            | gimli::DW_TAG_union_type => Some(TypeKind::Struct(Box::new(self.structure()))),
            gimli::DW_TAG_enumeration_type => {
                Some(TypeKind::Enum { underlying: self.target(), enumerators: self.enumerators() })
            }
            gimli::DW_TAG_array_type => Some(TypeKind::Array {
                element: self.target()?,
                counts: self.counts(),
                vector: flag(self.entry, gimli::DW_AT_GNU_vector),
            }),
            gimli::DW_TAG_subroutine_type | gimli::DW_TAG_subprogram => {
                Some(TypeKind::Function { returns: self.target(), parameters: self.parameter_types() })
            }
            gimli::DW_TAG_ptr_to_member_type => Some(TypeKind::MemberPointer { target: self.target() }),
            gimli::DW_TAG_unspecified_type => Some(TypeKind::Unspecified),
            _ => None,
        }
    }

    fn name(&self) -> String {
        // A function's type is called by what it takes and returns.
        if self.entry.tag() == gimli::DW_TAG_subprogram {
            return String::new();
        }
        let Some(name) = self.view.name(self.entry) else { return String::new() };
        let is_qualified = !matches!(
            self.entry.tag(),
            gimli::DW_TAG_base_type | gimli::DW_TAG_pointer_type | gimli::DW_TAG_unspecified_type
        );
        if is_qualified && unit_language(self.view) != Language::C {
            return self.module.qualified(self.view.die_ref(self.entry.offset()), &name);
        }
        name.into_owned()
    }

    fn encoding(&self) -> Encoding {
        let encoding = match self.entry.attr_value(gimli::DW_AT_encoding) {
            Some(gimli::AttributeValue::Encoding(encoding)) => encoding,
            _ => return Encoding::Other,
        };
        match encoding {
            gimli::DW_ATE_boolean => Encoding::Boolean,
            gimli::DW_ATE_signed => Encoding::Signed,
            gimli::DW_ATE_unsigned => Encoding::Unsigned,
            gimli::DW_ATE_signed_char => Encoding::SignedChar,
            gimli::DW_ATE_unsigned_char => Encoding::UnsignedChar,
            gimli::DW_ATE_UTF | gimli::DW_ATE_UCS => Encoding::Utf,
            gimli::DW_ATE_float => Encoding::Float,
            gimli::DW_ATE_complex_float => Encoding::ComplexFloat,
            _ => Encoding::Other,
        }
    }

    /// What `DW_AT_type` says; `None` for `void`.
    fn target(&self) -> Option<TypeRef> {
        self.type_of(self.entry)
    }

    pub(super) fn type_of(&self, entry: &Entry<'a>) -> Option<TypeRef> {
        let debug = self.module.debug()?;
        let die = debug.attribute_reference(self.view, entry, gimli::DW_AT_type)?;
        Some(TypeRef { module: self.module.id, entry: die.encode() })
    }

    /// Calls `each` with the entry's children, but not with theirs, until it says no.
    pub(super) fn children(&self, mut each: impl FnMut(&Entry<'a>) -> bool) {
        let _ = children_of(self.view, self.entry.offset(), &mut each);
    }
}

/// Calls `each` with the children of the entry at `offset` until it says no.
pub(super) fn children_of<'a>(
    view: &View<'a>,
    offset: crate::dwarf::Offset,
    each: &mut dyn FnMut(&Entry<'a>) -> bool,
) -> gimli::Result<()> {
    let mut entries = view.unit.entries_raw(Some(offset))?;
    let mut entry = Entry::null();
    entries.read_entry(&mut entry)?;
    let mut count = 0;
    while !entries.is_empty() && entries.next_depth() > 0 {
        if entries.next_depth() > 1 {
            if let Some(abbreviation) = entries.read_abbreviation()? {
                entries.skip_attributes(abbreviation.attributes())?;
            }
            continue;
        }
        if !entries.read_entry(&mut entry)? {
            break;
        }
        count += 1;
        if count > MOST_CHILDREN || !each(&entry) {
            break;
        }
    }
    Ok(())
}
