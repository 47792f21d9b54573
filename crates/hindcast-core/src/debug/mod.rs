//! What a debugger is talked about in, and the seam that every engine stands behind.

mod address;
pub mod as_base64;
mod backend;
mod breakpoint;
#[cfg(target_os = "linux")]
mod claim;
mod compare;
mod confinement;
mod error;
#[cfg(feature = "test-support")]
pub mod fake;
pub mod listening;
mod look;
mod memory;
mod output;
mod pointers;
mod question;
mod remedy;
pub mod secret_names;
mod stop;
mod target;
mod trace;
mod travel;
mod wait;
mod what_if;

pub use address::{NotAnAddress, RuntimeAddr, ThreadId};
pub use backend::{
    DataSearch, DebugBackend, DebugEngine, Disassembly, Ending, Interrupt, Loss, RawMemory, Registers,
    TellLoss,
};
pub use breakpoint::{
    Access, Binding, Breakpoint, BreakpointChange, BreakpointId, CodeBreakpoint, Count, ExceptionBreakpoint,
    NotABreakpointId, Place, Trigger, Watched, Watchpoint,
};
#[cfg(target_os = "linux")]
pub use claim::Claim;
pub use compare::{
    BranchDifference, ComparedCall, ComparedFunction, Comparison, NextStep, PassedPost, TwoValues,
    ValueDifference, WayCalls, WayFinding, WayPart, WayPass, WayPlace, WayQuestion, WaySums,
};
pub use confinement::{Confinement, ConfinementLimits, Layer, SYSTEM_FOLDERS};
pub use error::{DebugError, Reason};
pub use look::{
    CompletionKind, ElementPage, ElementSearch, Evaluation, FoundElement, Frame, FrameRef, Instruction,
    Location, MemoryBlock, Module, NumberFormat, Region, Register, RegisterSet, SourceFile, Stack, Thread,
    ThreadState, ValueLimits, ValueState, Variable, VariablePage, VariableQuery, VariableScope, View,
};
pub use memory::{Memory, Pages, Unreadable};
pub use output::{OutputChunk, OutputLog, OutputStream};
pub use pointers::{FoundPointer, PointerKind, PointerPage, PointerSearch};
pub use question::{
    Allocation, AllocatorCall, Becomes, CallTrace, CallValue, CallsQuestion, ChangedValue, ConditionChange,
    ConditionHistory, Finding, HistoryQuestion, HistoryWrite, Question, ReadingStatement, Span, TracedCall,
    WhenQuestion, Which, WriteHistory, WritingStatement,
};
pub use remedy::Remedy;
pub use stop::{
    BadPointer, Fault, FaultAccess, FaultKind, Granularity, InnerException, Movement, Outcome,
    RaisedException, RaisedSignal, Stop, StopReason,
};
pub use target::{
    AttachRequest, CoreRequest, Engine, Followed, HowBegun, Language, LaunchRequest, Stdin, StopAtEntry,
    Streams, Target, TraceFileRequest,
};
pub use trace::{
    EngineLog, MAGIC as TRACE_MAGIC, Trace, TraceError, TraceEvent, TraceHead, TraceWriter,
    happening_in_a_line,
};
pub use travel::{
    Capability, Destination, Happening, HappeningKind, MemoryWrite, Moment, Recording, TimeTravel,
    TimelinePage, TimelineQuery, TraceFormat, TraceRequest, When, Writer,
};
pub use wait::{Descriptor, Wait, WaitKind};
pub use what_if::{PrintedDifference, TrialEnding, TrialRun, WhatIf, WhatIfQuestion};
