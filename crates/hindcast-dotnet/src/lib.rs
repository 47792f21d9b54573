//! Debugs .NET programs through the runtime's own debugging interface, ICorDebug.

pub mod image;

#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
mod cor;
#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
mod engine;
#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
mod expression;
#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
mod modules;
mod names;
#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
mod program;
#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
mod session;
#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
mod values;

#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
pub use engine::DotnetEngine;
