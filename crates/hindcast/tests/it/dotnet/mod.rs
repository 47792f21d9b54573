//! .NET programs as the users of the built binary debug them, on both runtimes.

mod bad_input;
mod cannot;
mod doctor;
mod hanging;
mod killing;
mod resources;
mod serving;
mod tools;

use std::{
    io::{BufRead, BufReader, Write},
    process::{Child, ChildStdin, Command, Stdio},
    sync::mpsc,
    time::Duration,
};

use hindcast_fixtures::dotnet::{self, DotnetProgram, Runtime};
use serde_json::{Value, json};

use crate::knowledge::Client;

/// Does the same on the older and on the newer runtime.
fn on_both(test: impl Fn(&Runtime)) {
    dotnet::runtimes().iter().for_each(test);
}

/// Does what needs no runtime, or any, once.
fn once(test: impl Fn(&Runtime)) {
    dotnet::runtimes().last().into_iter().for_each(test);
}

/// A client of `hindcast mcp` for which `dotnet` is that of the runtime.
fn client(runtime: &Runtime) -> Client {
    Client::over(tempfile::tempdir().unwrap(), &[("DOTNET_ROOT", runtime.root.to_str().unwrap())])
}

/// What the contract calls the runtime.
fn runtime_name(runtime: &Runtime) -> String {
    let prefix = if runtime.version.starts_with('3') { ".NET Core" } else { ".NET" };
    format!("{prefix} {}", runtime.version)
}

/// The text of a call that succeeds.
#[track_caller]
fn text(client: &mut Client, tool: &str, arguments: Value) -> String {
    let name = format!("debugger/{tool}");
    let answer = client.request("tools/call", json!({ "name": name, "arguments": arguments }));
    let text = answer["result"]["content"][0]["text"].as_str();
    text.unwrap_or_else(|| panic!("{tool}: {answer}")).to_owned()
}

/// The data of a call that succeeds.
#[track_caller]
fn data(client: &mut Client, tool: &str, arguments: Value) -> Value {
    client.call(&format!("debugger/{tool}"), arguments)
}

/// The error of a call that fails: `details · hint`.
#[track_caller]
fn refused(client: &mut Client, tool: &str, arguments: Value) -> (i64, String) {
    let name = format!("debugger/{tool}");
    let answer = client.request("tools/call", json!({ "name": name, "arguments": arguments }));
    refusal(&answer)
}

#[track_caller]
fn refusal(answer: &Value) -> (i64, String) {
    let error = crate::server::helpful_error(answer);
    let said = |field: &str| error["data"][field].as_str().unwrap_or_default().to_owned();
    (error["code"].as_i64().unwrap(), format!("{} · {}", said("details"), said("hint")))
}

/// Launches a program, which stops in `Main`.
#[track_caller]
fn launch(client: &mut Client, program: &DotnetProgram, args: &[&str]) -> Value {
    data(client, "launch", json!({ "program": program.dll, "args": args }))
}

/// The server fixture, running without us.
struct Running {
    process: Child,
    input: ChildStdin,
    lines: mpsc::Receiver<String>,
}

impl Running {
    fn start(runtime: &Runtime, program: &DotnetProgram, args: &[&str]) -> Self {
        let mut command = runtime.command(program);
        command.args(args);
        Self::of(command)
    }

    fn of(mut command: Command) -> Self {
        let mut process = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let input = process.stdin.take().unwrap();
        let output = BufReader::new(process.stdout.take().unwrap());
        let (sender, lines) = mpsc::channel();
        // Read apart from the test, which then can give up waiting.
        std::thread::spawn(move || {
            output.lines().map_while(Result::ok).try_for_each(|line| sender.send(line))
        });
        let mut running = Self { process, input, lines };
        assert!(running.line().starts_with("ready"));
        running
    }

    fn pid(&self) -> u32 {
        self.process.id()
    }

    #[track_caller]
    fn line(&mut self) -> String {
        let line = self.lines.recv_timeout(Duration::from_secs(20));
        line.unwrap_or_else(|_| panic!("it answers nothing; it has ended: {:?}", self.process.try_wait()))
    }

    fn ask(&mut self, line: &str) {
        let written = writeln!(self.input, "{line}");
        assert!(written.is_ok(), "it has ended: {:?}", self.process.wait());
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        dotnet::kill(&mut self.process);
    }
}
