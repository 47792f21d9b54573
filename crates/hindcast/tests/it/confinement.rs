//! What a tenant of `hindcast serve` launches is kept from the server, its data and other tenants, and leaves nothing behind.

use std::{
    path::{Path, PathBuf},
    process::Command,
};

use hindcast_fixtures::Fixture;
use serde_json::json;

use crate::{
    debugger::is_alive,
    hosted::{Hosted, attempt, for_tenant, succeeded},
    server::{eventually, helpful_error, try_hindcast},
};

fn escapes() -> PathBuf {
    Fixture::c("escapes").build().path
}

#[test]
fn a_tenants_program_sees_nothing_of_the_server_and_of_others() {
    let hosted = for_tenant(&[("SECRET_OF_THE_OPERATOR", "hunter2")]);
    let data = hosted.server.data.canonicalize().unwrap();
    let data = |name: &str| data.join(name).display().to_string();
    let (database, key, journal) = (data("hindcast.db"), data("audit.key"), data("hindcast.journal"));
    let server = hosted.server.pid().to_string();
    let environ = format!("/proc/{server}/environ");
    let port = hosted.server.address.port().to_string();
    let told = attempt(
        &hosted,
        &escapes(),
        &[
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
        ],
    );
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
    let hosted = for_tenant(&[]);
    let told = attempt(
        &hosted,
        &escapes(),
        &[
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
        ],
    );
    assert!(succeeded(&told).is_empty(), "{told}");
    let allowed = attempt(
        &hosted,
        &escapes(),
        &[("write", "/tmp/own"), ("write", "/dev/null"), ("family", "2"), ("family", "1")],
    );
    assert_eq!(succeeded(&allowed).len(), 4, "{allowed}");
}

/// Whether the system runs calls of 32-bit programs.
fn has_narrow_calls() -> bool {
    let own_number = Command::new(escapes()).args(["narrow_call", "20"]).output().unwrap();
    own_number.status.code() == Some(7)
}

/// Lets `program`, which is the fixture `escapes`, try each system call that the filter is to refuse.
pub(crate) fn check_forbidden_calls(hosted: &Hosted, program: &Path) {
    let (wide, narrow) = hindcast_native::confine::forbidden_calls();
    assert!(wide.len() > 50 && narrow.len() > 50, "{wide:?}, {narrow:?}");
    let mut calls: Vec<_> = wide.into_iter().map(|number| ("call", number.to_string())).collect();
    if has_narrow_calls() {
        calls.extend(narrow.into_iter().map(|number| ("narrow_call", number.to_string())));
    } else {
        println!("SKIPPED: this system runs no calls of 32-bit programs");
    }
    let attempts: Vec<_> = calls.iter().map(|(kind, number)| (*kind, number.as_str())).collect();
    let told = attempt(hosted, program, &attempts);
    for (kind, number) in attempts {
        let refused = format!("{kind} {number}: refused (EPERM)");
        assert!(told.lines().any(|line| line == refused), "not {refused}: {told}");
    }
    // `clone3` hides what it makes. Numbers of the x32 ABI, here of `getpid`, would go past the table.
    let told = attempt(hosted, program, &[("call", "435"), ("call", "1073741863"), ("call", "39")]);
    assert_eq!(told.matches(": refused (ENOSYS)").count(), 2, "{told}");
    assert_eq!(succeeded(&told).len(), 1, "{told}");
}

#[test]
fn each_forbidden_system_call_is_refused_in_namespaces() {
    check_forbidden_calls(&for_tenant(&[]), &escapes());
}

/// What keeps programs in, as the greeting of a server that is ended for it tells.
pub(crate) fn layers_in_the_greeting(hosted: Hosted) -> String {
    let mut server = hosted.server;
    server.signal("TERM");
    assert!(server.ended().success());
    let greeting = server.rest_of_stdout();
    let mut lines = greeting.lines();
    let layers = lines.find_map(|line| line.strip_prefix("confinement of what keys launch: "));
    layers.unwrap_or_else(|| panic!("{greeting}")).to_owned()
}

#[test]
fn the_greeting_names_the_layers_that_a_launch_and_the_doctor_name() {
    let hosted = for_tenant(&[]);
    let launched = hosted.call("debugger/launch", json!({ "program": "/usr/bin/true", "record": false }));
    let named_after = |text: &str, words: &str| {
        let (_, behind) = text.split_once(words).unwrap_or_else(|| panic!("no `{words}`: {text}"));
        behind.lines().next().unwrap().trim().to_owned()
    };
    let at_launch = named_after(&launched, "it is confined by: ");
    let examined = try_hindcast(&hosted.server.data, &["doctor"]);
    let examined = String::from_utf8_lossy(&examined.stdout).into_owned();
    let by_the_doctor = named_after(&examined, "is kept in by: ");
    let greeted = layers_in_the_greeting(hosted);
    assert_eq!((&at_launch, &by_the_doctor), (&greeted, &greeted));
    for layer in ["mount namespace", "network namespace", "no_new_privs", "seccomp", "rlimits"] {
        assert!(greeted.split(", ").any(|named| named == layer), "{layer}: {greeted}");
    }
}

#[test]
fn bombs_stay_within_their_limits_and_leave_nothing_behind() {
    let limits = [
        ("HINDCAST_DEBUG_PROCESSES", "100"),
        ("HINDCAST_DEBUG_MEMORY_BYTES", "134217728"),
        ("HINDCAST_DEBUG_FILE_BYTES", "8388608"),
    ];
    let hosted = for_tenant(&limits);
    let told = attempt(&hosted, &escapes(), &[("fill", "/tmp"), ("memory", "-"), ("fork", "-")]);
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
    let hosted = for_tenant(&[]);
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
    let hosted = for_tenant(&[]);
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
    let hosted = for_tenant(&[]);
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
    let hosted = for_tenant(&[]);
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
fn a_confined_key_does_not_use_an_unconfined_session_of_its_owner() {
    let hosted = for_tenant(&[]);
    let server = &hosted.server;
    let owner = ["--owner", "ann", "--tier", "enterprise"];
    let (free, tenant) = (server.unconfined_key(&owner), server.key(&owner));
    let launch = json!({ "program": Fixture::c("idle").build().path });
    let launched = server.call(&free, "debugger/launch", launch.clone());
    let session = launched["result"]["structuredContent"]["session_id"].clone();
    for (tool, mut arguments) in [
        ("debugger/evaluate", json!({ "expression": "1" })),
        ("debugger/read_memory", json!({ "address": "main" })),
        ("debugger/continue", json!({})),
        ("debugger/disconnect", json!({})),
    ] {
        helpful_error(&server.call(&tenant, tool, arguments.clone()));
        arguments["session_id"] = session.clone();
        let refused = helpful_error(&server.call(&tenant, tool, arguments));
        assert_eq!(refused["code"], -32003, "{tool}: {refused}");
        assert_eq!(refused["data"]["required_scope"], "debug:unconfined", "{refused}");
    }
    let read = server.rpc(&tenant, "resources/read", json!({ "uri": "debugger://session" })).json();
    assert_eq!(read["error"]["code"], -32003, "{read}");
    // A session of its own is the current one for it, whatever the other key has.
    server.call(&tenant, "debugger/launch", launch);
    server.call(&free, "debugger/status", json!({ "session_id": session }));
    let evaluated = server.call(&tenant, "debugger/evaluate", json!({ "expression": "40 + 2" }));
    assert!(evaluated["result"].to_string().contains("42"), "{evaluated}");
    // The other way round nothing is refused.
    for key in [&tenant, &free] {
        let ended = server.call(key, "debugger/disconnect", json!({}));
        assert!(ended["result"].is_object(), "{ended}");
    }
}
