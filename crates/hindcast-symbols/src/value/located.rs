//! Variables of a frame as values.

use std::sync::Arc;

use super::place::{Absence, Placed, Storage};
use crate::{FrameContext, LocateError, Piece, PieceKind, Placement, Symbols, VariableHandle, VariableInfo};

/// No value in pieces is larger.
const LARGEST_IN_PIECES: u64 = 1 << 16;
/// How many pointers that do not exist may lead to each other.
const DEEPEST: u32 = 4;

impl Placed {
    /// A variable as a frame has it. What cannot be found is a value that says so.
    pub fn variable(symbols: &Symbols, variable: &VariableInfo, frame: &dyn FrameContext) -> Self {
        let type_ref = variable.type_ref;
        if variable.declared_later {
            return Self::gone(type_ref, Absence::NotYetInitialised);
        }
        let placement = symbols.locate(variable, frame);
        if let Ok(Placement::Register(number)) = placement
            && let (Some(bytes), Some(name)) = (frame.register(number), register_name(number))
        {
            return Self::register(type_ref, &name, bytes);
        }
        Self { type_ref, storage: storage(symbols, placement, frame, DEEPEST), home: None }
    }
}

/// Where a value is read that is placed so.
fn storage(
    symbols: &Symbols,
    placement: Result<Placement, LocateError>,
    frame: &dyn FrameContext,
    depth: u32,
) -> Storage {
    match placement {
        Ok(Placement::Memory(address)) => Storage::Memory(address),
        Ok(Placement::Register(number)) => match frame.register(number) {
            Some(bytes) => Storage::Bytes(bytes.into()),
            None => Storage::Gone(Absence::OptimisedOut),
        },
        Ok(Placement::Bytes(bytes)) => Storage::Bytes(bytes.into()),
        Ok(Placement::Pieces(pieces)) => assembled(&pieces, frame),
        Ok(Placement::ImplicitPointer { target, offset }) => {
            implied(symbols, target, offset, frame, depth).unwrap_or(Storage::Gone(Absence::OptimisedOut))
        }
        Ok(Placement::OptimisedOut) => Storage::Gone(Absence::OptimisedOut),
        Err(LocateError::Memory(unreadable)) => Storage::Gone(Absence::Unreadable(unreadable.0)),
        Err(_) => Storage::Gone(Absence::OptimisedOut),
    }
}

/// A pointer to a variable that is in no memory; nothing where the variable is nowhere either.
fn implied(
    symbols: &Symbols,
    target: VariableHandle,
    offset: i64,
    frame: &dyn FrameContext,
    depth: u32,
) -> Option<Storage> {
    let depth = depth.checked_sub(1)?;
    let offset = u64::try_from(offset).ok()?;
    let placement = symbols.locate_target(target, frame);
    match storage(symbols, placement, frame, depth).part(offset, None) {
        Storage::Gone(_) => None,
        // The compiler may have forgotten only the pointer.
        Storage::Memory(address) => Some(Storage::Bytes(address.to_le_bytes().as_slice().into())),
        target => Some(Storage::Implied(Arc::new(target))),
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
        118..126 => Some(format!("k{}", dwarf - 118)),
        _ => None,
    }
}
