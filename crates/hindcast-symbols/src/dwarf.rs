//! Debug information: its sections, units and entries. Everything here speaks file addresses; what
//! is loaded where is known to [`crate::Symbols`] alone.

pub(crate) mod die;
pub(crate) mod file;
pub(crate) mod index;
pub(crate) mod info;
pub(crate) mod lines;
pub(crate) mod paths;
mod root;
pub(crate) mod sections;

/// What gimli reads from: borrowed bytes of a section.
pub(crate) type Slice<'a> = gimli::EndianSlice<'a, gimli::LittleEndian>;
pub(crate) type Entry<'a> = gimli::DebuggingInformationEntry<Slice<'a>>;
pub(crate) type Value<'a> = gimli::AttributeValue<Slice<'a>>;
pub(crate) type Offset = gimli::UnitOffset<usize>;

pub(crate) use die::{DieRef, View};
pub(crate) use file::DebugFile;
pub(crate) use info::DebugInfo;
pub(crate) use sections::Sections;
