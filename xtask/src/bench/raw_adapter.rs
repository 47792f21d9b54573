//! How long an adapter takes by itself: the same way to the first stop, with nobody between us and the adapter.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use hindcast_fixtures::adapters::Script;
use serde_json::{Value, json};

const CONNECTS_WITHIN: Duration = Duration::from_secs(20);
const BETWEEN_TRIES: Duration = Duration::from_millis(4);

/// From the start of the adapter until the variables at the breakpoint.
pub(super) fn first_stop(
    environment: &[(&'static str, String)],
    language: &str,
    script: &Script,
    scratch: &Path,
) -> Result<Duration> {
    let begin = Instant::now();
    let folder = script.path.parent().context("a fixture is in a folder")?;
    let port = TcpListener::bind("127.0.0.1:0")?.local_addr()?.port();
    let variable = |name: &str| {
        environment
            .iter()
            .find(|(known, _)| *known == name)
            .map(|(_, value)| value.clone())
            .unwrap_or_default()
    };
    let mut program = match language {
        "java" => Some(start_java(environment, script, scratch)?),
        _ => None,
    };
    let mut command = match language {
        "python" => with("python3", &["-m", "debugpy.adapter"]),
        "javascript" => with("node", &[&variable("JS_DEBUG"), &port.to_string(), "127.0.0.1"]),
        "go" => with("dlv", &["dap", &format!("--listen=127.0.0.1:{port}"), "--check-go-version=false"]),
        "java" => {
            let server = variable("JAVA_DEBUG_ADAPTER");
            let classes = Path::new(&server).with_file_name("out").display().to_string();
            with("java", &["-cp", &classes, "JdiDapServer", "--port", &port.to_string()])
        }
        "ruby" => {
            let rdbg = ["-e", "load Gem.bin_path('debug', 'rdbg')", "--", "--open", "--host=127.0.0.1"];
            let mut command = with("ruby", &rdbg);
            command.arg(format!("--port={port}")).args(["--command", "--", "ruby"]).arg(&script.path);
            command
        }
        other => bail!("no adapter for {other} is measured by itself"),
    };
    command.envs(environment.iter().cloned()).current_dir(folder);
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
    let mut adapter = Adapter(command.spawn().with_context(|| format!("cannot start {command:?}"))?);
    let mut first = match language {
        "python" => {
            let (to, from) = (adapter.0.stdin.take(), adapter.0.stdout.take());
            let (to, from) = to.zip(from).context("the adapter has no streams")?;
            Connection::new(Box::new(from), Box::new(to))
        }
        _ => Connection::to(port)?,
    };
    let (verb, arguments) = match &mut program {
        Some(program) => ("attach", json!({ "host": "127.0.0.1", "port": program.awaited()? })),
        None => beginning(language, script, folder, scratch),
    };
    first.begin(language, verb, &arguments, script)?;
    let mut at = first.run_to_stop(language, script, port)?;
    let stopped = at.as_mut().unwrap_or(&mut first);
    stopped.look(script)?;
    let taken = begin.elapsed();
    // The program ends with the adapter only where that is asked to end it.
    let _ = stopped.ask("disconnect", &json!({ "terminateDebuggee": true }));
    Ok(taken)
}

fn with(program: &str, args: &[&str]) -> Command {
    let mut command = Command::new(program);
    command.args(args);
    command
}

fn beginning(language: &str, script: &Script, folder: &Path, built: &Path) -> (&'static str, Value) {
    let program = &script.path;
    match language {
        "python" => ("launch", json!({ "program": program, "cwd": folder, "console": "internalConsole" })),
        "javascript" => (
            "launch",
            json!({ "type": "pwa-node", "request": "launch", "name": "x", "program": program, "cwd": folder,
                "console": "internalConsole" }),
        ),
        "go" => (
            "launch",
            json!({ "mode": "debug", "program": program, "cwd": folder, "output": built.join("program") }),
        ),
        _ => ("attach", json!({ "localfs": true })),
    }
}

/// An adapter, which ends with us.
struct Adapter(Child);

impl Drop for Adapter {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Compiles a program of Java into a folder.
pub(super) fn compile(script: &Script, folder: &Path) -> Result<()> {
    let compiled = Command::new("javac").args(["-g", "-d"]).arg(folder).arg(&script.path).status()?;
    if !compiled.success() {
        bail!("{} does not compile: {compiled}", script.path.display());
    }
    Ok(())
}

/// A program of Java that waits for its debugger, and says where.
fn start_java(environment: &[(&'static str, String)], script: &Script, folder: &Path) -> Result<Adapter> {
    compile(script, folder)?;
    let class = script.path.file_stem().context("a fixture has a name")?;
    let mut command =
        with("java", &["-agentlib:jdwp=transport=dt_socket,server=y,suspend=y,address=127.0.0.1:0"]);
    command.arg("-cp").arg(folder).arg(class).envs(environment.iter().cloned());
    Ok(Adapter(command.stdin(Stdio::null()).stdout(Stdio::piped()).spawn()?))
}

impl Adapter {
    /// The port that a program of Java says it listens at.
    fn awaited(&mut self) -> Result<u16> {
        let from = self.0.stdout.take().context("it has no output")?;
        let mut line = String::new();
        BufReader::new(from).read_line(&mut line)?;
        let port = line.trim().rsplit(' ').next().and_then(|port| port.parse().ok());
        port.with_context(|| format!("it does not say where it listens: {line}"))
    }
}

struct Connection {
    from: BufReader<Box<dyn Read>>,
    to: Box<dyn Write>,
    seq: i64,
}

impl Connection {
    fn new(from: Box<dyn Read>, to: Box<dyn Write>) -> Self {
        Self { from: BufReader::new(from), to, seq: 0 }
    }

    fn to(port: u16) -> Result<Self> {
        let until = Instant::now() + CONNECTS_WITHIN;
        loop {
            match TcpStream::connect(("127.0.0.1", port)) {
                Ok(socket) => {
                    socket.set_nodelay(true)?;
                    return Ok(Self::new(Box::new(socket.try_clone()?), Box::new(socket)));
                }
                Err(error) if Instant::now() > until => return Err(error.into()),
                Err(_) => std::thread::sleep(BETWEEN_TRIES),
            }
        }
    }

    fn send(&mut self, mut message: Value) -> Result<i64> {
        self.seq += 1;
        message["seq"] = self.seq.into();
        let body = message.to_string();
        write!(self.to, "Content-Length: {}\r\n\r\n{body}", body.len())?;
        self.to.flush()?;
        Ok(self.seq)
    }

    fn request(&mut self, command: &str, arguments: &Value) -> Result<i64> {
        self.send(json!({ "type": "request", "command": command, "arguments": arguments }))
    }

    fn read(&mut self) -> Result<Value> {
        let mut length = 0;
        loop {
            let mut line = String::new();
            if self.from.read_line(&mut line)? == 0 {
                bail!("the adapter has ended");
            }
            match line.trim().split_once(':') {
                Some((_, value)) => length = value.trim().parse()?,
                // Between two messages.
                None if length == 0 => {}
                None => break,
            }
        }
        let mut body = vec![0; length];
        self.from.read_exact(&mut body)?;
        Ok(serde_json::from_slice(&body)?)
    }

    fn await_message(&mut self, is_it: impl Fn(&Value) -> bool) -> Result<Value> {
        loop {
            let message = self.read()?;
            if is_it(&message) {
                return Ok(message);
            }
        }
    }

    fn ask(&mut self, command: &str, arguments: &Value) -> Result<Value> {
        let seq = self.request(command, arguments)?;
        let answer =
            self.await_message(|message| message["type"] == "response" && message["request_seq"] == seq)?;
        if answer["success"] != true {
            bail!("{command}: {answer}");
        }
        Ok(answer["body"].clone())
    }

    /// Introduces us, asks for the program and tells of the breakpoint.
    fn begin(&mut self, language: &str, verb: &str, arguments: &Value, script: &Script) -> Result<()> {
        let hello = json!({ "adapterID": language, "linesStartAt1": true, "columnsStartAt1": true,
            "pathFormat": "path", "supportsStartDebuggingRequest": true });
        self.request("initialize", &hello)?;
        // js-debug and rdbg say that they are ready before they are asked for the program.
        if matches!(language, "python" | "go" | "java") {
            self.await_message(|message| message["type"] == "response")?;
        }
        self.request(verb, arguments)?;
        self.await_message(|message| message["event"] == "initialized")?;
        let breakpoints = json!({ "source": { "path": script.path }, "breakpoints": [{ "line": script.line("loop_body") }] });
        self.request("setBreakpoints", &breakpoints)?;
        self.request("configurationDone", &json!({}))?;
        Ok(())
    }

    /// Runs to the breakpoint; the connection that stopped, where it is another.
    fn run_to_stop(&mut self, language: &str, script: &Script, port: u16) -> Result<Option<Self>> {
        let is_stop = |message: &Value| message["event"] == "stopped";
        match language {
            "javascript" => {
                let asked = self.await_message(|message| message["command"] == "startDebugging")?;
                self.send(
                    json!({ "type": "response", "request_seq": asked["seq"], "command": "startDebugging",
                    "success": true }),
                )?;
                let mut child = Self::to(port)?;
                let verb = asked["arguments"]["request"].as_str().unwrap_or("launch").to_owned();
                child.begin(language, &verb, &asked["arguments"]["configuration"], script)?;
                child.await_message(is_stop)?;
                Ok(Some(child))
            }
            "java" => {
                // It waits to be let go.
                self.request("continue", &json!({ "threadId": 1 }))?;
                self.await_message(|message| is_stop(message) && message["body"]["reason"] == "breakpoint")?;
                Ok(None)
            }
            "ruby" => {
                // It stops at the beginning first.
                self.await_message(is_stop)?;
                self.request("continue", &json!({ "threadId": 1 }))?;
                self.await_message(|message| is_stop(message) && message["body"]["reason"] == "breakpoint")?;
                Ok(None)
            }
            _ => {
                self.await_message(is_stop)?;
                Ok(None)
            }
        }
    }

    /// Stack and variables, as every debugger asks for them.
    fn look(&mut self, script: &Script) -> Result<()> {
        let threads = self.ask("threads", &json!({}))?;
        // The first thread of Java may be one of the machine's own.
        let all = threads["threads"].as_array().into_iter().flatten();
        let main = all.clone().find(|thread| thread["name"] == "main").or_else(|| all.clone().next());
        let thread = &main.context("it has no thread")?["id"];
        let stack = self.ask("stackTrace", &json!({ "threadId": thread, "startFrame": 0, "levels": 20 }))?;
        let frame = &stack["stackFrames"][0];
        if frame["line"] != script.line("loop_body") {
            bail!("it did not stop at the breakpoint: {stack}");
        }
        let scopes = self.ask("scopes", &json!({ "frameId": frame["id"] }))?;
        for scope in
            scopes["scopes"].as_array().into_iter().flatten().filter(|scope| scope["expensive"] != true)
        {
            self.ask("variables", &json!({ "variablesReference": scope["variablesReference"] }))?;
        }
        Ok(())
    }
}
