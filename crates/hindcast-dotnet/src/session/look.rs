//! The variables of a frame, under the names that the source gives them.

use hindcast_core::debug::{
    DebugError, FrameRef, NumberFormat, ValueLimits, Variable, VariablePage, VariableQuery, VariableScope,
};

use super::{Session, stack::ManagedFrame};
use crate::{
    cor::{Com, CorError, Value},
    image::{Constant as ImageConstant, pdb::LocalConstant},
    values::{Content, Seen, TypeInfo},
};

/// A variable of a frame.
#[derive(Debug, Clone)]
pub(super) struct Named {
    pub(super) name: String,
    pub(super) value: NamedValue,
    pub(super) is_argument: bool,
}

/// Where its value is.
#[derive(Debug, Clone)]
pub(super) enum NamedValue {
    Place(Result<Com<Value>, CorError>),
    /// It has none: the compiler put the value wherever it is used.
    Constant { of: String, value: Option<ImageConstant> },
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
                    "a .NET session has no registers · hint: use the scope `local`".into(),
                ));
            }
        };
        let wanted = |variable: &Named| query.filter.as_ref().is_none_or(|filter| variable.name.contains(filter));
        let variables: Vec<Named> = variables.into_iter().filter(wanted).collect();
        let total = u32::try_from(variables.len()).unwrap_or(u32::MAX);
        let page = variables.iter().skip(query.offset as usize).take(query.limit as usize);
        let shown = page.map(|variable| self.variable(variable, query.limits, NumberFormat::Auto)).collect();
        Ok(VariablePage { variables: shown, total })
    }

    fn variable(&self, named: &Named, limits: ValueLimits, format: NumberFormat) -> Variable {
        match &named.value {
            NamedValue::Place(value) => self.values().variable(&named.name, value, limits, format),
            NamedValue::Constant { of, value } => Variable {
                name: named.name.clone(),
                type_name: of.clone(),
                value: value.as_ref().map_or_else(|| "?".into(), |value| value.to_string()),
                ..Variable::default()
            },
        }
    }

    pub(super) fn variable_names(&mut self, prefix: &str) -> Vec<String> {
        let Some(thread) = self.last_stop.as_ref().map(|stop| stop.thread) else { return Vec::new() };
        let Ok(frame) = self.frame_at(FrameRef { thread, index: 0 }) else { return Vec::new() };
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
        for scope in pdb.scopes_at(frame.method, frame.offset).into_iter().rev() {
            for local in &scope.variables {
                let value = stack_frame.local_variable(local.slot.into());
                if local.name.starts_with("CS$<>8__locals") {
                    self.add_captured(value, found);
                } else if !local.is_hidden && !local.name.starts_with("CS$") {
                    let value = NamedValue::Place(value);
                    found.push(Named { name: local.name.to_owned(), value, is_argument: false });
                }
            }
            found.extend(scope.constants.iter().map(|constant| self.constant(frame, constant)));
        }
    }

    fn constant(&self, frame: &ManagedFrame, constant: &LocalConstant<'_>) -> Named {
        struct Names<'a>(&'a crate::image::Assembly);
        impl crate::image::TypeNames for Names<'_> {
            fn type_name(&self, token: crate::image::Token) -> Option<String> {
                self.0.type_full_name(token)
            }
        }
        let assembly = frame.module.assembly();
        let of = assembly.map_or_else(String::new, |assembly| constant.constant_type.display(&Names(assembly)));
        let value = NamedValue::Constant { of, value: constant.value.clone() };
        Named { name: constant.name.to_owned(), value, is_argument: false }
    }

    /// What a closure holds.
    fn add_captured(&self, closure: Result<Com<Value>, CorError>, found: &mut Vec<Named>) {
        let seen = closure.and_then(|closure| self.values().see(&closure));
        let Ok(seen) = seen else { return };
        let Content::Object(object) = &seen.content else { return };
        for field in self.values().fields(object, &seen.of) {
            match field.raw_name.as_str() {
                "<>4__this" => found.push(named("this", field.value, true)),
                name if name.starts_with("CS$<>8__locals") => self.add_captured(field.value, found),
                name if name.starts_with('<') => {}
                name => found.push(named(name, field.value, false)),
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
        let Some(method) = frame.module.assembly().and_then(|assembly| assembly.method(frame.method)) else { return };
        let mut index = 0;
        if !method.is_static() {
            let this = stack_frame.argument(0);
            let is_state_machine = frame.module.pdb().is_some_and(|pdb| pdb.kickoff_method(frame.method).is_some());
            let declaring = method.declaring_type().and_then(|of| of.name()).unwrap_or_default();
            if is_state_machine {
                self.add_state_machine(frame, this, found);
            } else if declaring.starts_with("<>c__DisplayClass") {
                self.add_captured(this, found);
            } else if !declaring.starts_with("<>c") {
                found.push(named("this", this, true));
            }
            index = 1;
        }
        let count = method.signature().map_or(0, |signature| signature.parameters.len());
        for name in method.parameter_names(count) {
            let value = stack_frame.argument(index);
            match name {
                // A local function gets its closure as a last argument.
                Some(name) if name.starts_with("<>") || name.is_empty() => self.add_captured(value, found),
                Some(name) => found.push(named(name, value, true)),
                None => self.add_captured(value, found),
            }
            index += 1;
        }
    }

    /// What an async method or an iterator keeps while it waits.
    fn add_state_machine(&self, frame: &ManagedFrame, this: Result<Com<Value>, CorError>, found: &mut Vec<Named>) {
        let Ok(seen) = this.and_then(|this| self.values().see(&this)) else { return };
        let Content::Object(object) = &seen.content else { return };
        let scopes = frame.module.pdb().and_then(|pdb| pdb.hoisted_scopes(frame.method).ok()).unwrap_or_default();
        let is_in_scope = |number: usize| match number.checked_sub(1).and_then(|at| scopes.get(at)) {
            Some(scope) => scope.il.contains(&frame.offset),
            None => true,
        };
        for field in self.values().fields(object, &seen.of) {
            match field.raw_name.as_str() {
                "<>4__this" => found.push(named("this", field.value, true)),
                name if name.starts_with("<>8__") => self.add_captured(field.value, found),
                name if name.starts_with("<>") => {}
                name => match hoisted(name) {
                    Some((local, number)) if is_in_scope(number) => found.push(named(local, field.value, false)),
                    Some(_) => {}
                    None => found.push(named(name, field.value, true)),
                },
            }
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
        let frame = frame.and_then(|frame| frame.frame.as_ref()?.cast());
        let statics = type_def.fields().filter(|field| field.is_static());
        statics
            .filter_map(|field| {
                let raw = field.name()?;
                let name = crate::values::property_of_backing_field(raw).unwrap_or(raw);
                if name.starts_with('<') {
                    return None;
                }
                let value = match field.constant() {
                    Some(value) => NamedValue::Constant { of: of.display(), value: Some(value) },
                    None => NamedValue::Place(of.cor.static_field(field.token().0, frame.as_ref())),
                };
                Some(Named { name: name.to_owned(), value, is_argument: false })
            })
            .collect()
    }

    /// The type in the source that a frame's method belongs to, with the types that stand for its parameters.
    pub(super) fn declaring_type(&self, frame: &ManagedFrame) -> Option<TypeInfo> {
        let assembly = frame.module.assembly()?;
        let mut of = assembly.method(frame.method)?.declaring_type()?;
        while of.name().is_some_and(|name| name.starts_with('<')) {
            of = of.enclosing()?;
        }
        let arguments = self.frame_types(frame);
        let count = of.generic_parameters().len();
        self.type_with(&frame.module, of.token(), arguments.get(..count).unwrap_or_default())
    }

    /// What a `Seen` is called where nothing else names it.
    pub(super) fn shown(&self, name: &str, seen: &Seen, limits: ValueLimits, format: NumberFormat) -> Variable {
        self.values().shown(name, seen, limits, format)
    }
}

fn named(name: &str, value: Result<Com<Value>, CorError>, is_argument: bool) -> Named {
    Named { name: name.to_owned(), value: NamedValue::Place(value), is_argument }
}

/// `x` and 1 of `<x>5__1`: a local that lives in a state machine.
fn hoisted(name: &str) -> Option<(&str, usize)> {
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
