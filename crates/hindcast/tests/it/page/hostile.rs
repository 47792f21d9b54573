//! Names, values, output and documents that would like to be a part of the page.

use hindcast_fixtures::Fixture;
use serde_json::json;

use super::{Person, text};
use crate::server::Server;

const SCRIPT: &str = "<script>alert(1)</script>";
const IMAGE: &str = "\"><img src=x onerror=alert(1)>";

fn is_harmless(page: &str) {
    for forbidden in ["<script>", "<img src=x", "onerror=alert(1)>", "<svg onload"] {
        assert!(!page.contains(forbidden), "{forbidden} in {page}");
    }
}

#[test]
fn what_a_program_is_called_holds_and_prints_is_only_text() {
    let server = Server::start(&[]);
    let key = server.unlimited_key();
    let folder = tempfile::tempdir().unwrap();
    let program = folder.path().join("a<b>&\"c'.svg onload=x");
    std::fs::copy(Fixture::c("echo").build().path, &program).unwrap();
    let launched = server.call(
        &key,
        "debugger/launch",
        json!({ "program": program, "args": [SCRIPT, IMAGE], "stdin": format!("{SCRIPT}\n{IMAGE}\n") }),
    );
    let session = launched["result"]["structuredContent"]["session_id"].as_str().unwrap().to_owned();
    let person = Person::new(&server, &key);
    let at_entry = person.page(&format!("/sessions/{session}"));
    is_harmless(&at_entry);
    server.call(&key, "debugger/continue", json!({}));
    let ended = person.page(&format!("/sessions/{session}"));
    is_harmless(&ended);
    assert!(ended.contains("&lt;script&gt;alert(1)&lt;/script&gt;"), "what it printed is shown: {ended}");
    is_harmless(&person.page("/sessions"));
    for query in ["watch", "at", "since", "until", "frame", "thread", "line"] {
        let hostile = "%22%3E%3Cscript%3Ealert(1)%3C/script%3E";
        is_harmless(&text(&person.get(&format!("/sessions/{session}?{query}={hostile}"))));
    }
    is_harmless(&text(&person.get("/sessions/%3Cscript%3Ealert(1)%3C%2Fscript%3E")));
}

#[test]
fn documents_and_names_of_collections_are_only_text() {
    let server = Server::start(&[]);
    let key = server.unlimited_key();
    let add = json!({ "collection": "plums", "name": "<img src=x onerror=alert(1)>.md", "text": format!("tangerine {SCRIPT} {IMAGE}") });
    let added = server.call(&key, "knowledge/add", add);
    let id = added["result"]["structuredContent"]["collection"].as_str().unwrap().to_owned();
    let person = Person::new(&server, &key);
    for path in
        ["/knowledge".to_owned(), "/knowledge/search?q=tangerine".to_owned(), format!("/knowledge/in/{id}")]
    {
        let page = person.page(&path);
        is_harmless(&page);
    }
    let found = person.page("/knowledge/search?q=tangerine%20script");
    assert!(found.contains("&lt;<mark>script</mark>&gt;"), "{found}");
    is_harmless(&text(&person.get("/knowledge/search?q=%22%3E%3Cscript%3Ealert(1)%3C/script%3E")));
    let listed = person.page(&format!("/knowledge/in/{id}"));
    let document = listed.split(&format!("/knowledge/in/{id}/")).nth(1).unwrap().split('"').next().unwrap();
    let page = person.page(&format!("/knowledge/in/{id}/{document}"));
    is_harmless(&page);
    assert!(page.contains("&lt;script&gt;"), "{page}");
}
