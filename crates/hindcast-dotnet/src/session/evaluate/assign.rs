//! Assignments.

use super::{Evaluated, EvaluationError, Evaluator, Result};
use crate::{
    cor::{GenericValue, ReferenceValue},
    expression::{Assignment, Constant, Node, Primitive},
    values::{Content, Seen},
};

impl Evaluator<'_> {
    pub(super) fn assign(&mut self, operator: Assignment, target: &Node, value: &Node) -> Result<Evaluated> {
        if !self.may_write {
            return Err(EvaluationError::MayNotWrite);
        }
        let before = self.node(target)?;
        let Evaluated::Value(place) = &before else {
            return Err(EvaluationError::NotAPlace { what: self.type_text(&before) });
        };
        let new = match operator {
            Assignment::IfNull if self.has_value(&before) => return Ok(before),
            Assignment::Plain | Assignment::IfNull => self.node(value)?,
            Assignment::With(operator) => {
                let right = self.node(value)?;
                self.binary_of(operator, &before, &right)?
            }
        };
        // Running code for the new value has moved the place.
        let place = match self.calls_until {
            Some(_) => match self.node(target)? {
                Evaluated::Value(place) => place,
                _ => place.clone(),
            },
            None => place.clone(),
        };
        self.store(&place, &new)?;
        self.session.stacks.forget();
        self.frame = self.session.frame_at(self.at).map_err(EvaluationError::Session)?;
        self.node(target)
    }

    fn store(&mut self, place: &Seen, new: &Evaluated) -> Result<()> {
        let not_assignable = |evaluator: &Self| EvaluationError::NotAssignable {
            from: evaluator.type_text(new),
            to: place.of.display(),
        };
        if let Some(reference) = place.value.cast::<ReferenceValue>() {
            let address = match new {
                _ if new.is_null() => 0,
                Evaluated::Value(seen) if self.is_a(seen, &place.of) || place.is_null() => {
                    seen.object_address().ok_or_else(|| not_assignable(self))?
                }
                Evaluated::Constant { value: Constant::String(text), .. } => self.new_string(&text.to_string())?,
                _ => return Err(not_assignable(self)),
            };
            // A new string has moved everything else; the place was found again by whoever asked.
            return Ok(reference.set_value(address)?);
        }
        let generic: crate::cor::Com<GenericValue> =
            place.value.cast().ok_or_else(|| not_assignable(self))?;
        let bytes = match (&place.content, new) {
            (Content::Primitive(..), _) => {
                let primitive = place.of.primitive().and_then(|of| Primitive::of_class(of.full_name()));
                let primitive = primitive.ok_or_else(|| not_assignable(self))?;
                let value = self.constant(new)?;
                let is_same_kind = value.primitive() == Some(primitive)
                    || value.primitive().is_some_and(|of| of.is_number()) && primitive.is_number();
                if !is_same_kind {
                    return Err(not_assignable(self));
                }
                value.cast(primitive)?.to_bytes()
            }
            (Content::Object(_), Evaluated::Value(seen)) if seen.of.display() == place.of.display() => seen.bytes(),
            (Content::Object(_), _) if place.of.is_enum() => {
                let size = generic.size()? as usize;
                let number = self.constant(new)?.whole().ok_or_else(|| not_assignable(self))?;
                Some(number.to_le_bytes()[..size].to_vec())
            }
            _ => None,
        };
        Ok(generic.set_bytes(&bytes.ok_or_else(|| not_assignable(self))?)?)
    }
}
