//! What a launched program prints and reads.

use std::{
    collections::VecDeque,
    fs::File,
    io::{self, Read, Write},
    os::fd::{AsFd, OwnedFd},
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    thread::JoinHandle,
};

use hindcast_core::debug::{OutputLog, OutputStream};
use nix::{
    fcntl::{FcntlArg, OFlag, fcntl},
    poll::{PollFd, PollFlags, PollTimeout, poll},
};

use crate::left::read_for_nobody;

/// Our ends of a program's standard streams.
#[derive(Debug)]
pub struct Ends {
    /// What it prints.
    pub stdout: OwnedFd,
    /// What it prints as errors.
    pub stderr: OwnedFd,
    /// What it reads.
    pub input: Input,
}

/// What a program reads, as far as that is ours to write.
#[derive(Debug, Default)]
pub struct Input {
    to: To,
    waiting: VecDeque<u8>,
    /// Whether nothing comes after that. A terminal can be read from again after its end.
    ends: bool,
    /// Whether the last line has no end yet.
    unfinished: bool,
}

#[derive(Debug, Default)]
enum To {
    Pipe(Arc<File>),
    Terminal(Arc<File>),
    /// Nobody reads what we write: it ended, the program closed it, or it comes from a file.
    #[default]
    Nobody,
}

/// Why input was not taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum InputRefused {
    /// So much waits already.
    TooMuch(usize),
    /// Nobody reads it.
    Ended,
}

/// Reads a program's output on a thread of its own, so that the program waits only while the log does,
/// and writes its input, so that nobody waits for the program.
pub struct Pump {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

struct Shared {
    output: Mutex<Output>,
    input: Mutex<Input>,
    stop: AtomicBool,
    waker: io::PipeWriter,
}

struct Output {
    /// A stream whose last writer is gone is taken out.
    streams: [Option<(OutputStream, Arc<File>)>; 2],
    log: Arc<OutputLog>,
}

/// The most input that waits for a program to read it.
const LARGEST_INPUT: usize = 16 << 20;
/// More than a terminal holds, and more than a pipe does unless it was made larger.
const LARGEST_BUFFER: usize = 1 << 20;
/// A terminal takes a line of at most 4 kB at once.
const TERMINAL_PIECE: usize = 1024;
const END_OF_INPUT: u8 = 4;

impl Input {
    /// Through a pipe: first this text.
    pub fn pipe(end: OwnedFd, text: &str, ends: bool) -> io::Result<Self> {
        set_nonblocking(&end)?;
        let to = To::Pipe(Arc::new(end.into()));
        Ok(Self { to, waiting: text.bytes().collect(), ends, unfinished: false })
    }

    /// Through a terminal.
    pub fn terminal(end: OwnedFd) -> Self {
        Self { to: To::Terminal(Arc::new(end.into())), ..Self::default() }
    }

    fn add(&mut self, text: &[u8], ends: bool) -> Result<(), InputRefused> {
        if matches!(self.to, To::Nobody) || self.ends {
            return Err(InputRefused::Ended);
        }
        if self.waiting.len() + text.len() > LARGEST_INPUT {
            return Err(InputRefused::TooMuch(self.waiting.len()));
        }
        self.waiting.extend(text);
        if let Some(last) = text.last() {
            self.unfinished = *last != b'\n';
        }
        match self.to {
            To::Terminal(_) if ends => {
                // Behind an unfinished line the first only ends that.
                self.waiting.extend(std::iter::repeat_n(END_OF_INPUT, 1 + usize::from(self.unfinished)));
                self.unfinished = false;
            }
            _ => self.ends = ends,
        }
        Ok(())
    }

    /// Writes as much as is taken at once.
    fn feed(&mut self) {
        loop {
            let (front, _) = self.waiting.as_slices();
            let written = match &self.to {
                To::Nobody => return,
                _ if front.is_empty() => break,
                To::Pipe(pipe) => (&**pipe).write(front),
                To::Terminal(terminal) => (&**terminal).write(&front[..front.len().min(TERMINAL_PIECE)]),
            };
            match written {
                Ok(count) => drop(self.waiting.drain(..count)),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return,
                // The program has closed it.
                Err(_) => {
                    self.to = To::Nobody;
                    self.waiting.clear();
                }
            }
        }
        if self.ends {
            // The program reads the end when nobody has it open any more.
            self.to = To::Nobody;
        }
    }

    /// Where to, if something waits to be written.
    fn wanted(&self) -> Option<Arc<File>> {
        match &self.to {
            To::Pipe(end) | To::Terminal(end) if !self.waiting.is_empty() => Some(end.clone()),
            _ => None,
        }
    }
}

impl Pump {
    /// Reads into `log`.
    pub fn start(ends: Ends, log: Arc<OutputLog>) -> io::Result<Self> {
        set_nonblocking(&ends.stdout)?;
        set_nonblocking(&ends.stderr)?;
        let (wake, waker) = io::pipe()?;
        let stream = |kind, end| Some((kind, Arc::new(File::from(end))));
        let streams = [stream(OutputStream::Stdout, ends.stdout), stream(OutputStream::Stderr, ends.stderr)];
        let shared = Arc::new(Shared {
            output: Mutex::new(Output { streams, log }),
            input: Mutex::new(ends.input),
            stop: AtomicBool::new(false),
            waker,
        });
        let its = shared.clone();
        let thread =
            std::thread::Builder::new().name("debuggee-output".into()).spawn(move || its.work(wake))?;
        Ok(Self { shared, thread: Some(thread) })
    }

    /// Puts all that was printed before this call into the log. Does not wait for whoever still can print.
    pub fn drain(&self) {
        locked(&self.shared.output).read();
    }

    /// Passes on input.
    pub fn write_input(&self, text: &[u8], ends: bool) -> Result<(), InputRefused> {
        locked(&self.shared.input).add(text, ends)?;
        self.shared.wake();
        Ok(())
    }

    /// Lets the program go on without us: its input ends, and what it prints is read on, for nobody.
    pub fn leave(self) -> io::Result<()> {
        let output = locked(&self.shared.output);
        let mut open = output.streams.iter().flatten().map(|(_, file)| &**file);
        let Some(first) = open.next() else { return Ok(()) };
        read_for_nobody([first, open.next().unwrap_or(first)])
    }
}

impl Drop for Pump {
    fn drop(&mut self) {
        self.shared.stop.store(true, Ordering::Release);
        self.shared.wake();
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

impl Shared {
    fn wake(&self) {
        // Full means that it is awake already; broken, that it has ended.
        let _ = (&self.waker).write(&[0]);
    }

    fn work(&self, mut wake: io::PipeReader) {
        while !self.stop.load(Ordering::Acquire) {
            locked(&self.input).feed();
            if self.wait(&wake) {
                let mut bytes = [0; 64];
                let _ = wake.read(&mut bytes);
            }
            locked(&self.output).read();
        }
    }

    /// Waits for something to do; returns whether somebody woke us.
    fn wait(&self, wake: &io::PipeReader) -> bool {
        // Held while we wait: a stream may be taken out meanwhile.
        let outputs: Vec<_> =
            locked(&self.output).streams.iter().flatten().map(|(_, file)| file.clone()).collect();
        let input = locked(&self.input).wanted();
        let mut descriptors = vec![PollFd::new(wake.as_fd(), PollFlags::POLLIN)];
        descriptors.extend(outputs.iter().map(|file| PollFd::new(file.as_fd(), PollFlags::POLLIN)));
        descriptors.extend(input.iter().map(|file| PollFd::new(file.as_fd(), PollFlags::POLLOUT)));
        // An interruption is as good as nothing to do.
        let _ = poll(&mut descriptors, PollTimeout::NONE);
        descriptors[0].any().unwrap_or(false)
    }
}

impl Output {
    /// Reads what there is. Of a stream that is written to all the time it reads at least as much as was there at first.
    fn read(&mut self) {
        let mut buffer = [0; 64 << 10];
        for stream in &mut self.streams {
            let Some((kind, file)) = stream else { continue };
            let mut left = capacity(file);
            while left > 0 {
                match (&**file).read(&mut buffer) {
                    Ok(count @ 1..) => {
                        self.log.push(*kind, &buffer[..count]);
                        left = left.saturating_sub(count);
                    }
                    Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                    Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                    // A terminal that nobody has open any more is an I/O error.
                    Ok(0) | Err(_) => {
                        *stream = None;
                        break;
                    }
                }
            }
        }
    }
}

/// How much can wait in a stream to be read.
fn capacity(file: &File) -> usize {
    let pipe = fcntl(file, FcntlArg::F_GETPIPE_SZ).ok().and_then(|size| usize::try_from(size).ok());
    pipe.unwrap_or(0).max(LARGEST_BUFFER)
}

fn set_nonblocking(end: &OwnedFd) -> io::Result<()> {
    let flags = OFlag::from_bits_retain(fcntl(end, FcntlArg::F_GETFL)?);
    fcntl(end, FcntlArg::F_SETFL(flags | OFlag::O_NONBLOCK))?;
    Ok(())
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
