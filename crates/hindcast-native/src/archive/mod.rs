//! A recording in a file: everything that it takes to go back in it when the program and its recorder are long gone.
//!
//! An engine log of the trace holds, in this order: the processor; what the session knows; the files that were mapped; the
//! events with their data; the checkpoints. A checkpoint is the registers of all threads, and memory as it differs from the one before, and
//! from the files that are mapped. Pages that were never written are not in it.

mod cast;
mod events;
mod files;
mod image;
mod machine;
mod memory;
mod old_events;
mod rebuild;
mod stream;
#[cfg(test)]
mod tests;

use std::{
    collections::{BTreeMap, BTreeSet},
    fs::File,
    io::{self, BufReader},
    path::Path,
};

use hindcast_core::debug::{Happening, Remedy, Stop, Trace, TraceError as BadTrace, TraceWriter};
use serde::{Deserialize, Serialize};

use self::{
    files::{FileList, Files},
    machine::Machine,
    stream::{Sink, Source},
};
pub(crate) use self::{image::Part, machine::machine_name};
use crate::{
    process::Ended,
    record::{Log, Recorder},
    replay::{Position, Timeline},
    sys::TraceError,
};

/// The name of the engine log; its number is raised when an older reader would misunderstand it.
const NAME: &str = "native/3";
/// With the events written in another way; the first of them without threads.
const OLD_NAMES: [&str; 2] = ["native/1", "native/2"];
/// More than a session tells of itself.
const LONGEST_TALE: u64 = 256 << 20;

/// Why a recording cannot be opened.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ArchiveError {
    #[error(transparent)]
    Trace(#[from] BadTrace),
    #[error("it cannot be read: {0}")]
    Unreadable(#[from] io::Error),
    #[error("it only tells what happened, and has nothing to go back to")]
    NothingToReplay,
    #[error("its log is of another version ({0})")]
    OtherVersion(String),
    #[error("it is damaged: {0}")]
    Malformed(&'static str),
    #[error("it was recorded on another kind of processor: {recorded}, and this is {here} ({difference})")]
    OtherProcessor { recorded: String, here: String, difference: &'static str },
    #[error("`{path}` is not what it was when the program was recorded: {change}")]
    OtherFile { path: String, change: String },
    /// Why the log can grow no more.
    #[error("there is no room for its log: {0}")]
    NoRoom(String),
    #[error("the process cannot be made again here: {0}")]
    Rebuild(&'static str),
    #[error("the process cannot be made again here: {0}")]
    Process(#[from] TraceError),
    #[error("the process cannot be made again here: {0}")]
    Start(String),
}

impl ArchiveError {
    /// What to do next.
    pub(crate) fn remedy(&self) -> Option<Remedy> {
        let advice = match self {
            Self::Trace(error) => return Some(error.remedy()),
            Self::Unreadable(_) => return None,
            Self::Rebuild(_) | Self::Process(_) | Self::Start(_) => return Some(Remedy::RunDoctor),
            Self::NothingToReplay => "`hindcast replay --events` lists it",
            Self::OtherVersion(_) => "open it with the hindcast that wrote it",
            Self::NoRoom(_) => "make room there, or let `TMPDIR` name another folder",
            Self::Malformed(_) => "export or copy it again",
            Self::OtherProcessor { .. } => "open it on the machine where it was recorded",
            Self::OtherFile { .. } => "put the old file back, or record the program again",
        };
        Some(Remedy::advice(advice))
    }
}

/// What a session knows of its program, beside the recording.
#[derive(Debug, Default, Serialize, Deserialize)]
pub(crate) struct Tale {
    /// The last moment; none where the program has ended.
    pub(crate) present: Option<String>,
    /// How the program ended.
    pub(crate) exited: Option<i32>,
    pub(crate) killed: Option<i32>,
    /// Why it stopped last.
    pub(crate) stop: Option<Stop>,
    /// What was seen to happen, beside what the log tells.
    pub(crate) happenings: Vec<Happening>,
    /// Why nothing more was recorded.
    pub(crate) reason: Option<String>,
    /// Whether instructions that are never the same twice trap.
    pub(crate) traps: bool,
    /// Where instructions for random numbers gave way to one that traps.
    #[serde(default)]
    pub(crate) random_numbers: BTreeSet<u64>,
    /// The number that the process had.
    #[serde(default)]
    pub(crate) process: Option<i32>,
    /// How threads were called, by their numbers.
    #[serde(default)]
    pub(crate) names: BTreeMap<i32, String>,
}

impl Tale {
    pub(crate) fn ended(&self) -> Option<Ended> {
        self.exited.map(Ended::Exited).or(self.killed.map(Ended::Killed))
    }

    pub(crate) fn end(&mut self, ended: Ended) {
        match ended {
            Ended::Exited(code) => self.exited = Some(code),
            Ended::Killed(signal) => self.killed = Some(signal),
        }
    }
}

/// Writes all that a replay needs.
pub(crate) fn write(
    recorder: &mut Recorder,
    part: &Part,
    mut tale: Tale,
    writer: &mut TraceWriter<'_>,
    tell: &mut dyn FnMut(u64, u64) -> io::Result<()>,
) -> io::Result<()> {
    tale.traps = recorder.traps_instructions();
    tale.random_numbers.clone_from(recorder.random_numbers());
    write_parts(recorder, part, &tale, Sink::new(NAME, writer), events::write, tell)
}

/// Writes the events of a log from one number to another.
type WriteEvents = fn(&Log, (u64, u64), &FileList, &mut Sink<'_, '_>) -> io::Result<()>;

fn write_parts(
    recorder: &mut Recorder,
    part: &Part,
    tale: &Tale,
    mut sink: Sink<'_, '_>,
    write_events: WriteEvents,
    tell: &mut dyn FnMut(u64, u64) -> io::Result<()>,
) -> io::Result<()> {
    let chosen = part.choose(recorder);
    let mut files = FileList::gather(recorder, part, &chosen)?;
    Machine::of_recording(recorder, &chosen)?.write(&mut sink)?;
    sink.block(&serde_json::to_vec(tale)?)?;
    files.write(&mut sink)?;
    write_events(&recorder.log, part.events(recorder), &files, &mut sink)?;
    image::write(recorder, part, chosen, &mut files, &mut sink, tell)?;
    sink.finish()
}

/// A recording that was opened.
pub(crate) struct Opened {
    pub(crate) trace: Trace,
    pub(crate) tale: Tale,
    pub(crate) recorder: Recorder,
    /// The last moment; none where the program has ended.
    pub(crate) present: Option<Position>,
}

/// Opens a recording and makes its checkpoints again, as processes.
pub(crate) fn open(path: &Path) -> Result<Opened, ArchiveError> {
    let file = File::open(path)?;
    if !file.metadata()?.is_file() {
        return Err(BadTrace::NotATrace.into());
    }
    // First as a whole, so that nothing is begun with what is damaged.
    let trace = Trace::read_without_events(BufReader::with_capacity(1 << 20, &file))?;
    let is_old = |engine: &str| OLD_NAMES.contains(&engine);
    let is_known = |engine: &str| engine == NAME || is_old(engine);
    let Some(log) = trace.engine_logs.iter().find(|log| is_known(&log.engine)) else {
        let other = trace.engine_logs.iter().find(|log| log.engine.starts_with("native/"));
        return Err(match other {
            Some(log) => ArchiveError::OtherVersion(log.engine.clone()),
            None => ArchiveError::NothingToReplay,
        });
    };
    let read_events = if is_old(&log.engine) { old_events::read } else { events::read };
    let mut source = Source::new(file.try_clone()?, &log.pieces);
    let machine = Machine::read(&mut source)?;
    machine.check()?;
    let tale: Tale = serde_json::from_slice(&source.block(LONGEST_TALE)?)
        .map_err(|_| ArchiveError::Malformed("what the session knew cannot be read"))?;
    let files = Files::read(&mut source)?;
    let log = read_events(&mut source, &files, &machine)?;
    let mut timeline = Timeline::default();
    rebuild::read(&mut source, &files, &machine, tale.traps, &mut timeline)?;
    let first = timeline.iter().next().map(|(_, anchor)| anchor.frozen.tid());
    let process = first.ok_or(ArchiveError::Malformed("it has no checkpoint"))?;
    let present = match &tale.present {
        None => None,
        Some(text) => {
            let position: Option<Position> = text.parse().ok();
            let known = position.filter(|position| timeline.get(&position.anchor).is_some());
            Some(known.ok_or(ArchiveError::Malformed("its last moment is not in it"))?)
        }
    };
    if present.is_none() && tale.ended().is_none() {
        return Err(ArchiveError::Malformed("it has no end"));
    }
    if let Some(position) = &present {
        timeline.set_frontier(position.clone());
    }
    let mut recorder = Recorder::opened(process, (log, timeline), tale.reason.clone(), tale.traps)?;
    recorder.know_random_numbers(&tale.random_numbers);
    Ok(Opened { trace, tale, recorder, present })
}
