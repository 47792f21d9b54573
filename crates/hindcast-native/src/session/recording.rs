//! What is asked about a recording: what happened, all of it.

use std::io;

use hindcast_core::{
    debug::{
        DebugError, Finding, Happening, HappeningKind, Moment, Question, Recording, Remedy, ThreadId,
        TimeTravel, TimelinePage, TimelineQuery, TraceRequest, When,
    },
    progress::Progress,
};

use super::{
    Session,
    travel::{Halted, function_around},
};
use crate::{
    record::{Call, Event, Log, Replay},
    replay::{Label, Position, ReplayError, Timeline},
    sys::{Tid, signal_name},
};

impl TimeTravel for Session {
    fn recording(&mut self) -> Result<Recording, DebugError> {
        let reason =
            self.unrecorded.clone().or_else(|| self.history_end.clone()).or_else(|| {
                self.process.recorder().and_then(|recorder| recorder.why_ended().map(str::to_owned))
            });
        let moment = |label: &Label| Moment(Position { anchor: label.clone(), steps: 0 }.to_string());
        let recorder = self.process.recorder();
        Ok(Recording {
            active: recorder.is_some_and(|recorder| recorder.is_active()) && reason.is_none(),
            reason,
            start: recorder.and_then(|recorder| recorder.timeline.first().map(moment)),
            end: recorder.and_then(|recorder| {
                Some(Moment(last_moment(&recorder.timeline, &recorder.log)?.to_string()))
            }),
            events: recorder.map_or(0, |recorder| recorder.log.len()),
            checkpoints: recorder.map_or(0, |recorder| recorder.timeline.len() as u64),
            checkpoints_at: recorder
                .map(|recorder| recorder.timeline.iter().map(|(label, _)| moment(label)).collect())
                .unwrap_or_default(),
            bytes: recorder.map_or(0, |recorder| recorder.log.bytes()),
            turns: recorder.map_or(0, |recorder| recorder.log.turns()),
            capabilities: crate::record::capabilities(),
        })
    }

    fn record(&mut self, record: bool) -> Result<(), DebugError> {
        self.recorded(record)
    }

    fn now(&mut self) -> Result<Option<When>, DebugError> {
        if self.unrecorded.is_some() {
            return Ok(None);
        }
        let Some(position) = self.process.known_position() else { return Ok(None) };
        let snapshot = self
            .process
            .recorder()
            .and_then(|recorder| recorder.timeline.get(&position.anchor))
            .map(|a| a.number);
        Ok(Some(When { moment: Moment(position.to_string()), in_past: self.process.is_in_past(), snapshot }))
    }

    fn ask(&mut self, question: &Question) -> Result<Finding, DebugError> {
        let given_up = || {
            DebugError::GivenUp(Remedy::advice("the same question goes on where this one was interrupted"))
        };
        let origin = self.process.position();
        if !self.process.listen(true) {
            return Err(given_up());
        }
        let result = match question {
            Question::LastWrite { watched, depth } => self.writes_of(watched, *depth).map(Finding::LastWrite),
            Question::History(question) => self.chronicle(question).map(Finding::History),
            Question::When(question) => self.inquire(question).map(Finding::When),
            Question::Calls(question) => self.trace_calls(question).map(Finding::Calls),
            Question::WhatIf(question) => self.what_if(question).map(Box::new).map(Finding::WhatIf),
            Question::Way(question) => self.way(question).map(Finding::Way),
        };
        self.process.stop_listening(matches!(result, Err(Halted::Interrupted)));
        // Looking does not move.
        match origin {
            Ok(Some(origin)) => drop(self.land(&origin)),
            _ => {
                self.process.go_live();
                let _ = self.after_travel();
            }
        }
        result.map_err(|halted| match halted {
            Halted::Interrupted => given_up(),
            Halted::Failed(error) => error,
        })
    }

    fn prepare(&mut self) -> Result<bool, DebugError> {
        if self.history().is_err() || self.process.ended().is_some() || self.plan.is_some() {
            return Ok(true);
        }
        let symbols = &self.symbols;
        let prepared = self.process.prepare(&|address| function_around(symbols, address));
        // Who goes back is told why that fails.
        Ok(!matches!(prepared, Err(ReplayError::Interrupted)))
    }

    fn timeline(&mut self, query: &TimelineQuery) -> Result<TimelinePage, DebugError> {
        let mut all = self.happenings.clone();
        if let Some(recorder) = self.process.recorder() {
            let mut acting = recorder.thread_after(0);
            for (index, event) in recorder.log.range(0, recorder.log.len()) {
                let thread = acting;
                acting = event.taker().unwrap_or(acting);
                if let Some((kind, what)) = happening(&event, thread) {
                    let moment =
                        Moment(Position { anchor: Label::after_events(index + 1), steps: 0 }.to_string());
                    let whose = if kind == HappeningKind::Switch { acting } else { thread };
                    let thread = Some(ThreadId(whose.0.unsigned_abs()));
                    all.push(Happening { moment, kind, what, location: None, thread });
                }
            }
        }
        all.sort_by(|left, right| left.moment.cmp(&right.moment));
        all.retain(|happening| {
            query.since.as_ref().is_none_or(|since| happening.moment >= *since)
                && query.until.as_ref().is_none_or(|until| happening.moment <= *until)
                && match query.kinds.as_slice() {
                    [] => happening.kind != HappeningKind::Switch,
                    kinds => kinds.contains(&happening.kind),
                }
        });
        let total = all.len();
        let happenings = all.into_iter().skip(query.offset).take(query.limit).collect();
        Ok(TimelinePage { happenings, total })
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

/// The last moment that has a name. Right behind an event that can be replayed there always is one.
pub(super) fn last_moment(timeline: &Timeline, log: &Log) -> Option<Position> {
    if let Some(frontier) = timeline.frontier() {
        return Some(frontier.clone());
    }
    let last = timeline.last()?.clone();
    let replayed = match log.len().checked_sub(1) {
        Some(index) if log.break_at(index).is_some() => index,
        Some(_) => log.len(),
        None => 0,
    };
    Some(Position { anchor: last.max(Label::after_events(replayed)), steps: 0 })
}

/// What an event of a thread is to the user, if it is anything.
fn happening(event: &Event, thread: Tid) -> Option<(HappeningKind, String)> {
    /// As much is shown of what was printed.
    const SHOWN: usize = 64;
    match event {
        Event::Call(call) if call.number == libc::SYS_write && matches!(call.arguments[0], 1 | 2) => {
            let stream = if call.arguments[0] == 1 { "stdout" } else { "stderr" };
            let text = match &call.replay {
                Replay::Emulate(writes) => writes
                    .first()
                    .map(|write| String::from_utf8_lossy(&write.bytes[..write.bytes.len().min(SHOWN)])),
                Replay::Real | Replay::Map(_) | Replay::Thread(_) => None,
            };
            let text = text.unwrap_or_default();
            Some((HappeningKind::Output, format!("{stream}: {}", text.trim_end())))
        }
        Event::Call(Call { replay: Replay::Thread(made), .. }) => {
            Some((HappeningKind::Thread, format!("thread {} begins", made.tid.0)))
        }
        Event::Left { .. } => Some((HappeningKind::Thread, format!("thread {} ended", thread.0))),
        Event::Turn { to, .. } => Some((HappeningKind::Switch, format!("thread {} runs", to.0))),
        Event::Signal { number, .. } => Some((HappeningKind::Signal, signal_name(*number))),
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
