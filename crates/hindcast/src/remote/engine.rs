//! Starting workers.

use std::{
    collections::BTreeMap,
    io,
    os::{
        fd::OwnedFd,
        unix::{net::UnixStream, process::CommandExt, process::ExitStatusExt},
    },
    process::{Child, Command, ExitStatus, Stdio},
    sync::{Arc, Mutex, PoisonError},
};

use hindcast_core::debug::{
    AttachRequest, Capability, CoreRequest, DebugBackend, DebugEngine, DebugError, LaunchRequest, OutputLog,
    Streams, TraceFileRequest,
};
use nix::sys::signal::Signal;

use crate::data_folder::usual_umask;

use super::{
    backend::RemoteBackend,
    link::Link,
    wire::{Beginning, Call},
};

/// Begins every session in a worker process, which is this program again.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct WorkerEngine;

impl DebugEngine for WorkerEngine {
    fn capabilities(&self) -> Vec<Capability> {
        let asked = start(&nothing_printed(), Ends::WithUs).and_then(|link| link.ask(&Call::Capabilities));
        asked.unwrap_or_else(|error| {
            tracing::warn!(%error, "a worker process cannot tell what this machine allows");
            Vec::new()
        })
    }

    fn launch(&self, request: &LaunchRequest) -> Result<Box<dyn DebugBackend>, DebugError> {
        if request.streams == Streams::Inherited {
            let what = "a program in a worker process cannot have our standard streams";
            return Err(DebugError::Unsupported(what.into()));
        }
        // The program's environment is ours, as without a worker; the worker itself has next to none.
        let mut env: BTreeMap<_, _> =
            std::env::vars_os().filter_map(|(name, value)| Some((text(name)?, text(value)?))).collect();
        env.extend(request.env.clone());
        let beginning = Beginning::Launch(LaunchRequest { env, ..request.clone() });
        begin(beginning, &request.output, Ends::WithUs)
    }

    fn attach(&self, request: &AttachRequest) -> Result<Box<dyn DebugBackend>, DebugError> {
        begin(Beginning::Attach(request.clone()), &request.output, Ends::Gently)
    }

    fn open_core(&self, request: &CoreRequest) -> Result<Box<dyn DebugBackend>, DebugError> {
        begin(Beginning::Core(request.clone()), &nothing_printed(), Ends::WithUs)
    }

    fn open_trace(&self, request: &TraceFileRequest) -> Result<Box<dyn DebugBackend>, DebugError> {
        begin(Beginning::Trace(request.clone()), &nothing_printed(), Ends::WithUs)
    }
}

/// How a worker ends when the server dies.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Ends {
    /// At once, and its program with it.
    WithUs,
    /// When it has let go of what it is attached to.
    Gently,
}

fn begin(
    beginning: Beginning,
    output: &Arc<OutputLog>,
    ends: Ends,
) -> Result<Box<dyn DebugBackend>, DebugError> {
    Ok(Box::new(RemoteBackend::begin(start(output, ends)?, beginning)?))
}

fn nothing_printed() -> Arc<OutputLog> {
    Arc::new(OutputLog::new(0))
}

fn start(output: &Arc<OutputLog>, ends: Ends) -> Result<Link, DebugError> {
    spawn(output, ends)
        .map_err(|error| DebugError::System(format!("cannot start a worker process: {error}").into()))
}

/// Called on the session's thread, because the system ends a worker with the thread that started it.
fn spawn(output: &Arc<OutputLog>, ends: Ends) -> io::Result<Link> {
    let (calls, its_calls) = UnixStream::pair()?;
    let (bells, its_bells) = UnixStream::pair()?;
    // Not by its path: what is installed there by now may be another version.
    let mut command = Command::new("/proc/self/exe");
    command.arg0("hindcast").args(["worker", "debug"]);
    if ends == Ends::Gently {
        command.arg("--gently");
    }
    if let Some(mask) = usual_umask() {
        command.arg("--umask").arg(mask.to_string());
    }
    // What is needed to load it; and variables that are no text, which cannot be told later.
    let kept = std::env::vars_os().filter(|(name, value)| {
        name == "LD_LIBRARY_PATH" || name.to_str().is_none() || value.to_str().is_none()
    });
    let child = command
        .env_clear()
        .envs(kept)
        // What is typed at our terminal is not meant for it.
        .process_group(0)
        .stdin(OwnedFd::from(its_calls))
        .stdout(OwnedFd::from(its_bells))
        .stderr(Stdio::inherit())
        .spawn()?;
    Link::new(calls, bells, Worker::of(child), output.clone())
}

fn text(variable: std::ffi::OsString) -> Option<String> {
    variable.into_string().ok()
}

/// A worker process, which is killed and waited for at the latest when nobody holds it any more.
pub(super) struct Worker(Mutex<Option<Child>>);

impl Worker {
    fn of(child: Child) -> Self {
        Self(Mutex::new(Some(child)))
    }

    /// A worker that is no process, for tests.
    #[cfg(test)]
    pub(super) fn thread() -> Self {
        Self(Mutex::new(None))
    }

    /// Ends it without warning.
    pub(super) fn kill(&self) {
        if let Some(child) = &mut *self.0.lock().unwrap_or_else(PoisonError::into_inner) {
            // It may be gone already.
            let _ = child.kill();
        }
    }

    /// Ends it if it has not ended, and says how it did.
    pub(super) fn bury(&self) -> String {
        self.kill();
        let mut child = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        child.take().and_then(|mut child| child.wait().ok()).map_or_else(
            || "its worker process has ended".to_owned(),
            |status| format!("its worker process {}", how(status)),
        )
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        self.bury();
    }
}

fn how(status: ExitStatus) -> String {
    let signal = status.signal().and_then(|number| Signal::try_from(number).ok());
    match (signal, status.code()) {
        (Some(Signal::SIGKILL), _) => "was killed, by somebody or for want of memory".into(),
        (Some(signal), _) => format!("died of {}", signal.as_str()),
        (None, Some(code)) => format!("ended with exit code {code}"),
        (None, None) => "has ended".into(),
    }
}
