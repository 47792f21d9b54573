//! Going back in time with the built binary, on real programs.

use std::{
    io::Write,
    process::{Output, Stdio},
    time::{Duration, Instant},
};

use hindcast_fixtures::Fixture;
use serde_json::{Value, json};

use crate::{
    debugger::Client,
    server::{Server, command},
};

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// The data of a call that succeeds.
fn data(client: &mut Client, tool: &str, arguments: Value) -> Value {
    let answer = client.rpc("tools/call", &json!({ "name": tool, "arguments": arguments }));
    assert!(answer["result"].is_object(), "{tool}: {answer}");
    answer["result"]["structuredContent"].clone()
}

/// A client whose program has just crashed.
fn crashed() -> Client {
    let mut client = Client::new();
    client.launch(&Fixture::c("overrun"), &[]);
    let stopped = client.call("debugger/continue", json!({}));
    assert!(stopped.starts_with("Stopped by SIGSEGV"), "{stopped}");
    client
}

/// Runs `hindcast record` with this as the program's input.
fn record(arguments: &[&str], input: &str) -> Output {
    let mut process = command()
        .arg("record")
        .args(arguments)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    process.stdin.take().unwrap().write_all(input.as_bytes()).unwrap();
    process.wait_with_output().unwrap()
}

#[test]
fn a_crash_is_followed_to_the_guilty_line() {
    let line = Fixture::c("overrun").build().line("guilty");
    let mut client = crashed();
    let autopsy = client.call("debugger/autopsy", json!({}));
    assert!(autopsy.contains("next: debugger/last_write"), "{autopsy}");
    let found = client.call("debugger/last_write", json!({ "expression": "account->currency" }));
    assert!(found.starts_with("Last write to `account->currency`: settle at "), "{found}");
    assert!(found.contains(&format!("overrun.c:{line}\n")), "{found}");
    assert!(found.contains("account->balances[day] = balance;"), "{found}");
    assert!(found.contains("\"EUR\""), "the value before: {found}");

    let writes = data(&mut client, "debugger/last_write", json!({ "expression": "account->currency" }));
    let moment = writes["writes"][0]["moment"].clone();
    let there = data(&mut client, "debugger/goto", json!({ "moment": moment }));
    assert_eq!((&there["in_past"], &there["reason"]), (&json!(true), &json!("goto")), "{there}");
    let day = client.call("debugger/evaluate", json!({ "expression": "day" }));
    assert!(day.ends_with("= 7"), "{day}");
    let before = client.call("debugger/last_write", json!({ "expression": "account->balances[6]" }));
    assert!(before.contains(&format!("overrun.c:{line}")), "{before}");
}

#[test]
fn steps_go_back_and_forward_again() {
    let mut client = Client::new();
    let overrun = Fixture::c("overrun");
    client.launch(&overrun, &[]);
    let line = overrun.build().line("averaged");
    client.call("debugger/run_to", json!({ "file": "overrun.c", "line": line }));
    let here = data(&mut client, "debugger/status", json!({}));
    let stepped = client.call("debugger/step_forward", json!({}));
    assert!(stepped.starts_with("Stepped to 0x"), "{stepped}");
    let back = client.call("debugger/step_backward", json!({}));
    assert!(back.starts_with("Stepped back to 0x"), "{back}");
    assert!(back.contains("\nRestored from snapshot "), "{back}");
    assert_eq!(
        data(&mut client, "debugger/status", json!({}))["sessions"][0]["recording"]["moment"],
        here["sessions"][0]["recording"]["moment"]
    );
    let over = data(&mut client, "debugger/step_backward", json!({ "granularity": "over" }));
    assert!(over["location"]["line"].as_u64().unwrap() < u64::from(line), "{over}");
    let out = data(&mut client, "debugger/step_backward", json!({ "granularity": "out" }));
    assert_eq!(out["location"]["function"], "main", "{out}");
    let present = client.call("debugger/continue", json!({}));
    assert!(present.starts_with("Back in the present"), "{present}");
    assert!(!present.contains("the account is open"), "nothing is printed twice: {present}");
}

#[test]
fn breakpoints_stop_backwards_also_after_the_exit() {
    let mut client = Client::new();
    client.launch(&Fixture::c("calls"), &["3"]);
    client.call("debugger/set_breakpoint", json!({ "function": "square" }));
    let first = data(&mut client, "debugger/continue", json!({}));
    let second = data(&mut client, "debugger/continue", json!({}));
    assert_eq!(second["reason"], "breakpoint");
    let back = data(&mut client, "debugger/reverse_continue", json!({}));
    assert_eq!((&back["moment"], &back["reason"]), (&first["moment"], &json!("breakpoint")), "{back}");
    let start = data(&mut client, "debugger/reverse_continue", json!({}));
    assert_eq!(start["reason"], "history_start", "{start}");
    client.call("debugger/remove_breakpoint", json!({ "id": "all" }));
    client.call("debugger/goto", json!({ "moment": "present" }));
    let ended = data(&mut client, "debugger/continue", json!({}));
    assert_eq!(ended["state"], "exited", "{ended}");
    let written = data(&mut client, "debugger/last_write", json!({ "expression": "total" }));
    assert_eq!(written["writes"][0]["new"], "10 (0xa)", "{written}");
    // Asking does not move.
    assert_eq!(client.refused("debugger/get_variables", json!({}))["code"], -32005);
    client.call("debugger/set_breakpoint", json!({ "function": "square" }));
    let back = data(&mut client, "debugger/reverse_continue", json!({}));
    assert_eq!((&back["state"], &back["in_past"]), (&json!("paused"), &json!(true)), "{back}");
    assert!(client.call("debugger/get_variables", json!({})).contains("number: int"), "values are there");
    let half = data(&mut client, "debugger/goto", json!({ "percent": 50 }));
    assert_eq!(half["in_past"], true, "{half}");
}

/// The first part of such a recording begins before any library is loaded.
#[test]
fn breakpoints_in_libraries_stop_backwards_where_the_program_never_stopped() {
    let fixture = Fixture::c("blocks");
    let mut client = Client::new();
    let program = fixture.build().path;
    let ended = client.call("debugger/launch", json!({ "program": program, "stop_at_entry": false }));
    assert!(ended.contains("Stopped by SIGABRT"), "{ended}");
    client.call("debugger/set_breakpoint", json!({ "function": "malloc" }));
    let mut moments = Vec::new();
    for _ in 0..3 {
        let stop = data(&mut client, "debugger/reverse_continue", json!({}));
        assert_eq!(stop["breakpoint_ids"], json!(["1"]), "{stop}");
        moments.push(stop["moment"].as_str().unwrap().to_owned());
    }
    assert!(moments.is_sorted_by(|later, earlier| later > earlier), "{moments:?}");
}

#[test]
fn the_timeline_and_the_exports_tell_the_same() {
    let mut client = crashed();
    let timeline = data(&mut client, "debugger/timeline", json!({ "kinds": ["output", "signal"] }));
    let what: Vec<_> = timeline["happenings"].as_array().unwrap().iter().map(|one| &one["what"]).collect();
    assert!(what.iter().any(|what| what.to_string().contains("the account is open")), "{timeline}");
    assert!(what.iter().any(|what| what.to_string().contains("SIGSEGV")), "{timeline}");
    let read = client.rpc("resources/read", &json!({ "uri": "debugger://timeline" }));
    assert!(read["result"]["contents"][0]["text"].as_str().unwrap().contains("SIGSEGV"), "{read}");

    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("trace.bin");
    let exported = data(&mut client, "debugger/export_trace", json!({ "format": "binary", "path": file }));
    let replayed = command().arg("replay").arg(&file).arg("--json").output().unwrap();
    let replayed: Value = serde_json::from_slice(&replayed.stdout).unwrap();
    assert_eq!(replayed["event_count"], exported["events"]);
    assert!(replayed["happenings"].to_string().contains("SIGSEGV"), "{replayed}");
    for format in ["json", "text"] {
        let call = json!({ "name": "debugger/export_trace", "arguments": { "format": format } });
        let answer = client.rpc("tools/call", &call);
        let trace = answer["result"]["content"][1]["text"].as_str().unwrap_or_else(|| panic!("{answer}"));
        assert!(trace.contains("SIGSEGV"), "{trace}");
        assert!(format == "text" || serde_json::from_str::<Value>(trace).is_ok(), "{trace}");
    }
}

#[test]
fn a_bare_client_gets_a_binary_trace_in_the_contracts_form() {
    let server = Server::start(&[]);
    let key = server.unlimited_key();
    server.call(&key, "debugger/launch", json!({ "program": Fixture::c("overrun").build().path }));
    server.call(&key, "debugger/continue", json!({}));
    let answer = server.call(&key, "debugger/export_trace", json!({ "format": "binary" }));
    let part = &answer["result"]["content"][0];
    assert_eq!((&part["type"], &part["mimeType"]), (&json!("blob"), &json!("application/octet-stream")));
    // The first bytes of every trace.
    assert!(part["blob"].as_str().unwrap().starts_with("aGluZGNhc3"), "{part}");
}

#[test]
fn a_newcomer_sees_the_guilty_line_within_a_minute() {
    let started = Instant::now();
    let demo = command().arg("demo").output().unwrap();
    let story = text(&demo.stdout);
    assert!(demo.status.success(), "{story}\n{}", text(&demo.stderr));
    assert!(started.elapsed() < Duration::from_secs(60));
    assert!(story.contains("It crashed: SIGSEGV"), "{story}");
    let found = story.split("Who wrote it?").nth(1).unwrap_or_default();
    assert!(found.contains("| account->balances[day] = balance;"), "{story}");
    assert!(story.contains("`settle`, on line"), "{story}");
    assert!(story.contains("debugger/last_write"), "{story}");
}

#[test]
fn a_recorded_crash_leaves_a_trace_that_can_be_opened() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("trace.bin");
    let program = Fixture::c("overrun").build().path;
    let recorded = record(&["--output", file.to_str().unwrap(), "--", program.to_str().unwrap()], "");
    let said = text(&recorded.stderr);
    assert_eq!(recorded.status.code(), Some(139), "{said}");
    assert!(said.contains("was stopped by SIGSEGV") && said.contains("next: debugger/last_write"), "{said}");
    let replayed = command().arg("replay").arg(&file).output().unwrap();
    let timeline = text(&replayed.stdout);
    assert!(
        timeline.starts_with("Recording of overrun (process ") && timeline.contains("SIGSEGV"),
        "{timeline}"
    );
    let (_, end) = timeline.split_once("It ends here:\n").unwrap_or_else(|| panic!("{timeline}"));
    assert!(end.contains("Stack trace:") && end.contains("debugger/launch           {\"trace\":"), "{end}");
    assert!(replayed.status.success(), "{}", text(&replayed.stderr));
}

#[test]
fn a_recorded_crash_is_followed_to_the_guilty_line_by_who_has_only_the_file() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("trace.bin");
    let overrun = Fixture::c("overrun").build();
    record(&["-o", file.to_str().unwrap(), "--", overrun.path.to_str().unwrap()], "");
    let mut client = Client::new();
    let opened = client.call("debugger/launch", json!({ "trace": file }));
    assert!(opened.starts_with("Opened the recording of overrun; this is where it ends"), "{opened}");
    assert!(opened.contains("SIGSEGV"), "{opened}");
    let autopsy = client.call("debugger/autopsy", json!({}));
    assert!(autopsy.contains("next: debugger/last_write"), "{autopsy}");
    let found = client.call("debugger/last_write", json!({ "expression": "account->currency" }));
    assert!(found.contains(&format!("overrun.c:{}\n", overrun.line("guilty"))), "{found}");
    let writes = data(&mut client, "debugger/last_write", json!({ "expression": "account->currency" }));
    let there = data(&mut client, "debugger/goto", json!({ "moment": writes["writes"][0]["moment"] }));
    assert_eq!(there["in_past"], true, "{there}");
    assert!(client.call("debugger/evaluate", json!({ "expression": "day" })).ends_with("= 7"));
    client.call("debugger/goto", json!({ "moment": "present" }));
    let error = client.refused("debugger/continue", json!({}));
    assert_eq!(error["code"], -32007, "{error}");
    assert!(error.to_string().contains("the recording ends here"), "{error}");
    let error = client.refused("debugger/launch", json!({ "trace": file, "program": overrun.path }));
    assert_eq!(error["code"], -32602, "{error}");
    std::fs::write(&file, &std::fs::read(&file).unwrap()[..5000]).unwrap();
    let error = client.refused("debugger/launch", json!({ "trace": file }));
    assert!(error.to_string().contains("the trace is cut off"), "{error}");
    let replayed = command().arg("replay").arg(&file).output().unwrap();
    assert_eq!(replayed.status.code(), Some(1));
}

#[test]
fn without_a_recording_going_back_is_refused_with_the_remedy() {
    let mut client = Client::new();
    let program = Fixture::c("calls").build().path;
    client.call("debugger/launch", json!({ "program": program, "record": false }));
    for (tool, arguments) in [
        ("debugger/step_backward", json!({})),
        ("debugger/reverse_continue", json!({})),
        ("debugger/goto", json!({ "moment": "start" })),
        ("debugger/last_write", json!({ "expression": "argc" })),
        ("debugger/timeline", json!({})),
        ("debugger/export_trace", json!({ "format": "binary" })),
    ] {
        let error = client.refused(tool, arguments);
        assert_eq!(
            (&error["code"], &error["message"]),
            (&json!(-32007), &json!("History unavailable")),
            "{tool}"
        );
        let hint = error["data"]["hint"].as_str().unwrap();
        assert!(hint.contains("`debugger/record`") && hint.contains("`record` true"), "{tool}: {error}");
    }
    let stack = client.call("debugger/get_stack_trace", json!({}));
    assert!(stack.contains(" main+0x"), "the session goes on: {stack}");
}

#[test]
fn a_recorded_program_runs_as_if_alone() {
    let recorded =
        record(&["--", "sh", "-c", "read word; echo \"got $word\"; echo oops >&2; exit 7"], "this\n");
    let said = text(&recorded.stderr);
    assert_eq!((recorded.status.code(), text(&recorded.stdout)), (Some(7), "got this\n".into()), "{said}");
    assert!(said.starts_with("oops\n"), "{said}");
    assert!(said.contains(" exited with code 7 after "), "{said}");
    let crashed = record(&["--", Fixture::c("misbehave").build().path.to_str().unwrap(), "null", "7"], "");
    let said = text(&crashed.stderr);
    assert_eq!(crashed.status.code(), Some(139), "{said}");
    assert!(said.contains("null pointer") && said.contains("Stack trace:"), "{said}");
}

#[test]
fn what_cannot_be_recorded_or_replayed_is_said() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("not a trace");
    std::fs::write(&file, "hello").unwrap();
    let check = |arguments: &[&str], code: i32, part: &str| {
        let output = command().args(arguments).output().unwrap();
        let said = text(&output.stderr);
        assert_eq!(output.status.code(), Some(code), "{arguments:?}: {said}");
        assert!(said.contains(part), "{arguments:?}: {said}");
    };
    let path = file.to_str().unwrap();
    check(&["replay", path], 1, "not a trace of hindcast · hint: `debugger/export_trace`");
    check(&["replay", "/no/such/file"], 1, "cannot open `/no/such/file`");
    check(&["record", "--", "no-such-program-anywhere"], 1, "there is no program");
    check(&["record", "--output", path, "--", "true"], 1, "already");
    check(&["record"], 2, "PROGRAM");
}

#[test]
fn a_program_that_deals_with_its_own_faults_is_recorded_to_its_end() {
    let program = Fixture::c("misbehave").build().path;
    let output = record(&["--", program.to_str().unwrap(), "recover"], "");
    assert_eq!(output.status.code(), Some(4), "{}", text(&output.stderr));
    assert_eq!(text(&output.stdout), "recovered\n");
    let program = Fixture::rust("panics").build().path;
    let output = record(&["--", program.to_str().unwrap(), "uncaught"], "");
    let said = text(&output.stderr);
    assert_eq!(output.status.code(), Some(101), "{said}");
    assert!(said.contains("unhandled rust:panic: panicked at "), "{said}");
}

#[test]
fn a_process_that_was_attached_to_and_recorded_survives_us() {
    let built = Fixture::c("clock").build();
    let folder = tempfile::tempdir().unwrap();
    let end = folder.path().join("end");
    let mut target = std::process::Command::new(&built.path).arg(&end).stdout(Stdio::null()).spawn().unwrap();
    let mut client = Client::new();
    client.call("debugger/attach", json!({ "pid": target.id(), "record": true }));
    client.call("debugger/continue", json!({ "timeout_ms": 100 }));
    client.call("debugger/pause", json!({}));
    let back = data(&mut client, "debugger/step_backward", json!({ "count": 3 }));
    assert_eq!(back["in_past"], true, "{back}");
    // It is killed.
    drop(client);
    wait_until_left(end.to_str().unwrap(), 1);
    std::fs::write(&end, "").unwrap();
    assert_eq!(target.wait().unwrap().code(), Some(0), "it goes on to its end");
}

#[test]
fn nothing_is_left_of_a_recording_that_is_killed() {
    for round in 0..6 {
        let mark = format!("killed-{}-{round}", std::process::id());
        let mut client = Client::new();
        client.launch(&Fixture::c("travel").flags(["-O1"]), &["alarms", "1000000", &mark]);
        client.call("debugger/continue", json!({ "timeout_ms": 20 * round }));
        if round % 2 == 1 {
            client.call("debugger/pause", json!({}));
            client.call("debugger/step_backward", json!({}));
        }
        // It is killed.
        drop(client);
        wait_until_left(&mark, 0);
    }
}

#[test]
fn nothing_is_left_of_an_opened_recording_that_is_killed() {
    let folder = tempfile::tempdir().unwrap();
    let mark = format!("opened-{}", std::process::id());
    let program = Fixture::c("travel").flags(["-O1"]).build().path;
    let file = folder.path().join("trace.bin");
    let command =
        ["--output", file.to_str().unwrap(), "--", program.to_str().unwrap(), "alarms", "40", &mark];
    assert!(record(&command, "").status.success());
    wait_until_left(&mark, 0);
    for round in 0..3 {
        let mut client = Client::new();
        client.call("debugger/launch", json!({ "trace": file }));
        let copies = processes_with(&mark);
        assert!(copies > 0, "its checkpoints are processes, with the arguments of the program");
        if round > 0 {
            client.call("debugger/goto", json!({ "percent": 30 * round }));
        }
        // It is killed.
        drop(client);
        wait_until_left(&mark, 0);
    }
}

/// Waits until only so many processes have this among their arguments; copies have those of the original.
fn wait_until_left(mark: &str, count: usize) {
    let begun = Instant::now();
    while processes_with(mark) > count {
        assert!(begun.elapsed() < Duration::from_secs(5), "{} processes are left", processes_with(mark));
        std::thread::sleep(Duration::from_millis(10));
    }
}

fn processes_with(mark: &str) -> usize {
    let has_mark = |process: &std::fs::DirEntry| {
        std::fs::read(process.path().join("cmdline")).is_ok_and(|line| text(&line).contains(mark))
    };
    std::fs::read_dir("/proc").unwrap().flatten().filter(has_mark).count()
}

/// Starts a program on a machine that says it hides what the processor can do, and does not.
const WITHOUT_CPUID_FAULTING: &str = r"
import ctypes, os, struct, sys
LOAD, UNLESS, END = 0x20, 0x15, 0x06
ARCH_PRCTL, ARCH_CPUID_SET, ERRNO_0, ALLOW = 158, 0x1012, 0x00050000, 0x7fff0000
steps = [(LOAD, 0, 0), (UNLESS, 3, ARCH_PRCTL), (LOAD, 0, 16), (UNLESS, 1, ARCH_CPUID_SET), (END, 0, ERRNO_0), (END, 0, ALLOW)]
code = ctypes.create_string_buffer(b''.join(struct.pack('HBBI', kind, 0, skip, value) for kind, skip, value in steps))
program = ctypes.create_string_buffer(struct.pack('HxxxxxxQ', len(steps), ctypes.addressof(code)))
libc = ctypes.CDLL(None)
assert libc.prctl(38, 1, 0, 0, 0) == 0 and libc.prctl(22, 2, program, 0, 0) == 0
os.execv(sys.argv[1], sys.argv[1:])
";

#[test]
fn the_doctor_tells_what_recording_lacks_on_this_machine() {
    let name = "the processor's description can be made to trap";
    let check = |output: Output| {
        let report: Value = serde_json::from_slice(&output.stdout).unwrap();
        let checks = report["checks"].as_array().unwrap().clone();
        checks.into_iter().find(|check| check["name"] == name).unwrap()
    };
    let doctor = command();
    let mut without = std::process::Command::new("python3");
    without
        .args(["-c", WITHOUT_CPUID_FAULTING])
        .arg(doctor.get_program())
        .env("XDG_CONFIG_HOME", "/nonexistent");
    let told = check(without.args(["doctor", "--json"]).output().unwrap());
    assert_eq!(told["status"], "warn", "{told}");
    assert!(told["detail"].as_str().unwrap().contains("random numbers of the processor"), "{told}");
    assert!(told["remedy"].is_string(), "{told}");
    let told = check(command().args(["doctor", "--json"]).output().unwrap());
    assert_eq!(told["status"], "ok", "{told}");
}

#[test]
fn stops_name_their_thread_once_several_have_stopped() {
    let crowd = Fixture::c("crowd").flags(["-O0", "-pthread"]);
    let mut client = Client::new();
    let entry = client.launch(&crowd, &["2", "300", "2"]);
    assert!(!entry.contains("(thread "), "{entry}");
    let line = crowd.build().line("adds");
    client.call("debugger/set_breakpoint", json!({ "file": "crowd.c", "line": line }));
    let stopped = client.call("debugger/continue", json!({}));
    assert!(stopped.contains("run at ") && stopped.contains(" (thread "), "{stopped}");
}

#[test]
fn a_search_for_an_old_write_goes_on_while_nobody_waits_for_it() {
    let phases = Fixture::c("phases");
    let mut client = Client::new();
    client.launch(&phases, &["400"]);
    let built = phases.build();
    client.call("debugger/run_to", json!({ "file": "phases.c", "line": built.line("done") }));
    let here = data(&mut client, "debugger/status", json!({}));
    let question = json!({ "expression": "old", "timeout_ms": 1 });
    let running = data(&mut client, "debugger/last_write", question.clone());
    assert_eq!((&running["state"], &running["writes"]), (&json!("running"), &json!([])), "{running}");
    let search = running["search"].clone();
    let refused = client.refused("debugger/get_registers", json!({}));
    assert!(
        refused["data"]["details"].as_str().unwrap().contains(&format!("(search {search})")),
        "{refused}"
    );
    // Who pauses gives it up; the program stands where it stood.
    let paused = client.call("debugger/pause", json!({}));
    assert!(paused.contains(&format!("phases.c:{}", built.line("done"))), "{paused}");
    let refused = client
        .rpc("tools/call", &json!({ "name": "debugger/last_write", "arguments": { "search": search } }));
    assert!(refused["error"]["data"]["details"].as_str().unwrap().contains("was given up"), "{refused}");
    // Who waits is told that it is over, and the result is kept.
    let running = data(&mut client, "debugger/last_write", question);
    assert_eq!(running["state"], json!("running"), "{running}");
    let search = running["search"].as_u64().unwrap();
    let mut waited = client.call("debugger/wait", json!({ "timeout_ms": 55_000 }));
    while waited.starts_with("Running") {
        waited = client.call("debugger/wait", json!({ "timeout_ms": 55_000 }));
    }
    assert!(waited.contains(&format!("search {search} is over")), "{waited}");
    let found = client.call("debugger/last_write", json!({ "search": search }));
    assert!(found.starts_with("Last write to `old`: main at "), "{found}");
    assert!(found.contains(&format!("phases.c:{}\n", built.line("old"))), "{found}");
    let after = data(&mut client, "debugger/status", json!({}));
    assert_eq!(after["moment"], here["moment"], "asking does not move");
}

#[test]
fn after_its_end_a_program_that_was_recorded_in_part_is_not_said_to_have_written_nothing() {
    let mut client = Client::new();
    client.launch(&Fixture::c("gap"), &[]);
    let exited = client.call("debugger/continue", json!({}));
    assert!(exited.contains("the recording ends at moment"), "{exited}");
    let call = json!({ "name": "debugger/last_write", "arguments": { "expression": "shared" } });
    let refused = client.rpc("tools/call", &call);
    assert_eq!(refused["error"]["code"], json!(-32007), "{refused}");
    assert!(
        refused["error"]["data"]["details"].as_str().unwrap().contains("restricts the system calls"),
        "{refused}"
    );
    let there = data(&mut client, "debugger/goto", json!({ "percent": 100 }));
    assert_eq!(there["in_past"], json!(true), "{there}");
}

#[test]
fn a_step_over_execve_is_one_step_there_and_back() {
    let mut client = Client::new();
    client.call("debugger/launch", json!({ "program": "/bin/sh", "args": ["-c", "exec /bin/true"] }));
    client.call("debugger/set_breakpoint", json!({ "function": "execve" }));
    client.call("debugger/continue", json!({ "timeout_ms": 20_000 }));
    let mut step = |tool: &str, count: u32| {
        let arguments = json!({ "granularity": "instruction", "count": count, "timeout_ms": 20_000 });
        let stop = data(&mut client, tool, arguments);
        (stop["location"]["address"].clone(), stop["instruction"].clone())
    };
    let mut before = step("debugger/step_forward", 1);
    while before.1 != "syscall" {
        before = step("debugger/step_forward", 1);
    }
    let places: Vec<_> = (0..4).map(|_| step("debugger/step_forward", 1)).collect();
    assert_eq!(places[0].1, "mov rdi, rsp", "the first of the dynamic linker: {places:?}");
    assert_eq!(step("debugger/step_backward", 4), before);
    assert_eq!(step("debugger/step_forward", 1), places[0]);
    assert_eq!(step("debugger/step_forward", 3), places[3]);
    assert_eq!(step("debugger/step_backward", 3), places[0]);
    assert_eq!(step("debugger/step_backward", 1), before);
    assert_eq!(step("debugger/step_forward", 4), places[3]);
}
