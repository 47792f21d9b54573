//! Answers: with no Ollama at all, and with what stands in for one.

use serde_json::{Value, json};

use super::Client;
use crate::server::helpful_error;

/// An address where nobody listens.
fn nobody() -> String {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    format!("http://{}", listener.local_addr().unwrap())
}

#[test]
fn without_ollama_asking_says_what_to_install_and_searching_works() {
    let mut client =
        Client::over(tempfile::tempdir().unwrap(), &[("HINDCAST_KNOWLEDGE_OLLAMA_URL", &nobody())]);
    client.call("knowledge/add", json!({ "collection": "x", "name": "n", "text": "the otter swims" }));
    let asked = client.request(
        "tools/call",
        json!({ "name": "knowledge/ask", "arguments": { "question": "what does the otter do?" } }),
    );
    let error = helpful_error(&asked);
    assert_eq!((&error["code"], &error["message"]), (&json!(-32011), &json!("Model unavailable")));
    assert!(error["data"]["hint"].as_str().unwrap().contains("ollama pull"), "{error}");
    let found = client.call("knowledge/search", json!({ "query": "otter", "min_relevance": 0.0 }));
    assert_eq!(found["hits"][0]["document"], "n");

    // One that was named must be there: it counts.
    let health = client.read_json("resource://system/health");
    assert_eq!(health["components"]["ollama"]["status"], "Offline");
    assert_eq!((&health["status"], &health["healthScore"]), (&json!("Warning"), &json!(66.7)));
    let models = client.read_json("resource://system/models");
    assert_eq!((&models["totalModels"], &models["recommendations"]["mostUsed"]), (&json!(0), &Value::Null));
}

#[test]
fn no_ollama_by_configuration_is_a_healthy_state() {
    let mut client = Client::over(tempfile::tempdir().unwrap(), &[("HINDCAST_KNOWLEDGE_OLLAMA_URL", "off")]);
    let health = client.read_json("resource://system/health");
    assert_eq!((&health["status"], &health["healthScore"]), (&json!("Healthy"), &json!(100.0)), "{health}");
    assert_eq!(health["metrics"]["successRate"], Value::Null, "no usage is no alarm");
    assert_eq!(health["recommendations"], json!([]));
}

/// A real llama.cpp server behind Ollama's protocol, ended when dropped; none where the peers are not installed.
struct Llama {
    process: std::process::Child,
    address: String,
    /// Where llama.cpp itself speaks OpenAI's protocol.
    openai: String,
}

impl Llama {
    fn start() -> Option<Self> {
        use std::io::BufRead as _;
        let peers = crate::sdk::peers()?;
        let script = concat!(env!("CARGO_MANIFEST_DIR"), "/../../peers/ollama/server.py");
        let mut process = std::process::Command::new(peers.join("python/bin/python"))
            .arg(script)
            .stdin(std::process::Stdio::piped())
            .stdout(std::process::Stdio::piped())
            .stderr(std::process::Stdio::null())
            .spawn()
            .unwrap();
        let lines = std::io::BufReader::new(process.stdout.take().unwrap()).lines();
        let mut addresses = lines.map_while(Result::ok).filter(|line| line.starts_with("http://"));
        let mut address = || addresses.next().expect("it prints its addresses");
        let (address, openai) = (address(), address());
        Some(Self { process, address, openai })
    }
}

impl Drop for Llama {
    fn drop(&mut self) {
        // It ends when its input does.
        drop(self.process.stdin.take());
        let _ = self.process.wait();
    }
}

#[test]
fn a_real_llama_answers_piece_by_piece_and_is_counted() {
    let Some(llama) = Llama::start() else { return };
    let environment = [("HINDCAST_KNOWLEDGE_OLLAMA_URL", &*llama.address)];
    let mut client = Client::over(tempfile::tempdir().unwrap(), &environment);
    client.call("knowledge/add", json!({ "collection": "x", "name": "n", "text": "the otter swims" }));
    let ask = json!({
        "name": "knowledge/ask",
        "arguments": { "question": "what does the otter do?" },
        "_meta": { "progressToken": "p" },
    });
    let answer = client.request("tools/call", ask);
    let said = &answer["result"]["structuredContent"];
    assert_eq!(said["model"], "tiny:latest", "{answer}");
    assert!(said["tokens"].as_u64().unwrap() > 24, "{answer}");
    assert_eq!(said["citations"][0]["document"], "n");
    let progress: Vec<_> =
        client.heard.iter().filter(|message| message["method"] == "notifications/progress").collect();
    let last = progress.last().expect("the answer came in pieces")["params"]["message"].as_str().unwrap();
    assert_eq!(said["answer"], last, "the last progress is the whole answer");

    let again = json!({ "question": "really?", "conversation_id": said["conversation_id"] });
    let again = client.call("knowledge/ask", again);
    assert_eq!(again["conversation_id"], said["conversation_id"]);
    let models = client.read_json("resource://system/models");
    let row = &models["models"][0];
    assert_eq!(
        (&row["name"], &row["conversations"], &row["successRate"]),
        (&json!("tiny:latest"), &json!(1), &json!("100%"))
    );
    assert_eq!(models["recommendations"]["mostUsed"], "tiny:latest");

    let wrong = json!({ "name": "knowledge/ask", "arguments": { "question": "what does the otter do?", "model": "none" } });
    let refused = client.request("tools/call", wrong);
    let details = refused["error"]["data"]["details"].as_str().unwrap();
    assert_eq!(details, "the model server refused: model 'none' not found");
}

#[test]
fn a_real_llama_answers_by_the_protocol_of_openai() {
    let Some(llama) = Llama::start() else { return };
    let environment = [("HINDCAST_KNOWLEDGE_OLLAMA_URL", &*llama.openai)];
    let mut client = Client::over(tempfile::tempdir().unwrap(), &environment);
    client.call("knowledge/add", json!({ "collection": "x", "name": "n", "text": "the otter swims" }));
    let said = client.call("knowledge/ask", json!({ "question": "what does the otter do?" }));
    assert!(said["tokens"].as_u64().unwrap() > 0 && !said["answer"].as_str().unwrap().is_empty(), "{said}");
    assert_eq!(said["citations"][0]["document"], "n");
    let again = client
        .call("knowledge/ask", json!({ "question": "does it?", "conversation_id": said["conversation_id"] }));
    assert_eq!(again["conversation_id"], said["conversation_id"]);
    let models = client.read_json("resource://system/models");
    assert_eq!(
        (&models["models"][0]["name"], &models["models"][0]["conversations"]),
        (&said["model"], &json!(1)),
        "{models}"
    );
}

/// Takes every connection and never says a word.
fn hung() -> (std::net::TcpListener, String) {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = format!("http://{}", listener.local_addr().unwrap());
    (listener, address)
}

#[test]
fn a_model_server_that_hangs_keeps_nobody_waiting() {
    for protocol in ["", "/v1"] {
        // The system accepts for it.
        let (_listener, address) = hung();
        let address = format!("{address}{protocol}");
        let mut client =
            Client::over(tempfile::tempdir().unwrap(), &[("HINDCAST_KNOWLEDGE_OLLAMA_URL", &*address)]);
        client.call("knowledge/add", json!({ "collection": "x", "name": "n", "text": "the otter swims" }));
        let begin = std::time::Instant::now();
        let health = client.read_json("resource://system/health");
        // The probe waits for two seconds.
        assert!(begin.elapsed().as_secs() < 6, "{:?}", begin.elapsed());
        assert_eq!(health["components"]["ollama"]["status"], "Degraded", "{health}");
        let asked = client.request(
            "tools/call",
            json!({ "name": "knowledge/ask", "arguments": { "question": "what does the otter do?" } }),
        );
        let error = helpful_error(&asked);
        assert_eq!((&error["code"], &error["message"]), (&json!(-32011), &json!("Model unavailable")));
        let found = client.call("knowledge/search", json!({ "query": "otter", "min_relevance": 0.0 }));
        assert_eq!(found["hits"][0]["document"], "n");
        // Ten seconds each was what they waited once; this bound has room for a busy machine.
        assert!(begin.elapsed().as_secs() < 20, "{:?}", begin.elapsed());
    }
}
