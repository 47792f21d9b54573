//! Questions that are answered by going through the past.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{
    FrameRef, Location, MemoryWrite, Moment, Place, RuntimeAddr, ThreadId, Watched, WayFinding, WayQuestion,
    WhatIf, WhatIfQuestion, Writer,
};

/// A question about the past.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub enum Question {
    /// Who last wrote to memory before now, and where that value came from.
    LastWrite {
        /// What.
        watched: Watched,
        /// So many hops back at most.
        depth: u32,
    },
    /// All that was written to memory.
    History(HistoryQuestion),
    /// When a condition began or ceased to hold.
    When(WhenQuestion),
    /// What was called.
    Calls(CallsQuestion),
    /// What would have happened.
    WhatIf(WhatIfQuestion),
    /// Which way the program went.
    Way(WayQuestion),
}

/// What was found.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub enum Finding {
    /// The last one first; nothing where it was not written since the start of the recording.
    LastWrite(Vec<MemoryWrite>),
    /// To [`Question::History`].
    History(WriteHistory),
    /// To [`Question::When`].
    When(ConditionHistory),
    /// To [`Question::Calls`].
    Calls(CallTrace),
    /// To [`Question::WhatIf`].
    WhatIf(Box<WhatIf>),
    /// To [`Question::Way`].
    Way(WayFinding),
}

/// A part of the past.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Span {
    /// From this moment on; from the start of the recording where absent.
    pub since: Option<Moment>,
    /// Up to this moment; up to now where absent.
    pub until: Option<Moment>,
}

/// What was written to memory?
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct HistoryQuestion {
    /// Where the value is now.
    pub watched: Watched,
    /// When.
    pub span: Span,
    /// Leaves out so many of the first writes.
    pub offset: u64,
    /// Tells so many of them one by one.
    pub limit: u32,
    /// Tells also who read it.
    pub reads: bool,
}

/// What was written to memory.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct WriteHistory {
    /// How many writes there were
    pub total: u64,
    /// By the statements that made them, most writes first
    pub statements: Vec<WritingStatement>,
    /// How many statements with fewer writes are not told
    pub left_out: u64,
    /// One by one, in the order of time
    pub writes: Vec<HistoryWrite>,
    /// Who read it, most reads first, where that was asked for
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub reads: Vec<ReadingStatement>,
    /// Before the first
    pub first: String,
    /// After the last
    pub last: String,
    /// From this moment on
    pub since: Moment,
    /// Up to this moment
    pub until: Moment,
    /// The block of memory that it is part of, where the program's allocator gave it: told from there on
    #[serde(skip_serializing_if = "Option::is_none")]
    pub allocation: Option<Box<Allocation>>,
    /// What else has, or may have, used the same memory
    #[serde(skip_serializing_if = "Option::is_none")]
    pub note: Option<String>,
}

/// A block of memory that the allocator gave to the program.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Allocation {
    /// Where it begins
    pub address: RuntimeAddr,
    /// How many bytes of it can be used: those that were asked for, or a few more
    pub size: u64,
    /// Who asked for it
    pub allocated: AllocatorCall,
    /// Who gave it back, in the order of time: nobody where it is still in use, and more than one call is a mistake
    pub freed: Vec<AllocatorCall>,
    /// Whether all of these were found
    pub is_freed_known: bool,
}

/// A call of the allocator.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct AllocatorCall {
    /// When: at the end of a call that allocates, at the beginning of one that frees
    pub moment: Moment,
    /// Who called
    pub thread: ThreadId,
    /// The statement
    pub location: Location,
    /// Its source line, where that was read
    #[serde(skip_serializing_if = "Option::is_none")]
    pub text: Option<String>,
    /// The function of the allocator, such as `malloc`
    pub function: String,
}

/// All writes that one statement made.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct WritingStatement {
    /// Where it is
    pub location: Location,
    /// Its source line, where that was read
    #[serde(skip_serializing_if = "Option::is_none")]
    pub text: Option<String>,
    /// The library function that wrote on its behalf
    #[serde(skip_serializing_if = "Option::is_none")]
    pub through: Option<String>,
    /// The program, or the system
    pub by: Writer,
    /// How often it wrote
    pub count: u64,
    /// How often another value was there afterwards
    pub changed: u64,
    /// The sum of what it added
    #[serde(skip_serializing_if = "Option::is_none")]
    pub change: Option<String>,
    /// Right after its first write; absent where there are too many statements to name the moments of all
    #[serde(skip_serializing_if = "Option::is_none")]
    pub first: Option<Moment>,
}

/// All reads that one statement made.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ReadingStatement {
    /// Where it is
    pub location: Location,
    /// Its source line, where that was read
    #[serde(skip_serializing_if = "Option::is_none")]
    pub text: Option<String>,
    /// The library function that read on its behalf
    #[serde(skip_serializing_if = "Option::is_none")]
    pub through: Option<String>,
    /// How often it read
    pub count: u64,
    /// Right after its first read; absent where there are too many statements to name the moments of all
    #[serde(skip_serializing_if = "Option::is_none")]
    pub first: Option<Moment>,
}

/// One of many writes.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct HistoryWrite {
    /// Right after it
    pub moment: Moment,
    /// Who
    pub thread: ThreadId,
    /// The statement
    pub location: Location,
    /// Its source line, where that was read
    #[serde(skip_serializing_if = "Option::is_none")]
    pub text: Option<String>,
    /// The library function that wrote on its behalf
    #[serde(skip_serializing_if = "Option::is_none")]
    pub through: Option<String>,
    /// What was there before
    pub old: String,
    /// What was there after
    pub new: String,
    /// The program, or the system
    pub by: Writer,
}

/// When did a condition begin or cease to hold?
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct WhenQuestion {
    /// As [`evaluate`](super::DebugBackend::evaluate) takes it.
    pub condition: String,
    /// In whose scope, where there is no place.
    pub frame: FrameRef,
    /// Only here it is judged, and with the names of this place. Elsewhere it may be as it likes.
    pub place: Option<Place>,
    /// When.
    pub span: Span,
    /// Which of the changes.
    pub which: Which,
    /// What it becomes.
    pub becomes: Becomes,
    /// Whether it changes only once, which makes the search much shorter.
    pub monotone: bool,
    /// Tells so many changes at most.
    pub limit: u32,
}

/// Which of several changes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Which {
    /// The first.
    #[default]
    First,
    /// The last.
    Last,
    /// All.
    Every,
}

/// What a condition becomes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Becomes {
    /// It begins to hold.
    #[default]
    True,
    /// It ceases to hold.
    False,
    /// Either.
    Any,
}

impl Becomes {
    /// Whether a change to this is meant.
    pub fn wants(self, holds: bool) -> bool {
        match self {
            Self::True => holds,
            Self::False => !holds,
            Self::Any => true,
        }
    }
}

/// When a condition began or ceased to hold.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ConditionHistory {
    /// In the order of time
    pub changes: Vec<ConditionChange>,
    /// Whether there were more
    pub more: bool,
    /// How often it was judged
    pub judged: u64,
    /// How often it could not be, because what it is about was not there
    pub unknown: u64,
    /// Whether it held when it was first judged
    #[serde(skip_serializing_if = "Option::is_none")]
    pub at_first: Option<bool>,
    /// Whether it held when it was last judged
    #[serde(skip_serializing_if = "Option::is_none")]
    pub at_last: Option<bool>,
    /// From this moment on
    pub since: Moment,
    /// Up to this moment
    pub until: Moment,
    /// Why changes can have been missed
    #[serde(skip_serializing_if = "Option::is_none")]
    pub unsure: Option<String>,
}

/// A condition began or ceased to hold.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ConditionChange {
    /// Right after it
    pub moment: Moment,
    /// Whether the condition holds from there on
    pub holds: bool,
    /// Who ran
    pub thread: ThreadId,
    /// The statement that did it; with a place, that place
    pub location: Location,
    /// Its source line, where that was read
    #[serde(skip_serializing_if = "Option::is_none")]
    pub text: Option<String>,
    /// The library function that wrote on its behalf
    #[serde(skip_serializing_if = "Option::is_none")]
    pub through: Option<String>,
    /// What the condition compares
    pub values: Vec<ChangedValue>,
}

/// A value on both sides of a change.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ChangedValue {
    /// Its expression
    pub expression: String,
    /// What it was when the condition was last judged before
    #[serde(skip_serializing_if = "Option::is_none")]
    pub old: Option<String>,
    /// What it is then
    pub new: String,
}

/// What did a thread call?
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct CallsQuestion {
    /// Whose calls.
    pub thread: ThreadId,
    /// When.
    pub span: Span,
    /// Only functions of this name, or `/…/` of names with this in them; those of the program's own code where absent.
    pub functions: Option<String>,
    /// Calls within calls so deep are counted, but not told; from 1.
    pub depth: u32,
    /// Tells so many at most.
    pub limit: u32,
    /// Whether the last ones are told, instead of the first.
    pub last: bool,
}

/// What a thread called.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct CallTrace {
    /// How many calls there were
    pub total: u64,
    /// In the order of time; what repeats itself is one
    pub calls: Vec<TracedCall>,
    /// How many more there are to tell, repetitions taken together
    pub left_out: u64,
    /// How many functions were looked at
    pub functions: u64,
    /// From this moment on
    pub since: Moment,
    /// Up to this moment
    pub until: Moment,
    /// Why it is not all
    #[serde(skip_serializing_if = "Option::is_none")]
    pub note: Option<String>,
}

/// A call, or several in a row that called the same functions.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct TracedCall {
    /// Within how many others
    pub depth: u32,
    /// What was called
    pub function: String,
    /// What it got; of several, the first
    pub arguments: Vec<CallValue>,
    /// What the last of several got
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_arguments: Option<Vec<CallValue>>,
    /// What it returned; of several, the last
    #[serde(skip_serializing_if = "Option::is_none")]
    pub result: Option<String>,
    /// How many in a row
    pub times: u64,
    /// Whether it has not returned
    pub is_open: bool,
    /// Whether it did not return, but was left by an exception or a jump
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub left: bool,
    /// When it began
    #[serde(skip_serializing_if = "Option::is_none")]
    pub moment: Option<Moment>,
    /// Its first statement
    pub location: Location,
}

/// A value that was passed.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct CallValue {
    /// The parameter
    pub name: String,
    /// As it was
    pub value: String,
}
