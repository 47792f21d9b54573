//! Machine code.

use hindcast_core::debug::{DebugError, Instruction, RuntimeAddr};
use hindcast_symbols::{Memory, Symbols, types::Types};
use iced_x86::{Decoder, DecoderOptions, Formatter, FormatterOutput, FormatterTextKind, IntelFormatter};

use super::Scene;

pub(super) const LONGEST_INSTRUCTION: usize = 15;
/// How far before a place a beginning for decoding is looked for, where no function is known.
const LOOK_BACK: u64 = 256;

/// The instruction at `address`.
pub(crate) fn decode(memory: &dyn Memory, address: u64) -> Option<iced_x86::Instruction> {
    let code = read_code(memory, address, LONGEST_INSTRUCTION);
    let instruction = Decoder::with_ip(64, &code, address, DecoderOptions::NONE).decode();
    (!instruction.is_invalid()).then_some(instruction)
}

/// As much as can be read, byte by byte at the end of a mapping.
pub(super) fn read_code(memory: &dyn Memory, address: u64, length: usize) -> Vec<u8> {
    let mut code = vec![0; length];
    if let Err(unreadable) = memory.read(address, &mut code) {
        let readable = usize::try_from(unreadable.0.wrapping_sub(address)).unwrap_or(0).min(length);
        code.truncate(readable);
        if memory.read(address, &mut code).is_err() {
            code.clear();
        }
    }
    code
}

/// `before` instructions before `start` as far as they can be found, then `count` from there.
pub(crate) fn disassemble(
    scene: &Scene<'_>,
    start: u64,
    before: usize,
    count: usize,
    current: Option<u64>,
) -> Result<Vec<Instruction>, DebugError> {
    let mut addresses = if before > 0 { preceding(scene, start, before) } else { Vec::new() };
    let first = addresses.first().copied().unwrap_or(start);
    let length = (start - first) as usize + count * LONGEST_INSTRUCTION;
    let code = read_code(scene.memory, first, length);
    if code.is_empty() {
        return Err(DebugError::Unreadable(RuntimeAddr(start)));
    }
    addresses.clear();
    let mut decoder = Decoder::with_ip(64, &code, first, DecoderOptions::NONE);
    let mut told = Vec::new();
    let mut last_line = None;
    while decoder.can_decode() {
        let instruction = decoder.decode();
        if instruction.ip() >= start && told.len() >= count + before_count(&told, start) {
            break;
        }
        if instruction.is_invalid() && !decoder.can_decode() {
            // The end of what could be read, in the middle of an instruction.
            break;
        }
        let offset = (instruction.ip() - first) as usize;
        let bytes = code.get(offset..offset + instruction.len()).unwrap_or_default();
        told.push(tell(scene, &instruction, bytes, &mut last_line, current));
    }
    Ok(told)
}

fn before_count(told: &[Instruction], start: u64) -> usize {
    told.iter().take_while(|instruction| instruction.address.0 < start).count()
}

fn tell(
    scene: &Scene<'_>,
    instruction: &iced_x86::Instruction,
    bytes: &[u8],
    last_line: &mut Option<u32>,
    current: Option<u64>,
) -> Instruction {
    let address = instruction.ip();
    let line = scene.symbols.line_at(address).map(|row| row.line);
    let new_line = line.filter(|_| line != *last_line);
    *last_line = line;
    Instruction {
        address: RuntimeAddr(address),
        bytes: bytes.iter().map(|byte| format!("{byte:02x}")).collect(),
        text: format_instruction(scene.symbols, instruction),
        symbol: symbol(scene.symbols, address),
        line: new_line,
        current: current == Some(address),
    }
}

/// Decodes from the beginning of the function, or from any place that meets `start`: instructions
/// have no common length, so that there is no going backwards.
fn preceding(scene: &Scene<'_>, start: u64, wanted: usize) -> Vec<u64> {
    let function =
        scene.symbols.function_at(start).map(|function| function.start).filter(|&begin| begin <= start);
    let candidates: Vec<u64> = match function {
        Some(begin) if start - begin < 64 << 10 => vec![begin],
        _ => (1..=LOOK_BACK).rev().filter_map(|back| start.checked_sub(back)).collect(),
    };
    for begin in candidates {
        let code = read_code(scene.memory, begin, (start - begin) as usize);
        let mut decoder = Decoder::with_ip(64, &code, begin, DecoderOptions::NONE);
        let mut addresses = Vec::new();
        while decoder.can_decode() {
            let instruction = decoder.decode();
            if instruction.is_invalid() {
                break;
            }
            addresses.push(instruction.ip());
        }
        if decoder.ip() == start {
            return addresses.split_off(addresses.len().saturating_sub(wanted));
        }
    }
    Vec::new()
}

/// In Intel syntax; addresses in the program are followed by what is there.
pub(crate) fn format_instruction(symbols: &Symbols, instruction: &iced_x86::Instruction) -> String {
    let mut formatter = IntelFormatter::new();
    let options = formatter.options_mut();
    options.set_hex_prefix("0x");
    options.set_hex_suffix("");
    options.set_uppercase_hex(false);
    options.set_space_after_operand_separator(true);
    options.set_branch_leading_zeros(false);
    options.set_rip_relative_addresses(true);
    let mut text = Text::default();
    formatter.format(instruction, &mut text);
    let target = match instruction.near_branch_target() {
        0 if instruction.is_ip_rel_memory_operand() => instruction.ip_rel_memory_address(),
        target => target,
    };
    if target != 0
        && let Some(name) = symbol(symbols, target)
    {
        text.0.push_str(&format!(" <{name}>"));
    }
    text.0
}

#[derive(Default)]
struct Text(String);

impl FormatterOutput for Text {
    fn write(&mut self, text: &str, _: FormatterTextKind) {
        self.0.push_str(text);
    }
}

/// `main+0x20`.
pub(super) fn symbol(symbols: &Symbols, address: u64) -> Option<String> {
    let (name, offset) = symbols.symbol_at(address)?;
    Some(if offset == 0 { name } else { format!("{name}+{offset:#x}") })
}

/// The value of a register, as instructions name it.
pub(crate) fn register_value(
    registers: &crate::sys::GeneralRegisters,
    register: iced_x86::Register,
) -> Option<u64> {
    use iced_x86::Register;
    match register {
        // Their base is zero in this mode.
        Register::ES | Register::CS | Register::SS | Register::DS => Some(0),
        Register::FS => registers.get("fs_base"),
        Register::GS => registers.get("gs_base"),
        register => registers.get(&format!("{:?}", register.full_register()).to_ascii_lowercase()),
    }
}
