//! Symbols as the linker knows them.

use super::Symbols;
use crate::{demangle, module::LoadedModule, types::ModuleId};

impl Symbols {
    /// Where a symbol of exactly this name is, in every module that defines it.
    pub fn symbol_addresses(&self, name: &str) -> Vec<u64> {
        let found = |module: &LoadedModule| self.symbol_address(module.id, name);
        self.loaded().iter().filter_map(found).collect()
    }

    /// Where a symbol of exactly this name is in one module.
    pub fn symbol_address(&self, module: ModuleId, name: &str) -> Option<u64> {
        let module = self.module(module)?;
        let table = module.symbol_table()?;
        let symbol = table.symbols().iter().find(|symbol| table.name(symbol) == name.as_bytes())?;
        Some(module.to_runtime(symbol.address))
    }
}

/// A C++ type as `std::type_info` names it, such as `N3app7ProblemE`, as source code writes it.
pub fn demangle_type(name: &str) -> Option<String> {
    // The names of type information are demangled as part of one.
    let text = demangle::demangle(&format!("_ZTS{name}"))?;
    text.strip_prefix("typeinfo name for ").map(str::to_owned)
}
