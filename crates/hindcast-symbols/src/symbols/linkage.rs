//! Symbols as the linker knows them.

use super::Symbols;
use crate::{demangle, elf::SymbolType, types::ModuleId};

impl Symbols {
    /// Where symbols of exactly these names are, in every module that defines them; with the index of the
    /// name. All symbols are looked through, once.
    pub fn symbol_addresses(&self, names: &[&str]) -> Vec<(usize, u64)> {
        let mut found = Vec::new();
        for module in self.loaded() {
            let Some(table) = module.symbol_table() else { continue };
            for symbol in table.symbols() {
                let name = table.name(symbol);
                let index = names.iter().position(|wanted| wanted.as_bytes() == name);
                found.extend(index.map(|index| (index, module.to_runtime(symbol.address))));
            }
        }
        found
    }

    /// Where a symbol of exactly this name is in one module.
    pub fn symbol_address(&self, module: ModuleId, name: &str) -> Option<u64> {
        self.symbol_that(module, |symbol| symbol == name.as_bytes())
    }

    /// The variable that an address is in, as the symbol table knows it, and how far from its beginning.
    pub fn variable_at(&self, address: u64) -> Option<(String, u64)> {
        let module = self.loaded_at(address)?;
        let table = module.symbol_table()?;
        let file_address = module.to_file(address);
        let symbol = table.at(file_address)?;
        let offset = file_address - symbol.address;
        let is_there = symbol.kind == SymbolType::Object && offset < symbol.size;
        is_there.then(|| (demangle::readable(&String::from_utf8_lossy(table.name(symbol))), offset))
    }

    /// The parameters of the C++ function at an address, as its symbol tells them.
    pub fn parameters_at(&self, address: u64) -> Option<String> {
        let module = self.loaded_at(address)?;
        let table = module.symbol_table()?;
        let symbol = table.at(module.to_file(address))?;
        demangle::parameters(&String::from_utf8_lossy(table.name(symbol)))
    }

    /// Where the first symbol of one module is whose name is of this kind.
    pub fn symbol_that(&self, module: ModuleId, is_meant: impl Fn(&[u8]) -> bool) -> Option<u64> {
        let module = self.module(module)?;
        let table = module.symbol_table()?;
        let symbol = table.symbols().iter().find(|symbol| is_meant(table.name(symbol)))?;
        Some(module.to_runtime(symbol.address))
    }
}

/// A C++ type as `std::type_info` names it, such as `N3app7ProblemE`, as source code writes it.
pub fn demangle_type(name: &str) -> Option<String> {
    // The names of type information are demangled as part of one.
    let text = demangle::demangle(&format!("_ZTS{name}"))?;
    text.strip_prefix("typeinfo name for ").map(str::to_owned)
}
