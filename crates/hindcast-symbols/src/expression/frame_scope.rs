//! The scope of a frame.

use std::{cell::OnceCell, sync::Arc};

use super::{Global, Register, RegisterKind, Scope};
use crate::{
    FrameContext, GlobalName, InlineFrame, Memory, Symbols, VariableInfo, Viewpoint,
    types::{Language, Types},
    value::{DerivedTypes, Placed, register_name},
};

/// What a frame's expressions see: its variables, then those that are always there, and its registers.
pub struct FrameScope<'a> {
    symbols: &'a Symbols,
    types: &'a DerivedTypes<'a>,
    level: &'a InlineFrame,
    frame: &'a dyn FrameContext,
    variables: OnceCell<Vec<VariableInfo>>,
}

impl<'a> FrameScope<'a> {
    /// Of a physical frame, and of which of the functions that are inlined in it.
    pub fn new(
        symbols: &'a Symbols,
        types: &'a DerivedTypes<'a>,
        level: &'a InlineFrame,
        frame: &'a dyn FrameContext,
    ) -> Self {
        Self { symbols, types, level, frame, variables: OnceCell::new() }
    }

    fn variables(&self) -> &[VariableInfo] {
        self.variables.get_or_init(|| self.symbols.variables(self.level))
    }
}

impl Scope for FrameScope<'_> {
    fn local(&self, name: &str) -> Option<Placed> {
        let variable = visible(self.variables(), name)?;
        Some(Placed::in_frame(self.symbols, self.types, variable, self.frame))
    }

    fn global(&self, name: &str) -> Option<Global> {
        Global::named(self.symbols, name, self.level, self.frame)
    }

    fn register(&self, name: &str) -> Option<Register> {
        let (dwarf, offset, size) = register_part(name)?;
        let whole = self.frame.register(dwarf)?;
        let end = size.map_or(whole.len(), |size| offset + size);
        let kind = match dwarf {
            7 | 16 if size.is_none() => RegisterKind::Address,
            17..33 | 67..83 => RegisterKind::Vector,
            33..41 => RegisterKind::Float,
            _ => RegisterKind::Whole,
        };
        Some(Register {
            name: Arc::from(register_name(dwarf)?),
            offset: offset as u64,
            bytes: whole.get(offset..end)?.to_vec(),
            kind,
        })
    }

    fn language(&self) -> Language {
        self.level.language
    }

    fn types(&self) -> &DerivedTypes<'_> {
        self.types
    }

    fn memory(&self) -> &dyn Memory {
        self.frame.memory()
    }

    fn names(&self) -> Vec<String> {
        let globals = self.symbols.globals(self.level);
        let all = self.variables().iter().cloned().chain(globals);
        all.map(|variable| variable.name).collect()
    }
}

/// The variable that a name means among those of a frame, inner ones first.
pub fn visible<'v>(variables: &'v [VariableInfo], name: &str) -> Option<&'v VariableInfo> {
    let mut named = variables.iter().filter(|variable| variable.name == name);
    // One that is not declared yet does not hide an outer one.
    let ready = named.clone().find(|variable| !variable.declared_later);
    ready.or_else(|| named.next())
}

impl Global {
    /// What is always there under a name, as code at `from` sees it.
    pub fn named(
        symbols: &Symbols,
        name: &str,
        from: impl Into<Viewpoint>,
        frame: &dyn FrameContext,
    ) -> Option<Self> {
        Some(match symbols.find_name(name, from)? {
            GlobalName::Variable(variable) => Self::Variable(Placed::variable(symbols, &variable, frame)),
            GlobalName::Enumerator { type_ref, value } => {
                let size = symbols.get(type_ref)?.size.unwrap_or(4).min(16) as usize;
                Self::Enumerator(Placed::computed(type_ref, &value.to_le_bytes()[..size]))
            }
            GlobalName::Function { type_ref, address } => Self::Function(Placed::memory(type_ref, address)),
        })
    }
}

/// The DWARF number of a register, and which bytes of it, unless all: `eax` is the lower half of `rax`.
pub fn register_part(name: &str) -> Option<(u16, usize, Option<usize>)> {
    let name = match name {
        "pc" | "ip" => "rip",
        "sp" => "rsp",
        "fp" => "rbp",
        "eflags" | "flags" => "rflags",
        other => other,
    };
    if let Some(dwarf) = (0..126).find(|number| register_name(*number).as_deref() == Some(name)) {
        return Some((dwarf, 0, None));
    }
    let whole = |name: &str| (0..17).find(|number| register_name(*number).as_deref() == Some(name));
    let numbered = name.strip_suffix(['d', 'w', 'b']).filter(|part| part.starts_with('r'));
    if let Some(dwarf) = numbered.and_then(whole) {
        let size = match name.as_bytes().last() {
            Some(b'd') => 4,
            Some(b'w') => 2,
            _ => 1,
        };
        return Some((dwarf, 0, Some(size)));
    }
    match name.as_bytes() {
        // eax, ax; al and ah; sil.
        [b'e', rest @ ..] if rest.len() == 2 => Some((whole(&format!("r{}", &name[1..]))?, 0, Some(4))),
        [letter @ b'a'..=b'd', half @ (b'l' | b'h')] => {
            let dwarf = whole(&format!("r{}x", char::from(*letter)))?;
            Some((dwarf, usize::from(*half == b'h'), Some(1)))
        }
        [_, _] => Some((whole(&format!("r{name}"))?, 0, Some(2))),
        [_, _, b'l'] => Some((whole(&format!("r{}", &name[..2]))?, 0, Some(1))),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_of_registers_go_by_all_their_names() {
        assert_eq!(register_part("rax"), Some((0, 0, None)));
        assert_eq!(register_part("eax"), Some((0, 0, Some(4))));
        assert_eq!(register_part("ax"), Some((0, 0, Some(2))));
        assert_eq!(register_part("ah"), Some((0, 1, Some(1))));
        assert_eq!(register_part("bl"), Some((3, 0, Some(1))));
        assert_eq!(register_part("sil"), Some((4, 0, Some(1))));
        assert_eq!(register_part("r9d"), Some((9, 0, Some(4))));
        assert_eq!(register_part("r15b"), Some((15, 0, Some(1))));
        assert_eq!(register_part("pc"), Some((16, 0, None)));
        assert_eq!(register_part("eflags"), Some((49, 0, None)));
        assert_eq!(register_part("xmm3"), Some((20, 0, None)));
        for unknown in ["", "e", "é", "rzx", "r99d", "xmm99", "abc", "éa", "aé"] {
            assert_eq!(register_part(unknown), None, "{unknown}");
        }
    }
}
