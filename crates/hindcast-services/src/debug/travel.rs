//! The past of a session: going there by steps, asking about it, writing it out.

use std::{
    io::{self, BufWriter, Write},
    sync::Arc,
};

use hindcast_core::{
    debug::{
        Granularity, Location, Moment, Movement, Recording, ThreadId, TimelinePage, TimelineQuery,
        TraceFormat, TraceRequest, When, Writer,
    },
    progress::{Progress, Unwatched},
};
use schemars::JsonSchema;
use serde::Serialize;
use tokio::{sync::oneshot, time::Instant};

use super::{
    NewFile, failures,
    secrets::Mask,
    session::{ANSWER_WITHIN, LOOK_AGAIN, Patience, Session},
    viewport::{FrameView, State, Viewport},
    worker::{Command, Core, Need},
};
use crate::{Failure, FailureKind};

/// A write to memory, found in the past.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct FoundWrite {
    /// Right after it; go there with `debugger/goto`.
    pub moment: Moment,
    /// Who.
    pub thread_id: ThreadId,
    /// The instruction, or the system call, that wrote.
    pub location: Location,
    /// Its source line.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub text: Option<String>,
    /// What was there before.
    pub old: String,
    /// What was there after.
    pub new: String,
    /// Who called it, innermost first.
    pub stack: Vec<FrameView>,
    /// The program itself, or the system on its behalf.
    pub by: Writer,
    /// What the value was computed from: what the next write is about.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub from: Option<String>,
}

/// What happened, and where in it the session stands.
#[derive(Debug, Clone)]
pub struct Timeline {
    /// Some of what happened.
    pub page: TimelinePage,
    /// What is recorded.
    pub recording: Recording,
    /// Where the session stands.
    pub when: Option<When>,
}

/// Where a trace goes.
#[derive(Debug)]
pub enum ExportTo {
    /// Into the answer, unless it is longer than this.
    Memory {
        /// In bytes.
        limit: usize,
    },
    /// Into a file that is not there yet, as [`DebugService::new_file`](super::DebugService::new_file)
    /// names it.
    File(NewFile),
}

/// A trace that was written.
#[derive(Debug)]
pub struct Exported {
    /// How many events it has.
    pub events: u64,
    /// How long it is.
    pub bytes: u64,
    /// The trace itself, unless it went into a file.
    pub content: Option<Vec<u8>>,
}

/// From the end of a program it is not far to its last moment.
const BEFORE_END_MS: u64 = 30_000;

impl Session {
    /// Goes back by steps of a thread; of the current one where none is named.
    pub async fn step_back(
        &self,
        thread: Option<ThreadId>,
        granularity: Granularity,
        count: u32,
        patience: &Patience,
    ) -> Result<Viewport, Failure> {
        let thread = self.thread(thread)?;
        self.travel(Movement::StepBack { thread, granularity, count }, patience).await
    }

    /// Goes to the last moment of a program that has ended, if that was recorded: there it can be looked at, and have
    /// breakpoints for the way back. Says whether it went.
    pub async fn go_before_end(&self) -> Result<bool, Failure> {
        let ended = {
            let standing = self.standing.borrow();
            standing.state == State::Exited && standing.fault.is_none() && standing.has_history()
        };
        if ended {
            let patience = Patience::new(BEFORE_END_MS, Arc::new(Unwatched));
            self.step_back(None, Granularity::Instruction, 1, &patience).await?;
        }
        Ok(ended)
    }

    /// What happened, without secrets.
    pub async fn timeline(&self, query: TimelineQuery) -> Result<Timeline, Failure> {
        self.ask(Need::Session, move |core| {
            let mask = core.mask;
            let past = core.history()?;
            let mut page = past.timeline(&query)?;
            page.happenings.iter_mut().for_each(|happening| mask.string(&mut happening.what));
            Ok(Timeline { page, recording: past.recording()?, when: past.now()? })
        })
        .await
    }

    /// Writes the recording out. Secrets are taken out of text and JSON; a binary trace has memory as it
    /// was.
    pub async fn export(
        &self,
        request: TraceRequest,
        to: ExportTo,
        patience: &Patience,
    ) -> Result<Exported, Failure> {
        let until = Instant::now() + patience.timeout;
        let progress = Deadline { progress: patience.progress.clone(), until };
        self.ask_for_long(Need::Session, patience, move |core| match to {
            ExportTo::Memory { limit } => export_to_memory(core, &request, limit, &progress),
            ExportTo::File(file) => export_to_file(core, &request, &file, &progress),
        })
        .await
    }

    /// As [`ask`](Self::ask), for what may take as long as the caller has patience. Then it is told to
    /// give up, and nothing of it is left.
    async fn ask_for_long<T: Send + 'static>(
        &self,
        need: Need,
        patience: &Patience,
        work: impl FnOnce(&mut Core) -> Result<T, Failure> + Send + 'static,
    ) -> Result<T, Failure> {
        self.check(need)?;
        let (reply, mut answer) = oneshot::channel();
        let work = Box::new(move |core: Result<&mut Core, Failure>| drop(reply.send(core.and_then(work))));
        self.send(Command::Ask { need, work })?;
        let enough = Instant::now() + patience.timeout;
        self.ring();
        // Which ends the work by itself where the caller has had enough; it is answered soon after.
        while Instant::now() < enough && !patience.progress.cancelled() {
            match tokio::time::timeout(LOOK_AGAIN, &mut answer).await {
                Ok(Ok(answer)) => return answer,
                Ok(Err(_)) => return Err(self.why_ended()),
                Err(_) => {}
            }
        }
        match tokio::time::timeout(ANSWER_WITHIN, answer).await {
            Ok(Ok(answer)) => answer,
            Ok(Err(_)) => Err(self.why_ended()),
            Err(_) => Err(failures::no_answer()),
        }
    }
}

/// The caller's progress, which ends when the caller's patience does.
struct Deadline {
    progress: Arc<dyn Progress>,
    until: Instant,
}

impl Progress for Deadline {
    fn report(&self, done: u64, total: Option<u64>, message: &str) {
        self.progress.report(done, total, message);
    }

    fn cancelled(&self) -> bool {
        self.progress.cancelled() || Instant::now() >= self.until
    }
}

fn export_to_memory(
    core: &mut Core,
    request: &TraceRequest,
    limit: usize,
    progress: &Deadline,
) -> Result<Exported, Failure> {
    let mut sink = Bounded { bytes: Vec::new(), limit, overrun: false };
    let events = write_out(core, request, &mut sink, progress);
    if sink.overrun {
        let details = format!("the trace is longer than the {limit} bytes that an answer may have");
        return Err(Failure::new(FailureKind::InvalidInput, details)
            .hint("give a `path` to write it to, or a part by `start_snapshot` and `end_snapshot`"));
    }
    Ok(Exported { events: events?, bytes: sink.bytes.len() as u64, content: Some(sink.bytes) })
}

fn export_to_file(
    core: &mut Core,
    request: &TraceRequest,
    to: &NewFile,
    progress: &Deadline,
) -> Result<Exported, Failure> {
    let cannot = |error: io::Error| {
        Failure::new(FailureKind::InvalidInput, format!("cannot write `{}`: {error}", to.path().display()))
            .hint("name a new file in a folder that the server may write to")
    };
    // Before there is a file that would have to go again.
    core.history()?;
    let mut file = BufWriter::new(to.create().map_err(cannot)?);
    let written = write_out(core, request, &mut file, progress)
        .and_then(|events| file.flush().map(|()| events).map_err(cannot));
    // Not written again when it is dropped: it may be too long.
    let (mut file, _) = file.into_parts();
    match written {
        Ok(events) => Ok(Exported { events, bytes: file.written(), content: None }),
        Err(failure) => {
            // Half a trace is of no use to anybody.
            if let Err(error) = std::fs::remove_file(to.path()) {
                tracing::warn!(%error, "half a trace was left in {}", to.path().display());
            }
            Err(file.take_refusal().unwrap_or(failure))
        }
    }
}

fn write_out(
    core: &mut Core,
    request: &TraceRequest,
    sink: &mut dyn Write,
    progress: &Deadline,
) -> Result<u64, Failure> {
    let mask = core.mask;
    let past = core.history()?;
    if request.format == TraceFormat::Binary {
        return Ok(past.export(request, sink, progress)?);
    }
    let mut lines = MaskedLines { sink, mask, line: Vec::new() };
    let events = past.export(request, &mut lines, progress)?;
    lines.finish().map_err(|error| Failure::new(FailureKind::Internal, error.to_string()))?;
    Ok(events)
}

/// Takes secrets out line by line.
struct MaskedLines<'a> {
    sink: &'a mut dyn Write,
    mask: Mask,
    line: Vec<u8>,
}

impl MaskedLines<'_> {
    fn put_line(&mut self) -> io::Result<()> {
        let line = std::mem::take(&mut self.line);
        self.sink.write_all(self.mask.text(&String::from_utf8_lossy(&line)).as_bytes())
    }

    fn finish(mut self) -> io::Result<()> {
        self.put_line()?;
        self.sink.flush()
    }
}

impl Write for MaskedLines<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        for part in bytes.split_inclusive(|byte| *byte == b'\n') {
            self.line.extend_from_slice(part);
            if part.ends_with(b"\n") {
                self.put_line()?;
            }
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.sink.flush()
    }
}

/// Memory that does not grow beyond a limit.
struct Bounded {
    bytes: Vec<u8>,
    limit: usize,
    overrun: bool,
}

impl Write for Bounded {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.bytes.len() + bytes.len() > self.limit {
            self.overrun = true;
            return Err(io::Error::other("the trace is too long"));
        }
        self.bytes.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
