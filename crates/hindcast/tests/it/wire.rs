//! The contract on the wire, as a bare client sees it.

use std::process::Command;

use serde_json::json;

use crate::server::{Server, hindcast};

#[test]
fn the_three_commands_of_the_contract_work_with_curl_over_https() {
    let server = Server::start(&["--tls"]);
    let key = server.first_key.clone().unwrap();
    let certificate = server.data.join("tls/cert.pem");
    let curl = |body: &str| {
        let output = Command::new("curl")
            .args(["-sS", "-X", "POST", "--cacert"])
            .arg(&certificate)
            .arg(format!("https://localhost:{}/mcp", server.address.port()))
            .args([
                "-H",
                &format!("Authorization: Bearer {key}"),
                "-H",
                "Content-Type: application/json",
                "-d",
                body,
            ])
            .output()
            .unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        serde_json::from_slice::<serde_json::Value>(&output.stdout).unwrap()
    };

    let listed = curl(r#"{"jsonrpc":"2.0","id":1,"method":"tools/list","params":{}}"#);
    let mut tools = listed["result"]["tools"].as_array().unwrap().iter();
    let attach = tools.find(|tool| tool["name"] == "debugger/attach").unwrap();
    assert_eq!(attach["description"], "Attach to a running process");
    assert_eq!(attach["inputSchema"]["properties"]["pid"]["type"], "integer");
    assert_eq!(attach["inputSchema"]["properties"]["pid"]["description"], "Process ID to attach to");
    assert_eq!(attach["inputSchema"]["properties"]["port"]["type"], "integer");

    // A process id beyond the largest that Linux gives out.
    let attached = curl(
        r#"{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"debugger/attach","arguments":{"pid":4194305}}}"#,
    );
    assert_eq!((attached["id"].clone(), attached["error"]["code"].clone()), (json!(2), json!(-32004)));
    assert_eq!(attached["error"]["message"], "Process not found");

    let trace = curl(
        r#"{"jsonrpc":"2.0","id":3,"method":"tools/call","params":{"name":"debugger/get_stack_trace","arguments":{}}}"#,
    );
    assert_eq!(trace["error"]["code"], -32005);
    assert_eq!(trace["error"]["message"], "Not attached");
}

#[test]
fn answers_carry_the_rate_limit_and_over_it_the_contracts_error() {
    let server = Server::start(&[]);
    let key = server.key(&["--per-month", "3", "--per-minute", "100"]);
    let call = || server.rpc(&key, "tools/call", json!({ "name": "debugger/license_info" }));
    let listed = server.rpc(&key, "tools/list", json!({}));
    assert_eq!(listed.header("x-ratelimit-remaining"), Some("3"), "listing is free");
    for remaining in ["2", "1", "0"] {
        let reply = call();
        assert_eq!((reply.status, reply.code()), (200, 0), "{reply:?}");
        assert_eq!(reply.header("x-ratelimit-limit"), Some("3"));
        assert_eq!(reply.header("x-ratelimit-remaining"), Some(remaining));
        assert!(reply.header("x-ratelimit-reset").unwrap().parse::<u64>().unwrap() > 1_700_000_000);
    }
    let reply = call();
    assert_eq!((reply.status, reply.code()), (429, -32002));
    assert!(reply.header("retry-after").unwrap().parse::<u64>().unwrap() > 0);
    let error = &reply.json()["error"];
    assert_eq!(error["message"], "Quota exceeded");
    assert_eq!((&error["data"]["limit"], &error["data"]["used"]), (&json!(3), &json!(3)));
    assert!(error["data"]["reset_at"].as_str().unwrap().ends_with("-01T00:00:00Z"));
}

#[test]
fn a_revoked_key_is_refused_at_once_by_the_running_server() {
    let server = Server::start(&[]);
    let made = server.new_key(&[]);
    let key = made["key"].as_str().unwrap();
    assert_eq!(server.rpc(key, "tools/list", json!({})).status, 200);
    hindcast(&server.data, &["keys", "revoke", made["id"].as_str().unwrap()]);
    let reply = server.rpc(key, "tools/list", json!({}));
    assert_eq!((reply.status, reply.code()), (401, -32001));
    assert!(reply.header("www-authenticate").unwrap().starts_with("Bearer"));
}
