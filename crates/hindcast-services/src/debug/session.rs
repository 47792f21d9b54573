//! A debug session as the tools see it.

use std::{
    path::PathBuf,
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering},
        mpsc::Sender,
    },
    time::Duration,
};

use hindcast_core::{
    debug::{Ending, Engine, HowBegun, Moment, Movement, OutputLog, OutputStream, ThreadId},
    identity::KeyId,
    progress::Progress,
};
use tokio::{
    sync::{oneshot, watch},
    time::Instant,
};

use super::{
    Crash, OUTPUT_KEPT,
    backtrace::without_backtraces,
    bell::Bell,
    compare::Comparing,
    failures,
    secrets::Mask,
    source::AllowedSources,
    standing::Standing,
    viewport::{OutputView, State, Viewport},
    worker::{Command, Core, Need},
};
use crate::{Failure, FailureKind};

/// An engine that has not answered after this long will not.
pub(super) const ANSWER_WITHIN: Duration = Duration::from_secs(15);
/// How often cancelling and output are looked at while waiting.
pub(super) const LOOK_AGAIN: Duration = Duration::from_millis(25);
/// A running answer does not wait longer for what has been counted.
const A_MOMENT: Duration = Duration::from_millis(500);
/// The longest that one call waits: requests may take 60 s.
const LONGEST_WAIT: Duration = Duration::from_secs(55);
/// How much new output an answer shows; the rest is read with a tool of its own.
const OUTPUT_SHOWN: u64 = 1500;
/// How much new output is looked at for the backtrace of a panic.
const BACKTRACE_LOOKED_FOR: u64 = 64 << 10;

/// How long a call waits for the program.
#[derive(Clone)]
pub struct Patience {
    pub(super) timeout: Duration,
    pub(super) progress: Arc<dyn Progress>,
}

impl Patience {
    /// At most this long, and no longer than a request may take; ends early when the caller cancels.
    pub fn new(timeout_ms: u64, progress: Arc<dyn Progress>) -> Self {
        Self { timeout: Duration::from_millis(timeout_ms).min(LONGEST_WAIT), progress }
    }
}

/// What to wait for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Until {
    /// The program stands still or has ended.
    Stopped,
    /// It has printed something, or no longer runs.
    Output,
    /// It has ended.
    Exited,
}

/// What a program that goes on has told.
#[derive(Default)]
struct Told {
    /// Whether it has told what breakpoints have counted.
    counts: bool,
    /// Where in time it is.
    reached: Option<Moment>,
}

/// One debug session. The program, its engine and its thread end with it.
pub struct Session {
    pub(super) id: Arc<str>,
    pub(super) commands: Sender<Command>,
    pub(super) bell: Bell,
    pub(super) standing: watch::Receiver<Standing>,
    pub(super) output: Arc<OutputLog>,
    /// Up to where output was shown.
    pub(super) seen: AtomicU64,
    /// Whether the last movement goes through the past.
    pub(super) travels: AtomicBool,
    pub(super) mask: Mask,
    /// Which sources it shows.
    pub(super) sources: AllowedSources,
    /// What is waited for before it is about anything.
    pub(super) awaited: Option<String>,
    /// The key that began it; none for the local user.
    pub(super) key: Option<KeyId>,
    /// Whether its program is kept from the rest of the machine.
    pub(super) is_confined: bool,
    /// When somebody last asked for it, in milliseconds since 1970.
    pub(super) asked_for: AtomicI64,
    /// The last comparison with another session.
    pub(super) comparing: Mutex<Option<Comparing>>,
    /// The last failure that was looked at.
    pub(super) crash: Mutex<Option<Arc<Crash>>>,
    /// The kept recording that it is about.
    pub(super) recording: Option<PathBuf>,
}

impl Session {
    /// Its name.
    pub fn id(&self) -> &Arc<str> {
        &self.id
    }

    /// How it stands.
    pub fn standing(&self) -> Standing {
        self.standing.borrow().clone()
    }

    /// What debugs it.
    pub fn engine(&self) -> Engine {
        self.standing.borrow().target.as_ref().map(|target| target.engine).unwrap_or_default()
    }

    /// Takes secrets out, as its owner wants it.
    pub fn mask(&self) -> Mask {
        self.mask
    }

    /// Moves, and waits for the stop as long as there is patience. The program goes on after that.
    pub async fn travel(&self, movement: Movement, patience: &Patience) -> Result<Viewport, Failure> {
        let travels = movement.is_travel() || {
            let standing = self.standing.borrow();
            let when = standing.scene.as_ref().and_then(|scene| scene.when.as_ref());
            when.is_some_and(|when| when.in_past)
        };
        self.travels.store(travels, Ordering::Relaxed);
        let moves = self.depart(movement).await?;
        self.arrive(moves, patience, travels).await
    }

    /// Starts a movement, and does not wait for its end.
    pub async fn depart(&self, movement: Movement) -> Result<u64, Failure> {
        let ended = self.standing.borrow().state == State::Exited;
        // The past of a program is there when the program is not.
        self.check(if ended && movement.is_travel() { Need::Session } else { Need::Standstill })?;
        let (begun, answer) = oneshot::channel();
        self.send(Command::Move { movement, begun })?;
        self.answer(answer).await?
    }

    /// How long to wait for the first stop, where that is less than usual: an interpreter that waits for the system stops only
    /// when its program goes on.
    pub(super) fn patience_to_begin(&self, usual: &Patience) -> Option<Patience> {
        const BRIEFLY: Duration = Duration::from_secs(3);
        let target = self.standing.borrow().target.clone()?;
        let may_be_idle = target.engine == Engine::Adapter && target.how == HowBegun::Attach;
        let timeout = usual.timeout.min(BRIEFLY);
        may_be_idle.then(|| Patience { timeout, progress: usual.progress.clone() })
    }

    /// Waits for the end of that movement, which `travels` through the past or goes on live.
    pub(super) async fn arrive(
        &self,
        moves: u64,
        patience: &Patience,
        travels: bool,
    ) -> Result<Viewport, Failure> {
        let arrived = |standing: &Standing| standing.moves > moves || standing.state != State::Running;
        self.wait_while(patience, |standing| !arrived(standing)).await;
        let told = self.look_at_running(travels).await;
        let (problem, is_lost) = {
            let standing = self.standing.borrow();
            (standing.problem.clone(), standing.fault.is_some())
        };
        match problem {
            _ if is_lost => Err(self.why_ended()),
            Some((failed, failure)) if failed == moves => Err(failure),
            _ => Ok(self.viewport_with(told)),
        }
    }

    /// Has a program that goes on, or a travel through its past, tell whether it is still recorded, what breakpoints have counted,
    /// and where in time it is.
    async fn look_at_running(&self, travels: bool) -> Told {
        if self.standing.borrow().state != State::Running {
            return Told::default();
        }
        if travels || !self.standing.borrow().is_recorded() {
            // A search answers between its pieces only; what was known of counts before is old.
            let counts = tokio::time::timeout(A_MOMENT, self.breakpoints()).await.is_ok();
            return Told { counts, reached: None };
        }
        // An engine that does not answer is told of by who asks for something.
        let published = self.ask(Need::Anything, |core| {
            core.publish_recording();
            core.refresh_breakpoints();
            Ok(core.moment_reached())
        });
        match published.await {
            Ok(reached) => Told { counts: true, reached },
            Err(failure) => {
                tracing::debug!(%failure, "what is recorded is not known");
                Told::default()
            }
        }
    }

    /// Waits for what happens next. Whether it did is in the viewport.
    pub async fn wait(&self, until: Until, patience: &Patience) -> Viewport {
        let seen = self.seen.load(Ordering::Relaxed);
        self.wait_while(patience, |standing| match until {
            // A program that stands still will not end by itself either.
            Until::Stopped | Until::Exited => standing.state == State::Running,
            Until::Output => standing.state == State::Running && self.output.end() <= seen,
        })
        .await;
        let goes_back = self.travels.load(Ordering::Relaxed);
        let told = self.look_at_running(goes_back).await;
        self.viewport_with(told)
    }

    /// What is to be seen, with what a program that goes on has told.
    fn viewport_with(&self, told: Told) -> Viewport {
        let mut viewport = self.viewport();
        if viewport.state == State::Running {
            viewport.moment = told.reached;
            if told.counts {
                viewport.notes.extend(self.standing.borrow().what_was_counted(true));
            }
        }
        viewport
    }

    pub(super) async fn wait_while(&self, patience: &Patience, more: impl Fn(&Standing) -> bool) {
        let mut standing = self.standing.clone();
        let started = Instant::now();
        let total = Some(patience.timeout.as_secs()).filter(|seconds| *seconds > 0);
        loop {
            if !more(&standing.borrow_and_update()) {
                return;
            }
            let waited = started.elapsed();
            if waited >= patience.timeout || patience.progress.cancelled() {
                return;
            }
            if waited.as_secs() > 0 {
                let searches = standing.borrow().search.as_ref().is_some_and(|search| search.is_running());
                let what = if searches { "the past is searched" } else { "the program runs" };
                patience.progress.report(waited.as_secs(), total, what);
            }
            let pause = LOOK_AGAIN.min(patience.timeout.saturating_sub(waited));
            // An error says that the session is gone: nothing will change any more.
            if let Ok(Err(_)) = tokio::time::timeout(pause, standing.changed()).await {
                return;
            }
        }
    }

    /// Begins to record the program from where it stands, or stops that.
    pub async fn record(&self, record: bool) -> Result<Viewport, Failure> {
        self.ask(Need::Standstill, move |core| core.record(record)).await?;
        Ok(self.viewport())
    }

    /// Stops the program where it is.
    pub async fn pause(&self) -> Result<Viewport, Failure> {
        if self.standing.borrow().state == State::Exited {
            return Err(self.why_ended());
        }
        let (done, answer) = oneshot::channel();
        self.send(Command::Pause { done })?;
        self.answer(answer).await??;
        Ok(self.viewport())
    }

    /// Starts the program again, with the same arguments and breakpoints.
    pub async fn restart(&self, patience: &Patience) -> Result<Viewport, Failure> {
        let (done, answer) = oneshot::channel();
        self.send(Command::Restart { done })?;
        let restarted = self.answer(answer).await??;
        let mut viewport = self.arrive(restarted.moves, patience, false).await?;
        viewport.notes.extend(restarted.notes);
        Ok(viewport)
    }

    /// Ends it. What was launched is killed and what was attached to goes on, unless said otherwise.
    pub(super) async fn end(&self, ending: Option<Ending>) -> Result<(), Failure> {
        let (done, mut answer) = oneshot::channel();
        if self.send(Command::End { ending, done }).is_err() {
            // Its thread is gone already, and all else with it.
            return Ok(());
        }
        let mut ended = self.answer_to(&mut answer).await;
        if ended.as_ref().is_err_and(|failure| failure.kind == FailureKind::Internal) && self.bell.abandon() {
            ended = self.answer_to(&mut answer).await;
        }
        match ended {
            Ok(ended) => ended,
            Err(failure) if failure.kind == FailureKind::Internal => Err(failure),
            Err(_) => Ok(()),
        }
    }

    /// Has `work` done on the session's own thread; a running program is stopped for a moment.
    pub(super) async fn ask<T: Send + 'static>(
        &self,
        need: Need,
        work: impl FnOnce(&mut Core) -> Result<T, Failure> + Send + 'static,
    ) -> Result<T, Failure> {
        self.check(need)?;
        let (reply, answer) = oneshot::channel();
        let work = Box::new(move |core: Result<&mut Core, Failure>| drop(reply.send(core.and_then(work))));
        self.send(Command::Ask { need, work })?;
        // Errors may quote what the program holds.
        self.answer(answer).await?.map_err(|failure| self.mask.failure(failure))
    }

    /// The thread that is looked at where none is named.
    pub(super) fn thread(&self, named: Option<ThreadId>) -> Result<ThreadId, Failure> {
        let current = self.standing.borrow().scene.as_ref().map(|scene| scene.stop.thread);
        named.or(current).ok_or_else(failures::running)
    }

    /// The frame of a thread whose locals the last stop showed: that of the caller's own code where the program died in a library.
    pub(super) fn shown_frame(&self, thread: ThreadId) -> u32 {
        let standing = self.standing.borrow();
        standing.scene.as_ref().filter(|scene| scene.stop.thread == thread).map_or(0, |scene| scene.shown)
    }

    pub(super) fn check(&self, need: Need) -> Result<(), Failure> {
        // Not held over the match: whoever publishes would wait for us, and we for them.
        let (state, faulty) = {
            let standing = self.standing.borrow();
            (standing.state, standing.fault.is_some())
        };
        match state {
            State::Exited if need == Need::Session && !faulty => Ok(()),
            State::Exited => Err(self.why_ended()),
            State::Running if need == Need::Standstill => Err(self.standing.borrow().why_busy()),
            State::Running | State::Paused => Ok(()),
        }
    }

    /// Why there is nothing to look at any more.
    pub(super) fn why_ended(&self) -> Failure {
        self.standing.borrow().why_ended()
    }

    pub(super) fn send(&self, command: Command) -> Result<(), Failure> {
        self.commands.send(command).map_err(|_| self.why_ended())
    }

    pub(super) async fn answer<T>(&self, mut answer: oneshot::Receiver<T>) -> Result<T, Failure> {
        self.answer_to(&mut answer).await
    }

    async fn answer_to<T>(&self, answer: &mut oneshot::Receiver<T>) -> Result<T, Failure> {
        self.ring();
        match tokio::time::timeout(ANSWER_WITHIN, answer).await {
            Ok(Ok(answer)) => Ok(answer),
            Ok(Err(_)) => Err(self.why_ended()),
            Err(_) => Err(failures::no_answer()),
        }
    }

    /// Has a command that was just sent served, also while the program runs. A worker that does not run yet looks for
    /// commands after it has said that it does.
    pub(super) fn ring(&self) {
        if self.standing.borrow().state == State::Running || self.bell.is_busy() {
            self.bell.ring();
        }
    }

    /// How it stands now, and what was printed since the last answer.
    pub fn viewport(&self) -> Viewport {
        let mut viewport = self.glance();
        self.add_output(&mut viewport);
        viewport.next = next_calls(&viewport, self.standing().has_history());
        viewport
    }

    /// How it stands now, for somebody who looks on: what was printed stays new to whoever debugs.
    pub fn glance(&self) -> Viewport {
        let standing = self.standing();
        let shown = standing.state != State::Running && standing.fault.is_none();
        let scene = standing.scene.clone().filter(|_| shown);
        let stop = scene.as_ref().map(|scene| &scene.stop);
        let when = scene.as_ref().and_then(|scene| scene.when.as_ref());
        let mut viewport = Viewport {
            session_id: self.id.to_string(),
            engine: None,
            state: standing.state,
            reason: stop.map(|stop| stop.reason),
            detail: stop.and_then(|stop| stop.detail.clone()),
            exit_code: stop.and_then(|stop| stop.exit_code),
            signal: stop.and_then(|stop| stop.signal.as_ref()).map(|signal| signal.name.clone()),
            exception: stop.and_then(|stop| stop.exception.clone()),
            breakpoint_ids: stop.map(|stop| stop.breakpoints.clone()).unwrap_or_default(),
            moment: when.map(|when| when.moment.clone()),
            in_past: when.map(|when| when.in_past),
            snapshot: when.and_then(|when| when.snapshot),
            thread_id: stop.map(|stop| stop.thread),
            several_threads: scene.as_ref().is_some_and(|scene| scene.several_threads),
            location: scene.as_ref().and_then(|scene| scene.location.clone()),
            instruction: scene
                .as_ref()
                .and_then(|scene| scene.instruction.as_ref())
                .map(|instruction| instruction.text.clone()),
            frames: scene.as_ref().map(|scene| scene.frames.clone()).unwrap_or_default(),
            locals: scene.as_ref().map(|scene| scene.locals.clone()).unwrap_or_default(),
            source: scene.as_ref().map(|scene| scene.source.clone()).unwrap_or_default(),
            output: None,
            notes: scene.as_ref().map(|scene| scene.notes.clone()).unwrap_or_default(),
            next: Vec::new(),
        };
        if let Some(fault) = &standing.fault {
            viewport.detail = Some(fault.why.clone());
        }
        viewport.notes.extend(standing.search.as_ref().and_then(|search| search.note()));
        if standing.state == State::Running {
            viewport.notes.extend(standing.why_unrecorded());
            viewport.notes.extend(self.what_is_awaited(&standing));
        }
        // Whoever asked for the movement may not have waited for its end.
        let failed = standing.problem.as_ref().filter(|(moves, _)| *moves == standing.moves);
        viewport.notes.extend(failed.map(|(_, failure)| failure.to_string()));
        viewport
    }

    /// What is waited for, before the first stop.
    fn what_is_awaited(&self, standing: &Standing) -> Option<String> {
        let awaited = self.awaited.as_ref().filter(|_| !standing.is_followed() && standing.moves == 1)?;
        Some(format!("{awaited}; `debugger/wait` waits for it"))
    }

    fn add_output(&self, viewport: &mut Viewport) {
        let end = self.output.end();
        let since = self.seen.swap(end, Ordering::Relaxed).min(end);
        if since == end {
            return;
        }
        let has_stack = !viewport.frames.is_empty();
        let (from, mut output, dropped) =
            match has_stack.then(|| self.output_beside_stack(since, end)).flatten() {
                Some(folded) => {
                    viewport.notes.push("the backtrace it printed: `debugger/read_output`".into());
                    folded
                }
                None => {
                    // The newest tells most: why it stopped, what it waits for.
                    let from = since.max(end.saturating_sub(OUTPUT_SHOWN));
                    let chunk = self.output.read(from, usize::MAX, None);
                    (from, OutputView::of(&chunk, self.mask), chunk.dropped)
                }
            };
        let dropped = dropped + (from - since);
        output.dropped_bytes = Some(dropped).filter(|dropped| *dropped > 0);
        let forgotten = self.output.read(since, 0, None).dropped;
        if forgotten > 0 {
            viewport.notes.push(format!(
                "{forgotten} bytes of output are gone: only the last {} MB are kept",
                OUTPUT_KEPT >> 20
            ));
        }
        if dropped > forgotten {
            viewport.notes.push(format!(
                "{} earlier bytes of output: `debugger/read_output` with since {}",
                dropped - forgotten,
                since + forgotten
            ));
        }
        viewport.output = Some(output);
    }

    /// What was printed, without the backtrace of a panic, and from where on; none where it has none, or is long without it.
    fn output_beside_stack(&self, since: u64, end: u64) -> Option<(u64, OutputView, u64)> {
        let from = since.max(end.saturating_sub(BACKTRACE_LOOKED_FOR));
        let chunk = self.output.read(from, usize::MAX, None);
        let mut output = OutputView::of(&chunk, self.mask);
        let mut is_cut = false;
        for text in [&mut output.stdout, &mut output.stderr] {
            if let Some(rest) = without_backtraces(text) {
                *text = rest;
                is_cut = true;
            }
        }
        let is_short = (output.stdout.len() + output.stderr.len() + output.log.len()) as u64 <= OUTPUT_SHOWN;
        (is_cut && is_short).then_some((from, output, chunk.dropped))
    }

    /// Up to where output can be read.
    pub fn output_end(&self) -> u64 {
        self.output.end()
    }

    /// What was printed since a cursor, and where to go on; the last `limit` bytes where there is none.
    pub fn read_output(&self, since: Option<u64>, limit: usize, only: Option<OutputStream>) -> OutputPage {
        let page = self.glance_at_output(since, limit, only);
        self.seen.fetch_max(page.next, Ordering::Relaxed);
        page
    }

    /// The same for somebody who looks on: what was printed stays new to whoever debugs.
    pub fn glance_at_output(
        &self,
        since: Option<u64>,
        limit: usize,
        only: Option<OutputStream>,
    ) -> OutputPage {
        let end = self.output.end();
        let since = since.unwrap_or_else(|| end.saturating_sub(limit as u64));
        let chunk = self.output.read(since, limit, only);
        OutputPage {
            state: self.standing.borrow().state,
            output: OutputView::of(&chunk, self.mask),
            next: chunk.next,
            more: chunk.more,
        }
    }
}

impl Drop for Session {
    /// For sessions that nobody ended: their thread must not go on for ever.
    fn drop(&mut self) {
        let (done, _) = oneshot::channel();
        if self.commands.send(Command::End { ending: None, done }).is_ok() {
            self.ring();
        }
    }
}

/// A piece of what a program printed.
#[derive(Debug, Clone)]
pub struct OutputPage {
    /// Whether there can be more to come.
    pub state: State,
    /// What was printed.
    pub output: OutputView,
    /// Where to go on.
    pub next: u64,
    /// Whether there is more already.
    pub more: bool,
}

fn next_calls(viewport: &Viewport, has_history: bool) -> Vec<String> {
    use hindcast_core::debug::StopReason;
    let calls: &[&str] = match (viewport.state, viewport.reason) {
        (State::Running, _) => &["debugger/wait", "debugger/pause"],
        (State::Exited, _) if has_history => &["debugger/reverse_continue", "debugger/restart"],
        (State::Exited, _) => &["debugger/restart"],
        (State::Paused, Some(StopReason::Signal | StopReason::Exception)) if has_history => {
            &["debugger/autopsy", "debugger/last_write", "debugger/step_backward"]
        }
        (State::Paused, Some(StopReason::Signal | StopReason::Exception | StopReason::Pause)) => {
            &["debugger/autopsy"]
        }
        (State::Paused, Some(StopReason::Entry)) => &["debugger/set_breakpoint", "debugger/continue"],
        (State::Paused, Some(StopReason::HistoryStart | StopReason::ThreadStart)) => {
            &["debugger/continue", "debugger/goto"]
        }
        (State::Paused, _) => &[],
    };
    calls.iter().map(ToString::to_string).collect()
}

/// Short, because agents repeat it; unguessable it need not be: a session belongs to its principal.
pub(super) fn new_id() -> Result<Arc<str>, Failure> {
    const LETTERS: &[u8; 32] = b"abcdefghijkmnpqrstuvwxyz23456789";
    let mut bytes = [0; 6];
    getrandom::fill(&mut bytes)
        .map_err(|error| Failure::new(FailureKind::Internal, format!("no randomness: {error}")))?;
    Ok(bytes.iter().map(|byte| char::from(LETTERS[usize::from(byte % 32)])).collect::<String>().into())
}
