//! Every revision of the protocol, spoken by hand: what is agreed on, and that our errors arrive as they were meant.

use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::server::{BOTH, Connection, Local, Reply, Server, helpful_error};

/// The revisions that begin with `initialize`.
const WITH_HANDSHAKE: [&str; 4] = ["2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25"];
const STATELESS: &str = "2026-07-28";

const LICENSE: &str = "debugger/license_info";
const STACK: &str = "debugger/get_stack_trace";
const AUDIT: &str = "debugger/get_comprehensive_audit";
/// How many there are.
const TOOLS: usize = 56;

#[test]
fn each_revision_is_agreed_on_as_asked_over_http() {
    let server = Server::start(&[]);
    let key = server.unlimited_key();
    for revision in WITH_HANDSHAKE {
        let mut session = Session::open(&server, &key, revision);
        let listed = session.ask("tools/list", json!({}));
        assert_eq!(listed["result"]["tools"].as_array().unwrap().len(), TOOLS, "{revision}: {listed}");
        let called = session.call(LICENSE);
        assert_eq!(called["result"]["structuredContent"]["type"], "Community", "{revision}: {called}");
        // What belongs to later revisions stays out of answers to earlier ones.
        assert!(called["result"].get("resultType").is_none(), "{revision}: {called}");
        assert_eq!(session.ask("ping", json!({}))["result"], json!({}), "{revision}");
    }
}

#[test]
fn each_revision_is_agreed_on_as_asked_over_stdio() {
    for revision in WITH_HANDSHAKE {
        let mut local = Local::start();
        local.send(initialize(revision).to_string().as_bytes());
        let opened = local.answer().unwrap();
        assert_eq!(opened["result"]["protocolVersion"], revision, "{opened}");
        local.send(br#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#);
        local.send(request(1, "tools/call", json!({ "name": STACK })).to_string().as_bytes());
        assert_not_attached(&local.answer().unwrap());
    }
}

#[test]
fn a_revision_that_nobody_knows_is_answered_with_one_that_exists() {
    let server = Server::start(&[]);
    let key = server.unlimited_key();
    let body = initialize("1999-12-31").to_string();
    let headers = format!("Authorization: Bearer {key}\r\nAccept: {BOTH}\r\n");
    let opened = only_message(&server.connect().post_with(&headers, body.as_bytes()).unwrap());
    let revision = opened["result"]["protocolVersion"].as_str().unwrap();
    assert!(WITH_HANDSHAKE.contains(&revision), "{opened}");
}

#[test]
fn errors_arrive_intact_in_a_session_of_each_revision() {
    let server = Server::start(&[]);
    let key = server.unlimited_key();
    let narrow = server.key(&["--scope", "document:read"]);
    for revision in WITH_HANDSHAKE {
        let mut session = Session::open(&server, &key, revision);
        assert_not_attached(&session.call(STACK));
        let unknown = session.ask("resources/read", json!({ "uri": "hindcast://nothing" }));
        assert_eq!(helpful_error(&unknown)["code"], -32602, "{revision}");
        let unknown = session.ask("nothing/such", json!({}));
        assert_eq!(helpful_error(&unknown)["code"], -32601, "{revision}");

        assert_scope_missing(&Session::open(&server, &narrow, revision).call(AUDIT));

        let one_call = server.key(&["--per-month", "1", "--per-minute", "10"]);
        let mut session = Session::open(&server, &one_call, revision);
        assert!(session.call(LICENSE)["result"].is_object(), "{revision}");
        assert_quota_exceeded(&session.post("tools/call", json!({ "name": LICENSE })));
    }
}

#[test]
fn the_stateless_revision_needs_no_handshake() {
    let server = Server::start(&[]);
    let key = server.unlimited_key();
    let discovered = stateless(&server, &key, "server/discover", json!({})).json();
    let result = &discovered["result"];
    let supported = result["supportedVersions"].as_array().unwrap();
    for revision in WITH_HANDSHAKE.iter().chain([&STATELESS]) {
        assert!(supported.contains(&json!(revision)), "{discovered}");
    }
    assert_eq!(result["_meta"]["io.modelcontextprotocol/serverInfo"]["name"], "hindcast", "{discovered}");
    assert_eq!(result["capabilities"]["resources"], json!({ "subscribe": true, "listChanged": true }));

    let listed = stateless(&server, &key, "tools/list", json!({})).json();
    assert_eq!(listed["result"]["tools"].as_array().unwrap().len(), TOOLS, "{listed}");
    assert_eq!(listed["result"]["resultType"], "complete", "{listed}");

    let called = stateless(&server, &key, "tools/call", json!({ "name": LICENSE }));
    assert_eq!(called.header("mcp-session-id"), None);
    assert_eq!(called.json()["result"]["structuredContent"]["type"], "Community", "{called:?}");
}

#[test]
fn errors_arrive_intact_on_the_stateless_revision() {
    let server = Server::start(&[]);
    let key = server.unlimited_key();
    let call = |key: &str, tool: &str| stateless(&server, key, "tools/call", json!({ "name": tool }));
    assert_not_attached(&call(&key, STACK).json());
    assert_scope_missing(&call(&server.key(&["--scope", "document:read"]), AUDIT).json());
    let one_call = server.key(&["--per-month", "1", "--per-minute", "10"]);
    assert!(call(&one_call, LICENSE).json()["result"].is_object());
    assert_quota_exceeded(&call(&one_call, LICENSE));
    let unknown = stateless(&server, &key, "resources/read", json!({ "uri": "hindcast://nothing" }));
    assert_eq!(helpful_error(&unknown.json())["code"], -32602);
    let refused = call(&format!("{key}x"), LICENSE);
    assert_eq!((refused.status, refused.code()), (401, -32001), "{refused:?}");
    // Subscriptions by request belong to the revisions before.
    let subscribed = stateless(&server, &key, "resources/subscribe", json!({ "uri": "hindcast://audit" }));
    assert_eq!(subscribed.code(), -32601, "{subscribed:?}");
}

#[test]
fn progress_grows_and_is_told_before_the_answer() {
    let server = Server::start(&[]);
    let key = server.unlimited_key();
    let params = json!({ "name": AUDIT, "arguments": {}, "_meta": { "progressToken": "how far" } });

    let mut session = Session::open(&server, &key, "2025-11-25");
    assert_progress(&messages(&session.post("tools/call", params.clone())));
    assert_progress(&messages(&stateless(&server, &key, "tools/call", params.clone())));

    let mut local = Local::initialized();
    local.send(request(1, "tools/call", params).to_string().as_bytes());
    let mut told = vec![local.answer().unwrap()];
    while told.last().unwrap()["id"] != 1 {
        told.push(local.answer().unwrap());
    }
    assert_progress(&told);
}

fn assert_progress(messages: &[Value]) {
    let (answer, notifications) = messages.split_last().unwrap();
    // In rows for whoever may see all of them, in percent for others.
    let end = answer["result"]["structuredContent"]["chain"]["rows"].as_f64().unwrap_or(100.0);
    let done: Vec<_> = notifications
        .iter()
        .map(|message| {
            assert_eq!(message["method"], "notifications/progress", "{message}");
            assert_eq!(message["params"]["progressToken"], "how far", "{message}");
            message["params"]["progress"].as_f64().unwrap()
        })
        .collect();
    assert!(done.is_sorted_by(|before, after| before < after), "{done:?}");
    assert_eq!(done.last(), Some(&end), "{messages:?}");
}

#[test]
fn an_answer_that_a_broken_connection_lost_can_be_fetched() {
    let server = Server::start(&[]);
    let key = server.unlimited_key();
    let mut session = Session::open(&server, &key, "2025-11-25");
    let mut broken = server.connect();
    let call = request(1, "tools/call", json!({ "name": LICENSE }));
    begin(&mut broken, &session.headers, &call.to_string());
    let beginning = String::from_utf8(broken.chunk().unwrap().unwrap()).unwrap();
    let event = beginning.lines().find_map(|line| line.strip_prefix("id:")).unwrap();
    drop(broken);
    let headers = format!("Host: localhost\r\n{}Last-Event-ID: {}\r\n", session.headers, event.trim());
    let fetched = only_message(&session.connection.request("GET /mcp", &headers, b"").unwrap());
    assert_eq!(fetched["id"], 1, "{fetched}");
    assert_eq!(fetched["result"]["structuredContent"]["type"], "Community", "{fetched}");
}

#[test]
fn listening_tells_of_changes_within_two_seconds() {
    let server = Server::start(&[]);
    let key = server.unlimited_key();
    let mut listening = Listening::start(&server, &key, &["hindcast://audit"]);
    let asked = Instant::now();
    server.call(&key, LICENSE, json!({}));
    assert_eq!(listening.next_update(), "hindcast://audit");
    assert!(asked.elapsed() < Duration::from_secs(2), "{:?}", asked.elapsed());
}

#[test]
fn no_change_after_the_acknowledgement_is_missed() {
    let server = Server::start(&[]);
    // Each listens for a change that only its own call makes. Many at once, so that some of them
    // are quicker with the call than the server is with going on after it has acknowledged.
    let keys: Vec<_> = (0..40).map(|_| server.unlimited_key()).collect();
    let missed = std::thread::scope(|scope| {
        let listeners = keys.iter().map(|key| {
            let server = &server;
            scope.spawn(move || {
                let mut connection = server.connect();
                let mut listening = Listening::start(server, key, &["hindcast://quota"]);
                connection.rpc(key, "tools/call", json!({ "name": LICENSE }));
                listening.connection.socket().set_read_timeout(Some(Duration::from_secs(5))).unwrap();
                listening.try_next().is_err()
            })
        });
        let listeners: Vec<_> = listeners.collect();
        listeners.into_iter().map(|listener| listener.join().unwrap()).filter(|missed| *missed).count()
    });
    assert_eq!(missed, 0, "of {} changes", keys.len());
}

#[test]
fn listening_tells_nothing_that_the_key_may_not_read() {
    let server = Server::start(&[]);
    let narrow = server.key(&["--scope", "document:read"]);
    let mut listening = Listening::start(&server, &narrow, &["hindcast://audit", "hindcast://quota"]);
    // Each call changes both. By the second change of the quota, the first one of the trail was due.
    for _ in 0..2 {
        server.call(&narrow, LICENSE, json!({}));
        assert_eq!(listening.next_update(), "hindcast://quota");
    }
}

fn request(id: u64, method: &str, params: Value) -> Value {
    json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params })
}

fn initialize(revision: &str) -> Value {
    let client = json!({ "name": "by hand", "version": "1" });
    let params = json!({ "protocolVersion": revision, "capabilities": {}, "clientInfo": client });
    request(0, "initialize", params)
}

/// A session with a handshake.
struct Session {
    connection: Connection,
    headers: String,
    requests: u64,
}

impl Session {
    /// Fails unless the revision is agreed on.
    fn open(server: &Server, key: &str, revision: &str) -> Self {
        let mut connection = server.connect();
        let mut headers = format!("Authorization: Bearer {key}\r\nAccept: {BOTH}\r\n");
        let opened = connection.post_with(&headers, initialize(revision).to_string().as_bytes()).unwrap();
        let session = opened.header("mcp-session-id").unwrap_or_else(|| panic!("{opened:?}"));
        let result = &only_message(&opened)["result"];
        assert_eq!(result["protocolVersion"], revision, "{result}");
        assert_eq!(result["serverInfo"]["name"], "hindcast", "{result}");
        headers += &format!("Mcp-Session-Id: {session}\r\n");
        // Clients of the first two revisions know no such header.
        if revision >= "2025-06-18" {
            headers += &format!("MCP-Protocol-Version: {revision}\r\n");
        }
        let initialized = br#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#;
        assert_eq!(connection.post_with(&headers, initialized).unwrap().status, 202);
        Self { connection, headers, requests: 0 }
    }

    fn post(&mut self, method: &str, params: Value) -> Reply {
        self.requests += 1;
        let request = request(self.requests, method, params).to_string();
        self.connection.post_with(&self.headers, request.as_bytes()).unwrap()
    }

    /// The one message that an event stream answers with.
    fn ask(&mut self, method: &str, params: Value) -> Value {
        let reply = self.post(method, params);
        assert_eq!(reply.status, 200, "{reply:?}");
        let message = only_message(&reply);
        assert_eq!(message["id"], self.requests, "{message}");
        message
    }

    fn call(&mut self, tool: &str) -> Value {
        self.ask("tools/call", json!({ "name": tool, "arguments": {} }))
    }
}

/// The head and the body of a request that carries everything itself.
fn stateless_request(key: &str, method: &str, mut params: Value) -> (String, String) {
    let mut headers = format!(
        "Authorization: Bearer {key}\r\nAccept: {BOTH}\r\nMCP-Protocol-Version: {STATELESS}\r\nMcp-Method: {method}\r\n"
    );
    if let Some(name) = params.get("name").or(params.get("uri")).and_then(Value::as_str) {
        headers += &format!("Mcp-Name: {name}\r\n");
    }
    for (name, value) in [
        ("protocolVersion", json!(STATELESS)),
        ("clientInfo", json!({ "name": "by hand", "version": "1" })),
        ("clientCapabilities", json!({})),
    ] {
        params["_meta"][format!("io.modelcontextprotocol/{name}")] = value;
    }
    (headers, request(7, method, params).to_string())
}

fn stateless(server: &Server, key: &str, method: &str, params: Value) -> Reply {
    let (headers, body) = stateless_request(key, method, params);
    server.connect().post_with(&headers, body.as_bytes()).unwrap()
}

/// Posts a request and reads no more than the head of the event stream that answers it.
fn begin(connection: &mut Connection, headers: &str, body: &str) {
    let request = format!(
        "POST /mcp HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n{headers}Content-Length: {}\r\n\r\n{body}",
        body.len()
    );
    connection.send(request.as_bytes()).unwrap();
    let head = connection.head().unwrap();
    assert_eq!((head.status, head.header("content-type")), (200, Some("text/event-stream")), "{head:?}");
}

/// An open `subscriptions/listen`.
struct Listening {
    connection: Connection,
    /// What came and was not yet looked at.
    text: String,
}

impl Listening {
    /// Returns once the server has said that it listens.
    fn start(server: &Server, key: &str, uris: &[&str]) -> Self {
        let params = json!({ "notifications": { "resourceSubscriptions": uris } });
        let (headers, body) = stateless_request(key, "subscriptions/listen", params);
        let mut connection = server.connect();
        begin(&mut connection, &headers, &body);
        let mut listening = Self { connection, text: String::new() };
        let first = listening.next();
        assert_eq!(first["method"], "notifications/subscriptions/acknowledged", "{first}");
        listening
    }

    fn next(&mut self) -> Value {
        self.try_next().unwrap()
    }

    fn try_next(&mut self) -> std::io::Result<Value> {
        loop {
            while let Some((event, rest)) = self.text.split_once("\n\n") {
                let message = data(event);
                self.text = rest.to_owned();
                if let Some(message) = message {
                    assert_eq!(
                        message["params"]["_meta"]["io.modelcontextprotocol/subscriptionId"], 7,
                        "{message}"
                    );
                    return Ok(message);
                }
            }
            let chunk = self.connection.chunk()?.expect("the stream goes on");
            self.text += std::str::from_utf8(&chunk).unwrap();
        }
    }

    /// Of which resource the next notification tells.
    fn next_update(&mut self) -> String {
        let message = self.next();
        assert_eq!(message["method"], "notifications/resources/updated", "{message}");
        message["params"]["uri"].as_str().unwrap().to_owned()
    }
}

/// The message in an event; none in one that only keeps the stream alive or marks its beginning.
fn data(event: &str) -> Option<Value> {
    let data: String = event.lines().filter_map(|line| line.strip_prefix("data:")).collect();
    let data = data.trim();
    (!data.is_empty()).then(|| serde_json::from_str(data).unwrap_or_else(|error| panic!("{error}: {event}")))
}

/// The messages of an event stream.
fn messages(reply: &Reply) -> Vec<Value> {
    assert_eq!(reply.header("content-type"), Some("text/event-stream"), "{reply:?}");
    std::str::from_utf8(&reply.body).unwrap().split("\n\n").filter_map(data).collect()
}

/// The message of an event stream that has exactly one.
fn only_message(reply: &Reply) -> Value {
    let mut messages = messages(reply);
    assert_eq!(messages.len(), 1, "{reply:?}");
    messages.remove(0)
}

fn assert_not_attached(answer: &Value) {
    let error = helpful_error(answer);
    assert_eq!((&error["code"], &error["message"]), (&json!(-32005), &json!("Not attached")));
    assert!(error["data"]["hint"].as_str().unwrap().contains("debugger/attach"), "{error}");
}

fn assert_scope_missing(answer: &Value) {
    let error = helpful_error(answer);
    assert_eq!((&error["code"], &error["message"]), (&json!(-32003), &json!("Permission denied")));
    assert_eq!(error["data"]["required_scope"], "audit:read", "{error}");
}

fn assert_quota_exceeded(reply: &Reply) {
    assert_eq!(reply.status, 429, "{reply:?}");
    assert!(reply.header("retry-after").is_some(), "{reply:?}");
    let error = reply.error();
    assert_eq!((&error["code"], &error["message"]), (&json!(-32002), &json!("Quota exceeded")));
    assert_eq!((&error["data"]["limit"], &error["data"]["used"]), (&json!(1), &json!(1)));
}
