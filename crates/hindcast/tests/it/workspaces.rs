//! The files that a tenant brings, and the limits that they keep to.

use std::collections::BTreeMap;

use base64::{Engine as _, prelude::BASE64_STANDARD};
use hindcast_fixtures::Fixture;
use serde_json::{Value, json};

use crate::{
    hosted::{Hosted, for_tenant},
    server::{Connection, Dice, Server, helpful_error, kills, try_hindcast},
};

/// Puts a program into the workspace, by one call.
pub(crate) fn put_program(hosted: &Hosted, fixture: &Fixture, path: &str) {
    let base64 = BASE64_STANDARD.encode(std::fs::read(fixture.build().path).unwrap());
    hosted.call("workspace/put", json!({ "path": path, "base64": base64, "executable": true }));
}

#[test]
fn a_tenant_brings_a_program_debugs_it_and_sees_no_other_workspace() {
    let server = Server::start_with(&[("HINDCAST_DEBUG_WORKSPACE_BYTES", "400000")]);
    let (owner, stranger) = (server.tenant_key(), server.tenant_key());
    let done = |key: &str, tool: &str, arguments: Value| {
        let answer = server.call(key, tool, arguments);
        assert!(answer["result"].is_object(), "{tool}: {answer}");
        answer["result"]["structuredContent"].clone()
    };
    let program = std::fs::read(Fixture::c("escapes").build().path).unwrap();
    // In two pieces, as large ones come.
    let (first, rest) = program.split_at(program.len() / 2);
    for (piece, append) in [(first, false), (rest, true)] {
        let base64 = BASE64_STANDARD.encode(piece);
        let arguments =
            json!({ "path": "build/escapes", "base64": base64, "append": append, "executable": true });
        done(&owner, "workspace/put", arguments);
    }
    done(&owner, "workspace/put", json!({ "path": "notes.txt", "text": "mine" }));
    let listed = done(&owner, "workspace/list", json!({}));
    assert_eq!(listed["files"][0]["path"], "build/escapes", "{listed}");
    assert_eq!(listed["files"][0]["bytes"], program.len(), "{listed}");
    let folder = listed["folder"].as_str().unwrap();
    let others = done(&stranger, "workspace/list", json!({}));
    assert_eq!(others["files"], json!([]), "{others}");
    assert_ne!(others["folder"], listed["folder"]);

    let attempts = ["read", "notes.txt", "write", "made.txt", "list", others["folder"].as_str().unwrap()];
    let launch =
        json!({ "program": "build/escapes", "args": attempts, "stop_at_entry": false, "record": false });
    done(&owner, "debugger/launch", launch.clone());
    done(&owner, "debugger/wait", json!({ "until": "exited", "timeout_ms": 60_000 }));
    let told = server.call(&owner, "debugger/read_output", json!({})).to_string();
    assert!(told.contains("read notes.txt: done") && told.contains("write made.txt: done"), "{told}");
    assert!(told.contains(": refused (ENOENT)"), "{told}");
    assert_eq!(done(&owner, "workspace/list", json!({}))["files"].as_array().unwrap().len(), 2, "it is gone");

    // Nothing of it is there for others, by whatever path.
    let stolen = format!("{folder}/build/escapes");
    for path in [stolen.as_str(), "build/escapes", "../build/escapes"] {
        helpful_error(&server.call(&stranger, "debugger/launch", json!({ "program": path })));
    }
    for path in ["../x", "/etc/x", "", stolen.as_str()] {
        helpful_error(&server.call(&stranger, "workspace/put", json!({ "path": path, "text": "x" })));
        helpful_error(&server.call(&stranger, "workspace/remove", json!({ "path": path })));
    }
    let full = helpful_error(&server.call(
        &owner,
        "workspace/put",
        json!({ "path": "large", "text": "x".repeat(400_000) }),
    ));
    assert_eq!(full["code"], -32002, "{full}");
    assert!(full["data"]["hint"].as_str().unwrap().contains("build/escapes"), "{full}");
    done(&owner, "workspace/remove", json!({ "path": "build" }));
    assert_eq!(done(&owner, "workspace/list", json!({}))["bytes"], 4);
}

#[test]
fn an_exported_recording_counts_and_can_be_opened_again() {
    let hosted = for_tenant(&[("HINDCAST_DEBUG_WORKSPACE_BYTES", "3000000")]);
    let launch = json!({ "program": Fixture::c("calls").build().path, "args": ["3"] });
    hosted.call("debugger/launch", launch);
    hosted.call("debugger/continue", json!({}));
    let export = |path: &str| json!({ "format": "binary", "path": path });
    let (_, exported) = hosted.answer("debugger/export_trace", export("calls.trace"));
    let bytes = exported["bytes"].as_u64().unwrap();
    assert!(bytes > 10_000, "{exported}");
    let (_, listed) = hosted.answer("workspace/list", json!({}));
    assert_eq!(listed["bytes"], bytes, "{listed}");
    // Room for half of it: how large it is differs by a few bytes from one time to the next.
    let filler = "x".repeat(3_000_000 - (bytes + bytes / 2) as usize);
    hosted.call("workspace/put", json!({ "path": "filler", "text": filler }));
    let full = hosted.refused("debugger/export_trace", export("again.trace"));
    assert_eq!(full["code"], -32002, "{full}");
    assert!(full["data"]["hint"].as_str().unwrap().contains("workspace/remove"), "{full}");
    let (_, listed) = hosted.answer("workspace/list", json!({}));
    assert_eq!(listed["total"], 2, "nothing is left of it: {listed}");
    hosted.call("debugger/disconnect", json!({}));
    let opened = hosted.call("debugger/launch", json!({ "trace": "calls.trace" }));
    assert!(opened.contains("namespace"), "it is opened in the confinement: {opened}");
}

#[test]
fn long_lists_come_in_pages() {
    let hosted = for_tenant(&[]);
    for number in 0..7 {
        hosted.call("workspace/put", json!({ "path": format!("many/{number}"), "text": "x" }));
    }
    let (text, page) = hosted.answer("workspace/list", json!({ "offset": 2, "limit": 3 }));
    let paths: Vec<_> = page["files"].as_array().unwrap().iter().map(|file| &file["path"]).collect();
    assert_eq!(paths, ["many/2", "many/3", "many/4"]);
    assert_eq!(page["total"], 7);
    assert!(text.ends_with("… 2 more: `offset` 5"), "{text}");
    let (_, left) = hosted.answer("workspace/remove", json!({ "path": "many" }));
    assert_eq!(left, json!({ "total": 0, "bytes": 0, "limit": left["limit"] }));
}

#[test]
fn a_folder_of_workspaces_that_others_can_write_to_stops_the_start() {
    use std::os::unix::fs::PermissionsExt as _;
    let folder = tempfile::tempdir().unwrap();
    std::fs::set_permissions(folder.path(), std::fs::Permissions::from_mode(0o777)).unwrap();
    let data = tempfile::tempdir().unwrap();
    let config = data.path().join("config.toml");
    std::fs::write(&config, format!("[debug]\nworkspaces = {:?}\n", folder.path())).unwrap();
    let arguments = ["serve", "--http", "--listen", "127.0.0.1:0", "--config", config.to_str().unwrap()];
    let output = try_hindcast(data.path(), &arguments);
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(!output.status.success() && said.contains("others can write") && said.contains("hint"), "{said}");
}

#[test]
fn the_symbols_of_a_program_show_no_file_that_the_program_could_not_open() {
    let hosted = for_tenant(&[]);
    // The server may read it, and it is in a folder that tenants see, but it is not theirs to read.
    let built = Fixture::c("calls").build();
    let secret = tempfile::Builder::new().suffix(".c").tempfile_in(built.path.parent().unwrap()).unwrap();
    let text: String = (1..50).map(|line| format!("secret line {line}\n")).collect();
    std::fs::write(secret.path(), text).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let source = folder.path().join("names.c");
    let path = secret.path().canonicalize().unwrap();
    std::fs::write(&source, format!("#line 3 \"{}\"\nint main(void) {{\n return 0;\n}}\n", path.display()))
        .unwrap();
    let program = folder.path().join("names");
    let compiled = std::process::Command::new("cc").arg("-g").arg("-o").arg(&program).arg(&source).status();
    assert!(compiled.unwrap().success());
    let base64 = BASE64_STANDARD.encode(std::fs::read(&program).unwrap());
    hosted.call("workspace/put", json!({ "path": "names", "base64": base64, "executable": true }));
    let launched = hosted.call("debugger/launch", json!({ "program": "names" }));
    assert!(launched.contains(path.file_name().unwrap().to_str().unwrap()), "{launched}");
    assert_eq!(launched.contains("secret line"), !is_root(), "{launched}");
    let uri = format!("debugger://source/{}", path.display());
    let read = hosted.server.rpc(&hosted.key, "resources/read", json!({ "uri": uri })).json();
    assert_eq!(read.to_string().contains("secret line"), !is_root(), "{read}");
}

/// Where the server is root, programs of tenants run as users of their own.
pub(crate) fn is_root() -> bool {
    nix::unistd::geteuid().is_root()
}

/// What is put into a file: as many letters as its number says, all the same.
fn content(number: usize) -> String {
    let letter = char::from(b'a' + (number % 26) as u8);
    letter.to_string().repeat(20_000 + number)
}

#[test]
fn a_killed_server_has_every_file_that_it_acknowledged_and_no_half_of_another() {
    let data = tempfile::tempdir().unwrap();
    let mut dice = Dice(21);
    let mut acknowledged = BTreeMap::new();
    let mut key = None;
    let mut number = 0;
    for _ in 0..kills(4) {
        let server = Server::start_in(data.path(), &[]);
        let key: &String = key.get_or_insert_with(|| server.tenant_key());
        let (address, until_killed) = (server.address, 1 + dice.roll(20));
        let (tell, told) = std::sync::mpsc::channel();
        let (first, putting_key) = (number, key.clone());
        // Names come again, so that files are replaced, too.
        let name = |number: usize| format!("folder-{}/file-{}", number % 3, number % 17);
        let putting = std::thread::spawn(move || {
            let mut connection = Connection::to(address);
            for number in first.. {
                let arguments = json!({ "path": name(number), "text": content(number) });
                let call = json!({ "jsonrpc": "2.0", "id": 1, "method": "tools/call",
                    "params": { "name": "workspace/put", "arguments": arguments } });
                let headers = format!("Authorization: Bearer {putting_key}\r\n");
                let Ok(reply) = connection.post_with(&headers, call.to_string().as_bytes()) else {
                    return number;
                };
                assert!(reply.json()["result"].is_object(), "{reply:?}");
                if tell.send(number).is_err() {
                    return number + 1;
                }
            }
            unreachable!("it puts until the server is killed")
        });
        for _ in 0..until_killed {
            let number = told.recv().unwrap();
            acknowledged.insert(name(number), number);
        }
        // In the middle of whatever comes next.
        server.kill();
        number = putting.join().unwrap() + 1;
        for number in told.try_iter() {
            acknowledged.insert(name(number), number);
        }

        let server = Server::start_in(data.path(), &[]);
        let listed = server.call(key, "workspace/list", json!({ "limit": 1000 }));
        let listed = &listed["result"]["structuredContent"];
        let folder = std::path::Path::new(listed["folder"].as_str().unwrap());
        for file in listed["files"].as_array().unwrap() {
            let text = std::fs::read_to_string(folder.join(file["path"].as_str().unwrap())).unwrap();
            assert!(text == content(text.len() - 20_000), "half a file: {file}");
        }
        for (name, number) in &acknowledged {
            let length = std::fs::read(folder.join(name)).unwrap().len();
            // The one that was under way may have come after it.
            assert!(length >= content(*number).len(), "{name} is older than what was acknowledged");
        }
    }
}
