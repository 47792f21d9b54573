//! Assignments.

use super::{Evaluated, EvaluationError, Evaluator, Result, binding::Bound};
use crate::{
    cor::{BoxValue, Com, GenericValue, ReferenceValue},
    expression::{Assignment, Constant, Kind, Node, Primitive, implicitly_converts},
    image::Token,
    values::{Content, Returned, Seen, TypeInfo, returned_by, stored_by},
};

/// What is assigned to.
enum Assignee {
    Place(Seen),
    /// A property whose setter must run.
    Setter {
        receiver: Seen,
        of: TypeInfo,
        token: Token,
        name: String,
    },
}

impl Evaluator<'_> {
    pub(super) fn assign(&mut self, operator: Assignment, target: &Node, value: &Node) -> Result<Evaluated> {
        if !self.may_write {
            return Err(EvaluationError::MayNotWrite);
        }
        let new = match operator {
            Assignment::Plain => {
                // The value first: running code for it moves the place.
                let new = self.node(value)?;
                let new = self.in_program(new)?;
                let target = self.assignee(target)?;
                self.give(target, &new)?;
                new
            }
            Assignment::IfNull => {
                let before = self.target(target)?;
                if self.has_value(&before) {
                    return Ok(before);
                }
                let new = self.node(value)?;
                let new = self.in_program(new)?;
                let assignee = self.assignee_again(target, before)?;
                self.give(assignee, &new)?;
                new
            }
            Assignment::With(operator) => {
                let right = self.node(value)?;
                let right = self.kept(right)?;
                let before = self.target(target)?;
                let place = self.place_of(&before)?;
                let computed = self.binary_of(operator, &before, &right)?;
                let computed = self.narrowed(&place, &right, computed)?;
                let new = self.in_program(computed)?;
                let assignee = self.assignee_again(target, before)?;
                self.give(assignee, &new)?;
                new
            }
        };
        // What was read before may be the old value.
        self.session.stacks.forget();
        self.frame = self.session.frame_at(self.at).map_err(EvaluationError::Session)?;
        // Finding it once more would run the same code once more.
        if self.target_runs_code { Ok(new) } else { self.node(target) }
    }

    fn place(&mut self, target: &Node) -> Result<Seen> {
        let found = self.target(target)?;
        self.place_of(&found)
    }

    /// What is assigned to, as it is.
    fn target(&mut self, target: &Node) -> Result<Evaluated> {
        let before = self.runs;
        let found = self.node(target);
        self.target_runs_code |= self.runs != before;
        found
    }

    fn place_of(&self, found: &Evaluated) -> Result<Seen> {
        match found {
            Evaluated::Value(seen) => Ok(seen.clone()),
            other => Err(EvaluationError::NotAPlace { what: self.type_text(other) }),
        }
    }

    /// What an assignment goes to.
    fn assignee(&mut self, target: &Node) -> Result<Assignee> {
        if let Some(assignee) = self.member_assignee(target)? {
            return Ok(assignee);
        }
        self.place(target).map(Assignee::Place)
    }

    /// A member of an object: its field, or the setter that a property has.
    fn member_assignee(&mut self, target: &Node) -> Result<Option<Assignee>> {
        let before = self.runs;
        let (receiver, name) = match &target.kind {
            Kind::Member { of, name, .. } => (self.node(of)?, &name.text),
            Kind::Name { name, .. } if self.local(&name.text)?.is_none() => match self.local("this")? {
                Some(this) => (this, &name.text),
                None => return Ok(None),
            },
            _ => return Ok(None),
        };
        self.target_runs_code |= self.runs != before;
        let Evaluated::Value(seen) = receiver else { return Ok(None) };
        let of = match self.bind(&seen, name) {
            Some(Bound::Field(seen)) => return Ok(Some(Assignee::Place(seen))),
            Some(Bound::Property(of)) => of,
            None => return Ok(None),
        };
        let definition = of.definition.clone();
        let type_def = definition.as_ref().and_then(|definition| definition.type_def());
        let property = type_def.and_then(|type_def| type_def.property_named(name));
        let Some(setter) = property.and_then(|property| property.setter()) else {
            // A property without a setter is what its constructor made it.
            let field = property.and_then(|property| property.getter()).and_then(returned_by);
            let Some(Returned::Field(field)) = field else { return Ok(None) };
            return Ok(self.field_of(&seen, &of, &field).map(Assignee::Place));
        };
        if let Some(place) = stored_by(setter).and_then(|field| self.field_of(&seen, &of, &field)) {
            return Ok(Some(Assignee::Place(place)));
        }
        let token = setter.token();
        Ok(Some(Assignee::Setter { receiver: seen, of, token, name: name.clone() }))
    }

    /// The same once more, where code of the program has run since it was found, which moves everything.
    fn assignee_again(&mut self, target: &Node, before: Evaluated) -> Result<Assignee> {
        if self.target_runs_code && self.has_run_since(&before) {
            return Err(EvaluationError::NotSupported {
                what: "running code for both sides of an assignment",
            });
        }
        self.assignee(target)
    }

    fn give(&mut self, assignee: Assignee, new: &Evaluated) -> Result<()> {
        match assignee {
            Assignee::Place(place) => self.store(&place, new),
            Assignee::Setter { receiver, of, token, name } => {
                self.set_property(&receiver, &of, token, &name, new)
            }
        }
    }

    /// Whether a value was found before code of the program ran last.
    fn has_run_since(&self, evaluated: &Evaluated) -> bool {
        match evaluated {
            Evaluated::Value(seen) => seen.value.size().is_err(),
            _ => false,
        }
    }

    /// A text that was computed, as an object of the program.
    fn in_program(&mut self, new: Evaluated) -> Result<Evaluated> {
        match &new {
            Evaluated::Constant { value: Constant::String(text), .. } => self.new_string(&text.to_string()),
            _ => self.kept(new),
        }
    }

    /// What `+=` and the like compute, as the type of the place: `b += 1` for a byte adds as an int.
    fn narrowed(&self, place: &Seen, right: &Evaluated, computed: Evaluated) -> Result<Evaluated> {
        let Some(to) = primitive_of(place) else { return Ok(computed) };
        let Evaluated::Constant { value, .. } = &computed else { return Ok(computed) };
        if value.primitive().is_none_or(|of| of == to || !of.is_number()) || !self.converts(right, to) {
            return Ok(computed);
        }
        Ok(Evaluated::computed(value.cast(to)?))
    }

    /// Whether C# takes a value for one of a built-in type without a cast.
    fn converts(&self, new: &Evaluated, to: Primitive) -> bool {
        let Ok(value) = self.constant(new) else { return false };
        if matches!(new, Evaluated::Enum { .. }) {
            return false;
        }
        let is_literal = matches!(new, Evaluated::Constant { is_literal: true, .. });
        value.primitive() == Some(to)
            || value.primitive().is_some_and(|from| implicitly_converts(from, to).is_some())
            || is_literal && value.converts_as_constant(to)
    }

    fn store(&mut self, place: &Seen, new: &Evaluated) -> Result<()> {
        let not_assignable = |evaluator: &Self| EvaluationError::NotAssignable {
            from: evaluator.type_text(new),
            to: place.of.display(),
        };
        if place.of.is_named("System.Nullable`1") && object_reference(place).is_none() {
            return self.store_nullable(place, new);
        }
        if let Some(reference) = object_reference(place) {
            let declared = reference.cast().and_then(|value| self.session.values().type_of(&value).ok());
            let declared = declared.unwrap_or_else(|| place.of.clone());
            let address = match new {
                _ if new.is_null() => 0,
                Evaluated::Value(seen) if self.is_a(seen, &declared) => {
                    seen.object_address().ok_or_else(|| not_assignable(self))?
                }
                _ => return Err(not_assignable(self)),
            };
            return Ok(reference.set_value(address)?);
        }
        let bytes = match (&place.content, new) {
            (Content::Primitive(..), _) => {
                let to = primitive_of(place).ok_or_else(|| not_assignable(self))?;
                if !self.converts(new, to) {
                    return Err(not_assignable(self));
                }
                self.constant(new)?.cast(to)?.to_bytes()
            }
            (Content::Object(_), Evaluated::Enum { of, value }) if of.display() == place.of.display() => {
                let size = place.bytes().map_or(0, |bytes| bytes.len());
                value.whole().map(|whole| whole.to_le_bytes()[..size.min(16)].to_vec())
            }
            (Content::Object(_), Evaluated::Value(seen)) if seen.of.display() == place.of.display() => {
                seen.bytes()
            }
            (Content::Object(_), _)
                if place.of.is_named("System.Decimal") && self.converts(new, Primitive::Decimal) =>
            {
                self.constant(new)?.cast(Primitive::Decimal)?.to_bytes()
            }
            _ => None,
        };
        let bytes = bytes.ok_or_else(|| not_assignable(self))?;
        let generic = generic_of(place).ok_or_else(|| not_assignable(self))?;
        Ok(generic.set_bytes(&bytes)?)
    }

    /// Whether there is one, and what it is.
    fn store_nullable(&mut self, place: &Seen, new: &Evaluated) -> Result<()> {
        let values = self.session.values();
        let not_assignable =
            || EvaluationError::NotAssignable { from: self.type_text(new), to: place.of.display() };
        let has_value = values.field_seen(place, "hasValue").ok_or_else(not_assignable)?;
        let inner = values.field_seen(place, "value").ok_or_else(not_assignable)?;
        let is_there = self.has_value(new);
        if is_there {
            match new {
                Evaluated::Value(seen) if seen.of.is_named("System.Nullable`1") => {
                    let new = values.field_seen(seen, "value").ok_or_else(not_assignable)?;
                    self.store(&inner, &Evaluated::Value(new))?;
                }
                _ => self.store(&inner, new)?,
            }
        }
        self.store(&has_value, &Evaluated::computed(Constant::Bool(is_there)))
    }
}

fn primitive_of(place: &Seen) -> Option<Primitive> {
    place.of.primitive().and_then(|of| Primitive::of_class(of.full_name()))
}

/// The reference to an object that a place is; `ref` parameters refer to it. None where a value is in place.
fn object_reference(place: &Seen) -> Option<Com<ReferenceValue>> {
    let mut reference = place.value.cast::<ReferenceValue>()?;
    if place.is_null() {
        return Some(reference);
    }
    for _ in 0..3 {
        let target = reference.dereference().ok()?;
        match target.cast() {
            Some(inner) => reference = inner,
            // A `ref` to a number or a struct, which is not in a box.
            None if place.of.is_value_type() && target.cast::<BoxValue>().is_none() => return None,
            None => break,
        }
    }
    Some(reference)
}

/// Where the bytes of a struct or a number are, behind a `ref`.
fn generic_of(place: &Seen) -> Option<Com<GenericValue>> {
    if let Content::Object(object) = &place.content
        && let Some(generic) = object.cast()
    {
        return Some(generic);
    }
    let mut current = place.value.clone();
    for _ in 0..3 {
        match current.cast::<ReferenceValue>() {
            Some(reference) => current = reference.dereference().ok()?,
            None => break,
        }
    }
    current.cast()
}
