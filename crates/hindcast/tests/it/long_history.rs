//! A server that nobody asks anything, for as long as that takes: its first moments stay within reach.

use hindcast_fixtures::{Fixture, oracle_size};
use serde_json::{Value, json};

use crate::debugger::Client;

/// Of a day, with `HINDCAST_ORACLES=full`.
const TICKS: usize = 864_000;
const FEW_TICKS: usize = 20_000;
/// What the system tells a tick: the time.
const DATA: u64 = 16;

fn data(client: &mut Client, tool: &str, arguments: Value) -> Value {
    let answer = client.rpc("tools/call", &json!({ "name": tool, "arguments": arguments }));
    assert!(answer["result"].is_object(), "{tool}: {answer}");
    answer["result"]["structuredContent"].clone()
}

/// Continues to where it stops, however long that takes.
fn run(client: &mut Client) -> Value {
    let mut stop = data(client, "debugger/continue", json!({ "timeout_ms": 20_000 }));
    while stop["state"] == "running" {
        stop = data(client, "debugger/wait", json!({ "until": "stopped", "timeout_ms": 20_000 }));
    }
    stop
}

/// Who wrote a variable last, however long the search takes.
fn last_write(client: &mut Client, expression: &str) -> Value {
    let mut found =
        data(client, "debugger/last_write", json!({ "expression": expression, "timeout_ms": 20_000 }));
    while found["state"] == "running" {
        let search = json!({ "search": found["search"], "timeout_ms": 20_000 });
        found = data(client, "debugger/last_write", search);
    }
    found["writes"][0].clone()
}

fn value(client: &mut Client, expression: &str) -> Value {
    data(client, "debugger/evaluate", json!({ "expression": expression }))["value"].clone()
}

/// All that can be asked about the beginning, from the end.
fn check(client: &mut Client, ticks: usize, first: &Value) {
    let lines = Fixture::c("idle").build();
    let written = last_write(client, "started");
    assert_eq!(written["location"]["line"], lines.line("begun"), "{written}");
    let written = last_write(client, "ticks");
    assert_eq!(written["location"]["line"], lines.line("ticked"), "{written}");
    let written = last_write(client, "now.tv_sec");
    assert!(written["location"].to_string().contains("clock_gettime"), "{written}");
    let served = last_write(client, "requests");
    assert_eq!(served["location"]["line"], lines.line("served"), "{served}");
    data(client, "debugger/goto", json!({ "moment": served["moment"] }));
    assert_eq!(value(client, "ticks"), json!((ticks / 600 * 600).to_string()));
    data(client, "debugger/goto", json!({ "moment": "start" }));
    assert_eq!(value(client, "started"), "0");
    data(client, "debugger/goto", json!({ "moment": first }));
    assert_eq!((value(client, "started"), value(client, "ticks")), (json!("0"), json!("0")));
    data(client, "debugger/step_forward", json!({ "granularity": "over" }));
    assert_eq!((value(client, "started"), value(client, "ticks")), (json!("1"), json!("0")));
}

/// A client whose server has idled for so many ticks, and the moment before it begins.
fn idled(ticks: usize) -> (Client, Value) {
    let idle = Fixture::c("idle");
    let lines = idle.build();
    let mut client = Client::new();
    client.launch(&idle, &[&ticks.to_string()]);
    for mark in ["begun", "over"] {
        client.call("debugger/set_breakpoint", json!({ "file": "idle.c", "line": lines.line(mark) }));
    }
    let first = run(&mut client)["moment"].clone();
    let stopped = run(&mut client);
    assert_eq!(stopped["location"]["line"], lines.line("over"), "{stopped}");
    (client, first)
}

#[test]
fn an_idle_server_stays_recorded_from_its_start() {
    let ticks = oracle_size(FEW_TICKS, TICKS);
    let (mut client, first) = idled(ticks);
    let recording = data(&mut client, "debugger/timeline", json!({}))["recording"].clone();
    let number = |name: &str| recording[name].as_u64().unwrap_or_else(|| panic!("{name}: {recording}"));
    assert_eq!(recording["active"], true, "{recording}");
    assert!(recording["start"].as_str().is_some_and(|start| start.starts_with("00000000")), "{recording}");
    let (events, told) = (number("events"), ticks as u64 * DATA);
    assert!(events > 2 * ticks as u64, "{recording}");
    let beside = (number("bytes") - told) / events;
    eprintln!("{events} events, {} bytes, {beside} beside the data of each", number("bytes"));
    assert!(beside <= 16, "{recording}");
    check(&mut client, ticks, &first);
}

#[test]
fn an_idle_server_is_small_in_a_file_and_can_be_asked_there() {
    let (mut client, first) = idled(FEW_TICKS);
    let folder = tempfile::tempdir().unwrap();
    let trace = folder.path().join("idle.trace");
    data(&mut client, "debugger/export_trace", json!({ "format": "binary", "path": trace }));
    let size = trace.metadata().unwrap().len();
    eprintln!("{size} bytes in a file");
    assert!(size < FEW_TICKS as u64 * (DATA + 2 * 16), "{size} bytes");
    let mut later = Client::new();
    data(&mut later, "debugger/launch", json!({ "trace": trace }));
    check(&mut later, FEW_TICKS, &first);
}
