//! What files tell of native programs: ELF, DWARF, types; and with the memory of a process, values
//! and expressions.
//!
//! There is no process here, only files and whatever stands behind [`Memory`]: a live process, a
//! core file, a recording. Every file is taken for hostile: bad input is an error, never a panic, an
//! endless loop or an allocation beyond its size.

mod demangle;
mod dwarf;
mod elf;
mod error;
pub mod expression;
mod module;
pub mod names;
mod symbols;
pub mod types;
mod unwind;
pub mod value;

pub use demangle::in_last_parentheses;
pub use elf::build_id_in;
pub use error::{LocateError, SymbolError, UnwindError};
pub use hindcast_core::debug::{Memory, Pages, Unreadable};
pub use hindcast_mapping::{open_plain, read_plain};
pub use module::{Module, SymbolKind};
pub use symbols::{
    CodePlace, FixedPlace, FrameContext, Function, FunctionPattern, FunctionTarget, GlobalName, InlineFrame,
    LineMatches, LineRow, LineTarget, PatternError, Piece, PieceKind, Placement, Symbols, VariableHandle,
    VariableInfo, Viewpoint, demangle_type,
};
pub use unwind::{Registers, Unwound};
