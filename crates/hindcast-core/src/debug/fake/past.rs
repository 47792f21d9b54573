//! The fake's recording. A script is easily read backwards: a moment is the number of a step.

use std::{io::Write, time::Duration};

use super::{
    super::{
        Capability, DebugError, Destination, Finding, Granularity, Happening, HappeningKind, MemoryWrite,
        Moment, Movement, Outcome, Question, RaisedException, Reason, Recording, Remedy, Stop, StopReason,
        TimeTravel, TimelinePage, TimelineQuery, TraceEvent, TraceHead, TraceRequest, TraceWriter, Variable,
        Watched, When, Writer,
    },
    FakeAct,
    backend::{FakeBackend, MAIN, address_of},
};
use crate::progress::Progress;

/// A checkpoint is made before every so many steps.
const STEPS_A_SNAPSHOT: usize = 2;

/// What happened, and where the program really is while the session stands in its past.
#[derive(Default)]
pub(super) struct Recorder {
    happenings: Vec<Happening>,
    present: Option<Present>,
    /// Why the program really stands still.
    last_stop: Option<Stop>,
}

struct Present {
    at: usize,
    raised: bool,
    ended: bool,
}

impl FakeBackend {
    pub(super) fn is_in_past(&self) -> bool {
        self.recorder.as_ref().is_some_and(|recorder| recorder.present.is_some())
    }

    /// The step that the session looks at; one behind the last where the program has ended.
    fn position(&self) -> usize {
        self.at + usize::from(self.ended)
    }

    /// The step where the program really is.
    fn furthest(&self) -> usize {
        let present = self.recorder.as_ref().and_then(|recorder| recorder.present.as_ref());
        present.map_or_else(|| self.position(), |present| present.at + usize::from(present.ended))
    }

    pub(super) fn note(&mut self, kind: HappeningKind, what: String) {
        let location = Some(self.location(self.at));
        let happening = Happening { moment: moment(self.at), kind, what, location, thread: None };
        if let Some(recorder) = &mut self.recorder {
            recorder.happenings.push(happening);
        }
    }

    /// Remembers where the program really stands.
    pub(super) fn note_stop(&mut self, stop: &Stop) {
        if self.is_in_past() {
            return;
        }
        let noted = match (stop.reason, &stop.signal) {
            (StopReason::Breakpoint, _) => {
                Some((HappeningKind::Breakpoint, format!("breakpoint {}", stop.breakpoints[0])))
            }
            (StopReason::Signal, Some(signal)) => Some((HappeningKind::Signal, signal.name.clone())),
            (StopReason::Present | StopReason::Goto, _) => None,
            (reason, _) => Some((HappeningKind::Stop, format!("{reason:?}").to_lowercase())),
        };
        if let Some((kind, what)) = noted {
            self.note(kind, what);
        }
        if let Some(recorder) = &mut self.recorder {
            recorder.last_stop = Some(stop.clone());
        }
    }

    /// Executes the current step of the past, which changes nothing. `Some` at a stop.
    pub(super) fn see_again(&mut self) -> Option<Stop> {
        if let Some(stop) = self.trouble_at(self.at).filter(|_| !self.raised) {
            self.raised = true;
            return Some(stop);
        }
        self.at += 1;
        self.raised = false;
        if self.at >= self.furthest() {
            return Some(self.return_to_present());
        }
        let hit = self.breakpoints.hit_again(self.at, self.step());
        let stop = Stop { breakpoints: hit, ..Self::stop(StopReason::Breakpoint) };
        Some(stop).filter(|stop| !stop.breakpoints.is_empty())
    }

    /// The signal or exception that a step raises.
    fn trouble_at(&self, at: usize) -> Option<Stop> {
        match &self.program.steps[at].act {
            FakeAct::Raise(signal) => {
                Some(Stop { signal: Some(signal.clone()), ..Self::stop(StopReason::Signal) })
            }
            FakeAct::Panic(message) => {
                let exception = RaisedException {
                    exception_type: "rust:panic".into(),
                    message: Some(message.clone()),
                    unhandled: true,
                    ..RaisedException::default()
                };
                Some(Stop { exception: Some(exception), ..Self::stop(StopReason::Exception) })
            }
            _ => None,
        }
    }

    fn stand_at(&mut self, at: usize) {
        let present = Present { at: self.at, raised: self.raised, ended: self.ended };
        if let Some(recorder) = &mut self.recorder {
            recorder.present.get_or_insert(present);
        }
        (self.at, self.raised, self.ended) = (at, false, false);
    }

    fn return_to_present(&mut self) -> Stop {
        let recorder = self.recorder.as_mut();
        let (present, stop) =
            recorder.map_or((None, None), |recorder| (recorder.present.take(), recorder.last_stop.clone()));
        if let Some(present) = present {
            (self.at, self.raised, self.ended) = (present.at, present.raised, present.ended);
        }
        let stop = stop.unwrap_or_else(|| Self::stop(StopReason::Present));
        let reason = if self.ended { StopReason::Exit } else { StopReason::Present };
        Stop { reason, breakpoints: Vec::new(), ..stop }
    }

    pub(super) fn go_back(&mut self, movement: &Movement) -> Result<Outcome, DebugError> {
        if self.recorder.is_none() {
            return Err(DebugError::NoHistory(
                Reason::new("this session is not recorded").advise("launch it with `record`"),
            ));
        }
        match movement {
            Movement::StepBack { thread, .. } if *thread != MAIN => Err(DebugError::NoSuchThread(*thread)),
            Movement::StepBack { granularity, count, .. } => {
                let mut stop = Self::stop(StopReason::Step);
                for _ in 0..*count {
                    stop = self.step_back(*granularity);
                    if stop.reason != StopReason::Step {
                        break;
                    }
                }
                Ok(Outcome::Stopped(stop))
            }
            Movement::ReverseContinue => Ok(self.reverse_continue()),
            Movement::Goto(destination) => self.go_to(destination).map(Outcome::Stopped),
            _ => Err(DebugError::System("this does not go back".into())),
        }
    }

    fn step_back(&mut self, granularity: Granularity) -> Stop {
        let depth = |at: usize| self.program.steps[at].callers.len();
        let from = depth(self.at);
        let arrives = |at: &usize| match granularity {
            Granularity::Instruction | Granularity::Line => true,
            Granularity::Over => depth(*at) <= from,
            Granularity::Out => depth(*at) < from,
        };
        match (0..self.position()).rev().find(arrives) {
            Some(at) => {
                self.stand_at(at);
                Self::stop(StopReason::Step)
            }
            None => self.at_start(),
        }
    }

    fn at_start(&mut self) -> Stop {
        self.stand_at(0);
        let detail = Some("nothing is recorded before this".into());
        Stop { detail, ..Self::stop(StopReason::HistoryStart) }
    }

    fn reverse_continue(&mut self) -> Outcome {
        for at in (0..self.position()).rev() {
            if matches!(self.program.steps[at].act, FakeAct::SlowToReplay)
                && self.bell.wait(Duration::from_secs(60))
            {
                return Outcome::Interrupted;
            }
            let breakpoints = self.breakpoints.hit_again(at, &self.program.steps[at]);
            if !breakpoints.is_empty() {
                self.stand_at(at);
                return Outcome::Stopped(Stop { breakpoints, ..Self::stop(StopReason::Breakpoint) });
            }
            if let Some(stop) = self.trouble_at(at) {
                self.stand_at(at);
                self.raised = true;
                return Outcome::Stopped(stop);
            }
        }
        Outcome::Stopped(self.at_start())
    }

    fn go_to(&mut self, destination: &Destination) -> Result<Stop, DebugError> {
        let end = self.furthest();
        let at = match destination {
            Destination::Start => 0,
            Destination::Present => end,
            Destination::Percent(percent) => end * usize::from(*percent) / 100,
            Destination::Moment(moment) => {
                moment.0.parse().ok().filter(|at| *at <= end).ok_or_else(|| {
                    let what = format!("there is no moment `{moment}` in this recording");
                    DebugError::NoHistory(Reason::new(what).remedy(Remedy::ListMoments))
                })?
            }
        };
        if at == end {
            return Ok(self.return_to_present());
        }
        self.stand_at(at);
        Ok(Self::stop(StopReason::Goto))
    }

    /// The value that is watched, as it was before a step was executed.
    fn value_at(&self, at: usize, watched: &Watched) -> Option<&Variable> {
        let locals = &self.program.steps[at].locals;
        match watched {
            Watched::Expression { text, .. } => locals.iter().find(|local| local.name == *text),
            Watched::Memory { address, .. } => locals.iter().find(|local| local.address == Some(*address)),
        }
    }

    /// The last write that is to be seen before or at a step.
    fn write_before(&self, at: usize, watched: &Watched) -> Option<(usize, MemoryWrite)> {
        let seen: Vec<_> = (0..=at).filter_map(|at| Some((at, &self.value_at(at, watched)?.value))).collect();
        let (old, new) =
            seen.windows(2).rev().find_map(|two| (two[0].1 != two[1].1).then_some((two[0], two[1])))?;
        let writer = new.0 - 1;
        let write = MemoryWrite {
            moment: moment(new.0),
            thread: MAIN,
            location: self.location(writer),
            old: old.1.clone(),
            new: new.1.clone(),
            stack: self.stack_at(writer),
            by: Writer::Program,
            from: self.program.steps[writer].computes_from.clone(),
        };
        Some((writer, write))
    }
}

fn moment(at: usize) -> Moment {
    Moment(format!("{at:06}"))
}

impl TimeTravel for FakeBackend {
    fn recording(&mut self) -> Result<Recording, DebugError> {
        let recorded = self.recorder.is_some();
        Ok(Recording {
            active: recorded && !self.ended,
            reason: (!recorded).then(|| "this session is not recorded".into()),
            start: recorded.then(|| moment(0)),
            end: recorded.then(|| moment(self.furthest())),
            events: if recorded { self.furthest() as u64 } else { 0 },
            checkpoints: if recorded { (self.furthest() / STEPS_A_SNAPSHOT + 1) as u64 } else { 0 },
            checkpoints_at: Vec::new(),
            bytes: 0,
            turns: 0,
            capabilities: vec![Capability {
                name: "scripts can be read backwards".into(),
                works: true,
                note: None,
                remedy: None,
            }],
        })
    }

    fn now(&mut self) -> Result<Option<When>, DebugError> {
        if self.recorder.is_none() {
            return Ok(None);
        }
        let position = self.position();
        let in_past = self.is_in_past();
        let snapshot = in_past.then_some((position / STEPS_A_SNAPSHOT) as u64);
        Ok(Some(When { moment: moment(position), in_past, snapshot }))
    }

    /// As one that would take very long.
    fn prepare(&mut self) -> Result<bool, DebugError> {
        Ok(!self.bell.wait(Duration::from_secs(600)))
    }

    fn ask(&mut self, question: &Question) -> Result<Finding, DebugError> {
        let Question::LastWrite { watched, depth } = question else {
            return Err(DebugError::Unsupported("this fake knows only of last writes".into()));
        };
        if self.bell.wait(Duration::ZERO) {
            return Err(DebugError::GivenUp(Remedy::advice("ask again")));
        }
        let mut at = self.at;
        if self.value_at(at, watched).is_none() {
            return Err(DebugError::Expression(
                Reason::new("there is no such value here").advise("name a local"),
            ));
        }
        let (mut writes, mut watched) = (Vec::new(), watched.clone());
        while (writes.len() as u64) < u64::from(*depth) {
            let Some((writer, write)) = self.write_before(at, &watched) else { break };
            let from = write.from.clone();
            writes.push(write);
            let Some(text) = from else { break };
            watched = Watched::Expression { text, frame: super::super::FrameRef::of(MAIN, 0) };
            at = writer;
        }
        Ok(Finding::LastWrite(writes))
    }

    fn timeline(&mut self, query: &TimelineQuery) -> Result<TimelinePage, DebugError> {
        let wanted = |happening: &&Happening| {
            query.since.as_ref().is_none_or(|since| happening.moment >= *since)
                && query.until.as_ref().is_none_or(|until| happening.moment <= *until)
                && (query.kinds.is_empty() || query.kinds.contains(&happening.kind))
        };
        let all = self.recorder.as_ref().map(|recorder| &*recorder.happenings).unwrap_or_default();
        let fitting: Vec<_> = all.iter().filter(wanted).collect();
        let page = fitting.iter().skip(query.offset).take(query.limit);
        Ok(TimelinePage { happenings: page.map(|one| (*one).clone()).collect(), total: fitting.len() })
    }

    fn export(
        &mut self,
        request: &TraceRequest,
        sink: &mut dyn Write,
        progress: &dyn Progress,
    ) -> Result<u64, DebugError> {
        let last = self.furthest() / STEPS_A_SNAPSHOT;
        let snapshot = |named: Option<u64>, usual: usize| {
            let named = named.map_or(Some(usual), |named| usize::try_from(named).ok());
            named.filter(|named| *named <= last).ok_or_else(|| {
                let reason = Reason::new("there is no such snapshot");
                DebugError::NoHistory(reason.advise(format!("they go from 0 to {last}")))
            })
        };
        let from = snapshot(request.start_snapshot, 0)? * STEPS_A_SNAPSHOT;
        let to = ((snapshot(request.end_snapshot, last)? + 1) * STEPS_A_SNAPSHOT).min(self.furthest());
        let head = TraceHead {
            made_by: "fake 1".into(),
            made_at: self.target.since,
            machine: "no machine".into(),
            target: self.target.clone(),
            recording: self.recording()?,
            start_snapshot: request.start_snapshot,
            end_snapshot: request.end_snapshot,
        };
        let happenings: Vec<_> = self.recorder.as_ref().map(|one| one.happenings.clone()).unwrap_or_default();
        let failed = |error: std::io::Error| DebugError::System(error.to_string().into());
        let mut writer = TraceWriter::begin(request.format, sink, &head, &happenings).map_err(failed)?;
        for at in from..to {
            if progress.cancelled() {
                return Err(DebugError::GivenUp(Remedy::advice("export a smaller part")));
            }
            progress.report((at - from) as u64, Some((to - from) as u64), "events written");
            let what = format!("step at {}", address_of(at));
            let event = TraceEvent { moment: moment(at), thread: MAIN, kind: "step".into(), what };
            writer.event(&event).map_err(failed)?;
        }
        writer.finish().map_err(failed)
    }
}
