//! Scripts of tenants, which are debugged in a confinement together with their adapter.

use std::path::{Path, PathBuf};

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
    let adapters = python.map(|python| {
        format!("[debug.adapters.python]\ncommands = [[{python:?}, \"-c\", \"{{debugpy_adapter}}\"]]\n")
    });
    let hosted = start_with(readable, &adapters.unwrap_or_default());
    hosted.call("workspace/put", json!({ "path": "add.py", "text": SCRIPT }));
    hosted
}

/// A server whose tenants see these folders, with these lines in its configuration.
fn start_with(readable: &[String], more: &str) -> Hosted {
    let folder = tempfile::tempdir().unwrap();
    let config = folder.path().join("config.toml");
    std::fs::write(&config, format!("[debug]\nreadable = {readable:?}\n{more}")).unwrap();
    let server = Server::start(&["--config", config.to_str().unwrap()]);
    let key = server.tenant_key();
    Hosted { server, key }
}

/// A variable of the tests' own environment for the adapters.
fn variable(name: &str) -> Option<PathBuf> {
    let found = adapters::environment()?.into_iter().find(|(known, _)| *known == name);
    found.map(|(_, value)| PathBuf::from(value))
}

/// A program of a tenant stops in its function, is looked at, and goes with the session.
fn debug_confined(readable: &[&Path], more: &str, (file, text): (&str, &str), engine: &str) {
    let readable: Vec<_> = readable.iter().map(|folder| folder.display().to_string()).collect();
    let hosted = start_with(&readable, more);
    hosted.call("workspace/put", json!({ "path": file, "text": text }));
    let arguments = json!({ "program": file, "timeout_ms": 60_000 });
    let launched = hosted.call("debugger/launch", arguments);
    assert!(launched.contains("pid namespace") && launched.contains(engine), "{launched}");
    assert!(launched.contains("Stopped at entry"), "{launched}");
    hosted.call("debugger/set_breakpoint", json!({ "file": file, "statement": "return more" }));
    let stop = hosted.call("debugger/continue", json!({ "timeout_ms": 60_000 }));
    assert!(stop.contains("breakpoint 1"), "{stop}");
    let more = hosted.call("debugger/evaluate", json!({ "expression": "more" }));
    assert!(more.ends_with("= 42"), "{more}");
    let processes = hosted.processes();
    assert!(processes.len() > 2, "{processes:?}");
    hosted.call("debugger/continue", json!({ "timeout_ms": 60_000 }));
    let printed = hosted.call("debugger/read_output", json!({}));
    assert!(printed.contains("42"), "{printed}");
    hosted.call("debugger/disconnect", json!({}));
    for process in processes {
        eventually("a process of the session ends", || !is_alive(process));
    }
}

#[test]
fn javascript_of_a_tenant_is_debugged_in_its_confinement() {
    let Some(server) = variable("JS_DEBUG") else { return };
    let more = format!("[debug.adapters.javascript.locate]\nserver = [{server:?}]\n");
    let script = "function add(n) {\n  const more = n + 1;\n  return more;\n}\nconsole.log(add(41));\n";
    debug_confined(&[server.parent().unwrap()], &more, ("add.js", script), "Engine: JavaScript");
}

#[test]
fn ruby_of_a_tenant_is_debugged_in_its_confinement() {
    if adapters::environment().is_none() {
        return;
    }
    let script = "def add(n)\n  more = n + 1\n  return more\nend\nputs add(41)\n";
    debug_confined(&[], "", ("add.rb", script), "Engine: Ruby");
}

#[test]
fn java_of_a_tenant_is_debugged_in_its_confinement() {
    let Some(server) = variable("JAVA_DEBUG_ADAPTER") else { return };
    let more = format!("[debug.adapters.java.locate]\nserver = [{server:?}]\n");
    let script = "public class Add {\n  static int add(int n) {\n    int more = n + 1;\n    return more;\n  }\n\
        \x20 public static void main(String[] args) {\n    System.out.println(add(41));\n  }\n}\n";
    debug_confined(&[server.parent().unwrap()], &more, ("Add.java", script), "Engine: Java");
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
