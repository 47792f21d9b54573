//! Finding the parts of a value by what its type says.

use std::sync::Arc;

use super::{
    derived::DerivedTypes,
    place::{Absence, Home, Placed, Storage},
};
use crate::{
    Memory,
    types::{Base, Encoding, Language, Member, PointerFlavour, StructType, Type, TypeKind, TypeRef},
};

/// No single value that is read as a whole is larger; containers are read element by element.
const LARGEST_READ: u64 = 1 << 20;

/// How deep structures are searched for a member or unwrapped: deeper ones are circular.
const DEEPEST: u32 = 24;

/// How many types one search looks at. A damaged file may have a type contain itself many times, which
/// depth alone does not end in time.
const MOST_VISITED: u32 = 400;

/// What is left of a search.
pub(crate) struct Search {
    visits: u32,
    depth: u32,
}

impl Search {
    pub(crate) fn new() -> Self {
        Self { visits: MOST_VISITED, depth: DEEPEST }
    }

    /// Goes one level down, if the search may go on.
    pub(crate) fn deeper<T>(&mut self, search: impl FnOnce(&mut Self) -> Option<T>) -> Option<T> {
        self.visits = self.visits.checked_sub(1)?;
        self.depth = self.depth.checked_sub(1)?;
        let found = search(self);
        self.depth += 1;
        found
    }
}

/// Types and memory together: all that is needed to take values apart.
#[derive(Clone, Copy)]
pub(crate) struct Layout<'a> {
    pub(crate) types: &'a DerivedTypes<'a>,
    pub(crate) memory: &'a dyn Memory,
}

impl Layout<'_> {
    /// The type without typedefs and qualifiers.
    pub(crate) fn real(&self, placed: &Placed) -> Option<(TypeRef, Arc<Type>)> {
        self.types.real(placed.type_ref)
    }

    /// `size` bytes of the value.
    pub(crate) fn bytes(&self, placed: &Placed, size: u64) -> Result<Vec<u8>, Absence> {
        match &placed.storage {
            Storage::Memory(address) => {
                if size > LARGEST_READ {
                    return Err(Absence::Unreadable(*address));
                }
                let mut bytes = vec![0; size as usize];
                self.memory
                    .read(*address, &mut bytes)
                    .map_err(|unreadable| Absence::Unreadable(unreadable.0))?;
                Ok(bytes)
            }
            Storage::Bytes(bytes) => {
                let wanted = usize::try_from(size).unwrap_or(usize::MAX);
                bytes.get(..wanted).map(<[u8]>::to_vec).ok_or(Absence::OptimisedOut)
            }
            Storage::Patchy { bytes, known } => {
                let wanted = usize::try_from(size).unwrap_or(usize::MAX);
                match (bytes.get(..wanted), known.get(..wanted)) {
                    (Some(bytes), Some(known)) if known.iter().all(|known| *known) => Ok(bytes.to_vec()),
                    _ => Err(Absence::OptimisedOut),
                }
            }
            Storage::Implied(_) => Err(Absence::OptimisedOut),
            Storage::Gone(absence) => Err(*absence),
        }
    }

    /// All bytes of the value.
    pub(crate) fn whole(&self, placed: &Placed) -> Result<Vec<u8>, Absence> {
        let size = match (&placed.storage, self.types.size(placed.type_ref)) {
            (_, Some(size)) => size,
            (Storage::Bytes(bytes) | Storage::Patchy { bytes, .. }, None) => bytes.len() as u64,
            (_, None) => 0,
        };
        self.bytes(placed, size)
    }

    pub(crate) fn member(&self, outer: &Placed, member: &Member) -> Placed {
        let size = self.types.size(member.type_ref);
        let Some((first, count)) = member.bits else {
            return outer.part(member.offset, member.type_ref, size);
        };
        let start = member.offset.wrapping_add(first / 8);
        let first = first % 8;
        if count == 0 || count > 128 {
            return Placed::gone(member.type_ref, Absence::OptimisedOut);
        }
        let covered = (first + count).div_ceil(8);
        let storage = match self.bytes(&outer.part(start, member.type_ref, Some(covered)), covered) {
            Ok(bytes) => Storage::Bytes(self.bits(&bytes, first, count, member.type_ref).into()),
            Err(absence) => Storage::Gone(absence),
        };
        let home =
            outer.address().map(|address| Home::Bits { address: address.wrapping_add(start), first, count });
        Placed { type_ref: member.type_ref, storage, home }
    }

    /// A bit-field widened to the size of its type.
    fn bits(&self, bytes: &[u8], first: u64, count: u64, type_ref: TypeRef) -> Vec<u8> {
        let mut wide = [0; 24];
        wide[..bytes.len()].copy_from_slice(bytes);
        let mut value = 0u128;
        for bit in 0..count {
            let at = (first + bit) as usize;
            value |= u128::from(wide[at / 8] >> (at % 8) & 1) << bit;
        }
        if self.is_signed(type_ref) && count < 128 && value >> (count - 1) & 1 == 1 {
            value |= u128::MAX << count;
        }
        let size = self.types.size(type_ref).unwrap_or(8).min(16) as usize;
        value.to_le_bytes()[..size].to_vec()
    }

    /// Whether numbers of the type can be negative.
    pub(crate) fn is_signed(&self, type_ref: TypeRef) -> bool {
        let signed =
            |kind: &TypeKind| matches!(kind, TypeKind::Base(Encoding::Signed | Encoding::SignedChar));
        self.types.real(type_ref).is_some_and(|(_, found)| match &found.kind {
            TypeKind::Enum { underlying: Some(underlying), .. } => {
                self.types.real(*underlying).is_some_and(|(_, number)| signed(&number.kind))
            }
            TypeKind::Enum { enumerators, .. } => enumerators.iter().any(|(_, value)| *value < 0),
            kind => signed(kind),
        })
    }

    /// A base class of the value; `None` where it cannot be found.
    pub(crate) fn base(&self, outer: &Placed, base: &Base) -> Option<Placed> {
        let size = self.types.size(base.type_ref);
        if let Some(offset) = base.offset {
            return Some(outer.part(offset, base.type_ref, size));
        }
        let address = outer.address()?;
        let vtable = self.memory.read_pointer(address).ok()?;
        let kept_at = vtable.wrapping_add_signed(base.vtable_offset?);
        let offset = self.memory.read_uint(kept_at, 8).ok()?;
        Some(Placed::memory(base.type_ref, address.wrapping_add(offset)))
    }

    /// A member by its name: of the value, its anonymous members, its base classes, or the case
    /// that a Rust enum is in. Tuple fields go by their number.
    pub(crate) fn field(&self, placed: &Placed, name: &str) -> Option<Placed> {
        self.field_within(placed, name, &mut Search::new())
    }

    fn field_within(&self, placed: &Placed, name: &str, search: &mut Search) -> Option<Placed> {
        let (_, found) = self.real(placed)?;
        let TypeKind::Struct(structure) = &found.kind else { return None };
        let named =
            |member: &&Member| member.name.as_deref().is_some_and(|known| plain_field_name(known) == name);
        if let Some(member) = structure.members.iter().find(named) {
            return Some(self.member(placed, member));
        }
        let anonymous = structure.members.iter().filter(|member| member.name.is_none());
        let inner = anonymous.map(|member| self.member(placed, member));
        let bases = structure.bases.iter().filter_map(|base| self.base(placed, base));
        let case = self.active_case(placed, structure).map(|(_, payload)| payload);
        let mut parts = inner.chain(bases).chain(case);
        parts.find_map(|part| search.deeper(|search| self.field_within(&part, name, search)))
    }

    /// Members of members, by their names in order.
    pub(crate) fn path(&self, placed: &Placed, names: &[&str]) -> Option<Placed> {
        names.iter().try_fold(placed.clone(), |at, name| self.field(&at, name))
    }

    /// The case that a Rust enum is in, with its name.
    pub(crate) fn active_case(&self, placed: &Placed, structure: &StructType) -> Option<(String, Placed)> {
        let part = structure.variants.as_ref()?;
        let variant = match &part.discriminant {
            None => part.variants.first()?,
            Some(discriminant) => {
                let bytes = self.whole(&self.member(placed, discriminant)).ok()?;
                let unsigned = unsigned_of(&bytes);
                let signed = signed_of(&bytes);
                // Compilers write the values now with and now without their sign.
                let meant =
                    |value: i128| part.variants.iter().find(|v| v.values.iter().any(|r| r.contains(&value)));
                let as_unsigned = i128::try_from(unsigned).ok();
                as_unsigned
                    .and_then(meant)
                    .or_else(|| meant(signed))
                    .or_else(|| part.variants.iter().find(|variant| variant.values.is_empty()))?
            }
        };
        let member = variant.members.first()?;
        let name = member.name.clone().unwrap_or_default();
        Some((name, self.member(placed, member)))
    }

    /// What is inside structures that have one part with a size: cells, atomics, niches, newtypes.
    pub(crate) fn peel(&self, placed: &Placed) -> Placed {
        let mut at = placed.clone();
        for _ in 0..DEEPEST {
            let Some(inner) = self.only_part(&at) else { break };
            at = inner;
        }
        at
    }

    fn only_part(&self, placed: &Placed) -> Option<Placed> {
        let (_, found) = self.real(placed)?;
        let TypeKind::Struct(structure) = &found.kind else { return None };
        if structure.variants.is_some() {
            return None;
        }
        let sized = |type_ref| self.types.size(type_ref) != Some(0) && !self.is_empty(type_ref);
        let mut members = structure.members.iter().filter(|member| sized(member.type_ref));
        let mut bases = structure.bases.iter().filter(|base| sized(base.type_ref));
        match (members.next(), members.next(), bases.next(), bases.next()) {
            (Some(member), None, None, _) => Some(self.member(placed, member)),
            (None, _, Some(base), None) => self.base(placed, base),
            _ => None,
        }
    }

    /// Whether it is a class without anything in it, which has a size in C++ nevertheless.
    pub(crate) fn is_empty(&self, type_ref: TypeRef) -> bool {
        self.empty_within(type_ref, &mut Search::new()).is_some()
    }

    fn empty_within(&self, type_ref: TypeRef, search: &mut Search) -> Option<()> {
        let (_, found) = self.types.real(type_ref)?;
        let TypeKind::Struct(structure) = &found.kind else { return None };
        if !structure.members.is_empty() || structure.variants.is_some() {
            return None;
        }
        structure.bases.iter().try_for_each(|base| {
            base.offset?;
            search.deeper(|search| self.empty_within(base.type_ref, search))
        })
    }

    /// A number, also one inside cells and newtypes.
    pub(crate) fn number(&self, placed: &Placed) -> Option<u64> {
        let bytes = self.whole(&self.peel(placed)).ok()?;
        (1..=8).contains(&bytes.len()).then(|| unsigned_of(&bytes) as u64)
    }

    /// A number that is a member of a member.
    pub(crate) fn number_at(&self, placed: &Placed, names: &[&str]) -> Option<u64> {
        self.number(&self.path(placed, names)?)
    }

    /// An address, and what is there; also from inside `NonNull` and the like, and from the thin
    /// part of a fat pointer.
    pub(crate) fn pointer(&self, placed: &Placed) -> Option<(u64, Option<TypeRef>)> {
        let mut at = self.peel(placed);
        if let Some(thin) = self.field(&at, "data_ptr").or_else(|| self.field(&at, "pointer")) {
            at = self.peel(&thin);
        }
        let (_, found) = self.real(&at)?;
        let TypeKind::Pointer { target, .. } = found.kind else { return None };
        Some((self.number(&at)?, target))
    }

    /// What a pointer or reference points to.
    pub(crate) fn target(&self, placed: &Placed) -> Option<Placed> {
        if let Some(implied) = self.implied(placed) {
            return Some(implied);
        }
        let (address, target) = self.pointer(placed)?;
        Some(Placed::memory(target?, address))
    }

    /// What a C++ reference refers to, and any other value itself; `None` where that cannot be told.
    pub(crate) fn referred(&self, placed: &Placed) -> Option<Placed> {
        let mut at = placed.clone();
        for _ in 0..DEEPEST {
            if !self.real(&at).is_some_and(|(_, found)| is_reference(&found.kind)) {
                return Some(at);
            }
            at = self.target(&at)?;
        }
        None
    }

    /// The type that a type of C++ references refers to, and any other type itself.
    pub(crate) fn referred_type(&self, type_ref: TypeRef) -> TypeRef {
        match self.types.real(type_ref).map(|(_, found)| found.kind.clone()) {
            Some(kind @ TypeKind::Pointer { target: Some(target), .. }) if is_reference(&kind) => target,
            _ => type_ref,
        }
    }

    /// What a pointer would point to that the compiler did without.
    pub(crate) fn implied(&self, placed: &Placed) -> Option<Placed> {
        let at = self.peel(placed);
        let Storage::Implied(storage) = &at.storage else { return None };
        let (_, found) = self.real(&at)?;
        let TypeKind::Pointer { target: Some(target), .. } = found.kind else { return None };
        let whole = Placed { type_ref: target, storage: (**storage).clone(), home: None };
        Some(whole.part(0, target, self.types.size(target)))
    }

    /// The type that a template or generic parameter stands for.
    pub(crate) fn parameter(&self, placed: &Placed, index: usize) -> Option<TypeRef> {
        let (_, found) = self.real(placed)?;
        let TypeKind::Struct(structure) = &found.kind else { return None };
        structure.parameters.get(index)?.type_ref
    }

    /// Whether it follows the rules of Rust.
    pub(crate) fn is_rust(&self, type_ref: TypeRef) -> bool {
        self.types.real(type_ref).is_some_and(|(_, found)| found.language == Language::Rust)
    }

    /// How far apart elements of the type are; zero for those without a size.
    pub(crate) fn stride(&self, element: TypeRef) -> Option<u64> {
        self.types.size(element)
    }
}

fn is_reference(kind: &TypeKind) -> bool {
    matches!(kind, TypeKind::Pointer { flavour, .. } if *flavour != PointerFlavour::Pointer)
}

/// Rust writes the fields of tuples as `__0` in debug information.
pub(crate) fn plain_field_name(name: &str) -> &str {
    match name.strip_prefix("__") {
        Some(digits) if !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit()) => digits,
        _ => name,
    }
}

/// Little-endian, of up to 16 bytes.
pub(crate) fn unsigned_of(bytes: &[u8]) -> u128 {
    let mut wide = [0; 16];
    let count = bytes.len().min(16);
    wide[..count].copy_from_slice(&bytes[..count]);
    u128::from_le_bytes(wide)
}

/// Little-endian, of up to 16 bytes, with its sign.
pub(crate) fn signed_of(bytes: &[u8]) -> i128 {
    let bits = 8 * bytes.len().min(16) as u32;
    if bits == 0 {
        return 0;
    }
    let unused = 128 - bits;
    ((unsigned_of(bytes) << unused) as i128) >> unused
}
