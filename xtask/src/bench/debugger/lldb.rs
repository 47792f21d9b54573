//! lldb through its command line: Debian ships no machine interface with it.

use std::process::Command;

use anyhow::{Result, bail};

use super::contender::{Debugger, Place, Program};
use crate::bench::conversation::{Answer, Conversation};

/// A running lldb.
pub(super) struct Lldb(Conversation);

impl Lldb {
    /// Starts it; it reads commands when it is ready.
    pub(super) fn start() -> Result<Self> {
        let mut lldb = Command::new("lldb");
        lldb.args(["--no-lldbinit", "--no-use-colors"]).env_remove("DEBUGINFOD_URLS");
        Ok(Self(Conversation::start("lldb", &mut lldb)?))
    }
}

impl Debugger for Lldb {
    fn conversation(&self) -> &Conversation {
        &self.0
    }

    fn run_to(&mut self, program: &Program, place: &Place) -> Result<Answer> {
        self.0.send(&format!("target create \"{}\"", program.path.display()))?;
        self.0.send(&match place {
            Place::Function(function) => format!("breakpoint set --name {function}"),
            Place::Line { file, line } => format!("breakpoint set --file \"{file}\" --line {line}"),
        })?;
        self.0.send(&format!("run {}", program.arguments.join(" ")))?;
        let mut text = String::new();
        loop {
            let line = self.0.read_line()?;
            text.push_str(&line);
            if line.contains("stop reason = breakpoint") {
                return Ok(Answer { bytes: text.len(), text });
            }
            if line.contains("exited with status") {
                bail!("lldb did not stop:\n{text}");
            }
        }
    }
}
