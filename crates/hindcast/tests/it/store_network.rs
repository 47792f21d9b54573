//! Servers whose network to PostgreSQL is cut: nothing that was answered is lost, errors say what is down, and service goes on.

use std::{
    sync::atomic::{AtomicBool, Ordering},
    time::{Duration, Instant},
};

use hindcast_fixtures::{network::Proxy, postgres::Cluster};
use serde_json::json;

use crate::{
    server::{Reply, Server, eventually},
    several_servers::{Servers, SetOnDrop, get},
};

/// Servers of which the first reaches the database only through the proxy.
fn behind_a_proxy(count: usize) -> Option<(Servers, Proxy)> {
    let cluster = Cluster::start()?;
    let url = cluster.new_database();
    let proxy = Proxy::to(&cluster.socket());
    let name = cluster.sql(&url, "SELECT current_database()");
    let through = format!("postgres://postgres@{}/{name}", proxy.address());
    let urls: Vec<_> = (0..count).map(|number| if number == 0 { &*through } else { &*url }).collect();
    let servers = Servers::on(cluster, &url, &urls, &[("HINDCAST_STORE_CONNECTIONS", "4")]);
    Some((servers, proxy))
}

fn call(server: &Server, key: &str) -> Reply {
    server.rpc(key, "tools/call", json!({ "name": "debugger/license_info" }))
}

fn is_ready(server: &Server) -> bool {
    get(server, "/readyz").status == 200
}

/// Checks an answer of a server that cannot reach its database.
fn says_that_it_is_away(reply: &Reply) {
    assert_eq!((reply.status, reply.code()), (503, -32603), "{reply:?}");
    assert_eq!(reply.header("retry-after"), Some("2"), "{reply:?}");
    assert!(reply.error()["data"]["details"].as_str().unwrap().contains("PostgreSQL"), "{reply:?}");
}

/// Lets clients call until `disturb` has ended; gives how many calls were answered with 200.
fn answered_while(server: &Server, key: &str, clients: usize, disturb: impl FnOnce()) -> u64 {
    let stop = AtomicBool::new(false);
    let client = || {
        let mut answered = 0;
        while !stop.load(Ordering::Relaxed) {
            let reply = call(server, key);
            match reply.status {
                200 => answered += 1,
                _ => says_that_it_is_away(&reply),
            }
        }
        answered
    };
    std::thread::scope(|scope| {
        let clients: Vec<_> = (0..clients).map(|_| scope.spawn(client)).collect();
        let stopping = SetOnDrop(&stop);
        disturb();
        drop(stopping);
        clients.into_iter().map(|client| client.join().unwrap()).sum()
    })
}

fn key_without_limits(servers: &Servers) -> (String, String) {
    let made = servers.key(&["--per-month", "1000000", "--per-minute", "1000000"]);
    (made["key"].as_str().unwrap().to_owned(), made["id"].as_str().unwrap().to_owned())
}

/// Everything that was answered is in the chain, which verifies, and was counted.
fn all_is_kept(servers: &Servers, id: &str, before: u64, answered: u64) {
    let rows = servers.verified_rows() - before;
    let used = servers.run(&["keys", "show", id, "--json"])["used_this_month"].as_u64().unwrap();
    assert!(
        answered > 0 && rows >= answered && used >= answered,
        "answered {answered}, rows {rows}, used {used}"
    );
}

#[test]
fn cuts_of_the_network_lose_nothing_that_was_answered() {
    let Some((servers, proxy)) = behind_a_proxy(1) else { return };
    let (key, id) = key_without_limits(&servers);
    let before = servers.verified_rows();
    let server = &servers.servers[0];
    let answered = answered_while(server, &key, 8, || {
        for _ in 0..10 {
            eventually("it is ready", || is_ready(server));
            // In the middle of the clients' calls.
            assert_eq!(call(server, &key).status, 200);
            proxy.cut();
            eventually("it says that it is not ready", || !is_ready(server));
            proxy.restore();
        }
        eventually("it is ready", || is_ready(server));
    });
    all_is_kept(&servers, &id, before, answered);
}

#[test]
fn a_network_that_swallows_everything_is_answered_with_503_in_time() {
    let Some((servers, proxy)) = behind_a_proxy(1) else { return };
    let (key, id) = key_without_limits(&servers);
    let before = servers.verified_rows();
    let server = &servers.servers[0];
    assert_eq!(servers.press(&key, 8, 5), (40, 0));
    proxy.silence();
    let begun = Instant::now();
    let replies: Vec<Reply> = std::thread::scope(|scope| {
        let clients: Vec<_> = (0..8).map(|_| scope.spawn(|| call(server, &key))).collect();
        clients.into_iter().map(|client| client.join().unwrap()).collect()
    });
    replies.iter().for_each(says_that_it_is_away);
    assert!(begun.elapsed() < Duration::from_secs(25), "{:?}", begun.elapsed());
    assert_eq!(get(server, "/readyz").status, 503);
    proxy.restore();
    eventually("it is ready", || is_ready(server));
    assert_eq!(servers.press(&key, 8, 5), (40, 0));
    all_is_kept(&servers, &id, before, 80);
}

#[test]
fn a_server_that_loses_its_network_in_a_transaction_does_not_keep_the_others_from_the_chain() {
    let Some((servers, proxy)) = behind_a_proxy(2) else { return };
    let (key, id) = key_without_limits(&servers);
    let before = servers.verified_rows();
    let (lost, other) = (&servers.servers[0], &servers.servers[1]);
    let mut others = 0;
    let answered = answered_while(lost, &key, 8, || {
        let mut held = false;
        // Not every silence begins while the lost server holds the chain; go on until one has.
        for _ in 0..40 {
            eventually("it is ready", || is_ready(lost));
            proxy.silence();
            let holding = "SELECT count(*) FROM pg_stat_activity WHERE state = 'idle in transaction'";
            held = servers.sql(holding) != "0";
            let reply = call(other, &key);
            assert_eq!(reply.status, 200, "{reply:?}");
            others += 1;
            proxy.restore();
            if held {
                break;
            }
        }
        assert!(held, "no silence began in a transaction");
        eventually("it is ready", || is_ready(lost));
    });
    all_is_kept(&servers, &id, before, answered + others);
}
