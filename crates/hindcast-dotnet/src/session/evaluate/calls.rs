//! Running code of the program: properties, methods, constructors. Only where the caller allows it.

use std::{rc::Rc, time::Instant};

use super::{
    Evaluated, EvaluationError, Evaluator, Result,
    conversions::{nullable_of, primitive_of},
    making::{element_of, unboxed},
    running::Ended,
};
use crate::{
    cor::{BoxValue, Com, Eval2, ReferenceValue, Thread, Value, element},
    expression::{Argument, Constant, Kind, Node, Primitive, TypeName},
    image::{Method, Parameter, Token, TypeSig},
    modules::LoadedModule,
    session::look::typed,
    values::{Content, Seen, TypeInfo},
};

/// What says how the indexer of a type is called.
const DEFAULT_MEMBER: &str = "System.Reflection.DefaultMemberAttribute";

/// `ParamAttributes.HasDefault`.
const HAS_DEFAULT: u16 = 0x1000;

/// A method that can be run.
#[derive(Clone)]
pub(super) struct Callee {
    pub(super) module: Rc<LoadedModule>,
    pub(super) token: Token,
    /// What stands for the parameters of its type, and then of the method.
    pub(super) types: Vec<TypeInfo>,
    pub(super) parameters: Vec<TypeSig>,
    /// What the parameters are called.
    pub(super) names: Vec<Option<String>>,
    /// What stands for the last parameters where they are left out.
    pub(super) defaults: Vec<Constant>,
    /// Which argument each parameter takes, where it takes one; empty where each takes its own.
    pub(super) places: Vec<Option<usize>>,
    pub(super) of_type: Vec<TypeInfo>,
    /// The type that has it.
    pub(super) of: TypeInfo,
    pub(super) is_static: bool,
    pub(super) is_abstract: bool,
    /// Whether it runs in place of a base type's.
    pub(super) overrides: bool,
    /// Whether it competes with those of other types on equal terms, as operators and extension methods do.
    pub(super) counts_alike: bool,
    /// Whether its last parameter takes any number of arguments.
    pub(super) is_params: bool,
    /// How many parameters the method itself has for types.
    pub(super) own_types: usize,
    /// Whether it is a struct's.
    of_value: bool,
}

impl Callee {
    /// Whether a parameter is where a value is: `ref`, `in` or `out`.
    pub(super) fn takes_places(&self) -> bool {
        self.parameters.iter().any(|of| matches!(of, TypeSig::ByRef(_)))
    }

    /// What stands for the parameters that the method itself has for types.
    pub(super) fn own_type_arguments(&self) -> &[TypeInfo] {
        self.types.get(self.of_type.len()..).unwrap_or_default()
    }
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
        let candidates = self.indexers_of_object(seen);
        if candidates.is_empty() {
            return Err(EvaluationError::NoIndexer { of: seen.of.display() });
        }
        if self.calls_until.is_none() {
            return Err(EvaluationError::NeedsCode { name: "this[]".into() });
        }
        let mut callee = self.best(candidates, "this[]", &keys, &[], false)?;
        self.follow_override(seen, &mut callee);
        self.run(&callee, Some(seen), &keys)
    }

    /// The accessors of a type's indexers.
    pub(super) fn indexers_of(&self, of: &TypeInfo, accessor: &str) -> Vec<Callee> {
        self.methods_of(of, &format!("{accessor}{}", indexer_name(of)))
    }

    pub(super) fn call(&mut self, function: &Node, arguments: &[Argument]) -> Result<Evaluated> {
        let (receiver, name, type_arguments) = match &function.kind {
            Kind::Name { name, type_arguments, .. } => match self.local(&name.text)? {
                // A delegate in a variable.
                Some(delegate) => (Some(delegate), "Invoke".to_owned(), Vec::new()),
                None => (None, name.text.clone(), type_arguments.clone()),
            },
            Kind::Member { of, name, type_arguments } => {
                (Some(self.receiver(of)?), name.text.clone(), type_arguments.clone())
            }
            _ => return Err(EvaluationError::NotSupported { what: "calling a delegate" }),
        };
        if self.calls_until.is_none() {
            return Err(EvaluationError::NeedsCall { name });
        }
        let receiver = receiver.map(|receiver| self.kept(receiver)).transpose()?;
        let values = self.argument_values(arguments)?;
        let names = names_of(arguments);
        // A struct is not on the heap, where it could be kept while arguments were computed.
        let receiver = match (receiver, &function.kind) {
            (Some(Evaluated::Value(seen)), Kind::Member { of, .. }) if seen.value.size().is_err() => {
                Some(self.node(of)?)
            }
            (receiver, _) => receiver,
        };
        let method_types =
            type_arguments.iter().map(|argument| self.type_named(argument)).collect::<Result<Vec<_>>>()?;
        self.call_named(receiver, &name, &values, &names, method_types)
    }

    fn argument_values(&mut self, arguments: &[Argument]) -> Result<Vec<Evaluated>> {
        let mut values = Vec::with_capacity(arguments.len());
        for argument in arguments {
            values.push(self.argument(&argument.value)?);
        }
        values.iter().map(|value| self.fresh(value)).collect()
    }

    pub(super) fn call_named(
        &mut self,
        receiver: Option<Evaluated>,
        name: &str,
        values: &[Evaluated],
        names: &[Option<&str>],
        method_types: Vec<TypeInfo>,
    ) -> Result<Evaluated> {
        if let Some(receiver) = &receiver
            && let Some(nullable) = self.nullable(receiver)
        {
            return self.of_nullable(receiver, nullable, name, values, names);
        }
        let named = receiver.clone();
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
            Some(boxed @ Evaluated::Enum { .. }) => match self.boxed(&boxed)? {
                Evaluated::Value(seen) => (seen.of.clone(), Some(seen)),
                _ => return Err(EvaluationError::NotSupported { what: "such a value" }),
            },
            Some(Evaluated::Nothing) => return Err(EvaluationError::NoValue),
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
            Some(seen) if seen.of.definition.is_some() => self.methods_of_object(seen, name),
            _ => self.methods(&of, name),
        };
        let is_there = !candidates.is_empty();
        let takes_places = candidates.iter().any(Callee::takes_places);
        self.give_types(&mut candidates, values, names, &method_types);
        let mut callee = match self.best(candidates, name, values, names, this.is_none()) {
            Err(error @ EvaluationError::NoOverload { .. }) => {
                // Its own method may be the one that is meant.
                let extended = match named.filter(|_| this.is_some() && !takes_places) {
                    Some(named) => self.call_extension(&named, name, values, names, &method_types)?,
                    None => None,
                };
                let missing = EvaluationError::NoMember { of: of.display(), name: name.to_owned() };
                return extended.ok_or(if is_there { error } else { missing });
            }
            found => found?,
        };
        let this = this.filter(|_| !callee.is_static);
        if let Some(seen) = &this {
            self.follow_override(seen, &mut callee);
        }
        self.run(&callee, this.as_ref(), values)
    }

    /// The method that the object has in place of a virtual one.
    pub(super) fn follow_override(&self, seen: &Seen, callee: &mut Callee) {
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

    pub(super) fn construct(&mut self, of: &TypeName, arguments: &[Argument]) -> Result<Evaluated> {
        if self.calls_until.is_none() {
            return Err(EvaluationError::NeedsCall { name: format!("new {of}") });
        }
        let of = self.type_named(of)?;
        let values = self.argument_values(arguments)?;
        let names = names_of(arguments);
        if of.is_named("System.String") {
            return Err(EvaluationError::NotSupported { what: "`new string`" });
        }
        let own: Vec<Callee> = self.methods_of(&of, ".ctor").into_iter().collect();
        if of.is_value_type() && values.is_empty() && own.iter().all(|callee| !callee.parameters.is_empty()) {
            return self.zeroed(&of);
        }
        let callee = self.best(own, &format!("new {}", of.display()), &values, &names, false)?;
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
            None if matches!(of.element, element::SZ_ARRAY | element::ARRAY) => {
                self.session.type_by_name("System.Array", &[])
            }
            None => self.session.type_by_name(of.full_name_ref()?, &[]),
        }
    }

    pub(super) fn methods_of(&self, of: &TypeInfo, name: &str) -> Vec<Callee> {
        let Some(definition) = &of.definition else { return Vec::new() };
        let Some(type_def) = definition.type_def() else { return Vec::new() };
        type_def
            .methods_named(name)
            .filter_map(|method| callee(definition.module.clone(), method, of))
            .collect()
    }

    pub(super) fn callee(
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
        Ok(match evaluated {
            Evaluated::Value(seen) => {
                let as_type = self.returned(callee);
                Evaluated::Value(Seen { as_type, ..seen })
            }
            other => other,
        })
    }

    /// Whether a method returns where a value is: `ref T`.
    pub(super) fn returns_place(&self, callee: &Callee) -> bool {
        let method = callee.module.assembly().and_then(|assembly| assembly.method(callee.token));
        let signature = method.and_then(|method| method.signature().ok());
        signature.is_some_and(|signature| matches!(signature.returns, TypeSig::ByRef(_)))
    }

    /// The type of what a method returns.
    pub(super) fn returned(&self, callee: &Callee) -> Option<TypeInfo> {
        let method = callee.module.assembly().and_then(|assembly| assembly.method(callee.token))?;
        self.wanted(callee, &method.signature().ok()?.returns)
    }

    fn arguments(&mut self, callee: &Callee, values: &[Evaluated]) -> Result<Vec<Com<Value>>> {
        let optional = callee.parameters.len() - callee.defaults.len();
        let default = |at: usize| callee.defaults.get(at.checked_sub(optional)?).cloned();
        let given = |at: usize| match callee.places.is_empty() {
            true => values.get(at).cloned(),
            false => callee.places.get(at).copied().flatten().and_then(|at| values.get(at).cloned()),
        };
        let mut values: Vec<Evaluated> = (0..callee.parameters.len())
            .filter_map(|at| given(at).or_else(|| default(at).map(Evaluated::computed)))
            .collect();
        for (at, parameter) in callee.parameters.iter().enumerate().filter(|(at, _)| given(*at).is_some()) {
            if let Some(wanted) = self.wanted(callee, parameter)
                && !self.value_converts(&values[at], &wanted)
            {
                // The types say how, or the method would not have been taken.
                let value = self.fresh(&values[at])?;
                let converted = self.defined_cast(&value, &wanted)?.ok_or(EvaluationError::NotSupported {
                    what: "a conversion of an argument in several steps",
                })?;
                values[at] = self.argument_of(converted)?;
            }
        }
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
            let as_struct = primitive_of(&wanted).filter(|of| of.is_number() && element_of(*of).is_none());
            if let Some(of) = as_struct
                && let Ok(constant) = self.constant(value)
            {
                *value = Evaluated::computed(constant.cast(of)?);
            }
            if nullable_of(&wanted).is_some() {
                *value = self.nullable_argument(&wanted, value)?;
                continue;
            }
            if wanted.is_enum()
                && let Evaluated::Constant { value: constant, .. } = value
            {
                let value_of = constant.clone();
                *value = Evaluated::Enum { of: wanted.clone(), value: value_of, declared: None };
            }
            let is_null = matches!(value, Evaluated::Constant { value: Constant::Null, .. });
            if is_null && wanted.is_value_type() {
                // `default`, for a struct.
                *value = self.zeroed(&wanted)?;
            } else if self.is_value(value)
                && (!wanted.is_value_type() || as_struct.is_some() || matches!(value, Evaluated::Enum { .. }))
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
    pub(super) fn wanted(&self, callee: &Callee, parameter: &TypeSig) -> Option<TypeInfo> {
        self.session.type_of_signature(
            &callee.module,
            parameter,
            &callee.of_type,
            callee.own_type_arguments(),
        )
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
            return Err(self.session.why_stuck(&thread));
        }
        let eval = thread.create_eval()?;
        let eval2: Com<Eval2> = eval.expect("Thread::create_eval")?;
        begin(&eval2).map_err(|error| EvaluationError::CannotRun { why: error.code.to_string() })?;
        let ended = self.session.run_evaluation(&thread, &eval, &eval2, until);
        let ended = ended.map_err(EvaluationError::Session)?;
        self.frame = self.session.frame_at(self.at).map_err(EvaluationError::Session)?;
        match ended {
            Ended::TimedOut => Err(EvaluationError::TimedOut),
            Ended::Stuck => Err(self.session.why_stuck(&thread)),
            Ended::Returned => match eval.result().ok().flatten() {
                Some(value) => Ok(Evaluated::Value(self.session.values().see(&value)?)),
                None => Ok(Evaluated::Nothing),
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
        names: method
            .parameter_names(signature.parameters.len())
            .into_iter()
            .map(|name| name.map(str::to_owned))
            .collect(),
        places: Vec::new(),
        is_static: method.is_static(),
        is_abstract: method.is_abstract(),
        overrides: method.is_virtual() && !method.is_new_slot(),
        counts_alike: method.name().is_some_and(|name| name.starts_with("op_")),
        is_params: takes_any_number(method, signature.parameters.len()),
        own_types: method.generic_parameters().len(),
        of_value: of.is_value_type(),
        parameters: signature.parameters,
    })
}

fn takes_any_number(method: Method<'_>, count: usize) -> bool {
    let last = method.parameters().find(|parameter| usize::from(parameter.sequence) == count);
    last.is_some_and(|last| method.assembly().has_attribute(last.token, "System.ParamArrayAttribute"))
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

/// The names that are written before arguments.
pub(super) fn names_of(arguments: &[Argument]) -> Vec<Option<&str>> {
    arguments.iter().map(|argument| argument.name.as_ref().map(|name| name.text.as_str())).collect()
}

/// What the indexer of a type is called in its assembly.
pub(super) fn indexer_name(of: &TypeInfo) -> String {
    let name = of.definition.as_ref().and_then(|definition| {
        let attribute = definition.module.assembly()?.attribute(definition.token, DEFAULT_MEMBER)?;
        attribute.arguments().ok()?.fixed.first()?.as_str().map(str::to_owned)
    });
    name.unwrap_or_else(|| "Item".to_owned())
}
