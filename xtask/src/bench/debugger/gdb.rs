//! gdb through its machine interface.

use std::process::Command;

use anyhow::{Result, bail};

use super::contender::{Debugger, Inspector, Place, Program};
use crate::bench::conversation::{Answer, Conversation};

/// A running gdb.
pub(in crate::bench) struct Gdb {
    conversation: Conversation,
    last_token: u64,
}

impl Gdb {
    /// Starts it and waits for the answer to a first question.
    pub(in crate::bench) fn start() -> Result<Self> {
        let mut gdb = Command::new("gdb");
        // Asking the network for symbols would be measured too.
        gdb.args(["--interpreter=mi3", "-nx", "-q"]).env_remove("DEBUGINFOD_URLS");
        let mut gdb = Self { conversation: Conversation::start("gdb", &mut gdb)?, last_token: 0 };
        gdb.ask("-list-features")?;
        Ok(gdb)
    }

    /// Sends a command and reads up to its result.
    pub(in crate::bench) fn ask(&mut self, command: &str) -> Result<Answer> {
        self.last_token += 1;
        let token = self.last_token;
        self.conversation.send(&format!("{token}{command}"))?;
        let mut text = String::new();
        let result = self.read_until(&mut text, |line| line.starts_with(&format!("{token}^")))?;
        if result.starts_with(&format!("{token}^error")) {
            bail!("gdb: {command}: {}", result.trim_end());
        }
        Ok(answer(text))
    }

    /// Sends a command that moves and reads up to the stop.
    pub(in crate::bench) fn travel(&mut self, command: &str, reasons: &[&str]) -> Result<Answer> {
        let mut text = self.ask(command)?.text;
        let stop = self.read_until(&mut text, |line| line.starts_with("*stopped"))?;
        if !reasons.iter().any(|reason| stop.contains(&format!("reason=\"{reason}\""))) {
            bail!("gdb: {command} stopped otherwise: {}", stop.trim_end());
        }
        Ok(answer(text))
    }

    /// Reads into `text` up to a line, and returns that line.
    fn read_until(&mut self, text: &mut String, is_last: impl Fn(&str) -> bool) -> Result<String> {
        loop {
            let line = self.conversation.read_line()?;
            text.push_str(&line);
            if is_last(&line) {
                return Ok(line);
            }
        }
    }
}

fn answer(text: String) -> Answer {
    Answer { bytes: text.len(), text }
}

impl Debugger for Gdb {
    fn conversation(&self) -> &Conversation {
        &self.conversation
    }

    fn run_to(&mut self, program: &Program, place: &Place) -> Result<Answer> {
        self.ask(&format!("-file-exec-and-symbols \"{}\"", program.path.display()))?;
        if !program.arguments.is_empty() {
            self.ask(&format!("-exec-arguments {}", program.arguments.join(" ")))?;
        }
        let breakpoint = match place {
            Place::Function(function) => function.clone(),
            Place::Line { file, line } => format!("\"{file}:{line}\""),
        };
        self.ask(&format!("-break-insert {breakpoint}"))?;
        self.travel("-exec-run", &["breakpoint-hit"])
    }
}

impl Inspector for Gdb {
    fn tools_list(&mut self) -> Result<Option<Answer>> {
        Ok(None)
    }

    fn continue_to_stop(&mut self) -> Result<Answer> {
        self.travel("-exec-continue", &["breakpoint-hit"])
    }

    fn step_over(&mut self) -> Result<Answer> {
        self.travel("-exec-next", &["end-stepping-range", "breakpoint-hit"])
    }

    fn stack(&mut self) -> Result<Answer> {
        self.ask("-stack-list-frames")
    }

    fn locals(&mut self) -> Result<Answer> {
        self.ask("-stack-list-variables --all-values")
    }
}
