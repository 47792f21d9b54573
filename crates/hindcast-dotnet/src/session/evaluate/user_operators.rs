//! Operators that a type of the program defines. They are its code, and run only where the caller allows it.

use std::rc::Rc;

use super::{Evaluated, EvaluationError, Evaluator, Result, calls::Callee, short_enough};
use crate::{
    expression::{Binary, Constant, Node, Unary},
    image::Token,
    modules::LoadedModule,
    values::{Content, Seen, TypeInfo},
};

impl Evaluator<'_> {
    pub(super) fn unary(&mut self, operator: Unary, operand: &Node) -> Result<Evaluated> {
        let operand = self.operand(operand)?;
        let method = match operator {
            Unary::Plus => "op_UnaryPlus",
            Unary::Negate => "op_UnaryNegation",
            Unary::Not => "op_LogicalNot",
            Unary::Complement => "op_OnesComplement",
        };
        let operands = [operand];
        match self.user_operator(method, operator.symbol(), &operands)? {
            Some(evaluated) => Ok(evaluated),
            None => self.unary_of(operator, &operands[0]),
        }
    }

    pub(super) fn binary(&mut self, operator: Binary, left: &Node, right: &Node) -> Result<Evaluated> {
        let left = self.operand(left)?;
        let right = self.operand(right)?;
        let operands = [self.fresh(&left)?, right];
        let [left, right] = &operands;
        let is_equality = matches!(operator, Binary::Equal | Binary::NotEqual);
        if is_equality && let Some(same) = self.same_declared_reference(left, right)? {
            return Ok(Evaluated::computed(Constant::Bool(same == (operator == Binary::Equal))));
        }
        if is_equality && let Some(same) = same_long_text(left, right) {
            return Ok(Evaluated::computed(Constant::Bool(same == (operator == Binary::Equal))));
        }
        // Whether something is null does not depend on what its type calls equal.
        let compares_null = is_equality && (left.is_null() || right.is_null());
        let joins_text = operator == Binary::Add && (self.is_text(left) || self.is_text(right));
        if !compares_null
            && !joins_text
            && let Some(evaluated) = self.user_operator(method_of(operator), operator.symbol(), &operands)?
        {
            return Ok(evaluated);
        }
        self.binary_of(operator, left, right)
    }

    /// Whether two values are the same object, where one is a text or a box that is declared as an `object` or an
    /// interface: what such declarations compare are references. None where values are compared.
    fn same_declared_reference(&self, left: &Evaluated, right: &Evaluated) -> Result<Option<bool>> {
        match (left, right) {
            _ if !is_boxed(left) && !is_boxed(right) => Ok(None),
            // What is put into a new box is nothing else. Texts are shared.
            (Evaluated::Constant { value, .. }, other) | (other, Evaluated::Constant { value, .. })
                if !matches!(value, Constant::String(_))
                    && (is_boxed(left) && is_boxed(right) || other.is_null()) =>
            {
                Ok(Some(false))
            }
            (Evaluated::Value(one), Evaluated::Value(other)) if !one.is_null() && !other.is_null() => {
                match (one.object_address(), other.object_address()) {
                    (Some(one), Some(other)) => Ok(Some(one == other)),
                    // A number that is compared with one in a box.
                    _ => Ok(None),
                }
            }
            (Evaluated::Constant { value: Constant::String(_), .. }, _)
            | (_, Evaluated::Constant { value: Constant::String(_), .. }) => {
                Err(EvaluationError::NotSupported {
                    what: "comparing the reference in an `object` with a text (`(string)` before it compares texts)",
                })
            }
            _ => Ok(None),
        }
    }

    /// A value that stays good while the other operand is computed.
    fn operand(&mut self, node: &Node) -> Result<Evaluated> {
        let evaluated = self.receiver(node)?;
        match self.calls_until {
            None => Ok(evaluated),
            Some(_) if is_boxed(&evaluated) => self.held(evaluated),
            Some(_) => self.argument_of(evaluated),
        }
    }

    /// What the operands' types make of them; none where they define no such operator.
    fn user_operator(
        &mut self,
        method: &str,
        symbol: &'static str,
        operands: &[Evaluated],
    ) -> Result<Option<Evaluated>> {
        if self.calls_until.is_none() {
            operands.iter().try_for_each(too_long)?;
        }
        let types: Vec<TypeInfo> = operands
            .iter()
            .filter(|operand| self.constant(operand).is_err())
            .filter_map(|operand| match operand {
                Evaluated::Value(seen) => Some(self.static_type(seen)),
                _ => None,
            })
            .collect();
        let candidates: Vec<_> = types.iter().flat_map(|of| self.methods(of, method)).collect();
        let candidates = once_each(candidates);
        let Some(of) = types.first().filter(|_| !candidates.is_empty()) else { return Ok(None) };
        if self.calls_until.is_none() {
            return Err(EvaluationError::NeedsOperator { operator: symbol, of: of.display() });
        }
        let callee = self.best(candidates, symbol, operands, &[], true)?;
        self.run(&callee, None, operands).map(Some)
    }
}

/// Whether two texts are the same, where one is too long to be compared but need not be; none where values are compared.
fn same_long_text(left: &Evaluated, right: &Evaluated) -> Option<bool> {
    if too_long(left).is_ok() && too_long(right).is_ok() {
        return None;
    }
    let length = |evaluated: &Evaluated| match evaluated {
        Evaluated::Constant { value: Constant::String(text), .. } => u32::try_from(text.0.len()).ok(),
        Evaluated::Value(Seen { content: Content::String(text), .. }) => text.length().ok(),
        _ => None,
    };
    let address = |evaluated: &Evaluated| match evaluated {
        Evaluated::Value(seen) => seen.object_address(),
        _ => None,
    };
    let (one, other) = (address(left), address(right));
    match (length(left), length(right)) {
        (Some(left), Some(right)) if left != right => Some(false),
        (Some(_), Some(_)) if one.is_some() && one == other => Some(true),
        _ => None,
    }
}

/// Refuses a text that is too long to compute with.
fn too_long(evaluated: &Evaluated) -> Result<()> {
    match evaluated {
        Evaluated::Value(Seen { content: Content::String(text), .. }) => {
            short_enough(text.length()? as usize)
        }
        _ => Ok(()),
    }
}

/// Operands of one type have the same operators.
fn once_each(candidates: Vec<Callee>) -> Vec<Callee> {
    let mut known = Vec::new();
    candidates
        .into_iter()
        .filter(|callee| {
            let is_known = known.iter().any(|(module, token): &(Rc<LoadedModule>, Token)| {
                Rc::ptr_eq(module, &callee.module) && *token == callee.token
            });
            known.push((callee.module.clone(), callee.token));
            !is_known
        })
        .collect()
}

/// Whether it is a text, a number or a struct that is declared as an `object` or an interface.
pub(super) fn is_boxed(evaluated: &Evaluated) -> bool {
    let is_declared = |of: &TypeInfo| !of.is_value_type() && !of.is_named("System.String");
    let seen = match evaluated {
        Evaluated::Constant { value, declared: Some(of), .. } => {
            return *value != Constant::Null && is_declared(of);
        }
        Evaluated::Value(seen) => seen,
        _ => return false,
    };
    (matches!(seen.content, Content::String(_)) || seen.of.is_value_type() && !seen.is_null())
        && seen.as_type.as_ref().is_some_and(is_declared)
}

fn method_of(operator: Binary) -> &'static str {
    match operator {
        Binary::Multiply => "op_Multiply",
        Binary::Divide => "op_Division",
        Binary::Remainder => "op_Modulus",
        Binary::Add => "op_Addition",
        Binary::Subtract => "op_Subtraction",
        Binary::ShiftLeft => "op_LeftShift",
        Binary::ShiftRight => "op_RightShift",
        Binary::UnsignedShiftRight => "op_UnsignedRightShift",
        Binary::Less => "op_LessThan",
        Binary::Greater => "op_GreaterThan",
        Binary::LessOrEqual => "op_LessThanOrEqual",
        Binary::GreaterOrEqual => "op_GreaterThanOrEqual",
        Binary::Equal => "op_Equality",
        Binary::NotEqual => "op_Inequality",
        Binary::BitAnd => "op_BitwiseAnd",
        Binary::BitXor => "op_ExclusiveOr",
        Binary::BitOr => "op_BitwiseOr",
    }
}
