//! What an instruction wanted of the memory that it faulted at.
//!
//! The processor tells the system, but the system tells nobody else. So it is found out from the instruction: which
//! of its accesses is at the address.

use hindcast_core::debug::FaultAccess;
use iced_x86::{FlowControl, Instruction, InstructionInfoFactory, OpAccess};

use super::{Scene, decode, register_value};
use crate::sys::GeneralRegisters;

/// No instruction is longer.
const LONGEST_INSTRUCTION: u64 = 15;

impl Scene<'_> {
    /// What the instruction at which a thread with these registers stands wanted of `address`. Nothing where that
    /// is not sure.
    pub(super) fn access_to(&self, address: u64, registers: &GeneralRegisters) -> Option<FaultAccess> {
        let pc = registers.pc();
        if address == pc {
            return Some(FaultAccess::Execute);
        }
        let Some(instruction) = decode(self.memory, pc) else {
            // It cannot be read whole: its rest is what was to be executed.
            let is_within = address.wrapping_sub(pc) < LONGEST_INSTRUCTION;
            return is_within.then_some(FaultAccess::Execute);
        };
        let all = accesses(&instruction, registers);
        let there = all.iter().filter(|access| access.place.is_some_and(|place| place.contains(address)));
        // Where none is found, as for the elements of a vector, all may be of one kind.
        agreed(there).or_else(|| agreed(all.iter()))
    }

    /// Of which address the instruction wanted what, where the processor refused it without telling the address: one
    /// that no program can have, or one that is not aligned as the instruction needs it. Only [`FaultAccess::Execute`]
    /// comes without the address.
    pub(super) fn refused_access(&self, registers: &GeneralRegisters) -> Option<(FaultAccess, Option<u64>)> {
        let instruction = decode(self.memory, registers.pc())?;
        let all = accesses(&instruction, registers);
        let places = || all.iter().filter_map(|access| Some((access.kind, access.place?)));
        let impossible = places().find(|(_, place)| !is_canonical(place.start));
        let misaligned = || places().find(|(_, place)| !place.is_aligned());
        if let Some((kind, place)) = impossible.or_else(misaligned) {
            return Some((kind, Some(place.start)));
        }
        let goes_elsewhere = matches!(
            instruction.flow_control(),
            FlowControl::Return | FlowControl::IndirectCall | FlowControl::IndirectBranch
        );
        goes_elsewhere.then_some((FaultAccess::Execute, None))
    }
}

/// An access of an instruction to memory.
struct MemoryAccess {
    kind: FaultAccess,
    /// Absent where it is at several places.
    place: Option<AccessedPlace>,
}

#[derive(Clone, Copy)]
struct AccessedPlace {
    start: u64,
    size: u64,
}

impl AccessedPlace {
    fn contains(&self, address: u64) -> bool {
        address.wrapping_sub(self.start) < self.size.max(1)
    }

    /// Whether it is where the widest instructions want their operands, those that insist on it.
    fn is_aligned(&self) -> bool {
        !matches!(self.size, 16 | 32 | 64) || self.start.is_multiple_of(self.size)
    }
}

fn accesses(instruction: &Instruction, registers: &GeneralRegisters) -> Vec<MemoryAccess> {
    let mut factory = InstructionInfoFactory::new();
    let used = factory.info(instruction).used_memory().iter();
    let told = used.filter_map(|used| {
        let start = used.virtual_address(0, |register, _, _| register_value(registers, register));
        let size = used.memory_size().size() as u64;
        let place = start.map(|start| AccessedPlace { start, size });
        Some(MemoryAccess { kind: kind(used.access())?, place })
    });
    told.collect()
}

fn is_canonical(address: u64) -> bool {
    matches!(address >> 47, 0 | 0x1_ffff)
}

/// What changes memory is checked for writing at once, also where it then changes nothing.
fn kind(access: OpAccess) -> Option<FaultAccess> {
    match access {
        OpAccess::Read | OpAccess::CondRead => Some(FaultAccess::Read),
        OpAccess::Write | OpAccess::CondWrite | OpAccess::ReadWrite | OpAccess::ReadCondWrite => {
            Some(FaultAccess::Write)
        }
        OpAccess::None | OpAccess::NoMemAccess => None,
    }
}

/// The kind of all of them.
fn agreed<'a>(mut accesses: impl Iterator<Item = &'a MemoryAccess>) -> Option<FaultAccess> {
    let first = accesses.next()?.kind;
    accesses.all(|access| access.kind == first).then_some(first)
}
