//! The Model Context Protocol over our registry.

mod handler;
mod progress;
mod render;
mod subscriptions;

pub(crate) use handler::{Handler, Lifecycle};
use hindcast_core::identity::Caller;
use tokio::time::Instant;

/// A request that got past the door; travels with it to the handler.
pub(crate) struct Admitted {
    pub(crate) caller: Caller,
    /// The client takes one JSON answer and nothing else: no progress, no log messages, and going
    /// away does not cancel.
    pub(crate) plain: bool,
    /// When the answer must be there; none where it is streamed.
    pub(crate) until: Option<Instant>,
}
