//! Registers of a frame, by name.

use hindcast_core::debug::{Register, RegisterSet};
use hindcast_symbols::expression::{self, RegisterKind, register_part};

use iced_x86::{Decoder, DecoderOptions, InstructionInfoFactory};

use super::{
    FrameScope,
    code::{LONGEST_INSTRUCTION, read_code, symbol},
    scope::GENERAL,
};
use crate::sys::VectorRegisters;

/// The registers of a frame.
pub(crate) fn registers(scope: &FrameScope<'_>, set: RegisterSet) -> Vec<Register> {
    if set == RegisterSet::Used {
        let pc =
            (0..).zip(GENERAL).find(|(_, name)| *name == "rip").and_then(|(number, _)| scope.general(number));
        let code = pc.map(|pc| read_code(scope.scene.memory, pc, LONGEST_INSTRUCTION));
        let used = used_registers(&code.unwrap_or_default());
        let mut all = registers(scope, RegisterSet::General);
        all.retain(|register| used.contains(&register.name));
        return all;
    }
    let mut told = Vec::new();
    if set != RegisterSet::Vector {
        for (number, name) in (0..).zip(GENERAL) {
            let value = scope.general(number);
            let meaning = value.and_then(|value| symbol(scope.scene.symbols, value));
            told.push(Register {
                name: name.into(),
                value: value.map(|value| format!("{value:#018x}")),
                meaning: meaning.filter(|_| name != "rsp"),
            });
        }
        for name in ["eflags", "fs_base", "gs_base", "cs", "ss"] {
            let value = scope.innermost(name);
            let meaning = value.filter(|_| name == "eflags").map(flags);
            told.push(Register {
                name: name.into(),
                value: value.map(|value| format!("{value:#x}")),
                meaning,
            });
        }
    }
    if set != RegisterSet::General {
        let vectors = scope.vectors();
        let mut tell = |family: &str, count, value: &dyn Fn(&VectorRegisters, usize) -> Option<Vec<u8>>| {
            for number in 0..count {
                let value = vectors.and_then(|vectors| value(vectors, number));
                let value = value.map(|bytes| hexadecimal(&bytes));
                told.push(Register { name: format!("{family}{number}"), value, meaning: None });
            }
        };
        if scope.processor_has(VectorRegisters::has_ymm) {
            tell("ymm", 16, &|vectors, number| vectors.ymm(number).map(Vec::from));
        } else {
            tell("xmm", 16, &|vectors, number| vectors.xmm(number).map(Vec::from));
        }
        tell("st", 8, &|vectors, number| vectors.x87(number).map(Vec::from));
        if scope.processor_has(VectorRegisters::has_zmm) {
            tell("zmm", 32, &|vectors, number| vectors.zmm(number).map(Vec::from));
            tell("k", 8, &|vectors, number| vectors.mask(number).map(Vec::from));
        }
    }
    told
}

/// The whole registers that an instruction uses, also those that it does not name, with `rip` and `rsp`.
fn used_registers(code: &[u8]) -> Vec<String> {
    let mut used = vec!["rip".to_owned(), "rsp".to_owned()];
    let mut decoder = Decoder::new(64, code, DecoderOptions::NONE);
    let mut facts = InstructionInfoFactory::new();
    let instruction = decoder.decode();
    let registers = facts.info(&instruction).used_registers().iter();
    used.extend(registers.map(|used| format!("{:?}", used.register().full_register()).to_lowercase()));
    used
}

/// As a number: the highest byte first.
fn hexadecimal(bytes: &[u8]) -> String {
    let digits: String = bytes.iter().rev().map(|byte| format!("{byte:02x}")).collect();
    format!("0x{digits}")
}

fn flags(value: u64) -> String {
    let names =
        [(0, "CF"), (2, "PF"), (4, "AF"), (6, "ZF"), (7, "SF"), (8, "TF"), (9, "IF"), (10, "DF"), (11, "OF")];
    let set: Vec<_> = names.iter().filter(|(bit, _)| value >> bit & 1 == 1).map(|(_, name)| *name).collect();
    set.join(" ")
}

/// A register as expressions see it: `$rax` and its parts, `$pc`, `$sp`, `$eflags`, `$xmm0`,
/// `$ymm0`, `$zmm0`, `$k0`, `$st0`.
pub(super) fn named(scope: &FrameScope<'_>, name: &str) -> Option<expression::Register> {
    let name = match name {
        "pc" => "rip",
        "sp" => "rsp",
        "fp" => "rbp",
        "flags" | "rflags" => "eflags",
        other => other,
    };
    let told = |bytes: &[u8], kind| {
        Some(expression::Register { name: name.into(), offset: 0, bytes: bytes.to_vec(), kind })
    };
    let general = |name: &str| {
        let number = GENERAL.iter().position(|known| *known == name)?;
        scope.general(number as u16).map(u64::to_le_bytes)
    };
    if let Some(bytes) = general(name) {
        let is_address = matches!(name, "rip" | "rsp" | "rbp");
        return told(&bytes, if is_address { RegisterKind::Address } else { RegisterKind::Whole });
    }
    if let Some(value) = scope.innermost(name) {
        return told(&value.to_le_bytes(), RegisterKind::Whole);
    }
    if let Some((number, offset, Some(size))) = register_part(name) {
        let bytes = scope.general(number)?.to_le_bytes()[offset..offset + size].to_vec();
        let (name, kind) = (GENERAL[usize::from(number)].into(), RegisterKind::Whole);
        return Some(expression::Register { name, offset: offset as u64, bytes, kind });
    }
    let vectors = scope.vectors()?;
    let number = |family: &str| name.strip_prefix(family).and_then(|digits| digits.parse().ok());
    if let Some(number) = number("xmm") {
        return told(&vectors.xmm(number)?, RegisterKind::Vector);
    }
    if let Some(number) = number("ymm") {
        return told(&vectors.ymm(number)?, RegisterKind::Vector);
    }
    if let Some(number) = number("zmm") {
        return told(&vectors.zmm(number)?, RegisterKind::Vector);
    }
    if let Some(number) = number("k") {
        return told(&vectors.mask(number)?, RegisterKind::Whole);
    }
    told(&vectors.x87(number("st")?)?, RegisterKind::Float)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_instruction_uses_whole_registers_also_unnamed_ones() {
        let used = |code: &[u8]| {
            let mut used = used_registers(code);
            used.sort();
            used.dedup();
            used.join(" ")
        };
        // mov eax, [rbp+r12*4-8]
        assert_eq!(used(&[0x42, 0x8b, 0x44, 0xa5, 0xf8]), "r12 rax rbp rip rsp");
        // mov [rsi], bl
        assert_eq!(used(&[0x88, 0x1e]), "rbx rip rsi rsp");
        // add r8d, esi
        assert_eq!(used(&[0x41, 0x01, 0xf0]), "r8 rip rsi rsp");
        // rep movsb
        assert_eq!(used(&[0xf3, 0xa4]), "rcx rdi rip rsi rsp");
        // Nothing that could be read.
        assert_eq!(used(&[]), "rip rsp");
    }
}
