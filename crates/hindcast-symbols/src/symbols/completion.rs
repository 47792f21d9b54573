//! Names that begin or are spelled as someone typed them, and facts of the whole program.

use std::{
    collections::{BTreeSet, HashSet},
    sync::Arc,
};

use super::Symbols;
use crate::{
    demangle, dwarf::paths, elf::SymbolType, module::LoadedModule, names::LONGEST_NAME, types::Language,
};

impl Symbols {
    /// Names of functions that begin with `prefix`, or have a part after `::` that does; sorted.
    pub fn complete_function(&self, prefix: &str, limit: usize) -> Vec<String> {
        let mut found = BTreeSet::new();
        if prefix.len() > LONGEST_NAME {
            return Vec::new();
        }
        // The first part may be mangled away; its letters are not.
        let letters = prefix.rsplit("::").next().unwrap_or(prefix);
        let is_word = letters.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_');
        for module in self.loaded() {
            let Some(table) = module.symbol_table() else { continue };
            for symbol in table.symbols().iter().filter(|symbol| symbol.kind == SymbolType::Function) {
                let name = String::from_utf8_lossy(table.name(symbol));
                if is_word && !name.contains(letters) {
                    continue;
                }
                let readable = demangle::readable(&name);
                if readable.starts_with(prefix) || contains_part(&readable, prefix) {
                    found.insert(readable);
                }
                if found.len() >= limit {
                    return found.into_iter().collect();
                }
            }
        }
        found.into_iter().collect()
    }

    /// Source files whose path contains a text; at most `limit`, sorted.
    pub fn source_files(&self, containing: &str, limit: usize) -> Vec<Arc<str>> {
        let mut found = BTreeSet::new();
        for module in self.loaded() {
            module.each_source(|path| {
                if path.contains(containing) && !found.contains(path) {
                    found.insert(Arc::from(path));
                }
                found.len() < limit
            });
        }
        found.into_iter().take(limit).collect()
    }

    /// The source file of that path or, if it is the only one, whose path ends in it. Only files that
    /// the debug information names are found.
    pub fn find_source(&self, path: &str) -> Option<Arc<str>> {
        let mut all: BTreeSet<Arc<str>> = self.sources_ending_in(path).into_iter().flatten().collect();
        if all.len() == 1 { all.pop_first() } else { None }
    }

    /// The source files of that path or, where there is none, whose paths end in it: of each module that has some, the program
    /// first.
    pub fn sources_ending_in(&self, path: &str) -> Vec<BTreeSet<Arc<str>>> {
        let wanted = paths::normalised(path);
        let mut all = Vec::new();
        for module in self.loaded() {
            let mut found: BTreeSet<Arc<str>> = BTreeSet::new();
            module.each_source(|path| {
                if paths::ends_with(path, &wanted) && !found.contains(path) {
                    found.insert(Arc::from(path));
                }
                path != wanted
            });
            if let Some(exact) = found.get(wanted.as_str()) {
                return vec![BTreeSet::from([exact.clone()])];
            }
            if !found.is_empty() {
                all.push(found);
            }
        }
        all
    }

    /// The language and compiler of the program's `main`, such as `C++ (GNU C++17 12.2.0)`.
    pub fn producer(&self) -> Option<String> {
        self.loaded().iter().find_map(main_producer)
    }
}

fn contains_part(name: &str, prefix: &str) -> bool {
    name.match_indices("::").any(|(at, _)| name[at + 2..].starts_with(prefix))
}

fn main_producer(module: &LoadedModule) -> Option<String> {
    let debug = module.debug()?;
    let table = module.symbol_table()?;
    let named = |symbol: &crate::elf::ElfSymbol| {
        let name = table.name(symbol);
        // Rust's own `main` is called by a C one that has no unit.
        name == b"main"
            || name.starts_with(b"_ZN")
                && demangle::readable(&String::from_utf8_lossy(name)).ends_with("::main")
    };
    let mains = table.symbols().iter().filter(|symbol| symbol.kind == SymbolType::Function && named(symbol));
    let unit = mains.into_iter().find_map(|symbol| debug.unit_at(symbol.address))?;
    let view = debug.code_view(unit)?;
    let producer = view.producer()?;
    let language = match crate::module::unit_language(&view) {
        Language::C => "C",
        Language::Cpp => "C++",
        Language::Rust => "Rust",
    };
    // Flags follow, from the first that begins with a dash.
    let compiler = producer.split(" -").next().unwrap_or(&producer).trim();
    Some(format!("{language} ({compiler})"))
}

impl LoadedModule {
    /// Calls `each` with the path of every file that a line table names, until it says no. Reads
    /// the tables' headers only.
    fn each_source(&self, mut each: impl FnMut(&str) -> bool) {
        let Some(debug) = self.debug() else { return };
        let mut seen = HashSet::new();
        for unit in 0..debug.units().len() {
            let Some(view) = debug.view(0, unit) else { continue };
            let Some(program) = view.line_program() else { continue };
            let header = program.header();
            let first = u64::from(header.version() < 5);
            for index in first..first + header.file_names().len() as u64 {
                let Some(path) = view.path_of(header, index) else { continue };
                if !seen.contains(&path) {
                    if !each(&path) {
                        return;
                    }
                    seen.insert(path);
                }
            }
            debug.passed_root(&view);
        }
    }
}
