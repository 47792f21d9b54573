//! Which of the functions that share an instruction is meant by who asked for one of them.

use std::collections::BTreeMap;

use hindcast_core::debug::Place;
use hindcast_symbols::{FunctionPattern, Symbols};

/// By address: how many inlined calls are left out there. Who asked for a function sees it, and not what is inlined
/// at its beginning; who asked for a line sees that line.
#[derive(Debug, Clone, Default)]
pub(super) struct Hidden(BTreeMap<u64, usize>);

impl Hidden {
    pub(super) fn of(symbols: &Symbols, place: &Place, addresses: impl Iterator<Item = u64>) -> Self {
        let Place::Function(name) = place else { return Self::default() };
        let Ok(pattern) = FunctionPattern::read(name) else { return Self::default() };
        let hidden = addresses.map(|address| (address, before(symbols, &pattern, address)));
        Self(hidden.filter(|(_, hidden)| *hidden > 0).collect())
    }

    pub(super) fn at(&self, address: u64) -> usize {
        self.0.get(&address).copied().unwrap_or(0)
    }
}

/// How many calls are inlined at an address within the function that a pattern means.
fn before(symbols: &Symbols, pattern: &FunctionPattern, address: u64) -> usize {
    let frames = symbols.frames_at(address);
    let is_meant = |name: Option<&str>| name.is_some_and(|name| pattern.matches(name));
    let inlined = frames.iter().take_while(|frame| frame.inlined);
    inlined.take_while(|frame| !is_meant(frame.function.as_deref())).count()
}

/// How many calls are inlined at an address, whatever they are called.
pub(super) fn all_inlined(symbols: &Symbols, address: u64) -> usize {
    symbols.frames_at(address).iter().take_while(|frame| frame.inlined).count()
}
