//! `hindcast config show`: every key, its value, and where the value came from.

use serde_json::{Value, json};

use super::{Loaded, Origin};

/// The configuration in force as a table for people.
pub(crate) fn show_text(loaded: &Loaded) -> String {
    let mut rows = vec![["KEY", "VALUE", "ORIGIN"].map(str::to_owned)];
    for (path, value) in values(loaded) {
        let value = match value {
            Value::Null => "(not set)".to_owned(),
            Value::String(text) => text,
            other => other.to_string(),
        };
        let origin = loaded.origin(&path).to_string();
        rows.push([path, value, origin]);
    }
    let width = |column: usize| rows.iter().map(|row| row[column].chars().count()).max().unwrap_or_default();
    let (key_width, value_width) = (width(0), width(1));
    let mut text = String::new();
    for [key, value, origin] in &rows {
        text.push_str(&format!("{key:key_width$}  {value:value_width$}  {origin}\n"));
    }
    text
}

/// The configuration in force for programs: `{"file", "keys": {"server.listen": {"value", "origin",
/// "source"}}}`.
///
/// `origin` is `default`, `file`, `environment` or `flag`; `source` is the file, variable or flag.
pub(crate) fn show_json(loaded: &Loaded) -> Value {
    let mut keys = serde_json::Map::new();
    for (path, value) in values(loaded) {
        let (origin, source) = match loaded.origin(&path) {
            Origin::Default => ("default", Value::Null),
            Origin::File(file) => ("file", json!(file.display().to_string())),
            Origin::Variable(name) => ("environment", json!(name)),
            Origin::Flag(flag) => ("flag", json!(flag)),
        };
        keys.insert(path, json!({ "value": value, "origin": origin, "source": source }));
    }
    let file = loaded.file.as_ref().map(|file| file.display().to_string());
    json!({ "file": file, "keys": keys })
}

fn values(loaded: &Loaded) -> Vec<(String, Value)> {
    // Only a path that is not Unicode cannot be serialised, and such a path cannot be configured.
    let config = serde_json::to_value(&loaded.config).unwrap_or_default();
    let value_at = |path: &str| path.split('.').fold(&config, |place, name| &place[name]).clone();
    let shown = |path: &str| match value_at(path) {
        Value::String(url) if path == "store.url" || path == "vectors.url" => without_password(&url).into(),
        value => value,
    };
    loaded.keys.iter().map(|key| (key.path.clone(), shown(&key.path))).collect()
}

/// The address of a database with its password taken out.
pub(super) fn without_password(url: &str) -> String {
    let Some((scheme, rest)) = url.split_once("://") else { return "…".to_owned() };
    // All that could be a password, also one that was not written as it should be.
    let rest = match rest.rsplit_once('@') {
        Some((user, place)) => match user.split_once(':') {
            Some((user, _)) => format!("{user}:…@{place}"),
            None => rest.to_owned(),
        },
        None => without_forgotten_host(rest),
    };
    let rest = match rest.split_once("password=") {
        Some((before, after)) => {
            let others = after.split_once('&').map(|(_, others)| format!("&{others}")).unwrap_or_default();
            format!("{before}password=…{others}")
        }
        None => rest,
    };
    format!("{scheme}://{rest}")
}

/// An address without `@`. Where it has something else than a port behind the host, user and password may stand there.
fn without_forgotten_host(rest: &str) -> String {
    let (hosts, others) = rest.split_at(rest.find(['/', '?']).unwrap_or(rest.len()));
    let is_port = |port: &str| port.bytes().all(|byte| byte.is_ascii_digit());
    let is_host =
        |host: &str| host.starts_with('[') || host.split_once(':').is_none_or(|(_, port)| is_port(port));
    match hosts.split_once(':') {
        Some((user, _)) if !hosts.split(',').all(is_host) => format!("{user}:…{others}"),
        _ => rest.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use std::{collections::BTreeMap, ffi::OsString};

    use super::*;
    use crate::config::{Config, FlagValue, Sources};

    fn loaded() -> Loaded {
        let folder = tempfile::tempdir().expect("a folder");
        let file = folder.path().join("config.toml");
        std::fs::write(&file, "environment = \"test\"\n[log]\nlevel = \"debug\"\n").expect("a file");
        let environment = [("HOME", "/home/ada"), ("HINDCAST_SERVER_ALLOWED_HOSTS", "a.example, b.example")];
        let mut loaded = Config::load(&Sources {
            config_file: Some(file),
            environment: environment
                .map(|(name, value)| (name.to_owned(), OsString::from(value)))
                .into_iter()
                .collect::<BTreeMap<_, _>>(),
            flags: vec![FlagValue::new("--http", "server.http", true)],
        })
        .expect("a configuration");
        // The temporary folder has another name each time.
        for setting in loaded.settings.values_mut() {
            if let Origin::File(file) = &mut setting.origin {
                *file = "/etc/hindcast.toml".into();
            }
        }
        loaded.file = Some("/etc/hindcast.toml".into());
        loaded
    }

    #[test]
    fn the_table_shows_each_key_with_value_and_origin() {
        let text = show_text(&loaded());
        for expected in [
            "KEY                           VALUE                          ORIGIN",
            "data_dir                      /home/ada/.local/share/hindcast  default",
            "environment                   test",
            "server.allowed_hosts          [\"a.example\",\"b.example\"]",
            "server.tls_cert               (not set)",
        ] {
            let squeezed = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ");
            assert!(squeezed(&text).contains(&squeezed(expected)), "{expected}\n{text}");
        }
        let origin_column = text.lines().next().and_then(|line| line.find("ORIGIN")).expect("a header");
        for line in text.lines() {
            assert_eq!(&line[origin_column - 2..origin_column], "  ", "{line}");
        }
    }

    #[test]
    fn the_password_of_a_database_is_not_shown() {
        for (url, expected) in [
            ("postgres://ada:s3cret@db.example.org/h", "postgres://ada:…@db.example.org/h"),
            ("postgres://ada:s3/cr@et@db/h?sslmode=require", "postgres://ada:…@db/h?sslmode=require"),
            (
                "postgres://db/h?user=ada&password=s3cret&sslmode=require",
                "postgres://db/h?user=ada&password=…&sslmode=require",
            ),
            ("postgres://ada@db/h", "postgres://ada@db/h"),
            ("postgres://db:5432/h", "postgres://db:5432/h"),
            ("postgres://db:5432,[::1]:5432/h?options=a:b", "postgres://db:5432,[::1]:5432/h?options=a:b"),
            ("postgres://ada:s3cret/h", "postgres://ada:…/h"),
            ("postgres://ada:5s3cret", "postgres://ada:…"),
            ("s3cret", "…"),
        ] {
            assert_eq!(without_password(url), expected);
        }
        let url = ("HINDCAST_STORE_URL".to_owned(), OsString::from("postgres://ada:s3cret@db/h"));
        let home = ("HOME".to_owned(), OsString::from("/home/ada"));
        let sources = Sources { environment: [url, home].into(), ..Sources::default() };
        let loaded = Config::load(&sources).expect("a configuration");
        assert!(!show_text(&loaded).contains("s3cret"));
        assert!(!show_json(&loaded).to_string().contains("s3cret"));
    }

    #[test]
    fn the_json_names_kind_and_source_of_each_origin() {
        let shown = show_json(&loaded());
        assert_eq!(shown["file"], "/etc/hindcast.toml");
        for (key, value, origin, source) in [
            ("server.max_connections", json!(4096), "default", Value::Null),
            ("log.level", json!("debug"), "file", json!("/etc/hindcast.toml")),
            (
                "server.allowed_hosts",
                json!(["a.example", "b.example"]),
                "environment",
                json!("HINDCAST_SERVER_ALLOWED_HOSTS"),
            ),
            ("server.http", json!(true), "flag", json!("--http")),
            ("license.file", Value::Null, "default", Value::Null),
        ] {
            let expected = json!({ "value": value, "origin": origin, "source": source });
            assert_eq!(shown["keys"][key], expected, "{key}");
        }
    }
}
