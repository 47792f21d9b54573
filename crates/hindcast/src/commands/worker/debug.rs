//! `hindcast worker debug`: one debug session of a server. Its standard input and output are sockets.

use std::{
    io,
    os::{fd::AsFd, unix::net::UnixStream},
    process::ExitCode,
};

use anyhow::Result;
use hindcast_core::debug::{DebugError, Reason};
use hindcast_native::confine::{self, ConfineError};
use nix::sys::{
    prctl,
    signal::{Signal, raise},
    stat::{Mode, umask},
};

use crate::{
    remote::{self, Inside, Setup},
    wiring,
};

pub(super) fn run(gently: bool, mask: Option<u32>) -> Result<ExitCode> {
    if let Some(mask) = mask {
        umask(Mode::from_bits_truncate(mask));
    }
    // The system would call it by the name of the link that it was started from.
    prctl::set_name(c"hindcast-debug")?;
    // A server that is killed takes its launched programs along. What is attached to is let go first, when the
    // sockets end.
    if !gently {
        prctl::set_pdeathsig(Signal::SIGKILL)?;
    }
    let mut calls = UnixStream::from(io::stdin().as_fd().try_clone_to_owned()?);
    let bells = UnixStream::from(io::stdout().as_fd().try_clone_to_owned()?);
    let setup = Setup::read(&mut calls)?;
    // Before anything of a caller is looked at, and before there are threads. What cannot be confined is not begun.
    let layers = match &setup.confinement {
        Some(confinement) => confine::enter(confinement, !gently).map_err(|error| cannot_confine(&error)),
        None => Ok(Vec::new()),
    };
    let engine = wiring::debug_engine_of_worker(setup.users_profiles.as_deref())?;
    remote::serve(Inside { engine: &engine, layers }, calls, bells, || {
        let _ = raise(Signal::SIGKILL);
        // The first process of a namespace is not killed from inside.
        std::process::exit(1);
    })?;
    Ok(ExitCode::SUCCESS)
}

fn cannot_confine(error: &ConfineError) -> DebugError {
    let advice = match error {
        ConfineError::CannotHide { .. } => {
            "the operator allows namespaces (`hindcast doctor` says how), or takes the outer folder off `debug.readable` and \
             `debug.allowed_folders`"
        }
        ConfineError::ClosedWorkspace => {
            "the operator allows namespaces (`hindcast doctor` says how), runs the server as another user than root, or sets \
             `debug.workspaces` to a folder that others may enter (mode 711)"
        }
        _ => {
            "the operator allows namespaces or Landlock on this machine (`hindcast doctor` says how), or gives the key the \
             scope `debug:unconfined`"
        }
    };
    DebugError::PermissionDenied(Reason::new(error.to_string()).advise(advice))
}
