//! Random numbers of the processor (`rdrand`, `rdseed`). Nothing makes these instructions trap, and a program that was
//! built for them does not ask whether it may use them. So each gives way to an instruction that traps.
//!
//! `hlt`, which no program may execute, takes the place of the first byte of the opcode. The bytes around it stay, and tell
//! which register is meant.

use std::{collections::BTreeSet, ops::Range};

use hindcast_symbols::{Memory as _, Symbols};
use iced_x86::{Decoder, DecoderOptions, Mnemonic};
use object::{Object as _, ObjectSegment as _};

use super::{Recorder, pending_call::PendingCall};
use crate::sys::{self, Mapping, ProcessMemory, Tid};

const OPCODE: [u8; 2] = [0x0f, 0xc7];
const TRAP: u8 = 0xf4;
/// Prefixes that these instructions can have, and another that makes them something else.
const PREFIXES: Range<u8> = 0x40..0x50;
const OPERAND_SIZE: u8 = 0x66;
const REPEAT: u8 = 0xf3;

impl Recorder {
    /// Makes these instructions in new code trap; says whether there are any.
    pub(super) fn take_out_random_numbers(&mut self, memory: &ProcessMemory, code: &Range<u64>) -> bool {
        // Should we be killed, a process that we did not start would die of them.
        if !self.traps_instructions() {
            return false;
        }
        let found = take_out(self.process, memory, code);
        self.random_numbers.extend(&found);
        !found.is_empty()
    }

    /// They were made to trap when the recording was made.
    pub(crate) fn know_random_numbers(&mut self, places: &BTreeSet<u64>) {
        self.random_numbers.clone_from(places);
    }

    /// Where one of them trapped, now or earlier.
    pub(crate) fn random_numbers(&self) -> &BTreeSet<u64> {
        &self.random_numbers
    }
}

/// What a call made executable.
pub(super) fn made_executable(call: &PendingCall, result: i64) -> Option<Range<u64>> {
    let [start, length, protection, ..] = call.arguments;
    let start = match call.number {
        libc::SYS_mmap if result > 0 => result as u64,
        libc::SYS_mprotect | libc::SYS_pkey_mprotect if result == 0 => start,
        _ => return None,
    };
    (protection & libc::PROT_EXEC as u64 != 0).then(|| start..start.saturating_add(length))
}

/// Takes these instructions out of the code that a process has in `range`. Returns where they were; none are found in code
/// that no unwinding table speaks of, because only from the beginning of a function on it is known where instructions begin.
fn take_out(process: Tid, memory: &ProcessMemory, range: &Range<u64>) -> Vec<u64> {
    let mappings = sys::mappings(process).unwrap_or_default();
    let code = mappings.iter().filter(|mapping| {
        mapping.permissions.contains('x')
            && mapping.inode != 0
            && mapping.start < range.end
            && range.start < mapping.end
    });
    let found = code.flat_map(|mapping| find(mapping, memory));
    found.filter(|&address| memory.write(address, &[TRAP]).is_ok()).collect()
}

/// Takes them out once more where they were given back.
pub(crate) fn take_out_again(memory: &ProcessMemory, places: impl IntoIterator<Item = u64>) {
    for address in places {
        let mut code = [0; 3];
        if memory.read(address, &mut code).is_ok() && code[..2] == OPCODE && is_wanted(code[2]) {
            let _ = memory.write(address, &[TRAP]);
        }
    }
}

/// Puts them back where they still are.
pub(crate) fn give_back(memory: &ProcessMemory, places: impl IntoIterator<Item = u64>) {
    for address in places {
        let mut code = [0; 3];
        if memory.read(address, &mut code).is_ok() && put_back(&mut code) {
            let _ = memory.write(address, &OPCODE[..1]);
        }
    }
}

/// Makes an instruction that was taken out what it was; says whether it was one.
pub(super) fn put_back(code: &mut [u8]) -> bool {
    let is_prefix = |byte: &u8| PREFIXES.contains(byte) || *byte == OPERAND_SIZE;
    let prefixes = code.iter().take_while(|byte| is_prefix(byte)).count();
    match &mut code[prefixes..] {
        [first, second, third, ..] if (*first, *second) == (TRAP, OPCODE[1]) && is_wanted(*third) => {
            *first = OPCODE[0];
            true
        }
        _ => false,
    }
}

/// Puts them back in bytes that were read at `start`, as far as they are among `places`.
pub(crate) fn clean<'a>(places: impl Iterator<Item = &'a u64>, start: u64, bytes: &mut [u8]) {
    for address in places {
        let index = (address - start) as usize;
        let is_here = match bytes[index..] {
            [TRAP, second, third, ..] => second == OPCODE[1] && is_wanted(third),
            [TRAP, second] => second == OPCODE[1],
            [first] => first == TRAP,
            _ => false,
        };
        if is_here {
            bytes[index] = OPCODE[0];
        }
    }
}

/// Whether the byte behind the opcode asks for a random number: one or the other kind, into a register.
fn is_wanted(operand: u8) -> bool {
    operand >= 0xf0
}

/// Where the opcodes of these instructions are.
fn find(mapping: &Mapping, memory: &ProcessMemory) -> Vec<u64> {
    let mut code = vec![0; (mapping.end - mapping.start) as usize];
    let count = memory.read_some(mapping.start, &mut code);
    code.truncate(count);
    let mut places: Vec<_> = memchr::memmem::find_iter(&code, &OPCODE)
        .filter(|&at| code.get(at + 2).is_some_and(|&operand| is_wanted(operand)))
        .filter(|&at| at == 0 || code[at - 1] != REPEAT)
        .map(|at| mapping.start + at as u64)
        .collect();
    if places.is_empty() {
        return places;
    }
    let Some(symbols) = tables(mapping) else { return Vec::new() };
    places.retain(|&place| {
        symbols.unwound_range(place).is_some_and(|function| {
            let within = (mapping.start..mapping.end).contains(&function.start);
            within
                && is_instruction(&code[(function.start - mapping.start) as usize..], function.start, place)
        })
    });
    places
}

/// Whether the opcode of one of these instructions is at `place`, in code that begins at `start`.
fn is_instruction(code: &[u8], start: u64, place: u64) -> bool {
    let mut instructions = Decoder::with_ip(64, code, start, DecoderOptions::NONE).into_iter();
    let last = instructions.find(|instruction| instruction.is_invalid() || instruction.next_ip() > place);
    last.is_some_and(|instruction| {
        matches!(instruction.mnemonic(), Mnemonic::Rdrand | Mnemonic::Rdseed)
            && instruction.next_ip() == place + 3
    })
}

/// No program is larger. What is mapped may be a device, or a file with a hole.
const LARGEST_CODE: u64 = 2 << 30;

/// What is known of the file that is mapped.
pub(super) fn tables(mapping: &Mapping) -> Option<Symbols> {
    let bytes = hindcast_symbols::read_plain(mapping.name.as_ref(), LARGEST_CODE).ok()?;
    let file = object::File::parse(&*bytes).ok()?;
    let bias = file.segments().find_map(|segment| {
        let (offset, size) = segment.file_range();
        let is_it = (offset..offset + size).contains(&mapping.offset)
            || (mapping.offset..mapping.offset + (mapping.end - mapping.start)).contains(&offset);
        let loaded = mapping.start.wrapping_sub(mapping.offset).wrapping_add(offset);
        (is_it && segment.permissions().executable()).then(|| loaded.wrapping_sub(segment.address()))
    })?;
    let mut symbols = Symbols::new();
    symbols.add(mapping.name.as_ref(), bias, mapping.start..mapping.end).ok()?;
    Some(symbols)
}
