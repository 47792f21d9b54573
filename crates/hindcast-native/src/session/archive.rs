//! A recording that is written to a file, and a session with one that was.

use std::{io, sync::Arc};

use hindcast_core::{
    debug::{
        DebugError, HowBegun, OutputLog, Reason, Remedy, Stop, StopAtEntry, TimeTravel as _, TimelineQuery,
        TraceFileRequest, TraceFormat, TraceHead, TraceRequest, TraceWriter,
    },
    progress::Progress,
};

use super::{Session, movement::Begun, system, travel::function_around};
use crate::{
    archive::{self, ArchiveError, Opened, Part, Tale},
    debuggee::{Debuggee, Finished},
    process::Process,
    replay::{Context, Position, ReplayError},
    sys::Tid,
};

/// Progress of an export is told so often, in events.
const TELL_EVERY: u64 = 4096;

impl Session {
    /// Opens a recording that was written to a file. It stands where the recording ends.
    pub(crate) fn open_trace(request: &TraceFileRequest) -> Result<Self, DebugError> {
        let shown = request.trace.display();
        let failed = |error: ArchiveError| {
            let what = format!("cannot open the recording `{shown}`: {error}");
            DebugError::BadFile(Reason { what, remedies: error.remedy().into_iter().collect() })
        };
        let opened = archive::open(&request.trace).map_err(failed)?;
        let Opened { trace, tale, mut recorder, present } = opened;
        let asked = std::sync::atomic::AtomicBool::new(false);
        let last = {
            let last = recorder.timeline.last().cloned().map(|anchor| Position { anchor, steps: 0 });
            let position = present.or(last).ok_or(DebugError::Ended)?;
            let mut context = Context {
                log: &recorder.log,
                timeline: &mut recorder.timeline,
                functions: &|_| None,
                asked: &asked,
                deaf_until: None,
            };
            let replica = context.replica_of(&position, &mut None).map_err(|error| match error {
                ReplayError::Trace(error) => system(error),
                error => failed(ArchiveError::Start(error.to_string())),
            })?;
            replica.frozen
        };
        let finished = Finished {
            process: tale.process.map_or_else(|| last.cast().acting(), Tid),
            cast: last.cast().clone(),
            names: tale.names.clone(),
        };
        let process = match tale.ended() {
            Some(ended) => Process::recorded_to_its_end(last, recorder, ended),
            None => Process::recorded(last, recorder),
        };
        let process = Debuggee::recorded(process.map_err(system)?, finished);
        let output = Arc::new(OutputLog::new(0));
        let mut session = Self::new(process, HowBegun::Trace, output, None, StopAtEntry::No)?;
        let recorded = trace.head.target;
        session.target.name = recorded.name;
        session.target.executable = recorded.executable;
        session.target.args = recorded.args;
        session.target.cwd = recorded.cwd;
        session.unrecorded = None;
        session.happenings = tale.happenings;
        // The breakpoints were another session's.
        session.live_stop = tale.stop.map(|stop| Stop { breakpoints: Vec::new(), ..stop });
        Ok(session)
    }

    /// The first stop of a session with a recording: where that ends.
    pub(super) fn end_of_recording(&mut self) -> Begun {
        let current = self.current;
        if let Some(ended) = self.process.ended() {
            return Begun::Stands(self.end_stop(ended));
        }
        let mut stop = self.present();
        if let Some(live) = &self.live_stop {
            stop.reason = live.reason;
        }
        stop.thread = super::movement::thread_id(current);
        Begun::Stands(stop)
    }

    /// Writes the recording out, or a part of it.
    pub(super) fn written_out(
        &mut self,
        request: &TraceRequest,
        sink: &mut dyn io::Write,
        progress: &dyn Progress,
    ) -> Result<u64, DebugError> {
        self.history()?;
        let failed = |error: io::Error| match error.kind() {
            io::ErrorKind::Interrupted => DebugError::GivenUp(Remedy::advice(
                "ask for a part of it, by `start_snapshot` and `end_snapshot`",
            )),
            _ => DebugError::System(format!("cannot write the trace: {error}").into()),
        };
        let is_binary = request.format == TraceFormat::Binary;
        let mut part = Part { start: request.start_snapshot, end: request.end_snapshot, ..Part::default() };
        let tale = if is_binary { self.tale(&mut part)? } else { Tale::default() };
        let all = TimelineQuery { limit: usize::MAX, ..TimelineQuery::default() };
        let happenings = self.timeline(&all)?.happenings;
        let head = TraceHead {
            made_by: concat!("hindcast-native ", env!("CARGO_PKG_VERSION")).into(),
            made_at: jiff::Timestamp::now(),
            machine: archive::machine_name(),
            target: self.target.clone(),
            recording: self.recording()?,
            start_snapshot: request.start_snapshot,
            end_snapshot: request.end_snapshot,
        };
        let mut writer = TraceWriter::begin(request.format, sink, &head, &happenings).map_err(failed)?;
        let recorder = self.process.recorder_mut().ok_or(DebugError::Ended)?;
        let mut written = 0;
        crate::record::export(recorder, part.events(recorder), &mut |event, total| {
            check(progress)?;
            if written % TELL_EVERY == 0 {
                progress.report(written, Some(total), "events written");
            }
            written += 1;
            writer.event(&event)
        })
        .map_err(failed)?;
        if is_binary {
            archive::write(recorder, &part, tale, &mut writer, &mut |done, total| {
                check(progress)?;
                progress.report(done, Some(total), "snapshots written");
                Ok(())
            })
            .map_err(failed)?;
        }
        writer.finish().map_err(failed)
    }

    /// What whoever opens the file has to know beside the recording.
    fn tale(&mut self, part: &mut Part) -> Result<Tale, DebugError> {
        let mut tale = Tale { happenings: self.happenings.clone(), ..Tale::default() };
        // Where the program stands now must have a name.
        if !self.process.is_in_past() {
            let _ = self.process.position();
        }
        tale.process = Some(self.process.pid().0);
        let recorder = self.process.recorder().ok_or(DebugError::Ended)?;
        tale.names.clone_from(recorder.thread_names());
        let living = self.process.threads().into_iter();
        tale.names.extend(living.filter_map(|tid| Some((tid.0, self.process.thread_name(tid)?))));
        tale.reason = recorder.why_incomplete().map(str::to_owned);
        let last = part.last(recorder);
        let frontier = recorder.timeline.frontier().cloned();
        match (last, self.process.live_ended()) {
            (Some(anchor), _) => part.present = Some(Position { anchor, steps: 0 }),
            (None, Some(ended)) => tale.end(ended),
            (None, None) => {
                tale.stop = self.live_stop.clone();
                part.present = match frontier {
                    Some(position) => Some(position),
                    // Behind the end of the history nothing is known of it.
                    None => {
                        tale.stop = None;
                        let symbols = &self.symbols;
                        let functions = |address| function_around(symbols, address);
                        let end = self.process.end_of_history(&functions);
                        end.map_err(|error| DebugError::NoHistory(error.into()))?
                    }
                };
            }
        }
        tale.present = part.present.as_ref().map(ToString::to_string);
        Ok(tale)
    }
}

fn check(progress: &dyn Progress) -> io::Result<()> {
    if progress.cancelled() { Err(io::ErrorKind::Interrupted.into()) } else { Ok(()) }
}
