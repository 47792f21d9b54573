//! Only a part of the tools.

use std::sync::Arc;

use serde_json::{Value, json};

use crate::{
    debugger::Client,
    server::{Local, Server, try_hindcast},
};

fn offering(toolsets: &str) -> Client {
    let folder = Arc::new(tempfile::tempdir().unwrap());
    Client::of(Local::start_in(folder, &[("HINDCAST_SERVER_TOOLSETS", toolsets)]).initialize())
}

fn names(listed: &Value, of: &str) -> Vec<String> {
    let all = listed["result"][of].as_array().unwrap().iter();
    all.map(|entry| entry["name"].as_str().unwrap().to_owned()).collect()
}

#[test]
fn what_is_left_out_is_neither_listed_nor_called_nor_read() {
    let mut client = offering("xml");
    let tools = names(&client.rpc("tools/list", &json!({})), "tools");
    assert_eq!(tools, ["xpath_query", "validate_schema", "preload_documents", "cache_stats"]);
    assert!(names(&client.rpc("prompts/list", &json!({})), "prompts").is_empty());
    let resources = client.rpc("resources/list", &json!({})).to_string();
    assert!(!resources.contains("debugger://") && !resources.contains("resource://"), "{resources}");
    let refused = client.rpc("tools/call", &json!({ "name": "debugger/launch", "arguments": {} }));
    assert!(refused["error"]["data"]["hint"].as_str().unwrap().contains("offers only `xml`"), "{refused}");
    let refused = client.rpc("resources/read", &json!({ "uri": "debugger://session" }));
    assert!(refused["error"].is_object(), "{refused}");
}

#[test]
fn each_toolset_brings_its_own_tools_and_together_they_are_all() {
    let all =
        names(&offering("account,debugger,xml,knowledge,workspace").rpc("tools/list", &json!({})), "tools");
    let mut found = Vec::new();
    for toolset in ["account", "debugger", "xml", "knowledge", "workspace"] {
        let own = names(&offering(toolset).rpc("tools/list", &json!({})), "tools");
        assert!(!own.is_empty(), "{toolset}");
        found.extend(own);
    }
    assert_eq!(found, all);
}

#[test]
fn a_server_offers_to_all_keys_what_it_was_started_with() {
    let server = Server::start(&["--toolsets", "knowledge,account"]);
    let key = server.first_key.clone().unwrap();
    let listed = names(&server.rpc(&key, "tools/list", json!({})).json(), "tools");
    assert!(listed.iter().any(|tool| tool == "knowledge/search"), "{listed:?}");
    assert!(!listed.iter().any(|tool| tool == "debugger/launch" || tool == "xpath_query"), "{listed:?}");
}

#[test]
fn an_unknown_toolset_is_refused_with_the_known_ones() {
    let folder = tempfile::tempdir().unwrap();
    let refused = try_hindcast(folder.path(), &["mcp", "--toolsets", "debuger"]);
    let told = String::from_utf8(refused.stderr).unwrap();
    assert_eq!(refused.status.code(), Some(2), "{told}");
    assert!(told.contains("debugger") && told.contains("knowledge"), "{told}");
    std::fs::write(folder.path().join("c.toml"), "server.toolsets = [\"xslt\"]\n").unwrap();
    let file = folder.path().join("c.toml");
    let refused = try_hindcast(folder.path(), &["config", "show", "--config", file.to_str().unwrap()]);
    let told = String::from_utf8(refused.stderr).unwrap();
    assert!(told.contains("there is no choice `xslt`") && told.contains("`xml`"), "{told}");
    std::fs::write(&file, "server.toolsets = []\n").unwrap();
    let refused = try_hindcast(folder.path(), &["config", "show", "--config", file.to_str().unwrap()]);
    let told = String::from_utf8(refused.stderr).unwrap();
    assert!(told.contains("nothing would be offered"), "{told}");
}
