//! Debugs C, C++ and Rust programs on Linux x86-64.
#![cfg(all(target_os = "linux", target_arch = "x86_64"))]

mod archive;
pub mod confine;
mod core_file;
mod debuggee;
mod image;
mod look;
mod process;
mod record;
mod replay;
mod session;
mod sys;

use hindcast_core::debug::{
    AttachRequest, Capability, CoreRequest, DebugBackend, DebugEngine, DebugError, LaunchRequest,
    TraceFileRequest,
};

/// Begins sessions with native programs.
#[derive(Debug, Clone, Copy, Default)]
pub struct NativeEngine;

impl DebugEngine for NativeEngine {
    fn capabilities(&self) -> Vec<Capability> {
        record::capabilities()
    }

    fn launch(&self, request: &LaunchRequest) -> Result<Box<dyn DebugBackend>, DebugError> {
        if request.record {
            record::try_capabilities();
        }
        Ok(Box::new(session::Session::launch(request, std::env::vars_os())?))
    }

    fn attach(&self, request: &AttachRequest) -> Result<Box<dyn DebugBackend>, DebugError> {
        Ok(Box::new(session::Session::attach(request)?))
    }

    fn open_core(&self, request: &CoreRequest) -> Result<Box<dyn DebugBackend>, DebugError> {
        Ok(Box::new(core_file::CoreSession::open(request)?))
    }

    fn open_trace(&self, request: &TraceFileRequest) -> Result<Box<dyn DebugBackend>, DebugError> {
        Ok(Box::new(session::Session::open_trace(request)?))
    }
}

/// The same in a worker process, whose own variables are none of the program's.
#[derive(Debug, Clone, Copy, Default)]
pub struct HostedNativeEngine;

impl DebugEngine for HostedNativeEngine {
    fn capabilities(&self) -> Vec<Capability> {
        NativeEngine.capabilities()
    }

    fn launch(&self, request: &LaunchRequest) -> Result<Box<dyn DebugBackend>, DebugError> {
        if request.record {
            record::try_capabilities();
        }
        Ok(Box::new(session::Session::launch(request, std::iter::empty())?))
    }

    fn attach(&self, request: &AttachRequest) -> Result<Box<dyn DebugBackend>, DebugError> {
        NativeEngine.attach(request)
    }

    fn open_core(&self, request: &CoreRequest) -> Result<Box<dyn DebugBackend>, DebugError> {
        NativeEngine.open_core(request)
    }

    fn open_trace(&self, request: &TraceFileRequest) -> Result<Box<dyn DebugBackend>, DebugError> {
        NativeEngine.open_trace(request)
    }
}
