//! What hindcast does, without knowing over which wire it is asked.

pub mod debug;
pub mod documents;
pub mod events;
pub mod failure;
pub mod gateway;
pub mod knowledge;
mod tool_names;

pub use events::Events;
pub use failure::{Failure, FailureKind};
pub use tool_names::ToolNames;
