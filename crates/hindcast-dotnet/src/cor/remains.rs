//! The files that a runtime and its debugger make for one process. They remove them at the end, unless they are killed.

use std::{
    ffi::{CStr, OsStr, c_int},
    fs::File,
    io::{self, Read, Write},
    os::unix::ffi::OsStrExt,
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

use super::stuck::await_end;

/// How long a process that is being killed may take to be gone.
const KILLED_WITHIN: Duration = Duration::from_secs(2);
/// How long the system may take to end a process whose memory is gone.
const A_MOMENT: Duration = Duration::from_millis(100);
/// How long to wait before looking again.
const GLANCE_MS: c_int = 10;
/// Longer than any path that the system takes.
const LONGEST: usize = 4097;

/// Names the files of one process. Nothing here allocates, because the guardian uses it behind a fork.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Remains {
    pid: u32,
    since: u64,
}

impl Remains {
    /// Of a process that lives, or has not been waited for.
    pub(crate) fn of(pid: u32) -> io::Result<Self> {
        Ok(Self { pid, since: start_time(pid)? })
    }

    pub(crate) fn pid(self) -> u32 {
        self.pid
    }

    /// Whether the process lives: it is not gone, is no other of the same number, and does not wait to be buried.
    pub(crate) fn is_alive(self) -> bool {
        let is_it = |stat: Stat| stat.since == self.since && !matches!(stat.state, b'Z' | b'X');
        stat(self.pid).is_ok_and(is_it)
    }

    /// Whether it has ended, or does so in a moment: within this time, or a little later if it is being killed.
    pub(crate) fn ends_within(self, within: Duration) -> bool {
        let begun = Instant::now();
        while self.is_alive() {
            let waited = begun.elapsed();
            if waited > KILLED_WITHIN || (waited > within && !self.is_killed()) {
                return false;
            }
            await_end(self, GLANCE_MS);
        }
        true
    }

    /// Whether the system is about to end it, however busy the machine is: a signal that nobody can handle is on its way, or was
    /// there.
    fn is_killed(self) -> bool {
        if stat(self.pid).map_or(true, |stat| stat.is_exiting) {
            return true;
        }
        let Ok(status) = std::fs::read_to_string(format!("/proc/{}/status", self.pid)) else { return true };
        let pending = status.lines().filter_map(|line| line.split_once("Pnd:\t"));
        let mut sets = pending.filter_map(|(_, set)| u64::from_str_radix(set, 16).ok());
        sets.any(|set| set & 1 << (libc::SIGKILL - 1) != 0)
    }

    /// The name of the pipes by which the runtime talks with its debugger, without `-in` and `-out`.
    pub(crate) fn pipe_name(self) -> String {
        let Self { pid, since } = self;
        format!("clr-debug-pipe-{pid}-{since}")
    }

    /// Removes the semaphores of its start, and its pipes and its socket from the folder that it has for temporary files.
    pub(crate) fn remove(self, temporary: &OsStr) {
        let Self { pid, since } = self;
        for kind in SEMAPHORES {
            remove(OsStr::new("/dev/shm"), format_args!("sem.clr{kind}{pid:08x}{since:016x}"));
        }
        for end in ["in", "out"] {
            remove(temporary, format_args!("clr-debug-pipe-{pid}-{since}-{end}"));
        }
        remove(temporary, format_args!("dotnet-diagnostic-{pid}-{since}-socket"));
    }
}

/// One that the runtime raises when it has started, and one that it then waits for.
pub(super) const SEMAPHORES: [&str; 2] = ["st", "co"];

fn remove(folder: &OsStr, name: std::fmt::Arguments<'_>) {
    let mut path = [0; LONGEST];
    let mut rest = &mut path[..];
    let written = rest.write_all(folder.as_bytes()).and_then(|()| write!(rest, "/{name}\0"));
    if written.is_ok()
        && let Ok(path) = CStr::from_bytes_until_nul(&path)
    {
        // Mostly there is none.
        let _ = nix::unistd::unlink(path);
    }
}

/// Whether a process has ended, or does so in a moment.
pub fn ends_soon(pid: u32) -> bool {
    Remains::of(pid).map_or(true, |process| process.ends_within(A_MOMENT))
}

/// The folder that a process has for temporary files.
pub fn temporary_folder(pid: u32) -> PathBuf {
    let environment = std::fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
    let set = environment.split(|byte| *byte == 0).find_map(|entry| entry.strip_prefix(b"TMPDIR="));
    set.filter(|folder| !folder.is_empty()).map_or_else(
        || Path::new(USUAL_FOLDER).to_owned(),
        |folder| Path::new(OsStr::from_bytes(folder)).to_owned(),
    )
}

/// Where temporary files are unless `TMPDIR` names another folder.
pub(super) const USUAL_FOLDER: &str = "/tmp";

/// When a process started, as the system counts.
pub(crate) fn start_time(pid: u32) -> io::Result<u64> {
    Ok(stat(pid)?.since)
}

/// Where a process has its program and its stack, which the system chooses anew for each program: tells whether the process has
/// become another one by `exec`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Image {
    code: u64,
    stack: u64,
}

impl Image {
    /// Of a process that lives and may be looked at.
    pub(crate) fn of(pid: u32) -> Option<Self> {
        // Of others, the system says 0 or 1.
        stat(pid).ok()?.image.filter(|image| image.code > 1 && image.stack > 1)
    }

    /// Whether a process has become another program. False where that is not known.
    pub(crate) fn is_replaced(self, pid: u32) -> bool {
        Self::of(pid).is_some_and(|now| now != self)
    }
}

/// What the system tells of a process.
struct Stat {
    /// The letter of its state.
    state: u8,
    /// Whether the system is taking it apart.
    is_exiting: bool,
    /// When it started.
    since: u64,
    image: Option<Image>,
}

/// `PF_EXITING` of the kernel.
const EXITING: u64 = 4;

fn stat(pid: u32) -> io::Result<Stat> {
    let mut stat = [0; 1024];
    let mut path = [0; 32];
    let mut rest = &mut path[..];
    write!(rest, "/proc/{pid}/stat")?;
    let left = rest.len();
    let path = OsStr::from_bytes(&path[..path.len() - left]);
    let length = File::open(path)?.read(&mut stat)?;
    // The name in parentheses may hold anything; field 3 is the first behind it. Those that are used are 3, 9, 22, 26 and 28.
    let found = stat[..length].rsplit(|byte| *byte == b')').next().and_then(|rest| {
        let mut fields = rest.split(u8::is_ascii_whitespace).filter(|field| !field.is_empty());
        let state = *fields.next()?.first()?;
        let mut number = |skipped| std::str::from_utf8(fields.nth(skipped)?).ok()?.parse().ok();
        let is_exiting = number(5)? & EXITING != 0;
        let since = number(12)?;
        let image = number(3).zip(number(1)).map(|(code, stack)| Image { code, stack });
        Some(Stat { state, is_exiting, since, image })
    });
    found.ok_or(io::ErrorKind::InvalidData.into())
}

#[cfg(test)]
mod tests {
    use std::io::BufRead;

    use super::*;

    #[test]
    fn the_files_of_one_process_are_removed_and_others_stay() {
        let folder = tempfile::tempdir().unwrap();
        let mine = Remains::of(std::process::id()).unwrap();
        let Remains { pid, since } = mine;
        let later = since + 1;
        let gone = [
            format!("clr-debug-pipe-{pid}-{since}-in"),
            format!("clr-debug-pipe-{pid}-{since}-out"),
            format!("dotnet-diagnostic-{pid}-{since}-socket"),
        ];
        let kept = [format!("clr-debug-pipe-{pid}-{later}-in"), "other".to_owned()];
        for name in gone.iter().chain(&kept) {
            std::fs::write(folder.path().join(name), "").unwrap();
        }
        mine.remove(folder.path().as_os_str());
        let is_there = |name: &String| folder.path().join(name).exists();
        assert!(!gone.iter().any(is_there));
        assert!(kept.iter().all(is_there));
    }

    #[test]
    fn a_process_is_killed_before_it_is_gone() {
        let mut child =
            std::process::Command::new("cat").stdin(std::process::Stdio::piped()).spawn().unwrap();
        let remains = Remains::of(child.id()).unwrap();
        assert!(remains.is_alive() && !remains.is_killed());
        child.kill().unwrap();
        // Either it has not noticed yet, or it waits to be buried.
        assert!(remains.is_killed() || !remains.is_alive());
        child.wait().unwrap();
        assert!(remains.is_killed() && !remains.is_alive());
    }

    #[test]
    fn a_process_that_becomes_another_program_is_noticed() {
        let piped = std::process::Stdio::piped;
        let mut shell = std::process::Command::new("sh");
        shell.args(["-c", "echo ready; read line; exec cat"]).stdin(piped()).stdout(piped());
        let mut child = shell.spawn().unwrap();
        let mut answers = io::BufReader::new(child.stdout.take().unwrap());
        let mut answer = || {
            let mut line = String::new();
            answers.read_line(&mut line).unwrap();
            line
        };
        assert_eq!(answer(), "ready\n");
        let image = Image::of(child.id()).unwrap();
        assert!(!image.is_replaced(child.id()));
        child.stdin.as_mut().unwrap().write_all(b"go\nfrom cat\n").unwrap();
        assert_eq!(answer(), "from cat\n");
        assert!(image.is_replaced(child.id()));
        drop(child.stdin.take());
        child.wait().unwrap();
        assert!(!image.is_replaced(child.id()), "it is gone");
    }

    #[test]
    fn a_process_has_started_when_the_system_says() {
        let stat = std::fs::read_to_string("/proc/self/stat").unwrap();
        let field = stat.rsplit(')').next().unwrap().split_whitespace().nth(19).unwrap();
        assert_eq!(start_time(std::process::id()).unwrap().to_string(), field);
        let mine = Remains::of(std::process::id()).unwrap();
        assert!(mine.is_alive());
        assert!(!Remains { since: mine.since + 1, ..mine }.is_alive(), "it is another one");
    }
}
