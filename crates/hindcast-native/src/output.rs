//! What a launched program prints and reads.

use std::{
    collections::VecDeque,
    fs::File,
    io::{self, Read, Write},
    os::fd::{AsFd, OwnedFd},
    sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError},
    thread::JoinHandle,
    time::Duration,
};

use hindcast_core::debug::{OutputLog, OutputStream};
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};

/// Reads a program's terminals on a thread of its own, so that the program never waits for a reader,
/// and writes its input, so that nobody waits for the program.
pub(crate) struct Pump {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

struct Shared {
    state: Mutex<State>,
    /// Told when a drain is done.
    drained: Condvar,
    waker: io::PipeWriter,
}

#[derive(Default)]
struct State {
    input: VecDeque<u8>,
    input_ends: bool,
    drains_asked: u64,
    drains_done: u64,
    stop: bool,
}

/// A pseudo-terminal passes text on in its own time; that it has come to rest is only known by waiting.
const AT_REST: Duration = Duration::from_micros(500);
/// The most input that waits for a program to read it.
const LARGEST_INPUT: usize = 16 << 20;
const END_OF_INPUT: u8 = 4;

impl Pump {
    /// Reads `stdout` and `stderr` into `log`; input goes to `stdout`'s terminal.
    pub(crate) fn start(stdout: OwnedFd, stderr: OwnedFd, log: Arc<OutputLog>) -> io::Result<Self> {
        let (wake, waker) = io::pipe()?;
        let shared = Arc::new(Shared { state: Mutex::default(), drained: Condvar::new(), waker });
        let worker = Worker {
            shared: shared.clone(),
            wake,
            streams: [
                Some((OutputStream::Stdout, File::from(stdout))),
                Some((OutputStream::Stderr, File::from(stderr))),
            ],
            log,
        };
        let thread =
            std::thread::Builder::new().name("debuggee-output".into()).spawn(move || worker.work())?;
        Ok(Self { shared, thread: Some(thread) })
    }

    /// Waits until all that the program printed before it stopped is in the log.
    pub(crate) fn drain(&self) {
        let mut state = self.shared.state();
        state.drains_asked += 1;
        let wanted = state.drains_asked;
        self.shared.wake();
        let patience = Duration::from_millis(200);
        // A worker that ended has drained all there was.
        let _ = self
            .shared
            .drained
            .wait_timeout_while(state, patience, |state| state.drains_done < wanted && !state.stop);
    }

    /// Passes on input; false when too much waits already.
    pub(crate) fn write_input(&self, text: &[u8], eof: bool) -> bool {
        let mut state = self.shared.state();
        if state.input.len() + text.len() > LARGEST_INPUT {
            return false;
        }
        state.input.extend(text);
        state.input_ends |= eof;
        drop(state);
        self.shared.wake();
        true
    }
}

impl Drop for Pump {
    fn drop(&mut self) {
        self.shared.state().stop = true;
        self.shared.wake();
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

impl Shared {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn wake(&self) {
        // Full means that it is awake already; broken, that it has ended.
        let _ = (&self.waker).write(&[0]);
    }
}

struct Worker {
    shared: Arc<Shared>,
    wake: io::PipeReader,
    /// A stream whose last writer is gone is taken out.
    streams: [Option<(OutputStream, File)>; 2],
    log: Arc<OutputLog>,
}

impl Worker {
    fn work(mut self) {
        loop {
            let wanted = {
                let state = self.shared.state();
                if state.stop {
                    break;
                }
                (state.drains_asked > state.drains_done).then_some(state.drains_asked)
            };
            let anything = self.wait(wanted.is_some());
            let read = self.read_all();
            if let Some(wanted) = wanted
                && !anything
                && !read
            {
                self.shared.state().drains_done = wanted;
                self.shared.drained.notify_all();
            }
            self.feed();
        }
        self.shared.drained.notify_all();
    }

    /// Waits for something to do; returns whether a stream has something to read.
    fn wait(&mut self, draining: bool) -> bool {
        let feeding = !self.shared.state().input.is_empty();
        let mut descriptors = vec![PollFd::new(self.wake.as_fd(), PollFlags::POLLIN)];
        for (index, stream) in self.streams.iter().enumerate() {
            let Some((_, file)) = stream else { continue };
            let mut events = PollFlags::POLLIN;
            if index == 0 && feeding {
                events |= PollFlags::POLLOUT;
            }
            descriptors.push(PollFd::new(file.as_fd(), events));
        }
        let timeout = if draining { AT_REST } else { Duration::from_secs(60) };
        // Rounded up to a millisecond by the call; interrupted is as good as nothing to do.
        let timeout =
            PollTimeout::try_from(timeout.max(Duration::from_millis(1))).unwrap_or(PollTimeout::ZERO);
        if poll(&mut descriptors, timeout).is_err() {
            return true;
        }
        let readable = |descriptor: &PollFd<'_>| {
            descriptor
                .revents()
                .is_some_and(|events| events.intersects(PollFlags::POLLIN | PollFlags::POLLHUP))
        };
        let woken = readable(&descriptors[0]);
        let anything = descriptors[1..].iter().any(readable);
        if woken {
            let mut bytes = [0; 64];
            let _ = self.wake.read(&mut bytes);
        }
        anything
    }

    /// Reads until nothing is left; returns whether there was anything.
    fn read_all(&mut self) -> bool {
        let mut buffer = [0; 64 << 10];
        let mut anything = false;
        for stream in &mut self.streams {
            // Bounded, so that a flood on one does not starve the other, nor the input.
            for _ in 0..16 {
                let Some((kind, file)) = stream else { break };
                match file.read(&mut buffer) {
                    Ok(count @ 1..) => {
                        anything = true;
                        self.log.push(*kind, &buffer[..count]);
                    }
                    Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                    Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                    // A terminal that nobody has open any more is an I/O error.
                    Ok(0) | Err(_) => *stream = None,
                }
            }
        }
        anything
    }

    fn feed(&mut self) {
        let Some((_, terminal)) = &mut self.streams[0] else { return };
        let mut state = self.shared.state();
        loop {
            if state.input.is_empty() {
                if state.input_ends && terminal.write(&[END_OF_INPUT]).is_ok() {
                    state.input_ends = false;
                }
                return;
            }
            let (front, _) = state.input.as_slices();
            // A terminal takes a line of at most 4 kB at once.
            match terminal.write(&front[..front.len().min(1024)]) {
                Ok(count) => drop(state.input.drain(..count)),
                Err(_) => return,
            }
        }
    }
}
