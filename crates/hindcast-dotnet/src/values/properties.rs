//! Properties that can be read without running code: those that only return a field.

use crate::{
    cor::{Com, Value},
    image::{Method, Operand},
};

use super::seen::{Seen, Values};

impl Values<'_> {
    /// The field that a property returns, where its getter does nothing else.
    pub(crate) fn field_behind_property(&self, seen: &Seen, name: &str) -> Option<Com<Value>> {
        for declared_by in seen.of.with_bases(self.modules) {
            let Some(definition) = &declared_by.definition else { continue };
            let Some(property) = definition.type_def().and_then(|of| of.property_named(name)) else { continue };
            return self.field(seen, &returned_field(property.getter()?)?);
        }
        None
    }
}

/// The name of the field of `this` that a method returns, where it does nothing else. Compilers without optimization put jumps and
/// a local in between.
pub(crate) fn returned_field(method: Method<'_>) -> Option<String> {
    if method.is_static() || method.is_abstract() {
        return None;
    }
    let body = method.body().ok()??;
    if !body.clauses.is_empty() {
        return None;
    }
    let mut field = None;
    let mut has_this = false;
    for instruction in body.instructions().take(12) {
        let instruction = instruction.ok()?;
        match (instruction.name, &instruction.operand) {
            ("nop" | "stloc.0" | "ldloc.0", _) => {}
            ("br.s", Operand::Target(target)) if *target == instruction.end => {}
            ("ldarg.0", _) if !has_this => has_this = true,
            ("ldfld", Operand::Token(token)) if has_this && field.is_none() => {
                field = Some(method.assembly().member(*token)?.name);
            }
            ("ret", _) => return field,
            _ => return None,
        }
    }
    None
}
