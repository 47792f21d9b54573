//! What the contract of the debugger's resources says of real programs.

use std::{
    io::{BufRead, BufReader},
    process::{Child, Command, Stdio},
    time::Duration,
};

use hindcast_fixtures::Fixture;
use serde_json::{Value, json};

use crate::{
    knowledge::Client,
    server::{BOTH, Server},
};

/// A program that runs without us and waits for input.
struct Running(Child);

impl Running {
    fn start() -> Self {
        let mut command = Command::new(Fixture::c("echo").build().path);
        let mut process = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let mut line = String::new();
        BufReader::new(process.stdout.as_mut().unwrap()).read_line(&mut line).unwrap();
        assert_eq!(line, "listening\n");
        Self(process)
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn current(threads: &Value) -> Value {
    let threads = threads["threads"].as_array().unwrap();
    threads.iter().find(|thread| thread["isCurrent"] == true).unwrap().clone()
}

#[test]
fn an_attached_program_is_paused_and_both_resources_say_where() {
    let running = Running::start();
    let mut client = Client::new();
    let attached = client.call("debugger/attach", json!({ "pid": running.0.id() }));
    assert_eq!(attached["reason"], "pause");
    let session = client.read_json("debugger://session");
    assert_eq!((&session["state"], &session["pauseReason"]), (&json!("Paused"), &json!("Pause")));
    assert_eq!(session["launchMode"], "Attach");
    let threads = client.read_json("debugger://threads");
    let thread = current(&threads);
    assert_eq!(thread["id"], session["activeThreadId"]);
    assert_eq!(thread["location"], session["currentLocation"], "{threads}\n{session}");
    assert_eq!(threads["stale"], false);
    let trace = client.call("debugger/get_stack_trace", json!({}));
    assert_eq!(trace["frames"][0]["function"], thread["location"]["functionName"], "{trace}");
    let seen = client.call("debugger/get_threads", json!({}));
    let seen = &seen["threads"][0];
    assert_eq!(seen["location"]["function"], thread["location"]["functionName"], "{seen}");
    assert_eq!(seen["called_from"]["function"], "main", "where it waits tells less: {seen}");
}

#[test]
fn every_stop_of_every_thread_is_named_alike() {
    let mut client = Client::new();
    let program = Fixture::c("threads").flags(["-pthread"]).build();
    client.call("debugger/launch", json!({ "program": program.path }));
    for step in 0..20 {
        let granularity = ["over", "line", "instruction"][step % 3];
        let moved = client.call("debugger/step_forward", json!({ "granularity": granularity }));
        if moved["state"] != "paused" {
            break;
        }
        let session = client.read_json("debugger://session");
        let threads = client.read_json("debugger://threads");
        let thread = current(&threads);
        assert_eq!(thread["location"], session["currentLocation"], "{granularity} {step}");
        for thread in threads["threads"].as_array().unwrap() {
            let trace = client.call("debugger/get_stack_trace", json!({ "thread_id": thread["id"] }));
            let innermost = &trace["frames"][0];
            assert_eq!(thread["location"]["functionName"], innermost["function"], "{thread} {trace}");
            assert_eq!(thread["location"]["line"], innermost["line"], "{thread} {trace}");
        }
    }
}

#[test]
fn threads_can_be_read_after_the_program_has_ended() {
    let mut client = Client::new();
    client.call("debugger/launch", json!({ "program": Fixture::c("calls").build().path }));
    let before = current(&client.read_json("debugger://threads"));
    let ended = client.call("debugger/continue", json!({}));
    assert_eq!(ended["state"], "exited", "{ended}");
    let threads = client.read_json("debugger://threads");
    let session = client.read_json("debugger://session");
    assert_eq!((&session["state"], &session["currentLocation"]), (&json!("Exited"), &Value::Null));
    let thread = current(&threads);
    let expected = json!({
        "id": before["id"], "name": before["name"], "state": "Exited", "isCurrent": true, "location": null,
    });
    assert_eq!(thread, expected);
    assert_eq!(threads["stale"], true);
    assert!(threads["capturedAt"].is_string());
}

/// A program compiled from this text, and where the text is.
fn compiled(folder: &std::path::Path) -> (std::path::PathBuf, String) {
    let source = folder.canonicalize().unwrap().join("changing.c");
    std::fs::write(&source, "int main(void) {\n    return 0;\n}\n").unwrap();
    let program = folder.join("changing");
    let done = Command::new("gcc").args(["-g", "-o"]).arg(&program).arg(&source).status().unwrap();
    assert!(done.success());
    (program, source.to_str().unwrap().to_owned())
}

#[test]
fn a_subscriber_hears_when_a_source_file_changes() {
    let folder = tempfile::tempdir().unwrap();
    let (program, source) = compiled(folder.path());
    let uri = format!("debugger://source/{source}");
    let mut client = Client::new();
    let early = client.request("resources/subscribe", json!({ "uri": uri }));
    assert_eq!(early["error"]["code"], -32005, "no session says which files there are: {early}");
    client.call("debugger/launch", json!({ "program": program }));
    client.subscribe(&uri);
    // The best of three counts: the machine may be busy with other tests.
    let took = (1..=3).map(|number| {
        std::fs::write(&source, format!("// {}\nint main(void) {{ return 0; }}\n", "x".repeat(number)))
            .unwrap();
        client.hear(&uri)
    });
    assert!(took.min().unwrap() < Duration::from_secs(1));
    assert!(client.read(&uri).starts_with("// xxx"));
    // Editors put another file in its place.
    let other = folder.path().join("other");
    std::fs::write(&other, "// new\n").unwrap();
    std::fs::rename(&other, &source).unwrap();
    client.hear(&uri);
    assert_eq!(client.read(&uri), "// new\n");
    client.call("debugger/continue", json!({}));
    assert_eq!(client.read(&uri), "// new\n", "the symbols are known after the end");
    std::fs::remove_file(&source).unwrap();
    client.hear(&uri);
    let gone = client.request("resources/subscribe", json!({ "uri": uri }));
    let message = format!("Source file '{source}' referenced in debug information but not found on disk");
    assert_eq!((&gone["error"]["code"], &gone["error"]["message"]), (&json!(-1), &json!(message)));
}

#[test]
fn a_source_that_is_not_served_cannot_be_subscribed_to() {
    let server = Server::start(&[]);
    let key = server.unlimited_key();
    let program = Fixture::c("calls").build();
    let launched = server.call(&key, "debugger/launch", json!({ "program": program.path }));
    assert!(launched["result"].is_object(), "{launched}");
    let session = server.connect().initialize(&key);
    let headers = format!("Authorization: Bearer {key}\r\nAccept: {BOTH}\r\n{session}");
    let subscribe = |uri: &str| {
        let message =
            json!({ "jsonrpc": "2.0", "id": 5, "method": "resources/subscribe", "params": { "uri": uri } });
        let reply = server.connect().post_with(&headers, message.to_string().as_bytes()).unwrap();
        let text = String::from_utf8(reply.body).unwrap();
        let data = text.lines().rev().find_map(|line| line.strip_prefix("data: ")).unwrap_or(&text);
        serde_json::from_str::<Value>(data).unwrap()
    };
    for path in ["/etc/passwd", "/../etc/passwd", "relative.c", ""] {
        let refused = subscribe(&format!("debugger://source/{path}"));
        let message = format!("File path '{path}' is not referenced in any loaded debug information");
        assert_eq!((&refused["error"]["code"], &refused["error"]["message"]), (&json!(-1), &json!(message)));
    }
    let accepted = subscribe(&format!("debugger://source/{}", program.source_text()));
    assert_eq!(accepted["result"], json!({}), "{accepted}");
}

#[test]
fn tools_answer_to_their_names_without_the_group_and_ids_to_the_names_that_are_printed() {
    let server = Server::start(&[]);
    let key = server.unlimited_key();
    let program = Fixture::c("calls").build().path;
    let call = |tool: &str, arguments: Value| {
        let answer = server.call(&key, tool, arguments);
        assert!(answer["result"].is_object(), "{tool}: {answer}");
        answer["result"].clone()
    };
    call("launch", json!({ "program": program }));
    let set = call("set_breakpoint", json!({ "function": "square" }));
    let id = set["structuredContent"]["id"].clone();
    assert_eq!(id, "bp-1");
    call("update_breakpoint", json!({ "breakpoint_id": id, "enabled": false }));
    call("update_breakpoint", json!({ "breakpointId": 1, "hitCountMultiple": 2, "enabled": true }));
    call("debugger/remove_breakpoint", json!({ "breakpoint_id": 1 }));
    let ended = call("continue", json!({}));
    assert_eq!(ended["structuredContent"]["state"], "exited");
    let exported = call("export_trace", json!({ "format": "binary" }));
    let blob = &exported["content"][0];
    assert_eq!((&blob["type"], &blob["mimeType"]), (&json!("blob"), &json!("application/octet-stream")));
    let unknown = server.call(&key, "fly", json!({}));
    assert_eq!(unknown["error"]["code"], -32602, "{unknown}");
    let running = Running::start();
    call("attach", json!({ "processId": running.0.id() }));
    let thread = call("get_threads", json!({}))["structuredContent"]["threads"][0]["id"].clone();
    call("get_stack_trace", json!({ "threadId": thread }));
    call("disconnect", json!({}));
    let both = json!({ "id": 1, "breakpoint_id": 2, "enabled": true });
    let refused = server.call(&key, "update_breakpoint", both);
    assert!(refused["error"]["data"]["details"].as_str().unwrap().contains("breakpoint_id"), "{refused}");
}
