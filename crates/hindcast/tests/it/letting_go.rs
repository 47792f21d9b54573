//! What was attached to can always be let go, whatever becomes of the limits, the license or the key.

use std::process::{Child, Command, Stdio};

use serde_json::json;

use crate::{
    license::{license_until, server_with_license},
    server::{BOTH, Server, eventually, hindcast},
    workers::is_free,
};

/// A program that the key has attached to. It ends with the test, whatever becomes of that.
struct Attached(Child);

impl Attached {
    fn by(server: &Server, key: &str) -> Self {
        let program = Self(Command::new("sleep").arg("1000").stdout(Stdio::null()).spawn().unwrap());
        let answer = server.call(key, "debugger/attach", json!({ "pid": program.0.id() }));
        assert!(answer["result"].is_object(), "{answer}");
        assert!(!program.is_free());
        program
    }

    fn is_free(&self) -> bool {
        is_free(self.0.id())
    }

    fn check_let_go(mut self) {
        eventually("the program is let go", || self.is_free());
        assert!(self.0.try_wait().unwrap().is_none());
    }
}

impl Drop for Attached {
    fn drop(&mut self) {
        self.0.kill().unwrap();
        self.0.wait().unwrap();
    }
}

#[test]
fn a_process_check_let_go_when_the_limits_are_used_up() {
    let server = Server::start(&[]);
    for limits in [["--per-month", "1", "--per-minute", "100"], ["--per-month", "100", "--per-minute", "1"]] {
        let key = server.unconfined_key(&limits);
        let program = Attached::by(&server, &key);
        // Another minute may have begun.
        eventually("the limit is used up", || {
            server.rpc(&key, "tools/call", json!({ "name": "debugger/status" })).status == 429
        });
        let answer = server.rpc(&key, "tools/call", json!({ "name": "debugger/disconnect" }));
        assert_eq!((answer.status, answer.code()), (200, 0), "{answer:?}");
        program.check_let_go();
    }
}

#[test]
fn disconnecting_is_not_counted_and_a_session_is_ended_however_often_that_was_tried_in_vain() {
    let server = Server::start(&[]);
    let made = server.new_unconfined_key(&["--per-month", "1", "--per-minute", "100"]);
    let key = made["key"].as_str().unwrap();
    let program = Attached::by(&server, key);
    let disconnect = |session: &str| {
        let arguments = json!({ "session_id": session });
        let params = json!({ "name": "debugger_disconnect", "arguments": arguments });
        server.rpc(key, "tools/call", params)
    };
    let statuses: Vec<_> = (0..100).map(|_| disconnect("nobody").status).collect();
    assert!(statuses.contains(&429), "what ends nothing is bounded");
    let answer = server.rpc(key, "tools/call", json!({ "name": "debugger/disconnect" }));
    assert_eq!((answer.status, answer.code()), (200, 0), "{answer:?}");
    program.check_let_go();
    let shown = hindcast(&server.data, &["keys", "show", made["id"].as_str().unwrap(), "--json"]);
    let shown: serde_json::Value = serde_json::from_str(&shown).unwrap();
    assert_eq!(shown["used_this_month"], 1);
}

#[test]
fn a_process_check_let_go_when_the_license_has_ended() {
    let folder = tempfile::tempdir().unwrap();
    let issuer = license_until(folder.path(), &["debugging"], in_seconds(4));
    let server = server_with_license(folder.path(), &issuer);
    let key = server.unlimited_key();
    let program = Attached::by(&server, &key);
    eventually("the license ends", || {
        server.rpc(&key, "tools/call", json!({ "name": "debugger/status" })).code() == -32010
    });
    let answer = server.rpc(&key, "tools/call", json!({ "name": "debugger/disconnect" }));
    assert_eq!((answer.status, answer.code()), (200, 0), "{answer:?}");
    program.check_let_go();
}

/// The time in so many seconds, as RFC 3339 has it.
fn in_seconds(seconds: u64) -> String {
    hindcast_core::Timestamp::now().checked_add(std::time::Duration::from_secs(seconds)).unwrap().to_string()
}

#[test]
fn sessions_of_a_key_end_with_the_key() {
    let server = Server::start(&[]);
    let revoked = server.new_unconfined_key(&["--tier", "enterprise", "--owner", "same"]);
    let program = Attached::by(&server, revoked["key"].as_str().unwrap());
    let stays = server.unconfined_key(&["--tier", "enterprise", "--owner", "same"]);
    let other = Attached::by(&server, &stays);
    hindcast(&server.data, &["keys", "revoke", revoked["id"].as_str().unwrap()]);
    program.check_let_go();
    assert!(!other.is_free(), "another key's session goes on");
    let answer = server.call(&stays, "debugger/disconnect", json!({}));
    assert!(answer["result"].is_object(), "{answer}");
    other.check_let_go();

    let ends = server.unconfined_key(&["--tier", "enterprise", "--expires", &in_seconds(4)]);
    Attached::by(&server, &ends).check_let_go();
}

#[test]
fn a_debug_session_does_not_end_with_a_session_of_the_protocol() {
    let server = Server::start(&[]);
    let key = server.unlimited_key();
    let session = server.connect().initialize(&key);
    let program = Attached::by(&server, &key);
    let headers = format!("Host: localhost\r\nAccept: {BOTH}\r\nAuthorization: Bearer {key}\r\n{session}");
    let ended = server.connect().request("DELETE /mcp", &headers, b"").unwrap();
    assert_eq!(ended.status, 204);
    let status = server.call(&key, "debugger/status", json!({}));
    assert_eq!(status["result"]["structuredContent"]["sessions"][0]["state"], "paused", "{status}");
    server.call(&key, "debugger/disconnect", json!({}));
    program.check_let_go();
}
