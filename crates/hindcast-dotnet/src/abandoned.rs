//! Letting go of a program whose debugger was killed.
//!
//! The runtime keeps such a program stopped, or stops it at its next breakpoint, and waits for its debugger to come back: over a
//! pair of named pipes, by messages with a header of 48 bytes. Whoever takes up the broken connection may go on with it, so it is
//! taken up to say what a debugger says that lets go:
//!
//! ```text
//! runtime ── resync, the last message it saw ──▶ us
//! runtime ◀── resync ── break (an event) ── us
//! runtime ── stopped, if it ran ──▶ us
//! runtime ◀── continue ── break ── us
//! runtime ── stopped ──▶ us
//! runtime ◀── detach ── us
//! runtime ── detached ──▶ us
//! runtime ◀── close ── us
//! ```
//!
//! The pipes are in a folder that the program chooses, and we may be a user with more rights: nothing but a pipe of the program's
//! own user is read or written, and nobody can keep us longer than the runtime may take.

use std::{
    fs::{File, OpenOptions},
    io::{self, Read, Write},
    os::fd::AsFd,
    time::{Duration, Instant},
};

use nix::poll::{PollFd, PollFlags, PollTimeout, poll};

use crate::{
    cor::{MappedRuntime, Rest},
    pipe::{GLANCE, Pipe, WITHIN},
};

/// How long all threads rest before we take the program for one that stands.
const RESTS_FOR: Duration = Duration::from_millis(100);
/// How long a program that runs may take to stop.
const STOPS_WITHIN: Duration = Duration::from_secs(1);
/// How long it runs once more before it is let go of.
const RUNS_FOR: Duration = Duration::from_millis(100);

const HEADER: usize = 48;
const RESYNC: u32 = 3;
const CLOSE: u32 = 4;
const EVENT: u32 = 5;
const BREAK: u32 = 0x200;
const CONTINUE: u32 = 0x201;
const STOPPED: u32 = 0x102;
const DETACH: u32 = 0x22f;
/// Larger than the part of an event that every event has.
const EVENT_SIZE: usize = 64;
/// No message is larger.
const LARGEST: u32 = 1 << 20;

/// Lets go of a process, if it is a .NET program that waits for a debugger that is gone. False where there is nothing to do.
///
/// # Errors
///
/// When the runtime does not answer.
pub fn release_abandoned(pid: u32) -> io::Result<bool> {
    if !matches!(MappedRuntime::of(pid), Ok(Some(_))) {
        return Ok(false);
    }
    release(pid, &Pipe::of(pid)?, Instant::now() + WITHIN)?;
    Ok(true)
}

fn release(pid: u32, pipe: &Pipe, until: Instant) -> io::Result<()> {
    pipe.await_hang_up(until);
    let mut to_it = pipe.open_when_it_listens(until)?;
    let from_it = pipe.open("out", OpenOptions::new().read(true))?;
    let mut incoming = Incoming { from_it, until };
    let resync = incoming.header()?;
    if resync.kind != RESYNC {
        return Err(io::Error::other("the runtime waits for no lost debugger"));
    }
    // It need not send again what it sent to the one that is gone.
    to_it.write_all(&header(RESYNC, 0, 0, u32::MAX, 0))?;
    let mut id = resync.last_seen;
    let mut send = |kind| {
        // The debuggee chooses the number.
        id = id.wrapping_add(1);
        to_it.write_all(&header(EVENT, EVENT_SIZE as u32, id, 0, kind))?;
        to_it.write_all(&event(kind, pid))
    };
    // Detaching undoes a stop; where there was none, the runtime could never be stopped again. It ignores a second one.
    send(BREAK)?;
    incoming.await_stop(pid)?;
    // A thread may be about to run code for an evaluation. Detaching frees what it needs for its first steps.
    send(CONTINUE)?;
    if !incoming.says_stopped(Instant::now() + RUNS_FOR)? {
        send(BREAK)?;
        incoming.await_stop(pid)?;
    }
    send(DETACH)?;
    while incoming.event()? != Some(DETACH) {}
    to_it.write_all(&header(CLOSE, 0, 0, 0, 0))?;
    drop((to_it, incoming));
    // What the next debugger says before that is lost.
    pipe.await_hang_up(until);
    Ok(())
}

struct Header {
    kind: u32,
    size: u32,
    last_seen: u32,
}

struct Incoming {
    from_it: File,
    until: Instant,
}

impl Incoming {
    fn header(&mut self) -> io::Result<Header> {
        let bytes = self.bytes(HEADER as u32)?;
        let number = |at: usize| u32::from_le_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]]);
        Ok(Header { kind: number(0), size: number(4), last_seen: number(16) })
    }

    /// The next message: which event it is, if it is one.
    fn event(&mut self) -> io::Result<Option<u32>> {
        let message = self.header()?;
        let body = self.bytes(message.size)?;
        let number =
            body.get(8..12).map(|bytes| u32::from_le_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]));
        Ok(number.filter(|_| message.kind == EVENT))
    }

    /// Waits until the runtime says that it has stopped the program, or has stopped it before.
    fn await_stop(&mut self, pid: u32) -> io::Result<()> {
        let until = Instant::now() + STOPS_WITHIN;
        let mut rest = Rest::of(pid);
        while !self.says_stopped(Instant::now() + GLANCE)? {
            // It does not say again that it stands.
            if rest.lasts_for() >= RESTS_FOR || Instant::now() >= until {
                break;
            }
        }
        Ok(())
    }

    /// Whether the runtime says in time that it has stopped the program.
    fn says_stopped(&mut self, until: Instant) -> io::Result<bool> {
        while self.speaks(until)? {
            if self.event()? == Some(STOPPED) {
                return Ok(true);
            }
        }
        Ok(false)
    }

    fn bytes(&mut self, size: u32) -> io::Result<Vec<u8>> {
        if size > LARGEST {
            return Err(io::Error::other("the runtime sends nonsense"));
        }
        let mut bytes = vec![0; size as usize];
        let mut read = 0;
        while read < bytes.len() {
            // Also where there is always something to read.
            if Instant::now() >= self.until {
                return Err(io::ErrorKind::TimedOut.into());
            }
            match self.from_it.read(&mut bytes[read..]) {
                // Nobody has opened the other end yet.
                Ok(0) => std::thread::sleep(GLANCE),
                Ok(count) => read += count,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => self.wait()?,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(bytes)
    }

    fn wait(&self) -> io::Result<()> {
        if self.speaks(self.until)? { Ok(()) } else { Err(io::ErrorKind::TimedOut.into()) }
    }

    /// Whether there is something to read in time.
    fn speaks(&self, until: Instant) -> io::Result<bool> {
        let left = until.saturating_duration_since(Instant::now());
        let timeout = PollTimeout::try_from(left).unwrap_or(PollTimeout::MAX);
        let mut waiting = [PollFd::new(self.from_it.as_fd(), PollFlags::POLLIN)];
        Ok(poll(&mut waiting, timeout)? > 0)
    }
}

fn header(kind: u32, size: u32, id: u32, last_seen: u32, event: u32) -> [u8; HEADER] {
    let mut bytes = [0; HEADER];
    for (at, number) in [(0, kind), (4, size), (8, id), (16, last_seen), (28, event)] {
        bytes[at..at + 4].copy_from_slice(&number.to_le_bytes());
    }
    bytes
}

/// An event; what is only for some events is left out.
fn event(kind: u32, pid: u32) -> [u8; EVENT_SIZE] {
    let mut bytes = [0; EVENT_SIZE];
    bytes[8..12].copy_from_slice(&kind.to_le_bytes());
    bytes[12..16].copy_from_slice(&pid.to_le_bytes());
    // Whether it wants an answer, behind its process, thread and domain, and a result.
    bytes[44] = u8::from(kind == DETACH);
    bytes
}

#[cfg(test)]
mod tests {
    use std::{
        os::unix::fs::symlink,
        path::PathBuf,
        process::{Child, Command, Stdio},
    };

    use nix::{sys::stat::Mode, unistd::mkfifo};

    use super::*;
    use crate::cor::temporary_folder;

    /// A process that says that its pipes are in a folder, in which anything can be put.
    struct Hostile {
        child: Child,
        folder: tempfile::TempDir,
    }

    impl Hostile {
        fn start() -> Self {
            let folder = tempfile::tempdir().unwrap();
            let mut command = Command::new("cat");
            let child = command.env("TMPDIR", folder.path()).stdin(Stdio::piped()).spawn().unwrap();
            // For a moment, a program that begins has no environment.
            while temporary_folder(child.id()) != folder.path() {
                std::thread::yield_now();
            }
            Self { child, folder }
        }

        fn pipe(&self, end: &str) -> PathBuf {
            Pipe::of(self.child.id()).unwrap().end(end)
        }

        fn make_pipe(&self, end: &str) -> PathBuf {
            mkfifo(&self.pipe(end), Mode::S_IRUSR | Mode::S_IWUSR).unwrap();
            self.pipe(end)
        }

        fn release(&self) -> io::Error {
            let pid = self.child.id();
            release(pid, &Pipe::of(pid).unwrap(), Instant::now() + Duration::from_millis(300)).unwrap_err()
        }
    }

    impl Drop for Hostile {
        fn drop(&mut self) {
            self.child.kill().unwrap();
            self.child.wait().unwrap();
        }
    }

    #[test]
    fn files_in_the_place_of_pipes_are_neither_written_nor_read() {
        let hostile = Hostile::start();
        let victim = hostile.folder.path().join("victim");
        std::fs::write(&victim, "as it was").unwrap();
        let mut said = header(RESYNC, 0, 0, 0, 0).to_vec();
        said.resize(1000, 0);
        std::fs::write(hostile.pipe("out"), &said).unwrap();

        symlink(&victim, hostile.pipe("in")).unwrap();
        assert_eq!(hostile.release().raw_os_error(), Some(libc::ELOOP));
        std::fs::remove_file(hostile.pipe("in")).unwrap();
        std::fs::hard_link(&victim, hostile.pipe("in")).unwrap();
        assert!(hostile.release().to_string().contains("is not a pipe"));
        assert_eq!(std::fs::read_to_string(&victim).unwrap(), "as it was");

        std::fs::remove_file(hostile.pipe("in")).unwrap();
        let listening = OpenOptions::new().read(true).write(true).open(hostile.make_pipe("in")).unwrap();
        assert!(hostile.release().to_string().contains("-out` is not a pipe"));
        drop(listening);
    }

    #[test]
    fn a_runtime_that_never_stops_talking_is_left_in_time() {
        let hostile = Hostile::start();
        let (to_it, from_it) = (hostile.make_pipe("in"), hostile.make_pipe("out"));
        let listening = OpenOptions::new().read(true).write(true).open(to_it).unwrap();
        let mut talking = OpenOptions::new().read(true).write(true).open(from_it).unwrap();
        talking.write_all(&header(RESYNC, 0, 0, 0, 0)).unwrap();
        let pid = hostile.child.id();
        let pipe = Pipe::of(pid).unwrap();
        // It answers with nonsense for ever; its own end keeps the pipe open until the folder is gone.
        let mut zeros = Command::new("cat");
        let mut zeros =
            zeros.arg("/dev/zero").stdout(talking.try_clone().unwrap()).spawn().expect("cat is there");
        let until = Instant::now() + Duration::from_millis(300);
        let given_up = release(pid, &pipe, until).unwrap_err();
        assert_eq!(given_up.kind(), io::ErrorKind::TimedOut);
        zeros.kill().unwrap();
        zeros.wait().unwrap();
        drop((listening, talking));
    }
}
