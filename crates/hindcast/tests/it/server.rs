//! A running `hindcast serve` with a small HTTP client to talk to it, and a running `hindcast mcp`.

use std::{
    io::{BufRead, BufReader, Read, Write},
    net::{SocketAddr, TcpStream},
    path::{Path, PathBuf},
    process::{Child, ChildStdin, ChildStdout, Command, Output, Stdio},
    sync::{Arc, mpsc},
    time::{Duration, Instant},
};

use hindcast_core::identity::Scope;
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

/// The Qdrant that all tests keep their vectors in: set `HINDCAST_TEST_VECTORS` to its address to try everything with it.
pub(crate) fn vectors_url() -> Option<String> {
    std::env::var("HINDCAST_TEST_VECTORS").ok()
}

/// The binary, cut off from the configuration of whoever runs the tests.
pub(crate) fn command() -> Command {
    let mut command = Command::new(HINDCAST);
    for (name, _) in std::env::vars().filter(|(name, _)| name.starts_with("HINDCAST_")) {
        command.env_remove(name);
    }
    command.env("XDG_CONFIG_HOME", "/proc/nonexistent").stdin(Stdio::null());
    // Tests that want the embedding model say where it is.
    command.env("HINDCAST_KNOWLEDGE_FETCH_MODEL", "false");
    if let Some(url) = vectors_url() {
        command.env("HINDCAST_VECTORS_URL", url);
    }
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
    /// What it makes at its first start.
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

    /// Plain HTTP on a free port, with variables of the environment such as
    /// `("HINDCAST_SERVER_DRAIN_TIMEOUT_MS", "500")`.
    pub(crate) fn start_with(environment: &[(&str, &str)]) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let mut server = Self::launch(folder.path(), &[], environment, Stdio::inherit());
        server.folder = Some(folder);
        server
    }

    /// The same over data that is already there; `--http` is left out when `--tls` is asked for.
    pub(crate) fn start_in(data: &Path, arguments: &[&str]) -> Self {
        Self::launch(data, arguments, &[], Stdio::inherit())
    }

    /// The same with variables of the environment, and with its log where the test wants it.
    pub(crate) fn launch(
        data: &Path,
        arguments: &[&str],
        environment: &[(&str, &str)],
        stderr: impl Into<Stdio>,
    ) -> Self {
        let mut command = command();
        command.env("HINDCAST_LOG_LEVEL", "warn").envs(environment.iter().copied());
        Self::run(command, data, arguments, stderr)
    }

    /// The same by a command to which the binary's arguments are appended.
    pub(crate) fn run(
        mut command: Command,
        data: &Path,
        arguments: &[&str],
        stderr: impl Into<Stdio>,
    ) -> Self {
        command.args(["serve", "--listen", "127.0.0.1:0", "--data-dir"]).arg(data);
        let tls = arguments.contains(&"--tls");
        if !tls {
            command.arg("--http");
        }
        command.args(arguments.iter().filter(|argument| **argument != "--tls"));
        let mut process = command.stdout(Stdio::piped()).stderr(stderr).spawn().unwrap();
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

    /// A key that no limit stops, of a tenant whose programs are confined.
    pub(crate) fn tenant_key(&self) -> String {
        self.key(&["--tier", "enterprise"])
    }

    /// A key that no limit and no confinement stops.
    pub(crate) fn unlimited_key(&self) -> String {
        self.unconfined_key(&["--tier", "enterprise"])
    }

    /// A key with all scopes but `admin`, and these further arguments: it may touch what runs beside the server.
    pub(crate) fn unconfined_key(&self, arguments: &[&str]) -> String {
        self.new_unconfined_key(arguments)["key"].as_str().unwrap().to_owned()
    }

    /// The same; gives all that is told of it.
    pub(crate) fn new_unconfined_key(&self, arguments: &[&str]) -> Value {
        let scopes = Scope::ALL.into_iter().filter(|scope| *scope != Scope::Admin);
        let mut all: Vec<&str> = scopes.flat_map(|scope| ["--scope", scope.name()]).collect();
        all.extend(arguments);
        self.new_key(&all)
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
        self.status_bytes("VmRSS:")
    }

    /// The most memory that was ever resident, in bytes.
    pub(crate) fn peak_bytes(&self) -> u64 {
        self.status_bytes("VmHWM:")
    }

    fn status_bytes(&self, key: &str) -> u64 {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.pid())).unwrap();
        let line = status.lines().find(|line| line.starts_with(key)).unwrap();
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

    /// Asks it to stop and waits until it has, without error; the data stays.
    pub(crate) fn stop(mut self) -> Data {
        self.signal("TERM");
        let ended = self.ended();
        assert!(ended.success(), "{ended}");
        Data { path: self.data.clone(), _folder: self.folder.take() }
    }

    /// What one that has ended leaves.
    pub(crate) fn stopped(mut self) -> Data {
        Data { path: self.data.clone(), _folder: self.folder.take() }
    }

    /// What it has printed since the greeting. Only for one that has ended, or this never returns.
    pub(crate) fn rest_of_stdout(&mut self) -> String {
        let mut rest = String::new();
        self.stdout.as_mut().unwrap().read_to_string(&mut rest).unwrap();
        rest
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

/// A running `hindcast mcp`: a line in, a line out. It is killed when dropped.
pub(crate) struct Local {
    process: Child,
    stdin: Option<ChildStdin>,
    lines: mpsc::Receiver<Vec<u8>>,
    pub(crate) folder: Arc<tempfile::TempDir>,
}

impl Local {
    pub(crate) fn start() -> Self {
        Self::start_in(tempfile::tempdir().unwrap(), &[])
    }

    /// The same over data that is already there, with variables of the environment.
    pub(crate) fn start_in(folder: impl Into<Arc<tempfile::TempDir>>, environment: &[(&str, &str)]) -> Self {
        let mut command = command();
        command.env("HINDCAST_LOG_LEVEL", "warn").envs(environment.iter().copied());
        Self::run(folder.into(), command)
    }

    /// One that works in another folder.
    pub(crate) fn start_at(working_folder: &Path) -> Self {
        let mut command = command();
        command.current_dir(working_folder);
        Self::run(Arc::new(tempfile::tempdir().unwrap()), command)
    }

    /// One that a command starts which ends with the program itself.
    pub(crate) fn run(folder: Arc<tempfile::TempDir>, mut command: Command) -> Self {
        command.args(["mcp", "--data-dir"]).arg(folder.path());
        let mut process = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let stdout = BufReader::new(process.stdout.take().unwrap());
        let (sender, lines) = mpsc::channel();
        // Read apart from the test, which then can give up waiting.
        std::thread::spawn(move || {
            stdout.split(b'\n').map_while(Result::ok).try_for_each(|line| sender.send(line))
        });
        Self { stdin: process.stdin.take(), process, lines, folder }
    }

    /// One whose session is open.
    pub(crate) fn initialized() -> Self {
        Self::start().initialize()
    }

    /// Opens the session.
    pub(crate) fn initialize(mut self) -> Self {
        self.send(INITIALIZE.as_bytes());
        assert_eq!(self.answer().unwrap()["id"], 0);
        self.send(br#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#);
        self
    }

    pub(crate) fn send(&mut self, line: &[u8]) {
        let stdin = self.stdin.as_mut().unwrap();
        stdin.write_all(&[line, b"\n"].concat()).unwrap();
    }

    /// The next line; none after the last.
    pub(crate) fn answer(&mut self) -> Option<Value> {
        match self.lines.recv_timeout(Duration::from_secs(30)) {
            Ok(line) => Some(serde_json::from_slice(&line).unwrap()),
            Err(mpsc::RecvTimeoutError::Disconnected) => None,
            Err(mpsc::RecvTimeoutError::Timeout) => panic!("it answers nothing"),
        }
    }

    /// Ends its input; gives the lines that still come and how it ended.
    pub(crate) fn close(mut self) -> (Vec<Value>, std::process::ExitStatus) {
        drop(self.stdin.take());
        let rest = std::iter::from_fn(|| self.answer()).collect();
        (rest, self.process.wait().unwrap())
    }
}

impl Drop for Local {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
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

    /// The JSON-RPC error, which must say what happened and what to do.
    pub(crate) fn error(&self) -> Value {
        helpful_error(&self.json())
    }
}

/// The error of a JSON-RPC answer; fails unless it says what happened and what to do.
pub(crate) fn helpful_error(answer: &Value) -> Value {
    let error = &answer["error"];
    assert_eq!(answer["jsonrpc"], "2.0", "{answer}");
    assert!(answer.get("id").is_some() && answer.get("result").is_none(), "{answer}");
    assert!(error["code"].is_i64(), "not an error: {answer}");
    for text in [&error["message"], &error["data"]["details"], &error["data"]["hint"]] {
        assert!(text.as_str().is_some_and(|text| !text.is_empty()), "{answer}");
    }
    error.clone()
}

impl Connection {
    pub(crate) fn to(address: SocketAddr) -> Self {
        Self::try_to(address).unwrap()
    }

    /// The same to a server that may be gone.
    pub(crate) fn try_to(address: SocketAddr) -> std::io::Result<Self> {
        let stream = TcpStream::connect(address)?;
        stream.set_read_timeout(Some(Duration::from_secs(30)))?;
        stream.set_nodelay(true)?;
        Ok(Self { stream: BufReader::new(stream) })
    }

    pub(crate) fn send(&mut self, bytes: &[u8]) -> std::io::Result<()> {
        self.stream.get_mut().write_all(bytes)
    }

    pub(crate) fn socket(&self) -> &TcpStream {
        self.stream.get_ref()
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
        let headers = format!("Host: localhost\r\nContent-Type: application/json\r\n{headers}");
        self.request("POST /mcp", &headers, body)
    }

    /// Sends a request with these header lines, each ended by CRLF, and a Content-Length.
    pub(crate) fn request(&mut self, what: &str, headers: &str, body: &[u8]) -> std::io::Result<Reply> {
        let head = format!("{what} HTTP/1.1\r\n{headers}Content-Length: {}\r\n\r\n", body.len());
        self.send(&[head.as_bytes(), body].concat())?;
        self.reply()
    }

    /// Opens an MCP session; gives the header line that names it.
    pub(crate) fn initialize(&mut self, key: &str) -> String {
        self.try_initialize(key).unwrap_or_else(|| panic!("no session is opened"))
    }

    /// The same; none where the server has no room.
    pub(crate) fn try_initialize(&mut self, key: &str) -> Option<String> {
        let headers = format!("Authorization: Bearer {key}\r\nAccept: {BOTH}\r\n");
        let opened = self.post_with(&headers, INITIALIZE.as_bytes()).ok()?;
        Some(format!("Mcp-Session-Id: {}\r\n", opened.header("mcp-session-id")?))
    }

    pub(crate) fn rpc(&mut self, key: &str, method: &str, params: Value) -> Reply {
        let request = json!({ "jsonrpc": "2.0", "id": 1, "method": method, "params": params });
        self.post(key, request.to_string().as_bytes())
    }

    /// Reads one answer to its end; that of an event stream is the end of the stream.
    pub(crate) fn reply(&mut self) -> std::io::Result<Reply> {
        let mut reply = self.head()?;
        if reply.header("transfer-encoding") == Some("chunked") {
            while let Some(chunk) = self.chunk()? {
                reply.body.extend(chunk);
            }
        } else {
            let length = reply.header("content-length").map_or(0, |length| length.parse().unwrap());
            reply.body = vec![0; length];
            self.stream.read_exact(&mut reply.body)?;
        }
        Ok(reply)
    }

    /// Reads the status and the headers of an answer and leaves the body.
    pub(crate) fn head(&mut self) -> std::io::Result<Reply> {
        let line = self.line()?;
        let status = line
            .split(' ')
            .nth(1)
            .and_then(|status| status.parse().ok())
            .unwrap_or_else(|| panic!("{line:?}"));
        let mut headers = Vec::new();
        while let Some((name, value)) = self.line()?.split_once(':') {
            headers.push((name.to_ascii_lowercase(), value.trim().to_owned()));
        }
        Ok(Reply { status, headers, body: Vec::new() })
    }

    /// The next chunk of a chunked body; none at its end.
    pub(crate) fn chunk(&mut self) -> std::io::Result<Option<Vec<u8>>> {
        let length = usize::from_str_radix(self.line()?.trim(), 16).unwrap();
        let mut chunk = vec![0; length + 2];
        self.stream.read_exact(&mut chunk)?;
        chunk.truncate(length);
        Ok(Some(chunk).filter(|chunk| !chunk.is_empty()))
    }

    fn line(&mut self) -> std::io::Result<String> {
        let mut line = String::new();
        if self.stream.read_line(&mut line)? == 0 {
            return Err(std::io::ErrorKind::UnexpectedEof.into());
        }
        Ok(line.trim_end().to_owned())
    }
}

/// What a client of the protocol accepts.
pub(crate) const BOTH: &str = "application/json, text/event-stream";

/// The first message of a client of the protocol.
pub(crate) const INITIALIZE: &str = r#"{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"it","version":"1"}}}"#;

/// Waits until `met`, and fails when that takes more than ten seconds.
pub(crate) fn eventually(what: &str, mut met: impl FnMut() -> bool) {
    let started = Instant::now();
    while !met() {
        assert!(started.elapsed() < Duration::from_secs(10), "never happened: {what}");
        std::thread::park_timeout(Duration::from_millis(10));
    }
}

/// How often a test kills what it tests: `usual` times, or as often as `HINDCAST_KILLS` says.
pub(crate) fn kills(usual: usize) -> usize {
    std::env::var("HINDCAST_KILLS").map_or(usual, |kills| kills.parse().unwrap())
}

/// Chance that comes out the same every time (SplitMix64).
pub(crate) struct Dice(pub(crate) u64);

impl Dice {
    /// A number below `sides`.
    pub(crate) fn roll(&mut self, sides: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((mixed ^ (mixed >> 31)) % sides as u64) as usize
    }

    /// One of these.
    pub(crate) fn pick<T: Copy>(&mut self, from: &[T]) -> T {
        from[self.roll(from.len())]
    }
}
