//! A request that takes longer than it may is answered in time, and its result is not lost.

use std::{
    io::{BufRead, BufReader, Read, Write},
    net::{TcpListener, TcpStream},
    sync::mpsc,
};

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

/// What stands in for an Ollama whose model takes long: it answers a question when it is told to.
struct SlowModel {
    address: String,
    asked: mpsc::Receiver<()>,
    answer: mpsc::Sender<&'static str>,
}

impl SlowModel {
    fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = format!("http://{}", listener.local_addr().unwrap());
        let (tell_asked, asked) = mpsc::channel();
        let (answer, answers) = mpsc::channel();
        std::thread::spawn(move || {
            for socket in listener.incoming().map_while(Result::ok) {
                serve_model(socket, &tell_asked, &answers);
            }
        });
        Self { address, asked, answer }
    }
}

fn serve_model(mut socket: TcpStream, asked: &mpsc::Sender<()>, answers: &mpsc::Receiver<&str>) {
    let mut reader = BufReader::new(socket.try_clone().unwrap());
    let (mut head, mut length) = (String::new(), 0);
    loop {
        let mut line = String::new();
        if reader.read_line(&mut line).unwrap_or(0) <= 2 {
            break;
        }
        if let Some(value) = line.to_lowercase().strip_prefix("content-length:") {
            length = value.trim().parse().unwrap();
        }
        head += &line;
    }
    reader.read_exact(&mut vec![0; length]).unwrap();
    let body = if head.starts_with("GET /api/tags") {
        json!({ "models": [{ "name": "slow:latest", "size": 1, "digest": "d" }] }).to_string()
    } else if head.starts_with("POST /api/show") {
        json!({ "capabilities": ["completion"] }).to_string()
    } else {
        asked.send(()).unwrap();
        // The test may have ended meanwhile.
        let Ok(answer) = answers.recv() else { return };
        json!({ "message": { "role": "assistant", "content": answer }, "done": true }).to_string() + "\n"
    };
    let _ = socket.write_all(format!("HTTP/1.1 200 OK\r\nconnection: close\r\n\r\n{body}").as_bytes());
}

#[test]
fn a_model_that_takes_long_is_asked_once_and_its_answer_is_fetched() {
    let model = SlowModel::start();
    let server = Server::start_with(&[LIMIT, ("HINDCAST_KNOWLEDGE_OLLAMA_URL", &model.address)]);
    let key = server.unlimited_key();
    let document = json!({ "collection": "x", "name": "n", "text": "the otter swims" });
    let mut added = json!({});
    while !added["result"].is_object() {
        added = server.call(&key, "knowledge/add", document.clone());
    }
    let ask = || server.call(&key, "knowledge/ask", json!({ "question": "what does the otter do?" }));
    let late = ask();
    assert_eq!(late["error"]["data"]["retry"], "same_request", "{late}");
    model.asked.recv().unwrap();
    model.answer.send("It swims.").unwrap();
    let mut answer = json!({});
    while !answer["result"].is_object() {
        answer = ask();
        assert!(
            answer["result"].is_object() || answer["error"]["data"]["retry"] == "same_request",
            "{answer}"
        );
    }
    assert_eq!(answer["result"]["structuredContent"]["answer"], "It swims.", "{answer}");
    assert!(model.asked.try_recv().is_err(), "the model was asked again");
}
