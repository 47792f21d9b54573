//! The variables of a frame, under the names that the source gives them.

use std::rc::Rc;

use hindcast_core::debug::{
    DebugError, FrameRef, NumberFormat, Reason, ValueLimits, Variable, VariablePage, VariableQuery,
    VariableScope,
};

use super::{Session, hoisted::HoistedScopes, stack::ManagedFrame};
use crate::{
    cor::{Com, CorError, Hresult, Value},
    expression::{Constant, Primitive, Text},
    image::{
        Assembly, Constant as ImageConstant, Field, Spelling, Token, TypeDef, TypeNames, TypeSig,
        pdb::LocalConstant,
    },
    values::{Answer, Content, FieldValue, Seen, TypeInfo, enum_name, tuple_names},
};

/// A variable of a frame.
#[derive(Debug, Clone)]
pub(super) struct Named {
    pub(super) name: String,
    pub(super) value: NamedValue,
    pub(super) is_argument: bool,
    /// What the source calls the items of tuples in its type.
    item_names: Vec<Option<String>>,
    /// What it is declared as.
    pub(super) declared: Option<Declared>,
    /// Whether it is zero, as all statics of its type, and nobody knows whether that is its value.
    pub(super) may_be_unready: bool,
}

/// Whether a type has been initialised.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Readiness {
    /// Its initialiser has run, or runs.
    Ready,
    /// Nothing has used it.
    NotYet,
    /// The runtime does not tell.
    Unknown,
}

/// What a variable is declared as.
#[derive(Debug, Clone)]
pub(super) enum Declared {
    /// In the method of the frame.
    InMethod(TypeSig),
    /// As a field of a type.
    InType(TypeInfo, TypeSig),
    /// As `this` of the type in the source that the frame's method belongs to.
    This,
}

/// Where its value is.
#[derive(Debug, Clone)]
pub(super) enum NamedValue {
    Place(Result<Com<Value>, CorError>),
    /// It has none: the compiler put the value wherever it is used.
    Constant {
        of: ConstantType,
        value: Option<Constant>,
    },
}

/// The type of a constant.
#[derive(Debug, Clone)]
pub(super) struct ConstantType {
    /// As C# writes it.
    pub(super) name: String,
    /// The enum, where it is one.
    pub(super) of_enum: Option<TypeInfo>,
}

impl Session {
    pub(super) fn variables_of(&mut self, query: &VariableQuery) -> Result<VariablePage, DebugError> {
        let frame = self.frame_at(query.frame)?;
        let variables = match query.scope {
            VariableScope::Local => self.named(&frame),
            VariableScope::Arguments => {
                self.named(&frame).into_iter().filter(|variable| variable.is_argument).collect()
            }
            VariableScope::Global => self.statics(&frame),
            VariableScope::Registers => {
                return Err(DebugError::Unsupported(
                    Reason::new("a .NET session has no registers").advise("use the scope `local`"),
                ));
            }
        };
        let wanted =
            |variable: &Named| query.filter.as_ref().is_none_or(|filter| variable.name.contains(filter));
        let variables: Vec<Named> = variables.into_iter().filter(wanted).collect();
        let total = u32::try_from(variables.len()).unwrap_or(u32::MAX);
        let page = variables.iter().skip(query.offset as usize).take(query.limit as usize);
        let _answer = Answer::enter();
        let count = page.len();
        let show = |variable| self.variable(variable, query.limits, NumberFormat::Auto);
        let shown =
            page.enumerate().map(|(at, variable)| Answer::share(count - at, || show(variable))).collect();
        Ok(VariablePage { variables: shown, total })
    }

    fn variable(&self, named: &Named, limits: ValueLimits, format: NumberFormat) -> Variable {
        if named.may_be_unready {
            let known = Named { may_be_unready: false, ..named.clone() };
            let mut variable = self.variable(&known, limits, format);
            variable.value.push_str(" <perhaps not initialised yet>");
            return variable;
        }
        match &named.value {
            NamedValue::Place(Ok(value)) if !named.item_names.is_empty() => match self.values().see(value) {
                Ok(seen) => self.shown(&named.name, &named.with_item_names(seen), limits, format),
                Err(_) => self.values().variable(&named.name, &Ok(value.clone()), limits, format),
            },
            NamedValue::Place(value) => self.values().variable(&named.name, value, limits, format),
            NamedValue::Constant { of, value } => Variable {
                name: named.name.clone(),
                type_name: of.name.clone(),
                value: value
                    .as_ref()
                    .map_or_else(|| "?".into(), |value| self.constant_text(of, value, format)),
                ..Variable::default()
            },
        }
    }

    pub(super) fn constant_text(&self, of: &ConstantType, value: &Constant, format: NumberFormat) -> String {
        let definition = of.of_enum.as_ref().and_then(|of| of.definition.as_ref());
        let name = definition.and_then(|definition| enum_name(definition, value.whole()?));
        name.unwrap_or_else(|| self.values().constant_text(value, format))
    }

    pub(super) fn variable_names(&mut self, prefix: &str) -> Vec<String> {
        let Some(thread) = self.last_stop.as_ref().map(|stop| stop.thread) else { return Vec::new() };
        let Ok(frame) = self.frame_at(FrameRef::of(thread, 0)) else { return Vec::new() };
        let names = self.named(&frame).into_iter().map(|variable| variable.name);
        names.filter(|name| name.starts_with(prefix)).collect()
    }

    /// `this`, arguments and locals, also those that closures and state machines hold; inner scopes first.
    pub(super) fn named(&self, frame: &ManagedFrame) -> Vec<Named> {
        let mut found = Vec::new();
        self.add_locals(frame, &mut found);
        self.add_arguments(frame, &mut found);
        let mut names = std::collections::HashSet::new();
        // An inner variable hides an outer one of the same name.
        found.retain(|variable| names.insert(variable.name.clone()));
        // As they are read: `this`, arguments, locals.
        found.sort_by_key(|variable| (variable.name != "this", !variable.is_argument));
        found
    }

    fn add_locals(&self, frame: &ManagedFrame, found: &mut Vec<Named>) {
        let (Some(pdb), Some(stack_frame)) = (frame.module.pdb(), &frame.frame) else { return };
        let types = local_types(frame).unwrap_or_default();
        for scope in pdb.scopes_at(frame.method, frame.offset).into_iter().rev() {
            for local in &scope.variables {
                let value = stack_frame.local_variable(local.slot.into());
                if local.name.starts_with("CS$<>8__locals") {
                    self.add_captured(value, found);
                } else if !local.is_hidden && !local.name.starts_with("CS$") {
                    let names = pdb.tuple_element_names(local.token).unwrap_or_default();
                    let item_names = names.into_iter().map(|name| name.map(str::to_owned)).collect();
                    let declared = types.get(usize::from(local.slot)).cloned().map(Declared::InMethod);
                    found.push(Named { item_names, declared, ..named(local.name, value, false) });
                }
            }
            found.extend(scope.constants.iter().map(|constant| self.constant(frame, constant)));
        }
    }

    fn constant(&self, frame: &ManagedFrame, constant: &LocalConstant<'_>) -> Named {
        let of = self.constant_type(frame, &constant.constant_type);
        let value = constant.value.as_ref().map(|value| typed(value, &constant.constant_type));
        named_value(constant.name, NamedValue::Constant { of, value })
    }

    fn constant_type(&self, frame: &ManagedFrame, signature: &TypeSig) -> ConstantType {
        let name =
            frame.module.assembly().map_or_else(String::new, |assembly| signature.display(&Names(assembly)));
        let of_enum = match signature {
            TypeSig::ValueType(_) => self.type_of_signature(&frame.module, signature, &[], &[]),
            _ => None,
        };
        ConstantType { name, of_enum: of_enum.filter(|of| of.is_enum()) }
    }

    /// What a closure or a state machine keeps as `this`: that of an async lambda is a closure itself.
    fn add_this(&self, this: Result<Com<Value>, CorError>, found: &mut Vec<Named>) {
        let seen = this.as_ref().ok().and_then(|this| self.values().see(this).ok());
        let definition = seen.and_then(|seen| seen.of.definition.clone());
        let of = definition.as_ref().and_then(|definition| definition.type_def()?.name());
        self.add_this_of(of.unwrap_or_default(), this, found);
    }

    /// `this` of a type with a name; for what the compiler made of lambdas, what they capture.
    fn add_this_of(&self, of: &str, this: Result<Com<Value>, CorError>, found: &mut Vec<Named>) {
        if of.starts_with("<>c__DisplayClass") {
            self.add_captured(this, found);
        } else if !of.starts_with("<>c") {
            found.push(Named { declared: Some(Declared::This), ..named("this", this, true) });
        }
    }

    /// What a closure holds.
    fn add_captured(&self, closure: Result<Com<Value>, CorError>, found: &mut Vec<Named>) {
        let seen = closure.and_then(|closure| self.values().see(&closure));
        let Ok(seen) = seen else { return };
        let Content::Object(object) = &seen.content else { return };
        for field in self.values().fields(object, &seen.of) {
            let definition = field.declared_by.definition.as_ref();
            let assembly = definition.and_then(|definition| definition.module.assembly());
            let item_names =
                assembly.and_then(|assembly| tuple_names(assembly, field.token)).unwrap_or_default();
            match field.raw_name.as_str() {
                "<>4__this" => self.add_this(field.value, found),
                name if name.starts_with("CS$<>8__locals") => self.add_captured(field.value, found),
                name if name.starts_with('<') => {}
                name => {
                    let declared = declared_field(&field);
                    found.push(Named { item_names, declared, ..named(name, field.value, false) });
                }
            }
        }
    }

    fn add_arguments(&self, frame: &ManagedFrame, found: &mut Vec<Named>) {
        let Some(stack_frame) = &frame.frame else {
            if let Some(state_machine) = &frame.state_machine {
                self.add_state_machine(frame, Ok(state_machine.value.clone()), found);
            }
            return;
        };
        let Some(method) = frame.module.assembly().and_then(|assembly| assembly.method(frame.method)) else {
            return;
        };
        let mut index = 0;
        if !method.is_static() {
            let this = stack_frame.argument(0);
            let is_state_machine = frame.module.kickoff_method(frame.method).is_some();
            let declaring = method.declaring_type().and_then(|of| of.name()).unwrap_or_default();
            match is_state_machine {
                true => self.add_state_machine(frame, this, found),
                false => self.add_this_of(declaring, this, found),
            }
            index = 1;
        }
        let parameters = method.signature().map(|signature| signature.parameters).unwrap_or_default();
        let count = parameters.len();
        for (place, name) in method.parameter_names(count).into_iter().enumerate() {
            let value = stack_frame.argument(index);
            match name {
                // A local function gets its closure as a last argument.
                Some(name) if name.starts_with("<>") || name.is_empty() => self.add_captured(value, found),
                Some(name) => {
                    let parameter =
                        method.parameters().find(|parameter| usize::from(parameter.sequence) == place + 1);
                    let names =
                        parameter.and_then(|parameter| tuple_names(method.assembly(), parameter.token));
                    let declared = parameters.get(place).cloned().map(Declared::InMethod);
                    let item_names = names.unwrap_or_default();
                    found.push(Named { item_names, declared, ..named(name, value, true) });
                }
                None => self.add_captured(value, found),
            }
            index += 1;
        }
    }

    /// What an async method or an iterator keeps while it waits.
    fn add_state_machine(
        &self,
        frame: &ManagedFrame,
        this: Result<Com<Value>, CorError>,
        found: &mut Vec<Named>,
    ) {
        let Ok(seen) = this.and_then(|this| self.values().see(&this)) else { return };
        let Content::Object(object) = &seen.content else { return };
        let scopes = HoistedScopes::of(frame);
        let is_in_scope = |number: usize| scopes.has(number);
        let mut this = None;
        for field in self.values().fields(object, &seen.of) {
            match field.raw_name.as_str() {
                "<>4__this" => this = Some(field.value),
                name if name.starts_with("<>8__") => self.add_captured(field.value, found),
                name if name.starts_with("<>") => {}
                name => match hoisted(name) {
                    Some((local, number)) if is_in_scope(number) => {
                        let declared = declared_field(&field);
                        found.push(Named { declared, ..named(local, field.value, false) });
                    }
                    Some(_) => {}
                    None => {
                        let declared = declared_field(&field);
                        found.push(Named { declared, ..named(name, field.value, true) });
                    }
                },
            }
        }
        // What a lambda captures comes last, because its own variables may hide that.
        if let Some(this) = this {
            self.add_this(this, found);
        }
    }

    /// The static fields of the type that a frame's method belongs to.
    fn statics(&self, frame: &ManagedFrame) -> Vec<Named> {
        let Some(of) = self.declaring_type(frame) else { return Vec::new() };
        self.static_fields(&of, Some(frame))
    }

    pub(super) fn static_fields(&self, of: &TypeInfo, frame: Option<&ManagedFrame>) -> Vec<Named> {
        let Some(type_def) = of.definition.as_ref().and_then(|definition| definition.type_def()) else {
            return Vec::new();
        };
        let Some(module) = of.definition.as_ref().map(|definition| &definition.module) else {
            return Vec::new();
        };
        let current = frame;
        let frame = frame.and_then(|frame| frame.frame.as_ref()?.cast());
        let statics = type_def.fields().filter(|field| field.is_static());
        let mut found: Vec<Named> = statics
            .filter_map(|field| {
                let raw = field.name()?;
                let name = crate::values::property_of_backing_field(raw).unwrap_or(raw);
                if name.starts_with('<') {
                    return None;
                }
                let value = match field.constant() {
                    Some(value) => {
                        let signature = field.signature().ok()?;
                        let of = self.type_of_signature(module, &signature, &of.arguments, &[]);
                        let name = of.as_ref().map_or_else(
                            || signature.display(&Names(type_def.assembly())),
                            |of| of.display(),
                        );
                        let of = ConstantType { name, of_enum: of.filter(|of| of.is_enum()) };
                        NamedValue::Constant { of, value: Some(typed(&value, &signature)) }
                    }
                    None => {
                        let value = of.cor.static_field(field.token().0, frame.as_ref());
                        NamedValue::Place(value.and_then(|value| self.static_value(value, of, field)))
                    }
                };
                let item_names = tuple_names(type_def.assembly(), field.token()).unwrap_or_default();
                let declared =
                    field.signature().ok().map(|signature| Declared::InType(of.clone(), signature));
                Some(Named { item_names, declared, ..named_value(name, value) })
            })
            .collect();
        let readiness = self.readiness(of, current);
        if readiness != Readiness::Ready && self.are_all_empty(&found) {
            for named in &mut found {
                match &mut named.value {
                    NamedValue::Place(_) if readiness == Readiness::Unknown => named.may_be_unready = true,
                    // What its fields hold is not what the program will find there.
                    NamedValue::Place(value) => {
                        *value =
                            Err(CorError { call: "Type::static_field", code: Hresult::STATIC_NOT_AVAILABLE });
                    }
                    NamedValue::Constant { .. } => {}
                }
            }
        }
        found
    }

    /// What is in a static field. Older runtimes have structs in boxes, and make those when the type is first used.
    fn static_value(
        &self,
        value: Com<Value>,
        of: &TypeInfo,
        field: Field<'_>,
    ) -> Result<Com<Value>, CorError> {
        if self.values().see(&value).is_ok_and(|seen| seen.is_null())
            && let Some(definition) = &of.definition
            && let Ok(signature) = field.signature()
            && let Some(declared) = self.type_of_signature(&definition.module, &signature, &of.arguments, &[])
            && declared.is_value_type()
        {
            return Err(CorError { call: "Type::static_field", code: Hresult::STATIC_NOT_AVAILABLE });
        }
        Ok(value)
    }

    /// Whether the static fields of a type hold what its initialiser has put there.
    fn readiness(&self, of: &TypeInfo, frame: Option<&ManagedFrame>) -> Readiness {
        let Some(definition) = &of.definition else { return Readiness::Unknown };
        let Some(type_def) = definition.type_def() else { return Readiness::Unknown };
        let Some(initialiser) = type_def.methods_named(".cctor").next() else { return Readiness::Ready };
        let is_generic = !type_def.generic_parameters().is_empty();
        let is_own = |frame: &ManagedFrame| {
            let own = self.declaring_type(frame);
            own.is_some_and(|own| own.spelled(Spelling::Qualified) == of.spelled(Spelling::Qualified))
                && Rc::ptr_eq(&frame.module, &definition.module)
        };
        // Before a method of such a type runs, the initialiser has begun.
        if !type_def.is_before_field_init() && frame.is_some_and(is_own) {
            return Readiness::Ready;
        }
        // The runtime compiles it to run it at once.
        let function = definition.module.module.function_from_token(initialiser.token().0);
        let is_compiled = function.is_ok_and(|function| function.native_code().is_ok());
        let is_ahead = definition.module.assembly().is_none_or(|assembly| assembly.is_precompiled());
        match is_compiled {
            // Each type that stands for a parameter has fields of its own.
            _ if is_generic => Readiness::Unknown,
            true => Readiness::Ready,
            false if is_ahead => Readiness::Unknown,
            false => Readiness::NotYet,
        }
    }

    /// Whether all these places hold nothing but zeros.
    fn are_all_empty(&self, found: &[Named]) -> bool {
        found.iter().all(|named| match &named.value {
            NamedValue::Place(Ok(value)) => self.values().see(value).is_ok_and(|seen| {
                seen.is_null() || seen.bytes().is_some_and(|bytes| bytes.iter().all(|byte| *byte == 0))
            }),
            NamedValue::Place(Err(_)) | NamedValue::Constant { .. } => true,
        })
    }

    /// The type in the source that a frame's method belongs to, with the types that stand for its parameters.
    pub(super) fn declaring_type(&self, frame: &ManagedFrame) -> Option<TypeInfo> {
        let of = declaring_def(frame)?;
        let arguments = self.frame_types(frame);
        let count = of.generic_parameters().len();
        self.type_with(&frame.module, of.token(), arguments.get(..count).unwrap_or_default())
    }

    /// What a `Seen` is called where nothing else names it.
    pub(super) fn shown(
        &self,
        name: &str,
        seen: &Seen,
        limits: ValueLimits,
        format: NumberFormat,
    ) -> Variable {
        self.values().shown(name, seen, limits, format)
    }
}

impl Named {
    /// Its value with the names that the source gives to the items of tuples.
    pub(super) fn with_item_names(&self, mut seen: Seen) -> Seen {
        if !self.item_names.is_empty() {
            let names: Vec<_> = self.item_names.iter().map(Option::as_deref).collect();
            seen.of = seen.of.with_item_names(&names);
        }
        seen
    }
}

/// The type in the source that a frame's method belongs to. What the compiler made of lambdas and the like is within it.
pub(super) fn declaring_def(frame: &ManagedFrame) -> Option<TypeDef<'_>> {
    let mut of = frame.module.assembly()?.method(frame.method)?.declaring_type()?;
    while of.name().is_some_and(|name| name.starts_with('<')) {
        of = of.enclosing()?;
    }
    Some(of)
}

fn named(name: &str, value: Result<Com<Value>, CorError>, is_argument: bool) -> Named {
    Named { is_argument, ..named_value(name, NamedValue::Place(value)) }
}

fn named_value(name: &str, value: NamedValue) -> Named {
    Named {
        name: name.to_owned(),
        value,
        is_argument: false,
        item_names: Vec::new(),
        declared: None,
        may_be_unready: false,
    }
}

/// The types of the locals of a frame's method, by slot.
fn local_types(frame: &ManagedFrame) -> Option<Vec<TypeSig>> {
    let assembly = frame.module.assembly()?;
    let body = assembly.method(frame.method)?.body().ok()??;
    assembly.local_types(body.local_signature?).ok()
}

fn declared_field(field: &FieldValue) -> Option<Declared> {
    let definition = field.declared_by.definition.as_ref()?;
    let signature = definition.module.assembly()?.field(field.token)?.signature().ok()?;
    Some(Declared::InType(field.declared_by.clone(), signature))
}

/// Names types as an assembly does.
struct Names<'a>(&'a Assembly);

impl TypeNames for Names<'_> {
    fn type_name(&self, token: Token) -> Option<String> {
        self.0.type_full_name(token)
    }
}

/// A constant of an assembly or a symbol file, as a value of the type that it is declared with.
pub(super) fn typed(value: &ImageConstant, of: &TypeSig) -> Constant {
    let value = match value {
        ImageConstant::Bool(value) => Constant::Bool(*value),
        ImageConstant::Char(value) => Constant::Char(*value),
        ImageConstant::Int(value) => i32::try_from(*value).map_or(Constant::Long(*value), Constant::Int),
        ImageConstant::UInt(value) => u32::try_from(*value).map_or(Constant::ULong(*value), Constant::UInt),
        ImageConstant::Float(value) => Constant::Float(*value),
        ImageConstant::Double(value) => Constant::Double(*value),
        ImageConstant::String(value) => Constant::String(Text::from(value.as_str())),
        ImageConstant::Decimal { negative, scale, digits } => decimal(*negative, *scale, *digits),
        ImageConstant::Null | ImageConstant::DateTime(_) => Constant::Null,
    };
    let declared = match of {
        TypeSig::Primitive(primitive) => Primitive::of_class(primitive.full_name()),
        _ => None,
    };
    match declared.filter(|of| of.is_whole() && value.primitive().is_some_and(Primitive::is_whole)) {
        Some(primitive) => value.cast(primitive).unwrap_or(value),
        None => value,
    }
}

/// As it lies in memory: flags, the upper 32 bits, the lower 64.
fn decimal(is_negative: bool, scale: u8, digits: u128) -> Constant {
    let flags = u32::from(scale) << 16 | u32::from(is_negative) << 31;
    let mut bytes = flags.to_le_bytes().to_vec();
    bytes.extend(((digits >> 64) as u32).to_le_bytes());
    bytes.extend((digits as u64).to_le_bytes());
    Constant::from_bytes(&bytes, Primitive::Decimal).unwrap_or(Constant::Null)
}

/// `x` and 1 of `<x>5__1`: a local that lives in a state machine.
pub(super) fn hoisted(name: &str) -> Option<(&str, usize)> {
    let (local, number) = name.strip_prefix('<')?.split_once(">5__")?;
    (!local.is_empty()).then(|| Some((local, number.parse().ok()?)))?
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn locals_of_state_machines_have_their_own_names() {
        assert_eq!(hoisted("<total>5__2"), Some(("total", 2)));
        assert_eq!(hoisted("<>1__state"), None);
        assert_eq!(hoisted("plain"), None);
    }
}
