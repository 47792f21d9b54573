//! What is kept in the data folder is its owner's alone.

use std::{
    fs::Permissions,
    io::{BufRead, BufReader},
    os::unix::fs::{MetadataExt, PermissionsExt},
    path::{Path, PathBuf},
    process::Stdio,
};

use serde_json::json;

use crate::server::{Local, Server, command, hindcast};

/// Everything below a folder, with its mode.
fn modes_below(folder: &Path) -> Vec<(PathBuf, u32)> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let metadata = path.symlink_metadata().unwrap();
        found.push((path.clone(), metadata.mode() & 0o777));
        if metadata.is_dir() {
            found.extend(modes_below(&path));
        }
    }
    found
}

/// Fails when others could read, write, enter or lock anything; `others` are the names of what is not ours.
fn check_private(folder: &Path, others: &[&str]) {
    let found = modes_below(folder);
    assert!(found.len() > 3, "{found:?}");
    for (path, mode) in found {
        if !others.iter().any(|other| path.ends_with(other)) {
            assert_eq!(mode & 0o077, 0, "{}: {mode:o}", path.display());
        }
    }
}

fn open_to_all() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    std::fs::set_permissions(folder.path(), Permissions::from_mode(0o755)).unwrap();
    folder
}

#[test]
fn what_a_server_keeps_is_its_owners_alone_in_a_folder_that_was_there_before() {
    let folder = open_to_all();
    let documents = tempfile::tempdir().unwrap();
    std::fs::write(documents.path().join("a.md"), "# Words\n\nto be found").unwrap();
    let allowed = documents.path().to_str().unwrap();
    let environment = [("HINDCAST_KNOWLEDGE_ALLOWED_FOLDERS", allowed)];
    let server = Server::launch(folder.path(), &["--tls"], &environment, Stdio::inherit());
    check_private(folder.path(), &[]);
    hindcast(folder.path(), &["knowledge", "add", "notes", allowed]);
    check_private(folder.path(), &[]);
    drop(server);

    // What an older version left, and what is not ours.
    std::fs::write(folder.path().join("notes.txt"), "").unwrap();
    let paths = modes_below(folder.path());
    for (path, mode) in paths {
        std::fs::set_permissions(path, Permissions::from_mode(mode | 0o055)).unwrap();
    }
    let _server = Server::start_in(folder.path(), &[]);
    check_private(folder.path(), &["notes.txt"]);
    let notes = std::fs::metadata(folder.path().join("notes.txt")).unwrap().mode();
    assert_ne!(notes & 0o055, 0, "what is not ours is left alone");
}

#[test]
fn what_the_local_server_keeps_is_its_owners_alone() {
    let folder = open_to_all();
    let local = Local::start_in(folder, &[]).initialize();
    for (path, mode) in modes_below(local.folder.path()) {
        // What libraries write is inside of a folder that others cannot enter.
        let below = path.strip_prefix(local.folder.path()).unwrap();
        if below.components().count() == 1 {
            assert_eq!(mode & 0o077, 0, "{}: {mode:o}", path.display());
        }
    }
}

#[test]
fn a_program_that_a_server_starts_has_the_usual_mask() {
    let server = Server::start(&[]);
    let key = server.unlimited_key();
    let arguments = json!({ "program": "/bin/sh", "args": ["-c", "umask"], "stop_at_entry": false });
    let launched = server.call(&key, "debugger/launch", arguments);
    assert!(launched["result"].is_object(), "{launched}");
    server.call(&key, "debugger/wait", json!({ "timeout_ms": 10000 }));
    let output = server.call(&key, "debugger/read_output", json!({}));
    let ours = std::process::Command::new("/bin/sh").args(["-c", "umask"]).output().unwrap();
    let ours = String::from_utf8(ours.stdout).unwrap();
    assert!(output.to_string().contains(ours.trim()), "{ours}: {output}");
}

#[test]
fn the_first_key_is_in_a_file_of_its_own_where_output_is_kept_and_the_line_works() {
    let folder = tempfile::tempdir().unwrap();
    // As the system's log does, it listens at a socket.
    let (log, printed) = std::os::unix::net::UnixStream::pair().unwrap();
    let mut server = command()
        .args(["serve", "--http", "--listen", "127.0.0.1:0", "--data-dir"])
        .arg(folder.path())
        .stdout(std::os::fd::OwnedFd::from(printed))
        .spawn()
        .unwrap();
    let lines: Vec<_> =
        BufReader::new(log).lines().map(Result::unwrap).take_while(|line| !line.contains("-d '")).collect();
    let greeting = lines.join("\n");
    // What is printed to a log is read by others.
    assert!(!greeting.contains("kdb_live_"), "{greeting}");
    let file = folder.path().join("first.key");
    assert!(greeting.contains(file.to_str().unwrap()), "{greeting}");
    assert_eq!(std::fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o600);
    let curl = &greeting[greeting.find("curl").unwrap()..];
    let curl = format!("{curl}\n -sS -d '{{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"tools/list\"}}'");
    let listed = std::process::Command::new("/bin/sh").args(["-c", &curl]).output().unwrap();
    server.kill().unwrap();
    server.wait().unwrap();
    assert!(String::from_utf8_lossy(&listed.stdout).contains("debugger/launch"), "{curl}: {listed:?}");
}
