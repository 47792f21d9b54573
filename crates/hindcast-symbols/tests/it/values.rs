//! Values and expressions, compared with what the program itself prints of them.

use std::{path::Path, sync::Arc};

use hindcast_core::debug::{NumberFormat, Remedy, ValueLimits, Variable};
use hindcast_fixtures::Fixture;
use hindcast_symbols::{
    FrameContext, Memory, Symbols,
    expression::{Evaluated, Expression, ExpressionError, Global, Register, RegisterKind, Scope},
    types::{Language, ModuleId},
    value::{DerivedTypes, Inspector, Placed},
};

use crate::{core_image::CoreImage, support};

/// The globals of a program that stands in `done`.
pub(crate) struct Globals<'a> {
    symbols: &'a Symbols,
    types: DerivedTypes<'a>,
    memory: &'a dyn Memory,
    near: u64,
    /// Whether variables are members of what `VALUES` points to.
    in_values: bool,
}

impl<'a> Globals<'a> {
    pub(crate) fn new(symbols: &'a Symbols, memory: &'a dyn Memory) -> Self {
        let in_values = symbols.find_global("VALUES", 0).is_some();
        let near = support::function(symbols, "done").address;
        Self { symbols, types: DerivedTypes::new(symbols), memory, near, in_values }
    }

    /// The same types over other memory.
    pub(crate) fn with_types(symbols: &'a Symbols, memory: &'a dyn Memory, other: &Self) -> Self {
        let types = DerivedTypes::new(symbols);
        Self { symbols, types, memory, near: other.near, in_values: other.in_values }
    }

    /// What an expression is shown as on one line, or why it is not.
    pub(crate) fn shown(&self, expression: &str) -> String {
        match self.evaluated(expression) {
            Ok(Evaluated::Value(value)) => self.look(&value, ValueLimits::default()).value,
            Ok(Evaluated::Assignment { target, bytes, value }) => {
                format!("{target:x?} <- {bytes:x?}: {}", self.look(&value, ValueLimits::default()).value)
            }
            Err(error) => match error.remedy() {
                Some(Remedy::Advice(advice)) => format!("error: {error} → {advice}"),
                _ => format!("error: {error}"),
            },
        }
    }

    pub(crate) fn evaluated(&self, expression: &str) -> Result<Evaluated, ExpressionError> {
        Expression::parse(expression)?.evaluate(self)
    }

    /// The value of an expression with its parts.
    pub(crate) fn parts(&self, expression: &str, limits: ValueLimits) -> Variable {
        match self.evaluated(expression) {
            Ok(Evaluated::Value(value)) => self.look(&value, limits),
            other => panic!("{expression}: {other:?}"),
        }
    }

    pub(crate) fn look(&self, value: &Placed, limits: ValueLimits) -> Variable {
        Inspector::new(&self.types, self.memory, limits, NumberFormat::Auto).show("it", value)
    }
}

impl Scope for Globals<'_> {
    fn local(&self, name: &str) -> Option<Placed> {
        if !self.in_values || name == "VALUES" || name == "this" {
            return None;
        }
        let field = Expression::parse(&format!("VALUES.{name}")).ok()?;
        match field.evaluate(self) {
            Ok(Evaluated::Value(value)) => Some(value),
            _ => None,
        }
    }

    fn global(&self, name: &str) -> Option<Global> {
        Global::named(self.symbols, name, self.near, self)
    }

    fn register(&self, name: &str) -> Option<Register> {
        let (bytes, kind) = match name {
            "rax" => (7u64.to_le_bytes().to_vec(), RegisterKind::Whole),
            "pc" => (self.near.to_le_bytes().to_vec(), RegisterKind::Address),
            "xmm0" => (
                [1.5f32, -2.0, 0.0, 4.0].iter().flat_map(|lane| lane.to_le_bytes()).collect(),
                RegisterKind::Vector,
            ),
            _ => return None,
        };
        Some(Register { name: Arc::from(name), offset: 0, bytes, kind })
    }

    fn language(&self) -> Language {
        self.symbols.frames_at(self.near).first().map(|frame| frame.language).unwrap_or_default()
    }

    fn types(&self) -> &DerivedTypes<'_> {
        &self.types
    }

    fn memory(&self) -> &dyn Memory {
        self.memory
    }

    fn names(&self) -> Vec<String> {
        self.symbols.globals(self.near).into_iter().map(|variable| variable.name).collect()
    }
}

impl FrameContext for Globals<'_> {
    fn register(&self, _: u16) -> Option<Vec<u8>> {
        None
    }

    fn memory(&self) -> &dyn Memory {
        self.memory
    }

    fn tls_address(&self, _: ModuleId, _: u64) -> Option<u64> {
        None
    }

    fn cfa(&self) -> Option<u64> {
        None
    }

    fn pc(&self) -> u64 {
        self.near
    }
}

/// Compares every line that the program printed; how many there were.
fn all_as_printed(program: &Path) -> usize {
    let symbols = support::loaded(program);
    let memory = CoreImage::of(program);
    let globals = Globals::new(&symbols, &memory);
    let mut wrong = Vec::new();
    let lines: Vec<&str> = memory.printed.lines().collect();
    for line in &lines {
        // Expressions may have `==` in them.
        let (expression, expected) = line.split_once(" = ").expect("the program prints pairs");
        let shown = globals.shown(expression);
        if shown != expected {
            wrong.push(format!("{expression}\n  expected {expected}\n  shown    {shown}"));
        }
    }
    assert!(wrong.is_empty(), "{} of {} differ:\n{}", wrong.len(), lines.len(), wrong.join("\n"));
    lines.len()
}

#[test]
fn values_of_c_are_shown_as_the_program_prints_them() {
    for flags in [&["-O0"][..], &["-O2"], &["-gdwarf-4"], &["-gdwarf-3", "-gstrict-dwarf"]] {
        let built = Fixture::c("values").flags(flags).build();
        assert!(all_as_printed(&built.path) >= 130, "{flags:?}");
    }
}

#[test]
fn values_of_cpp_are_shown_as_the_program_prints_them() {
    let split = ["-gsplit-dwarf", "-fdebug-types-section", "-gdwarf-4"];
    for flags in [&["-O0"][..], &["-O2"], &["-std=c++20", "-gdwarf-4"], &split] {
        let built = Fixture::cpp("values").flags(flags).build();
        assert!(all_as_printed(&built.path) >= 120, "{flags:?}");
    }
}

#[test]
fn values_of_programs_by_clang_are_shown_as_the_program_prints_them() {
    for flags in [&["-O0"][..], &["-O2"], &["-O2", "-gdwarf-4"]] {
        let built = Fixture::c("values").clang().flags(flags).build();
        assert!(all_as_printed(&built.path) >= 130, "{flags:?}");
    }
    for flags in [&["-O0"][..], &["-O2", "-std=c++20"]] {
        let built = Fixture::cpp("values").clang().flags(flags).build();
        assert!(all_as_printed(&built.path) >= 120, "{flags:?}");
    }
}

#[test]
fn values_of_rust_are_shown_as_the_program_prints_them() {
    for flags in [&[][..], &["-O"], &["-O", "-Csymbol-mangling-version=v0"]] {
        let built = Fixture::rust("values").flags(flags).build();
        assert!(all_as_printed(&built.path) >= 160, "{flags:?}");
    }
}
