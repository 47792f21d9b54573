//! Starting a program under a process of ours that does nothing but wait for it.
//!
//! The runtime's debugging library waits for the children of its process, now and then, and whoever asks the system first gets
//! the exit code. So the program is not our child but our guardian's:
//!
//! ```text
//! we ── fork ──▶ guardian ── fork ──▶ program
//!  ◀── its number, how it ended ──┘      └── waits for a byte from us, then becomes the program
//! ```
//!
//! When we die it kills the program, unless that was released. At the program's end it removes what a runtime or a debugger
//! that is killed leaves behind.

use std::{
    ffi::{CString, OsStr, OsString},
    io::{self, PipeReader, PipeWriter, Read, Write},
    os::{
        fd::{AsRawFd, OwnedFd, RawFd},
        unix::ffi::{OsStrExt, OsStringExt},
    },
    path::Path,
};

use hindcast_streams::Theirs;
use nix::{
    sys::{
        signal::{Signal, kill},
        wait::waitpid,
    },
    unistd::Pid,
};

use super::remains::{Remains, USUAL_FOLDER};

/// What the guardian says: a letter and a number.
type Word = [u8; 5];
const STARTED: u8 = b'P';
const EXITED: u8 = b'E';
const KILLED: u8 = b'K';
const RELEASED: u8 = b'R';

/// Where the guardian keeps what it writes to.
const GUARDIAN_OUT: RawFd = 3;
/// The signal that releases.
const RELEASE: libc::c_int = libc::SIGUSR1;
/// The signal that we have died.
const ORPHANED: libc::c_int = libc::SIGUSR2;
/// The exit code of a program that could not be started, as shells have it.
const NOT_STARTED: libc::c_int = 127;

/// A program that waits to be let go.
#[derive(Debug)]
pub(super) struct Waiting {
    pub(super) pid: u32,
    /// Its folder for temporary files.
    pub(super) temporary: OsString,
    pub(super) guardian: Guardian,
    go: PipeWriter,
    failure: PipeReader,
}

/// The process that waits for the program.
#[derive(Debug)]
pub(super) struct Guardian {
    pid: Pid,
    words: PipeReader,
}

/// What a guardian tells.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Report {
    Exited(i32),
    Killed(i32),
    Released,
}

/// All that the program needs, made before the first fork: nothing is allocated behind it.
struct Plan {
    program: CString,
    arguments: Vec<CString>,
    environment: Vec<CString>,
    folder: Option<CString>,
    /// Its folder for temporary files.
    temporary: OsString,
    streams: Theirs,
}

/// Starts a program that waits before its first instruction.
pub(super) fn start(
    program: &Path,
    arguments: &[&OsStr],
    folder: Option<&Path>,
    environment: impl IntoIterator<Item = (String, String)>,
    streams: Theirs,
) -> io::Result<Waiting> {
    let mut variables: Vec<(OsString, OsString)> = std::env::vars_os().collect();
    for (name, value) in environment {
        let name = OsString::from(name);
        variables.retain(|(known, _)| *known != name);
        variables.push((name, value.into()));
    }
    let temporary = variables.iter().find(|(name, value)| name == "TMPDIR" && !value.is_empty());
    let temporary = temporary.map_or_else(|| USUAL_FOLDER.into(), |(_, folder)| folder.clone());
    let variable = |(mut name, value): (OsString, OsString)| {
        name.push("=");
        name.push(value);
        CString::new(name.into_vec())
    };
    let text = |text: &OsStr| CString::new(text.as_bytes());
    let plan = Plan {
        program: text(program.as_os_str())?,
        arguments: std::iter::once(program.as_os_str())
            .chain(arguments.iter().copied())
            .map(text)
            .collect::<Result<_, _>>()?,
        environment: variables.into_iter().map(variable).collect::<Result<_, _>>()?,
        folder: folder.map(|folder| text(folder.as_os_str())).transpose()?,
        temporary,
        streams,
    };
    fork_guardian(plan)
}

fn fork_guardian(plan: Plan) -> io::Result<Waiting> {
    let pointers = |texts: &[CString]| -> Vec<*const libc::c_char> {
        texts.iter().map(|text| text.as_ptr()).chain([std::ptr::null()]).collect()
    };
    let (arguments, environment) = (pointers(&plan.arguments), pointers(&plan.environment));
    let (mut words, its_words) = io::pipe()?;
    let (its_go, go) = io::pipe()?;
    let (failure, its_failure) = io::pipe()?;
    let ends = Ends {
        words: its_words.as_raw_fd(),
        go: its_go.as_raw_fd(),
        go_writer: go.as_raw_fd(),
        failure: its_failure.as_raw_fd(),
        parent: std::process::id(),
    };
    // SAFETY: the child calls only what is safe between fork and exec, with what was made before.
    let guardian = match unsafe { libc::fork() } {
        -1 => return Err(io::Error::last_os_error()),
        // SAFETY: as above.
        0 => unsafe { guard(&plan, &arguments, &environment, &ends) },
        pid => Pid::from_raw(pid),
    };
    let temporary = plan.temporary.clone();
    // Ours are the last holds on the program's ends.
    drop((plan, its_words, its_go, its_failure));
    let mut word: Word = [0; 5];
    let started = words.read_exact(&mut word);
    match (started, word[0]) {
        (Ok(()), STARTED) => {}
        _ => {
            let _ = waitpid(guardian, None);
            return Err(io::Error::other("the process that starts it has failed"));
        }
    }
    let pid = u32::from_le_bytes([word[1], word[2], word[3], word[4]]);
    Ok(Waiting { pid, temporary, guardian: Guardian { pid: guardian, words }, go, failure })
}

impl Waiting {
    /// Lets it become the program.
    pub(super) fn go(self) -> io::Result<(u32, Guardian)> {
        let Self { pid, guardian, mut go, mut failure, .. } = self;
        go.write_all(b"!")?;
        let mut number = [0; 4];
        match failure.read_exact(&mut number) {
            Ok(()) => Err(io::Error::from_raw_os_error(i32::from_le_bytes(number))),
            // It is the program now, and the pipe closed with that.
            Err(_) => Ok((pid, guardian)),
        }
    }
}

impl Guardian {
    /// Waits for the next word; none when the guardian is gone.
    pub(super) fn next(&mut self) -> Option<Report> {
        let mut word: Word = [0; 5];
        self.words.read_exact(&mut word).ok()?;
        let number = i32::from_le_bytes([word[1], word[2], word[3], word[4]]);
        match word[0] {
            EXITED => Some(Report::Exited(number)),
            KILLED => Some(Report::Killed(number)),
            RELEASED => Some(Report::Released),
            _ => None,
        }
    }

    pub(super) fn pid(&self) -> Pid {
        self.pid
    }

    /// Waits until it is gone, when the program is.
    pub(super) fn reap(self) {
        let _ = waitpid(self.pid, None);
    }
}

/// Lets guardian and program live when we die.
pub(super) fn release(guardian: Pid) {
    // The guardian is our child, and not buried while the program lives.
    let _ = kill(guardian, Signal::SIGUSR1);
}

/// The ends of the pipes that the children use.
struct Ends {
    words: RawFd,
    go: RawFd,
    go_writer: RawFd,
    failure: RawFd,
    parent: u32,
}

/// The guardian's life.
///
/// # Safety
/// Called in a forked child; calls only what is safe there.
unsafe fn guard(
    plan: &Plan,
    arguments: &[*const libc::c_char],
    environment: &[*const libc::c_char],
    ends: &Ends,
) -> ! {
    // SAFETY: plain system calls.
    unsafe {
        // Signals wait until they are asked for. None ends it before it has done its work.
        let mut all: libc::sigset_t = std::mem::zeroed();
        libc::sigfillset(&mut all);
        libc::sigprocmask(libc::SIG_SETMASK, &all, std::ptr::null_mut());
        die_with(ends.parent, ORPHANED);
        // What is typed at our terminal is not meant for it.
        libc::setsid();
        let guardian = std::process::id();
        let child = libc::fork();
        if child == 0 {
            become_program(plan, arguments, environment, &Ends { parent: guardian, ..*ends });
        }
        if child == -1 {
            libc::_exit(1);
        }
        hold_only(ends.words);
        let remains = Remains::of(child.cast_unsigned());
        say(STARTED, child);
        let status = wait_for(child);
        if let Ok(remains) = remains {
            remains.remove(&plan.temporary);
        }
        if libc::WIFSIGNALED(status) {
            say(KILLED, libc::WTERMSIG(status));
        } else {
            say(EXITED, libc::WEXITSTATUS(status));
        }
        libc::_exit(0)
    }
}

/// Has the system send this process a signal when its parent dies.
///
/// # Safety
/// As for [`guard`].
unsafe fn die_with(parent: u32, signal: libc::c_int) {
    // SAFETY: plain system calls.
    unsafe {
        libc::prctl(libc::PR_SET_PDEATHSIG, signal);
        // It may have died before.
        if libc::getppid().cast_unsigned() != parent {
            libc::_exit(NOT_STARTED);
        }
    }
}

/// Closes all but the guardian's voice.
///
/// # Safety
/// As for [`guard`].
unsafe fn hold_only(words: RawFd) {
    // SAFETY: plain system calls.
    unsafe {
        if libc::dup2(words, GUARDIAN_OUT) == -1 {
            libc::_exit(1);
        }
        for descriptor in 0..GUARDIAN_OUT {
            libc::close(descriptor);
        }
        if libc::syscall(libc::SYS_close_range, GUARDIAN_OUT + 1, u32::MAX, 0) == -1 {
            for descriptor in GUARDIAN_OUT + 1..4096 {
                libc::close(descriptor);
            }
        }
    }
}

/// Waits until the program has ended, and does what it is told meanwhile. Returns how it ended.
///
/// # Safety
/// As for [`guard`]; all signals are blocked.
unsafe fn wait_for(child: libc::pid_t) -> libc::c_int {
    // SAFETY: plain system calls.
    unsafe {
        let mut awaited: libc::sigset_t = std::mem::zeroed();
        libc::sigemptyset(&mut awaited);
        for signal in [libc::SIGCHLD, RELEASE, ORPHANED] {
            libc::sigaddset(&mut awaited, signal);
        }
        let mut status = 0;
        while libc::waitpid(child, &mut status, libc::WNOHANG) != child {
            match libc::sigwaitinfo(&awaited, std::ptr::null_mut()) {
                RELEASE => {
                    libc::prctl(libc::PR_SET_PDEATHSIG, 0);
                    say(RELEASED, 0);
                }
                ORPHANED => {
                    libc::kill(child, libc::SIGKILL);
                }
                _ => {}
            }
        }
        status
    }
}

/// # Safety
/// Called in the guardian.
unsafe fn say(letter: u8, number: i32) {
    let [a, b, c, d] = number.to_le_bytes();
    let word: Word = [letter, a, b, c, d];
    // SAFETY: the word is as long as is told. Nobody may listen any more.
    unsafe { libc::write(GUARDIAN_OUT, word.as_ptr().cast(), word.len()) };
}

/// The program's life before it is the program.
///
/// # Safety
/// As for [`guard`].
unsafe fn become_program(
    plan: &Plan,
    arguments: &[*const libc::c_char],
    environment: &[*const libc::c_char],
    ends: &Ends,
) -> ! {
    // SAFETY: plain system calls with texts and lists that live.
    unsafe {
        die_with(ends.parent, libc::SIGKILL);
        libc::setsid();
        let streams = &plan.streams;
        for (from, to) in [(&streams.stdin, 0), (&streams.stdout, 1), (&streams.stderr, 2)] {
            let from: &OwnedFd = from;
            if libc::dup2(from.as_raw_fd(), to) == -1 {
                give_up(ends);
            }
        }
        // Fails where its input is no terminal, and then there is none to control.
        libc::ioctl(0, libc::TIOCSCTTY, 0);
        if let Some(folder) = &plan.folder
            && libc::chdir(folder.as_ptr()) == -1
        {
            give_up(ends);
        }
        // Ours is the last one then: if we give up, it reads the end.
        libc::close(ends.go_writer);
        let mut byte = 0u8;
        if libc::read(ends.go, (&raw mut byte).cast(), 1) != 1 {
            libc::_exit(NOT_STARTED);
        }
        default_signals();
        libc::execve(plan.program.as_ptr(), arguments.as_ptr(), environment.as_ptr());
        give_up(ends)
    }
}

/// Programs begin with the signals that they expect.
///
/// # Safety
/// As for [`guard`].
unsafe fn default_signals() {
    // SAFETY: plain system calls.
    unsafe {
        libc::signal(libc::SIGPIPE, libc::SIG_DFL);
        let mut none: libc::sigset_t = std::mem::zeroed();
        libc::sigemptyset(&mut none);
        libc::sigprocmask(libc::SIG_SETMASK, &none, std::ptr::null_mut());
    }
}

/// # Safety
/// As for [`guard`].
unsafe fn give_up(ends: &Ends) -> ! {
    // SAFETY: plain system calls.
    unsafe {
        let number = (*libc::__errno_location()).to_le_bytes();
        libc::write(ends.failure, number.as_ptr().cast(), number.len());
        libc::_exit(NOT_STARTED)
    }
}
