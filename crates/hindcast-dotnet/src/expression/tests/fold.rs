//! Expressions that have a value without a program.

use crate::expression::{
    Primitive,
    constant::Constant,
    convert::implicitly_converts,
    operation::{Operand, OperationError, binary, unary},
    syntax::{Binary, InterpolatedPart, Kind, Node, Pattern, Span, TypeKind, TypeName},
    text::Text,
};

/// Why an expression has no value without a program.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum FoldError {
    /// The part needs the program.
    NotConstant(Span),
    /// An operation on constants has no result.
    Operation(Span, OperationError),
}

/// The value of an expression of literals and operators.
pub(crate) fn fold(node: &Node) -> Result<Constant, FoldError> {
    let not_constant = Err(FoldError::NotConstant(node.span));
    let failed = |error| FoldError::Operation(node.span, error);
    match &node.kind {
        Kind::Constant(constant) => Ok(constant.clone()),
        Kind::NameOf(_, name) => Ok(Constant::String(Text::from(name.as_str()))),
        Kind::Unary(operator, operand) => unary(*operator, &fold(operand)?).map_err(failed),
        Kind::Binary(operator, left, right) => {
            let (left, right) = (fold(left)?, fold(right)?);
            binary(*operator, Operand::constant(&left), Operand::constant(&right)).map_err(failed)
        }
        Kind::And(left, right) => Ok(Constant::Bool(truth(left, "&&")? && truth(right, "&&")?)),
        Kind::Or(left, right) => Ok(Constant::Bool(truth(left, "||")? || truth(right, "||")?)),
        Kind::Coalesce(left, right) => match fold(left)? {
            Constant::Null => fold(right),
            value => Ok(value),
        },
        Kind::Conditional(condition, yes, no) => conditional(condition, yes, no, node.span),
        Kind::Cast(of, operand) => cast(of, fold(operand)?, node.span),
        Kind::SizeOf(TypeName { kind: TypeKind::Primitive(primitive), .. }) => match primitive.size() {
            Some(size) => Ok(Constant::wrapped(size as i128, Primitive::Int)),
            None => not_constant,
        },
        Kind::Default(Some(TypeName { kind: TypeKind::Primitive(primitive), .. })) => {
            Ok(primitive.default_value())
        }
        Kind::Is { value, negated, pattern: Pattern::Null } => {
            Ok(Constant::Bool((fold(value)? == Constant::Null) != *negated))
        }
        Kind::Interpolated(parts) => interpolated(parts, node.span),
        _ => not_constant,
    }
}

fn truth(node: &Node, operator: &'static str) -> Result<bool, FoldError> {
    match fold(node)? {
        Constant::Bool(value) => Ok(value),
        other => {
            let error = OperationError::NoUnary { operator, operand: other.type_name() };
            Err(FoldError::Operation(node.span, error))
        }
    }
}

/// Both sides get the type that one of them converts to.
fn conditional(condition: &Node, yes: &Node, no: &Node, span: Span) -> Result<Constant, FoldError> {
    let is_true = truth(condition, "?:")?;
    let (yes, no) = (fold(yes)?, fold(no)?);
    let (Some(one), Some(other)) = (yes.primitive(), no.primitive()) else {
        return Ok(if is_true { yes } else { no });
    };
    let failed = |error| FoldError::Operation(span, error);
    let (to_other, to_one) = (yes.converts_as_constant(other), no.converts_as_constant(one));
    let to = match (to_other, to_one) {
        // Both are constants that fit the other's type: the wider one is taken.
        (true, true) if implicitly_converts(other, one).is_some() => one,
        (true, _) => other,
        (false, true) => one,
        (false, false) => {
            let error = OperationError::NoConversion { from: one.keyword(), to: other.keyword() };
            return Err(failed(error));
        }
    };
    (if is_true { yes } else { no }).cast(to).map_err(failed)
}

fn cast(of: &TypeName, value: Constant, span: Span) -> Result<Constant, FoldError> {
    match &of.kind {
        TypeKind::Primitive(primitive) => {
            value.cast(*primitive).map_err(|error| FoldError::Operation(span, error))
        }
        TypeKind::Nullable(of) if value == Constant::Null => match of.kind {
            TypeKind::Primitive(_) => Ok(Constant::Null),
            _ => Err(FoldError::NotConstant(span)),
        },
        TypeKind::Nullable(of) => cast(of, value, span),
        _ => Err(FoldError::NotConstant(span)),
    }
}

fn interpolated(parts: &[InterpolatedPart], span: Span) -> Result<Constant, FoldError> {
    let mut out = Constant::String(Text::default());
    for part in parts {
        let value = match part {
            InterpolatedPart::Text(text) => Constant::String(text.clone()),
            InterpolatedPart::Value { value, alignment: None, format: None } => fold(value)?,
            InterpolatedPart::Value { .. } => return Err(FoldError::NotConstant(span)),
        };
        let sum = binary(Binary::Add, Operand::constant(&out), Operand::constant(&value));
        out = sum.map_err(|error| FoldError::Operation(span, error))?;
    }
    Ok(out)
}
