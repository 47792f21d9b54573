//! What the tour leaves out, in every language: steps into functions, threads, breakpoints that are changed, input, and pauses.

use hindcast_fixtures::adapters::Script;
use serde_json::json;

use super::{Tongue, client, data, go, java, javascript, local, python, ruby, text};
use crate::server::eventually;

#[test]
fn python_has_all_controls() {
    controls(&python());
    is_paused("python/spin.py");
}

#[test]
fn javascript_has_all_controls() {
    controls(&javascript());
    is_paused("javascript/spin.js");
}

#[test]
fn go_has_all_controls() {
    controls(&go());
    is_paused("go/spin/main.go");
}

#[test]
fn ruby_has_all_controls() {
    controls(&ruby());
    is_paused("ruby/spin.rb");
}

#[test]
fn java_has_all_controls() {
    controls(&java());
    is_paused("java/Spin.java");
}

fn controls(tongue: &Tongue) {
    let Some(mut client) = client() else { return };
    let script = &tongue.script;
    let (file, folder) = (script.name(), script.path.parent().unwrap());
    let mut arguments = json!({ "program": script.path, "cwd": folder, "timeout_ms": 60_000 });
    // This one reads all its input before anything else.
    let reads_first = file == "shop.js";
    if reads_first {
        arguments["stdin"] = "typed\n".into();
    }
    let launched = data(&mut client, "launch", arguments);
    assert_eq!(launched["reason"], "entry", "{launched}");

    // Into a function, by lines, and by several of them at once.
    data(&mut client, "run_to", json!({ "file": file, "line": script.line("call") }));
    let into = data(&mut client, "step_forward", json!({ "granularity": "line" }));
    assert!(into["location"]["function"].as_str().unwrap().contains("total"), "{into}");
    let steps = data(&mut client, "step_forward", json!({ "granularity": "over", "count": 3 }));
    assert!(steps["location"]["function"].as_str().unwrap().contains("total"), "{steps}");

    // Threads, of which one stands here.
    let threads = data(&mut client, "get_threads", json!({}));
    let all = threads["threads"].as_array().unwrap();
    let current = steps["thread_id"].as_u64().unwrap();
    let here = all.iter().find(|thread| thread["id"] == current).unwrap_or_else(|| panic!("{threads}"));
    assert!(here.to_string().contains(file), "{threads}");
    let stack = data(&mut client, "get_stack_trace", json!({ "thread_id": current }));
    assert_eq!(stack["frames"][0]["line"], steps["location"]["line"], "{stack}");
    let caller = json!({ "frame": 1, "filter": "order" });
    let order = data(&mut client, "get_variables", caller);
    assert_eq!(order["variables"].as_array().unwrap().len(), 1, "the caller's own: {order}");

    // A breakpoint that is changed, disabled and enabled again.
    let set = data(&mut client, "set_breakpoint", json!({ "file": file, "line": script.line("loop_body") }));
    let id = set["id"].clone();
    text(&mut client, "update_breakpoint", json!({ "id": id, "condition": "price == 3" }));
    let stop = data(&mut client, "continue", json!({ "timeout_ms": 60_000 }));
    assert_eq!(local(&stop, "price"), "3", "{stop}");
    text(&mut client, "update_breakpoint", json!({ "id": id, "condition": "" }));
    let stop = data(&mut client, "continue", json!({ "timeout_ms": 60_000 }));
    assert_eq!(local(&stop, "price"), "4", "{stop}");
    text(&mut client, "restart", json!({}));
    // They are set again, and counted anew.
    let id = data(&mut client, "status", json!({}))["breakpoints"][0]["id"].clone();
    text(&mut client, "update_breakpoint", json!({ "id": id, "enabled": false }));
    let line = script.line(if reads_first { "decides" } else { "reads" });
    let there = data(&mut client, "run_to", json!({ "file": file, "line": line }));
    assert_eq!(there["location"]["line"], line, "{there}");
    let status = data(&mut client, "status", json!({}));
    assert_eq!(status["breakpoints"][0]["enabled"], false, "{status}");

    // Input, and what is printed where.
    if !reads_first {
        text(&mut client, "write_input", json!({ "text": "typed\n" }));
    }
    let ended = data(&mut client, "continue", json!({ "timeout_ms": 60_000 }));
    assert_eq!(ended["exit_code"], 7, "{ended}");
    let printed = |client: &mut crate::knowledge::Client, stream: &str| {
        data(client, "read_output", json!({ "stream": stream }))[stream]
            .as_str()
            .unwrap_or_default()
            .to_owned()
    };
    let (out, err) = (printed(&mut client, "stdout"), printed(&mut client, "stderr"));
    assert!(out.contains("read typed") && !out.contains("sum 10 3"), "{out}");
    assert!(err.contains("sum 10 3") && !err.contains("read typed"), "{err}");
}

/// A program that runs is stopped, looked at, and goes on.
fn is_paused(name: &str) {
    let Some(mut client) = client() else { return };
    let script = Script::new(name);
    let folder = tempfile::tempdir().unwrap();
    let arguments = json!({ "program": script.path, "args": [folder.path().join("flag")],
        "cwd": script.path.parent().unwrap(), "stop_at_entry": false, "timeout_ms": 1000 });
    let running = data(&mut client, "launch", arguments);
    assert_eq!(running["state"], "running", "{name}: {running}");
    eventually("it runs", || text(&mut client, "read_output", json!({})).contains("ready"));
    let paused = data(&mut client, "pause", json!({}));
    assert_eq!(
        (&paused["state"], &paused["reason"]),
        (&json!("paused"), &json!("pause")),
        "{name}: {paused}"
    );
    let line = script.line("spinning");
    text(&mut client, "set_breakpoint", json!({ "file": script.path, "line": line }));
    let mut counts = Vec::new();
    for _ in 0..2 {
        let stop = data(&mut client, "continue", json!({ "timeout_ms": 60_000 }));
        assert_eq!(stop["location"]["line"], line, "{name}: {stop}");
        counts.push(local(&stop, "count").parse::<u64>().unwrap());
    }
    assert!(counts[1] > counts[0], "{name}: {counts:?}");
}
