//! The reader on damaged files, and the engine on real programs and both real runtimes.
#![cfg(all(target_os = "linux", target_arch = "x86_64"))]
#![allow(clippy::unwrap_used, missing_docs)]

mod attaching;
mod beginning;
mod breakpoints;
mod debuggee;
mod endurance;
mod evaluate;
mod exceptions;
mod extremes;
mod failures;
mod image;
mod items;
mod large;
mod nullables;
mod optimised;
mod pitfalls;
mod places;
mod rules;
mod steps;
mod unseen;
mod values;
mod waits;
