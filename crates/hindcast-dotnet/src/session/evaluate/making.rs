//! Values that are made in the program: for arguments, and to keep while code runs.

use std::time::Instant;

use super::{
    Evaluated, EvaluationError, Evaluator, Result,
    conversions::{enum_primitive, nullable_of},
    running::ABORT_WITHIN,
    short_enough,
    user_operators::is_boxed,
};
use crate::{
    cor::{BoxValue, Com, GenericValue, ReferenceValue, Value, element},
    expression::{Constant, Node, Primitive},
    values::{Content, Seen, TypeInfo},
};

impl Evaluator<'_> {
    /// Whether it is no object of its own, but a number or a struct.
    pub(super) fn is_value(&self, evaluated: &Evaluated) -> bool {
        match evaluated {
            Evaluated::Constant { value, .. } => !matches!(value, Constant::Null | Constant::String(_)),
            Evaluated::Enum { .. } => true,
            Evaluated::Value(seen) => {
                seen.of.is_value_type() && !seen.is_null() && seen.value.cast::<ReferenceValue>().is_none()
            }
            Evaluated::Type(_) | Evaluated::Namespace(_) | Evaluated::Nothing => false,
        }
    }

    /// A new object that holds a value.
    pub(super) fn boxed(&mut self, value: &Evaluated) -> Result<Evaluated> {
        let unsupported = || EvaluationError::NotSupported { what: "such an argument" };
        let (of, bytes) = match value {
            Evaluated::Constant { value, .. } => {
                let name = value.primitive().ok_or_else(unsupported)?.class();
                (self.session.type_by_name(&name, &[]), value.to_bytes())
            }
            Evaluated::Enum { of, value, .. } => {
                let value = enum_primitive(of).and_then(|to| value.cast(to).ok());
                (Some(of.clone()), value.and_then(|value| value.to_bytes()))
            }
            Evaluated::Value(seen) => (self.with_definition(&seen.of), seen.bytes()),
            Evaluated::Type(_) | Evaluated::Namespace(_) | Evaluated::Nothing => (None, None),
        };
        let (of, bytes) = (of.ok_or_else(unsupported)?, bytes.ok_or_else(unsupported)?);
        if of.is_named("System.Nullable`1") {
            return Err(unsupported());
        }
        let made = self.zeroed(&of)?;
        let Evaluated::Value(seen) = &made else { return Err(unsupported()) };
        let target = seen.value.cast::<ReferenceValue>().and_then(|reference| reference.dereference().ok());
        let inside =
            target.and_then(|target| target.cast::<BoxValue>()).and_then(|boxed| boxed.object().ok());
        let generic: Com<GenericValue> = inside.and_then(|inside| inside.cast()).ok_or_else(unsupported)?;
        generic.set_bytes(&bytes)?;
        // What was seen of it before is what it was before.
        Ok(Evaluated::Value(self.session.values().see(&seen.value)?))
    }

    /// A new object of a type, of which no constructor ran.
    pub(super) fn zeroed(&mut self, of: &TypeInfo) -> Result<Evaluated> {
        let class = of.definition.as_ref().map(|definition| definition.class.clone());
        let class = class.ok_or(EvaluationError::NotSupported { what: "such an argument" })?;
        let types: Vec<_> = of.arguments.iter().map(|argument| argument.cor.clone()).collect();
        let made = self.evaluate(|eval| eval.new_object_without_constructor(&class, &types))?;
        self.held(made)
    }

    pub(super) fn constant_argument(
        &mut self,
        constant: &Constant,
        wanted: Option<Primitive>,
    ) -> Result<Com<Value>> {
        let eval = self.thread()?.create_eval()?;
        match (constant, wanted.or_else(|| constant.primitive())) {
            (Constant::Null, _) => Ok(eval.primitive(element::CLASS)?),
            (Constant::String(text), _) => match self.new_string(&text.to_string())? {
                Evaluated::Value(seen) => Ok(seen.value),
                _ => Err(EvaluationError::NotSupported { what: "making a string" }),
            },
            (constant, Some(wanted)) => {
                let cast = constant.cast(wanted)?;
                let bytes =
                    cast.to_bytes().ok_or(EvaluationError::NotSupported { what: "such an argument" })?;
                let Some(element) = element_of(wanted) else {
                    let boxed = self.boxed(&Evaluated::computed(cast))?;
                    let Evaluated::Value(seen) = &boxed else {
                        return Err(EvaluationError::NotSupported { what: "such an argument" });
                    };
                    return Ok(unboxed(seen));
                };
                let value = eval.primitive(element)?;
                let generic: Com<GenericValue> = value.expect("Eval::primitive")?;
                generic.set_bytes(&bytes)?;
                Ok(value)
            }
            (_, None) => Err(EvaluationError::NotSupported { what: "such an argument" }),
        }
    }

    pub(super) fn value_of_constant(&mut self, constant: &Constant) -> Result<Seen> {
        let value = self.constant_argument(constant, None)?;
        Ok(self.session.values().see(&value)?)
    }

    /// A new string, as an object of the program that stays good while code runs.
    pub(super) fn new_string(&mut self, text: &str) -> Result<Evaluated> {
        let before = self.calls_until;
        // Making an object runs the program's allocator, for a moment only.
        self.calls_until = before.or_else(|| Some(Instant::now() + ABORT_WITHIN));
        let made = self.evaluate(|eval| eval.new_string(text));
        self.calls_until = before;
        self.kept(made?)
    }

    /// A value that stays good while code runs: objects move.
    pub(super) fn kept(&self, evaluated: Evaluated) -> Result<Evaluated> {
        let Evaluated::Value(seen) = &evaluated else { return Ok(evaluated) };
        if is_boxed(&evaluated) && seen.object_address().is_some() {
            return self.held(evaluated);
        }
        let declared = Some(self.static_type(seen))
            .filter(|of| nullable_of(of).is_some() || !of.is_value_type() && !of.is_named("System.String"));
        if let Ok(constant) = self.constant_of(seen) {
            match nullable_of(&seen.of) {
                Some(of) if of.is_enum() && constant != Constant::Null => {
                    return Ok(Evaluated::Enum { of: of.clone(), value: constant, declared });
                }
                Some(_) => return Ok(Evaluated::Constant { value: constant, is_literal: false, declared }),
                None if seen.of.is_enum() => {}
                None if matches!(constant, Constant::Null | Constant::String(_)) => {}
                None => return Ok(Evaluated::Constant { value: constant, is_literal: false, declared }),
            }
        }
        self.held(evaluated)
    }

    /// A `T?` for a call.
    pub(super) fn nullable_argument(&mut self, wanted: &TypeInfo, value: &Evaluated) -> Result<Evaluated> {
        let is_there = self.has_value(value);
        if let Evaluated::Value(seen) = value
            && nullable_of(&seen.of).is_some()
        {
            return Ok(value.clone());
        }
        let made = self.zeroed(wanted)?;
        let Evaluated::Value(seen) = &made else {
            return Err(EvaluationError::NotSupported { what: "such an argument" });
        };
        if is_there {
            let value = &self.fresh(value)?;
            self.store_nullable(seen, value)?;
        }
        Ok(made)
    }

    /// An argument that stays good while the others are computed: a struct in an object of its own.
    pub(super) fn argument(&mut self, node: &Node) -> Result<Evaluated> {
        let evaluated = self.receiver(node)?;
        self.argument_of(evaluated)
    }

    pub(super) fn argument_of(&mut self, evaluated: Evaluated) -> Result<Evaluated> {
        let kept = self.kept(evaluated)?;
        let Evaluated::Value(seen) = &kept else { return Ok(kept) };
        if !self.is_value(&kept) || nullable_of(&seen.of).is_some() {
            return Ok(kept);
        }
        let as_type = seen.as_type.clone();
        match self.boxed(&kept)? {
            Evaluated::Value(boxed) => Ok(Evaluated::Value(Seen { as_type, ..boxed })),
            other => Ok(other),
        }
    }

    /// A value that was kept, as it is after code has run.
    pub(super) fn fresh(&self, evaluated: &Evaluated) -> Result<Evaluated> {
        let Evaluated::Value(seen) = evaluated else { return Ok(evaluated.clone()) };
        match self.session.values().see(&seen.value) {
            Ok(now) => {
                let now = now.declared(Some(&seen.of));
                Ok(Evaluated::Value(Seen { as_type: seen.as_type.clone(), is_base: seen.is_base, ..now }))
            }
            Err(_) => Ok(evaluated.clone()),
        }
    }

    /// A handle to an object that stays good while code runs.
    pub(super) fn held(&self, evaluated: Evaluated) -> Result<Evaluated> {
        let Evaluated::Value(seen) = &evaluated else { return Ok(evaluated) };
        // The library makes handles only of what it has copied.
        if let Content::String(text) = &seen.content
            && short_enough(text.length()? as usize).is_err()
        {
            return Ok(evaluated);
        }
        let handle = seen.value.cast::<ReferenceValue>().and_then(|reference| reference.hold());
        match handle.and_then(|handle| handle.cast::<Value>()) {
            Some(value) => {
                let held = self.session.values().see(&value)?;
                Ok(Evaluated::Value(Seen { as_type: seen.as_type.clone(), is_base: seen.is_base, ..held }))
            }
            None => Ok(evaluated),
        }
    }
}

/// A struct or a number without references and boxes before it.
pub(super) fn unboxed(seen: &Seen) -> Com<Value> {
    let mut current = seen.value.clone();
    for _ in 0..3 {
        let Some(target) =
            current.cast::<ReferenceValue>().and_then(|reference| reference.dereference().ok())
        else {
            break;
        };
        current = target;
    }
    let inside = current.cast::<BoxValue>().and_then(|boxed| boxed.object().ok());
    inside.and_then(|inside| inside.cast()).unwrap_or(current)
}

/// The number that the debugging interface has for a built-in type.
pub(super) fn element_of(primitive: Primitive) -> Option<u32> {
    Some(match primitive {
        Primitive::Bool => element::BOOLEAN,
        Primitive::Char => element::CHAR,
        Primitive::SByte => element::I1,
        Primitive::Byte => element::U1,
        Primitive::Short => element::I2,
        Primitive::UShort => element::U2,
        Primitive::Int => element::I4,
        Primitive::UInt => element::U4,
        Primitive::Long => element::I8,
        Primitive::ULong => element::U8,
        Primitive::Float => element::R4,
        Primitive::Double => element::R8,
        // The interface makes none of these.
        Primitive::NInt | Primitive::NUInt | Primitive::Decimal | Primitive::String => return None,
    })
}
