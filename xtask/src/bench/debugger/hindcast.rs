//! Ourselves: `hindcast mcp`.

use std::path::Path;
use std::process::Command;

use anyhow::{Result, bail};
use serde_json::{Value, json};

use super::contender::{Debugger, Inspector, Place, Program};
use crate::bench::conversation::{Answer, Conversation};
use crate::bench::mcp_client::McpClient;

/// Where a launched program first stands, before the breakpoint is set.
#[derive(Clone, Copy)]
pub(super) enum Entry {
    /// In `main`, which is what callers get who do not ask.
    Main,
    /// At the first instruction, for breakpoints in `main` itself.
    Loader,
}

/// A running `hindcast mcp`.
pub(super) struct Hindcast {
    client: McpClient,
    entry: Entry,
}

impl Hindcast {
    /// Starts it and waits for the answer to `initialize`.
    pub(super) fn start(binary: &Path, data_folder: &Path, entry: Entry) -> Result<Self> {
        let mut mcp = Command::new(binary);
        mcp.args(["mcp", "--data-dir"]).arg(data_folder);
        Ok(Self { client: McpClient::start("hindcast", &mut mcp)?, entry })
    }

    fn ask(&mut self, tool: &str, arguments: &Value) -> Result<Answer> {
        Ok(self.client.call(tool, arguments)?.answer)
    }

    /// A movement that must end for the given reason.
    fn travel(&mut self, tool: &str, arguments: &Value, reason: &str) -> Result<Answer> {
        let moved = self.client.call(tool, arguments)?;
        if moved.structured["reason"] != reason {
            bail!("{tool} did not stop for `{reason}`: {}", moved.answer.text);
        }
        Ok(moved.answer)
    }
}

impl Debugger for Hindcast {
    fn conversation(&self) -> &Conversation {
        self.client.conversation()
    }

    fn run_to(&mut self, program: &Program, place: &Place) -> Result<Answer> {
        let mut launch = json!({ "program": program.path, "args": program.arguments });
        match self.entry {
            Entry::Main => {}
            Entry::Loader => launch["stop_at_entry"] = "loader".into(),
        }
        let launched = self.travel("debugger/launch", &launch, "entry")?;
        let breakpoint = match place {
            Place::Function(function) => json!({ "function": function }),
            Place::Line { file, line } => json!({ "file": file, "line": line }),
        };
        self.ask("debugger/set_breakpoint", &breakpoint)?;
        self.travel("debugger/continue", &json!({}), "breakpoint")?;
        Ok(launched)
    }
}

impl Inspector for Hindcast {
    fn tools_list(&mut self) -> Result<Option<Answer>> {
        self.client.tools_list().map(Some)
    }

    fn continue_to_stop(&mut self) -> Result<Answer> {
        self.travel("debugger/continue", &json!({}), "breakpoint")
    }

    fn step_over(&mut self) -> Result<Answer> {
        // A step that ends on the breakpoint may call itself either.
        self.ask("debugger/step_forward", &json!({ "granularity": "over" }))
    }

    fn stack(&mut self) -> Result<Answer> {
        self.ask("debugger/get_stack_trace", &json!({}))
    }

    fn locals(&mut self) -> Result<Answer> {
        self.ask("debugger/get_variables", &json!({}))
    }
}
