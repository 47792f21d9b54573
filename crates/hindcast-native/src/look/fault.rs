//! What an instruction wanted of the memory that it faulted at, and what is wrong with that.
//!
//! The processor tells the system, but the system tells nobody else. So it is found out from the instruction: which
//! of its accesses is at the address.

use hindcast_core::debug::{BadPointer, Fault, FaultAccess, FaultKind, RaisedSignal, Region, RuntimeAddr};
use iced_x86::{FlowControl, Instruction, InstructionInfoFactory, OpAccess, Register};

use super::{Scene, decode, regions_around, register_value};
use crate::{
    session::signals::{BEYOND_FILE, MISALIGNED, PROTECTION_FAULT},
    sys::{GeneralRegisters, Mapping},
};

/// No instruction is longer.
const LONGEST_INSTRUCTION: u64 = 15;
/// The first page is never mapped, and objects behind a null pointer are seldom larger than this.
const NULL_PAGES: u64 = 0x1_0000;
/// How far below its mapping a stack is still overrun rather than missed.
const BELOW_STACK: u64 = 0x10_0000;
/// How near to a mapping an address is just outside of it.
const JUST_OUTSIDE: u64 = 0x1_0000;

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

    /// What is wrong with an access that ended in `signal`; none where that is not about memory.
    pub(super) fn fault(
        &self,
        signal: &RaisedSignal,
        access: Option<FaultAccess>,
        registers: &GeneralRegisters,
        mappings: &[Mapping],
    ) -> Option<Fault> {
        let instruction = decode(self.memory, registers.pc());
        let evidence = Evidence {
            cause: signal.cause.as_deref(),
            address: signal.fault_address,
            access,
            stack_pointer: registers.sp(),
            pointers: instruction.map(|it| pointers(&it, registers)).unwrap_or_default(),
            regions: signal.fault_address.map(|at| regions_around(mappings, at.0)).unwrap_or_default(),
        };
        evidence.judge()
    }
}

/// What is known of a failed access.
#[derive(Debug, Default)]
struct Evidence<'a> {
    cause: Option<&'a str>,
    address: Option<RuntimeAddr>,
    access: Option<FaultAccess>,
    stack_pointer: u64,
    /// The registers that the instruction's addresses are made of.
    pointers: Vec<BadPointer>,
    /// The mapping of the address, or its neighbours.
    regions: Vec<Region>,
}

impl Evidence<'_> {
    fn judge(&self) -> Option<Fault> {
        let is_jump = self.access == Some(FaultAccess::Execute);
        let is_protection = self.cause == Some(PROTECTION_FAULT);
        let Some(RuntimeAddr(address)) = self.address else {
            return match self.cause {
                Some(MISALIGNED) => self.fault(FaultKind::Misaligned),
                Some(BEYOND_FILE) => self.fault(FaultKind::BeyondFile),
                Some(PROTECTION_FAULT) if is_jump => self.fault(FaultKind::NonCanonical),
                Some(PROTECTION_FAULT) => self.fault(FaultKind::NotAllowed),
                _ => None,
            };
        };
        if self.cause == Some(MISALIGNED) {
            return self.fault(FaultKind::Misaligned);
        }
        if self.cause == Some(BEYOND_FILE) {
            return self.fault(FaultKind::BeyondFile);
        }
        if !is_canonical(address) {
            return self.blamed(FaultKind::NonCanonical, |value| !is_canonical(value));
        }
        if is_protection {
            return self.fault(FaultKind::Misaligned);
        }
        if address < NULL_PAGES {
            return match is_jump {
                true => self.fault(FaultKind::NullCall),
                false => self.blamed(FaultKind::NullDereference, |value| value < NULL_PAGES),
            };
        }
        if !is_jump && self.is_stack_overflow(address) {
            return self.fault(FaultKind::StackOverflow);
        }
        match self.region_of(address) {
            Some(region) if is_jump => self.within(FaultKind::ExecuteNonExecutable, region),
            Some(region) => {
                let is_readable = region.permissions.starts_with("r-");
                let writes = self.access == Some(FaultAccess::Write);
                let is_write = writes || is_readable && self.access.is_none();
                self.within(if is_write { FaultKind::WriteToReadOnly } else { FaultKind::NoAccess }, region)
            }
            None if is_jump => self.fault(FaultKind::Unmapped),
            None => match self.region_just_below(address) {
                Some(region) => self.within(FaultKind::OutOfBounds, region),
                None => self.fault(FaultKind::Unmapped),
            },
        }
    }

    fn fault(&self, kind: FaultKind) -> Option<Fault> {
        Some(Fault { kind, access: self.access, pointer: None, region: None })
    }

    fn within(&self, kind: FaultKind, region: &Region) -> Option<Fault> {
        Some(Fault { region: Some(region.clone()), ..self.fault(kind)? })
    }

    /// With the first of the registers that holds such a value.
    fn blamed(&self, kind: FaultKind, is_bad: impl Fn(u64) -> bool) -> Option<Fault> {
        let pointer = self.pointers.iter().find(|pointer| is_bad(pointer.value)).cloned();
        Some(Fault { pointer, ..self.fault(kind)? })
    }

    fn region_of(&self, address: u64) -> Option<&Region> {
        self.regions.iter().find(|region| (region.start.0..region.end.0).contains(&address))
    }

    fn region_just_below(&self, address: u64) -> Option<&Region> {
        let below = self.regions.iter().filter(|region| region.end.0 <= address);
        below.max_by_key(|region| region.end).filter(|region| address - region.end.0 < JUST_OUTSIDE)
    }

    fn is_stack_overflow(&self, address: u64) -> bool {
        if address.abs_diff(self.stack_pointer) >= JUST_OUTSIDE {
            return false;
        }
        let is_writable = |region: &Region| region.permissions.starts_with("rw");
        match self.region_of(address) {
            // The page that guards the stack of a thread.
            Some(region) => region.permissions.starts_with("---"),
            None => {
                let above =
                    self.regions.iter().find(|region| is_writable(region) && region.start.0 > address);
                above.is_some_and(|region| region.start.0 - address < BELOW_STACK)
            }
        }
    }
}

/// The registers that the addresses of an instruction's memory operands are made of, in its order.
fn pointers(instruction: &Instruction, registers: &GeneralRegisters) -> Vec<BadPointer> {
    let mut factory = InstructionInfoFactory::new();
    let used = factory.info(instruction).used_memory().iter();
    let parts = used.flat_map(|used| [used.base(), used.index()]).filter(|&part| part != Register::None);
    let told = parts.filter_map(|part| {
        let register = format!("{:?}", part.full_register()).to_ascii_lowercase();
        Some(BadPointer { value: register_value(registers, part)?, register })
    });
    told.collect()
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

#[cfg(test)]
mod tests {
    use super::*;

    fn region(start: u64, end: u64, permissions: &str, name: &str) -> Region {
        Region {
            start: RuntimeAddr(start),
            end: RuntimeAddr(end),
            permissions: permissions.into(),
            name: name.into(),
        }
    }

    /// What is found out about an access to `address`.
    #[track_caller]
    fn check(access: FaultAccess, address: u64, regions: &[Region], kind: FaultKind) -> Fault {
        let pointer = |register: &str, value| BadPointer { register: register.into(), value };
        let evidence = Evidence {
            address: Some(RuntimeAddr(address)),
            access: Some(access),
            stack_pointer: 0x7fff_0000_1000,
            pointers: vec![pointer("rdi", 0x50_0000), pointer("rax", 0)],
            regions: regions.to_vec(),
            cause: None,
        };
        let fault = evidence.judge().unwrap();
        assert_eq!((fault.kind, fault.access), (kind, Some(access)), "{address:#x}");
        fault
    }

    #[test]
    fn each_mistake_is_told_from_the_others() {
        use FaultAccess::{Read, Write};
        let heap = [region(0x50_0000, 0x52_1000, "rw-p", "[heap]")];
        let constants = [region(0x40_2000, 0x40_3000, "r--p", "/bin/x")];
        let stack = [region(0x7fff_0000_1000, 0x7fff_0010_0000, "rw-p", "[stack]")];
        let guard = [region(0x7fff_0000_0000, 0x7fff_0000_1000, "---p", "")];
        let null = check(Read, 8, &[], FaultKind::NullDereference);
        assert_eq!(null.pointer, Some(BadPointer { register: "rax".into(), value: 0 }));
        check(Write, 0, &[], FaultKind::NullDereference);
        let written = check(Write, 0x40_2008, &constants, FaultKind::WriteToReadOnly);
        assert_eq!(written.region.unwrap().name, "/bin/x");
        check(Read, 0x40_2008, &constants, FaultKind::NoAccess);
        check(Write, 0x7fff_0000_0ff8, &stack, FaultKind::StackOverflow);
        check(Write, 0x7fff_0000_0ff8, &guard, FaultKind::StackOverflow);
        check(Write, 0x7ffe_0000_0ff8, &stack, FaultKind::Unmapped);
        let behind = check(Read, 0x52_1000, &heap, FaultKind::OutOfBounds);
        assert_eq!(behind.region.unwrap().name, "[heap]");
        check(Read, 0x7777_0000, &heap, FaultKind::Unmapped);
        check(Read, 0xdead_beef_dead_beef, &[], FaultKind::NonCanonical);
    }

    #[test]
    fn jumps_are_told_from_reads() {
        let heap = [region(0x50_0000, 0x52_1000, "rw-p", "[heap]")];
        check(FaultAccess::Execute, 0, &heap, FaultKind::NullCall);
        check(FaultAccess::Execute, 0x50_0010, &heap, FaultKind::ExecuteNonExecutable);
        check(FaultAccess::Execute, 0x7777_0000, &heap, FaultKind::Unmapped);
    }

    #[test]
    fn faults_without_an_address_and_bus_errors_are_told_apart() {
        let kind = |cause, access, address: Option<u64>| {
            let address = address.map(RuntimeAddr);
            let evidence = Evidence { cause, access, address, ..Evidence::default() };
            evidence.judge().map(|fault| fault.kind)
        };
        let protection = Some(PROTECTION_FAULT);
        let unaligned = kind(protection, Some(FaultAccess::Write), Some(0x7fff_0000_1008));
        assert_eq!(unaligned, Some(FaultKind::Misaligned));
        assert_eq!(kind(protection, Some(FaultAccess::Execute), None), Some(FaultKind::NonCanonical));
        assert_eq!(kind(protection, None, None), Some(FaultKind::NotAllowed));
        assert_eq!(kind(Some(MISALIGNED), None, Some(0x1001)), Some(FaultKind::Misaligned));
        assert_eq!(kind(Some(BEYOND_FILE), None, Some(0x5000)), Some(FaultKind::BeyondFile));
        assert_eq!(kind(Some("sent by process 7"), None, None), None);
    }
}
