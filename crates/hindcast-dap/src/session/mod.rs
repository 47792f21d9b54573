//! A session through a debug adapter.
//!
//! One thread owns it. Everything that comes in is looked at where somebody waits for something: answers are kept for
//! whoever asked, events change what is known, requests of the adapter are answered at once. A process that the program
//! starts may have a connection of its own; it belongs to the same session.

mod arguments;
mod ask;
mod assignment;
mod attach;
mod begin;
mod breakpoints;
mod children;
mod end;
mod events;
mod exceptions;
mod forgetting;
mod judge;
mod library;
mod look;
mod movement;
mod others;
mod places;
mod sources;
mod start;
mod tasks;
mod threads;
mod types;
mod values;

use std::{
    collections::{BTreeMap, BTreeSet, HashMap, VecDeque},
    path::PathBuf,
    sync::{Arc, atomic::AtomicBool},
};

use hindcast_core::debug::{
    Breakpoint, BreakpointChange, BreakpointId, CompletionKind, DebugBackend, DebugError, Ending, Evaluation,
    Interrupt, Module, Movement, Outcome, OutputLog, SourceFile, Stack, Stop, StopAtEntry, Target, Thread,
    ThreadId, Trigger, Variable, VariablePage, VariableQuery,
};
use hindcast_streams::{InputRefused, Opened, Pump, Theirs};

use self::{breakpoints::Breakpoints, look::Seen, movement::Plan, sources::Sources, threads::Threads};
use crate::{
    client::{Bell, Client},
    keeper::Kept,
    profile::{Profile, Spelled},
    protocol::{DapModule, Stopped},
    transport::ConnectionId,
};

/// The connection that the session began with.
const ROOT: ConnectionId = ConnectionId(0);

/// A live session.
pub(crate) struct Session {
    target: Target,
    profile: Profile,
    spelled: Spelled,
    client: Client,
    bell: Arc<Bell>,
    adapter: Option<Kept>,
    /// What the adapter printed last, which tells why it ended.
    murmur: Arc<ask::Murmur>,
    /// The address of the adapter, where it has one.
    port: Option<u16>,
    program: Option<Kept>,
    /// Streams that wait for the adapter to ask for a terminal.
    streams: Option<Opened>,
    /// The program's ends of its streams, until an adapter that has them answers.
    theirs: Option<Theirs>,
    /// Whether the adapter has said that it can be connected to.
    is_ready: Arc<AtomicBool>,
    pump: Option<Pump>,
    output: Arc<OutputLog>,
    env: BTreeMap<String, String>,
    cwd: PathBuf,
    /// The request that begins it all, which is answered at some time.
    launch: Option<i64>,
    children: Vec<children::Child>,
    is_adopting: bool,
    /// Children that were not adopted, by what they are.
    refused_children: u32,
    /// Children that an adapter asked for and did not go on with.
    late_children: u32,
    stops: VecDeque<(ConnectionId, Stopped)>,
    /// Which connections stand, and with which thread.
    standing: HashMap<ConnectionId, i64>,
    breakpoints: Breakpoints,
    threads: Threads,
    seen: Seen,
    sources: Sources,
    modules: Vec<DapModule>,
    plan: Plan,
    /// A movement that was interrupted before it began.
    resume_with: Option<Movement>,
    stop_at_entry: StopAtEntry,
    /// The line to stop at first, where the adapter would choose another.
    entry_line: Option<(String, u32)>,
    state: State,
    exit_code: Option<i32>,
    /// What the user should know at the next stop.
    notes: Vec<String>,
    last_stop: Option<Stop>,
    was_attached: bool,
    /// Folders that go with the session.
    scratch: Option<PathBuf>,
    known_children: BTreeSet<u32>,
    /// Processes that were told not to be followed.
    named_others: BTreeSet<u32>,
    /// Whether adapters stop at exceptions that are raised, too.
    raised_is_on: bool,
    /// Whether adapters choose the types of exceptions by themselves.
    adapter_chooses: bool,
    /// The types that types of exceptions are derived from, as far as the program was asked.
    supertypes: HashMap<String, Option<String>>,
    /// The conditions at the lines of files, as connections have them, where they keep what they are no longer told of.
    told_lines: HashMap<(ConnectionId, String), BTreeMap<u32, Option<String>>>,
    /// Where each thread was last told to raise an exception: the name of the file, and the line.
    told_at: HashMap<ThreadId, (String, u32)>,
    /// Whether a function is called for the user, in which nothing is to stop.
    is_calling: bool,
    /// Whether the program was prepared for what will be asked of it.
    is_prepared: bool,
    /// Whether an adapter said which process it is.
    knows_pid: bool,
    /// Whether the program was asked to stop, and has not yet.
    awaits_pause: bool,
    /// Where a program that we started will listen for the adapter.
    awaited_port: Option<u16>,
    /// What the adapter said last, beside the protocol.
    remarks: String,
}

/// How far a session is.
#[derive(Debug, Clone, PartialEq, Eq)]
enum State {
    /// It is told of breakpoints.
    Configuring,
    /// It runs or stands.
    Live,
    /// The program has ended, and that was told if this is true.
    Ended { told: bool },
    /// The adapter is gone without a reason.
    Lost(String),
}

impl DebugBackend for Session {
    fn target(&self) -> &Target {
        &self.target
    }

    fn interrupt(&self) -> Arc<dyn Interrupt> {
        self.bell.clone()
    }

    fn run(&mut self, movement: Movement) -> Result<Outcome, DebugError> {
        self.carry_out(movement)
    }

    fn pause(&mut self) -> Result<Stop, DebugError> {
        self.paused()
    }

    fn ended_meanwhile(&mut self) -> Result<Option<Stop>, DebugError> {
        self.look_for_the_end()
    }

    fn end(&mut self, how: Ending) -> Result<(), DebugError> {
        self.finish(how)
    }

    fn write_input(&mut self, text: &[u8], eof: bool) -> Result<(), DebugError> {
        let Some(pump) = &self.pump else {
            let what = "this program's input is not ours to write: somebody else started it";
            return Err(DebugError::Unsupported(what.into()));
        };
        pump.write_input(text, eof).map_err(|refused| match refused {
            InputRefused::Ended => DebugError::Unsupported("the program's input has ended".into()),
            InputRefused::TooMuch(waiting) => DebugError::System(
                format!("{waiting} bytes of input wait for the program to read them").into(),
            ),
        })
    }

    fn add_breakpoint(&mut self, trigger: Trigger) -> Result<Breakpoint, DebugError> {
        self.alive()?;
        self.added(trigger)
    }

    fn change_breakpoint(
        &mut self,
        id: BreakpointId,
        change: BreakpointChange,
    ) -> Result<Breakpoint, DebugError> {
        self.changed(id, change)
    }

    fn remove_breakpoint(&mut self, id: BreakpointId) -> Result<(), DebugError> {
        self.removed(id)
    }

    fn breakpoints(&mut self) -> Result<Vec<Breakpoint>, DebugError> {
        Ok(self.breakpoints.all())
    }

    fn threads(&mut self) -> Result<Vec<Thread>, DebugError> {
        self.alive()?;
        self.thread_list()
    }

    fn stack(&mut self, thread: ThreadId, max_frames: u32) -> Result<Stack, DebugError> {
        self.alive()?;
        self.stack_of(thread, max_frames)
    }

    fn variables(&mut self, query: &VariableQuery) -> Result<VariablePage, DebugError> {
        self.alive()?;
        self.variables_of(query)
    }

    fn evaluate(&mut self, evaluation: &Evaluation) -> Result<Variable, DebugError> {
        self.alive()?;
        self.evaluated(evaluation)
    }

    fn modules(&mut self) -> Result<Vec<Module>, DebugError> {
        self.alive()?;
        Ok(self.module_list())
    }

    fn source_file(&mut self, path: &str) -> Result<Option<SourceFile>, DebugError> {
        Ok(self.source_of(path))
    }

    fn complete(
        &mut self,
        kind: CompletionKind,
        prefix: &str,
        limit: usize,
    ) -> Result<Vec<String>, DebugError> {
        self.completions(kind, prefix, limit)
    }
}

impl Session {
    fn alive(&self) -> Result<(), DebugError> {
        match &self.state {
            State::Configuring | State::Live => Ok(()),
            State::Ended { .. } => Err(DebugError::Ended),
            State::Lost(why) => Err(DebugError::Lost(why.clone())),
        }
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        let how = if self.was_attached { Ending::Detach } else { Ending::Terminate };
        // Nobody is left to hear of a failure.
        let _ = self.finish(how);
    }
}
