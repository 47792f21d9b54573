//! What files tell of native programs: ELF, DWARF, types; and with the memory of a process, values
//! and expressions.
//!
//! There is no process here, only files and whatever stands behind [`Memory`]: a live process, a
//! core file, a recording. Every file is taken for hostile: bad input is an error, never a panic, an
//! endless loop or an allocation beyond its size.

pub mod expression;
mod memory;
pub mod types;
pub mod value;

pub use memory::{Memory, Unreadable};
