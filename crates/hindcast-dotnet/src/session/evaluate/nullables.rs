//! `T?`: what is in one, and what its members and methods do that are not its value's.

use super::{
    Evaluated, EvaluationError, Evaluator, Result,
    conversions::{nullable_of, primitive_of},
};
use crate::{
    expression::Constant,
    values::{Seen, TypeInfo},
};

impl Evaluator<'_> {
    /// Of a value that is a `T?` in the source, the `T` and the value if there is one; none for any other.
    pub(super) fn nullable(&self, evaluated: &Evaluated) -> Option<(TypeInfo, Option<Evaluated>)> {
        let of = self.static_of(evaluated)?;
        let inner = nullable_of(&of)?.clone();
        if !self.has_value(evaluated) {
            return Some((inner, None));
        }
        let inside = match evaluated {
            Evaluated::Value(seen) => {
                let inside = match nullable_of(&seen.of) {
                    Some(_) => self.session.values().field_seen(seen, "value")?,
                    None => seen.clone(),
                };
                Evaluated::Value(Seen { as_type: Some(inner.clone()), ..inside })
            }
            Evaluated::Constant { value, .. } => Evaluated::computed(value.clone()),
            Evaluated::Enum { of, value, .. } => {
                Evaluated::Enum { of: of.clone(), value: value.clone(), declared: None }
            }
            Evaluated::Type(_) | Evaluated::Namespace(_) | Evaluated::Nothing => return None,
        };
        Some((inner, Some(inside)))
    }

    /// A value as one that may be null: what is behind a `?.` is such.
    pub(super) fn as_nullable(&self, evaluated: Evaluated) -> Result<Evaluated> {
        match self.static_of(&evaluated).and_then(|of| self.nullable_form(of)) {
            Some(of) if nullable_of(&of).is_some() => self.converted(evaluated, &of),
            _ => Ok(evaluated),
        }
    }

    /// `T?` for a struct or a number, and any other type as it is.
    pub(super) fn nullable_form(&self, of: TypeInfo) -> Option<TypeInfo> {
        match of.is_value_type() && nullable_of(&of).is_none() {
            true => self.session.type_by_name("System.Nullable`1", &[of]),
            false => Some(of),
        }
    }

    /// Whether a `T?` is equal to a `null`; none where none is compared with one.
    pub(super) fn same_nullable(&self, left: &Evaluated, right: &Evaluated) -> Option<bool> {
        let is_null = |side: &Evaluated| {
            matches!(side, Evaluated::Constant { value: Constant::Null, declared: None, .. })
        };
        let other = match (is_null(left), is_null(right)) {
            (true, false) => right,
            (false, true) => left,
            _ => return None,
        };
        self.nullable(other).map(|(_, inside)| inside.is_none())
    }

    /// `HasValue` and `Value`; none for other values and other names.
    pub(super) fn nullable_member(&self, of: &Evaluated, name: &str) -> Option<Result<Evaluated>> {
        if !matches!(name, "HasValue" | "Value") {
            return None;
        }
        let (_, inside) = self.nullable(of)?;
        Some(match (name, inside) {
            ("Value", Some(inside)) => Ok(inside),
            ("Value", None) => Err(EvaluationError::OfNull { name: name.to_owned() }),
            (_, inside) => Ok(Evaluated::computed(Constant::Bool(inside.is_some()))),
        })
    }

    /// What a method of a `T?` returns: its own, or its value's.
    pub(super) fn of_nullable(
        &mut self,
        receiver: &Evaluated,
        (inner, inside): (TypeInfo, Option<Evaluated>),
        name: &str,
        values: &[Evaluated],
        names: &[Option<&str>],
    ) -> Result<Evaluated> {
        match (name, values, inside) {
            ("GetValueOrDefault", [], Some(inside)) => Ok(inside),
            ("GetValueOrDefault", [], None) => self.default_value(&inner),
            ("GetValueOrDefault", [other], inside) if self.value_converts(other, &inner) => match inside {
                Some(inside) => Ok(inside),
                None => self.converted(other.clone(), &inner),
            },
            ("ToString", [], None) => Ok(Evaluated::computed(Constant::String(Default::default()))),
            ("GetHashCode", [], None) => Ok(Evaluated::computed(Constant::Int(0))),
            ("Equals", [other], None) => Ok(Evaluated::computed(Constant::Bool(!self.has_value(other)))),
            ("ToString" | "GetHashCode" | "Equals" | "GetType", _, Some(inside)) => {
                self.call_named(Some(inside), name, values, names, Vec::new())
            }
            ("GetType", [], None) => Err(EvaluationError::OfNull { name: name.to_owned() }),
            _ => {
                let extended = self.call_extension(receiver, name, values, names, &[])?;
                let of = format!("{}?", inner.display());
                extended.ok_or_else(|| EvaluationError::NoMember { of, name: name.to_owned() })
            }
        }
    }

    /// The value of a struct, a number or an enum that is all zeros.
    pub(super) fn default_value(&mut self, of: &TypeInfo) -> Result<Evaluated> {
        if let Some(primitive) = primitive_of(of) {
            return Ok(Evaluated::computed(primitive.default_value()));
        }
        match of.is_enum() {
            true => self.enum_value(of, &Evaluated::computed(Constant::Int(0))),
            false => self.zeroed(of),
        }
    }
}
