//! A key that does not open never gets through, and no key is ever written anywhere.

use std::{fs::File, path::Path, time::Duration};

use jiff::Timestamp;
use serde_json::{Value, json};

use crate::server::{BOTH, Connection, INITIALIZE, Reply, Server, eventually, hindcast, try_hindcast};

const LIST: &[u8] = br#"{"jsonrpc":"2.0","id":1,"method":"tools/list","params":{}}"#;
const CALL: &[u8] =
    br#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"debugger/license_info"}}"#;

/// Tries the key with every kind of request; all must be refused in the same way.
fn check_refused(server: &Server, what: &str, key: &str) {
    let line = format!("Authorization: Bearer {key}\r\n");
    let host = "Host: localhost\r\n";
    let replies = [
        server.connect().post_with(&line, LIST),
        server.connect().post_with(&line, CALL),
        server.connect().post_with(&format!("{line}Accept: {BOTH}\r\n"), INITIALIZE.as_bytes()),
        server.connect().request("GET /mcp", &format!("{host}{line}Accept: {BOTH}\r\n"), b""),
        server.connect().request("DELETE /mcp", &format!("{host}{line}"), b""),
    ];
    for reply in replies {
        check_refusal(what, &reply.unwrap());
    }
}

fn check_refusal(what: &str, reply: &Reply) {
    assert_eq!((reply.status, reply.code()), (401, -32001), "{what}: {reply:?}");
    let challenge = reply.header("www-authenticate").unwrap_or_else(|| panic!("{what}: {reply:?}"));
    assert!(challenge.starts_with("Bearer"), "{what}: {challenge}");
    assert_eq!(reply.error()["message"], "Authentication failed");
}

fn opens(server: &Server, key: &str) -> bool {
    server.connect().post(key, LIST).status == 200
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap()
}

#[test]
fn a_key_that_is_not_exactly_right_never_gets_through() {
    let server = Server::start(&[]);
    let key = server.unlimited_key();
    assert!(opens(&server, &key));
    let (id, other) = (&key["kdb_live_".len()..][..8], server.unlimited_key());
    let last = if key.ends_with('a') { "b" } else { "a" };
    let mixed = format!("kdb_live_{id}{}", &other["kdb_live_".len() + 8..]);
    let all_but_last = &key[..key.len() - 1];
    for wrong in [
        "",
        "x",
        "kdb_live_",
        "kdb_live_wrong",
        id,
        &key["kdb_live_".len()..],
        all_but_last,
        &key[..20],
        &format!("{all_but_last}{last}"),
        &format!("{key}a"),
        &format!("{key}{key}"),
        &format!("{key} a"),
        &format!("{key},{other}"),
        &format!("x{key}"),
        &format!("\"{key}\""),
        &key.to_uppercase(),
        &key.replacen("kdb_live", "KDB_LIVE", 1),
        &key.replacen("kdb_live", "kdb_test", 1),
        &key.replacen("kdb_live", "kdb_", 1),
        &mixed,
        &format!("kdb_live_{}", "a".repeat(48)),
        &"a".repeat(10_000),
    ] {
        check_refused(&server, wrong, wrong);
    }
    for header in [
        String::new(),
        format!("Authorization: {key}\r\n"),
        format!("Authorization: Basic {key}\r\n"),
        format!("Authorization: Bearer{key}\r\n"),
        format!("X-Api-Key: {key}\r\n"),
        format!("Cookie: key={key}\r\n"),
        "Authorization: Bearer \u{e9}\u{ff}\r\n".into(),
    ] {
        check_refusal(&header, &server.connect().post_with(&header, CALL).unwrap());
    }
    let query = format!("POST /mcp?key={key}");
    let headers = "Host: localhost\r\nContent-Type: application/json\r\n";
    check_refusal(&query, &server.connect().request(&query, headers, CALL).unwrap());
    assert!(opens(&server, &key));
}

#[test]
fn a_revoked_key_is_refused_and_stays_so() {
    let server = Server::start(&[]);
    let made = server.new_key(&[]);
    let (id, key) = (text(&made["id"]), text(&made["key"]));
    let mut open = server.connect();
    let session = open.initialize(key);
    assert!(opens(&server, key));
    hindcast(&server.data, &["keys", "revoke", id]);
    check_refused(&server, "revoked", key);
    let in_session = format!("Authorization: Bearer {key}\r\nAccept: {BOTH}\r\n{session}");
    check_refusal("in its session", &open.post_with(&in_session, CALL).unwrap());
    assert_eq!(try_hindcast(&server.data, &["keys", "rotate", id]).status.code(), Some(1));
    let data = server.stop();
    let server = Server::start_in(&data.path, &[]);
    check_refused(&server, "revoked before the restart", key);
}

#[test]
fn a_revoked_key_hears_nothing_more_on_a_stream_that_it_opened() {
    let server = Server::start(&[]);
    let (made, other) = (server.new_key(&[]), server.key(&[]));
    let key = text(&made["key"]);
    let session = server.connect().initialize(key);
    let headers = format!("Authorization: Bearer {key}\r\nAccept: {BOTH}\r\n{session}");
    for message in [
        json!({ "jsonrpc": "2.0", "method": "notifications/initialized" }),
        json!({ "jsonrpc": "2.0", "id": 1, "method": "resources/subscribe", "params": { "uri": "hindcast://audit" } }),
    ] {
        let reply = server.connect().post_with(&headers, message.to_string().as_bytes()).unwrap();
        assert!(reply.status < 300, "{reply:?}");
    }
    let mut stream = server.connect();
    stream.send(format!("GET /mcp HTTP/1.1\r\nHost: localhost\r\n{headers}\r\n").as_bytes()).unwrap();
    assert_eq!(stream.head().unwrap().status, 200);
    stream.socket().set_read_timeout(Some(Duration::from_secs(3))).unwrap();
    let mut hears = |what: &str| {
        server.call(&other, "debugger/license_info", json!({}));
        while let Ok(Some(chunk)) = stream.chunk() {
            let chunk = String::from_utf8(chunk).unwrap();
            if chunk.contains("notifications/resources/updated") {
                return true;
            }
            assert!(chunk.starts_with("data: \n") || chunk.starts_with(':'), "{what}: {chunk}");
        }
        false
    };
    assert!(hears("before"), "the subscription does not work");
    hindcast(&server.data, &["keys", "revoke", text(&made["id"])]);
    assert!(!hears("after"), "a revoked key is still told of changes");
}

#[test]
fn an_expired_key_is_refused_from_its_very_end() {
    let server = Server::start(&[]);
    let end = Timestamp::now() + Duration::from_secs(2);
    let made = server.new_key(&["--expires", &end.to_string()]);
    let key = text(&made["key"]);
    let mut was_open = false;
    eventually("the key expired", || {
        let before = Timestamp::now();
        let open = opens(&server, key);
        assert!(!open || before < end, "it opened after its end");
        assert!(open || Timestamp::now() >= end, "it did not open before its end");
        was_open |= open;
        !open
    });
    assert!(was_open);
    check_refused(&server, "expired", key);
    let shown = hindcast(&server.data, &["keys", "show", text(&made["id"]), "--json"]);
    assert_eq!(serde_json::from_str::<Value>(&shown).unwrap()["state"], "expired");
    let past =
        try_hindcast(&server.data, &["keys", "create", "--name", "x", "--expires", "2020-01-01T00:00:00Z"]);
    assert_eq!(past.status.code(), Some(1));
}

#[test]
fn a_key_of_the_other_environment_is_refused() {
    let server = Server::start(&[]);
    let (live, test) = (server.key(&[]), server.key(&["--test"]));
    assert!(live.starts_with("kdb_live_") && test.starts_with("kdb_test_"));
    assert!(opens(&server, &live));
    check_refused(&server, "a test key on a live server", &test);
    check_refused(&server, "a test key that says live", &test.replacen("test", "live", 1));
    let data = server.stop();
    let server = Server::start_in(&data.path, &["--environment", "test"]);
    assert!(opens(&server, &test));
    check_refused(&server, "a live key on a test server", &live);
    check_refused(&server, "a live key that says test", &live.replacen("live", "test", 1));
}

#[test]
fn a_key_for_other_addresses_is_refused() {
    let server = Server::start(&[]);
    for allowed in [vec!["127.0.0.1"], vec!["10.0.0.0/8", "127.0.0.0/8"], vec!["0.0.0.0/0"]] {
        let flags: Vec<_> = allowed.iter().flat_map(|range| ["--allow-ip", range]).collect();
        assert!(opens(&server, &server.key(&flags)), "{allowed:?}");
    }
    for range in ["10.0.0.0/8", "127.0.0.2", "::1", "::/0"] {
        let key = server.key(&["--allow-ip", range]);
        check_refused(&server, range, &key);
        let forged = format!(
            "Authorization: Bearer {key}\r\nX-Forwarded-For: 10.0.0.1\r\nForwarded: for=10.0.0.1\r\nX-Real-Ip: 10.0.0.1\r\n"
        );
        check_refusal("a forged address", &server.connect().post_with(&forged, LIST).unwrap());
    }
}

#[test]
fn a_rotated_key_opens_with_its_new_text_only_and_keeps_its_usage() {
    let server = Server::start(&[]);
    let made = server.new_key(&["--per-month", "10", "--per-minute", "10"]);
    let (id, old) = (text(&made["id"]), text(&made["key"]));
    for _ in 0..3 {
        assert_eq!(server.connect().post(old, CALL).status, 200);
    }
    let rotated = hindcast(&server.data, &["keys", "rotate", id, "--json"]);
    let rotated: Value = serde_json::from_str(&rotated).unwrap();
    let new = text(&rotated["key"]);
    assert_ne!(new, old);
    check_refused(&server, "the old text", old);
    let reply = server.connect().post(new, CALL);
    assert_eq!((reply.status, reply.header("x-ratelimit-remaining")), (200, Some("6")));
    for field in ["id", "owner", "scopes", "tier", "per_month"] {
        assert_eq!(rotated[field], made[field], "{field}");
    }
}

/// Fails when one of the keys can be read in the text.
fn check_hidden(place: &str, text: &str, keys: &[String]) {
    for key in keys {
        // The id is public; the letters behind it are the secret.
        let secret = &key["kdb_live_".len() + 8..];
        let line = text.lines().find(|line| line.contains(secret));
        assert!(line.is_none(), "{place} shows a key: {}", line.unwrap_or_default());
    }
}

/// Everything that is kept or shown of what was done.
fn traces(data: &Path) -> Vec<(&'static str, String)> {
    let shown = |arguments: &[&str]| hindcast(data, arguments);
    vec![
        ("audit show", shown(&["audit", "show", "--limit", "1000"])),
        ("audit show --json", shown(&["audit", "show", "--limit", "1000", "--json"])),
        ("audit export", shown(&["audit", "export"])),
        ("keys list", shown(&["keys", "list", "--json"])),
        (
            "the store",
            String::from_utf8_lossy(&std::fs::read(data.join("hindcast.db")).unwrap()).into_owned(),
        ),
    ]
}

#[test]
fn no_key_is_written_to_logs_audit_or_errors() {
    let folder = tempfile::tempdir().unwrap();
    // The first key is shown in the greeting, so there must be one before.
    let create = |arguments: &[&str]| {
        let all = [&["keys", "create", "--name", "test", "--json"], arguments].concat();
        serde_json::from_str::<Value>(&hindcast(folder.path(), &all)).unwrap()
    };
    let made =
        [create(&["--tier", "enterprise"]), create(&["--allow-ip", "10.0.0.0/8"]), create(&[]), create(&[])];
    let mut keys: Vec<_> = made.iter().map(|made| text(&made["key"]).to_owned()).collect();
    hindcast(folder.path(), &["keys", "revoke", text(&made[2]["id"])]);
    let rotated = hindcast(folder.path(), &["keys", "rotate", text(&made[3]["id"]), "--json"]);
    keys.push(text(&serde_json::from_str::<Value>(&rotated).unwrap()["key"]).to_owned());

    let log = folder.path().join("log");
    let environment = [("HINDCAST_LOG", "trace")];
    let mut server = Server::launch(folder.path(), &[], &environment, File::create(&log).unwrap());
    let mut bodies = String::new();
    for key in &keys {
        let line = format!("Authorization: Bearer {key}\r\n");
        let damaged = format!("Authorization: Bearer {}\r\n", &key[..key.len() - 1]);
        let both = format!("{line}Accept: {BOTH}\r\n");
        for (headers, body) in [
            (&line, CALL),
            (&line, b"{"),
            (&line, br#"{"jsonrpc":"2.0","id":1,"method":"tools/fly"}"#),
            (&line, br#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"debugger/attach"}}"#),
            (&damaged, CALL),
            (&both, INITIALIZE.as_bytes()),
            (&format!("Authorization: {key}\r\n"), CALL),
            (&format!("X-Api-Key: {key}\r\n"), CALL),
        ] {
            let reply = server.connect().post_with(headers, body).unwrap();
            bodies += &format!("{:?}\n{}\n", reply.headers, String::from_utf8_lossy(&reply.body));
        }
        let query = format!("POST /mcp?key={key}");
        let reply = server.connect().request(&query, &format!("Host: localhost\r\n{line}"), CALL).unwrap();
        bodies += &String::from_utf8_lossy(&reply.body);
    }
    server.signal("TERM");
    assert!(server.ended().success());
    check_hidden("standard output", &server.rest_of_stdout(), &keys);
    let log = std::fs::read_to_string(&log).unwrap();
    assert!(log.contains("TRACE"), "nothing was logged: {log}");
    check_hidden("the log", &log, &keys);
    check_hidden("an answer", &bodies, &keys);
    for (place, text) in traces(folder.path()) {
        check_hidden(place, &text, &keys);
    }
    let audit_key = std::fs::read_to_string(folder.path().join("audit.key")).unwrap();
    for (place, text) in
        traces(folder.path()).iter().map(|(place, text)| (*place, text)).chain([("the log", &log)])
    {
        assert!(!text.contains(audit_key.trim()), "{place} shows the audit key");
    }
}

#[test]
fn a_key_in_the_wrong_place_of_a_request_is_not_written_down() {
    let folder = tempfile::tempdir().unwrap();
    hindcast(folder.path(), &["keys", "create", "--name", "first"]);
    let log = folder.path().join("log");
    let server =
        Server::launch(folder.path(), &[], &[("HINDCAST_LOG_LEVEL", "info")], File::create(&log).unwrap());
    let key = server.unlimited_key();
    let requests = [
        ("tools/call", json!({ "name": key })),
        (
            "tools/call",
            json!({ "name": "debugger/attach", "arguments": { "pid": 4_194_305, "session_id": key } }),
        ),
        ("tools/call", json!({ "name": "debugger/attach", "arguments": { "pid": key } })),
        (
            "tools/call",
            json!({ "name": "debugger/get_comprehensive_audit", "arguments": { "session_id": key } }),
        ),
        ("resources/read", json!({ "uri": format!("hindcast://quota?key={key}") })),
        ("resources/read", json!({ "uri": key })),
        ("prompts/get", json!({ "name": key })),
        (&key, json!({})),
    ];
    for (method, params) in requests {
        server.rpc(&key, method, params.clone());
        server.rpc("kdb_live_wrong", method, params);
    }
    let path = format!("POST /{key}");
    server.connect().request(&path, "Host: localhost\r\n", CALL).unwrap();
    let data = server.stop();
    let keys = [key];
    check_hidden("the log", &std::fs::read_to_string(&log).unwrap(), &keys);
    for (place, text) in traces(&data.path) {
        check_hidden(place, &text, &keys);
    }
}

#[test]
fn a_session_is_not_there_for_another_principal() {
    let server = Server::start(&[]);
    let (one, other) = (server.unlimited_key(), server.unlimited_key());
    let session = server.connect().initialize(&one);
    let headers = |key: &str| {
        format!(
            "Host: localhost\r\nContent-Type: application/json\r\nAuthorization: Bearer {key}\r\nAccept: {BOTH}\r\n{session}"
        )
    };
    let ask = |key: &str, request: &str, body: &[u8]| {
        let mut connection: Connection = server.connect();
        connection.request(request, &headers(key), body).unwrap()
    };
    for (request, body) in [("POST /mcp", LIST), ("POST /mcp", CALL), ("GET /mcp", b""), ("DELETE /mcp", b"")]
    {
        let reply = ask(&other, request, body);
        assert_eq!(reply.status, 404, "{request}: {reply:?}");
        reply.error();
    }
    assert_eq!(ask(&one, "POST /mcp", LIST).status, 200, "its owner still has it");
}

#[test]
fn only_keys_of_one_owner_with_the_same_scopes_share_a_session() {
    let server = Server::start(&[]);
    let (one, other) = (server.key(&["--owner", "ada"]), server.key(&["--owner", "ada"]));
    let session = server.connect().initialize(&one);
    let headers = |key: &str| {
        format!(
            "Host: localhost\r\nContent-Type: application/json\r\nAuthorization: Bearer {key}\r\nAccept: {BOTH}\r\n{session}"
        )
    };
    assert_eq!(server.connect().request("POST /mcp", &headers(&other), LIST).unwrap().status, 200);
    let lesser = server.key(&["--owner", "ada", "--scope", "document:read"]);
    let greater = server.key(&["--owner", "ada", "--scope", "admin"]);
    for key in [&lesser, &greater] {
        let resumed = format!("{}Last-Event-ID: 0\r\n", headers(key));
        for (request, headers, body) in [
            ("GET /mcp", resumed, &b""[..]),
            ("GET /mcp", headers(key), b""),
            ("POST /mcp", headers(key), LIST),
            ("DELETE /mcp", headers(key), b""),
        ] {
            let reply = server.connect().request(request, &headers, body).unwrap();
            assert_eq!((reply.status, reply.code()), (404, -32600), "{request}: {reply:?}");
        }
    }
    assert_eq!(server.connect().request("POST /mcp", &headers(&one), LIST).unwrap().status, 200);
}

#[test]
fn the_audit_trail_shows_a_principal_its_own_rows_and_an_admin_all() {
    let server = Server::start(&[]);
    let made = [server.new_key(&["--tier", "enterprise"]), server.new_key(&["--tier", "enterprise"])];
    let admin = server.new_key(&["--tier", "enterprise", "--scope", "admin", "--scope", "audit:read"]);
    for key in &made {
        for _ in 0..3 {
            server.call(text(&key["key"]), "debugger/license_info", json!({}));
        }
    }
    let rows = |key: &Value| {
        let answer =
            server.call(text(&key["key"]), "debugger/get_comprehensive_audit", json!({ "limit": 1000 }));
        let content = answer["result"]["structuredContent"].clone();
        assert_eq!(content["chain"]["verified"], true, "{answer}");
        let sees_all = content["chain"]["rows"].is_u64();
        assert_eq!(sees_all, key["id"] == admin["id"], "how many rows there are is for admins: {answer}");
        content["rows"].as_array().unwrap().clone()
    };
    for key in &made {
        let own = rows(key);
        assert_eq!(own.len(), 3, "{own:?}");
        assert!(
            own.iter().all(|row| row["principal"] == key["owner"] && row["key_id"] == key["id"]),
            "{own:?}"
        );
    }
    let all = rows(&admin);
    for key in &made {
        assert_eq!(all.iter().filter(|row| row["key_id"] == key["id"]).count(), 4);
    }
    assert!(all.iter().any(|row| row["method"] == "keys/create"), "what the operator did is there too");
}
