//! Opening both ends of a debuggee's standard streams.

use std::{
    fs::File,
    io,
    os::fd::{AsFd, OwnedFd},
    path::PathBuf,
};

use hindcast_core::debug::{Stdin, Streams};

use crate::{
    pump::{Ends, Input},
    terminal::Terminal,
};

/// The program's ends.
#[derive(Debug)]
pub struct Theirs {
    /// What it reads.
    pub stdin: OwnedFd,
    /// What it prints to.
    pub stdout: OwnedFd,
    /// What it prints errors to.
    pub stderr: OwnedFd,
}

/// Both ends.
#[derive(Debug)]
pub struct Opened {
    /// The program's.
    pub theirs: Theirs,
    /// Ours.
    pub ours: Ends,
}

/// Why the streams cannot be opened.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// The file that the program is to read cannot be opened.
    #[error("cannot open `{}` as its input: {error}", path.display())]
    Input {
        /// The file.
        path: PathBuf,
        /// What the system says.
        error: io::Error,
    },
    /// No more descriptors or terminals.
    #[error("cannot open the program's standard streams: {0}")]
    System(#[from] io::Error),
}

/// Opens what the program is to have, and our ends of that; none where it has our own streams.
pub fn open(stdin: &Stdin, streams: Streams) -> Result<Option<Opened>, OpenError> {
    let stdin = match (stdin, streams) {
        (_, Streams::Inherited) => return Ok(None),
        (Stdin::File(path), _) => {
            let file = File::open(path).map_err(|error| OpenError::Input { path: path.clone(), error })?;
            Some((OwnedFd::from(file), Input::default()))
        }
        (Stdin::Text(text), _) => Some(piped_input(text, true)?),
        (Stdin::Written, Streams::Pipes) => Some(piped_input("", false)?),
        (Stdin::Written, Streams::Terminal) => None,
    };
    let opened = match streams {
        Streams::Terminal => on_terminals(stdin),
        Streams::Pipes | Streams::Inherited => on_pipes(stdin),
    }?;
    Ok(Some(opened))
}

fn piped_input(text: &str, ends: bool) -> io::Result<(OwnedFd, Input)> {
    let (theirs, ours) = io::pipe()?;
    Ok((theirs.into(), Input::pipe(ours.into(), text, ends)?))
}

fn on_pipes(stdin: Option<(OwnedFd, Input)>) -> io::Result<Opened> {
    let (stdin, input) = match stdin {
        Some(stdin) => stdin,
        None => piped_input("", false)?,
    };
    let (stdout, its_stdout) = io::pipe()?;
    let (stderr, its_stderr) = io::pipe()?;
    let theirs = Theirs { stdin, stdout: its_stdout.into(), stderr: its_stderr.into() };
    Ok(Opened { theirs, ours: Ends { stdout: stdout.into(), stderr: stderr.into(), input } })
}

/// Errors have a terminal of their own, so that they are told apart.
fn on_terminals(stdin: Option<(OwnedFd, Input)>) -> io::Result<Opened> {
    let output = Terminal::open()?;
    let errors = Terminal::open()?;
    let (stdin, input) = match stdin {
        Some(stdin) => stdin,
        None => (output.slave.as_fd().try_clone_to_owned()?, Input::terminal(output.master.try_clone()?)),
    };
    let theirs = Theirs { stdin, stdout: output.slave, stderr: errors.slave };
    Ok(Opened { theirs, ours: Ends { stdout: output.master, stderr: errors.master, input } })
}
