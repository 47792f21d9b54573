//! Debug sessions, one set for each principal.
//!
//! The engine that runs and inspects programs is not part of this version: what can be answered
//! without it (does the process exist, may it be touched, is anything attached) is answered.

use crate::{Failure, FailureKind};

/// Starts and keeps debug sessions.
#[derive(Default)]
pub struct DebugService;

impl DebugService {
    /// Attaches to a running process.
    pub fn attach(&self, pid: u32) -> Result<std::convert::Infallible, Failure> {
        match owner_of(pid) {
            None => Err(Failure::new(FailureKind::ProcessNotFound, format!("there is no process {pid}"))
                .hint("list the running ones with `ps -e`, then attach by that number")
                .fact("pid", pid)),
            Some(owner) if Some(owner) != owner_of(std::process::id()) => Err(Failure::new(
                FailureKind::PermissionDenied,
                format!("process {pid} belongs to another user"),
            )
            .hint("attach to a process of the server's own user")
            .fact("pid", pid)),
            Some(_) => Err(Failure::new(
                FailureKind::Internal,
                format!("cannot attach to {pid}: this version has no debug engine"),
            )
            .hint("use a version whose `hindcast doctor` lists the native engine")),
        }
    }

    /// The error of everything that needs a session while there is none.
    pub fn not_attached() -> Failure {
        Failure::new(FailureKind::NotAttached, "no process is attached")
            .hint("attach with `debugger/attach` and a `pid` first")
    }
}

/// The user id a process runs as; none when there is no such process.
#[cfg(unix)]
fn owner_of(pid: u32) -> Option<u32> {
    use std::os::unix::fs::MetadataExt;
    std::fs::metadata(format!("/proc/{pid}")).ok().map(|metadata| metadata.uid())
}

#[cfg(not(unix))]
fn owner_of(_pid: u32) -> Option<u32> {
    None
}
