//! The `debugger://` resources, word for word.

use hindcast_core::debug::fake::{FakeAct, FakeProgram};
use serde_json::{Value, json};

use super::stage::{Client, Stage};

pub(super) async fn debugger_resources(client: &mut Client) -> Vec<Value> {
    let listed = client.request("resources/list", json!({})).await;
    let all = listed["result"]["resources"].as_array().unwrap().clone();
    all.into_iter().filter(|one| one["uri"].as_str().unwrap().starts_with("debugger://")).collect()
}

async fn templates(client: &mut Client) -> Vec<Value> {
    let listed = client.request("resources/templates/list", json!({})).await;
    let all = listed["result"]["resourceTemplates"].as_array().unwrap().clone();
    all.into_iter().filter(|one| one["uriTemplate"].as_str().unwrap().starts_with("debugger://")).collect()
}

/// The content of a resource, whose outside is checked.
pub(super) async fn read(client: &mut Client, uri: &str, mime_type: &str) -> String {
    let answer = client.request("resources/read", json!({ "uri": uri })).await;
    let text =
        answer["result"]["contents"][0]["text"].as_str().unwrap_or_else(|| panic!("{answer}")).to_owned();
    let contents = json!([{ "uri": uri, "mimeType": mime_type, "text": text }]);
    assert_eq!(answer["result"]["contents"], contents);
    text
}

#[tokio::test(flavor = "multi_thread")]
async fn they_are_listed_while_a_session_lives() {
    let stage = Stage::counter();
    let mut client = stage.client().await;
    assert!(debugger_resources(&mut client).await.is_empty());
    assert!(templates(&mut client).await.is_empty());
    stage.launch().await;
    assert_eq!(
        debugger_resources(&mut client).await,
        [
            json!({
                "uri": "debugger://session",
                "name": "Debug Session",
                "description": "Current debug session state (process info, state, location)",
                "mimeType": "application/json",
            }),
            json!({
                "uri": "debugger://breakpoints",
                "name": "Breakpoints",
                "description": "All active breakpoints, tracepoints, and exception breakpoints",
                "mimeType": "application/json",
            }),
            json!({
                "uri": "debugger://threads",
                "name": "Threads",
                "description": "Threads in the debugged process",
                "mimeType": "application/json",
            }),
            json!({
                "uri": "debugger://timeline",
                "name": "Timeline",
                "description": "What happened in the recorded process: stops, output, signals, breakpoints, each with its moment",
                "mimeType": "application/json",
            }),
        ]
    );
    assert_eq!(
        templates(&mut client).await,
        [json!({
            "uriTemplate": "debugger://source/{+file}",
            "name": "Source File",
            "description": "Source code of files that the debug information of the debugged process names",
            "mimeType": "text/plain",
        })]
    );
    stage.call("disconnect", json!({})).await;
    assert!(debugger_resources(&mut client).await.is_empty());
    let gone = client.request("resources/read", json!({ "uri": "debugger://session" })).await;
    assert_eq!(gone["error"]["code"], -32005);
    stage.finish().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn their_content_is_the_contracts() {
    let stage = Stage::counter();
    let file = stage.source();
    let mut client = stage.client().await;
    let program = stage.folder.join("program");
    let arguments = json!({ "program": program, "args": ["--verbose"], "cwd": stage.folder });
    stage.call("launch", arguments).await;
    stage.call("set_breakpoint", json!({ "function": "report", "condition": "total == 42" })).await;
    stage.call("set_exception_breakpoint", json!({ "exception_type": "rust:panic" })).await;
    stage.call("continue", json!({})).await;

    let session = read(&mut client, "debugger://session", "application/json").await;
    let location =
        format!(r#"{{"file":"{file}","line":11,"column":1,"functionName":"report","moduleName":"program"}}"#);
    assert_eq!(
        session,
        format!(
            r#"{{"processId":12345,"processName":"program","executablePath":"{}","runtimeVersion":"C (fake)","state":"Paused","launchMode":"Launch","attachedAt":"2026-02-05T10:30:00+00:00","pauseReason":"Breakpoint","currentLocation":{location},"activeThreadId":1,"commandLineArgs":["--verbose"],"workingDirectory":"{}"}}"#,
            program.display(),
            stage.folder.display(),
        )
    );
    let breakpoints = read(&mut client, "debugger://breakpoints", "application/json").await;
    assert_eq!(
        breakpoints,
        format!(
            r#"{{"breakpoints":[{{"id":"bp-1","type":"Breakpoint","file":"{file}","line":11,"column":1,"enabled":true,"verified":true,"state":"Bound","hitCount":1,"condition":"total == 42","logMessage":null,"hitCountMultiple":0,"maxNotifications":0,"notificationsSent":0}}],"exceptionBreakpoints":[{{"id":"ex-2","exceptionType":"rust:panic","breakOnFirstChance":true,"breakOnSecondChance":true,"includeSubtypes":true,"enabled":true,"verified":true,"hitCount":0}}]}}"#
        )
    );
    let threads = read(&mut client, "debugger://threads", "application/json").await;
    assert_eq!(
        threads,
        format!(
            r#"{{"threads":[{{"id":1,"name":"main","state":"Suspended","isCurrent":true,"location":{location}}},{{"id":4,"name":"worker","state":"Suspended","isCurrent":false,"location":null}}],"stale":false,"capturedAt":"2026-02-05T10:30:05+00:00"}}"#
        )
    );
    let source = read(&mut client, &format!("debugger://source/{file}"), "text/plain").await;
    assert!(source.starts_with("    statement(1);\n    statement(2);\n"), "{source}");
    stage.finish().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn files_that_are_not_served_are_refused_in_the_contracts_words() {
    for (managed, symbols, named_in) in
        [(true, "PDB symbols", "PDB"), (false, "debug information", "debug information")]
    {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().canonicalize().unwrap().join("Deleted.cs").display().to_string();
        let stage = Stage::with(FakeProgram { managed, ..FakeProgram::counter(&file) });
        let mut client = stage.client().await;
        stage.launch().await;
        for path in ["/etc/passwd", "/../etc/passwd"] {
            let uri = format!("debugger://source/{path}");
            let answer = client.request("resources/read", json!({ "uri": uri })).await;
            assert_eq!(answer["error"]["code"], -1);
            let message = format!("File path '{path}' is not referenced in any loaded {symbols}");
            assert_eq!(answer["error"]["message"], message);
        }
        let uri = format!("debugger://source/{file}");
        let answer = client.request("resources/read", json!({ "uri": uri })).await;
        assert_eq!(answer["error"]["code"], -1);
        let message = format!("Source file '{file}' referenced in {named_in} but not found on disk");
        assert_eq!(answer["error"]["message"], message);
        stage.finish().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_dotnet_session_is_listed_in_the_contracts_words() {
    let stage = Stage::with(FakeProgram { managed: true, ..FakeProgram::counter("/src/Counter.cs") });
    let mut client = stage.client().await;
    stage.launch().await;
    let listed = debugger_resources(&mut client).await;
    let threads = listed.iter().find(|one| one["uri"] == "debugger://threads").unwrap();
    assert_eq!(threads["description"], "Managed threads in the debugged process");
    let templates = templates(&mut client).await;
    assert_eq!(templates[0]["description"], "Source code from PDB-referenced files in the debugged process");
    stage.finish().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn threads_of_a_running_program_are_stale() {
    let stage = Stage::with(FakeProgram::doing(FakeAct::Spin));
    let mut client = stage.client().await;
    stage.launch().await;
    let running = stage.call("continue", json!({ "wait": false })).await;
    assert!(running.text.starts_with("Running (session "), "{}", running.text);
    let threads = read(&mut client, "debugger://threads", "application/json").await;
    let threads: Value = serde_json::from_str(&threads).unwrap();
    assert_eq!(
        (&threads["stale"], &threads["capturedAt"]),
        (&json!(true), &json!("2026-02-05T10:30:05+00:00"))
    );
    assert_eq!(threads["threads"].as_array().unwrap().len(), 2);
    let session = read(&mut client, "debugger://session", "application/json").await;
    let session: Value = serde_json::from_str(&session).unwrap();
    assert_eq!((&session["state"], &session["pauseReason"]), (&json!("Running"), &Value::Null));
    stage.finish().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn subscribers_are_told_within_a_second() {
    let stage = Stage::counter();
    let mut client = stage.client().await;
    for uri in ["debugger://session", "debugger://breakpoints"] {
        let answer = client.request("resources/subscribe", json!({ "uri": uri })).await;
        assert_eq!(answer["result"], json!({}));
    }
    stage.launch().await;
    client.hear("notifications/resources/list_changed", None).await;
    client.heard.clear();
    stage.call("set_breakpoint", json!({ "function": "report" })).await;
    let started = std::time::Instant::now();
    for _ in 0..10 {
        stage.call("update_breakpoint", json!({ "id": 1, "enabled": false })).await;
        stage.call("update_breakpoint", json!({ "id": 1, "enabled": true })).await;
    }
    client.hear("notifications/resources/updated", Some("debugger://breakpoints")).await;
    assert!(started.elapsed().as_millis() < 1000);
    assert!(client.heard.len() <= 3, "a burst is told once: {:?}", client.heard);
    stage.call("continue", json!({})).await;
    client.hear("notifications/resources/updated", Some("debugger://session")).await;
    let threads = |message: &&Value| message["params"]["uri"] == "debugger://threads";
    assert!(client.heard.iter().find(threads).is_none(), "what is not subscribed to is not told");
    let answer = client.request("resources/unsubscribe", json!({ "uri": "debugger://session" })).await;
    assert_eq!(answer["result"], json!({}));
    stage.finish().await;
}
