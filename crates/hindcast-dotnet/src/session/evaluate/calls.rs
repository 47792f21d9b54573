//! Running code of the program: properties, methods, constructors. Only where the caller allows it.

use std::{rc::Rc, time::Instant};

use super::{
    Evaluated, EvaluationError, Evaluator, Result,
    running::{ABORT_WITHIN, Ended},
};
use crate::{
    cor::{BoxValue, Com, Eval2, GenericValue, HeapValue2, ReferenceValue, Thread, Value, element},
    expression::{Argument, Constant, Kind, Node, Primitive, TypeName, implicitly_converts},
    image::{Method, Primitive as ImagePrimitive, Token, TypeSig},
    modules::LoadedModule,
    values::{Content, Seen, TypeInfo},
};

/// `HANDLE_STRONG`.
const STRONG: u32 = 1;

/// A method that can be run.
struct Callee {
    module: Rc<LoadedModule>,
    token: Token,
    /// What stands for the parameters of its type, and then of the method.
    types: Vec<TypeInfo>,
    parameters: Vec<TypeSig>,
    of_type: Vec<TypeInfo>,
    is_static: bool,
    /// How many parameters the method itself has for types.
    own_types: usize,
    /// Whether it is a struct's.
    of_value: bool,
}

impl Evaluator<'_> {
    /// A property that must be computed; none where there is no such property.
    pub(super) fn property(&mut self, seen: &Seen, name: &str) -> Result<Option<Evaluated>> {
        for of in seen.of.with_bases(&self.session.modules) {
            let getter = of.definition.as_ref().and_then(|definition| {
                let property = definition.type_def()?.property_named(name)?;
                Some((definition.module.clone(), property.getter()?.token()))
            });
            let Some((module, token)) = getter else { continue };
            if self.calls_until.is_none() {
                return Err(EvaluationError::NeedsCode { name: name.to_owned() });
            }
            let callee = self.callee(module, token, &of, Vec::new())?;
            return self.run(&callee, Some(seen), &[]).map(Some);
        }
        Ok(None)
    }

    pub(super) fn static_property(&mut self, of: &TypeInfo, name: &str) -> Result<Option<Evaluated>> {
        let getter = of.definition.as_ref().and_then(|definition| {
            let property = definition.type_def()?.property_named(name)?;
            let getter = property.getter().filter(|getter| getter.is_static())?;
            Some((definition.module.clone(), getter.token()))
        });
        let Some((module, token)) = getter else { return Ok(None) };
        if self.calls_until.is_none() {
            return Err(EvaluationError::NeedsCode { name: name.to_owned() });
        }
        let callee = self.callee(module, token, of, Vec::new())?;
        self.run(&callee, None, &[]).map(Some)
    }

    pub(super) fn indexer_call(&mut self, seen: &Seen, keys: Vec<Evaluated>) -> Result<Evaluated> {
        if self.calls_until.is_none() {
            return Err(EvaluationError::NeedsCode { name: "this[]".into() });
        }
        let candidates = self.methods(&seen.of, "get_Item");
        if candidates.is_empty() {
            return Err(EvaluationError::NoIndexer { of: seen.of.display() });
        }
        let callee = self.best(candidates, "this[]", &keys, false)?;
        self.run(&callee, Some(seen), &keys)
    }

    pub(super) fn call(&mut self, function: &Node, arguments: &[Argument]) -> Result<Evaluated> {
        let (receiver, name, type_arguments) = match &function.kind {
            Kind::Name { name, type_arguments, .. } => match self.local(&name.text)? {
                // A delegate in a variable.
                Some(delegate) => (Some(delegate), "Invoke".to_owned(), Vec::new()),
                None => (None, name.text.clone(), type_arguments.clone()),
            },
            Kind::Member { of, name, type_arguments } => {
                (Some(self.node(of)?), name.text.clone(), type_arguments.clone())
            }
            _ => return Err(EvaluationError::NotSupported { what: "calling a delegate" }),
        };
        if self.calls_until.is_none() {
            return Err(EvaluationError::NeedsCall { name });
        }
        let receiver = receiver.map(|receiver| self.kept(receiver)).transpose()?;
        let mut values = Vec::with_capacity(arguments.len());
        for argument in arguments {
            let value = self.node(&argument.value)?;
            values.push(self.kept(value)?);
        }
        // A struct is not on the heap, where it could be kept while arguments were computed.
        let receiver = match (receiver, &function.kind) {
            (Some(Evaluated::Value(seen)), Kind::Member { of, .. }) if seen.value.size().is_err() => {
                Some(self.node(of)?)
            }
            (receiver, _) => receiver,
        };
        let method_types =
            type_arguments.iter().map(|argument| self.type_named(argument)).collect::<Result<Vec<_>>>()?;
        self.call_named(receiver, &name, &values, method_types)
    }

    fn call_named(
        &mut self,
        receiver: Option<Evaluated>,
        name: &str,
        values: &[Evaluated],
        method_types: Vec<TypeInfo>,
    ) -> Result<Evaluated> {
        let (of, this) = match receiver {
            Some(Evaluated::Value(seen)) if seen.is_null() => {
                return Err(EvaluationError::OfNull { name: name.to_owned() });
            }
            Some(Evaluated::Value(seen)) => (seen.of.clone(), Some(seen)),
            Some(Evaluated::Type(of)) => (of, None),
            Some(Evaluated::Constant { value, .. }) => {
                let seen = self.value_of_constant(&value)?;
                (seen.of.clone(), Some(seen))
            }
            Some(Evaluated::Enum { of, .. }) => {
                return Err(EvaluationError::NoMember { of: of.display(), name: name.to_owned() });
            }
            Some(Evaluated::Namespace(name)) => return Err(EvaluationError::UnknownName { name }),
            None => {
                let this = match self.local("this")? {
                    Some(Evaluated::Value(seen)) => Some(seen),
                    _ => None,
                };
                let of = match &this {
                    Some(seen) => Some(seen.of.clone()),
                    None => self.session.declaring_type(&self.frame),
                };
                (of.ok_or(EvaluationError::NoThis)?, this)
            }
        };
        let mut candidates = self.methods(&of, name);
        if candidates.is_empty() {
            return Err(EvaluationError::NoMember { of: of.display(), name: name.to_owned() });
        }
        for candidate in &mut candidates {
            if candidate.own_types > 0 && method_types.is_empty() {
                let inferred = self.inferred(candidate, values);
                candidate.types.extend(inferred);
            } else {
                candidate.types.extend(method_types.iter().cloned());
            }
        }
        candidates.retain(|candidate| candidate.types.len() == candidate.of_type.len() + candidate.own_types);
        let callee = self.best(candidates, name, values, this.is_none())?;
        let this = this.filter(|_| !callee.is_static);
        self.run(&callee, this.as_ref(), values)
    }

    /// What stands for a method's parameters, by the arguments that are of such a parameter's type.
    fn inferred(&self, callee: &Callee, values: &[Evaluated]) -> Vec<TypeInfo> {
        let of_argument = |number: u32| {
            let parameters = callee.parameters.iter().zip(values);
            let is_it =
                |parameter: &TypeSig| matches!(parameter, TypeSig::MethodParameter(at) if *at == number);
            let (_, value) = parameters.into_iter().find(|(parameter, _)| is_it(parameter))?;
            match value {
                Evaluated::Value(seen) if !seen.is_null() => Some(seen.of.clone()),
                Evaluated::Enum { of, .. } => Some(of.clone()),
                Evaluated::Constant { value, .. } => {
                    self.session.type_by_name(&value.primitive()?.class(), &[])
                }
                _ => None,
            }
        };
        (0..callee.own_types).map_while(|number| of_argument(u32::try_from(number).ok()?)).collect()
    }

    pub(super) fn construct(&mut self, of: &TypeName, arguments: &[Argument]) -> Result<Evaluated> {
        if self.calls_until.is_none() {
            return Err(EvaluationError::NeedsCall { name: format!("new {of}") });
        }
        let of = self.type_named(of)?;
        let mut values = Vec::with_capacity(arguments.len());
        for argument in arguments {
            let value = self.node(&argument.value)?;
            values.push(self.kept(value)?);
        }
        let own: Vec<Callee> = self.methods_of(&of, ".ctor").into_iter().collect();
        let callee = self.best(own, &format!("new {}", of.display()), &values, false)?;
        let arguments = self.arguments(&callee, &values)?;
        let types: Vec<_> = callee.types.iter().map(|of| of.cor.clone()).collect();
        let function = callee.module.module.function_from_token(callee.token.0)?;
        self.evaluate(|eval| eval.new_object(&function, &types, &arguments))
    }

    /// Methods of a name, the most derived first.
    fn methods(&self, of: &TypeInfo, name: &str) -> Vec<Callee> {
        let Some(of) = self.with_definition(of) else { return Vec::new() };
        let types = of.with_bases(&self.session.modules);
        types.iter().flat_map(|of| self.methods_of(of, name)).collect()
    }

    /// The runtime has no class for built-in types, but the framework has.
    fn with_definition(&self, of: &TypeInfo) -> Option<TypeInfo> {
        match &of.definition {
            Some(_) => Some(of.clone()),
            None => self.session.type_by_name(of.full_name_ref()?, &[]),
        }
    }

    fn methods_of(&self, of: &TypeInfo, name: &str) -> Vec<Callee> {
        let Some(definition) = &of.definition else { return Vec::new() };
        let Some(type_def) = definition.type_def() else { return Vec::new() };
        type_def
            .methods_named(name)
            .filter(|method| !method.is_abstract())
            .filter_map(|method| callee(definition.module.clone(), method, of))
            .collect()
    }

    fn callee(
        &self,
        module: Rc<LoadedModule>,
        token: Token,
        of: &TypeInfo,
        method_types: Vec<TypeInfo>,
    ) -> Result<Callee> {
        let found =
            module.assembly().and_then(|assembly| callee(module.clone(), assembly.method(token)?, of));
        let mut found =
            found.ok_or(EvaluationError::NotSupported { what: "a method without a signature" })?;
        found.types.extend(method_types);
        Ok(found)
    }

    /// The overload that fits best.
    fn best(
        &self,
        candidates: Vec<Callee>,
        name: &str,
        values: &[Evaluated],
        only_static: bool,
    ) -> Result<Callee> {
        let rank = |callee: &Callee| -> Option<u32> {
            if callee.parameters.len() != values.len() || only_static && !callee.is_static {
                return None;
            }
            callee
                .parameters
                .iter()
                .zip(values)
                .map(|(parameter, value)| self.fit(callee, parameter, value))
                .sum()
        };
        let best =
            candidates.into_iter().enumerate().filter_map(|(at, callee)| Some((rank(&callee)?, at, callee)));
        let best = best.min_by_key(|(rank, at, _)| (*rank, *at));
        best.map(|(_, _, callee)| callee).ok_or_else(|| {
            let arguments: Vec<_> = values.iter().map(|value| self.type_text(value)).collect();
            EvaluationError::NoOverload { name: name.to_owned(), arguments: arguments.join(", ") }
        })
    }

    /// How well a value fits a parameter, the less the better; none where it does not.
    fn fit(&self, callee: &Callee, parameter: &TypeSig, value: &Evaluated) -> Option<u32> {
        let wanted = match parameter {
            TypeSig::Primitive(ImagePrimitive::Object) => return Some(50),
            // They would need a place to write to.
            TypeSig::ByRef(_) => return None,
            other => self.wanted(callee, other)?,
        };
        if wanted.is_named("System.Object") {
            return Some(50);
        }
        if let Some(to) = wanted.full_name_ref().and_then(Primitive::of_class) {
            if matches!(value, Evaluated::Enum { .. })
                || matches!(value, Evaluated::Value(seen) if seen.of.is_enum())
            {
                return None;
            }
            return match self.constant(value).ok()? {
                Constant::Null => (to == Primitive::String).then_some(0),
                constant if constant.primitive() == Some(to) => Some(0),
                constant => {
                    let is_literal = matches!(value, Evaluated::Constant { is_literal: true, .. });
                    let rank =
                        implicitly_converts(constant.primitive()?, to).map(|rank| u32::from(rank.0) + 1);
                    rank.or((is_literal && constant.converts_as_constant(to)).then_some(10))
                }
            };
        }
        match value {
            _ if value.is_null() => (!wanted.is_value_type()).then_some(5),
            Evaluated::Value(seen) if seen.of.display() == wanted.display() => Some(0),
            Evaluated::Value(seen) => self.is_a(seen, &wanted).then_some(20),
            Evaluated::Enum { of, .. } => (of.display() == wanted.display()).then_some(0),
            _ => None,
        }
    }

    /// Runs a method.
    fn run(&mut self, callee: &Callee, this: Option<&Seen>, values: &[Evaluated]) -> Result<Evaluated> {
        // A method that a struct inherits knows objects only, and those of numbers want to be pointed at one.
        if let Some(seen) = this
            && (!callee.of_value || matches!(seen.content, Content::Primitive(..)))
            && self.is_value(&Evaluated::Value(seen.clone()))
        {
            let Evaluated::Value(boxed) = self.boxed(&Evaluated::Value(seen.clone()))? else {
                return Err(EvaluationError::NotSupported { what: "such a value" });
            };
            return self.run(callee, Some(&boxed), values);
        }
        let mut arguments = Vec::with_capacity(values.len() + 1);
        let of_values = self.arguments(callee, values)?;
        if let Some(this) = this {
            arguments.push(if callee.of_value { this_of(this) } else { this.value.clone() });
        }
        arguments.extend(of_values);
        let types: Vec<_> = callee.types.iter().map(|of| of.cor.clone()).collect();
        let function = callee.module.module.function_from_token(callee.token.0)?;
        self.evaluate(|eval| eval.call(&function, &types, &arguments))
    }

    fn arguments(&mut self, callee: &Callee, values: &[Evaluated]) -> Result<Vec<Com<Value>>> {
        let mut in_program = Vec::with_capacity(values.len());
        // Making a string lets the program run, after which what was made for the call before is good no more.
        for value in values {
            in_program.push(match value {
                Evaluated::Constant { value: Constant::String(text), .. } => {
                    self.new_string(&text.to_string())?
                }
                other => other.clone(),
            });
        }
        // So does boxing.
        for (parameter, value) in callee.parameters.iter().zip(&mut in_program) {
            let wanted = self
                .wanted(callee, parameter)
                .ok_or(EvaluationError::NotSupported { what: "such a parameter" })?;
            if self.is_value(value) && (!wanted.is_value_type() || matches!(value, Evaluated::Enum { .. })) {
                *value = self.boxed(value)?;
            }
        }
        let mut made = Vec::with_capacity(values.len());
        for (parameter, value) in callee.parameters.iter().zip(&in_program) {
            let wanted = self.wanted(callee, parameter);
            let primitive = wanted.as_ref().and_then(|of| Primitive::of_class(of.full_name_ref()?));
            let is_value = wanted.is_some_and(|of| of.is_value_type());
            made.push(match value {
                Evaluated::Value(seen) => match (primitive, self.constant_of(seen)) {
                    (Some(primitive), Ok(constant)) if primitive != Primitive::String => {
                        self.constant_argument(&constant, Some(primitive))?
                    }
                    _ if is_value => unboxed(seen),
                    _ => seen.value.clone(),
                },
                Evaluated::Constant { value, .. } => self.constant_argument(value, primitive)?,
                other => return Err(EvaluationError::IsAType { name: self.type_text(other) }),
            });
        }
        Ok(made)
    }

    /// Whether it is no object of its own, but a number or a struct.
    fn is_value(&self, evaluated: &Evaluated) -> bool {
        match evaluated {
            Evaluated::Constant { value, .. } => !matches!(value, Constant::Null | Constant::String(_)),
            Evaluated::Enum { .. } => true,
            Evaluated::Value(seen) => {
                seen.of.is_value_type() && !seen.is_null() && seen.value.cast::<ReferenceValue>().is_none()
            }
            Evaluated::Type(_) | Evaluated::Namespace(_) => false,
        }
    }

    /// A new object that holds a value.
    fn boxed(&mut self, value: &Evaluated) -> Result<Evaluated> {
        let unsupported = || EvaluationError::NotSupported { what: "such an argument" };
        let (of, bytes) = match value {
            Evaluated::Constant { value, .. } => {
                let name = value.primitive().ok_or_else(unsupported)?.class();
                (self.session.type_by_name(&name, &[]), value.to_bytes())
            }
            Evaluated::Enum { of, value } => (Some(of.clone()), value.to_bytes()),
            Evaluated::Value(seen) => (self.with_definition(&seen.of), seen.bytes()),
            Evaluated::Type(_) | Evaluated::Namespace(_) => (None, None),
        };
        let (of, bytes) = (of.ok_or_else(unsupported)?, bytes.ok_or_else(unsupported)?);
        if of.is_named("System.Nullable`1") {
            return Err(unsupported());
        }
        let class =
            of.definition.as_ref().map(|definition| definition.class.clone()).ok_or_else(unsupported)?;
        let types: Vec<_> = of.arguments.iter().map(|argument| argument.cor.clone()).collect();
        let made = self.evaluate(|eval| eval.new_object_without_constructor(&class, &types))?;
        let made = self.held(made)?;
        let Evaluated::Value(seen) = &made else { return Err(unsupported()) };
        let target = seen.value.cast::<ReferenceValue>().and_then(|reference| reference.dereference().ok());
        let inside =
            target.and_then(|target| target.cast::<BoxValue>()).and_then(|boxed| boxed.object().ok());
        let generic: Com<GenericValue> = inside.and_then(|inside| inside.cast()).ok_or_else(unsupported)?;
        generic.set_bytes(&bytes)?;
        Ok(made)
    }

    /// The type of a parameter.
    fn wanted(&self, callee: &Callee, parameter: &TypeSig) -> Option<TypeInfo> {
        let of_method = callee.types.get(callee.of_type.len()..).unwrap_or_default();
        self.session.type_of_signature(&callee.module, parameter, &callee.of_type, of_method)
    }

    fn constant_argument(&mut self, constant: &Constant, wanted: Option<Primitive>) -> Result<Com<Value>> {
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
                let value = eval.primitive(
                    element_of(wanted)
                        .ok_or(EvaluationError::NotSupported { what: "a decimal as an argument" })?,
                )?;
                let generic: Com<GenericValue> = value.expect("Eval::primitive")?;
                generic.set_bytes(&bytes)?;
                Ok(value)
            }
            (_, None) => Err(EvaluationError::NotSupported { what: "such an argument" }),
        }
    }

    fn value_of_constant(&mut self, constant: &Constant) -> Result<Seen> {
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
        if let Ok(constant) = self.constant_of(seen)
            && !seen.of.is_enum()
            && !matches!(constant, Constant::Null | Constant::String(_) | Constant::Decimal(_))
        {
            return Ok(Evaluated::computed(constant));
        }
        self.held(evaluated)
    }

    /// A handle to an object that stays good while code runs.
    fn held(&self, evaluated: Evaluated) -> Result<Evaluated> {
        let Evaluated::Value(seen) = &evaluated else { return Ok(evaluated) };
        let object = seen.value.cast::<ReferenceValue>().and_then(|reference| reference.dereference().ok());
        let handle = object
            .and_then(|object| object.cast::<HeapValue2>())
            .and_then(|heap| heap.create_handle(STRONG).ok());
        match handle.and_then(|handle| handle.cast::<Value>()) {
            Some(value) => Ok(Evaluated::Value(self.session.values().see(&value)?)),
            None => Ok(evaluated),
        }
    }

    fn thread(&mut self) -> Result<Com<Thread>> {
        self.session.thread(self.at.thread).map_err(EvaluationError::Session)
    }

    /// Begins an evaluation, lets the thread run until it is done, and finds the frame again.
    fn evaluate(
        &mut self,
        begin: impl FnOnce(&Com<Eval2>) -> std::result::Result<(), crate::cor::CorError>,
    ) -> Result<Evaluated> {
        self.runs += 1;
        let until = self.calls_until.unwrap_or_else(Instant::now);
        let thread = self.thread()?;
        let eval = thread.create_eval()?;
        let eval2: Com<Eval2> = eval.expect("Thread::create_eval")?;
        begin(&eval2).map_err(|error| EvaluationError::CannotRun { why: error.code.to_string() })?;
        let ended = self.session.run_evaluation(&thread, &eval, &eval2, until);
        let ended = ended.map_err(EvaluationError::Session)?;
        self.frame = self.session.frame_at(self.at).map_err(EvaluationError::Session)?;
        match ended {
            Ended::TimedOut => Err(EvaluationError::TimedOut),
            Ended::Returned => match eval.result().ok().flatten() {
                Some(value) => Ok(Evaluated::Value(self.session.values().see(&value)?)),
                None => Ok(Evaluated::computed(Constant::Null)),
            },
            Ended::Threw => {
                let seen =
                    eval.result().ok().flatten().and_then(|value| self.session.values().see(&value).ok());
                let exception = seen.map(|seen| self.session.values().brief(&seen, Default::default()));
                Err(EvaluationError::Threw { exception: exception.unwrap_or_else(|| "an exception".into()) })
            }
        }
    }
}

/// What a struct's method takes as `this`: the struct where it is, or the object that holds it.
fn this_of(seen: &Seen) -> Com<Value> {
    let target = seen.value.cast::<ReferenceValue>().and_then(|reference| reference.dereference().ok());
    match target.and_then(|target| target.cast::<BoxValue>()) {
        Some(_) => seen.value.clone(),
        None => unboxed(seen),
    }
}

/// A struct or a number without references and boxes before it.
fn unboxed(seen: &Seen) -> Com<Value> {
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

fn callee(module: Rc<LoadedModule>, method: Method<'_>, of: &TypeInfo) -> Option<Callee> {
    let signature = method.signature().ok()?;
    Some(Callee {
        module,
        token: method.token(),
        types: of.arguments.clone(),
        of_type: of.arguments.clone(),
        parameters: signature.parameters,
        is_static: method.is_static(),
        own_types: method.generic_parameters().len(),
        of_value: of.is_value_type(),
    })
}

/// The number that the debugging interface has for a built-in type.
fn element_of(primitive: Primitive) -> Option<u32> {
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
        Primitive::NInt => element::I,
        Primitive::NUInt => element::U,
        Primitive::Float => element::R4,
        Primitive::Double => element::R8,
        Primitive::Decimal | Primitive::String => return None,
    })
}
