//! Properties that can be read without running code: those that only return a field or a constant.

use crate::{
    expression::Constant,
    image::{MemberSig, Method, Operand, Primitive, TypeSig},
};

/// What a method returns that does nothing else.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Returned {
    /// A field of `this`.
    Field(String),
    Constant(Constant),
}

/// What a method returns, where it does nothing else. Compilers without optimization put jumps and a local in between.
pub(crate) fn returned_by(method: Method<'_>) -> Option<Returned> {
    if method.is_abstract() {
        return None;
    }
    let body = method.body().ok()??;
    if !body.clauses.is_empty() {
        return None;
    }
    let returns = method.signature().ok()?.returns;
    let mut found = None;
    let mut has_this = false;
    for instruction in body.instructions().take(12) {
        let instruction = instruction.ok()?;
        match (instruction.name, &instruction.operand) {
            ("nop" | "stloc.0" | "ldloc.0", _) => {}
            ("br.s", Operand::Target(target)) if *target == instruction.end => {}
            ("ldarg.0", _) if !has_this && !method.is_static() => has_this = true,
            ("ldfld", Operand::Token(token)) if has_this && found.is_none() => {
                let field = method.assembly().member(*token)?;
                let MemberSig::Field(held) = field.signature else { return None };
                // A cast between numbers or enums of one size leaves no instruction. Objects are what they are.
                if held != returns && [&held, &returns].into_iter().any(is_plain_value) {
                    return None;
                }
                found = Some(Returned::Field(field.name));
            }
            ("ldstr", Operand::Token(token)) if !has_this && found.is_none() => {
                let text = method.assembly().user_string(*token)?;
                found = Some(Returned::Constant(Constant::String(text.as_str().into())));
            }
            (name, operand) if !has_this && found.is_none() && name.starts_with("ldc.i4") => {
                found = Some(Returned::Constant(small_constant(name, operand, &returns)?));
            }
            ("ret", _) => return found,
            _ => return None,
        }
    }
    None
}

fn is_plain_value(of: &TypeSig) -> bool {
    match of {
        TypeSig::Primitive(primitive) => !matches!(primitive, Primitive::String | Primitive::Object),
        TypeSig::ValueType(_) => true,
        _ => false,
    }
}

/// The field of `this` that a setter stores its value in, where it does nothing else.
pub(crate) fn stored_by(method: Method<'_>) -> Option<String> {
    if method.is_abstract() || method.is_static() {
        return None;
    }
    let body = method.body().ok()??;
    let mut steps = Vec::new();
    for instruction in body.instructions().take(8) {
        let instruction = instruction.ok()?;
        match (instruction.name, &instruction.operand) {
            ("nop", _) => {}
            ("stfld", Operand::Token(token)) if steps == ["ldarg.0", "ldarg.1"] => {
                let field = method.assembly().member(*token)?.name;
                let end = body.instructions().filter_map(Result::ok).last()?;
                return (end.name == "ret" && body.instructions().count() <= 6).then_some(field);
            }
            (name, _) => steps.push(name),
        }
    }
    None
}

/// The number that an instruction loads, as a method with this result returns it.
fn small_constant(name: &str, operand: &Operand, returns: &TypeSig) -> Option<Constant> {
    let number = match (name.strip_prefix("ldc.i4")?, operand) {
        (".m1" | ".M1", _) => -1,
        ("" | ".s", Operand::Int(number)) => i32::try_from(*number).ok()?,
        (digit, _) => digit.strip_prefix('.')?.parse().ok()?,
    };
    match returns {
        TypeSig::Primitive(Primitive::Int32) => Some(Constant::Int(number)),
        TypeSig::Primitive(Primitive::Boolean) => Some(Constant::Bool(number != 0)),
        _ => None,
    }
}
