//! Programs that debug adapters debug, as the users of the built binary see them: real adapters, the same program in every
//! language.

mod attaching;
mod bad_adapters;
mod caught;
mod confined;
mod controls;
mod doctor;
mod examples;
mod failures;
mod killing;
mod oracle;
mod pages;
mod peers;
mod processes;
mod profiles;
mod python;
mod schema;
mod scripts;
mod steady;
mod tour;
mod unwritten;

use hindcast_fixtures::adapters::{self, Script};
use serde_json::{Value, json};

use crate::knowledge::Client;

/// A language, and how its program says things.
#[derive(Clone)]
struct Tongue {
    script: Script,
    /// The function that fails.
    fail: &'static str,
    /// What it raises.
    raises: &'static str,
    /// The exit code of a program that dies of it.
    dies_with: i32,
    /// How a call is written; none where the adapter cannot call.
    call: Option<&'static str>,
    /// Whether variables can be assigned to.
    assigns: bool,
}

fn python() -> Tongue {
    Tongue {
        script: Script::new("python/shop.py"),
        fail: "fail",
        raises: "ValueError",
        dies_with: 1,
        call: Some("total([1, 2])"),
        assigns: true,
    }
}

fn javascript() -> Tongue {
    Tongue {
        script: Script::new("javascript/shop.js"),
        fail: "fail",
        raises: "TypeError",
        dies_with: 1,
        call: Some("total([1, 2])"),
        assigns: true,
    }
}

fn go() -> Tongue {
    Tongue {
        script: Script::new("go/shop/main.go"),
        fail: "fail",
        raises: "panic",
        dies_with: 2,
        call: None,
        assigns: true,
    }
}

fn java() -> Tongue {
    Tongue {
        script: Script::new("java/Shop.java"),
        fail: "fail",
        raises: "java.lang.IllegalArgumentException",
        dies_with: 1,
        call: None,
        assigns: false,
    }
}

fn ruby() -> Tongue {
    Tongue {
        script: Script::new("ruby/shop.rb"),
        fail: "fail_with",
        raises: "ArgumentError",
        dies_with: 1,
        call: Some("total([1, 2])"),
        assigns: true,
    }
}

/// A client that finds the adapters; none where these tests are skipped.
fn client() -> Option<Client> {
    client_with(&[])
}

/// The same with more variables.
fn client_with(more: &[(&str, &str)]) -> Option<Client> {
    let environment = adapters::environment()?;
    let folder = tempfile::tempdir().unwrap();
    let mark = folder.path().display().to_string();
    let mut environment: Vec<(&str, &str)> =
        environment.iter().map(|(name, value)| (*name, value.as_str())).collect();
    environment.extend(more);
    environment.push((MARK, &mark));
    Some(Client::over(folder, &environment))
}

/// The variable by which the processes of a client are known, whatever they are.
const MARK: &str = "STARTED_BY_TEST";

/// The text of a call that succeeds.
#[track_caller]
fn text(client: &mut Client, tool: &str, arguments: Value) -> String {
    let name = format!("debugger/{tool}");
    let answer = client.request("tools/call", json!({ "name": name, "arguments": arguments }));
    let text = answer["result"]["content"][0]["text"].as_str();
    text.unwrap_or_else(|| panic!("{tool}: {answer}")).to_owned()
}

/// The data of a call that succeeds.
#[track_caller]
fn data(client: &mut Client, tool: &str, arguments: Value) -> Value {
    let name = format!("debugger/{tool}");
    let answer = client.request("tools/call", json!({ "name": name, "arguments": arguments }));
    assert_eq!(answer["error"], Value::Null, "{tool} {arguments}");
    answer["result"]["structuredContent"].clone()
}

/// The error of a call that fails: its code, and `details · hint`.
#[track_caller]
fn refused(client: &mut Client, tool: &str, arguments: Value) -> (i64, String) {
    let name = format!("debugger/{tool}");
    let answer = client.request("tools/call", json!({ "name": name, "arguments": arguments }));
    let error = crate::server::helpful_error(&answer);
    let said = |field: &str| error["data"][field].as_str().unwrap_or_default().to_owned();
    (error["code"].as_i64().unwrap(), format!("{} · {}", said("details"), said("hint")))
}

/// Launches a program with this input; it stops at its beginning.
#[track_caller]
fn launch(client: &mut Client, script: &Script, input: &str) -> Value {
    let folder = script.path.parent().unwrap();
    let launched = data(
        client,
        "launch",
        json!({ "program": script.path, "cwd": folder, "stdin": input, "timeout_ms": 60_000 }),
    );
    assert_eq!(launched["reason"], "entry", "{launched}");
    launched
}

/// The value of a local variable at a stop.
#[track_caller]
fn local(stop: &Value, name: &str) -> String {
    let locals = stop["locals"].as_array().cloned().unwrap_or_default();
    let found = locals.iter().find(|local| local["name"] == name);
    found.unwrap_or_else(|| panic!("no `{name}` in {stop}"))["value"].as_str().unwrap().to_owned()
}

/// The server, and all processes that it and its sessions have started; workers have no variables.
fn left_over(client: &Client) -> Vec<String> {
    let mark = format!("{MARK}={}\0", client.data().display());
    let mut found = Vec::new();
    for entry in std::fs::read_dir("/proc").unwrap().flatten() {
        let Some(pid) = entry.file_name().to_str().and_then(|name| name.parse::<u32>().ok()) else {
            continue;
        };
        let read = |file: &str| std::fs::read(format!("/proc/{pid}/{file}")).unwrap_or_default();
        let contains = |bytes: &[u8]| String::from_utf8_lossy(bytes).contains(&mark);
        let line = String::from_utf8_lossy(&read("cmdline")).replace('\0', " ");
        if contains(&read("environ")) && !line.is_empty() {
            found.push(format!("{pid} {line}"));
        }
    }
    found
}
