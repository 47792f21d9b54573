//! The thread that owns a session's engine: takes one command after the other, also while the program runs.

use std::{
    any::Any,
    panic::{AssertUnwindSafe, catch_unwind},
    sync::{
        Arc,
        mpsc::{Receiver, RecvTimeoutError},
    },
};

use hindcast_core::{
    debug::{
        Breakpoint, DebugBackend, DebugEngine, DebugError, Ending, Engine, Granularity, HowBegun, Loss,
        Moment, Movement, Outcome, Question, Stop, StopReason, TimeTravel,
    },
    time::Clock,
};
use tokio::sync::{oneshot, watch};

use super::{
    bell::{Announcer, Bell},
    failures::{self, Missing},
    idle::Idle,
    meanwhile::Meanwhile,
    origin::Origin,
    secrets::Mask,
    seen_threads::{CapturedThreads, SeenThread},
    source::AllowedSources,
    standing::Standing,
    viewport::{self, Memory, State},
};
use crate::{Failure, FailureKind};

/// So many threads of a program under a debug adapter are looked at.
const MOST_THREADS_OF_ADAPTERS: usize = 64;

/// What a command needs. Those that need no standstill are served while the program runs, by stopping it for a moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Need {
    /// A program that stands still.
    Standstill,
    /// A program that has not ended.
    Anything,
    /// A session, whatever became of its program.
    Session,
}

pub(super) type Work = Box<dyn FnOnce(Result<&mut Core, Failure>) + Send>;

pub(super) enum Command {
    Ask { need: Need, work: Work },
    Move { movement: Movement, begun: oneshot::Sender<Result<u64, Failure>> },
    Search { question: Question, begun: oneshot::Sender<Result<u64, Failure>> },
    Pause { done: oneshot::Sender<Result<(), Failure>> },
    Restart { done: oneshot::Sender<Result<Restarted, Failure>> },
    End { ending: Option<Ending>, done: oneshot::Sender<Result<(), Failure>> },
}

/// A program that was started again.
#[derive(Debug)]
pub(super) struct Restarted {
    pub(super) moves: u64,
    /// What became of breakpoints that are not as they were.
    pub(super) notes: Vec<String>,
}

/// What the thread has in its hands.
pub(super) struct Core {
    pub(super) engine: Arc<dyn DebugEngine>,
    pub(super) origin: Origin,
    pub(super) standing: watch::Sender<Standing>,
    pub(super) bell: Bell,
    pub(super) announcer: Announcer,
    pub(super) clock: Arc<dyn Clock>,
    pub(super) mask: Mask,
    pub(super) sources: AllowedSources,
    backend: Option<Box<dyn DebugBackend>>,
    memory: Memory,
    pub(super) idle: Idle,
    /// What the program did before the movement or search that goes on: where that fails, it still does.
    pub(super) before: State,
}

impl Core {
    pub(super) fn new(
        engine: Arc<dyn DebugEngine>,
        origin: Origin,
        standing: watch::Sender<Standing>,
        bell: Bell,
        announcer: Announcer,
        clock: Arc<dyn Clock>,
        mask: Mask,
    ) -> Self {
        let (memory, before, sources) = (Memory::default(), State::Paused, AllowedSources::default());
        Self {
            engine,
            origin,
            standing,
            bell,
            announcer,
            clock,
            mask,
            sources,
            backend: None,
            memory,
            idle: Idle::default(),
            before,
        }
    }

    /// Shows only these sources.
    pub(super) fn showing(self, sources: AllowedSources) -> Self {
        Self { sources, ..self }
    }

    /// The engine's side of the session; an error when that has ended.
    pub(super) fn backend(&mut self) -> Result<&mut (dyn DebugBackend + 'static), Failure> {
        self.backend.as_deref_mut().ok_or_else(failures::ended)
    }

    /// The past of the session; an error that says why where there is none.
    pub(super) fn history(&mut self) -> Result<&mut dyn TimeTravel, Failure> {
        let (how, wanted) = (self.origin.how(), self.origin.is_to_be_recorded());
        let backend = self.backend()?;
        let engine = backend.target().engine;
        let past = backend.time_travel().ok_or_else(|| match engine {
            Engine::Native => failures::no_history(how, wanted, None),
            Engine::Dotnet | Engine::Adapter => failures::missing(engine, Missing::Past),
        })?;
        let recording = past.recording()?;
        if recording.start.is_none() {
            return Err(failures::no_history(how, wanted, recording.reason));
        }
        Ok(past)
    }

    /// Serves until the session ends. A panic of the engine ends the session and says so.
    pub(super) fn serve(mut self, commands: &Receiver<Command>, begun: oneshot::Sender<Result<(), Failure>>) {
        let worked = catch_unwind(AssertUnwindSafe(|| self.work(commands, begun)));
        if let Err(panic) = worked {
            let what = format!("the debug engine failed: {}", panic_text(&*panic));
            tracing::error!("{what}");
            self.standing.send_modify(|standing| {
                standing.state = State::Exited;
                standing.fault = Some(Arc::new(Loss::of_engine(what)));
            });
            self.announcer.session();
        }
        self.bell.set(None);
        // Apart from the rest: dropping what just panicked may panic again.
        let backend = self.backend.take();
        if catch_unwind(AssertUnwindSafe(|| drop(backend))).is_err() {
            tracing::error!("the debug engine failed again while it was put away");
        }
    }

    fn work(&mut self, commands: &Receiver<Command>, begun: oneshot::Sender<Result<(), Failure>>) {
        let beginning = self.begin();
        let failed = beginning.is_err();
        if begun.send(beginning).is_err() || failed {
            // Nobody wants it, or there is nothing.
            return;
        }
        let mut postponed = self.travel(Movement::Begin, commands);
        loop {
            let command = match postponed.take() {
                Some(command) => Ok(command),
                None => self.next(commands),
            };
            // Also before a question: it is to hear of the end, not of what cannot be read any more.
            self.notice_end();
            match command {
                Err(RecvTimeoutError::Timeout) => {}
                Ok(Command::Ask { need, work }) => match self.may_ask(need) {
                    Ok(()) => work(Ok(self)),
                    Err(failure) => work(Err(failure)),
                },
                Ok(Command::Move { movement, begun }) => match self.may_move(&movement) {
                    Ok(moves) => {
                        self.depart(moves, &movement);
                        let _ = begun.send(Ok(moves));
                        postponed = self.travel(movement, commands);
                    }
                    Err(failure) => drop(begun.send(Err(failure))),
                },
                Ok(Command::Search { question, begun }) => match self.begin_search(&question) {
                    Ok((number, is_new)) => {
                        let _ = begun.send(Ok(number));
                        if is_new {
                            postponed = self.search(&question, commands);
                        }
                    }
                    Err(failure) => drop(begun.send(Err(failure))),
                },
                Ok(Command::Pause { done }) => drop(done.send(Ok(()))),
                Ok(Command::Restart { done }) => match self.restart() {
                    Ok(restarted) => {
                        let _ = done.send(Ok(restarted));
                        postponed = self.travel(Movement::Begin, commands);
                    }
                    Err(failure) => drop(done.send(Err(failure))),
                },
                Ok(Command::End { ending, done }) => {
                    let ended = self.end(ending);
                    // Whoever waits for the end may rely on nothing being left.
                    self.backend = None;
                    let _ = done.send(ended);
                    return;
                }
                Err(RecvTimeoutError::Disconnected) => {
                    let _ = self.end(None);
                    return;
                }
            }
        }
    }

    /// Somebody else may kill a program that stands still.
    fn notice_end(&mut self) {
        let stands = self.standing.borrow().state == State::Paused;
        let ended = self.backend.as_deref_mut().filter(|_| stands).map(DebugBackend::ended_meanwhile);
        match ended {
            Some(Ok(Some(stop))) => self.arrive(stop, false),
            // An engine that is lost has told so already.
            Some(Err(error)) => tracing::debug!(%error, "whether the program has ended is not known"),
            Some(Ok(None)) | None => {}
        }
    }

    /// The program may have ended since the question was allowed.
    fn may_ask(&self, need: Need) -> Result<(), Failure> {
        let standing = self.standing.borrow();
        match standing.state {
            State::Exited if need != Need::Session => Err(standing.why_ended()),
            _ => Ok(()),
        }
    }

    fn begin(&mut self) -> Result<(), Failure> {
        let begun = match &self.origin {
            Origin::Launch(request) => self.engine.launch(request),
            Origin::Attach(request) => self.engine.attach(request),
            Origin::Core(request) => self.engine.open_core(request),
            Origin::Trace(request) => self.engine.open_trace(request),
        };
        // A program that could not be started may have printed why.
        let mut backend = begun.map_err(|error| self.mask.failure(error.into()))?;
        self.hear_of_loss(&mut *backend);
        self.bell.set(Some(backend.interrupt()));
        self.backend = Some(backend);
        self.publish_layers();
        self.publish_target();
        self.publish_recording();
        Ok(())
    }

    /// Tells everybody what the session is about; whether that has changed.
    fn publish_target(&mut self) -> bool {
        let Some(backend) = &self.backend else { return false };
        let mut target = backend.target().clone();
        let followed = target.followed.iter_mut().flat_map(|from| [&mut from.launched, &mut from.parent]);
        for text in target.args.iter_mut().chain(followed) {
            self.mask.string(text);
        }
        self.standing.send_if_modified(|standing| {
            let changed = standing.target.as_deref() != Some(&target);
            if changed {
                standing.target = Some(Arc::new(target));
            }
            changed
        })
    }

    /// Sees to it that a session whose engine is lost is an ended one, also when nobody asks for it.
    fn hear_of_loss(&self, backend: &mut dyn DebugBackend) {
        let (standing, announcer) = (self.standing.clone(), self.announcer.clone());
        backend.when_lost(Box::new(move |loss| {
            tracing::error!("a debug session has ended: {}", loss.why);
            standing.send_modify(|standing| {
                standing.state = State::Exited;
                standing.fault = Some(Arc::new(loss.clone()));
                // The past was the engine's, too.
                standing.recording = None;
                standing.threads = None;
            });
            announcer.session();
            announcer.timeline();
            announcer.events.list_changed_for(&announcer.principal);
        }));
    }

    /// The number of the movement that may now begin.
    fn may_move(&mut self, movement: &Movement) -> Result<u64, Failure> {
        if movement.is_travel() {
            self.history()?;
        } else if self.standing.borrow().state == State::Exited || self.backend.is_none() {
            return Err(self.standing.borrow().why_ended());
        }
        let backend = self.backend()?;
        if movement.is_by_instruction() && backend.disassembly().is_none() {
            return Err(failures::missing(backend.target().engine, Missing::Instructions));
        }
        if self.origin.how() == HowBegun::Core {
            return Err(Failure::new(FailureKind::InvalidInput, "a core file does not run").hint(
                "look at it with `debugger/autopsy`, `debugger/get_stack_trace`, `debugger/evaluate`",
            ));
        }
        Ok(self.standing.borrow().moves + 1)
    }

    fn depart(&mut self, moves: u64, movement: &Movement) {
        let brief = matches!(
            movement,
            Movement::Step { granularity: Granularity::Instruction | Granularity::Line, .. }
                | Movement::StepBack { granularity: Granularity::Instruction | Granularity::Line, .. }
        );
        self.before = self.standing.borrow().state;
        // Shown of the threads while the program runs, and after its end. A short step seldom changes which there are.
        let is_known = self.standing.borrow().threads.is_some();
        // Through an adapter, looking costs as much as the step itself.
        let is_adapters = self.backend.as_ref().is_some_and(|it| it.target().engine == Engine::Adapter);
        let is_short = brief || is_adapters && matches!(movement, Movement::Step { .. });
        let threads = if is_short && is_known { None } else { self.capture_threads().ok() };
        self.standing.send_modify(|standing| {
            standing.state = State::Running;
            standing.moves = moves;
            standing.problem = None;
            standing.search = None;
            standing.threads = threads.or(standing.threads.take());
        });
        if !brief {
            self.announcer.session();
        }
    }

    /// Looks at the threads, and keeps what it saw.
    pub(super) fn capture_threads(&mut self) -> Result<Arc<CapturedThreads>, Failure> {
        let at = self.clock.now();
        let mask = self.mask;
        let backend = self.backend()?;
        let mut threads = backend.threads()?;
        threads.iter_mut().for_each(|thread| mask.thread(thread));
        let most = match backend.target().engine {
            // Each is asked for by itself, and there may be thousands of goroutines.
            Engine::Adapter => MOST_THREADS_OF_ADAPTERS,
            Engine::Native | Engine::Dotnet => usize::MAX,
        };
        let threads = threads.into_iter().enumerate().map(|(at, thread)| match at {
            at if at < most => SeenThread::look(backend, thread),
            _ => SeenThread { thread, called_from: None },
        });
        let threads = threads.collect();
        let captured = Arc::new(CapturedThreads { threads, at });
        self.standing.send_if_modified(|standing| {
            standing.threads = Some(captured.clone());
            false
        });
        Ok(captured)
    }

    /// Moves until there is a stop, serving commands on the way. Returns the command that ended the
    /// movement and is still to be served.
    fn travel(&mut self, movement: Movement, commands: &Receiver<Command>) -> Option<Command> {
        let one_instruction = movement.is_by_instruction();
        let mut next = movement;
        loop {
            // Also before it first moves: who sent a command then has seen a program that stands still, and did not ring.
            match self.serve_meanwhile(commands) {
                Meanwhile::GoOn => {}
                Meanwhile::Pause(done) => {
                    self.halt(done);
                    return None;
                }
                Meanwhile::End(command) => return Some(command),
                Meanwhile::Gone => return None,
            }
            match self.backend.as_deref_mut()?.run(next) {
                Ok(Outcome::Stopped(stop)) => {
                    self.arrive(stop, one_instruction);
                    return None;
                }
                // Perhaps for somebody who came too late and was served long ago.
                Ok(Outcome::Interrupted) => next = Movement::Resume,
                Err(error) => {
                    self.fail(error);
                    return None;
                }
            }
        }
    }

    fn halt(&mut self, done: oneshot::Sender<Result<(), Failure>>) {
        let Some(backend) = self.backend.as_deref_mut() else {
            return drop(done.send(Err(failures::ended())));
        };
        let paused = match backend.pause() {
            Ok(stop) => {
                self.arrive(stop, false);
                Ok(())
            }
            Err(error) => {
                self.fail(error.clone());
                Err(self.mask.failure(error.into()))
            }
        };
        let _ = done.send(paused);
    }

    fn arrive(&mut self, stop: Stop, one_instruction: bool) {
        let Some(backend) = self.backend.as_deref_mut() else { return };
        // What cannot be asked is as it was.
        let breakpoints =
            backend.breakpoints().unwrap_or_else(|_| self.standing.borrow().breakpoints.to_vec());
        let ended = stop.reason == StopReason::Exit;
        let mut scene = viewport::look(
            backend,
            stop,
            one_instruction,
            &breakpoints,
            &mut self.memory,
            (self.mask, &self.sources),
        );
        self.idle = Idle::since_stop();
        self.publish_breakpoints(breakpoints);
        scene.notes.extend(self.standing.borrow().what_was_counted(false));
        let was_followed = self.standing.borrow().is_followed();
        if self.publish_target() && !was_followed {
            scene.notes.extend(self.standing.borrow().where_followed());
        }
        let was_recorded = self.standing.borrow().is_recorded();
        self.publish_recording();
        if was_recorded {
            scene.notes.extend(self.standing.borrow().why_unrecorded());
        }
        self.standing.send_modify(|standing| {
            // An engine may be lost while the stop is looked at.
            let ended = ended || standing.fault.is_some();
            standing.state = if ended { State::Exited } else { State::Paused };
            standing.scene = Some(Arc::new(scene));
        });
        self.announcer.session();
    }

    /// Begins to record from here on, or stops that.
    pub(super) fn record(&mut self, record: bool) -> Result<(), Failure> {
        let backend = self.backend()?;
        let engine = backend.target().engine;
        let past = backend.time_travel().ok_or_else(|| failures::missing(engine, Missing::Past))?;
        past.record(record)?;
        self.standing.send_if_modified(|standing| {
            standing.is_to_be_recorded |= record;
            false
        });
        let stop = self.standing.borrow().scene.as_ref().map(|scene| scene.stop.clone());
        match stop.map(|stop| Stop { detail: stop.detail.filter(|_| !record), ..stop }) {
            // It stands where it stood, but at a moment that has a name.
            Some(stop) => self.arrive(stop, false),
            None => self.publish_recording(),
        }
        Ok(())
    }

    /// A movement that could not be made leaves the program where it was.
    fn fail(&mut self, error: DebugError) {
        let over = matches!(error, DebugError::Ended | DebugError::Lost(_) | DebugError::LaunchFailed(_));
        let ended = over || self.before == State::Exited;
        let failure = self.mask.failure(error.into());
        self.standing.send_modify(|standing| {
            let ended = ended || standing.fault.is_some();
            standing.state = if ended { State::Exited } else { State::Paused };
            standing.problem = Some((standing.moves, failure));
        });
        self.announcer.session();
    }

    /// Tells everybody how the breakpoints are now.
    pub(super) fn refresh_breakpoints(&mut self) {
        if let Some(Ok(breakpoints)) = self.backend.as_deref_mut().map(DebugBackend::breakpoints) {
            self.publish_breakpoints(breakpoints);
        }
    }

    /// The moment that a program that goes on has come to, if it is recorded.
    pub(super) fn moment_reached(&mut self) -> Option<Moment> {
        let past = self.backend.as_deref_mut()?.time_travel()?;
        past.now().ok().flatten().map(|when| when.moment)
    }

    /// Tells everybody what is recorded now.
    pub(super) fn publish_recording(&mut self) {
        let Some(past) = self.backend.as_deref_mut().and_then(DebugBackend::time_travel) else { return };
        let recording = match past.recording() {
            Ok(recording) => recording,
            Err(error) => {
                tracing::debug!(%error, "what is recorded is not known");
                return;
            }
        };
        let had_history = self.standing.borrow().has_history();
        self.standing.send_if_modified(|standing| {
            standing.recording = Some(Arc::new(recording));
            false
        });
        let has_history = self.standing.borrow().has_history();
        if has_history != had_history {
            self.announcer.events.list_changed_for(&self.announcer.principal);
        }
        if has_history {
            self.announcer.timeline();
        }
    }

    fn publish_breakpoints(&self, mut breakpoints: Vec<Breakpoint>) {
        breakpoints.iter_mut().for_each(|breakpoint| self.mask.counts(breakpoint));
        let changed = self.standing.send_if_modified(|standing| {
            let changed = *standing.breakpoints != breakpoints;
            if changed {
                standing.breakpoints = Arc::new(breakpoints);
            }
            changed
        });
        if changed {
            self.announcer.breakpoints();
        }
    }

    fn restart(&mut self) -> Result<Restarted, Failure> {
        if !matches!(self.origin, Origin::Launch(_)) {
            return Err(Failure::new(FailureKind::InvalidInput, "only a launched program can be restarted")
                .hint("start it with `debugger/launch`"));
        }
        let before = self.standing.borrow().breakpoints.clone();
        let _ = self.end(Some(Ending::Terminate));
        self.backend = None;
        self.memory = Memory::default();
        let moves = self.standing.borrow().moves + 1;
        self.standing.send_modify(|standing| {
            standing.state = State::Exited;
            standing.scene = None;
            standing.threads = None;
            standing.problem = None;
            standing.search = None;
            standing.fault = None;
            standing.moves = moves;
        });
        self.begin()?;
        let mut notes = Vec::new();
        for old in before.iter() {
            match self.backend()?.add_breakpoint(old.trigger.clone()) {
                Ok(new) if new.id != old.id => notes.push(format!("breakpoint {} is now {}", old.id, new.id)),
                Ok(_) => {}
                Err(error) => {
                    let why = self.mask.text(&error.to_string()).into_owned();
                    notes.push(format!("breakpoint {} is gone: {why}", old.id));
                }
            }
        }
        self.refresh_breakpoints();
        self.standing.send_modify(|standing| standing.state = State::Running);
        self.announcer.session();
        Ok(Restarted { moves, notes })
    }

    fn end(&mut self, ending: Option<Ending>) -> Result<(), Failure> {
        let usual = match self.origin.how() {
            HowBegun::Attach => Ending::Detach,
            HowBegun::Launch | HowBegun::Core | HowBegun::Trace => Ending::Terminate,
        };
        let ended = self.backend.as_deref_mut().map(|backend| backend.end(ending.unwrap_or(usual)));
        match ended {
            None | Some(Ok(()) | Err(DebugError::Ended | DebugError::Lost(_))) => Ok(()),
            Some(Err(error)) => Err(error.into()),
        }
    }
}

fn panic_text(panic: &(dyn Any + Send)) -> &str {
    let text = panic.downcast_ref::<&str>().copied();
    text.or_else(|| panic.downcast_ref::<String>().map(String::as_str)).unwrap_or("it panicked")
}
