//! Debugs .NET programs through the runtime's own debugging interface, ICorDebug.

pub mod image;
mod visible;

// Everything else is about running programs.
#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
mod abandoned;
#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
mod cor;
#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
mod engine;
#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
mod expression;
#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
mod files;
#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
mod installation;
#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
mod modules;
#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
mod names;
#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
mod pipe;
#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
mod program;
#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
mod replaced;
#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
mod session;
#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
mod values;

#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
pub use abandoned::release_abandoned;
#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
pub use cor::{STUCK, ends_soon, has_runtime, temporary_folder};
#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
pub use engine::DotnetEngine;
#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
pub use installation::{InstalledRuntime, find_dotnet, installed_runtimes};
#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
pub use program::assembly_beside;
