//! Begins sessions with .NET programs.

use hindcast_core::debug::{
    AttachRequest, CoreRequest, DebugBackend, DebugEngine, DebugError, LaunchRequest, Reason,
};

use crate::session::Session;

/// Begins sessions with .NET programs. The runtime's debugging library is loaded into this process and must match the
/// program's, so one process has one session.
#[derive(Debug, Clone, Copy, Default)]
pub struct DotnetEngine;

impl DebugEngine for DotnetEngine {
    fn launch(&self, request: &LaunchRequest) -> Result<Box<dyn DebugBackend>, DebugError> {
        Ok(Box::new(Session::launch(request)?))
    }

    fn attach(&self, request: &AttachRequest) -> Result<Box<dyn DebugBackend>, DebugError> {
        Ok(Box::new(Session::attach(request)?))
    }

    fn open_core(&self, request: &CoreRequest) -> Result<Box<dyn DebugBackend>, DebugError> {
        Err(DebugError::Unsupported(
            Reason::new(format!("a .NET session cannot open the core file `{}`", request.core.display()))
                .advise("open it with `language: c` to see the runtime's own frames"),
        ))
    }
}
