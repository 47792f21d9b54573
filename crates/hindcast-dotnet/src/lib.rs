//! Debugs .NET programs through the runtime's own debugging interface, ICorDebug.

pub mod image;
