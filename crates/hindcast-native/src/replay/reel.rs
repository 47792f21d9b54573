//! The last steps of a replica, with what each of them changed, so that they can be wound back.
//!
//! A step back is mostly followed by another. To make the process of each of these moments anew takes a copy and many steps; to put
//! back what one instruction wrote takes next to nothing.

use std::collections::VecDeque;

use hindcast_symbols::Memory as _;
use iced_x86::{Instruction, InstructionInfoFactory, Mnemonic, OpAccess, OpKind, Register, UsedMemory};

use super::{Advance, Pause, ReplayError, Replica};
use crate::{
    look::{decode, register_value},
    process::CleanMemory,
    record::Log,
    sys::{GeneralRegisters, LONG_MODE, TraceError, VectorRegisters},
};

/// How many steps are kept.
const LENGTH: usize = 256;
/// Flags that are left to the processor: nested task, and identification, which nobody else can set.
const UNCHANGEABLE: u64 = 1 << 14 | 1 << 21;
/// Says in which system call a process is. Cleared, or the kernel would make the call again.
const CALL_NUMBER: &str = "orig_rax";

/// The last steps of a replica, the oldest first.
#[derive(Default)]
pub(super) struct Reel {
    steps: VecDeque<Before>,
}

/// What there was before a step.
struct Before {
    registers: GeneralRegisters,
    vectors: VectorRegisters,
    memory: Vec<(u64, Vec<u8>)>,
    event: u64,
}

impl Reel {
    fn push(&mut self, before: Before) {
        if self.steps.len() == LENGTH {
            self.steps.pop_front();
        }
        self.steps.push_back(before);
    }
}

impl Replica {
    /// From now on, steps can be wound back.
    pub(super) fn keep_steps(&mut self) {
        self.reel.get_or_insert_default();
    }

    /// Goes on until something is to be told, at the latest when `until` events have happened.
    /// A breakpoint that it stands at is passed.
    pub(crate) fn advance(&mut self, log: &Log, how: Advance, until: u64) -> Result<Pause, ReplayError> {
        let Some(mut reel) = self.reel.take() else { return self.go_on(log, how, until) };
        let before = if how == Advance::Step { self.before_step()? } else { None };
        let pause = self.go_on(log, how, until)?;
        match before {
            Some(before) if before.event == self.event() && is_step(&pause) => reel.push(before),
            _ => reel.steps.clear(),
        }
        self.reel = Some(reel);
        Ok(pause)
    }

    /// How many steps can be wound back.
    #[cfg(test)]
    pub(super) fn steps_kept(&self) -> u32 {
        self.reel.as_ref().map_or(0, |reel| reel.steps.len() as u32)
    }

    /// Takes its last steps back; false where it cannot.
    pub(crate) fn wind_back(&mut self, count: u32) -> Result<bool, TraceError> {
        let Some(reel) = &mut self.reel else { return Ok(false) };
        let Some(rest) = reel.steps.len().checked_sub(count as usize) else { return Ok(false) };
        let changed = reel.steps.range(rest..).rev().flat_map(|before| &before.memory);
        let before = reel.steps.get(rest).and_then(|before| before.registers.get("eflags"));
        let flags = self.frozen.registers()?.get("eflags");
        if before.zip(flags).is_some_and(|(before, flags)| (before ^ flags) & UNCHANGEABLE != 0) {
            return Ok(false);
        }
        // A breakpoint may have been put there since.
        if changed.clone().any(|(address, bytes)| self.overlay.any_in(*address..address + bytes.len() as u64))
        {
            return Ok(false);
        }
        for (address, bytes) in changed {
            self.memory.write(*address, bytes).map_err(|_| TraceError::Gone)?;
        }
        if let Some(mut first) = reel.steps.split_off(rest).pop_front() {
            self.frozen.thread()?.set_vector_registers(&first.vectors)?;
            first.registers.set(CALL_NUMBER, u64::MAX);
            self.frozen.set_registers(&first.registers)?;
        }
        Ok(true)
    }

    /// What its next step will change; `None` where nobody can tell.
    fn before_step(&self) -> Result<Option<Before>, TraceError> {
        let registers = self.registers()?;
        // Code of another kind would be decoded wrongly.
        if registers.get("cs") != Some(LONG_MODE) {
            return Ok(None);
        }
        let clean = CleanMemory { memory: &self.memory, overlay: &self.overlay };
        let written = decode(&clean, registers.pc()).and_then(|next| written_by(&next, &registers));
        let kept = |(address, size): (u64, usize)| {
            let mut bytes = vec![0; size];
            let end = address.checked_add(size as u64)?;
            let is_ours = self.overlay.any_in(address..end);
            (!is_ours && self.memory.read(address, &mut bytes).is_ok()).then_some((address, bytes))
        };
        let memory = written.and_then(|written| written.into_iter().map(kept).collect::<Option<Vec<_>>>());
        let Some(memory) = memory else { return Ok(None) };
        let vectors = self.frozen.thread()?.vector_registers()?;
        Ok(Some(Before { registers, vectors, memory, event: self.event() }))
    }
}

fn is_step(pause: &Pause) -> bool {
    matches!(pause, Pause::Stepped | Pause::Watch(_))
}

/// Where an instruction writes, and how much at most; `None` where that cannot be told.
fn written_by(instruction: &Instruction, registers: &GeneralRegisters) -> Option<Vec<(u64, usize)>> {
    let by_bit_number = matches!(instruction.mnemonic(), Mnemonic::Bts | Mnemonic::Btr | Mnemonic::Btc)
        && instruction.op0_kind() == OpKind::Memory
        && instruction.op1_kind() == OpKind::Register;
    // The bit can be far from the operand, what is entered is copied from one frame to the next, and of a cleared line the decoder
    // does not tell.
    let is_special = matches!(instruction.mnemonic(), Mnemonic::Enter | Mnemonic::Clzero | Mnemonic::INVALID);
    if by_bit_number || is_special {
        return None;
    }
    let writes = |used: &&UsedMemory| {
        use OpAccess as A;
        matches!(used.access(), A::Write | A::CondWrite | A::ReadWrite | A::ReadCondWrite)
    };
    let mut information = InstructionInfoFactory::new();
    let used = information.info(instruction).used_memory();
    used.iter().filter(writes).map(|used| place(instruction, used, registers)).collect()
}

fn place(instruction: &Instruction, used: &UsedMemory, registers: &GeneralRegisters) -> Option<(u64, usize)> {
    // A repetition makes one round with each step.
    let size = match instruction.is_string_instruction() {
        true => instruction.memory_size().size(),
        false => used.memory_size().size(),
    };
    let is_spread = used.index().is_vector_register();
    let value = |register: Register, _: usize, _: usize| register_value(registers, register);
    let address = used.virtual_address(0, value)?;
    (size > 0 && !is_spread).then_some((address, size))
}
