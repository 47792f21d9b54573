//! What an instruction did to memory that is watched. The processor reports an access after the instruction and does
//! not say whether it read or wrote: the instruction does.

use std::ops::Range;

use hindcast_symbols::Symbols;
use iced_x86::{
    Decoder, DecoderOptions, FlowControl, Instruction, InstructionInfoFactory, OpAccess, Register, UsedMemory,
};

use super::function_around;
use crate::{
    look::{decode, register_value},
    process::CleanMemory,
    sys::GeneralRegisters,
};

/// How memory was accessed. An instruction such as `add [counter], 1` does both.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Accessed {
    pub(super) reads: bool,
    pub(super) writes: bool,
}

const READS: Accessed = Accessed { reads: true, writes: false };
const WRITES: Accessed = Accessed { reads: false, writes: true };
const LARGEST_FUNCTION: u64 = 1 << 20;

impl Accessed {
    fn by(access: OpAccess) -> Self {
        use OpAccess as A;
        Self {
            reads: matches!(access, A::Read | A::CondRead | A::ReadWrite | A::ReadCondWrite),
            writes: matches!(access, A::Write | A::CondWrite | A::ReadWrite | A::ReadCondWrite),
        }
    }

    fn and(self, other: Self) -> Self {
        Self { reads: self.reads || other.reads, writes: self.writes || other.writes }
    }

    fn is_none(self) -> bool {
        self == Self::default()
    }
}

/// How a thread accessed `range` last; `None` where that cannot be told.
pub(super) fn accessed(
    memory: &CleanMemory<'_>,
    symbols: &Symbols,
    registers: &GeneralRegisters,
    range: &Range<u64>,
) -> Option<Accessed> {
    // Between two rounds of a repetition the thread stands at the instruction that accessed. Whether it has begun is not
    // known, so that it may also have been the one before.
    let by_round = decode(memory, registers.pc())
        .filter(is_repeated)
        .map(|repeated| by_string(&repeated, registers, range))
        .filter(|by| !by.is_none());
    let before = accessed_before(memory, symbols, registers, range);
    match (by_round, before) {
        (Some(by_round), Some(before)) => Some(by_round.and(before)),
        (by_round, before) => by_round.or(before),
    }
}

/// How the instruction in front of the one that a thread stands at accessed `range`; `None` where that cannot be told.
fn accessed_before(
    memory: &CleanMemory<'_>,
    symbols: &Symbols,
    registers: &GeneralRegisters,
    range: &Range<u64>,
) -> Option<Accessed> {
    let (pc, stack) = (registers.pc(), registers.sp());
    let overlaps = |start: u64, end: u64| start < range.end && range.start < end;
    let function = function_around(symbols, pc).filter(|range| range.end - range.start < LARGEST_FUNCTION)?;
    let Some(last) = instruction_before(memory, &function, pc) else {
        // Called or jumped to: a call writes where it returns to, and an indirect one reads where it goes.
        let pushed = pc == function.start && overlaps(stack, stack.wrapping_add(8));
        return Some(if pushed { WRITES } else { READS });
    };
    match last.flow_control() {
        // It returned from there.
        FlowControl::Call | FlowControl::IndirectCall => Some(READS),
        // Nobody comes from there: a jump through memory led here.
        FlowControl::UnconditionalBranch | FlowControl::IndirectBranch | FlowControl::Return => Some(READS),
        _ if last.is_string_instruction() => {
            Some(by_string(&last, registers, range)).filter(|by| !by.is_none())
        }
        _ => by_operands(&last, registers, range),
    }
}

fn is_repeated(instruction: &Instruction) -> bool {
    instruction.is_string_instruction() && (instruction.has_rep_prefix() || instruction.has_repne_prefix())
}

/// The instruction of a function that ends where `pc` is.
fn instruction_before(memory: &CleanMemory<'_>, function: &Range<u64>, pc: u64) -> Option<Instruction> {
    let mut code = vec![0; usize::try_from(pc.checked_sub(function.start)?).ok()?];
    let count = memory.read_some(function.start, &mut code);
    let decoder = Decoder::with_ip(64, &code[..count], function.start, DecoderOptions::NONE);
    decoder
        .into_iter()
        .take_while(|instruction| instruction.next_ip() <= pc)
        .last()
        .filter(|last| last.next_ip() == pc && !last.is_invalid())
}

/// What a string instruction has just done: its pointers stand behind it.
fn by_string(instruction: &Instruction, registers: &GeneralRegisters, range: &Range<u64>) -> Accessed {
    /// The processor may do several rounds before it reports.
    const ROUNDS: u64 = 64;
    const DOWNWARDS: u64 = 1 << 10;
    let width = instruction.memory_size().size().max(1) as u64;
    let behind = |name: &str| {
        let at = registers.get(name).unwrap_or(0);
        let (start, end) = match registers.get("eflags").unwrap_or(0) & DOWNWARDS {
            0 => (at.saturating_sub(width.max(ROUNDS)), at),
            _ => (at.saturating_add(width), at.saturating_add(width + width.max(ROUNDS))),
        };
        start < range.end && range.start < end
    };
    let mut information = InstructionInfoFactory::new();
    let used = information.info(instruction).used_memory();
    let through = |used: &UsedMemory| match used.base().full_register() {
        Register::RSI => behind("rsi"),
        Register::RDI => behind("rdi"),
        _ => false,
    };
    used.iter()
        .filter(|used| through(used))
        .fold(Accessed::default(), |all, used| all.and(Accessed::by(used.access())))
}

/// What the operands say whose address is in the range, or can be: a register that the instruction has changed since
/// does not tell.
fn by_operands(
    instruction: &Instruction,
    registers: &GeneralRegisters,
    range: &Range<u64>,
) -> Option<Accessed> {
    let mut information = InstructionInfoFactory::new();
    let information = information.info(instruction);
    let is_changed = |register: Register| {
        information.used_registers().iter().any(|used| {
            used.register().full_register() == register.full_register() && Accessed::by(used.access()).writes
        })
    };
    let (mut sure, mut possible) = (Accessed::default(), Accessed::default());
    for used in information.used_memory() {
        let by = Accessed::by(used.access());
        if is_changed(used.base()) || is_changed(used.index()) {
            possible = possible.and(by);
            continue;
        }
        let start = used.virtual_address(0, |register, _, _| register_value(registers, register));
        let size = used.memory_size().size().max(1) as u64;
        match start {
            Some(start) if start < range.end && range.start < start.saturating_add(size) => {
                sure = sure.and(by)
            }
            Some(_) => {}
            None => possible = possible.and(by),
        }
    }
    [sure, possible].into_iter().find(|by| !by.is_none())
}
