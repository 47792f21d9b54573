//! What a key's type and range cannot say: the form of texts, and keys that depend on each other.

use std::path::Path;

use super::{error::Problem, load::Loaded, show::without_password};

/// Everything that is wrong with values that are fine by their type.
pub(super) fn problems(loaded: &Loaded) -> Vec<Problem> {
    let mut found = Vec::new();
    check_store(loaded, &mut found);
    check_vectors(loaded, &mut found);
    check_transport(loaded, &mut found);
    check_texts(loaded, &mut found);
    check_policy(loaded, &mut found);
    #[cfg(target_os = "linux")]
    check_adapters(loaded, &mut found);
    found
}

fn check_store(loaded: &Loaded, found: &mut Vec<Problem>) {
    let store = &loaded.config.store;
    if let Some(url) = store.url.as_ref().filter(|url| !is_database(url)) {
        let remedy = "give a database of PostgreSQL, such as `postgres://hindcast@db.example.org/hindcast`";
        let reason = "it is not an address of PostgreSQL";
        found.push(problem(loaded, "store.url", &without_password(url), reason, remedy));
    }
    for (key, path) in [("store.password_file", &store.password_file), ("store.tls_ca", &store.tls_ca)] {
        if let (Some(path), None) = (path, &store.url) {
            let remedy = "set `store.url` as well, or leave it out";
            let reason = "`store.url` is not set";
            found.push(problem(loaded, key, &path.display().to_string(), reason, remedy));
        }
    }
}

fn check_vectors(loaded: &Loaded, found: &mut Vec<Problem>) {
    let vectors = &loaded.config.vectors;
    if let Some(url) = vectors.url.as_ref().filter(|url| !is_web_server(url)) {
        let remedy = "give scheme, host and port of Qdrant, such as `https://qdrant.example.org:6333`, and its key in `vectors.api_key_file`";
        let reason = "it is not an address of Qdrant";
        found.push(problem(loaded, "vectors.url", &without_password(url), reason, remedy));
    }
    for (key, path) in [("vectors.api_key_file", &vectors.api_key_file), ("vectors.tls_ca", &vectors.tls_ca)]
    {
        if let (Some(path), None) = (path, &vectors.url) {
            let remedy = "set `vectors.url` as well, or leave it out";
            let reason = "`vectors.url` is not set";
            found.push(problem(loaded, key, &path.display().to_string(), reason, remedy));
        }
    }
}

/// Whether it is the address of a server without anything secret in it.
fn is_web_server(url: &str) -> bool {
    let host = ["http://", "https://"].iter().find_map(|scheme| url.strip_prefix(scheme));
    host.is_some_and(|host| {
        !host.is_empty()
            && !host.starts_with('/')
            && !host.contains(|letter: char| matches!(letter, '@' | '?' | '#') || letter.is_whitespace())
    })
}

fn is_database(url: &str) -> bool {
    ["postgres://", "postgresql://"].iter().any(|scheme| url.starts_with(scheme))
}

fn check_transport(loaded: &Loaded, found: &mut Vec<Problem>) {
    let server = &loaded.config.server;
    if server.http && !server.listen.ip().is_loopback() {
        let reason = format!("plain HTTP is only for loopback, and `server.listen` is {}", server.listen);
        let remedy = "leave `server.http` out to serve HTTPS, or listen on `127.0.0.1`";
        found.push(problem(loaded, "server.http", "true", &reason, remedy));
    }
    let pair = [("server.tls_cert", &server.tls_cert), ("server.tls_key", &server.tls_key)];
    for ((key, path), (other_key, other)) in [(pair[0], pair[1]), (pair[1], pair[0])] {
        if let (Some(path), None) = (path, other) {
            let reason = format!("`{other_key}` is not set");
            let remedy = "set both, or neither for a self-signed certificate";
            found.push(problem(loaded, key, &path.display().to_string(), &reason, remedy));
        }
    }
    if let (true, Some(path)) = (server.http, &server.tls_cert) {
        let remedy = "leave out either `server.http` or the certificate";
        let reason = "`server.http` asks for plain HTTP";
        found.push(problem(loaded, "server.tls_cert", &path.display().to_string(), reason, remedy));
    }
}

type TextRule = (&'static str, fn(&str) -> bool, &'static str, &'static str);

fn check_texts(loaded: &Loaded, found: &mut Vec<Problem>) {
    let config = &loaded.config;
    let rules: [(&[String], TextRule); 4] = [
        (
            &config.server.allowed_hosts,
            (
                "server.allowed_hosts",
                is_host,
                "it is not a host name",
                "give a name and perhaps a port, such as `debug.example.org:7443`",
            ),
        ),
        (
            &config.server.allowed_origins,
            (
                "server.allowed_origins",
                is_origin,
                "it is not a web origin",
                "give scheme, host and perhaps port, such as `https://tools.example.org`",
            ),
        ),
        (
            &config.license.issuers,
            (
                "license.issuers",
                is_public_key,
                "it is not an Ed25519 public key",
                "give its 32 bytes in base64: 43 characters and `=`",
            ),
        ),
        (
            &config.debug.allowed_users,
            ("debug.allowed_users", is_user, "it is not a user", "give a user's name or number"),
        ),
    ];
    for (values, (key, is_fine, reason, remedy)) in rules {
        for value in values.iter().filter(|value| !is_fine(value)) {
            found.push(problem(loaded, key, value, reason, remedy));
        }
    }
}

fn check_policy(loaded: &Loaded, found: &mut Vec<Problem>) {
    let debug = &loaded.config.debug;
    if loaded.config.server.toolsets.is_empty() {
        let remedy = "name at least one, or leave the key out: then all are offered";
        found.push(problem(loaded, "server.toolsets", "", "nothing would be offered", remedy));
    }
    let lists = [
        ("debug.allowed_programs", &*debug.allowed_programs),
        ("debug.allowed_folders", &*debug.allowed_folders),
        ("debug.readable", &*debug.readable),
        ("debug.workspaces", debug.workspaces.as_slice()),
        ("documents.allowed_folders", &*loaded.config.documents.allowed_folders),
        ("knowledge.allowed_folders", &*loaded.config.knowledge.allowed_folders),
    ];
    for (key, paths) in lists {
        // A policy must not change with the folder that the server happens to be started in.
        for path in paths.iter().filter(|path| !is_plain_absolute(path)) {
            let reason = "it is not an absolute path without `..`";
            let remedy = "give the whole path, such as `/srv/programs`";
            found.push(problem(loaded, key, &path.display().to_string(), reason, remedy));
        }
    }
}

#[cfg(target_os = "linux")]
fn check_adapters(loaded: &Loaded, found: &mut Vec<Problem>) {
    if let Err(error) = hindcast_dap::Profiles::with(&loaded.config.debug.adapters) {
        let key = "debug.adapters";
        let remedy = "give keys of a profile, as `docs/adapters.md` lists them";
        found.push(problem(loaded, key, &error.name, &error.why, remedy));
    }
}

fn is_plain_absolute(path: &Path) -> bool {
    path.is_absolute() && !path.components().any(|part| part == std::path::Component::ParentDir)
}

fn is_host(text: &str) -> bool {
    !text.is_empty() && !text.contains(|letter: char| letter == '/' || letter.is_whitespace())
}

fn is_origin(text: &str) -> bool {
    text.split_once("://").is_some_and(|(scheme, host)| !scheme.is_empty() && is_host(host))
}

fn is_user(text: &str) -> bool {
    is_host(text) && !text.contains(':')
}

/// 32 bytes are 43 characters of base64 and one of padding.
fn is_public_key(text: &str) -> bool {
    text.strip_suffix('=').is_some_and(|digits| {
        digits.len() == 43
            && digits.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'/'))
    })
}

fn problem(loaded: &Loaded, key: &str, value: &str, reason: &str, remedy: &str) -> Problem {
    Problem::InvalidValue {
        key: key.to_owned(),
        origin: loaded.origin(key),
        value: value.to_owned(),
        reason: reason.to_owned(),
        remedy: remedy.to_owned(),
    }
}
