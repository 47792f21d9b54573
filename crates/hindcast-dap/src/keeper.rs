//! Processes that end when we do, whatever ends us.
//!
//! Adapters start programs, and programs start others; none of them dies with us. So each is started by a process of ours,
//! the keeper, to which all that loses its parent is given. The keeper ends all of them when its pipe closes, which the
//! system sees to when we are killed.

use std::{
    collections::BTreeMap,
    ffi::{OsStr, OsString},
    fs::{File, OpenOptions},
    io::{self, BufRead, BufReader, PipeWriter, Read, Write},
    os::{
        fd::{AsFd, AsRawFd, OwnedFd, RawFd},
        unix::{fs::OpenOptionsExt, process::CommandExt},
    },
    path::{Path, PathBuf},
    process::{Child, Command, ExitCode, Stdio},
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use nix::{
    errno::Errno,
    fcntl::{FcntlArg, FdFlag, OFlag, fcntl},
    sys::{
        prctl,
        signal::{Signal, kill},
        wait::{WaitPidFlag, WaitStatus, waitpid},
    },
    unistd::{Pid, close, dup2_stderr, dup2_stdin, dup2_stdout},
};

/// Between two looks at what is left. Waiting for the end of one would not do: it may wait for a device and never end, while others
/// start processes that have to be found.
const GLANCE: Duration = Duration::from_millis(1);
/// What is left then cannot be ended: it waits for a device.
const MOST_LOOKS: u32 = 5_000;
const RELEASE: u8 = 1;

/// What to start.
pub(crate) struct Start<'a> {
    pub(crate) program: &'a OsStr,
    pub(crate) args: &'a [OsString],
    pub(crate) cwd: Option<&'a Path>,
    pub(crate) env: &'a BTreeMap<String, String>,
    pub(crate) stdin: Stdio,
    pub(crate) stdout: Stdio,
    pub(crate) stderr: Stdio,
    /// A folder that is removed when all that was started has ended.
    pub(crate) folder: Option<&'a Path>,
}

/// How a process ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Ended {
    /// By itself, with this code.
    Code(i32),
    /// By this signal.
    Signal(i32),
}

/// A process with all that it starts. Dropping it ends them, and waits until they are gone.
pub(crate) struct Kept {
    keeper: Child,
    life: Option<PipeWriter>,
    pid: u32,
    /// When it began, as the system counts: its number may be another's later.
    began: Option<u64>,
    ended: Arc<Mutex<Option<Ended>>>,
    folder: Option<PathBuf>,
}

impl Kept {
    /// Starts a process. `tell` is called when it has ended, from another thread.
    pub(crate) fn start(what: Start<'_>, tell: impl FnOnce() + Send + 'static) -> Result<Self, NotStarted> {
        let (life, our_life) = io::pipe()?;
        let (our_news, news) = io::pipe()?;
        inherit(&life)?;
        inherit(&news)?;
        // Not by its path: what is installed there by now may be another version.
        let mut command = Command::new("/proc/self/exe");
        command.arg0("hindcast").args(["worker", "keep"]);
        command.arg(life.as_raw_fd().to_string()).arg(news.as_raw_fd().to_string());
        command.args(what.folder.iter().flat_map(|folder| [OsStr::new("--folder"), folder.as_os_str()]));
        command.arg("--").arg(what.program).args(what.args);
        if let Some(cwd) = what.cwd {
            command.current_dir(cwd);
        }
        command.env_clear().envs(what.env);
        // What is typed at our terminal is not meant for it.
        command.process_group(0).stdin(what.stdin).stdout(what.stdout).stderr(what.stderr);
        let keeper = command.spawn().map_err(|error| NotStarted::Folder {
            cwd: what.cwd.map(Path::to_owned).unwrap_or_default(),
            error,
        })?;
        drop((life, news, command));
        let mut news = BufReader::new(our_news);
        let folder = what.folder.map(Path::to_owned);
        let mut kept =
            Self { keeper, life: Some(our_life), pid: 0, began: None, ended: Arc::default(), folder };
        let mut line = String::new();
        news.read_line(&mut line)?;
        match line.trim_end().split_once(' ') {
            Some(("pid", pid)) => {
                kept.pid = pid.parse().unwrap_or_default();
                kept.began = beginning_of(kept.pid);
            }
            Some(("error", why)) => return Err(NotStarted::Program { why: why.to_owned() }),
            _ => return Err(NotStarted::Program { why: "its keeper has ended".into() }),
        }
        let ended = kept.ended.clone();
        std::thread::Builder::new().name("kept".into()).spawn(move || {
            let mut line = String::new();
            let _ = news.read_line(&mut line);
            let number = |text: &str| text.parse().ok();
            let how = match line.trim_end().split_once(' ') {
                Some(("code", code)) => number(code).map(Ended::Code),
                Some(("signal", signal)) => number(signal).map(Ended::Signal),
                _ => None,
            };
            *ended.lock().unwrap_or_else(PoisonError::into_inner) = how.or(Some(Ended::Signal(9)));
            tell();
        })?;
        Ok(kept)
    }

    /// Its number.
    pub(crate) fn pid(&self) -> u32 {
        self.pid
    }

    /// How it ended, if it has.
    pub(crate) fn ended(&self) -> Option<Ended> {
        *self.ended.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Lets it go on without us.
    pub(crate) fn release(mut self) {
        // A keeper that is gone ends nobody.
        let _ = self.life.take().map(|mut life| life.write_all(&[RELEASE]));
    }
}

impl Drop for Kept {
    fn drop(&mut self) {
        let is_released = self.life.take().is_none();
        let ended = self.keeper.wait();
        // Somebody may have killed the keeper, and then nobody has ended the others.
        let was_killed = !ended.is_ok_and(|status| status.success());
        if was_killed && !is_released && self.began.is_some() && beginning_of(self.pid) == self.began {
            let mut left = descendants(self.pid);
            left.extend(i32::try_from(self.pid));
            for pid in left {
                let _ = kill(Pid::from_raw(pid), Signal::SIGKILL);
            }
        }
        if was_killed {
            remove(self.folder.as_deref());
        }
    }
}

/// What is not there need not be removed.
fn remove(folder: Option<&Path>) {
    let _ = folder.map(std::fs::remove_dir_all);
}

/// Why a process could not be started.
#[derive(Debug, thiserror::Error)]
pub(crate) enum NotStarted {
    #[error("{why}")]
    Program { why: String },
    #[error("cannot start anything in `{}`: {error}", cwd.display())]
    Folder { cwd: PathBuf, error: io::Error },
    #[error(transparent)]
    System(#[from] io::Error),
}

/// Leaves a descriptor open in what is started next.
fn inherit(end: &impl AsFd) -> io::Result<()> {
    fcntl(end, FcntlArg::F_SETFD(FdFlag::empty()))?;
    Ok(())
}

/// Runs in the keeper: starts the program with our standard streams, waits until all is over, and removes the folder.
///
/// # Errors
///
/// When the descriptors are not those of pipes.
pub fn keep(
    life: RawFd,
    news: RawFd,
    folder: Option<PathBuf>,
    program: &OsStr,
    args: &[OsString],
) -> io::Result<ExitCode> {
    let life = reopened(life, OpenOptions::new().read(true))?;
    let mut news = reopened(news, OpenOptions::new().write(true))?;
    prctl::set_child_subreaper(true)?;
    prctl::set_name(c"hindcast-keep")?;
    let child = match Command::new(program).args(args).process_group(0).spawn() {
        Ok(child) => child,
        Err(error) => {
            remove(folder.as_deref());
            writeln!(news, "error {error}")?;
            return Ok(ExitCode::FAILURE);
        }
    };
    let pid = Pid::from_raw(i32::try_from(child.id()).unwrap_or_default());
    // Whoever reads from the program learns when it closes its streams.
    let nothing = OpenOptions::new().read(true).write(true).open("/dev/null")?;
    dup2_stdin(&nothing)?;
    dup2_stdout(&nothing)?;
    dup2_stderr(&nothing)?;
    writeln!(news, "pid {pid}")?;
    std::thread::Builder::new().name("life".into()).spawn({
        let folder = folder.clone();
        move || await_end(life, folder.as_deref())
    })?;
    loop {
        match waitpid(None, None) {
            Ok(WaitStatus::Exited(ended, code)) if ended == pid => drop(writeln!(news, "code {code}")),
            Ok(WaitStatus::Signaled(ended, signal, _)) if ended == pid => {
                drop(writeln!(news, "signal {}", signal as i32));
            }
            Ok(_) | Err(Errno::EINTR) => {}
            // Nobody is left.
            Err(_) => {
                remove(folder.as_deref());
                return Ok(ExitCode::SUCCESS);
            }
        }
    }
}

/// Our own descriptor for what a number stands for, which is not passed on.
fn reopened(number: RawFd, options: &mut OpenOptions) -> io::Result<File> {
    let options = options.custom_flags(OFlag::O_CLOEXEC.bits());
    let file = options.open(format!("/proc/self/fd/{number}"))?;
    close(number)?;
    Ok(file)
}

/// Ends everybody when nobody holds the other end any more.
fn await_end(mut life: File, folder: Option<&Path>) {
    let mut byte = [0];
    let released = matches!(life.read(&mut byte), Ok(1));
    if !released {
        for _ in 0..MOST_LOOKS {
            for pid in descendants(std::process::id()) {
                let _ = kill(Pid::from_raw(pid), Signal::SIGKILL);
            }
            // Nobody else would take note of their ends.
            let mut last = waitpid(None, Some(WaitPidFlag::WNOHANG));
            while matches!(last, Ok(status) if status != WaitStatus::StillAlive) {
                last = waitpid(None, Some(WaitPidFlag::WNOHANG));
            }
            if last == Err(Errno::ECHILD) {
                break;
            }
            std::thread::sleep(GLANCE);
        }
        remove(folder);
    }
    std::process::exit(0);
}

/// When a process began.
fn beginning_of(pid: u32) -> Option<u64> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    let (_, rest) = stat.rsplit_once(')')?;
    // The 22nd field; the rest begins with the third.
    rest.split_whitespace().nth(19)?.parse().ok()
}

/// All below a process that have not ended.
fn descendants(above: u32) -> Vec<i32> {
    let mut parents: Vec<(i32, i32)> = Vec::new();
    for entry in std::fs::read_dir("/proc").into_iter().flatten().flatten() {
        let Some(pid) = entry.file_name().to_str().and_then(|name| name.parse::<i32>().ok()) else {
            continue;
        };
        let Ok(stat) = std::fs::read_to_string(format!("/proc/{pid}/stat")) else { continue };
        // The name may hold anything, but ends with the last parenthesis.
        let Some((_, rest)) = stat.rsplit_once(')') else { continue };
        let mut fields = rest.split_whitespace();
        let (state, parent) = (fields.next(), fields.next().and_then(|parent| parent.parse().ok()));
        if let (Some(state), Some(parent)) = (state, parent)
            && !matches!(state, "Z" | "X")
        {
            parents.push((pid, parent));
        }
    }
    let mut found = vec![i32::try_from(above).unwrap_or_default()];
    let mut at = 0;
    while at < found.len() {
        let parent = found[at];
        let children = parents.iter().filter(|(_, its)| *its == parent).map(|(pid, _)| *pid);
        let new: Vec<_> = children.filter(|pid| !found.contains(pid)).collect();
        found.extend(new);
        at += 1;
    }
    found.split_off(1)
}

/// Our end of a pipe as something to start a process with.
pub(crate) fn stdio(end: OwnedFd) -> Stdio {
    Stdio::from(end)
}

/// The process below another one that runs this program.
pub(crate) fn running_below(above: u32, program: &Path) -> Option<u32> {
    let is_it = |pid: &i32| std::fs::read_link(format!("/proc/{pid}/exe")).is_ok_and(|exe| exe == program);
    descendants(above).into_iter().find(is_it).and_then(|pid| u32::try_from(pid).ok())
}
