//! Running code of the program: properties, methods, constructors. Only where the caller allows it.

use std::{rc::Rc, time::Instant};

use super::{
    Evaluated, EvaluationError, Evaluator, Result,
    making::{element_of, unboxed},
    running::Ended,
};
use crate::{
    cor::{BoxValue, Com, Eval2, ReferenceValue, Thread, Value},
    expression::{Argument, Constant, Kind, Node, Primitive, TypeName, implicitly_converts},
    image::{Method, Parameter, Primitive as ImagePrimitive, Token, TypeSig},
    modules::LoadedModule,
    session::look::typed,
    values::{Content, Seen, TypeInfo},
};

/// `ParamAttributes.HasDefault`.
const HAS_DEFAULT: u16 = 0x1000;

/// A method that can be run.
pub(super) struct Callee {
    module: Rc<LoadedModule>,
    token: Token,
    /// What stands for the parameters of its type, and then of the method.
    types: Vec<TypeInfo>,
    parameters: Vec<TypeSig>,
    /// What stands for the last parameters where they are left out.
    defaults: Vec<Constant>,
    of_type: Vec<TypeInfo>,
    /// The type that has it.
    of: TypeInfo,
    is_static: bool,
    /// How many parameters the method itself has for types.
    own_types: usize,
    /// Whether it is a struct's.
    of_value: bool,
}

impl Evaluator<'_> {
    /// A property that must be computed, by the type whose getter runs.
    pub(super) fn property(&mut self, seen: &Seen, of: &TypeInfo, name: &str) -> Result<Evaluated> {
        let getter = of.definition.as_ref().and_then(|definition| {
            let property = definition.type_def()?.property_named(name)?;
            Some((definition.module.clone(), property.getter()?.token()))
        });
        let Some((module, token)) = getter else {
            return Err(EvaluationError::NoMember { of: of.display(), name: name.to_owned() });
        };
        if self.calls_until.is_none() {
            return Err(EvaluationError::NeedsCode { name: name.to_owned() });
        }
        let callee = self.callee(module, token, of, Vec::new())?;
        self.run(&callee, Some(seen), &[])
    }

    /// Runs the setter of a property.
    pub(super) fn set_property(
        &mut self,
        receiver: &Seen,
        of: &TypeInfo,
        setter: Token,
        name: &str,
        value: &Evaluated,
    ) -> Result<()> {
        let module = of.definition.as_ref().map(|definition| definition.module.clone());
        let Some(module) = module.filter(|_| self.calls_until.is_some()) else {
            return Err(EvaluationError::NeedsSetter { name: name.to_owned() });
        };
        let callee = self.callee(module, setter, of, Vec::new())?;
        let values = std::slice::from_ref(value);
        let callee = self.best(vec![callee], name, values, false)?;
        self.run(&callee, Some(receiver), values).map(drop)
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
        let types = self.session.values().member_types(seen);
        let candidates: Vec<_> = types.iter().flat_map(|of| self.methods_of(of, "get_Item")).collect();
        if candidates.is_empty() {
            return Err(EvaluationError::NoIndexer { of: seen.of.display() });
        }
        let mut callee = self.best(candidates, "this[]", &keys, false)?;
        self.follow_override(seen, &mut callee);
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
            values.push(self.argument(&argument.value)?);
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

    pub(super) fn call_named(
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
        let mut candidates = match &this {
            Some(seen) if seen.of.definition.is_some() => self
                .session
                .values()
                .member_types(seen)
                .iter()
                .flat_map(|of| self.methods_of(of, name))
                .collect(),
            _ => self.methods(&of, name),
        };
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
        let mut callee = self.best(candidates, name, values, this.is_none())?;
        let this = this.filter(|_| !callee.is_static);
        if let Some(seen) = &this {
            self.follow_override(seen, &mut callee);
        }
        self.run(&callee, this.as_ref(), values)
    }

    /// The method that the object has in place of a virtual one.
    fn follow_override(&self, seen: &Seen, callee: &mut Callee) {
        let method = callee.module.assembly().and_then(|assembly| assembly.method(callee.token));
        let found = method.and_then(|method| self.session.values().overrider(seen, &callee.of, method));
        let Some((of, token)) = found else { return };
        let Some(module) = of.definition.as_ref().map(|definition| definition.module.clone()) else { return };
        let method_types = callee.types[callee.of_type.len()..].to_vec();
        if let Ok(found) = self.callee(module, token, &of, method_types) {
            *callee = found;
        }
    }

    /// Whether the object has another method in place of one that `base` means: the runtime would run that.
    fn is_overridden(&self, callee: &Callee, this: &Seen) -> bool {
        let method = callee.module.assembly().and_then(|assembly| assembly.method(callee.token));
        let as_object = Seen { is_base: false, ..this.clone() };
        let values = self.session.values();
        this.is_base && method.is_some_and(|it| values.overrider(&as_object, &callee.of, it).is_some())
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
            values.push(self.argument(&argument.value)?);
        }
        let own: Vec<Callee> = self.methods_of(&of, ".ctor").into_iter().collect();
        let callee = self.best(own, &format!("new {}", of.display()), &values, false)?;
        let arguments = self.arguments(&callee, &values)?;
        let types: Vec<_> = callee.types.iter().map(|of| of.cor.clone()).collect();
        let function = callee.module.module.function_from_token(callee.token.0)?;
        self.evaluate(|eval| eval.new_object(&function, &types, &arguments))
    }

    /// Methods of a name, the most derived first.
    pub(super) fn methods(&self, of: &TypeInfo, name: &str) -> Vec<Callee> {
        let Some(of) = self.with_definition(of) else { return Vec::new() };
        let types = of.with_bases(&self.session.modules);
        types.iter().flat_map(|of| self.methods_of(of, name)).collect()
    }

    /// The runtime has no class for built-in types, but the framework has.
    pub(super) fn with_definition(&self, of: &TypeInfo) -> Option<TypeInfo> {
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
    pub(super) fn best(
        &self,
        candidates: Vec<Callee>,
        name: &str,
        values: &[Evaluated],
        only_static: bool,
    ) -> Result<Callee> {
        let rank = |callee: &Callee| -> Option<u32> {
            let left_out = callee.parameters.len().checked_sub(values.len())?;
            if left_out > callee.defaults.len() || only_static && !callee.is_static {
                return None;
            }
            let fits = callee.parameters.iter().zip(values);
            let fits = fits.map(|(parameter, value)| self.fit(callee, parameter, value)).sum::<Option<u32>>();
            Some(fits? + u32::from(left_out > 0))
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
        let declared = match value {
            Evaluated::Value(seen) if !seen.is_null() => Some(self.static_type(seen)),
            _ => None,
        };
        let is_object = declared.as_ref().is_some_and(|of| of.is_named("System.Object"));
        let wanted = match parameter {
            TypeSig::Primitive(ImagePrimitive::Object) => return Some(if is_object { 0 } else { 50 }),
            // They would need a place to write to.
            TypeSig::ByRef(_) => return None,
            other => self.wanted(callee, other)?,
        };
        if wanted.is_named("System.Object") {
            return Some(if is_object { 0 } else { 50 });
        }
        // What only the object tells comes last, so that overloads are chosen as the compiler does.
        if declared.as_ref().is_some_and(|of| !self.is_one(of, &wanted) && of.primitive().is_none()) {
            let Evaluated::Value(seen) = value else { return None };
            return self.is_a(seen, &wanted).then_some(60);
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
    pub(super) fn run(
        &mut self,
        callee: &Callee,
        this: Option<&Seen>,
        values: &[Evaluated],
    ) -> Result<Evaluated> {
        if this.is_some_and(|seen| self.is_overridden(callee, seen)) {
            return Err(EvaluationError::OverriddenBase { of: callee.of.display() });
        }
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
        let evaluated = self.evaluate(|eval| eval.call(&function, &types, &arguments))?;
        let method = callee.module.assembly().and_then(|assembly| assembly.method(callee.token));
        let returns = method.and_then(|method| method.signature().ok()).map(|signature| signature.returns);
        Ok(match evaluated {
            Evaluated::Value(seen) => {
                let as_type = returns.and_then(|returns| self.wanted(callee, &returns));
                Evaluated::Value(Seen { as_type, ..seen })
            }
            other => other,
        })
    }

    fn arguments(&mut self, callee: &Callee, values: &[Evaluated]) -> Result<Vec<Com<Value>>> {
        let given = values.iter().cloned();
        let left_out = callee.parameters.len().saturating_sub(values.len());
        let defaults = callee.defaults[callee.defaults.len().saturating_sub(left_out)..].iter().cloned();
        let values: Vec<Evaluated> = given.chain(defaults.map(Evaluated::computed)).collect();
        let mut in_program = Vec::with_capacity(values.len());
        // Making a string lets the program run, after which what was made for the call before is good no more.
        for value in &values {
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
            let to_decimal = wanted.is_named("System.Decimal");
            if to_decimal && let Ok(constant) = self.constant(value) {
                *value = Evaluated::computed(constant.cast(Primitive::Decimal)?);
            }
            if wanted.is_enum()
                && let Evaluated::Constant { value: constant, .. } = value
            {
                *value = Evaluated::Enum { of: wanted.clone(), value: constant.clone() };
            }
            let is_null = matches!(value, Evaluated::Constant { value: Constant::Null, .. });
            if is_null && wanted.is_value_type() {
                // `default`, for a struct.
                *value = self.zeroed(&wanted)?;
            } else if self.is_value(value)
                && (!wanted.is_value_type() || to_decimal || matches!(value, Evaluated::Enum { .. }))
            {
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
                    (Some(primitive), Ok(constant)) if element_of(primitive).is_some() => {
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

    /// The type of a parameter.
    fn wanted(&self, callee: &Callee, parameter: &TypeSig) -> Option<TypeInfo> {
        let of_method = callee.types.get(callee.of_type.len()..).unwrap_or_default();
        self.session.type_of_signature(&callee.module, parameter, &callee.of_type, of_method)
    }

    pub(super) fn thread(&mut self) -> Result<Com<Thread>> {
        self.session.thread(self.at.thread).map_err(EvaluationError::Session)
    }

    /// Begins an evaluation, lets the thread run until it is done, and finds the frame again.
    pub(super) fn evaluate(
        &mut self,
        begin: impl FnOnce(&Com<Eval2>) -> std::result::Result<(), crate::cor::CorError>,
    ) -> Result<Evaluated> {
        self.runs += 1;
        let until = self.calls_until.unwrap_or_else(Instant::now);
        let thread = self.thread()?;
        if self.session.is_stuck(&thread) {
            return Err(EvaluationError::Stuck);
        }
        let eval = thread.create_eval()?;
        let eval2: Com<Eval2> = eval.expect("Thread::create_eval")?;
        begin(&eval2).map_err(|error| EvaluationError::CannotRun { why: error.code.to_string() })?;
        let ended = self.session.run_evaluation(&thread, &eval, &eval2, until);
        let ended = ended.map_err(EvaluationError::Session)?;
        self.frame = self.session.frame_at(self.at).map_err(EvaluationError::Session)?;
        match ended {
            Ended::TimedOut => Err(EvaluationError::TimedOut),
            Ended::Stuck => Err(EvaluationError::Stuck),
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

fn callee(module: Rc<LoadedModule>, method: Method<'_>, of: &TypeInfo) -> Option<Callee> {
    let signature = method.signature().ok()?;
    Some(Callee {
        module,
        token: method.token(),
        types: of.arguments.clone(),
        of_type: of.arguments.clone(),
        of: of.clone(),
        defaults: defaults_of(method, &signature.parameters),
        parameters: signature.parameters,
        is_static: method.is_static(),
        own_types: method.generic_parameters().len(),
        of_value: of.is_value_type(),
    })
}

/// What the last parameters are where a caller leaves them out.
fn defaults_of(method: Method<'_>, parameters: &[TypeSig]) -> Vec<Constant> {
    let default = |place: usize| {
        let of = parameters.get(place)?;
        let is_it = |parameter: &Parameter<'_>| usize::from(parameter.sequence) == place + 1;
        let token = method.parameters().find(is_it).filter(|it| it.flags & HAS_DEFAULT != 0)?.token;
        Some(typed(&method.assembly().constant(token)?, of))
    };
    let mut defaults: Vec<_> = (0..parameters.len()).rev().map_while(default).collect();
    defaults.reverse();
    defaults
}
