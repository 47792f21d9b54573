//! Symbols of real programs, compared with what gdb and addr2line say of them, and values, compared
//! with what the programs print.

mod core_image;
mod data;
mod kinds;
mod places;
mod support;
mod values;
