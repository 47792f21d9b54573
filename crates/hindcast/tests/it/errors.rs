//! Every error of the catalogue, produced on the wire by a real cause.

use std::collections::BTreeMap;

use rusqlite::Connection as Database;
use serde_json::{Value, json};

use crate::{
    license::server_with_an_ended_license,
    server::{Reply, Server, hindcast},
};

/// Codes of parts that have not landed, each with the part whose tests will produce it.
const NOT_YET: [(i64, &str); 1] = [(-32007, "history comes with recording")];

/// The rows of the reference page: code and message, HTTP status.
fn documented() -> BTreeMap<(i64, String), u16> {
    let page = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/reference/errors.md");
    let page = std::fs::read_to_string(page).unwrap();
    let rows = page.lines().filter(|line| line.starts_with("| -"));
    rows.map(|row| {
        let cells: Vec<_> = row.split('|').map(str::trim).collect();
        ((cells[1].parse().unwrap(), cells[2].to_owned()), cells[3].parse().unwrap())
    })
    .collect()
}

/// Calls a tool of a server whose license for the audit trail has ended.
fn call_with_an_ended_license() -> Reply {
    let folder = tempfile::tempdir().unwrap();
    let server = server_with_an_ended_license(folder.path(), &["audit"]);
    let key = server.unlimited_key();
    let shown = server.call(&key, "debugger/license_info", json!({}));
    assert_eq!(shown["result"]["structuredContent"]["state"], "expired", "{shown}");
    let other = server.call(&key, "debugger/get_stack_trace", json!({}));
    assert_eq!(other["error"]["code"], -32005, "what the license does not name is not touched: {other}");
    server.rpc(&key, "tools/call", json!({ "name": "debugger/get_comprehensive_audit" }))
}

/// Calls a tool while a table of the store is gone, as after a bad restore, and again when it is back.
fn call_without_a_table(server: &Server, key: &str, table: &str) -> Reply {
    let call = || server.rpc(key, "tools/call", json!({ "name": "debugger/license_info" }));
    let database = Database::open(server.data.join("hindcast.db")).unwrap();
    database.busy_timeout(std::time::Duration::from_secs(5)).unwrap();
    let rename = |from: &str, to: &str| {
        database
            .execute_batch(&format!("PRAGMA legacy_alter_table = ON; ALTER TABLE {from} RENAME TO {to}"))
            .unwrap();
    };
    rename(table, "away");
    let reply = call();
    rename("away", table);
    let again = call();
    assert_eq!((again.status, again.code()), (200, 0), "it does not recover: {again:?}");
    reply
}

/// Calls a tool of a server whose PostgreSQL has ended; none where there is no PostgreSQL.
fn call_while_the_database_is_down() -> Option<Reply> {
    let mut cluster = hindcast_fixtures::postgres::Cluster::start()?;
    let database = cluster.new_database();
    let server = Server::start_with(&[("HINDCAST_LOG_LEVEL", "off"), ("HINDCAST_STORE_URL", &database)]);
    let key = server.first_key.clone().unwrap();
    cluster.stop();
    Some(server.rpc(&key, "tools/call", json!({ "name": "debugger/license_info" })))
}

/// What only a debug session can refuse.
fn errors_of_a_session(server: &Server, key: &str) -> [Reply; 2] {
    let program = hindcast_fixtures::Fixture::c("calls").build().path;
    let call = |tool: &str, arguments: Value| {
        server.rpc(key, "tools/call", json!({ "name": tool, "arguments": arguments }))
    };
    let launched = call("debugger/launch", json!({ "program": program })).json();
    assert!(launched["result"].is_object(), "{launched}");
    let replies = [
        server.rpc(key, "resources/read", json!({ "uri": "debugger://source//etc/passwd" })),
        call("debugger/set_breakpoint", json!({ "address": "0x10" })),
    ];
    call("debugger/disconnect", json!({}));
    replies
}

#[test]
fn every_error_of_the_reference_has_a_real_cause() {
    let shelf = tempfile::tempdir().unwrap();
    std::fs::write(shelf.path().join("order.xml"), "<order/>").unwrap();
    std::fs::write(
        shelf.path().join("invoice.xsd"),
        "<xs:schema xmlns:xs='http://www.w3.org/2001/XMLSchema'><xs:element name='invoice'/></xs:schema>",
    )
    .unwrap();
    let folder = ("HINDCAST_DOCUMENTS_ALLOWED_FOLDERS", shelf.path().to_str().unwrap());
    let no_model = ("HINDCAST_KNOWLEDGE_OLLAMA_URL", "off");
    let server = Server::start_with(&[("HINDCAST_LOG_LEVEL", "off"), folder, no_model]);
    let key = server.unlimited_key();
    let narrow = server.key(&["--scope", "debug:read"]);
    let small = server.key(&["--per-month", "1", "--per-minute", "1"]);
    let call = |key: &str, tool: &str, arguments: Value| {
        server.rpc(key, "tools/call", json!({ "name": tool, "arguments": arguments }))
    };
    call(&small, "debugger/license_info", json!({}));
    let replies = [
        server.connect().post(&key, b"{"),
        server.connect().post(&key, b"[]"),
        server.rpc(&key, "tools/fly", json!({})),
        call(&key, "debugger/attach", json!({})),
        server.rpc(&key, "resources/read", json!({ "uri": "hindcast://nothing" })),
        server.rpc(&key, "resources/read", json!({ "uri": "invalid://wrong-scheme/path" })),
        call(&key, "knowledge/ask", json!({ "question": "why?" })),
        call_without_a_table(&server, &key, "usage"),
        server.rpc("kdb_live_wrong", "tools/list", json!({})),
        call(&small, "debugger/license_info", json!({})),
        call(&narrow, "debugger/attach", json!({ "pid": 1 })),
        call(&key, "debugger/attach", json!({ "pid": 4_194_305 })),
        call(&key, "debugger/get_stack_trace", json!({})),
        call(&key, "xpath_query", json!({ "document": "missing.xml", "query": "/" })),
        call(&key, "validate_schema", json!({ "document": "order.xml", "schema": "invoice.xsd" })),
        call_with_an_ended_license(),
    ]
    .into_iter()
    .chain(errors_of_a_session(&server, &key));
    let down = call_while_the_database_is_down();
    let is_tried = down.is_some();
    let replies = replies.chain(down);
    let mut found = BTreeMap::new();
    for reply in replies {
        let error = reply.error();
        let code = error["code"].as_i64().unwrap();
        let mut message = error["message"].as_str().unwrap().to_owned();
        if code == -1 {
            // The contract's sentence names the file.
            assert_eq!(message, "File path '/etc/passwd' is not referenced in any loaded debug information");
            message = "Source file not served".into();
        }
        found.insert((code, message), reply.status);
    }
    let mut expected = documented();
    expected.retain(|(code, _), _| NOT_YET.iter().all(|(not_yet, _)| not_yet != code));
    expected.retain(|(_, message), _| is_tried || message != "Store unreachable");
    assert_eq!(found, expected, "docs/reference/errors.md and the causes in this test differ");
    for (code, reason) in NOT_YET {
        assert!(documented().keys().any(|(known, _)| *known == code), "{code} is gone: {reason}");
    }
}

#[test]
fn what_cannot_be_written_down_is_not_answered() {
    let server = Server::start_with(&[("HINDCAST_LOG_LEVEL", "off")]);
    let key = server.unlimited_key();
    for (method, params) in [
        ("tools/call", json!({ "name": "debugger/license_info" })),
        ("resources/read", json!({ "uri": "hindcast://license" })),
    ] {
        let call = || server.rpc(&key, method, params.clone());
        // Brings what was written down before into the tables, so that there is no journal.
        hindcast(&server.data, &["audit", "verify"]);
        let in_the_way = server.data.join("hindcast.journal");
        std::fs::create_dir(&in_the_way).unwrap();
        let reply = call();
        assert_eq!((reply.status, reply.code()), (500, -32603), "{method}: {reply:?}");
        reply.error();
        assert!(!String::from_utf8_lossy(&reply.body).contains("Community"), "the answer came after all");
        std::fs::remove_dir(&in_the_way).unwrap();
        let again = call();
        assert_eq!((again.status, again.code()), (200, 0), "it does not recover: {again:?}");
    }
    let verified = hindcast(&server.data, &["audit", "verify"]);
    assert!(verified.starts_with("verified "), "{verified}");
}

#[test]
fn calls_go_on_while_another_program_holds_the_store_and_none_is_lost() {
    let server = Server::start_with(&[("HINDCAST_LOG_LEVEL", "off")]);
    let key = server.unlimited_key();
    let other = Database::open(server.data.join("hindcast.db")).unwrap();
    let rows = || other.query_row("SELECT count(*) FROM audit", [], |row| row.get::<_, usize>(0)).unwrap();
    let before = rows();
    other.execute_batch("BEGIN EXCLUSIVE").unwrap();
    for _ in 0..20 {
        let answer = server.call(&key, "debugger/license_info", json!({}));
        assert!(answer["result"].is_object(), "{answer}");
    }
    let reply = server.rpc(&key, "tools/call", json!({ "name": "debugger/get_comprehensive_audit" }));
    assert_eq!((reply.status, reply.code()), (500, -32603), "what needs the tables says so: {reply:?}");
    assert_eq!(rows(), before);
    other.execute_batch("COMMIT").unwrap();
    let verified = hindcast(&server.data, &["audit", "verify"]);
    assert_eq!((verified, rows()), (format!("verified {} rows\n", before + 21), before + 21));
}
