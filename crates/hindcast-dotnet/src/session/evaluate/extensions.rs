//! Extension methods: static ones that are called as if they were the first argument's own.

use std::collections::BTreeMap;

use super::{
    Evaluated, EvaluationError, Evaluator, Result,
    calls::Callee,
    conversions::{is_same_type, nullable_of},
};
use crate::{
    image::{TypeDef, TypeSig},
    values::TypeInfo,
};

const MARK: &str = "System.Runtime.CompilerServices.ExtensionAttribute";
/// `TypeAttributes.Abstract` and `TypeAttributes.Sealed`: a static class.
const STATIC: u32 = 0x180;
/// `TypeAttributes.VisibilityMask`, and what is public.
const VISIBILITY: u32 = 7;
const PUBLIC: u32 = 1;

/// `GenericParameterAttributes.ReferenceTypeConstraint` and `NotNullableValueTypeConstraint`.
const ONLY_CLASSES: u16 = 4;
const ONLY_STRUCTS: u16 = 8;

impl Evaluator<'_> {
    /// Calls an extension method; none where there is none of the name for such a value.
    ///
    /// Those of the namespaces around the frame come first, as in C#. What else the source is `using` is not known here, so where several
    /// other namespaces have one that would do, none is taken.
    pub(super) fn call_extension(
        &mut self,
        this: &Evaluated,
        name: &str,
        values: &[Evaluated],
        names: &[Option<&str>],
        method_types: &[TypeInfo],
    ) -> Result<Option<Evaluated>> {
        let values: Vec<_> = std::iter::once(this).chain(values).cloned().collect();
        let names: Vec<_> = std::iter::once(None).chain(names.iter().copied()).collect();
        let mut candidates = self.extensions(name);
        if candidates.iter().any(|callee| self.takes_places(callee, &values)) {
            let what = "an extension method with `ref`, `in` or `out` parameters";
            return Err(EvaluationError::NotSupported { what });
        }
        self.give_types(&mut candidates, &values, &names, method_types);
        candidates.retain(|callee| self.extends(callee, &values[0]) && fits(callee));
        if candidates.is_empty() {
            return Ok(None);
        }
        let callee = self.nearest(candidates, name, &values, &names)?;
        self.run(&callee, None, &values).map(Some)
    }

    /// The best of the nearest namespace that has one.
    fn nearest(
        &self,
        candidates: Vec<Callee>,
        name: &str,
        values: &[Evaluated],
        names: &[Option<&str>],
    ) -> Result<Callee> {
        let around =
            self.session.declaring_type(&self.frame).and_then(|of| of.full_name()).unwrap_or_default();
        let mut by_namespace: BTreeMap<String, Vec<Callee>> = BTreeMap::new();
        for callee in candidates {
            let of = callee.of.full_name().unwrap_or_default();
            by_namespace.entry(namespace_of(&of).to_owned()).or_default().push(callee);
        }
        let mut inner = namespace_of(&around);
        while !inner.is_empty() {
            let here = by_namespace.remove(inner).unwrap_or_default();
            match self.best(here, name, values, names, true) {
                Err(EvaluationError::NoOverload { .. }) => {}
                found => return found,
            }
            inner = namespace_of(inner);
        }
        let mut found = None;
        let mut refused = None;
        for (namespace, callees) in by_namespace {
            match self.best(callees, name, values, names, true) {
                Err(EvaluationError::NoOverload { name, arguments }) => {
                    refused = Some(EvaluationError::NoOverload { name, arguments });
                }
                Err(error) => return Err(error),
                Ok(callee) => match found.replace((namespace, callee)) {
                    None => {}
                    Some((other, _)) => {
                        let both = [Some(other), found.map(|(namespace, _)| namespace)];
                        let both: Vec<_> =
                            both.into_iter().flatten().map(|it| format!("{it}.{name}")).collect();
                        let name = name.to_owned();
                        return Err(EvaluationError::AmbiguousCall { name, candidates: both.join(", ") });
                    }
                },
            }
        }
        let missing = || EvaluationError::NotSupported { what: "this extension method" };
        found.map(|(_, callee)| callee).ok_or_else(|| refused.unwrap_or_else(missing))
    }

    /// Whether a method that could be meant takes where a value is, of which an expression knows nothing.
    fn takes_places(&self, callee: &Callee, values: &[Evaluated]) -> bool {
        let is_place = callee.takes_places() && callee.parameters.len() == values.len();
        let first = callee.parameters.first().map(|of| match of {
            TypeSig::ByRef(inner) => &**inner,
            of => of,
        });
        let wanted = first.and_then(|of| self.wanted(callee, of));
        let own = self.static_of(&values[0]);
        // What a parameter of the method is, is known only later.
        is_place && wanted.zip(own).is_none_or(|(wanted, own)| self.type_converts(&own, &wanted))
    }

    /// Whether a method extends what a value is; numbers are not widened for that, nor values converted by code.
    pub(super) fn extends(&self, callee: &Callee, value: &Evaluated) -> bool {
        let wanted = callee.parameters.first().and_then(|of| self.wanted(callee, of));
        let (Some(wanted), Some(own)) = (wanted, self.static_of(value)) else { return false };
        is_same_type(&own, &wanted) || !wanted.is_value_type() && self.type_converts(&own, &wanted)
    }

    pub(super) fn extensions(&self, name: &str) -> Vec<Callee> {
        let mut found = Vec::new();
        for module in self.session.modules.iter() {
            let Some(assembly) = module.assembly() else { continue };
            let is_seen = |of: &TypeDef<'_>| module.is_mine() || of.flags() & VISIBILITY == PUBLIC;
            let classes = assembly.types().filter(|of| of.flags() & STATIC == STATIC && is_seen(of));
            for class in classes.filter(|of| of.methods_named(name).next().is_some()) {
                let Some(of) = self.session.type_with(module, class.token(), &[]) else { continue };
                let is_marked = |callee: &Callee| assembly.has_attribute(callee.token, MARK);
                found.extend(self.methods_of(&of, name).into_iter().filter(is_marked));
            }
        }
        found.iter_mut().for_each(|callee| callee.counts_alike = true);
        found
    }
}

/// Whether what stands for a method's type parameters may do so, as far as these are only for classes or only for structs.
fn fits(callee: &Callee) -> bool {
    let method = callee.module.assembly().and_then(|assembly| assembly.method(callee.token));
    let parameters = method.map(|method| method.generic_parameters()).unwrap_or_default();
    parameters.iter().zip(callee.own_type_arguments()).all(|(parameter, of)| {
        let is_struct = of.is_value_type() && nullable_of(of).is_none();
        let is_allowed = |flag, fits| parameter.flags & flag == 0 || fits;
        is_allowed(ONLY_CLASSES, !of.is_value_type()) && is_allowed(ONLY_STRUCTS, is_struct)
    })
}

/// The part of a name before its last point; nothing where there is none.
fn namespace_of(name: &str) -> &str {
    name.rsplit_once('.').map_or("", |(namespace, _)| namespace)
}
