//! `cargo xtask bench`: measurements against peers, all in one run, written into docs/benchmarks.md.

mod adapters;
mod contender;
mod conversation;
mod debugger;
mod document;
mod dotnet;
mod knowledge;
mod load;
mod machine;
mod mcp_client;
mod process_tree;
mod raw_adapter;
mod report;
mod series;
mod server;
mod start;
mod time_travel;
mod xml;

use anyhow::Result;
use clap::Subcommand;

use crate::workspace::Workspace;

/// What can be measured.
#[derive(Subcommand)]
pub(crate) enum Subject {
    /// Requests a second, latency, memory and start of the server, against FastMCP and the TypeScript SDK
    Server(server::Options),
    /// Start, first stop, steps, variables, sizes of answers and memory of debuggers, against mcp-debugger, gdb and lldb
    Debugger(debugger::Options),
    /// First stop, steps and variables through debug adapters, against mcp-debugger with the same adapters
    Adapters(adapters::Options),
    /// First stop, steps, variables, attaching and memory with .NET programs, against the runtime's own start
    Dotnet(dotnet::Options),
    /// Cost of recording, and how long it takes to go back, against native runs and gdb's `record`
    TimeTravel(time_travel::Options),
    /// Processor time and memory for reading, querying and validating a large document, against xmllint
    Xml(xml::Options),
    /// Quality of the search, rate of embedding against onnxruntime, and the indexes up to a million chunks
    Knowledge(knowledge::Options),
}

/// Measures `subject`.
pub(crate) fn run(workspace: &Workspace, subject: &Subject) -> Result<()> {
    match subject {
        Subject::Server(options) => server::run(workspace, options),
        Subject::Debugger(options) => debugger::run(workspace, options),
        Subject::Adapters(options) => adapters::run(workspace, options),
        Subject::Dotnet(options) => dotnet::run(workspace, options),
        Subject::TimeTravel(options) => time_travel::run(workspace, options),
        Subject::Xml(options) => xml::run(workspace, options),
        Subject::Knowledge(options) => knowledge::run(workspace, options),
    }
}
