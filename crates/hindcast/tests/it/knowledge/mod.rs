//! The knowledge base, as its users and its contract have it.

mod bad_files;
mod contract;
mod crash;
mod documents;
mod finding;
mod meaning;
mod ollama;
mod ownership;
mod qdrant;
mod questions;
mod reranking;
mod seeded;
mod settings;
mod sources;
pub(crate) mod subscriptions;
mod telling;
mod transfer;
mod two_processes;
mod watching;
mod web;

use std::{
    path::Path,
    sync::Arc,
    time::{Duration, Instant},
};

use serde_json::{Value, json};

use crate::server::{Local, try_hindcast};

/// A client of `hindcast mcp` that remembers what it was told meanwhile.
pub(crate) struct Client {
    local: Local,
    heard: Vec<Value>,
    last: u64,
}

impl Client {
    pub(crate) fn new() -> Self {
        Self::over(tempfile::tempdir().unwrap(), &[])
    }

    /// Another client of the same data folder, with a process of its own.
    pub(crate) fn beside(&self) -> Self {
        self.beside_with(&[])
    }

    /// The same, with variables of the environment.
    pub(crate) fn beside_with(&self, environment: &[(&str, &str)]) -> Self {
        Self::over(self.local.folder.clone(), environment)
    }

    /// Kills the process without warning; the data stays as long as another client has it.
    pub(crate) fn kill(self) {
        drop(self.local);
    }

    pub(crate) fn over(folder: impl Into<Arc<tempfile::TempDir>>, environment: &[(&str, &str)]) -> Self {
        let local = Local::start_in(folder, environment).initialize();
        Self { local, heard: Vec::new(), last: 100 }
    }

    /// One that a command starts which ends with the program itself.
    pub(crate) fn by(folder: Arc<tempfile::TempDir>, command: std::process::Command) -> Self {
        Self { local: Local::run(folder, command).initialize(), heard: Vec::new(), last: 100 }
    }

    pub(crate) fn data(&self) -> &Path {
        self.local.folder.path()
    }

    /// The whole answer.
    pub(crate) fn request(&mut self, method: &str, params: Value) -> Value {
        self.last += 1;
        let id = self.last;
        self.send(&json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params }))
    }

    /// Asks, and does not wait for the answer.
    pub(crate) fn tell(&mut self, method: &str, params: Value) {
        self.last += 1;
        let request = json!({ "jsonrpc": "2.0", "id": self.last, "method": method, "params": params });
        self.local.send(request.to_string().as_bytes());
    }

    /// Sends a request as it is; gives the answer.
    pub(crate) fn send(&mut self, request: &Value) -> Value {
        self.local.send(request.to_string().as_bytes());
        loop {
            let message = self.local.answer().expect("it ended");
            if message["id"] == request["id"] {
                return message;
            }
            self.heard.push(message);
        }
    }

    /// What a tool answers as data.
    #[track_caller]
    pub(crate) fn call(&mut self, tool: &str, arguments: Value) -> Value {
        let answer = self.request("tools/call", json!({ "name": tool, "arguments": arguments }));
        assert_eq!(answer["error"], Value::Null, "{tool}");
        answer["result"]["structuredContent"].clone()
    }

    /// The text of a resource.
    #[track_caller]
    pub(crate) fn read(&mut self, uri: &str) -> String {
        let answer = self.request("resources/read", json!({ "uri": uri }));
        let text = answer["result"]["contents"][0]["text"].as_str();
        text.unwrap_or_else(|| panic!("{uri}: {answer}")).to_owned()
    }

    #[track_caller]
    pub(crate) fn read_json(&mut self, uri: &str) -> Value {
        serde_json::from_str(&self.read(uri)).unwrap()
    }

    pub(crate) fn subscribe(&mut self, uri: &str) {
        let answer = self.request("resources/subscribe", json!({ "uri": uri }));
        assert_eq!(answer["result"], json!({}), "{answer}");
    }

    /// The URIs that were told to have changed until `uri` was, and how long that took.
    pub(crate) fn hear(&mut self, uri: &str) -> Duration {
        let started = Instant::now();
        loop {
            let is_it = |message: &Value| {
                message["method"] == "notifications/resources/updated" && message["params"]["uri"] == uri
            };
            if let Some(index) = self.heard.iter().position(is_it) {
                self.heard.remove(index);
                return started.elapsed();
            }
            let message = self.local.answer().expect("it ended");
            self.heard.push(message);
        }
    }

    /// Waits for a notification of this method, unless there was one since the last that was waited for.
    pub(crate) fn hear_of(&mut self, method: &str) -> Value {
        loop {
            if let Some(index) = self.heard.iter().position(|message| message["method"] == method) {
                return self.heard.remove(index);
            }
            let message = self.local.answer().expect("it ended");
            self.heard.push(message);
        }
    }

    /// Whether it was told of a change at this URI so far.
    pub(crate) fn has_heard(&self, uri: &str) -> bool {
        self.heard.iter().any(|message| message["params"]["uri"] == uri)
    }

    pub(crate) fn forget(&mut self) {
        self.heard.clear();
    }
}

/// Waits longer than [`crate::server::eventually`]: many files are taken in meanwhile.
#[track_caller]
pub(crate) fn until(what: &str, mut met: impl FnMut() -> bool) {
    let started = Instant::now();
    while !met() {
        assert!(started.elapsed() < Duration::from_secs(60), "never happened: {what}");
        std::thread::park_timeout(Duration::from_millis(50));
    }
}

/// Runs `hindcast knowledge …` and reads its JSON.
#[track_caller]
pub(crate) fn knowledge(data: &Path, arguments: &[&str]) -> Value {
    let mut all = vec!["knowledge"];
    all.extend(arguments);
    all.push("--json");
    let output = try_hindcast(data, &all);
    serde_json::from_slice(&output.stdout)
        .unwrap_or_else(|_| panic!("{arguments:?}: {}", String::from_utf8_lossy(&output.stderr)))
}
