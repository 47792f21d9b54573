//! Engine errors as failures that say what to do next.

use hindcast_core::debug::{DebugError, Engine, HowBegun};

use crate::{Failure, FailureKind};

impl From<DebugError> for Failure {
    fn from(error: DebugError) -> Self {
        let kind = match &error {
            DebugError::ProcessNotFound(_) => FailureKind::ProcessNotFound,
            DebugError::PermissionDenied(_) => FailureKind::PermissionDenied,
            DebugError::Ended | DebugError::Lost(_) => FailureKind::NotAttached,
            DebugError::BreakpointFailed(_) => FailureKind::BreakpointFailed,
            DebugError::LaunchFailed(_)
            | DebugError::BadFile(_)
            | DebugError::NoSuchBreakpoint(_)
            | DebugError::NoSuchThread(_)
            | DebugError::NoSuchFrame { .. }
            | DebugError::Expression(_)
            | DebugError::Unreadable(_)
            | DebugError::Unsupported(_) => FailureKind::InvalidInput,
            DebugError::NoHistory(_) | DebugError::GivenUp(_) => FailureKind::HistoryUnavailable,
            DebugError::System(_) => FailureKind::Internal,
        };
        Self::new(kind, error.to_string()).remedied(error.remedies().into_owned())
    }
}

/// There is no debug session.
pub(super) fn not_attached() -> Failure {
    Failure::new(FailureKind::NotAttached, "no process is attached")
        .hint("start a program with `debugger/launch`, or attach with `debugger/attach` and a `pid` first")
}

/// A session of this server has the process.
pub(super) fn no_process(pid: u32) -> Failure {
    Failure::new(FailureKind::ProcessNotFound, format!("there is no process {pid}"))
        .hint("list the running ones with `ps -e`, then attach by that number")
        .fact("pid", pid)
}

pub(super) fn held(pid: u32, id: &str) -> Failure {
    Failure::new(
        FailureKind::PermissionDenied,
        format!("session `{id}` is attached to process {pid} already"),
    )
    .hint("go on in that session, or end it first with `debugger/disconnect`")
    .fact("pid", pid)
}

/// The program to follow has a name that cannot be sent.
pub(super) fn not_text(follow: &str) -> Failure {
    Failure::new(FailureKind::InvalidInput, format!("`{follow}` leads to a file whose name is not text"))
        .hint("give `follow` the path of a program whose name is text")
}

/// Whoever has a key follows a path, which the operator may allow.
pub(super) fn path_of(follow: &str) -> Result<(), Failure> {
    if follow.contains('/') {
        return Ok(());
    }
    let what = format!("`{follow}` could be any program of that name");
    Err(Failure::new(FailureKind::PermissionDenied, what)
        .hint("give `follow` the path of a program that the server's operator allows"))
}

/// There is no session of that name.
pub(super) fn no_such_session(id: &str) -> Failure {
    let id: String = id.chars().take(40).collect();
    Failure::new(FailureKind::NotAttached, format!("there is no debug session `{id}`"))
        .hint("`debugger/status` lists the sessions; without `session_id` the current one is used; `debugger/attach` begins one")
}

/// What was asked needs a program that has not ended.
pub(super) fn ended() -> Failure {
    Failure::new(FailureKind::NotAttached, "the program has ended")
        .hint("`debugger/restart` starts a launched program again; `debugger/read_output` still shows what it printed")
}

/// What was asked needs a program that stands still.
pub(super) fn running() -> Failure {
    Failure::new(FailureKind::InvalidInput, "the program is running")
        .hint("stop it with `debugger/pause`, or wait for it to stop with `debugger/wait`")
}

/// The same while the past is searched.
pub(super) fn searching(search: u64) -> Failure {
    Failure::new(FailureKind::InvalidInput, format!("the past is being searched (search {search})"))
        .hint("wait for that with `debugger/wait`, or give it up with `debugger/pause`")
}

/// The engine's thread does not answer.
pub(super) fn no_answer() -> Failure {
    Failure::new(FailureKind::Internal, "the debug engine does not answer")
        .hint("try again; if it stays, end the session with `debugger/disconnect`")
}

/// What not every engine has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Missing {
    Memory,
    Registers,
    MachineCode,
    DataSearch,
    Instructions,
    WatchedMemory,
    Past,
}

/// What this kind of session cannot do, and what does instead.
pub(super) fn missing(engine: Engine, what: Missing) -> Failure {
    let values = "`debugger/get_variables` and `debugger/evaluate` show values";
    let (kind, cannot, instead) = match what {
        Missing::Memory => (FailureKind::InvalidInput, "does not show raw memory", values),
        Missing::Registers => (FailureKind::InvalidInput, "has no registers", values),
        Missing::MachineCode => (
            FailureKind::InvalidInput,
            "has no machine code",
            "every stop shows the source; `debugger/get_stack_trace` shows the way there",
        ),
        Missing::DataSearch => (
            FailureKind::InvalidInput,
            "has no search in its data",
            "`debugger/evaluate` shows a container, page by page with `offset`",
        ),
        Missing::Instructions => (
            FailureKind::InvalidInput,
            "has no machine code, so it cannot step by instructions",
            "give `granularity` `line`, `over` or `out`",
        ),
        Missing::WatchedMemory => (
            FailureKind::InvalidInput,
            "cannot watch memory",
            "`debugger/set_breakpoint` where the value is set, with a `condition` on it",
        ),
        Missing::Past => (
            FailureKind::HistoryUnavailable,
            "is not recorded, so one cannot go back",
            "set a breakpoint before the place, and `debugger/restart`",
        ),
    };
    Failure::new(kind, format!("this {} session {cannot}", engine.name())).hint(instead)
}

/// One cannot go back, for a reason that the engine may know.
pub(super) fn no_history(how: HowBegun, wanted: bool, reason: Option<String>) -> Failure {
    let (usual, hint) = match how {
        HowBegun::Core => (
            "a core file shows only the end of a program",
            "record the program itself: `debugger/launch` it and let it come to the same end",
        ),
        HowBegun::Trace => (
            "nothing of this recording can be replayed",
            "record the program again: `debugger/launch` it, or `hindcast record`",
        ),
        _ if wanted => (
            "nothing is recorded here",
            "`hindcast doctor` tells what this machine allows; breakpoints and `debugger/restart` work without a history",
        ),
        HowBegun::Launch => (
            "this program was launched with `record` false",
            "`debugger/record` with `action` start records it from here on; or `debugger/launch` it again with `record` true",
        ),
        HowBegun::Attach => (
            "nothing was recorded since the attach",
            "`debugger/record` with `action` start: the history begins then; or `debugger/launch` it",
        ),
    };
    Failure::new(FailureKind::HistoryUnavailable, reason.unwrap_or_else(|| usual.into())).hint(hint)
}
