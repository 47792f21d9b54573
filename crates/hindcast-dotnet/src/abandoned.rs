//! Letting go of a program whose debugger was killed.
//!
//! The runtime keeps such a program stopped, or stops it at its next breakpoint, and waits for its debugger to come back: over a
//! pair of named pipes, by messages with a header of 48 bytes. Whoever takes up the broken connection may go on with it, so it is
//! taken up to say what a debugger says that lets go:
//!
//! ```text
//! runtime ── resync, the last message it saw ──▶ us
//! runtime ◀── resync, we saw none ── us
//! runtime ── what the debugger that is gone did not confirm ──▶ us
//! runtime ◀── break (an event) ── us
//! runtime ── stopped, if it ran ──▶ us
//! runtime ◀── no thread is held back ── us
//! runtime ◀── continue ── break ── us
//! runtime ── stopped ──▶ us
//! runtime ◀── detach ── us
//! runtime ── detached ──▶ us
//! runtime ◀── close ── us
//! ```
//!
//! A debugger may be killed after it had a thread prepared for an evaluation and before it wrote the arguments. That thread would
//! run with whatever is in their place; so it is made to evaluate an empty string instead.
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
/// How long it runs once more before it is let go of; longer, up to `STOPS_WITHIN`, while a thread of it has work to do.
const RUNS_FOR: Duration = Duration::from_millis(100);

const HEADER: usize = 48;
const RESYNC: u32 = 3;
const CLOSE: u32 = 4;
const EVENT: u32 = 5;
const READ_MEMORY: u32 = 6;
const WRITE_MEMORY: u32 = 7;
const BREAK: u32 = 0x200;
const CONTINUE: u32 = 0x201;
const STOPPED: u32 = 0x102;
const PREPARED: u32 = 0x125;
const DETACH: u32 = 0x22f;
const HOLD_THREADS: u32 = 0x232;
const EVENT_KIND: usize = 8;
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
    release(pid, &Pipe::of(pid)?, Instant::now() + WITHIN)
}

fn release(pid: u32, pipe: &Pipe, until: Instant) -> io::Result<bool> {
    pipe.await_hang_up(until);
    let to_it = pipe.open_when_it_listens(until)?;
    let from_it = pipe.open("out", OpenOptions::new().read(true))?;
    let Some(mut connection) = Connection::resume(pid, to_it, from_it, until)? else { return Ok(false) };
    // Detaching undoes a stop; where there was none, the runtime could never be stopped again. It ignores a second one.
    connection.send_event(BREAK)?;
    connection.await_stop()?;
    if let Some(evaluation) = connection.prepared.take() {
        connection.defuse(&evaluation)?;
    }
    // A thread may be about to run code for an evaluation. Detaching frees what it needs for its first steps, so it takes them before.
    connection.hold_no_thread()?;
    connection.send_event(CONTINUE)?;
    if !connection.stops_unasked()? {
        connection.send_event(BREAK)?;
        connection.await_stop()?;
    }
    connection.send_event(DETACH)?;
    while connection.event()? != Some(DETACH) {}
    connection.close()?;
    // What the next debugger says before that is lost.
    pipe.await_hang_up(until);
    Ok(true)
}

struct Header {
    kind: u32,
    size: u32,
    answers: u32,
    last_seen: u32,
    /// Of an answer about memory: whether it was refused.
    is_refused: bool,
}

/// What the header says of one kind of message.
enum Special {
    Event(u32),
    Memory { address: u64, size: u32 },
}

/// An evaluation for which a thread was prepared, and whose arguments may not have been written.
struct Evaluation {
    thread: u64,
    /// Where the arguments belong.
    arguments: u64,
    /// The runtime's record of it: the thread's registers, the thread, what kind of evaluation it is, and more.
    record: u64,
}

/// Larger than the record of an evaluation.
const LARGEST_RECORD: usize = 0x4000;
const PIECE: u32 = 64;
/// The bytes in front of the arguments' address: how many arguments there are, how many of them are types, the length of a string.
const COUNTS: usize = 24;
const NEW_STRING: u32 = 3;
const NEW_ARRAY: u32 = 4;

/// The broken connection, taken up again.
struct Connection {
    pid: u32,
    to_it: File,
    from_it: File,
    /// The number of the last message to the runtime.
    last_sent: u32,
    prepared: Option<Evaluation>,
    until: Instant,
}

impl Connection {
    /// None where the runtime has lost no debugger.
    fn resume(pid: u32, to_it: File, from_it: File, until: Instant) -> io::Result<Option<Self>> {
        let mut this = Self { pid, to_it, from_it, last_sent: 0, prepared: None, until };
        if !this.speaks(until)? {
            return Ok(None);
        }
        let resync = this.header()?;
        if resync.kind != RESYNC {
            return Err(io::Error::other("the runtime waits for no lost debugger"));
        }
        this.last_sent = resync.last_seen;
        this.to_it.write_all(&header(RESYNC, 0, 0, 0))?;
        Ok(Some(this))
    }

    fn send(&mut self, kind: u32, special: Special, body: &[u8]) -> io::Result<()> {
        // The debuggee chooses the number.
        self.last_sent = self.last_sent.wrapping_add(1);
        let mut message = header(kind, body.len() as u32, self.last_sent, 0);
        match special {
            Special::Event(event) => message[28..32].copy_from_slice(&event.to_le_bytes()),
            Special::Memory { address, size } => {
                message[24..32].copy_from_slice(&address.to_le_bytes());
                message[32..36].copy_from_slice(&size.to_le_bytes());
            }
        }
        self.to_it.write_all(&message)?;
        self.to_it.write_all(body)
    }

    fn send_event(&mut self, kind: u32) -> io::Result<()> {
        self.send(EVENT, Special::Event(kind), &event(kind, self.pid))
    }

    /// Undoes what keeps the other threads from running during an evaluation, and its own thread before it begins.
    fn hold_no_thread(&mut self) -> io::Result<()> {
        // The thread to leave out and the state to put the others in are both zero: none, and running.
        self.send_event(HOLD_THREADS)
    }

    fn close(mut self) -> io::Result<()> {
        self.to_it.write_all(&header(CLOSE, 0, 0, 0))
    }

    /// What is in the program's memory.
    fn read_memory(&mut self, address: u64, size: u32) -> io::Result<Vec<u8>> {
        self.send(READ_MEMORY, Special::Memory { address, size }, &[])?;
        self.await_answer(READ_MEMORY)
    }

    fn write_memory(&mut self, address: u64, bytes: &[u8]) -> io::Result<()> {
        self.send(WRITE_MEMORY, Special::Memory { address, size: bytes.len() as u32 }, bytes)?;
        self.await_answer(WRITE_MEMORY).map(drop)
    }

    fn await_answer(&mut self, kind: u32) -> io::Result<Vec<u8>> {
        loop {
            let (message, body) = self.message()?;
            // What the one that is gone has asked may be answered once more.
            if message.kind != kind || message.answers != self.last_sent {
                continue;
            }
            return if message.is_refused {
                Err(io::Error::other("the runtime has no access to the memory of an evaluation"))
            } else {
                Ok(body)
            };
        }
    }

    /// Has a thread that was prepared for an evaluation make an empty string.
    fn defuse(&mut self, evaluation: &Evaluation) -> io::Result<()> {
        let Evaluation { thread, arguments, record } = *evaluation;
        // The program chooses the numbers.
        let at = |offset: usize| record.wrapping_add(offset as u64);
        // Piece by piece: behind the record nothing may be readable.
        let mut bytes = Vec::new();
        while bytes.len() < LARGEST_RECORD {
            bytes.extend(self.read_memory(at(bytes.len()), PIECE)?);
            if let Some((kind, counts)) = places_in(&bytes, thread, arguments) {
                self.write_memory(at(counts), &[0; COUNTS])?;
                return self.write_memory(at(kind), &NEW_STRING.to_le_bytes());
            }
        }
        Err(io::Error::other("an evaluation that was prepared is not found"))
    }

    fn header(&mut self) -> io::Result<Header> {
        let bytes = self.bytes(HEADER as u32)?;
        let number = |at| word(&bytes, at).unwrap_or_default();
        let is_refused = number(36) != 0;
        Ok(Header {
            kind: number(0),
            size: number(4),
            answers: number(12),
            last_seen: number(16),
            is_refused,
        })
    }

    fn message(&mut self) -> io::Result<(Header, Vec<u8>)> {
        let message = self.header()?;
        let body = self.bytes(message.size)?;
        if message.kind == EVENT && word(&body, EVENT_KIND) == Some(PREPARED) {
            self.prepared = prepared(&body);
        }
        Ok((message, body))
    }

    /// The next message: which event it is, if it is one.
    fn event(&mut self) -> io::Result<Option<u32>> {
        let (message, body) = self.message()?;
        Ok(word(&body, EVENT_KIND).filter(|_| message.kind == EVENT))
    }

    /// Waits until the runtime says that it has stopped the program, or has stopped it before.
    fn await_stop(&mut self) -> io::Result<()> {
        let until = Instant::now() + STOPS_WITHIN;
        let mut rest = Rest::of(self.pid);
        while !self.says_stopped(Instant::now() + GLANCE)? {
            // It does not say again that it stands.
            if rest.lasts_for() >= RESTS_FOR || Instant::now() >= until {
                break;
            }
        }
        Ok(())
    }

    /// Lets the program run until every thread that has something to do has done some of it. True when the runtime stops it meanwhile.
    fn stops_unasked(&mut self) -> io::Result<bool> {
        let began = Instant::now();
        let mut rest = Rest::of(self.pid);
        while began.elapsed() < STOPS_WITHIN {
            if self.says_stopped(Instant::now() + GLANCE)? {
                return Ok(true);
            }
            let rests = rest.lasts_for() > Duration::ZERO;
            if rests && began.elapsed() >= RUNS_FOR {
                break;
            }
        }
        Ok(false)
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

fn word(bytes: &[u8], at: usize) -> Option<u32> {
    bytes.get(at..at + 4)?.try_into().ok().map(u32::from_le_bytes)
}

fn long(bytes: &[u8], at: usize) -> Option<u64> {
    bytes.get(at..at + 8)?.try_into().ok().map(u64::from_le_bytes)
}

/// The evaluation that an event tells of: its thread, where its arguments belong, and its record. One without arguments is complete.
fn prepared(event: &[u8]) -> Option<Evaluation> {
    let (thread, arguments, record) = (long(event, 32)?, long(event, 48)?, long(event, 56)?);
    (arguments != 0 && record != 0).then_some(Evaluation { thread, arguments, record })
}

/// Where an evaluation's record says of what kind it is, and where it counts its arguments.
fn places_in(record: &[u8], thread: u64, arguments: u64) -> Option<(usize, usize)> {
    let places = (0..record.len()).step_by(8);
    let arguments = places.clone().rev().find(|&at| long(record, at) == Some(arguments))?;
    // The thread's registers may hold the same numbers.
    let thread =
        places.take_while(|&at| at < arguments).filter(|&at| long(record, at) == Some(thread)).last()?;
    let kind = thread + 8;
    let is_record = word(record, kind)? <= NEW_ARRAY && kind + COUNTS <= arguments;
    is_record.then(|| (kind, arguments - COUNTS))
}

fn header(kind: u32, size: u32, id: u32, last_seen: u32) -> [u8; HEADER] {
    let mut bytes = [0; HEADER];
    for (at, number) in [(0, kind), (4, size), (8, id), (16, last_seen)] {
        bytes[at..at + 4].copy_from_slice(&number.to_le_bytes());
    }
    bytes
}

/// An event; what is only for some events is left out.
fn event(kind: u32, pid: u32) -> [u8; EVENT_SIZE] {
    let mut bytes = [0; EVENT_SIZE];
    bytes[EVENT_KIND..EVENT_KIND + 4].copy_from_slice(&kind.to_le_bytes());
    bytes[12..16].copy_from_slice(&pid.to_le_bytes());
    // Whether it wants an answer, behind its process, thread and domain, and a result.
    bytes[44] = u8::from(matches!(kind, DETACH | HOLD_THREADS));
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
    fn an_evaluation_is_found_in_its_record_and_nowhere_else() {
        const THREAD: u64 = 0x7000;
        const ARGUMENTS: u64 = 0x8000;
        let record = |kind: u64| {
            // A register that holds the same number, the thread, the kind, the counts, and the arguments' address.
            let words = [5, THREAD, 5, THREAD, kind, 9, 9, 9, 9, ARGUMENTS];
            words.into_iter().flat_map(u64::to_le_bytes).collect::<Vec<_>>()
        };
        assert_eq!(places_in(&record(0), THREAD, ARGUMENTS), Some((32, 48)));
        assert_eq!(places_in(&record(0)[..72], THREAD, ARGUMENTS), None);
        assert_eq!(places_in(&record(7), THREAD, ARGUMENTS), None);
        assert_eq!(places_in(&record(0), THREAD + 1, ARGUMENTS), None);
    }

    #[test]
    fn files_in_the_place_of_pipes_are_neither_written_nor_read() {
        let hostile = Hostile::start();
        let victim = hostile.folder.path().join("victim");
        std::fs::write(&victim, "as it was").unwrap();
        let mut said = header(RESYNC, 0, 0, 0).to_vec();
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
        talking.write_all(&header(RESYNC, 0, 0, 0)).unwrap();
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
