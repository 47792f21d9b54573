//! Which member a name means: that of the type that a value is declared with, as the object overrides it.

use crate::{
    cor::{Com, Value},
    image::{Field, Method, Spelling, Token},
};

use super::{
    seen::{Content, Seen, Values, property_of_backing_field},
    types::TypeInfo,
};

impl Values<'_> {
    /// The types whose members a value has: the declared one with its bases, and then those that the object really has.
    pub(crate) fn member_types(&self, seen: &Seen) -> Vec<TypeInfo> {
        let really = seen.of.with_bases(self.modules);
        let declared = seen.as_type.as_ref().unwrap_or(&seen.of);
        // A member of an interface is one of the object's class.
        match really.iter().position(|known| is_same(known, declared)) {
            Some(place) if seen.is_base => really[place..].to_vec(),
            Some(place) => really[place..].iter().chain(&really[..place]).cloned().collect(),
            None => really,
        }
    }

    /// A field by its name in the assembly, as a type sees it: with the type that declares it, and its token.
    pub(crate) fn field_of(
        &self,
        seen: &Seen,
        of: &TypeInfo,
        name: &str,
    ) -> Option<(TypeInfo, Token, Com<Value>)> {
        let Content::Object(object) = &seen.content else { return None };
        of.with_bases(self.modules).iter().find_map(|of| {
            let definition = of.definition.as_ref()?;
            let is_it = |field: &Field<'_>| !field.is_static() && field.name() == Some(name);
            let token = definition.type_def()?.fields().find(is_it)?.token();
            let value = object.field(&definition.class, token.0).ok()?;
            Some((of.clone(), token, value))
        })
    }

    /// The type with a definition that an object is of: itself, or what it derives from.
    pub(crate) fn as_defined(&self, seen: &Seen, is_it: impl Fn(&TypeInfo) -> bool) -> Option<TypeInfo> {
        seen.of.with_bases(self.modules).into_iter().find(is_it)
    }

    /// The method that runs in place of a virtual one, with its type; none where it is the one.
    pub(crate) fn overrider(
        &self,
        seen: &Seen,
        of: &TypeInfo,
        method: Method<'_>,
    ) -> Option<(TypeInfo, Token)> {
        if !method.is_virtual() || seen.is_base {
            return None;
        }
        let really = seen.of.with_bases(self.modules);
        let below = really.iter().position(|known| is_same(known, of))?;
        let mut last = None;
        for derived in really[..below].iter().rev() {
            let type_def = derived.definition.as_ref().and_then(|definition| definition.type_def());
            let Some(type_def) = type_def else { continue };
            let named: Vec<_> = type_def.methods_named(method.name()?).filter(|it| !it.is_static()).collect();
            let parameters = parameters_of(method);
            let same = named.iter().find(|it| parameters_of(**it) == parameters);
            // The types of a generic base have other names in it.
            let same = same.or_else(|| match named.as_slice() {
                [only] if count_of(*only) == count_of(method) => Some(only),
                _ => None,
            });
            match same {
                Some(found) if found.is_virtual() && !found.is_new_slot() => {
                    last = Some((derived.clone(), found.token()));
                }
                // It hides the other.
                Some(_) => break,
                None => {}
            }
        }
        last
    }

    /// Whether several types of an object have a member of this name that do not override each other.
    pub(super) fn is_ambiguous(&self, seen: &Seen, name: &str) -> bool {
        let has_own = |of: &TypeInfo| {
            let type_def = of.definition.as_ref().and_then(|definition| definition.type_def());
            type_def.is_some_and(|type_def| {
                let is_it = |raw: &str| raw == name || property_of_backing_field(raw) == Some(name);
                let overrides = |getter: Method<'_>| getter.is_virtual() && !getter.is_new_slot();
                match type_def.property_named(name) {
                    Some(property) => !property.getter().is_some_and(overrides),
                    None => type_def.fields().any(|field| field.name().is_some_and(is_it)),
                }
            })
        };
        seen.of.with_bases(self.modules).iter().filter(|of| has_own(of)).count() > 1
    }
}

/// The types of a method's parameters, as its assembly has them.
fn parameters_of(method: Method<'_>) -> Option<Vec<String>> {
    let signature = method.signature().ok()?;
    Some(signature.parameters.iter().map(|of| of.spell(&method, Spelling::Qualified)).collect())
}

fn count_of(method: Method<'_>) -> Option<usize> {
    method.signature().ok().map(|signature| signature.parameters.len())
}

/// Whether two types are the same, also where the runtime does not tell what stands for the parameters of one.
fn is_same(one: &TypeInfo, other: &TypeInfo) -> bool {
    match (&one.definition, &other.definition) {
        (Some(_), Some(other)) => one.is_defined_by(&other.module, other.token),
        _ => one.spelled(Spelling::Qualified) == other.spelled(Spelling::Qualified),
    }
}
