//! Looking at the machine: `read_memory`, `disassemble`, `get_registers`.

use std::fmt::Write as _;

use async_trait::async_trait;
use hindcast_core::debug::{Instruction, Place, Register, RegisterSet, RuntimeAddr};
use hindcast_services::{
    Failure,
    debug::{Mask, MemoryPlace},
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{Desk, invalid, looks, places::parse_address, thread};
use crate::registry::{Answer, Call, Declaration, Tool};

const MOST_BYTES: usize = 64 << 10;
const MOST_INSTRUCTIONS: usize = 500;

pub(super) struct ReadMemory(pub(super) Desk);

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct MemoryInput {
    /// Or an expression
    ///
    /// Such as 0x7ffe1000, or an expression with an address
    address: String,
    #[serde(default = "a_line_or_so")]
    #[schemars(range(min = 1, max = 65536))]
    size: usize,
    #[serde(default)]
    format: Format,
    #[serde(default)]
    session_id: Option<String>,
}

fn a_line_or_so() -> usize {
    64
}

#[derive(Deserialize, JsonSchema, Default, Clone, Copy)]
#[serde(rename_all = "snake_case")]
enum Format {
    /// Bytes and text
    #[default]
    Hex,
    /// Numbers of 8 bytes
    Words,
    /// Text
    Text,
}

#[derive(Serialize, JsonSchema)]
pub(super) struct MemoryView {
    /// Where it begins
    address: RuntimeAddr,
    /// How many bytes could be read
    size: usize,
    /// The bytes, hexadecimal; `**` for those of secrets
    hex: String,
}

#[async_trait]
impl Tool for ReadMemory {
    type Input = MemoryInput;
    type Output = MemoryView;

    const DECLARATION: Declaration = looks("debugger/read_memory", "Show bytes of memory");

    async fn call(&self, call: &Call, input: MemoryInput) -> Result<Answer<MemoryView>, Failure> {
        if !(1..=MOST_BYTES).contains(&input.size) {
            return Err(invalid(format!("`size` is {}, not between 1 and {MOST_BYTES}", input.size)));
        }
        let session = self.0.session(call, input.session_id.as_deref())?;
        let place = match parse_address(&input.address) {
            Ok(address) => MemoryPlace::Address(address),
            Err(_) => MemoryPlace::Expression(input.address, session.frame(None, None)?),
        };
        let block = session.memory(place, input.size).await?;
        let hidden = hidden(&block.bytes, session.mask());
        let mut said = match input.format {
            Format::Hex => dump(block.address, &block.bytes, &hidden),
            Format::Words => words(block.address, &block.bytes, &hidden),
            Format::Text => session.mask().text(&String::from_utf8_lossy(&block.bytes)).into_owned(),
        };
        if block.bytes.len() < input.size {
            let _ = write!(said, "\nnote: only {} of {} bytes can be read", block.bytes.len(), input.size);
        }
        let mut hex = String::with_capacity(2 * block.bytes.len());
        for (byte, hidden) in block.bytes.iter().zip(&hidden) {
            let _ = if *hidden { write!(hex, "**") } else { write!(hex, "{byte:02x}") };
        }
        let content = MemoryView { address: block.address, size: block.bytes.len(), hex };
        Ok(Answer { text: said, content })
    }
}

/// Which bytes belong to a secret.
fn hidden(bytes: &[u8], mask: Mask) -> Vec<bool> {
    // One letter a byte, so that places in the text are places in the memory.
    let text: String =
        bytes.iter().map(|byte| if byte.is_ascii() { char::from(*byte) } else { '?' }).collect();
    let mut hidden = vec![false; bytes.len()];
    for range in mask.ranges(&text) {
        hidden[range].fill(true);
    }
    hidden
}

fn dump(start: RuntimeAddr, bytes: &[u8], hidden: &[bool]) -> String {
    let mut said = String::new();
    for (row, (bytes, hidden)) in bytes.chunks(16).zip(hidden.chunks(16)).enumerate() {
        let _ = write!(
            said,
            "{}{}:",
            if row > 0 { "\n" } else { "" },
            RuntimeAddr(start.0.wrapping_add(16 * row as u64))
        );
        let mut text = String::new();
        for (byte, hidden) in bytes.iter().zip(hidden) {
            let _ = if *hidden { write!(said, " **") } else { write!(said, " {byte:02x}") };
            text.push(match byte {
                _ if *hidden => '*',
                b' '..=b'~' => char::from(*byte),
                _ => '.',
            });
        }
        let _ = write!(said, "{:width$}  {text}", "", width = 3 * (16 - bytes.len()));
    }
    said
}

fn words(start: RuntimeAddr, bytes: &[u8], hidden: &[bool]) -> String {
    let mut said = String::new();
    for (row, (bytes, hidden)) in bytes.chunks(8).zip(hidden.chunks(8)).enumerate() {
        let _ = write!(
            said,
            "{}{}: ",
            if row > 0 { "\n" } else { "" },
            RuntimeAddr(start.0.wrapping_add(8 * row as u64))
        );
        if hidden.contains(&true) {
            said.push_str(hindcast_services::debug::MASKED);
            continue;
        }
        let value = bytes.iter().rev().fold(0u64, |value, byte| value << 8 | u64::from(*byte));
        let _ = write!(said, "{value:#018x} {value}");
    }
    said
}

pub(super) struct Disassemble(pub(super) Desk);

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct DisassembleInput {
    #[serde(default)]
    address: Option<String>,
    #[serde(default)]
    function: Option<String>,
    #[serde(default = "ten")]
    #[schemars(range(min = 1, max = 500))]
    count: usize,
    #[serde(default)]
    session_id: Option<String>,
}

fn ten() -> usize {
    10
}

#[derive(Serialize, JsonSchema)]
pub(super) struct Code {
    instructions: Vec<Instruction>,
}

#[async_trait]
impl Tool for Disassemble {
    type Input = DisassembleInput;
    type Output = Code;

    const DECLARATION: Declaration =
        looks("debugger/disassemble", "Show machine code; default: around the current instruction");

    async fn call(&self, call: &Call, input: DisassembleInput) -> Result<Answer<Code>, Failure> {
        if !(1..=MOST_INSTRUCTIONS).contains(&input.count) {
            return Err(invalid(format!(
                "`count` is {}, not between 1 and {MOST_INSTRUCTIONS}",
                input.count
            )));
        }
        let place = match (&input.address, input.function) {
            (Some(address), None) => Some(Place::Address(parse_address(address)?)),
            (None, Some(function)) => Some(Place::Function(function)),
            (None, None) => None,
            (Some(_), Some(_)) => return Err(invalid("give either `address` or `function`")),
        };
        let session = self.0.session(call, input.session_id.as_deref())?;
        // A few before the current one say how it came there.
        let before = if place.is_none() { (input.count / 3).min(5) } else { 0 };
        let instructions = session.disassemble(place, before, input.count - before).await?;
        let mut said = String::new();
        let mut symbol = None;
        for instruction in &instructions {
            let function =
                instruction.symbol.as_deref().map(|symbol| symbol.split('+').next().unwrap_or(symbol));
            if function.is_some() && function != symbol {
                let _ = write!(said, "\n{}:", function.unwrap_or_default());
                symbol = function;
            }
            let mark = if instruction.current { '>' } else { ' ' };
            let _ = write!(said, "\n{mark} {} {}", instruction.address, instruction.text);
            if let Some(line) = instruction.line {
                let _ = write!(said, "  ; line {line}");
            }
        }
        Ok(Answer { text: said.trim_start_matches('\n').to_owned(), content: Code { instructions } })
    }
}

pub(super) struct GetRegisters(pub(super) Desk);

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct RegistersInput {
    #[serde(default)]
    thread_id: Option<u32>,
    #[serde(default)]
    frame: u32,
    #[serde(default)]
    set: RegisterSet,
    /// Only names containing this
    #[serde(default)]
    filter: Option<String>,
    #[serde(default)]
    session_id: Option<String>,
}

#[derive(Serialize, JsonSchema)]
pub(super) struct Registers {
    registers: Vec<Register>,
}

#[async_trait]
impl Tool for GetRegisters {
    type Input = RegistersInput;
    type Output = Registers;

    const DECLARATION: Declaration = looks("debugger/get_registers", "Show registers of a frame");

    async fn call(&self, call: &Call, input: RegistersInput) -> Result<Answer<Registers>, Failure> {
        let session = self.0.session(call, input.session_id.as_deref())?;
        let frame = session.frame(thread(input.thread_id), Some(input.frame))?;
        // Whoever names a register means any.
        let set = if input.filter.is_some() { RegisterSet::All } else { input.set };
        let mut registers = session.registers(frame, set).await?;
        registers.retain(|register| {
            input.filter.as_ref().is_none_or(|filter| register.name.contains(filter.as_str()))
        });
        let mut said = "Registers:".to_owned();
        for register in &registers {
            let _ =
                write!(said, "\n  {} = {}", register.name, register.value.as_deref().unwrap_or("<not kept>"));
            if let Some(meaning) = &register.meaning {
                let _ = write!(said, "  {meaning}");
            }
        }
        Ok(Answer { text: said, content: Registers { registers } })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_is_shown_as_bytes_and_text_without_secrets() {
        let bytes = b"hi\0 password=hunter2 \xff".to_vec();
        let hidden = hidden(&bytes, Mask::new(true));
        assert_eq!(
            dump(RuntimeAddr(0x1000), &bytes, &hidden),
            "0x1000: 68 69 00 20 70 61 73 73 77 6f 72 64 3d ** ** **  hi. password=***\n\
             0x1010: ** ** ** ** 20 ff                                **** ."
        );
        assert_eq!(
            words(RuntimeAddr(8), &[1, 0, 0, 0, 0, 0, 0, 0, 2], &[false; 9]),
            "0x8: 0x0000000000000001 1\n0x10: 0x0000000000000002 2"
        );
    }
}
