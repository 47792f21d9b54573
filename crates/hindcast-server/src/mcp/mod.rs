//! The Model Context Protocol over our registry.

mod handler;
mod progress;
mod render;
mod subscriptions;

use std::sync::OnceLock;

pub(crate) use handler::{Handler, Lifecycle};
use hindcast_core::identity::Caller;

use crate::catalogue::ErrorKind;

/// A request that got past the door; travels with it to the handler and back.
pub(crate) struct Admitted {
    pub(crate) caller: Caller,
    /// The client takes one JSON answer and nothing else: no progress, no log messages, and going
    /// away does not cancel.
    pub(crate) plain: bool,
    /// The error that was answered, so that the HTTP status can follow.
    pub(crate) error: OnceLock<ErrorKind>,
}

impl Admitted {
    pub(crate) fn new(caller: Caller, plain: bool) -> Self {
        Self { caller, plain, error: OnceLock::new() }
    }
}
