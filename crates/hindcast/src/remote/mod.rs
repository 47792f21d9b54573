//! Debug sessions in processes of their own: [`WorkerEngine`] stands behind the seam in the server, and
//! [`serve`] has the real engine in `hindcast worker debug`.
//!
//! ```text
//! session's thread ── RemoteBackend ── Link ══calls══▶ host ── DebugBackend, on the worker's main thread
//!         others   ── RemoteInterrupt ══════bells═══▶ a thread ── Interrupt
//!    OutputLog ◀── a thread of the Link ◀═══calls════ OutputLog::passed_on
//! ```
//!
//! A worker has one session, and ends with it. Whatever ends the worker, the thread that reads from it
//! hears so at once, buries it, and tells the session.

#[macro_use]
mod calls;

mod backend;
mod engine;
mod host;
mod link;
#[cfg(test)]
mod tests;
mod variables;
mod wire;

pub(crate) use engine::WorkerEngine;
pub(crate) use host::{Inside, serve};
pub(crate) use variables::Variables;
pub(crate) use wire::Setup;
