//! `?:`, `??` and `?.`: what is not evaluated still gives its type to the whole.

use super::{
    Evaluated, EvaluationError, Evaluator, Result,
    calls::Callee,
    conversions::{is_same_type, nullable_of},
    interfaces::is_interface,
};
use crate::{
    cor::element,
    expression::{Kind, Node},
    values::{TypeInfo, property_of_backing_field},
};

/// What a branch that is not taken contributes.
enum Branch {
    /// What it is, which takes no code to know.
    Value(Evaluated),
    Of(TypeInfo),
    /// Only running code would tell.
    Unknown,
}

impl Evaluator<'_> {
    pub(super) fn conditional(&mut self, condition: &Node, yes: &Node, no: &Node) -> Result<Evaluated> {
        let (taken, other) = if self.truth(condition)? { (yes, no) } else { (no, yes) };
        let value = self.node(taken)?;
        let other = match self.branch(other) {
            Branch::Value(other) => self.static_of(&other),
            Branch::Of(of) => Some(of),
            Branch::Unknown => return self.of_any_type(value),
        };
        match other {
            Some(of) if !self.value_converts(&value, &of) && self.is_defined_conversion(&value, &of) => {
                Ok(self.defined_cast(&value, &of)?.unwrap_or(value))
            }
            Some(of) => self.as_common(value, &of),
            // `null`, which is of no type.
            None => Ok(value),
        }
    }

    /// `a ?? b`, as the type that both have in common.
    pub(super) fn coalesced(&mut self, left: &Node, right: &Node) -> Result<Evaluated> {
        let left = self.node(left)?;
        let Some(declared) = self.static_of(&left) else {
            return match left.is_untyped_null() {
                true => {
                    let right = self.node(right)?;
                    self.of_any_type(right)
                }
                false => Err(EvaluationError::NullWithoutType),
            };
        };
        if !self.has_value(&left) {
            let right = self.node(right)?;
            return match self.coalesced_type(&declared, &Branch::Value(right.clone())) {
                Some(of) if self.value_converts(&right, &of) => self.converted(right, &of),
                Some(of) => {
                    let converted = self.defined_cast(&right, nullable_of(&of).unwrap_or(&of))?;
                    Ok(converted.unwrap_or(right))
                }
                None => Ok(right),
            };
        }
        let inside = self.nullable(&left).and_then(|(_, inside)| inside).unwrap_or_else(|| left.clone());
        match self.branch(right) {
            Branch::Unknown => self.of_any_type(inside),
            branch => match self.coalesced_type(&declared, &branch) {
                Some(of) if is_same_type(&of, &declared) => Ok(left),
                Some(of) if nullable_of(&declared).is_some_and(|inner| is_same_type(&of, inner)) => {
                    Ok(inside)
                }
                Some(of) => self.converted(inside, &of),
                None => Ok(left),
            },
        }
    }

    /// The type of `a ?? b`: of `a` without its `?`, of `a`, or of `b`, the first that takes both.
    fn coalesced_type(&self, left: &TypeInfo, right: &Branch) -> Option<TypeInfo> {
        let converts = |to: &TypeInfo| match right {
            Branch::Value(value) => self.value_converts(value, to) || self.is_defined_conversion(value, to),
            Branch::Of(of) => self.type_converts(of, to),
            Branch::Unknown => false,
        };
        let inner = nullable_of(left);
        if let Some(of) = inner.into_iter().chain([left]).find(|of| converts(of)) {
            return Some(of.clone());
        }
        let of = match right {
            Branch::Value(value) => self.static_of(value)?,
            Branch::Of(of) => of.clone(),
            Branch::Unknown => return None,
        };
        self.type_converts(inner.unwrap_or(left), &of).then_some(of)
    }

    /// `receiver?.then`
    pub(super) fn when_not_null(&mut self, receiver: &Node, then: &Node) -> Result<Evaluated> {
        let receiver = self.node(receiver)?;
        let (receiver, is_null) = match self.nullable(&receiver) {
            Some((inner, None)) => (Evaluated::null_as(inner), true),
            // The struct is a copy, which stays good while code runs.
            Some((_, Some(inside))) if self.calls_until.is_some() => (self.argument_of(inside)?, false),
            Some((_, Some(inside))) => (inside, false),
            None => {
                let is_null = receiver.is_null();
                (receiver, is_null)
            }
        };
        self.receivers.push(receiver);
        let evaluated = match is_null {
            true => self.null_of(then),
            false => self.node(then).and_then(|found| self.as_nullable(found)),
        };
        self.receivers.pop();
        evaluated
    }

    /// The null that an expression gives whose receiver is null.
    fn null_of(&mut self, then: &Node) -> Result<Evaluated> {
        let of = self.declared_by(then)?;
        Ok(match of.and_then(|of| self.nullable_form(of)) {
            Some(of) => Evaluated::null_as(of),
            None => Evaluated::computed(crate::expression::Constant::Null),
        })
    }

    /// A value next to a branch of which the type is not known: numbers would become what that is.
    fn of_any_type(&self, value: Evaluated) -> Result<Evaluated> {
        let is_number = Self::enum_of(&value).is_none()
            && self.constant(&value).is_ok_and(|value| value.primitive().is_some_and(|of| of.is_number()));
        if is_number { Err(EvaluationError::UnknownBranch) } else { Ok(value) }
    }

    fn branch(&mut self, node: &Node) -> Branch {
        match self.without_effects(node) {
            Ok(evaluated) => Branch::Value(evaluated),
            Err(_) => self.declared_by(node).ok().flatten().map_or(Branch::Unknown, Branch::Of),
        }
    }

    pub(super) fn without_effects(&mut self, node: &Node) -> Result<Evaluated> {
        let before = (self.calls_until.take(), std::mem::replace(&mut self.may_write, false));
        let found = self.node(node);
        (self.calls_until, self.may_write) = before;
        found
    }

    /// The type that an expression has by what it is written of, where that is enough to know it. An error where a type
    /// has no such member.
    fn declared_by(&mut self, node: &Node) -> Result<Option<TypeInfo>> {
        match &node.kind {
            Kind::Cast(to, _) | Kind::As(_, to) | Kind::New { of: to, .. } => Ok(self.type_named(to).ok()),
            Kind::Member { of, name, .. } => match self.type_before_dot(of)? {
                Some(of) => self.known_member(&of, &name.text),
                None => Ok(None),
            },
            Kind::Name { name, .. } => {
                let of = self.session.declaring_type(&self.frame);
                Ok(of.and_then(|of| self.member_type(&of, &name.text)))
            }
            Kind::Call { function, .. } => match &function.kind {
                Kind::Member { of, name, .. } => match self.type_before_dot(of)? {
                    Some(of) => self.known_method(&of, &name.text),
                    None => Ok(None),
                },
                Kind::Name { name, .. } => {
                    let of = self.session.declaring_type(&self.frame);
                    Ok(of.and_then(|of| self.returned_by_all(&self.methods(&of, &name.text))))
                }
                _ => Ok(None),
            },
            Kind::Index { of, .. } => Ok(self.type_before_dot(of)?.and_then(|of| self.item_type(&of))),
            Kind::Receiver => Ok(self.receivers.last().and_then(|receiver| self.static_of(receiver))),
            Kind::WhenNotNull { receiver, then } => {
                let Some(of) = self.type_before_dot(receiver)? else { return Ok(None) };
                let of = nullable_of(&of).cloned().unwrap_or(of);
                self.receivers.push(Evaluated::null_as(of));
                let found = self.declared_by(then);
                self.receivers.pop();
                Ok(found?.and_then(|of| self.nullable_form(of)))
            }
            _ => Ok(None),
        }
    }

    /// The type of which a member is asked: of a value, or named itself.
    fn type_before_dot(&mut self, node: &Node) -> Result<Option<TypeInfo>> {
        match self.without_effects(node) {
            Ok(Evaluated::Type(of)) => Ok(Some(of)),
            Ok(evaluated) => Ok(self.static_of(&evaluated)),
            Err(_) => self.declared_by(node),
        }
    }

    /// The type of a member that there must be.
    fn known_member(&self, of: &TypeInfo, name: &str) -> Result<Option<TypeInfo>> {
        match self.member_type(of, name) {
            Some(found) => Ok(Some(found)),
            None if self.may_have(of, name) => Ok(None),
            None => Err(EvaluationError::NoMember { of: of.display(), name: name.to_owned() }),
        }
    }

    /// What a method returns that there must be; also an extension method.
    fn known_method(&self, of: &TypeInfo, name: &str) -> Result<Option<TypeInfo>> {
        let types = self.declared_types(of);
        let own: Vec<_> = types.iter().flat_map(|of| self.methods_of(of, name)).collect();
        if !own.is_empty() {
            return Ok(self.returned_by_all(&own));
        }
        let extensions = self.extensions(name);
        if extensions.is_empty() {
            // A delegate in a field is called like a method.
            return self.known_member(of, name).map(|_| None);
        }
        let receiver = Evaluated::null_as(of.clone());
        let is_open = |callee: &Callee| callee.own_types > 0;
        let fitting: Vec<_> = extensions
            .into_iter()
            .filter(|callee| is_open(callee) || self.extends(callee, &receiver))
            .collect();
        Ok(Some(fitting).filter(|all| !all.iter().any(is_open)).and_then(|all| self.returned_by_all(&all)))
    }

    /// Whether a type may have a member that its definition does not tell of.
    fn may_have(&self, of: &TypeInfo, name: &str) -> bool {
        let is_made = |of: &TypeInfo| {
            let type_def = of.definition.as_ref().and_then(|definition| definition.type_def());
            type_def.is_some_and(|type_def| {
                type_def.property_named(name).is_some()
                    || type_def
                        .fields()
                        .filter_map(|field| field.name())
                        .any(|raw| raw == name || property_of_backing_field(raw) == Some(name))
            })
        };
        // An `object` has the members of what is in it, a tuple those that the source names.
        of.is_named("System.Object")
            || of.is_value_tuple()
            || self.with_definition(of).is_none()
            || self.declared_types(of).iter().any(is_made)
    }

    /// A type with all that its members come from.
    fn declared_types(&self, of: &TypeInfo) -> Vec<TypeInfo> {
        let Some(of) = self.with_definition(of) else { return Vec::new() };
        if !is_interface(&of) {
            return of.with_bases(&self.session.modules).to_vec();
        }
        let object = self.session.type_by_name("System.Object", &[]);
        self.with_interfaces(&of).into_iter().chain(object).collect()
    }

    /// The type of a field or a property.
    fn member_type(&self, of: &TypeInfo, name: &str) -> Option<TypeInfo> {
        if let Some(inner) = nullable_of(of).filter(|_| name == "Value") {
            return Some(inner.clone());
        }
        self.declared_types(of).iter().find_map(|of| {
            let definition = of.definition.as_ref()?;
            let type_def = definition.type_def()?;
            let signature = match type_def.fields().find(|field| field.name() == Some(name)) {
                Some(field) => field.signature().ok()?,
                None => type_def.property_named(name)?.signature().ok()?.returns,
            };
            self.session.type_of_signature(&definition.module, &signature, &of.arguments, &[])
        })
    }

    /// The type of an item by number or key.
    fn item_type(&self, of: &TypeInfo) -> Option<TypeInfo> {
        if matches!(of.element, element::SZ_ARRAY | element::ARRAY) {
            return of.arguments.first().cloned();
        }
        let getters: Vec<_> =
            self.declared_types(of).iter().flat_map(|of| self.indexers_of(of, "get_")).collect();
        self.returned_by_all(&getters)
    }

    /// The type that all of some methods return.
    fn returned_by_all(&self, methods: &[Callee]) -> Option<TypeInfo> {
        let mut returned = methods.iter().map(|method| self.returned(method));
        let first = returned.next()??;
        returned.all(|of| of.is_some_and(|of| is_same_type(&of, &first))).then_some(first)
    }
}
