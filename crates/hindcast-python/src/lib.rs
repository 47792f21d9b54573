//! What the memory of a CPython process says: threads, frames, values, and expressions over them.
//!
//! There is no process here, only whatever stands behind [`Memory`](hindcast_core::debug::Memory): a live process, a
//! core file, a moment of a recording. No code of the program runs, so whatever Python computes (properties,
//! `__getattr__`, `__repr__`) is refused rather than guessed. Memory is taken for hostile: every length, chain and depth
//! is bounded, and what does not look like the object it should be is an error.

mod code;
mod exception;
mod expression;
mod frames;
mod kind;
mod layout;
mod line;
mod lookup;
mod objects;
mod progress;
mod python;
mod reader;
mod scripts;
mod show;
mod text;

pub use code::{Code, Position};
pub use exception::{Raised, TracebackEntry};
pub use expression::{ExpressionError, Slot, Target, Value};
pub use frames::{Frame, Frames, Local, LocalKind, Thread};
pub use layout::Version;
pub use progress::{LineMap, Move, Progress};
pub use python::{Python, Unknown};
pub use reader::{ReadError, Reader};
pub use scripts::Standing;
