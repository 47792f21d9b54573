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
//! runtime ◀── detach (an event) ── us
//! runtime ── detached ──▶ us
//! runtime ◀── close ── us
//! ```

use std::{
    fs::{File, OpenOptions},
    io::{self, Read, Write},
    os::{fd::AsFd, unix::fs::OpenOptionsExt},
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

use nix::poll::{PollFd, PollFlags, PollTimeout, poll};

use crate::cor::temporary_folder;

/// How long the runtime may take to notice that its debugger is gone, and to answer.
const WITHIN: Duration = Duration::from_secs(3);
/// How long a program that runs may take to stop; one that stands says nothing.
const STOPS_WITHIN: Duration = Duration::from_millis(500);
/// How long to wait before looking again whether it listens.
const GLANCE: Duration = Duration::from_millis(5);

const HEADER: usize = 48;
const RESYNC: u32 = 3;
const CLOSE: u32 = 4;
const EVENT: u32 = 5;
const BREAK: u32 = 0x200;
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
    let Some(pipe) = find_pipe(pid) else { return Ok(false) };
    let until = Instant::now() + WITHIN;
    wait_until_it_has_hung_up(pid, &pipe, until);
    let mut to_it = open_when_it_listens(&pipe.with_extension_text("in"), until)?;
    let from_it =
        OpenOptions::new().read(true).custom_flags(libc::O_NONBLOCK).open(pipe.with_extension_text("out"))?;
    let mut voice = Voice { from_it, until };
    let resync = voice.header()?;
    if resync.kind != RESYNC {
        return Err(io::Error::other("the runtime waits for no lost debugger"));
    }
    // It need not send again what it sent to the one that is gone.
    to_it.write_all(&header(RESYNC, 0, 0, u32::MAX, 0))?;
    // Detaching undoes a stop; where there was none, the runtime could never be stopped again. It ignores a second one.
    let mut id = resync.last_seen;
    let mut send = |to_it: &mut File, kind| {
        id += 1;
        to_it.write_all(&header(EVENT, EVENT_SIZE as u32, id, 0, kind))?;
        to_it.write_all(&event(kind, pid))
    };
    send(&mut to_it, BREAK)?;
    let stopped_until = Instant::now() + STOPS_WITHIN;
    while voice.speaks(stopped_until)? && voice.event()? != Some(STOPPED) {}
    send(&mut to_it, DETACH)?;
    while voice.event()? != Some(DETACH) {}
    to_it.write_all(&header(CLOSE, 0, 0, 0, 0))?;
    drop((to_it, voice));
    // What the next debugger says before that is lost.
    wait_until_it_has_hung_up(pid, &pipe, until);
    Ok(true)
}

/// Waits until a process has closed its connection to a debugger that is gone, so that another can be attached.
pub(crate) fn await_hang_up(pid: u32) {
    let Some(pipe) = find_pipe(pid) else { return };
    // Sessions of ours that have ended close theirs with this process.
    if !has_open(std::process::id(), &pipe) {
        wait_until_it_has_hung_up(pid, &pipe, Instant::now() + WITHIN);
    }
}

/// The pipes of a process, without `-in` and `-out`.
struct Pipe(PathBuf);

impl Pipe {
    fn with_extension_text(&self, end: &str) -> PathBuf {
        let mut name = self.0.clone().into_os_string();
        name.push(format!("-{end}"));
        name.into()
    }
}

fn find_pipe(pid: u32) -> Option<Pipe> {
    let folder = temporary_folder(pid);
    let prefix = format!("clr-debug-pipe-{pid}-");
    let names = std::fs::read_dir(&folder)
        .ok()?
        .filter_map(Result::ok)
        .filter_map(|entry| entry.file_name().into_string().ok());
    let mut mine = names.filter(|name| name.starts_with(&prefix));
    let name = mine.find_map(|name| name.strip_suffix("-in").map(str::to_owned))?;
    Some(Pipe(folder.join(name)))
}

/// Whoever opens the pipes before the runtime has noticed that the other end is gone keeps it from noticing.
fn wait_until_it_has_hung_up(pid: u32, pipe: &Pipe, until: Instant) {
    while has_open(pid, pipe) && Instant::now() < until {
        std::thread::sleep(GLANCE);
    }
}

/// Whether a process has opened one of the pipes.
fn has_open(pid: u32, pipe: &Pipe) -> bool {
    let ends = [pipe.with_extension_text("in"), pipe.with_extension_text("out")];
    let files = std::fs::read_dir(format!("/proc/{pid}/fd")).into_iter().flatten().filter_map(Result::ok);
    files.filter_map(|file| std::fs::read_link(file.path()).ok()).any(|path| ends.contains(&path))
}

/// A pipe can be opened for writing once the other side reads.
fn open_when_it_listens(path: &Path, until: Instant) -> io::Result<File> {
    loop {
        match OpenOptions::new().write(true).custom_flags(libc::O_NONBLOCK).open(path) {
            Err(error) if error.raw_os_error() == Some(libc::ENXIO) && Instant::now() < until => {
                std::thread::sleep(GLANCE);
            }
            opened => return opened,
        }
    }
}

struct Header {
    kind: u32,
    size: u32,
    last_seen: u32,
}

struct Voice {
    from_it: File,
    until: Instant,
}

impl Voice {
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

    fn bytes(&mut self, size: u32) -> io::Result<Vec<u8>> {
        if size > LARGEST {
            return Err(io::Error::other("the runtime sends nonsense"));
        }
        let mut bytes = vec![0; size as usize];
        let mut read = 0;
        while read < bytes.len() {
            match self.from_it.read(&mut bytes[read..]) {
                Ok(0) if Instant::now() >= self.until => return Err(io::ErrorKind::UnexpectedEof.into()),
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
