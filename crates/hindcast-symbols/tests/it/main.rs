//! Symbols of real programs, compared with what gdb and addr2line say of them.

mod data;
mod hostile;
mod kinds;
mod places;
mod snapshot;
mod stacks;
mod support;
