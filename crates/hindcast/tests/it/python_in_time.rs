//! Going back in a recorded Python program, with the built binary.

use hindcast_fixtures::{mark_in, source_of};
use serde_json::{Value, json};

use crate::debugger::Client;

/// A client whose recorded script has ended with a traceback.
fn failed() -> (Client, String) {
    let mut client = Client::new();
    let source = source_of("python/discount.py");
    let ended = client.call("debugger/launch", json!({ "program": source, "record": true }));
    (client, ended)
}

fn line(mark: &str) -> u32 {
    mark_in(&source_of("python/discount.py"), mark)
}

/// The moment that an answer names behind these words.
fn moment_behind(text: &str, words: &str) -> String {
    let (_, rest) = text.split_once(words).unwrap_or_else(|| panic!("no `{words}` in {text}"));
    rest.chars()
        .take_while(|letter| letter.is_ascii_alphanumeric() || matches!(letter, '+' | '.' | '/'))
        .collect()
}

#[test]
fn the_cause_of_a_traceback_is_found_in_four_calls() {
    let (mut client, ended) = failed();
    assert!(ended.contains("TypeError: unsupported operand type(s) for *"), "{ended}");
    let raised = moment_behind(&ended, "raised at moment ");
    let there = client.call("debugger/goto", json!({ "moment": raised }));
    assert!(there.contains(&format!("discount.py:{}", line("raise"))), "{there}");
    assert!(there.contains("return self.price * self.qty"), "{there}");
    let value = client.call("debugger/evaluate", json!({ "expression": "self.price" }));
    assert!(value.contains("None"), "{value}");
    let write = client.call("debugger/last_write", json!({ "expression": "self.price" }));
    assert!(write.contains(&format!("discount.py:{}", line("guilty"))), "{write}");
    assert!(write.contains("13.5"), "{write}");
}

#[test]
fn an_autopsy_of_a_traceback_has_the_locals_of_the_users_frames() {
    let (mut client, ended) = failed();
    let raised = moment_behind(&ended, "raised at moment ");
    client.call("debugger/goto", json!({ "moment": raised }));
    let autopsy = client.call("debugger/autopsy", json!({}));
    assert!(autopsy.starts_with("unhandled TypeError"), "{autopsy}");
    assert!(autopsy.contains("debugger/last_write with expression `self.price`"), "{autopsy}");
    assert!(autopsy.contains("self"), "{autopsy}");
    assert!(!autopsy.contains("Registers:"), "{autopsy}");
}

#[test]
fn what_would_run_code_is_refused_with_what_can_be_asked_instead() {
    let (mut client, ended) = failed();
    let raised = moment_behind(&ended, "raised at moment ");
    client.call("debugger/goto", json!({ "moment": raised }));
    let refused = client.rpc(
        "tools/call",
        &json!({ "name": "debugger/evaluate", "arguments": { "expression": "self.total()" } }),
    );
    let text = refused.to_string();
    assert!(text.contains("is not computed here"), "{text}");
}

#[test]
fn both_kinds_of_frames_can_be_asked_for() {
    let (mut client, ended) = failed();
    let raised = moment_behind(&ended, "raised at moment ");
    client.call("debugger/goto", json!({ "moment": raised }));
    let stack = |client: &mut Client, language: &str| -> Value {
        let answer = client.rpc(
            "tools/call",
            &json!({ "name": "debugger/get_stack_trace", "arguments": { "language": language } }),
        );
        answer["result"]["structuredContent"]["frames"].clone()
    };
    let python = stack(&mut client, "python");
    assert_eq!(python[0]["function"], "Order.total");
    let native = stack(&mut client, "native");
    assert!(native[0]["address"].is_string(), "{native}");
}
