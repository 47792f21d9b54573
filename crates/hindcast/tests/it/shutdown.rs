//! Stopping: what is under way is finished, newcomers are told, nothing stays behind.

use std::{
    net::TcpStream,
    path::Path,
    time::{Duration, Instant},
};

use hindcast_fixtures::Fixture;
use serde_json::json;

use crate::server::{BOTH, Connection, Local, Server, eventually, helpful_error, hindcast};

const CALL: &[u8] =
    br#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"debugger/license_info"}}"#;

/// Sends the head of a call and waits until the server asks for the body: then it is under way.
fn begin_a_call(server: &Server, key: &str) -> Connection {
    let mut connection = server.connect();
    let head = format!(
        "POST /mcp HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nAuthorization: Bearer {key}\r\nExpect: 100-continue\r\nContent-Length: {}\r\n\r\n",
        CALL.len()
    );
    connection.send(head.as_bytes()).unwrap();
    assert_eq!(connection.head().unwrap().status, 100);
    connection.send(&CALL[..10]).unwrap();
    connection
}

/// Waits until the server turns newcomers away.
fn is_stopping(server: &Server, key: &str) {
    eventually("newcomers are turned away", || {
        let reply = server.rpc(key, "tools/list", json!({}));
        if reply.status == 200 {
            return false;
        }
        assert_eq!((reply.status, reply.code()), (503, -32603), "{reply:?}");
        assert!(reply.header("retry-after").unwrap().parse::<u64>().unwrap() > 0);
        reply.error();
        true
    });
}

/// Processes that were started for this data folder and are still there.
fn processes_of(data: &Path) -> Vec<String> {
    let folder = data.to_str().unwrap();
    let processes = std::fs::read_dir("/proc").unwrap().map(|process| process.unwrap().path());
    let lines = processes.filter_map(|process| std::fs::read_to_string(process.join("cmdline")).ok());
    lines.filter(|line| line.contains(folder)).collect()
}

/// Checks that the server is gone, its port closed and its store put away.
fn check_gone(server: &Server) {
    assert!(TcpStream::connect(server.address).is_err(), "the port is still open");
    assert_eq!(processes_of(&server.data), Vec::<String>::new());
    for left in ["hindcast.db-wal", "hindcast.db-shm", "hindcast.journal"] {
        assert!(!server.data.join(left).exists(), "{left} is left behind");
    }
    assert!(hindcast(&server.data, &["audit", "verify"]).starts_with("verified "));
}

#[test]
fn a_request_under_way_is_finished_while_newcomers_are_told_to_come_back() {
    for signal in ["TERM", "INT"] {
        let mut server = Server::start(&[]);
        let key = server.unlimited_key();
        let mut idle = server.connect();
        assert_eq!(idle.rpc(&key, "tools/list", json!({})).status, 200);
        let mut under_way = begin_a_call(&server, &key);
        server.signal(signal);
        is_stopping(&server, &key);
        let told = idle.rpc(&key, "tools/list", json!({}));
        assert_eq!((told.status, told.header("connection")), (503, Some("close")), "{told:?}");

        under_way.send(&CALL[10..]).unwrap();
        let reply = under_way.reply().unwrap();
        assert_eq!((reply.status, reply.code()), (200, 0), "{reply:?}");
        assert_eq!(server.ended().code(), Some(0), "{signal}");
        check_gone(&server);
        let rows = hindcast(&server.data, &["audit", "export"]);
        assert_eq!(rows.matches("debugger/license_info").count(), 1, "the call is not in the audit trail");
    }
}

#[test]
fn a_request_that_never_ends_does_not_hold_up_the_stop() {
    let mut server = Server::start_with(&[("HINDCAST_SERVER_DRAIN_TIMEOUT_MS", "300")]);
    let key = server.unlimited_key();
    let mut under_way = begin_a_call(&server, &key);
    let started = Instant::now();
    server.signal("TERM");
    assert_eq!(server.ended().code(), Some(0));
    assert!(started.elapsed() >= Duration::from_millis(300), "it was not waited for");
    assert!(started.elapsed() < Duration::from_secs(5), "it took {:?}", started.elapsed());
    assert!(under_way.reply().is_err());
    check_gone(&server);
}

/// A session whose program runs on, so that one can wait for it in vain.
fn launch_what_hangs(server: &Server, key: &str) {
    let program = Fixture::c("misbehave").build().path;
    let launched = server.call(key, "debugger/launch", json!({ "program": program, "args": ["hang"] }));
    assert!(launched["result"].is_object(), "{launched}");
    let went = server.call(key, "debugger/continue", json!({ "wait": false }));
    assert!(went["result"].is_object(), "{went}");
}

#[test]
fn a_call_that_outlasts_the_drain_is_told_so() {
    let wait = json!({ "jsonrpc": "2.0", "id": 7, "method": "tools/call", "params": {
        "name": "debugger/wait", "arguments": { "timeout_ms": 20000 },
    } });
    for in_session in [false, true] {
        let mut server = Server::start_with(&[("HINDCAST_SERVER_DRAIN_TIMEOUT_MS", "300")]);
        let key = server.unlimited_key();
        launch_what_hangs(&server, &key);
        let session = if in_session {
            format!("Accept: {BOTH}\r\n{}", server.connect().initialize(&key))
        } else {
            String::new()
        };
        let body = wait.to_string();
        let head = format!(
            "POST /mcp HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nAuthorization: Bearer {key}\r\n{session}Expect: 100-continue\r\nContent-Length: {}\r\n\r\n",
            body.len()
        );
        let mut waiting = server.connect();
        waiting.send(head.as_bytes()).unwrap();
        assert_eq!(waiting.head().unwrap().status, 100);
        waiting.send(body.as_bytes()).unwrap();
        server.signal("TERM");
        let reply = waiting.reply().unwrap();
        assert_eq!(server.ended().code(), Some(0));
        let text = String::from_utf8_lossy(&reply.body);
        // In a stream the answer is the last event.
        let answer = text.lines().rev().find_map(|line| line.strip_prefix("data: ")).unwrap_or(&text);
        let answer: serde_json::Value = serde_json::from_str(answer).unwrap_or_else(|_| panic!("{reply:?}"));
        let error = helpful_error(&answer);
        assert_eq!((&answer["id"], &error["code"]), (&json!(7), &json!(-32603)), "{error}");
        assert_eq!(reply.status, if in_session { 200 } else { 503 }, "{reply:?}");
        assert!(error["data"]["details"].as_str().unwrap().contains("shutting down"), "{error}");
        check_gone(&server);
    }
}

#[test]
fn a_second_signal_ends_the_server_at_once() {
    let mut server = Server::start(&[]);
    let key = server.unlimited_key();
    let _under_way = begin_a_call(&server, &key);
    server.signal("TERM");
    is_stopping(&server, &key);
    let started = Instant::now();
    server.signal("TERM");
    assert_eq!(server.ended().code(), Some(130));
    assert!(started.elapsed() < Duration::from_secs(5), "it took {:?}", started.elapsed());
}

/// Opens the stream of a session.
fn open_the_stream_of_a_session(server: &Server, key: &str) -> Connection {
    let session = server.connect().initialize(key);
    let headers = format!("Authorization: Bearer {key}\r\n{session}Accept: {BOTH}\r\n");
    let subscribe = json!({ "jsonrpc": "2.0", "id": 1, "method": "resources/subscribe", "params": { "uri": "hindcast://quota" } });
    let subscribed = server.connect().post_with(&headers, subscribe.to_string().as_bytes()).unwrap();
    assert_eq!(subscribed.status, 200);
    let mut stream = server.connect();
    stream.send(format!("GET /mcp HTTP/1.1\r\nHost: localhost\r\n{headers}\r\n").as_bytes()).unwrap();
    stream
}

/// Opens a stream that needs no session.
fn listen(server: &Server, key: &str) -> Connection {
    let listen = json!({ "jsonrpc": "2.0", "id": 1, "method": "subscriptions/listen", "params": {
        "notifications": { "resourceSubscriptions": ["hindcast://quota"] },
        "_meta": {
            "io.modelcontextprotocol/protocolVersion": "2026-07-28",
            "io.modelcontextprotocol/clientInfo": { "name": "it", "version": "1" },
            "io.modelcontextprotocol/clientCapabilities": {},
        },
    } });
    let listen = listen.to_string();
    let head = format!(
        "POST /mcp HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nAuthorization: Bearer {key}\r\nAccept: {BOTH}\r\nMCP-Protocol-Version: 2026-07-28\r\nMcp-Method: subscriptions/listen\r\nContent-Length: {}\r\n\r\n",
        listen.len()
    );
    let mut stream = server.connect();
    stream.send(&[head.as_bytes(), listen.as_bytes()].concat()).unwrap();
    stream
}

#[test]
fn an_open_event_stream_does_not_hold_up_the_stop() {
    for (what, open) in
        [("a session's", open_the_stream_of_a_session as fn(&_, &_) -> _), ("a listener's", listen)]
    {
        let mut server = Server::start(&[]);
        let key = server.unlimited_key();
        let mut stream: Connection = open(&server, &key);
        let head = stream.head().unwrap();
        assert_eq!((head.status, head.header("content-type")), (200, Some("text/event-stream")), "{head:?}");
        let started = Instant::now();
        server.signal("TERM");
        assert_eq!(server.ended().code(), Some(0));
        assert!(
            started.elapsed() < Duration::from_secs(5),
            "{what} stream held it up for {:?}",
            started.elapsed()
        );
        while let Ok(Some(_)) = stream.chunk() {}
        check_gone(&server);
    }
}

#[test]
fn the_local_server_ends_with_its_input() {
    for local in [Local::start(), Local::initialized()] {
        let data = local.folder.path().to_owned();
        assert_eq!(processes_of(&data).len(), 1);
        let (rest, ended) = local.close();
        assert!(rest.is_empty(), "{rest:?}");
        assert_eq!(ended.code(), Some(0));
        assert_eq!(processes_of(&data), Vec::<String>::new());
    }
}
