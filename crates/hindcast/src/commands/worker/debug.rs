//! `hindcast worker debug`: one debug session of a server. Its standard input and output are sockets.

use std::{
    io,
    os::{fd::AsFd, unix::net::UnixStream},
    process::ExitCode,
};

use anyhow::Result;
use nix::sys::{
    prctl,
    signal::{Signal, raise},
    stat::{Mode, umask},
};

use crate::{remote, wiring};

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
    let calls = UnixStream::from(io::stdin().as_fd().try_clone_to_owned()?);
    let bells = UnixStream::from(io::stdout().as_fd().try_clone_to_owned()?);
    let engine = wiring::debug_engine_of_worker()?;
    remote::serve(&engine, calls, bells, || {
        let _ = raise(Signal::SIGKILL);
    })?;
    Ok(ExitCode::SUCCESS)
}
