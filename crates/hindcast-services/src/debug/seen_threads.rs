//! Threads as they were seen at a standstill.

use hindcast_core::{
    Timestamp,
    debug::{DebugBackend, Location, Thread, ThreadState},
};
use schemars::JsonSchema;
use serde::Serialize;

/// A thread as it is seen: its location is that of its innermost frame, as everywhere else.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub struct SeenThread {
    /// The thread.
    #[serde(flatten)]
    pub thread: Thread,
    /// The innermost place whose source is here, where that is further out.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub called_from: Option<Location>,
}

impl SeenThread {
    pub(super) fn look(backend: &mut dyn DebugBackend, mut thread: Thread) -> Self {
        let Ok(stack) = backend.stack(thread.id, 1) else { return Self { thread, called_from: None } };
        let innermost = stack.frames.into_iter().next().map(|frame| frame.location);
        let known = std::mem::replace(&mut thread.location, innermost);
        let here = thread.location.as_ref().map(|location| location.address);
        Self { called_from: known.filter(|known| here.is_some_and(|here| here != known.address)), thread }
    }

    /// The thread after the program's end.
    #[must_use]
    pub(super) fn ended(self) -> Self {
        let thread = Thread { state: ThreadState::Exited, location: None, ..self.thread };
        Self { thread, called_from: None }
    }
}

/// Threads, and when they were looked at.
#[derive(Debug, Clone)]
pub struct CapturedThreads {
    /// All of them.
    pub threads: Vec<SeenThread>,
    /// When.
    pub at: Timestamp,
}
