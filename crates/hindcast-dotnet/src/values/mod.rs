//! Values of a stopped program: what they are, and how a developer would write them. Nothing here runs code of the
//! program.

mod collections;
mod display;
mod framework;
mod properties;
mod seen;
mod show;
mod types;

pub(crate) use display::{Brief, primitive_text, quoted};
pub(crate) use seen::{Content, FieldValue, Seen, Values};
pub(crate) use types::{Definition, TypeInfo, primitive_of};
