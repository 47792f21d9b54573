//! Debug sessions, one set for each principal.
//!
//! The engine that runs and inspects programs is not part of this version: what can be answered
//! without it (does the process exist, may it be touched, is anything attached) is answered.

mod policy;

use std::convert::Infallible;

use hindcast_core::identity::Caller;

pub use policy::TargetPolicy;

use crate::{Failure, FailureKind};

/// Starts and keeps debug sessions.
pub struct DebugService {
    policy: TargetPolicy,
}

impl DebugService {
    /// Sessions within what the operator allows.
    pub fn new(policy: TargetPolicy) -> Self {
        Self { policy }
    }

    /// Attaches to a running process.
    pub fn attach(&self, caller: &Caller, pid: u32) -> Result<Infallible, Failure> {
        let target = policy::Target::of(pid).ok_or_else(|| {
            Failure::new(FailureKind::ProcessNotFound, format!("there is no process {pid}"))
                .hint("list the running ones with `ps -e`, then attach by that number")
                .fact("pid", pid)
        })?;
        // The local user may do what the system lets them; a key holder what the operator allows.
        if caller.key.is_some() {
            self.policy.check(pid, &target)?;
        }
        Err(Failure::new(
            FailureKind::Internal,
            format!("cannot attach to {pid}: this version has no debug engine"),
        )
        .hint("use a version whose `debugger/attach` is documented to work"))
    }

    /// The error of everything that needs a session while there is none.
    pub fn not_attached() -> Failure {
        Failure::new(FailureKind::NotAttached, "no process is attached")
            .hint("attach with `debugger/attach` and a `pid` first")
    }
}
