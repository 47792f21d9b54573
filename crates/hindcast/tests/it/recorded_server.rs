//! A server of many threads that is recorded while clients ask it: hindcast itself, on tokio.

use std::fs::File;

use hindcast_fixtures::oracle_size;
use serde_json::{Value, json};

use crate::{
    debugger::Client,
    server::{Dice, HINDCAST, Server, command},
};

/// Goes to a moment; gives its name, and what can be seen there.
fn visit(client: &mut Client, to: Value) -> (Value, [Value; 2]) {
    let mut ask = |tool: &str, arguments| {
        let answer = client.rpc("tools/call", &json!({ "name": tool, "arguments": arguments }));
        assert!(answer["result"].is_object(), "{tool}: {answer}");
        answer["result"]["structuredContent"].clone()
    };
    let moment = ask("debugger/goto", to)["moment"].clone();
    (moment, ["debugger/get_registers", "debugger/get_stack_trace"].map(|tool| ask(tool, json!({}))))
}

#[test]
fn a_server_of_many_threads_is_recorded_under_requests() {
    let folder = tempfile::tempdir().unwrap();
    let trace = folder.path().join("server.trace");
    let log = folder.path().join("log");
    let mut recorder = command();
    recorder.args(["record", "--output"]).arg(&trace).arg("--").arg(HINDCAST);
    let mut server = Server::run(recorder, &folder.path().join("data"), &[], File::create(&log).unwrap());

    // Another process that makes a key would share memory with it.
    let key = server.first_key.clone().unwrap();
    std::thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| {
                let mut connection = server.connect();
                for _ in 0..oracle_size(8, 125) {
                    assert_eq!(connection.rpc(&key, "tools/list", json!({})).status, 200);
                }
            });
        }
    });
    // The recorder passes it on.
    server.signal("TERM");
    assert!(server.ended().success());
    let said = std::fs::read_to_string(&log).unwrap();
    assert!(said.contains("exited with code 0") && !said.contains("then no more"), "{said}");

    let mut client = Client::new();
    client.call("debugger/launch", json!({ "trace": trace }));
    let mut dice = Dice(17);
    let mut seen = Vec::new();
    for _ in 0..oracle_size(4, 100) {
        let percent = dice.roll(100);
        seen.push(visit(&mut client, json!({ "percent": percent })));
    }
    while !seen.is_empty() {
        let before = seen.swap_remove(dice.roll(seen.len()));
        assert_eq!(visit(&mut client, json!({ "moment": before.0 })), before);
    }
}
