//! Functions: their names, extent and declaration.

use std::{borrow::Cow, ops::Range};

use super::LoadedModule;
use crate::{
    demangle,
    dwarf::{DieRef, Entry, View},
    types::Language,
};

/// References from an instance to its origin to its declaration: longer chains are damage.
const LONGEST_CHAIN: usize = 12;

/// A function with code, in debug information.
#[derive(Debug, Clone)]
pub(crate) struct FunctionDie {
    pub(crate) die: DieRef,
    /// Which of the module's own units it belongs to.
    pub(crate) unit: usize,
    pub(crate) ranges: Vec<Range<u64>>,
}

/// What a function is called.
#[derive(Debug, Clone, Default)]
pub(crate) struct FunctionNames {
    /// As source code writes it, qualified, without parameters.
    pub(crate) name: Option<String>,
    pub(crate) linkage_name: Option<String>,
    /// The language that it was declared in: one unit may have code of several.
    pub(crate) language: Language,
}

impl LoadedModule {
    /// The function at a file address.
    pub(crate) fn function_die_at(&self, address: u64) -> Option<FunctionDie> {
        let debug = self.debug()?;
        let unit = debug.unit_at(address)?;
        let (file, index) = debug.code_unit(unit)?;
        let range = debug.index(file, index)?.function_at(address)?;
        let view = debug.view(file, index)?;
        let offset = gimli::UnitOffset(range.entry as usize);
        let entry = view.unit.entry(offset).ok()?;
        Some(FunctionDie { die: view.die_ref(offset), unit, ranges: self.code_ranges(&view, &entry) })
    }

    pub(crate) fn function_die<'a>(&self, view: &View<'a>, entry: &Entry<'a>) -> Option<FunctionDie> {
        let ranges = self.code_ranges(view, entry);
        let unit = self.debug()?.own_unit(view);
        (!ranges.is_empty()).then(|| FunctionDie { die: view.die_ref(entry.offset()), unit, ranges })
    }

    /// The code of an entry, entry point first, without what the linker dropped.
    pub(crate) fn code_ranges<'a>(&self, view: &View<'a>, entry: &Entry<'a>) -> Vec<Range<u64>> {
        let mut ranges = view.ranges(entry);
        ranges.retain(|range| self.is_code(range.start));
        // Rarely run parts may stand before the entry point.
        let entry_pc = entry.attr_value(gimli::DW_AT_entry_pc).and_then(|value| view.address(value));
        if let Some(at) = ranges.iter().position(|range| entry_pc.is_some_and(|pc| range.contains(&pc))) {
            ranges[..=at].rotate_right(1);
        }
        ranges
    }

    /// The names of a function, from its instance, its origin or its declaration.
    pub(crate) fn function_names(&self, die: DieRef) -> FunctionNames {
        let mut names = FunctionNames::default();
        let mut plain: Option<String> = None;
        let mut at = die;
        let mut next = Some(die);
        for _ in 0..LONGEST_CHAIN {
            let Some(here) = next else { break };
            let Some(debug) = self.debug() else { break };
            let Some(view) = debug.view_of(here) else { break };
            let Some(entry) = view.entry(here) else { break };
            at = here;
            names.language = unit_language(&view);
            let linkage_name = || view.linkage_name(&entry).map(Cow::into_owned);
            names.linkage_name = names.linkage_name.take().or_else(linkage_name);
            plain = plain.take().or_else(|| view.name(&entry).map(Cow::into_owned));
            next = debug
                .attribute_reference(&view, &entry, gimli::DW_AT_abstract_origin)
                .or_else(|| debug.attribute_reference(&view, &entry, gimli::DW_AT_specification));
        }
        if names.linkage_name.is_none() && names.language != Language::C {
            names.linkage_name = self.symbol_of(die);
        }
        let demangled = names.linkage_name.as_deref().and_then(demangle::demangle);
        names.name = demangled.or_else(|| {
            let plain = plain?;
            Some(if names.language == Language::C { plain } else { self.qualified(at, &plain) })
        });
        names
    }

    /// The entry that says first what a function or variable is: where it was declared.
    pub(crate) fn declared_at(&self, die: DieRef) -> DieRef {
        let mut at = die;
        for _ in 0..LONGEST_CHAIN {
            let next = || -> Option<DieRef> {
                let debug = self.debug()?;
                let view = debug.view_of(at)?;
                let entry = view.entry(at)?;
                debug
                    .attribute_reference(&view, &entry, gimli::DW_AT_abstract_origin)
                    .or_else(|| debug.attribute_reference(&view, &entry, gimli::DW_AT_specification))
            };
            match next() {
                Some(next) => at = next,
                None => break,
            }
        }
        at
    }

    /// The source file that declares a function or variable.
    pub(crate) fn declaring_file(&self, die: DieRef) -> Option<String> {
        self.declaration_of(die).map(|(file, _)| file)
    }

    /// The source file and line that declare a function or variable.
    pub(crate) fn declaration_of(&self, die: DieRef) -> Option<(String, Option<u32>)> {
        let debug = self.debug()?;
        let mut at = die;
        for _ in 0..LONGEST_CHAIN {
            let view = debug.view_of(at)?;
            let entry = view.entry(at)?;
            if let Some(gimli::AttributeValue::FileIndex(index)) = entry.attr_value(gimli::DW_AT_decl_file) {
                let line = entry.attr_value(gimli::DW_AT_decl_line).and_then(|line| line.udata_value());
                return Some((view.file_path(index)?, line.and_then(|line| u32::try_from(line).ok())));
            }
            at = debug
                .attribute_reference(&view, &entry, gimli::DW_AT_abstract_origin)
                .or_else(|| debug.attribute_reference(&view, &entry, gimli::DW_AT_specification))?;
        }
        None
    }

    /// What the linker calls a function with code. Line tables alone come without it, and without namespaces.
    fn symbol_of(&self, die: DieRef) -> Option<String> {
        let view = self.debug()?.view_of(die)?;
        let start = view
            .ranges(&view.entry(die).filter(|entry| entry.tag() == gimli::DW_TAG_subprogram)?)
            .first()?
            .start;
        let table = self.symbol_table()?;
        let symbol = table.at(start).filter(|symbol| symbol.address == start)?;
        let name = std::str::from_utf8(table.name(symbol)).ok()?;
        (name != "main").then(|| name.to_owned())
    }

    /// `name` with the namespaces and types that `die` is in.
    pub(crate) fn qualified(&self, die: DieRef, name: &str) -> String {
        let mut path = self.scope_path(die);
        if !path.is_empty() {
            path.push_str("::");
        }
        path.push_str(name);
        path
    }

    /// The namespaces and types that an entry is in, joined by `::`.
    pub(crate) fn scope_path(&self, die: DieRef) -> String {
        const DEEPEST: usize = 64;
        let parts = || -> Option<Vec<String>> {
            let debug = self.debug()?;
            let mut die = die;
            let mut view = debug.view_of(die)?;
            // A definition may stand apart: its declaration is where it belongs.
            for _ in 0..LONGEST_CHAIN {
                let entry = view.entry(die)?;
                let Some(next) = debug.attribute_reference(&view, &entry, gimli::DW_AT_specification) else {
                    break;
                };
                (die, view) = (next, debug.view_of(next)?);
            }
            let offset = view.offset_of(die)?;
            let scopes = debug.index(view.file, view.index)?.scopes_of(offset);
            let mut parts = Vec::new();
            for scope in scopes.take(DEEPEST) {
                let Ok(entry) = view.unit.entry(scope) else { break };
                match entry.tag() {
                    // Types within functions are named without them, as source code does there.
                    gimli::DW_TAG_subprogram => break,
                    gimli::DW_TAG_namespace => {
                        let name = view.name(&entry).unwrap_or(Cow::Borrowed("(anonymous namespace)"));
                        parts.push(name.into_owned());
                    }
                    gimli::DW_TAG_enumeration_type => {}
                    _ => parts.extend(view.name(&entry).map(Cow::into_owned)),
                }
            }
            parts.reverse();
            Some(parts)
        };
        parts().unwrap_or_default().join("::")
    }
}

/// The language of a unit.
pub(crate) fn unit_language(view: &View<'_>) -> Language {
    view.root.language
}
