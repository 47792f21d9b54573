//! Casts between classes: a base class is somewhere inside of those that are derived from it.

use super::{error::ExpressionError as Failure, evaluate::Evaluator, scalar::Scalar};
use crate::{
    types::{Language, StructType, Type, TypeKind, TypeRef},
    value::{Placed, layout::Search},
};

impl Evaluator<'_> {
    /// A pointer as it is when it becomes one of type `to`: to a base or derived class, it moves.
    pub(super) fn moved(&self, scalar: Scalar, to: TypeRef, column: usize) -> Result<Scalar, Failure> {
        let Some((_, found)) = self.types().real(to) else { return Ok(scalar) };
        match found.kind {
            TypeKind::Pointer { target: Some(class), .. } => self.moved_to(scalar, class, column),
            _ => Ok(scalar),
        }
    }

    fn moved_to(&self, scalar: Scalar, class: TypeRef, column: usize) -> Result<Scalar, Failure> {
        let Scalar::Pointer(address @ 1.., Some(from)) = scalar else { return Ok(scalar) };
        let moved = self.as_class(&Placed::memory(from, address), class, column)?;
        let address = moved.and_then(|moved| moved.address());
        Ok(address.map_or(scalar, |address| Scalar::Pointer(address, Some(class))))
    }

    /// Two pointers that are to be compared: one to a derived class becomes one to the other's class.
    pub(super) fn as_same_class(
        &self,
        one: Scalar,
        two: Scalar,
        column: usize,
    ) -> Result<(Scalar, Scalar), Failure> {
        let (Scalar::Pointer(_, Some(first)), Scalar::Pointer(_, Some(second))) = (one, two) else {
            return Ok((one, two));
        };
        if self.base_offsets(first, second).is_empty() {
            return Ok((one, self.moved_to(two, first, column)?));
        }
        Ok((self.moved_to(one, second, column)?, two))
    }

    /// The same object as one of its base classes, or as a class that is derived from its own; `None`
    /// where the classes have nothing to do with each other.
    pub(super) fn as_class(
        &self,
        value: &Placed,
        class: TypeRef,
        column: usize,
    ) -> Result<Option<Placed>, Failure> {
        if self.is_same_class(value.type_ref, class) {
            return Ok(None);
        }
        let name = |type_ref| self.types().name_of(type_ref);
        if !self.base_offsets(value.type_ref, class).is_empty() {
            return match self.bases_of(value, class).as_slice() {
                [base] => Ok(Some(base.retyped(class))),
                [] => Err(Failure::NoPlace { column }),
                _ => Err(Failure::SeveralBases { column, base: name(class), of: name(value.type_ref) }),
            };
        }
        let offsets = self.base_offsets(class, value.type_ref);
        match (offsets.as_slice(), value.address()) {
            ([], _) => Ok(None),
            ([Some(offset)], Some(address)) => Ok(Some(Placed::memory(class, address.wrapping_sub(*offset)))),
            _ => match self.within_whole(value, class) {
                Some(derived) => Ok(Some(derived)),
                None => {
                    Err(Failure::UnknownDerived { column, base: name(value.type_ref), derived: name(class) })
                }
            },
        }
    }

    /// The class in the whole object that the value is a part of, as its virtual functions tell.
    fn within_whole(&self, value: &Placed, class: TypeRef) -> Option<Placed> {
        let (whole, _) = self.layout.most_derived(value)?;
        if self.is_same_class(whole.type_ref, class) {
            return Some(whole.retyped(class));
        }
        match self.bases_of(&whole, class).as_slice() {
            [derived] => Some(derived.retyped(class)),
            _ => None,
        }
    }

    /// Where a value has a base class, directly or not; a virtual base that many share once.
    fn bases_of(&self, value: &Placed, class: TypeRef) -> Vec<Placed> {
        let mut found = Vec::new();
        self.add_bases(value, class, &mut found, &mut Search::new());
        found
    }

    fn add_bases(
        &self,
        value: &Placed,
        class: TypeRef,
        found: &mut Vec<Placed>,
        search: &mut Search,
    ) -> Option<()> {
        let of = self.types().real(value.type_ref)?.1;
        for base in &class_of(&of)?.bases {
            let Some(at) = self.layout.base(value, base) else { continue };
            if self.is_same_class(at.type_ref, class) {
                if found.iter().all(|known| known.storage != at.storage) {
                    found.push(at);
                }
            } else {
                search.deeper(|search| self.add_bases(&at, class, found, search));
            }
        }
        Some(())
    }

    /// How far into a class a base class is, for each time that it has it; `None` for a virtual base,
    /// which is somewhere else in every derived class.
    pub(super) fn base_offsets(&self, class: TypeRef, base: TypeRef) -> Vec<Option<u64>> {
        let mut found = Vec::new();
        self.add_offsets(class, base, Some(0), &mut found, &mut Search::new());
        found
    }

    fn add_offsets(
        &self,
        class: TypeRef,
        base: TypeRef,
        start: Option<u64>,
        found: &mut Vec<Option<u64>>,
        search: &mut Search,
    ) -> Option<()> {
        let of = self.types().real(class)?.1;
        for direct in &class_of(&of)?.bases {
            let offset = start.zip(direct.offset).map(|(start, offset)| start.wrapping_add(offset));
            if self.is_same_class(direct.type_ref, base) {
                found.push(offset);
            } else {
                search.deeper(|search| self.add_offsets(direct.type_ref, base, offset, found, search));
            }
        }
        Some(())
    }

    /// Whether it is a class, struct or union of C or C++.
    pub(super) fn is_class(&self, type_ref: TypeRef) -> bool {
        self.types().real(type_ref).is_some_and(|(_, found)| class_of(&found).is_some())
    }

    /// Whether both are the same class, which every file has its own description of.
    fn is_same_class(&self, one: TypeRef, two: TypeRef) -> bool {
        let (Some((one, first)), Some((two, second))) = (self.types().real(one), self.types().real(two))
        else {
            return false;
        };
        let is_named = !first.name.is_empty() && first.name == second.name;
        one == two || is_named && class_of(&first).is_some() && class_of(&second).is_some()
    }
}

fn class_of(found: &Type) -> Option<&StructType> {
    match &found.kind {
        TypeKind::Struct(class) if found.language != Language::Rust => Some(class),
        _ => None,
    }
}
