//! Two tenants never see each other.

use serde_json::{Value, json};

use super::{Person, crashed, overrun, text};
use crate::server::{Server, eventually};

#[test]
fn nothing_of_another_tenant_is_shown_or_moved() {
    let server = Server::start(&[]);
    let key = |owner: &str| server.unconfined_key(&["--owner", owner, "--tier", "enterprise"]);
    let (ada, eve) = (key("ada"), key("eve"));
    let session = crashed(&server, &ada, &overrun());
    server.call(&ada, "knowledge/add", json!({ "collection": "plums", "name": "n", "text": "tangerine" }));
    let ada = Person::new(&server, &ada);
    assert!(ada.page("/sessions").contains(&session));
    assert!(ada.page(&format!("/sessions/{session}")).contains("SIGSEGV"));
    assert!(ada.page("/knowledge").contains("plums"));
    assert!(ada.page("/knowledge/search?q=tangerine").contains("<mark>tangerine</mark>"));

    let eve = Person::new(&server, &eve);
    for path in ["/sessions", "/knowledge", "/operations", "/operations/audit", "/knowledge/search?q=plums"] {
        let page = eve.page(path);
        for secret in [session.as_str(), "overrun", "tangerine", ">ada<"] {
            assert!(!page.contains(secret), "{secret} in {path}: {page}");
        }
    }
    for path in
        [format!("/sessions/{session}"), "/knowledge/in/plums".to_owned(), "/operations/keys".to_owned()]
    {
        let reply = eve.get(&path);
        assert!([403, 404].contains(&reply.status), "{path}: {}", reply.status);
        assert!(!text(&reply).contains("print_statement"));
    }
    for (path, fields) in [
        (format!("/sessions/{session}/move"), "go=start"),
        (format!("/sessions/{session}/move"), "moment=start"),
        (format!("/sessions/{session}/breakpoint"), "file=overrun.c&line=13"),
        (format!("/sessions/{session}/end"), ""),
    ] {
        eve.post(&path, fields);
    }
    let page = ada.page(&format!("/sessions/{session}"));
    assert!(page.contains("SIGSEGV") && !page.contains("in the past"), "it stands where it stood");
    assert!(!page.contains("has-breakpoint"));
}

#[test]
fn a_key_that_only_looks_has_no_buttons_and_moves_nothing() {
    let server = Server::start(&[]);
    let owner = ["--owner", "ada", "--tier", "enterprise"];
    let key = server.unconfined_key(&owner);
    let session = crashed(&server, &key, &overrun());
    let looking =
        server.key(&[&owner[..], &["--scope", "debug:read", "--scope", "debug:unconfined"]].concat());
    let person = Person::new(&server, &looking);
    let path = format!("/sessions/{session}");
    let page = person.page(&path);
    assert!(page.contains("print_statement"), "it looks: {page}");
    assert!(!page.contains("name=\"go\"") && !page.contains("id=\"goto\""), "{page}");
    person.post(&format!("{path}/move"), "go=start");
    let page = person.page(&path);
    assert!(page.contains("needs the scope") && !page.contains("in the past"), "{page}");
}

#[test]
fn looking_on_does_not_disturb_whoever_debugs() {
    let server = Server::start(&[]);
    let key = server.unlimited_key();
    let call = |tool: &str, arguments: Value| {
        server.call(&key, tool, arguments)["result"]["structuredContent"].clone()
    };
    let first = call("debugger/launch", json!({ "program": overrun().path }))["session_id"].clone();
    let begun = call("debugger/continue", json!({ "wait": false }));
    let second = call("debugger/launch", json!({ "program": overrun().path }))["session_id"].clone();
    let person = Person::new(&server, &key);
    let path = format!("/sessions/{}", first.as_str().unwrap());
    eventually("what it prints is shown", || person.page(&path).contains("the week is settled"));

    let status = call("debugger/status", json!({}));
    let current = status["sessions"].as_array().unwrap().last().unwrap()["session_id"].clone();
    assert_eq!(current, second, "the current session stays: {status}");
    let stopped = call("debugger/wait", json!({ "session_id": first }));
    let told = format!("{begun}{stopped}");
    assert!(told.contains("the week is settled"), "its output is still new to the agent: {told}");
    let audit = call("debugger/get_comprehensive_audit", json!({ "limit": 200 }));
    assert!(audit.to_string().contains("page/look"), "and that somebody looked is written down");
}
