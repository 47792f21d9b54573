//! What must hold at every stop, in every language: it is told where the program really stands, in few bytes, and nothing is lost.

use hindcast_fixtures::adapters::Script;
use serde_json::{Value, json};

use super::{Tongue, client, data, go, java, javascript, launch, local, python, refused, ruby, text};
use crate::knowledge::Client;

/// An answer without options must not be longer.
const BYTES: usize = 2000;
const STEPS: usize = 12;

#[test]
fn python_holds_at_every_stop() {
    walk(&python());
}

#[test]
fn javascript_holds_at_every_stop() {
    walk(&javascript());
}

#[test]
fn go_holds_at_every_stop() {
    walk(&go());
}

#[test]
fn ruby_holds_at_every_stop() {
    walk(&ruby());
}

#[test]
fn java_holds_at_every_stop() {
    walk(&java());
}

/// The answer of a movement, which is short.
#[track_caller]
fn moved(client: &mut Client, tool: &str, arguments: Value) -> Value {
    let name = format!("debugger/{tool}");
    let answer = client.request("tools/call", json!({ "name": name, "arguments": arguments }));
    let said = answer["result"]["content"][0]["text"].as_str().unwrap_or_else(|| panic!("{tool}: {answer}"));
    assert!(said.len() < BYTES, "{tool}: {} bytes: {said}", said.len());
    answer["result"]["structuredContent"].clone()
}

fn walk(tongue: &Tongue) {
    let Some(mut client) = client() else { return };
    let script = &tongue.script;
    launch(&mut client, script, "fail\n");
    stale_places_are_not_told(&mut client, script);
    lines_that_cannot_stop(&mut client, script);
    large_values_are_cut_and_paged(&mut client, tongue);
    time_that_runs_out_loses_nothing(&mut client, tongue);
}

/// After each step, what it answered is what the stack and the variables say.
fn stale_places_are_not_told(client: &mut Client, script: &Script) {
    let line = script.line("log");
    moved(client, "run_to", json!({ "file": script.name(), "line": line }));
    let mut lines = Vec::new();
    for _ in 0..STEPS {
        let stop = moved(client, "step_forward", json!({ "granularity": "over" }));
        let stack = data(client, "get_stack_trace", json!({}));
        assert_eq!(stop["location"]["line"], stack["frames"][0]["line"], "{stop}\n{stack}");
        let current = stop["source"].as_array().unwrap().iter().find(|line| line["current"] == true).unwrap();
        assert_eq!(current["line"], stop["location"]["line"], "{stop}");
        if stack["frames"][0]["function"].as_str().unwrap().contains("total") {
            let now = data(client, "evaluate", json!({ "expression": "result" }));
            assert_eq!(local(&stop, "result"), now["value"].as_str().unwrap(), "{stop}");
        }
        lines.push(stop["location"]["line"].as_u64().unwrap());
    }
    let body = u64::from(script.line("loop_body"));
    assert!(lines.iter().filter(|line| **line == body).count() >= 2, "it goes round: {lines:?}");
}

fn lines_that_cannot_stop(client: &mut Client, script: &Script) {
    let (code, why) = refused(client, "set_breakpoint", json!({ "file": script.name(), "line": 9999 }));
    assert_eq!(code, -32006);
    assert!(why.contains("the nearest line that can have a breakpoint is"), "{why}");
    // A comment.
    let comment = script.line("total_returns") - 2;
    let set = data(client, "set_breakpoint", json!({ "file": script.name(), "line": comment }));
    let told = set["note"].as_str().or(set["reason"].as_str()).unwrap_or_default();
    let is_moved = set["bound"].as_array().is_some_and(|bound| !bound.is_empty());
    assert!(!told.is_empty() || !is_moved, "{set}");
    if is_moved {
        let bound = set["bound"][0]["line"].as_u64().unwrap();
        assert!(told.contains(&format!("it is at line {bound}")), "{set}");
    }
    text(client, "remove_breakpoint", json!({ "id": "all" }));
}

fn large_values_are_cut_and_paged(client: &mut Client, tongue: &Tongue) {
    let script = &tongue.script;
    moved(client, "run_to", json!({ "file": script.name(), "line": script.line("decides") }));
    for (tool, arguments) in [
        ("get_variables", json!({})),
        ("get_stack_trace", json!({})),
        ("get_threads", json!({})),
        ("evaluate", json!({ "expression": "many" })),
    ] {
        moved(client, tool, arguments);
    }
    let page = json!({ "expression": "many", "depth": 1, "offset": 4990 });
    let page = data(client, "evaluate", page);
    let parts = page["children"].as_array().unwrap_or_else(|| panic!("{page}"));
    assert!(parts[0]["name"].as_str().unwrap().contains("4990"), "{page}");
    assert!(parts.len() <= 10, "{page}");
}

/// The answer comes before the movement is over, which goes on and can be waited for.
fn time_that_runs_out_loses_nothing(client: &mut Client, tongue: &Tongue) {
    let script = &tongue.script;
    let set = json!({ "file": script.name(), "line": script.line("raise") });
    text(client, "set_breakpoint", set);
    let running = data(client, "continue", json!({ "wait": false }));
    let stop = if running["state"] == "running" { moved(client, "wait", json!({})) } else { running };
    assert_eq!(stop["location"]["line"], script.line("raise"), "{stop}");
    let stop = moved(client, "continue", json!({}));
    assert_eq!(stop["exception"]["exception_type"], tongue.raises, "{stop}");
    // A question that takes too long is given up; the session answers the next.
    if tongue.call.is_some() {
        let (sleep, one) = match script.name() {
            "shop.py" => ("__import__('time').sleep(3)", "1 + 1"),
            "shop.js" => ("Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 3000)", "1 + 1"),
            _ => ("sleep(3)", "1 + 1"),
        };
        let asked = json!({ "expression": sleep, "allow_calls": true, "timeout_ms": 500 });
        refused(client, "evaluate", asked);
        let said = text(client, "evaluate", json!({ "expression": one }));
        assert!(said.ends_with("= 2"), "{said}");
    }
    let ended = data(client, "continue", json!({ "timeout_ms": 60_000 }));
    assert_eq!(ended["exit_code"], tongue.dies_with, "{ended}");
}
