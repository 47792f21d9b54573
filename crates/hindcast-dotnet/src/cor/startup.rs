//! Starting a program so that its runtime waits for us before it runs any managed code.
//!
//! A runtime that starts looks for two named semaphores with its process number and start time in their names.
//! Where they are, it raises the first when it is ready, and waits for the second. So the process is made, then the
//! semaphores, and then it becomes the program.

use std::{
    ffi::{CString, OsStr},
    io,
    path::Path,
    sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

use hindcast_streams::Theirs;
use nix::{
    sys::signal::{Signal, kill},
    unistd::Pid,
};

use super::{
    guardian::{self, Guardian, Report, Waiting},
    remains::{Remains, SEMAPHORES, start_time},
    stuck::Calls,
};

/// How long a runtime may take to start.
const START_WITHIN: Duration = Duration::from_secs(25);
/// How long to wait for the semaphore before looking whether the process still lives.
const GLANCE: Duration = Duration::from_millis(20);
/// How long a process that was killed may take to be gone.
const GONE_WITHIN: Duration = Duration::from_secs(2);

/// The longest path of a pipe that a runtime makes.
const LONGEST_PIPE: usize = 107;

/// Why a program's runtime did not start.
#[derive(Debug, thiserror::Error)]
pub(crate) enum StartupError {
    #[error("cannot start `{program}`: {error}")]
    Spawn { program: String, error: io::Error },
    #[error("cannot make a semaphore for the runtime's start: {0}")]
    Semaphore(io::Error),
    #[error("cannot start `{program}` in `{folder}`: {error}")]
    Folder { program: String, folder: String, error: io::Error },
    #[error("the runtime cannot be debugged with `{folder}` as its folder for temporary files: {why}")]
    Temporary { folder: String, why: String },
    #[error("the program ended before its runtime had started ({how})")]
    Ended { how: String },
    #[error("the program did not start a .NET runtime within {} seconds", START_WITHIN.as_secs())]
    TimedOut,
}

/// A program that was started and is killed when this is dropped.
#[derive(Debug)]
pub(crate) struct Spawned {
    pid: u32,
    guardian: Pid,
    end: Arc<End>,
    /// Whether it may outlive this.
    is_released: bool,
}

/// How a program ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Exit {
    /// By itself, with this code.
    Code(i32),
    /// By a signal.
    Signal(i32),
    /// Nobody could tell.
    Unknown,
}

impl std::fmt::Display for Exit {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Code(code) => write!(f, "exit code {code}"),
            Self::Signal(number) => match Signal::try_from(*number) {
                Ok(signal) => f.write_str(signal.as_str()),
                Err(_) => write!(f, "signal {number}"),
            },
            Self::Unknown => f.write_str("its exit code is unknown"),
        }
    }
}

/// Is told the end by a thread that listens to the guardian.
#[derive(Debug, Default)]
struct End {
    state: Mutex<EndState>,
    told: Condvar,
}

#[derive(Debug, Default)]
struct EndState {
    exit: Option<Exit>,
    is_released: bool,
}

impl End {
    fn state(&self) -> MutexGuard<'_, EndState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn tell(&self, exit: Exit) {
        self.state().exit = Some(exit);
        self.told.notify_all();
    }

    /// Listens until the program has ended.
    fn listen(&self, mut guardian: Guardian, calls: &Calls) {
        loop {
            match guardian.next() {
                Some(Report::Released) => {
                    self.state().is_released = true;
                    self.told.notify_all();
                }
                Some(Report::Exited(code)) => break self.tell(Exit::Code(code)),
                Some(Report::Killed(signal)) => break self.tell(Exit::Signal(signal)),
                None => break self.tell(Exit::Unknown),
            }
        }
        guardian.reap();
        calls.leave_if_stuck();
    }
}

/// A program that is about to be started: its number is known, and nothing of it has run.
#[derive(Debug)]
pub(crate) struct Prepared {
    waiting: Waiting,
    program: String,
}

/// The runtime makes its pipes in its folder for temporary files. Where it cannot, it runs the program without a debugger.
fn check_temporary(waiting: &Waiting, folder: Option<&Path>) -> Result<(), StartupError> {
    let named = Path::new(&waiting.temporary);
    let failed = |why: String| StartupError::Temporary { folder: named.display().to_string(), why };
    let is_folder = folder.unwrap_or(Path::new("")).join(named).is_dir();
    if !is_folder {
        return Err(failed("there is no such folder".into()));
    }
    let name = Remains::of(waiting.pid).map_err(|error| failed(error.to_string()))?.pipe_name();
    let longest = LONGEST_PIPE.saturating_sub("/-out".len() + name.len());
    if waiting.temporary.len() > longest {
        return Err(failed(format!("its path is longer than {longest} bytes")));
    }
    Ok(())
}

impl Prepared {
    /// Gets a program ready to be started.
    pub(crate) fn new(
        program: &Path,
        arguments: &[&OsStr],
        folder: Option<&Path>,
        environment: impl IntoIterator<Item = (String, String)>,
        streams: Theirs,
    ) -> Result<Self, StartupError> {
        let name = program.display().to_string();
        // Otherwise it would look as if the program were missing.
        if let Some(folder) = folder
            && let Err(error) = folder.join(".").metadata()
        {
            return Err(StartupError::Folder { program: name, folder: folder.display().to_string(), error });
        }
        match guardian::start(program, arguments, folder, environment, streams) {
            Ok(waiting) => {
                check_temporary(&waiting, folder)?;
                Ok(Self { waiting, program: name })
            }
            Err(error) => Err(StartupError::Spawn { program: name, error }),
        }
    }

    pub(crate) fn pid(&self) -> u32 {
        self.waiting.pid
    }

    /// Starts it.
    pub(crate) fn start(self, calls: Arc<Calls>) -> Result<Spawned, StartupError> {
        let Self { waiting, program } = self;
        let failed = |error| StartupError::Spawn { program, error };
        let (pid, guardian) = match waiting.go() {
            Ok(started) => started,
            Err(error) => return Err(failed(error)),
        };
        let end = Arc::new(End::default());
        let (spawned, listening) =
            (Spawned { pid, guardian: guardian.pid(), end: end.clone(), is_released: false }, end);
        let thread = std::thread::Builder::new().name("debuggee-exit".into());
        thread.spawn(move || listening.listen(guardian, &calls)).map_err(failed)?;
        Ok(spawned)
    }
}

impl Spawned {
    pub(crate) fn pid(&self) -> u32 {
        self.pid
    }

    fn nix_pid(&self) -> Pid {
        Pid::from_raw(self.pid.cast_signed())
    }

    /// Kills it, stopped or not.
    pub(crate) fn kill(&self) {
        // Not while its end is being told: the number may be another process's then.
        let state = self.end.state();
        if state.exit.is_none() {
            let _ = kill(self.nix_pid(), Signal::SIGKILL);
        }
    }

    /// How it ended, if it did.
    pub(crate) fn ended(&self) -> Option<Exit> {
        self.end.state().exit
    }

    /// Waits for its end.
    pub(crate) fn wait(&self, within: Duration) -> Option<Exit> {
        let waited = self.end.told.wait_timeout_while(self.end.state(), within, |state| state.exit.is_none());
        waited.unwrap_or_else(PoisonError::into_inner).0.exit
    }

    /// Lets it live on when this is dropped, and when we are gone.
    pub(crate) fn release(&mut self) {
        self.is_released = true;
        guardian::release(self.guardian);
        let waiting = |state: &mut EndState| !state.is_released && state.exit.is_none();
        let _ = self.end.told.wait_timeout_while(self.end.state(), GONE_WITHIN, waiting);
    }
}

impl Drop for Spawned {
    fn drop(&mut self) {
        if !self.is_released {
            self.kill();
            self.wait(GONE_WITHIN);
        }
    }
}

/// The two semaphores. Their names are gone when this is dropped.
pub(crate) struct Startup {
    started: Semaphore,
    may_go_on: Semaphore,
}

impl Startup {
    /// Prepares the start of a process that has not begun.
    pub(crate) fn prepare(pid: u32) -> Result<Self, StartupError> {
        let since = start_time(pid).map_err(StartupError::Semaphore)?;
        let make = |kind| Semaphore::make(&semaphore_name(kind, pid, since)).map_err(StartupError::Semaphore);
        let [started, may_go_on] = SEMAPHORES;
        Ok(Self { started: make(started)?, may_go_on: make(may_go_on)? })
    }

    /// Returns when the runtime of a process that was started waits for us and is ready to be debugged.
    pub(crate) fn await_runtime(&self, process: &Spawned) -> Result<(), StartupError> {
        let until = Instant::now() + START_WITHIN;
        loop {
            if self.started.wait(GLANCE).map_err(StartupError::Semaphore)? {
                super::settle::await_rest(process.pid());
                return Ok(());
            }
            if let Some(status) = process.ended() {
                return Err(StartupError::Ended { how: status.to_string() });
            }
            if Instant::now() > until {
                return Err(StartupError::TimedOut);
            }
        }
    }

    /// Lets the runtime run the program.
    pub(crate) fn release(self) -> Result<(), StartupError> {
        self.may_go_on.raise().map_err(StartupError::Semaphore)
    }
}

fn semaphore_name(kind: &str, pid: u32, since: u64) -> String {
    format!("/clr{kind}{pid:08x}{since:016x}")
}

struct Semaphore {
    semaphore: *mut libc::sem_t,
    name: CString,
}

impl Semaphore {
    fn make(name: &str) -> io::Result<Self> {
        let name = CString::new(name)?;
        // SAFETY: the name is a text; the last two arguments are mode and value.
        let semaphore = unsafe { libc::sem_open(name.as_ptr(), libc::O_CREAT | libc::O_EXCL, 0o600, 0) };
        if semaphore == libc::SEM_FAILED {
            return Err(io::Error::last_os_error());
        }
        Ok(Self { semaphore, name })
    }

    /// Whether it was raised in time.
    fn wait(&self, within: Duration) -> io::Result<bool> {
        let mut until = libc::timespec { tv_sec: 0, tv_nsec: 0 };
        // SAFETY: the place is ours, and the semaphore open.
        let waited = unsafe {
            libc::clock_gettime(libc::CLOCK_REALTIME, &mut until);
            until.tv_nsec += i64::from(within.subsec_nanos());
            until.tv_sec += within.as_secs().cast_signed() + until.tv_nsec / 1_000_000_000;
            until.tv_nsec %= 1_000_000_000;
            libc::sem_timedwait(self.semaphore, &until)
        };
        if waited == 0 {
            return Ok(true);
        }
        match io::Error::last_os_error() {
            error if error.raw_os_error() == Some(libc::ETIMEDOUT) => Ok(false),
            error if error.kind() == io::ErrorKind::Interrupted => Ok(false),
            error => Err(error),
        }
    }

    fn raise(&self) -> io::Result<()> {
        // SAFETY: the semaphore is open.
        match unsafe { libc::sem_post(self.semaphore) } {
            0 => Ok(()),
            _ => Err(io::Error::last_os_error()),
        }
    }
}

impl Drop for Semaphore {
    fn drop(&mut self) {
        // SAFETY: the semaphore is open and its name ours. The runtime keeps its own hold on it.
        unsafe {
            libc::sem_close(self.semaphore);
            libc::sem_unlink(self.name.as_ptr());
        }
    }
}
