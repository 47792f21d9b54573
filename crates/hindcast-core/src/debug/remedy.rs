//! What to do after an error, as data: only the server knows what its client calls the tools.

use std::borrow::Cow;

use serde::{Deserialize, Serialize};

use super::Moment;

/// Something that helps after an error.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Remedy {
    /// Launch the program.
    Launch,
    /// Launch the program with recording on.
    LaunchRecorded,
    /// Start the program again, with the same arguments.
    Restart,
    /// Look at what is left of a program that died.
    Autopsy,
    /// List the breakpoints.
    ListBreakpoints,
    /// List the threads.
    ListThreads,
    /// List the names that an expression may use.
    ListVariables,
    /// List the files that are loaded.
    ListModules,
    /// List moments of the recording.
    ListMoments,
    /// Show the frames of a thread.
    ShowStack,
    /// Show the machine code.
    ShowCode,
    /// Go to where the program really is.
    GoToPresent,
    /// Go to this moment and ask the same there.
    AskAt(Moment),
    /// Go to another moment, which the words describe, and ask the same there.
    AskWhen(Cow<'static, str>),
    /// Go back, to the stop before or step by step.
    GoBack,
    /// Set a breakpoint where one wants to go, and go back to it.
    GoBackToBreakpoint,
    /// Write the recording to a file that can be opened.
    ExportTrace,
    /// Let `hindcast doctor` find out what this machine allows.
    RunDoctor,
    /// Something else, in words that name no tool.
    Advice(Cow<'static, str>),
}

impl Remedy {
    /// Words that name no tool.
    pub fn advice(text: impl Into<Cow<'static, str>>) -> Self {
        Self::Advice(text.into())
    }
}
