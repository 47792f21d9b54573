//! The standard streams of a program that is launched.

use std::{
    fs::File,
    io,
    os::fd::{AsFd, OwnedFd},
};

use hindcast_core::debug::{DebugError, LaunchRequest, Stdin, Streams};

use crate::{
    output::{Ends, Input},
    sys::{SpawnStreams, Terminal},
};

/// Opens what the program is to have, and our ends of that; none where it has our own streams.
pub(super) fn open(request: &LaunchRequest) -> Result<(SpawnStreams, Option<Ends>), DebugError> {
    let failed = |error: io::Error| {
        DebugError::LaunchFailed(format!(
            "cannot open the program's standard streams: {error} · hint: close what has many files open, or raise `ulimit -n`"
        ))
    };
    let stdin = match (&request.stdin, request.streams) {
        (_, Streams::Inherited) => return Ok((SpawnStreams::Inherited, None)),
        (Stdin::File(path), _) => {
            let file = File::open(path).map_err(|error| {
                DebugError::LaunchFailed(format!(
                    "cannot open `{}` as its input: {error} · hint: `stdin` names a file that can be read",
                    path.display()
                ))
            })?;
            Some((OwnedFd::from(file), Input::default()))
        }
        (Stdin::Text(text), _) => Some(piped_input(text, true).map_err(failed)?),
        (Stdin::Written, Streams::Pipes) => Some(piped_input("", false).map_err(failed)?),
        (Stdin::Written, Streams::Terminal) => None,
    };
    match request.streams {
        Streams::Terminal => on_terminals(stdin),
        Streams::Pipes | Streams::Inherited => on_pipes(stdin),
    }
    .map(|(theirs, ours)| (theirs, Some(ours)))
    .map_err(failed)
}

fn piped_input(text: &str, ends: bool) -> io::Result<(OwnedFd, Input)> {
    let (theirs, ours) = io::pipe()?;
    Ok((theirs.into(), Input::pipe(ours.into(), text, ends)?))
}

fn on_pipes(stdin: Option<(OwnedFd, Input)>) -> io::Result<(SpawnStreams, Ends)> {
    let (stdin, input) = match stdin {
        Some(stdin) => stdin,
        None => piped_input("", false)?,
    };
    let (stdout, its_stdout) = io::pipe()?;
    let (stderr, its_stderr) = io::pipe()?;
    let theirs = SpawnStreams::Own { stdin, stdout: its_stdout.into(), stderr: its_stderr.into() };
    Ok((theirs, Ends { stdout: stdout.into(), stderr: stderr.into(), input }))
}

/// Errors have a terminal of their own, so that they are told apart.
fn on_terminals(stdin: Option<(OwnedFd, Input)>) -> io::Result<(SpawnStreams, Ends)> {
    let output = Terminal::open()?;
    let errors = Terminal::open()?;
    let (stdin, input) = match stdin {
        Some(stdin) => stdin,
        None => (output.slave.as_fd().try_clone_to_owned()?, Input::terminal(output.master.try_clone()?)),
    };
    let theirs = SpawnStreams::Own { stdin, stdout: output.slave, stderr: errors.slave };
    Ok((theirs, Ends { stdout: output.master, stderr: errors.master, input }))
}
