//! Tests that drive the built binary as its users do.
#![allow(clippy::unwrap_used, clippy::print_stdout, missing_docs, reason = "these are tests")]

mod command_line;
mod server;
mod wire;
