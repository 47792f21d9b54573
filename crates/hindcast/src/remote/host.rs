//! The worker's end: does what it is asked with a real engine, one thing after the other.

use std::{
    io::{self, BufReader, BufWriter, Read, Write},
    os::unix::net::UnixStream,
    panic::{AssertUnwindSafe, catch_unwind},
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use hindcast_core::{
    debug::{DebugBackend, DebugEngine, DebugError, Interrupt, Layer, OutputLog, Target, TraceRequest},
    progress::Progress,
};
use serde::Serialize;

use super::wire::{Beginning, Begun, Call, Facets, Frame, INTERRUPT, Moved, PIECE, Report, json, malformed};

/// A session that is not put away so long after the server has gone is not waited for.
const PUT_AWAY_WITHIN: Duration = Duration::from_secs(10);

/// Serves one session over the sockets, on this thread, until the server has heard enough or is gone.
/// `give_up` ends the process when that takes too long.
pub(crate) fn serve(
    inside: Inside<'_>,
    calls: UnixStream,
    bells: UnixStream,
    give_up: fn(),
) -> io::Result<()> {
    let source = BufReader::new(calls.try_clone()?);
    let out = Out(Arc::new(Mutex::new(calls)));
    let bell = Arc::new(Bell::default());
    let its_bell = bell.clone();
    std::thread::Builder::new().name("bells".into()).spawn(move || its_bell.listen(bells, give_up))?;
    let host = Host { inside, out: out.clone(), bell };
    // The session is put away before anybody hears of the panic.
    match catch_unwind(AssertUnwindSafe(|| host.work(source))) {
        Ok(worked) => worked,
        Err(panic) => {
            let text = panic.downcast_ref::<&str>().copied();
            let text = text.or_else(|| panic.downcast_ref::<String>().map(String::as_str));
            out.send(&Frame::Fault(text.unwrap_or("it panicked").to_owned()))
        }
    }
}

/// Where frames go, from whichever thread.
#[derive(Clone)]
struct Out(Arc<Mutex<UnixStream>>);

impl Out {
    fn send(&self, frame: &Frame) -> io::Result<()> {
        frame.write(&mut *self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }

    fn log(&self) -> Arc<OutputLog> {
        let out = self.clone();
        Arc::new(OutputLog::passed_on(move |stream, bytes| {
            for piece in bytes.chunks(PIECE) {
                // A server that is gone is noticed where it is asked from.
                let _ = out.send(&Frame::Output(stream, piece.to_owned()));
            }
        }))
    }

    /// Answers a call. What cannot be passed on is an error, too.
    fn answer<T: Serialize>(&self, number: u64, result: Result<T, DebugError>) -> io::Result<()> {
        let sent = match serde_json::to_vec(&result) {
            Ok(json) => self.send(&Frame::Answer { number, json }),
            Err(error) => Err(io::Error::new(io::ErrorKind::InvalidInput, error)),
        };
        match sent {
            Err(error) if error.kind() == io::ErrorKind::InvalidInput => {
                let failed =
                    DebugError::System(format!("the worker process cannot pass it on: {error}").into());
                let json = serde_json::to_vec(&Err::<(), _>(failed))?;
                self.send(&Frame::Answer { number, json })
            }
            sent => sent,
        }
    }
}

/// What a worker has to work with.
pub(crate) struct Inside<'a> {
    pub(crate) engine: &'a dyn DebugEngine,
    /// What keeps it in; why nothing does, where something should.
    pub(crate) layers: Result<Vec<Layer>, DebugError>,
}

struct Host<'a> {
    inside: Inside<'a>,
    out: Out,
    bell: Arc<Bell>,
}

impl Host<'_> {
    fn work(&self, mut source: BufReader<UnixStream>) -> io::Result<()> {
        let mut session: Option<Session> = None;
        while let Some((number, call)) = next_call(&mut source)? {
            match (call, &mut session) {
                (Call::Capabilities, _) => self.out.answer(number, Ok(self.inside.engine.capabilities()))?,
                (Call::Layers, _) => self.out.answer(number, self.inside.layers.clone())?,
                (Call::Begin(beginning), None) => match self.begin(beginning) {
                    Ok(mut new) => {
                        self.bell.hang(new.backend.interrupt());
                        self.out.answer(number, Ok(new.begun()))?;
                        session = Some(new);
                    }
                    Err(error) => self.out.answer(number, Err::<Begun, _>(error))?,
                },
                (call, Some(session)) => {
                    // What is let go of must not be stopped by a bell that rings late.
                    if matches!(call, Call::End { .. }) {
                        self.bell.take_down();
                    }
                    session.answer(number, call)?;
                }
                (_, None) => return Err(malformed("a call before there is a session")),
            }
        }
        Ok(())
    }

    fn begin(&self, beginning: Beginning) -> Result<Session, DebugError> {
        let layers = self.inside.layers.clone()?;
        let engine = self.inside.engine;
        let backend = match beginning {
            Beginning::Launch(mut request) => {
                request.output = self.out.log();
                engine.launch(&request)
            }
            Beginning::Attach(mut request) => {
                request.output = self.out.log();
                engine.attach(&request)
            }
            Beginning::Core(request) => engine.open_core(&request),
            Beginning::Trace(request) => engine.open_trace(&request),
        }?;
        let target = backend.target().clone();
        Ok(Session { backend, out: self.out.clone(), bell: self.bell.clone(), target, layers })
    }
}

fn next_call(source: &mut impl Read) -> io::Result<Option<(u64, Call)>> {
    match Frame::read(source)? {
        None => Ok(None),
        Some(Frame::Call { number, json: text }) => json(&text).map(|call| Some((number, call))),
        Some(_) => Err(malformed("a frame that is no call")),
    }
}

struct Session {
    backend: Box<dyn DebugBackend>,
    out: Out,
    bell: Arc<Bell>,
    /// As the server knows it.
    target: Target,
    layers: Vec<Layer>,
}

impl Session {
    fn moved<T>(&mut self, outcome: Result<T, DebugError>) -> Result<Moved<T>, DebugError> {
        let target = Some(self.backend.target()).filter(|target| **target != self.target).cloned();
        outcome.map(|outcome| {
            if let Some(target) = &target {
                self.target.clone_from(target);
            }
            Moved { outcome, target }
        })
    }

    fn export(&mut self, number: u64, request: &TraceRequest) -> Result<u64, DebugError> {
        let watch = Watch { out: self.out.clone(), bell: self.bell.clone(), number };
        let mut sink = BufWriter::with_capacity(PIECE, Sink(self.out.clone()));
        let past = self.backend.time_travel().ok_or_else(|| not_seen("its past"))?;
        let events = past.export(request, &mut sink, &watch)?;
        sink.flush().map_err(|error| DebugError::System(error.to_string().into()))?;
        Ok(events)
    }
}

macro_rules! define_dispatch {
    (
        moved { $($moved:ident: fn $move:ident($($(#[$how:meta])* $mine:ident: $mine_type:tt),*) -> $moved_answer:ty;)* }
        session { $($call:ident: fn $method:ident($($(#[$how_sent:meta])* $name:ident: $type:tt),*) -> $answer:ty;)* }
        facets { $($facet:ident: $trait:ident, $what:literal {
            $($of:ident: fn $does:ident($($given:ident: $given_type:tt),*) -> $gives:ty;)*
        })* }
    ) => {
        impl Session {
            fn begun(&mut self) -> Begun {
                let facets = Facets { $($facet: self.backend.$facet().is_some(),)* };
                Begun { target: self.target.clone(), facets, layers: self.layers.clone() }
            }

            fn answer(&mut self, number: u64, call: Call) -> io::Result<()> {
                let out = self.out.clone();
                match call {
                    $(Call::$moved { $($mine),* } => {
                        let outcome = self.backend.$move($(lent!($mine_type, $mine)),*);
                        out.answer(number, self.moved(outcome))
                    })*
                    $(Call::$call { $($name),* } => {
                        out.answer(number, self.backend.$method($(lent!($type, $name)),*))
                    })*
                    $($(Call::$of { $($given),* } => {
                        let facet = self.backend.$facet().ok_or_else(|| not_seen($what));
                        out.answer(number, facet.and_then(|facet| facet.$does($(lent!($given_type, $given)),*)))
                    })*)*
                    Call::Export(request) => {
                        let written = self.export(number, &request);
                        out.answer(number, written)
                    }
                    Call::Capabilities | Call::Layers | Call::Begin(_) => Err(malformed("a session that begins again")),
                }
            }
        }
    };
}

seam!(define_dispatch);

fn not_seen(what: &str) -> DebugError {
    DebugError::Unsupported(format!("this kind of session does not show {what}").into())
}

/// Passes on a recording that is written out.
struct Sink(Out);

impl Write for Sink {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let piece = &bytes[..bytes.len().min(PIECE)];
        self.0.send(&Frame::Written(piece.to_owned()))?;
        Ok(piece.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Passes on how far that is, and hears when nobody wants it any more.
struct Watch {
    out: Out,
    bell: Arc<Bell>,
    number: u64,
}

impl Progress for Watch {
    fn report(&self, done: u64, total: Option<u64>, message: &str) {
        let _ = self.out.send(&Frame::Progress(Report { done, total, message: message.to_owned() }));
    }

    fn cancelled(&self) -> bool {
        self.bell.given_up.load(Ordering::SeqCst) == self.number
    }
}

/// What the server rings for.
#[derive(Default)]
struct Bell {
    /// What it rings, which remembers that.
    interrupt: Mutex<Hung>,
    /// The call that is not wanted any more.
    given_up: AtomicU64,
}

impl Bell {
    fn listen(&self, mut bells: UnixStream, give_up: fn()) {
        let mut number = [0; 8];
        while bells.read_exact(&mut number).is_ok() {
            match u64::from_le_bytes(number) {
                INTERRUPT => self.ring(),
                call => self.given_up.store(call, Ordering::SeqCst),
            }
        }
        // Nobody is there any more: what moves is stopped, so that the session can be put away.
        self.ring();
        std::thread::sleep(PUT_AWAY_WITHIN);
        give_up();
    }

    /// Passed on under the lock, so that none comes after it is taken down.
    fn ring(&self) {
        let mut hung = self.hung();
        match &mut *hung {
            Hung::NotYet { rung } => *rung = true,
            Hung::Up(interrupt) => interrupt.interrupt(),
            Hung::Down => {}
        }
    }

    /// A session has begun.
    fn hang(&self, interrupt: Arc<dyn Interrupt>) {
        let mut hung = self.hung();
        if matches!(*hung, Hung::NotYet { rung: true }) {
            interrupt.interrupt();
        }
        *hung = Hung::Up(interrupt);
    }

    /// Nothing moves any more.
    fn take_down(&self) {
        *self.hung() = Hung::Down;
    }

    fn hung(&self) -> MutexGuard<'_, Hung> {
        self.interrupt.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What a bell rings.
enum Hung {
    /// Nothing before there is a session.
    NotYet {
        rung: bool,
    },
    Up(Arc<dyn Interrupt>),
    Down,
}

impl Default for Hung {
    fn default() -> Self {
        Self::NotYet { rung: false }
    }
}
