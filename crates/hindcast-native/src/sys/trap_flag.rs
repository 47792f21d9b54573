//! Single steps are made with a flag of the processor, which programs can see and change.

use hindcast_symbols::Memory as _;

use super::{GeneralRegisters, ProcessMemory};

const TRAP: u64 = 1 << 8;
/// The code segment of programs with 64 bits. Others have other instructions, and use the stack otherwise.
pub(crate) const LONG_MODE: u64 = 0x33;

/// An instruction that puts the flags on the stack, or takes them from there.
struct Moved {
    /// Its own, in bytes.
    length: u64,
    /// How many bytes of flags it moves.
    size: u64,
}

/// What the instruction at a place moves, if it is `opcode`, with or without prefixes.
fn moved(memory: &ProcessMemory, pc: u64, opcode: u8) -> Option<Moved> {
    const WORD: u8 = 0x66;
    let mut code = [0; 3];
    let count = memory.read_some(pc, &mut code);
    let at = code[..count].iter().position(|byte| *byte != WORD && !(0x40..0x50).contains(byte))?;
    let size = if code[..at].contains(&WORD) { 2 } else { 8 };
    (code[at] == opcode).then_some(Moved { length: at as u64 + 1, size })
}

/// Whether an instruction puts the flags on the stack: single steps show in them.
pub(crate) fn pushes_flags(memory: &ProcessMemory, pc: u64) -> bool {
    const PUSHF: u8 = 0x9c;
    moved(memory, pc, PUSHF).is_some()
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
    /// Those that are left to the processor: nested task, identification.
    const SPECIAL: u64 = 0x20_4000;
    const RESUME: u64 = 1 << 16;
    let (pc, stack) = (registers.pc(), registers.sp());
    let moved = moved(memory, pc, POPF).filter(|_| registers.get("cs") == Some(LONG_MODE))?;
    let mut popped = [0; 8];
    memory.read(stack, &mut popped[..moved.size as usize]).ok()?;
    let before = registers.get("eflags")?;
    let kept = if moved.size == 2 { before & !0xffff } else { 0 };
    let popped = u64::from_le_bytes(popped) | kept;
    // A program that wants to be trapped, or something special, gets what it wants from the processor.
    if (popped | before) & TRAP != 0 || (popped ^ before) & SPECIAL != 0 {
        return None;
    }
    let flags = before & !(CHANGED | RESUME) | popped & CHANGED;
    let changes = [
        ("rip", pc + moved.length),
        ("rsp", stack.wrapping_add(moved.size)),
        ("eflags", flags),
        ("orig_rax", u64::MAX),
    ];
    for (register, value) in changes {
        registers.set(register, value);
    }
    Some(registers)
}
