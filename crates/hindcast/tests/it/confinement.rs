//! What a tenant of `hindcast serve` launches is kept from the server, its data and other tenants, and leaves nothing behind.

use std::path::{Path, PathBuf};

use base64::{Engine as _, prelude::BASE64_STANDARD};
use hindcast_fixtures::Fixture;
use serde_json::{Value, json};

use crate::{
    debugger::is_alive,
    server::{Server, eventually, helpful_error},
};

/// A server whose tenants see the fixtures, and the key of one.
struct Hosted {
    server: Server,
    key: String,
}

impl Hosted {
    fn start() -> Self {
        Self::start_with(&[])
    }

    fn start_with(environment: &[(&str, &str)]) -> Self {
        let fixtures = fixtures_folder();
        let sources = Fixture::c("escapes").build().source;
        let readable = format!("{},{}", fixtures.display(), sources.parent().unwrap().display());
        let mut all = vec![("HINDCAST_DEBUG_READABLE", readable.as_str())];
        all.extend(environment);
        let server = Server::start_with(&all);
        let key = server.tenant_key();
        Self { server, key }
    }

    fn call(&self, tool: &str, arguments: Value) -> String {
        let answer = self.server.call(&self.key, tool, arguments);
        let text = answer["result"]["content"][0]["text"].as_str();
        text.unwrap_or_else(|| panic!("{tool}: {answer}")).to_owned()
    }

    fn refused(&self, tool: &str, arguments: Value) -> Value {
        helpful_error(&self.server.call(&self.key, tool, arguments))
    }

    /// Lets the program try things, and gives what it says of each.
    fn attempt(&self, attempts: &[(&str, &str)]) -> String {
        let args: Vec<_> = attempts.iter().flat_map(|(what, with)| [*what, *with]).collect();
        let program = Fixture::c("escapes").build().path;
        let arguments = json!({ "program": program, "args": args, "stop_at_entry": false, "record": false });
        self.call("debugger/launch", arguments);
        let ended = self.call("debugger/wait", json!({ "until": "exited", "timeout_ms": 60_000 }));
        assert!(ended.contains("exit code 7") || ended.contains("code 7"), "{ended}");
        self.call("debugger/read_output", json!({ "limit": 65536 }))
    }

    /// The processes that the server has started, at any depth.
    fn processes(&self) -> Vec<u64> {
        let mut found = vec![u64::from(self.server.pid())];
        let mut at = 0;
        while let Some(&parent) = found.get(at) {
            found.extend(children_of(parent));
            at += 1;
        }
        found.split_off(1)
    }
}

fn fixtures_folder() -> PathBuf {
    let built = Fixture::c("escapes").build().path;
    built.parent().and_then(Path::parent).unwrap().canonicalize().unwrap()
}

fn children_of(pid: u64) -> Vec<u64> {
    let tasks = std::fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten();
    let lists = tasks.filter_map(|task| std::fs::read_to_string(task.path().join("children")).ok());
    lists
        .flat_map(|list| list.split_whitespace().map(|pid| pid.parse().unwrap()).collect::<Vec<_>>())
        .collect()
}

/// Each attempt that was not refused.
fn succeeded(told: &str) -> Vec<&str> {
    told.lines().filter(|line| line.contains(": done")).collect()
}

#[test]
fn a_tenants_program_sees_nothing_of_the_server_and_of_others() {
    let hosted = Hosted::start_with(&[("SECRET_OF_THE_OPERATOR", "hunter2")]);
    let data = hosted.server.data.canonicalize().unwrap();
    let data = |name: &str| data.join(name).display().to_string();
    let (database, key, journal) = (data("hindcast.db"), data("audit.key"), data("hindcast.journal"));
    let server = hosted.server.pid().to_string();
    let environ = format!("/proc/{server}/environ");
    let port = hosted.server.address.port().to_string();
    let told = hosted.attempt(&[
        ("read", &database),
        ("read", &key),
        ("read", &journal),
        ("read", "/etc/shadow"),
        ("read", &environ),
        ("list", "/root"),
        ("list", "/home"),
        ("write", "/usr/bin/planted"),
        ("write", "/etc/ld.so.cache"),
        ("write", "/proc/sys/kernel/core_pattern"),
        ("write", "/proc/sysrq-trigger"),
        ("kill", &server),
        ("trace", &server),
        ("reach", &port),
        ("variable", "SECRET_OF_THE_OPERATOR"),
        ("variable", "PATH"),
        ("processes", "-"),
        ("user", "-"),
    ]);
    let shown: Vec<_> = succeeded(&told).into_iter().filter(|line| !line.starts_with("processes")).collect();
    assert!(shown.is_empty(), "{shown:?} in {told}");
    assert!(told.contains("variable SECRET_OF_THE_OPERATOR: unset"), "{told}");
    assert!(told.contains("variable PATH: /usr/local/sbin:"), "{told}");
    let seen = told.lines().find_map(|line| line.strip_prefix("processes -: done (")).unwrap();
    let seen: u64 = seen.trim_end_matches(')').parse().unwrap();
    assert!(seen < 10, "it sees its worker and itself, not {seen} processes");
    assert!(!told.contains("user -: 0"), "{told}");
}

#[test]
fn a_tenants_program_cannot_change_its_confinement() {
    let hosted = Hosted::start();
    let told = hosted.attempt(&[
        ("mount", "/tmp"),
        ("unmount", "/usr"),
        ("unmount", "/proc"),
        ("namespace", "-"),
        ("cloned_namespace", "-"),
        ("ring", "-"),
        ("family", "40"),
        ("family", "17"),
        ("root", "-"),
        ("device", "-"),
    ]);
    assert!(succeeded(&told).is_empty(), "{told}");
    let allowed =
        hosted.attempt(&[("write", "/tmp/own"), ("write", "/dev/null"), ("family", "2"), ("family", "1")]);
    assert_eq!(succeeded(&allowed).len(), 4, "{allowed}");
}

#[test]
fn bombs_stay_within_their_limits_and_leave_nothing_behind() {
    let limits = [
        ("HINDCAST_DEBUG_PROCESSES", "100"),
        ("HINDCAST_DEBUG_MEMORY_BYTES", "134217728"),
        ("HINDCAST_DEBUG_FILE_BYTES", "8388608"),
    ];
    let hosted = Hosted::start_with(&limits);
    let told = hosted.attempt(&[("fill", "/tmp"), ("memory", "-"), ("fork", "-")]);
    let number = |what: &str| -> u64 {
        let line =
            told.lines().find(|line| line.starts_with(what)).unwrap_or_else(|| panic!("{what}: {told}"));
        line.rsplit('(').next().unwrap().trim_end_matches(')').parse().unwrap()
    };
    assert!((1..=8).contains(&number("fill")), "{told}");
    assert!((16..=128).contains(&number("memory")), "{told}");
    assert!((8..=100).contains(&number("fork")), "{told}");
    let processes = hosted.processes();
    hosted.call("debugger/disconnect", json!({}));
    for process in processes {
        eventually("a process of the session ends", || !is_alive(process));
    }
}

#[test]
fn time_travel_works_inside_as_outside() {
    let hosted = Hosted::start();
    let built = Fixture::c("calls").build();
    let launched =
        hosted.call("debugger/launch", json!({ "program": built.path, "args": ["3"], "terminal": true }));
    for layer in
        ["mount namespace", "pid namespace", "network namespace", "no_new_privs", "seccomp", "rlimits"]
    {
        assert!(launched.contains(layer), "{layer}: {launched}");
    }
    assert!(!launched.contains("not recorded"), "{launched}");
    hosted.call("debugger/set_breakpoint", json!({ "function": "square" }));
    let first = hosted.call("debugger/continue", json!({}));
    assert!(first.starts_with("Stopped at breakpoint 1"), "{first}");
    assert!(first.contains(&format!("calls.c:{}", built.line("square_body"))), "{first}");
    let second = hosted.call("debugger/continue", json!({}));
    let number = hosted.call("debugger/evaluate", json!({ "expression": "number" }));
    assert!(number.ends_with("= 1"), "{second}: {number}");
    hosted.call("debugger/reverse_continue", json!({}));
    let number = hosted.call("debugger/evaluate", json!({ "expression": "number" }));
    assert!(number.ends_with("= 0"), "{number}");
    hosted.call("debugger/remove_breakpoint", json!({ "id": "all" }));
    hosted.call("debugger/goto", json!({ "moment": "present" }));
    let ended = hosted.call("debugger/continue", json!({}));
    assert!(ended.contains("sum 30 product 120"), "{ended}");
    let back = hosted.call("debugger/reverse_continue", json!({}));
    assert!(!back.contains("error"), "{back}");
    let processes = hosted.processes();
    assert!(!processes.is_empty());
    hosted.call("debugger/disconnect", json!({}));
    for process in processes {
        eventually("a process of the session ends", || !is_alive(process));
    }
}

#[test]
fn nothing_outside_exists_for_attach() {
    let hosted = Hosted::start();
    let own = std::process::id();
    let server = hosted.server.pid();
    let mut answers = Vec::new();
    for pid in [own, server, 1, 4_000_000] {
        let refused = hosted.refused("debugger/attach", json!({ "pid": pid }));
        answers.push(refused.to_string().replace(&pid.to_string(), "PID"));
    }
    assert!(answers.windows(2).all(|two| two[0] == two[1]), "{answers:#?}");
    // The holder of the other scope may.
    let unconfined = hosted.server.unlimited_key();
    let refused = hosted.server.call(&unconfined, "debugger/attach", json!({ "pid": server }));
    assert!(
        refused["error"]["data"]["details"].as_str().unwrap().contains("belongs to hindcast"),
        "{refused}"
    );
}

#[test]
fn programs_and_files_that_a_tenant_cannot_see_are_refused_whether_they_are_there_or_not() {
    let hosted = Hosted::start();
    let there = hosted.server.data.join("audit.key").canonicalize().unwrap();
    let missing = there.with_file_name("missing");
    for argument in ["program", "core", "trace"] {
        let refused = |path: &Path| {
            let refused = hosted.refused("debugger/launch", json!({ argument: path }));
            refused.to_string().replace(path.to_str().unwrap(), "PATH")
        };
        assert_eq!(refused(&there), refused(&missing), "{argument}");
    }
}

#[test]
fn a_killed_server_takes_its_confined_programs_along() {
    let hosted = Hosted::start();
    let launch = json!({ "program": Fixture::c("idle").build().path, "record": true });
    hosted.call("debugger/launch", launch);
    let processes = hosted.processes();
    assert!(processes.len() >= 2, "{processes:?}");
    hosted.server.kill();
    for process in processes {
        eventually("a process of the session ends", || !is_alive(process));
    }
}

#[test]
fn a_tenant_brings_a_program_debugs_it_and_sees_no_other_workspace() {
    let server = Server::start_with(&[("HINDCAST_DEBUG_WORKSPACE_BYTES", "400000")]);
    let (owner, stranger) = (server.tenant_key(), server.tenant_key());
    let done = |key: &str, tool: &str, arguments: Value| {
        let answer = server.call(key, tool, arguments);
        assert!(answer["result"].is_object(), "{tool}: {answer}");
        answer["result"]["structuredContent"].clone()
    };
    let program = std::fs::read(Fixture::c("escapes").build().path).unwrap();
    // In two pieces, as large ones come.
    let (first, rest) = program.split_at(program.len() / 2);
    for (piece, append) in [(first, false), (rest, true)] {
        let base64 = BASE64_STANDARD.encode(piece);
        let arguments =
            json!({ "path": "build/escapes", "base64": base64, "append": append, "executable": true });
        done(&owner, "workspace/put", arguments);
    }
    done(&owner, "workspace/put", json!({ "path": "notes.txt", "text": "mine" }));
    let listed = done(&owner, "workspace/list", json!({}));
    assert_eq!(listed["files"][0]["path"], "build/escapes", "{listed}");
    assert_eq!(listed["files"][0]["bytes"], program.len(), "{listed}");
    let folder = listed["folder"].as_str().unwrap();
    let others = done(&stranger, "workspace/list", json!({}));
    assert_eq!(others["files"], json!([]), "{others}");
    assert_ne!(others["folder"], listed["folder"]);

    let attempts = ["read", "notes.txt", "write", "made.txt", "list", others["folder"].as_str().unwrap()];
    let launch =
        json!({ "program": "build/escapes", "args": attempts, "stop_at_entry": false, "record": false });
    done(&owner, "debugger/launch", launch.clone());
    done(&owner, "debugger/wait", json!({ "until": "exited", "timeout_ms": 60_000 }));
    let told = server.call(&owner, "debugger/read_output", json!({})).to_string();
    assert!(told.contains("read notes.txt: done") && told.contains("write made.txt: done"), "{told}");
    assert!(told.contains(": refused (ENOENT)"), "{told}");
    assert_eq!(done(&owner, "workspace/list", json!({}))["files"].as_array().unwrap().len(), 2, "it is gone");

    // Nothing of it is there for others, by whatever path.
    let stolen = format!("{folder}/build/escapes");
    for path in [stolen.as_str(), "build/escapes", "../build/escapes"] {
        helpful_error(&server.call(&stranger, "debugger/launch", json!({ "program": path })));
    }
    for path in ["../x", "/etc/x", "", stolen.as_str()] {
        helpful_error(&server.call(&stranger, "workspace/put", json!({ "path": path, "text": "x" })));
        helpful_error(&server.call(&stranger, "workspace/remove", json!({ "path": path })));
    }
    let full = helpful_error(&server.call(
        &owner,
        "workspace/put",
        json!({ "path": "large", "text": "x".repeat(400_000) }),
    ));
    assert_eq!(full["code"], -32002, "{full}");
    assert!(full["data"]["hint"].as_str().unwrap().contains("build/escapes"), "{full}");
    done(&owner, "workspace/remove", json!({ "path": "build" }));
    assert_eq!(done(&owner, "workspace/list", json!({}))["bytes"], 4);
}
