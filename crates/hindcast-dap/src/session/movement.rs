//! Moving, and waiting for the stop.

use std::time::{Duration, Instant};

use hindcast_core::debug::{
    CodeBreakpoint, DebugError, Granularity, Movement, Outcome, Reason, Remedy, Stop, StopReason, ThreadId,
    Trigger,
};
use serde_json::{Value, json};

use super::{
    ROOT, Session, State,
    ask::{MOST_POKES, POKE_AFTER, Refusal},
    end::END_WITHIN,
};
use crate::{
    keeper::{Ended, Kept, running_below},
    profile::StartedBy,
    transport::ConnectionId,
};

/// How long a program that is asked to stop may take.
const PAUSE_WITHIN: Duration = Duration::from_secs(5);
/// How long an adapter that tells a stop twice may take until the second time.
const TOLD_AGAIN_WITHIN: Duration = Duration::from_secs(1);
const A_MOMENT: Duration = Duration::from_millis(50);
/// How long a program whose debugger says that it ended may take to do so.
const EXIT_WITHIN: Duration = Duration::from_secs(2);

/// What a movement is about.
#[derive(Debug, Clone)]
pub(super) enum Plan {
    /// To the first stop.
    Begin,
    /// Until something stops it.
    Continue,
    /// By steps of a thread.
    Step(Step),
    /// To a temporary breakpoint.
    RunTo(hindcast_core::debug::BreakpointId),
}

/// Steps that are being made.
#[derive(Debug, Clone)]
pub(super) struct Step {
    pub(super) connection: ConnectionId,
    pub(super) thread: i64,
    pub(super) command: &'static str,
    /// How many are still to be made, with this one.
    pub(super) left: u32,
    /// How deep the stack was before, and at which line, where that may be needed.
    pub(super) before: Option<(usize, u32)>,
    /// Whether it is on the way back to where it was.
    pub(super) returning: bool,
    /// How deep the stack was in the function to be left.
    pub(super) leaves: Option<usize>,
}

impl Session {
    pub(super) fn carry_out(&mut self, movement: Movement) -> Result<Outcome, DebugError> {
        self.alive()?;
        if self.bell.take() {
            // Who resumes may be interrupted as well, before what was interrupted first has begun.
            if movement != Movement::Resume {
                self.resume_with = Some(movement);
            }
            return Ok(Outcome::Interrupted);
        }
        let movement = match movement {
            // What was interrupted before it began.
            Movement::Resume => match self.resume_with.take() {
                Some(movement) => movement,
                None => return self.advance(),
            },
            other => other,
        };
        match movement {
            Movement::Begin => self.begin()?,
            Movement::Continue => {
                self.plan = Plan::Continue;
                self.go_on()?;
            }
            Movement::Step { thread, granularity, count } => self.step(thread, granularity, count)?,
            Movement::RunTo(place) => {
                let mut code = CodeBreakpoint::at(place);
                code.temporary = true;
                let set = self.added(Trigger::Code(code))?;
                self.plan = Plan::RunTo(set.id);
                self.go_on()?;
            }
            Movement::Resume => {}
            Movement::StepBack { .. } | Movement::ReverseContinue | Movement::Goto(_) => {
                return Err(DebugError::NoHistory(
                    Reason::new("a program under a debug adapter is not recorded, so one cannot go back")
                        .remedy(Remedy::Restart)
                        .advise("set a breakpoint before the place first"),
                ));
            }
        }
        self.advance()
    }

    fn begin(&mut self) -> Result<(), DebugError> {
        self.plan = Plan::Begin;
        if self.state != State::Configuring {
            return Ok(());
        }
        self.state = State::Live;
        let configured = self.configure(ROOT);
        configured.map_err(|refusal| self.not_begun(&refusal.why()))?;
        if self.profile.program_is_started_by == StartedBy::Hindcast && !self.was_attached {
            self.await_launch()?;
            // It waits until somebody lets it go.
            self.ask::<Value>(ROOT, "continue", json!({ "threadId": 1 }))?;
        }
        if self.was_attached {
            self.await_launch()?;
            if self.profile.pauses_by_itself {
                self.await_both_stops();
                return Ok(());
            }
            let until = Instant::now() + PAUSE_WITHIN;
            // The connection to the process itself may come later.
            while self.standing.is_empty() && self.ask_for_pause()? == 0 && Instant::now() < until {
                self.pump(Some(Instant::now() + A_MOMENT));
            }
        }
        Ok(())
    }

    /// Waits until the adapter has told a stop the second time: later, that would be taken for another.
    fn await_both_stops(&mut self) {
        let until = Instant::now() + TOLD_AGAIN_WITHIN;
        while self.stops.len() < 2 && self.pump(Some(until)) {}
        self.stops.truncate(1);
    }

    /// Waits for the answer to the request that begins it all.
    fn await_launch(&mut self) -> Result<(), DebugError> {
        let until = Instant::now() + PAUSE_WITHIN;
        while self.launch.is_some() {
            self.check_launch()?;
            if self.launch.is_some() && !self.pump(Some(until)) {
                return Err(self.not_begun("it does not answer"));
            }
        }
        Ok(())
    }

    /// An adapter may say only now that the program cannot be started.
    fn check_launch(&mut self) -> Result<(), DebugError> {
        let Some(launch) = self.launch else { return Ok(()) };
        let Some(response) = self.client.take_answer(ROOT, launch) else { return Ok(()) };
        self.launch = None;
        if response.success {
            return Ok(());
        }
        let error = self.not_begun(&response.failure());
        self.state = State::Ended { told: true };
        Err(error)
    }

    /// Lets all that stand go on.
    pub(super) fn go_on(&mut self) -> Result<(), DebugError> {
        self.seen.forget();
        if !self.stops.is_empty() {
            // Another process stopped meanwhile, which is to be told first. It goes on with the others later.
            return Ok(());
        }
        let standing: Vec<_> = self.standing.drain().collect();
        for (connection, thread) in standing {
            let sent = self.ask::<Value>(connection, "continue", json!({ "threadId": thread }));
            match sent {
                Ok(_) => {}
                Err(Refusal::Gone(_)) => self.alive()?,
                // It may go on already.
                Err(Refusal::Refused(why)) => tracing::debug!(%why, "it does not continue"),
                Err(refusal) => return Err(refusal.into()),
            }
        }
        Ok(())
    }

    fn step(&mut self, thread: ThreadId, granularity: Granularity, count: u32) -> Result<(), DebugError> {
        let command = match granularity {
            Granularity::Over => "next",
            Granularity::Line => "stepIn",
            Granularity::Out => "stepOut",
            Granularity::Instruction => {
                let reason = Reason::new("a debug adapter's session has no machine instructions to step by");
                return Err(DebugError::Unsupported(
                    reason.advise("give `granularity` `line`, `over` or `out`"),
                ));
            }
        };
        let (connection, dap) = self.threads.of(thread).ok_or(DebugError::NoSuchThread(thread))?;
        if !self.standing.contains_key(&connection) {
            let reason = Reason::new(format!("thread {thread} runs, so it cannot step"));
            return Err(DebugError::Unsupported(
                reason.advise("step a thread that stands, or pause it first"),
            ));
        }
        let before =
            self.breakpoints.has_tracepoints().then(|| self.depth_and_line(connection, dap)).flatten();
        let leaves =
            (granularity == Granularity::Out).then(|| self.depth_and_line(connection, dap)).flatten();
        let leaves = leaves.map(|(depth, _)| depth);
        let step =
            Step { connection, thread: dap, command, left: count.max(1), before, returning: false, leaves };
        self.plan = Plan::Step(step.clone());
        self.make_step(&step, command)
    }

    /// Asks for one step.
    pub(super) fn make_step(&mut self, step: &Step, command: &str) -> Result<(), DebugError> {
        self.seen.forget();
        self.standing.remove(&step.connection);
        let arguments = json!({ "threadId": step.thread });
        match self.ask::<Value>(step.connection, command, arguments) {
            Ok(_) => Ok(()),
            Err(Refusal::Gone(_)) => self.alive(),
            Err(Refusal::Refused(why)) => {
                self.standing.insert(step.connection, step.thread);
                Err(DebugError::System(Reason::new(format!("{} does not step: {why}", self.profile.adapter))))
            }
            Err(refusal) => Err(refusal.into()),
        }
    }

    /// Waits until something is worth telling.
    fn advance(&mut self) -> Result<Outcome, DebugError> {
        let mut pokes = if self.profile.poke.is_empty() { 0 } else { MOST_POKES };
        loop {
            self.check_launch()?;
            if let Some((connection, stopped)) = self.stops.pop_front() {
                if let Some(stop) = self.judge(connection, stopped)?
                    // What has ended meanwhile stands nowhere.
                    && matches!(self.state, State::Configuring | State::Live)
                {
                    return Ok(Outcome::Stopped(self.arrived(stop)));
                }
                continue;
            }
            match &self.state {
                State::Ended { .. } => return Ok(Outcome::Stopped(self.exit())),
                State::Lost(why) => return Err(DebugError::Lost(why.clone())),
                State::Configuring | State::Live => {}
            }
            if self.bell.take() {
                return Ok(Outcome::Interrupted);
            }
            self.await_something(&mut pokes);
        }
    }

    /// Waits for what comes in next, making the system hurry at first.
    fn await_something(&mut self, pokes: &mut u32) {
        let stepping = match &self.plan {
            Plan::Step(step) if *pokes > 0 => step.connection,
            _ => {
                self.pump(None);
                return;
            }
        };
        *pokes -= 1;
        if !self.pump(Some(Instant::now() + POKE_AFTER)) {
            self.poke(stepping);
        }
    }

    /// Remembers where everything stands.
    fn arrived(&mut self, mut stop: Stop) -> Stop {
        if let Plan::RunTo(id) = self.plan {
            // It has done its work, or never will.
            let _ = self.removed(id);
            stop.breakpoints.retain(|hit| *hit != id);
            if stop.breakpoints.is_empty() && stop.reason == StopReason::Breakpoint {
                stop.detail.get_or_insert_with(|| "it got to where it was to run to".into());
            }
        }
        self.plan = Plan::Continue;
        if let Some(pump) = &self.pump {
            pump.drain();
        }
        self.learn_pid();
        if stop.reason != StopReason::Step {
            // A look at all threads takes longer than many a step.
            self.name_others();
        }
        if !self.notes.is_empty() {
            let notes = std::mem::take(&mut self.notes).join("; ");
            stop.detail = Some(match stop.detail.take() {
                Some(detail) => format!("{detail}; {notes}"),
                None => notes,
            });
        }
        self.last_stop = Some(stop.clone());
        stop
    }

    /// Finds out which process it is, where the adapter does not tell.
    fn learn_pid(&mut self) {
        if self.target.pid.is_some() {
            return;
        }
        let Some(adapter) = &self.adapter else { return };
        self.target.pid = if self.is_program_the_adapter() {
            Some(adapter.pid())
        } else {
            let built = self.scratch.as_ref().map(|folder| folder.join("debuggee"));
            let program =
                built.filter(|built| built.exists()).or_else(|| self.spelled.program.clone().map(Into::into));
            program.and_then(|program| running_below(adapter.pid(), &program))
        };
    }

    /// The stop that tells that the program has ended.
    fn exit(&mut self) -> Stop {
        self.state = State::Ended { told: true };
        self.standing.clear();
        let until = Instant::now() + EXIT_WITHIN;
        let awaits = |session: &Self| session.process().is_some_and(|process| process.ended().is_none());
        while awaits(self) && self.pump(Some(until)) {}
        if self.exit_code.is_none() && self.process().is_none() && !self.was_attached {
            // Some tell it only then.
            self.say_goodbye(true, END_WITHIN);
        }
        let ended = self.process().and_then(Kept::ended);
        if let Some(pump) = &self.pump {
            pump.drain();
        }
        let (code, signal) = match ended {
            Some(Ended::Code(code)) => (self.exit_code.or(Some(code)), None),
            Some(Ended::Signal(number)) if self.exit_code.is_none() => (None, Some(number)),
            _ => (self.exit_code, None),
        };
        let thread = self.last_stop.as_ref().map_or(ThreadId(1), |stop| stop.thread);
        let mut notes = std::mem::take(&mut self.notes);
        notes.extend(signal.map(|number| format!("it was ended by signal {number}")));
        let detail = (!notes.is_empty()).then(|| notes.join("; "));
        let stop = Stop {
            reason: StopReason::Exit,
            detail,
            thread,
            breakpoints: Vec::new(),
            signal: None,
            exception: None,
            exit_code: code,
        };
        self.last_stop = Some(stop.clone());
        stop
    }

    /// The process whose end is the program's.
    fn process(&self) -> Option<&Kept> {
        let adapter = self.adapter.as_ref().filter(|_| self.is_program_the_adapter());
        self.program.as_ref().or(adapter)
    }

    /// Makes the program stand, unless it does.
    pub(super) fn paused(&mut self) -> Result<Stop, DebugError> {
        self.alive()?;
        if self.resume_with.take() == Some(Movement::Begin) {
            self.begin()?;
        }
        self.catch_up();
        let wanted = self.stops.is_empty();
        if wanted && matches!(self.state, State::Live) {
            let asked_of = self.ask_for_pause()?;
            if asked_of == 0
                && self.stops.is_empty()
                && !self.standing.is_empty()
                && let Some(last) = self.last_stop.clone()
            {
                // It was to go on, and still stands where it was to go on from.
                self.awaits_pause = false;
                let (reason, breakpoints) = (StopReason::Pause, Vec::new());
                return Ok(self.arrived(Stop { reason, breakpoints, detail: None, exception: None, ..last }));
            }
        }
        let until = Instant::now() + PAUSE_WITHIN;
        loop {
            if let Some((connection, mut stopped)) = self.stops.pop_front() {
                if wanted && !stopped.reason.contains("exception") && !stopped.reason.contains("breakpoint") {
                    stopped.reason = "pause".into();
                }
                if let Some(stop) = self.judge(connection, stopped)? {
                    return Ok(self.arrived(stop));
                }
                self.ask_for_pause()?;
                continue;
            }
            match &self.state {
                State::Ended { .. } => return Ok(self.exit()),
                State::Lost(why) => return Err(DebugError::Lost(why.clone())),
                State::Configuring | State::Live => {}
            }
            if !self.pump(Some(until)) {
                let reason = Reason::new(format!(
                    "the program does not stop within {} s: it may be in native code, or wait for something",
                    PAUSE_WITHIN.as_secs()
                ));
                return Err(DebugError::System(reason.advise(
                    "set a breakpoint where it will come to, or try again; the request to stop stays",
                )));
            }
        }
    }

    /// Asks some thread of each process that runs to stop; how many were asked.
    pub(super) fn ask_for_pause(&mut self) -> Result<usize, DebugError> {
        let mut asked_of = 0;
        self.awaits_pause = true;
        let running: Vec<_> =
            self.client.connections.iter().filter(|it| !it.is_over).map(|it| it.id).collect();
        for connection in running {
            if self.standing.contains_key(&connection) {
                continue;
            }
            let by_evaluating = !self.profile.pause_with.is_empty();
            if by_evaluating && !self.client.has_begun(connection) {
                // What is evaluated earlier is lost.
                continue;
            }
            let Some(thread) = self.dap_threads(connection).first().map(|thread| thread.id) else { continue };
            let asked = if by_evaluating {
                let arguments = json!({ "expression": self.profile.pause_with, "context": "repl" });
                let sent = self.client.send_and_forget(connection, "evaluate", arguments);
                sent.map_err(|error| Refusal::Refused(error.to_string()))
            } else {
                self.ask::<Value>(connection, "pause", json!({ "threadId": thread })).map(drop)
            };
            if let Err(refusal) = asked {
                self.alive()?;
                tracing::debug!(why = refusal.why(), "it does not pause");
            } else {
                asked_of += 1;
            }
        }
        Ok(asked_of)
    }

    /// Whether the program has ended while it stood, which is told once.
    pub(super) fn look_for_the_end(&mut self) -> Result<Option<Stop>, DebugError> {
        self.catch_up();
        match &self.state {
            State::Ended { told: false } => Ok(Some(self.exit())),
            State::Lost(why) => {
                let why = why.clone();
                self.state = State::Ended { told: true };
                self.notes.push(why);
                Ok(Some(self.exit()))
            }
            _ => Ok(None),
        }
    }

    /// Whether a request makes the adapter stop at the first line.
    pub(super) fn stops_by_request(&self) -> bool {
        let wanted = self.stop_at_entry != hindcast_core::debug::StopAtEntry::No && !self.was_attached;
        wanted && !self.profile.entry_request.command.is_empty() && matches!(self.plan, Plan::Begin)
    }

    /// A place to stop at before anything else, where the adapter does not do that by itself.
    pub(super) fn entry_function(&self) -> Option<String> {
        let wanted = self.stop_at_entry != hindcast_core::debug::StopAtEntry::No && !self.was_attached;
        let program = self.spelled.program.as_deref().map(|program| format!("{program}."));
        let entry = self.profile.entry.replace("{program}.", &program.unwrap_or_default());
        let named = self.spelled.test.clone().or_else(|| self.spelled.entry.clone());
        let entry = named.unwrap_or(entry);
        (wanted && !self.profile.entry.is_empty() && matches!(self.plan, Plan::Begin)).then_some(entry)
    }
}
