//! Instructions that tell a program something new each time: they trap while it is recorded.

use iced_x86::{Decoder, DecoderOptions, Mnemonic};

use super::log::Event;
use crate::sys::{self, GeneralRegisters, ProcessMemory};

/// The answer to the instruction that a program stands at, if it is one of these.
pub(super) fn answer(registers: &GeneralRegisters, memory: &ProcessMemory) -> Option<Event> {
    let pc = registers.pc();
    let mut code = [0; 15];
    let count = memory.read_some(pc, &mut code);
    let instruction = Decoder::with_ip(64, &code[..count], pc, DecoderOptions::NONE).decode();
    let length = instruction.len() as u8;
    match instruction.mnemonic() {
        Mnemonic::Rdtsc => {
            Some(Event::Counter { pc, length, value: sys::time_stamp_counter(), processor: None })
        }
        Mnemonic::Rdtscp => {
            Some(Event::Counter { pc, length, value: sys::time_stamp_counter(), processor: Some(0) })
        }
        Mnemonic::Cpuid => {
            let leaf = registers.get("rax")? as u32;
            let part = registers.get("rcx")? as u32;
            Some(Event::Features { pc, answer: features(leaf, part) })
        }
        _ => None,
    }
}

/// What the processor can do, without what cannot be repeated: random numbers and transactions.
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
pub(crate) fn apply(event: &Event, mut registers: GeneralRegisters) -> GeneralRegisters {
    let mut set = |name: &str, value: u64| {
        registers.set(name, value);
    };
    match *event {
        Event::Counter { pc, length, value, processor } => {
            set("rax", value & 0xffff_ffff);
            set("rdx", value >> 32);
            if let Some(processor) = processor {
                set("rcx", u64::from(processor));
            }
            set("rip", pc + u64::from(length));
        }
        Event::Features { pc, answer: [eax, ebx, ecx, edx] } => {
            for (name, value) in [("rax", eax), ("rbx", ebx), ("rcx", ecx), ("rdx", edx)] {
                set(name, u64::from(value));
            }
            set("rip", pc + 2);
        }
        Event::Call(_)
        | Event::Interrupted { .. }
        | Event::Barrier { .. }
        | Event::Signal { .. }
        | Event::Edit => {}
    }
    registers
}
