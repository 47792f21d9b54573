//! Letting the program run for an evaluation, and no longer than that.

use std::time::{Duration, Instant};

use hindcast_core::debug::DebugError;

use super::EvaluationError;
use crate::{
    cor::{Com, CorEvent, Eval, Eval2, Next, Thread},
    session::{Session, State, Stuck, failed},
};

/// How long code that is told to end may take to do so.
pub(super) const ABORT_WITHIN: Duration = Duration::from_millis(700);

/// How often to look whether the process is still there.
const GLANCE: Duration = Duration::from_millis(200);

/// What the runtime calls threads of its own that compile code anew. They have locks that other code needs.
const COMPILERS: &str = ".NET Tiered";

/// How an evaluation ended.
pub(super) enum Ended {
    Returned,
    Threw,
    TimedOut,
    /// It did not return, and cannot be ended.
    Stuck,
}

impl Session {
    /// Lets one thread run until its evaluation is done; the others stand still meanwhile.
    pub(super) fn run_evaluation(
        &mut self,
        thread: &Com<Thread>,
        eval: &Com<Eval>,
        eval2: &Com<Eval2>,
        until: Instant,
    ) -> Result<Ended, DebugError> {
        let caller = self.frames(thread, 1)?.0.first().and_then(Self::frame_identity);
        let in_exception = self.keeps_code_in_exceptions() && self.current_exception(thread).is_some();
        self.hold_all_but(std::slice::from_ref(thread))?;
        let ended = self.run_until_done(thread, eval, eval2, until);
        self.stacks.forget();
        // The others go on with the program, however this ended.
        let released = self.process().hold_threads(false).map_err(failed);
        let ended = ended?;
        released?;
        if let Ended::Stuck = ended {
            // The session goes on as if it were not there.
            let thread = thread.id().map_err(failed)?;
            self.stuck.push(Stuck { thread, caller, eval: eval.identity(), in_exception });
        }
        Ok(ended)
    }

    /// Holds all threads but these when the process goes on.
    pub(in crate::session) fn hold_all_but(&self, threads: &[Com<Thread>]) -> Result<(), DebugError> {
        self.process().hold_threads(true).map_err(failed)?;
        for thread in threads {
            thread.hold(false).map_err(failed)?;
        }
        let compilers = self.all_threads()?.into_iter();
        for compiler in compilers.filter(|thread| self.system_name(thread).starts_with(COMPILERS)) {
            let _ = compiler.hold(false);
        }
        Ok(())
    }

    fn run_until_done(
        &mut self,
        thread: &Com<Thread>,
        eval: &Com<Eval>,
        eval2: &Com<Eval2>,
        until: Instant,
    ) -> Result<Ended, DebugError> {
        let mut asked_to_end = None::<Instant>;
        let mut was_rude = false;
        loop {
            self.go_on()?;
            let now = Instant::now();
            let deadline = asked_to_end.map_or(until, |asked| asked + ABORT_WITHIN);
            let left = deadline.saturating_duration_since(now);
            match self.events.next(Some(left.min(GLANCE))) {
                Next::Event(CorEvent::EvalDone { eval: done, threw })
                    if done.identity() == eval.identity() =>
                {
                    self.state = State::Standing;
                    return Ok(match (asked_to_end, threw) {
                        (Some(_), _) => Ended::TimedOut,
                        (None, true) => Ended::Threw,
                        (None, false) => Ended::Returned,
                    });
                }
                Next::Event(event) => {
                    self.state = State::Standing;
                    self.answer_quietly(Some(thread), event)?;
                }
                Next::Woken => {}
                Next::TimedOut if self.is_gone() => return Err(DebugError::Ended),
                Next::TimedOut if left > GLANCE => {}
                Next::TimedOut if was_rude => {
                    self.hold()?;
                    return Ok(Ended::Stuck);
                }
                Next::TimedOut => {
                    self.hold()?;
                    was_rude = asked_to_end.is_some();
                    let _ = if was_rude { eval2.rude_abort() } else { eval.abort() };
                    asked_to_end = Some(Instant::now());
                }
            }
        }
    }

    /// Whether a call that an evaluation made still runs on a thread.
    pub(in crate::session) fn is_stuck(&self, thread: &Com<Thread>) -> bool {
        self.stuck.iter().any(|stuck| thread.id() == Ok(stuck.thread))
    }

    /// Why a call still runs on a thread.
    pub(super) fn why_stuck(&self, thread: &Com<Thread>) -> EvaluationError {
        let stuck = self.stuck.iter().find(|stuck| thread.id() == Ok(stuck.thread));
        match stuck.is_some_and(|stuck| stuck.in_exception) {
            true => EvaluationError::StuckInException,
            false => EvaluationError::Stuck,
        }
    }

    /// What happens while code runs for an evaluation is taken in, but does not stop it. What other threads had come to before they
    /// were held, or have come to since they began, is kept for the next movement. They wait there, so that they are found where they
    /// are said to be.
    pub(in crate::session) fn answer_quietly(
        &mut self,
        own: Option<&Com<Thread>>,
        event: CorEvent,
    ) -> Result<(), DebugError> {
        match &event {
            CorEvent::Breakpoint { thread, .. }
            | CorEvent::StepDone { thread, .. }
            | CorEvent::Exception { thread, .. }
            | CorEvent::Break { thread } => {
                if own.is_some_and(|own| thread.id() == own.id()) {
                    return Ok(());
                }
                // What nobody wants to hear of does not keep a thread that the code may wait for.
                let is_heard = match &event {
                    CorEvent::Exception { stage, .. } => self.hears_of_exception(*stage),
                    _ => true,
                };
                let held = if is_heard { thread.hold(true).map_err(failed) } else { Ok(()) };
                self.postponed.push_back(event);
                held
            }
            CorEvent::ProcessExited => {
                // It waits to be told that it may end. Whoever asks next is told how it did.
                let _ = self.process().go_on(0);
                self.is_gone_soon();
                Err(DebugError::Ended)
            }
            _ => self.answer(event).map(drop),
        }
    }
}
