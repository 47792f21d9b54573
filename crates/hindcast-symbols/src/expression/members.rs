//! Members by their names: of classes, of their base classes, and those that all objects share.

use super::{error::ExpressionError as Failure, evaluate::Evaluator};
use crate::{
    types::{StaticMember, TypeKind, TypeRef},
    value::{
        Placed,
        layout::{Search, plain_field_name},
        shape::head,
    },
};

/// A member, and the class that has it.
struct Found {
    class: TypeRef,
    value: Placed,
}

impl Evaluator<'_> {
    /// A member of the value itself, not of what it points to. `Class::name` is the one of that class.
    pub(super) fn own_member(
        &self,
        value: &Placed,
        name: &str,
        column: usize,
    ) -> Result<Option<Placed>, Failure> {
        if let Some((class, name)) = name.rsplit_once("::") {
            return match self.part_named(value, class, column)? {
                Some(part) => self.own_member(&part, name, column),
                None => Ok(None),
            };
        }
        if !self.is_class(value.type_ref) {
            return Ok(self.layout.field(value, name));
        }
        let mut found = Vec::new();
        self.add_members(value, name, &mut found, &mut Search::new());
        // A virtual base's member is hidden by one of a class between.
        let hidden =
            |one: &Found| found.iter().any(|other| self.base_offsets(other.class, one.class).contains(&None));
        let seen: Vec<&Found> = found.iter().filter(|one| !hidden(one)).collect();
        match seen.as_slice() {
            [] => Ok(None),
            [only] => Ok(Some(only.value.clone())),
            [first, ..] => {
                let classes = seen.iter().map(|one| format!("`{}`", self.types().name_of(one.class)));
                let example = format!("{}::{name}", self.types().name_of(first.class));
                let of = self.types().name_of(value.type_ref);
                let classes = classes.collect::<Vec<_>>().join(" and ");
                Err(Failure::Ambiguous { column, name: name.to_owned(), of, classes, example })
            }
        }
    }

    fn add_members(
        &self,
        value: &Placed,
        name: &str,
        found: &mut Vec<Found>,
        search: &mut Search,
    ) -> Option<()> {
        let (class, of) = self.types().real(value.type_ref)?;
        let TypeKind::Struct(structure) = &of.kind else { return None };
        let own = structure.members.iter().find_map(|member| match &member.name {
            Some(known) => (plain_field_name(known) == name).then(|| self.layout.member(value, member)),
            None => self.layout.field(&self.layout.member(value, member), name),
        });
        let shared = || self.static_of(class, name);
        if let Some(value) = own.or_else(shared) {
            if found.iter().all(|known| known.value.storage != value.storage) {
                found.push(Found { class, value });
            }
            return Some(());
        }
        for base in &structure.bases {
            let Some(part) = self.layout.base(value, base) else { continue };
            search.deeper(|search| self.add_members(&part, name, found, search));
        }
        Some(())
    }

    /// The object as the class of its own or of its base classes that is called so.
    fn part_named(&self, value: &Placed, class: &str, column: usize) -> Result<Option<Placed>, Failure> {
        if self.is_called(value.type_ref, class) {
            return Ok(Some(value.clone()));
        }
        match self.base_named(value.type_ref, class, &mut Search::new()) {
            Some(base) => self.as_class(value, base, column),
            None => Ok(None),
        }
    }

    fn base_named(&self, class: TypeRef, name: &str, search: &mut Search) -> Option<TypeRef> {
        let (_, of) = self.types().real(class)?;
        let TypeKind::Struct(structure) = &of.kind else { return None };
        structure.bases.iter().find_map(|base| {
            if self.is_called(base.type_ref, name) {
                return Some(base.type_ref);
            }
            search.deeper(|search| self.base_named(base.type_ref, name, search))
        })
    }

    /// Whether a class has this name, which may leave out namespaces and template arguments.
    fn is_called(&self, class: TypeRef, name: &str) -> bool {
        let full = self.types().real(class).map(|(_, of)| of.name.clone()).unwrap_or_default();
        let fits = |full: &str| {
            full.strip_suffix(name).is_some_and(|outer| outer.is_empty() || outer.ends_with("::"))
        };
        fits(&full) || fits(head(&full))
    }

    /// A static member of the class or of its base classes.
    pub(super) fn static_member(&self, class: TypeRef, name: &str) -> Option<Placed> {
        self.static_within(class, name, &mut Search::new())
    }

    fn static_within(&self, class: TypeRef, name: &str, search: &mut Search) -> Option<Placed> {
        if let Some(found) = self.static_of(class, name) {
            return Some(found);
        }
        let (_, of) = self.types().real(class)?;
        let TypeKind::Struct(structure) = &of.kind else { return None };
        structure
            .bases
            .iter()
            .find_map(|base| search.deeper(|search| self.static_within(base.type_ref, name, search)))
    }

    fn static_of(&self, class: TypeRef, name: &str) -> Option<Placed> {
        let (_, of) = self.types().real(class)?;
        let TypeKind::Struct(structure) = &of.kind else { return None };
        let member = structure.statics.iter().find(|member| member.name == name)?;
        self.constant(member).or_else(|| {
            // Its declaration is in the class, its definition anywhere.
            self.scope.global(&format!("::{}::{name}", of.name)).map(super::Global::value)
        })
    }

    fn constant(&self, member: &StaticMember) -> Option<Placed> {
        let size = self.types().size(member.type_ref)?.min(16) as usize;
        Some(Placed::computed(member.type_ref, &member.constant?.to_le_bytes()[..size]))
    }
}
