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
    let asked = client
        .request("tools/call", json!({ "name": "knowledge/ask", "arguments": { "question": "otter?" } }));
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
        let address = lines.map_while(Result::ok).find(|line| line.starts_with("http://"));
        Some(Self { process, address: address.expect("it prints its address") })
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
    assert_eq!(details, "Ollama refused: model 'none' not found");
}
