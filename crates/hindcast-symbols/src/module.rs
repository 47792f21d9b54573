//! A loaded executable or library: its file, the file with its debug information, what is known of them.

mod debug_file;
mod functions;
mod name_key;
mod names;
mod scopes;

use std::{
    collections::HashMap,
    ops::Range,
    path::{Path, PathBuf},
    sync::{Arc, Mutex, OnceLock},
};

pub(crate) use functions::{FunctionDie, unit_language};
pub(crate) use name_key::base_name;
pub(crate) use names::{NameClass, NameIndex, NameKind, Named, all_named, is_static};
pub(crate) use scopes::CallPlace;

use crate::{
    dwarf::DebugInfo,
    elf::{ElfFile, SymbolTable},
    types::{ModuleId, Type},
};

/// What a module's symbols are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SymbolKind {
    /// Debug information: lines, variables, types.
    Dwarf,
    /// Only names and addresses.
    SymtabOnly,
    /// Nothing.
    None,
}

/// A loaded executable or library, as others see it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Module {
    /// What it is called elsewhere here.
    pub id: ModuleId,
    /// Its file's name, or `[vdso]`.
    pub name: String,
    /// Its file; empty for what has none.
    pub path: PathBuf,
    /// Where it is loaded.
    pub range: Range<u64>,
    /// What is added to the file's addresses.
    pub bias: u64,
    /// The linker's name for exactly this build.
    pub build_id: Option<Vec<u8>>,
    /// What symbols there are.
    pub symbols: SymbolKind,
    /// The file they are from, where it is another one.
    pub symbol_file: Option<PathBuf>,
}

pub(crate) struct LoadedModule {
    pub(crate) id: ModuleId,
    pub(crate) name: String,
    pub(crate) path: PathBuf,
    pub(crate) range: Range<u64>,
    pub(crate) bias: u64,
    pub(crate) elf: Arc<ElfFile>,
    separate: OnceLock<Option<(PathBuf, Arc<ElfFile>)>>,
    debug: OnceLock<Option<DebugInfo>>,
    symbols: OnceLock<Option<SymbolTable>>,
    names: OnceLock<NameIndex>,
    pub(crate) types: Mutex<HashMap<u64, Option<Arc<Type>>>>,
    pub(crate) unwind_table: OnceLock<Vec<(u64, u64, usize)>>,
    pub(crate) unwind_bytes: OnceLock<crate::unwind::UnwindSections>,
}

impl LoadedModule {
    pub(crate) fn new(id: ModuleId, path: &Path, elf: ElfFile, bias: u64, range: Range<u64>) -> Self {
        let name = path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
        Self {
            id,
            name,
            path: path.to_owned(),
            range,
            bias,
            elf: Arc::new(elf),
            separate: OnceLock::new(),
            debug: OnceLock::new(),
            symbols: OnceLock::new(),
            names: OnceLock::new(),
            types: Mutex::default(),
            unwind_table: OnceLock::new(),
            unwind_bytes: OnceLock::new(),
        }
    }

    pub(crate) fn describe(&self) -> Module {
        let symbols = if self.debug().is_some() {
            SymbolKind::Dwarf
        } else if self.symbol_table().is_some_and(|table| !table.symbols().is_empty()) {
            SymbolKind::SymtabOnly
        } else {
            SymbolKind::None
        };
        Module {
            id: self.id,
            name: self.name.clone(),
            path: self.path.clone(),
            range: self.range.clone(),
            bias: self.bias,
            build_id: self.elf.build_id(),
            symbols,
            symbol_file: self.separate().map(|(path, _)| path.clone()),
        }
    }

    pub(crate) fn to_file(&self, runtime: u64) -> u64 {
        runtime.wrapping_sub(self.bias)
    }

    pub(crate) fn to_runtime(&self, file: u64) -> u64 {
        file.wrapping_add(self.bias)
    }

    pub(crate) fn debug(&self) -> Option<&DebugInfo> {
        let debug = self.debug.get_or_init(|| {
            let elf = match self.separate() {
                Some((_, elf)) => elf,
                None => &self.elf,
            };
            elf.has_section(".debug_info").then(|| DebugInfo::new(Arc::clone(elf), &self.path))
        });
        debug.as_ref()
    }

    pub(crate) fn symbol_table(&self) -> Option<&SymbolTable> {
        let symbols = self.symbols.get_or_init(|| {
            let separate = self.separate().filter(|(_, elf)| elf.has_section(".symtab"));
            separate.and_then(|(_, elf)| elf.symbol_table()).or_else(|| self.elf.symbol_table())
        });
        symbols.as_ref()
    }

    pub(crate) fn separate(&self) -> Option<&(PathBuf, Arc<ElfFile>)> {
        let separate = self.separate.get_or_init(|| {
            if self.elf.has_section(".debug_info") || self.path.as_os_str().is_empty() {
                return None;
            }
            debug_file::find(&self.elf, &self.path).map(|(path, elf)| (path, Arc::new(elf)))
        });
        separate.as_ref()
    }

    /// What debug information may call `name`, which is without namespaces and generic arguments.
    pub(crate) fn named<'a>(
        &'a self,
        name: &str,
        classes: &[NameClass],
    ) -> impl Iterator<Item = Named> + use<'a> {
        let candidates = self
            .debug()
            .map(|debug| self.names.get_or_init(|| NameIndex::new(debug)).candidates(debug, name, classes));
        candidates.into_iter().flatten()
    }

    /// Whether a symbol begins at a file address.
    pub(crate) fn has_symbol_at(&self, address: u64) -> bool {
        self.symbol_table()
            .and_then(|table| table.at(address))
            .is_some_and(|symbol| symbol.address == address)
    }

    /// Whether the program has code at a file address.
    pub(crate) fn is_code(&self, address: u64) -> bool {
        self.elf.segments.iter().any(|segment| {
            segment.is_code() && address >= segment.address && address - segment.address < segment.memory_size
        })
    }
}
