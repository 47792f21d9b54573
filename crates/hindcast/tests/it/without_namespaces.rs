//! Where the system has no namespaces, Landlock keeps programs of tenants in, or nothing of them runs.

use std::{
    os::unix::fs::PermissionsExt as _,
    path::Path,
    process::{Command, Stdio},
};

use hindcast_fixtures::Fixture;
use serde_json::json;

use crate::{
    confinement::{check_forbidden_calls, layers_in_the_greeting},
    debugger::is_alive,
    hosted::{Hosted, attempt, succeeded},
    server::{HINDCAST, Server, command, eventually},
    workspaces::{is_root, put_program},
};

/// A server that cannot make namespaces, and the key of a tenant.
fn start(folder: &Path, environment: &[(&str, &str)]) -> Hosted {
    let usual = command();
    let mut command = Command::new(Fixture::c("without_namespaces").build().path);
    command.arg(HINDCAST).env("HINDCAST_LOG_LEVEL", "warn").stdin(Stdio::null());
    for (name, value) in usual.get_envs() {
        match value {
            Some(value) => command.env(name, value),
            None => command.env_remove(name),
        };
    }
    command.envs(environment.iter().copied());
    let server = Server::run(command, &folder.join("data"), &[], Stdio::inherit());
    let key = server.tenant_key();
    Hosted { server, key }
}

/// The same with workspaces that users of their own can enter.
fn start_with_open_workspaces(folder: &Path) -> Hosted {
    let workspaces = folder.join("workspaces");
    std::fs::create_dir(&workspaces).unwrap();
    for path in [folder, &workspaces] {
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o711)).unwrap();
    }
    start(folder, &[("HINDCAST_DEBUG_WORKSPACES", workspaces.to_str().unwrap())])
}

#[test]
fn landlock_keeps_programs_from_files_sockets_signals_and_terminals() {
    let folder = tempfile::tempdir().unwrap();
    let hosted = start_with_open_workspaces(folder.path());
    put_program(&hosted, &Fixture::c("escapes"), "escapes");
    hosted.call("workspace/put", json!({ "path": "notes.txt", "text": "mine" }));
    let stranger = hosted.server.tenant_key();
    let others = hosted.server.call(&stranger, "workspace/list", json!({}));
    let others = others["result"]["structuredContent"]["folder"].as_str().unwrap().to_owned();
    let data = |name: &str| folder.path().join("data").join(name).display().to_string();
    let (database, key) = (data("hindcast.db"), data("audit.key"));
    let server = hosted.server.pid().to_string();
    let environ = format!("/proc/{server}/environ");
    let port = hosted.server.address.port().to_string();
    let told = attempt(
        &hosted,
        Path::new("escapes"),
        &[
            ("read", &database),
            ("read", &key),
            ("read", "/etc/shadow"),
            ("read", &environ),
            ("list", &others),
            ("list", "/root"),
            ("list", "/tmp"),
            ("write", "/tmp/planted"),
            ("write", "planted"),
            ("write", "/dev/ptmx"),
            ("write", "/dev/tty"),
            ("list", "/dev/pts"),
            ("kill", &server),
            ("trace", &server),
            ("reach", &port),
            ("family", "1"),
            ("family", "2"),
            ("family", "16"),
            ("namespace", "-"),
            ("root", "-"),
            ("user", "-"),
        ],
    );
    assert!(succeeded(&told).is_empty(), "{told}");
    assert!(!told.contains("user -: 0"), "{told}");
    assert_eq!(told.lines().filter(|line| line.contains(": refused (")).count(), 20, "{told}");
    let allowed = [("read", "notes.txt"), ("read", "/usr/bin/env"), ("write", "/dev/null")];
    let allowed = attempt(&hosted, Path::new("escapes"), &allowed);
    assert_eq!(succeeded(&allowed).len(), 3, "{allowed}");
}

#[test]
fn each_forbidden_system_call_is_refused_without_namespaces() {
    let folder = tempfile::tempdir().unwrap();
    let hosted = start_with_open_workspaces(folder.path());
    put_program(&hosted, &Fixture::c("escapes"), "escapes");
    check_forbidden_calls(&hosted, Path::new("escapes"));
}

#[test]
fn the_greeting_says_that_there_is_landlock_and_no_namespace() {
    let folder = tempfile::tempdir().unwrap();
    let layers = layers_in_the_greeting(start_with_open_workspaces(folder.path()));
    assert!(layers.contains("Landlock") && !layers.contains("namespace"), "{layers}");
}

#[test]
fn time_travel_works_without_namespaces_and_the_answer_says_what_keeps_the_program_in() {
    let folder = tempfile::tempdir().unwrap();
    let hosted = start_with_open_workspaces(folder.path());
    put_program(&hosted, &Fixture::c("calls"), "calls");
    let launched = hosted.call("debugger/launch", json!({ "program": "calls", "args": ["3"] }));
    assert!(launched.contains("Landlock") && !launched.contains("namespace"), "{launched}");
    assert!(!launched.contains("not on this machine"), "{launched}");
    hosted.call("debugger/set_breakpoint", json!({ "function": "square" }));
    hosted.call("debugger/continue", json!({}));
    hosted.call("debugger/continue", json!({}));
    hosted.call("debugger/reverse_continue", json!({}));
    let number = hosted.call("debugger/evaluate", json!({ "expression": "number" }));
    assert!(number.ends_with("= 0"), "{number}");
    let processes = hosted.processes();
    hosted.call("debugger/disconnect", json!({}));
    for process in processes {
        eventually("a process of the session ends", || !is_alive(process));
    }
}

#[test]
fn what_landlock_cannot_hide_is_not_launched_beside() {
    let folder = tempfile::tempdir().unwrap();
    let real = folder.path().canonicalize().unwrap();
    let hosted = start(folder.path(), &[("HINDCAST_DEBUG_READABLE", real.to_str().unwrap())]);
    let refused = hosted.refused("debugger/launch", json!({ "program": "/usr/bin/true" }));
    assert_eq!(refused["code"], -32003, "{refused}");
    assert!(refused["data"]["details"].as_str().unwrap().contains("cannot be hidden"), "{refused}");
    assert!(refused["data"]["hint"].as_str().unwrap().contains("debug.readable"), "{refused}");
}

#[test]
fn a_workspace_that_programs_cannot_enter_is_told_of() {
    let folder = tempfile::tempdir().unwrap();
    let hosted = start(folder.path(), &[]);
    let launch = json!({ "program": "/usr/bin/true" });
    if !is_root() {
        // The programs are the server's own user, who may enter.
        hosted.call("debugger/launch", launch);
        return;
    }
    let refused = hosted.refused("debugger/launch", launch);
    assert!(refused["data"]["details"].as_str().unwrap().contains("cannot enter the workspace"), "{refused}");
    assert!(refused["data"]["hint"].as_str().unwrap().contains("debug.workspaces"), "{refused}");
}
