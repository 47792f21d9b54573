//! Scripts of tenants, which are debugged in a confinement together with their adapter.

use hindcast_fixtures::adapters;
use serde_json::json;

use crate::{
    debugger::is_alive,
    hosted::Hosted,
    server::{Server, eventually},
};

const SCRIPT: &str = "def add(n):\n    more = n + 1\n    return more\nprint(add(41))\n";

/// A server whose tenants see these folders, and use this Python.
fn start(readable: &[String], python: Option<&str>) -> Hosted {
    let folder = tempfile::tempdir().unwrap();
    let config = folder.path().join("config.toml");
    let mut text = format!("[debug]\nreadable = {readable:?}\n");
    if let Some(python) = python {
        text +=
            &format!("[debug.adapters.python]\ncommands = [[{python:?}, \"-c\", \"{{debugpy_adapter}}\"]]\n");
    }
    std::fs::write(&config, text).unwrap();
    let server = Server::start(&["--config", config.to_str().unwrap()]);
    let key = server.tenant_key();
    let hosted = Hosted { server, key };
    hosted.call("workspace/put", json!({ "path": "add.py", "text": SCRIPT }));
    hosted
}

#[test]
fn a_tenants_script_is_debugged_in_its_confinement() {
    let Some(python) = adapters::python_with_debugpy() else { return };
    // An environment is links to the installation that it was made from.
    let real = python.canonicalize().unwrap();
    let folders = [python.as_path(), real.as_path()]
        .map(|python| python.ancestors().nth(2).unwrap().display().to_string());
    let hosted = start(&folders, Some(python.to_str().unwrap()));
    let launched = hosted.call("debugger/launch", json!({ "program": "add.py" }));
    assert!(launched.contains("pid namespace") && launched.contains("Engine: Python"), "{launched}");
    hosted.call("debugger/set_breakpoint", json!({ "file": "add.py", "line": 3 }));
    hosted.call("debugger/continue", json!({}));
    let more = hosted.call("debugger/evaluate", json!({ "expression": "more" }));
    assert!(more.ends_with("= 42"), "{more}");
    let processes = hosted.processes();
    hosted.call("debugger/disconnect", json!({}));
    for process in processes {
        eventually("a process of the session ends", || !is_alive(process));
    }
}

#[test]
fn a_tenant_whose_adapter_is_hidden_is_told_what_the_operator_can_do() {
    let Some(python) = adapters::python_with_debugpy() else { return };
    let hosted = start(&[], Some(python.to_str().unwrap()));
    let refused = hosted.refused("debugger/launch", json!({ "program": "add.py" }));
    assert!(refused["data"]["hint"].as_str().unwrap().contains("debug.readable"), "{refused}");
}
