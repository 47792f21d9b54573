//! Why an engine cannot do what it was asked.

use std::{borrow::Cow, fmt};

use serde::{Deserialize, Serialize};

use super::{BreakpointId, Remedy, RuntimeAddr, ThreadId};

/// Why not, in a sentence; [`remedies`](Self::remedies) says what to do next.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error, Serialize, Deserialize)]
pub enum DebugError {
    /// No such process.
    #[error("there is no process {0}")]
    ProcessNotFound(u32),
    /// The system does not let us.
    #[error("{0}")]
    PermissionDenied(Reason),
    /// The program could not be started.
    #[error("{0}")]
    LaunchFailed(Reason),
    /// The file is not one that this engine can read.
    #[error("{0}")]
    BadFile(Reason),
    /// The program has ended; there is nothing left to look at.
    #[error("the program has ended")]
    Ended,
    /// A breakpoint cannot be placed.
    #[error("{0}")]
    BreakpointFailed(Reason),
    /// No such breakpoint.
    #[error("there is no breakpoint {0}")]
    NoSuchBreakpoint(BreakpointId),
    /// No such thread.
    #[error("there is no thread {0}")]
    NoSuchThread(ThreadId),
    /// No such frame.
    #[error("there is no frame {index}; the stack has {frames}")]
    NoSuchFrame {
        /// What was asked for.
        index: u32,
        /// How many there are.
        frames: u32,
    },
    /// An expression that cannot be read or computed.
    #[error("{0}")]
    Expression(Reason),
    /// Memory that is not there.
    #[error("cannot read memory at {0}")]
    Unreadable(RuntimeAddr),
    /// One cannot go back there.
    #[error("{0}")]
    NoHistory(Reason),
    /// What took long was ended before it was done. Holds how to get the answer after all.
    #[error("it was given up before it was done")]
    GivenUp(Remedy),
    /// Something that this kind of session cannot do.
    #[error("{0}")]
    Unsupported(Reason),
    /// The process that the engine ran in is gone, and the session with it.
    #[error("the session has ended: {0}")]
    Lost(String),
    /// The system failed us.
    #[error("{0}")]
    System(Reason),
}

impl DebugError {
    /// What to do next, the best first. Where the engine does not know, what helps against errors of this kind; empty
    /// where nothing does.
    pub fn remedies(&self) -> Cow<'_, [Remedy]> {
        let usual = match self {
            Self::PermissionDenied(reason)
            | Self::LaunchFailed(reason)
            | Self::BadFile(reason)
            | Self::BreakpointFailed(reason)
            | Self::Expression(reason)
            | Self::NoHistory(reason)
            | Self::Unsupported(reason)
            | Self::System(reason)
                if !reason.remedies.is_empty() =>
            {
                return Cow::Borrowed(&reason.remedies);
            }
            Self::GivenUp(remedy) => return Cow::Borrowed(std::slice::from_ref(remedy)),
            Self::ProcessNotFound(_) => vec![Remedy::advice("list the running ones with `ps -e`")],
            Self::LaunchFailed(_) => vec![Remedy::advice(
                "start it from a shell to see whether it runs there: its file may be damaged, its interpreter missing, \
                 or its arguments or variables too long",
            )],
            Self::Ended => vec![Remedy::Restart],
            Self::BreakpointFailed(_) => vec![Remedy::advice("change what the error names")],
            Self::NoSuchBreakpoint(_) => vec![Remedy::ListBreakpoints],
            Self::NoSuchThread(_) => vec![Remedy::ListThreads],
            Self::NoSuchFrame { .. } => vec![Remedy::ShowStack],
            Self::Lost(_) => vec![Remedy::Launch, Remedy::advice("the server's log has the details")],
            Self::Expression(_) => vec![Remedy::advice(
                "change the part of the expression that the error names; each part can be evaluated alone",
            )],
            Self::Unreadable(_) => vec![Remedy::advice(
                "the address is not mapped: see whether the pointer that it comes from is null, freed or not yet set",
            )],
            Self::BadFile(_) => vec![Remedy::advice("name another file, or make this one again")],
            Self::Unsupported(_) => vec![Remedy::advice("do without: no session of this kind can")],
            Self::PermissionDenied(_) | Self::NoHistory(_) | Self::System(_) => Vec::new(),
        };
        Cow::Owned(usual)
    }
}

/// What happened, and what to do next where the engine knows that.
///
/// ```
/// use hindcast_core::debug::{DebugError, Reason, Remedy};
///
/// let error = DebugError::NoHistory(Reason::new("there is no such moment").remedy(Remedy::ListMoments));
/// assert_eq!(error.to_string(), "there is no such moment");
/// assert_eq!(*error.remedies(), [Remedy::ListMoments]);
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Reason {
    /// In a sentence, without a remedy.
    pub what: String,
    /// The best first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub remedies: Vec<Remedy>,
}

impl Reason {
    /// This happened.
    pub fn new(what: impl Into<String>) -> Self {
        Self { what: what.into(), remedies: Vec::new() }
    }

    /// Adds something to do next.
    #[must_use]
    pub fn remedy(mut self, remedy: Remedy) -> Self {
        self.remedies.push(remedy);
        self
    }

    /// Adds advice that names no tool.
    #[must_use]
    pub fn advise(self, text: impl Into<Cow<'static, str>>) -> Self {
        self.remedy(Remedy::advice(text))
    }
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.what)
    }
}

impl From<String> for Reason {
    fn from(what: String) -> Self {
        Self::new(what)
    }
}

impl From<&str> for Reason {
    fn from(what: &str) -> Self {
        Self::new(what)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_expression_that_failed_is_mended_by_changing_it() {
        let error = DebugError::Expression("`x` cannot be read".into());
        let [Remedy::Advice(advice)] = &*error.remedies() else { panic!("{:?}", error.remedies()) };
        assert!(advice.starts_with("change the part of the expression"), "{advice}");
    }

    #[test]
    fn names_are_listed_only_where_the_engine_says_so() {
        let error = DebugError::Expression("division by zero".into());
        assert!(!error.remedies().contains(&Remedy::ListVariables));
        let unknown = DebugError::Expression(Reason::new("no `x`").remedy(Remedy::ListVariables));
        assert_eq!(*unknown.remedies(), [Remedy::ListVariables]);
    }
}
