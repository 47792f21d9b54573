//! Nothing is left running, whoever is killed.

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
    let Some(mut client) = client() else { return };
    for number in 0..oracle_size(LAUNCHES, 50) {
        launch(&mut client, &tongue.script, "hello\n");
        if number % 2 == 0 {
            let ended = data(&mut client, "continue", json!({ "timeout_ms": 60_000 }));
            assert_eq!(ended["exit_code"], 7, "{ended}");
        }
        text(&mut client, "disconnect", json!({}));
        // The server itself is one of them.
        eventually("nothing is left", || left_over(&client).len() <= 1);
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
fn whatever_process_is_killed_the_others_end_too() {
    let tongues = [python(), javascript(), go(), ruby(), java()];
    for tongue in &tongues {
        let Some(mut client) = client() else { return };
        let mut killed = None;
        // Each but the server, which is the first.
        while killed != Some(1) {
            launch(&mut client, &tongue.script, "hello\n");
            let mut processes = left_over(&client);
            assert!(killed.is_some() || processes.len() > 2, "{processes:?}");
            processes.sort_by_key(|process| process.split(' ').next().unwrap().parse::<u32>().unwrap());
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
            eventually(&format!("nothing is left of {processes:?} after {count}"), || {
                left_over(&client).len() <= 1
            });
        }
    }
}

#[test]
fn a_server_that_is_killed_takes_all_along() {
    for tongue in [python(), javascript(), go(), ruby(), java()] {
        let (Some(mut client), Some(probe)) = (client(), client()) else { return };
        launch(&mut client, &tongue.script, "hello\n");
        let processes = left_over(&client);
        let pids: Vec<u64> =
            processes.iter().map(|process| process.split(' ').next().unwrap().parse().unwrap()).collect();
        client.kill();
        eventually("all are gone", || !pids.iter().any(|pid| crate::debugger::is_alive(*pid)));
        drop(probe);
    }
}
