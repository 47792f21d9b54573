//! How long arrays are whose length only the running program knows.

use gimli::AttributeValue;

use super::{
    FrameContext, Placement, Symbols, VariableHandle, VariableInfo,
    evaluate::Evaluator,
    type_reader::{children_of, constant_count, size_of},
};
use crate::{
    dwarf::{DieRef, Entry, Value, View},
    module::LoadedModule,
    types::TypeRef,
};

/// More dimensions are damage.
const MOST_DIMENSIONS: usize = 64;

impl Symbols {
    /// How many elements an array type has in each dimension, as a frame with a variable of that type
    /// has it; `None` in it for what is not known there either.
    pub(crate) fn counts_in_frame(
        &self,
        array: TypeRef,
        variable: &VariableInfo,
        frame: &dyn FrameContext,
    ) -> Option<Vec<Option<u64>>> {
        let module = self.module(array.module)?;
        let die = DieRef::decode(array.entry);
        let view = module.debug()?.view_of(die)?;
        let function = variable.handle.function;
        let lengths = Lengths { symbols: self, module, view: &view, frame, function };
        let mut counts = Vec::new();
        let _ = children_of(&view, view.offset_of(die)?, &mut |child| {
            if matches!(child.tag(), gimli::DW_TAG_subrange_type | gimli::DW_TAG_enumeration_type) {
                counts.push(lengths.count(child));
            }
            counts.len() < MOST_DIMENSIONS
        });
        Some(counts)
    }
}

/// Where lengths are looked for.
struct Lengths<'s, 'a> {
    symbols: &'s Symbols,
    module: &'s LoadedModule,
    view: &'s View<'a>,
    frame: &'s dyn FrameContext,
    function: Option<DieRef>,
}

impl<'a> Lengths<'_, 'a> {
    fn count(&self, subrange: &Entry<'a>) -> Option<u64> {
        if let Some(count) = constant_count(subrange) {
            return Some(count);
        }
        if let Some(count) = subrange.attr_value(gimli::DW_AT_count) {
            return u64::try_from(self.number(count)?).ok();
        }
        let lower = match subrange.attr_value(gimli::DW_AT_lower_bound) {
            Some(lower) => self.number(lower)?,
            None => 0,
        };
        let upper = self.number(subrange.attr_value(gimli::DW_AT_upper_bound)?)?;
        u64::try_from(upper.checked_sub(lower)?.checked_add(1)?).ok()
    }

    /// A constant, the result of an expression, or what a variable of the compiler holds.
    fn number(&self, value: Value<'a>) -> Option<i64> {
        match value {
            AttributeValue::Exprloc(expression) => {
                let Self { symbols, module, view, frame, function } = *self;
                let evaluator = Evaluator { symbols, module, view, frame, function };
                evaluator.number(expression).ok().map(|number| number as i64)
            }
            AttributeValue::UnitRef(_) | AttributeValue::DebugInfoRef(_) => {
                self.variable(self.module.debug()?.reference(self.view, value)?)
            }
            value => value.sdata_value(),
        }
    }

    fn variable(&self, die: DieRef) -> Option<i64> {
        let handle = VariableHandle { module: self.module.id, die, function: self.function };
        let size = size_of(self.module, self.type_of(die)?)?;
        let size = usize::try_from(size).ok().filter(|size| matches!(size, 1 | 2 | 4 | 8))?;
        let mut bytes = match self.symbols.locate_handle(handle, self.frame).ok()? {
            Placement::Memory(address) => {
                let mut bytes = vec![0; size];
                self.frame.memory().read(address, &mut bytes).ok()?;
                bytes
            }
            Placement::Register(number) => self.frame.register(number)?,
            Placement::Bytes(bytes) => bytes,
            _ => return None,
        };
        bytes.truncate(size);
        bytes.resize(8, 0);
        Some(i64::from_le_bytes(bytes.try_into().ok()?))
    }

    /// The type of a variable that may have no name.
    fn type_of(&self, die: DieRef) -> Option<DieRef> {
        let debug = self.module.debug()?;
        let declared = self.module.declared_at(die);
        let of = |die| {
            let view = debug.view_of(die)?;
            debug.attribute_reference(&view, &view.entry(die)?, gimli::DW_AT_type)
        };
        of(die).or_else(|| of(declared))
    }
}
