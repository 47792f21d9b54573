//! What nobody catches stops where it is raised, in whatever thread, task, promise or goroutine that is.

use hindcast_fixtures::adapters::Script;
use serde_json::{Value, json};

use super::{client, data, local, text};
use crate::knowledge::Client;

/// Launches it in one of its ways and runs on from its beginning.
fn run(client: &mut Client, script: &Script, way: &str) -> Value {
    let folder = script.path.parent().unwrap();
    let arguments = json!({ "program": script.path, "args": [way], "cwd": folder, "timeout_ms": 60_000 });
    data(client, "launch", arguments);
    data(client, "continue", json!({ "timeout_ms": 60_000 }))
}

/// It stands where the exception was raised, with the locals of that function, and the autopsy tells the same.
#[track_caller]
fn assert_failed(client: &mut Client, script: &Script, stop: &Value, of_type: &str) {
    assert_eq!(stop["reason"], "exception", "{stop}");
    assert_eq!(stop["exception"]["exception_type"], of_type, "{stop}");
    assert_eq!(stop["location"]["line"], script.line("raise"), "{stop}");
    assert_eq!(local(stop, "wanted"), "2", "{stop}");
    let autopsy = text(client, "autopsy", json!({}));
    assert!(autopsy.starts_with(&format!("unhandled {of_type}: no 2")), "{autopsy}");
    let place = format!("{}:{}", script.name(), script.line("raise"));
    assert!(autopsy.contains(&place) && autopsy.contains("wanted"), "{autopsy}");
}

#[test]
fn python_stops_at_what_fails_in_threads_and_tasks() {
    let Some(mut client) = client() else { return };
    let script = Script::new("python/failures.py");
    for way in ["main", "thread", "task"] {
        let stop = run(&mut client, &script, way);
        assert_failed(&mut client, &script, &stop, "ValueError");
        text(&mut client, "disconnect", json!({}));
    }
    let ended = run(&mut client, &script, "exit");
    assert_eq!(ended["exit_code"], 3, "`sys.exit` is no failure: {ended}");
}

#[test]
fn a_failed_test_of_unittest_stops_at_its_assertion() {
    let Some(mut client) = client() else { return };
    let test = Script::new("python/test_unit.py");
    let args = ["-m", "unittest", "test_unit.TotalTest.test_total"];
    let folder = test.path.parent().unwrap();
    let arguments = json!({ "program": "python3", "args": args, "cwd": folder, "timeout_ms": 60_000 });
    data(&mut client, "launch", arguments);
    let stop = data(&mut client, "continue", json!({ "timeout_ms": 60_000 }));
    assert_eq!(stop["exception"]["exception_type"], "AssertionError", "{stop}");
    let autopsy = text(&mut client, "autopsy", json!({}));
    let place = format!("test_unit.py:{}", test.line("assertion"));
    assert!(autopsy.contains(&place) && autopsy.contains("found: int = 3"), "{autopsy}");
}

#[test]
fn node_stops_at_what_fails_in_timers_promises_and_events() {
    let Some(mut client) = client() else { return };
    let script = Script::new("javascript/failures.js");
    for way in ["main", "timer", "promise", "event"] {
        let stop = run(&mut client, &script, way);
        assert_failed(&mut client, &script, &stop, "TypeError");
        text(&mut client, "disconnect", json!({}));
    }
    let ended = run(&mut client, &script, "rejection");
    assert_eq!(ended["exit_code"], 0, "a rejection that is caught is no failure: {ended}");
}

#[test]
fn go_stops_at_panics_of_goroutines_and_of_the_runtime() {
    let Some(mut client) = client() else { return };
    let script = Script::new("go/tasks/main.go");
    for (way, mark, said) in [
        ("panic", Some("fails"), "index out of range [3] with length 1"),
        ("nil", Some("nil_map"), "assignment to entry in nil map"),
        ("deadlock", None, "all goroutines are asleep - deadlock!"),
    ] {
        let stop = run(&mut client, &script, way);
        assert_eq!(stop["reason"], "exception", "{way}: {stop}");
        let autopsy = text(&mut client, "autopsy", json!({}));
        assert!(autopsy.contains(said), "{way}: {autopsy}");
        let line = mark.map(|mark| format!("main.go:{}", script.line(mark))).unwrap_or_default();
        assert!(autopsy.contains(&line), "{way}: {autopsy}");
        text(&mut client, "disconnect", json!({}));
    }
}

#[test]
fn java_stops_at_what_fails_in_threads() {
    let Some(mut client) = client() else { return };
    let script = Script::new("java/Failures.java");
    for way in ["main", "thread"] {
        let stop = run(&mut client, &script, way);
        assert_failed(&mut client, &script, &stop, "java.lang.IllegalStateException");
        text(&mut client, "disconnect", json!({}));
    }
}

#[test]
fn ruby_tells_the_exception_that_ends_the_program_and_its_causes() {
    let Some(mut client) = client() else { return };
    let script = Script::new("ruby/causes.rb");
    for way in ["main", "thread"] {
        let stop = run(&mut client, &script, way);
        assert_eq!(stop["reason"], "exception", "{stop}");
        let autopsy = text(&mut client, "autopsy", json!({}));
        assert!(autopsy.starts_with("unhandled RuntimeError: cannot start"), "{autopsy}");
        for (cause, mark) in [("ArgumentError: cannot load", "second"), ("KeyError: no settings", "first")] {
            assert!(autopsy.contains(cause), "{autopsy}");
            assert!(autopsy.contains(&format!("causes.rb:{}", script.line(mark))), "{autopsy}");
        }
        // Its debugger keeps the stack of the first one only.
        assert_eq!(stop["location"]["line"], script.line("first"), "{stop}");
        assert!(stop["detail"].as_str().unwrap().contains("where `KeyError` was raised"), "{stop}");
        text(&mut client, "disconnect", json!({}));
    }
}
