//! A terminal for a debuggee. The C library prints line by line only to one.

use std::{io, os::fd::OwnedFd};

use nix::fcntl::{FcntlArg, FdFlag, fcntl};

/// Both ends of a pseudo-terminal that neither echoes nor changes what passes through.
#[derive(Debug)]
pub(crate) struct Terminal {
    /// Ours.
    pub(crate) master: OwnedFd,
    /// The debuggee's.
    pub(crate) slave: OwnedFd,
}

impl Terminal {
    pub(crate) fn open() -> io::Result<Self> {
        let nix::pty::OpenptyResult { master, slave } = nix::pty::openpty(None, None)?;
        let mut modes = nix::sys::termios::tcgetattr(&slave)?;
        use nix::sys::termios::{LocalFlags, OutputFlags, SetArg};
        // Input is not output, and a line ends as the program ended it.
        modes.local_flags.remove(LocalFlags::ECHO);
        modes.output_flags.remove(OutputFlags::OPOST);
        nix::sys::termios::tcsetattr(&slave, SetArg::TCSANOW, &modes)?;
        for end in [&master, &slave] {
            fcntl(end, FcntlArg::F_SETFD(FdFlag::FD_CLOEXEC))?;
        }
        Ok(Self { master, slave })
    }
}
