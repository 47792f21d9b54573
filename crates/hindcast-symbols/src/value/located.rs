//! Variables of a frame as values.

use super::place::{Absence, Placed, Storage};
use crate::{FrameContext, LocateError, Piece, PieceKind, Placement, Symbols, VariableInfo};

/// No value in pieces is larger.
const LARGEST_IN_PIECES: u64 = 1 << 16;

impl Placed {
    /// A variable as a frame has it. What cannot be found is a value that says so.
    pub fn variable(symbols: &Symbols, variable: &VariableInfo, frame: &dyn FrameContext) -> Self {
        let type_ref = variable.type_ref;
        if variable.declared_later {
            return Self::gone(type_ref, Absence::NotYetInitialised);
        }
        match symbols.locate(variable, frame) {
            Ok(Placement::Memory(address)) => Self::memory(type_ref, address),
            Ok(Placement::Register(number)) => match frame.register(number) {
                Some(bytes) => match register_name(number) {
                    Some(name) => Self::register(type_ref, &name, bytes),
                    None => Self::computed(type_ref, bytes),
                },
                None => Self::gone(type_ref, Absence::OptimisedOut),
            },
            Ok(Placement::Bytes(bytes)) => Self::computed(type_ref, bytes),
            Ok(Placement::Pieces(pieces)) => {
                Self { type_ref, storage: assembled(&pieces, frame), home: None }
            }
            Ok(Placement::ImplicitPointer { .. } | Placement::OptimisedOut) => {
                Self::gone(type_ref, Absence::OptimisedOut)
            }
            Err(LocateError::Memory(unreadable)) => Self::gone(type_ref, Absence::Unreadable(unreadable.0)),
            Err(_) => Self::gone(type_ref, Absence::OptimisedOut),
        }
    }
}

/// The bytes of a value that is in several places.
fn assembled(pieces: &[Piece], frame: &dyn FrameContext) -> Storage {
    let total: u64 = pieces.iter().fold(0, |total, piece| total.saturating_add(piece.bits));
    if total.div_ceil(8) > LARGEST_IN_PIECES {
        return Storage::Gone(Absence::OptimisedOut);
    }
    let size = total.div_ceil(8) as usize;
    let (mut bytes, mut known) = (vec![0u8; size], vec![true; size]);
    let mut at = 0;
    for piece in pieces {
        let source = piece_bytes(piece, frame);
        for bit in 0..piece.bits {
            let (to, from) = ((at + bit) as usize, piece.first_bit.wrapping_add(bit));
            let byte = usize::try_from(from / 8).ok().and_then(|index| source.as_ref()?.get(index));
            match byte {
                Some(byte) => bytes[to / 8] |= (byte >> (from % 8) & 1) << (to % 8),
                None => known[to / 8] = false,
            }
        }
        at += piece.bits;
    }
    if known.iter().all(|known| *known) {
        Storage::Bytes(bytes.into())
    } else if known.iter().any(|known| *known) {
        Storage::Patchy { bytes: bytes.into(), known: known.into() }
    } else {
        Storage::Gone(Absence::OptimisedOut)
    }
}

/// The bytes that a piece's first bit is counted in.
fn piece_bytes(piece: &Piece, frame: &dyn FrameContext) -> Option<Vec<u8>> {
    match &piece.kind {
        PieceKind::Register(number) => frame.register(*number),
        PieceKind::Bytes(bytes) => Some(bytes.clone()),
        PieceKind::OptimisedOut => None,
        PieceKind::Memory(address) => {
            let bits =
                piece.first_bit.checked_add(piece.bits).filter(|bits| *bits <= 8 * LARGEST_IN_PIECES)?;
            let mut bytes = vec![0; bits.div_ceil(8) as usize];
            frame.memory().read(*address, &mut bytes).ok()?;
            Some(bytes)
        }
    }
}

/// The name of a register of x86-64 by its DWARF number.
pub fn register_name(dwarf: u16) -> Option<String> {
    const GENERAL: [&str; 17] = [
        "rax", "rdx", "rcx", "rbx", "rsi", "rdi", "rbp", "rsp", "r8", "r9", "r10", "r11", "r12", "r13",
        "r14", "r15", "rip",
    ];
    match dwarf {
        0..17 => Some(GENERAL[usize::from(dwarf)].to_owned()),
        17..33 => Some(format!("xmm{}", dwarf - 17)),
        33..41 => Some(format!("st{}", dwarf - 33)),
        49 => Some("rflags".to_owned()),
        50..56 => Some(["es", "cs", "ss", "ds", "fs", "gs"][usize::from(dwarf - 50)].to_owned()),
        58 => Some("fs_base".to_owned()),
        59 => Some("gs_base".to_owned()),
        67..83 => Some(format!("xmm{}", dwarf - 67 + 16)),
        _ => None,
    }
}
