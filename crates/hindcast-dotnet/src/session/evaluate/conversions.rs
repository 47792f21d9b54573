//! What type a value has in the source, and what C# converts without a cast.

use super::{Evaluated, EvaluationError, Evaluator, Result};
use crate::{
    cor::element,
    expression::{Constant, Primitive, implicitly_converts},
    image::Spelling,
    values::{Seen, TypeInfo},
};

/// `GenericParameterAttributes.Covariant`.
const COVARIANT: u16 = 1;
/// `GenericParameterAttributes.Contravariant`.
const CONTRAVARIANT: u16 = 2;

/// What an array is besides an array, of its items.
const OF_ARRAYS: [&str; 5] = [
    "System.Collections.Generic.IList`1",
    "System.Collections.Generic.ICollection`1",
    "System.Collections.Generic.IEnumerable`1",
    "System.Collections.Generic.IReadOnlyList`1",
    "System.Collections.Generic.IReadOnlyCollection`1",
];

impl Evaluator<'_> {
    /// The type that the source gives to a value; none for `null`.
    pub(super) fn static_of(&self, evaluated: &Evaluated) -> Option<TypeInfo> {
        match evaluated {
            Evaluated::Constant { declared: Some(of), .. }
            | Evaluated::Enum { declared: Some(of), .. }
            | Evaluated::Enum { of, .. } => Some(of.clone()),
            Evaluated::Constant { value, .. } => self.session.type_by_name(&value.primitive()?.class(), &[]),
            Evaluated::Value(seen) => Some(self.static_type(seen)),
            Evaluated::Type(_) | Evaluated::Namespace(_) | Evaluated::Nothing => None,
        }
    }

    /// The type that a value really has; none where there is no value.
    pub(super) fn own_type(&self, evaluated: &Evaluated) -> Option<TypeInfo> {
        match evaluated {
            _ if !self.has_value(evaluated) => None,
            Evaluated::Constant { value, .. } => self.session.type_by_name(&value.primitive()?.class(), &[]),
            Evaluated::Enum { of, .. } => Some(of.clone()),
            Evaluated::Value(seen) => Some(nullable_of(&seen.of).unwrap_or(&seen.of).clone()),
            Evaluated::Type(_) | Evaluated::Namespace(_) | Evaluated::Nothing => None,
        }
    }

    /// A value with the type that a cast or a `?` gives it.
    pub(super) fn nullable_type(&self, of: Primitive) -> Option<TypeInfo> {
        let inner = self.session.type_by_name(&of.class(), &[])?;
        self.session.type_by_name("System.Nullable`1", &[inner])
    }

    /// Whether C# takes every value of a type for one of another.
    pub(super) fn type_converts(&self, from: &TypeInfo, to: &TypeInfo) -> bool {
        if is_same_type(from, to) || to.is_named("System.Object") {
            return true;
        }
        if let Some(to) = nullable_of(to) {
            let from = nullable_of(from).unwrap_or(from);
            return is_same_type(from, to) || is_widened(from, to);
        }
        match nullable_of(from) {
            Some(inner) => !to.is_value_type() && self.is_one(inner, to),
            None => is_widened(from, to) || !to.is_value_type() && self.is_one(from, to),
        }
    }

    /// Whether C# takes a value for one of a type.
    pub(super) fn value_converts(&self, value: &Evaluated, to: &TypeInfo) -> bool {
        let inner = nullable_of(to).unwrap_or(to);
        match value {
            Evaluated::Constant { value: Constant::Null, declared: None, .. } => {
                !to.is_value_type() || nullable_of(to).is_some()
            }
            Evaluated::Constant { value, is_literal: true, declared: None } => {
                let narrowed = primitive_of(inner).is_some_and(|to| value.converts_as_constant(to));
                let is_zero = inner.is_enum() && *value == Constant::Int(0);
                narrowed
                    || is_zero
                    || self
                        .own_type(&Evaluated::computed(value.clone()))
                        .is_some_and(|from| self.type_converts(&from, to))
            }
            _ => self.static_of(value).is_some_and(|from| self.type_converts(&from, to)),
        }
    }

    /// Whether C# prefers the first of two types for a value; none where it prefers neither.
    pub(super) fn is_better(&self, value: &Evaluated, one: &TypeInfo, other: &TypeInfo) -> Option<bool> {
        let own = self.static_of(value);
        let is_exact = |of: &TypeInfo| own.as_ref().is_some_and(|own| is_same_type(own, of));
        match (is_exact(one), is_exact(other)) {
            (true, false) => return Some(true),
            (false, true) => return Some(false),
            _ => {}
        }
        let converts = |from: &TypeInfo, to: &TypeInfo| {
            self.type_converts(from, to) || self.type_is_defined_to_convert(from, to)
        };
        match (converts(one, other), converts(other, one)) {
            (true, false) => Some(true),
            (false, true) => Some(false),
            (true, true) => None,
            (false, false) if is_signed_before(one, other) => Some(true),
            (false, false) if is_signed_before(other, one) => Some(false),
            (false, false) => None,
        }
    }

    /// Whether a type is another, derives from it or implements it.
    pub(super) fn is_one(&self, of: &TypeInfo, wanted: &TypeInfo) -> bool {
        wanted.is_named("System.Object")
            || is_same_type(of, wanted)
            || is_array_as(self, of, wanted)
            || wanted
                .full_name_ref()
                .and_then(|name| self.as_named(of, name))
                .is_some_and(|found| self.is_variant(&found, wanted))
    }

    /// What has a name of it, its bases and its interfaces.
    pub(super) fn as_named(&self, of: &TypeInfo, name: &str) -> Option<TypeInfo> {
        let of = self.with_definition(of).unwrap_or_else(|| of.clone());
        let bases = of.with_bases(&self.session.modules);
        if let Some(base) = bases.iter().find(|base| base.is_named(name)) {
            return Some(base.clone());
        }
        bases.iter().find_map(|base| {
            let definition = base.definition.as_ref()?;
            let assembly = definition.module.assembly()?;
            let interfaces = definition.type_def()?.interfaces().into_iter();
            interfaces.filter_map(|token| assembly.type_sig(token)).find_map(|interface| {
                // The arguments cost more to find than the name.
                let full_name = assembly.type_full_name(interface.definition()?)?;
                if full_name != name {
                    return None;
                }
                self.session.type_of_signature(&definition.module, &interface, &base.arguments, &[])
            })
        })
    }

    /// Whether two of the same generic type have the same arguments, or such as their parameters allow.
    fn is_variant(&self, found: &TypeInfo, wanted: &TypeInfo) -> bool {
        let type_def = wanted.definition.as_ref().and_then(|definition| definition.type_def());
        let parameters = type_def.map(|type_def| type_def.generic_parameters()).unwrap_or_default();
        let converts = |from: &TypeInfo, to: &TypeInfo| {
            !from.is_value_type() && !to.is_value_type() && self.is_one(from, to)
        };
        found.arguments.len() == wanted.arguments.len()
            && found.arguments.iter().zip(&wanted.arguments).enumerate().all(|(at, (from, to))| {
                let flags = parameters.get(at).map_or(0, |parameter| parameter.flags);
                is_same_type(from, to)
                    || flags & COVARIANT != 0 && converts(from, to)
                    || flags & CONTRAVARIANT != 0 && converts(to, from)
            })
    }

    /// A value as the type that it has in common with a branch of another type.
    pub(super) fn as_common(&self, value: Evaluated, to: &TypeInfo) -> Result<Evaluated> {
        let Some(own) = self.static_of(&value) else {
            let may_be_null = !to.is_value_type() || nullable_of(to).is_some();
            return if value.is_null() && may_be_null { self.converted(value, to) } else { Ok(value) };
        };
        let is_wider = self.value_converts(&value, to) && !self.type_converts(to, &own);
        if is_wider { self.converted(value, to) } else { Ok(value) }
    }

    /// A value as a type that C# takes it for.
    pub(super) fn converted(&self, value: Evaluated, to: &TypeInfo) -> Result<Evaluated> {
        let inner = nullable_of(to).unwrap_or(to);
        let may_be_null = nullable_of(to).is_some() || !to.is_value_type();
        if may_be_null && !self.has_value(&value) {
            return Ok(Evaluated::null_as(to.clone()));
        }
        if !to.is_value_type()
            && let Some((_, Some(inside))) = self.nullable(&value)
        {
            return self.converted(inside, to);
        }
        let declared = nullable_of(to).map(|_| to.clone());
        if let Some(primitive) = primitive_of(inner).filter(|of| of.is_number() || *of == Primitive::Bool) {
            let value = self.constant(&value)?.cast(primitive)?;
            return Ok(Evaluated::Constant { value, is_literal: false, declared });
        }
        if inner.is_enum()
            && let Evaluated::Enum { of, value, .. } = self.enum_value(inner, &value)?
        {
            return Ok(Evaluated::Enum { of, value, declared });
        }
        Ok(match value {
            Evaluated::Value(seen) => Evaluated::Value(Seen { as_type: Some(to.clone()), ..seen }),
            Evaluated::Constant { value, is_literal, .. } => {
                let own = value.primitive().is_some_and(|of| to.is_named(&of.class()));
                Evaluated::Constant { value, is_literal, declared: (!own).then(|| to.clone()) }
            }
            other => other,
        })
    }

    /// The type of a value for messages: as it is declared.
    pub(super) fn static_text(&self, evaluated: &Evaluated) -> String {
        match self.static_of(evaluated) {
            Some(of) => of.display(),
            None => self.type_text(evaluated),
        }
    }

    /// What is in the box of a value that is declared as an `object` or an interface, as one type only.
    pub(super) fn check_unboxed(&self, evaluated: &Evaluated, to: &TypeInfo) -> Result<()> {
        let declared =
            self.static_of(evaluated).filter(|of| !of.is_value_type() && !of.is_named("System.String"));
        let (Some(_), Some(own)) = (declared, self.own_type(evaluated)) else { return Ok(()) };
        let inner = nullable_of(to).unwrap_or(to);
        let is_inside = own.is_enum() && enum_primitive(&own) == primitive_of(inner)
            || inner.is_enum() && enum_primitive(inner) == primitive_of(&own);
        // The runtime takes the number for the enum and the other way round, but not where there may be none.
        if is_same_type(&own, inner) || is_inside && nullable_of(to).is_none() {
            return Ok(());
        }
        Err(EvaluationError::BadUnboxing { from: own.display(), to: to.display() })
    }
}

/// What may be null of a `T?`.
pub(super) fn nullable_of(of: &TypeInfo) -> Option<&TypeInfo> {
    of.arguments.first().filter(|_| of.is_named("System.Nullable`1"))
}

pub(super) fn primitive_of(of: &TypeInfo) -> Option<Primitive> {
    Primitive::of_class(of.full_name_ref()?)
}

/// The type that an enum's numbers are of.
pub(super) fn enum_primitive(of: &TypeInfo) -> Option<Primitive> {
    let type_def = of.definition.as_ref()?.type_def()?;
    match type_def.enum_type()? {
        crate::image::TypeSig::Primitive(primitive) => Primitive::of_class(primitive.full_name()),
        _ => None,
    }
}

pub(super) fn is_same_type(one: &TypeInfo, other: &TypeInfo) -> bool {
    match (one.full_name_ref(), other.full_name_ref()) {
        (Some(name), Some(other_name)) => {
            name == other_name
                && one.arguments.len() == other.arguments.len()
                && one.arguments.iter().zip(&other.arguments).all(|(one, other)| is_same_type(one, other))
        }
        (None, None) => one.spelled(Spelling::Qualified) == other.spelled(Spelling::Qualified),
        _ => false,
    }
}

fn is_widened(from: &TypeInfo, to: &TypeInfo) -> bool {
    let (Some(from), Some(to)) = (primitive_of(from), primitive_of(to)) else { return false };
    implicitly_converts(from, to).is_some()
}

fn is_array_as(evaluator: &Evaluator<'_>, of: &TypeInfo, wanted: &TypeInfo) -> bool {
    let is_array = of.element == element::SZ_ARRAY;
    let as_array = is_array && wanted.element == element::SZ_ARRAY;
    let as_interface = is_array && wanted.full_name_ref().is_some_and(|name| OF_ARRAYS.contains(&name));
    let (Some(item), Some(to)) = (of.arguments.first(), wanted.arguments.first()) else { return false };
    (as_array || as_interface)
        && (is_same_type(item, to)
            || !item.is_value_type() && !to.is_value_type() && evaluator.is_one(item, to))
}

/// Whether C# prefers a signed type before one without a sign that does not convert to it.
fn is_signed_before(one: &TypeInfo, other: &TypeInfo) -> bool {
    use Primitive::{Byte, Int, Long, NInt, NUInt, SByte, Short, UInt, ULong, UShort};
    let inner = |of: &TypeInfo| primitive_of(nullable_of(of).unwrap_or(of));
    let (Some(one), Some(other)) = (inner(one), inner(other)) else { return false };
    match one {
        SByte => matches!(other, Byte | UShort | UInt | NUInt | ULong),
        Short => matches!(other, UShort | UInt | NUInt | ULong),
        Int => matches!(other, UInt | NUInt | ULong),
        NInt | Long => matches!(other, NUInt | ULong),
        _ => false,
    }
}
