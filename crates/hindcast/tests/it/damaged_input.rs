//! Real input with random damage: whatever comes of it, it is answered or let go, and the server lives. The damage is the same
//! every time.

use std::{
    io::{Read as _, Write as _},
    net::{Shutdown, TcpStream},
    time::Duration,
};

use base64::{Engine as _, prelude::BASE64_STANDARD};
use hindcast_fixtures::Fixture;
use serde_json::json;

use crate::{
    debugger::is_alive,
    hosted::for_tenant,
    server::{Dice, Server, eventually, helpful_error},
};

/// Changes, cuts off, doubles or removes something of it, one to four times.
fn damage(bytes: &[u8], dice: &mut Dice) -> Vec<u8> {
    let mut damaged = bytes.to_vec();
    for _ in 0..=dice.roll(4) {
        let at = dice.roll(damaged.len().max(1));
        match dice.roll(6) {
            _ if damaged.is_empty() => {}
            0 => damaged.truncate(at),
            1 => {
                damaged.remove(at);
            }
            2 => damaged.insert(at, dice.pick(b"\0\r\n {}[]\":,\\\xff0")),
            3 => {
                let end = damaged.len().min(at + dice.roll(40));
                damaged.extend_from_within(at..end);
            }
            4 => damaged[at] = dice.pick(&[0, 0x7f, 0x80, 0xff]),
            _ => damaged[at] ^= 1 << dice.roll(8),
        }
    }
    damaged
}

#[test]
fn damaged_requests_are_answered_or_let_go_and_the_server_lives() {
    const ROUNDS: usize = 400;
    let server = Server::start(&[]);
    let key = server.unlimited_key();
    let body = json!({ "jsonrpc": "2.0", "id": 1, "method": "tools/call",
        "params": { "name": "debugger/status", "arguments": { "session_id": "x" } } })
    .to_string();
    let head = format!(
        "POST /mcp HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {key}\r\nContent-Type: application/json\r\n\
         Accept: application/json\r\nConnection: close\r\nContent-Length: {}\r\n\r\n",
        body.len()
    );
    let request = (head + &body).into_bytes();
    let mut dice = Dice(2026);
    let mut answered = 0;
    for round in 0..ROUNDS {
        let mut stream = TcpStream::connect(server.address).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
        // It may be answered and closed before all of it is sent.
        let _ = stream.write_all(&damage(&request, &mut dice));
        let _ = stream.shutdown(Shutdown::Write);
        let mut reply = Vec::new();
        let ended = stream.read_to_end(&mut reply);
        let timed_out = ended.is_err_and(|error| error.kind() == std::io::ErrorKind::WouldBlock);
        assert!(!timed_out, "round {round} is neither answered nor let go");
        answered += usize::from(reply.starts_with(b"HTTP/1."));
    }
    assert!(answered > ROUNDS / 4, "{answered}");
    let good = server.rpc(&key, "tools/list", json!({})).json();
    assert!(good["result"]["tools"].is_array(), "{good}");
}

#[test]
fn damaged_programs_of_a_tenant_are_launched_or_refused_and_leave_nothing() {
    const ROUNDS: usize = 25;
    let hosted = for_tenant(&[]);
    let program = std::fs::read(Fixture::c("calls").build().path).unwrap();
    let mut dice = Dice(21);
    let mut refused = 0;
    for round in 0..ROUNDS {
        // Most of what is read at the start is at the front and at the back.
        let mut damaged = program.clone();
        for _ in 0..8 {
            let near = dice.roll(4096);
            let at = if dice.roll(2) == 0 { near } else { damaged.len() - 1 - near };
            damaged[at] = dice.pick(&[0, 1, 0x7f, 0x80, 0xff]);
        }
        let put = json!({ "path": "damaged", "base64": BASE64_STANDARD.encode(damaged), "executable": true });
        hosted.call("workspace/put", put);
        let launch = json!({ "program": "damaged", "args": ["3"], "timeout_ms": 5000 });
        let answer = hosted.server.call(&hosted.key, "debugger/launch", launch);
        if answer["error"].is_object() {
            helpful_error(&answer);
            refused += 1;
            continue;
        }
        let name = answer["result"]["structuredContent"]["session_id"].clone();
        hosted.server.call(&hosted.key, "debugger/get_variables", json!({ "session_id": name }));
        let ended = hosted.server.call(&hosted.key, "debugger/disconnect", json!({ "session_id": name }));
        assert!(ended["result"].is_object(), "round {round}: {ended}");
    }
    assert!(refused > 0 && refused < ROUNDS, "{refused} of {ROUNDS}");
    eventually("no process of a session is left", || {
        hosted.processes().into_iter().all(|process| !is_alive(process))
    });
}
