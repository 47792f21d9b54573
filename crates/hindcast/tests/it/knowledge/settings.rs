//! Settings of one collection: its model, language and size of passages.

use std::{
    io::{BufRead, BufReader, Read, Write},
    net::{TcpListener, TcpStream},
    path::Path,
    process::{Command, Stdio},
};

use serde_json::{Value, json};

use super::{Client, knowledge};
use crate::{
    sdk,
    server::{command, try_hindcast},
};

fn filled() -> tempfile::TempDir {
    let data = tempfile::tempdir().unwrap();
    let notes = tempfile::tempdir().unwrap();
    for (name, text) in [
        ("heron", "The heron stands in the water of the lake and waits until a fish comes near."),
        ("owl", "The owl hunts at night and sleeps in the hollow of an old tree."),
    ] {
        std::fs::write(notes.path().join(format!("{name}.md")), text).unwrap();
    }
    knowledge(data.path(), &["add", "birds", notes.path().to_str().unwrap()]);
    data
}

#[test]
fn a_model_that_is_not_installed_is_not_confused_with_the_usual_one() {
    let data = filled();
    let refused = try_hindcast(data.path(), &["knowledge", "settings", "birds", "--model", "nonexist"]);
    let told = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert!(!refused.status.success() && told.contains("`nonexist` is not installed"), "{told}");
    assert!(
        told.contains("`hindcast models pull NAME`") && !told.contains("run `hindcast models pull`"),
        "{told}"
    );
}

/// Ollama's `/api/embed` with vectors of how often each letter occurs.
pub(super) fn ollama() -> String {
    ollama_heard(|_| ())
}

/// The same, which says what is to be embedded.
pub(super) fn ollama_heard(hears: impl Fn(&str) + Clone + Send + 'static) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = format!("http://{}", listener.local_addr().unwrap());
    std::thread::spawn(move || {
        for connection in listener.incoming().map_while(Result::ok) {
            let hears = hears.clone();
            std::thread::spawn(move || while answer(&connection, &hears).is_some() {});
        }
    });
    address
}

/// Answers one request; none when the client has gone.
fn answer(mut connection: &TcpStream, hears: &impl Fn(&str)) -> Option<()> {
    let mut reader = BufReader::new(connection);
    let mut head = String::new();
    while reader.read_line(&mut head).ok()? > 2 {}
    let length =
        head.lines().find_map(|line| line.to_lowercase().strip_prefix("content-length: ")?.parse().ok());
    let mut body = vec![0; length.unwrap_or(0)];
    reader.read_exact(&mut body).ok()?;
    let request: Value = serde_json::from_slice(&body).unwrap_or_default();
    let (status, text) = match (head.split(' ').nth(1)?, request["model"].as_str()) {
        ("/api/embed", Some("letters")) => {
            let vector = |text: &Value| {
                let mut counts = vec![0.01; 26];
                let text = text.as_str().unwrap_or_default();
                hears(text);
                for letter in text.bytes().filter(u8::is_ascii_lowercase) {
                    counts[usize::from(letter - b'a')] += 1.0;
                }
                json!(counts)
            };
            let vectors: Vec<_> = request["input"].as_array()?.iter().map(vector).collect();
            ("200 OK", json!({ "model": "letters", "embeddings": vectors }))
        }
        _ => ("404 Not Found", json!({ "error": "model not found" })),
    };
    let text = text.to_string();
    write!(connection, "HTTP/1.1 {status}\r\nContent-Length: {}\r\n\r\n{text}", text.len()).ok()
}

pub(super) fn settings(data: &Path, ollama: &str, arguments: &[&str]) -> std::process::Output {
    command()
        .arg("--data-dir")
        .arg(data)
        .args(["knowledge", "settings", "birds", "--json"])
        .args(arguments)
        .env("HINDCAST_KNOWLEDGE_OLLAMA_URL", ollama)
        .output()
        .unwrap()
}

#[test]
fn a_collection_is_embedded_by_a_model_of_ollama_and_says_so() {
    let (data, ollama) = (filled(), ollama());
    let refused = settings(data.path(), &ollama, &["--model", "ollama:nothing"]);
    let error = String::from_utf8_lossy(&refused.stderr);
    assert!(
        !refused.status.success() && error.contains("model not found") && error.contains("hint"),
        "{error}"
    );

    let changed = settings(data.path(), &ollama, &["--model", "ollama:letters", "--language", "en"]);
    let changed: Value = serde_json::from_slice(&changed.stdout)
        .unwrap_or_else(|_| panic!("{}", String::from_utf8_lossy(&changed.stderr)));
    assert_eq!(
        (&changed["vectors_by"], &changed["notices"]),
        (&json!("ollama:letters"), &json!([])),
        "{changed}"
    );

    let environment = [("HINDCAST_KNOWLEDGE_OLLAMA_URL", &*ollama)];
    let mut client = Client::over(data, &environment);
    let search =
        json!({ "query": "the owl hunts at night in the old tree", "mode": "dense", "min_relevance": 0.0 });
    let found = client.call("knowledge/search", search);
    assert_eq!(found["hits"][0]["document"], "owl", "{found}");
    assert_eq!(found.get("notices"), None, "{found}");
    let collections = client.read_json("resource://knowledge/collections");
    assert_eq!(
        collections[0]["settings"],
        json!({ "model": "ollama:letters", "language": "en" }),
        "{collections}"
    );
    let stats = client.read_json("resource://knowledge/birds/stats");
    assert_eq!(stats["healthStatus"]["hasMissingVectors"], false, "{stats}");
}

/// Makes a small random ModernBERT with this head in a folder; gives what the reference makes of the texts with it.
pub(super) fn tiny_model(peers: &Path, folder: &Path, head: &str, texts: &[Value]) -> Value {
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/../../peers/embedding/reference.py");
    let mut child = Command::new(peers.join("embedding/bin/python"))
        .arg(script)
        .arg(folder)
        .args(["modernbert", head])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let lines: Vec<_> = texts.iter().map(|text| format!("{text}\n")).collect();
    child.stdin.take().unwrap().write_all(lines.concat().as_bytes()).unwrap();
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success());
    serde_json::from_slice(&output.stdout).unwrap()
}

#[test]
fn a_model_of_a_folder_is_pulled_listed_and_chosen() {
    let Some(peers) = sdk::peers() else { return };
    let data = filled();
    let made = tempfile::tempdir().unwrap();
    tiny_model(&peers, made.path(), "none", &[]);
    let from = made.path().to_str().unwrap();
    let pulled = try_hindcast(data.path(), &["models", "pull", "tiny", "--from", from, "--json"]);
    assert!(pulled.status.success(), "{}", String::from_utf8_lossy(&pulled.stderr));
    let listed = try_hindcast(data.path(), &["models", "list", "--json"]);
    let listed: Value = serde_json::from_slice(&listed.stdout).unwrap();
    let names: Vec<_> = listed.as_array().unwrap().iter().map(|row| row["name"].as_str().unwrap()).collect();
    assert_eq!(names, ["all-MiniLM-L6-v2", "multilingual-e5-small", "ms-marco-MiniLM-L6-v2", "tiny"]);
    assert_eq!((&listed[3]["installed"], &listed[3]["dimensions"]), (&json!(true), &json!(48)));

    let chosen = knowledge(data.path(), &["settings", "birds", "--model", "tiny"]);
    assert_eq!(chosen["vectors_by"], "tiny", "{chosen}");
    let back = knowledge(data.path(), &["settings", "birds", "--model", ""]);
    assert_eq!((&back["model"], &back["vectors_by"]), (&Value::Null, &json!("tiny")), "{back}");
    assert!(back["notices"][0].as_str().is_some_and(|notice| notice.contains("models pull")), "{back}");
}
