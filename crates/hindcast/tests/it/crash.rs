//! `kill -9` under load: what was answered is kept, and nothing else is made up.

use std::{
    path::Path,
    sync::atomic::{AtomicUsize, Ordering},
    time::Duration,
};

use serde_json::{Value, json};

use crate::server::{Connection, Dice, Server, eventually, hindcast, kills};

const CLIENTS: usize = 16;

/// What the clients know of their calls.
#[derive(Default)]
struct Tally {
    sent: AtomicUsize,
    answered: AtomicUsize,
}

/// Calls over one connection until the server is gone.
fn call_until_the_end(mut connection: Connection, key: &str, tally: &Tally) {
    let call = json!({ "jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": { "name": "debugger/license_info" } });
    let call = call.to_string();
    loop {
        tally.sent.fetch_add(1, Ordering::SeqCst);
        match connection.try_post(key, call.as_bytes()) {
            Ok(reply) => {
                assert_eq!((reply.status, reply.code()), (200, 0), "{reply:?}");
                tally.answered.fetch_add(1, Ordering::SeqCst);
            }
            Err(_) => return,
        }
    }
}

fn used_this_month(data: &Path, id: &str) -> usize {
    let shown = hindcast(data, &["keys", "show", id, "--json"]);
    serde_json::from_str::<Value>(&shown).unwrap()["used_this_month"].as_u64().unwrap() as usize
}

/// How many calls of the key the trail holds.
fn calls_written_down(data: &Path, id: &str) -> usize {
    let export = hindcast(data, &["audit", "export"]);
    let rows = export.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    rows.filter(|row| row["key_id"] == id && row["tool"] == "debugger/license_info" && row["outcome"] == "ok")
        .count()
}

#[test]
fn kill_under_load_loses_and_doubles_nothing_beyond_what_was_in_flight() {
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path();
    let mut dice = Dice(20_261_115);
    let mut server = Server::start_in(data, &[]);
    let made = server.new_key(&["--tier", "enterprise"]);
    let (id, key) = (made["id"].as_str().unwrap().to_owned(), made["key"].as_str().unwrap().to_owned());
    let mut keys = vec![made];
    let (mut used_before, mut written_before) = (0, 0);
    for round in 0..kills(10) {
        let tally = Tally::default();
        let target = 1 + dice.roll(1500);
        let a_little = Duration::from_micros(dice.roll(2000) as u64);
        std::thread::scope(|scope| {
            for _ in 0..CLIENTS {
                let connection = server.connect();
                scope.spawn(|| call_until_the_end(connection, &key, &tally));
            }
            // A key that was shown to its owner is one that must not be lost.
            keys.push(server.new_key(&["--tier", "free"]));
            eventually("enough calls were answered", || tally.answered.load(Ordering::SeqCst) >= target);
            std::thread::park_timeout(a_little);
            server.signal("KILL");
        });
        server.ended();

        let (sent, answered) = (tally.sent.into_inner(), tally.answered.into_inner());
        assert!(sent <= answered + CLIENTS);
        let verified = hindcast(data, &["audit", "verify"]);
        assert!(verified.starts_with("verified "), "round {round}: {verified}");
        let used = used_this_month(data, &id);
        let counted = used - used_before;
        assert!((answered..=sent).contains(&counted), "round {round}: {answered} ≤ {counted} ≤ {sent}");
        let written = calls_written_down(data, &id);
        let rows = written - written_before;
        assert!((answered..=counted).contains(&rows), "round {round}: {answered} ≤ {rows} ≤ {counted}");

        server = Server::start_in(data, &[]);
        for made in &keys {
            let reply = server.rpc(made["key"].as_str().unwrap(), "tools/list", json!({}));
            assert_eq!(reply.status, 200, "round {round}: key {} is lost", made["id"]);
        }
        assert_eq!(used_this_month(data, &id), used, "round {round}: a restart changed the count");
        (used_before, written_before) = (used, written);
    }
    assert_eq!(server.call(&key, "debugger/license_info", json!({}))["error"], Value::Null);
    assert_eq!(used_this_month(data, &id), used_before + 1);
    server.stop();
    assert!(hindcast(data, &["audit", "verify"]).starts_with("verified "));
}

#[test]
fn a_server_killed_at_its_first_start_starts_again() {
    let mut dice = Dice(7);
    for _ in 0..kills(10) {
        let folder = tempfile::tempdir().unwrap();
        let mut process = crate::server::command()
            .args(["serve", "--http", "--listen", "127.0.0.1:0", "--data-dir"])
            .arg(folder.path())
            .stdout(std::process::Stdio::null())
            .spawn()
            .unwrap();
        std::thread::park_timeout(Duration::from_micros(dice.roll(20_000) as u64));
        process.kill().unwrap();
        process.wait().unwrap();
        let server = Server::start_in(folder.path(), &[]);
        let key = server.unlimited_key();
        assert_eq!(server.call(&key, "debugger/license_info", json!({}))["error"], Value::Null);
        server.stop();
        assert!(hindcast(folder.path(), &["audit", "verify"]).starts_with("verified "));
    }
}
