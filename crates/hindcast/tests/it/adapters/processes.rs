//! Programs of several processes: those that the adapter can follow stop as the first does, the others are named.

use hindcast_fixtures::adapters::Script;
use serde_json::{Value, json};

use super::{client, data, text};
use crate::knowledge::Client;

/// Launches it in one of its ways; it stops at its beginning.
fn launch(client: &mut Client, script: &Script, way: &str) {
    let folder = script.path.parent().unwrap();
    let arguments = json!({ "program": script.path, "args": [way], "cwd": folder, "timeout_ms": 60_000 });
    let launched = data(client, "launch", arguments);
    assert_eq!(launched["reason"], "entry", "{launched}");
}

fn pid(client: &mut Client) -> u64 {
    data(client, "status", json!({}))["sessions"][0]["pid"].as_u64().unwrap()
}

/// Sets a breakpoint in what only the other process does, and runs there.
fn stop_in_child(client: &mut Client, script: &Script) -> Value {
    let (file, line) = (script.name(), script.line("in_child"));
    text(client, "set_breakpoint", json!({ "file": file, "line": line }));
    let stop = data(client, "continue", json!({ "timeout_ms": 60_000 }));
    assert_eq!((&stop["reason"], &stop["location"]["line"]), (&json!("breakpoint"), &json!(line)), "{stop}");
    assert_eq!(super::local(&stop, "number"), "21", "{stop}");
    stop
}

fn value(client: &mut Client, expression: &str) -> String {
    let asked = json!({ "expression": expression, "allow_calls": true });
    let said = text(client, "evaluate", asked);
    said.rsplit_once("= ").unwrap().1.to_owned()
}

/// Runs to where the program has started another one, which nobody follows.
fn another_is_named(client: &mut Client, script: &Script) {
    let line = script.line("other_runs");
    text(client, "set_breakpoint", json!({ "file": script.name(), "line": line }));
    it_is_named(client, line);
}

fn it_is_named(client: &mut Client, line: u32) {
    let stop = data(client, "continue", json!({ "timeout_ms": 60_000 }));
    assert_eq!(stop["location"]["line"], line, "{stop}");
    let detail = stop["detail"].as_str().unwrap_or_default();
    assert!(detail.contains("(`sleep`) was started by the program and is not followed"), "{stop}");
    let again = data(client, "step_forward", json!({ "granularity": "over" }));
    assert!(!again.to_string().contains("not followed"), "it is told once: {again}");
}

#[test]
fn processes_of_python_are_followed_however_they_are_started() {
    let Some(mut client) = client() else { return };
    let script = Script::new("python/processes.py");
    for way in ["os.fork", "subprocess", "executor", "fork", "forkserver", "spawn"] {
        launch(&mut client, &script, way);
        let first = pid(&mut client).to_string();
        stop_in_child(&mut client, &script);
        let child = value(&mut client, "__import__('os').getpid()");
        assert_ne!(child, first, "{way}");
        if way == "os.fork" {
            another_is_named(&mut client, &script);
        }
        text(&mut client, "remove_breakpoint", json!({ "id": "all" }));
        let ended = data(&mut client, "continue", json!({ "timeout_ms": 60_000 }));
        assert_eq!(ended["exit_code"], 0, "{way}: {ended}");
        let printed = text(&mut client, "read_output", json!({}));
        assert!(printed.contains("child 42"), "{way}: {printed}");
        text(&mut client, "disconnect", json!({}));
    }
}

#[test]
fn workers_of_a_node_cluster_are_followed_and_other_programs_named() {
    let Some(mut client) = client() else { return };
    let script = Script::new("javascript/workers.js");
    launch(&mut client, &script, "cluster");
    let first = pid(&mut client).to_string();
    stop_in_child(&mut client, &script);
    assert_ne!(value(&mut client, "process.pid"), first);
    let ended = data(&mut client, "continue", json!({ "timeout_ms": 60_000 }));
    assert_eq!(ended["exit_code"], 0, "{ended}");
    assert!(text(&mut client, "read_output", json!({})).contains("child 42"));
    text(&mut client, "disconnect", json!({}));

    launch(&mut client, &script, "other");
    another_is_named(&mut client, &script);
}

#[test]
fn forks_of_ruby_are_followed_and_the_rubies_that_it_starts_run() {
    let Some(mut client) = client() else { return };
    let script = Script::new("ruby/processes.rb");
    launch(&mut client, &script, "fork");
    let first = pid(&mut client).to_string();
    // What is set while a fork stands is for the fork alone.
    let line = script.line("other_runs");
    text(&mut client, "set_breakpoint", json!({ "file": script.name(), "line": line }));
    stop_in_child(&mut client, &script);
    assert_ne!(value(&mut client, "Process.pid"), first);
    it_is_named(&mut client, line);
    text(&mut client, "disconnect", json!({}));

    // It would listen at the same port as the first, and die of it.
    launch(&mut client, &script, "ruby");
    let ended = data(&mut client, "continue", json!({ "timeout_ms": 60_000 }));
    assert_eq!(ended["exit_code"], 0, "{ended}");
    let printed = text(&mut client, "read_output", json!({}));
    assert!(printed.contains("child 42") && printed.contains("ended 0"), "{printed}");
}

#[test]
fn processes_that_nobody_follows_are_named() {
    let Some(mut client) = client() else { return };
    for script in ["go/tasks/main.go", "java/Failures.java"] {
        let script = Script::new(script);
        launch(&mut client, &script, "process");
        another_is_named(&mut client, &script);
        text(&mut client, "disconnect", json!({}));
    }
}
