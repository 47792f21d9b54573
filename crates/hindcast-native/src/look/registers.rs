//! Registers of a frame, by name.

use hindcast_core::debug::{Register, RegisterSet};
use hindcast_symbols::expression::{self, RegisterKind, register_part};

use super::{FrameScope, code::symbol, scope::GENERAL};

/// The registers of a frame.
pub(crate) fn registers(scope: &FrameScope<'_>, set: RegisterSet) -> Vec<Register> {
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
        for number in 0..16 {
            let wide = scope.vectors().and_then(|vectors| vectors.ymm(number));
            let value = wide.map(|bytes| {
                let digits: String = bytes.iter().rev().map(|byte| format!("{byte:02x}")).collect();
                format!("0x{digits}")
            });
            told.push(Register { name: format!("ymm{number}"), value, meaning: None });
        }
        for number in 0..8 {
            let value = scope.vectors().and_then(|vectors| vectors.x87(number)).map(|bytes| {
                let digits: String = bytes.iter().rev().map(|byte| format!("{byte:02x}")).collect();
                format!("0x{digits}")
            });
            told.push(Register { name: format!("st{number}"), value, meaning: None });
        }
    }
    told
}

fn flags(value: u64) -> String {
    let names =
        [(0, "CF"), (2, "PF"), (4, "AF"), (6, "ZF"), (7, "SF"), (8, "TF"), (9, "IF"), (10, "DF"), (11, "OF")];
    let set: Vec<_> = names.iter().filter(|(bit, _)| value >> bit & 1 == 1).map(|(_, name)| *name).collect();
    set.join(" ")
}

/// A register as expressions see it: `$rax` and its parts, `$pc`, `$sp`, `$eflags`, `$xmm0`, `$st0`.
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
    told(&vectors.x87(number("st")?)?, RegisterKind::Float)
}
