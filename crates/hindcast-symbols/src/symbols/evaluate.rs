//! Runs the small programs that debug information describes places with.

use gimli::{DieReference, Evaluation, EvaluationResult, Expression, LittleEndian, Location, ValueType};

use super::{
    FrameContext, Piece, PieceKind, Placement, Symbols, VariableHandle, locate::expression_at,
    type_reader::children_of,
};
use crate::{
    dwarf::{DebugInfo, DieRef, Entry, Slice, View},
    error::LocateError,
    module::LoadedModule,
};

pub(super) type Result<T> = std::result::Result<T, LocateError>;

/// Real programs have a handful of steps; loops are damage.
const MOST_STEPS: u32 = 10_000;
/// Frame bases and entry values may ask for more expressions.
const DEEPEST: u32 = 4;

/// What an expression may ask for.
pub(super) struct Evaluator<'s, 'a> {
    pub(super) symbols: &'s Symbols,
    pub(super) module: &'s LoadedModule,
    pub(super) view: &'s View<'a>,
    pub(super) frame: &'s dyn FrameContext,
    /// The physical function around.
    pub(super) function: Option<DieRef>,
}

impl<'a> Evaluator<'_, 'a> {
    pub(super) fn place(&self, expression: Expression<Slice<'a>>) -> Result<Placement> {
        match self.pieces(expression, DEEPEST) {
            Ok(mut pieces) => {
                if pieces.len() == 1 && pieces[0].size_in_bits.is_none() {
                    return self.whole(pieces.remove(0));
                }
                let pieces =
                    pieces.into_iter().take(1 << 12).map(|piece| self.part(piece)).collect::<Vec<_>>();
                if pieces.iter().all(|piece| piece.kind == PieceKind::OptimisedOut) {
                    return Ok(Placement::OptimisedOut);
                }
                Ok(Placement::Pieces(pieces))
            }
            // The value at the function's entry is gone unless the caller still knows it.
            Err(Stopped::EntryValue) => Ok(Placement::OptimisedOut),
            Err(Stopped::Because(error)) => Err(error),
        }
    }

    /// What an expression comes to whose result is a number, not a place.
    pub(super) fn number(&self, expression: Expression<Slice<'a>>) -> Result<u64> {
        let pieces = match self.pieces(expression, DEEPEST) {
            Ok(pieces) => pieces,
            Err(Stopped::EntryValue) => return Err(LocateError::Frame),
            Err(Stopped::Because(error)) => return Err(error),
        };
        match pieces.first().map(|piece| &piece.location) {
            Some(&Location::Address { address }) => Ok(address),
            Some(Location::Value { value }) => value.to_u64(u64::MAX).map_err(|_| LocateError::Damaged),
            _ => Err(LocateError::Frame),
        }
    }

    fn whole(&self, piece: gimli::Piece<Slice<'a>>) -> Result<Placement> {
        Ok(match piece.location {
            Location::Empty => Placement::OptimisedOut,
            Location::Register { register } => Placement::Register(register.0),
            Location::Address { address } => Placement::Memory(address),
            Location::Value { value } => Placement::Bytes(bytes_of(value)),
            Location::Bytes { value } => Placement::Bytes(value.slice().to_vec()),
            Location::ImplicitPointer { value, byte_offset } => Placement::ImplicitPointer {
                target: VariableHandle {
                    module: self.module.id,
                    die: DieRef { file: self.view.file, types: false, offset: value.0 },
                    function: self.function,
                },
                offset: byte_offset,
            },
        })
    }

    fn part(&self, piece: gimli::Piece<Slice<'a>>) -> Piece {
        let kind = match piece.location {
            Location::Register { register } => PieceKind::Register(register.0),
            Location::Address { address } => PieceKind::Memory(address),
            Location::Value { value } => PieceKind::Bytes(bytes_of(value)),
            Location::Bytes { value } => PieceKind::Bytes(value.slice().to_vec()),
            Location::Empty | Location::ImplicitPointer { .. } => PieceKind::OptimisedOut,
        };
        Piece { bits: piece.size_in_bits.unwrap_or(0), first_bit: piece.bit_offset.unwrap_or(0), kind }
    }

    fn pieces(
        &self,
        expression: Expression<Slice<'a>>,
        depth: u32,
    ) -> Stoppable<Vec<gimli::Piece<Slice<'a>>>> {
        let mut evaluation = Evaluation::new(expression.0, self.view.unit.encoding());
        evaluation.set_max_iterations(MOST_STEPS);
        let mut state = evaluation.evaluate();
        // Each question is a step too.
        for _ in 0..MOST_STEPS {
            let result = state.map_err(|_| LocateError::Damaged)?;
            if matches!(result, EvaluationResult::Complete) {
                return Ok(evaluation.result());
            }
            state = self.answer(&mut evaluation, result, depth)?;
        }
        Err(LocateError::Damaged.into())
    }

    fn answer(
        &self,
        evaluation: &mut Evaluation<Slice<'a>>,
        question: EvaluationResult<Slice<'a>>,
        depth: u32,
    ) -> Stoppable<gimli::Result<EvaluationResult<Slice<'a>>>> {
        Ok(match question {
            EvaluationResult::RequiresMemory { address, size, base_type, .. } => {
                let mut bytes = [0; 8];
                let read = &mut bytes[..usize::from(size.min(8))];
                self.frame.memory().read(address, read).map_err(LocateError::from)?;
                evaluation.resume_with_memory(self.value(base_type, &bytes)?)
            }
            EvaluationResult::RequiresRegister { register, base_type } => {
                let bytes = self.frame.register(register.0).ok_or(LocateError::Register(register.0))?;
                evaluation.resume_with_register(self.value(base_type, &bytes)?)
            }
            EvaluationResult::RequiresFrameBase => evaluation.resume_with_frame_base(self.frame_base(depth)?),
            EvaluationResult::RequiresTls(offset) => {
                let address =
                    self.frame.tls_address(self.module.id, offset).ok_or(LocateError::ThreadLocal)?;
                evaluation.resume_with_tls(address)
            }
            EvaluationResult::RequiresCallFrameCfa => {
                evaluation.resume_with_call_frame_cfa(self.frame.cfa().ok_or(LocateError::Frame)?)
            }
            EvaluationResult::RequiresAtLocation(reference) => {
                evaluation.resume_with_at_location(self.location_of(reference)?)
            }
            EvaluationResult::RequiresEntryValue(expression) => {
                let value = self.entry_value(expression, depth)?;
                evaluation.resume_with_entry_value(gimli::Value::Generic(value))
            }
            EvaluationResult::RequiresRelocatedAddress(address) => {
                evaluation.resume_with_relocated_address(self.module.to_runtime(address))
            }
            EvaluationResult::RequiresIndexedAddress { index, relocate } => {
                let address =
                    self.view.dwarf.address(&self.view.unit, index).map_err(|_| LocateError::Damaged)?;
                let address = if relocate { self.module.to_runtime(address) } else { address };
                evaluation.resume_with_indexed_address(address)
            }
            EvaluationResult::RequiresBaseType(offset) => {
                evaluation.resume_with_base_type(self.base_type(offset)?)
            }
            EvaluationResult::RequiresParameterRef(offset) => {
                let passed = Passed::Parameter(self.view.die_ref(offset));
                evaluation.resume_with_parameter_ref(self.passed(&passed, depth)?)
            }
            _ => return Err(LocateError::Unsupported("an operation of another machine").into()),
        })
    }

    fn value(&self, base_type: gimli::UnitOffset, bytes: &[u8]) -> Stoppable<gimli::Value> {
        let of = self.base_type(base_type)?;
        let mut padded = [0; 16];
        let length = bytes.len().min(16);
        padded[..length].copy_from_slice(&bytes[..length]);
        if of == ValueType::Generic {
            let mut low = [0; 8];
            low.copy_from_slice(&padded[..8]);
            return Ok(gimli::Value::Generic(u64::from_le_bytes(low)));
        }
        gimli::Value::parse(of, Slice::new(&padded, LittleEndian)).map_err(|_| LocateError::Damaged.into())
    }

    fn base_type(&self, offset: gimli::UnitOffset) -> Stoppable<ValueType> {
        if offset.0 == 0 {
            return Ok(ValueType::Generic);
        }
        let entry = self.view.unit.entry(offset).map_err(|_| LocateError::Damaged)?;
        let of = ValueType::from_entry(&entry).map_err(|_| LocateError::Damaged)?;
        of.ok_or_else(|| LocateError::Unsupported("a number of unusual size").into())
    }

    /// What the function's variables are counted from.
    fn frame_base(&self, depth: u32) -> Stoppable<u64> {
        let depth = depth.checked_sub(1).ok_or(LocateError::Damaged)?;
        let debug = self.module.debug().ok_or(LocateError::Gone)?;
        let function = self.function.ok_or(LocateError::Frame)?;
        let view = debug.view_of(function).ok_or(LocateError::Damaged)?;
        let entry = view.entry(function).ok_or(LocateError::Damaged)?;
        let base = entry.attr_value(gimli::DW_AT_frame_base).ok_or(LocateError::Frame)?;
        let expression =
            expression_at(self.module, &view, base, self.frame.pc())?.ok_or(LocateError::Frame)?;
        let evaluator = Evaluator { view: &view, ..*self };
        let pieces = evaluator.pieces(expression, depth)?;
        match pieces.first().map(|piece| &piece.location) {
            Some(&Location::Register { register }) => self.register_number(register.0),
            Some(&Location::Address { address }) => Ok(address),
            Some(Location::Value { value }) => {
                Ok(value.to_u64(u64::MAX).map_err(|_| LocateError::Damaged)?)
            }
            _ => Err(LocateError::Frame.into()),
        }
    }

    fn register_number(&self, register: u16) -> Stoppable<u64> {
        let bytes = self.frame.register(register).ok_or(LocateError::Register(register))?;
        let mut low = [0; 8];
        let length = bytes.len().min(8);
        low[..length].copy_from_slice(&bytes[..length]);
        Ok(u64::from_le_bytes(low))
    }

    /// The expression of another entry, run in place.
    fn location_of(&self, reference: DieReference) -> Stoppable<Slice<'a>> {
        let offset = match reference {
            DieReference::UnitRef(offset) => offset,
            DieReference::DebugInfoRef(_) => {
                return Err(LocateError::Unsupported("a location of another unit").into());
            }
        };
        let entry = self.view.unit.entry(offset).map_err(|_| LocateError::Damaged)?;
        let Some(location) = entry.attr_value(gimli::DW_AT_location) else {
            return Ok(Slice::new(&[], LittleEndian));
        };
        let expression = expression_at(self.module, self.view, location, self.frame.pc())?;
        Ok(expression.map_or(Slice::new(&[], LittleEndian), |expression| expression.0))
    }

    /// What a register held when the function was called, as its caller's code tells.
    fn entry_value(&self, expression: Expression<Slice<'a>>, depth: u32) -> Stoppable<u64> {
        self.passed(&Passed::In(expression.0.slice()), depth)
    }

    /// Whether a call of this frame's function is one of the function that `callee` is in.
    fn calls(&self, call: &Entry<'a>, callee: &Evaluator<'_, '_>, depth: u32) -> bool {
        let is_called = || -> Option<bool> {
            let start = callee.start()?;
            if let Some(target) = self.direct_target()
                && (target == start || self.symbols.function_at(target)?.start == target)
            {
                return Some(target == start);
            }
            let debug = self.module.debug()?;
            let origin = debug
                .attribute_reference(self.view, call, gimli::DW_AT_call_origin)
                .or_else(|| debug.attribute_reference(self.view, call, gimli::DW_AT_abstract_origin));
            if let Some(origin) = origin {
                return Some(self.is_name_of(origin, callee));
            }
            let target = call
                .attr_value(gimli::DW_AT_call_target)
                .or_else(|| call.attr_value(gimli::DW_AT_GNU_call_site_target))?;
            Some(self.told_value(target.exprloc_value()?, depth).ok()? == start)
        };
        is_called() == Some(true)
    }

    /// Where the function begins that the frame is in.
    fn start(&self) -> Option<u64> {
        let function = self.module.function_die_at(self.module.to_file(self.frame.pc()))?;
        Some(self.module.to_runtime(function.ranges.first()?.start))
    }

    /// Where the call leads that the frame is in, if the instruction itself says so.
    fn direct_target(&self) -> Option<u64> {
        const CALL: u8 = 0xe8;
        let returns_to = self.frame.pc().wrapping_add(1);
        let mut code = [0; 5];
        self.frame.memory().read(returns_to.wrapping_sub(5), &mut code).ok()?;
        let distance = i32::from_le_bytes(*code.last_chunk()?);
        (code[0] == CALL).then(|| returns_to.wrapping_add_signed(distance.into()))
    }

    /// Whether the linker knows the function that `callee` is in, and not a part or a variant of it, by the name that
    /// a call has for what it calls: one of another file is only declared there.
    fn is_name_of(&self, origin: DieRef, callee: &Evaluator<'_, '_>) -> bool {
        let called = || -> Option<String> {
            let table = callee.module.symbol_table()?;
            let start = callee.module.to_file(callee.start()?);
            let symbol = table.at(start).filter(|symbol| symbol.address == start)?;
            Some(String::from_utf8_lossy(table.name(symbol)).into_owned())
        };
        let names = self.module.function_names(origin);
        called().is_some_and(|called| names.linkage_name.or(names.name) == Some(called))
    }

    /// What the caller passed.
    fn passed(&self, passed: &Passed<'_>, depth: u32) -> Stoppable<u64> {
        let depth = depth.checked_sub(1).ok_or(Stopped::EntryValue)?;
        let caller = self.frame.caller().ok_or(Stopped::EntryValue)?;
        let return_address = caller.pc().wrapping_add(1);
        let module = self.symbols.loaded_at(caller.pc()).ok_or(Stopped::EntryValue)?;
        let function = module.function_die_at(module.to_file(caller.pc())).ok_or(Stopped::EntryValue)?;
        let debug = module.debug().ok_or(Stopped::EntryValue)?;
        let view = debug.view_of(function.die).ok_or(Stopped::EntryValue)?;
        let evaluator = Evaluator {
            symbols: self.symbols,
            module,
            view: &view,
            frame: caller,
            function: Some(function.die),
        };
        let call = call_site(&view, function.die, module.to_file(return_address));
        let call = call.ok_or(Stopped::EntryValue)?;
        // What was called may have left the rest to another function, which was passed something else.
        if !evaluator.calls(&call, self, depth) {
            return Err(Stopped::EntryValue);
        }
        let value = passed_by(debug, &view, &call, passed);
        evaluator.told_value(value.ok_or(Stopped::EntryValue)?, depth)
    }

    /// What an expression comes to that tells a value.
    fn told_value(&self, expression: Expression<Slice<'a>>, depth: u32) -> Stoppable<u64> {
        let pieces = self.pieces(expression, depth)?;
        match pieces.first().map(|piece| &piece.location) {
            Some(Location::Value { value }) => {
                Ok(value.to_u64(u64::MAX).map_err(|_| LocateError::Damaged)?)
            }
            // Without an operator that says so, the result is the value itself.
            Some(&Location::Address { address }) => Ok(address),
            Some(&Location::Register { register }) => self.register_number(register.0),
            _ => Err(Stopped::EntryValue),
        }
    }
}

/// Something that a caller passed.
enum Passed<'e> {
    /// What was in this register.
    In(&'e [u8]),
    /// A parameter that the optimiser took out of the function, though its callers still know it.
    Parameter(DieRef),
}

/// The call of a function that returns to `return_address`.
fn call_site<'a>(view: &View<'a>, function: DieRef, return_address: u64) -> Option<Entry<'a>> {
    let mut entries = view.unit.entries_raw(Some(view.offset_of(function)?)).ok()?;
    let mut entry = Entry::null();
    entries.read_entry(&mut entry).ok()?;
    while !entries.is_empty() && entries.next_depth() > 0 {
        if !entries.read_entry(&mut entry).ok()? {
            continue;
        }
        let returns_to = match entry.tag() {
            gimli::DW_TAG_call_site => entry.attr_value(gimli::DW_AT_call_return_pc),
            gimli::DW_TAG_GNU_call_site => entry.attr_value(gimli::DW_AT_low_pc),
            _ => continue,
        };
        if returns_to.and_then(|value| view.address(value)) == Some(return_address) {
            return Some(entry);
        }
    }
    None
}

/// The expression with which a call passed what is asked for.
fn passed_by<'a>(
    debug: &DebugInfo,
    view: &View<'a>,
    call: &Entry<'a>,
    passed: &Passed<'_>,
) -> Option<Expression<Slice<'a>>> {
    let mut found = None;
    let _ = children_of(view, call.offset(), &mut |child| {
        let location = child.attr_value(gimli::DW_AT_location).and_then(|value| value.exprloc_value());
        let value = child
            .attr_value(gimli::DW_AT_call_value)
            .or_else(|| child.attr_value(gimli::DW_AT_GNU_call_site_value));
        let parameter = || {
            let modern = debug.attribute_reference(view, child, gimli::DW_AT_call_parameter);
            modern.or_else(|| debug.attribute_reference(view, child, gimli::DW_AT_abstract_origin))
        };
        let is_meant = match passed {
            Passed::In(register) => location.is_some_and(|location| location.0.slice() == *register),
            Passed::Parameter(wanted) => parameter() == Some(*wanted),
        };
        if is_meant {
            found = value.and_then(|value| value.exprloc_value());
        }
        found.is_none()
    });
    found
}

fn bytes_of(value: gimli::Value) -> Vec<u8> {
    use gimli::Value;
    match value {
        Value::Generic(value) | Value::U64(value) => value.to_le_bytes().to_vec(),
        Value::I8(value) => value.to_le_bytes().to_vec(),
        Value::U8(value) => value.to_le_bytes().to_vec(),
        Value::I16(value) => value.to_le_bytes().to_vec(),
        Value::U16(value) => value.to_le_bytes().to_vec(),
        Value::I32(value) => value.to_le_bytes().to_vec(),
        Value::U32(value) => value.to_le_bytes().to_vec(),
        Value::I64(value) => value.to_le_bytes().to_vec(),
        Value::F32(value) => value.to_le_bytes().to_vec(),
        Value::F64(value) => value.to_le_bytes().to_vec(),
    }
}

type Stoppable<T> = std::result::Result<T, Stopped>;

/// Why an expression has no result.
enum Stopped {
    /// It needs a value that only an earlier moment knows.
    EntryValue,
    Because(LocateError),
}

impl From<LocateError> for Stopped {
    fn from(error: LocateError) -> Self {
        Self::Because(error)
    }
}
