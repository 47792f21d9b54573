//! Going back in time.

use std::{io, ops::Range};

use hindcast_core::{
    debug::{
        DebugError, Destination, Granularity, Happening, HappeningKind, MemoryWrite, Moment, Movement,
        Outcome, Recording, Stop, StopReason, ThreadId, TimeTravel, TimelinePage, TimelineQuery, TraceHead,
        TraceRequest, TraceWriter, Watched, When, Writer,
    },
    progress::Progress,
};
use hindcast_symbols::{Memory as _, Symbols};

use super::{Session, movement::Plan, system};
use crate::{
    debuggee::{Found, Quarry},
    record::Event,
    replay::{Label, Pause, Position, ReplayError},
    sys::TraceError,
};

/// The code of the function around an address.
pub(super) fn function_around(symbols: &Symbols, address: u64) -> Option<Range<u64>> {
    let function = symbols.function_at(address)?;
    function.ranges.into_iter().find(|range| range.contains(&address))
}

/// Progress of an export is told so often, in events.
const TELL_EVERY: u64 = 4096;
/// So many instructions back a line is looked for.
const FARTHEST: usize = 200_000;

impl Session {
    /// A movement into the past. What fails leaves everything as it was.
    pub(super) fn travelled(&mut self, movement: Movement) -> Result<Outcome, DebugError> {
        self.process.depart();
        let result = self.go(&movement);
        self.process.arrive();
        match result {
            Ok(stop) => Ok(Outcome::Stopped(self.stopped_with(stop))),
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
    fn history(&self) -> Result<(), DebugError> {
        match (self.process.recorder(), &self.unrecorded) {
            (Some(_), None) => Ok(()),
            (_, reason) => Err(DebugError::NoHistory(format!(
                "nothing of this program was recorded: {} · hint: launch it again with `record: true`",
                reason.as_deref().unwrap_or("it is not being recorded")
            ))),
        }
    }

    /// The moment from which one goes back. Behind the end of the history that is its end.
    fn departure(&mut self) -> Result<(Position, bool), Halted> {
        if let Some(position) = self.process.position()? {
            return Ok((position, false));
        }
        let symbols = &self.symbols;
        let end = self.process.end_of_history(&|address| function_around(symbols, address))?;
        let end = end.ok_or_else(|| DebugError::NoHistory("the recording is empty".into()))?;
        Ok((end, true))
    }

    fn land(&mut self, position: &Position) -> Result<(), Halted> {
        let symbols = &self.symbols;
        self.process.go_to(position, &|address| function_around(symbols, address))?;
        self.after_travel()?;
        Ok(())
    }

    /// What is looked at has changed: so may have what is loaded, and what is watched.
    pub(super) fn after_travel(&mut self) -> Result<(), DebugError> {
        self.current = self.process.pid();
        self.hidden = 0;
        if self.process.ended().is_none() {
            self.update_image()?;
            self.look_again()?;
        }
        Ok(())
    }

    fn step_back(&mut self, thread: ThreadId, granularity: Granularity, count: u32) -> Result<Stop, Halted> {
        let (mut position, at_end) = self.departure()?;
        if !at_end && self.process.ended().is_none() {
            self.known_thread(thread)?;
        }
        let mut count = count;
        if at_end {
            // The first step back is the one into the history.
            self.land(&position)?;
            count -= 1;
        }
        for _ in 0..count {
            let earlier = match granularity {
                Granularity::Instruction => self.before(&position)?,
                Granularity::Line | Granularity::Over => self.line_before(&position, granularity)?,
                Granularity::Out => Some(self.caller_before(&position)?),
            };
            match earlier {
                Some(earlier) => position = earlier,
                None => {
                    let start = self.first()?;
                    self.land(&start)?;
                    return Ok(self.start_stop());
                }
            }
        }
        self.land(&position)?;
        Ok(self.stop_at(self.process.pid(), StopReason::Step))
    }

    fn first(&self) -> Result<Position, DebugError> {
        let first = self.process.recorder().and_then(|recorder| recorder.timeline.first().cloned());
        let anchor = first.ok_or_else(|| DebugError::NoHistory("the recording is empty".into()))?;
        Ok(Position { anchor, steps: 0 })
    }

    fn start_stop(&mut self) -> Stop {
        let mut stop = self.stop_at(self.process.pid(), StopReason::HistoryStart);
        stop.detail = Some("nothing was recorded before this moment".into());
        stop
    }

    fn before(&mut self, position: &Position) -> Result<Option<Position>, ReplayError> {
        let symbols = &self.symbols;
        self.process.before(position, &|address| function_around(symbols, address))
    }

    fn find(&mut self, position: &Position, quarry: Quarry) -> Result<Option<Found>, ReplayError> {
        let symbols = &self.symbols;
        self.process.find_before(position, quarry, &|address| function_around(symbols, address))
    }

    fn place_at(&mut self, position: &Position) -> Result<(u64, u64), ReplayError> {
        let symbols = &self.symbols;
        let registers = self.process.registers_at(position, &|address| function_around(symbols, address))?;
        Ok((registers.pc(), registers.sp()))
    }

    /// The beginning of the line before, or of this one if it is half done.
    fn line_before(&mut self, from: &Position, granularity: Granularity) -> Result<Option<Position>, Halted> {
        let (pc, _) = self.place_at(from)?;
        let origin = self.line_key(pc);
        let mut position = from.clone();
        let mut found: Option<(Position, LineKey)> = None;
        let mut first = true;
        for _ in 0..FARTHEST {
            let Some(mut earlier) = self.before(&position)? else { return Ok(found.map(|(found, _)| found)) };
            let (mut pc, stack) = self.place_at(&earlier)?;
            if self.is_return(pc) {
                let enters =
                    granularity == Granularity::Line && found.is_none() && self.line_key(pc).is_some();
                if !enters && let Some(call) = self.call_before(&earlier, pc, stack)? {
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
        Err(Halted::Failed(DebugError::NoHistory(
            "the line before is too far away · hint: set a breakpoint there, and `debugger/reverse_continue`"
                .into(),
        )))
    }

    fn line_key(&self, pc: u64) -> Option<LineKey> {
        let row = self.visible_line(pc)?;
        let function = self.symbols.function_at(pc).map(|function| function.start);
        Some((row.file, row.line, function))
    }

    fn is_return(&self, pc: u64) -> bool {
        crate::look::decode(&self.process.memory(), pc)
            .is_some_and(|instruction| instruction.flow_control() == iced_x86::FlowControl::Return)
    }

    /// The call that a function returned from, which is about to.
    fn call_before(
        &mut self,
        position: &Position,
        pc: u64,
        stack: u64,
    ) -> Result<Option<Position>, ReplayError> {
        let Some(function) = self.symbols.function_at(pc) else { return Ok(None) };
        match self.find(position, Quarry::Call { address: function.start, stack })? {
            Some(found) => self.before(&found.position),
            None => Ok(None),
        }
    }

    /// The call of the function that one is in.
    fn caller_before(&mut self, position: &Position) -> Result<Position, Halted> {
        let outside = || {
            DebugError::NoHistory(
                "where this function was called is not in the recording, or it has no name".to_owned(),
            )
        };
        let origin = self.process.known_position();
        if origin.as_ref() != Some(position) {
            self.land(position)?;
        }
        let registers = self.process.registers(self.process.pid()).map_err(system)?;
        let memory = self.process.memory();
        let unwound = self
            .symbols
            .unwind(&hindcast_symbols::Registers::all(registers.dwarf()), &memory, false)
            .ok()
            .flatten();
        let function = self.symbols.function_at(registers.pc());
        let (Some(unwound), Some(function)) = (unwound, function) else {
            return Err(Halted::Failed(outside()));
        };
        let stack = unwound.cfa.wrapping_sub(8);
        let entry = if registers.pc() == function.start && registers.sp() == stack {
            position.clone()
        } else {
            let found = self.find(position, Quarry::Call { address: function.start, stack })?;
            found.ok_or_else(outside)?.position
        };
        Ok(self.before(&entry)?.ok_or_else(outside)?)
    }

    fn reverse_continue(&mut self) -> Result<Stop, Halted> {
        let (mut position, at_end) = self.departure()?;
        if at_end && self.process.ended().is_none() {
            self.land(&position)?;
        }
        loop {
            let Some(found) = self.find(&position, Quarry::Stops)? else {
                let start = self.first()?;
                self.land(&start)?;
                return Ok(self.start_stop());
            };
            let returns = self.process.known_position();
            self.land(&found.position)?;
            match self.stop_in_past(&found) {
                Ok(Some(stop)) => return Ok(stop),
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
        let tid = self.process.pid();
        match &found.pause {
            Some(Pause::Breakpoint(address)) => {
                let mut stopping = Vec::new();
                for id in self.breakpoints.at(*address) {
                    let logs = self.breakpoints.get(id)?.template.is_some();
                    if !logs && self.condition_holds(tid, id)? {
                        stopping.push(id);
                    }
                }
                if stopping.is_empty() {
                    return Ok(None);
                }
                let mut stop = self.stop_at(tid, StopReason::Breakpoint);
                stop.breakpoints = stopping;
                Ok(Some(stop))
            }
            Some(Pause::Watch(slots)) => {
                let watching: Vec<_> = self
                    .breakpoints
                    .iter()
                    .filter(|(_, entry)| {
                        entry
                            .watching
                            .as_ref()
                            .is_some_and(|watching| slots.is_empty() || watching.is_hit_by(slots))
                    })
                    .map(|(id, _)| id)
                    .collect();
                if watching.is_empty() {
                    return Ok(None);
                }
                let mut stop = self.stop_at(tid, StopReason::Watchpoint);
                stop.breakpoints = watching;
                Ok(Some(stop))
            }
            _ => Ok(Some(self.stop_at(tid, StopReason::Signal))),
        }
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
            Destination::Percent(percent) => {
                let recorder = self.process.recorder().ok_or(TraceError::Gone)?;
                let first = recorder.timeline.iter().next().map_or(0, |(_, anchor)| anchor.event);
                let events = recorder.log.len() - first;
                let event = first + events * u64::from((*percent).min(100)) / 100;
                Position { anchor: Label::after_events(event), steps: 0 }
            }
        };
        // What one leaves keeps its name, so that one can come back.
        let _ = self.process.position();
        let symbols = &self.symbols;
        let position = self.process.materialise(position, &|address| function_around(symbols, address))?;
        self.land(&position)?;
        Ok(self.stop_at(self.process.pid(), StopReason::Goto))
    }

    /// Back where the program really is, with what it stopped for there.
    pub(super) fn present(&mut self) -> Stop {
        let mut stop = self.stop_at(self.process.pid(), StopReason::Present);
        if let Some(live) = &self.live_stop {
            stop.detail.clone_from(&live.detail);
            stop.signal.clone_from(&live.signal);
            stop.exception.clone_from(&live.exception);
        }
        stop
    }

    fn parse(&self, moment: &Moment) -> Result<Position, DebugError> {
        moment.0.trim().parse().map_err(|_| {
            DebugError::NoHistory(format!(
                "`{moment}` is not a moment of this recording · hint: `debugger/timeline` lists some"
            ))
        })
    }

    /// Gives the stop a moment, and remembers it.
    pub(super) fn note_stop(&mut self, stop: &Stop) {
        if self.history().is_err() {
            return;
        }
        let was_in_past = self.process.is_in_past();
        let Ok(Some(position)) = self.process.position() else { return };
        if was_in_past || stop.reason == StopReason::Present {
            return;
        }
        self.live_stop = Some(stop.clone());
        let location =
            self.process.registers(self.process.pid()).ok().map(|registers| self.location(registers.pc()));
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
        self.happenings.push(Happening { moment: Moment(position.to_string()), kind, what, location });
    }

    /// What a write that was found looks like.
    fn describe_write(&mut self, found: &Found, address: u64, size: u64) -> Result<MemoryWrite, Halted> {
        let after = found.position.clone();
        let before = self
            .before(&after)?
            .ok_or_else(|| DebugError::NoHistory("it was written before the recording began".to_owned()))?;
        self.land(&after)?;
        let new = self.bytes_text(address, size);
        self.land(&before)?;
        let old = self.bytes_text(address, size);
        let tid = self.process.pid();
        let registers = self.process.registers(tid).map_err(system)?;
        let location = self.location(registers.pc());
        let stack = hindcast_core::debug::DebugBackend::stack(self, super::movement::thread_id(tid), 8)?;
        let by = if found.pause.is_some() { Writer::Program } else { Writer::Kernel };
        let from = self.source_of_write(registers.pc());
        Ok(MemoryWrite {
            moment: Moment(after.to_string()),
            thread: super::movement::thread_id(tid),
            location,
            old,
            new,
            stack,
            by,
            from,
        })
    }

    fn source_of_write(&self, pc: u64) -> Option<String> {
        let instruction = crate::look::decode(&self.process.memory(), pc)?;
        let text = crate::look::instruction_text(&instruction);
        Some(text)
    }

    fn bytes_text(&self, address: u64, size: u64) -> String {
        let mut bytes = vec![0; size.min(64) as usize];
        match self.process.memory().read(address, &mut bytes) {
            Ok(()) => super::watch::number(&bytes),
            Err(_) => "not mapped".into(),
        }
    }

    /// Where the value came from that the instruction at a moment writes: memory, and since when it
    /// was known. `None` where it was computed, or came from elsewhere.
    fn memory_source(
        &mut self,
        writer: &Position,
        size: u64,
    ) -> Result<Option<(Position, u64, u64)>, Halted> {
        use iced_x86::{Mnemonic, OpKind};
        const FARTHEST_SOURCE: usize = 64;
        let mut position = writer.clone();
        let mut wanted = None;
        for _ in 0..FARTHEST_SOURCE {
            let symbols = &self.symbols;
            let registers =
                self.process.registers_at(&position, &|address| function_around(symbols, address))?;
            let Some(instruction) = crate::look::decode(&self.process.memory(), registers.pc()) else {
                return Ok(None);
            };
            let memory = |operand: u32| {
                let address = instruction.virtual_address(operand, 0, |register, _, _| {
                    crate::look::register_value(&registers, register)
                })?;
                Some((address, (instruction.memory_size().size() as u64).clamp(1, 8).min(size)))
            };
            let mnemonic = instruction.mnemonic();
            let moves =
                matches!(mnemonic, Mnemonic::Mov | Mnemonic::Movzx | Mnemonic::Movsx | Mnemonic::Movsxd);
            let copies =
                matches!(mnemonic, Mnemonic::Movsb | Mnemonic::Movsd | Mnemonic::Movsq | Mnemonic::Movsw);
            match wanted {
                None if copies => {
                    let source = registers.get("rsi").unwrap_or(0);
                    return Ok(Some((position, source, size.min(8))));
                }
                None if instruction.op1_kind() == OpKind::Register && moves => {
                    wanted = Some(instruction.op1_register().full_register());
                }
                None => return Ok(None),
                Some(register)
                    if instruction.op0_kind() == OpKind::Register
                        && instruction.op0_register().full_register() == register =>
                {
                    if !moves {
                        return Ok(None);
                    }
                    match instruction.op1_kind() {
                        OpKind::Memory => {
                            return Ok(memory(1).map(|(address, size)| (position, address, size)));
                        }
                        OpKind::Register => wanted = Some(instruction.op1_register().full_register()),
                        _ => return Ok(None),
                    }
                }
                Some(_) => {}
            }
            let Some(earlier) = self.before(&position)? else { return Ok(None) };
            position = earlier;
        }
        Ok(None)
    }

    fn writes_before(&mut self, address: u64, size: u64, depth: u32) -> Result<Vec<MemoryWrite>, Halted> {
        self.history()?;
        let (mut position, _) = self.departure()?;
        let (mut address, mut size) = (address, size);
        let mut writes = Vec::new();
        for _ in 0..depth.max(1) {
            let Some(found) = self.find(&position, Quarry::Write { address, size })? else { break };
            writes.push(self.describe_write(&found, address, size)?);
            if found.pause.is_none() {
                break;
            }
            // Standing right before the write: where did the value come from?
            let Some(position_before) = self.process.known_position() else { break };
            let Some(source) = self.memory_source(&position_before, size)? else { break };
            (position, address, size) = source;
        }
        Ok(writes)
    }
}

/// File, line, function.
type LineKey = (Option<std::sync::Arc<str>>, u32, Option<u64>);

/// Why a travel did not arrive.
enum Halted {
    Interrupted,
    Failed(DebugError),
}

impl From<DebugError> for Halted {
    fn from(error: DebugError) -> Self {
        Self::Failed(error)
    }
}

impl From<TraceError> for Halted {
    fn from(error: TraceError) -> Self {
        Self::Failed(system(error))
    }
}

impl From<ReplayError> for Halted {
    fn from(error: ReplayError) -> Self {
        match error {
            ReplayError::Interrupted => Self::Interrupted,
            ReplayError::Trace(error) => error.into(),
            ReplayError::Diverged(reason) => system(TraceError::Diverged(reason)).into(),
        }
    }
}

impl TimeTravel for Session {
    fn recording(&self) -> Recording {
        let reason = self
            .unrecorded
            .clone()
            .or_else(|| self.process.recorder().and_then(|recorder| recorder.why_ended().map(str::to_owned)));
        let moment = |label: &Label| Moment(Position { anchor: label.clone(), steps: 0 }.to_string());
        let recorder = self.process.recorder();
        Recording {
            active: recorder.is_some_and(|recorder| recorder.is_active()) && reason.is_none(),
            reason,
            start: recorder.and_then(|recorder| recorder.timeline.first().map(moment)),
            end: recorder.and_then(|recorder| match recorder.timeline.frontier() {
                Some(position) => Some(Moment(position.to_string())),
                None => recorder.timeline.last().map(moment),
            }),
            events: recorder.map_or(0, |recorder| recorder.log.len()),
            checkpoints: recorder.map_or(0, |recorder| recorder.timeline.len() as u64),
            bytes: recorder.map_or(0, |recorder| recorder.log.bytes()),
            capabilities: crate::record::capabilities(),
        }
    }

    fn now(&self) -> Option<When> {
        if self.unrecorded.is_some() {
            return None;
        }
        let position = self.process.known_position()?;
        let snapshot = self
            .process
            .recorder()
            .and_then(|recorder| recorder.timeline.get(&position.anchor))
            .map(|a| a.number);
        Some(When { moment: Moment(position.to_string()), in_past: self.process.is_in_past(), snapshot })
    }

    fn last_write(&mut self, watched: &Watched, depth: u32) -> Result<Vec<MemoryWrite>, DebugError> {
        let (address, size) = self.place_of(watched)?;
        let origin = self.process.position();
        self.process.depart();
        let result = self.writes_before(address, size, depth);
        // Looking does not move.
        match origin {
            Ok(Some(origin)) => drop(self.land(&origin)),
            _ => {
                self.process.go_live();
                let _ = self.after_travel();
            }
        }
        self.process.arrive();
        result.map_err(|halted| match halted {
            Halted::Interrupted => {
                DebugError::GivenUp("go back by `debugger/reverse_continue` first, then ask again".into())
            }
            Halted::Failed(error) => error,
        })
    }

    fn timeline(&mut self, query: &TimelineQuery) -> TimelinePage {
        let mut all = self.happenings.clone();
        if let Some(recorder) = self.process.recorder() {
            for (index, event) in recorder.log.range(0, recorder.log.len()) {
                if let Some((kind, what)) = happening(event) {
                    let moment = Position { anchor: Label::after_events(index + 1), steps: 0 };
                    all.push(Happening { moment: Moment(moment.to_string()), kind, what, location: None });
                }
            }
        }
        all.sort_by(|left, right| left.moment.cmp(&right.moment));
        all.retain(|happening| {
            query.since.as_ref().is_none_or(|since| happening.moment >= *since)
                && query.until.as_ref().is_none_or(|until| happening.moment <= *until)
                && (query.kinds.is_empty() || query.kinds.contains(&happening.kind))
        });
        let total = all.len();
        let happenings = all.into_iter().skip(query.offset).take(query.limit).collect();
        TimelinePage { happenings, total }
    }

    fn export(
        &mut self,
        request: &TraceRequest,
        sink: &mut dyn io::Write,
        progress: &dyn Progress,
    ) -> Result<u64, DebugError> {
        self.history()?;
        let failed = |error: io::Error| match error.kind() {
            io::ErrorKind::Interrupted => {
                DebugError::GivenUp("ask for a part of it, by `start_snapshot` and `end_snapshot`".into())
            }
            _ => DebugError::System(format!("cannot write the trace: {error}")),
        };
        let all = TimelineQuery { limit: usize::MAX, ..TimelineQuery::default() };
        let happenings = self.timeline(&all).happenings;
        let head = TraceHead {
            made_by: concat!("hindcast-native ", env!("CARGO_PKG_VERSION")).into(),
            made_at: jiff::Timestamp::now(),
            machine: format!("{} {}", std::env::consts::OS, std::env::consts::ARCH),
            target: self.target.clone(),
            recording: self.recording(),
            start_snapshot: request.start_snapshot,
            end_snapshot: request.end_snapshot,
        };
        let mut writer = TraceWriter::begin(request.format, sink, &head, &happenings).map_err(failed)?;
        let recorder = self.process.recorder().ok_or(DebugError::Ended)?;
        let thread = super::movement::thread_id(self.process.pid());
        let mut written = 0;
        let part = (request.start_snapshot, request.end_snapshot);
        crate::record::export(recorder, thread, part, &mut |event, total| {
            if progress.cancelled() {
                return Err(io::ErrorKind::Interrupted.into());
            }
            if written % TELL_EVERY == 0 {
                progress.report(written, Some(total), "events written");
            }
            written += 1;
            writer.event(&event)
        })
        .map_err(failed)?;
        writer.finish().map_err(failed)
    }
}

/// What an event is to the user, if it is anything.
fn happening(event: &Event) -> Option<(HappeningKind, String)> {
    match event {
        Event::Call(call) if call.number == libc::SYS_write && matches!(call.arguments[0], 1 | 2) => {
            let stream = if call.arguments[0] == 1 { "stdout" } else { "stderr" };
            Some((HappeningKind::Output, format!("{} bytes to {stream}", call.result)))
        }
        Event::Signal { number } => Some((HappeningKind::Signal, super::signals::name(*number))),
        Event::Barrier { number, .. } if *number == libc::SYS_execve || *number == libc::SYS_execveat => {
            Some((HappeningKind::Exec, "another program".into()))
        }
        Event::Call(call) if call.result > 0 && matches!(call.number, libc::SYS_clone | libc::SYS_fork) => {
            Some((HappeningKind::Fork, format!("process {}", call.result)))
        }
        Event::Barrier { number: libc::SYS_vfork | libc::SYS_clone3 | libc::SYS_clone, result, .. }
            if *result > 0 =>
        {
            Some((HappeningKind::Fork, format!("process {result}")))
        }
        _ => None,
    }
}
