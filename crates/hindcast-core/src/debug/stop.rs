//! Running, and why it ended.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{BreakpointId, Destination, Location, Place, Region, RuntimeAddr, ThreadId};

/// How to go on.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Movement {
    /// To the first stop of the session: where the launch asked for, or where it stands already.
    Begin,
    /// Until something stops it.
    Continue,
    /// By steps of one thread; the others run meanwhile where that is needed.
    Step {
        /// Whose.
        thread: ThreadId,
        /// Of which size.
        granularity: Granularity,
        /// How many.
        count: u32,
    },
    /// Until some thread gets there.
    RunTo(Place),
    /// Back in time by steps of one thread.
    StepBack {
        /// Whose.
        thread: ThreadId,
        /// Of which size.
        granularity: Granularity,
        /// How many.
        count: u32,
    },
    /// Back in time until something would have stopped it, or to the start of the recording.
    ReverseContinue,
    /// To a moment of the recording.
    Goto(Destination),
    /// On with what [`Outcome::Interrupted`] cut short.
    Resume,
}

impl Movement {
    /// Whether it goes by machine instructions, which not every engine sees.
    pub fn is_by_instruction(&self) -> bool {
        matches!(
            self,
            Self::Step { granularity: Granularity::Instruction, .. }
                | Self::StepBack { granularity: Granularity::Instruction, .. }
        )
    }

    /// Whether it needs a recording: it also goes when the program has ended.
    pub fn is_travel(&self) -> bool {
        matches!(self, Self::StepBack { .. } | Self::ReverseContinue | Self::Goto(_))
    }
}

/// The size of a step.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Granularity {
    /// One machine instruction; not every kind of session has them
    #[default]
    Instruction,
    /// To the next line, into calls
    Line,
    /// To the next line of this function, over calls
    Over,
    /// Out of this function
    Out,
}

/// How a movement ended.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[allow(clippy::large_enum_variant, reason = "there is one at a time")]
pub enum Outcome {
    /// With a stop that the user hears of.
    Stopped(Stop),
    /// By an [`super::Interrupt`], half-way: everything stands still and can be looked at and
    /// changed; [`Movement::Resume`] goes on as if nothing had been.
    Interrupted,
}

/// Why everything stands still.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Stop {
    /// In one word.
    pub reason: StopReason,
    /// In a sentence, where the word does not say it all.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub detail: Option<String>,
    /// Which thread it is about.
    pub thread: ThreadId,
    /// Which breakpoints were hit.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub breakpoints: Vec<BreakpointId>,
    /// The signal that was about to be delivered, or that ended the program.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub signal: Option<RaisedSignal>,
    /// The panic or exception that was raised.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub exception: Option<RaisedException>,
    /// What the program returned, when it ended by itself.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub exit_code: Option<i32>,
}

/// Why, in one word.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum StopReason {
    /// It was just started.
    Entry,
    /// A breakpoint.
    Breakpoint,
    /// A watched value was written or read.
    Watchpoint,
    /// The step is done.
    Step,
    /// Somebody asked.
    Pause,
    /// A panic or an exception that is broken on.
    Exception,
    /// A signal that stops.
    Signal,
    /// The program ended.
    Exit,
    /// Time travel: the moment that was asked for.
    Goto,
    /// Time travel: there is nothing recorded before.
    HistoryStart,
    /// Time travel: the thread did nothing before.
    ThreadStart,
    /// Time travel: back where the program really is.
    Present,
}

/// A signal.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct RaisedSignal {
    /// Such as `SIGSEGV`.
    pub name: String,
    /// Such as 11.
    pub number: i32,
    /// What it tells beyond that, such as `address not mapped`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cause: Option<String>,
    /// The address whose access failed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fault_address: Option<RuntimeAddr>,
    /// What the engine knows of the memory access that failed. The autopsy words it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(skip)]
    pub fault: Option<Box<Fault>>,
    /// Whether the program has a handler for it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub handled: bool,
}

/// A memory access that failed, as far as the engine can tell from the processor and the memory.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Fault {
    /// What is wrong with it.
    pub kind: FaultKind,
    /// What the instruction wanted, where that is sure.
    pub access: Option<FaultAccess>,
    /// The register that holds the bad pointer, where the instruction takes it from one.
    pub pointer: Option<BadPointer>,
    /// The mapping that the address is in, or the one that it is just behind.
    pub region: Option<Region>,
}

/// A register that holds a pointer which leads nowhere.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct BadPointer {
    /// Such as `rax`.
    pub register: String,
    /// What it holds.
    pub value: u64,
}

/// What is wrong with a memory access.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum FaultKind {
    /// A null pointer, or a field behind one.
    NullDereference,
    /// A null function pointer was called.
    NullCall,
    /// Below the end of the stack.
    StackOverflow,
    /// A write to memory that can only be read.
    WriteToReadOnly,
    /// A jump to memory that cannot be executed.
    ExecuteNonExecutable,
    /// Memory that is closed to the program.
    NoAccess,
    /// The address is not a multiple of what the access needs.
    Misaligned,
    /// An address that no program can have.
    NonCanonical,
    /// An instruction that programs may not use, or not with these operands.
    NotAllowed,
    /// Behind the end of a mapped file.
    BeyondFile,
    /// Just behind a mapping.
    OutOfBounds,
    /// Nothing is there.
    Unmapped,
}

/// What an instruction wanted of memory that it may not access.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum FaultAccess {
    /// To read it.
    Read,
    /// To write it; also to change it, which reads it first.
    Write,
    /// To execute it.
    Execute,
}

/// A panic or an exception.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct RaisedException {
    /// Such as `rust:panic` or `cpp:std::runtime_error`.
    pub exception_type: String,
    /// What it says, where that could be read.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    /// Whether nobody will catch it.
    pub unhandled: bool,
    /// What the message does not say, such as which value was null.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub because: Option<String>,
    /// The exceptions that led to it, the nearest first. Of several that were thrown side by side, which have the same
    /// depth, each is followed by those that led to it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub inner: Vec<InnerException>,
    /// Where it was thrown, innermost first, where the thread has left that place since: the exception was kept, and
    /// thrown again by whoever waited for its result.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub thrown_at: Vec<Location>,
}

/// An exception that another one was raised for.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct InnerException {
    /// How far behind the raised exception it is: 1 for one that led to it, 2 for one that led to such a one.
    pub depth: u32,
    /// Such as `System.TimeoutException`.
    pub exception_type: String,
    /// What it says, where that could be read.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    /// The innermost place in the program's own code that it was thrown at or came through.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub thrown_at: Option<Location>,
}
