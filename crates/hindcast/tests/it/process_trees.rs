//! Programs that others start: followed to from what starts them, and ended with all that was started.

use std::{fs, os::unix::fs::symlink, path::Path};

use hindcast_fixtures::Fixture;
use serde_json::{Value, json};

use crate::{
    debugger::{Client, is_alive, pid_in},
    server::{command, eventually},
};

fn data(client: &mut Client, tool: &str, arguments: Value) -> Value {
    let answer = client.rpc("tools/call", &json!({ "name": tool, "arguments": arguments }));
    assert!(answer["result"].is_object(), "{tool}: {answer}");
    answer["result"]["structuredContent"].clone()
}

/// A folder in which the fixture has this name.
fn folder_with(fixture: &Fixture, name: &str) -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    symlink(fixture.build().path, folder.path().join(name)).unwrap();
    folder
}

/// Launches a shell whose script starts `./program`, and follows that.
fn follow_in_shell(client: &mut Client, folder: &Path, script: &str) -> String {
    let arguments = json!({ "program": "sh", "args": ["-c", script], "cwd": folder, "follow": "program" });
    client.call("debugger/launch", arguments)
}

/// The processes whose command line contains this.
fn processes(text: &str) -> Vec<u64> {
    let numbers =
        fs::read_dir("/proc").unwrap().filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok());
    let is_meant = |pid: &u64| {
        let line = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        let line = String::from_utf8_lossy(&line).replace('\0', " ");
        // Not the shell that starts them.
        line.contains(text) && !line.contains("-c ")
    };
    numbers.filter(is_meant).collect()
}

#[test]
fn what_make_starts_is_recorded_from_its_first_instruction_on() {
    let children = Fixture::c("children");
    let folder = folder_with(&children, "program");
    fs::write(folder.path().join("Makefile"), "test:\n\t@echo before\n\t./program alone\n\t@echo after\n")
        .unwrap();
    let mut client = Client::new();
    let arguments = json!({ "program": "make", "args": ["test"], "cwd": folder.path(), "follow": "program", "terminal": true });
    let launched = client.call("debugger/launch", arguments);
    assert!(launched.starts_with("Followed "), "{launched}");
    assert!(launched.contains("Stopped at entry") && launched.contains("in main"), "{launched}");
    assert!(launched.contains("before"), "what the others print is there: {launched}");
    let started_by = launched.lines().find(|line| line.contains("was followed: process ")).unwrap();
    assert!(started_by.contains("make test`) started it") && started_by.contains("make test` was launched"));
    client.call("debugger/set_breakpoint", json!({ "function": "add", "condition": "number == 6" }));
    client.call("debugger/continue", json!({}));
    let written = client.call("debugger/last_write", json!({ "expression": "total" }));
    assert!(written.contains("from 1 (0x1) to 6 (0x6)"), "{written}");
    let start = data(&mut client, "debugger/goto", json!({ "moment": "start" }));
    let entry = data(
        &mut client,
        "debugger/disassemble",
        json!({ "address": start["location"]["address"], "count": 1 }),
    );
    assert_eq!(start["in_past"], true, "{start} {entry}");
    client.call("debugger/remove_breakpoint", json!({ "id": "all" }));
    client.call("debugger/goto", json!({ "moment": "present" }));
    let ended = data(&mut client, "debugger/continue", json!({}));
    assert_eq!((&ended["state"], &ended["exit_code"]), (&json!("exited"), &json!(0)), "{ended}");
    eventually("the rest of the tree goes on", || {
        client.call("debugger/read_output", json!({ "since": 0 })).contains("after")
    });
    let again = client.call("debugger/restart", json!({}));
    assert!(again.starts_with("Followed ") && again.contains("in main"), "{again}");
}

#[test]
fn a_path_is_followed_from_a_script_in_python() {
    let children = Fixture::c("children");
    let folder = folder_with(&children, "link");
    let script = "import subprocess, sys\nsubprocess.run(['true'])\nprint(subprocess.run([sys.argv[1], 'alone']).returncode)";
    let mut client = Client::new();
    let arguments = json!({
        "program": "python3", "args": ["-c", script, folder.path().join("link")],
        "follow": children.build().path, "stop_at_entry": false
    });
    let launched = data(&mut client, "debugger/launch", arguments);
    assert_eq!((&launched["state"], &launched["exit_code"]), (&json!("exited"), &json!(0)), "{launched}");
    let notes = launched["notes"].to_string();
    assert!(notes.contains("was followed: process ") && notes.contains("python3 -c"), "{notes}");
    let back = client.call("debugger/last_write", json!({ "expression": "total" }));
    assert!(back.contains("from 6 (0x6) to 12 (0xc)"), "{back}");
}

#[test]
fn a_test_of_a_harness_with_threads_is_followed_by_a_pattern() {
    let tested = Fixture::rust("tested").flags(["--test"]);
    let line = tested.build().line("total");
    let folder = folder_with(&tested, "tested-0123456789abcdef");
    let script = folder.path().join("run-tests");
    fs::write(&script, "#!/bin/sh\ntrue\n./tested-* numbers_add_up\n").unwrap();
    let mut client = Client::new();
    let arguments = json!({ "program": "sh", "args": [script], "cwd": folder.path(), "follow": "tested-*" });
    let launched = client.call("debugger/launch", arguments);
    assert!(launched.starts_with("Followed tested"), "{launched}");
    client.call("debugger/run_to", json!({ "file": "tested.rs", "line": line }));
    let written = client.call("debugger/last_write", json!({ "expression": "total" }));
    assert!(written.contains("from 3 (0x3) to 6 (0x6)"), "{written}");
}

#[test]
fn a_program_that_nobody_executes_is_an_error_that_names_what_was_executed() {
    let mut client = Client::new();
    let arguments = json!({ "program": "sh", "args": ["-c", "true; ls / >&2; exit 3"], "follow": "program" });
    let error = client.refused("debugger/launch", arguments).to_string();
    assert!(error.contains("`program` was never executed"), "{error}");
    assert!(
        error.contains("exited with code 3") && error.contains("`sh`") && error.contains("`ls`"),
        "{error}"
    );
    assert!(error.contains("hint"), "{error}");
    assert_eq!(data(&mut client, "debugger/status", json!({}))["sessions"], json!([]));
}

#[test]
fn one_waits_for_a_program_as_long_as_one_likes() {
    let children = Fixture::c("children");
    let folder = folder_with(&children, "program");
    let mut client = Client::new();
    let arguments = json!({
        "program": "sh", "args": ["-c", "read line; ./program alone"], "cwd": folder.path(), "follow": "program",
        "timeout_ms": 50
    });
    let launched = client.call("debugger/launch", arguments);
    assert!(launched.contains("`program` was not executed yet; `debugger/wait` waits for it"), "{launched}");
    let set = client.call("debugger/set_breakpoint", json!({ "function": "add" }));
    assert!(set.contains("pending"), "{set}");
    client.call("debugger/write_input", json!({ "text": "go\n" }));
    let waited = client.call("debugger/wait", json!({}));
    assert!(waited.contains("Stopped at entry") && waited.contains("was followed: process "), "{waited}");
    let hit = client.call("debugger/continue", json!({}));
    assert!(hit.contains("Stopped at breakpoint 1"), "{hit}");
    client.call("debugger/step_backward", json!({ "granularity": "out" }));
}

#[test]
fn a_launch_that_waits_is_paused_and_ended() {
    let marker = format!("1000.{}1", std::process::id());
    let mut client = Client::new();
    let script = format!("sleep {marker}; true");
    let arguments = json!({ "program": "sh", "args": ["-c", script], "follow": "program", "timeout_ms": 50 });
    client.call("debugger/launch", arguments);
    eventually("it runs", || processes(&marker).len() == 1);
    assert!(client.call("debugger/pause", json!({})).contains("Paused at "));
    let error = client.refused("debugger/step_forward", json!({})).to_string();
    assert!(error.contains("`program` has not been executed yet"), "{error}");
    client.call("debugger/disconnect", json!({}));
    assert!(processes(&marker).is_empty());
}

/// A tree of which the followed program is one; the others are not traced.
const TREE: &str =
    "sleep SECONDS & setsid sleep SECONDS & (sleep SECONDS & exec sleep SECONDS) & ./program alone; wait";

#[test]
fn the_whole_tree_ends_with_the_session_and_with_the_debugger() {
    let children = Fixture::c("children");
    let folder = folder_with(&children, "program");
    let untraced = |pid: &u64| {
        fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default().contains("TracerPid:\t0")
    };
    for is_killed in [false, true] {
        let marker = format!("1000.{}{}", std::process::id(), 2 + u8::from(is_killed));
        let mut client = Client::new();
        let launched = follow_in_shell(&mut client, folder.path(), &TREE.replace("SECONDS", &marker));
        let program = pid_in(&launched);
        let shell: u64 = launched
            .split("was followed: process ")
            .nth(1)
            .unwrap()
            .split(' ')
            .next()
            .unwrap()
            .parse()
            .unwrap();
        eventually("all run", || processes(&marker).len() == 4);
        assert!(processes(&marker).iter().chain([&shell]).all(untraced));
        if is_killed {
            drop(client);
        } else {
            client.call("debugger/disconnect", json!({}));
            assert!(processes(&marker).is_empty());
        }
        eventually("nothing is left", || {
            processes(&marker).is_empty() && !is_alive(program) && !is_alive(shell)
        });
    }
}

#[test]
fn a_tree_that_is_let_go_goes_on() {
    let children = Fixture::c("children");
    let folder = folder_with(&children, "program");
    let mut client = Client::new();
    let done = folder.path().join("done");
    let launched = follow_in_shell(&mut client, folder.path(), "./program alone && echo yes > done");
    assert!(launched.starts_with("Followed "), "{launched}");
    client.call("debugger/disconnect", json!({ "terminate": false }));
    eventually("it comes to its end", || fs::read_to_string(&done).is_ok_and(|text| text == "yes\n"));
}

#[test]
fn what_a_program_prints_after_it_was_let_go_does_not_end_it() {
    let folder = tempfile::tempdir().unwrap();
    let script = "sleep 0.3 && seq 100000 && seq 1000 >&2 && echo yes > \"$1\"";
    for (number, arguments) in [
        json!({ "record": true }),
        json!({ "record": false }),
        json!({ "terminal": true }),
        json!({ "stop_at_entry": true, "stdin": "never read" }),
    ]
    .into_iter()
    .enumerate()
    {
        let done = folder.path().join(number.to_string());
        let mut launch = json!({ "program": "sh", "args": ["-c", script, "sh", done] });
        launch.as_object_mut().unwrap().extend(arguments.as_object().unwrap().clone());
        let mut client = Client::new();
        let pid = pid_in(&client.call("debugger/launch", launch));
        client.call("debugger/disconnect", json!({ "terminate": false }));
        if number % 2 == 0 {
            // Also where the server is gone.
            drop(client);
        }
        eventually("it comes to its end", || fs::read_to_string(&done).is_ok_and(|text| text == "yes\n"));
        eventually("nobody waits for what it prints", || !is_alive(pid));
        let name = folder.path().join(number.to_string()).display().to_string();
        eventually("nothing is left", || processes(&name).is_empty());
    }
}

#[test]
fn a_forked_child_is_followed_and_recorded_from_the_fork_on() {
    let children = Fixture::c("children");
    let crashed = children.build().line("crashed");
    let mut client = Client::new();
    let arguments = json!({ "program": children.build().path, "args": ["crash"], "follow_forks": true });
    let launched = client.call("debugger/launch", arguments);
    assert!(launched.contains("Stopped at entry") && launched.contains("main at children.c:"), "{launched}");
    let stopped = client.call("debugger/continue", json!({}));
    assert!(
        stopped.starts_with("Stopped by SIGSEGV") && stopped.contains(&format!("children.c:{crashed}")),
        "{stopped}"
    );
    let written = client.call("debugger/last_write", json!({ "expression": "total" }));
    assert!(written.contains("from 7 (0x7) to 11 (0xb)"), "{written}");
    let error = client.refused(
        "debugger/launch",
        json!({ "program": children.build().path, "args": ["alone"], "follow_forks": true }),
    );
    assert!(error.to_string().contains("never forked a process"), "{error}");
}

#[test]
fn the_crash_of_a_child_that_is_not_followed_is_told() {
    let children = Fixture::c("children");
    let mut client = Client::new();
    for record in [true, false] {
        client.call(
            "debugger/launch",
            json!({ "program": children.build().path, "args": ["crash"], "record": record }),
        );
        let ended = data(&mut client, "debugger/continue", json!({}));
        assert_eq!(ended["exit_code"], 1, "{ended}");
        let told = ended["output"]["log"].as_str().unwrap();
        assert!(told.starts_with("process ") && told.contains("was killed by SIGSEGV"), "{told}");
    }
    client.call("debugger/launch", json!({ "program": children.build().path, "args": ["fine"] }));
    let ended = data(&mut client, "debugger/continue", json!({}));
    assert_eq!((&ended["exit_code"], &ended["output"]["log"]), (&json!(0), &Value::Null), "{ended}");
}

#[test]
fn record_follows_a_program_and_replays_it() {
    let children = Fixture::c("children");
    let folder = folder_with(&children, "program");
    let trace = folder.path().join("trace");
    let script = "echo first; ./program alone";
    let recorded = command()
        .current_dir(folder.path())
        .args(["record", "--follow", "program", "--output"])
        .arg(&trace)
        .args(["--", "sh", "-c", script])
        .output()
        .unwrap();
    let told = String::from_utf8_lossy(&recorded.stderr).into_owned();
    assert_eq!(recorded.status.code(), Some(0), "{told}");
    assert_eq!(String::from_utf8_lossy(&recorded.stdout), "first\ntotal 12\n");
    assert!(told.contains("exited with code 0 after"), "{told}");
    let mut client = Client::new();
    client.call("debugger/launch", json!({ "trace": trace }));
    let written = client.call("debugger/last_write", json!({ "expression": "total" }));
    assert!(written.contains("from 6 (0x6) to 12 (0xc)"), "{written}");
}
