//! Who wrote to memory last, and where the value came from.

use std::sync::Arc;

use hindcast_core::debug::{
    DebugBackend as _, DebugError, MemoryWrite, Moment, NumberFormat, Reason, Remedy, ValueLimits, Watched,
    Writer,
};
use hindcast_symbols::{
    Memory as _, Symbols,
    types::{Encoding, Type, TypeKind, TypeRef, Types as _},
    value::{DerivedTypes, Inspector, Placed},
};
use iced_x86::{Instruction, InstructionInfoFactory, Mnemonic, OpAccess, OpKind, Register};

use super::{
    Session, system,
    travel::{Departure, Halted, function_around},
};
use crate::{
    debuggee::{Found, Quarry},
    process::CleanMemory,
    record::Event,
    replay::Position,
};

/// Memory that somebody wants to know of.
#[derive(Debug, Clone, Copy)]
pub(super) struct Cell {
    pub(super) address: u64,
    pub(super) size: u64,
    /// What is there, where that is known.
    pub(super) type_ref: Option<TypeRef>,
}

/// What was asked, and when.
#[derive(Debug, Clone, PartialEq)]
struct Question {
    watched: Watched,
    depth: u32,
    position: Position,
}

/// A value that is followed from write to write.
#[derive(Debug)]
pub(super) struct Chase {
    question: Question,
    /// The next write is looked for before this moment.
    position: Position,
    cell: Cell,
    /// The next write, where it was found but not looked at.
    found: Option<Found>,
    writes: Vec<MemoryWrite>,
    /// How many writes were followed that were not only moves by the system.
    hops: u32,
}

impl Session {
    /// The last write of a value before now, and as many of those that it came from as `depth` says. What the system only
    /// moved is one more. A question that was interrupted goes on where it was.
    pub(super) fn writes_of(&mut self, watched: &Watched, depth: u32) -> Result<Vec<MemoryWrite>, Halted> {
        self.history()?;
        let Departure { position, gap, .. } = self.departure()?;
        if let Some(gap) = gap {
            return Err(Halted::Failed(behind_the_end(&gap, &position)));
        }
        if self.process.ended().is_some() {
            self.land(&position)?;
        }
        if let Some(writes) = self.python_writes_of(watched, &position)? {
            return Ok(writes);
        }
        let question = Question { watched: watched.clone(), depth, position: position.clone() };
        let mut chase = match self.chase.take().filter(|chase| chase.question == question) {
            Some(chase) => chase,
            None => {
                let cell = self.place_of(watched)?;
                if self.bytes_of(cell).is_none() {
                    return Err(Halted::Failed(not_mapped(cell)));
                }
                Chase { question, position, cell, found: None, writes: Vec::new(), hops: 0 }
            }
        };
        let result = self.follow_writes(&mut chase);
        match result {
            Ok(()) => Ok(chase.writes),
            Err(halted) => {
                self.chase = matches!(halted, Halted::Interrupted).then_some(chase);
                Err(halted)
            }
        }
    }

    fn follow_writes(&mut self, chase: &mut Chase) -> Result<(), Halted> {
        while chase.hops < chase.question.depth.max(1) {
            let Chase { position, cell, .. } = chase;
            let cell = *cell;
            self.land(position)?;
            let quarry = Quarry::Write { address: cell.address, size: cell.size };
            let found = match chase.found.clone() {
                Some(found) => Some(found),
                None => self.find(position, quarry)?,
            };
            chase.found.clone_from(&found);
            let there = self.bytes_of(cell);
            let Some(found) = found else {
                if chase.writes.is_empty() {
                    self.check_unwritten(cell, there)?;
                }
                break;
            };
            let (mut write, left) = self.describe_write(&found, cell)?;
            if left != there {
                if chase.writes.is_empty() {
                    return Err(Halted::Failed(written_by_others(&write.new)));
                }
                break;
            }
            // Standing right before the write: where did the value come from?
            let source = match (self.process.known_position(), &found.pause) {
                (Some(before), Some(_)) => self.memory_source(&before, cell, left.as_deref())?,
                (Some(before), None) => self.moved_from(&found.position, cell).map(|cell| (before, cell)),
                (None, _) => None,
            };
            write.from =
                source.as_ref().map(|(_, cell)| format!("{} bytes at {:#x}", cell.size, cell.address));
            chase.writes.push(write);
            chase.found = None;
            let Some((position, cell)) = source else { break };
            (chase.position, chase.cell) = (position, cell);
            chase.hops += u32::from(found.pause.is_some());
        }
        Ok(())
    }

    /// What was never written must be as it was at the start.
    fn check_unwritten(&mut self, cell: Cell, there: Option<Vec<u8>>) -> Result<(), Halted> {
        let start = self.first()?;
        self.land(&start)?;
        // A stack that has grown since then was not there, and is zero where it is.
        let zero = || vec![0; cell.size as usize];
        if self.bytes_of(cell).unwrap_or_else(zero) == there.unwrap_or_else(zero) {
            return Ok(());
        }
        Err(Halted::Failed(written_by_others(&self.text_of(cell))))
    }

    /// What a write that was found looks like, and what it left there.
    fn describe_write(
        &mut self,
        found: &Found,
        cell: Cell,
    ) -> Result<(MemoryWrite, Option<Vec<u8>>), Halted> {
        let after = found.position.clone();
        let before = self
            .before(&after)?
            .ok_or_else(|| DebugError::NoHistory("it was written before the recording began".into()))?;
        self.land(&after)?;
        let (new, left) = (self.text_of(cell), self.bytes_of(cell));
        self.land(&before)?;
        let old = self.text_of(cell);
        let tid = self.process.acting();
        let registers = self.process.registers(tid).map_err(system)?;
        let location = self.location(registers.pc());
        let stack = self.stack(super::movement::thread_id(tid), 8)?;
        let by = if found.pause.is_some() { Writer::Program } else { Writer::Kernel };
        let thread = super::movement::thread_id(tid);
        let moment = Moment(after.to_string());
        Ok((MemoryWrite { moment, thread, location, old, new, stack, by, from: None }, left))
    }

    /// Where memory was before the event that ends at a moment moved it, if that is what it did.
    fn moved_from(&self, after: &Position, cell: Cell) -> Option<Cell> {
        let event = after.anchor.aligned_event()?.checked_sub(1)?;
        match &*self.process.recorder()?.log.get(event)? {
            Event::Call(call) => Some(Cell { address: call.moved_from(cell.address, cell.size)?, ..cell }),
            _ => None,
        }
    }

    fn bytes_of(&self, cell: Cell) -> Option<Vec<u8>> {
        let mut bytes = vec![0; cell.size as usize];
        self.process.memory().read(cell.address, &mut bytes).is_ok().then_some(bytes)
    }

    fn text_of(&self, cell: Cell) -> String {
        value_text(&self.symbols, &self.process.memory(), cell)
    }

    pub(super) fn encoding_of(&self, type_ref: TypeRef) -> Option<Encoding> {
        encoding_of(&self.symbols, type_ref)
    }

    /// Where the value came from that the instruction at a moment writes: memory, and since when it
    /// was known. `None` where it was computed, or came from elsewhere. `left` is what the instruction left in the cell: what is read
    /// must be the same, or it is not where that came from.
    fn memory_source(
        &mut self,
        writer: &Position,
        cell: Cell,
        left: Option<&[u8]>,
    ) -> Result<Option<(Position, Cell)>, Halted> {
        const FARTHEST_SOURCE: usize = 64;
        let mut position = writer.clone();
        let mut wanted = None;
        // Where the instruction writes to: the cell may be a part of what it writes.
        let mut target = cell.address;
        let mut information = InstructionInfoFactory::new();
        for _ in 0..FARTHEST_SOURCE {
            let symbols = &self.symbols;
            let standing =
                self.process.standing_at(&position, &|address| function_around(symbols, address))?;
            let registers = standing.registers;
            let Some(instruction) = crate::look::decode(&self.process.memory(), registers.pc()) else {
                return Ok(None);
            };
            let value = |register, _, _| crate::look::register_value(&registers, register);
            let memory = self.process.memory();
            let source = |target: u64, address: u64, width: u64| {
                let offset = cell.address.saturating_sub(target);
                let size = width.checked_sub(offset).filter(|size| *size > 0)?.min(8).min(cell.size);
                // Of another size it is another thing.
                let type_ref = cell.type_ref.filter(|_| size == cell.size);
                let source = Cell { address: address.checked_add(offset)?, size, type_ref };
                let mut bytes = vec![0; size as usize];
                memory.read(source.address, &mut bytes).ok()?;
                let written = left?.get(target.saturating_sub(cell.address) as usize..)?;
                let is_same = written.len() >= bytes.len() && written[..bytes.len()] == bytes[..];
                is_same.then_some(source)
            };
            match wanted {
                None if instruction.is_string_instruction() => {
                    let (from, to) = (registers.get("rsi"), registers.get("rdi"));
                    let (Some(from), Some(to), true) = (from, to, copies(&instruction)) else {
                        return Ok(None);
                    };
                    // Several elements may have been copied at once.
                    let width = cell.address.saturating_sub(to).saturating_add(cell.size);
                    return Ok(source(to, from, width).map(|source| (position, source)));
                }
                None if instruction.op1_kind() == OpKind::Register && moves(&instruction) => {
                    wanted = Some(instruction.op1_register().full_register());
                    target = instruction.virtual_address(0, 0, value).unwrap_or(cell.address);
                }
                None => return Ok(None),
                Some(register) if writes(&mut information, &instruction, register) => {
                    let is_target = instruction.op0_kind() == OpKind::Register
                        && instruction.op0_register().full_register() == register;
                    if !moves(&instruction) || !is_target {
                        return Ok(None);
                    }
                    match instruction.op1_kind() {
                        OpKind::Memory => {
                            let width = instruction.memory_size().size() as u64;
                            let address = instruction.virtual_address(1, 0, value);
                            let source = address.and_then(|address| source(target, address, width));
                            return Ok(source.map(|source| (position, source)));
                        }
                        OpKind::Register => wanted = Some(instruction.op1_register().full_register()),
                        _ => return Ok(None),
                    }
                }
                Some(_) => {}
            }
            let Some(earlier) = self.before_in_thread(&position, standing.thread)? else { return Ok(None) };
            position = earlier;
        }
        Ok(None)
    }
}

/// A value as it is told.
pub(super) fn value_text(symbols: &Symbols, memory: &CleanMemory<'_>, cell: Cell) -> String {
    const LONGEST: u64 = 64;
    let mut bytes = vec![0; cell.size.min(LONGEST) as usize];
    if memory.read(cell.address, &mut bytes).is_err() {
        return "not mapped".into();
    }
    let encoding = cell.type_ref.and_then(|type_ref| encoding_of(symbols, type_ref));
    if let Some(type_ref) = cell.type_ref.filter(|type_ref| !is_told_as_number(symbols, *type_ref)) {
        let types = DerivedTypes::new(symbols);
        let limits = ValueLimits { text: LONGEST as u32, ..ValueLimits::default() };
        let inspector = Inspector::new(&types, memory, limits, NumberFormat::Auto);
        return inspector.line(&Placed::memory(type_ref, cell.address));
    }
    match text_behind(memory, &bytes) {
        Some(text) => format!("{} {text:?}", super::watch::number(&bytes, false)),
        None => super::watch::number(&bytes, encoding == Some(Encoding::Signed)),
    }
}

/// Whether the values of a type are told as numbers: integers and pointers are; names of enumerators, truth values, characters, texts and
/// the like say more.
fn is_told_as_number(symbols: &Symbols, type_ref: TypeRef) -> bool {
    match aliased(symbols, type_ref).as_deref().map(|known| &known.kind) {
        Some(TypeKind::Base(encoding)) => {
            matches!(encoding, Encoding::Signed | Encoding::Unsigned | Encoding::Other)
        }
        Some(TypeKind::Enum { .. } | TypeKind::Array { .. } | TypeKind::Struct(_)) => false,
        _ => true,
    }
}

/// The text that a pointer points to, if it does.
fn text_behind(memory: &CleanMemory<'_>, bytes: &[u8]) -> Option<String> {
    const LONGEST: usize = 40;
    let address = u64::from_le_bytes(bytes.try_into().ok()?);
    let mut text = [0; LONGEST];
    let count = memory.read_some(address, &mut text);
    let end = text[..count].iter().position(|&byte| byte == 0).unwrap_or(count);
    let text = std::str::from_utf8(&text[..end]).ok()?;
    (!text.is_empty() && text.chars().all(|letter| !letter.is_control())).then(|| text.to_owned())
}

/// How the numbers of a type are written, if it has any.
pub(super) fn encoding_of(symbols: &Symbols, type_ref: TypeRef) -> Option<Encoding> {
    match aliased(symbols, type_ref)?.kind {
        TypeKind::Base(encoding) => Some(encoding),
        _ => None,
    }
}

/// What a type really is, behind its other names.
pub(super) fn aliased(symbols: &Symbols, type_ref: TypeRef) -> Option<Arc<Type>> {
    /// A chain of aliases this long is a circle.
    const LONGEST_CHAIN: usize = 64;
    let mut at = Some(type_ref);
    for _ in 0..LONGEST_CHAIN {
        let known = symbols.get(at?)?;
        match known.kind {
            TypeKind::Alias { target, .. } => at = target,
            _ => return Some(known),
        }
    }
    None
}

/// The program has gone on where nothing was recorded any more.
pub(super) fn behind_the_end(gap: &str, end: &Position) -> DebugError {
    let reason = Reason::new(format!("{gap}; who wrote since then is not known"))
        .remedy(Remedy::AskAt(Moment(end.to_string())))
        .advise("set a watchpoint before the write and run the program again");
    DebugError::NoHistory(reason)
}

/// There is no value that somebody could have written.
fn not_mapped(cell: Cell) -> DebugError {
    let Cell { address, size, .. } = cell;
    let what = format!(
        "nothing is mapped at {address:#x} ({size} bytes) at this moment, so no write to it can be told"
    );
    DebugError::Expression(
        Reason::new(what)
            .advise("ask for the pointer that leads there")
            .remedy(Remedy::AskWhen("it was mapped".into())),
    )
}

/// The recording does not lead to what is there.
fn written_by_others(known: &str) -> DebugError {
    DebugError::NoHistory(Reason::new(format!("the recording knows only of {known} there, which is not what is there now: something else wrote it, such as another process through shared memory"
    )).advise("set a watchpoint on it and run the program again"))
}

/// Whether the value of an instruction's second operand becomes that of its first, or the beginning of it.
fn moves(instruction: &Instruction) -> bool {
    use Mnemonic as M;
    let is_move = matches!(
        instruction.mnemonic(),
        M::Mov
            | M::Movzx
            | M::Movsx
            | M::Movsxd
            | M::Movd
            | M::Movq
            | M::Movss
            | M::Movsd
            | M::Movaps
            | M::Movapd
            | M::Movups
            | M::Movupd
            | M::Movdqa
            | M::Movdqu
            | M::Vmovd
            | M::Vmovq
            | M::Vmovss
            | M::Vmovsd
            | M::Vmovaps
            | M::Vmovapd
            | M::Vmovups
            | M::Vmovupd
            | M::Vmovdqa
            | M::Vmovdqu
    );
    // Those with three operands put two values together.
    is_move && instruction.op_count() == 2 && !instruction.is_string_instruction()
}

/// Whether a string instruction copies memory.
fn copies(instruction: &Instruction) -> bool {
    matches!(instruction.mnemonic(), Mnemonic::Movsb | Mnemonic::Movsw | Mnemonic::Movsd | Mnemonic::Movsq)
}

fn writes(information: &mut InstructionInfoFactory, instruction: &Instruction, register: Register) -> bool {
    information.info(instruction).used_registers().iter().any(|used| {
        used.register().full_register() == register
            && matches!(
                used.access(),
                OpAccess::Write | OpAccess::CondWrite | OpAccess::ReadWrite | OpAccess::ReadCondWrite
            )
    })
}
