//! XML documents: read once into a compact tree, asked with XPath 1.0, held against XML Schema.
//!
//! Nothing here reads files or the network: text comes in, and what a schema includes comes through a callback.

pub mod encoding;
pub mod error;
pub mod names;
mod place;
pub mod read;
pub mod schema;
pub mod serialize;
pub mod tree;
pub mod xpath;

pub use encoding::decode;
pub use error::{Position, XmlError};
pub use place::Paths;
pub use read::{Limits, read};
pub use serialize::serialize;
pub use tree::{Document, Kind, NodeId};
