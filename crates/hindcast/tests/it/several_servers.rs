//! Several servers on one PostgreSQL: limits, keys, audit trail and license are one, and a database that is away comes back.

use std::{
    path::Path,
    process::{Output, Stdio},
    sync::Barrier,
};

use hindcast_fixtures::postgres::Cluster;
use serde_json::{Value, json};

use crate::server::{Reply, Server, command, eventually};

/// Servers with data folders of their own, the same audit key and one database.
struct Servers {
    cluster: Cluster,
    url: String,
    servers: Vec<Server>,
    folders: Vec<tempfile::TempDir>,
}

impl Servers {
    /// None where the tests are skipped.
    fn start(count: usize) -> Option<Self> {
        let cluster = Cluster::start()?;
        let url = cluster.new_database();
        let folders: Vec<_> = (0..count).map(|_| tempfile::tempdir().unwrap()).collect();
        let mut servers: Vec<Server> = Vec::new();
        for folder in &folders {
            if let Some(first) = servers.first() {
                std::fs::copy(first.data.join("audit.key"), folder.path().join("audit.key")).unwrap();
            }
            servers.push(Server::launch(
                folder.path(),
                &[],
                &[("HINDCAST_STORE_URL", &url)],
                Stdio::inherit(),
            ));
        }
        Some(Self { cluster, url, servers, folders })
    }

    fn try_run(&self, arguments: &[&str]) -> Output {
        run(&self.url, self.folders[0].path(), arguments)
    }

    fn run(&self, arguments: &[&str]) -> Value {
        let output = self.try_run(arguments);
        assert!(output.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
        serde_json::from_slice(&output.stdout).unwrap()
    }

    fn key(&self, arguments: &[&str]) -> Value {
        self.run(&[&["keys", "create", "--name", "test", "--json"], arguments].concat())
    }

    /// How many rows the audit trail has; it must verify.
    fn verified_rows(&self) -> u64 {
        let verified = self.run(&["audit", "verify", "--json"]);
        assert_eq!(verified["verified"], true, "{verified}");
        verified["rows"].as_u64().unwrap()
    }

    /// Lets clients call at the same time, spread over the servers; gives how many calls were answered and how many refused.
    fn press(&self, key: &str, clients: usize, calls: usize) -> (usize, usize) {
        let start = Barrier::new(clients);
        let client = |number: usize| {
            let mut connection = self.servers[number % self.servers.len()].connect();
            start.wait();
            let call =
                |_| connection.rpc(key, "tools/call", json!({ "name": "debugger/license_info" })).status;
            (0..calls).map(call).collect::<Vec<_>>()
        };
        let statuses: Vec<u16> = std::thread::scope(|scope| {
            let client = &client;
            let clients: Vec<_> = (0..clients).map(|number| scope.spawn(move || client(number))).collect();
            clients.into_iter().flat_map(|client| client.join().unwrap()).collect()
        });
        let count = |status| statuses.iter().filter(|found| **found == status).count();
        assert_eq!(count(200) + count(429), statuses.len(), "{statuses:?}");
        (count(200), count(429))
    }
}

fn run(url: &str, data: &Path, arguments: &[&str]) -> Output {
    command().env("HINDCAST_STORE_URL", url).args(arguments).arg("--data-dir").arg(data).output().unwrap()
}

fn get(server: &Server, path: &str) -> Reply {
    server.connect().request(&format!("GET {path}"), "Host: localhost\r\n", b"").unwrap()
}

fn limits_are_exact_and_the_chain_is_one(count: usize) {
    let Some(servers) = Servers::start(count) else { return };
    let made = servers.key(&["--per-month", "300", "--per-minute", "1000000"]);
    let key = made["key"].as_str().unwrap();
    let before = servers.verified_rows();
    assert_eq!(servers.press(key, 64, 8), (300, 212));
    let shown = servers.run(&["keys", "show", made["id"].as_str().unwrap(), "--json"]);
    assert_eq!(shown["used_this_month"], 300);
    assert_eq!(servers.verified_rows() - before, 512, "each call, also a refused one, has a row");
}

#[test]
fn two_servers_keep_one_limit_and_one_chain_under_64_clients() {
    limits_are_exact_and_the_chain_is_one(2);
}

#[test]
fn three_servers_keep_one_limit_and_one_chain_under_64_clients() {
    limits_are_exact_and_the_chain_is_one(3);
}

#[test]
fn a_key_that_is_revoked_is_refused_by_every_server_at_its_next_request() {
    let Some(servers) = Servers::start(2) else { return };
    for _ in 0..10 {
        let made = servers.key(&[]);
        let (key, id) = (made["key"].as_str().unwrap(), made["id"].as_str().unwrap());
        let mut connections: Vec<_> = servers.servers.iter().map(Server::connect).collect();
        for connection in &mut connections {
            assert_eq!(connection.rpc(key, "tools/list", json!({})).status, 200);
        }
        servers.run(&["keys", "revoke", id, "--json"]);
        for connection in &mut connections {
            let refused = connection.rpc(key, "tools/list", json!({}));
            assert_eq!((refused.status, refused.code()), (401, -32001), "{refused:?}");
        }
    }
}

#[test]
fn while_postgresql_is_away_errors_say_so_and_then_service_goes_on_with_all_that_was_acknowledged() {
    let Some(mut servers) = Servers::start(2) else { return };
    let made = servers.key(&["--per-month", "100000", "--per-minute", "100000"]);
    let (key, id) = (made["key"].as_str().unwrap(), made["id"].as_str().unwrap());
    let call = |server: &Server| server.rpc(key, "tools/call", json!({ "name": "debugger/license_info" }));
    let mut acknowledged = 0;
    for round in 0..3 {
        let rows = servers.verified_rows();
        for number in 0..20 {
            assert_eq!(call(&servers.servers[number % 2]).status, 200);
        }
        acknowledged += 20;
        if round == 1 {
            servers.cluster.stop()
        } else {
            servers.cluster.crash()
        }
        for server in &servers.servers {
            let down = call(server);
            assert_eq!((down.status, down.code()), (503, -32603), "{down:?}");
            assert_eq!(down.error()["message"], "Store unreachable");
            assert!(down.error()["data"]["details"].as_str().unwrap().contains("PostgreSQL"), "{down:?}");
            assert_eq!(down.header("retry-after"), Some("2"));
            let alive = get(server, "/healthz");
            assert_eq!(alive.status, 200, "{alive:?}");
            let ready = get(server, "/readyz");
            assert_eq!(ready.status, 503, "{ready:?}");
        }
        let failed = servers.try_run(&["keys", "list"]);
        assert!(
            String::from_utf8_lossy(&failed.stderr).contains("PostgreSQL cannot be reached"),
            "{failed:?}"
        );
        servers.cluster.go_on();
        for server in &servers.servers {
            eventually("it is ready", || get(server, "/readyz").status == 200);
        }
        let shown = servers.run(&["keys", "show", id, "--json"]);
        assert_eq!(shown["used_this_month"], acknowledged);
        assert_eq!(servers.verified_rows() - rows, 20);
    }
}

#[test]
fn calls_that_were_answered_around_restarts_of_postgresql_are_all_in_the_chain() {
    let Some(mut servers) = Servers::start(2) else { return };
    let made = servers.key(&["--per-month", "100000", "--per-minute", "100000"]);
    let (key, id) = (made["key"].as_str().unwrap(), made["id"].as_str().unwrap());
    let before = servers.verified_rows();
    let stop = std::sync::atomic::AtomicBool::new(false);
    let (addresses, cluster) = (&servers.servers, &mut servers.cluster);
    let client = |number: usize| {
        let mut answered = 0;
        while !stop.load(std::sync::atomic::Ordering::Relaxed) {
            let call = json!({ "name": "debugger/license_info" });
            let reply = addresses[number % 2].rpc(key, "tools/call", call);
            assert!([200, 503].contains(&reply.status), "{reply:?}");
            answered += usize::from(reply.status == 200);
        }
        answered
    };
    let client = &client;
    let answered: usize = std::thread::scope(|scope| {
        let clients: Vec<_> = (0..8).map(|number| scope.spawn(move || client(number))).collect();
        for _ in 0..3 {
            // Between two crashes both servers answer.
            for server in addresses {
                eventually("it is ready", || get(server, "/readyz").status == 200);
            }
            cluster.crash();
            cluster.go_on();
        }
        for server in addresses {
            eventually("it is ready", || get(server, "/readyz").status == 200);
        }
        stop.store(true, std::sync::atomic::Ordering::Relaxed);
        clients.into_iter().map(|client| client.join().unwrap()).sum()
    });
    let rows = usize::try_from(servers.verified_rows() - before).unwrap();
    let used = servers.run(&["keys", "show", id, "--json"])["used_this_month"].as_u64().unwrap();
    let used = usize::try_from(used).unwrap();
    assert!(
        answered > 0 && rows >= answered && used >= answered,
        "answered {answered}, rows {rows}, used {used}"
    );
}

#[test]
fn a_server_that_is_killed_leaves_a_chain_that_the_others_go_on_with() {
    let Some(mut servers) = Servers::start(2) else { return };
    let made = servers.key(&["--per-month", "100000", "--per-minute", "100000"]);
    let key = made["key"].as_str().unwrap();
    let before = servers.verified_rows();
    let killed = servers.servers.pop().unwrap();
    let (pid, address) = (killed.pid(), killed.address);
    let answered: usize = std::thread::scope(|scope| {
        let client = || {
            // Until the connection ends in the middle of something.
            let mut connection = crate::server::Connection::to(address);
            let call = br#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"debugger/license_info"}}"#;
            std::iter::from_fn(|| connection.try_post(key, call).ok().filter(|reply| reply.status == 200))
                .count()
        };
        let clients: Vec<_> = (0..8).map(|_| scope.spawn(client)).collect();
        assert_eq!(servers.press(key, 8, 10), (80, 0));
        let kill = std::process::Command::new("kill").args(["-KILL", &pid.to_string()]).status().unwrap();
        assert!(kill.success());
        clients.into_iter().map(|client| client.join().unwrap()).sum()
    });
    assert_eq!(servers.press(key, 8, 10), (80, 0), "the other goes on");
    let rows = usize::try_from(servers.verified_rows() - before).unwrap();
    assert!(answered > 0 && rows >= answered + 160, "answered {answered}, rows {rows}");
}

#[test]
fn a_server_without_the_chains_audit_key_does_not_start_and_says_what_to_do() {
    let Some(servers) = Servers::start(1) else { return };
    let folder = tempfile::tempdir().unwrap();
    let refused = run(&servers.url, folder.path(), &["serve", "--http", "--listen", "127.0.0.1:0"]);
    let told = String::from_utf8_lossy(&refused.stderr);
    assert!(!refused.status.success());
    assert!(told.contains("audit.key") && told.contains("hint: copy that file"), "{told}");
}

#[test]
fn health_has_the_database_server_and_notices_that_it_is_away() {
    let Some(mut servers) = Servers::start(1) else { return };
    let key = servers.key(&[])["key"].as_str().unwrap().to_owned();
    let health = |servers: &Servers| {
        let read = json!({ "uri": "resource://system/health" });
        let reply = servers.servers[0].rpc(&key, "resources/read", read).json();
        serde_json::from_str::<Value>(reply["result"]["contents"][0]["text"].as_str().unwrap()).unwrap()
    };
    let found = health(&servers);
    let component = &found["components"]["postgresDatabase"];
    assert_eq!(component["status"], "Operational", "{found}");
    assert!(component["responseTime"].as_str().unwrap().ends_with("ms"), "{found}");
    servers.cluster.crash();
    let doctor = servers.try_run(&["doctor", "--json"]);
    assert!(String::from_utf8_lossy(&doctor.stdout).contains("PostgreSQL"), "{doctor:?}");
}

#[test]
fn figures_are_for_keys_with_admin_and_tell_of_requests_limits_and_the_store() {
    let Some(servers) = Servers::start(1) else { return };
    let server = &servers.servers[0];
    let made = servers.key(&["--per-month", "3", "--per-minute", "100"]);
    let plain = made["key"].as_str().unwrap();
    let admin = servers.key(&["--scope", "admin"])["key"].as_str().unwrap().to_owned();
    for _ in 0..5 {
        server.rpc(plain, "tools/call", json!({ "name": "debugger/license_info" }));
    }
    let metrics = |key: &str| {
        let headers = format!("Host: localhost\r\nAuthorization: Bearer {key}\r\n");
        server.connect().request("GET /metrics", &headers, b"").unwrap()
    };
    assert_eq!(metrics(plain).status, 403);
    assert_eq!(get(server, "/metrics").status, 401);
    let reply = metrics(&admin);
    let page = String::from_utf8(reply.body.clone()).unwrap();
    assert_eq!(reply.status, 200, "{page}");
    for line in [
        "hindcast_requests_total{status=\"200\"} 3",
        "hindcast_requests_total{status=\"429\"} 2",
        "hindcast_limit_refusals_total 2",
        "hindcast_request_duration_seconds_count 5",
        "hindcast_store_operation_duration_seconds_count{operation=\"reserve_quota\"} 5",
        "hindcast_store_operation_duration_seconds_count{operation=\"append_audit\"} 6",
        "hindcast_store_failures_total 0",
        "hindcast_store_up 1",
    ] {
        assert!(page.lines().any(|found| found == line), "{line}\n{page}");
    }
}
