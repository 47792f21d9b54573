//! Limits are exact, however many clients press at once, and outlive the server.

use std::{
    sync::Barrier,
    time::{SystemTime, UNIX_EPOCH},
};

use serde_json::{Value, json};

use crate::server::{Reply, Server, hindcast};

fn call(server: &Server, key: &str) -> Reply {
    server.rpc(key, "tools/call", json!({ "name": "debugger/license_info" }))
}

/// Lets `clients` call at the same time, each `calls` times over a connection of its own; gives how
/// many calls were let through and how many were over the limit.
fn press(server: &Server, key: &str, clients: usize, calls: usize) -> (usize, usize) {
    let start = Barrier::new(clients);
    let replies: Vec<Reply> = std::thread::scope(|scope| {
        let client = || {
            let mut connection = server.connect();
            start.wait();
            let call = |_| connection.rpc(key, "tools/call", json!({ "name": "debugger/license_info" }));
            (0..calls).map(call).collect::<Vec<_>>()
        };
        let clients: Vec<_> = (0..clients).map(|_| scope.spawn(client)).collect();
        clients.into_iter().flat_map(|client| client.join().unwrap()).collect()
    });
    let (granted, refused): (Vec<_>, Vec<_>) = replies.iter().partition(|reply| reply.status == 200);
    for reply in &granted {
        assert!(reply.json()["result"].is_object(), "{reply:?}");
    }
    for reply in &refused {
        assert_eq!((reply.status, reply.code()), (429, -32002), "{reply:?}");
        assert!(reply.header("retry-after").unwrap().parse::<u64>().unwrap() > 0);
        let data = &reply.error()["data"];
        assert_eq!(data["limit"], data["used"], "{data}");
        assert!(data["reset_at"].is_string());
    }
    (granted.len(), refused.len())
}

fn used_this_month(data: &std::path::Path, id: &Value) -> u64 {
    let shown = hindcast(data, &["keys", "show", id.as_str().unwrap(), "--json"]);
    serde_json::from_str::<Value>(&shown).unwrap()["used_this_month"].as_u64().unwrap()
}

fn minute() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs() / 60
}

#[test]
fn of_200_clients_on_one_key_exactly_as_many_calls_succeed_as_the_month_allows() {
    let server = Server::start(&[]);
    let made = server.new_key(&["--per-month", "1000", "--per-minute", "1000000"]);
    let key = made["key"].as_str().unwrap();
    assert_eq!(press(&server, key, 200, 8), (1000, 600));
    assert_eq!(used_this_month(&server.data, &made["id"]), 1000);

    let data = server.kill();
    let server = Server::start_in(&data.path, &[]);
    assert_eq!(used_this_month(&server.data, &made["id"]), 1000);
    let reply = call(&server, key);
    assert_eq!((reply.status, reply.code()), (429, -32002));
    assert_eq!(reply.header("x-ratelimit-remaining"), Some("0"));

    let data = server.stop();
    assert_eq!(used_this_month(&data.path, &made["id"]), 1000, "a refused call does not count");
}

#[test]
fn of_50_clients_on_one_key_exactly_as_many_calls_succeed_as_the_minute_allows() {
    let mut server = Some(Server::start(&[]));
    let mut folders = Vec::new();
    // What straddles two minutes has two minutes' worth of calls: then it is done again.
    for _ in 0..5 {
        let running = server.take().unwrap();
        let key = running.key(&["--per-month", "1000000", "--per-minute", "100"]);
        let began = minute();
        let counts = press(&running, &key, 50, 6);
        let data = running.kill();
        let again = server.insert(Server::start_in(&data.path, &[]));
        folders.push(data);
        let refused = call(again, &key);
        if minute() != began {
            continue;
        }
        assert_eq!(counts, (100, 200));
        assert_eq!((refused.status, refused.code()), (429, -32002), "the minute goes on after a restart");
        assert!(refused.header("retry-after").unwrap().parse::<u64>().unwrap() <= 61);
        return;
    }
    panic!("no try stayed within a minute");
}

#[test]
fn keys_do_not_use_up_each_others_limits() {
    let server = Server::start(&[]);
    let keys: Vec<_> = (0..4)
        .map(|_| server.key(&["--owner", "same", "--per-month", "50", "--per-minute", "1000"]))
        .collect();
    std::thread::scope(|scope| {
        let presses: Vec<_> = keys.iter().map(|key| scope.spawn(|| press(&server, key, 5, 12))).collect();
        for pressed in presses {
            assert_eq!(pressed.join().unwrap(), (50, 10));
        }
    });
}

#[test]
fn only_calls_and_reads_count() {
    let server = Server::start(&[]);
    let made = server.new_key(&["--per-month", "1000", "--per-minute", "1000"]);
    let key = made["key"].as_str().unwrap();
    for (method, params, counts) in [
        ("ping", json!({}), 0),
        ("tools/list", json!({}), 0),
        ("resources/list", json!({}), 0),
        ("prompts/list", json!({}), 0),
        ("tools/fly", json!({}), 0),
        ("tools/call", json!({ "name": "debugger/license_info" }), 1),
        ("tools/call", json!({ "name": "debugger/quota_status" }), 1),
        ("resources/read", json!({ "uri": "hindcast://quota" }), 1),
    ] {
        let before = used_this_month(&server.data, &made["id"]);
        server.rpc(key, method, params);
        assert_eq!(used_this_month(&server.data, &made["id"]) - before, counts, "{method}");
    }
}
