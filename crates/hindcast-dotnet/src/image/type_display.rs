//! Types as C# writes them.

use std::fmt::{self, Write};

use super::signature::{MethodSig, Primitive, TypeSig};
use super::token::Token;
use crate::visible::visible;

/// How long the name of a type may be before the rest is left out.
const MAXIMAL_LENGTH: usize = 16 << 10;

/// Gives names to what signatures mention by number.
pub trait TypeNames {
    /// The full name of a `TypeDef` or `TypeRef`, as reflection writes it: ``Namespace.Outer`1+Inner``.
    fn type_name(&self, token: Token) -> Option<String>;

    /// What the type's parameter with a number is called, or what stands for it.
    fn type_parameter(&self, _number: u32) -> Option<String> {
        None
    }

    /// What the method's parameter with a number is called, or what stands for it.
    fn method_parameter(&self, _number: u32) -> Option<String> {
        None
    }
}

impl<N: TypeNames + ?Sized> TypeNames for &N {
    fn type_name(&self, token: Token) -> Option<String> {
        (**self).type_name(token)
    }

    fn type_parameter(&self, number: u32) -> Option<String> {
        (**self).type_parameter(number)
    }

    fn method_parameter(&self, number: u32) -> Option<String> {
        (**self).method_parameter(number)
    }
}

/// Whether namespaces are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Spelling {
    /// `List<int>`
    Short,
    /// `System.Collections.Generic.List<int>`
    Qualified,
}

impl TypeSig {
    /// The type as C# writes it, without namespaces: `List<int>`, `int[]`, `int?`, `(int, string)`.
    pub fn display(&self, names: &dyn TypeNames) -> String {
        self.spell(names, Spelling::Short)
    }

    /// The type as C# writes it.
    pub fn spell(&self, names: &dyn TypeNames, spelling: Spelling) -> String {
        let mut writer = Writer { out: Bounded(String::new()), names, spelling };
        if writer.sig(self).is_err() {
            writer.out.0.push('…');
        }
        writer.out.0
    }
}

impl MethodSig {
    /// The types of the parameters as C# writes them, with commas between.
    pub fn display_parameters(&self, names: &dyn TypeNames) -> String {
        let parameters: Vec<String> = self.parameters.iter().map(|sig| sig.display(names)).collect();
        parameters.join(", ")
    }
}

/// The C# spelling of a type whose full name reflection wrote: ``Ns.Outer`1+Inner`` with `arguments` is `Outer<int>.Inner`.
pub fn csharp_name(full_name: &str, arguments: &[String], spelling: Spelling) -> String {
    let mut out = Bounded(String::new());
    if write_name(&mut out, full_name, arguments, spelling).is_err() {
        out.0.push('…');
    }
    out.0
}

/// Text that refuses to grow without bound, and can be seen.
struct Bounded(String);

impl Write for Bounded {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        let text = visible(text);
        if self.0.len() + text.len() > MAXIMAL_LENGTH {
            return Err(fmt::Error);
        }
        self.0.push_str(&text);
        Ok(())
    }
}

struct Writer<'a> {
    out: Bounded,
    names: &'a dyn TypeNames,
    spelling: Spelling,
}

impl Writer<'_> {
    fn sig(&mut self, sig: &TypeSig) -> fmt::Result {
        match sig {
            TypeSig::Primitive(primitive) => self.out.write_str(primitive.csharp()),
            TypeSig::Class(token) | TypeSig::ValueType(token) => self.named(*token, &[]),
            TypeSig::GenericInst { definition, arguments, .. } => self.named(*definition, arguments),
            TypeSig::SzArray(_) | TypeSig::Array { .. } => self.array(sig),
            TypeSig::ByRef(target) => {
                self.out.write_str("ref ")?;
                self.sig(target)
            }
            TypeSig::Pointer(target) => {
                self.sig(target)?;
                self.out.write_char('*')
            }
            TypeSig::FunctionPointer(method) => self.function_pointer(method),
            TypeSig::TypeParameter(number) => {
                self.parameter(self.names.type_parameter(*number), "!", *number)
            }
            TypeSig::MethodParameter(number) => {
                self.parameter(self.names.method_parameter(*number), "!!", *number)
            }
            TypeSig::Pinned(target) => self.sig(target),
        }
    }

    fn parameter(&mut self, name: Option<String>, prefix: &str, number: u32) -> fmt::Result {
        match name {
            Some(name) => self.out.write_str(&name),
            None => write!(self.out, "{prefix}{number}"),
        }
    }

    /// C# writes the dimensions of an array of arrays from the outside in: `int[][,]` holds `int[,]`.
    fn array(&mut self, sig: &TypeSig) -> fmt::Result {
        let mut ranks = Vec::new();
        let mut inner = sig;
        loop {
            inner = match inner {
                TypeSig::SzArray(element) => {
                    ranks.push(1);
                    element
                }
                TypeSig::Array { element, rank } => {
                    ranks.push(*rank);
                    element
                }
                _ => break,
            };
        }
        self.sig(inner)?;
        for rank in ranks {
            write!(self.out, "[{}]", ",".repeat(rank.saturating_sub(1) as usize))?;
        }
        Ok(())
    }

    fn named(&mut self, token: Token, arguments: &[TypeSig]) -> fmt::Result {
        let Some(name) = self.names.type_name(token) else {
            return write!(self.out, "?{token}");
        };
        // The names of the arguments are written apart: where they go depends on the name.
        let mut written = Vec::with_capacity(arguments.len());
        for argument in arguments {
            let before = std::mem::replace(&mut self.out, Bounded(String::new()));
            let result = self.sig(argument);
            written.push(std::mem::replace(&mut self.out, before).0);
            result?;
        }
        write_name(&mut self.out, &name, &written, self.spelling)
    }

    fn function_pointer(&mut self, method: &MethodSig) -> fmt::Result {
        self.out.write_str("delegate*<")?;
        for parameter in &method.parameters {
            self.sig(parameter)?;
            self.out.write_str(", ")?;
        }
        self.sig(&method.returns)?;
        self.out.write_char('>')
    }
}

fn write_name(out: &mut Bounded, full_name: &str, arguments: &[String], spelling: Spelling) -> fmt::Result {
    match (full_name, arguments) {
        ("System.Nullable`1", [value]) => return write!(out, "{value}?"),
        ("System.Decimal", []) => return out.write_str("decimal"),
        (_, []) => {
            if let Some(primitive) = Primitive::from_full_name(full_name) {
                return out.write_str(primitive.csharp());
            }
        }
        (_, [_, _, ..]) if full_name.starts_with("System.ValueTuple`") => return write_tuple(out, arguments),
        _ => {}
    }
    let mut left = arguments;
    for (index, part) in full_name.split('+').enumerate() {
        let part = if index == 0 && spelling == Spelling::Short { without_namespace(part) } else { part };
        if index > 0 {
            out.write_char('.')?;
        }
        let (name, arity) = split_arity(part);
        out.write_str(name)?;
        let (own, others) = left.split_at(arity.min(left.len()));
        left = others;
        if !own.is_empty() {
            write!(out, "<{}>", own.join(", "))?;
        } else if arity > 0 {
            // The open type: `List<>`, `Dictionary<,>`.
            write!(out, "<{}>", ",".repeat((arity - 1).min(64)))?;
        }
    }
    // Compilers may leave the arity out of a name.
    if left.is_empty() { Ok(()) } else { write!(out, "<{}>", left.join(", ")) }
}

/// A tuple of more than seven has the others in a tuple in the eighth place.
fn write_tuple(out: &mut Bounded, arguments: &[String]) -> fmt::Result {
    let rest = match arguments {
        [_, _, _, _, _, _, _, rest] => ["(", "ValueTuple<", "System.ValueTuple<"]
            .iter()
            .find_map(|start| rest.strip_prefix(start))
            .and_then(|rest| rest.strip_suffix([')', '>'])),
        _ => None,
    };
    match rest {
        Some(rest) => write!(out, "({}, {rest})", arguments[..7].join(", ")),
        None => write!(out, "({})", arguments.join(", ")),
    }
}

/// The namespace ends at the last dot, but names that compilers make may hold dots in brackets: `<A.B>c__0`.
fn without_namespace(name: &str) -> &str {
    let before = name.find('<').unwrap_or(name.len());
    name[..before].rfind('.').map_or(name, |dot| &name[dot + 1..])
}

fn split_arity(name: &str) -> (&str, usize) {
    name.rsplit_once('`')
        .and_then(|(name, arity)| arity.parse::<u16>().ok().map(|arity| (name, usize::from(arity))))
        .unwrap_or((name, 0))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(full_name: &str, arguments: &[&str], expected: &str) {
        let arguments: Vec<String> = arguments.iter().map(|argument| (*argument).to_owned()).collect();
        assert_eq!(csharp_name(full_name, &arguments, Spelling::Short), expected);
    }

    #[test]
    fn names_are_written_as_csharp_writes_them() {
        check("System.Int32", &[], "int");
        check("System.Decimal", &[], "decimal");
        check("Ns.Type\u{7}`1", &["A\n"], "Type\\a<A\\n>");
        check("System.Collections.Generic.List`1", &["int"], "List<int>");
        check(
            "System.Collections.Generic.Dictionary`2+Enumerator",
            &["int", "A"],
            "Dictionary<int, A>.Enumerator",
        );
        check("N.Outer`1+Inner`1", &["int", "string"], "Outer<int>.Inner<string>");
        check("N.Outer`2", &[], "Outer<,>");
        check("N.Outer+<>c__DisplayClass0_0", &[], "Outer.<>c__DisplayClass0_0");
        check("<A.B>F0__Hidden", &[], "<A.B>F0__Hidden");
        check("System.Nullable`1", &["int"], "int?");
        check("System.ValueTuple`2", &["int", "string"], "(int, string)");
        check("System.ValueTuple`1", &["int"], "ValueTuple<int>");
        check(
            "System.ValueTuple`8",
            &["a", "b", "c", "d", "e", "f", "g", "(h, i)"],
            "(a, b, c, d, e, f, g, h, i)",
        );
    }

    #[test]
    fn the_eighth_of_a_tuple_is_written_like_the_others() {
        let eighth = csharp_name("System.ValueTuple`1", &["h".to_owned()], Spelling::Qualified);
        check(
            "System.ValueTuple`8",
            &["a", "b", "c", "d", "e", "f", "g", &eighth],
            "(a, b, c, d, e, f, g, h)",
        );
    }

    #[test]
    fn a_name_without_end_is_cut_off() {
        let argument = "x".repeat(MAXIMAL_LENGTH);
        let name = csharp_name("N.A`1", &[argument], Spelling::Short);
        assert!(name.ends_with('…') && name.len() <= MAXIMAL_LENGTH + "…".len(), "{}", name.len());
    }
}
