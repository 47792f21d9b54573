//! Symbols of real programs, compared with what gdb and addr2line say of them, and values, compared
//! with what the programs print.

mod core_image;
mod data;
mod expressions;
mod hostile;
mod hostile_types;
mod kinds;
mod locals;
mod looking;
mod names;
mod places;
mod separate;
mod snapshot;
mod stacks;
mod support;
mod values;
