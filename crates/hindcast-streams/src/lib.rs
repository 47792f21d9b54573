//! The standard streams of a debuggee: pipes or terminals, read and written by a thread of their own.
#![cfg(target_os = "linux")]

mod left;
mod open;
mod pump;
mod terminal;

pub use open::{OpenError, Opened, Theirs, open};
pub use pump::{Ends, Input, InputRefused, Pump};
