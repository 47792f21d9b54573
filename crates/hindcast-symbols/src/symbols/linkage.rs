//! Symbols as the linker knows them.

use super::Symbols;
use crate::demangle;

impl Symbols {
    /// Where a symbol of exactly this name is, in every module that defines it.
    pub fn symbol_addresses(&self, name: &str) -> Vec<u64> {
        let mut addresses = Vec::new();
        for module in self.loaded() {
            let Some(table) = module.symbol_table() else { continue };
            let named = table.symbols().iter().filter(|symbol| table.name(symbol) == name.as_bytes());
            addresses.extend(named.map(|symbol| module.to_runtime(symbol.address)));
        }
        addresses.dedup();
        addresses
    }
}

/// A C++ type as `std::type_info` names it, such as `N3app7ProblemE`, as source code writes it.
pub fn demangle_type(name: &str) -> Option<String> {
    // The names of type information are demangled as part of one.
    let text = demangle::demangle(&format!("_ZTS{name}"))?;
    text.strip_prefix("typeinfo name for ").map(str::to_owned)
}
