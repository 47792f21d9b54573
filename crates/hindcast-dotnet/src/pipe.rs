//! The pair of named pipes by which a runtime talks with its debugger.
//!
//! The runtime waits until somebody opens its pipe `-in`, and opens `-out` then. When its debugger is gone, it closes and removes
//! both and makes new ones of the same names: for a moment there are none, and whoever opened the old ones waits for ever.
//!
//! The pipes are in a folder that the program chooses, and we may be a user with more rights: nothing but a pipe of the program's
//! own user is opened.

use std::{
    fs::{File, OpenOptions},
    io,
    os::unix::fs::{FileTypeExt, MetadataExt, OpenOptionsExt},
    path::PathBuf,
    time::{Duration, Instant},
};

use crate::cor::{Remains, temporary_folder};

/// How long the runtime may take to notice that its debugger is gone, and to answer.
pub(crate) const WITHIN: Duration = Duration::from_secs(3);
/// How long to wait before looking again.
pub(crate) const GLANCE: Duration = Duration::from_millis(5);

/// The pipes of one process.
pub(crate) struct Pipe {
    process: Remains,
    owner: u32,
    /// Without `-in` and `-out`.
    path: PathBuf,
}

/// Why no debugger can talk with a runtime.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Silent {
    #[error("the process is stopped by a signal")]
    Stopped,
    #[error("debugging is switched off in the program ({0}=0)")]
    SwitchedOff(&'static str),
    #[error("its runtime's pipe `{}` is not there", .0.display())]
    NoPipe(PathBuf),
    #[error("its runtime does not listen at `{}`", .0.display())]
    NotListening(PathBuf),
    #[error("its runtime's pipe cannot be opened: {0}")]
    System(#[from] io::Error),
}

impl Pipe {
    /// Of a process that lives; there need not be any yet.
    pub(crate) fn of(pid: u32) -> io::Result<Self> {
        let owner = std::fs::metadata(format!("/proc/{pid}"))?.uid();
        let process = Remains::of(pid)?;
        Ok(Self { process, owner, path: temporary_folder(pid).join(process.pipe_name()) })
    }

    pub(crate) fn end(&self, end: &str) -> PathBuf {
        let mut name = self.path.clone().into_os_string();
        name.push(format!("-{end}"));
        name.into()
    }

    /// Opens one end at once, and nothing that is not this user's pipe: no file that a link leads to or that somebody has put there.
    pub(crate) fn open(&self, end: &str, how: &mut OpenOptions) -> io::Result<File> {
        let path = self.end(end);
        let file = how.custom_flags(libc::O_NOFOLLOW | libc::O_NONBLOCK | libc::O_CLOEXEC).open(&path)?;
        let found = file.metadata()?;
        if found.file_type().is_fifo() && found.uid() == self.owner {
            Ok(file)
        } else {
            Err(io::Error::other(format!("`{}` is not a pipe of the process's user", path.display())))
        }
    }

    /// Waits until the runtime has closed its connection to a debugger that is gone. Whoever opens the pipes before it has noticed
    /// keeps it from noticing.
    pub(crate) fn await_hang_up(&self, until: Instant) {
        while self.is_connected() && Instant::now() < until {
            std::thread::sleep(GLANCE);
        }
    }

    /// Whether the runtime has opened one of the pipes.
    fn is_connected(&self) -> bool {
        let ends = [self.end("in"), self.end("out")];
        let files = std::fs::read_dir(format!("/proc/{}/fd", self.process.pid()));
        let files = files.into_iter().flatten().filter_map(Result::ok);
        files.filter_map(|file| std::fs::read_link(file.path()).ok()).any(|path| ends.contains(&path))
    }

    /// What is written there goes to the runtime, which opens the other pipe then.
    pub(crate) fn open_when_it_listens(&self, until: Instant) -> io::Result<File> {
        loop {
            match self.open("in", OpenOptions::new().write(true)) {
                Err(error)
                    if matches!(error.raw_os_error(), Some(libc::ENXIO | libc::ENOENT))
                        && Instant::now() < until
                        && self.process.is_alive() =>
                {
                    std::thread::sleep(GLANCE);
                }
                opened => return opened,
            }
        }
    }
}

/// A runtime that listens for a debugger, and goes on listening as long as this is held.
pub(crate) struct Listening {
    pipe: Pipe,
    _to_it: File,
}

impl Listening {
    /// Waits until the runtime of a process listens.
    pub(crate) fn of(pid: u32) -> Result<Self, Silent> {
        let pipe = Pipe::of(pid)?;
        if is_stopped(pid) {
            return Err(Silent::Stopped);
        }
        // Whether the runtime goes by the variable depends on its version.
        if !pipe.end("in").exists()
            && let Some(variable) = switched_off(pid)
        {
            return Err(Silent::SwitchedOff(variable));
        }
        let until = Instant::now() + WITHIN;
        pipe.await_hang_up(until);
        match pipe.open_when_it_listens(until) {
            Ok(to_it) => Ok(Self { pipe, _to_it: to_it }),
            Err(_) if is_stopped(pid) => Err(Silent::Stopped),
            Err(error) => Err(match error.raw_os_error() {
                Some(libc::ENOENT) => Silent::NoPipe(pipe.end("in")),
                Some(libc::ENXIO) => Silent::NotListening(pipe.end("in")),
                _ => Silent::System(error),
            }),
        }
    }

    /// Hangs up: the runtime waits for another debugger then.
    pub(crate) fn hang_up(&self) {
        // It waits for its other pipe to be opened before it looks at this one again.
        let _ = self.pipe.open("out", OpenOptions::new().read(true));
    }
}

/// Any of these switches off what a runtime has for debuggers.
const SWITCHES: [&str; 4] = [
    "DOTNET_EnableDiagnostics",
    "DOTNET_EnableDiagnostics_Debugger",
    "COMPlus_EnableDiagnostics",
    "COMPlus_EnableDiagnostics_Debugger",
];

/// The variable by which debugging is switched off in a process.
fn switched_off(pid: u32) -> Option<&'static str> {
    let environment = std::fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
    let is_off = |name: &str| {
        environment.split(|byte| *byte == 0).any(|entry| entry == format!("{name}=0").as_bytes())
    };
    SWITCHES.into_iter().find(|name| is_off(name))
}

/// Whether a signal has stopped a process.
pub(crate) fn is_stopped(pid: u32) -> bool {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    status.lines().any(|line| line.starts_with("State:\tT"))
}

#[cfg(test)]
mod tests {
    use std::process::{Command, Stdio};

    use nix::{
        sys::{
            signal::{Signal, kill},
            stat::Mode,
            wait::{WaitPidFlag, waitpid},
        },
        unistd::{Pid, mkfifo},
    };

    use super::*;

    #[test]
    fn a_pipe_of_another_user_is_not_opened() {
        let folder = tempfile::tempdir().unwrap();
        let mine = Pipe { path: folder.path().join("pipe"), ..Pipe::of(std::process::id()).unwrap() };
        mkfifo(&mine.end("out"), Mode::S_IRUSR | Mode::S_IWUSR).unwrap();
        assert!(mine.open("out", OpenOptions::new().read(true)).is_ok());
        let others = Pipe { owner: mine.owner + 1, ..mine };
        let refused = others.open("out", OpenOptions::new().read(true)).unwrap_err();
        assert!(refused.to_string().contains("is not a pipe of the process's user"));
    }

    #[test]
    fn a_process_that_a_signal_has_stopped_does_not_listen() {
        let mut child = Command::new("cat").stdin(Stdio::piped()).spawn().unwrap();
        let pid = Pid::from_raw(child.id().cast_signed());
        assert!(!is_stopped(child.id()));
        kill(pid, Signal::SIGSTOP).unwrap();
        waitpid(pid, Some(WaitPidFlag::WUNTRACED)).unwrap();
        assert!(matches!(Listening::of(child.id()), Err(Silent::Stopped)));
        child.kill().unwrap();
        child.wait().unwrap();
    }
}
