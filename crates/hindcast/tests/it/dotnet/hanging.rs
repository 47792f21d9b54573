//! Programs that do not go on: one autopsy says which thread waits for what, and who has it.

use hindcast_fixtures::dotnet::{self, DotnetProgram, Runtime};
use serde_json::{Value, json};

use super::{client, data, launch, on_both, text};
use crate::knowledge::{Client, until};

/// The text and the data of the autopsy of a program that hangs, and who is asked further.
fn autopsy_of(
    runtime: &Runtime,
    program: &DotnetProgram,
    way: &str,
    is_there: impl Fn(&str) -> bool,
) -> (String, Value, Client) {
    let mut client = client(runtime);
    launch(&mut client, program, &[way]);
    let mut said = String::new();
    // The threads wait a little later than the program says so.
    until("every thread waits", || {
        data(&mut client, "continue", json!({ "timeout_ms": 200 }));
        let paused = data(&mut client, "pause", json!({}));
        assert_eq!(paused["next"], json!(["debugger/autopsy"]), "{paused}");
        said = text(&mut client, "autopsy", json!({}));
        is_there(&said)
    });
    assert!(said.len() < 2000, "{said}");
    let found = data(&mut client, "autopsy", json!({}));
    (said, found, client)
}

/// The thread of a name.
fn thread<'a>(found: &'a Value, name: &str) -> &'a Value {
    let threads = found["hang"]["threads"].as_array().unwrap();
    threads.iter().find(|thread| thread["name"] == name).unwrap_or_else(|| panic!("no {name} in {found}"))
}

#[test]
fn a_deadlock_is_named_with_the_lines_where_each_thread_wants_the_others_lock() {
    on_both(|runtime| {
        let program = dotnet::program("Threads");
        let is_there =
            |said: &str| said.starts_with("deadlock: ") && said.contains("the end of another thread");
        let (said, found, mut client) = autopsy_of(runtime, &program, "deadlock", is_there);
        let (left, right) = (thread(&found, "left"), thread(&found, "right"));
        let ids = (&left["thread_id"], &right["thread_id"]);
        let (one, other) = (format!("thread {} (left)", ids.0), format!("thread {} (right)", ids.1));
        let summary = format!("deadlock: {one} waits for {other}, which waits for {one}");
        assert_eq!(said.lines().next().unwrap(), summary);
        assert_eq!(found["hang"]["deadlocks"], json!([[ids.0, ids.1]]), "{found}");
        for (waiting, holder) in [(left, right), (right, left)] {
            let wait = &waiting["wait"];
            assert_eq!((&wait["kind"], &wait["object"]), (&json!("lock"), &json!("object")), "{found}");
            assert_eq!(wait["held_by"], holder["thread_id"], "{found}");
            assert_eq!(waiting["location"]["line"], program.line("deadlock"), "{found}");
            assert!(wait["timeout_ms"].is_null(), "{found}");
        }
        let addresses = [left, right].map(|thread| thread["wait"]["object_address"].as_str().unwrap());
        assert_ne!(addresses[0], addresses[1], "these are two locks");
        assert!(said.contains("waits for the lock on a `object`, which thread"), "{said}");
        assert!(said.contains("\n      lock (other)"), "the line itself: {said}");
        // The main thread waits for one of them, and is not part of it.
        assert_eq!(thread(&found, "Main Thread")["wait"]["kind"], "thread", "{found}");
        let threads = text(&mut client, "get_threads", json!({}));
        assert!(threads.contains(&format!("which {other} holds")), "{threads}");
    });
}

#[test]
fn a_lock_that_is_kept_is_told_with_its_keeper_and_where_that_is() {
    on_both(|runtime| {
        let program = dotnet::program("Hangs");
        let (said, found, _) = autopsy_of(runtime, &program, "held", |said| said.contains("(and 2 more"));
        let keeper = thread(&found, "keeper");
        let summary = format!(
            "no crash: thread 1 (Main Thread) waits for the lock on a `Ledger`, which thread {} (keeper) holds \
             (and 2 more threads wait)",
            keeper["thread_id"]
        );
        assert_eq!(said.lines().next().unwrap(), summary);
        assert!(found["hang"]["deadlocks"].is_null(), "{found}");
        for name in ["Main Thread", "second"] {
            let waiting = thread(&found, name);
            assert_eq!(waiting["wait"]["held_by"], keeper["thread_id"], "{found}");
            assert_eq!(waiting["location"]["line"], program.line("wants"), "{found}");
        }
        let locks = ["Main Thread", "second"].map(|name| &thread(&found, name)["wait"]["object_address"]);
        assert_eq!(locks[0], locks[1], "both want the same");
        assert_eq!(keeper["location"]["line"], program.line("keeps"), "{found}");
        assert_eq!(keeper["wait"]["object"], "ManualResetEventSlim", "{found}");
    });
}

#[test]
fn a_wait_for_a_pulse_is_told_with_its_object() {
    on_both(|runtime| {
        let program = dotnet::program("Hangs");
        let (said, found, _) = autopsy_of(runtime, &program, "pulse", |said| said.contains("waits for"));
        let summary = "no crash: thread 1 (Main Thread) waits for a `Monitor.Pulse` on a `Ledger`";
        assert_eq!(said.lines().next().unwrap(), summary);
        assert_eq!(thread(&found, "Main Thread")["location"]["line"], program.line("pulse"), "{found}");
    });
}

#[test]
fn a_task_is_followed_through_the_methods_that_await_to_what_nobody_completes() {
    on_both(|runtime| {
        let program = dotnet::program("Hangs");
        let method =
            |name: &str, mark: &str| format!("Fixtures.Hangs.{name} at Hangs.cs:{}", program.line(mark));
        let end = format!(
            "{}, which awaits {}, which awaits a `Task<int>` that is not completed",
            method("Outer", "outer"),
            method("Inner", "inner")
        );
        let (said, found, _) = autopsy_of(runtime, &program, "task", |said| said.contains("which awaits"));
        let summary = format!("no crash: thread 1 (Main Thread) waits for the task of {end}");
        assert_eq!(said.lines().next().unwrap(), summary);
        let waiting = thread(&found, "Main Thread");
        assert_eq!(waiting["location"]["line"], program.line("blocked"), "{found}");
        assert_eq!(waiting["wait"]["awaits"].as_array().unwrap().len(), 2, "{found}");

        // Of an async `Main` nothing is on any stack.
        let (said, _, _) = autopsy_of(runtime, &program, "async", |said| said.contains("which awaits"));
        let main = method("Main", "main");
        let summary =
            format!("no crash: thread 1 (Main Thread) waits for the task of {main}, which awaits {end}");
        assert_eq!(said.lines().next().unwrap(), summary);
    });
}

#[test]
fn threads_of_which_one_does_not_wait_for_ever_are_no_deadlock() {
    on_both(|runtime| {
        if runtime.version.starts_with('3') {
            // It tells of no lock that has a timeout.
            return;
        }
        let program = dotnet::program("Hangs");
        let is_there = |said: &str| said.contains("for 100000 ms at most") && said.contains("(keeper) holds");
        let (said, found, _) = autopsy_of(runtime, &program, "patient", is_there);
        assert!(said.starts_with("no crash: "), "{said}");
        assert!(found["hang"]["deadlocks"].is_null(), "{found}");
        let (waiting, keeper) = (thread(&found, "Main Thread"), thread(&found, "keeper"));
        assert_eq!(waiting["wait"]["held_by"], keeper["thread_id"], "{found}");
        assert_eq!(keeper["wait"]["held_by"], waiting["thread_id"], "{found}");
        assert_eq!(
            (&keeper["wait"]["kind"], &keeper["wait"]["timeout_ms"]),
            (&json!("lock"), &json!(100_000))
        );
        assert_eq!(keeper["location"]["line"], program.line("patient"), "{found}");
    });
}

#[test]
fn a_timeout_is_told_and_none_is_made_up() {
    on_both(|runtime| {
        let program = dotnet::program("Hangs");
        let (said, _, _) = autopsy_of(runtime, &program, "timed", |said| said.contains("waits for"));
        assert!(said.contains("a signal of a `ManualResetEventSlim`, for 123456 ms at most"), "{said}");
        let is_there = |said: &str| said.contains("ManualResetEventSlim");
        let (said, _, _) = autopsy_of(runtime, &program, "joined", is_there);
        assert!(!said.contains("at most"), "{said}");
    });
}

#[test]
fn a_long_chain_of_awaits_is_told_by_its_beginning_and_its_end() {
    on_both(|runtime| {
        let program = dotnet::program("Hangs");
        let (said, found, _) = autopsy_of(runtime, &program, "deep", |said| said.contains("which awaits"));
        let wait = &thread(&found, "Main Thread")["wait"];
        let lines: Vec<_> = wait["awaits"]
            .as_array()
            .unwrap()
            .iter()
            .map(|method| method["line"].as_u64().unwrap())
            .collect();
        let deep = u64::from(program.line("deep"));
        assert_eq!(lines, [[deep; 7].as_slice(), &[program.line("inner").into()]].concat(), "{found}");
        // Twenty times `deep`, once `deepest`, once `inner`.
        assert_eq!(wait["awaits_left_out"], 22 - 8, "{found}");
        assert!(said.contains("which awaits … (14 more) …, which awaits Fixtures.Hangs.Inner at"), "{said}");
    });
}

#[test]
fn a_thread_that_runs_a_task_does_not_wait_for_it() {
    on_both(|runtime| {
        let program = dotnet::program("Hangs");
        let (_, found, _) = autopsy_of(runtime, &program, "pool", |said| said.contains("(and 1 more"));
        let threads = found["hang"]["threads"].as_array().unwrap();
        let at = |mark: &str| {
            let line = program.line(mark);
            let thread = threads.iter().find(|thread| thread["location"]["line"] == line);
            &thread.unwrap_or_else(|| panic!("none at `{mark}` in {found}"))["wait"]
        };
        assert_eq!(at("pool")["kind"], "task", "{found}");
        assert_eq!(at("runs")["object"], "ManualResetEventSlim", "{found}");
    });
}

#[test]
fn the_lock_of_newer_runtimes_is_told_with_its_keeper() {
    on_both(|runtime| {
        if runtime.version.starts_with('3') {
            // There is none.
            return;
        }
        let program = dotnet::program("Hangs");
        let (said, found, _) = autopsy_of(runtime, &program, "lock", |said| said.contains("(keeper) holds"));
        assert!(said.contains("waits for the lock on a `Lock`, which thread"), "{said}");
        let (waiting, keeper) = (thread(&found, "Main Thread"), thread(&found, "keeper"));
        assert_eq!(waiting["wait"]["held_by"], keeper["thread_id"], "{found}");
        assert_eq!(waiting["location"]["line"], program.line("new_lock"), "{found}");
    });
}

#[test]
fn a_program_that_works_is_shown_with_its_variables_and_not_said_to_wait() {
    on_both(|runtime| {
        if runtime.version.starts_with('3') {
            // It stops threads only where they enter the runtime, which a loop that computes never does.
            return;
        }
        let program = dotnet::program("Hangs");
        let spins = |said: &str| said.contains("in `Fixtures.Hangs.Spin`");
        let (said, _, _) = autopsy_of(runtime, &program, "spin", spins);
        let summary =
            "no crash, and no thread is known to wait for another: it was paused, in `Fixtures.Hangs.Spin`";
        assert!(said.starts_with(summary), "{said}");
        assert!(said.contains("rounds: int = "), "{said}");
    });
}
