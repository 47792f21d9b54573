//! The embedding model: how it comes to the machine, and what is found with it.

use std::{
    io::{BufRead, BufReader, Write},
    net::{TcpListener, TcpStream},
    path::{Path, PathBuf},
};

use serde_json::{Value, json};

use super::Client;
use crate::sdk;

/// Texts without a word in common with the questions about them.
const NOTES: [(&str, &str); 3] = [
    ("kitchen", "Simmer the onions in butter until golden, then pour in the stock."),
    ("garage", "The vehicle will not start when the battery is flat."),
    ("garden", "Prune roses in late winter, before new shoots appear."),
];

fn add_notes(client: &mut Client) -> Value {
    let mut last = Value::Null;
    for (name, text) in NOTES {
        last = client.call("knowledge/add", json!({ "collection": "house", "name": name, "text": text }));
    }
    last
}

/// A hub on this machine, with the model's real files.
fn hub(models: PathBuf) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = format!("http://{}", listener.local_addr().unwrap());
    std::thread::spawn(move || {
        for connection in listener.incoming().map_while(Result::ok) {
            let models = models.clone();
            std::thread::spawn(move || give_file(connection, &models));
        }
    });
    address
}

fn give_file(mut connection: TcpStream, models: &Path) {
    let mut head = BufReader::new(connection.try_clone().unwrap()).lines().map_while(Result::ok);
    let line = head.next().unwrap_or_default();
    head.take_while(|line| !line.is_empty()).for_each(drop);
    let path = line.split(' ').nth(1).unwrap_or_default();
    let name = path.strip_prefix("/sentence-transformers/all-MiniLM-L6-v2/resolve/main/").unwrap_or("none");
    let answer = match std::fs::read(models.join("all-MiniLM-L6-v2").join(name)) {
        Ok(bytes) => [
            format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\nConnection: close\r\n\r\n", bytes.len())
                .into_bytes(),
            bytes,
        ]
        .concat(),
        Err(_) => b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\nConnection: close\r\n\r\n".to_vec(),
    };
    // A client that has gone does not matter.
    let _ = connection.write_all(&answer);
}

#[test]
fn the_model_comes_at_the_first_need_and_finds_what_is_said_in_other_words() {
    let Some(peers) = sdk::peers() else { return };
    let hub = hub(peers.join("models"));
    let environment = [("HINDCAST_KNOWLEDGE_FETCH_MODEL", "true"), ("HF_ENDPOINT", hub.as_str())];
    let mut client = Client::over(tempfile::tempdir().unwrap(), &environment);
    let added = add_notes(&mut client);
    assert_eq!(added.get("notices"), None, "{added}");
    assert!(client.data().join("models/all-MiniLM-L6-v2/model.safetensors").is_file());
    for (question, name) in [
        ("recipe for soup", "kitchen"),
        ("why does my car not go", "garage"),
        ("when should I cut back flowers", "garden"),
    ] {
        for mode in ["dense", "hybrid"] {
            let found = client
                .call("knowledge/search", json!({ "query": question, "mode": mode, "min_relevance": 0.0 }));
            assert_eq!(found["hits"][0]["document"], name, "{question}, {mode}: {found}");
            assert_eq!(found.get("notices"), None, "{found}");
        }
    }
    let stats = client.read_json("resource://knowledge/house/stats");
    assert_eq!(stats["healthStatus"]["hasMissingVectors"], false, "{stats}");
    assert!(stats["storageMetrics"]["vectorStorageBytes"].as_u64().unwrap() >= 3 * 384 * 2, "{stats}");
}

#[test]
fn without_a_model_documents_are_found_by_words_and_that_is_said() {
    let nobody = "http://127.0.0.1:1";
    let environment =
        [("HINDCAST_KNOWLEDGE_FETCH_MODEL", "true"), ("HF_ENDPOINT", nobody), ("PIP_INDEX_URL", nobody)];
    let mut client = Client::over(tempfile::tempdir().unwrap(), &environment);
    let added = add_notes(&mut client);
    let notice = added["notices"][0].as_str().unwrap_or_else(|| panic!("{added}"));
    assert!(
        notice.starts_with("found by words only, not by meaning: ") && notice.contains("127.0.0.1:1"),
        "{notice}"
    );
    let found = client.call("knowledge/search", json!({ "query": "prune roses" }));
    assert_eq!(found["hits"][0]["document"], "garden", "{found}");
    let stats = client.read_json("resource://knowledge/house/stats");
    assert_eq!(stats["healthStatus"]["hasMissingVectors"], true, "{stats}");
}

#[test]
fn a_long_file_tells_how_far_its_passages_are_embedded() {
    let Some(peers) = sdk::peers() else { return };
    let (files, data) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let model = peers.join("models/all-MiniLM-L6-v2");
    let pulled =
        crate::server::try_hindcast(data.path(), &["models", "pull", "--from", model.to_str().unwrap()]);
    assert!(pulled.status.success(), "{}", String::from_utf8_lossy(&pulled.stderr));
    let part = |number| format!("# Part {number}\n\nThe heron {number} stands in the water.\n\n");
    std::fs::write(files.path().join("long.md"), (0..600).map(part).collect::<String>()).unwrap();
    let mut client = Client::over(data, &[]);
    let request = json!({ "collection": "birds", "paths": [files.path()], "background": true });
    let ingest = client.call("knowledge/add", request)["ingest"].clone();
    let mut told = Vec::new();
    super::until("it has ended", || {
        let status = client.call("knowledge/status", json!({ "ingest": ingest }));
        let status = &status["ingests"][0];
        let embedded = status["message"].as_str().unwrap().strip_suffix(" of 600 passages embedded");
        told.extend(embedded.map(|embedded| embedded.rsplit(' ').next().unwrap().parse::<u64>().unwrap()));
        status["state"] != "running"
    });
    told.dedup();
    assert!(told.is_sorted() && told.iter().any(|embedded| (1..600).contains(embedded)), "{told:?}");
}
