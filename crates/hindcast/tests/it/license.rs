//! An ended license takes away the features it names, whichever way they are asked for.

use std::{path::Path, process::Stdio};

use serde_json::json;

use crate::server::{BOTH, Server, hindcast};

/// Installs a license for these features; gives the public key of its issuer.
pub(crate) fn license_until(folder: &Path, features: &[&str], end: String) -> String {
    let issuer = folder.join("issuer.key");
    let issuer = issuer.to_str().unwrap();
    let public_key = hindcast(folder, &["license", "keygen", issuer]);
    let mut issue = vec!["license", "issue", "--key", issuer, "--type", "Enterprise", "--licensee", "X"];
    issue.extend(features.iter().flat_map(|feature| ["--feature", feature]));
    issue.extend(["--expires", &end]);
    std::fs::write(folder.join("license.json"), hindcast(folder, &issue)).unwrap();
    public_key.trim().to_owned()
}

/// A server that trusts this issuer of licenses.
pub(crate) fn server_with_license(folder: &Path, issuer: &str) -> Server {
    Server::launch(folder, &[], &[("HINDCAST_LICENSE_ISSUERS", issuer)], Stdio::null())
}

/// A server whose license for these features has ended.
pub(crate) fn server_with_an_ended_license(folder: &Path, features: &[&str]) -> Server {
    let issuer = license_until(folder, features, "2020-01-01T00:00:00Z".into());
    server_with_license(folder, &issuer)
}

#[test]
fn resources_of_an_ended_feature_are_refused_like_its_tools() {
    let folder = tempfile::tempdir().unwrap();
    let features = ["debugging", "time-travel", "knowledge", "audit"];
    let server = server_with_an_ended_license(folder.path(), &features);
    let key = server.unlimited_key();
    for (uri, feature) in [
        ("debugger://session", "debugging"),
        ("debugger://source//etc/passwd", "debugging"),
        ("debugger://timeline", "time-travel"),
        ("resource://knowledge/collections", "knowledge"),
        ("resource://system/models", "knowledge"),
        ("hindcast://audit", "audit"),
    ] {
        let reply = server.rpc(&key, "resources/read", json!({ "uri": uri }));
        let error = reply.error();
        assert_eq!((reply.status, reply.code()), (200, -32010), "{uri}: {error}");
        assert_eq!(error["message"], "License expired");
        assert_eq!(error["data"]["feature"], feature, "{uri}");
    }
    for uri in ["hindcast://license", "hindcast://quota", "hindcast://errors", "resource://system/health"] {
        assert_eq!(server.rpc(&key, "resources/read", json!({ "uri": uri })).code(), 0, "{uri}");
    }
    let session = server.connect().initialize(&key);
    let headers = format!("Authorization: Bearer {key}\r\nAccept: {BOTH}\r\n{session}");
    let subscribe = json!({ "jsonrpc": "2.0", "id": 5, "method": "resources/subscribe",
        "params": { "uri": "debugger://session" } });
    let reply = server.connect().post_with(&headers, subscribe.to_string().as_bytes()).unwrap();
    assert!(String::from_utf8_lossy(&reply.body).contains("-32010"), "{reply:?}");
}
