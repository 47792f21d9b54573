//! ICorDebug, the runtime's debugging interface, with safe faces. All unsafe code of the crate is here.
//!
//! The interface is made of COM objects: a pointer to a table of functions, of which the first three count
//! references and find other interfaces of the same object. [`Com`] owns such a pointer; [`interface!`] declares
//! what can be asked, by place in the table. Answers are HRESULTs, which become [`CorError`].
#![allow(unsafe_code, reason = "the runtime's debugging interface is a C++ one")]

mod callback;
mod com;
mod crash;
mod error;
mod guardian;
mod inspection;
mod interfaces;
mod large_pages;
mod library;
mod read_ahead;
mod redirect;
mod remains;
mod settle;
mod startup;
mod stuck;

pub(crate) use callback::{CorEvent, Events, ExceptionStage, Next, Waker};
pub(crate) use com::Com;
pub(crate) use crash::blame;
pub(crate) use error::{CorError, Hresult};
pub(crate) use inspection::{CodeRange, ThrownFrame};
pub(crate) use interfaces::*;
pub use library::has_runtime;
pub(crate) use library::{Debugging, DebuggingError, MappedRuntime, other_debugger};
pub(crate) use read_ahead::forget_pages;
pub(crate) use remains::{Image, Remains, start_time};
pub use remains::{ends_soon, temporary_folder};
pub(crate) use settle::Rest;
pub(crate) use startup::{Exit, Prepared, Spawned, Startup, StartupError};
pub use stuck::STUCK;
pub(crate) use stuck::{Calls, give_up};
