//! Going back in time, where the engine has recorded it.

use std::{fmt, io, str::FromStr};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{DebugError, Finding, Location, Question, Reason, Stack, ThreadId, Watched};
use crate::progress::Progress;

/// A point in a recording. Its text sorts in the order of time within one recording, and says
/// nothing else to anybody but the engine that made it.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(transparent)]
pub struct Moment(pub String);

impl fmt::Display for Moment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl FromStr for Moment {
    type Err = std::convert::Infallible;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        Ok(Self(text.to_owned()))
    }
}

/// Where in time a session stands.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct When {
    /// This moment.
    pub moment: Moment,
    /// Whether the program really is further on.
    pub in_past: bool,
    /// The checkpoint that this was restored from, when it was.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub snapshot: Option<u64>,
}

/// A movement in time.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Destination {
    /// The first moment of the recording.
    Start,
    /// Where the program really is.
    Present,
    /// This moment.
    Moment(Moment),
    /// So far from the start to the present, from 0 to 100; to the nearest moment that can be told.
    Percent(u8),
}

/// What a session's recording holds.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Recording {
    /// Whether what happens now is being recorded.
    pub active: bool,
    /// Why nothing is recorded, or no longer.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// The first moment one can go to; none where there is no history.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub start: Option<Moment>,
    /// Where the program is, or where the history ends.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub end: Option<Moment>,
    /// System calls, signals and other input that was logged.
    pub events: u64,
    /// Checkpoints that are kept.
    pub checkpoints: u64,
    /// When each of them was taken, in the order of time.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub checkpoints_at: Vec<Moment>,
    /// What the log takes, in memory and on disk.
    pub bytes: u64,
    /// How often another thread took over. Threads of a recorded program run one at a time.
    #[serde(default)]
    pub turns: u64,
    /// What this machine allows, found out by trying.
    pub capabilities: Vec<Capability>,
}

/// Something that a recording needs from the machine.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Capability {
    /// Such as `time stamp counter can be trapped`.
    pub name: String,
    /// Whether it works here.
    pub works: bool,
    /// What is different without it; where it works, what was measured.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub note: Option<String>,
    /// What to do where it does not work.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub remedy: Option<String>,
}

/// Something that happened in a recording.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Happening {
    /// When.
    pub moment: Moment,
    /// What kind of thing.
    pub kind: HappeningKind,
    /// In a few words.
    pub what: String,
    /// Where, for those that have a place.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub location: Option<Location>,
    /// The thread that did it, where it is one's doing; of a switch the one that takes over.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub thread: Option<ThreadId>,
}

/// The kinds of [`Happening`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum HappeningKind {
    /// The program stopped.
    Stop,
    /// It printed.
    Output,
    /// It got a signal.
    Signal,
    /// A breakpoint was hit.
    Breakpoint,
    /// A tracepoint was hit.
    Tracepoint,
    /// It became another program.
    Exec,
    /// It made a process.
    Fork,
    /// A thread began or ended.
    Thread,
    /// Another thread took over; told only where it is asked for.
    Switch,
    /// The recording began or ended.
    Recording,
}

impl HappeningKind {
    /// Every kind, in the order in which they are listed to people.
    pub const ALL: [Self; 10] = [
        Self::Stop,
        Self::Output,
        Self::Signal,
        Self::Breakpoint,
        Self::Tracepoint,
        Self::Exec,
        Self::Fork,
        Self::Thread,
        Self::Switch,
        Self::Recording,
    ];

    /// The name on the wire.
    pub fn name(self) -> &'static str {
        match self {
            Self::Stop => "stop",
            Self::Output => "output",
            Self::Signal => "signal",
            Self::Breakpoint => "breakpoint",
            Self::Tracepoint => "tracepoint",
            Self::Exec => "exec",
            Self::Fork => "fork",
            Self::Thread => "thread",
            Self::Switch => "switch",
            Self::Recording => "recording",
        }
    }
}

/// Which of the [`Happening`]s.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct TimelineQuery {
    /// Not before this.
    pub since: Option<Moment>,
    /// Not after this.
    pub until: Option<Moment>,
    /// Only these kinds; where empty, all but switches of threads.
    pub kinds: Vec<HappeningKind>,
    /// Leaves out so many of the first.
    pub offset: usize,
    /// At most so many.
    pub limit: usize,
}

/// Some of the [`Happening`]s.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct TimelinePage {
    /// In the order of time.
    pub happenings: Vec<Happening>,
    /// How many there are in all.
    pub total: usize,
}

/// A write to memory, found in the past.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct MemoryWrite {
    /// Right after the write.
    pub moment: Moment,
    /// Who.
    pub thread: ThreadId,
    /// The instruction, or the system call, that wrote.
    pub location: Location,
    /// What was there before.
    pub old: String,
    /// What was there after.
    pub new: String,
    /// Who called it.
    pub stack: Stack,
    /// The program itself, or the system on its behalf.
    pub by: Writer,
    /// What the written value was computed from, where that could be told: what the next hop follows.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub from: Option<String>,
}

/// Who wrote.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Writer {
    /// An instruction of the program.
    Program,
    /// A system call, such as `read`.
    Kernel,
}

/// How a recording is written out.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum TraceFormat {
    /// For programs
    #[default]
    Json,
    /// For `hindcast replay`
    Binary,
    /// For people
    Text,
}

/// Which part of a recording to write out, and how.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct TraceRequest {
    /// How.
    pub format: TraceFormat,
    /// From this checkpoint on.
    pub start_snapshot: Option<u64>,
    /// Up to this checkpoint.
    pub end_snapshot: Option<u64>,
}

/// The optional facet of an engine that records. Movements into the past are
/// [`Movement`](super::Movement)s like all others:
///
/// - [`StepBack`](super::Movement::StepBack) ends with `Step`,
///   [`ReverseContinue`](super::Movement::ReverseContinue) with what would have stopped it, both with
///   `HistoryStart` where there is nothing before; [`Goto`](super::Movement::Goto) with `Goto`.
/// - In the past all other movements go forward in the recording, with the breakpoints that there are
///   now, and end at the latest where the program really is: with `Present`, and the signal or exception
///   it stands at; with `Exit` where it has ended.
/// - Nothing is printed a second time, and nothing outside of the program is touched.
/// - A travel that fails leaves the session where it was. One that is interrupted and then paused stands
///   somewhere in the recording.
/// - After the program's end all of this goes on working, until the session ends.
pub trait TimeTravel {
    /// What is recorded.
    fn recording(&mut self) -> Result<Recording, DebugError>;

    /// Begins to record a program that stands still, from here on; or stops that. What was recorded up to there stays
    /// until another recording begins.
    fn record(&mut self, record: bool) -> Result<(), DebugError> {
        let _ = record;
        Err(DebugError::Unsupported(
            Reason::new("this kind of session is not recorded").advise("record a native program"),
        ))
    }

    /// Where in time the session stands; `None` without a history.
    fn now(&mut self) -> Result<Option<When>, DebugError>;

    /// Goes through the past for the answer to a question. Does not move. An [`Interrupt`](super::Interrupt), also one from
    /// before that nothing has ended for yet, makes it give up with [`DebugError::GivenUp`]; the same question again goes on
    /// where it was.
    fn ask(&mut self, question: &Question) -> Result<Finding, DebugError>;

    /// Finds out in advance what a step back needs, while nobody asks for anything. Shows and moves nothing. False where an
    /// [`Interrupt`](super::Interrupt) ended it.
    fn prepare(&mut self) -> Result<bool, DebugError> {
        Ok(true)
    }

    /// Asks [`Question::LastWrite`].
    fn last_write(&mut self, watched: &Watched, depth: u32) -> Result<Vec<MemoryWrite>, DebugError> {
        match self.ask(&Question::LastWrite { watched: watched.clone(), depth })? {
            Finding::LastWrite(writes) => Ok(writes),
            _ => Err(DebugError::System("another question was answered".into())),
        }
    }

    /// What happened.
    fn timeline(&mut self, query: &TimelineQuery) -> Result<TimelinePage, DebugError>;

    /// Writes the recording out with a [`TraceWriter`](super::TraceWriter); returns how many events
    /// were written. Gives up with [`DebugError::GivenUp`] when `progress` is cancelled.
    fn export(
        &mut self,
        request: &TraceRequest,
        sink: &mut dyn io::Write,
        progress: &dyn Progress,
    ) -> Result<u64, DebugError>;
}
