//! Limits are exact, however many clients press at once, and outlive the server.

use std::{
    sync::Barrier,
    time::{SystemTime, UNIX_EPOCH},
};

use serde_json::{Value, json};

use crate::server::{BOTH, Connection, Reply, Server, eventually, hindcast};

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
        check_over_the_limit(reply);
    }
    (granted.len(), refused.len())
}

fn check_over_the_limit(reply: &Reply) {
    assert_eq!((reply.status, reply.code()), (429, -32002), "{reply:?}");
    assert!(reply.header("retry-after").unwrap().parse::<u64>().unwrap() > 0);
    let data = &reply.error()["data"];
    assert_eq!(data["limit"], data["used"], "{data}");
    assert!(data["reset_at"].is_string());
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
        ("tools/call", json!({ "name": "debugger/quota_status" }), 0),
        ("resources/read", json!({ "uri": "hindcast://quota" }), 0),
        ("resources/read", json!({ "uri": "hindcast://license" }), 1),
        ("tools/call", json!({ "name": "debugger/disconnect" }), 0),
    ] {
        let before = used_this_month(&server.data, &made["id"]);
        server.rpc(key, method, params);
        assert_eq!(used_this_month(&server.data, &made["id"]) - before, counts, "{method}");
    }
}

#[test]
fn lists_that_a_free_key_asks_for_without_end_count_and_are_refused_at_its_limit() {
    let server = Server::start(&[]);
    for method in ["tools/list", "resources/list", "resources/templates/list", "prompts/list"] {
        let ask = |tier: &str| {
            let made = server.new_key(&["--tier", tier, "--per-month", "5", "--per-minute", "1000"]);
            let mut connection = server.connect();
            let ask = |_| connection.rpc(made["key"].as_str().unwrap(), method, json!({}));
            let replies: Vec<_> = (0..100).map(ask).collect();
            (replies, used_this_month(&server.data, &made["id"]))
        };
        let (replies, used) = ask("free");
        let (listed, refused): (Vec<_>, Vec<_>) = replies.iter().partition(|reply| reply.status == 200);
        // Thirty at once are free, and one in each second from then on; five are in the month.
        assert!((35..80).contains(&listed.len()), "{method}: {}", listed.len());
        for reply in refused {
            check_over_the_limit(reply);
        }
        assert_eq!(used, 5, "{method}");
        let (replies, used) = ask("developer");
        assert!(replies.iter().all(|reply| reply.status == 200), "{method}");
        assert_eq!(used, 0, "{method}");
    }
}

/// The limit, what is left of it and when it starts again, as the headers have it.
fn headers(reply: &Reply) -> (u64, u64, u64) {
    let number = |name: &str| {
        let value = reply.header(name).unwrap_or_else(|| panic!("no {name}: {reply:?}"));
        value.parse::<u64>().unwrap()
    };
    (number("x-ratelimit-limit"), number("x-ratelimit-remaining"), number("x-ratelimit-reset"))
}

/// What happens within one clock minute; done again when it straddles two.
fn within_a_minute<T>(mut work: impl FnMut(u64) -> T) -> T {
    for _ in 0..5 {
        let began = minute();
        let done = work(began);
        if minute() == began {
            return done;
        }
    }
    panic!("no try stayed within a minute");
}

#[test]
fn the_headers_describe_the_limit_that_is_used_up_first() {
    let server = Server::start(&[]);
    let (replies, began) = within_a_minute(|began| {
        let key = server.key(&["--per-month", "4", "--per-minute", "3"]);
        ((0..4).map(|_| call(&server, &key)).collect::<Vec<_>>(), began)
    });
    let next_minute = (began + 1) * 60;
    for (reply, remaining) in replies.iter().zip([2, 1, 0]) {
        assert_eq!((reply.status, headers(reply)), (200, (3, remaining, next_minute)), "{reply:?}");
    }
    let refused = &replies[3];
    assert_eq!((refused.status, headers(refused)), (429, (3, 0, next_minute)), "{refused:?}");
    let wait: u64 = refused.header("retry-after").unwrap().parse().unwrap();
    assert!((1..=61).contains(&wait), "{wait}");
    let data = &refused.error()["data"];
    assert_eq!((&data["limit"], &data["used"]), (&json!(3), &json!(3)));

    let key = server.key(&["--per-month", "2", "--per-minute", "100"]);
    for remaining in [1, 0] {
        let (limit, left, reset) = headers(&call(&server, &key));
        assert_eq!((limit, left), (2, remaining));
        assert!(reset > next_minute, "the month's");
    }
}

#[test]
fn every_answer_to_a_valid_key_has_the_headers() {
    let mut server = Server::start(&[]);
    let key = server.key(&["--per-month", "7", "--per-minute", "100"]);
    let authorization = format!("Authorization: Bearer {key}\r\n");
    let mut replies = vec![
        (400, server.connect().post(&key, b"{")),
        (400, server.connect().post(&key, b"[]")),
        (200, server.rpc(&key, "tools/fly", json!({}))),
        (404, {
            let headers = format!("{authorization}Mcp-Session-Id: nobody\r\n");
            server.connect().post_with(&headers, b"{}").unwrap()
        }),
        (404, {
            let headers = format!("Host: localhost\r\n{authorization}");
            server.connect().request("GET /nothing", &headers, b"").unwrap()
        }),
        (405, {
            let headers = format!("Host: localhost\r\n{authorization}");
            server.connect().request("PUT /mcp", &headers, b"").unwrap()
        }),
        (415, {
            let headers = format!("Host: localhost\r\nContent-Type: text/plain\r\n{authorization}");
            server.connect().request("POST /mcp", &headers, b"{}").unwrap()
        }),
        (204, {
            let session = server.connect().initialize(&key);
            let headers = format!("Host: localhost\r\nAccept: {BOTH}\r\n{authorization}{session}");
            server.connect().request("DELETE /mcp", &headers, b"").unwrap()
        }),
    ];
    // Something under way keeps the server while it stops.
    let mut under_way: Connection = server.connect();
    let head = format!(
        "POST /mcp HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n{authorization}Expect: 100-continue\r\nContent-Length: 2\r\n\r\n"
    );
    under_way.send(head.as_bytes()).unwrap();
    assert_eq!(under_way.head().unwrap().status, 100);
    server.signal("TERM");
    eventually("newcomers are turned away", || {
        let reply = server.rpc(&key, "ping", json!({}));
        let stops = reply.status == 503;
        if stops {
            replies.push((503, reply));
        }
        stops
    });
    let stranger = server.rpc("kdb_live_wrong", "ping", json!({}));
    assert_eq!((stranger.status, stranger.header("x-ratelimit-limit")), (503, None));
    under_way.send(b"{}").unwrap();
    replies.push((400, under_way.reply().unwrap()));
    assert!(server.ended().success());
    for (status, reply) in replies {
        assert_eq!(reply.status, status, "{reply:?}");
        let (limit, remaining, _) = headers(&reply);
        assert_eq!((limit, remaining), (7, 7), "{reply:?}");
    }
}

#[test]
fn how_the_limits_stand_is_told_when_they_are_used_up() {
    let server = Server::start(&[]);
    for limits in [["--per-month", "1", "--per-minute", "100"], ["--per-month", "100", "--per-minute", "1"]] {
        within_a_minute(|_| {
            let made = server.new_key(&limits);
            let key = made["key"].as_str().unwrap();
            assert_eq!(call(&server, key).status, 200);
            let refused = call(&server, key);
            if refused.status == 200 {
                return;
            }
            assert!(refused.error()["data"]["hint"].as_str().unwrap().contains("debugger/quota_status"));
            for (method, params) in [
                ("tools/call", json!({ "name": "debugger/quota_status" })),
                ("tools/call", json!({ "name": "debugger_quota_status" })),
                ("resources/read", json!({ "uri": "hindcast://quota" })),
            ] {
                let reply = server.rpc(key, method, params);
                assert_eq!((reply.status, reply.code()), (200, 0), "{reply:?}");
                assert_eq!(reply.header("x-ratelimit-remaining"), Some("0"));
            }
            assert_eq!(used_this_month(&server.data, &made["id"]), 1, "that is not counted");
            assert_eq!(call(&server, key).status, 429);
        });
    }
    let key = server.key(&["--per-month", "1", "--per-minute", "100"]);
    call(&server, &key);
    let mut connection = server.connect();
    let ask = |_| connection.rpc(&key, "tools/call", json!({ "name": "debugger/quota_status" })).status;
    let statuses: Vec<_> = (0..200).map(ask).collect();
    assert_eq!(statuses[0], 200);
    assert!(statuses.contains(&429), "also that has an end");
}

/// A connection with an event stream of the session.
fn stream(server: &Server, key: &str, session: &str) -> (u16, Connection) {
    let mut connection = server.connect();
    let head = format!(
        "GET /mcp HTTP/1.1\r\nHost: localhost\r\nAccept: text/event-stream\r\nAuthorization: Bearer {key}\r\n{session}\r\n"
    );
    connection.send(head.as_bytes()).unwrap();
    let status = connection.head().unwrap().status;
    (status, connection)
}

#[test]
fn one_key_with_event_streams_without_end_locks_nobody_out() {
    let server = Server::start(&[]);
    let (greedy, other) = (server.key(&[]), server.unlimited_key());
    let mut open = Vec::new();
    let mut refused = 0;
    // Each in a session of its own, because a session has one such stream.
    for _ in 0..140 {
        let session = server.connect().initialize(&greedy);
        let (status, connection) = stream(&server, &greedy, &session);
        match status {
            200 => open.push(connection),
            429 => refused += 1,
            other => panic!("{other}"),
        }
    }
    assert_eq!((open.len(), refused), (128, 12));
    assert_eq!(call(&server, &other).status, 200);
    drop(open);
    eventually("there is room again", || {
        let session = server.connect().initialize(&greedy);
        stream(&server, &greedy, &session).0 == 200
    });
}

#[test]
fn unfinished_bodies_of_one_key_take_a_bounded_share_and_others_are_heard() {
    let server = Server::start(&[]);
    let (greedy, other) = (server.key(&[]), server.unlimited_key());
    let before = server.resident_bytes();
    let piece = vec![b' '; 4_000_000];
    let mut unfinished = Vec::new();
    for _ in 0..40 {
        let mut connection = server.connect();
        let head = format!(
            "POST /mcp HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nAuthorization: Bearer {greedy}\r\nContent-Length: 4000001\r\n\r\n"
        );
        connection.send(head.as_bytes()).unwrap();
        // Whoever is turned away need not read it to the end.
        let _ = connection.send(&piece);
        unfinished.push(connection);
    }
    assert_eq!(call(&server, &other).status, 200);
    let taken = server.resident_bytes().saturating_sub(before);
    assert!(taken < 120 << 20, "{} MB", taken >> 20);
    let mut turned_away = 0;
    for connection in unfinished.iter_mut().skip(4) {
        turned_away += usize::from(connection.head().is_ok_and(|head| head.status == 429));
    }
    assert!(turned_away >= 30, "{turned_away}");
}

#[test]
fn health_is_told_also_where_no_more_connections_fit() {
    let server = Server::start_with(&[("HINDCAST_SERVER_MAX_CONNECTIONS", "4")]);
    let key = server.unlimited_key();
    let mut taken = Vec::new();
    for _ in 0..4 {
        // The server may not have noticed yet that a connection before this one is closed.
        eventually("a stream opens", || {
            let Some(session) = server.connect().try_initialize(&key) else { return false };
            let (status, connection) = stream(&server, &key, &session);
            taken.extend((status == 200).then_some(connection));
            status == 200
        });
    }
    let healthy = server.connect().request("GET /healthz", "Host: localhost\r\n", b"").unwrap();
    assert_eq!(healthy.status, 200, "{healthy:?}");
    let crowded = call(&server, &key);
    assert_eq!(crowded.status, 503, "{crowded:?}");
    drop(taken);
    eventually("there is room again", || call(&server, &key).status == 200);
}
