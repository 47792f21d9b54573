//! What every measured debugger can do, whatever it speaks.

use std::path::PathBuf;

use anyhow::Result;

use crate::bench::conversation::{Answer, Conversation};

/// What is debugged.
pub(in crate::bench) struct Program {
    /// The executable, without links.
    pub(in crate::bench) path: PathBuf,
    /// Its arguments.
    pub(in crate::bench) arguments: Vec<String>,
}

/// Where it is to stop.
pub(in crate::bench) enum Place {
    /// A function by its full name.
    Function(String),
    /// A line, from 1, of a source file as debug information spells it.
    Line {
        /// The file.
        file: String,
        /// The line.
        line: u32,
    },
}

/// A debugger that can run a program to a breakpoint.
pub(in crate::bench) trait Debugger {
    /// Its process.
    fn conversation(&self) -> &Conversation;

    /// Starts the program and returns once it stands at the breakpoint, with the answer to the launch.
    fn run_to(&mut self, program: &Program, place: &Place) -> Result<Answer>;
}

/// A debugger that can also look around.
pub(super) trait Inspector: Debugger {
    /// Lists its tools, if it has such a list.
    fn tools_list(&mut self) -> Result<Option<Answer>>;

    /// Runs to the next hit of the breakpoint.
    fn continue_to_stop(&mut self) -> Result<Answer>;

    /// Steps to the next line of the same function.
    fn step_over(&mut self) -> Result<Answer>;

    /// The stack.
    fn stack(&mut self) -> Result<Answer>;

    /// Arguments and local variables with their values.
    fn locals(&mut self) -> Result<Answer>;
}
