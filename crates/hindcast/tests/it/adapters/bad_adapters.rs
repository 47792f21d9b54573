//! Adapters that send garbage, hang, flood or die, over streams and over TCP.

use hindcast_fixtures::oracle_size;
use serde_json::{Value, json};

use super::{data, left_over, profiles::configured_with, python, refused, text};
use crate::{knowledge::Client, server::eventually};

/// Long enough for an adapter that answers.
const ANSWER_WITHIN_MS: u64 = 2000;

/// How an adapter is spoken to.
#[derive(Debug, Clone, Copy)]
enum Over {
    Streams,
    Tcp,
}

const BOTH: [Over; 2] = [Over::Streams, Over::Tcp];

/// A client whose adapter for Python is a script.
struct Bad {
    client: Client,
    /// The script, and where everybody has their temporary files.
    folder: tempfile::TempDir,
}

impl Bad {
    fn new(over: Over, script: &str) -> Option<Self> {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("adapter.py");
        std::fs::write(&file, format!("{PROTOCOL}\n{script}\n")).unwrap();
        let temporary = folder.path().join("t");
        std::fs::create_dir(&temporary).unwrap();
        let how = match over {
            Over::Streams => format!("commands = [[\"python3\", {file:?}]]"),
            Over::Tcp => format!("transport = \"tcp\"\ncommands = [[\"python3\", {file:?}, \"{{port}}\"]]"),
        };
        let configuration =
            format!("[debug.adapters.python]\nanswer_within_ms = {ANSWER_WITHIN_MS}\n{how}\n");
        let client = configured_with(&configuration, &[("TMPDIR", temporary.to_str().unwrap())])?;
        Some(Self { client, folder })
    }

    fn launch(&mut self) -> Value {
        data(&mut self.client, "launch", json!({ "program": python().script.path }))
    }

    #[track_caller]
    fn refuses(&mut self, tool: &str, arguments: Value) -> String {
        refused(&mut self.client, tool, arguments).1
    }

    #[track_caller]
    fn refuses_to_launch(&mut self) -> String {
        self.refuses("launch", json!({ "program": python().script.path }))
    }

    fn temporary_files(&self) -> usize {
        std::fs::read_dir(self.folder.path().join("t")).unwrap().count()
    }

    /// No process but the server, and no file.
    fn assert_nothing_is_left(&self) {
        eventually("no process is left", || left_over(&self.client).len() <= 1);
        eventually("no temporary file is left", || self.temporary_files() == 0);
    }

    /// Ends the session, and looks at what is left.
    fn end(mut self) {
        text(&mut self.client, "disconnect", json!({}));
        self.assert_nothing_is_left();
    }
}

const PROTOCOL: &str = r#"
import json, os, socket, sys, time
opened = []
def streams():
    if not opened and len(sys.argv) > 1:
        listener = socket.create_server(("127.0.0.1", int(sys.argv[1])))
        connection = listener.accept()[0]
        opened.extend([connection.makefile("rb"), connection.makefile("wb"), connection])
    elif not opened:
        opened.extend([sys.stdin.buffer, sys.stdout.buffer])
    return opened
def hang_up():
    streams()
    if len(opened) > 2: opened[2].shutdown(socket.SHUT_RDWR)
    else: os.close(0); os.close(1)
def read():
    source, length = streams()[0], 0
    while True:
        line = source.readline()
        if not line: sys.exit(0)
        if line in (b"\r\n", b"\n"): break
        if line.lower().startswith(b"content-length:"): length = int(line.split(b":")[1])
    return json.loads(source.read(length))
def write(raw):
    sink = streams()[1]
    sink.write(raw)
    sink.flush()
def send(message):
    body = json.dumps(dict(seq=1, **message)).encode()
    write(b"Content-Length: %d\r\n\r\n" % len(body) + body)
def answer(request, body={}, success=True, message=None):
    send(dict(type="response", request_seq=request["seq"], success=success, command=request["command"], body=body, message=message))
def event(name, body={}):
    send(dict(type="event", event=name, body=body))
"#;

#[test]
fn garbage_is_refused_with_what_was_sent() {
    for over in BOTH {
        let Some(mut bad) = Bad::new(over, "write(b'Hello, world\\n'); time.sleep(60)") else { return };
        let why = bad.refuses_to_launch();
        assert!(why.contains("it sent `Hello, world` where a message should begin"), "{over:?}: {why}");
        bad.assert_nothing_is_left();
    }
}

#[test]
fn an_adapter_that_dies_at_once_is_told_with_what_it_printed() {
    for over in BOTH {
        let Some(mut bad) = Bad::new(over, "sys.exit('I do not want to')") else { return };
        let why = bad.refuses_to_launch();
        assert!(why.contains("I do not want to"), "{over:?}: {why}");
        bad.assert_nothing_is_left();
    }
}

#[test]
fn an_adapter_that_never_answers_or_floods_from_the_beginning_is_given_up() {
    if oracle_size(0, 1) == 0 {
        return;
    }
    let flood = "while True: event('output', {'output': 'x' * 1000})";
    for (over, script, said) in [
        (Over::Streams, "time.sleep(600)", "has not answered `initialize`"),
        (Over::Streams, flood, "has not answered `initialize`"),
        (Over::Tcp, "streams(); time.sleep(600)", "has not answered `initialize`"),
        (Over::Tcp, flood, "has not answered `initialize`"),
        (Over::Tcp, "time.sleep(600)", "it does not listen"),
    ] {
        let Some(mut bad) = Bad::new(over, script) else { return };
        let why = bad.refuses_to_launch();
        assert!(why.contains(said), "{over:?} {script}: {why}");
        bad.assert_nothing_is_left();
    }
}

/// Goes through the beginning of a session, and then does something else.
const BEGINS: &str = r#"
def begin():
    while True:
        request = read()
        if request["command"] == "initialize":
            answer(request, {"supportsConfigurationDoneRequest": True})
            event("initialized")
        elif request["command"] == "configurationDone":
            answer(request)
            event("stopped", {"reason": "entry", "threadId": 1})
            return
        else:
            answer(request)
def serve(handle):
    while True:
        request = read()
        if request["type"] != "request": continue
        command = request["command"]
        if command == "threads": answer(request, {"threads": [{"id": 1, "name": "main"}]})
        elif command == "stackTrace": answer(request, {"stackFrames": [{"id": 1, "name": "f", "line": 1, "source": {"path": "/x.py"}}]})
        elif command == "scopes": answer(request, {"scopes": []})
        else: handle(request)
begin()
"#;

/// An adapter that has begun, and carries this out for what it is asked then.
fn begun(over: Over, handle: &str) -> Option<Bad> {
    let mut bad = Bad::new(over, &format!("{BEGINS}\n{handle}\nserve(handle)"))?;
    let launched = bad.launch();
    assert_eq!(launched["reason"], "entry", "{over:?}: {launched}");
    Some(bad)
}

#[test]
fn an_adapter_that_hangs_does_not_hold_the_session() {
    for over in BOTH {
        let Some(mut bad) = begun(over, "def handle(request): pass") else { return };
        let why = bad.refuses("evaluate", json!({ "expression": "x" }));
        assert!(why.contains("has not answered `evaluate` within 2 s"), "{over:?}: {why}");
        bad.end();
    }
}

#[test]
fn an_adapter_that_floods_is_read_and_ended() {
    let flood = r#"
def handle(request):
    answer(request)
    while True:
        event("output", {"category": "stdout", "output": "x" * 1000})
        event("nonsense", {"a": [None] * 100})
"#;
    for over in BOTH {
        let Some(mut bad) = begun(over, flood) else { return };
        let running = data(&mut bad.client, "continue", json!({ "timeout_ms": 1000 }));
        assert_eq!(running["state"], "running", "{over:?}: {running}");
        bad.end();
    }
}

#[test]
fn an_adapter_that_dies_in_the_middle_ends_the_session_with_its_last_words() {
    for over in BOTH {
        let Some(mut bad) = begun(over, "def handle(request): sys.exit('enough of this')") else { return };
        let why = bad.refuses("continue", json!({}));
        assert!(why.contains("debug adapter") && why.contains("is gone"), "{over:?}: {why}");
        let status = text(&mut bad.client, "status", json!({}));
        assert!(status.contains("exited"), "{over:?}: {status}");
        bad.assert_nothing_is_left();
    }
}

#[test]
fn an_adapter_that_hangs_up_and_lives_on_is_ended() {
    let handle = "def handle(request):\n    hang_up()\n    time.sleep(600)";
    for over in BOTH {
        let Some(mut bad) = begun(over, handle) else { return };
        let why = bad.refuses("continue", json!({}));
        assert!(why.contains("debug adapter") && why.contains("is gone"), "{over:?}: {why}");
        bad.assert_nothing_is_left();
    }
}

#[test]
fn an_adapter_that_stops_in_the_middle_of_a_message_does_not_hold_the_session() {
    let handle = "def handle(request):\n    write(b'Content-Length: 100\\r\\n\\r\\n{')\n    time.sleep(600)";
    for over in BOTH {
        let Some(mut bad) = begun(over, handle) else { return };
        let why = bad.refuses("evaluate", json!({ "expression": "x" }));
        assert!(why.contains("has not answered `evaluate` within 2 s"), "{over:?}: {why}");
        bad.end();
    }
}

#[test]
fn events_and_requests_of_the_wrong_shape_do_no_harm() {
    let nonsense = r#"
def handle(request):
    for kind in (5, -1e300, "x", None, [], [[]], {"a": 1}, {"threadId": "x", "reason": 7}, {"breakpoint": 3, "module": 4}):
        for name in ("stopped", "continued", "output", "breakpoint", "module", "loadedSource", "process", "invalidated"):
            event(name, kind)
        for command in ("runInTerminal", "startDebugging", "nonsense"):
            send(dict(type="request", command=command, arguments=kind))
        send(dict(type="response", request_seq=kind if isinstance(kind, int) else 99999, success=True, command="x", body=kind))
    answer(request, 5)
"#;
    for over in BOTH {
        let Some(mut bad) = begun(over, nonsense) else { return };
        let went = data(&mut bad.client, "continue", json!({ "timeout_ms": 1000 }));
        assert!(["paused", "running"].contains(&went["state"].as_str().unwrap()), "{over:?}: {went}");
        assert!(went.to_string().contains("is not followed"), "{over:?}: {went}");
        data(&mut bad.client, "status", json!({}));
        bad.end();
    }
}

/// It would wait for us to read, while we wait for it.
#[test]
fn an_adapter_that_asks_without_end_and_reads_nothing_does_not_hold_the_session() {
    let handle = r#"
def handle(request):
    while True: send(dict(type="request", command="nonsense", arguments={"a": "x" * 1000}))
"#;
    for over in BOTH {
        let Some(mut bad) = begun(over, handle) else { return };
        let why = bad.refuses("evaluate", json!({ "expression": "x" }));
        assert!(why.contains("has not answered `evaluate` within 2 s"), "{over:?}: {why}");
        bad.end();
    }
}

#[test]
fn answers_of_the_wrong_shape_are_told_as_such() {
    let handle = "def handle(request): answer(request, 5)";
    for over in BOTH {
        let Some(mut bad) = begun(over, handle) else { return };
        let why = bad.refuses("evaluate", json!({ "expression": "x" }));
        assert!(why.contains("answer to `evaluate` cannot be read"), "{over:?}: {why}");
        bad.end();
    }
}

#[test]
fn a_server_that_is_killed_under_a_bad_adapter_leaves_nothing() {
    for over in BOTH {
        for handle in ["def handle(request): pass", "def handle(request):\n    while True: event('x')"] {
            let Some(mut bad) = begun(over, handle) else { return };
            bad.client.tell("tools/call", json!({ "name": "debugger/continue", "arguments": {} }));
            let processes = left_over(&bad.client);
            assert!(processes.len() > 1, "{processes:?}");
            let Bad { client, folder } = bad;
            client.kill();
            let pid = |process: &String| process.split(' ').next().unwrap().parse::<u64>().unwrap();
            eventually("no process is left", || !processes.iter().map(pid).any(crate::debugger::is_alive));
            let left = || std::fs::read_dir(folder.path().join("t")).unwrap().count();
            eventually("no temporary file is left", || left() == 0);
        }
    }
}
