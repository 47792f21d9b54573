//! A session of `hindcast mcp` with a .NET program.

use std::process::Command;

use anyhow::{Result, bail, ensure};
use hindcast_fixtures::dotnet::{DotnetProgram, Runtime};
use serde_json::{Value, json};

use super::Bench;
use crate::bench::mcp_client::{McpClient, ToolAnswer};
use crate::bench::process_tree;

/// A running `hindcast mcp` whose `dotnet` is that of one runtime.
pub(super) struct Session(McpClient);

impl Session {
    /// Starts the server and waits for the answer to `initialize`.
    pub(super) fn start(bench: &Bench, runtime: &Runtime) -> Result<Self> {
        let mut mcp = Command::new(&bench.binary);
        mcp.args(["mcp", "--data-dir"]).arg(&bench.data).env("DOTNET_ROOT", &runtime.root);
        Ok(Self(McpClient::start("hindcast", &mut mcp)?))
    }

    /// Starts a program, which then stands in `Main`.
    pub(super) fn launch(&mut self, program: &DotnetProgram, arguments: &[&str]) -> Result<()> {
        self.travel("launch", &json!({ "program": program.dll, "args": arguments }), &["entry"])
    }

    /// Sets a breakpoint at a mark and runs to it.
    pub(super) fn run_to(&mut self, program: &DotnetProgram, mark: &str) -> Result<()> {
        let place = json!({ "file": program.source_text(), "line": program.line(mark) });
        self.ask("set_breakpoint", &place)?;
        self.run()
    }

    /// Sets a breakpoint with a condition at a mark.
    pub(super) fn break_if(&mut self, program: &DotnetProgram, mark: &str, condition: &str) -> Result<()> {
        let (file, line) = (program.source_text(), program.line(mark));
        self.ask("set_breakpoint", &json!({ "file": file, "line": line, "condition": condition })).map(drop)
    }

    /// Goes on to a breakpoint.
    pub(super) fn run(&mut self) -> Result<()> {
        self.travel("continue", &json!({}), &["breakpoint"])
    }

    /// Steps over a line.
    pub(super) fn step(&mut self) -> Result<()> {
        // Where a breakpoint is at the next line, that is the reason.
        self.travel("step_forward", &json!({ "granularity": "over" }), &["step", "breakpoint"])
    }

    /// Variables of the innermost frame, one of which must be `expected`.
    pub(super) fn locals(&mut self, expected: &str) -> Result<()> {
        let answer = self.ask("get_variables", &json!({}))?;
        // A quick answer that is not one would win every comparison.
        let variables = answer.structured["variables"].as_array().map(Vec::as_slice).unwrap_or_default();
        ensure!(
            variables.iter().any(|variable| variable["name"] == expected),
            "`{expected}` is missing in `{}`",
            answer.answer.text
        );
        Ok(())
    }

    /// Attaches to a process.
    pub(super) fn attach(&mut self, process: u32) -> Result<()> {
        let attached = self.ask("attach", &json!({ "pid": process }))?;
        ensure!(attached.structured["engine"] == "dotnet", "attach: {}", attached.answer.text);
        Ok(())
    }

    /// Ends a program that was launched, or lets go of one that ran before.
    pub(super) fn disconnect(&mut self) -> Result<()> {
        self.ask("disconnect", &json!({})).map(drop)
    }

    /// The most memory that the server and its worker had resident, added up, in kB.
    pub(super) fn peak_memory(&self, runtime: &Runtime) -> Result<u64> {
        process_tree::peak_memory_without(self.0.conversation().process(), &runtime.dotnet)
    }

    fn ask(&mut self, tool: &str, arguments: &Value) -> Result<ToolAnswer> {
        self.0.call(&format!("debugger/{tool}"), arguments)
    }

    /// A movement that must end for one of these reasons.
    fn travel(&mut self, tool: &str, arguments: &Value, reasons: &[&str]) -> Result<()> {
        let moved = self.ask(tool, arguments)?;
        if !reasons.iter().any(|reason| moved.structured["reason"] == **reason) {
            bail!("{tool} did not stop for {}: {}", reasons.join(" or "), moved.answer.text);
        }
        Ok(())
    }
}
