//! Where a variable's value is.

use gimli::AttributeValue;

use super::{
    Symbols, VariableHandle, VariableInfo,
    evaluate::{Evaluator, Result},
    type_reader::size_of,
    variables::type_of,
};
use crate::{
    Memory,
    dwarf::{DieRef, Slice, Value, View},
    error::LocateError,
    module::LoadedModule,
    types::{ModuleId, TypeRef},
};

/// A frame whose variables are asked for.
pub trait FrameContext {
    /// A register as it is in this frame, by its DWARF number; `None` where it is not known.
    fn register(&self, dwarf: u16) -> Option<Vec<u8>>;
    /// The program's memory.
    fn memory(&self) -> &dyn Memory;
    /// Where a module's block of thread-local variables has `offset`, in the frame's thread.
    fn tls_address(&self, module: ModuleId, offset: u64) -> Option<u64>;
    /// The canonical frame address.
    fn cfa(&self) -> Option<u64>;
    /// Where execution is; in callers the return address minus one.
    fn pc(&self) -> u64;
    /// The frame that called this one: arguments that were overwritten can often be told from it.
    fn caller(&self) -> Option<&dyn FrameContext> {
        None
    }
}

/// Where a value is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Placement {
    /// In memory.
    Memory(u64),
    /// In a register, by its DWARF number.
    Register(u16),
    /// In several places, lowest bits first.
    Pieces(Vec<Piece>),
    /// Nowhere, but it is known.
    Bytes(Vec<u8>),
    /// A pointer that does not exist, to a variable that may be known.
    ImplicitPointer {
        /// What it would point to.
        target: VariableHandle,
        /// How far into it.
        offset: i64,
    },
    /// Nowhere.
    OptimisedOut,
}

/// A part of a value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Piece {
    /// How many bits it has.
    pub bits: u64,
    /// Which bit of its place is its first.
    pub first_bit: u64,
    /// Its place.
    pub kind: PieceKind,
}

/// Where a part of a value is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PieceKind {
    /// In memory.
    Memory(u64),
    /// In a register, by its DWARF number.
    Register(u16),
    /// Nowhere, but it is known.
    Bytes(Vec<u8>),
    /// Nowhere.
    OptimisedOut,
}

impl Symbols {
    /// Where a variable's value is, in a frame.
    pub fn locate(&self, variable: &VariableInfo, frame: &dyn FrameContext) -> Result<Placement> {
        let placement = self.locate_handle(variable.handle, frame)?;
        Ok(self.fitted(placement, variable.type_ref))
    }

    /// As [`Symbols::locate`], for a handle alone: that of an implicit pointer's target.
    pub fn locate_handle(&self, handle: VariableHandle, frame: &dyn FrameContext) -> Result<Placement> {
        let module = self.module(handle.module).ok_or(LocateError::Gone)?;
        let debug = module.debug().ok_or(LocateError::Gone)?;
        let mut next = handle.die;
        for _ in 0..4 {
            let view = debug.view_of(next).ok_or(LocateError::Damaged)?;
            let entry = view.entry(next).ok_or(LocateError::Damaged)?;
            if let Some(value) = entry.attr_value(gimli::DW_AT_const_value) {
                return Ok(constant_bytes(&view, value));
            }
            if let Some(location) = entry.attr_value(gimli::DW_AT_location) {
                let Some(expression) = expression_at(module, &view, location, frame.pc())? else {
                    return Ok(Placement::OptimisedOut);
                };
                let evaluator =
                    Evaluator { symbols: self, module, view: &view, frame, function: handle.function };
                return evaluator.place(expression);
            }
            // A static variable's place may be told where it was declared.
            match debug.attribute_reference(&view, &entry, gimli::DW_AT_abstract_origin) {
                Some(origin) => next = origin,
                None => break,
            }
        }
        Ok(Placement::OptimisedOut)
    }

    /// As [`Symbols::locate`], for what an implicit pointer points to.
    pub(crate) fn locate_target(
        &self,
        handle: VariableHandle,
        frame: &dyn FrameContext,
    ) -> Result<Placement> {
        let placement = self.locate_handle(handle, frame)?;
        let of = self.module(handle.module).and_then(|module| type_of(module, handle.die));
        Ok(match of {
            Some(of) => self.fitted(placement, of),
            None => placement,
        })
    }

    /// Known bytes cut or padded to the size of the type.
    fn fitted(&self, placement: Placement, type_ref: TypeRef) -> Placement {
        const LARGEST: u64 = 1 << 16;
        let Placement::Bytes(mut bytes) = placement else { return placement };
        let module = self.module(type_ref.module);
        let size = module.and_then(|module| size_of(module, DieRef::decode(type_ref.entry)));
        if let Some(size) = size.filter(|&size| size <= LARGEST) {
            // A constant's highest bit is its sign only where the encoding said so, and then it is long enough.
            bytes.resize(usize::try_from(size).unwrap_or(0), 0);
        }
        Placement::Bytes(bytes)
    }
}

/// The expression that holds at a runtime address; `None` where none does.
pub(super) fn expression_at<'a>(
    module: &LoadedModule,
    view: &View<'a>,
    location: Value<'a>,
    pc: u64,
) -> Result<Option<gimli::Expression<Slice<'a>>>> {
    if let AttributeValue::Exprloc(expression) = location {
        return Ok((!expression.0.slice().is_empty()).then_some(expression));
    }
    if let AttributeValue::Block(bytes) = location {
        return Ok(Some(gimli::Expression(bytes)));
    }
    let locations = view.dwarf.attr_locations(&view.unit, location).map_err(|_| LocateError::Damaged)?;
    let Some(mut locations) = locations else { return Err(LocateError::Damaged) };
    let address = module.to_file(pc);
    while let Some(entry) = locations.next().map_err(|_| LocateError::Damaged)? {
        if entry.range.begin <= address && address < entry.range.end {
            return Ok((!entry.data.0.slice().is_empty()).then_some(entry.data));
        }
    }
    Ok(None)
}

fn constant_bytes<'a>(view: &View<'a>, value: Value<'a>) -> Placement {
    let bytes = match value {
        AttributeValue::Data1(value) => vec![value],
        AttributeValue::Data2(value) => value.to_le_bytes().to_vec(),
        AttributeValue::Data4(value) => value.to_le_bytes().to_vec(),
        AttributeValue::Data8(value) | AttributeValue::Udata(value) => value.to_le_bytes().to_vec(),
        // Enough for the sign of 128 bit numbers.
        AttributeValue::Sdata(value) => i128::from(value).to_le_bytes().to_vec(),
        AttributeValue::Block(bytes) => bytes.slice().to_vec(),
        value => match view.string(value) {
            Some(text) => text.as_bytes().iter().copied().chain([0]).collect(),
            None => return Placement::OptimisedOut,
        },
    };
    Placement::Bytes(bytes)
}
