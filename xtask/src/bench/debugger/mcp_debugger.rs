//! The npm package `@debugmcp/mcp-debugger`, which drives CodeLLDB, in the order its own instructions recommend.

use std::path::Path;
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use serde_json::{Value, json};

use super::contender::{Debugger, Inspector, Place, Program};
use crate::bench::conversation::{Answer, Conversation};
use crate::bench::mcp_client::McpClient;
use crate::peers;
use crate::workspace::Workspace;

/// `continue_execution` does not wait for the stop, so it is asked for.
const BETWEEN_QUESTIONS: Duration = Duration::from_millis(2);

/// A running mcp-debugger.
pub(super) struct McpDebugger {
    client: McpClient,
    session: Option<String>,
}

impl McpDebugger {
    /// Starts it and waits for the answer to `initialize`. What it leaves behind is left in `folder`.
    pub(super) fn start(workspace: &Workspace, folder: &Path) -> Result<Self> {
        let packages = peers::debuggers_folder(workspace).join("node_modules");
        let mut server = Command::new(packages.join("node/bin/node"));
        server.arg(packages.join("@debugmcp/mcp-debugger/dist/cli")).arg("stdio");
        server.current_dir(folder).env("NODE_ENV", "production");
        Ok(Self { client: McpClient::start("mcp-debugger", &mut server)?, session: None })
    }

    /// Calls a tool on the session. Its text is JSON that says whether it worked.
    fn ask(&mut self, tool: &str, mut arguments: Value) -> Result<(Answer, Value)> {
        if let Some(session) = &self.session {
            arguments["sessionId"] = session.as_str().into();
        }
        let answer = self.client.call(tool, &arguments)?.answer;
        let said: Value = serde_json::from_str(&answer.text)
            .with_context(|| format!("{tool}: no JSON: {}", answer.text))?;
        if said["success"] != true {
            bail!("{tool}: {}", answer.text);
        }
        Ok((answer, said))
    }

    fn wait_until_paused(&mut self) -> Result<()> {
        loop {
            let (answer, said) = self.ask("list_debug_sessions", json!({}))?;
            match said["sessions"][0]["state"].as_str() {
                Some("paused") => return Ok(()),
                Some("running" | "initializing") => std::thread::sleep(BETWEEN_QUESTIONS),
                _ => bail!("mcp-debugger did not stop: {}", answer.text),
            }
        }
    }
}

impl Debugger for McpDebugger {
    fn conversation(&self) -> &Conversation {
        self.client.conversation()
    }

    fn run_to(&mut self, program: &Program, place: &Place) -> Result<Answer> {
        let (_, created) = self.ask("create_debug_session", json!({ "language": "cpp" }))?;
        let session = created["sessionId"].as_str().context("mcp-debugger did not name its session")?;
        self.session = Some(session.to_owned());
        let breakpoint = match place {
            Place::Function(function) => json!({ "function": function }),
            Place::Line { file, line } => json!({ "file": file, "line": line }),
        };
        self.ask("set_breakpoint", breakpoint)?;
        let start = json!({ "scriptPath": program.path, "args": program.arguments });
        let (launched, said) = self.ask("start_debugging", start)?;
        if said["state"] != "paused" {
            self.wait_until_paused()?;
        }
        Ok(launched)
    }
}

impl Inspector for McpDebugger {
    fn tools_list(&mut self) -> Result<Option<Answer>> {
        self.client.tools_list().map(Some)
    }

    fn continue_to_stop(&mut self) -> Result<Answer> {
        let (answer, _) = self.ask("continue_execution", json!({}))?;
        self.wait_until_paused()?;
        Ok(answer)
    }

    fn step_over(&mut self) -> Result<Answer> {
        let (answer, said) = self.ask("step_over", json!({}))?;
        if said["state"] != "paused" {
            bail!("mcp-debugger is still stepping: {}", answer.text);
        }
        Ok(answer)
    }

    fn stack(&mut self) -> Result<Answer> {
        Ok(self.ask("get_stack_trace", json!({}))?.0)
    }

    fn locals(&mut self) -> Result<Answer> {
        Ok(self.ask("get_local_variables", json!({}))?.0)
    }
}
