//! The engine on real programs and both real runtimes.
#![cfg(all(target_os = "linux", target_arch = "x86_64"))]
#![allow(clippy::unwrap_used, missing_docs)]

mod breakpoints;
mod debuggee;
mod evaluate;
mod values;
