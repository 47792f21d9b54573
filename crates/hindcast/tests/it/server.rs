//! A running `hindcast serve`, and a small HTTP client to talk to it.

use std::{
    io::{BufRead, BufReader, Read, Write},
    net::{SocketAddr, TcpStream},
    path::{Path, PathBuf},
    process::{Child, ChildStdout, Command, Output, Stdio},
    time::{Duration, Instant},
};

use serde_json::{Value, json};

/// The binary under test.
pub(crate) const HINDCAST: &str = env!("CARGO_BIN_EXE_hindcast");

/// Runs a command of the binary with the given data folder; panics unless it succeeds.
pub(crate) fn hindcast(data: &Path, arguments: &[&str]) -> String {
    let output = try_hindcast(data, arguments);
    assert!(output.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

/// Runs a command of the binary with the given data folder.
pub(crate) fn try_hindcast(data: &Path, arguments: &[&str]) -> Output {
    command().args(arguments).arg("--data-dir").arg(data).output().unwrap()
}

/// The binary, cut off from the configuration of whoever runs the tests.
pub(crate) fn command() -> Command {
    let mut command = Command::new(HINDCAST);
    for (name, _) in std::env::vars().filter(|(name, _)| name.starts_with("HINDCAST_")) {
        command.env_remove(name);
    }
    command.env("XDG_CONFIG_HOME", "/nonexistent").stdin(Stdio::null());
    command
}

/// A server in a data folder of its own. It is killed when dropped; the folder goes with it.
pub(crate) struct Server {
    process: Child,
    stdout: Option<BufReader<ChildStdout>>,
    /// Where it listens.
    pub(crate) address: SocketAddr,
    /// Where its data is.
    pub(crate) data: PathBuf,
    /// What it prints at its first start.
    pub(crate) first_key: Option<String>,
    folder: Option<tempfile::TempDir>,
}

impl Server {
    /// Plain HTTP on a free port, with further arguments.
    pub(crate) fn start(arguments: &[&str]) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let mut server = Self::start_in(folder.path(), arguments);
        server.folder = Some(folder);
        server
    }

    /// The same over data that is already there; `--http` is left out when `--tls` is asked for.
    pub(crate) fn start_in(data: &Path, arguments: &[&str]) -> Self {
        let mut command = command();
        command.args(["serve", "--listen", "127.0.0.1:0", "--data-dir"]).arg(data);
        let tls = arguments.contains(&"--tls");
        if !tls {
            command.arg("--http");
        }
        command.args(arguments.iter().filter(|argument| **argument != "--tls"));
        let mut process = command.stdout(Stdio::piped()).stderr(Stdio::inherit()).spawn().unwrap();
        let mut stdout = BufReader::new(process.stdout.take().unwrap());
        let mut line = String::new();
        stdout.read_line(&mut line).unwrap();
        let port = line.trim().rsplit_once(':').unwrap_or_else(|| panic!("no address in {line:?}")).1;
        let port = port.strip_suffix("/mcp").unwrap().parse().unwrap();
        let mut first_key = None;
        let mut lines = 0;
        // The greeting has three lines, or more when it shows a key.
        while first_key.is_none() && lines < 2 {
            line.clear();
            stdout.read_line(&mut line).unwrap();
            lines += 1;
            first_key = line.split_whitespace().find(|word| word.starts_with("kdb_")).map(str::to_owned);
        }
        Self {
            process,
            stdout: Some(stdout),
            address: SocketAddr::from(([127, 0, 0, 1], port)),
            data: data.into(),
            first_key,
            folder: None,
        }
    }

    /// Makes a key with these further arguments; gives its text.
    pub(crate) fn key(&self, arguments: &[&str]) -> String {
        self.new_key(arguments)["key"].as_str().unwrap().to_owned()
    }

    /// Makes a key with these further arguments; gives all that is told of it.
    pub(crate) fn new_key(&self, arguments: &[&str]) -> Value {
        let mut all = vec!["keys", "create", "--name", "test", "--json"];
        all.extend(arguments);
        serde_json::from_str(&hindcast(&self.data, &all)).unwrap()
    }

    /// A key that no limit stops.
    pub(crate) fn unlimited_key(&self) -> String {
        self.key(&["--tier", "enterprise"])
    }

    pub(crate) fn connect(&self) -> Connection {
        Connection::to(self.address)
    }

    /// Sends one JSON-RPC request over a connection of its own.
    pub(crate) fn rpc(&self, key: &str, method: &str, params: Value) -> Reply {
        self.connect().rpc(key, method, params)
    }

    /// Calls a tool; gives the result or the error.
    pub(crate) fn call(&self, key: &str, tool: &str, arguments: Value) -> Value {
        self.rpc(key, "tools/call", json!({ "name": tool, "arguments": arguments })).json()
    }

    pub(crate) fn pid(&self) -> u32 {
        self.process.id()
    }

    /// Resident memory in bytes.
    pub(crate) fn resident_bytes(&self) -> u64 {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.pid())).unwrap();
        let line = status.lines().find(|line| line.starts_with("VmRSS:")).unwrap();
        line.split_whitespace().nth(1).unwrap().parse::<u64>().unwrap() * 1024
    }

    /// Sends a signal by name, such as `TERM`.
    pub(crate) fn signal(&self, name: &str) {
        let sent = Command::new("kill").args([format!("-{name}"), self.pid().to_string()]).status().unwrap();
        assert!(sent.success());
    }

    /// Waits for the process to end by itself.
    pub(crate) fn ended(&mut self) -> std::process::ExitStatus {
        self.process.wait().unwrap()
    }

    /// Kills it without warning; the data stays.
    pub(crate) fn kill(mut self) -> Data {
        self.process.kill().unwrap();
        self.process.wait().unwrap();
        Data { path: self.data.clone(), _folder: self.folder.take() }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
        drop(self.stdout.take());
    }
}

/// What a killed server leaves.
pub(crate) struct Data {
    pub(crate) path: PathBuf,
    _folder: Option<tempfile::TempDir>,
}

/// A keep-alive connection.
pub(crate) struct Connection {
    stream: BufReader<TcpStream>,
}

/// An HTTP answer.
#[derive(Debug)]
pub(crate) struct Reply {
    pub(crate) status: u16,
    pub(crate) headers: Vec<(String, String)>,
    pub(crate) body: Vec<u8>,
}

impl Reply {
    pub(crate) fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap_or_else(|error| panic!("{error}: {self:?}"))
    }

    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
    }

    /// The JSON-RPC error code; 0 when it is no error.
    pub(crate) fn code(&self) -> i64 {
        self.json()["error"]["code"].as_i64().unwrap_or(0)
    }
}

impl Connection {
    pub(crate) fn to(address: SocketAddr) -> Self {
        let stream = TcpStream::connect(address).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
        stream.set_nodelay(true).unwrap();
        Self { stream: BufReader::new(stream) }
    }

    pub(crate) fn send(&mut self, bytes: &[u8]) -> std::io::Result<()> {
        self.stream.get_mut().write_all(bytes)
    }

    /// Posts a body with the headers that a bare `curl` would send.
    pub(crate) fn post(&mut self, key: &str, body: &[u8]) -> Reply {
        self.try_post(key, body).unwrap()
    }

    pub(crate) fn try_post(&mut self, key: &str, body: &[u8]) -> std::io::Result<Reply> {
        self.post_with(&format!("Authorization: Bearer {key}\r\n"), body)
    }

    /// Posts a body with further header lines, each ended by CRLF.
    pub(crate) fn post_with(&mut self, headers: &str, body: &[u8]) -> std::io::Result<Reply> {
        let head = format!(
            "POST /mcp HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n{headers}Content-Length: {}\r\n\r\n",
            body.len()
        );
        self.send(&[head.as_bytes(), body].concat())?;
        self.reply()
    }

    pub(crate) fn rpc(&mut self, key: &str, method: &str, params: Value) -> Reply {
        let request = json!({ "jsonrpc": "2.0", "id": 1, "method": method, "params": params });
        self.post(key, request.to_string().as_bytes())
    }

    /// Reads one answer with a Content-Length.
    pub(crate) fn reply(&mut self) -> std::io::Result<Reply> {
        let mut line = String::new();
        if self.stream.read_line(&mut line)? == 0 {
            return Err(std::io::ErrorKind::UnexpectedEof.into());
        }
        let status = line
            .split(' ')
            .nth(1)
            .and_then(|status| status.parse().ok())
            .unwrap_or_else(|| panic!("{line:?}"));
        let mut headers = Vec::new();
        loop {
            line.clear();
            if self.stream.read_line(&mut line)? == 0 {
                return Err(std::io::ErrorKind::UnexpectedEof.into());
            }
            let Some((name, value)) = line.trim_end().split_once(':') else { break };
            headers.push((name.to_ascii_lowercase(), value.trim().to_owned()));
        }
        let length = headers.iter().find(|(name, _)| name == "content-length");
        let length: usize = length.map_or(0, |(_, value)| value.parse().unwrap());
        let mut body = vec![0; length];
        self.stream.read_exact(&mut body)?;
        Ok(Reply { status, headers, body })
    }
}

/// Waits until `met`, and fails when that takes more than ten seconds.
pub(crate) fn eventually(what: &str, mut met: impl FnMut() -> bool) {
    let started = Instant::now();
    while !met() {
        assert!(started.elapsed() < Duration::from_secs(10), "never happened: {what}");
        std::thread::park_timeout(Duration::from_millis(10));
    }
}
