//! What is special about Python.

use hindcast_fixtures::adapters::Script;
use serde_json::json;

use super::{client, data, launch, python, refused, text};
use crate::{debugger::is_alive, server::eventually};

#[test]
fn the_causes_of_an_exception_are_told_with_where_they_were_raised() {
    let Some(mut client) = client() else { return };
    launch(&mut client, &python().script, "fail\n");
    let stop = data(&mut client, "continue", json!({}));
    assert_eq!(stop["exception"]["inner"][0]["exception_type"], "KeyError", "{stop}");
    let autopsy = text(&mut client, "autopsy", json!({}));
    assert!(autopsy.contains("unhandled ValueError: bad input, caused by KeyError: 'missing'"), "{autopsy}");
}

#[test]
fn an_exception_is_kept_and_found_again_from_a_pasted_traceback() {
    let Some(mut client) = client() else { return };
    launch(&mut client, &python().script, "fail\n");
    data(&mut client, "continue", json!({}));
    let finding = json!({ "symptom": "Reading the input fails", "cause": "a key is missing" });
    let saved = data(&mut client, "save_finding", finding);
    let lines: Vec<_> =
        saved["fingerprint"].as_array().unwrap().iter().map(|line| line.as_str().unwrap()).collect();
    assert!(lines.contains(&"kind: ValueError") && lines.contains(&"message: bad input"), "{lines:?}");
    let frames: Vec<_> = lines.iter().filter_map(|line| line.strip_prefix("frame: ")).collect();
    let called = frames.iter().rev().map(|frame| {
        let (function, statement) = frame.split_once(" | ").unwrap();
        format!("  File \"/elsewhere/a.py\", line 99, in {function}\n    {statement}\n")
    });
    let trace =
        format!("Traceback (most recent call last):\n{}ValueError: bad input\n", called.collect::<String>());
    text(&mut client, "disconnect", json!({}));
    let found = data(&mut client, "find_similar_bugs", json!({ "text": trace }));
    assert_eq!(found["similar"][0]["uri"], saved["uri"], "{trace}\n{found}");
}

#[test]
fn exceptions_are_stopped_at_when_they_are_raised_by_type_and_base() {
    let Some(mut client) = client() else { return };
    for (wanted, first) in [("LookupError", "KeyError"), ("ValueError", "ValueError"), ("*", "KeyError")] {
        launch(&mut client, &python().script, "fail\n");
        text(&mut client, "set_exception_breakpoint", json!({ "exception_type": wanted }));
        let stop = data(&mut client, "continue", json!({}));
        assert_eq!(stop["exception"]["exception_type"], first, "{wanted}: {stop}");
        text(&mut client, "disconnect", json!({}));
    }
}

#[test]
fn a_test_of_pytest_is_debugged_and_its_failed_assertion_stops() {
    let Some(mut client) = client() else { return };
    let test = Script::new("python/test_shop.py");
    let folder = test.path.parent().unwrap();
    let module = ["-m", "pytest", "-q", "-p", "no:cacheprovider", "test_shop.py::test_total"];
    for (program, args) in [("python3", &module[..]), ("pytest", &module[2..])] {
        let arguments = json!({ "program": program, "args": args, "cwd": folder, "timeout_ms": 60_000 });
        let launched = data(&mut client, "launch", arguments);
        assert_eq!(launched["reason"], "entry", "{launched}");
        let stop = data(&mut client, "continue", json!({ "timeout_ms": 60_000 }));
        assert_eq!(stop["exception"]["exception_type"], "AssertionError", "{stop}");
        let autopsy = text(&mut client, "autopsy", json!({}));
        assert!(autopsy.contains(&format!("test_shop.py:{}", test.line("assertion"))), "{autopsy}");
        assert!(autopsy.contains("found: int = 3"), "{autopsy}");
        text(&mut client, "disconnect", json!({}));
    }
}

#[test]
fn a_breakpoint_that_cannot_bind_says_so_and_where_one_could() {
    let Some(mut client) = client() else { return };
    let script = python().script;
    launch(&mut client, &script, "hello\n");
    let (code, why) = refused(&mut client, "set_breakpoint", json!({ "file": "shop.py", "line": 999 }));
    assert_eq!(code, -32006);
    let last = script.line("entry");
    assert!(
        why.contains("so there is no line 999 · the nearest line that can have a breakpoint is"),
        "{why}"
    );
    assert!(why.ends_with(&last.to_string()), "{why}");
    let comment = script.line("loop_body") + 1;
    let moved = data(&mut client, "set_breakpoint", json!({ "file": "shop.py", "line": comment }));
    assert!(moved["note"].as_str().unwrap().contains("has no code of its own: it is at line"), "{moved}");
    let (_, why) =
        refused(&mut client, "set_breakpoint", json!({ "file": "shop.py", "statement": "no such text" }));
    assert!(why.contains("no line of `shop.py` contains `no such text`"), "{why}");
    let (_, why) = refused(&mut client, "set_breakpoint", json!({ "file": "nowhere.py", "line": 1 }));
    assert!(why.contains("there is no source file `nowhere.py`"), "{why}");
    let pending = text(&mut client, "set_breakpoint", json!({ "function": "no_such_function" }));
    assert!(pending.contains("is pending: no file below the working folder defines it"), "{pending}");
}

#[test]
fn a_program_that_runs_is_paused_and_gets_breakpoints_and_input() {
    let Some(mut client) = client() else { return };
    let busy = Script::new("python/busy.py");
    let arguments = json!({ "program": busy.path, "stop_at_entry": false, "timeout_ms": 2000 });
    let running = data(&mut client, "launch", arguments);
    assert_eq!(running["state"], "running", "{running}");
    let paused = data(&mut client, "pause", json!({}));
    assert_eq!((&paused["state"], &paused["reason"]), (&json!("paused"), &json!("pause")), "{paused}");
    let going = data(&mut client, "continue", json!({ "wait": false }));
    assert_eq!(going["state"], "running", "{going}");
    let set = json!({ "file": "busy.py", "line": busy.line("spinning"), "condition": "count % 50 == 0" });
    text(&mut client, "set_breakpoint", set);
    let stop = data(&mut client, "wait", json!({}));
    assert_eq!(stop["location"]["line"], busy.line("spinning"), "{stop}");
    let pid = data(&mut client, "status", json!({}))["sessions"][0]["pid"].as_u64().unwrap();
    text(&mut client, "disconnect", json!({}));
    eventually("the program is gone", || !is_alive(pid));

    let script = python().script;
    data(&mut client, "launch", json!({ "program": script.path }));
    data(&mut client, "run_to", json!({ "file": "shop.py", "line": script.line("reads") }));
    text(&mut client, "write_input", json!({ "text": "typed\n" }));
    let ended = data(&mut client, "continue", json!({}));
    assert_eq!(ended["exit_code"], 7, "{ended}");
    assert!(text(&mut client, "read_output", json!({})).contains("read typed"));
}

/// Calls that come before a movement has begun interrupt it, each of them. A pause that comes so early leaves the program where it is.
#[test]
fn a_program_goes_on_however_many_calls_come_before_it_does() {
    let Some(mut client) = client() else { return };
    let busy = Script::new("python/busy.py");
    data(&mut client, "launch", json!({ "program": busy.path }));
    data(&mut client, "run_to", json!({ "file": "busy.py", "line": busy.line("spinning") }));
    let count = |client: &mut crate::knowledge::Client| {
        let told = text(client, "evaluate", json!({ "expression": "count" }));
        told.rsplit(' ').next().unwrap().parse::<u64>().unwrap_or_else(|_| panic!("{told}"))
    };
    let mut before = count(&mut client);
    for round in 0..12 {
        data(&mut client, "continue", json!({ "wait": false }));
        for function in 0..4 {
            let set = json!({ "function": format!("no_such_function_{round}_{function}") });
            client.tell("tools/call", json!({ "name": "debugger/set_breakpoint", "arguments": set }));
        }
        if round % 2 == 1 {
            let paused = data(&mut client, "pause", json!({}));
            assert_eq!(paused["state"], "paused", "round {round}: {paused}");
            continue;
        }
        // Only a program that goes on comes to a new breakpoint.
        let line = busy.line("spinning");
        let set = data(&mut client, "set_breakpoint", json!({ "file": "busy.py", "line": line }));
        let stop = data(&mut client, "wait", json!({}));
        assert_eq!(stop["location"]["line"], line, "round {round}: {stop}");
        data(&mut client, "remove_breakpoint", json!({ "breakpoint_id": set["id"] }));
        let now = count(&mut client);
        assert!(now > before, "round {round}: it stands at {now}");
        before = now;
    }
}

#[test]
fn processes_that_the_program_starts_are_followed() {
    let Some(mut client) = client() else { return };
    let busy = Script::new("python/busy.py");
    let arguments = json!({ "program": busy.path, "args": ["child"], "timeout_ms": 60_000 });
    data(&mut client, "launch", arguments);
    text(&mut client, "set_breakpoint", json!({ "file": "busy.py", "line": busy.line("in_child") }));
    let stop = data(&mut client, "continue", json!({ "timeout_ms": 60_000 }));
    assert_eq!(stop["location"]["line"], busy.line("in_child"), "{stop}");
    assert!(
        stop["detail"].as_str().unwrap().contains("was started by the program and is followed, too"),
        "{stop}"
    );
    let value = text(&mut client, "evaluate", json!({ "expression": "number" }));
    assert!(value.ends_with("= 21"), "{value}");
    let ended = data(&mut client, "continue", json!({ "timeout_ms": 60_000 }));
    assert_eq!(ended["exit_code"], 0, "{ended}");
    assert!(text(&mut client, "read_output", json!({})).contains("child [42]"));
}

#[test]
fn tasks_of_asyncio_are_listed_with_where_they_wait() {
    let Some(mut client) = client() else { return };
    let script = Script::new("python/tasks.py");
    launch(&mut client, &script, "");
    data(&mut client, "run_to", json!({ "file": "tasks.py", "line": script.line("started") }));
    let threads = data(&mut client, "get_threads", json!({}));
    let threads = threads["threads"].as_array().unwrap();
    let names: Vec<_> = threads.iter().map(|thread| thread["name"].as_str().unwrap()).collect();
    assert_eq!(names, ["MainThread", "task worker 3", "task worker 4"]);
    let task = threads[2]["id"].as_u64().unwrap();
    let stack = data(&mut client, "get_stack_trace", json!({ "thread_id": task }));
    let own = stack["frames"].as_array().unwrap().iter().filter(|frame| frame["library"] != true);
    let lines: Vec<_> = own.map(|frame| frame["line"].as_u64().unwrap()).collect();
    assert_eq!(lines, [u64::from(script.line("waits")), u64::from(script.line("awaits"))], "{stack}");
    let frame =
        stack["frames"].as_array().unwrap().iter().position(|frame| frame["function"] == "fetch").unwrap();
    let variables = text(&mut client, "get_variables", json!({ "thread_id": task, "frame": frame }));
    assert!(variables.contains("number: int = 4") && variables.contains("answer: int = 8"), "{variables}");
    let asked = json!({ "expression": "answer + number", "thread_id": task, "frame": frame });
    let value = text(&mut client, "evaluate", asked);
    assert!(value.ends_with("= 12"), "{value}");
    let asked = json!({ "expression": "answer = 1", "thread_id": task, "frame": frame });
    let (_, why) = refused(&mut client, "evaluate", asked);
    assert!(why.contains("stop in the task with a breakpoint first"), "{why}");
    let ended = data(&mut client, "continue", json!({}));
    assert_eq!(ended["exit_code"], 0, "{ended}");
}
