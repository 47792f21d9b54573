//! The official SDKs as clients, over both transports; what no SDK speaks is spoken by hand in [`revisions`].
//!
//! The clients are programs in `peers/clients` that run the same named scenarios and print how each went.

mod revisions;

use std::{
    io::Write as _,
    path::{Path, PathBuf},
    process::{Command, Stdio},
    sync::Arc,
};

use base64::{Engine as _, prelude::BASE64_STANDARD};
use ed25519_dalek::SigningKey;
use hindcast_core::{Timestamp, audit::AuditRecord, store::MetadataStore as _};
use hindcast_stores::SqliteStore;
use serde::Deserialize;
use serde_json::{Value, json};

use crate::server::{HINDCAST, Server, hindcast};

/// Enough for the check of the trail to take much longer than telling the server to stop it.
const LONG_TRAIL: usize = 60_000;

const EVERYWHERE: [&str; 13] = [
    "initialize",
    "list_tools",
    "call_tool",
    "call_tool_by_underscore_name",
    "tool_error",
    "read_resources",
    "unknown_resource",
    "prompts",
    "complete",
    "logging",
    "progress",
    "cancel",
    "no_complaints",
];
const ON_STDIO: [&str; 1] = ["list_tools_with_underscores"];
const ON_HTTPS: [&str; 4] = ["wrong_key", "wrong_scope", "over_quota", "own_notifications_only"];

#[test]
fn the_python_sdk_works_over_stdio() {
    over_stdio(python, "handshake", &["subscribe"]);
}

#[test]
fn the_python_sdk_works_over_https() {
    over_https(python, "handshake", &["subscribe"]);
}

#[test]
fn the_python_sdk_works_over_stdio_without_handshake() {
    over_stdio(python, "stateless", &["listen", "call_without_discover"]);
}

#[test]
fn the_python_sdk_works_over_https_without_handshake() {
    over_https(python, "stateless", &["listen", "call_without_discover"]);
}

// The TypeScript SDK 1.32 speaks no revision without a handshake.

#[test]
fn the_typescript_sdk_works_over_stdio() {
    over_stdio(typescript, "handshake", &["subscribe"]);
}

#[test]
fn the_typescript_sdk_works_over_https() {
    over_https(typescript, "handshake", &["subscribe", "errors_leave_no_streams"]);
}

fn over_stdio(sdk: Sdk, era: &str, further: &[&str]) {
    let Some(peers) = peers() else { return };
    let folder = tempfile::tempdir().unwrap();
    // Any command that writes makes the data folder.
    hindcast(folder.path(), &["keys", "create", "--name", "test"]);
    lengthen_trail(folder.path());
    let target = json!({ "transport": "stdio", "era": era, "binary": HINDCAST, "data": folder.path() });
    check(sdk(&peers), &target, &[&EVERYWHERE, &ON_STDIO, further]);
}

fn over_https(sdk: Sdk, era: &str, further: &[&str]) {
    let Some(peers) = peers() else { return };
    let server = Server::start(&["--tls"]);
    lengthen_trail(&server.data);
    let elsewhere = tempfile::tempdir().unwrap();
    let unknown = hindcast(elsewhere.path(), &["keys", "create", "--name", "test", "--json"]);
    let unknown: Value = serde_json::from_str(&unknown).unwrap();
    let certificate = server.data.join("tls/cert.pem");
    let target = json!({
        "transport": "https",
        "era": era,
        "url": format!("https://localhost:{}/mcp", server.address.port()),
        "certificate": certificate,
        "keys": {
            "main": server.unlimited_key(),
            "other": server.unlimited_key(),
            "narrow": server.key(&["--scope", "document:read"]),
            "one_call": server.key(&["--per-month", "1", "--per-minute", "10"]),
            "wrong": unknown["key"],
        },
    });
    let mut client = sdk(&peers);
    client.env("NODE_EXTRA_CA_CERTS", certificate);
    check(client, &target, &[&EVERYWHERE, &ON_HTTPS, further]);
}

/// Makes the command that runs a client, given where `cargo xtask peers` put the SDKs.
type Sdk = fn(&Path) -> Command;

fn python(peers: &Path) -> Command {
    let mut command = Command::new(peers.join("python/bin/python"));
    command.arg(client("client.py"));
    command
}

fn typescript(peers: &Path) -> Command {
    let folder = peers.join("node");
    let mut command = Command::new(folder.join("node_modules/node/bin/node"));
    // A file finds its imports from where it lies, a text from where it is run.
    let text = std::fs::read_to_string(client("client.mjs")).unwrap();
    command.current_dir(folder).args(["--input-type=module", "--eval", &text, "--"]);
    command
}

fn client(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../peers/clients").join(name)
}

/// Where the SDKs are; none when these tests are to be skipped.
pub(crate) fn peers() -> Option<PathBuf> {
    if let Some(folder) = std::env::var_os("HINDCAST_PEERS") {
        let folder = PathBuf::from(folder);
        assert!(folder.is_absolute(), "HINDCAST_PEERS is {folder:?}, which depends on where the test runs");
        return Some(folder);
    }
    let reason = "HINDCAST_PEERS is not set · hint: `cargo xtask peers`, then `cargo xtask test`";
    assert!(std::env::var_os("HINDCAST_REQUIRE_PEERS").is_none(), "{reason}");
    let test = std::thread::current().name().unwrap_or_default().to_owned();
    // Past the test runner, which keeps what passing tests print to itself.
    let _ = writeln!(std::io::stderr(), "SKIPPED {test}: {reason}");
    None
}

/// A line that a client prints.
#[derive(Deserialize)]
struct Outcome {
    scenario: String,
    ok: bool,
    detail: Value,
}

/// Runs a client and fails unless exactly these scenarios were run and all went well.
fn check(mut client: Command, target: &Value, expected: &[&[&str]]) {
    for (name, _) in std::env::vars().filter(|(name, _)| name.starts_with("HINDCAST_")) {
        client.env_remove(name);
    }
    client.arg(target.to_string()).stdin(Stdio::null()).stderr(Stdio::inherit());
    let output = client.output().unwrap_or_else(|error| panic!("{error}: {:?}", client.get_program()));
    let printed = String::from_utf8(output.stdout).unwrap();
    let mut ran = Vec::new();
    let mut failed = String::new();
    for line in printed.lines() {
        let outcome = serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {line}"));
        let Outcome { scenario, ok, detail } = outcome;
        println!("{} {scenario}: {detail}", if ok { "ok    " } else { "FAILED" });
        if !ok {
            failed += &format!("\n{scenario}: {}\n", detail.as_str().unwrap_or_default());
        }
        ran.push(scenario);
    }
    assert!(failed.is_empty(), "{failed}");
    assert!(output.status.success(), "{}", output.status);
    let mut expected = expected.concat();
    expected.sort_unstable();
    ran.sort_unstable();
    assert_eq!(ran, expected);
}

/// Adds rows to the trail as the server would; calling for each of them would take long.
fn lengthen_trail(data: &Path) {
    let key = std::fs::read_to_string(data.join("audit.key")).unwrap();
    let key: [u8; 32] = BASE64_STANDARD.decode(key.trim()).unwrap().try_into().unwrap();
    let now = Timestamp::now();
    let store = SqliteStore::open(&data.join("hindcast.db"), SigningKey::from_bytes(&key), now).unwrap();
    let store = Arc::new(store);
    let record = AuditRecord {
        time: now,
        principal: None,
        key_id: None,
        ip: None,
        method: "tools/call".into(),
        tool: Some("debugger/license_info".into()),
        target: None,
        session_id: None,
        outcome: "ok".into(),
        duration_us: 1,
    };
    // While one thread writes, the other brings what is written next, all at once.
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).build().unwrap();
    runtime.block_on(async {
        let mut appending = tokio::task::JoinSet::new();
        for _ in 0..LONG_TRAIL {
            let (store, record) = (store.clone(), record.clone());
            appending.spawn(async move { store.append_audit(record).await });
        }
        while let Some(appended) = appending.join_next().await {
            appended.unwrap().unwrap();
        }
    });
}
