//! Adapters that send garbage, hang, flood or die.

use serde_json::json;

use super::{data, left_over, profiles::configured, python, refused, text};
use crate::server::eventually;

/// Long enough for an adapter that answers.
const ANSWER_WITHIN_MS: u64 = 2000;

/// A client whose adapter for Python is this script.
fn with_adapter(script: &str) -> Option<(crate::knowledge::Client, tempfile::TempDir)> {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("adapter.py");
    std::fs::write(&file, format!("{PROTOCOL}\n{script}\n")).unwrap();
    let configuration = format!(
        "[debug.adapters.python]\nanswer_within_ms = {ANSWER_WITHIN_MS}\ncommands = [[\"python3\", {file:?}]]\n"
    );
    Some((configured(&configuration)?, folder))
}

const PROTOCOL: &str = r#"
import json, sys, time, os
def read():
    length = 0
    while True:
        line = sys.stdin.buffer.readline()
        if not line: sys.exit(0)
        if line in (b"\r\n", b"\n"): break
        if line.lower().startswith(b"content-length:"): length = int(line.split(b":")[1])
    return json.loads(sys.stdin.buffer.read(length))
def send(message):
    body = json.dumps(dict(seq=1, **message)).encode()
    sys.stdout.buffer.write(b"Content-Length: %d\r\n\r\n" % len(body) + body)
    sys.stdout.buffer.flush()
def answer(request, body={}, success=True, message=None):
    send(dict(type="response", request_seq=request["seq"], success=success, command=request["command"], body=body, message=message))
def event(name, body={}):
    send(dict(type="event", event=name, body=body))
"#;

#[test]
fn garbage_is_refused_with_what_was_sent() {
    let Some((mut client, _folder)) =
        with_adapter("print('Hello, world'); sys.stdout.flush(); time.sleep(60)")
    else {
        return;
    };
    let (code, why) = refused(&mut client, "launch", json!({ "program": python().script.path }));
    assert_eq!(code, -32602);
    assert!(why.contains("it sent `Hello, world` where a message should begin"), "{why}");
    eventually("nothing is left", || left_over(&client).len() <= 1);
}

#[test]
fn an_adapter_that_dies_at_once_is_told_with_what_it_printed() {
    let Some((mut client, _folder)) = with_adapter("sys.exit('I do not want to')") else { return };
    let (_, why) = refused(&mut client, "launch", json!({ "program": python().script.path }));
    assert!(why.contains("I do not want to"), "{why}");
    eventually("nothing is left", || left_over(&client).len() <= 1);
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
        command = request["command"]
        if command == "threads": answer(request, {"threads": [{"id": 1, "name": "main"}]})
        elif command == "stackTrace": answer(request, {"stackFrames": [{"id": 1, "name": "f", "line": 1, "source": {"path": "/x.py"}}]})
        elif command == "scopes": answer(request, {"scopes": []})
        else: handle(request)
begin()
"#;

#[test]
fn an_adapter_that_hangs_does_not_hold_the_session() {
    let script = format!("{BEGINS}\nserve(lambda request: None)");
    let Some((mut client, _folder)) = with_adapter(&script) else { return };
    let launched = data(&mut client, "launch", json!({ "program": python().script.path }));
    assert_eq!(launched["reason"], "entry", "{launched}");
    let (_, why) = refused(&mut client, "evaluate", json!({ "expression": "x" }));
    assert!(why.contains("has not answered `evaluate` within 2 s"), "{why}");
    text(&mut client, "disconnect", json!({}));
    eventually("nothing is left", || left_over(&client).len() <= 1);
}

#[test]
fn an_adapter_that_floods_is_read_and_ended() {
    let flood = r#"
def flood(request):
    answer(request)
    while True:
        event("output", {"category": "stdout", "output": "x" * 1000})
        event("nonsense", {"a": [None] * 100})
"#;
    let script = format!("{BEGINS}\n{flood}\nserve(flood)");
    let Some((mut client, _folder)) = with_adapter(&script) else { return };
    data(&mut client, "launch", json!({ "program": python().script.path }));
    let running = data(&mut client, "continue", json!({ "timeout_ms": 1000 }));
    assert_eq!(running["state"], "running", "{running}");
    text(&mut client, "disconnect", json!({}));
    eventually("nothing is left", || left_over(&client).len() <= 1);
}

#[test]
fn an_adapter_that_dies_in_the_middle_ends_the_session_with_its_last_words() {
    let script = format!("{BEGINS}\ndef die(request): sys.exit('enough of this')\nserve(die)");
    let Some((mut client, _folder)) = with_adapter(&script) else { return };
    data(&mut client, "launch", json!({ "program": python().script.path }));
    let (_, why) = refused(&mut client, "continue", json!({}));
    assert!(why.contains("debug adapter") && why.contains("is gone"), "{why}");
    let status = text(&mut client, "status", json!({}));
    assert!(status.contains("exited"), "{status}");
    eventually("nothing is left", || left_over(&client).len() <= 1);
}
