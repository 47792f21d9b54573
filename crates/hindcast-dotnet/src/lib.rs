//! Debugs .NET programs through the runtime's own debugging interface, ICorDebug.

#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
mod cor;
#[allow(dead_code, unused_imports)]
mod expression;
pub mod image;
