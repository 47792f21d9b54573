//! Every tool and resource × every scope × what belongs to another tenant, over HTTPS: nothing of it is shown or changed.

use std::{fmt::Write as _, path::Path, process::Command};

use hindcast_core::identity::Scope;
use hindcast_fixtures::Fixture;
use serde_json::{Map, Value, json};

use crate::{hosted::descendants_of, server::Server};

/// What only the victim's own files, output and documents contain.
const SECRET: &str = "tangerine-47-secret";
/// What only names of the victim's contain.
const SECRET_NAME: &str = "persimmon-name";

/// Asks over HTTPS by `curl`, which keeps its connection; gives an answer for each request.
fn over_https(server: &Server, key: &str, requests: &[(String, Value)]) -> Vec<Value> {
    let quoted = |text: &str| format!("\"{}\"", text.replace('\\', "\\\\").replace('"', "\\\""));
    let url = format!("https://localhost:{}/mcp", server.address.port());
    let mut config = String::new();
    for (number, (method, params)) in requests.iter().enumerate() {
        let body = json!({ "jsonrpc": "2.0", "id": number, "method": method, "params": params });
        let separator = if number == 0 { "" } else { "next\n" };
        let header = |header: &str| format!("header = {}\n", quoted(header));
        write!(
            config,
            "{separator}url = {}\ncacert = {}\nsilent\nshow-error\n{}{}data = {}\nwrite-out = \"\\n\"\n",
            quoted(&url),
            quoted(server.data.join("tls/cert.pem").to_str().unwrap()),
            header(&format!("Authorization: Bearer {key}")),
            header("Content-Type: application/json"),
            quoted(&body.to_string()),
        )
        .unwrap();
    }
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), config).unwrap();
    let output = Command::new("curl").arg("--config").arg(file.path()).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let answers = String::from_utf8(output.stdout).unwrap();
    let answers: Vec<Value> = answers.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(answers.len(), requests.len());
    answers
}

fn ask(server: &Server, key: &str, method: &str, params: Value) -> Value {
    over_https(server, key, &[(method.to_owned(), params)]).remove(0)
}

fn call(server: &Server, key: &str, tool: &str, arguments: Value) -> Value {
    let answer = ask(server, key, "tools/call", json!({ "name": tool, "arguments": arguments }));
    assert!(answer["result"].is_object(), "{tool}: {answer}");
    answer["result"]["structuredContent"].clone()
}

/// A tenant with something of everything, and the names by which it is found.
struct Victim {
    key: String,
    session: String,
    texts: Vec<String>,
    pid: u64,
    uris: Vec<String>,
}

impl Victim {
    fn settle(server: &Server, documents: &Path) -> Self {
        let key = server.key(&["--owner", "victim", "--tier", "enterprise"]);
        let call = |tool: &str, arguments: Value| call(server, &key, tool, arguments);
        let file = format!("{SECRET_NAME}/notes.txt");
        call("workspace/put", json!({ "path": file, "text": SECRET }));
        let escapes = std::fs::read(Fixture::c("escapes").build().path).unwrap();
        let base64 = base64::Engine::encode(&base64::prelude::BASE64_STANDARD, escapes);
        call(
            "workspace/put",
            json!({ "path": SECRET_NAME.to_owned() + "/app", "base64": base64, "executable": true }),
        );
        let launch =
            json!({ "program": format!("{SECRET_NAME}/app"), "args": ["variable", SECRET, "variable", "x"] });
        let session = call("debugger/launch", launch)["session_id"].as_str().unwrap().to_owned();
        let line = Fixture::c("escapes").build().line("end");
        call("debugger/set_breakpoint", json!({ "file": "escapes.c", "line": line }));
        let stopped = call("debugger/continue", json!({}));
        assert!(stopped.to_string().contains(SECRET), "it prints what is secret: {stopped}");
        let added =
            call("knowledge/add", json!({ "collection": "plums", "name": SECRET_NAME, "text": SECRET }));
        let document = documents.join(format!("{SECRET_NAME}.xml"));
        std::fs::write(&document, format!("<order>{SECRET}</order>")).unwrap();
        call("xpath_query", json!({ "document": document, "query": "//order" }));
        let folder = call("workspace/list", json!({}))["folder"].as_str().unwrap().to_owned();
        let workspace = Path::new(&folder).file_name().unwrap().to_str().unwrap().to_owned();
        let mut texts =
            vec![session.clone(), format!("{folder}/{file}"), format!("../{workspace}/{file}"), folder];
        let mut uris = Vec::new();
        let listed = ask(server, &key, "resources/list", json!({}));
        for resource in listed["result"]["resources"].as_array().unwrap() {
            uris.push(resource["uri"].as_str().unwrap().to_owned());
        }
        texts.extend(added["collection"].as_str().map(str::to_owned));
        let pid = *descendants_of(server.pid().into()).last().unwrap();
        Self { key, session, texts, pid, uris }
    }

    /// The letters by which audit rows name the key.
    fn key_id(&self) -> &str {
        &self.key["kdb_live_".len()..][..8]
    }

    /// What others must leave as it is.
    fn state(&self, server: &Server) -> Value {
        let status = call(server, &self.key, "debugger/status", json!({ "session_id": self.session }));
        let files = call(server, &self.key, "workspace/list", json!({}));
        let threads = call(server, &self.key, "debugger/get_stack_trace", json!({}));
        let found =
            call(server, &self.key, "knowledge/search", json!({ "query": SECRET, "mode": "lexical" }));
        json!([status["breakpoints"], files, threads["frames"], found["hits"][0]["text"]])
    }
}

/// All values of the victim's that a parameter could take.
fn attempts(parameter: &Value, victim: &Victim) -> Vec<Value> {
    let text = parameter.to_string();
    let mut values = Vec::new();
    if text.contains("\"array\"") {
        values.extend(victim.texts.iter().map(|text| json!([text])));
    }
    if text.contains("\"string\"") {
        values.extend(victim.texts.iter().map(|text| json!(text)));
    }
    if text.contains("\"integer\"") {
        values.push(json!(victim.pid));
    }
    values
}

/// Something harmless for a parameter that must be there.
fn harmless(parameter: &Value) -> Value {
    let kind = parameter["type"].as_str().or_else(|| parameter["type"][0].as_str()).unwrap_or("string");
    match kind {
        "integer" | "number" => json!(1),
        "boolean" => json!(false),
        "array" => json!([]),
        "object" => json!({}),
        _ => json!("x"),
    }
}

/// Calls of a tool in which one parameter names something of the victim's.
fn calls(tool: &Value, victim: &Victim) -> Vec<(String, Value)> {
    let schema = &tool["inputSchema"];
    let empty = Map::new();
    let parameters = schema["properties"].as_object().unwrap_or(&empty);
    let required = schema["required"].as_array().into_iter().flatten().filter_map(Value::as_str);
    let base: Map<String, Value> =
        required.map(|name| (name.to_owned(), harmless(&parameters[name]))).collect();
    let mut all = vec![Value::Object(base.clone())];
    // Every tool takes a session, whether it lists it or not.
    let session = json!({ "type": "string" });
    // What it is told it keeps for the asker, who would be told it by others then.
    let keeps = tool["name"] == "debugger/save_finding";
    let named = parameters.iter().filter(|_| !keeps).map(|(name, schema)| (name.as_str(), schema));
    for (name, parameter) in named.chain([("session_id", &session)]) {
        for value in attempts(parameter, victim) {
            let mut arguments = base.clone();
            arguments.insert(name.to_owned(), value);
            all.push(Value::Object(arguments));
        }
    }
    let name = &tool["name"];
    let call = |arguments| ("tools/call".to_owned(), json!({ "name": name, "arguments": arguments }));
    all.into_iter().map(call).collect()
}

/// Whether an answer tells something of the victim's that was not in the question. A key's own audit rows repeat all that it
/// has asked before.
fn tells(answer: &Value, asked: &Value, victim: &Victim) -> bool {
    let (answer, asked) = (answer.to_string(), asked.to_string());
    let is_told = |what: &str| answer.contains(what) && !asked.contains(what) && !asked.contains("audit");
    answer.contains(SECRET)
        || answer.contains(victim.key_id())
        || is_told(SECRET_NAME)
        || is_told(&victim.session)
}

#[test]
fn no_tool_and_no_resource_tells_or_changes_anything_of_another_tenant() {
    let documents = tempfile::tempdir().unwrap();
    let documents = documents.path().canonicalize().unwrap();
    let folder = tempfile::tempdir().unwrap();
    let environment = [
        ("HINDCAST_DOCUMENTS_ALLOWED_FOLDERS", documents.to_str().unwrap()),
        ("HINDCAST_KNOWLEDGE_OLLAMA_URL", "off"),
    ];
    let server = Server::launch(folder.path(), &["--tls"], &environment, std::process::Stdio::inherit());
    let victim = Victim::settle(&server, &documents);
    let before = victim.state(&server);
    let listed = ask(&server, &victim.key, "tools/list", json!({}));
    let tools = listed["result"]["tools"].as_array().unwrap();

    // The scopes that reach others are not for tenants.
    let of_tenants =
        Scope::ALL.into_iter().filter(|scope| !matches!(scope, Scope::Admin | Scope::DebugUnconfined));
    let mut keys: Vec<_> = of_tenants
        .map(|scope| (scope.name(), server.key(&["--tier", "enterprise", "--scope", scope.name()])))
        .collect();
    keys.push(("all of a tenant's", server.tenant_key()));
    let mut asked = 0;
    for (scopes, key) in &keys {
        let mut requests = vec![("resources/list".to_owned(), json!({}))];
        for uri in &victim.uris {
            for method in ["resources/read", "resources/subscribe"] {
                requests.push((method.to_owned(), json!({ "uri": uri })));
            }
        }
        requests.extend(tools.iter().flat_map(|tool| calls(tool, &victim)));
        let answers = over_https(&server, key, &requests);
        asked += answers.len();
        for ((method, params), answer) in requests.iter().zip(&answers) {
            assert!(!tells(answer, params, &victim), "{scopes}: {method} {params}\n{answer}");
            let names_session = params["arguments"]["session_id"] == *victim.session;
            let is_debugger = params["name"].as_str().is_some_and(|name| name.starts_with("debugger/"));
            let takes_none = ["quota_status", "license_info", "get_comprehensive_audit"];
            let is_free = params["name"]
                .as_str()
                .is_some_and(|name| takes_none.iter().any(|free| name.ends_with(free)));
            let is_refused = answer["error"].is_object();
            assert!(
                !(names_session && is_debugger && !is_free) || is_refused,
                "{scopes}: {params}\n{answer}"
            );
        }
    }
    assert!(asked > 1000, "{asked}");
    assert_eq!(victim.state(&server), before);
}
