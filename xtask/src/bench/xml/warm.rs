//! The same from a server that has the document already.

use std::{
    io::{BufRead, BufReader, Write},
    process::{Child, ChildStdin, ChildStdout, Command, Stdio},
    time::Duration,
};

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};

use super::corpus;
use crate::bench::machine;

/// Calls of each tool that are measured; the kernel counts time in hundredths of a second.
const CALLS: u32 = 40;

/// The kernel's unit of processor time.
const TICK: Duration = Duration::from_millis(10);

pub(super) struct Warm {
    pub(super) query: Duration,
    pub(super) validation: Duration,
    /// Memory of the server with the document, in kB.
    pub(super) resident: u64,
}

pub(super) fn measure(command: &mut Command, query: &str) -> Result<Warm> {
    let mut server = Server::start(command)?;
    let asked = json!({ "document": corpus::DOCUMENT, "query": query });
    let judged = json!({ "document": corpus::DOCUMENT, "schema": corpus::SCHEMA });
    server.call("xpath_query", &asked)?;
    server.call("validate_schema", &judged)?;
    Ok(Warm {
        query: server.measure("xpath_query", &asked)?,
        validation: server.measure("validate_schema", &judged)?,
        resident: machine::memory(server.child.id())?.resident,
    })
}

/// A `hindcast mcp`, ended when dropped.
struct Server {
    child: Child,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
    last: u64,
}

impl Server {
    fn start(command: &mut Command) -> Result<Self> {
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null()).spawn()?;
        let input = child.stdin.take().context("no standard input")?;
        let output = BufReader::new(child.stdout.take().context("no standard output")?);
        let mut server = Self { child, input, output, last: 0 };
        let client = json!({ "name": "bench", "version": "1" });
        let hello = json!({ "protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": client });
        server.request("initialize", &hello)?;
        server.send(&json!({ "jsonrpc": "2.0", "method": "notifications/initialized" }))?;
        Ok(server)
    }

    fn send(&mut self, message: &Value) -> Result<()> {
        writeln!(self.input, "{message}")?;
        Ok(self.input.flush()?)
    }

    fn request(&mut self, method: &str, params: &Value) -> Result<Value> {
        self.last += 1;
        let id = self.last;
        self.send(&json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params }))?;
        loop {
            let mut line = String::new();
            ensure!(self.output.read_line(&mut line)? > 0, "hindcast ended");
            let message: Value = serde_json::from_str(&line)?;
            if message["id"] == id {
                ensure!(message.get("error").is_none(), "{message}");
                return Ok(message["result"].clone());
            }
        }
    }

    fn call(&mut self, tool: &str, arguments: &Value) -> Result<()> {
        self.request("tools/call", &json!({ "name": tool, "arguments": arguments })).map(drop)
    }

    /// The server's processor time for one call.
    fn measure(&mut self, tool: &str, arguments: &Value) -> Result<Duration> {
        let before = self.processor()?;
        for _ in 0..CALLS {
            self.call(tool, arguments)?;
        }
        Ok((self.processor()? - before).max(TICK) / CALLS)
    }

    fn processor(&self) -> Result<Duration> {
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", self.child.id()))?;
        let after_name = stat.rsplit_once(") ").context("no name in /proc")?.1;
        let ticks: Vec<u32> =
            after_name.split(' ').skip(11).take(2).map(str::parse).collect::<Result<_, _>>()?;
        Ok(TICK * ticks.iter().sum::<u32>())
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // It may have ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
