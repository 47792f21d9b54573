//! `debugger/compare` with the built binary: two runs of one program, of which one does something else.

use hindcast_fixtures::{Built, Fixture};
use serde_json::{Value, json};

use crate::debugger::Client;

/// Two recordings to their ends, and their sessions. The first is the current one.
struct Pair {
    client: Client,
    built: Built,
    sessions: [String; 2],
}

fn pair(fixture: &Fixture, one: &[&str], other: &[&str]) -> Pair {
    let mut client = Client::new();
    let mut begin = |args: &[&str]| {
        let session = launch(&mut client, fixture, args);
        client.call("debugger/continue", json!({ "session_id": session }));
        session
    };
    let there = begin(other);
    let here = begin(one);
    Pair { client, built: fixture.build(), sessions: [here, there] }
}

/// Launches a program; its session.
fn launch(client: &mut Client, fixture: &Fixture, args: &[&str]) -> String {
    let arguments = json!({ "program": fixture.build().path, "args": args });
    let answer = client.rpc("tools/call", &json!({ "name": "debugger/launch", "arguments": arguments }));
    let id = answer["result"]["structuredContent"]["session_id"].as_str().map(str::to_owned);
    id.unwrap_or_else(|| panic!("{answer}"))
}

impl Pair {
    /// Text and content of an answer.
    fn compare(&mut self, after: Option<&Value>) -> (String, Value) {
        let mut arguments = json!({ "session_id": self.sessions[0], "other": self.sessions[1] });
        if let Some(after) = after {
            arguments["after"] = after.clone();
        }
        let mut answer = Value::Null;
        for _ in 0..10 {
            answer =
                self.client.rpc("tools/call", &json!({ "name": "debugger/compare", "arguments": arguments }));
            let content = &answer["result"]["structuredContent"];
            if content["state"] != "running" || content["search"].is_null() {
                break;
            }
            arguments = json!({ "session_id": self.sessions[0], "search": content["search"] });
        }
        let text = answer["result"]["content"][0]["text"].as_str().unwrap_or_else(|| panic!("{answer}"));
        assert!(text.len() < 2000, "{} bytes: {text}", text.len());
        (text.to_owned(), answer["result"]["structuredContent"].clone())
    }

    fn line(&self, mark: &str) -> u64 {
        u64::from(self.built.line(mark))
    }

    /// What an expression is at a moment of one of the two.
    fn value(&mut self, session: usize, moment: &Value, expression: &str) -> String {
        let id = self.sessions[session].clone();
        self.client.call("debugger/goto", json!({ "session_id": id, "moment": moment }));
        self.client.call("debugger/evaluate", json!({ "session_id": id, "expression": expression }))
    }
}

fn languages() -> [Fixture; 3] {
    [Fixture::c("ways"), Fixture::cpp("ways"), Fixture::rust("ways")]
}

#[test]
fn a_branch_that_differs_after_many_operations_is_told_with_what_led_there() {
    for fixture in languages() {
        let mut pair = pair(&fixture, &["late", "77777", "100000"], &["late", "200000", "100000"]);
        let (text, content) = pair.compare(None);
        let branch = &content["branch"];
        assert_eq!(branch["location"]["line"], pair.line("branch"), "{text}");
        assert_eq!(branch["here"]["location"]["line"], pair.line("taken"), "{text}");
        assert_eq!(branch["there"]["location"]["line"], pair.line("usual"), "{text}");
        let special = branch["values"]
            .as_array()
            .unwrap()
            .iter()
            .find(|value| value["name"].as_str().is_some_and(|name| name.ends_with("special")));
        let special = special.unwrap_or_else(|| panic!("{text}"));
        assert!(special["here"].as_str().unwrap().starts_with("77777"), "{text}");
        assert!(special["there"].as_str().unwrap().starts_with("200000"), "{text}");
        for (session, side) in ["here", "there"].into_iter().enumerate() {
            let moment = branch[side]["moment"].clone();
            let number = pair.value(session, &moment, "number");
            assert!(number.contains("= 77777"), "{number}");
        }
        // Behind it they do the same to the end.
        let (text, content) = pair.compare(Some(&content["after"]));
        assert!(text.starts_with("No difference") && content["branch"].is_null(), "{text}");
    }
}

#[test]
fn one_more_round_is_told_and_where_both_go_on() {
    for fixture in languages() {
        let mut pair = pair(&fixture, &["loop", "5"], &["loop", "6"]);
        let (text, content) = pair.compare(None);
        assert_eq!(content["branch"]["location"]["line"], pair.line("loop"), "{text}");
        assert_eq!(content["branch"]["there"]["location"]["line"], pair.line("body"), "{text}");
        let value = &content["value"];
        assert_eq!((&value["here"], &value["there"]), (&json!("5"), &json!("6")), "{text}");
        // In Rust, a closure of `main` returns it before.
        let function = value["function"].as_str().unwrap();
        assert!(value["parameter"] == "count" || function.ends_with("closure}}"), "{text}");
        assert_eq!(value["same_as"], "count", "{text}");
        let (text, content) = pair.compare(Some(&content["after"]));
        assert!(content["branch"].is_null(), "{text}");
    }
}

#[test]
fn a_value_that_differs_long_before_the_branch_is_told_with_its_moments() {
    for fixture in languages() {
        let mut pair = pair(&fixture, &["value", "100", "20000"], &["value", "1000000", "20000"]);
        let (text, content) = pair.compare(None);
        assert_eq!(content["branch"]["location"]["line"], pair.line("judged"), "{text}");
        let value = content["value"].clone();
        let function = value["function"].as_str().unwrap();
        let is_closure = function.ends_with("closure}}");
        assert!(is_closure || function.ends_with("set_limit"), "{text}");
        assert_eq!((&value["here"], &value["there"]), (&json!("100"), &json!("1000000")), "{text}");
        for (session, side) in ["here_moment", "there_moment"].into_iter().enumerate() {
            if is_closure {
                continue;
            }
            let shown = pair.value(session, &value[side], "value");
            assert!(shown.contains(["= 100", "= 1000000"][session]), "{shown}");
        }
    }
}

#[test]
fn equal_runs_have_no_difference_whatever_time_it_was() {
    for fixture in languages() {
        let mut pair = pair(&fixture, &["same", "1"], &["same", "1"]);
        let (text, content) = pair.compare(None);
        assert!(text.starts_with("No difference"), "{text}");
        assert!(content["branch"].is_null() && content["value"].is_null(), "{text}");
    }
}

#[test]
fn a_crash_against_an_exit_is_told_with_both_ends() {
    for fixture in [Fixture::c("ways"), Fixture::cpp("ways")] {
        let mut pair = pair(&fixture, &["crash", "0"], &["crash", "1"]);
        let (text, content) = pair.compare(None);
        assert!(text.contains("here got SIGSEGV; there exited with code 0"), "{text}");
        assert!(text.contains("value = 0 here, 1 there") || text.contains("`value`"), "{text}");
        // The next difference is the crash itself.
        let (text, content) = pair.compare(Some(&content["after"]));
        let branch = &content["branch"];
        assert_eq!(
            (&branch["here"]["ends"], branch["here"]["location"]["line"].as_u64()),
            (&json!(true), Some(pair.line("store"))),
            "{text}"
        );
        assert!(branch["there"]["ends"].is_null(), "{text}");
    }
}

#[test]
fn what_cannot_be_compared_is_refused_with_what_to_do() {
    let mut client = Client::new();
    let other = launch(&mut client, &Fixture::cpp("ways"), &[]);
    client.launch(&Fixture::c("ways"), &[]);
    let refused = client.refused("debugger/compare", json!({ "other": other }));
    assert!(refused.to_string().contains("different builds"), "{refused}");
    let refused = client.refused("debugger/compare", json!({}));
    assert!(refused.to_string().contains("`other`"), "{refused}");
    let refused = client.refused("debugger/compare", json!({ "other": "nobody" }));
    assert!(refused.to_string().contains("nobody"), "{refused}");
    let refused = client.refused("debugger/compare", json!({ "other": other, "after": "x" }));
    assert!(refused.to_string().contains("`after`"), "{refused}");
    let refused = client.refused("debugger/compare", json!({ "session_id": other, "other": other }));
    assert!(refused.to_string().contains("itself"), "{refused}");
}
