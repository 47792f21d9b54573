//! Recording that begins in the middle of a run, and ends before it.

use std::{
    process::{Command, Stdio},
    sync::Arc,
};

use hindcast_fixtures::Fixture;
use serde_json::{Value, json};

use crate::{
    debugger::Client,
    server::{Local, command},
};

fn data(client: &mut Client, tool: &str, arguments: Value) -> Value {
    let answer = client.rpc("tools/call", &json!({ "name": tool, "arguments": arguments }));
    assert!(answer["result"].is_object(), "{tool}: {answer}");
    answer["result"]["structuredContent"].clone()
}

fn late() -> Fixture {
    Fixture::c("late").flags(["-pthread"])
}

/// A client whose recordings are checked as they are made.
fn checked() -> Client {
    let folder = Arc::new(tempfile::tempdir().unwrap());
    Client::of(Local::start_in(folder, &[("HINDCAST_SELF_CHECK", "1")]).initialize())
}

/// A program with so many threads that has run without being recorded, and stands at a breakpoint.
fn halfway(client: &mut Client, threads: &str) {
    client.call(
        "debugger/launch",
        json!({ "program": late().build().path, "args": [threads], "record": false }),
    );
    client.call("debugger/set_breakpoint", json!({ "function": "next" }));
    client.call("debugger/continue", json!({}));
    client.call("debugger/continue", json!({}));
}

fn round(client: &mut Client) -> String {
    client.call("debugger/evaluate", json!({ "expression": "round" }))
}

#[test]
fn a_program_is_recorded_from_where_it_stands_and_no_longer_than_that() {
    let mut client = checked();
    halfway(&mut client, "0");
    let error = client.refused("debugger/step_backward", json!({})).to_string();
    assert!(error.contains("`debugger/record` with `action` start"), "{error}");
    let begun = client.call("debugger/record", json!({ "action": "start" }));
    assert!(begun.starts_with("Recorded from here on (moment "), "{begun}");
    assert!(client.refused("debugger/record", json!({ "action": "start" })).to_string().contains("already"));
    client.call("debugger/continue", json!({}));
    assert!(round(&mut client).ends_with("= 2"));
    let written = client.call("debugger/last_write", json!({ "expression": "last" }));
    assert!(written.contains("from 0 (0x0) to 7 (0x7)"), "{written}");
    let back = data(&mut client, "debugger/reverse_continue", json!({}));
    assert_eq!(back["reason"], "breakpoint", "{back}");
    assert!(round(&mut client).ends_with("= 1"));
    let error = client.refused("debugger/record", json!({ "action": "stop" })).to_string();
    assert!(error.contains("go to the present first"), "{error}");
    client.call("debugger/goto", json!({ "moment": "present" }));
    client.call("debugger/record", json!({ "action": "stop" }));
    assert!(
        client
            .refused("debugger/record", json!({ "action": "stop" }))
            .to_string()
            .contains("nothing is being")
    );
    client.call("debugger/continue", json!({}));
    assert!(round(&mut client).ends_with("= 3"));
    // What was recorded can still be visited.
    let back = client.call("debugger/reverse_continue", json!({}));
    assert!(back.contains("In the past"), "{back}");
    let reason = data(&mut client, "debugger/timeline", json!({}))["recording"]["reason"].clone();
    assert!(reason.as_str().unwrap().contains("stopped on request"), "{reason}");
    assert!(round(&mut client).ends_with("= 1"), "where it stood when that ended is not before it");
    client.call("debugger/goto", json!({ "moment": "present" }));
    assert!(round(&mut client).ends_with("= 3"));
    // Another recording begins there.
    client.call("debugger/record", json!({ "action": "start" }));
    client.call("debugger/continue", json!({}));
    let start = data(&mut client, "debugger/goto", json!({ "moment": "start" }));
    assert_eq!(start["in_past"], true);
    assert!(round(&mut client).ends_with("= 3"));
    client.call("debugger/remove_breakpoint", json!({ "id": "all" }));
    client.call("debugger/goto", json!({ "moment": "present" }));
    let ended = data(&mut client, "debugger/continue", json!({}));
    assert_eq!(ended["output"]["stdout"], "rounds 12\n", "{ended}");
}

#[test]
fn several_threads_are_recorded_from_the_middle_of_their_run_on() {
    let line = late().build().line("counted");
    let mut client = checked();
    halfway(&mut client, "3");
    client.call("debugger/record", json!({ "action": "start" }));
    for _ in 0..4 {
        client.call("debugger/continue", json!({}));
    }
    let stop = data(&mut client, "debugger/status", json!({}));
    let threads = data(&mut client, "debugger/get_threads", json!({}));
    assert_eq!(threads["threads"].as_array().unwrap().len(), 4, "{threads}");
    for index in 0..3 {
        let expression = format!("counted[{index}]");
        let writes = data(&mut client, "debugger/last_write", json!({ "expression": expression }));
        let write = &writes["writes"][0];
        assert_eq!(write["location"]["line"], line, "{writes}");
        let there = data(&mut client, "debugger/goto", json!({ "moment": write["moment"] }));
        let value = client.call("debugger/evaluate", json!({ "expression": expression }));
        assert!(value.contains(write["new"].as_str().unwrap().split(' ').next().unwrap()), "{value} {there}");
        client.call("debugger/goto", json!({ "moment": "present" }));
    }
    for expected in ["= 4", "= 3", "= 2", "= 1"] {
        let back = data(&mut client, "debugger/reverse_continue", json!({}));
        assert_eq!(back["reason"], "breakpoint", "{back} {stop}");
        assert!(round(&mut client).ends_with(expected));
    }
    client.call("debugger/remove_breakpoint", json!({ "id": "all" }));
    client.call("debugger/goto", json!({ "moment": "present" }));
    let ended = data(&mut client, "debugger/continue", json!({}));
    assert_eq!(
        (&ended["exit_code"], &ended["output"]["stdout"]),
        (&json!(0), &json!("rounds 12\n")),
        "{ended}"
    );
    let timeline = data(&mut client, "debugger/timeline", json!({}));
    assert_eq!(timeline["recording"]["reason"], Value::Null, "every state was met again: {timeline}");
    assert!(client.call("debugger/timeline", json!({})).contains("threads ran one at a time"));
}

#[test]
fn threads_of_a_process_that_is_attached_to_are_recorded_and_let_go() {
    const ROUNDS: &str = "2000";
    let mut child =
        Command::new(late().build().path).args(["3", ROUNDS]).stdout(Stdio::piped()).spawn().unwrap();
    let mut client = checked();
    // Its threads are there when it has come to its rounds.
    client.call("debugger/attach", json!({ "pid": child.id() }));
    client.call("debugger/run_to", json!({ "function": "next" }));
    client.call("debugger/disconnect", json!({}));
    let attached = client.call("debugger/attach", json!({ "pid": child.id(), "record": true }));
    assert!(!attached.contains("not recorded"), "{attached}");
    client.call("debugger/set_breakpoint", json!({ "function": "next" }));
    let mut stop = data(&mut client, "debugger/continue", json!({}));
    let mut moments = vec![stop["moment"].clone()];
    for _ in 0..4 {
        stop = data(&mut client, "debugger/continue", json!({}));
        assert_eq!(stop["reason"], "breakpoint", "{stop}");
        moments.push(stop["moment"].clone());
    }
    let threads = data(&mut client, "debugger/get_threads", json!({}));
    assert_eq!(threads["threads"].as_array().unwrap().len(), 4, "{threads}");
    for moment in moments.iter().rev().skip(1) {
        let back = data(&mut client, "debugger/reverse_continue", json!({}));
        assert_eq!(back["moment"], *moment, "{back}");
    }
    client.call("debugger/disconnect", json!({}));
    // It comes to its end as if nobody had been there.
    let output = child.stdout.take().unwrap();
    assert_eq!(std::io::read_to_string(output).unwrap(), format!("rounds {ROUNDS}\n"));
    assert!(child.wait().unwrap().success());
}

#[test]
fn a_launch_is_recorded_from_a_place_on() {
    let built = late().build();
    let mut client = checked();
    let place = format!("late.c:{}", built.line("next"));
    let arguments = json!({ "program": built.path, "args": ["2"], "record_from": place });
    let launched = client.call("debugger/launch", arguments);
    assert!(launched.contains("recorded from here on") && launched.contains("in next at "), "{launched}");
    assert!(!launched.contains("not recorded"), "{launched}");
    client.call("debugger/run_to", json!({ "function": "next" }));
    let written = client.call("debugger/last_write", json!({ "expression": "last" }));
    assert!(written.contains("to 0 (0x0)"), "{written}");
    let start = data(&mut client, "debugger/goto", json!({ "moment": "start" }));
    assert_eq!(start["location"]["function"], "next", "{start}");
    let error = client.refused("debugger/launch", json!({ "program": built.path, "record_from": "nowhere" }));
    assert!(error.to_string().contains("nowhere"), "{error}");
    let error = client
        .refused("debugger/launch", json!({ "program": built.path, "record_from": "next", "record": false }));
    assert!(error.to_string().contains("`record_from` is for a program that is recorded"), "{error}");
}

/// Without names of its own a program still has those of its libraries, and what the loader has of the same name is not meant.
#[test]
fn a_stripped_program_is_recorded_from_a_function_of_a_library_on() {
    let built = late().build();
    let stripped = tempfile::tempdir().unwrap();
    let program = stripped.path().join("late");
    let done = std::process::Command::new("strip").arg(&built.path).arg("-o").arg(&program).status().unwrap();
    assert!(done.success());
    let mut client = checked();
    let arguments = json!({ "program": program, "args": ["2"], "record_from": "malloc" });
    let launched = data(&mut client, "debugger/launch", arguments);
    assert!(launched["location"]["module"].as_str().unwrap().starts_with("libc"), "{launched}");
}

#[test]
fn record_begins_at_a_place() {
    let built = late().build();
    let recorded = command().args(["record", "--from", "next", "--"]).arg(&built.path).output().unwrap();
    let told = String::from_utf8_lossy(&recorded.stderr).into_owned();
    assert_eq!(recorded.status.code(), Some(0), "{told}");
    assert!(told.contains("exited with code 0 after") && told.contains("; recorded "), "{told}");
    assert!(!told.contains("then no more"), "{told}");
}
