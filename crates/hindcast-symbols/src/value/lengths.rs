//! Variables of a frame whose arrays have a length that only the frame knows.

use super::{DerivedTypes, Placed, Storage};
use crate::{
    FrameContext, Symbols, VariableInfo,
    types::{PointerFlavour, TypeKind, TypeRef, Types},
};

/// Pointers and arrays around an array without a length: deeper is damage.
const DEEPEST: u32 = 8;

impl Placed {
    /// As [`Placed::variable`], with the lengths of its arrays where the frame has to be asked for them.
    pub fn in_frame(
        symbols: &Symbols,
        types: &DerivedTypes<'_>,
        variable: &VariableInfo,
        frame: &dyn FrameContext,
    ) -> Self {
        let placed = Self::variable(symbols, variable, frame);
        if matches!(placed.storage, Storage::Gone(_)) {
            return placed;
        }
        let lengths = Lengths { symbols, types, variable, frame };
        match lengths.with_lengths(variable.type_ref, DEEPEST) {
            Some(type_ref) => placed.retyped(type_ref),
            None => placed,
        }
    }
}

struct Lengths<'l> {
    symbols: &'l Symbols,
    types: &'l DerivedTypes<'l>,
    variable: &'l VariableInfo,
    frame: &'l dyn FrameContext,
}

impl Lengths<'_> {
    /// The type with the lengths that it leaves open; `None` where it leaves none open.
    fn with_lengths(&self, type_ref: TypeRef, depth: u32) -> Option<TypeRef> {
        let depth = depth.checked_sub(1)?;
        let found = self.types.get(type_ref)?;
        match &found.kind {
            TypeKind::Alias { target: Some(target), .. } => self.with_lengths(*target, depth),
            TypeKind::Pointer { target: Some(target), flavour: PointerFlavour::Pointer } => {
                let target = self.with_lengths(*target, depth)?;
                Some(self.types.pointer_to(Some(target), found.language))
            }
            TypeKind::Array { element, counts, vector: false } => {
                let inner = self.with_lengths(*element, depth);
                let is_open = counts.iter().any(Option::is_none);
                let asked = || self.symbols.counts_in_frame(type_ref, self.variable, self.frame);
                let known = is_open.then(asked).flatten().filter(|known| known.iter().any(Option::is_some));
                if inner.is_none() && known.is_none() {
                    return None;
                }
                let counts = known.as_ref().unwrap_or(counts);
                Some(self.types.array_of(inner.unwrap_or(*element), counts, found.language))
            }
            _ => None,
        }
    }
}
