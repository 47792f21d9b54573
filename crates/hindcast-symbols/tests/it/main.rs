//! Symbols of real programs, compared with what gdb and addr2line say of them.

mod core_image;
mod kinds;
mod places;
mod support;
mod values;
