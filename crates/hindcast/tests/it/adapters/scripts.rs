//! What is special about the other languages.

use std::{
    io::{BufRead, BufReader},
    process::{Command, Stdio},
};

use hindcast_fixtures::{Fixture, adapters::Script};
use serde_json::json;

use super::{client, data, go, launch, text};

#[test]
fn typescript_is_debugged_in_its_own_lines() {
    let Some(mut client) = client() else { return };
    let script = Script::new("javascript/typed.ts");
    let launched = launch(&mut client, &script, "");
    assert_eq!(launched["location"]["line"], script.line("entry"), "{launched}");
    text(&mut client, "set_breakpoint", json!({ "file": "typed.ts", "statement": "result += item.price" }));
    let stop = data(&mut client, "continue", json!({}));
    assert_eq!(stop["location"]["line"], script.line("loop_body"), "{stop}");
    let value = text(&mut client, "evaluate", json!({ "expression": "item.name" }));
    assert!(value.contains("'a'"), "{value}");
}

#[test]
fn workers_and_processes_of_node_are_followed() {
    let Some(mut client) = client() else { return };
    let script = Script::new("javascript/workers.js");
    for (args, number, printed) in [(&["fork"][..], "21", "child 42"), (&[], "4", "worker 8")] {
        data(&mut client, "launch", json!({ "program": script.path, "args": args, "timeout_ms": 60_000 }));
        text(&mut client, "set_breakpoint", json!({ "file": "workers.js", "line": script.line("in_child") }));
        let stop = data(&mut client, "continue", json!({ "timeout_ms": 60_000 }));
        assert_eq!(stop["location"]["line"], script.line("in_child"), "{stop}");
        assert_eq!(super::local(&stop, "number"), number);
        let threads = data(&mut client, "get_threads", json!({}));
        assert_eq!(threads["threads"].as_array().unwrap().len(), 2, "{threads}");
        let ended = data(&mut client, "continue", json!({ "timeout_ms": 60_000 }));
        assert_eq!(ended["exit_code"], 0, "{ended}");
        assert!(text(&mut client, "read_output", json!({})).contains(printed));
        text(&mut client, "disconnect", json!({}));
    }
}

#[test]
fn tests_that_npm_starts_are_debugged() {
    let Some(mut client) = client() else { return };
    let test = Script::new("javascript/project/check.test.js");
    let folder = test.path.parent().unwrap();
    let arguments = json!({ "program": "npm", "args": ["test"], "cwd": folder, "timeout_ms": 60_000 });
    let launched = data(&mut client, "launch", arguments);
    assert_eq!(launched["reason"], "entry", "{launched}");
    text(&mut client, "set_breakpoint", json!({ "file": "check.test.js", "line": test.line("in_test") }));
    let stop = data(&mut client, "continue", json!({ "timeout_ms": 60_000 }));
    assert_eq!(stop["location"]["line"], test.line("in_test"), "{stop}");
    let ended = data(&mut client, "continue", json!({ "timeout_ms": 60_000 }));
    assert_eq!(ended["exit_code"], 0, "{ended}");
}

#[test]
fn a_go_test_stops_in_the_test_that_was_named() {
    let Some(mut client) = client() else { return };
    let test = Script::new("go/shop/main_test.go");
    let folder = test.path.parent().unwrap();
    let args = ["test", "-run", "^TestTotal$", "."];
    let arguments = json!({ "program": "go", "args": args, "cwd": folder, "timeout_ms": 60_000 });
    let launched = data(&mut client, "launch", arguments);
    assert_eq!(launched["location"]["line"], test.line("test"), "{launched}");
    let there =
        data(&mut client, "run_to", json!({ "file": "main_test.go", "line": test.line("assertion") }));
    assert_eq!(super::local(&there, "found"), "3", "{there}");
    let ended = data(&mut client, "continue", json!({}));
    assert_eq!(ended["exit_code"], 1, "{ended}");
}

#[test]
fn go_that_does_not_compile_says_why() {
    let Some(mut client) = client() else { return };
    let folder = tempfile::tempdir().unwrap();
    let source = folder.path().join("broken.go");
    std::fs::write(&source, "package main\n\nfunc main() { missing() }\n").unwrap();
    let arguments = json!({ "program": source, "cwd": folder.path(), "timeout_ms": 60_000 });
    let (code, why) = super::refused(&mut client, "launch", arguments);
    assert_eq!(code, -32602);
    assert!(why.contains("undefined: missing") || why.contains("undeclared name: missing"), "{why}");
}

#[test]
fn goroutines_are_listed_as_threads() {
    let Some(mut client) = client() else { return };
    launch(&mut client, &go().script, "hello\n");
    let threads = text(&mut client, "get_threads", json!({}));
    assert!(threads.contains("[Go 1] main.main"), "{threads}");
}

#[test]
fn goroutines_that_wait_have_stacks_and_variables() {
    let Some(mut client) = client() else { return };
    let script = Script::new("go/tasks/main.go");
    let folder = script.path.parent().unwrap();
    let arguments = json!({ "program": script.path, "args": ["wait"], "cwd": folder, "timeout_ms": 60_000 });
    data(&mut client, "launch", arguments);
    data(&mut client, "run_to", json!({ "file": "main.go", "line": script.line("started") }));
    let threads = data(&mut client, "get_threads", json!({}));
    let is_worker = |thread: &&serde_json::Value| thread.to_string().contains("main.worker");
    let workers: Vec<_> = threads["threads"].as_array().unwrap().iter().filter(is_worker).collect();
    assert!(!workers.is_empty(), "{threads}");
    let mut numbers = Vec::new();
    for worker in workers {
        let id = worker["id"].as_u64().unwrap();
        let stack = data(&mut client, "get_stack_trace", json!({ "thread_id": id }));
        let frames = stack["frames"].as_array().unwrap();
        let at = frames.iter().position(|frame| frame["function"] == "main.worker").unwrap();
        assert_eq!(frames[at]["line"], script.line("waits"), "{stack}");
        let asked = json!({ "expression": "number", "thread_id": id, "frame": at });
        numbers.push(data(&mut client, "evaluate", asked)["value"].as_str().unwrap().to_owned());
    }
    numbers.sort();
    numbers.dedup();
    assert!(numbers.len() >= 2, "each has its own: {numbers:?}");
}

#[test]
fn compiled_typescript_is_debugged_in_its_source() {
    let Some(mut client) = client() else { return };
    let source = Script::new("javascript/compiled/src/app.ts");
    let folder = source.path.ancestors().nth(2).unwrap();
    let program = folder.join("out/app.js");
    data(&mut client, "launch", json!({ "program": program, "cwd": folder, "timeout_ms": 60_000 }));
    let set = json!({ "file": "src/app.ts", "statement": "result += item.price" });
    let set = data(&mut client, "set_breakpoint", set);
    assert_eq!(set["bound"][0]["line"], source.line("loop_body"), "{set}");
    assert!(!set.to_string().contains("has no code of its own"), "{set}");
    let stop = data(&mut client, "continue", json!({}));
    assert!(stop["location"]["file"].as_str().unwrap().ends_with("src/app.ts"), "{stop}");
    assert_eq!(stop["location"]["line"], source.line("loop_body"), "{stop}");
    let current = stop["source"].as_array().unwrap().iter().find(|line| line["current"] == true);
    assert!(current.unwrap()["text"].as_str().unwrap().contains("item.price"), "{stop}");
}

#[test]
fn the_first_statement_stops_once() {
    let Some(mut client) = client() else { return };
    let script = Script::new("javascript/turns.js");
    let launched = launch(&mut client, &script, "");
    assert_eq!(launched["location"]["line"], script.line("entry"), "{launched}");
    let ended = data(&mut client, "continue", json!({}));
    assert_eq!(ended["exit_code"], 0, "{ended}");
}

#[test]
fn a_go_process_is_attached_to_and_let_go_of() {
    let Some(mut client) = client() else { return };
    let source = Script::new("go/spin/main.go");
    let folder = tempfile::tempdir().unwrap();
    let program = folder.path().join("spin");
    let built = Command::new("go")
        .args(["build", "-gcflags", "all=-N -l", "-o"])
        .arg(&program)
        .arg(&source.path)
        .status();
    assert!(built.unwrap().success());
    let mut process = Command::new(&program).stdout(Stdio::piped()).spawn().unwrap();
    let mut ready = String::new();
    BufReader::new(process.stdout.take().unwrap()).read_line(&mut ready).unwrap();
    assert_eq!(ready, "ready\n");
    let attached = data(&mut client, "attach", json!({ "pid": process.id(), "language": "go" }));
    assert_eq!(
        (&attached["engine"], &attached["reason"]),
        (&json!("adapter"), &json!("pause")),
        "{attached}"
    );
    let line = source.line("spinning");
    text(&mut client, "set_breakpoint", json!({ "file": source.path, "line": line }));
    let stop = data(&mut client, "continue", json!({}));
    assert_eq!(stop["location"]["line"], line, "{stop}");
    text(&mut client, "disconnect", json!({}));
    assert!(process.try_wait().unwrap().is_none(), "it runs on");
    process.kill().unwrap();
    process.wait().unwrap();
}

#[test]
fn a_c_program_is_debugged_through_lldb_where_one_asks_for_it() {
    let Some(mut client) = client() else { return };
    let built = Fixture::c("calls").build();
    let line = built.line("loop_body");
    let launched = data(&mut client, "launch", json!({ "program": built.path, "language": "lldb" }));
    assert_eq!(
        (&launched["engine"], &launched["reason"]),
        (&json!("adapter"), &json!("entry")),
        "{launched}"
    );
    text(&mut client, "set_breakpoint", json!({ "file": "calls.c", "line": line, "hit_count": 2 }));
    let stop = data(&mut client, "continue", json!({}));
    assert_eq!(stop["location"]["line"], line, "{stop}");
    assert_eq!(super::local(&stop, "i"), "1", "{stop}");
    text(&mut client, "remove_breakpoint", json!({ "id": "all" }));
    let ended = data(&mut client, "continue", json!({}));
    assert_eq!(ended["exit_code"], 0, "{ended}");
}

#[test]
fn the_causes_of_an_error_of_javascript_are_told() {
    let Some(mut client) = client() else { return };
    let script = Script::new("javascript/causes.js");
    launch(&mut client, &script, "");
    let stop = data(&mut client, "continue", json!({}));
    assert_eq!(stop["reason"], "exception", "{stop}");
    let autopsy = text(&mut client, "autopsy", json!({}));
    assert!(autopsy.starts_with("unhandled Error: cannot start"), "{autopsy}");
    for (cause, mark) in [("TypeError: cannot load", "second"), ("RangeError: no settings", "first")] {
        assert!(autopsy.contains(cause), "{autopsy}");
        assert!(autopsy.contains(&format!("causes.js:{}", script.line(mark))), "{autopsy}");
    }
    let kept = json!({ "expression": "globalThis[Symbol.for('hindcast.raised')]", "allow_calls": true });
    let value = text(&mut client, "evaluate", kept);
    assert!(value.ends_with("= undefined"), "nothing is left in the program: {value}");
    // Also where it is raised.
    text(&mut client, "restart", json!({}));
    text(&mut client, "set_exception_breakpoint", json!({ "exception_type": "TypeError" }));
    let stop = data(&mut client, "continue", json!({}));
    assert_eq!(stop["exception"]["exception_type"], "TypeError", "{stop}");
    assert_eq!(stop["exception"]["inner"][0]["exception_type"], "RangeError", "{stop}");
}

#[test]
fn arguments_are_told_from_locals_by_the_source() {
    let Some(mut client) = client() else { return };
    for tongue in [super::python(), super::javascript(), go(), super::ruby(), super::java()] {
        let script = &tongue.script;
        launch(&mut client, script, "hello\n");
        data(&mut client, "run_to", json!({ "file": script.name(), "line": script.line("loop_body") }));
        let page = data(&mut client, "get_variables", json!({ "scope": "arguments" }));
        let names: Vec<_> =
            page["variables"].as_array().unwrap().iter().map(|variable| &variable["name"]).collect();
        assert_eq!(names, ["prices", "tax"], "{}: {page}", script.name());
        text(&mut client, "disconnect", json!({}));
    }
}

#[test]
fn a_busy_program_of_javascript_is_paused_in_its_loop() {
    let Some(mut client) = client() else { return };
    let script = Script::new("javascript/busy.js");
    let arguments = json!({ "program": script.path, "stop_at_entry": false, "timeout_ms": 1000 });
    assert_eq!(data(&mut client, "launch", arguments)["state"], "running");
    let paused = data(&mut client, "pause", json!({}));
    assert_eq!(
        (&paused["reason"], &paused["location"]["function"]),
        (&json!("pause"), &json!("spin")),
        "{paused}"
    );
    let line = u32::try_from(paused["location"]["line"].as_u64().unwrap()).unwrap();
    assert!((script.line("loop")..=script.line("turn")).contains(&line), "{paused}");
}
