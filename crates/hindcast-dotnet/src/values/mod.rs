//! Values of a stopped program: what they are, and how a developer would write them. Nothing here runs code of the
//! program.

mod collections;
mod display;
mod framework;
mod properties;
mod seen;
mod show;
mod types;

pub(crate) use display::primitive_text;
pub(crate) use framework::enum_name;
pub(crate) use seen::{Content, Seen, Values, property_of_backing_field};
pub(crate) use types::TypeInfo;
