//! A disk that is full.

use std::{
    io::{BufRead, BufReader, Write as _},
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    time::{Duration, Instant},
};

use serde_json::{Value, json};

use crate::server::{HINDCAST, Server, command};

/// A small disk in a mount namespace of its own. It is gone when dropped.
struct Disk {
    holder: Child,
    folder: tempfile::TempDir,
}

impl Disk {
    fn new(megabytes: u32) -> Option<Self> {
        let folder = tempfile::tempdir().unwrap();
        let mount = format!(
            "mount -t tmpfs -o size={megabytes}m tmpfs {} && echo mounted && exec cat",
            folder.path().display()
        );
        let mut holder = Command::new("unshare")
            .args(["-Urm", "sh", "-c", &mount])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .ok()?;
        let mut line = String::new();
        BufReader::new(holder.stdout.take().unwrap()).read_line(&mut line).unwrap();
        if line.trim() != "mounted" {
            let _ = holder.wait();
            return None;
        }
        Some(Self { holder, folder })
    }

    /// A path on it, as seen from outside.
    fn path(&self, name: &str) -> PathBuf {
        let folder = self.folder.path().strip_prefix("/").unwrap();
        Path::new("/proc").join(self.holder.id().to_string()).join("root").join(folder).join(name)
    }

    fn serve(&self) -> Server {
        // What our own command does, by way of the namespace.
        let own = command();
        let mut inside = Command::new("nsenter");
        let target = self.holder.id().to_string();
        inside.args(["-t", &target, "-U", "-m", "--preserve-credentials", HINDCAST]);
        for (name, value) in own.get_envs() {
            match value {
                Some(value) => inside.env(name, value),
                None => inside.env_remove(name),
            };
        }
        inside.env("HINDCAST_LOG_LEVEL", "off").stdin(Stdio::null());
        Server::run(inside, &self.folder.path().join("data"), &[], Stdio::inherit())
    }

    /// Fills it to the last byte.
    fn fill(&self) -> PathBuf {
        let path = self.path("filler");
        let mut filler = std::fs::File::create(&path).unwrap();
        for piece in [1 << 20, 4096, 1] {
            while filler.write_all(&vec![1; piece]).is_ok() {}
        }
        path
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        let _ = self.holder.kill();
        let _ = self.holder.wait();
    }
}

fn add(server: &Server, key: &str, name: &str) -> Value {
    let text = format!("The heron {name} stands still.");
    server.call(key, "knowledge/add", json!({ "collection": "birds", "name": name, "text": text }))
}

#[track_caller]
fn answers(server: &Server, key: &str) {
    for tool in ["debugger/license_info", "debugger/quota_status", "debugger/get_comprehensive_audit"] {
        let answer = server.call(key, tool, json!({}));
        assert_eq!(answer["error"], Value::Null, "{tool}: {answer}");
    }
    let found = server.call(key, "knowledge/search", json!({ "query": "heron" }));
    assert!(
        found["result"]["content"][0]["text"].as_str().is_some_and(|text| text.contains("first")),
        "{found}"
    );
    let read = json!({ "uri": "resource://knowledge/birds/document/first" });
    let read = server.rpc(key, "resources/read", read).json();
    assert!(read.to_string().contains("stands still"), "{read}");
}

#[test]
fn a_full_disk_stops_what_grows_and_nothing_else() {
    let Some(disk) = Disk::new(140) else {
        let _ = writeln!(
            std::io::stderr(),
            "SKIPPED a_full_disk_stops_what_grows_and_nothing_else: no `unshare`"
        );
        return;
    };
    let server = disk.serve();
    let key = server.first_key.clone().unwrap();
    assert_eq!(add(&server, &key, "first")["error"], Value::Null);
    assert!(disk.path("data/ballast").exists());
    let filler = disk.fill();
    // The server notices it within a second.
    let deadline = Instant::now() + Duration::from_secs(20);
    while disk.path("data/ballast").exists() {
        assert!(Instant::now() < deadline, "the ballast is still there");
        std::thread::yield_now();
    }
    answers(&server, &key);
    let refused = add(&server, &key, "second");
    assert!(refused["error"]["data"]["details"].as_str().unwrap().contains("disk is full"), "{refused}");
    assert!(refused["error"]["data"]["hint"].as_str().unwrap().contains("make room"), "{refused}");
    // It also starts on a full disk, after an end without warning.
    drop(server);
    let server = disk.serve();
    answers(&server, &key);
    assert!(add(&server, &key, "second")["error"].is_object());
    std::fs::remove_file(filler).unwrap();
    assert_eq!(add(&server, &key, "second")["error"], Value::Null);
    answers(&server, &key);
    let found = server.call(&key, "knowledge/search", json!({ "query": "second" }));
    assert!(
        found["result"]["content"][0]["text"].as_str().is_some_and(|text| text.contains("second")),
        "{found}"
    );
}
