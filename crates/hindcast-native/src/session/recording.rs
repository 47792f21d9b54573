//! What is asked about a recording: who wrote, what happened, all of it.

use std::io;

use hindcast_core::{
    debug::{
        DebugBackend as _, DebugError, Happening, HappeningKind, MemoryWrite, Moment, Recording, TimeTravel,
        TimelinePage, TimelineQuery, TraceRequest, Watched, When, Writer,
    },
    progress::Progress,
};
use hindcast_symbols::Memory as _;
use iced_x86::{Mnemonic, OpKind};

use super::{
    Session, system,
    travel::{Halted, function_around},
};
use crate::{
    debuggee::{Found, Quarry},
    record::{Event, Replay},
    replay::{Label, Position},
};

impl Session {
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
        let stack = self.stack(super::movement::thread_id(tid), 8)?;
        let by = if found.pause.is_some() { Writer::Program } else { Writer::Kernel };
        Ok(MemoryWrite {
            moment: Moment(after.to_string()),
            thread: super::movement::thread_id(tid),
            location,
            old,
            new,
            stack,
            by,
            from: None,
        })
    }

    /// The text that a pointer points to, if it does.
    fn text_behind(&self, bytes: &[u8]) -> Option<String> {
        const LONGEST: usize = 40;
        let address = u64::from_le_bytes(bytes.try_into().ok()?);
        let mut text = [0; LONGEST];
        let count = self.process.memory().read_some(address, &mut text);
        let end = text[..count].iter().position(|&byte| byte == 0).unwrap_or(count);
        let text = std::str::from_utf8(&text[..end]).ok()?;
        (!text.is_empty() && text.chars().all(|letter| !letter.is_control())).then(|| text.to_owned())
    }

    fn bytes_text(&self, address: u64, size: u64) -> String {
        let mut bytes = vec![0; size.min(64) as usize];
        match self.process.memory().read(address, &mut bytes) {
            Ok(()) => match self.text_behind(&bytes) {
                Some(text) => format!("{} {text:?}", super::watch::number(&bytes)),
                None => super::watch::number(&bytes),
            },
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
            if let Some(write) = writes.last_mut() {
                write.from = Some(format!("{size} bytes at {address:#x}"));
            }
        }
        Ok(writes)
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
        self.written_out(request, sink, progress)
    }
}

/// What an event is to the user, if it is anything.
fn happening(event: &Event) -> Option<(HappeningKind, String)> {
    match event {
        Event::Call(call) if call.number == libc::SYS_write && matches!(call.arguments[0], 1 | 2) => {
            let stream = if call.arguments[0] == 1 { "stdout" } else { "stderr" };
            let text = match &call.replay {
                Replay::Emulate(writes) => writes.first().map(|write| String::from_utf8_lossy(&write.bytes)),
                Replay::Real | Replay::Map(_) => None,
            };
            let text = text.unwrap_or_default();
            Some((HappeningKind::Output, format!("{stream}: {}", text.trim_end())))
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
