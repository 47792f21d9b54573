//! Symbols of real programs, compared with what gdb and addr2line say of them, and values, compared
//! with what the programs print.

mod core_image;
mod data;
mod expressions;
mod kinds;
mod looking;
mod places;
mod support;
mod values;
