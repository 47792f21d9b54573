//! Operators, casts and tests of types.

use super::{
    Evaluated, EvaluationError, Evaluator, Result,
    conversions::{enum_primitive, is_same_type, nullable_of, primitive_of},
    user_operators::is_boxed,
};
use crate::{
    expression::{
        Binary, Constant, Node, Operand, Pattern, Primitive, TypeKind, TypeName, Unary, binary, unary,
    },
    values::{Content, Seen, TypeInfo},
};

impl Evaluator<'_> {
    pub(super) fn unary_of(&self, operator: Unary, operand: &Evaluated) -> Result<Evaluated> {
        let is_literal = matches!(operand, Evaluated::Constant { is_literal: true, .. });
        let before = self.constant(operand)?;
        let value = unary(operator, &before)?;
        if let (Some(of), Unary::Complement) = (Self::enum_of(operand), operator)
            && value != Constant::Null
        {
            return self.enum_value(of, &Evaluated::computed(value));
        }
        let declared = self.static_of(operand).filter(|of| nullable_of(of).is_some());
        let declared = match value.primitive() {
            Some(of) => declared.and_then(|_| self.nullable_type(of)),
            None => declared,
        };
        Ok(Evaluated::Constant { value, is_literal, declared })
    }

    pub(super) fn binary_of(
        &mut self,
        operator: Binary,
        left: &Evaluated,
        right: &Evaluated,
    ) -> Result<Evaluated> {
        if let Some(same) = self.same_reference(left, right)
            && matches!(operator, Binary::Equal | Binary::NotEqual)
        {
            return Ok(Evaluated::computed(Constant::Bool(same == (operator == Binary::Equal))));
        }
        if let Some(same) = self.same_nullable(left, right)
            && matches!(operator, Binary::Equal | Binary::NotEqual)
        {
            return Ok(Evaluated::computed(Constant::Bool(same == (operator == Binary::Equal))));
        }
        if operator == Binary::Add && (self.is_text(left) || self.is_text(right)) {
            return self.joined(left, right);
        }
        if operator == Binary::Add && (left.is_untyped_null() || right.is_untyped_null()) {
            // It could be a text, to which the other is added.
            return Err(EvaluationError::UntypedNull);
        }
        let is_nullable =
            |side: &Evaluated| self.static_of(side).is_some_and(|of| nullable_of(&of).is_some());
        let is_lifted = !is_comparison(operator) && (is_nullable(left) || is_nullable(right));
        let (left_value, right_value) = (self.constant(left)?, self.constant(right)?);
        if left_value == Constant::Null || right_value == Constant::Null {
            return self.lifted(operator, (left, &left_value), (right, &right_value));
        }
        let value = binary(operator, operand(left, &left_value), operand(right, &right_value))?;
        if Self::enum_of(left).is_some() || Self::enum_of(right).is_some() {
            return self.of_enums(operator, left, right, value);
        }
        let is_literal =
            [left, right].iter().all(|side| matches!(side, Evaluated::Constant { is_literal: true, .. }));
        let declared = value.primitive().filter(|_| is_lifted).and_then(|of| self.nullable_type(of));
        Ok(Evaluated::Constant { value, is_literal: is_literal && !is_lifted, declared })
    }

    /// What an operator makes of a `T?` without a value.
    fn lifted(
        &self,
        operator: Binary,
        left: (&Evaluated, &Constant),
        right: (&Evaluated, &Constant),
    ) -> Result<Evaluated> {
        let as_if = |(side, value): (&Evaluated, &Constant)| match value {
            Constant::Null => self.some_value(side),
            value => Some(value.clone()),
        };
        let is_equality = matches!(operator, Binary::Equal | Binary::NotEqual);
        let (one, other) = (as_if(left), as_if(right));
        let is_truth = |value: &Option<Constant>| matches!(value, Some(Constant::Bool(_)));
        let has_truth = is_truth(&one) || is_truth(&other);
        let both_null = *left.1 == Constant::Null && *right.1 == Constant::Null;
        if is_equality || has_truth && !both_null {
            let value = binary(operator, operand(left.0, left.1), operand(right.0, right.1))?;
            let declared = if is_equality { None } else { self.nullable_type(Primitive::Bool) };
            return Ok(Evaluated::Constant { value, is_literal: false, declared });
        }
        // With values in their places, the operator tells the type.
        let is_shift =
            matches!(operator, Binary::ShiftLeft | Binary::ShiftRight | Binary::UnsignedShiftRight);
        let count = is_shift.then_some(Constant::Int(1));
        let (one, other) = (one.clone().or_else(|| other.clone()), other.or(count).or(one));
        let (Some(one), Some(other)) = (one, other) else {
            binary(operator, operand(left.0, left.1), operand(right.0, right.1))?;
            return Ok(Evaluated::computed(Constant::Null));
        };
        // What has no value is not divided by anything.
        let divides = matches!(operator, Binary::Divide | Binary::Remainder);
        let number = other.primitive().filter(|of| divides && of.is_number());
        let other = number.and_then(|of| Constant::Int(1).cast(of).ok()).unwrap_or(other);
        let value = binary(operator, operand(left.0, &one), operand(right.0, &other))?;
        if is_comparison(operator) {
            return Ok(Evaluated::computed(Constant::Bool(false)));
        }
        let declared = value.primitive().and_then(|of| self.nullable_type(of));
        Ok(Evaluated::Constant { value: Constant::Null, is_literal: false, declared })
    }

    /// A value of the type of a `T?` that has none.
    fn some_value(&self, evaluated: &Evaluated) -> Option<Constant> {
        let of = self.static_of(evaluated)?;
        let of = nullable_of(&of)?;
        match primitive_of(of).or_else(|| enum_primitive(of))? {
            Primitive::Bool => Some(Constant::Bool(false)),
            of => Constant::Int(1).cast(of).ok(),
        }
    }

    /// Whether two references are to the same object; none where values are compared.
    fn same_reference(&self, left: &Evaluated, right: &Evaluated) -> Option<bool> {
        let address = |evaluated: &Evaluated| match evaluated {
            Evaluated::Constant { value: Constant::Null, .. } => Some(0),
            Evaluated::Value(seen) => match &seen.content {
                Content::Null => Some(0),
                Content::Pointer(address) => Some(*address),
                Content::Object(_) | Content::Array(_) if !seen.of.is_value_type() => seen.object_address(),
                _ => None,
            },
            _ => None,
        };
        let is_text = |evaluated: &Evaluated| match evaluated {
            Evaluated::Value(seen) => matches!(seen.content, Content::String(_)),
            other => matches!(self.constant(other), Ok(Constant::String(_))),
        };
        match (address(left), address(right)) {
            (Some(left), Some(right)) => Some(left == right),
            // A text or a struct is there, so it is not null.
            (Some(0), None) if is_text(right) || is_boxed(right) => Some(false),
            (None, Some(0)) if is_text(left) || is_boxed(left) => Some(false),
            _ => None,
        }
    }

    pub(super) fn cast(&mut self, to: &TypeName, operand: &Node) -> Result<Evaluated> {
        let wanted = self.type_named(to)?;
        let evaluated = match self.node(operand)? {
            evaluated if nullable_of(&wanted).is_some() => evaluated,
            evaluated => match self.nullable(&evaluated) {
                None => evaluated,
                Some((_, Some(inside))) => inside,
                Some((_, None)) if wanted.is_value_type() => {
                    return Err(EvaluationError::NullIsNo { to: wanted.display() });
                }
                Some((_, None)) => return Ok(Evaluated::null_as(wanted)),
            },
        };
        let target = nullable_of(&wanted).unwrap_or(&wanted);
        let is_builtin = target.is_enum() || primitive_of(target).is_some_and(|of| of != Primitive::String);
        if self.constant(&evaluated).is_err() || !is_builtin {
            let is_one =
                matches!(&evaluated, Evaluated::Value(seen) if seen.is_null() || self.is_a(seen, &wanted));
            if !is_one && let Some(converted) = self.defined_cast(&evaluated, target)? {
                let is_nullable = nullable_of(&wanted).is_some();
                return if is_nullable { self.converted(converted, &wanted) } else { Ok(converted) };
            }
        }
        if wanted.is_value_type() {
            self.check_unboxed(&evaluated, &wanted)?;
            if nullable_of(&wanted).is_none() && !self.has_value(&evaluated) {
                return Err(EvaluationError::NullIsNo { to: wanted.display() });
            }
        }
        if let Some(primitive) = primitive_of(&wanted) {
            if let (Evaluated::Value(seen), Primitive::String) = (&evaluated, primitive)
                && seen.long_string().is_some()
            {
                return Ok(Evaluated::Value(Seen { as_type: Some(wanted), ..seen.clone() }));
            }
            let is_literal = matches!(evaluated, Evaluated::Constant { is_literal: true, .. });
            let value = self.cast_constant(&self.constant(&evaluated)?, primitive)?;
            let declared = (value == Constant::Null).then_some(wanted);
            return Ok(Evaluated::Constant { value, is_literal, declared });
        }
        if let Some(inner) = nullable_of(&wanted) {
            return self.cast_nullable(evaluated, inner, &wanted);
        }
        if let Evaluated::Value(seen) = &evaluated
            && !seen.is_null()
            && self.is_a(seen, &wanted)
        {
            let constant = self.constant_of(seen).ok().filter(|_| self.is_value(&evaluated));
            if let Some(value) = constant.filter(|_| !wanted.is_value_type() && !seen.of.is_enum()) {
                return Ok(Evaluated::Constant { value, is_literal: false, declared: Some(wanted) });
            }
            return Ok(Evaluated::Value(Seen { as_type: Some(wanted), ..seen.clone() }));
        }
        if evaluated.is_null() {
            return Ok(Evaluated::null_as(wanted));
        }
        if wanted.is_enum() {
            return self.enum_value(&wanted, &evaluated);
        }
        if !wanted.is_value_type() && self.value_converts(&evaluated, &wanted) {
            return self.converted(evaluated, &wanted);
        }
        let from = self.type_text(&evaluated);
        Err(EvaluationError::BadCast { from, to: wanted.display() })
    }

    /// `(T?)value`.
    fn cast_nullable(&self, evaluated: Evaluated, inner: &TypeInfo, wanted: &TypeInfo) -> Result<Evaluated> {
        if !self.has_value(&evaluated) {
            return Ok(Evaluated::null_as(wanted.clone()));
        }
        if let Some(primitive) = primitive_of(inner) {
            let value = self.cast_constant(&self.constant(&evaluated)?, primitive)?;
            let declared = Some(wanted.clone());
            return Ok(Evaluated::Constant { value, is_literal: false, declared });
        }
        if inner.is_enum() {
            return self.converted(self.enum_value(inner, &evaluated)?, wanted);
        }
        match self.own_type(&evaluated) {
            Some(own) if is_same_type(&own, inner) => self.converted(evaluated, wanted),
            _ => Err(EvaluationError::BadCast { from: self.type_text(&evaluated), to: wanted.display() }),
        }
    }

    fn cast_constant(&self, value: &Constant, to: Primitive) -> Result<Constant> {
        if value.is_beyond(to) && !self.session.makes_numbers_fit() {
            return Err(EvaluationError::Beyond { value: value.display(), to: to.keyword() });
        }
        Ok(value.cast(to)?)
    }

    /// A number as a value of an enum.
    pub(super) fn enum_value(&self, wanted: &TypeInfo, evaluated: &Evaluated) -> Result<Evaluated> {
        let constant = self.constant(evaluated)?;
        let bad = || EvaluationError::BadCast { from: constant.type_name().to_owned(), to: wanted.display() };
        constant.primitive().filter(|of| of.is_number()).ok_or_else(bad)?;
        let value = self.cast_constant(&constant, enum_primitive(wanted).ok_or_else(bad)?)?;
        Ok(Evaluated::Enum { of: wanted.clone(), value, declared: None })
    }

    /// The enum that a value belongs to.
    pub(super) fn enum_of(evaluated: &Evaluated) -> Option<&TypeInfo> {
        match evaluated {
            Evaluated::Enum { of, .. } => Some(of),
            Evaluated::Value(seen) => {
                Some(nullable_of(&seen.of).unwrap_or(&seen.of)).filter(|of| of.is_enum())
            }
            _ => None,
        }
    }

    /// What an operator makes of enums: two of different enums have none, flags stay of their enum.
    fn of_enums(
        &self,
        operator: Binary,
        left: &Evaluated,
        right: &Evaluated,
        value: Constant,
    ) -> Result<Evaluated> {
        let is_bits = matches!(operator, Binary::BitAnd | Binary::BitOr | Binary::BitXor);
        let is_sum = matches!(operator, Binary::Add | Binary::Subtract);
        let of = match (Self::enum_of(left), Self::enum_of(right)) {
            (Some(one), Some(other)) if is_same_type(one, other) && operator == Binary::Subtract => {
                let number = enum_primitive(one).unwrap_or(Primitive::Int);
                return Ok(Evaluated::computed(value.cast(number)?));
            }
            (Some(one), Some(other)) => Some(one).filter(|_| is_bits && is_same_type(one, other)),
            (Some(one), None) => Some(one).filter(|_| is_sum || is_bits && is_zero(right)),
            (None, Some(other)) => Some(other).filter(|_| is_sum || is_bits && is_zero(left)),
            (None, None) => None,
        };
        match of {
            Some(of) if value.whole().is_some() => self.enum_value(of, &Evaluated::computed(value)),
            _ => Ok(Evaluated::computed(value)),
        }
    }

    pub(super) fn as_type(&mut self, operand: &Node, to: &TypeName) -> Result<Evaluated> {
        let evaluated = self.node(operand)?;
        let wanted = self.type_named(to)?;
        let inner = nullable_of(&wanted).unwrap_or(&wanted);
        let fits = self.own_type(&evaluated).is_some_and(|own| self.is_one(&own, inner));
        Ok(match evaluated {
            evaluated if fits && nullable_of(&wanted).is_some() => self.converted(evaluated, &wanted)?,
            Evaluated::Value(seen) if fits => Evaluated::Value(Seen { as_type: Some(wanted), ..seen }),
            evaluated if fits => self.converted(evaluated, &wanted)?,
            _ => Evaluated::null_as(wanted),
        })
    }

    pub(super) fn matches(&mut self, value: &Node, pattern: &Pattern) -> Result<bool> {
        let evaluated = self.node(value)?;
        match pattern {
            Pattern::Null => Ok(!self.has_value(&evaluated)),
            Pattern::Constant(constant) => {
                let constant = self.node(constant)?;
                let types = (self.own_type(&evaluated), self.own_type(&constant));
                // In a box, a `long` is no `int`, whatever the numbers are.
                if is_boxed(&evaluated)
                    && let (Some(one), Some(other)) = types
                    && !is_same_type(&one, &other)
                {
                    return Ok(false);
                }
                let equal = self.binary_of(Binary::Equal, &evaluated, &constant)?;
                Ok(self.constant(&equal)? == Constant::Bool(true))
            }
            Pattern::Type(of) => {
                let wanted = self.type_named(of)?;
                let wanted = nullable_of(&wanted).unwrap_or(&wanted);
                Ok(self.own_type(&evaluated).is_some_and(|own| self.is_one(&own, wanted)))
            }
        }
    }

    /// Whether a value is of a type: its own, one that it derives from, or an interface.
    pub(super) fn is_a(&self, seen: &Seen, wanted: &TypeInfo) -> bool {
        self.is_one(&seen.of, wanted)
    }

    pub(super) fn type_text(&self, evaluated: &Evaluated) -> String {
        match evaluated {
            Evaluated::Constant { value, .. } => value.type_name().to_owned(),
            Evaluated::Enum { of, .. } => of.display(),
            Evaluated::Value(seen) => seen.of.display(),
            Evaluated::Type(of) => of.display(),
            Evaluated::Namespace(name) => name.clone(),
            Evaluated::Nothing => "void".to_owned(),
        }
    }

    pub(super) fn size_of(&mut self, of: &TypeName) -> Result<Evaluated> {
        let size = primitive_named(of).and_then(Primitive::size);
        let size = size.and_then(|size| i32::try_from(size).ok());
        size.map(|size| Evaluated::computed(Constant::Int(size)))
            .ok_or(EvaluationError::NotSupported { what: "`sizeof` of anything but a built-in type" })
    }

    pub(super) fn default_of(&mut self, of: Option<&TypeName>) -> Result<Evaluated> {
        let Some(of) = of else {
            return Err(EvaluationError::NotSupported { what: "`default` without a type" });
        };
        let name = of;
        let of = self.type_named(name)?;
        if !of.is_value_type() || nullable_of(&of).is_some() {
            return Ok(Evaluated::null_as(of));
        }
        if primitive_of(&of).is_none() && !of.is_enum() && self.calls_until.is_none() {
            return Err(EvaluationError::NeedsCall { name: format!("default({name})") });
        }
        match (self.default_value(&of)?, primitive_of(&of)) {
            // A constant in C#, as the literal is.
            (Evaluated::Constant { value, .. }, Some(_)) => {
                Ok(Evaluated::Constant { value, is_literal: true, declared: None })
            }
            (evaluated, _) => Ok(evaluated),
        }
    }
}

/// The built-in type that a name means.
fn primitive_named(of: &TypeName) -> Option<Primitive> {
    match &of.kind {
        TypeKind::Primitive(primitive) => Some(*primitive),
        TypeKind::Named { path, .. } => {
            let names: Vec<&str> = path.iter().map(|part| part.name.text.as_str()).collect();
            match names.as_slice() {
                ["System", name] => Primitive::of_class(&format!("System.{name}")),
                _ => None,
            }
        }
        _ => None,
    }
}

fn operand<'c>(evaluated: &Evaluated, value: &'c Constant) -> Operand<'c> {
    match evaluated {
        Evaluated::Constant { is_literal: true, .. } => Operand::constant(value),
        _ => Operand::variable(value),
    }
}

fn is_zero(evaluated: &Evaluated) -> bool {
    matches!(evaluated, Evaluated::Constant { value: Constant::Int(0), is_literal: true, .. })
}

fn is_comparison(operator: Binary) -> bool {
    use Binary::{Equal, Greater, GreaterOrEqual, Less, LessOrEqual, NotEqual};
    matches!(operator, Equal | NotEqual | Less | Greater | LessOrEqual | GreaterOrEqual)
}
