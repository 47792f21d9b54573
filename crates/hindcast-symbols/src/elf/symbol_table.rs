//! The symbols that linkers keep: names and addresses, without types.

use super::{SectionData, u32_at, u64_at};

/// Symbols in the order of their addresses. Names stay as bytes of the string table until asked for.
pub(crate) struct SymbolTable {
    names: SectionData,
    symbols: Vec<ElfSymbol>,
}

#[derive(Debug, Clone, Copy)]
pub(crate) struct ElfSymbol {
    pub(crate) address: u64,
    pub(crate) size: u64,
    name: u32,
    pub(crate) kind: SymbolType,
    /// Which of several names of an address is told: global before weak before local.
    binding: u8,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum SymbolType {
    Function,
    Object,
    ThreadLocal,
    /// Labels of assembler code.
    Untyped,
}

impl SymbolTable {
    pub(super) fn parse(entries: &[u8], names: SectionData) -> Self {
        let mut symbols: Vec<_> = entries.chunks_exact(24).filter_map(ElfSymbol::parse).collect();
        symbols.retain(|symbol| names.get(symbol.name as usize).is_some_and(|&first| first != 0));
        symbols.sort_by_key(|symbol| symbol.address);
        Self { names, symbols }
    }

    pub(crate) fn symbols(&self) -> &[ElfSymbol] {
        &self.symbols
    }

    /// As source names it.
    pub(crate) fn name(&self, symbol: &ElfSymbol) -> &[u8] {
        let name = self.names.get(symbol.name as usize..).unwrap_or_default();
        plain(&name[..memchr::memchr(0, name).unwrap_or(name.len())])
    }

    /// The symbol whose extent `address` is in; or the one before it, where that has no size.
    pub(crate) fn at(&self, address: u64) -> Option<&ElfSymbol> {
        let after = self.symbols.partition_point(|symbol| symbol.address <= address);
        let nearest = self.symbols[..after].last()?.address;
        let mut best: Option<&ElfSymbol> = None;
        // A few steps back: a symbol within another's extent, or several names of one address.
        for symbol in self.symbols[..after].iter().rev().take(64) {
            if symbol.kind == SymbolType::ThreadLocal {
                continue;
            }
            if best.is_some_and(|best| best.address != symbol.address) {
                break;
            }
            let inside =
                address - symbol.address < symbol.size || symbol.size == 0 && symbol.address == nearest;
            if inside && best.is_none_or(|best| symbol.rank() > best.rank()) {
                best = Some(symbol);
            }
        }
        best
    }
}

impl ElfSymbol {
    fn parse(bytes: &[u8]) -> Option<Self> {
        const GNU_INDIRECT_FUNCTION: u8 = 10;
        let (info, section) = (bytes[4], u32_at(bytes, 4) >> 16);
        let kind = match info & 0xf {
            0 => SymbolType::Untyped,
            1 => SymbolType::Object,
            2 | GNU_INDIRECT_FUNCTION => SymbolType::Function,
            6 => SymbolType::ThreadLocal,
            _ => return None,
        };
        let (address, size) = (u64_at(bytes, 8), u64_at(bytes, 16));
        // Undefined, or an absolute number that is no address.
        if section == 0 || section == 0xfff1 || (address == 0 && kind != SymbolType::ThreadLocal) {
            return None;
        }
        let binding = match info >> 4 {
            1 => 2,
            2 => 1,
            _ => 0,
        };
        Some(Self { address, size, name: u32_at(bytes, 0), kind, binding })
    }

    fn rank(&self) -> (bool, u8, bool) {
        (self.kind != SymbolType::Untyped, self.binding, self.size > 0)
    }
}

/// A name without the version that everybody gets who asks for none.
fn plain(name: &[u8]) -> &[u8] {
    match memchr::memchr(b'@', name) {
        Some(end) if end > 0 && name[end..].starts_with(b"@@") => &name[..end],
        _ => name,
    }
}

#[cfg(test)]
mod tests {
    use super::plain;

    #[test]
    fn the_usual_version_of_a_name_is_left_out() {
        let names = ["open@@LIB_2.34", "open@LIB_2.2.5", "@@", "plain"].map(str::as_bytes);
        assert_eq!(names.map(plain), ["open", "open@LIB_2.2.5", "@@", "plain"].map(str::as_bytes));
    }
}
