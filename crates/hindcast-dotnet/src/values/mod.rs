//! Values of a stopped program: what they are, and how a developer would write them. Nothing here runs code of the
//! program.

mod answer;
mod binding;
mod buffers;
mod characters;
mod collections;
mod display;
mod enums;
mod exceptions;
mod framework;
mod fsharp;
mod memory;
mod properties;
mod seen;
mod sequences;
mod show;
mod slots;
mod template;
mod times;
mod trees;
mod types;

pub(crate) use answer::Answer;
pub(crate) use collections::{Item, Keys, tuple_names};
pub(crate) use enums::enum_name;
pub(crate) use exceptions::{ExceptionMessage, LONGEST_MESSAGE};
pub(crate) use properties::{Returned, returned_by, stored_by};
pub(crate) use seen::{Content, FieldValue, Seen, Values, property_of_backing_field};
pub(crate) use types::{KnownTypes, TypeInfo};
