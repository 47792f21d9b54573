//! Instructions that tell a program something new each time: they trap while it is recorded.

use iced_x86::{Code, Decoder, DecoderOptions, Instruction, Mnemonic};

use super::{
    log::{Answer, Told},
    random_numbers,
};
use crate::sys::{self, GeneralRegisters, ProcessMemory};

pub(crate) const CPUID_LENGTH: u8 = 2;
const LONGEST: usize = 15;
/// In the order of machine code.
const REGISTERS: [&str; 16] = [
    "rax", "rcx", "rdx", "rbx", "rsp", "rbp", "rsi", "rdi", "r8", "r9", "r10", "r11", "r12", "r13", "r14",
    "r15",
];

/// The answer to the instruction that a program stands at, if it is one of these.
pub(crate) fn answer(registers: &GeneralRegisters, memory: &ProcessMemory) -> Option<Answer> {
    let pc = registers.pc();
    let mut code = [0; LONGEST];
    let count = memory.read_some(pc, &mut code);
    let mut instruction = decode(&code[..count], pc);
    if instruction.code() == Code::Hlt {
        random_numbers::put_back(&mut code[..count]);
        instruction = decode(&code[..count], pc);
    }
    let told = match instruction.mnemonic() {
        Mnemonic::Rdtsc => Told::Counter { value: sys::time_stamp_counter(), processor: None },
        Mnemonic::Rdtscp => Told::Counter { value: sys::time_stamp_counter(), processor: Some(0) },
        Mnemonic::Cpuid => {
            let leaf = registers.get("rax")? as u32;
            let part = registers.get("rcx")? as u32;
            Told::Features(features(leaf, part))
        }
        Mnemonic::Rdrand | Mnemonic::Rdseed => {
            let register = instruction.op0_register();
            let bytes = register.size() as u8;
            let value = sys::random_number() >> (64 - 8 * u32::from(bytes));
            Told::Random { register: register.full_register().number() as u8, bytes, value }
        }
        _ => return None,
    };
    Some(Answer { pc, length: instruction.len() as u8, told })
}

fn decode(code: &[u8], pc: u64) -> Instruction {
    Decoder::with_ip(64, code, pc, DecoderOptions::NONE).decode()
}

/// What the processor can do, without what cannot be repeated or costs a trap: transactions and random numbers. A program that
/// is not offered random numbers takes them from the system.
fn features(leaf: u32, part: u32) -> [u32; 4] {
    const RDRAND: u32 = 1 << 30;
    const HLE_RTM: u32 = 1 << 4 | 1 << 11;
    const RDSEED: u32 = 1 << 18;
    let [eax, mut ebx, mut ecx, edx] = sys::processor_features(leaf, part);
    match (leaf, part) {
        (1, _) => ecx &= !RDRAND,
        (7, 0) => ebx &= !(HLE_RTM | RDSEED),
        _ => {}
    }
    [eax, ebx, ecx, edx]
}

/// The registers after the instruction.
pub(crate) fn apply(answer: &Answer, mut registers: GeneralRegisters) -> GeneralRegisters {
    let mut set = |name: &str, value: u64| {
        registers.set(name, value);
    };
    set("rip", answer.pc + u64::from(answer.length));
    match answer.told {
        Told::Counter { value, processor } => {
            set("rax", value & 0xffff_ffff);
            set("rdx", value >> 32);
            if let Some(processor) = processor {
                set("rcx", u64::from(processor));
            }
        }
        Told::Features([eax, ebx, ecx, edx]) => {
            for (name, value) in [("rax", eax), ("rbx", ebx), ("rcx", ecx), ("rdx", edx)] {
                set(name, u64::from(value));
            }
        }
        Told::Random { register, bytes, value } => {
            const CARRY: u64 = 1;
            /// Parity, adjust, zero, sign and overflow.
            const OTHERS: u64 = 1 << 2 | 1 << 4 | 1 << 6 | 1 << 7 | 1 << 11;
            let name = REGISTERS[usize::from(register) % REGISTERS.len()];
            let before = registers.get(name).unwrap_or(0);
            // Two bytes leave the others as they are; four empty them.
            let kept = if bytes == 2 { before & !0xffff } else { 0 };
            let flags = registers.get("eflags").unwrap_or(0);
            registers.set(name, kept | value);
            registers.set("eflags", flags & !OTHERS | CARRY);
        }
    }
    registers
}
