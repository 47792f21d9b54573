//! Code: which function and line an address is in.

use std::{ops::Range, sync::Arc};

use super::Symbols;
use crate::{
    demangle,
    dwarf::DieRef,
    elf::ElfSymbol,
    module::{FunctionDie, LoadedModule},
    types::{Language, ModuleId, TypeRef},
};

/// Where code is in its source.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct CodePlace {
    /// The module, if the address is in one.
    pub module: Option<ModuleId>,
    /// The innermost function, qualified, without parameters.
    pub function: Option<String>,
    /// The file, absolute as far as the debug information knows.
    pub file: Option<Arc<str>>,
    /// The line.
    pub line: Option<u32>,
    /// The column, from 1.
    pub column: Option<u32>,
}

/// A function that execution is in: a physical frame is one or, where functions are inlined, several.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InlineFrame {
    /// The function, qualified, without parameters.
    pub function: Option<String>,
    /// Where execution is: in the innermost its line, in outer ones where the inner one was called.
    pub file: Option<Arc<str>>,
    /// The line there.
    pub line: Option<u32>,
    /// The column there, from 1.
    pub column: Option<u32>,
    /// Whether it is inlined in the next one.
    pub inlined: bool,
    /// Where the function, or this copy of it, begins.
    pub start: u64,
    /// Whether the address asked about is its beginning, or that of a piece of it.
    pub entered: bool,
    /// The address asked about.
    pub address: u64,
    /// The module.
    pub module: Option<ModuleId>,
    /// Its language; that of its name where there is no debug information.
    pub language: Language,
    pub(super) scope: Option<Scope>,
}

/// The entry of a function's instance, and that of the physical function around it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Scope {
    pub(super) die: DieRef,
    pub(super) function: DieRef,
}

/// A function with code of its own.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Function {
    /// The module.
    pub module: ModuleId,
    /// Qualified, without parameters.
    pub name: String,
    /// What the linker calls it, if that is known.
    pub linkage_name: Option<String>,
    /// Its first instruction.
    pub start: u64,
    /// All its code; the part with `start` first.
    pub ranges: Vec<Range<u64>>,
    /// Where its arguments can be read: where breakpoints on it go.
    pub after_prologue: u64,
    /// Its language.
    pub language: Language,
    /// Whether only the symbol table knows it: then `ranges` may be a guess.
    pub from_symtab: bool,
}

impl Symbols {
    /// The innermost function and line at an address. For callers of a frame pass the return address
    /// minus one.
    pub fn place(&self, address: u64) -> CodePlace {
        let Some(module) = self.loaded_at(address) else { return CodePlace::default() };
        match self.frames_at(address).into_iter().next() {
            Some(frame) => CodePlace {
                module: Some(module.id),
                function: frame.function,
                file: frame.file,
                line: frame.line,
                column: frame.column,
            },
            None => CodePlace { module: Some(module.id), ..CodePlace::default() },
        }
    }

    /// The functions at an address, innermost first; empty where nothing is known of it.
    pub fn frames_at(&self, address: u64) -> Vec<InlineFrame> {
        let Some(module) = self.loaded_at(address) else { return Vec::new() };
        let file_address = module.to_file(address);
        let here = LinePlace::at(module, file_address);
        let Some(function) = module.function_die_at(file_address) else {
            return symbol_frame(module, address, here).into_iter().collect();
        };
        let mut frames = Vec::new();
        let mut place = here;
        for level in module.levels_at(&function, file_address).into_iter().rev() {
            let caller = level.call.map(|call| LinePlace::of_call(module, &function, call));
            let names = module.function_names(level.die);
            frames.push(InlineFrame {
                function: names.name,
                file: place.file.take(),
                line: place.line,
                column: place.column,
                inlined: level.call.is_some(),
                start: module.to_runtime(level.start),
                entered: level.entered,
                address,
                module: Some(module.id),
                language: names.language,
                scope: Some(Scope { die: level.die, function: function.die }),
            });
            place = caller.unwrap_or_default();
        }
        frames
    }

    /// The function at an address.
    pub fn function_at(&self, address: u64) -> Option<Function> {
        let module = self.loaded_at(address)?;
        let file_address = module.to_file(address);
        match module.function_die_at(file_address) {
            Some(function) => Some(describe(module, &function)),
            None => symbol_function(module, file_address),
        }
    }

    /// The source file and line that declare the function at an address, where debug information tells of it.
    pub fn declaration_at(&self, address: u64) -> Option<(String, Option<u32>)> {
        let module = self.loaded_at(address)?;
        module.declaration_of(module.function_die_at(module.to_file(address))?.die)
    }

    /// The type of the function at an address, where debug information tells of it. Functions of one name may have several.
    pub fn function_type_at(&self, address: u64) -> Option<TypeRef> {
        let module = self.loaded_at(address)?;
        let function = module.function_die_at(module.to_file(address))?;
        Some(TypeRef { module: module.id, entry: function.die.encode() })
    }

    pub(super) fn name_at(&self, address: u64) -> Option<(String, u64)> {
        let module = self.loaded_at(address)?;
        let file_address = module.to_file(address);
        if let Some(table) = module.symbol_table()
            && let Some(symbol) = table.at(file_address)
        {
            let name = String::from_utf8_lossy(table.name(symbol)).into_owned();
            return Some((demangle::readable(&name), file_address - symbol.address));
        }
        let function = module.function_die_at(file_address)?;
        let name = module.function_names(function.die).name?;
        Some((name, file_address.checked_sub(function.ranges.first()?.start)?))
    }
}

pub(super) fn describe(module: &LoadedModule, function: &FunctionDie) -> Function {
    let names = module.function_names(function.die);
    let start = function.ranges.first().map_or(0, |range| range.start);
    Function {
        module: module.id,
        name: names.name.unwrap_or_else(|| format!("{start:#x}")),
        linkage_name: names.linkage_name,
        start: module.to_runtime(start),
        ranges: function
            .ranges
            .iter()
            .map(|range| module.to_runtime(range.start)..module.to_runtime(range.end))
            .collect(),
        after_prologue: module.to_runtime(module.after_prologue(function)),
        language: names.language,
        from_symtab: false,
    }
}

/// A function that only the symbol table knows.
pub(super) fn symbol_function(module: &LoadedModule, file_address: u64) -> Option<Function> {
    let table = module.symbol_table()?;
    let symbol = table.at(file_address)?;
    if !module.is_code(symbol.address) {
        return None;
    }
    let linkage_name = String::from_utf8_lossy(table.name(symbol)).into_owned();
    let start = module.to_runtime(symbol.address);
    let end = module.to_runtime(symbol.address.saturating_add(symbol.size.max(1)));
    Some(Function {
        module: module.id,
        name: demangle::readable(&linkage_name),
        language: demangle::language(&linkage_name),
        linkage_name: Some(linkage_name),
        start,
        ranges: std::iter::once(start..end).collect(),
        after_prologue: module.to_runtime(symbol_after_prologue(module, symbol)),
        from_symtab: true,
    })
}

/// Without lines only the usual first instructions can be told.
fn symbol_after_prologue(module: &LoadedModule, symbol: &ElfSymbol) -> u64 {
    let after = module.after_frame_setup(symbol.address).unwrap_or(symbol.address);
    if symbol.size > 0 && after >= symbol.address.saturating_add(symbol.size) {
        symbol.address
    } else {
        after
    }
}

fn symbol_frame(module: &LoadedModule, address: u64, here: LinePlace) -> Option<InlineFrame> {
    let function = symbol_function(module, module.to_file(address));
    if function.is_none() && here.line.is_none() {
        return None;
    }
    Some(InlineFrame {
        file: here.file,
        line: here.line,
        column: here.column,
        inlined: false,
        start: function.as_ref().map_or(address, |function| function.start),
        entered: function.as_ref().is_some_and(|function| function.start == address),
        address,
        module: Some(module.id),
        language: function.as_ref().map_or(Language::C, |function| function.language),
        function: function.map(|function| function.name),
        scope: None,
    })
}

/// A place in source code.
#[derive(Default)]
struct LinePlace {
    file: Option<Arc<str>>,
    line: Option<u32>,
    column: Option<u32>,
}

impl LinePlace {
    fn at(module: &LoadedModule, file_address: u64) -> Self {
        let Some(row) = module.any_row_at(file_address) else { return Self::default() };
        Self { file: row.file, line: (row.line > 0).then_some(row.line), column: row.column }
    }

    fn of_call(module: &LoadedModule, function: &FunctionDie, call: crate::module::CallPlace) -> Self {
        let table = module.debug().and_then(|debug| debug.lines(function.unit));
        Self {
            file: table.and_then(|table| table.file(u32::try_from(call.file).ok()?)).cloned(),
            line: (call.line > 0).then_some(call.line),
            column: (call.column > 0).then_some(call.column),
        }
    }
}
