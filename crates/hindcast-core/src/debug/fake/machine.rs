//! The fake's memory, registers and machine code.

use super::{
    FAKE_HEAP, FAKE_STACK_POINTER,
    backend::{FakeBackend, address_of},
};
use crate::debug::{
    DebugError, Disassembly, FrameRef, Instruction, MemoryBlock, Place, RawMemory, Region, Register,
    RegisterSet, Registers, RuntimeAddr,
};

impl RawMemory for FakeBackend {
    fn read(&mut self, address: RuntimeAddr, size: usize) -> Result<MemoryBlock, DebugError> {
        self.standing()?;
        let from = address.0.checked_sub(FAKE_HEAP.0).and_then(|from| usize::try_from(from).ok());
        let bytes = from.and_then(|from| self.program.heap.get(from..)).filter(|rest| !rest.is_empty());
        let bytes = bytes.ok_or(DebugError::Unreadable(address))?;
        Ok(MemoryBlock { address, bytes: bytes.iter().copied().take(size).collect() })
    }

    fn regions_around(&mut self, address: RuntimeAddr) -> Result<Vec<Region>, DebugError> {
        let region = |start: u64, end: u64, permissions: &str, name: &str| Region {
            start: RuntimeAddr(start),
            end: RuntimeAddr(end),
            permissions: permissions.into(),
            name: name.into(),
        };
        let all = [
            region(0x40_1000, 0x40_2000, "r-xp", "/bin/fake"),
            region(0x40_2000, 0x40_3000, "r--p", "/bin/fake"),
            region(0x50_0000, 0x52_1000, "rw-p", "[heap]"),
            region(0x7fff_fffd_e000, 0x7fff_ffff_f000, "rw-p", "[stack]"),
        ];
        if let Some(inside) = all.iter().find(|one| (one.start..one.end).contains(&address)) {
            return Ok(vec![inside.clone()]);
        }
        let below = all.iter().rev().find(|one| one.end <= address);
        let above = all.iter().find(|one| one.start > address);
        Ok(below.into_iter().chain(above).cloned().collect())
    }
}

impl Registers for FakeBackend {
    fn registers(&mut self, _frame: FrameRef, _set: RegisterSet) -> Result<Vec<Register>, DebugError> {
        self.standing()?;
        let register = |name: &str, value: RuntimeAddr| Register {
            name: name.into(),
            value: Some(format!("{:#018x}", value.0)),
            meaning: None,
        };
        Ok(vec![
            register("rax", RuntimeAddr(0)),
            register("rsp", FAKE_STACK_POINTER),
            register("rip", address_of(self.at)),
        ])
    }
}

impl Disassembly for FakeBackend {
    fn disassemble(
        &mut self,
        place: &Place,
        before: usize,
        count: usize,
    ) -> Result<Vec<Instruction>, DebugError> {
        self.standing()?;
        let at = self.place(place)?;
        let end = (at + count).min(self.program.steps.len());
        let instruction = |one: usize| Instruction {
            address: address_of(one),
            bytes: "8b450000".into(),
            text: "mov eax, dword ptr [rbp]".into(),
            symbol: Some(format!("{}+{:#x}", self.program.steps[one].function, self.offset_in_function(one))),
            line: Some(self.program.steps[one].line),
            current: one == self.at,
        };
        Ok((at.saturating_sub(before)..end).map(instruction).collect())
    }
}
