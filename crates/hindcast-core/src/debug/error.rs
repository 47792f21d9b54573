//! Why an engine cannot do what it was asked.

use serde::{Deserialize, Serialize};

use super::{BreakpointId, RuntimeAddr, ThreadId};

/// Why not. The hint, where there is one, stands behind ` · hint: `.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error, Serialize, Deserialize)]
pub enum DebugError {
    /// No such process.
    #[error("there is no process {0} · hint: list the running ones with `ps -e`")]
    ProcessNotFound(u32),
    /// The system does not let us.
    #[error("{0}")]
    PermissionDenied(String),
    /// The program could not be started.
    #[error("{0}")]
    LaunchFailed(String),
    /// The file is not one that this engine can read.
    #[error("{0}")]
    BadFile(String),
    /// The program has ended; there is nothing left to look at.
    #[error("the program has ended · hint: start it again with `debugger/restart`")]
    Ended,
    /// A breakpoint cannot be placed.
    #[error("{0}")]
    BreakpointFailed(String),
    /// No such breakpoint.
    #[error("there is no breakpoint {0} · hint: `debugger/status` lists them")]
    NoSuchBreakpoint(BreakpointId),
    /// No such thread.
    #[error("there is no thread {0} · hint: `debugger/get_threads` lists them")]
    NoSuchThread(ThreadId),
    /// No such frame.
    #[error(
        "there is no frame {index}; the stack has {frames} · hint: `debugger/get_stack_trace` lists them"
    )]
    NoSuchFrame {
        /// What was asked for.
        index: u32,
        /// How many there are.
        frames: u32,
    },
    /// An expression that cannot be read or computed.
    #[error("{0}")]
    Expression(String),
    /// Memory that is not there.
    #[error("cannot read memory at {0}")]
    Unreadable(RuntimeAddr),
    /// One cannot go back there.
    #[error("{0}")]
    NoHistory(String),
    /// What took long was ended before it was done.
    #[error("it was given up before it was done · hint: {0}")]
    GivenUp(String),
    /// Something that this kind of session cannot do.
    #[error("{0}")]
    Unsupported(String),
    /// The process that the engine ran in is gone, and the session with it.
    #[error(
        "the session has ended: {0} · hint: begin again with `debugger/launch`; the server's log has the details"
    )]
    Lost(String),
    /// The system failed us.
    #[error("{0}")]
    System(String),
}
