//! The command line.

use crate::server::{Server, command, hindcast, try_hindcast};

#[test]
fn the_generated_reference_is_up_to_date() {
    let repository = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let kept = repository.join("docs/reference");
    if std::env::var_os("HINDCAST_UPDATE").is_some() {
        let written = command().arg("reference").arg(&kept).status().unwrap();
        assert!(written.success());
    }
    let fresh = tempfile::tempdir().unwrap();
    let written = command().arg("reference").arg(fresh.path()).status().unwrap();
    assert!(written.success());
    for page in std::fs::read_dir(fresh.path()).unwrap() {
        let page = page.unwrap();
        let expected = std::fs::read_to_string(page.path()).unwrap();
        let found = std::fs::read_to_string(kept.join(page.file_name())).unwrap_or_default();
        assert!(found == expected, "{:?} is behind the code: run `cargo xtask docs`", page.file_name());
    }
}

#[test]
fn a_key_is_shown_once_and_never_stored() {
    let folder = tempfile::tempdir().unwrap();
    let made: serde_json::Value =
        serde_json::from_str(&hindcast(folder.path(), &["keys", "create", "--name", "laptop", "--json"]))
            .unwrap();
    let (id, key) = (made["id"].as_str().unwrap(), made["key"].as_str().unwrap());
    assert!(key.starts_with("kdb_live_"));
    for arguments in [vec!["keys", "list"], vec!["keys", "list", "--json"], vec!["keys", "show", id]] {
        assert!(!hindcast(folder.path(), &arguments).contains(key), "{arguments:?}");
    }
    for file in std::fs::read_dir(folder.path()).unwrap() {
        let bytes = std::fs::read(file.unwrap().path()).unwrap();
        assert!(!bytes.windows(key.len()).any(|window| window == key.as_bytes()));
    }
}

#[test]
fn wrong_usage_ends_with_2_and_a_failed_job_with_1() {
    let folder = tempfile::tempdir().unwrap();
    let code = |arguments: &[&str]| try_hindcast(folder.path(), arguments).status.code();
    assert_eq!(code(&["keys", "create"]), Some(2));
    assert_eq!(code(&["fly"]), Some(2));
    assert_eq!(code(&["keys", "create", "--name", "x", "--scope", "debug:fly"]), Some(2));
    assert_eq!(code(&["keys", "create", "--name", "x"]), Some(0));
    assert_eq!(code(&["keys", "show", "nosuchid"]), Some(1));
    let error = try_hindcast(folder.path(), &["keys", "show", "nosuchid"]).stderr;
    let error = String::from_utf8(error).unwrap();
    assert!(error.contains("there is no key `nosuchid` · hint: `hindcast keys list`"), "{error}");
}

#[test]
fn a_key_with_a_name_that_deceives_or_without_requests_is_not_made() {
    let folder = tempfile::tempdir().unwrap();
    for (arguments, code) in [
        (&["--name", "a\nb"][..], 1),
        (&["--name", "a\u{1b}[2Jb"], 1),
        (&["--name", "a\u{202e}b"], 1),
        (&["--name", "a", "--owner", "a\tb"], 1),
        (&["--name", "a", "--per-month", "0", "--per-minute", "1"], 2),
        (&["--name", "a", "--per-month", "1", "--per-minute", "0"], 2),
    ] {
        let all = [&["keys", "create"], arguments].concat();
        let made = try_hindcast(folder.path(), &all);
        let told = String::from_utf8_lossy(&made.stderr);
        assert_eq!(made.status.code(), Some(code), "{arguments:?}: {told}");
    }
    let help = hindcast(folder.path(), &["keys", "create", "--help"]);
    assert!(help.contains("needs `--per-month`") && help.contains("needs `--per-minute`"), "{help}");
}

#[test]
fn a_second_server_on_the_same_data_is_told_so() {
    let server = Server::start(&[]);
    let second = try_hindcast(&server.data, &["serve", "--http", "--listen", "127.0.0.1:0"]);
    assert_eq!(second.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&second.stderr).contains("another hindcast serves from"));
}

#[test]
fn variables_that_kubernetes_sets_for_a_service_named_hindcast_do_not_stop_the_server() {
    let folder = tempfile::tempdir().unwrap();
    let log = folder.path().join("log");
    let environment = [
        ("HINDCAST_SERVICE_HOST", "10.96.12.7"),
        ("HINDCAST_SERVICE_PORT", "7443"),
        ("HINDCAST_SERVICE_PORT_HTTPS", "7443"),
        ("HINDCAST_PORT", "tcp://10.96.12.7:7443"),
        ("HINDCAST_PORT_7443_TCP", "tcp://10.96.12.7:7443"),
        ("HINDCAST_PORT_7443_TCP_PROTO", "tcp"),
        ("HINDCAST_PORT_7443_TCP_PORT", "7443"),
        ("HINDCAST_PORT_7443_TCP_ADDR", "10.96.12.7"),
        ("HINDCAST_SERVER_LISEN", "0.0.0.0:1"),
    ];
    let data = folder.path().join("data");
    let stderr = std::fs::File::create(&log).unwrap();
    let server = Server::launch(&data, &[], &environment, stderr);
    let key = server.first_key.clone().unwrap();
    assert_eq!(server.rpc(&key, "ping", serde_json::json!({})).status, 200);
    server.stop();
    let log = std::fs::read_to_string(&log).unwrap();
    assert_eq!(log.matches("WARN").count(), 2, "{log}");
    for (variable, _) in environment {
        assert!(log.contains(variable), "{variable} is not named: {log}");
    }
    assert!(log.contains("did you mean `HINDCAST_SERVER_LISTEN`?"), "{log}");
}
