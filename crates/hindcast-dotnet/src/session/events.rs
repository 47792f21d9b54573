//! Movements: letting the debuggee go on, and answering what happens.

use std::{rc::Rc, time::Duration};

use hindcast_core::debug::{
    DebugError, Granularity, Movement, Outcome, OutputStream, Place, RaisedSignal, Reason, Remedy, Stop,
    StopAtEntry, StopReason, ThreadId,
};

use nix::sys::signal::Signal;

use super::{Session, State, failed, sites::Site};
use crate::{
    cor::{Com, CorEvent, Exit, Next, Thread},
    pipe::is_stopped,
    visible::visible,
};

/// How often to look whether the process is still there.
const GLANCE: Duration = Duration::from_millis(200);

/// What the current movement is about.
#[derive(Debug, Default)]
pub(super) enum Plan {
    /// To the first stop.
    #[default]
    Begin,
    /// Until something stops it.
    Continue,
    /// By steps; the state is in [`Session::stepping`].
    Step { thread: ThreadId, granularity: Granularity, count: u32, begun: bool },
    /// To a place.
    RunTo { place: Place, sites: Vec<Rc<Site>>, begun: bool },
}

impl Session {
    pub(super) fn carry_out(&mut self, movement: Movement) -> Result<Outcome, DebugError> {
        self.alive()?;
        if !matches!(movement, Movement::Step { .. }) {
            self.threads.waited_for = None;
        }
        // A movement that the user asks for ends what a signal has stopped.
        self.was_stopped &= movement == Movement::Resume;
        match movement {
            Movement::Resume => {}
            Movement::Begin => self.plan = Plan::Begin,
            Movement::Continue => self.plan = Plan::Continue,
            Movement::Step { granularity: Granularity::Instruction, .. } => {
                return Err(DebugError::Unsupported(
                    Reason::new("a .NET session steps by lines, not by machine instructions")
                        .advise("use `granularity: over`, `line` or `out`"),
                ));
            }
            Movement::Step { thread, granularity, count } => {
                self.plan = Plan::Step { thread, granularity, count, begun: false };
            }
            Movement::RunTo(place) => {
                self.plan = Plan::RunTo { place, sites: Vec::new(), begun: false };
            }
            Movement::StepBack { .. } | Movement::ReverseContinue | Movement::Goto(_) => {
                return Err(DebugError::NoHistory(
                    Reason::new("a .NET session does not record, so it cannot go back")
                        .advise("set a breakpoint earlier on")
                        .remedy(Remedy::Restart),
                ));
            }
        }
        if self.is_gone() {
            return Ok(self.stopped_by_end());
        }
        if self.bell.take() {
            return Ok(Outcome::Interrupted);
        }
        let outcome = self.begin_plan().and_then(|early| match early {
            Some(stop) => Ok(self.stopped(stop)),
            None => self.run_until_stop(),
        });
        // A process that is killed is in the middle of anything.
        let outcome = match outcome {
            Err(DebugError::System(_) | DebugError::Ended) if self.is_gone_soon() => {
                Ok(self.stopped_by_end())
            }
            outcome => outcome,
        };
        if !matches!(outcome, Ok(Outcome::Interrupted)) {
            self.end_plan();
        }
        outcome
    }

    /// Sets up what the movement needs before the debuggee goes on. A stop where something happens before that.
    fn begin_plan(&mut self) -> Result<Option<Stop>, DebugError> {
        if let Plan::Step { begun: false, .. } | Plan::RunTo { begun: false, .. } = self.plan {
            self.wake();
            self.was_stopped = false;
        }
        match &mut self.plan {
            Plan::Step { thread, granularity, count, begun } if !*begun => {
                *begun = true;
                let (thread, granularity, count) = (*thread, *granularity, *count);
                self.begin_step(thread, granularity, count)
            }
            Plan::RunTo { place, begun, .. } if !*begun => {
                *begun = true;
                let place = place.clone();
                let held = self.sites_at(&place)?;
                if let Plan::RunTo { sites, .. } = &mut self.plan {
                    *sites = held;
                }
                Ok(None)
            }
            _ => Ok(None),
        }
    }

    fn stopped_by_end(&mut self) -> Outcome {
        let stop = self.exited();
        self.last_stop = Some(stop.clone());
        Outcome::Stopped(stop)
    }

    pub(super) fn end_plan(&mut self) {
        // There is nothing to end where nobody answers.
        if self.state == State::Ended {
            self.stepping = None;
            self.plan = Plan::Continue;
            return;
        }
        self.end_steps();
        self.plan = Plan::Continue;
    }

    fn run_until_stop(&mut self) -> Result<Outcome, DebugError> {
        let mut was_gone = false;
        loop {
            // Their threads have stood still since.
            if let Some(event) = self.postponed.pop_front() {
                match self.take_in(event)? {
                    Some(stop) => return Ok(self.stopped(stop)),
                    None => continue,
                }
            }
            self.go_on()?;
            if std::mem::take(&mut self.was_stopped) {
                self.send(Signal::SIGSTOP);
            }
            match self.events.next(Some(GLANCE)) {
                Next::Woken if self.bell.take() => {
                    if self.is_gone() {
                        return Ok(self.stopped_by_end());
                    }
                    self.hold()?;
                    self.let_threads_begin()?;
                    return Ok(Outcome::Interrupted);
                }
                // The library says so itself, if it was not waiting for an answer when the process was killed.
                Next::TimedOut if was_gone => return Ok(self.stopped_by_end()),
                Next::TimedOut => was_gone = self.is_gone(),
                Next::Woken => {}
                Next::Event(event) => {
                    if let Some(stop) = self.take_in(event)? {
                        return Ok(self.stopped(stop));
                    }
                    if self.has_told_all() {
                        return self.begun_by_attaching();
                    }
                }
            }
        }
    }

    fn stopped(&mut self, mut stop: Stop) -> Outcome {
        self.tell_of_step(&mut stop);
        self.last_stop = Some(stop.clone());
        Outcome::Stopped(stop)
    }

    /// Takes in what happened to the debuggee, which stands; a stop where the user hears of it.
    pub(super) fn take_in(&mut self, event: CorEvent) -> Result<Option<Stop>, DebugError> {
        self.state = State::Standing;
        match event {
            CorEvent::ProcessExited => self.leave(),
            // The answer may be to step on, to evaluate something, or to stand until somebody does.
            CorEvent::Breakpoint { .. }
            | CorEvent::StepDone { .. }
            | CorEvent::Break { .. }
            | CorEvent::Exception { .. } => self.let_threads_begin()?,
            _ => {}
        }
        self.answer(event)
    }

    /// Whether an attached process has told all that it has loaded: assemblies first, threads last.
    fn has_told_all(&self) -> bool {
        let is_attaching = matches!(self.plan, Plan::Begin) && self.launched.is_none();
        is_attaching
            && !self.threads.is_empty()
            && self.process().has_queued_callbacks(std::ptr::null_mut()).is_ok_and(|queued| !queued)
    }

    /// Lets the debuggee run, where it stands.
    pub(super) fn go_on(&mut self) -> Result<(), DebugError> {
        if self.state == State::Standing {
            self.stacks.forget();
            self.modules.types.forget();
            self.overflowed = None;
            self.state = State::Running;
            self.process().go_on(0).map_err(failed)?;
        }
        Ok(())
    }

    /// Makes the debuggee stand, where it runs. Events that are under way stay in the channel for the next movement.
    pub(super) fn hold(&mut self) -> Result<(), DebugError> {
        if self.state == State::Running {
            self.wake();
            self.process().stop(0).map_err(failed)?;
            self.state = State::Standing;
        }
        Ok(())
    }

    /// Has the runtime answer: it does not while a signal keeps the process stopped.
    pub(super) fn wake(&mut self) {
        if self.state != State::Ended && self.target.pid.is_some_and(is_stopped) {
            self.was_stopped = true;
            self.send(Signal::SIGCONT);
        }
    }

    /// What an event means; a stop where the user hears of it.
    pub(super) fn answer(&mut self, event: CorEvent) -> Result<Option<Stop>, DebugError> {
        match event {
            CorEvent::ModuleLoaded { module } => {
                self.module_loaded(module);
                Ok(None)
            }
            CorEvent::ModuleUnloaded { module } => {
                self.modules.remove(&module);
                Ok(None)
            }
            CorEvent::ThreadCreated { thread } => Ok(self.thread_created(&thread)),
            CorEvent::ThreadExited { thread } => {
                self.threads.forget(&thread);
                Ok(None)
            }
            CorEvent::Breakpoint { thread, breakpoint } => self.breakpoint_hit(&thread, &breakpoint),
            CorEvent::StepDone { thread, stepper, reason } => self.step_done(&thread, &stepper, reason),
            CorEvent::Break { thread } => {
                let why = self.break_reason(&thread);
                Ok(Some(self.stop_at(&thread, StopReason::Breakpoint, Some(&why))))
            }
            CorEvent::Exception { thread, stage } => self.exception_passed(&thread, stage),
            CorEvent::Logged { text } => {
                self.output.push(OutputStream::Log, text.as_bytes());
                Ok(None)
            }
            CorEvent::ProcessExited => Ok(Some(self.exited())),
            CorEvent::Failed { code } => Err(DebugError::System(
                Reason::new(format!("the .NET runtime's debugging interface failed ({code:#010x})"))
                    .advise("end the session and launch again"),
            )),
            CorEvent::BreakpointFailed { breakpoint, code } => {
                self.breakpoint_refused(&breakpoint, code);
                Ok(None)
            }
            CorEvent::EvalDone { eval, .. } => {
                self.stuck.retain(|stuck| stuck.eval != eval.identity());
                Ok(None)
            }
            CorEvent::ProcessCreated | CorEvent::Other => Ok(None),
        }
    }

    fn thread_created(&mut self, thread: &Com<Thread>) -> Option<Stop> {
        let is_first = self.threads.add(thread, self.launched.is_some());
        let stops = is_first && self.stop_at_entry == StopAtEntry::Loader && matches!(self.plan, Plan::Begin);
        stops.then(|| self.stop_at(thread, StopReason::Entry, None))
    }

    /// A stop about a thread.
    pub(super) fn stop_at(&mut self, thread: &Com<Thread>, reason: StopReason, detail: Option<&str>) -> Stop {
        let thread = self.thread_id(thread);
        Stop {
            reason,
            detail: detail.map(str::to_owned),
            thread,
            breakpoints: Vec::new(),
            signal: None,
            exception: None,
            exit_code: None,
        }
    }

    /// Where an attached process is left standing.
    fn begun_by_attaching(&mut self) -> Result<Outcome, DebugError> {
        self.plan = Plan::Continue;
        // A debugger that was killed during an evaluation has left all other threads suspended.
        let _ = self.process().hold_threads(false);
        let stop = self.paused()?;
        Ok(Outcome::Stopped(Stop { reason: StopReason::Pause, ..stop }))
    }

    pub(super) fn paused(&mut self) -> Result<Stop, DebugError> {
        self.alive()?;
        self.hold()?;
        self.let_threads_begin()?;
        self.end_plan();
        let thread = self.most_interesting_thread()?;
        let is_stuck = self.is_stuck(&thread);
        let still_runs = is_stuck.then_some("this thread still runs the call that an evaluation began");
        let stop = self.stop_at(&thread, StopReason::Pause, still_runs);
        self.last_stop = Some(stop.clone());
        Ok(stop)
    }

    /// Whether the program ended while it stood.
    pub(super) fn killed_meanwhile(&mut self) -> Option<Stop> {
        (self.state != State::Ended && self.is_gone()).then(|| self.exited())
    }

    /// The end of a program that became another one, which lives on.
    fn replaced(&mut self) -> Stop {
        self.leave();
        let program = self.target.pid.and_then(|pid| std::fs::read_link(format!("/proc/{pid}/exe")).ok());
        let program = program.map(|path| format!(" `{}`", visible(&path.to_string_lossy())));
        let detail = format!(
            "the process has become another program{}, which is not debugged",
            program.unwrap_or_default()
        );
        let thread = self.last_stop.as_ref().map_or(ThreadId(1), |stop| stop.thread);
        Stop {
            reason: StopReason::Exit,
            detail: Some(detail),
            thread,
            breakpoints: Vec::new(),
            exit_code: None,
            signal: None,
            exception: None,
        }
    }

    fn exited(&mut self) -> Stop {
        if self.is_replaced() {
            return self.replaced();
        }
        self.leave();
        if !self.is_gone() {
            // The process waits to be told that it may end.
            let _ = self.process().go_on(0);
        }
        let exit = self.exit();
        if let Some(pump) = &self.pump {
            pump.drain();
        }
        let thread = self.last_stop.as_ref().map_or(ThreadId(1), |stop| stop.thread);
        let number = match exit {
            Some(Exit::Signal(number)) => Some(number),
            _ => None,
        };
        let signal = number.map(|number| RaisedSignal {
            name: Exit::Signal(number).to_string(),
            number,
            cause: None,
            fault_address: None,
            fault: None,
            handled: false,
        });
        Stop {
            reason: StopReason::Exit,
            // That of a program that was running before is told to whoever started it.
            detail: matches!(exit, None | Some(Exit::Unknown)).then(|| "its exit code is unknown".into()),
            thread,
            breakpoints: Vec::new(),
            exit_code: match exit {
                Some(Exit::Code(code)) => Some(code),
                _ => None,
            },
            signal,
            exception: None,
        }
    }
}
