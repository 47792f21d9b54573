//! Everything that is known of the program's files, asked by runtime address or by name.

mod code;
mod completion;
mod evaluate;
mod fixed;
mod functions;
mod globals;
mod lengths;
mod line_search;
mod lines;
mod linkage;
mod locate;
mod type_reader;
mod variables;

use std::{ops::Range, path::Path};

pub use code::{CodePlace, Function, InlineFrame};
pub use fixed::FixedPlace;
pub use functions::{FunctionPattern, FunctionTarget, PatternError};
pub use globals::{GlobalName, Viewpoint};
pub use line_search::{LineMatches, LineTarget};
pub use lines::LineRow;
pub use linkage::demangle_type;
pub use locate::{FrameContext, Piece, PieceKind, Placement};
pub use variables::{VariableHandle, VariableInfo};

use crate::{
    elf::ElfFile,
    error::SymbolError,
    module::{LoadedModule, Module},
    types::ModuleId,
};

/// The symbols of all modules of a program.
///
/// Cost follows what is asked: adding a module reads its headers, and each question reads what it
/// needs of it and keeps that.
#[derive(Default)]
pub struct Symbols {
    /// In the order they were added: the program itself first.
    modules: Vec<LoadedModule>,
    next: u32,
}

impl Symbols {
    /// Of no module yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds an executable or library. `bias` is what was added to the file's addresses when it was
    /// loaded, `range` where it is in memory.
    pub fn add(&mut self, path: &Path, bias: u64, range: Range<u64>) -> Result<ModuleId, SymbolError> {
        let elf = ElfFile::open(path)?;
        Ok(self.insert(path, elf, bias, range))
    }

    /// Adds a module that has no file, such as the vDSO.
    pub fn add_image(
        &mut self,
        name: &str,
        bytes: Vec<u8>,
        bias: u64,
        range: Range<u64>,
    ) -> Result<ModuleId, SymbolError> {
        let elf = ElfFile::from_bytes(name, bytes)?;
        let id = self.insert(Path::new(""), elf, bias, range);
        if let Some(module) = self.modules.last_mut() {
            module.name = name.to_owned();
        }
        Ok(id)
    }

    fn insert(&mut self, path: &Path, elf: ElfFile, bias: u64, range: Range<u64>) -> ModuleId {
        let id = ModuleId(self.next);
        self.next += 1;
        self.modules.push(LoadedModule::new(id, path, elf, bias, range));
        id
    }

    /// Forgets a module. Handles into it answer nothing from now on.
    pub fn remove(&mut self, id: ModuleId) {
        self.modules.retain(|module| module.id != id);
    }

    /// The modules, in the order they were added.
    pub fn modules(&self) -> impl Iterator<Item = Module> + '_ {
        self.modules.iter().map(LoadedModule::describe)
    }

    /// The linker's name for exactly the build that a module's file is.
    pub fn build_id(&self, module: ModuleId) -> Option<Vec<u8>> {
        self.module(module)?.describe().build_id
    }

    /// The module that is loaded at an address.
    pub fn module_at(&self, address: u64) -> Option<ModuleId> {
        self.loaded_at(address).map(|module| module.id)
    }

    pub(crate) fn loaded(&self) -> &[LoadedModule] {
        &self.modules
    }

    pub(crate) fn loaded_at(&self, address: u64) -> Option<&LoadedModule> {
        self.modules.iter().find(|module| module.range.contains(&address))
    }

    pub(crate) fn module(&self, id: ModuleId) -> Option<&LoadedModule> {
        self.modules.iter().find(|module| module.id == id)
    }
}
