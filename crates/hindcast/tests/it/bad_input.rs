//! Input that no good client sends: a clear error each time, and the server goes on.

use std::{
    io::Write as _,
    net::TcpStream,
    process::Command,
    time::{Duration, Instant},
};

use serde_json::{Value, json};

use crate::server::{Connection, Local, Reply, Server, eventually, helpful_error};

const GOOD: &[u8] = br#"{"jsonrpc":"2.0","id":"good","method":"tools/list","params":{}}"#;

/// A message, the code of its answer and the id that the answer carries.
type BadMessage = (&'static str, Vec<u8>, i64, Value);

fn bad_messages() -> Vec<BadMessage> {
    let text = |what, message: &str, code, id| (what, message.as_bytes().to_vec(), code, id);
    let request = |what, method: &str, params: Value, code| {
        let message = json!({ "jsonrpc": "2.0", "id": 7, "method": method, "params": params });
        (what, message.to_string().into_bytes(), code, json!(7))
    };
    let call = |what, name: &str, arguments| {
        request(what, "tools/call", json!({ "name": name, "arguments": arguments }), -32602)
    };
    let nested = |depth| format!("{}{}", "[".repeat(depth), "]".repeat(depth));
    let null = || Value::Null;
    vec![
        text("no JSON", "hello", -32700, null()),
        text("half an object", r#"{"jsonrpc":"2.0","id":7,"method":"#, -32700, null()),
        text("two values", "{} {}", -32700, null()),
        text("half a batch", "[1,", -32700, null()),
        ("invalid UTF-8 around", b"\xff\xfe{}".to_vec(), -32700, null()),
        (
            "invalid UTF-8 inside",
            b"{\"jsonrpc\":\"2.0\",\"id\":7,\"method\":\"tools/\xff\"}".to_vec(),
            -32700,
            null(),
        ),
        text("10,000 levels", &nested(10_000), -32700, null()),
        text(
            "10,000 levels of parameters",
            &format!(
                r#"{{"jsonrpc":"2.0","id":7,"method":"tools/list","params":{{"a":{}}}}}"#,
                nested(10_000)
            ),
            -32700,
            null(),
        ),
        text("an empty batch", "[]", -32600, null()),
        text("a batch", r#"[{"jsonrpc":"2.0","id":7,"method":"ping"}]"#, -32600, null()),
        text("a number", "42", -32600, null()),
        text("a string", r#""ping""#, -32600, null()),
        text("no jsonrpc", r#"{"id":7,"method":"ping"}"#, -32600, json!(7)),
        text("jsonrpc 1.0", r#"{"jsonrpc":"1.0","id":7,"method":"ping"}"#, -32600, json!(7)),
        text("jsonrpc as a number", r#"{"jsonrpc":2.0,"id":7,"method":"ping"}"#, -32600, json!(7)),
        text("no method", r#"{"jsonrpc":"2.0","id":7}"#, -32600, json!(7)),
        text("method as a number", r#"{"jsonrpc":"2.0","id":7,"method":5}"#, -32600, json!(7)),
        text("id null", r#"{"jsonrpc":"2.0","id":null,"method":"ping"}"#, -32600, null()),
        text("id an array", r#"{"jsonrpc":"2.0","id":[1],"method":"ping"}"#, -32600, null()),
        text("id an object", r#"{"jsonrpc":"2.0","id":{},"method":"ping"}"#, -32600, null()),
        text("id a boolean", r#"{"jsonrpc":"2.0","id":true,"method":"ping"}"#, -32600, null()),
        text("id a fraction", r#"{"jsonrpc":"2.0","id":1.5,"method":"ping"}"#, -32600, null()),
        text("id beyond 64 bits", r#"{"jsonrpc":"2.0","id":1e400,"method":"ping"}"#, -32700, null()),
        text(
            "id of 1 MB",
            &format!(r#"{{"jsonrpc":"2.0","id":"{}","method":"ping"}}"#, "x".repeat(1 << 20)),
            -32600,
            null(),
        ),
        request("unknown method", "tools/fly", json!({}), -32601),
        request("empty method", "", json!({}), -32601),
        request("method of 100 kB", &"x".repeat(100_000), json!({}), -32601),
        request("positional parameters", "tools/call", json!(["debugger/license_info"]), -32602),
        request("parameters as text", "tools/list", json!("all"), -32602),
        request("call without a name", "tools/call", json!({}), -32602),
        request("call with a number as name", "tools/call", json!({ "name": 5 }), -32602),
        request(
            "arguments as a list",
            "tools/call",
            json!({ "name": "debugger/attach", "arguments": [1] }),
            -32602,
        ),
        request("read without a URI", "resources/read", json!({}), -32602),
        request("read of nothing", "resources/read", json!({ "uri": "hindcast://nothing" }), -32602),
        request("prompt without a name", "prompts/get", json!({}), -32602),
        request("prompt that is not there", "prompts/get", json!({ "name": "nothing" }), -32602),
        request("a level that is not there", "logging/setLevel", json!({ "level": "loud" }), -32602),
        call("unknown tool", "debugger/fly", json!({})),
        call("empty tool name", "", json!({})),
        call("tool name of 100 kB", &"x".repeat(100_000), json!({})),
        call("unknown argument", "debugger/attach", json!({ "pid": 4_194_305, "speed": 3 })),
        call("missing argument", "debugger/attach", json!({})),
        call("text for a number", "debugger/attach", json!({ "pid": "one" })),
        call("a negative process id", "debugger/attach", json!({ "pid": -1 })),
        call("a process id beyond 32 bits", "debugger/attach", json!({ "pid": 1u64 << 40 })),
        call("a limit out of range", "debugger/get_comprehensive_audit", json!({ "limit": 0 })),
        call("a cursor of nobody", "debugger/get_comprehensive_audit", json!({ "cursor": "x" })),
        call("a time that is none", "debugger/get_comprehensive_audit", json!({ "start_time": "noon" })),
    ]
}

fn check_answer(what: &str, answer: &Value, code: i64, id: &Value) {
    let error = helpful_error(answer);
    assert_eq!((&error["code"], &answer["id"]), (&json!(code), id), "{what}: {answer}");
    assert!(answer.to_string().len() < 2000, "{what}: the error repeats what was sent");
}

fn is_good(reply: &Reply) -> bool {
    reply.status == 200 && reply.json()["result"]["tools"].is_array()
}

#[test]
fn over_http_every_bad_message_gets_its_error_and_the_connection_goes_on() {
    let server = Server::start(&[]);
    let key = server.unlimited_key();
    let mut connection = server.connect();
    for (what, message, code, id) in bad_messages() {
        let reply = connection.post(&key, &message);
        let status = if [-32700, -32600].contains(&code) { 400 } else { 200 };
        assert_eq!(reply.status, status, "{what}: {reply:?}");
        assert_eq!(reply.header("content-type"), Some("application/json"), "{what}");
        check_answer(what, &reply.json(), code, &id);
        assert!(is_good(&connection.post(&key, GOOD)), "after {what}");
    }
}

#[test]
fn over_stdio_every_bad_line_gets_its_error_and_the_session_goes_on() {
    let mut local = Local::initialized();
    for (what, message, code, id) in bad_messages() {
        local.send(&message);
        check_answer(what, &local.answer().unwrap(), code, &id);
        local.send(GOOD);
        assert_eq!(local.answer().unwrap()["id"], "good", "after {what}");
    }
    let mut long = br#"{"jsonrpc":"2.0","id":7,"method":"ping","params":{"x":""#.to_vec();
    long.resize(5 << 20, b'x');
    local.send(&long);
    check_answer("a line of 5 MB", &local.answer().unwrap(), -32600, &Value::Null);
    local.send(GOOD);
    assert_eq!(local.answer().unwrap()["id"], "good", "after a line of 5 MB");
    let (rest, ended) = local.close();
    assert!(rest.is_empty() && ended.success(), "{rest:?} {ended}");
}

#[test]
fn over_stdio_garbage_before_the_session_is_answered_too() {
    let mut local = Local::start();
    local.send(b"garbage");
    check_answer("garbage", &local.answer().unwrap(), -32700, &Value::Null);
    local
        .send(br#"{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"name":"debugger/license_info"}}"#);
    let early = local.answer().unwrap();
    if early.get("result").is_none() {
        helpful_error(&early);
    }
    assert_eq!(early["id"], 7);
}

#[test]
fn over_stdio_requests_piped_in_before_the_end_are_all_answered() {
    let mut local = Local::initialized();
    for id in 1..=50 {
        let call = json!({ "jsonrpc": "2.0", "id": id, "method": "tools/call", "params": { "name": "debugger/license_info" } });
        local.send(call.to_string().as_bytes());
    }
    let (answers, ended) = local.close();
    let mut ids: Vec<_> = answers.iter().map(|answer| answer["id"].as_i64().unwrap()).collect();
    ids.sort_unstable();
    assert!(ids.iter().copied().eq(1..=50), "{ids:?}");
    assert!(answers.iter().all(|answer| answer["result"].is_object()));
    assert_eq!(ended.code(), Some(0));
}

#[test]
fn an_unknown_tool_is_told_the_nearest_name() {
    let server = Server::start(&[]);
    let key = server.unlimited_key();
    for (given, nearest) in [
        ("debugger/atach", "debugger/attach"),
        ("debugger_get_stacktrace", "debugger/get_stack_trace"),
        ("debugger/licence-info", "debugger/license_info"),
    ] {
        let error = helpful_error(&server.call(&key, given, json!({})));
        let hint = error["data"]["hint"].as_str().unwrap();
        assert!(hint.replace('_', "/").contains(&nearest.replace('_', "/")), "{given}: {error}");
    }
}

#[test]
fn bad_http_gets_its_status_and_an_error_that_helps() {
    let server = Server::start(&[]);
    let key = server.unlimited_key();
    let local = "Host: localhost\r\n";
    let json = "Content-Type: application/json\r\n";
    let authorized = format!("Authorization: Bearer {key}\r\n");
    let check = |what: &str, request: &str, headers: &[&str], status: u16, code: i64| {
        let reply = server.connect().request(request, &headers.concat(), GOOD).unwrap();
        assert_eq!((reply.status, reply.code()), (status, code), "{what}: {reply:?}");
        assert_eq!(reply.header("content-type"), Some("application/json"), "{what}");
        reply.error();
        assert!(is_good(&server.connect().post(&key, GOOD)), "after {what}");
        reply
    };
    for host in ["evil.example.com", "localhost.evil.example.com", "10.0.0.1", "a b", ""] {
        let host = format!("Host: {host}\r\n");
        check(&host, "POST /mcp", &[&host, json, &authorized], 403, -32003);
    }
    check("no Host", "POST /mcp", &[json, &authorized], 403, -32003);
    for origin in ["https://evil.example.com", "null", "http://localhost.evil.example.com"] {
        let origin = format!("Origin: {origin}\r\n");
        check(&origin, "POST /mcp", &[local, json, &authorized, &origin], 403, -32003);
    }
    for path in ["/", "/mcp/", "/MCP", "/mcp/../mcp", "/admin"] {
        check(path, &format!("POST {path}"), &[local, json, &authorized], 404, -32600);
    }
    for method in ["PUT", "PATCH", "OPTIONS", "TRACE", "BREW"] {
        let reply = check(method, &format!("{method} /mcp"), &[local, json, &authorized], 405, -32600);
        assert_eq!(reply.header("allow"), Some("GET, POST, DELETE"));
    }
    for kind in ["text/plain", "application/x-www-form-urlencoded", "application/jsonp", "application"] {
        let kind = format!("Content-Type: {kind}\r\n");
        check(&kind, "POST /mcp", &[local, &kind, &authorized], 415, -32600);
    }
    check("no Content-Type", "POST /mcp", &[local, &authorized], 415, -32600);
    check("no session", "POST /mcp", &[local, json, &authorized, "Mcp-Session-Id: x\r\n"], 404, -32600);
    check("no key", "POST /mcp", &[local, json], 401, -32001);
    check("two keys", "POST /mcp", &[local, json, &authorized, &authorized], 400, -32600);
    let hosts = [local, "Host: evil.example.com\r\n", json, &authorized].concat();
    let reply = server.connect().request("POST /mcp", &hosts, GOOD).unwrap();
    assert!([400, 403].contains(&reply.status), "two Hosts: {reply:?}");
    reply.error();
}

#[test]
fn what_the_protocol_does_not_allow_is_refused_with_an_error_that_helps() {
    let server = Server::start(&[]);
    let key = server.unlimited_key();
    let common =
        format!("Host: localhost\r\nContent-Type: application/json\r\nAuthorization: Bearer {key}\r\n");
    let both = "Accept: application/json, text/event-stream\r\n";
    let newest = "MCP-Protocol-Version: 2026-07-28\r\n";
    let named = "MCP-Protocol-Version: 2026-07-28\r\nMcp-Method: tools/list\r\n";
    let misnamed = "MCP-Protocol-Version: 2026-07-28\r\nMcp-Method: ping\r\n";
    let list = r#"{"jsonrpc":"2.0","id":7,"method":"tools/list"}"#;
    let mut unhelpful = Vec::new();
    for (what, request, headers, body) in [
        ("a stream without Accept", "GET /mcp", "", ""),
        ("a stream without a session", "GET /mcp", both, ""),
        ("an end without a session", "DELETE /mcp", "", ""),
        ("an unknown revision", "POST /mcp", "MCP-Protocol-Version: 1999-01-01\r\n", list),
        ("the newest revision without Mcp-Method", "POST /mcp", newest, list),
        ("the newest revision without _meta", "POST /mcp", named, list),
        ("the wrong Mcp-Method", "POST /mcp", misnamed, list),
        (
            "initialize without parameters",
            "POST /mcp",
            both,
            r#"{"jsonrpc":"2.0","id":7,"method":"initialize"}"#,
        ),
        (
            "initialize with odd parameters",
            "POST /mcp",
            both,
            r#"{"jsonrpc":"2.0","id":7,"method":"initialize","params":{"x":1}}"#,
        ),
        ("an answer that nobody asked for", "POST /mcp", "", r#"{"jsonrpc":"2.0","id":7,"result":{}}"#),
        (
            "listening to nothing",
            "POST /mcp",
            "",
            r#"{"jsonrpc":"2.0","id":7,"method":"subscriptions/listen","params":{}}"#,
        ),
    ] {
        let reply =
            server.connect().request(request, &format!("{common}{headers}"), body.as_bytes()).unwrap();
        assert!(reply.status < 500, "{what}: {reply:?}");
        let answer: Value = serde_json::from_slice(&reply.body).unwrap_or_default();
        let data = &answer["error"]["data"];
        let helps = data["details"].is_string() && data["hint"].is_string() && answer.get("id").is_some();
        if !helps || reply.header("content-type") != Some("application/json") {
            unhelpful.push(format!("{what}: {} {}", reply.status, String::from_utf8_lossy(&reply.body)));
        }
        assert!(is_good(&server.connect().post(&key, GOOD)), "after {what}");
    }
    assert!(unhelpful.is_empty(), "{}", unhelpful.join("\n"));
}

#[test]
fn a_body_that_is_too_large_is_refused_with_an_error_that_helps() {
    let server = Server::start(&[]);
    let key = server.unlimited_key();
    let head = |framing: &str| {
        format!(
            "POST /mcp HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nAuthorization: Bearer {key}\r\n{framing}\r\n\r\n"
        )
    };
    let mut waiting = server.connect();
    waiting.send(head("Content-Length: 99999999999").as_bytes()).unwrap();
    // The time limit of the client is longer than that of the server.
    let reply = waiting.reply().unwrap();
    assert_eq!((reply.status, reply.code()), (413, -32600), "before a body: {reply:?}");
    let body = vec![b' '; 5 << 20];
    let chunked = [format!("{:x}\r\n", body.len()).as_bytes(), &body, b"\r\n0\r\n\r\n"].concat();
    for (framing, body) in [("Content-Length: 5242880", &body), ("Transfer-Encoding: chunked", &chunked)] {
        let mut connection = server.connect();
        // The server may have stopped listening before everything is sent.
        let _ = connection.send(&[head(framing).as_bytes(), body].concat());
        let reply = connection.reply().unwrap_or_else(|error| panic!("{framing}: {error}"));
        assert_eq!((reply.status, reply.code()), (413, -32600), "{framing}: {reply:?}");
        reply.error();
        assert!(is_good(&server.connect().post(&key, GOOD)), "after {framing}");
    }
}

#[test]
fn an_answer_that_nobody_asked_for_is_refused_in_our_words() {
    let server = Server::start(&[]);
    let key = server.unlimited_key();
    let reply = server.connect().post(&key, br#"{"jsonrpc":"2.0","id":7,"result":{}}"#);
    assert_eq!((reply.status, reply.code()), (400, -32600), "{reply:?}");
    assert!(reply.error()["data"]["details"].as_str().unwrap().contains("has not asked"), "{reply:?}");
}

#[test]
#[cfg(target_os = "linux")]
fn what_cannot_be_launched_is_told_why() {
    use std::os::unix::fs::PermissionsExt;
    let server = Server::start(&[]);
    let key = server.unlimited_key();
    let folder = tempfile::tempdir().unwrap();
    let executable = |name: &str, bytes: &[u8]| {
        let path = folder.path().join(name);
        std::fs::write(&path, bytes).unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
        path
    };
    let script = executable("script", b"#!/no/such/interpreter\n");
    let elf = std::fs::read("/bin/true").unwrap();
    let truncated = executable("truncated", &elf[..200]);
    let recording = executable("recording", b"hindcast, and what happened");
    let long = "x".repeat(1 << 20);
    let check = |arguments: Value, details: &str, hint: &str| {
        let error = helpful_error(&server.call(&key, "debugger/launch", arguments.clone()));
        let data = &error["data"];
        assert!(data["details"].as_str().unwrap().contains(details), "{error}");
        assert!(data["hint"].as_str().unwrap().contains(hint), "{error}");
    };
    check(json!({ "program": script }), "cannot start", "interpreter");
    check(json!({ "program": truncated }), "cannot start", "");
    check(json!({ "program": recording }), "it is a recording", "`trace`");
    check(json!({ "program": "/bin/true", "args": [long] }), "cannot start", "too long");
    for field in ["core", "trace"] {
        check(json!({ field: "/dev/zero" }), "`/dev/zero` is not a plain file", "copy");
        check(json!({ field: "/tmp" }), "`/tmp` is a folder", "name a file");
        check(json!({ field: "/no/such" }), "there is no file", "absolute");
    }
    let from_zero = json!({ "program": "/bin/cat", "stdin": { "file": "/dev/zero" } });
    check(from_zero, "is not a plain file", "copy");
    for name in ["A=B", "", "a\0b"] {
        check(json!({ "program": "/bin/true", "env": { name: "c" } }), "cannot be the name", "`env`");
    }
}

#[test]
fn a_head_that_is_too_large_is_refused_or_cut_off() {
    let server = Server::start(&[]);
    let key = server.unlimited_key();
    let heads = [
        format!("POST /mcp HTTP/1.1\r\nHost: localhost\r\nX-Long: {}\r\n\r\n", "x".repeat(1 << 20)),
        format!("POST /mcp HTTP/1.1\r\nHost: localhost\r\n{}\r\n", "X-Many: x\r\n".repeat(2000)),
        format!("POST /{} HTTP/1.1\r\nHost: localhost\r\n\r\n", "x".repeat(1 << 20)),
        "\r\n".repeat(1 << 20),
        "x".repeat(1 << 20),
    ];
    for head in heads {
        let mut connection = server.connect();
        let _ = connection.send(head.as_bytes());
        if let Ok(reply) = connection.reply() {
            assert!([400, 414, 431].contains(&reply.status), "{reply:?}");
        }
        assert!(is_good(&server.connect().post(&key, GOOD)));
    }
}

/// Waits for what the server does about a request that does not come to its end.
fn let_go(mut connection: Connection) -> Option<Reply> {
    let started = Instant::now();
    let reply = connection.reply();
    assert!(started.elapsed() < Duration::from_secs(10), "it waited for {:?}", started.elapsed());
    if let Ok(reply) = &reply {
        assert!(connection.reply().is_err(), "the connection stays open after {reply:?}");
    }
    reply.ok()
}

#[test]
fn a_half_sent_request_is_let_go_after_the_time_limit() {
    let server = Server::start_with(&[("HINDCAST_SERVER_CONNECTION_TIMEOUT_MS", "300")]);
    let key = server.unlimited_key();
    let head = format!(
        "POST /mcp HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nAuthorization: Bearer {key}\r\n"
    );
    let starts = [
        (false, String::new()),
        (false, "POST /mcp HT".into()),
        (false, head.clone()),
        (true, format!("{head}Content-Length: 63\r\n\r\n")),
        (true, format!("{head}Content-Length: 63\r\n\r\n{{\"jsonrpc\"")),
        (true, format!("{head}Transfer-Encoding: chunked\r\n\r\n3f\r\n{{\"jsonrpc\"")),
    ];
    std::thread::scope(|scope| {
        for (is_body, start) in &starts {
            let mut connection = server.connect();
            scope.spawn(move || {
                connection.send(start.as_bytes()).unwrap();
                let reply = let_go(connection);
                assert!(!is_body || reply.is_some(), "cut off without a word after {start:?}");
                if let Some(reply) = reply {
                    assert_eq!(reply.status, 408, "{start:?}: {reply:?}");
                    assert!(!is_body || reply.error()["code"] == -32600, "{reply:?}");
                }
            });
        }
    });
    assert!(is_good(&server.connect().post(&key, GOOD)));
}

#[test]
fn who_is_answered_before_the_body_was_read_is_told_that_the_connection_ends() {
    let server = Server::start(&[]);
    let key = server.unlimited_key();
    for (path, credentials, kind, status) in [
        ("/mcp", "kdb_dev_wrong", "application/json", 401),
        ("/mcp", &key, "text/plain", 415),
        ("/elsewhere", &key, "application/json", 404),
    ] {
        let mut connection = server.connect();
        let head = format!(
            "POST {path} HTTP/1.1\r\nHost: localhost\r\nContent-Type: {kind}\r\nAuthorization: Bearer {credentials}\r\n"
        );
        connection.send(format!("{head}Content-Length: 63\r\n\r\n").as_bytes()).unwrap();
        let reply = connection.reply().unwrap();
        assert_eq!(reply.status, status, "{reply:?}");
        let closes = |(name, value): &(String, String)| name == "connection" && value == "close";
        assert!(reply.headers.iter().any(closes), "{reply:?}");
    }
}

#[test]
fn a_request_that_trickles_in_is_let_go_after_the_time_limit() {
    let server = Server::start_with(&[
        ("HINDCAST_SERVER_CONNECTION_TIMEOUT_MS", "500"),
        ("HINDCAST_SERVER_REQUEST_TIMEOUT_MS", "1000"),
    ]);
    let key = server.unlimited_key();
    let head = format!("Content-Type: application/json\r\nAuthorization: Bearer {key}\r\n");
    for start in [
        "POST /mcp HTTP/1.1\r\nHost: localhost\r\nX-Long: ".to_owned(),
        format!("POST /mcp HTTP/1.1\r\nHost: localhost\r\n{head}Content-Length: 1000000\r\n\r\n"),
    ] {
        let mut connection = server.connect();
        connection.send(start.as_bytes()).unwrap();
        // Each look for an answer that is not there yet takes this long: the pace of the trickle.
        connection.socket().set_read_timeout(Some(Duration::from_millis(50))).unwrap();
        let mut end = None;
        eventually("it was let go", || {
            end = match connection.socket().peek(&mut [0]) {
                Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => None,
                other => Some(other.is_ok()),
            };
            end.is_some() || connection.send(b"x").is_err()
        });
        if end == Some(true)
            && let Ok(reply) = connection.reply()
        {
            assert_eq!(reply.status, 408, "{reply:?}");
        }
    }
    assert!(is_good(&server.connect().post(&key, GOOD)));
}

#[test]
fn a_client_that_does_not_read_its_answers_is_let_go_after_the_time_limit() {
    let server = Server::start_with(&[("HINDCAST_SERVER_CONNECTION_TIMEOUT_MS", "300")]);
    let key = server.unlimited_key();
    let mut connection = server.connect();
    connection.socket().set_write_timeout(Some(Duration::from_millis(50))).unwrap();
    let request = format!(
        "POST /mcp HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nAuthorization: Bearer {key}\r\nContent-Length: {}\r\n\r\n",
        GOOD.len()
    );
    let requests = [request.as_bytes(), GOOD].concat().repeat(100);
    eventually("it was let go", || match connection.send(&requests) {
        Ok(()) => false,
        Err(error) => error.kind() != std::io::ErrorKind::WouldBlock,
    });
}

#[test]
fn a_tls_handshake_that_does_not_happen_is_let_go_after_the_time_limit() {
    let folder = tempfile::tempdir().unwrap();
    let server = Server::launch(
        folder.path(),
        &["--tls"],
        &[("HINDCAST_SERVER_CONNECTION_TIMEOUT_MS", "300")],
        std::process::Stdio::inherit(),
    );
    for start in [&b""[..], b"\x16\x03\x01", b"POST /mcp HTTP/1.1\r\nHost: localhost\r\n\r\n"] {
        let mut connection = server.connect();
        connection.send(start).unwrap();
        let mut end = [0; 100];
        while !matches!(std::io::Read::read(&mut connection.socket(), &mut end), Ok(0) | Err(_)) {}
    }
}

#[test]
fn a_thousand_idle_connections_keep_nobody_waiting() {
    // Both this process and the server need more descriptors than some systems give at first.
    let own = std::process::id().to_string();
    let _ = Command::new("prlimit").args(["--pid", &own, "--nofile=4096:"]).status();
    let server = Server::start(&[]);
    let key = server.unlimited_key();
    let idle: Vec<_> = (0..1000)
        .map(|at| {
            let mut stream = TcpStream::connect(server.address).unwrap();
            if at % 2 == 0 {
                stream.write_all(b"POST /mcp HTTP/1.1\r\nHost: loc").unwrap();
            }
            stream
        })
        .collect();
    for _ in 0..20 {
        let started = Instant::now();
        assert!(is_good(&server.connect().post(&key, GOOD)));
        assert!(started.elapsed() < Duration::from_secs(5), "it took {:?}", started.elapsed());
    }
    let still_open = idle.iter().filter(|stream| {
        stream.set_nonblocking(true).unwrap();
        matches!(stream.peek(&mut [0]), Err(error) if error.kind() == std::io::ErrorKind::WouldBlock)
    });
    assert_eq!(still_open.count(), 1000, "they were not all open while the other was served");
}

#[test]
fn memory_does_not_grow_with_bad_requests() {
    let server = Server::start(&[]);
    let key = server.unlimited_key();
    let messages = bad_messages();
    let authorized = format!("Authorization: Bearer {key}\r\n");
    let wrong = "Authorization: Bearer kdb_live_wrong\r\n";
    let storm = |requests: usize| {
        std::thread::scope(|scope| {
            for client in 0..4 {
                let (server, messages, authorized) = (&server, &messages, &authorized);
                scope.spawn(move || {
                    let mut connection = server.connect();
                    for at in 0..requests / 4 {
                        let (what, message, ..) = &messages[(at + client) % messages.len()];
                        let headers = match at % 5 {
                            _ if message.len() > 50_000 && at % 200 > 5 => continue,
                            0 => wrong,
                            1 => "Host: evil.example.com\r\n",
                            2 => {
                                connection = server.connect();
                                connection.send(b"POST /mcp HTTP/1.1\r\nHost: loc").unwrap();
                                connection = server.connect();
                                authorized
                            }
                            _ => authorized,
                        };
                        match connection.post_with(headers, message) {
                            Ok(reply) => {
                                assert!(reply.status >= 400 || reply.code() != 0, "{what}: {reply:?}");
                            }
                            // It was refused, and the connection closed, before all of it was sent.
                            Err(_) => connection = server.connect(),
                        }
                    }
                });
            }
        });
    };
    storm(4_000);
    let before = server.resident_bytes();
    storm(20_000);
    let after = server.resident_bytes();
    assert!(after < before + (20 << 20), "from {before} to {after} bytes");
    assert!(is_good(&server.connect().post(&key, GOOD)));
}
