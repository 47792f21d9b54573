//! Moving: from a command to the stop that ends it.

use hindcast_core::debug::{DebugError, Movement, Outcome, Place, Reason, Stop, StopReason, ThreadId};
use hindcast_symbols::names::cut;

use super::{
    Session,
    hits::Hit,
    late::Start,
    python::{LineSteps, RunToLines},
    signals,
    step::StepPlan,
    system,
};
use crate::{
    process::{Ended, Halt},
    sys::{self, Tid},
};

/// A movement under way. It survives an interruption.
#[derive(Debug)]
pub(super) enum Plan {
    /// Until something stops it.
    Run,
    /// Until some thread gets to one of these addresses, where breakpoint instructions are.
    RunTo { addresses: Vec<u64>, reason: StopReason },
    /// Until the wanted program is executed.
    AwaitProgram,
    /// Until some thread gets to one of these addresses. The recording begins there, or, where it is not there, at a place
    /// that can be found then.
    RecordFrom { addresses: Vec<u64>, start: Start, is_there: bool },
    /// By steps.
    Step(StepPlan),
    /// By lines of Python.
    StepLines(LineSteps),
    /// Until something stops it, lines of Python among that.
    RunToLines(RunToLines),
    /// In time. It begins anew when it was interrupted, with what it has found out.
    Travel(Movement),
    /// One that was not begun yet.
    Fresh(Box<Plan>),
}

/// What a halt means for the movement.
#[derive(Debug)]
pub(super) enum Verdict {
    /// It is over.
    Stop(Box<Stop>),
    /// Nobody needs to hear of it.
    GoOn,
    /// Somebody wants to look, or to stop it.
    Interrupted,
    /// A thread stands before a breakpoint instruction that is none of the user's.
    Reached(Tid, u64),
    /// A thread made its step.
    Stepped(Tid),
}

impl Session {
    pub(super) fn moved(&mut self, movement: Movement) -> Result<Outcome, DebugError> {
        let travels =
            matches!(movement, Movement::StepBack { .. } | Movement::ReverseContinue | Movement::Goto(_))
                || matches!((&movement, &self.plan), (Movement::Resume, Some(Plan::Travel(_))));
        let is_awaited = self.search.is_some();
        if self.process.ended().is_some() && !matches!(movement, Movement::Begin) && !travels && !is_awaited {
            return Err(DebugError::Ended);
        }
        if matches!(movement, Movement::RunTo(_) | Movement::Step { .. })
            && let Some(error) = self.not_before_found()
        {
            return Err(error);
        }
        let plan = match movement {
            Movement::Begin => match self.begin()? {
                Begun::Stands(stop) => return Ok(Outcome::Stopped(self.stopped_with(stop))),
                Begun::Goes(plan) => plan,
            },
            Movement::Continue if is_awaited => Plan::AwaitProgram,
            Movement::Continue => Plan::Fresh(Box::new(Plan::Run)),
            Movement::RunTo(place) => {
                let addresses = self.run_to_addresses(&place)?;
                Plan::Fresh(Box::new(Plan::RunTo { addresses, reason: StopReason::Step }))
            }
            Movement::Step { thread, granularity, count } => {
                let tid = self.known_thread(thread)?;
                let plan = match self.steps_in_python(thread, granularity)? {
                    true => Plan::StepLines(LineSteps::new(tid, granularity, count.max(1))),
                    false => Plan::Step(StepPlan::new(tid, granularity, count.max(1))),
                };
                Plan::Fresh(Box::new(plan))
            }
            Movement::StepBack { .. } | Movement::ReverseContinue | Movement::Goto(_) => {
                Plan::Travel(movement)
            }
            Movement::Resume => self.plan.take().unwrap_or(Plan::Run),
        };
        self.abandon();
        if !self.process.listen(matches!(plan, Plan::Travel(_))) {
            self.plan = Some(plan);
            return Ok(Outcome::Interrupted);
        }
        let outcome = self.drive(plan);
        self.process.stop_listening(matches!(outcome, Ok(Outcome::Interrupted)));
        outcome
    }

    /// The user has seen where everything stands: breakpoints there are not hit again. False when that was interrupted.
    fn set_out(&mut self, plan: &Plan) -> Result<bool, DebugError> {
        if !self.count_hits_up_to_here()? {
            return Ok(false);
        }
        match plan {
            Plan::Step(step) => self.current = step.thread(),
            Plan::StepLines(steps) => {
                self.current = steps.thread();
                self.hidden = 0;
            }
            _ => self.hidden = 0,
        }
        self.count_unjudged()?;
        self.process.forget_steps();
        self.process.pass_breakpoint(self.current);
        Ok(true)
    }

    fn drive(&mut self, plan: Plan) -> Result<Outcome, DebugError> {
        let mut plan = match plan {
            Plan::Travel(movement) => return self.travelled(movement),
            Plan::Fresh(plan) => match self.set_out(&plan) {
                Ok(true) => *plan,
                Ok(false) => {
                    self.plan = Some(Plan::Fresh(plan));
                    return Ok(Outcome::Interrupted);
                }
                Err(error) => {
                    self.clean_up(&plan);
                    return Err(error);
                }
            },
            plan => plan,
        };
        if matches!(plan, Plan::Run) && self.has_lines() {
            plan = Plan::RunToLines(RunToLines::default());
        }
        // In the past one can come back to where one was.
        let origin = self.process.known_position().filter(|_| self.process.is_in_past());
        let result = self.follow(&mut plan);
        // What is left to do must not end half-way.
        self.process.stop_listening(matches!(result, Ok(None)));
        match result {
            Ok(None) => {
                self.find_end();
                self.plan = Some(plan);
                self.settle();
                Ok(Outcome::Interrupted)
            }
            Ok(Some(stop)) => {
                self.clean_up(&plan);
                // A program that is gone tells so by itself.
                let _ = self.process.unmap_sieves();
                let stop = self.stopped_with(stop);
                self.keep_tally();
                Ok(Outcome::Stopped(stop))
            }
            Err(error) => {
                self.clean_up(&plan);
                // A movement that fails leaves the session where it was.
                if let Some(origin) = origin
                    && self.process.known_position().as_ref() != Some(&origin)
                {
                    let _ = self.land(&origin);
                }
                Err(error)
            }
        }
    }

    /// Moves until the plan is done; `None` when it was interrupted.
    fn follow(&mut self, plan: &mut Plan) -> Result<Option<Stop>, DebugError> {
        /// So many breakpoints are looked at one by one: mostly one stops soon. In the past more is to be prepared for others.
        const FEW: u32 = 8;
        const FEW_IN_PAST: u32 = 40;
        let mut halts = 0;
        loop {
            halts += 1;
            let halt = match plan {
                Plan::AwaitProgram => {
                    if !self.await_program()? {
                        return Ok(None);
                    }
                    match self.begin()? {
                        Begun::Stands(stop) => return Ok(Some(stop)),
                        Begun::Goes(next) => *plan = next,
                    }
                    continue;
                }
                Plan::Run
                | Plan::RunTo { .. }
                | Plan::RecordFrom { .. }
                | Plan::Travel(_)
                | Plan::Fresh(_) => {
                    let few = if self.process.is_in_past() { FEW_IN_PAST } else { FEW };
                    let sifted = if halts > few { self.run_sifting().map_err(system)? } else { None };
                    sifted.map_or_else(|| self.run_watching(), Ok).map_err(system)?
                }
                Plan::Step(step) => match self.next_of_step(step)? {
                    Some(halt) => halt,
                    None => {
                        let thread = step.thread();
                        return Ok(Some(self.stop_at(thread, StopReason::Step)));
                    }
                },
                Plan::RunToLines(run) => self.next_of_run_to_lines(run)?,
                Plan::StepLines(steps) => match self.next_of_line_steps(steps)? {
                    Some(halt) => halt,
                    None => {
                        let thread = steps.thread();
                        return Ok(Some(self.stop_at(thread, StopReason::Step)));
                    }
                },
            };
            let has_begun = matches!(halt, Halt::Exec(_));
            match self.judge(halt)? {
                Verdict::Stop(stop) => return Ok(Some(*stop)),
                Verdict::GoOn => {
                    if has_begun && let Plan::Step(step) = plan {
                        self.step_into_program(step);
                    }
                }
                Verdict::Interrupted => return Ok(None),
                Verdict::Reached(tid, address) => match plan {
                    Plan::RunTo { addresses, reason } if addresses.contains(&address) => {
                        let reason = *reason;
                        return Ok(Some(self.stop_at(tid, reason)));
                    }
                    Plan::RecordFrom { addresses, start, is_there } if addresses.contains(&address) => {
                        let (start, is_there) = (start.clone(), *is_there);
                        self.clean_up(plan);
                        *plan = Plan::Run;
                        match self.at_start(tid, &start, is_there)? {
                            Begun::Stands(stop) => return Ok(Some(stop)),
                            Begun::Goes(next) => *plan = next,
                        }
                    }
                    Plan::Step(step) => self.reached_in_step(step, tid, address)?,
                    Plan::RunToLines(run) => {
                        self.module_begins(run, tid, address)?;
                        self.process.pass_breakpoint(tid);
                    }
                    _ => self.process.pass_breakpoint(tid),
                },
                Verdict::Stepped(tid) => match plan {
                    Plan::Step(step) => {
                        if let Some(stop) = self.stepped(step, tid)? {
                            return Ok(Some(stop));
                        }
                    }
                    Plan::StepLines(steps) => self.line_stepped(steps, tid)?,
                    Plan::RunToLines(_) => {
                        if let Some(stop) = self.line_read(tid)? {
                            return Ok(Some(stop));
                        }
                    }
                    _ => {}
                },
            }
        }
    }

    /// Makes the last few steps to a pause one by one, where the program is recorded: the way back from there is known
    /// then, and need not be looked for. Where a pause comes is chance anyway. Says what stopped it before.
    pub(super) fn approach_pause(&mut self) -> Result<Option<Stop>, DebugError> {
        const STEPS: usize = 48;
        let tid = self.current;
        let watches = self.breakpoints.iter().any(|(_, entry)| entry.watching.is_some());
        if self.process.is_fixed() || watches || self.history().is_err() || self.process.acting() != tid {
            return Ok(None);
        }
        for step in 0..STEPS {
            let registers = self.process.registers(tid).map_err(system)?;
            // What it waits for in a call may never come.
            let is_in_call = registers.get("orig_rax").is_none_or(|number| number as i64 >= 0);
            let next = crate::look::decode(&self.process.memory(), registers.pc());
            let is_plain = next.is_some_and(|next| {
                use iced_x86::Mnemonic as M;
                let is_call = matches!(next.mnemonic(), M::Syscall | M::Sysenter | M::INVALID);
                !is_call && next.flow_control() != iced_x86::FlowControl::Interrupt
            });
            if is_in_call || !is_plain || self.process.has_breakpoint(registers.pc()) {
                break;
            }
            if step == 0 && !matches!(self.process.position(), Ok(Some(_))) {
                break;
            }
            match self.process.step(tid).map_err(system)? {
                Halt::Stepped(_) => {}
                halt => {
                    return Ok(match self.judge(halt)? {
                        Verdict::Stop(stop) => Some(*stop),
                        _ => None,
                    });
                }
            }
        }
        Ok(None)
    }

    /// Deals with what every movement has in common: libraries, the user's breakpoints, signals, the end.
    pub(super) fn judge(&mut self, halt: Halt) -> Result<Verdict, DebugError> {
        match halt {
            Halt::Breakpoint(tid, address) => self.judge_breakpoint(tid, address),
            Halt::Stepped(tid) => self.judge_step(tid),
            Halt::Watch(tid, slots) => self.judge_watch(tid, &slots),
            Halt::Signal(tid, details) => {
                let asked = self.breakpoints.signal(details.signal);
                self.process.deliver(tid, details.signal);
                let unhandled = signals::stops_by_default(self.process.pid(), details.signal);
                if asked.is_none() && !unhandled {
                    return Ok(Verdict::GoOn);
                }
                let mut stop = self.stop_at(tid, StopReason::Signal);
                let registers = self.process.registers(tid).map_err(system)?;
                let mut signal = signals::describe(details);
                signal.handled = sys::is_caught(self.process.pid(), details.signal);
                let mappings = self.mappings_now();
                self.with_scene(|scene| scene.tell_signal(&mut stop, signal, &registers, &mappings));
                stop.breakpoints.extend(asked);
                Ok(Verdict::Stop(Box::new(stop)))
            }
            Halt::PastSignal(tid, details) if self.stopping_signals().contains(details.signal) => {
                Ok(Verdict::Stop(Box::new(self.stop_at_past_signal(tid, details)?)))
            }
            Halt::PastSignal(..) => Ok(Verdict::GoOn),
            Halt::Interrupted(tid) => {
                self.current = tid;
                Ok(Verdict::Interrupted)
            }
            Halt::Exec(tid) => {
                self.executed(tid)?;
                Ok(Verdict::GoOn)
            }
            Halt::Present(tid) => {
                self.after_travel()?;
                if let Some(ended) = self.process.ended() {
                    return Ok(Verdict::Stop(Box::new(self.end_stop(ended))));
                }
                self.current = tid;
                self.count_hits_at_present()?;
                Ok(Verdict::Stop(Box::new(self.present())))
            }
            Halt::Ended(ended) => Ok(Verdict::Stop(Box::new(self.end_stop(ended)))),
        }
    }

    fn judge_breakpoint(&mut self, tid: Tid, address: u64) -> Result<Verdict, DebugError> {
        if self.library_event == Some(address) {
            self.update_image()?;
            self.process.pass_breakpoint(tid);
            return Ok(Verdict::GoOn);
        }
        if let Some(stop) = self.left_frames(tid, Some(address))? {
            return Ok(Verdict::Stop(stop));
        }
        match self.hits_at(tid, address)? {
            Hit::Stop(stop) => Ok(Verdict::Stop(stop)),
            // The movement's own, at the same place or alone.
            Hit::Nothing => {
                self.process.pass_breakpoint(tid);
                Ok(Verdict::Reached(tid, address))
            }
        }
    }

    pub(super) fn stop_at(&mut self, tid: Tid, reason: StopReason) -> Stop {
        self.current = tid;
        self.hidden = match reason {
            StopReason::Entry | StopReason::Goto => self.inlined_from_here(tid),
            // Steps know themselves how deep they went.
            StopReason::Step => self.hidden,
            _ => 0,
        };
        Stop {
            reason,
            detail: None,
            thread: thread_id(tid),
            breakpoints: Vec::new(),
            signal: None,
            exception: None,
            exit_code: None,
        }
    }

    /// How many inlined calls begin exactly where `tid` stands, or go on there after code of others:
    /// their caller is what the user sees first.
    pub(super) fn inlined_from_here(&self, tid: Tid) -> usize {
        let Ok(registers) = self.process.registers(tid) else { return 0 };
        let frames = self.symbols.frames_at(registers.pc());
        frames.iter().take_while(|frame| frame.inlined && frame.entered).count()
    }

    pub(super) fn end_stop(&mut self, ended: Ended) -> Stop {
        let mut stop = self.stop_at(self.process.pid(), StopReason::Exit);
        match ended {
            Ended::Exited(code) => stop.exit_code = Some(code),
            Ended::Killed(number) => {
                let name = sys::signal_name(number);
                stop.detail = Some(format!("killed by {name}"));
                let signal = hindcast_core::debug::RaisedSignal {
                    name,
                    number,
                    cause: None,
                    fault_address: None,
                    fault: None,
                    handled: false,
                };
                stop.signal = Some(signal);
            }
        }
        stop
    }

    pub(super) fn run_to_addresses(&mut self, place: &Place) -> Result<Vec<u64>, DebugError> {
        if let Place::Line { file, .. } | Place::Statement { file, .. } = place
            && super::python::is_script(file)
        {
            let reason = Reason::new("a line of a recorded Python program cannot be run to");
            return Err(DebugError::Unsupported(
                reason.advise("`debugger/set_breakpoint` there, with `temporary`, and `debugger/continue`"),
            ));
        }
        let resolved = self.resolve(place);
        let addresses: Vec<u64> = resolved.addresses().collect();
        if addresses.is_empty() {
            let reason = resolved
                .note
                .unwrap_or_else(|| format!("there is no code at `{}`", cut(&place.to_string())).into());
            return Err(DebugError::BreakpointFailed(reason));
        }
        self.insert_all(&addresses)?;
        Ok(addresses)
    }

    /// Puts breakpoint instructions at all of `addresses`, or at none.
    pub(super) fn insert_all(&mut self, addresses: &[u64]) -> Result<(), DebugError> {
        for (index, &address) in addresses.iter().enumerate() {
            if self.process.insert_breakpoint(address).is_err() {
                for &done in &addresses[..index] {
                    self.process.remove_breakpoint(done);
                }
                return Err(DebugError::BreakpointFailed(format!("there is no code at {address:#x}").into()));
            }
        }
        Ok(())
    }

    /// Forgets a movement that was cut short.
    pub(super) fn abandon(&mut self) {
        if let Some(plan) = self.plan.take() {
            self.interpreter.departed = None;
            self.clean_up(&plan);
        }
    }

    fn clean_up(&mut self, plan: &Plan) {
        match plan {
            Plan::Run | Plan::AwaitProgram | Plan::Travel(_) => {}
            Plan::Fresh(plan) => self.clean_up(plan),
            Plan::RunTo { addresses, .. } | Plan::RecordFrom { addresses, .. } => {
                for &address in addresses {
                    self.process.remove_breakpoint(address);
                }
            }
            Plan::Step(step) => {
                for address in step.targets() {
                    self.process.remove_breakpoint(address);
                }
            }
            Plan::StepLines(steps) => {
                // A program that has ended has nothing to give back.
                let _ = self.process.unwatch(steps.registers());
            }
            Plan::RunToLines(run) => self.end_run_to_lines(run),
        }
    }

    /// A stop that the user hears of.
    pub(super) fn stopped_with(&mut self, mut stop: Stop) -> Stop {
        self.find_end();
        self.tell_uncaught(&mut stop);
        self.note_machine_stop(stop.reason, &stop.breakpoints);
        // What cannot be found even now stays pending.
        let _ = self.look_at_unmapped().and_then(|()| self.look_for_awaited());
        self.note_stop(&stop);
        self.settle();
        stop
    }

    /// Lets what the program printed arrive.
    fn settle(&mut self) {
        // One that is gone tells so by itself.
        let _ = self.process.rest();
        self.tell_crashes();
        if let Some(pump) = &self.pump {
            pump.drain();
        }
    }
}

/// What [`Movement::Begin`] does.
pub(super) enum Begun {
    Stands(Stop),
    Goes(Plan),
}

pub(super) fn thread_id(tid: Tid) -> ThreadId {
    ThreadId(tid.0.unsigned_abs())
}
