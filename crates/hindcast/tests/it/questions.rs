//! `debugger/history`, `debugger/when`, `debugger/trace_calls` and `debugger/what_if` with the built binary.

use hindcast_fixtures::{Built, Fixture};
use serde_json::json;

use crate::debugger::Client;

/// The store of `ledger.c`, right before it prints.
fn store() -> (Client, Built) {
    let fixture = Fixture::c("ledger");
    let built = fixture.build();
    let mut client = Client::new();
    client.launch(&fixture, &[]);
    client.call("debugger/run_to", json!({ "file": "ledger.c", "line": built.line("printed") }));
    (client, built)
}

/// Its books went wrong a thousand orders ago: four short answers lead to the statement.
#[test]
fn from_a_wrong_sum_to_the_statement_that_broke_it_in_few_short_answers() {
    let (mut client, built) = store();
    let mut read = 0;
    let mut ask = |client: &mut Client, tool: &str, arguments| {
        let answer = client.call(tool, arguments);
        read += answer.len();
        answer
    };
    let sums = ask(&mut client, "debugger/evaluate", json!({ "expression": "used == sum(held)" }));
    assert!(sums.contains("false"), "{sums}");
    let when = ask(&mut client, "debugger/when", json!({ "condition": "used != sum(held)", "at": "serve" }));
    assert!(when.contains("became true") && when.contains("sum(held): 2080 → 2062"), "{when}");
    let moment = when.split("moment ").nth(1).and_then(|rest| rest.split(',').next()).unwrap().to_owned();
    let until = json!({ "condition": "used != sum(held)", "until": moment, "which": "last" });
    let exact = ask(&mut client, "debugger/when", until);
    assert!(exact.contains("became true"), "{exact}");
    let calls = json!({ "functions": "lose", "until": moment });
    let lost = ask(&mut client, "debugger/trace_calls", calls);
    assert!(lost.contains("lose(slot=") && lost.starts_with("1 calls"), "{lost}");
    assert!(read < 6000, "{read} bytes");
    assert!(built.line("lose") > 0);
}

#[test]
fn a_history_is_told_by_statements_and_in_pages() {
    let (mut client, built) = store();
    let told = client.call("debugger/history", json!({ "expression": "used", "limit": 2 }));
    assert!(told.starts_with("3000 writes to `used`, from 0 (0x0) to 3076"), "{told}");
    let line = format!("ledger.c:{}", built.line("take"));
    assert!(told.contains("2013 ×, +6038 in all") && told.contains(&line), "{told}");
    assert!(told.ends_with("… 2998 more: `offset` 2"), "{told}");
    let refused = client.refused("debugger/history", json!({ "expression": "held" }));
    assert!(refused.to_string().contains("a field or an element"), "{refused}");
    let refused = client.refused("debugger/history", json!({}));
    assert!(refused.to_string().contains("search"), "{refused}");
    let none = client.call("debugger/history", json!({ "expression": "held[39]", "until": "start" }));
    assert!(none.starts_with("`held[39]` was not written since moment "), "{none}");
}

#[test]
fn calls_are_told_as_a_tree_in_which_repetitions_are_one_line() {
    let (mut client, _) = store();
    let told = client
        .call("debugger/trace_calls", json!({ "functions": "/^(serve|take|give|lose)$/", "limit": 30 }));
    assert!(told.starts_with("6001 calls of 4 functions"), "{told}");
    assert!(told.contains("\nserve(number=0)") && told.contains("\n  take(slot=0, amount=1)"), "{told}");
    let locals = client.call("debugger/trace_calls", json!({ "functions": "local" }));
    assert!(locals.contains("local(rounds=10) … (rounds=100) ×2 = 4950"), "{locals}");
    let refused = client.refused("debugger/trace_calls", json!({ "functions": "nothing_like_this" }));
    assert!(refused.to_string().contains("nothing_like_this"), "{refused}");
}

#[test]
fn what_an_answer_shows_has_no_secrets() {
    let fixture = Fixture::c("many");
    let mut client = Client::new();
    client.launch(&fixture, &[]);
    client.call("debugger/run_to", json!({ "file": "many.c", "line": fixture.build().line("counted") }));
    let told = client.call("debugger/history", json!({ "expression": "builds[0].job[0].password" }));
    let when = client.call("debugger/when", json!({ "condition": "builds[0].job[0].password != 0" }));
    for said in [&told, &when] {
        assert!(!said.contains("hunter2"), "{said}");
    }
}

#[test]
fn a_fix_is_tried_before_it_is_written() {
    let (mut client, built) = store();
    client.call("debugger/set_breakpoint", json!({ "function": "lose" }));
    let lose = client.call("debugger/reverse_continue", json!({}));
    assert!(lose.contains("lose"), "{lose}");
    let tried = json!({ "returns": "", "until": format!("ledger.c:{}", built.line("printed")), "show": ["broken", "used"] });
    let told = client.call("debugger/what_if", tried);
    assert!(told.contains("with the change: came to ledger.c:"), "{told}");
    let values: Vec<_> = told.lines().filter(|line| line.starts_with("  broken = ")).collect();
    assert_eq!(values, ["  broken = 0", "  broken = 2000"], "{told}");
    let refused = client.refused("debugger/what_if", json!({}));
    assert!(refused.to_string().contains("no change is named"), "{refused}");
}

#[test]
fn a_running_answer_tells_how_many_hits_there_were_by_now() {
    let mut client = Client::new();
    let passes = Fixture::c("passes");
    client.launch(&passes, &[]);
    // A variable of a thread is looked at pass by pass.
    let line = passes.build().line("pass");
    client.call(
        "debugger/set_breakpoint",
        json!({ "file": "passes.c", "line": line, "count_only": true, "condition": "own % 100 == 1" }),
    );
    assert!(client.call("debugger/continue", json!({})).contains("breakpoint 1: 50 hits"));
    client.call("debugger/goto", json!({ "moment": "start" }));
    let running = client.call("debugger/continue", json!({ "timeout_ms": 1000 }));
    if running.starts_with("Running") {
        assert!(!running.contains(": 0 hits") && !running.contains(": 50 hits"), "{running}");
    }
    let ended = client.call("debugger/wait", json!({ "until": "stopped", "timeout_ms": 50_000 }));
    assert!(ended.contains("breakpoint 1: 50 hits"), "{ended}");
}
