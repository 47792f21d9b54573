//! Going back in time.

use std::ops::Range;

use hindcast_core::debug::{
    DebugError, Destination, Granularity, Happening, HappeningKind, Moment, Movement, Outcome, RaisedSignal,
    Reason, Remedy, Stop, StopReason, ThreadId,
};
use hindcast_symbols::{Symbols, names::cut};
use iced_x86::FlowControl;

pub(super) use super::halted::Halted;
use super::{Session, movement::Plan, system};
use crate::{
    debuggee::{Found, Quarry, SignalSet},
    process::Ended,
    replay::{Pause, Position, ReplayError},
    sys::{SignalDetails, Tid},
};

/// The code of the function around an address.
pub(crate) fn function_around(symbols: &Symbols, address: u64) -> Option<Range<u64>> {
    let named = symbols.function_at(address);
    let range = named.and_then(|function| function.ranges.into_iter().find(|range| range.contains(&address)));
    range.or_else(|| symbols.unwound_range(address))
}

/// So many instructions back a line is looked for.
const FARTHEST: usize = 200_000;

impl Session {
    /// A movement into the past. What fails leaves everything as it was.
    pub(super) fn travelled(&mut self, movement: Movement) -> Result<Outcome, DebugError> {
        let result = self.go(&movement);
        // What is left to do must not end half-way.
        self.process.stop_listening(matches!(result, Err(Halted::Interrupted)));
        if !matches!(result, Err(Halted::Interrupted)) {
            self.interpreter.departed = None;
        }
        match result {
            Ok(stop) => {
                self.breakpoints.count_anew();
                let stop = self.stopped_with(stop);
                if matches!(movement, Movement::ReverseContinue) {
                    self.keep_tally();
                }
                Ok(Outcome::Stopped(stop))
            }
            Err(Halted::Interrupted) => {
                self.plan = Some(Plan::Travel(movement));
                Ok(Outcome::Interrupted)
            }
            Err(Halted::Failed(error)) => Err(error),
        }
    }

    fn go(&mut self, movement: &Movement) -> Result<Stop, Halted> {
        self.history()?;
        match movement {
            Movement::Goto(destination) => self.go_to(destination),
            Movement::ReverseContinue => self.reverse_continue(),
            Movement::StepBack { thread, granularity, count } => {
                self.step_back(*thread, *granularity, (*count).max(1))
            }
            _ => Err(Halted::Failed(DebugError::Unsupported("this is no movement in time".into()))),
        }
    }

    /// Says why there is no history, where there is none.
    pub(super) fn history(&self) -> Result<(), DebugError> {
        match (self.process.recorder(), &self.unrecorded) {
            (Some(_), None) => Ok(()),
            (_, reason) => Err(DebugError::NoHistory(
                Reason::new(format!(
                    "nothing of this program was recorded: {}",
                    reason.as_deref().unwrap_or("it is not being recorded")
                ))
                .remedy(Remedy::LaunchRecorded),
            )),
        }
    }

    /// The moment from which one goes back. Behind the end of the history that is its end.
    pub(super) fn departure(&mut self) -> Result<Departure, Halted> {
        if let Some(position) = self.process.position()? {
            return Ok(Departure { position, at_end: false, gap: None });
        }
        let position = self.last()?;
        let gap =
            self.why_incomplete().map(|reason| format!("the recording ends at moment {position}: {reason}"));
        Ok(Departure { position, at_end: true, gap })
    }

    /// Finds out where the history ends, once it has, so that it can be told.
    pub(super) fn find_end(&mut self) {
        let reason = self.process.recorder().and_then(|recorder| recorder.why_incomplete());
        if let (Some(reason), None) = (reason.map(str::to_owned), &self.history_end) {
            let symbols = &self.symbols;
            let end = self.process.end_of_history(&|address| function_around(symbols, address));
            self.history_end = Some(match end {
                Ok(Some(end)) => format!("the recording ends at moment {end}: {reason}"),
                _ => format!("the recording has ended: {reason}"),
            });
        }
    }

    /// Why the program went on behind the end of the history, where it did.
    fn why_incomplete(&self) -> Option<&str> {
        match self.process.live_ended() {
            Some(Ended::Killed(libc::SIGKILL)) => {
                Some("the program was killed, and nobody saw how far it had come")
            }
            _ => self.process.recorder()?.why_incomplete(),
        }
    }

    pub(super) fn land(&mut self, position: &Position) -> Result<(), Halted> {
        let symbols = &self.symbols;
        self.process.go_to(position, &|address| function_around(symbols, address))?;
        self.after_travel()?;
        Ok(())
    }

    /// What is looked at has changed: so may have what is loaded, and what is watched.
    pub(super) fn after_travel(&mut self) -> Result<(), DebugError> {
        self.current = self.process.acting();
        self.hidden = 0;
        if self.process.ended().is_some() {
            return Ok(());
        }
        if self.is_another_program() {
            self.process.forget_breakpoints().map_err(system)?;
            return self.executed(self.process.pid());
        }
        self.update_image()?;
        self.look_again()
    }

    /// Whether an exec lies between what was looked at and what is.
    fn is_another_program(&self) -> bool {
        let main = self.image.iter().find(|loaded| Some(loaded.module) == self.main);
        let executable = crate::sys::executable(self.process.system_pid());
        main.zip(executable.ok()).is_some_and(|(main, now)| std::path::Path::new(&main.path) != now)
    }

    fn step_back(&mut self, thread: ThreadId, granularity: Granularity, count: u32) -> Result<Stop, Halted> {
        let Departure { mut position, at_end, gap } = self.departure()?;
        let mut count = count;
        let known =
            if at_end || self.process.ended().is_some() { None } else { Some(self.known_thread(thread)?) };
        if at_end {
            // The first step back is the one into the history.
            self.land(&position)?;
            count -= 1;
        }
        let tid = known.unwrap_or_else(|| self.process.acting());
        let symbols = &self.symbols;
        let last =
            self.process.last_in_thread(&position, tid, &|address| function_around(symbols, address))?;
        position = last.ok_or_else(|| {
            let reason = format!("thread {} has not run before this moment, as far as is recorded", thread.0);
            DebugError::NoHistory(Reason::new(reason).remedy(Remedy::ListMoments))
        })?;
        if granularity != Granularity::Instruction
            && self.process.known_position().as_ref() != Some(&position)
        {
            self.land(&position)?;
        }
        if self.steps_in_python(super::movement::thread_id(tid), granularity)? {
            let stop = self.step_back_in_python(&position, granularity, count, tid)?;
            return Ok(across(gap, stop));
        }
        for _ in 0..count {
            let earlier = match granularity {
                Granularity::Instruction => self.before_in_thread(&position, tid)?,
                Granularity::Line | Granularity::Over => self.line_before(&position, granularity, tid)?,
                Granularity::Out => Some(self.caller_before(&position, tid)?),
            };
            match earlier {
                Some(earlier) => position = earlier,
                None => return Ok(across(gap, self.stop_at_first(position, tid)?)),
            }
        }
        self.land(&position)?;
        Ok(across(gap, self.stop_at(self.process.acting(), StopReason::Step)))
    }

    /// Stops where a thread begins, after which there is nothing that a step back from `position` could show. That of the
    /// first thread is the start of the history.
    pub(super) fn stop_at_first(&mut self, position: Position, tid: Tid) -> Result<Stop, Halted> {
        if tid == self.process.pid() {
            let start = self.first()?;
            self.land(&start)?;
            return Ok(self.start_stop());
        }
        let mut first = position;
        while let Some(earlier) = self.before_in_thread(&first, tid)? {
            first = earlier;
        }
        self.land(&first)?;
        Ok(self.stop_at(self.process.acting(), StopReason::ThreadStart))
    }

    pub(super) fn first(&self) -> Result<Position, DebugError> {
        let first = self.process.recorder().and_then(|recorder| recorder.timeline.first().cloned());
        let anchor = first.ok_or_else(|| DebugError::NoHistory("the recording is empty".into()))?;
        Ok(Position { anchor, steps: 0 })
    }

    /// Where the program stands, or where the history ends.
    pub(super) fn last(&mut self) -> Result<Position, Halted> {
        let frontier = self.process.recorder().and_then(|recorder| recorder.timeline.frontier().cloned());
        if let Some(frontier) = frontier.filter(|_| self.process.live_ended().is_none()) {
            return Ok(frontier);
        }
        let symbols = &self.symbols;
        let end = self.process.end_of_history(&|address| function_around(symbols, address))?;
        Ok(end.ok_or_else(|| DebugError::NoHistory("the recording is empty".into()))?)
    }

    fn start_stop(&mut self) -> Stop {
        let mut stop = self.stop_at(self.process.acting(), StopReason::HistoryStart);
        stop.detail = Some("nothing was recorded before this moment".into());
        stop
    }

    pub(super) fn before(&mut self, position: &Position) -> Result<Option<Position>, ReplayError> {
        let symbols = &self.symbols;
        self.process.before(position, &|address| function_around(symbols, address))
    }

    pub(super) fn before_in_thread(
        &mut self,
        position: &Position,
        tid: Tid,
    ) -> Result<Option<Position>, ReplayError> {
        let symbols = &self.symbols;
        self.process.before_in_thread(position, tid, &|address| function_around(symbols, address))
    }

    pub(super) fn find(&mut self, position: &Position, quarry: Quarry) -> Result<Option<Found>, ReplayError> {
        let symbols = &self.symbols;
        self.process.find_before(position, quarry, None, &|address| function_around(symbols, address))
    }

    fn place_at(&mut self, position: &Position) -> Result<(u64, u64), ReplayError> {
        let symbols = &self.symbols;
        let standing = self.process.standing_at(position, &|address| function_around(symbols, address))?;
        Ok((standing.registers.pc(), standing.registers.sp()))
    }

    /// The beginning of the line before, or of this one if it is half done.
    fn line_before(
        &mut self,
        from: &Position,
        granularity: Granularity,
        tid: Tid,
    ) -> Result<Option<Position>, Halted> {
        let (pc, _) = self.place_at(from)?;
        if self.visible_line(pc).is_none() {
            // Without lines there is only the way out, as forwards; and where nobody called, the instruction before.
            return match self.caller_before(from, tid) {
                Ok(call) => Ok(Some(call)),
                Err(Halted::Failed(DebugError::NoHistory(_))) => Ok(self.before_in_thread(from, tid)?),
                Err(other) => Err(other),
            };
        }
        let origin = self.line_key(pc);
        let mut position = from.clone();
        let mut found: Option<(Position, LineKey)> = None;
        let mut first = true;
        for _ in 0..FARTHEST {
            let Some(mut earlier) = self.before_in_thread(&position, tid)? else {
                return Ok(found.map(|(found, _)| found));
            };
            let (mut pc, stack) = self.place_at(&earlier)?;
            if self.flow_at(pc) == Some(FlowControl::Return) {
                let returns_to = self.place_at(&position)?.0;
                if granularity == Granularity::Line
                    && self.visible_line(pc).is_some()
                    && self.visible_line(returns_to).is_some()
                {
                    // What was left of the line after this call is passed: the call comes first.
                    (found, first) = (None, true);
                } else if let Some(call) = self.call_before(&earlier, pc, stack, tid)? {
                    earlier = call;
                    pc = self.place_at(&earlier)?.0;
                }
            }
            position = earlier;
            let Some(line) = self.line_key(pc) else { continue };
            match &mut found {
                Some((beginning, wanted)) if *wanted == line => *beginning = position.clone(),
                Some((beginning, _)) => return Ok(Some(beginning.clone())),
                // In the middle of a line its own beginning comes first.
                None if first || Some(&line) != origin.as_ref() => found = Some((position.clone(), line)),
                None => {}
            }
            first = false;
        }
        let reason = Reason::new("the line before is too far away").remedy(Remedy::GoBackToBreakpoint);
        Err(Halted::Failed(DebugError::NoHistory(reason)))
    }

    fn line_key(&self, pc: u64) -> Option<LineKey> {
        // Code of no line has nothing to show, though steps count it to the line before.
        let row = self.visible_line(pc).filter(|_| self.symbols.line_at(pc).is_some())?;
        let function = self.symbols.function_at(pc).map(|function| function.start);
        Some((row.file, row.line, function))
    }

    fn flow_at(&self, pc: u64) -> Option<FlowControl> {
        crate::look::decode(&self.process.memory(), pc).map(|instruction| instruction.flow_control())
    }

    /// The call that a function returned from, which is about to, with the address of its caller at `stack`.
    fn call_before(
        &mut self,
        position: &Position,
        pc: u64,
        stack: u64,
        tid: Tid,
    ) -> Result<Option<Position>, ReplayError> {
        // It wrote the address that is returned to. Jumps may lie between it and the function.
        if let Some(found) = self.find(position, Quarry::Write { address: stack, size: 8 })?
            && let Some(call) = self.before_in_thread(&found.position, tid)?
        {
            let at = self.place_at(&call)?.0;
            let is_call = matches!(self.flow_at(at), Some(FlowControl::Call | FlowControl::IndirectCall));
            if is_call || found.pause.is_none() {
                return Ok(Some(call));
            }
        }
        // Something else has written there since.
        let Some(function) = self.symbols.function_at(pc) else { return Ok(None) };
        match self.find(position, Quarry::Call { address: function.start, stack: Some(stack) })? {
            Some(found) => self.before_in_thread(&found.position, tid),
            None => Ok(None),
        }
    }

    /// The call of the function that one is in.
    fn caller_before(&mut self, position: &Position, tid: Tid) -> Result<Position, Halted> {
        let outside = || {
            DebugError::NoHistory(
                "where this function was called is not in the recording, or it has no name".into(),
            )
        };
        let origin = self.process.known_position();
        if origin.as_ref() != Some(position) {
            self.land(position)?;
        }
        let registers = self.process.registers(self.process.acting()).map_err(system)?;
        let memory = self.process.memory();
        let unwound = self
            .symbols
            .unwind(&hindcast_symbols::Registers::all(registers.dwarf()), &memory, false)
            .ok()
            .flatten();
        let Some(unwound) = unwound else { return Err(Halted::Failed(outside())) };
        let call = self.call_before(position, registers.pc(), unwound.cfa.wrapping_sub(8), tid)?;
        Ok(call.ok_or_else(outside)?)
    }

    fn reverse_continue(&mut self) -> Result<Stop, Halted> {
        let Departure { mut position, at_end, gap } = self.departure()?;
        if self.has_lines() {
            // Where it was interrupted, it looked at other moments.
            position = self.interpreter.departed.take().unwrap_or(position);
            self.interpreter.departed = Some(position.clone());
        }
        // Behind a gap libraries may have been unloaded, and the breakpoints in them with these.
        if at_end && (self.process.ended().is_none() || gap.is_some()) {
            self.land(&position)?;
        }
        // After the end of a program that was recorded up to there, the hits are those up to the last moment.
        if !(at_end && gap.is_none() && self.process.ended().is_some()) {
            self.count_hits_up_to(&position)?;
        }
        let signals = self.stopping_signals();
        loop {
            let found = self.find_stop(&position, Quarry::Stops(signals))?;
            if self.has_lines()
                && let Some(stop) = self.line_stop_before(&position, found.as_ref())?
            {
                return Ok(across(gap, stop));
            }
            let Some(found) = found else {
                let start = self.first()?;
                self.land(&start)?;
                return Ok(across(gap, self.start_stop()));
            };
            let returns = self.process.known_position();
            self.land(&found.position)?;
            if found.is_other_code {
                // Breakpoints are where they were then.
                position = found.position;
                continue;
            }
            match self.stop_in_past(&found) {
                Ok(Some(stop)) => return Ok(across(gap, stop)),
                Ok(None) => position = found.position,
                Err(error) => {
                    if let Some(returns) = returns {
                        self.land(&returns)?;
                    }
                    return Err(error.into());
                }
            }
        }
    }

    /// Whether the user wants to stop for what was found.
    fn stop_in_past(&mut self, found: &Found) -> Result<Option<Stop>, DebugError> {
        let tid = self.process.acting();
        match &found.pause {
            Some(Pause::Breakpoint(address)) => {
                let mut stopping = found.claims.breakpoints.clone();
                let mut exception = None;
                for id in self.breakpoints.at(*address) {
                    if self.breakpoints.get(id)?.exception.is_some() {
                        let raised = self.exception_at(tid, *address, id)?;
                        stopping.extend(raised.is_some().then_some(id));
                        exception = raised.or(exception);
                    }
                }
                exception = exception.or_else(|| self.unasked_panic(tid, *address));
                let mut stop = match exception {
                    Some(raised) => self.stop_at_exception(tid, raised),
                    None if stopping.is_empty() => return Ok(None),
                    None => self.stop_at(tid, StopReason::Breakpoint),
                };
                self.hidden = self.hidden_from(&stopping, *address);
                stop.breakpoints = stopping;
                Ok(Some(stop))
            }
            Some(Pause::Watch(_)) => {
                let mut stop = self.stop_at(tid, StopReason::Watchpoint);
                stop.breakpoints.clone_from(&found.claims.breakpoints);
                Ok(Some(stop))
            }
            _ => match self.process.signal_after(&found.position) {
                Some(details) => self.stop_at_past_signal(tid, details).map(Some),
                None => Ok(Some(self.stop_at(tid, StopReason::Signal))),
            },
        }
    }

    /// The signals for which one stops in the past.
    pub(super) fn stopping_signals(&self) -> SignalSet {
        self.breakpoints.signals().fold(SignalSet::faults(), SignalSet::with)
    }

    /// Before a signal that the program handled.
    pub(super) fn stop_at_past_signal(
        &mut self,
        tid: Tid,
        details: SignalDetails,
    ) -> Result<Stop, DebugError> {
        let mut stop = self.stop_at(tid, StopReason::Signal);
        stop.breakpoints.extend(self.breakpoints.signal(details.signal));
        let registers = self.process.registers(tid).map_err(system)?;
        let signal = RaisedSignal { handled: true, ..super::signals::describe(details) };
        let mappings = self.mappings_now();
        self.with_scene(|scene| scene.tell_signal(&mut stop, signal, &registers, &mappings));
        Ok(stop)
    }

    fn go_to(&mut self, destination: &Destination) -> Result<Stop, Halted> {
        let position = match destination {
            Destination::Present => {
                self.process.go_live();
                self.after_travel()?;
                return Ok(match self.process.ended() {
                    Some(ended) => self.end_stop(ended),
                    None => self.present(),
                });
            }
            Destination::Start => self.first()?,
            Destination::Moment(moment) => self.parse(moment)?,
            Destination::Percent(0) => self.first()?,
            Destination::Percent(100..) => self.last()?,
            Destination::Percent(percent) => {
                // The present is an end, too: it needs a name before anything is measured by it.
                let _ = self.process.position();
                self.at_percent(*percent)?
            }
        };
        // What one leaves keeps its name, so that one can come back.
        let _ = self.process.position();
        let symbols = &self.symbols;
        let position = self.process.materialise(position, &|address| function_around(symbols, address))?;
        self.land(&position)?;
        let mut stop = self.stop_at(self.process.acting(), StopReason::Goto);
        self.tell_uncaught_here(&position, &mut stop);
        Ok(stop)
    }

    /// Back where the program really is, with what it stopped for there.
    pub(super) fn present(&mut self) -> Stop {
        let mut stop = self.stop_at(self.process.acting(), StopReason::Present);
        if let Some(live) = &self.live_stop {
            stop.detail.clone_from(&live.detail);
            stop.signal.clone_from(&live.signal);
            stop.exception.clone_from(&live.exception);
        }
        let is_unnamed = self.process.known_position().is_none();
        if let Some(reason) = self.why_incomplete().filter(|_| is_unnamed) {
            tell(&mut stop, &format!("what led here is not recorded: {reason}"));
        }
        stop
    }

    /// A moment that somebody named, which may have no anchor yet.
    pub(super) fn moment_named(&mut self, moment: &Moment) -> Result<Position, Halted> {
        let position = self.parse(moment)?;
        let symbols = &self.symbols;
        Ok(self.process.materialise(position, &|address| function_around(symbols, address))?)
    }

    fn parse(&self, moment: &Moment) -> Result<Position, DebugError> {
        moment.0.trim().parse().map_err(|_| {
            let reason = Reason::new(format!("`{}` is not a moment of this recording", cut(&moment.0)));
            DebugError::NoHistory(reason.remedy(Remedy::ListMoments))
        })
    }

    /// Gives the stop a moment, and remembers it.
    pub(super) fn note_stop(&mut self, stop: &Stop) {
        if self.history().is_err() {
            return;
        }
        let was_in_past = self.process.is_fixed();
        let Ok(Some(position)) = self.process.position() else { return };
        if was_in_past || stop.reason == StopReason::Present {
            return;
        }
        self.live_stop = Some(stop.clone());
        let location =
            self.process.registers(self.process.acting()).ok().map(|registers| self.location(registers.pc()));
        let kind = match stop.reason {
            StopReason::Signal => HappeningKind::Signal,
            StopReason::Breakpoint => HappeningKind::Breakpoint,
            _ => HappeningKind::Stop,
        };
        let reason = serde_json::to_value(stop.reason).ok();
        let reason = reason.as_ref().and_then(|reason| reason.as_str()).unwrap_or("stop").to_owned();
        let what = match &stop.detail {
            Some(detail) => format!("{reason}: {detail}"),
            None => reason,
        };
        let (moment, thread) = (Moment(position.to_string()), Some(stop.thread));
        self.happenings.push(Happening { moment, kind, what, location, thread });
    }
}

/// Where a movement into the past begins.
pub(super) struct Departure {
    pub(super) position: Position,
    /// Whether that is the end of the history, and not where the program stands.
    at_end: bool,
    /// Why the program went on behind the end.
    pub(super) gap: Option<String>,
}

/// A stop that was come to from behind the end of the history.
fn across(gap: Option<String>, mut stop: Stop) -> Stop {
    if let Some(gap) = gap {
        tell(&mut stop, &format!("{gap}; what came after cannot be visited"));
    }
    stop
}

fn tell(stop: &mut Stop, more: &str) {
    stop.detail = Some(match stop.detail.take() {
        Some(detail) => format!("{detail}; {more}"),
        None => more.to_owned(),
    });
}

/// File, line, function.
type LineKey = (Option<std::sync::Arc<str>>, u32, Option<u64>);
