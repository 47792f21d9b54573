//! One marked program through all tools, in every language.

use serde_json::json;

use super::{Tongue, client, data, go, java, javascript, launch, local, python, refused, ruby, text};
use crate::{debugger::is_alive, server::eventually};

#[test]
fn python_goes_through_all_tools() {
    tour(&python());
}

#[test]
fn javascript_goes_through_all_tools() {
    tour(&javascript());
}

#[test]
fn go_goes_through_all_tools() {
    tour(&go());
}

#[test]
fn ruby_goes_through_all_tools() {
    tour(&ruby());
}

#[test]
fn java_goes_through_all_tools() {
    tour(&java());
}

fn tour(tongue: &Tongue) {
    let Some(mut client) = client() else { return };
    let script = &tongue.script;
    let file = script.name();
    let launched = launch(&mut client, script, "fail\n");
    assert_eq!(launched["engine"], "adapter");

    // A statement with a condition.
    let set = json!({ "file": file, "statement": "result += price", "condition": "price == 3" });
    let set = data(&mut client, "set_breakpoint", set);
    assert_eq!(set["bound"][0]["line"], script.line("loop_body"), "{set}");
    let stop = data(&mut client, "continue", json!({}));
    assert_eq!((&stop["reason"], &stop["breakpoint_ids"]), (&json!("breakpoint"), &json!(["1"])), "{stop}");
    assert_eq!(stop["location"]["line"], script.line("loop_body"), "{stop}");
    assert_eq!((local(&stop, "price").as_str(), local(&stop, "result").as_str()), ("3", "3"));
    let current = stop["source"].as_array().unwrap().iter().find(|line| line["current"] == true);
    assert!(current.unwrap()["text"].as_str().unwrap().contains("result += price"), "{stop}");

    // Steps.
    let said = text(&mut client, "step_forward", json!({}));
    assert!(said.len() < 2000, "{said}");
    assert!(said.contains("result: ") && said.contains("= 6 (changed)"), "{said}");
    let out = data(&mut client, "step_forward", json!({ "granularity": "out" }));
    let line = out["location"]["line"].as_u64().unwrap();
    let called = u64::from(script.line("call"));
    assert!((called..=called + 1).contains(&line), "{out}");

    // Run to a line, and look around there.
    let there = data(&mut client, "run_to", json!({ "file": file, "line": script.line("decides") }));
    assert_eq!(there["location"]["line"], script.line("decides"), "{there}");
    let stack = text(&mut client, "get_stack_trace", json!({}));
    assert!(stack.lines().nth(1).unwrap().contains("main"), "{stack}");
    let variables = text(&mut client, "get_variables", json!({}));
    assert!(variables.contains("sum: ") && variables.contains("= 10"), "{variables}");
    assert!(!variables.contains("hunter2"), "a secret: {variables}");
    assert!(variables.len() < 6000, "{} bytes", variables.len());
    let one = data(&mut client, "get_variables", json!({ "filter": "sum" }));
    assert_eq!(one["variables"].as_array().unwrap().len(), 1, "{one}");

    // Expressions.
    let value = text(&mut client, "evaluate", json!({ "expression": "sum + 1" }));
    assert!(value.ends_with("= 11"), "{value}");
    let value = text(&mut client, "evaluate", json!({ "expression": "sum", "format": "hex" }));
    assert!(value.ends_with("= 0xa"), "{value}");
    let (code, why) = refused(&mut client, "evaluate", json!({ "expression": "total([1, 2])" }));
    assert_eq!(code, -32602);
    assert!(why.contains("allow_calls"), "{why}");
    if let Some(call) = tongue.call {
        let value = text(&mut client, "evaluate", json!({ "expression": call, "allow_calls": true }));
        assert!(value.contains("= 3"), "{value}");
    }
    if tongue.assigns {
        text(&mut client, "evaluate", json!({ "expression": "sum = 20" }));
        let value = text(&mut client, "evaluate", json!({ "expression": "sum" }));
        assert!(value.contains("= 20"), "{value}");
    } else {
        let (_, why) = refused(&mut client, "evaluate", json!({ "expression": "sum = 20" }));
        assert!(why.contains("cannot be carried out"), "{why}");
    }
    let (code, why) = refused(&mut client, "evaluate", json!({ "expression": "nowhere" }));
    assert_eq!(code, -32602);
    assert!(why.starts_with("`nowhere` has no value: ") && why.contains("get_variables"), "{why}");

    // What it cannot do, and what does instead.
    let (code, why) = refused(&mut client, "step_backward", json!({}));
    assert_eq!(code, -32007, "{why}");
    assert!(why.contains("set a breakpoint before the place"), "{why}");
    let (_, why) = refused(&mut client, "set_watchpoint", json!({ "expression": "sum" }));
    assert!(why.contains("breakpoint where the value is set"), "{why}");
    let (_, why) = refused(&mut client, "step_forward", json!({ "granularity": "instruction" }));
    assert!(why.contains("`line`, `over` or `out`"), "{why}");

    // A function, and its failure.
    let set = data(&mut client, "set_breakpoint", json!({ "function": tongue.fail }));
    assert_ne!(set["bound"], json!([]), "{set}");
    let stop = data(&mut client, "continue", json!({}));
    assert_eq!((&stop["reason"], &stop["breakpoint_ids"]), (&json!("breakpoint"), &json!(["3"])), "{stop}");
    let stop = data(&mut client, "continue", json!({}));
    assert_eq!(stop["reason"], "exception", "{stop}");
    assert_eq!(stop["exception"]["exception_type"], tongue.raises, "{stop}");
    let autopsy = text(&mut client, "autopsy", json!({}));
    assert!(autopsy.starts_with(&format!("unhandled {}: ", tongue.raises)), "{autopsy}");
    assert!(autopsy.contains("bad input") && autopsy.contains(tongue.fail), "{autopsy}");
    assert!(autopsy.contains(&format!("{file}:{}", script.line("raise"))), "{autopsy}");
    assert!(autopsy.contains("settings") && !autopsy.contains("hunter2"), "{autopsy}");
    let pid = data(&mut client, "status", json!({}))["sessions"][0]["pid"].as_u64().unwrap();
    assert!(is_alive(pid));

    let ended = data(&mut client, "continue", json!({}));
    assert_eq!(
        (&ended["state"], &ended["exit_code"]),
        (&json!("exited"), &json!(tongue.dies_with)),
        "{ended}"
    );
    let printed = text(&mut client, "read_output", json!({}));
    assert!(
        printed.contains("4 6") && printed.contains("sum 10 3") && printed.contains("bad input"),
        "{printed}"
    );

    // Again, with the same breakpoints.
    let again = data(&mut client, "restart", json!({}));
    assert_eq!(again["reason"], "entry", "{again}");
    let stop = data(&mut client, "continue", json!({}));
    assert_eq!(stop["breakpoint_ids"], json!(["1"]), "{stop}");
    let pid = data(&mut client, "status", json!({}))["sessions"][0]["pid"].as_u64().unwrap();
    text(&mut client, "disconnect", json!({}));
    eventually("the program is gone", || !is_alive(pid));
}
