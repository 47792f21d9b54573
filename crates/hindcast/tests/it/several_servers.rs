//! Several servers on one PostgreSQL: limits, keys, audit trail and license are one, and a database that is away comes back.

use std::{
    path::Path,
    process::{Output, Stdio},
    sync::{
        Barrier,
        atomic::{AtomicBool, Ordering},
    },
    time::{Duration, Instant},
};

use hindcast_fixtures::postgres::Cluster;
use serde_json::{Value, json};

use crate::server::{Connection, Reply, Server, command, eventually};

/// Servers with data folders of their own, the same audit key and one database.
pub(crate) struct Servers {
    pub(crate) cluster: Cluster,
    pub(crate) url: String,
    pub(crate) servers: Vec<Server>,
    pub(crate) folders: Vec<tempfile::TempDir>,
}

impl Servers {
    /// None where the tests are skipped.
    pub(crate) fn start(count: usize) -> Option<Self> {
        Self::start_with(count, &[])
    }

    pub(crate) fn start_with(count: usize, environment: &[(&str, &str)]) -> Option<Self> {
        let cluster = Cluster::start()?;
        let url = cluster.new_database();
        Some(Self::on(cluster, &url, &vec![&*url; count], environment))
    }

    /// A server for each of `urls`, which lead to the database at `url`.
    pub(crate) fn on(cluster: Cluster, url: &str, urls: &[&str], environment: &[(&str, &str)]) -> Self {
        let folders: Vec<_> = urls.iter().map(|_| tempfile::tempdir().unwrap()).collect();
        let mut servers: Vec<Server> = Vec::new();
        for (folder, url) in folders.iter().zip(urls) {
            let environment = [&[("HINDCAST_STORE_URL", *url)], environment].concat();
            if let Some(first) = servers.first() {
                std::fs::copy(first.data.join("audit.key"), folder.path().join("audit.key")).unwrap();
            }
            servers.push(Server::launch(folder.path(), &[], &environment, Stdio::inherit()));
        }
        Self { cluster, url: url.to_owned(), servers, folders }
    }

    /// Asks the database itself.
    pub(crate) fn sql(&self, statement: &str) -> String {
        self.cluster.sql(&self.url, statement)
    }

    fn try_run(&self, arguments: &[&str]) -> Output {
        run(&self.url, self.folders[0].path(), arguments)
    }

    pub(crate) fn run(&self, arguments: &[&str]) -> Value {
        let output = self.try_run(arguments);
        assert!(output.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
        serde_json::from_slice(&output.stdout).unwrap()
    }

    pub(crate) fn key(&self, arguments: &[&str]) -> Value {
        self.run(&[&["keys", "create", "--name", "test", "--json"], arguments].concat())
    }

    /// How many rows the audit trail has; it must verify.
    pub(crate) fn verified_rows(&self) -> u64 {
        let verified = self.run(&["audit", "verify", "--json"]);
        assert_eq!(verified["verified"], true, "{verified}");
        verified["rows"].as_u64().unwrap()
    }

    /// Lets clients call at the same time, spread over the servers; gives how many calls were answered and how many refused.
    pub(crate) fn press(&self, key: &str, clients: usize, calls: usize) -> (usize, usize) {
        let start = Barrier::new(clients);
        // Before anybody waits for the others: one that cannot connect must not keep them waiting.
        let connections: Vec<_> =
            (0..clients).map(|number| self.servers[number % self.servers.len()].connect()).collect();
        let client = |mut connection: Connection| {
            start.wait();
            let call =
                |_| connection.rpc(key, "tools/call", json!({ "name": "debugger/license_info" })).status;
            (0..calls).map(call).collect::<Vec<_>>()
        };
        let statuses: Vec<u16> = std::thread::scope(|scope| {
            let client = &client;
            let clients: Vec<_> =
                connections.into_iter().map(|connection| scope.spawn(move || client(connection))).collect();
            clients.into_iter().flat_map(|client| client.join().unwrap()).collect()
        });
        let count = |status| statuses.iter().filter(|found| **found == status).count();
        assert_eq!(count(200) + count(429), statuses.len(), "{statuses:?}");
        (count(200), count(429))
    }
}

/// Sets the flag also when the test fails: clients that nobody stops would keep it from ending.
pub(crate) struct SetOnDrop<'a>(pub(crate) &'a AtomicBool);

impl Drop for SetOnDrop<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

pub(crate) fn run(url: &str, data: &Path, arguments: &[&str]) -> Output {
    command().env("HINDCAST_STORE_URL", url).args(arguments).arg("--data-dir").arg(data).output().unwrap()
}

pub(crate) fn get(server: &Server, path: &str) -> Reply {
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
            eventually("it says that it is not ready", || get(server, "/readyz").status == 503);
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
    let stop = AtomicBool::new(false);
    let (addresses, cluster) = (&servers.servers, &mut servers.cluster);
    let client = |number: usize| {
        let mut answered = 0;
        while !stop.load(Ordering::Relaxed) {
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
        let stopping = SetOnDrop(&stop);
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
        drop(stopping);
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
            let mut connection = Connection::to(address);
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
fn health_has_the_database_server() {
    let Some(servers) = Servers::start(1) else { return };
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
}

#[test]
fn doctor_tells_a_database_that_answers_from_one_that_is_away() {
    let Some(mut servers) = Servers::start(1) else { return };
    let store = |servers: &Servers| {
        let report: Value = serde_json::from_slice(&servers.try_run(&["doctor", "--json"]).stdout).unwrap();
        let checks = report["checks"].as_array().unwrap();
        checks.iter().find(|check| check["name"] == "store").unwrap().clone()
    };
    let found = store(&servers);
    assert_eq!(found["status"], "ok", "{found}");
    servers.cluster.crash();
    let found = store(&servers);
    assert_eq!(found["status"], "fail", "{found}");
    assert!(found["detail"].as_str().unwrap().contains("PostgreSQL cannot be reached"), "{found}");
}

#[test]
fn a_postgresql_that_hangs_is_answered_with_503_and_service_goes_on_when_it_does() {
    let Some(servers) = Servers::start_with(1, &[("HINDCAST_STORE_CONNECTIONS", "2")]) else { return };
    let made = servers.key(&["--per-month", "100000", "--per-minute", "100000"]);
    let key = made["key"].as_str().unwrap();
    let server = &servers.servers[0];
    assert_eq!(servers.press(key, 8, 2), (16, 0));
    let before = servers.verified_rows();
    servers.cluster.freeze();
    let begun = Instant::now();
    let call = || server.rpc(key, "tools/call", json!({ "name": "debugger/license_info" }));
    let replies: Vec<Reply> = std::thread::scope(|scope| {
        let clients: Vec<_> = (0..8).map(|_| scope.spawn(call)).collect();
        clients.into_iter().map(|client| client.join().unwrap()).collect()
    });
    for reply in &replies {
        assert_eq!((reply.status, reply.code()), (503, -32603), "{reply:?}");
        assert_eq!(reply.header("retry-after"), Some("2"), "{reply:?}");
        assert!(reply.error()["data"]["details"].as_str().unwrap().contains("PostgreSQL"), "{reply:?}");
    }
    assert!(begun.elapsed() < Duration::from_secs(25), "{:?}", begun.elapsed());
    let ready = get(server, "/readyz");
    assert_eq!(ready.status, 503, "{ready:?}");
    assert_eq!(get(server, "/healthz").status, 200);
    servers.cluster.thaw();
    eventually("it is ready", || get(server, "/readyz").status == 200);
    assert_eq!(servers.press(key, 8, 2), (16, 0));
    assert!(servers.verified_rows() - before >= 16);
}

#[test]
fn strangers_are_not_told_where_the_database_is_and_what_it_says() {
    let Some(servers) = Servers::start(1) else { return };
    let made = servers.key(&[]);
    let server = &servers.servers[0];
    let name = servers.cluster.sql(&servers.url, "SELECT current_database()");
    servers.cluster.sql(
        "postgres",
        &format!(
            "ALTER DATABASE {name} ALLOW_CONNECTIONS false;
             SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = '{name}'"
        ),
    );
    eventually("it is not ready", || get(server, "/readyz").status == 503);
    // Connections that were cut are gone; each new one is refused with a text that names the database.
    eventually("it is refused", || {
        let call = json!({ "name": "debugger/license_info" });
        server.rpc(made["key"].as_str().unwrap(), "tools/call", call).status == 500
    });
    let stranger = server.rpc(made["key"].as_str().unwrap(), "tools/list", json!({}));
    for reply in [get(server, "/readyz"), stranger] {
        let body = String::from_utf8_lossy(&reply.body).into_owned();
        assert!(body.contains("log"), "{body}");
        for secret in [&*name, "postgres\"", ":5432", "ALLOW", "not currently accepting"] {
            assert!(!body.contains(secret), "{secret}: {body}");
        }
    }
    servers.cluster.sql("postgres", &format!("ALTER DATABASE {name} ALLOW_CONNECTIONS true"));
    eventually("it is ready", || get(server, "/readyz").status == 200);
}

#[test]
fn open_figures_say_that_the_store_is_down_and_those_for_keys_cannot() {
    let Some(mut servers) = Servers::start_with(1, &[("HINDCAST_SERVER_OPEN_METRICS", "true")]) else {
        return;
    };
    servers.cluster.crash();
    let page = get(&servers.servers[0], "/metrics");
    let text = String::from_utf8_lossy(&page.body).into_owned();
    assert_eq!(page.status, 200, "{text}");
    assert!(text.lines().any(|line| line == "hindcast_store_up 0"), "{text}");
    drop(servers);

    let Some(mut servers) = Servers::start(1) else { return };
    let admin = servers.key(&["--scope", "admin"])["key"].as_str().unwrap().to_owned();
    servers.cluster.crash();
    let headers = format!("Host: localhost\r\nAuthorization: Bearer {admin}\r\n");
    let page = servers.servers[0].connect().request("GET /metrics", &headers, b"").unwrap();
    assert_eq!((page.status, page.header("retry-after")), (503, Some("2")), "{page:?}");
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
