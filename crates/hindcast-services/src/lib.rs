//! What hindcast does, without knowing over which wire it is asked.

pub mod debug;
mod disk;
pub mod documents;
pub mod events;
pub mod failure;
pub mod findings;
pub mod gateway;
pub mod knowledge;
mod tool_names;

pub use disk::disk_room;
pub use events::Events;
pub use failure::{Failure, FailureKind};
pub use tool_names::ToolNames;
