//! Nothing is left running, whoever is killed.

use hindcast_core::debug::listening::{TCP_TABLES, socket_inode, tcp_sockets};
use hindcast_fixtures::oracle_size;
use nix::{
    sys::signal::{Signal, kill},
    unistd::Pid,
};
use serde_json::json;

use super::{Tongue, client, data, go, java, javascript, launch, left_over, python, ruby, text};
use crate::server::eventually;

/// How often a program is launched in a row: once it comes to its end, and once it is ended.
const LAUNCHES: usize = 2;

#[test]
fn many_launches_of_python_leave_nothing() {
    launch_often(&python());
}

#[test]
fn many_launches_of_javascript_leave_nothing() {
    launch_often(&javascript());
}

#[test]
fn many_launches_of_go_leave_nothing() {
    launch_often(&go());
}

#[test]
fn many_launches_of_ruby_leave_nothing() {
    launch_often(&ruby());
}

#[test]
fn many_launches_of_java_leave_nothing() {
    launch_often(&java());
}

fn launch_often(tongue: &Tongue) {
    let folder = tempfile::tempdir().unwrap();
    let temporary = folder.path().to_str().unwrap();
    let Some(mut client) = super::client_with(&[("TMPDIR", temporary)]) else { return };
    let launches = oracle_size(LAUNCHES, 50);
    let mut first = None;
    for number in 0..launches {
        launch(&mut client, &tongue.script, "hello\n");
        if number % 2 == 0 {
            let ended = data(&mut client, "continue", json!({ "timeout_ms": 60_000 }));
            assert_eq!(ended["exit_code"], 7, "{ended}");
        }
        text(&mut client, "disconnect", json!({}));
        // The server itself is one of them.
        eventually("no process is left", || left_over(&client).len() <= 1);
        let files = || std::fs::read_dir(folder.path()).unwrap().count();
        eventually("no temporary file is left", || files() == 0);
        let server = left_over(&client)[0].split(' ').next().unwrap().parse().unwrap();
        // What is made once and kept is there after the first launch.
        let before = first.get_or_insert_with(|| Held::by(server));
        let (descriptors, threads) = (before.descriptors, before.threads);
        eventually("descriptors and threads are given back", || {
            let now = Held::by(server);
            now.descriptors <= descriptors && now.threads <= threads + SPARE_THREADS
        });
        if number + 1 == launches {
            let (before, now) = (before.resident, Held::by(server).resident);
            println!("{}: {before} KiB after the first launch, {now} after {launches}", tongue.script.name());
            assert!(now < before + GROWTH, "{now} KiB after {before}");
        }
    }
}

/// The runtime of the server starts threads for work that blocks, and keeps them for a while.
const SPARE_THREADS: usize = 8;
/// In KiB. Allocators keep some of what was used.
const GROWTH: u64 = 8 << 10;

/// What a process has of the system.
struct Held {
    descriptors: usize,
    threads: usize,
    /// In KiB.
    resident: u64,
}

impl Held {
    fn by(pid: u64) -> Self {
        let count = |folder: &str| std::fs::read_dir(format!("/proc/{pid}/{folder}")).unwrap().count();
        let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
        let resident = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
        Self {
            descriptors: count("fd"),
            threads: count("task"),
            resident: resident.trim().trim_end_matches(" kB").parse().unwrap(),
        }
    }
}

#[test]
fn no_files_are_left_in_the_temporary_folder() {
    let folder = tempfile::tempdir().unwrap();
    let temporary = folder.path().to_str().unwrap();
    let left = || std::fs::read_dir(folder.path()).unwrap().count();
    for tongue in [python(), javascript(), go(), ruby(), java()] {
        let Some(mut client) = super::client_with(&[("TMPDIR", temporary)]) else { return };
        launch(&mut client, &tongue.script, "hello\n");
        text(&mut client, "disconnect", json!({}));
        eventually("the session leaves nothing", || left() == 0);
        launch(&mut client, &tongue.script, "hello\n");
        client.kill();
        eventually("a server that is killed leaves nothing", || left() == 0);
    }
    let Some(mut client) = super::client_with(&[("TMPDIR", temporary)]) else { return };
    launch(&mut client, &javascript().script, "hello\n");
    let value = text(&mut client, "evaluate", json!({ "expression": "process.env.TMPDIR" }));
    assert!(value.ends_with(&format!("= '{temporary}'")), "the program has the usual folder: {value}");
}

fn end(process: &str) {
    let pid = process.split(' ').next().unwrap().parse().unwrap();
    // It may have ended together with another.
    let _ = kill(Pid::from_raw(pid), Signal::SIGKILL);
}

#[test]
fn whatever_process_of_python_is_killed_nothing_is_left() {
    kill_each(&python());
}

#[test]
fn whatever_process_of_javascript_is_killed_nothing_is_left() {
    kill_each(&javascript());
}

#[test]
fn whatever_process_of_go_is_killed_nothing_is_left() {
    kill_each(&go());
}

#[test]
fn whatever_process_of_ruby_is_killed_nothing_is_left() {
    kill_each(&ruby());
}

#[test]
fn whatever_process_of_java_is_killed_nothing_is_left() {
    kill_each(&java());
}

/// Adapter, program, keepers and worker, one after the other in launches of their own.
fn kill_each(tongue: &Tongue) {
    let folder = tempfile::tempdir().unwrap();
    let temporary = folder.path().to_str().unwrap();
    let Some(mut client) = super::client_with(&[("TMPDIR", temporary)]) else { return };
    let mut killed = None;
    // Each but the server, which is the first.
    while killed != Some(1) {
        launch(&mut client, &tongue.script, "hello\n");
        let mut processes = left_over(&client);
        assert!(killed.is_some() || processes.len() > 2, "{processes:?}");
        processes.sort_by_key(|process| process.split(' ').next().unwrap().parse::<u32>().unwrap());
        let ports = listening(Some(&numbers_of(&processes)));
        let count = killed.unwrap_or(processes.len()) - 1;
        killed = Some(count);
        if let Some(process) = processes.get(count) {
            end(process);
        }
        eventually(&format!("all is noticed after {:?}", processes.get(count)), || {
            let status = data(&mut client, "status", json!({}));
            status["sessions"][0]["state"] != "paused"
                || left_over(&client).len() >= processes.len().saturating_sub(1)
        });
        let ended = json!({ "name": "debugger/disconnect", "arguments": {} });
        client.request("tools/call", ended);
        eventually(&format!("no process is left of {processes:?} after {count}"), || {
            left_over(&client).len() <= 1
        });
        let held = || listening(None).into_iter().filter(|port| ports.contains(port)).count();
        eventually("no port is held", || held() == 0);
        let files = || std::fs::read_dir(folder.path()).unwrap().count();
        eventually(&format!("no temporary file is left after {:?}", processes.get(count)), || files() == 0);
    }
}

fn numbers_of(processes: &[String]) -> Vec<u64> {
    processes.iter().map(|process| process.split(' ').next().unwrap().parse().unwrap()).collect()
}

/// The ports of this machine at which somebody listens; of these processes where some are given.
fn listening(of: Option<&[u64]>) -> Vec<u16> {
    let files = |pid: &u64| std::fs::read_dir(format!("/proc/{pid}/fd")).into_iter().flatten().flatten();
    let links = of.map(|pids| {
        let links = pids.iter().flat_map(files).filter_map(|file| std::fs::read_link(file.path()).ok());
        links.filter_map(|link| socket_inode(link.to_str()?)).collect::<Vec<_>>()
    });
    let tables =
        TCP_TABLES.iter().filter_map(|table| std::fs::read_to_string(format!("/proc/net/{table}")).ok());
    let sockets: Vec<_> = tables.flat_map(|table| tcp_sockets(&table)).collect();
    let is_theirs = |inode: &u64| links.as_ref().is_none_or(|links| links.contains(inode));
    let listening = sockets.iter().filter(|socket| socket.listens && is_theirs(&socket.inode));
    listening.map(|socket| socket.local.port()).collect()
}

#[test]
fn a_server_that_is_killed_takes_all_along() {
    let mut held = 0;
    for tongue in [python(), javascript(), go(), ruby(), java()] {
        let (Some(mut client), Some(probe)) = (client(), client()) else { return };
        launch(&mut client, &tongue.script, "hello\n");
        let processes = left_over(&client);
        let pids = numbers_of(&processes);
        let ports = listening(Some(&pids));
        held += ports.len();
        client.kill();
        eventually("all are gone", || !pids.iter().any(|pid| crate::debugger::is_alive(*pid)));
        let left: Vec<_> = listening(None).into_iter().filter(|port| ports.contains(port)).collect();
        assert_eq!(left, Vec::<u16>::new(), "ports of {processes:?}");
        drop(probe);
    }
    assert!(held > 0, "adapters listen");
}
