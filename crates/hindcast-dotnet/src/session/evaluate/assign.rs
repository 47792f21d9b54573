//! Assignments.

use std::rc::Rc;

use super::{
    Evaluated, EvaluationError, Evaluator, Result,
    binding::{Bound, why_no_field},
    calls::Callee,
};
use crate::{
    cor::{BoxValue, Com, GenericValue, ReferenceValue},
    expression::{Argument, Assignment, Constant, Kind, Node, Primitive, implicitly_converts},
    image::Token,
    modules::LoadedModule,
    values::{Content, Returned, Seen, TypeInfo, property_of_backing_field, returned_by, stored_by},
};

/// What is assigned to.
enum Assignee {
    Place(Seen),
    /// A property whose setter must run; a static one has no receiver.
    Setter {
        receiver: Option<Seen>,
        of: TypeInfo,
        token: Token,
        name: String,
    },
    /// An item that the setter of an indexer sets, by keys that stay good while code runs.
    Item {
        receiver: Seen,
        keys: Vec<Evaluated>,
    },
}

/// What came of an assignment.
enum Given {
    Stored(Evaluated),
    /// What a setter was given; what its getter returns is another matter.
    Set(Evaluated),
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
                let assignee = self.assignee(target)?;
                match self.gave(assignee, new, target)? {
                    Given::Stored(new) => new,
                    Given::Set(value) => return Ok(value),
                }
            }
            Assignment::IfNull => {
                let before = self.target(target)?;
                if self.has_value(&before) {
                    return Ok(before);
                }
                let new = self.node(value)?;
                let new = self.in_program(new)?;
                let assignee = self.assignee_again(target, before)?;
                match self.gave(assignee, new, target)? {
                    Given::Stored(new) => new,
                    Given::Set(value) => return Ok(value),
                }
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
                match self.gave(assignee, new, target)? {
                    Given::Stored(new) => new,
                    Given::Set(value) => return Ok(value),
                }
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
        if let Kind::Index { of, arguments } = &target.kind {
            return self.item_assignee(of, arguments, target);
        }
        let before = self.runs;
        let place = self.place(target)?;
        if self.runs != before {
            // What code returned is nowhere in the program.
            return Err(EvaluationError::NotAPlace { what: self.type_text(&Evaluated::Value(place)) });
        }
        Ok(Assignee::Place(place))
    }

    /// An item of an array or a collection.
    fn item_assignee(&mut self, of: &Node, arguments: &[Argument], target: &Node) -> Result<Assignee> {
        let before = self.runs;
        let receiver = self.node(of)?;
        let Evaluated::Value(seen) = &receiver else { return self.place(target).map(Assignee::Place) };
        if matches!(seen.content, Content::Null | Content::Array(_)) {
            let place = self.index(&receiver, arguments)?;
            self.target_runs_code |= self.runs != before;
            return self.place_of(&place).map(Assignee::Place);
        }
        let Some(setter) = self.item_setter(seen) else {
            return Err(EvaluationError::NoSetter { of: seen.of.display() });
        };
        // A collection that is a struct of the framework refers to the items that it has.
        let is_view = !setter.is_mine() && self.is_value(&receiver);
        if self.calls_until.is_none() || is_view {
            if setter.is_mine() {
                return Err(EvaluationError::NeedsSetter { name: "this[]".into() });
            }
            // The framework's collections do no more than store it.
            let calls = self.calls_until.take();
            let found = self.index(&receiver, arguments);
            self.calls_until = calls;
            return match found {
                Err(EvaluationError::NoKey { .. } | EvaluationError::NeedsCode { .. }) => {
                    Err(EvaluationError::NeedsSetter { name: "this[]".into() })
                }
                found => self.place_of(&found?).map(Assignee::Place),
            };
        }
        let Evaluated::Value(receiver) = self.kept(receiver)? else {
            return Err(EvaluationError::NotAPlace { what: "this[]".into() });
        };
        let mut keys = Vec::with_capacity(arguments.len());
        for argument in arguments {
            if matches!(argument.value.kind, Kind::FromEnd(_)) {
                return Err(EvaluationError::NotSupported { what: "`^` where an indexer sets the item" });
            }
            keys.push(self.argument(&argument.value)?);
        }
        if self.is_value(&Evaluated::Value(receiver.clone())) {
            // It would be set in a copy.
            return Err(EvaluationError::NotSupported { what: "the setter of a struct's indexer" });
        }
        Ok(Assignee::Item { receiver, keys })
    }

    /// The module of the setter of an object's items.
    fn item_setter(&self, seen: &Seen) -> Option<Rc<LoadedModule>> {
        self.session.values().member_types(seen).iter().find_map(|of| {
            let returns_place = |callee: &Callee| self.returns_place(callee);
            let is_there = !self.indexers_of(of, "set_").is_empty()
                || self.indexers_of(of, "get_").iter().any(returns_place);
            Some(of.definition.as_ref().filter(|_| is_there)?.module.clone())
        })
    }

    /// Whether a struct is where the program has it: a variable, a field or an item of an array. What properties, indexers, casts and
    /// the like give is a copy.
    fn is_place(&mut self, node: &Node) -> Result<bool> {
        match &node.kind {
            Kind::This => Ok(true),
            Kind::Name { name, .. } => {
                if self.local(&name.text)?.is_some() {
                    return Ok(true);
                }
                if let Some(Evaluated::Value(this)) = self.local("this")?
                    && let Some(bound) = self.bind(&this, &name.text)
                {
                    return Ok(matches!(bound, Bound::Field(_)));
                }
                let of = self.session.declaring_type(&self.frame);
                Ok(of.is_some_and(|of| has_static_field(&of, &name.text)))
            }
            Kind::Member { of, name, .. } => match self.without_effects(of) {
                Ok(Evaluated::Type(of)) => Ok(has_static_field(&of, &name.text)),
                Ok(Evaluated::Value(seen)) => {
                    let is_field = matches!(self.bind(&seen, &name.text), Some(Bound::Field(_)))
                        || self.tuple_item(&seen, &name.text).is_some();
                    Ok(is_field && (!self.static_type(&seen).is_value_type() || self.is_place(of)?))
                }
                _ => Ok(false),
            },
            Kind::Index { of, .. } => {
                let Ok(Evaluated::Value(seen)) = self.without_effects(of) else { return Ok(false) };
                let types = self.session.values().member_types(&seen);
                let getters: Vec<_> = types.iter().flat_map(|of| self.indexers_of(of, "get_")).collect();
                let is_place = |getter: &Callee| self.returns_place(getter);
                Ok(matches!(seen.content, Content::Array(_)) || getters.iter().any(is_place))
            }
            _ => Ok(false),
        }
    }

    /// A member of an object: its field, or the setter that a property has.
    fn member_assignee(&mut self, target: &Node) -> Result<Option<Assignee>> {
        let before = self.runs;
        let (receiver, name) = match &target.kind {
            Kind::Member { of, name, .. } => (self.node(of)?, &name.text),
            Kind::Name { name, .. } if self.local(&name.text)?.is_none() => match self.local("this")? {
                Some(this) => (this, &name.text),
                None => match self.session.declaring_type(&self.frame) {
                    Some(of) => (Evaluated::Type(of), &name.text),
                    None => return Ok(None),
                },
            },
            _ => return Ok(None),
        };
        self.target_runs_code |= self.runs != before;
        if let Kind::Member { of, .. } = &target.kind
            && self.static_of(&receiver).is_some_and(|of| of.is_value_type())
            && (self.runs != before || !self.is_place(of)?)
        {
            return Err(EvaluationError::OfACopy { what: self.type_text(&receiver) });
        }
        let seen = match receiver {
            Evaluated::Value(seen) => seen,
            Evaluated::Type(of) => return self.static_assignee(&of, name),
            _ => return Ok(None),
        };
        let of = match self.bind(&seen, name) {
            Some(Bound::Field(seen)) => return Ok(Some(Assignee::Place(seen))),
            Some(Bound::Property(of)) => of,
            Some(Bound::Null) => return Err(unused(name)),
            Some(Bound::Unreadable(error)) => {
                return Err(EvaluationError::Unreadable { name: name.to_owned(), why: why_no_field(error) });
            }
            None if matches!(target.kind, Kind::Name { .. }) => {
                return self.static_assignee(&self.static_type(&seen), name);
            }
            None => return Ok(None),
        };
        let definition = of.definition.clone();
        let type_def = definition.as_ref().and_then(|definition| definition.type_def());
        let property = type_def.and_then(|type_def| type_def.property_named(name));
        let Some(setter) = property.and_then(|property| property.setter()) else {
            // A property without a setter is what its constructor made it.
            let field = property.and_then(|property| property.getter()).and_then(returned_by);
            let Some(Returned::Field(field)) = field else {
                return Err(EvaluationError::ReadOnly { name: name.clone() });
            };
            return match self.field_of(&seen, &of, &field) {
                Some(Bound::Field(place)) => Ok(Some(Assignee::Place(place))),
                _ => Err(unused(name)),
            };
        };
        let stored = stored_by(setter).and_then(|field| self.field_of(&seen, &of, &field));
        if let Some(Bound::Field(place)) = stored {
            return Ok(Some(Assignee::Place(place)));
        }
        let token = setter.token();
        Ok(Some(Assignee::Setter { receiver: Some(seen), of, token, name: name.clone() }))
    }

    /// A static property whose setter must run; none for what is stored in a field.
    fn static_assignee(&self, of: &TypeInfo, name: &str) -> Result<Option<Assignee>> {
        for of in of.with_bases(&self.session.modules) {
            let Some(type_def) = of.definition.as_ref().and_then(|definition| definition.type_def()) else {
                continue;
            };
            let mut fields = type_def.fields().filter_map(|field| field.name());
            if fields.any(|raw| raw == name || property_of_backing_field(raw) == Some(name)) {
                return Ok(None);
            }
            let Some(property) = type_def.property_named(name) else { continue };
            let setter =
                property.setter().ok_or_else(|| EvaluationError::ReadOnly { name: name.to_owned() })?;
            let token = setter.token();
            return Ok(Some(Assignee::Setter {
                receiver: None,
                of: of.clone(),
                token,
                name: name.to_owned(),
            }));
        }
        Ok(None)
    }

    /// The same once more, where code of the program has run since it was found, which moves everything.
    fn assignee_again(&mut self, target: &Node, before: Evaluated) -> Result<Assignee> {
        let runs_twice = match &target.kind {
            Kind::Index { arguments, .. } => arguments.iter().any(|argument| argument.value.runs_code()),
            _ => false,
        };
        let is_item = matches!(target.kind, Kind::Index { .. });
        if runs_twice || !is_item && self.target_runs_code && self.has_run_since(&before) {
            return Err(EvaluationError::NotSupported {
                what: "running code for both sides of an assignment",
            });
        }
        self.assignee(target)
    }

    /// Assigns, and says what was assigned.
    fn gave(&mut self, assignee: Assignee, new: Evaluated, target: &Node) -> Result<Given> {
        match assignee {
            Assignee::Place(place) => {
                let Some(to) = self.boxed_for(&place, &new) else {
                    self.store(&place, &new)?;
                    return Ok(Given::Stored(new));
                };
                if self.calls_until.is_none() {
                    let from = self.static_text(&new);
                    return Err(EvaluationError::NeedsBox { from, to: to.display() });
                }
                // Making the object moves the place.
                let boxed = self.boxed(&new)?;
                let Assignee::Place(place) = self.assignee(target)? else {
                    return Err(EvaluationError::NotAPlace { what: to.display() });
                };
                self.store(&place, &boxed)?;
                Ok(Given::Stored(boxed))
            }
            Assignee::Setter { receiver, of, token, name } => {
                self.set_property(receiver.as_ref(), &of, token, &name, &new).map(Given::Set)
            }
            Assignee::Item { receiver, keys } => self.set_item(&receiver, &keys, &new).map(Given::Set),
        }
    }

    /// What a place is declared as, where a value needs a box to be assigned to it.
    fn boxed_for(&self, place: &Seen, new: &Evaluated) -> Option<TypeInfo> {
        let declared = place.as_type.clone().filter(|of| !of.is_value_type())?;
        (self.is_value(new) && self.value_converts(new, &declared)).then_some(declared)
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
            // What it takes to find the place moves what is not an object.
            _ if self.calls_until.is_some() => self.argument_of(new),
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
            let own = || reference.cast().and_then(|value| self.session.values().type_of(&value).ok());
            let declared = place.as_type.clone().or_else(own).unwrap_or_else(|| place.of.clone());
            let not_assignable = |evaluator: &Self| EvaluationError::NotAssignable {
                from: evaluator.static_text(new),
                to: declared.display(),
            };
            let address = match new {
                _ if declared.is_value_type() => return Err(not_assignable(self)),
                _ if new.is_null() => 0,
                Evaluated::Value(seen)
                    if seen.value.cast::<ReferenceValue>().is_some() && self.is_a(seen, &declared) =>
                {
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
            (Content::Object(_), Evaluated::Enum { of, value, .. }) if of.display() == place.of.display() => {
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
    pub(super) fn store_nullable(&mut self, place: &Seen, new: &Evaluated) -> Result<()> {
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
    if let Some(reference) = place.long_string() {
        return Some(reference.clone());
    }
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

/// A place of a type that nothing has used has no value to begin with.
fn unused(name: &str) -> EvaluationError {
    EvaluationError::Unreadable { name: name.to_owned(), why: "nothing has used its type yet".into() }
}

fn has_static_field(of: &TypeInfo, name: &str) -> bool {
    let type_def = of.definition.as_ref().and_then(|definition| definition.type_def());
    type_def.is_some_and(|of| of.fields().any(|field| field.is_static() && field.name() == Some(name)))
}
