//! Bugs that show long after they happened: each is led back to its statement by at most six calls and six kilobytes of answers,
//! without a look at the source beyond what the answers show.

use hindcast_fixtures::{Built, Fixture};
use serde_json::{Value, json};

use crate::debugger::Client;

const MOST_CALLS: usize = 6;
const MOST_BYTES: usize = 6000;

/// A search for the cause of one failure.
struct Hunt {
    client: Client,
    built: Built,
    calls: usize,
    read: usize,
}

impl Hunt {
    /// Runs the program until it fails, or for a while.
    fn begin(fixture: &Fixture) -> (Self, String) {
        let built = fixture.build();
        let program = built.path.clone();
        let mut hunt = Self { client: Client::new(), built, calls: 0, read: 0 };
        hunt.ask("debugger/launch", json!({ "program": program }));
        let seen = hunt.ask("debugger/continue", json!({ "timeout_ms": 3000 }));
        (hunt, seen)
    }

    /// A search that takes long on a busy machine is one call all the same.
    fn ask(&mut self, tool: &str, arguments: Value) -> String {
        let waits = ["debugger/when", "debugger/history", "debugger/last_write", "debugger/trace_calls"];
        let in_short = |mut arguments: Value| {
            if waits.contains(&tool) {
                arguments["timeout_ms"] = 10_000.into();
            }
            arguments
        };
        let mut answer = self.client.call(tool, in_short(arguments));
        while answer.starts_with("Still looking") {
            let number = answer.split("(search ").nth(1).and_then(|rest| rest.split(')').next()).unwrap();
            let number: u64 = number.parse().unwrap();
            answer = self.client.call(tool, in_short(json!({ "search": number })));
        }
        self.calls += 1;
        self.read += answer.len();
        answer
    }

    /// The answer names the statement with this mark.
    fn names(&self, answer: &str, mark: &str) {
        let file = self.built.source.file_name().unwrap().to_string_lossy();
        let place = format!("{file}:{}", self.built.line(mark));
        let is_named =
            answer.split(&place).skip(1).any(|rest| !rest.starts_with(|next: char| next.is_ascii_digit()));
        assert!(is_named, "{place} is not in\n{answer}");
    }

    fn end(self) {
        assert!(self.calls <= MOST_CALLS, "{} calls", self.calls);
        assert!(self.read <= MOST_BYTES, "{} bytes", self.read);
    }
}

/// The word behind another one.
fn after<'a>(answer: &'a str, word: &str) -> &'a str {
    let rest = answer.split(word).nth(1).unwrap_or_else(|| panic!("no {word} in\n{answer}"));
    rest.split([' ', ',', ':', '\n']).next().unwrap()
}

#[test]
fn an_index_that_compaction_left_behind() {
    let (mut hunt, failed) = Hunt::begin(&Fixture::c("bugs/compaction"));
    hunt.names(&failed, "failed");
    assert!(failed.contains("id: int = 313"), "{failed}");
    let when = json!({ "condition": "slab[position[313]].id != 313", "which": "last" });
    let moved = hunt.ask("debugger/when", when);
    hunt.names(&moved, "moved");
    hunt.end();
}

#[test]
fn a_store_that_the_collector_was_not_told_of() {
    let (mut hunt, failed) = Hunt::begin(&Fixture::c("bugs/barrier"));
    assert!(failed.contains("object 63 has the text of"), "{failed}");
    let given = hunt.ask("debugger/last_write", json!({ "expression": "owners[index]->first->value" }));
    hunt.names(&given, "reused");
    let pointed = hunt.ask("debugger/last_write", json!({ "expression": "owners[index]->first" }));
    hunt.names(&pointed, "unremembered");
    let moment = after(&pointed, "at moment ").to_owned();
    let freed = json!({ "condition": "owners[63]->first->kind == FREE", "since": moment });
    let freed = hunt.ask("debugger/when", freed);
    hunt.names(&freed, "swept");
    hunt.end();
}

#[test]
fn a_signal_that_woke_the_wrong_thread() {
    let (mut hunt, running) = Hunt::begin(&Fixture::c("bugs/wakeup").flags(["-pthread"]));
    assert!(running.contains("Running"), "{running}");
    hunt.ask("debugger/pause", json!({}));
    let stuck = hunt.ask("debugger/autopsy", json!({}));
    hunt.names(&stuck, "fetcher_waits");
    hunt.names(&stuck, "bringer_waits");
    // There is a thing to fetch, and the one who fetches waits: who came after it was brought?
    let brought = hunt.ask("debugger/last_write", json!({ "expression": "things" }));
    hunt.names(&brought, "brought");
    let fetcher = stuck.split("\n      fetch at").next().unwrap().rsplit('\n').next().unwrap();
    let fetcher = fetcher.split(' ').next().unwrap().to_owned();
    let since = after(&brought, "at moment ").to_owned();
    let turns = hunt.ask("debugger/timeline", json!({ "kinds": ["switch"], "since": since }));
    assert!(turns.contains("thread") && !turns.contains(&fetcher), "{fetcher} in\n{turns}");
    hunt.end();
}

#[test]
fn a_buffer_that_is_freed_by_two() {
    let (mut hunt, failed) = Hunt::begin(&Fixture::c("bugs/twice"));
    hunt.names(&failed, "second_free");
    let allocated = hunt.ask("debugger/last_write", json!({ "expression": "job->buffer" }));
    hunt.names(&allocated, "allocated");
    let cancelled = hunt.ask("debugger/last_write", json!({ "expression": "job->cancelled" }));
    hunt.names(&cancelled, "cancelled");
    // If it forgot the buffer there, the program would not fail.
    let moment = after(&cancelled, "at moment ").to_owned();
    let tried = hunt.ask("debugger/what_if", json!({ "moment": moment, "set": ["job->buffer = 0"] }));
    assert!(tried.contains("with the change: exited with code 0"), "{tried}");
    hunt.end();
}

#[test]
fn a_key_that_changed_while_it_was_in_a_set() {
    let (mut hunt, failed) = Hunt::begin(&Fixture::cpp("bugs/deadlines"));
    hunt.names(&failed, "failed");
    let written = hunt.ask("debugger/last_write", json!({ "expression": "order->deadline" }));
    hunt.names(&written, "postponed");
    hunt.end();
}

#[test]
fn cents_that_are_lost_by_rounding() {
    let (mut hunt, failed) = Hunt::begin(&Fixture::cpp("bugs/rounding"));
    hunt.names(&failed, "failed");
    let invariant = "bank.fees + sum(bank.accounts) + bank.pending == 200000000";
    let when = json!({ "condition": invariant, "at": "settle", "becomes": "false" });
    let first = hunt.ask("debugger/when", when);
    assert!(first.contains("became false"), "{first}");
    let pending = hunt.ask("debugger/history", json!({ "expression": "bank.pending", "limit": 0 }));
    hunt.names(&pending, "forgotten");
    hunt.end();
}

#[test]
fn a_pointer_into_a_vector_that_grew() {
    let (mut hunt, failed) = Hunt::begin(&Fixture::cpp("bugs/dangling"));
    hunt.names(&failed, "failed");
    let when =
        json!({ "condition": "sum(accounts_[*].balance) != paid_", "at": "Bank::pay", "monotone": true });
    let first = hunt.ask("debugger/when", when);
    assert!(first.contains("became true"), "{first}");
    let block = hunt.ask("debugger/history", json!({ "expression": "favourite_->owner", "limit": 1 }));
    assert!(block.contains("freed at"), "{block}");
    hunt.names(&block, "grown");
    hunt.end();
}

#[test]
fn a_transition_that_must_not_be() {
    let (mut hunt, failed) = Hunt::begin(&Fixture::cpp("bugs/states"));
    hunt.names(&failed, "failed");
    let wrong = json!({ "in": "connections", "where": "state == State::open && descriptor < 0", "show": ["state"], "limit": 1 });
    let wrong = hunt.ask("debugger/find", wrong);
    let one = after(&wrong, "\n").to_owned();
    let written = hunt.ask("debugger/last_write", json!({ "expression": format!("{one}.state") }));
    hunt.names(&written, "reopened");
    assert!(written.contains("closed") && written.contains("open"), "{written}");
    hunt.end();
}

#[test]
fn an_entry_in_use_that_a_cache_drops() {
    let (mut hunt, failed) = Hunt::begin(&Fixture::rust("bugs/lru"));
    hunt.names(&failed, "failed");
    let both = json!({ "condition": "cache.newest == cache.oldest", "which": "last" });
    let when = hunt.ask("debugger/when", both);
    assert!(when.contains("became true") && when.contains("to_front"), "{when}");
    let moment = after(&when, "at moment ").to_owned();
    hunt.ask("debugger/goto", json!({ "moment": moment }));
    let stack = hunt.ask("debugger/get_stack_trace", json!({ "max_frames": 4 }));
    hunt.names(&stack, "fronted");
    hunt.end();
}

#[test]
fn a_queue_that_forgets_a_part_when_it_grows() {
    let (mut hunt, failed) = Hunt::begin(&Fixture::rust("bugs/ring"));
    hunt.names(&failed, "failed");
    let came = hunt.ask("debugger/last_write", json!({ "expression": "value", "depth": 7 }));
    hunt.names(&came, "popped");
    let grown = hunt.ask("debugger/trace_calls", json!({ "functions": "ring::Ring::grow" }));
    assert!(grown.contains("grow"), "{grown}");
    hunt.end();
}

#[test]
fn a_number_that_does_not_fit() {
    let (mut hunt, failed) = Hunt::begin(&Fixture::rust("bugs/names"));
    hunt.names(&failed, "failed");
    let came = hunt.ask("debugger/last_write", json!({ "expression": "number", "depth": 9 }));
    hunt.names(&came, "cut");
    hunt.end();
}

#[test]
fn a_refund_that_is_made_twice() {
    let (mut hunt, failed) = Hunt::begin(&Fixture::rust("bugs/refunds"));
    hunt.names(&failed, "failed");
    let total = hunt.ask("debugger/history", json!({ "expression": "self.total", "limit": 0 }));
    hunt.names(&total, "taken");
    // Half of the sales were given back, and one more.
    assert!(total.contains("100000 ×") && total.contains("50001 ×"), "{total}");
    hunt.end();
}
