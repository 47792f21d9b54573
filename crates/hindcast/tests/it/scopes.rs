//! Every tool × every scope: a key may do what its scopes say, and nothing else.

use std::collections::BTreeMap;

use hindcast_core::identity::Scope;
use serde_json::{Value, json};

use crate::server::{Server, helpful_error};

/// The tools of the reference page, each with the scope that it says it needs.
fn documented_scopes() -> BTreeMap<String, Option<String>> {
    let page = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/reference/tools.md");
    let page = std::fs::read_to_string(page).unwrap();
    let sections = page.split("\n## `").skip(1);
    sections
        .map(|section| {
            let name = section.split('`').next().unwrap();
            let scope = section.split("Scope: ").nth(1).unwrap_or_else(|| panic!("{name} names no scope"));
            let scope = if scope.starts_with("none: any key") {
                None
            } else {
                Some(scope.split('`').nth(1).unwrap().to_owned())
            };
            (name.to_owned(), scope)
        })
        .collect()
}

/// The names of all tools, as the server lists them.
fn listed_tools(server: &Server, key: &str) -> Vec<String> {
    let listed = server.rpc(key, "tools/list", json!({})).json();
    let tools = listed["result"]["tools"].as_array().unwrap();
    tools.iter().map(|tool| tool["name"].as_str().unwrap().to_owned()).collect()
}

/// A key for each scope that has this one only.
fn key_of_each_scope(server: &Server) -> Vec<(&'static str, String)> {
    let key = |scope: Scope| server.key(&["--tier", "enterprise", "--scope", scope.name()]);
    Scope::ALL.into_iter().map(|scope| (scope.name(), key(scope))).collect()
}

/// Checks that the answer is no refusal, or the refusal that names the scope.
fn check(what: &str, answer: &Value, let_through: bool, needed: &str) {
    let refused = answer["error"]["code"] == -32003;
    assert_eq!(!refused, let_through, "{what}: {answer}");
    if refused {
        let error = helpful_error(answer);
        assert_eq!(error["message"], "Permission denied");
        assert_eq!(error["data"]["required_scope"], needed, "{what}: {answer}");
        assert!(error["data"]["hint"].as_str().unwrap().contains(needed), "{what}: {answer}");
    }
}

#[test]
fn a_key_with_one_scope_may_call_exactly_the_tools_that_need_it() {
    let server = Server::start(&[]);
    let keys = key_of_each_scope(&server);
    let documented = documented_scopes();
    let listed = listed_tools(&server, &keys[0].1);
    let mut sorted = listed.clone();
    sorted.sort();
    assert!(sorted.iter().eq(documented.keys()), "{sorted:?} are not the tools of docs/reference/tools.md");
    for (scope, key) in &keys {
        assert_eq!(listed_tools(&server, key), listed, "every key sees every tool");
        let mut connection = server.connect();
        for (tool, needed) in &documented {
            for spelling in [tool.clone(), tool.replace('/', "_")] {
                let call = json!({ "name": spelling, "arguments": {} });
                let answer = connection.rpc(key, "tools/call", call).json();
                let let_through = needed.as_ref().is_none_or(|needed| needed == scope);
                let needed = needed.as_deref().unwrap_or_default();
                check(&format!("{spelling} with {scope}"), &answer, let_through, needed);
            }
        }
    }
}

#[test]
fn a_key_without_the_scope_neither_sees_nor_reads_nor_watches_the_audit_trail() {
    let server = Server::start(&[]);
    for (scope, key) in key_of_each_scope(&server) {
        let may = scope == "audit:read";
        let listed = server.rpc(&key, "resources/list", json!({})).json();
        let uris = listed["result"]["resources"].as_array().unwrap();
        assert_eq!(uris.iter().any(|resource| resource["uri"] == "hindcast://audit"), may, "{listed}");
        let read = server.rpc(&key, "resources/read", json!({ "uri": "hindcast://audit" })).json();
        check(&format!("reading with {scope}"), &read, may, "audit:read");
        let watch = server.rpc(&key, "resources/subscribe", json!({ "uri": "hindcast://audit" })).json();
        check(&format!("watching with {scope}"), &watch, may, "audit:read");
    }
}

#[test]
fn a_default_key_has_every_scope_but_those_that_reach_others() {
    let server = Server::start(&[]);
    let made = server.new_key(&[]);
    let scopes: Vec<_> =
        made["scopes"].as_array().unwrap().iter().map(|scope| scope.as_str().unwrap()).collect();
    let reaches_others = |name: &&str| ["admin", "debug:unconfined"].contains(name);
    let expected: Vec<_> =
        Scope::ALL.into_iter().map(Scope::name).filter(|name| !reaches_others(name)).collect();
    assert_eq!(scopes, expected);
}
