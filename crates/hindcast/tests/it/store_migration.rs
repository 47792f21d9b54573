//! `hindcast store`: from the data folder to PostgreSQL and back, with servers before, between and after.

use std::{path::Path, process::Output, process::Stdio};

use hindcast_fixtures::postgres::Cluster;
use serde_json::{Value, json};

use crate::server::{Server, command, hindcast};

fn with_store(url: &str, data: &Path, arguments: &[&str]) -> Output {
    command().args(arguments).args(["--store-url", url, "--data-dir"]).arg(data).output().unwrap()
}

fn json_of(output: &Output) -> Value {
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).unwrap()
}

fn call(server: &Server, key: &str) -> u16 {
    server.rpc(key, "tools/call", json!({ "name": "debugger/license_info" })).status
}

#[test]
fn a_server_moves_to_postgresql_and_back_with_its_keys_counts_and_trail() {
    let Some(cluster) = Cluster::start() else { return };
    let url = cluster.new_database();
    let server = Server::start(&[]);
    let made = server.new_key(&["--per-month", "30", "--per-minute", "1000"]);
    let (key, id) = (made["key"].as_str().unwrap().to_owned(), made["id"].as_str().unwrap().to_owned());
    for _ in 0..10 {
        assert_eq!(call(&server, &key), 200);
    }
    let running = with_store(&url, &server.data, &["store", "migrate", "--to", "postgres"]);
    let told = String::from_utf8_lossy(&running.stderr).into_owned();
    assert!(!running.status.success() && told.contains("hint: stop it"), "{told}");

    let data = server.stop();
    let moved = json_of(&with_store(&url, &data.path, &["store", "migrate", "--to", "postgres", "--json"]));
    assert_eq!((&moved["keys"], &moved["audit_rows_already_there"]), (&json!(2), &json!(0)), "{moved}");
    let again = json_of(&with_store(&url, &data.path, &["store", "migrate", "--to", "postgres", "--json"]));
    assert_eq!(again["audit_rows_already_there"], moved["audit_rows"], "{again}");

    let environment = [("HINDCAST_STORE_URL", &*url)];
    let server = Server::launch(&data.path, &[], &environment, Stdio::inherit());
    for _ in 0..10 {
        assert_eq!(call(&server, &key), 200);
    }
    drop(server.stop());
    let status = json_of(&with_store(&url, &data.path, &["store", "status", "--json"]));
    assert_eq!((&status["store"], &status["keys"]), (&json!("PostgreSQL"), &json!(2)), "{status}");
    let shown = json_of(&with_store(&url, &data.path, &["keys", "show", &id, "--json"]));
    assert_eq!(shown["used_this_month"], 20);

    let back = json_of(&with_store(&url, &data.path, &["store", "migrate", "--to", "sqlite", "--json"]));
    assert_eq!(back["audit_rows"], status["audit_rows"], "{back}");
    let verified = hindcast(&data.path, &["audit", "verify"]);
    assert_eq!(verified, format!("verified {} rows\n", back["audit_rows"]));
    let server = Server::start_in(&data.path, &[]);
    let statuses: Vec<_> = (0..12).map(|_| call(&server, &key)).collect();
    assert_eq!(
        statuses.iter().filter(|status| **status == 200).count(),
        10,
        "20 of 30 were used: {statuses:?}"
    );
}

#[test]
fn a_license_that_was_installed_once_holds_for_all_servers() {
    let Some(cluster) = Cluster::start() else { return };
    let url = cluster.new_database();
    let folders = [tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap()];
    let issuer = folders[0].path().join("issuer.key");
    let public = hindcast(folders[0].path(), &["license", "keygen", issuer.to_str().unwrap()]);
    let (issuer, terms) = (issuer.to_str().unwrap(), ["--type", "Enterprise", "--licensee", "Ada"]);
    let issued = [&["license", "issue", "--key", issuer], &terms[..]].concat();
    let file = folders[0].path().join("bought.json");
    std::fs::write(&file, hindcast(folders[0].path(), &issued)).unwrap();
    let run = |folder: &Path, arguments: &[&str]| {
        let mut command = command();
        command.env("HINDCAST_LICENSE_ISSUERS", public.trim()).env("HINDCAST_STORE_URL", &url);
        command.args(arguments).arg("--data-dir").arg(folder).output().unwrap()
    };
    let installed = run(folders[0].path(), &["license", "install", file.to_str().unwrap()]);
    assert!(installed.status.success(), "{installed:?}");
    std::fs::copy(folders[0].path().join("audit.key"), folders[1].path().join("audit.key")).unwrap();
    let shown = json_of(&run(folders[1].path(), &["license", "show", "--json"]));
    assert_eq!((&shown["type"], &shown["licensee"]), (&json!("Enterprise"), &json!("Ada")), "{shown}");

    // A license that a server had before it came to the database does not go before the shared one.
    let issued =
        [&["license", "issue", "--key", issuer], &["--type", "Team", "--licensee", "Old"][..]].concat();
    std::fs::write(folders[1].path().join("license.json"), hindcast(folders[1].path(), &issued)).unwrap();
    let shown = json_of(&run(folders[1].path(), &["license", "show", "--json"]));
    assert_eq!((&shown["type"], &shown["licensee"]), (&json!("Enterprise"), &json!("Ada")), "{shown}");
}

#[test]
fn looking_at_an_empty_database_does_not_keep_a_server_from_moving_there() {
    let Some(cluster) = Cluster::start() else { return };
    let url = cluster.new_database();
    let data = Server::start(&[]).stop();
    let status = json_of(&with_store(&url, &data.path, &["store", "status", "--json"]));
    assert_eq!((&status["keys"], &status["audit_rows"]), (&json!(0), &json!(0)), "{status}");
    assert_eq!(cluster.sql(&url, "SELECT count(*) FROM pg_namespace WHERE nspname = 'hindcast'"), "0");
    // This one opens a trail, which nothing was written to.
    let listed = with_store(&url, &data.path, &["keys", "list", "--json"]);
    assert!(listed.status.success(), "{listed:?}");
    let moved = json_of(&with_store(&url, &data.path, &["store", "migrate", "--to", "postgres", "--json"]));
    let status = json_of(&with_store(&url, &data.path, &["store", "status", "--json"]));
    assert_eq!(
        (&status["keys"], &status["audit_rows"], &status["unfinished_move"]),
        (&moved["keys"], &moved["audit_rows"], &json!(false))
    );
    cluster.sql(&url, "DELETE FROM hindcast.audit_head");
    let status = with_store(&url, &data.path, &["store", "status"]);
    let told = String::from_utf8_lossy(&status.stdout).into_owned();
    assert!(told.contains("a move here was interrupted: run it again"), "{told}");
}

#[test]
fn looking_at_an_empty_data_folder_makes_nothing_in_it() {
    let folder = tempfile::tempdir().unwrap();
    let status = hindcast(folder.path(), &["store", "status"]);
    assert!(status.contains("keys        0\naudit rows  0\n"), "{status}");
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
}

#[test]
fn without_a_database_the_command_says_how_to_name_one() {
    let server = Server::start(&[]);
    let data = server.stop();
    let refused =
        command().args(["store", "migrate", "--to", "postgres", "--data-dir"]).arg(&data.path).output();
    let told = String::from_utf8(refused.unwrap().stderr).unwrap();
    assert!(told.contains("hint: give `--store-url"), "{told}");
    let status = hindcast(&data.path, &["store", "status"]);
    assert!(status.starts_with("store       SQLite at "), "{status}");
}

#[test]
fn an_address_that_is_none_is_refused_without_its_password() {
    let folder = tempfile::tempdir().unwrap();
    for url in ["mysql://ada:s3cret@db/h", "postgres://ada:s3cret@db:port/h"] {
        let refused = with_store(url, folder.path(), &["keys", "create", "--name", "x"]);
        let told = String::from_utf8_lossy(&refused.stderr).into_owned();
        assert!(!refused.status.success() && told.contains("store.url"), "{told}");
        assert!(!told.contains("s3cret"), "{told}");
    }
}
