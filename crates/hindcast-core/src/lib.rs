//! The vocabulary of hindcast and the seams between its rooms.
//!
//! Nothing here does IO. Engines and stores implement the traits, services speak the types, and only
//! the outermost crates know a wire format.

pub mod audit;
pub mod debug;
pub mod event;
pub mod identity;
pub mod knowledge;
pub mod license;
pub mod printable;
pub mod progress;
pub mod quota;
pub mod store;
pub mod time;

pub use jiff::Timestamp;
