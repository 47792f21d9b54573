//! Single steps are made with a flag of the processor, which programs can see and change.

use hindcast_symbols::Memory as _;

use super::{GeneralRegisters, ProcessMemory};

const TRAP: u64 = 1 << 8;

/// Whether an instruction puts the flags on the stack: single steps show in them.
pub(crate) fn pushes_flags(memory: &ProcessMemory, pc: u64) -> bool {
    const PUSHF: u8 = 0x9c;
    let mut code = [0];
    memory.read_some(pc, &mut code) == 1 && code[0] == PUSHF
}

/// Takes the trace of a single step out of flags on the stack.
pub(crate) fn clean_pushed_flags(memory: &ProcessMemory, stack: u64) {
    let mut flags = [0; 2];
    if memory.read_some(stack, &mut flags) == 2 {
        flags[1] &= !1;
        let _ = memory.write(stack, &flags);
    }
}

/// What the registers are behind an instruction that takes the flags from the stack; `None` where the next one is another. A single
/// step over it makes the system believe that the program has set the trap flag itself, and leave it set from the next step on.
pub(crate) fn behind_popped_flags(
    memory: &ProcessMemory,
    mut registers: GeneralRegisters,
) -> Option<GeneralRegisters> {
    const POPF: u8 = 0x9d;
    /// Those that a program changes: carry, parity, adjust, zero, sign, direction, overflow, alignment.
    const CHANGED: u64 = 0x4_0cd5;
    /// Those that it could change, and that nobody but the processor can set: nested task, identification.
    const SPECIAL: u64 = 0x20_4000;
    const RESUME: u64 = 1 << 16;
    let (mut code, mut popped) = ([0], [0; 8]);
    let (pc, stack) = (registers.pc(), registers.sp());
    memory.read(pc, &mut code).ok().filter(|()| code == [POPF])?;
    memory.read(stack, &mut popped).ok()?;
    let popped = u64::from_le_bytes(popped);
    let before = registers.get("eflags")?;
    // A program that wants to be trapped, or something special, gets what it wants from the processor.
    if popped & TRAP != 0 || (popped ^ before) & SPECIAL != 0 {
        return None;
    }
    let flags = before & !(CHANGED | RESUME) | popped & CHANGED;
    for (register, value) in [("rip", pc + 1), ("rsp", stack + 8), ("eflags", flags), ("orig_rax", u64::MAX)]
    {
        registers.set(register, value);
    }
    Some(registers)
}
