//! Which of several methods of a name C# would call.

use super::{
    Evaluated, EvaluationError, Evaluator, Result,
    calls::Callee,
    conversions::{is_same_type, nullable_of},
};
use crate::{cor::element, image::TypeSig, values::TypeInfo};

/// `MethodAttributes.MemberAccessMask`, and what it tells apart.
const ACCESS: u16 = 7;
const PRIVATE: u16 = 1;
const FAMILY: u16 = 4;
const PUBLIC: u16 = 6;

/// A method that takes the arguments.
struct Applicable {
    callee: Callee,
    /// The type of the parameter that each argument goes to.
    wanted: Vec<TypeInfo>,
    /// Whether the last arguments go to an array.
    is_expanded: bool,
    /// The place of the type that introduces it, the declared type first.
    level: usize,
}

impl Evaluator<'_> {
    /// The overload that C# takes for these arguments. `names` are those that are written before them.
    pub(super) fn best(
        &self,
        mut candidates: Vec<Callee>,
        name: &str,
        values: &[Evaluated],
        names: &[Option<&str>],
        only_static: bool,
    ) -> Result<Callee> {
        candidates.retain(|callee| !only_static || callee.is_static);
        let around = self.session.declaring_type(&self.frame);
        let is_accessible = |callee: &&Callee| self.is_accessible(callee, around.as_ref());
        let accessible: Vec<_> = candidates.iter().filter(is_accessible).cloned().collect();
        match self.best_of(accessible, name, values, names) {
            // A debugger may call what the source here may not.
            Err(EvaluationError::NoOverload { .. }) => self.best_of(candidates, name, values, names),
            found => found,
        }
    }

    /// Whether the source of the frame could call a method.
    fn is_accessible(&self, callee: &Callee, around: Option<&TypeInfo>) -> bool {
        let method = callee.module.assembly().and_then(|assembly| assembly.method(callee.token));
        let access = method.map_or(PUBLIC, |method| method.flags() & ACCESS);
        let name = callee.of.full_name().unwrap_or_default();
        let is_inside = around.and_then(TypeInfo::full_name).is_some_and(|around| {
            around == name || around.strip_prefix(&name).is_some_and(|rest| rest.starts_with('+'))
        });
        match access {
            PUBLIC => true,
            PRIVATE => is_inside,
            FAMILY => is_inside || around.is_some_and(|around| self.as_named(around, &name).is_some()),
            _ => callee.module.is_mine(),
        }
    }

    fn best_of(
        &self,
        candidates: Vec<Callee>,
        name: &str,
        values: &[Evaluated],
        names: &[Option<&str>],
    ) -> Result<Callee> {
        let levels = match candidates.iter().all(|callee| callee.counts_alike) {
            true => vec![Some(0); candidates.len()],
            false => self.levels(&candidates),
        };
        let mut applicable: Vec<Applicable> = Vec::new();
        for (callee, level) in candidates.into_iter().zip(levels) {
            if let Some(found) = level.and_then(|level| self.applicable(callee, level, values, names)) {
                applicable.push(found);
            }
        }
        let level = applicable.iter().map(|candidate| candidate.level).min();
        applicable.retain(|candidate| Some(candidate.level) == level);
        let is_best = |at: usize| {
            let others = applicable.iter().enumerate().filter(|(other, _)| *other != at);
            others.into_iter().all(|(_, other)| self.is_better_call(&applicable[at], other, values))
        };
        let Some(best) = (0..applicable.len()).find(|at| is_best(*at)) else {
            return Err(self.no_best(&applicable, name, values));
        };
        let best = applicable.swap_remove(best);
        if best.is_expanded {
            return Err(EvaluationError::NotSupported {
                what: "passing several arguments to a `params` parameter",
            });
        }
        Ok(best.callee)
    }

    fn no_best(&self, applicable: &[Applicable], name: &str, values: &[Evaluated]) -> EvaluationError {
        if applicable.is_empty() {
            let arguments: Vec<_> = values.iter().map(|value| self.static_text(value)).collect();
            return EvaluationError::NoOverload { name: name.to_owned(), arguments: arguments.join(", ") };
        }
        let spelled: Vec<_> = applicable
            .iter()
            .map(|candidate| {
                let types: Vec<_> = candidate.wanted.iter().map(TypeInfo::display).collect();
                format!("{name}({})", types.join(", "))
            })
            .collect();
        EvaluationError::AmbiguousCall { name: name.to_owned(), candidates: spelled.join(", ") }
    }

    /// Where each method is introduced; none for one that another overrides, and for one without code.
    ///
    /// A method that overrides another belongs to the type whose it overrides.
    fn levels(&self, candidates: &[Callee]) -> Vec<Option<usize>> {
        let wanted: Vec<Vec<Option<TypeInfo>>> = candidates
            .iter()
            .map(|callee| callee.parameters.iter().map(|of| self.wanted(callee, of)).collect())
            .collect();
        let is_same = |one: usize, other: usize| {
            wanted[one].len() == wanted[other].len()
                && wanted[one].iter().zip(&wanted[other]).all(|pair| match pair {
                    (Some(one), Some(other)) => is_same_type(one, other),
                    _ => false,
                })
        };
        let first = |of: &TypeInfo| candidates.iter().position(|callee| is_same_type(&callee.of, of));
        let introduced = |at: usize| {
            let callee = &candidates[at];
            if !callee.overrides {
                return first(&callee.of);
            }
            let bases = callee.of.with_bases(&self.session.modules);
            let base = bases.iter().skip(1).find_map(|base| {
                (0..candidates.len()).find(|other| {
                    let other_callee = &candidates[*other];
                    is_same_type(&other_callee.of, base) && !other_callee.overrides && is_same(at, *other)
                })
            });
            first(&candidates[base.unwrap_or(at)].of)
        };
        let levels: Vec<_> = (0..candidates.len()).map(introduced).collect();
        let depth = |at: usize| candidates[at].of.with_bases(&self.session.modules).len();
        (0..candidates.len())
            .map(|at| {
                let is_overridden = (0..candidates.len()).any(|other| {
                    other != at
                        && levels[other] == levels[at]
                        && is_same(at, other)
                        && depth(other) > depth(at)
                });
                levels[at].filter(|_| !is_overridden && !candidates[at].is_abstract)
            })
            .collect()
    }

    fn applicable(
        &self,
        mut callee: Callee,
        level: usize,
        values: &[Evaluated],
        names: &[Option<&str>],
    ) -> Option<Applicable> {
        if let Some(places) = placed(&callee, values.len(), names) {
            let mut wanted: Vec<Option<TypeInfo>> = vec![None; values.len()];
            let mut fits = true;
            for (parameter, at) in callee.parameters.iter().zip(&places) {
                let Some(at) = *at else { continue };
                // It would need a place to write to.
                let of = match parameter {
                    TypeSig::ByRef(_) => None,
                    other => self.wanted(&callee, other),
                };
                match of {
                    Some(of) if self.value_converts(&values[at], &of) => wanted[at] = Some(of),
                    Some(of) if self.is_defined_conversion(&values[at], &of) => wanted[at] = Some(of),
                    _ => fits = false,
                }
            }
            if let Some(wanted) = wanted.into_iter().collect::<Option<Vec<_>>>().filter(|_| fits) {
                callee.places = places;
                return Some(Applicable { callee, wanted, is_expanded: false, level });
            }
        }
        let wanted = self.expanded(&callee, values).filter(|_| names.iter().all(Option::is_none))?;
        Some(Applicable { callee, wanted, is_expanded: true, level })
    }

    /// The types of the parameters where the last arguments become an array.
    fn expanded(&self, callee: &Callee, values: &[Evaluated]) -> Option<Vec<TypeInfo>> {
        let (last, fixed) = callee.parameters.split_last().filter(|_| callee.is_params)?;
        let last = self.wanted(callee, last)?;
        let item = last.arguments.first().filter(|_| last.element == element::SZ_ARRAY)?;
        if values.len() < fixed.len() {
            return None;
        }
        let mut wanted = Vec::with_capacity(values.len());
        for (at, value) in values.iter().enumerate() {
            let of = match fixed.get(at) {
                Some(parameter) => self.wanted(callee, parameter)?,
                None => item.clone(),
            };
            if !self.value_converts(value, &of) {
                return None;
            }
            wanted.push(of);
        }
        Some(wanted)
    }

    /// Whether a type defines how a value becomes one of another.
    pub(super) fn is_defined_conversion(&self, value: &Evaluated, to: &TypeInfo) -> bool {
        let Some(from) = self.static_of(value) else { return false };
        self.defines_conversion(&from, to, |parameter| self.value_converts(value, parameter))
    }

    /// Whether one of two types defines how every value of the first becomes one of the second.
    pub(super) fn type_is_defined_to_convert(&self, from: &TypeInfo, to: &TypeInfo) -> bool {
        self.defines_conversion(from, to, |parameter| self.type_converts(from, parameter))
    }

    /// `takes` tells for the type of a conversion's parameter whether it takes what is converted.
    fn defines_conversion(&self, from: &TypeInfo, to: &TypeInfo, takes: impl Fn(&TypeInfo) -> bool) -> bool {
        let is_builtin =
            |of: &TypeInfo| super::conversions::primitive_of(of).is_some_and(|of| of.is_number());
        let converts = |callee: Callee| {
            let parameter = callee.parameters.first().and_then(|of| self.wanted(&callee, of));
            let returned = self.returned(&callee);
            parameter.is_some_and(|of| takes(&of))
                && returned.is_some_and(|of| self.type_converts(&of, nullable_of(to).unwrap_or(to)))
        };
        let mut definers = [from, to].into_iter().filter(|of| !is_builtin(of));
        definers.any(|of| self.methods(of, "op_Implicit").into_iter().any(converts))
    }

    /// Whether C# prefers one call before another.
    fn is_better_call(&self, one: &Applicable, other: &Applicable, values: &[Evaluated]) -> bool {
        let mut is_better = false;
        for (at, value) in values.iter().enumerate() {
            match self.is_better(value, &one.wanted[at], &other.wanted[at]) {
                Some(true) => is_better = true,
                Some(false) => return false,
                None => {}
            }
        }
        let is_same = one.wanted.iter().zip(&other.wanted).all(|(one, other)| is_same_type(one, other));
        if is_better || !is_same {
            return is_better;
        }
        let rank = |candidate: &Applicable| {
            let callee = &candidate.callee;
            let left_out = callee.places.iter().any(Option::is_none);
            let open =
                callee.parameters.iter().filter(|of| matches!(of, TypeSig::MethodParameter(_))).count();
            (callee.own_types > 0, candidate.is_expanded, left_out, open)
        };
        rank(one) < rank(other)
    }

    /// Gives generic methods the types that are written, or that follow from the arguments; those that get none are no candidates.
    pub(super) fn give_types(
        &self,
        candidates: &mut Vec<Callee>,
        values: &[Evaluated],
        names: &[Option<&str>],
        written: &[TypeInfo],
    ) {
        for candidate in candidates.iter_mut() {
            if candidate.own_types > 0 && written.is_empty() {
                let inferred = self.inferred(candidate, values, names);
                candidate.types.extend(inferred);
            } else {
                candidate.types.extend(written.iter().cloned());
            }
        }
        candidates.retain(|candidate| candidate.types.len() == candidate.of_type.len() + candidate.own_types);
    }

    /// What stands for a method's parameters, by the types that the arguments are declared with.
    pub(super) fn inferred(
        &self,
        callee: &Callee,
        values: &[Evaluated],
        names: &[Option<&str>],
    ) -> Vec<TypeInfo> {
        let mut found = vec![None; callee.own_types];
        let Some(places) = placed(callee, values.len(), names) else { return Vec::new() };
        for (parameter, at) in callee.parameters.iter().zip(places) {
            if let Some(of) = at.and_then(|at| self.static_of(&values[at])) {
                self.infer(callee, parameter, &of, &mut found);
            }
        }
        found.into_iter().collect::<Option<Vec<_>>>().unwrap_or_default()
    }

    fn infer(&self, callee: &Callee, parameter: &TypeSig, of: &TypeInfo, found: &mut [Option<TypeInfo>]) {
        match parameter {
            TypeSig::MethodParameter(number) => {
                let Some(slot) = found.get_mut(*number as usize) else { return };
                if slot.as_ref().is_none_or(|known| self.type_converts(known, of)) {
                    *slot = Some(of.clone());
                }
            }
            TypeSig::SzArray(item) if of.element == element::SZ_ARRAY => {
                if let Some(of) = of.arguments.first() {
                    self.infer(callee, item, of, found);
                }
            }
            TypeSig::GenericInst { definition, arguments, .. } => {
                let name = callee.module.assembly().and_then(|assembly| assembly.type_full_name(*definition));
                let item = of.arguments.first().filter(|_| of.element == element::SZ_ARRAY);
                if let (Some(item), [argument]) = (item, arguments.as_slice()) {
                    return self.infer(callee, argument, item, found);
                }
                let known = name.and_then(|name| self.as_named(of, &name));
                for (argument, of) in arguments.iter().zip(known.iter().flat_map(|known| &known.arguments)) {
                    self.infer(callee, argument, of, found);
                }
            }
            _ => {}
        }
    }
}

/// Which argument each parameter takes; none where one has no argument and no default.
fn placed(callee: &Callee, count: usize, names: &[Option<&str>]) -> Option<Vec<Option<usize>>> {
    let mut places = vec![None; callee.parameters.len()];
    for at in 0..count {
        let place = match names.get(at).copied().flatten() {
            None => at,
            Some(name) => callee.names.iter().position(|known| known.as_deref() == Some(name))?,
        };
        if places.get_mut(place)?.replace(at).is_some() {
            return None;
        }
    }
    let optional = callee.parameters.len() - callee.defaults.len();
    let is_given = |(at, place): (usize, &Option<usize>)| place.is_some() || at >= optional;
    places.iter().enumerate().all(is_given).then_some(places)
}
