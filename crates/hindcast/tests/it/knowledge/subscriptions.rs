//! Those who look at something hear within a second that it changed, and nobody else does.

use std::time::Duration;

use serde_json::{Value, json};

use super::{Client, knowledge};
use crate::server::{BOTH, Connection, Server};

const SOON: Duration = Duration::from_secs(1);

#[test]
fn a_subscriber_hears_of_a_change_by_a_tool_by_another_process_and_by_a_watched_file() {
    let files = tempfile::tempdir().unwrap();
    let file = files.path().join("watched.md");
    std::fs::write(&file, "# Watched\n\nfirst").unwrap();
    let mut client = Client::new();
    let watch = json!({ "collection": "notes", "paths": [files.path()], "watch": true, "shared": true });
    client.call("knowledge/add", watch);
    let other = |text: &str| json!({ "collection": "notes", "name": "other", "text": text, "shared": true });
    client.call("knowledge/add", other("other words"));
    let document = "resource://knowledge/notes/document/watched";
    for uri in [document, "resource://knowledge/notes/stats", "resource://knowledge/collections"] {
        client.subscribe(uri);
    }

    // A watched file. The best of three counts: the machine may be busy with other tests.
    let took = (0..3).map(|number| {
        std::fs::write(&file, format!("# Watched\n\nsecond {}", "more ".repeat(number + 1))).unwrap();
        client.hear(document)
    });
    assert!(took.min().unwrap() < SOON);
    assert!(client.read(document).contains("second more more more"));
    client.hear("resource://knowledge/notes/stats");
    client.hear("resource://knowledge/collections");
    client.forget();

    // A tool; what is not subscribed to is not told.
    client.call("knowledge/add", other("changed words"));
    client.hear("resource://knowledge/notes/stats");
    assert!(!client.has_heard("resource://knowledge/notes/document/other"));
    client.forget();

    // Another process removes it.
    knowledge(client.data(), &["remove", "notes", "watched"]);
    client.hear(document);
    let gone = client.request("resources/read", json!({ "uri": document }));
    assert_eq!(gone["error"]["message"], "Resource not found");
}

#[test]
fn those_who_look_at_figures_hear_that_something_was_used() {
    let mut client = Client::new();
    client
        .call("knowledge/add", json!({ "collection": "notes", "name": "otter", "text": "the otter swims" }));
    for collection in ["searched", "read"] {
        client.call(
            "knowledge/add",
            json!({ "collection": collection, "name": "owl", "text": "the owl flies" }),
        );
    }
    let (stats, collections) = ("resource://knowledge/notes/stats", "resource://knowledge/collections");
    let (searched, read) = ("resource://knowledge/searched/stats", "resource://knowledge/read/stats");
    for uri in [stats, collections, searched, read] {
        client.subscribe(uri);
    }
    let search = json!({ "query": "otter", "collection": "notes", "min_relevance": 0.0 });
    // What was added is told first.
    client.call("knowledge/add", json!({ "collection": "notes", "name": "end", "text": "the end" }));
    client.hear(stats);
    client.hear(collections);
    client.forget();
    client.call("knowledge/search", search.clone());
    client.hear(stats);
    client.hear(collections);
    assert_eq!(client.read_json(stats)["usageStatistics"]["monthlyQueries"], 1);
    assert_eq!(client.read_json(collections)[0]["monthlyQueries"], 1);

    // Many searches are told a few times, and the last of them is.
    client.forget();
    for _ in 0..40 {
        client.call("knowledge/search", search.clone());
    }
    let mut times = 0;
    while client.read_json(stats)["usageStatistics"]["monthlyQueries"] != 41 || times == 0 {
        client.hear(stats);
        times += 1;
    }
    assert!(times <= 10, "told {times} times");

    // Another process searches; a document is read. Until then nobody used these.
    assert!(!client.has_heard(searched) && !client.has_heard(read));
    knowledge(client.data(), &["search", "owl", "--collection", "searched", "--min-relevance", "0"]);
    client.hear(searched);
    assert!(!client.has_heard(read));
    client.read("resource://knowledge/read/document/owl");
    client.hear(read);
}

#[test]
fn what_is_not_there_cannot_be_subscribed_to() {
    let mut client = Client::new();
    let answer = client.request("resources/subscribe", json!({ "uri": "resource://knowledge/none/stats" }));
    assert_eq!(answer["error"]["code"], -32602);
    assert_eq!(answer["error"]["data"]["details"], "Collection 'none' does not exist");
}

/// A stream of one key's session that subscribes to a URI.
pub(crate) fn listen(server: &Server, key: &str, uri: &str) -> Connection {
    let session = server.connect().initialize(key);
    let headers = format!("Authorization: Bearer {key}\r\nAccept: {BOTH}\r\n{session}");
    for message in [
        json!({ "jsonrpc": "2.0", "method": "notifications/initialized" }),
        json!({ "jsonrpc": "2.0", "id": 1, "method": "resources/subscribe", "params": { "uri": uri } }),
    ] {
        let reply = server.connect().post_with(&headers, message.to_string().as_bytes()).unwrap();
        assert!(reply.status < 300, "{reply:?}");
    }
    let mut stream = server.connect();
    stream.send(format!("GET /mcp HTTP/1.1\r\nHost: localhost\r\n{headers}\r\n").as_bytes()).unwrap();
    assert_eq!(stream.head().unwrap().status, 200);
    stream
}

/// Whether the stream tells of a change within this time.
pub(crate) fn hears(stream: &mut Connection, within: Duration) -> bool {
    stream.socket().set_read_timeout(Some(within)).unwrap();
    while let Ok(Some(chunk)) = stream.chunk() {
        if String::from_utf8_lossy(&chunk).contains("notifications/resources/updated") {
            return true;
        }
    }
    false
}

#[test]
fn nobody_hears_of_what_happens_in_the_private_collections_of_others() {
    let server = Server::start(&[]);
    let (ada, ben) = (server.unlimited_key(), server.unlimited_key());
    let add = |key: &str, text: &str| {
        let document = json!({ "collection": "diary", "name": "today", "text": text });
        let answer = server.call(key, "knowledge/add", document);
        assert_eq!(answer["error"], Value::Null, "{answer}");
    };
    // Both have a collection of that name, and see only their own.
    add(&ada, "ada's words");
    add(&ben, "ben's words");
    let uri = "resource://knowledge/diary/document/today";
    let mut streams = [listen(&server, &ada, uri), listen(&server, &ben, uri)];
    add(&ada, "ada's other words");
    assert!(hears(&mut streams[0], Duration::from_secs(5)));
    assert!(!hears(&mut streams[1], Duration::from_millis(800)));
}
