//! Native programs that do not go on: one autopsy says which thread waits for what, and who has it.

use hindcast_fixtures::Fixture;
use serde_json::{Value, json};

use crate::{debugger::Client, knowledge::until};

fn c() -> Fixture {
    Fixture::c("hangs").flags(["-pthread"])
}

fn cpp() -> Fixture {
    Fixture::cpp("hangs").flags(["-pthread"])
}

fn rust() -> Fixture {
    Fixture::rust("hangs")
}

/// The text and the data of an autopsy.
struct Found {
    text: String,
    data: Value,
}

impl Found {
    fn summary(&self) -> &str {
        self.text.lines().next().expect("there is a summary")
    }

    /// The thread of a name.
    fn thread(&self, name: &str) -> &Value {
        let threads = self.data["hang"]["threads"].as_array().expect("there are threads");
        let found = threads.iter().find(|thread| thread["name"] == name);
        found.unwrap_or_else(|| panic!("no {name} in {}", self.data))
    }
}

/// Looks at the autopsy of a program that hangs, unrecorded and recorded, once its summary begins so.
fn both_ways(fixture: &Fixture, way: &str, beginning: &str, look: impl Fn(&Found, &mut Client, bool)) {
    for record in [false, true] {
        let mut client = Client::new();
        let program = fixture.build().path;
        client.call("debugger/launch", json!({ "program": program, "args": [way], "record": record }));
        let mut text = String::new();
        // The threads wait a little later than they begin.
        until("every thread waits", || {
            client.call("debugger/continue", json!({ "timeout_ms": 100 }));
            client.call("debugger/pause", json!({}));
            text = client.call("debugger/autopsy", json!({}));
            text.starts_with(beginning)
        });
        assert!(text.len() < 2000, "{text}");
        let answer = client.rpc("tools/call", &json!({ "name": "debugger/autopsy", "arguments": {} }));
        let data = answer["result"]["structuredContent"].clone();
        look(&Found { text, data }, &mut client, record);
    }
}

/// The only thread of a program is said to wait, at the line with the mark of that name.
#[track_caller]
fn check_alone(fixture: &Fixture, way: &str, before: &str, after: &str) {
    both_ways(fixture, way, before, |found, _, _| {
        let thread = found.thread("hangs");
        let summary = format!("{before}thread {} (hangs) {after}", thread["thread_id"]);
        assert_eq!(found.summary(), summary, "{}", found.text);
        assert_eq!(thread["location"]["line"], fixture.build().line(way), "{}", found.data);
        assert!(!found.text.contains("Stack trace:") && !found.text.contains("Code:"), "{}", found.text);
        assert!(found.data["hang"]["deadlocks"].is_null() != before.starts_with("deadlock"));
    });
}

#[test]
fn a_deadlock_is_named_with_the_lines_where_each_thread_wants_the_others_lock() {
    let built = c().build();
    both_ways(&c(), "opposite", "deadlock: ", |found, client, record| {
        let (left, right) = (found.thread("left"), found.thread("right"));
        let (one, other) = (
            format!("thread {} (left)", left["thread_id"]),
            format!("thread {} (right)", right["thread_id"]),
        );
        assert_eq!(found.summary(), format!("deadlock: {one} waits for {other}, which waits for {one}"));
        let circle = json!([[left["thread_id"], right["thread_id"]]]);
        assert_eq!(found.data["hang"]["deadlocks"], circle, "{}", found.data);
        for (waiting, holder, mark, lock) in
            [(left, right, "left", "second"), (right, left, "right", "first")]
        {
            let wait = &waiting["wait"];
            let (kind, name) = (&wait["kind"], &wait["name"]);
            assert_eq!((kind, name), (&json!("lock"), &json!(lock)), "{}", found.data);
            assert_eq!(wait["held_by"], holder["thread_id"], "{}", found.data);
            assert_eq!(waiting["location"]["line"], built.line(mark), "{}", found.data);
        }
        let place = format!("left at hangs.c:{}\n      pthread_mutex_lock(&second);", built.line("left"));
        assert!(found.text.contains(&place), "{}", found.text);
        assert!(found.text.contains(&format!("waits for the lock `second`, which {other} holds")));
        assert!(found.text.contains(&format!("waits for the end of {one}")), "{}", found.text);
        let threads = client.call("debugger/get_threads", json!({}));
        assert!(threads.contains(&format!("waits for the lock `first`, which {one} holds")), "{threads}");
        // The past knows where the lock was taken.
        let next = format!(
            "next: debugger/last_write with address {}, size 4: where {other} took the lock",
            left["wait"]["holder_address"].as_str().expect("it has an address")
        );
        assert_eq!(found.text.contains(&next), record, "{}", found.text);
        if record {
            let question = json!({ "address": left["wait"]["holder_address"], "size": 4 });
            let taken = client.call("debugger/last_write", question);
            assert!(taken.contains(&format!("right at hangs.c:{}", built.line("takes"))), "{taken}");
        }
    });
}

#[test]
fn a_deadlock_of_cpp_is_named_and_one_of_rust_is_known_to_last() {
    both_ways(&cpp(), "opposite", "deadlock: ", |found, _, _| {
        let line = cpp().build().line("opposite");
        for (waiting, holder) in [("left", "right"), ("right", "left")] {
            let (waiting, holder) = (found.thread(waiting), found.thread(holder));
            assert_eq!(waiting["wait"]["held_by"], holder["thread_id"], "{}", found.data);
            assert_eq!(waiting["location"]["line"], line, "{}", found.data);
        }
    });
    both_ways(&rust(), "opposite", "stuck for ever: ", |found, _, _| {
        let left = &found.thread("left")["thread_id"];
        let main = &found.thread("hangs")["thread_id"];
        let summary = format!(
            "stuck for ever: thread {main} (hangs) waits for the end of thread {left} (left) (and 2 more threads wait), \
             and no thread is left that could end that"
        );
        assert_eq!(found.summary(), summary);
        assert_eq!(found.data["hang"]["stuck"], true, "{}", found.data);
        let lock = "left: waits for the lock `hangs::SECOND`, which does not say who holds it";
        assert!(found.text.contains(lock), "{}", found.text);
    });
}

#[test]
fn a_thread_that_locks_twice_is_a_deadlock_with_itself() {
    both_ways(&c(), "self", "deadlock: ", |found, _, _| {
        let thread = found.thread("hangs");
        assert_eq!(
            found.summary(),
            format!("deadlock: thread {} (hangs) waits for itself", thread["thread_id"])
        );
        assert!(found.text.contains("the lock `first`, which the same thread holds"), "{}", found.text);
        assert_eq!(thread["location"]["line"], c().build().line("self"), "{}", found.data);
    });
}

#[test]
fn a_signal_that_nobody_can_send_is_told_as_such() {
    let alone = ", and there is no other thread";
    let before = "stuck for ever: ";
    let named = format!("waits for a signal of the condition variable `ready`{alone}");
    check_alone(&c(), "condition", before, &named);
    let unnamed = format!("waits for a signal of a condition variable{alone}");
    check_alone(&cpp(), "condition", before, &unnamed);
    check_alone(&rust(), "condition", before, &unnamed);
    let channel = format!("waits for another thread at the other end of a channel{alone}");
    check_alone(&rust(), "receives", before, &channel);
    both_ways(&c(), "joined", before, |found, _, _| {
        let (main, meets) = (found.thread("hangs"), found.thread("meets"));
        let summary = format!(
            "stuck for ever: thread {} (hangs) waits for the end of thread {} (meets) (and 1 more thread waits), and no \
             thread is left that could end that",
            main["thread_id"], meets["thread_id"]
        );
        assert_eq!(found.summary(), summary);
        assert_eq!(meets["location"]["line"], c().build().line("meets"), "{}", found.data);
    });
}

#[test]
fn input_and_time_are_told_and_no_thread_is_said_to_be_stuck() {
    check_alone(&c(), "reads", "no crash: ", "waits for descriptor 3 (a pipe), in `read`");
    check_alone(&c(), "events", "no crash: ", "waits for descriptor 4 (a pipe), in `epoll_wait`");
    check_alone(&c(), "sleeps", "no crash: ", "waits for 1000000005 ms to pass");
    check_alone(&c(), "timed", "no crash: ", "waits for a signal of the condition variable `ready`");
}
