//! The server's end of the sockets to a worker.

use std::{
    cell::Cell,
    io::{self, BufReader, Write},
    net::Shutdown,
    os::unix::net::UnixStream,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel},
    },
    thread::JoinHandle,
    time::{Duration, Instant},
};

use hindcast_core::debug::{DebugError, Interrupt, Loss, OutputLog, TellLoss};
use serde::de::DeserializeOwned;

use super::{
    engine::Worker,
    wire::{Call, Frame, INTERRUPT, Report, json},
};

/// How often somebody who may give up is asked whether they have.
const GLANCE: Duration = Duration::from_millis(20);

/// A worker that has not ended after this long is killed.
const ENDS_WITHIN: Duration = Duration::from_secs(10);

/// So many frames wait to be looked at; then the worker waits.
const FRAMES_AHEAD: usize = 16;

/// Asks a worker one thing after the other. Dropping it ends the worker, and waits for that.
pub(super) struct Link {
    sockets: Arc<Sockets>,
    frames: Receiver<Frame>,
    last: Cell<u64>,
    fate: Arc<Fate>,
    worker: Arc<Worker>,
    reader: Option<JoinHandle<()>>,
}

/// What is written and told while a call goes on.
pub(super) enum Meanwhile {
    Written(Vec<u8>),
    Progress(Report),
    /// Nothing, for a while.
    Nothing,
}

impl Link {
    /// Over the sockets to `worker`; what its program prints goes to `output`.
    pub(super) fn new(
        calls: UnixStream,
        bells: UnixStream,
        worker: Worker,
        output: Arc<OutputLog>,
    ) -> io::Result<Self> {
        // Whoever interrupts does not wait: a bell that is full has been rung often enough.
        bells.set_nonblocking(true)?;
        let (sender, frames) = sync_channel(FRAMES_AHEAD);
        let (fate, worker) = (Arc::new(Fate::default()), Arc::new(worker));
        let source = BufReader::new(calls.try_clone()?);
        let sockets = Arc::new(Sockets { calls: Mutex::new(Some(calls)), bells: Mutex::new(Some(bells)) });
        let (its_fate, its_worker, its_sockets) = (fate.clone(), worker.clone(), sockets.clone());
        let listener = Listener { output, sender, fate: its_fate, worker: its_worker, sockets: its_sockets };
        let reader =
            std::thread::Builder::new().name("debug worker".into()).spawn(move || listener.listen(source))?;
        Ok(Self { sockets, frames, last: Cell::new(0), fate, worker, reader: Some(reader) })
    }

    /// Asks, and waits for the answer.
    pub(super) fn ask<T: DeserializeOwned>(&self, call: &Call) -> Result<T, DebugError> {
        let number = self.send(call)?;
        match self.frames.recv() {
            Ok(Frame::Answer { number: answered, json }) if answered == number => self.understand(&json),
            Ok(_) => Err(self.give_up("it answers what was not asked")),
            Err(_) => Err(self.lost()),
        }
    }

    /// Asks for something long. The worker is told to give up when `meanwhile` says false.
    pub(super) fn ask_for_long<T: DeserializeOwned>(
        &self,
        call: &Call,
        mut meanwhile: impl FnMut(Meanwhile) -> bool,
    ) -> Result<T, DebugError> {
        let number = self.send(call)?;
        loop {
            let goes_on = match self.frames.recv_timeout(GLANCE) {
                Ok(Frame::Answer { number: answered, json }) if answered == number => {
                    return self.understand(&json);
                }
                Ok(Frame::Written(bytes)) => meanwhile(Meanwhile::Written(bytes)),
                Ok(Frame::Progress(report)) => meanwhile(Meanwhile::Progress(report)),
                Ok(_) => return Err(self.give_up("it answers what was not asked")),
                Err(RecvTimeoutError::Timeout) => meanwhile(Meanwhile::Nothing),
                Err(RecvTimeoutError::Disconnected) => return Err(self.lost()),
            };
            if !goes_on {
                self.sockets.ring(number);
            }
        }
    }

    /// A handle that interrupts whatever moves.
    pub(super) fn interrupt(&self) -> Arc<dyn Interrupt> {
        Arc::new(RemoteInterrupt { sockets: self.sockets.clone(), worker: self.worker.clone() })
    }

    /// Has `tell` called when the worker is lost.
    pub(super) fn when_lost(&self, tell: TellLoss) {
        self.fate.when_lost(tell);
    }

    fn send(&self, call: &Call) -> Result<u64, DebugError> {
        let number = self.last.get() + 1;
        self.last.set(number);
        let json = serde_json::to_vec(call)
            .map_err(|error| DebugError::System(format!("cannot tell the worker process: {error}").into()))?;
        match self.sockets.send(&Frame::Call { number, json }) {
            Ok(()) => Ok(number),
            Err(error) if error.kind() == io::ErrorKind::InvalidInput => {
                Err(DebugError::Unsupported(error.to_string().into()))
            }
            // It is gone. Why is known once it is buried.
            Err(_) => {
                self.worker.kill();
                while self.frames.recv().is_ok() {}
                Err(self.lost())
            }
        }
    }

    fn understand<T: DeserializeOwned>(&self, answer: &[u8]) -> Result<T, DebugError> {
        match json::<Result<T, DebugError>>(answer) {
            Ok(result) => result,
            Err(error) => Err(self.give_up(&format!("its answer cannot be read: {error}"))),
        }
    }

    /// Ends a worker that does not keep to the rules.
    fn give_up(&self, why: &str) -> DebugError {
        self.fate.seal(Loss::of_engine(format!("its worker process was ended: {why}")));
        self.worker.kill();
        self.sockets.hang_up(Shutdown::Both);
        self.lost()
    }

    fn lost(&self) -> DebugError {
        DebugError::Lost(self.fate.why())
    }
}

impl Drop for Link {
    fn drop(&mut self) {
        self.fate.expect();
        // The worker ends when there are no more calls.
        self.sockets.hang_up(Shutdown::Write);
        let until = Instant::now() + ENDS_WITHIN;
        loop {
            match self.frames.recv_timeout(until.saturating_duration_since(Instant::now())) {
                Ok(_) => {}
                Err(RecvTimeoutError::Disconnected) => break,
                Err(RecvTimeoutError::Timeout) => {
                    tracing::warn!("a debug worker did not end in time and is killed");
                    self.worker.kill();
                    while self.frames.recv().is_ok() {}
                    break;
                }
            }
        }
        if let Some(reader) = self.reader.take() {
            let _ = reader.join();
        }
    }
}

struct RemoteInterrupt {
    sockets: Arc<Sockets>,
    worker: Arc<Worker>,
}

impl Interrupt for RemoteInterrupt {
    fn interrupt(&self) {
        self.sockets.ring(INTERRUPT);
    }

    fn abandon(&self) -> bool {
        self.worker.kill();
        true
    }
}

/// The sockets to a worker; none when that has ended.
struct Sockets {
    calls: Mutex<Option<UnixStream>>,
    bells: Mutex<Option<UnixStream>>,
}

impl Sockets {
    fn send(&self, frame: &Frame) -> io::Result<()> {
        match locked(&self.calls).as_mut() {
            Some(calls) => frame.write(calls),
            None => Err(io::ErrorKind::NotConnected.into()),
        }
    }

    fn ring(&self, number: u64) {
        if let Some(bells) = locked(&self.bells).as_mut() {
            // Full means that it has not been heard yet; broken, that there is nothing to stop any more.
            let _ = bells.write(&number.to_le_bytes());
        }
    }

    fn hang_up(&self, how: Shutdown) {
        if let Some(calls) = &*locked(&self.calls) {
            // The other side may have been first.
            let _ = calls.shutdown(how);
        }
    }

    fn close(&self) {
        locked(&self.calls).take();
        locked(&self.bells).take();
    }
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Reads what comes from a worker, until that ends.
struct Listener {
    output: Arc<OutputLog>,
    sender: SyncSender<Frame>,
    fate: Arc<Fate>,
    worker: Arc<Worker>,
    sockets: Arc<Sockets>,
}

impl Listener {
    fn listen(self, mut source: BufReader<UnixStream>) {
        let fault = self.relay(&mut source);
        drop(source);
        // Nobody listens to it any more, whatever it is doing.
        let end = self.worker.bury();
        self.sockets.close();
        self.fate.seal(fault.map_or(end, Loss::of_engine));
        // The sender goes last: who then finds the channel closed finds the reason, too.
    }

    /// Returns why the worker is not to go on, where that is known before its end.
    fn relay(&self, source: &mut BufReader<UnixStream>) -> Option<String> {
        loop {
            match Frame::read(source) {
                Ok(Some(Frame::Output(stream, bytes))) => self.output.push(stream, &bytes),
                Ok(Some(Frame::Fault(text))) => return Some(format!("the debug engine failed: {text}")),
                Ok(Some(Frame::Call { .. })) => {
                    return Some("its worker process was ended: it asks instead of answering".into());
                }
                Ok(Some(frame)) => self.sender.send(frame).ok()?,
                Err(error) if error.kind() == io::ErrorKind::InvalidData => {
                    return Some(format!("its worker process was ended: it sends nonsense: {error}"));
                }
                Ok(None) | Err(_) => return None,
            }
        }
    }
}

/// Whether a worker is lost, and who wants to know.
#[derive(Default)]
struct Fate(Mutex<State>);

#[derive(Default)]
struct State {
    loss: Option<Loss>,
    tell: Option<TellLoss>,
    is_expected: bool,
}

impl Fate {
    fn state(&self) -> MutexGuard<'_, State> {
        locked(&self.0)
    }

    /// The worker is lost. The first reason is the one that counts.
    fn seal(&self, loss: Loss) {
        let mut state = self.state();
        if state.loss.is_some() {
            return;
        }
        state.loss = Some(loss.clone());
        let tell = state.tell.take().filter(|_| !state.is_expected);
        drop(state);
        if let Some(tell) = tell {
            tell(&loss);
        }
    }

    /// The worker is about to be ended.
    fn expect(&self) {
        let mut state = self.state();
        state.is_expected = true;
        state.tell = None;
    }

    fn when_lost(&self, tell: TellLoss) {
        let mut state = self.state();
        match state.loss.clone() {
            Some(loss) => {
                drop(state);
                tell(&loss);
            }
            None => state.tell = Some(tell),
        }
    }

    fn why(&self) -> String {
        let loss = &self.state().loss;
        loss.as_ref().map_or_else(|| "its worker process does not answer".into(), |loss| loss.why.clone())
    }
}
