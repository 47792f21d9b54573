//! Operators on the values of the built-in types.
//!
//! Arithmetic on whole numbers wraps around, as C# does unless told otherwise. Null stands for a `T?` without
//! a value where an operator has a number on its other side, and makes the result null.

use std::cmp::Ordering;

use hindcast_core::debug::Remedy;

use super::{
    constant::{Constant, Primitive},
    convert::implicitly_converts,
    decimal::Decimal,
    syntax::{Binary, Unary},
    text::Text,
};

/// Why an operator has no result.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(crate) enum OperationError {
    #[error("division by zero")]
    DivisionByZero,
    #[error("the result does not fit `{type_name}`")]
    Overflow { type_name: &'static str },
    #[error("the operator `{operator}` has no meaning for `{left}` and `{right}`")]
    NoBinary { operator: &'static str, left: &'static str, right: &'static str },
    #[error("the operator `{operator}` is ambiguous for `{left}` and `{right}`")]
    Ambiguous { operator: &'static str, left: &'static str, right: &'static str },
    #[error("the operator `{operator}` has no meaning for `{operand}`")]
    NoUnary { operator: &'static str, operand: &'static str },
    #[error("`{from}` does not convert to `{to}`")]
    NoConversion { from: &'static str, to: &'static str },
}

impl OperationError {
    /// What to write instead, where that is known.
    pub(crate) fn remedy(&self) -> Option<Remedy> {
        matches!(self, Self::Ambiguous { .. }).then(|| Remedy::advice("cast one of them"))
    }
}

/// A value on one side of an operator.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Operand<'c> {
    pub(crate) value: &'c Constant,
    /// Whether a constant expression gave it. Only then `1` may be taken as a `uint` beside one.
    pub(crate) is_constant: bool,
}

impl<'c> Operand<'c> {
    /// What a literal or an expression of literals gave.
    pub(crate) fn constant(value: &'c Constant) -> Self {
        Self { value, is_constant: true }
    }

    /// What a variable, a property or a call gave.
    pub(crate) fn variable(value: &'c Constant) -> Self {
        Self { value, is_constant: false }
    }

    fn converts(self, to: Primitive) -> bool {
        match self.value.primitive() {
            // The other side tells the type.
            None => true,
            Some(_) if self.is_constant => self.value.converts_as_constant(to),
            Some(from) => implicitly_converts(from, to).is_some(),
        }
    }
}

/// What arithmetic is done in, the first that both sides convert to.
const ARITHMETIC: [Primitive; 9] = [
    Primitive::Int,
    Primitive::UInt,
    Primitive::NInt,
    Primitive::NUInt,
    Primitive::Long,
    Primitive::ULong,
    Primitive::Float,
    Primitive::Double,
    Primitive::Decimal,
];

/// The type that C# does arithmetic on two values in. `None` if it has none; an error if it has several.
fn promoted(left: Operand<'_>, right: Operand<'_>) -> Option<Result<Primitive, ()>> {
    let is_number = |operand: Operand<'_>| operand.value.primitive().is_none_or(Primitive::is_number);
    let is_null = |operand: Operand<'_>| *operand.value == Constant::Null;
    if !is_number(left) || !is_number(right) || is_null(left) && is_null(right) {
        return None;
    }
    let is_whole = |operand: Operand<'_>| operand.value.primitive().is_none_or(Primitive::is_whole);
    let chosen = ARITHMETIC.into_iter().find(|to| left.converts(*to) && right.converts(*to))?;
    // Whole numbers that have no type of their own in common would become a float or a decimal.
    let is_ambiguous = is_whole(left) && is_whole(right) && !chosen.is_whole();
    Some(if is_ambiguous { Err(()) } else { Ok(chosen) })
}

/// What a binary operator gives.
pub(crate) fn binary(
    operator: Binary,
    left: Operand<'_>,
    right: Operand<'_>,
) -> Result<Constant, OperationError> {
    let refused = || OperationError::NoBinary {
        operator: operator.symbol(),
        left: left.value.type_name(),
        right: right.value.type_name(),
    };
    match (operator, left.value, right.value) {
        (Binary::Add, Constant::String(_), _) | (Binary::Add, _, Constant::String(_)) => {
            let Text(mut units) = left.value.to_text();
            units.extend(right.value.to_text().0);
            Ok(Constant::String(Text(units)))
        }
        (Binary::Equal | Binary::NotEqual, ..) => {
            let equal =
                equal(left, right).ok_or_else(refused)?.map_err(|()| ambiguous(operator, left, right))?;
            Ok(Constant::Bool(equal == (operator == Binary::Equal)))
        }
        (Binary::ShiftLeft | Binary::ShiftRight | Binary::UnsignedShiftRight, ..) => {
            shift(operator, left, right).ok_or_else(refused)
        }
        (_, Constant::Bool(_) | Constant::Null, Constant::Bool(_))
        | (_, Constant::Bool(_), Constant::Null) => {
            logical(operator, left.value, right.value).ok_or_else(refused)
        }
        _ => {
            let chosen = promoted(left, right).ok_or_else(refused)?;
            let chosen = chosen.map_err(|()| ambiguous(operator, left, right))?;
            if matches!((left.value, right.value), (Constant::Null, _) | (_, Constant::Null)) {
                return lifted(operator, chosen).ok_or_else(refused);
            }
            let (left, right) = (left.value.cast(chosen)?, right.value.cast(chosen)?);
            compute(operator, &left, &right, chosen)?.ok_or_else(refused)
        }
    }
}

fn ambiguous(operator: Binary, left: Operand<'_>, right: Operand<'_>) -> OperationError {
    let (left, right) = (left.value.type_name(), right.value.type_name());
    OperationError::Ambiguous { operator: operator.symbol(), left, right }
}

/// The result with a side that has no value.
fn lifted(operator: Binary, chosen: Primitive) -> Option<Constant> {
    match operator {
        Binary::Less | Binary::Greater | Binary::LessOrEqual | Binary::GreaterOrEqual => {
            Some(Constant::Bool(false))
        }
        Binary::BitAnd | Binary::BitOr | Binary::BitXor if !chosen.is_whole() => None,
        _ => Some(Constant::Null),
    }
}

/// Whether two values are equal; the inner error says that no type in common is the best.
fn equal(left: Operand<'_>, right: Operand<'_>) -> Option<Result<bool, ()>> {
    match (left.value, right.value) {
        (Constant::Null, Constant::Null) => Some(Ok(true)),
        (Constant::Null, _) | (_, Constant::Null) => Some(Ok(false)),
        (Constant::Bool(one), Constant::Bool(other)) => Some(Ok(one == other)),
        (Constant::String(one), Constant::String(other)) => Some(Ok(one == other)),
        (one, other) => {
            let chosen = match promoted(left, right)? {
                Ok(chosen) => chosen,
                Err(()) => return Some(Err(())),
            };
            Some(Ok(one.cast(chosen).ok()? == other.cast(chosen).ok()?))
        }
    }
}

/// The operators of `bool` and `bool?`.
fn logical(operator: Binary, left: &Constant, right: &Constant) -> Option<Constant> {
    let truth = |value: &Constant| match value {
        Constant::Bool(value) => Some(*value),
        _ => None,
    };
    let (left, right) = (truth(left), truth(right));
    let result = match operator {
        Binary::BitAnd if left == Some(false) || right == Some(false) => Some(false),
        Binary::BitOr if left == Some(true) || right == Some(true) => Some(true),
        Binary::BitAnd => left.zip(right).map(|(left, right)| left & right),
        Binary::BitOr => left.zip(right).map(|(left, right)| left | right),
        Binary::BitXor => left.zip(right).map(|(left, right)| left ^ right),
        _ => return None,
    };
    Some(result.map_or(Constant::Null, Constant::Bool))
}

/// The left side alone tells the type; only as many bits of the right side count as the type can be shifted.
fn shift(operator: Binary, left: Operand<'_>, right: Operand<'_>) -> Option<Constant> {
    let shifted = [
        Primitive::Int,
        Primitive::UInt,
        Primitive::NInt,
        Primitive::NUInt,
        Primitive::Long,
        Primitive::ULong,
    ];
    let chosen = match left.value.primitive() {
        None => return None,
        Some(from) => shifted.into_iter().find(|to| implicitly_converts(from, *to).is_some())?,
    };
    if *right.value == Constant::Null {
        return Some(Constant::Null);
    }
    if !right.converts(Primitive::Int) {
        return None;
    }
    let bits = chosen.size()? as u32 * 8;
    let count = right.value.whole()? as u32 & (bits - 1);
    let value = left.value.whole()?;
    let result = match operator {
        Binary::ShiftLeft => value << count,
        Binary::UnsignedShiftRight => (value & ((1 << bits) - 1)) >> count,
        _ => value >> count,
    };
    Some(Constant::wrapped(result, chosen))
}

/// The result for two values of the type; `None` inside if the operator has no meaning for it.
fn compute(
    operator: Binary,
    left: &Constant,
    right: &Constant,
    chosen: Primitive,
) -> Result<Option<Constant>, OperationError> {
    Ok(match (left, right) {
        (Constant::Float(left), Constant::Float(right)) => {
            let in_double = real(operator, f64::from(*left), f64::from(*right));
            // A double has more than twice the digits: rounding twice gives what rounding once does.
            in_double.map(|result| match result {
                Constant::Double(value) => Constant::Float(value as f32),
                other => other,
            })
        }
        (Constant::Double(left), Constant::Double(right)) => real(operator, *left, *right),
        (Constant::Decimal(left), Constant::Decimal(right)) => decimal(operator, *left, *right)?,
        _ => match left.whole().zip(right.whole()) {
            Some((left, right)) => whole(operator, left, right, chosen)?,
            None => None,
        },
    })
}

fn compared(operator: Binary, order: Option<Ordering>) -> Option<Constant> {
    let is_true = match operator {
        Binary::Less => order.is_some_and(Ordering::is_lt),
        Binary::Greater => order.is_some_and(Ordering::is_gt),
        Binary::LessOrEqual => order.is_some_and(Ordering::is_le),
        Binary::GreaterOrEqual => order.is_some_and(Ordering::is_ge),
        _ => return None,
    };
    Some(Constant::Bool(is_true))
}

fn real(operator: Binary, left: f64, right: f64) -> Option<Constant> {
    Some(Constant::Double(match operator {
        Binary::Add => left + right,
        Binary::Subtract => left - right,
        Binary::Multiply => left * right,
        Binary::Divide => left / right,
        Binary::Remainder => left % right,
        _ => return compared(operator, left.partial_cmp(&right)),
    }))
}

fn decimal(operator: Binary, left: Decimal, right: Decimal) -> Result<Option<Constant>, OperationError> {
    let divides = matches!(operator, Binary::Divide | Binary::Remainder);
    if divides && !right.is_divisor() {
        return Err(OperationError::DivisionByZero);
    }
    let result = match operator {
        Binary::Add => left.plus(right),
        Binary::Subtract => left.minus(right),
        Binary::Multiply => left.times(right),
        Binary::Divide => left.divided_by(right),
        Binary::Remainder => left.remainder(right),
        _ => return Ok(compared(operator, Some(left.cmp(&right)))),
    };
    let overflow = OperationError::Overflow { type_name: Primitive::Decimal.keyword() };
    result.map(|value| Some(Constant::Decimal(value))).ok_or(overflow)
}

fn whole(
    operator: Binary,
    left: i128,
    right: i128,
    chosen: Primitive,
) -> Result<Option<Constant>, OperationError> {
    let divides = matches!(operator, Binary::Divide | Binary::Remainder);
    if divides && right == 0 {
        return Err(OperationError::DivisionByZero);
    }
    // The least number divided by -1 has no result; the processor refuses also the remainder.
    if divides && right == -1 && chosen.range().is_some_and(|(least, _)| left == least) {
        return Err(OperationError::Overflow { type_name: chosen.keyword() });
    }
    let result = match operator {
        Binary::Add => left + right,
        Binary::Subtract => left - right,
        // Of two numbers of 64 bits the product has 128, of which the low ones stay the same.
        Binary::Multiply => left.wrapping_mul(right),
        Binary::Divide => left / right,
        Binary::Remainder => left % right,
        Binary::BitAnd => left & right,
        Binary::BitOr => left | right,
        Binary::BitXor => left ^ right,
        _ => return Ok(compared(operator, Some(left.cmp(&right)))),
    };
    Ok(Some(Constant::wrapped(result, chosen)))
}

/// What a unary operator gives.
pub(crate) fn unary(operator: Unary, value: &Constant) -> Result<Constant, OperationError> {
    let refused = || OperationError::NoUnary { operator: operator.symbol(), operand: value.type_name() };
    if let (Unary::Not, Constant::Bool(value)) = (operator, value) {
        return Ok(Constant::Bool(!value));
    }
    let from = match value.primitive() {
        None => return Ok(Constant::Null),
        Some(from) if from.is_number() && operator != Unary::Not => from,
        Some(_) => return Err(refused()),
    };
    let is_candidate = |to: &Primitive| match operator {
        Unary::Complement => to.is_whole(),
        Unary::Negate => !matches!(to, Primitive::UInt | Primitive::ULong | Primitive::NUInt),
        _ => true,
    };
    let chosen =
        ARITHMETIC.into_iter().filter(is_candidate).find(|to| implicitly_converts(from, *to).is_some());
    // `-x` of an `ulong` would be a float or a decimal.
    let chosen = chosen.filter(|to| to.is_whole() == from.is_whole()).ok_or_else(refused)?;
    let value = value.cast(chosen)?;
    Ok(match (operator, &value) {
        (Unary::Plus | Unary::Not, _) => value,
        (Unary::Negate, Constant::Float(value)) => Constant::Float(-value),
        (Unary::Negate, Constant::Double(value)) => Constant::Double(-value),
        (Unary::Negate, Constant::Decimal(value)) => Constant::Decimal(value.negated()),
        (Unary::Negate, value) => Constant::wrapped(-value.whole().ok_or_else(refused)?, chosen),
        (Unary::Complement, value) => Constant::wrapped(!value.whole().ok_or_else(refused)?, chosen),
    })
}
