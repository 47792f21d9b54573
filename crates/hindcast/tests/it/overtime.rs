//! A request that takes longer than it may is answered in time, and its result is not lost.

use hindcast_fixtures::Fixture;
use serde_json::{Value, json};

use crate::server::{BOTH, Server};

const LIMIT: (&str, &str) = ("HINDCAST_SERVER_REQUEST_TIMEOUT_MS", "400");

/// How a client calls: the header lines it adds, and what it puts beside the arguments.
struct Manner {
    headers: &'static str,
    meta: Option<Value>,
}

fn call(server: &Server, key: &str, manner: &Manner, tool: &str, arguments: Value) -> Value {
    let mut params = json!({ "name": tool, "arguments": arguments });
    if let Some(meta) = &manner.meta {
        params["_meta"] = meta.clone();
    }
    let request = json!({ "jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params });
    let headers = format!("Authorization: Bearer {key}\r\n{}", manner.headers);
    server.connect().post_with(&headers, request.to_string().as_bytes()).unwrap().json()
}

#[test]
fn the_same_call_again_gets_the_result_of_the_one_that_ran_out_of_time() {
    let server = Server::start_with(&[LIMIT]);
    let program = Fixture::c("echo").build().path;
    let streams = format!("Accept: {BOTH}\r\n").leak();
    for manner in [
        Manner { headers: "", meta: None },
        Manner { headers: streams, meta: None },
        Manner { headers: streams, meta: Some(json!({ "note": "not for us" })) },
    ] {
        let key = server.unlimited_key();
        let call = |tool: &str, arguments: Value| call(&server, &key, &manner, tool, arguments);
        // It may take longer than a request: then this is how one gets it.
        let mut launched = json!({});
        for _ in 0..100 {
            launched = call("debugger/launch", json!({ "program": program, "record": false }));
            if launched["result"].is_object() {
                break;
            }
            assert_eq!(launched["error"]["data"]["retry"], "same_request", "{launched}");
        }
        assert!(launched["result"].is_object(), "{launched}");
        let go = json!({ "timeout_ms": 30_000 });
        let late = call("debugger/continue", go.clone());
        assert_eq!(late["error"]["code"], -32603, "{late}");
        let data = &late["error"]["data"];
        assert_eq!(data["retry"], "same_request", "{late}");
        assert!(data["hint"].as_str().unwrap().contains("send the same request again"), "{late}");
        let still = call("debugger/continue", go.clone());
        assert_eq!(still["error"]["data"]["retry"], "same_request", "it waits for its input: {still}");

        let other = server.unlimited_key();
        let others = server.call(&other, "debugger/continue", go.clone());
        assert_eq!(others["error"]["code"], -32005, "another principal has no part in it: {others}");

        call("debugger/write_input", json!({ "text": "ready\n", "eof": true }));
        let mut ended = json!({});
        for _ in 0..100 {
            ended = call("debugger/continue", go.clone());
            if ended["result"].is_object() {
                break;
            }
            assert_eq!(ended["error"]["data"]["retry"], "same_request", "{ended}");
        }
        let text = ended["result"]["content"][0]["text"].as_str().unwrap();
        assert!(text.starts_with("Exited with code 7"), "{text}");
        assert!(text.contains("note: this is the result of the same call, begun at "), "{text}");
        let fresh = call("debugger/continue", go);
        assert_eq!(fresh["error"]["code"], -32005, "what was fetched is gone: {fresh}");
    }
    // A client that is streamed to has no limit, and gets what another way of asking left behind.
    let key = server.unlimited_key();
    let plain = Manner { headers: "", meta: None };
    let mut launched = json!({});
    while !launched["result"].is_object() {
        launched =
            call(&server, &key, &plain, "debugger/launch", json!({ "program": program, "record": false }));
    }
    let go = json!({ "timeout_ms": 30_000 });
    let late = call(&server, &key, &plain, "debugger/continue", go.clone());
    assert_eq!(late["error"]["data"]["retry"], "same_request", "{late}");
    call(&server, &key, &plain, "debugger/write_input", json!({ "text": "", "eof": true }));
    let session = server.connect().initialize(&key);
    let headers = format!("Authorization: Bearer {key}\r\n{streams}{session}");
    let request = json!({ "jsonrpc": "2.0", "id": 9, "method": "tools/call",
        "params": { "name": "debugger/continue", "arguments": go } });
    let streamed = server.connect().post_with(&headers, request.to_string().as_bytes()).unwrap();
    let streamed = String::from_utf8(streamed.body).unwrap();
    assert!(streamed.contains("Exited with code 7"), "{streamed}");
    let verified = crate::server::hindcast(&server.data, &["audit", "verify"]);
    assert!(verified.starts_with("verified "), "{verified}");
}
