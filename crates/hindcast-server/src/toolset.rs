//! Groups of tools that a server may leave out, so that a client's model reads only what it needs.

/// A group of tools with the resources and prompts that belong to it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Toolset {
    /// Quota, license, audit trail.
    Account,
    /// Programs that run, and their past.
    Debugger,
    /// Collections of documents.
    Knowledge,
    /// What remote callers bring to be debugged.
    Workspace,
    /// XPath and XML Schema.
    Xml,
}

impl Toolset {
    /// Every toolset.
    pub const ALL: [Self; 5] = [Self::Account, Self::Debugger, Self::Knowledge, Self::Workspace, Self::Xml];

    /// The name in the configuration and after `--toolsets`.
    pub fn name(self) -> &'static str {
        match self {
            Self::Account => "account",
            Self::Debugger => "debugger",
            Self::Knowledge => "knowledge",
            Self::Workspace => "workspace",
            Self::Xml => "xml",
        }
    }

    /// What the instructions for a client's model say of it.
    pub(crate) fn instructions(self) -> Option<&'static str> {
        match self {
            Self::Debugger => Some(DEBUGGER),
            Self::Knowledge => Some(KNOWLEDGE),
            Self::Account | Self::Workspace | Self::Xml => None,
        }
    }
}

const DEBUGGER: &str = "hindcast runs programs under a debugger. Start one with `debugger/launch` (or \
    `debugger/attach` with a `pid`, or `debugger/launch` with `core` for a core file). Set breakpoints where the \
    answer must be (`debugger/set_breakpoint` by function, or by file and line), `debugger/continue`, then look: every \
    movement answers why it stopped, the source around, locals (marked when changed) and new output, so ask only for \
    what is missing (`debugger/evaluate`, `debugger/get_variables`, `debugger/get_stack_trace`). After a crash or panic \
    call `debugger/autopsy` first. What is launched is recorded, so do not restart to see what came before: \
    `debugger/last_write` names the statement that gave a value its value, `debugger/step_backward`, \
    `debugger/reverse_continue` and `debugger/goto` go back, and everything can be looked at there. `running` means it goes on: \
    `debugger/wait` or `debugger/pause`. Tracepoints (`log_message`) show values over time without stopping. \
    `session_id` is only needed with several sessions.";

const KNOWLEDGE: &str = "What is known is found with `knowledge/search` and taken in with `knowledge/add`; whole documents are \
    resources.";
