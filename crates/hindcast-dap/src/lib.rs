//! Debugs programs through debug adapters: a client of the Debug Adapter Protocol, and profiles that say how to use each
//! adapter.
//!
//! ```text
//! protocol (types) → transport (one connection) → client (requests, answers, events) → session (the seam)
//! profile (what an adapter wants to hear)    keeper (processes that end when we do)
//! ```
#![cfg(target_os = "linux")]

mod client;
mod door;
mod engine;
mod find;
mod keeper;
mod profile;
mod protocol;
mod purity;
mod session;
mod transport;

pub use engine::AdapterEngine;
pub use keeper::keep;
pub use profile::{Availability, Profile, ProfileError, Profiles};
