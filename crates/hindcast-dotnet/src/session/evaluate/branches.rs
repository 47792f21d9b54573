//! `?:`, `??` and `?.`: what is not evaluated still gives its type to the whole.

use super::{
    Evaluated, EvaluationError, Evaluator, Result,
    conversions::{is_same_type, nullable_of},
};
use crate::{
    expression::{Constant, Kind, Node},
    values::TypeInfo,
};

/// What a branch that is not taken contributes.
enum Branch {
    Of(TypeInfo),
    /// `null`, which is of no type.
    Null,
    /// Only running code would tell.
    Unknown,
}

impl Evaluator<'_> {
    pub(super) fn conditional(&mut self, condition: &Node, yes: &Node, no: &Node) -> Result<Evaluated> {
        let (taken, other) = if self.truth(condition)? { (yes, no) } else { (no, yes) };
        let value = self.node(taken)?;
        match self.branch(other) {
            Branch::Of(of) => self.as_common(value, &of),
            Branch::Null => Ok(value),
            Branch::Unknown => self.of_any_type(value),
        }
    }

    /// `a ?? b`, as the type that both have in common.
    pub(super) fn coalesced(&mut self, left: &Node, right: &Node) -> Result<Evaluated> {
        let left = self.node(left)?;
        let declared = self.static_of(&left);
        let inner = declared.as_ref().map(|of| nullable_of(of).unwrap_or(of));
        if !self.has_value(&left) {
            let right = self.node(right)?;
            return match inner {
                Some(of) if self.value_converts(&right, of) => self.converted(right, of),
                Some(_) => Ok(right),
                None => self.of_any_type(right),
            };
        }
        let Some(inner) = inner.filter(|of| of.is_value_type()) else { return Ok(left) };
        match self.branch(right) {
            Branch::Of(of) if self.type_converts(inner, &of) && !self.type_converts(&of, inner) => {
                self.converted(left, &of)
            }
            Branch::Of(_) | Branch::Null => Ok(left),
            Branch::Unknown => self.of_any_type(left),
        }
    }

    /// `receiver?.then`
    pub(super) fn when_not_null(&mut self, receiver: &Node, then: &Node) -> Result<Evaluated> {
        let receiver = self.node(receiver)?;
        let is_null = receiver.is_null();
        self.receivers.push(receiver);
        let evaluated = if is_null { Ok(self.null_of(then)) } else { self.node(then) };
        self.receivers.pop();
        evaluated
    }

    /// The null that an expression gives whose receiver is null.
    fn null_of(&mut self, then: &Node) -> Evaluated {
        let of = self.declared_by(then);
        let declared = of.and_then(|of| match of.is_value_type() && nullable_of(&of).is_none() {
            true => self.session.type_by_name("System.Nullable`1", &[of]),
            false => Some(of),
        });
        Evaluated::Constant { value: Constant::Null, is_literal: false, declared }
    }

    /// A value next to a branch of which the type is not known: numbers would become what that is.
    fn of_any_type(&self, value: Evaluated) -> Result<Evaluated> {
        let is_number =
            self.constant(&value).is_ok_and(|value| value.primitive().is_some_and(|of| of.is_number()));
        if is_number { Err(EvaluationError::UnknownBranch) } else { Ok(value) }
    }

    fn branch(&mut self, node: &Node) -> Branch {
        match self.without_effects(node) {
            Ok(evaluated) => self.static_of(&evaluated).map_or(Branch::Null, Branch::Of),
            Err(_) => self.declared_by(node).map_or(Branch::Unknown, Branch::Of),
        }
    }

    fn without_effects(&mut self, node: &Node) -> Result<Evaluated> {
        let before = (self.calls_until.take(), std::mem::replace(&mut self.may_write, false));
        let found = self.node(node);
        (self.calls_until, self.may_write) = before;
        found
    }

    /// The type that an expression has by what it is written of, where that is enough to know it.
    fn declared_by(&mut self, node: &Node) -> Option<TypeInfo> {
        match &node.kind {
            Kind::Cast(to, _) | Kind::As(_, to) | Kind::New { of: to, .. } => self.type_named(to).ok(),
            Kind::Member { of, name, .. } => {
                let of = self.type_before_dot(of)?;
                self.member_type(&of, &name.text)
            }
            Kind::Name { name, .. } => {
                let of = self.session.declaring_type(&self.frame)?;
                self.member_type(&of, &name.text)
            }
            Kind::Call { function, .. } => {
                let (of, name) = match &function.kind {
                    Kind::Member { of, name, .. } => (self.type_before_dot(of)?, name),
                    Kind::Name { name, .. } => (self.session.declaring_type(&self.frame)?, name),
                    _ => return None,
                };
                self.method_type(&of, &name.text)
            }
            Kind::Receiver => self.receivers.last().and_then(|receiver| self.static_of(receiver)),
            Kind::WhenNotNull { receiver, then } => {
                let receiver = self.without_effects(receiver).ok()?;
                self.receivers.push(receiver);
                let of = self.declared_by(then);
                self.receivers.pop();
                of
            }
            _ => None,
        }
    }

    /// The type of which a member is asked: of a value, or named itself.
    fn type_before_dot(&mut self, node: &Node) -> Option<TypeInfo> {
        match self.without_effects(node) {
            Ok(Evaluated::Type(of)) => Some(of),
            Ok(evaluated) => self.static_of(&evaluated),
            Err(_) => self.declared_by(node),
        }
    }

    /// The type of a field or a property.
    fn member_type(&self, of: &TypeInfo, name: &str) -> Option<TypeInfo> {
        if let Some(inner) = nullable_of(of).filter(|_| name == "Value") {
            return Some(inner.clone());
        }
        let of = self.with_definition(of)?;
        of.with_bases(&self.session.modules).iter().find_map(|of| {
            let definition = of.definition.as_ref()?;
            let type_def = definition.type_def()?;
            let signature = match type_def.fields().find(|field| field.name() == Some(name)) {
                Some(field) => field.signature().ok()?,
                None => type_def.property_named(name)?.signature().ok()?.returns,
            };
            self.session.type_of_signature(&definition.module, &signature, &of.arguments, &[])
        })
    }

    /// The type that all methods of a name return.
    fn method_type(&self, of: &TypeInfo, name: &str) -> Option<TypeInfo> {
        let mut returned = self.methods(of, name).into_iter().map(|method| self.returned(&method));
        let first = returned.next()??;
        returned.all(|of| of.is_some_and(|of| is_same_type(&of, &first))).then_some(first)
    }
}
