//! The same programs under mcp-debugger and hindcast: both must stop at the same lines with the same values. The programs have the
//! shape of that project's examples.

use std::{
    io::{BufRead, BufReader, Write},
    path::Path,
    process::{Child, ChildStdin, ChildStdout, Command, Stdio},
    time::{Duration, Instant},
};

use hindcast_fixtures::adapters::{self, Script};
use serde_json::{Value, json};

use super::{client, data};

/// A client of mcp-debugger.
struct Peer {
    child: Child,
    to: ChildStdin,
    from: BufReader<ChildStdout>,
    last: u64,
}

impl Peer {
    fn start(folder: &Path) -> Option<Self> {
        let mut environment = adapters::environment()?;
        // Debian gives the debugger of Ruby a version in its name.
        let paths = std::env::var_os("PATH").unwrap_or_default();
        if let Some(rdbg) =
            std::env::split_paths(&paths).map(|path| path.join("rdbg3.1")).find(|path| path.is_file())
        {
            std::os::unix::fs::symlink(rdbg, folder.join("rdbg")).unwrap();
        }
        let server = environment.iter().find(|(name, _)| *name == "JAVA_DEBUG_ADAPTER");
        let classes = server.map(|(_, server)| Path::new(server).with_file_name("out"));
        if let Some(java) =
            std::env::split_paths(&paths).map(|path| path.join("java")).find(|path| path.is_file())
        {
            use std::os::unix::fs::PermissionsExt;
            // The adapter's classes that come with it are for a newer JDK.
            let script = format!(
                "#!/bin/sh\nif [ \"$1\" = -cp ] && [ \"$3\" = JdiDapServer ]; then shift 2; set -- -cp {} \"$@\"; fi\nexec {} \"$@\"\n",
                classes.unwrap_or_default().display(),
                java.display()
            );
            std::fs::write(folder.join("java"), script).unwrap();
            std::fs::set_permissions(folder.join("java"), PermissionsExt::from_mode(0o755)).unwrap();
        }
        for (name, value) in &mut environment {
            if *name == "PATH" {
                *value = format!("{}:{value}", folder.display());
            }
        }
        let server = adapters::mcp_debugger()?;
        let mut command = Command::new("node");
        command.arg(server).arg("stdio").current_dir(folder).envs(environment).env("NODE_ENV", "production");
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
        let mut child = command.spawn().unwrap();
        let (to, from) = (child.stdin.take().unwrap(), BufReader::new(child.stdout.take().unwrap()));
        let mut peer = Self { child, to, from, last: 0 };
        let who = json!({ "name": "test", "version": "1" });
        let hello = json!({ "protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": who });
        peer.request("initialize", hello);
        peer.send(&json!({ "jsonrpc": "2.0", "method": "notifications/initialized" }));
        Some(peer)
    }

    fn send(&mut self, message: &Value) {
        writeln!(self.to, "{message}").unwrap();
    }

    fn request(&mut self, method: &str, params: Value) -> Value {
        self.last += 1;
        self.send(&json!({ "jsonrpc": "2.0", "id": self.last, "method": method, "params": params }));
        loop {
            let mut line = String::new();
            assert!(self.from.read_line(&mut line).unwrap() > 0, "mcp-debugger has ended");
            let message: Value = serde_json::from_str(&line).unwrap();
            if message["id"] == self.last {
                return message;
            }
        }
    }

    fn call(&mut self, tool: &str, arguments: Value) -> Value {
        let answer = self.request("tools/call", json!({ "name": tool, "arguments": arguments }));
        let text =
            answer["result"]["content"][0]["text"].as_str().unwrap_or_else(|| panic!("{tool}: {answer}"));
        serde_json::from_str(text).unwrap_or_else(|_| panic!("{tool}: {text}"))
    }

    /// Whether it stops within ten seconds: now and then it misses that the program did.
    fn pauses(&mut self) -> bool {
        let deadline = Instant::now() + Duration::from_secs(10);
        while Instant::now() < deadline {
            if self.call("list_debug_sessions", json!({}))["sessions"][0]["state"] == "paused" {
                return true;
            }
        }
        false
    }
}

impl Drop for Peer {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A stop: the line, and the values of variables where they are shown.
type Stop = (u32, Vec<Option<String>>);

/// What both are asked: to stop at these lines of a program, and to show these variables.
pub(super) struct Asked<'a> {
    pub(super) language: &'a str,
    pub(super) program: &'a Path,
    pub(super) lines: Vec<u32>,
    pub(super) variables: &'a [&'a str],
}

/// The other one is asked at most so often.
const TRIES: usize = 3;

impl Asked<'_> {
    fn stops_of_peer(&self, most: usize) -> Option<Vec<Stop>> {
        let folder = tempfile::tempdir().unwrap();
        let mut peer = Peer::start(folder.path())?;
        let created = peer.call("create_debug_session", json!({ "language": self.language }));
        let session = created["sessionId"].as_str().unwrap_or_else(|| panic!("{created}")).to_owned();
        for line in &self.lines {
            let set = json!({ "sessionId": session, "file": self.program, "line": line });
            let set = peer.call("set_breakpoint", set);
            assert_eq!(set["success"], true, "{set}");
        }
        let mut started = json!({ "sessionId": session, "scriptPath": self.program, "args": [] });
        if self.language == "java" {
            started["dapLaunchArgs"] = self.compiled(folder.path());
        }
        let started = peer.call("start_debugging", started);
        if started["success"] != true {
            // On a busy machine it gives up before its adapter is there.
            eprintln!("mcp-debugger did not start {}: {started}", self.program.display());
            return Some(Vec::new());
        }
        let mut stops = Vec::new();
        while stops.len() < most && peer.pauses() {
            let stack = peer.call("get_stack_trace", json!({ "sessionId": session }));
            let line = stack["stackFrames"][0]["line"].as_u64().and_then(|line| u32::try_from(line).ok());
            let line = line.unwrap_or_else(|| panic!("{stack}"));
            // It may stop at the entry first.
            if self.lines.contains(&line) {
                let shown = peer.call("get_local_variables", json!({ "sessionId": session }));
                let value = |name: &&str| {
                    let mut all = shown["variables"].as_array().into_iter().flatten();
                    all.find(|it| it["name"] == **name).and_then(|it| it["value"].as_str().map(str::to_owned))
                };
                stops.push((line, self.variables.iter().map(value).collect()));
            }
            peer.call("continue_execution", json!({ "sessionId": session }));
        }
        peer.call("close_debug_session", json!({ "sessionId": session }));
        Some(stops)
    }

    /// It debugs classes only.
    fn compiled(&self, folder: &Path) -> Value {
        let built = Command::new("javac").args(["-g", "-d"]).arg(folder).arg(self.program).status();
        assert!(built.unwrap().success());
        let class = self.program.file_stem().unwrap().to_str();
        json!({ "mainClass": class, "classpath": folder, "cwd": folder, "stopOnEntry": false })
    }

    fn stops_of_hindcast(&self) -> Option<Vec<Stop>> {
        let mut client = client()?;
        let folder = self.program.parent().unwrap();
        let arguments = json!({ "program": self.program, "cwd": folder, "timeout_ms": 60_000 });
        data(&mut client, "launch", arguments);
        for line in &self.lines {
            data(&mut client, "set_breakpoint", json!({ "file": self.program, "line": line }));
        }
        let mut stops = Vec::new();
        loop {
            let stop = data(&mut client, "continue", json!({ "timeout_ms": 60_000 }));
            if stop["state"] == "exited" {
                return Some(stops);
            }
            let line = u32::try_from(stop["location"]["line"].as_u64().unwrap()).unwrap();
            let value = |name: &&str| {
                let mut all = stop["locals"].as_array().into_iter().flatten();
                all.find(|it| it["name"] == **name).and_then(|it| it["value"].as_str().map(str::to_owned))
            };
            stops.push((line, self.variables.iter().map(value).collect()));
        }
    }

    /// Both stop at the same lines with the same values, of which there are at least so many.
    pub(super) fn compare(&self, at_least: usize) {
        let program = self.program.display();
        // Ours comes first and waits as long as the toolchain builds: Go's first build of its library takes longer than
        // mcp-debugger waits for a program.
        let Some(ours) = self.stops_of_hindcast() else { return };
        let lines = |stops: &[Stop]| stops.iter().map(|stop| stop.0).collect::<Vec<_>>();
        let ask = || self.stops_of_peer(ours.len());
        let mut tries = std::iter::repeat_with(ask).take(TRIES).flatten();
        let Some(mut theirs) = tries.next() else { return };
        while lines(&theirs) != lines(&ours)
            && let Some(again) = tries.next()
        {
            theirs = again;
        }
        assert_eq!(lines(&theirs), lines(&ours), "{program}");
        let mut shown = 0;
        for (theirs, ours) in theirs.iter().zip(&ours) {
            // It shows the innermost scope only.
            for (theirs, ours) in theirs.1.iter().zip(&ours.1).filter(|(theirs, _)| theirs.is_some()) {
                shown += 1;
                assert_eq!(theirs, ours, "{program}");
            }
        }
        assert!(shown >= at_least, "{program}: {theirs:?}");
    }
}

const MARKS: [&str; 4] = ["swap", "swapped", "fibonacci", "result"];

fn compare(language: &str, script: &str) {
    let script = Script::new(script);
    let lines = MARKS.map(|mark| script.line(mark)).to_vec();
    Asked { language, program: &script.path, lines, variables: &["a", "b"] }.compare(4);
}

#[test]
fn python_stops_as_under_mcp_debugger() {
    compare("python", "peers/swap.py");
}

#[test]
fn javascript_stops_as_under_mcp_debugger() {
    compare("javascript", "peers/swap.js");
}

#[test]
fn go_stops_as_under_mcp_debugger() {
    compare("go", "peers/go/main.go");
}

#[test]
fn ruby_stops_as_under_mcp_debugger() {
    compare("ruby", "peers/swap.rb");
}

#[test]
fn java_stops_as_under_mcp_debugger() {
    compare("java", "peers/Swap.java");
}
