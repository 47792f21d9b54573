//! `kill -9` while documents are taken in: each is wholly there or wholly not, and a second run completes.

mod damage;
mod server;

use std::{
    collections::HashSet,
    io::{BufRead as _, BufReader},
    path::Path,
    process::{Command, Stdio},
    time::Duration,
};

use rusqlite::Connection;
use serde_json::Value;

use super::knowledge;
use crate::{
    sdk,
    server::{Dice, HINDCAST, command, eventually, kills, try_hindcast},
};

/// How often it is killed; `HINDCAST_KILLS=200` is the long way.
const KILLS: usize = 6;

const DOCUMENTS: usize = 500;

fn write_documents(folder: &Path) {
    for number in 0..DOCUMENTS {
        let paragraph = format!("Paragraph of document number{number} with words to find.\n\n").repeat(8);
        std::fs::write(folder.join(format!("d{number}.md")), format!("# Document {number}\n\n{paragraph}"))
            .unwrap();
    }
}

/// Every document that is there is there whole.
fn check_wholeness(data: &Path) -> usize {
    let connection = Connection::open(data.join("knowledge.db")).unwrap();
    let count = |sql: &str| connection.query_row(sql, [], |row| row.get::<_, usize>(0)).unwrap();
    let half = count(
        "SELECT count(*) FROM documents WHERE chunks <> (SELECT count(*) FROM chunks WHERE document = key)
         OR NOT EXISTS (SELECT 1 FROM contents WHERE document = key AND length(original) = size)",
    );
    assert_eq!(half, 0, "documents are there in part");
    assert_eq!(count("SELECT count(*) FROM chunks WHERE document NOT IN (SELECT key FROM documents)"), 0);
    let sound: String = connection.query_row("PRAGMA integrity_check", [], |row| row.get(0)).unwrap();
    assert_eq!(sound, "ok");
    count("SELECT count(*) FROM documents")
}

#[test]
fn killed_at_any_moment_of_an_ingest_nothing_is_there_in_part_and_a_second_run_completes() {
    let files = tempfile::tempdir().unwrap();
    write_documents(files.path());
    let path = files.path().to_str().unwrap();
    let mut dice = Dice(20_261_115);
    let mut rounds = 0;
    while rounds < kills(KILLS) {
        let data = tempfile::tempdir().unwrap();
        let mut before = 0;
        // The same folder is filled by several killed runs, as far as they come.
        while before < DOCUMENTS && rounds < kills(KILLS) {
            let mut process = command()
                .args(["knowledge", "add", "all", path, "--data-dir"])
                .arg(data.path())
                .stdout(Stdio::null())
                .spawn()
                .unwrap();
            std::thread::park_timeout(Duration::from_millis(20 + dice.roll(700) as u64));
            process.kill().unwrap();
            process.wait().unwrap();
            rounds += 1;
            if !data.path().join("knowledge.db").exists() {
                continue;
            }
            // It may have been killed before the tables were there.
            knowledge(data.path(), &["list"]);
            let now = check_wholeness(data.path());
            assert!(now >= before, "documents were lost: {before}, then {now}");
            before = now;
        }
        check_agreement(data.path(), path);
    }
}

/// A second run completes, and every document is found by its own word.
fn check_agreement(data: &Path, path: &str) {
    let report = knowledge(data, &["add", "all", path]);
    assert_eq!(report["collection"]["documents"], DOCUMENTS);
    assert_eq!(check_wholeness(data), DOCUMENTS);
    let ids: HashSet<String> = report["files"]
        .as_array()
        .unwrap()
        .iter()
        .map(|file| file["document"].as_str().unwrap().to_owned())
        .collect();
    assert_eq!(ids.len(), DOCUMENTS, "no document is there twice");
    for number in [0, 123, 499] {
        let found = knowledge(
            data,
            &["search", &format!("number{number}"), "--mode", "lexical", "--min-relevance", "0"],
        );
        assert_eq!(found["hits"][0]["document"], Value::from(format!("d{number}")), "{found}");
    }
    assert_eq!(knowledge(data, &["stats", "all"])["orphaned_vectors"], 0);
}

/// Many short passages, so that their vectors come in parts.
const PASSAGES: usize = 600;

/// Starts an addition, kills it after a moment, and tells how many vectors there are then.
fn vectors_when_killed_after(data: &Path, path: &str, moment: Duration) -> usize {
    let mut process = command()
        .args(["knowledge", "add", "all", path, "--data-dir"])
        .arg(data)
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    std::thread::park_timeout(moment);
    process.kill().unwrap();
    process.wait().unwrap();
    if !data.join("knowledge.db").exists() {
        return 0;
    }
    // It may have been killed before the tables were there.
    knowledge(data, &["list"]);
    check_wholeness(data);
    let connection = Connection::open(data.join("knowledge.db")).unwrap();
    connection.query_row("SELECT count(*) FROM vectors", [], |row| row.get(0)).unwrap()
}

#[test]
fn killed_while_a_large_file_is_embedded_it_goes_on_with_where_it_was() {
    let Some(peers) = sdk::peers() else { return };
    let (files, data) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let model = peers.join("models/all-MiniLM-L6-v2");
    let pulled = try_hindcast(data.path(), &["models", "pull", "--from", model.to_str().unwrap()]);
    assert!(pulled.status.success(), "{}", String::from_utf8_lossy(&pulled.stderr));
    let text: String =
        (0..PASSAGES).map(|number| format!("# Part {number}\n\nThe heron {number} stands.\n\n")).collect();
    std::fs::write(files.path().join("long.md"), text).unwrap();
    let path = files.path().to_str().unwrap();
    let mut dice = Dice(20_261_118);
    let (mut before, mut moments) = (0, Vec::new());
    // Until one kill was in the middle.
    for round in 0..kills(KILLS) + 40 {
        if round >= kills(KILLS) && moments.iter().any(|&vectors| (1..PASSAGES).contains(&vectors)) {
            break;
        }
        let moment = Duration::from_millis(300 + dice.roll(1500) as u64);
        let now = vectors_when_killed_after(data.path(), path, moment);
        assert!(now >= before, "vectors were lost: {before}, then {now}");
        before = now;
        moments.push(now);
    }
    println!("vectors after each kill: {moments:?}");
    assert!(moments.iter().any(|&vectors| (1..PASSAGES).contains(&vectors)), "{moments:?}");
    let added = knowledge(data.path(), &["add", "all", path]);
    assert_eq!((&added["collection"]["documents"], &added["notices"]), (&1.into(), &serde_json::json!([])));
    let stats = knowledge(data.path(), &["stats", "all"]);
    assert_eq!((&stats["missing_vectors"], &stats["orphaned_vectors"]), (&0.into(), &0.into()), "{stats}");
    let connection = Connection::open(data.path().join("knowledge.db")).unwrap();
    let count = |sql: &str| connection.query_row(sql, [], |row| row.get::<_, usize>(0)).unwrap();
    assert_eq!(count("SELECT count(*) FROM vectors"), count("SELECT count(*) FROM chunks"));
    assert_eq!(count("SELECT count(DISTINCT chunk) FROM vectors"), count("SELECT count(*) FROM chunks"));
}

#[test]
fn a_reader_of_documents_ends_with_the_server_that_started_it() {
    let folder = tempfile::tempdir().unwrap();
    let pipe = folder.path().join("pipe");
    assert!(Command::new("mkfifo").arg(&pipe).status().unwrap().success());
    // Stands in for the server: it starts a reader, which waits for a document that never ends, and tells its number.
    let script = format!("{HINDCAST} worker extract html <'{0}' & echo $!; cat '{0}'", pipe.display());
    let mut server = Command::new("sh").args(["-c", &script]).stdout(Stdio::piped()).spawn().unwrap();
    let _document = std::fs::File::options().write(true).open(&pipe).unwrap();
    let mut line = String::new();
    BufReader::new(server.stdout.take().unwrap()).read_line(&mut line).unwrap();
    let stat = format!("/proc/{}/status", line.trim());
    // It has limited itself, so it reads.
    let limits = format!("/proc/{}/limits", line.trim());
    eventually("it reads", || {
        let limits = std::fs::read_to_string(&limits).unwrap_or_default();
        limits.lines().any(|line| line.starts_with("Max file size") && line.contains(" 0 "))
    });
    server.kill().unwrap();
    server.wait().unwrap();
    eventually("it has ended", || {
        std::fs::read_to_string(&stat).map_or(true, |status| status.contains("State:\tZ"))
    });
}

#[test]
fn git_ends_with_the_server_that_started_it() {
    let folder = tempfile::tempdir().unwrap();
    assert!(Command::new("git").args(["init", "--quiet"]).arg(folder.path()).status().unwrap().success());
    let pipe = folder.path().join("pipe");
    assert!(Command::new("mkfifo").arg(&pipe).status().unwrap().success());
    // Stands in for the server: git waits for a question that never comes.
    let git = format!("{HINDCAST} worker git -- -C '{}' cat-file --batch", folder.path().display());
    let script = format!("{git} <'{0}' & echo $!; cat '{0}'", pipe.display());
    let mut server = Command::new("sh").args(["-c", &script]).stdout(Stdio::piped()).spawn().unwrap();
    let _question = std::fs::File::options().write(true).open(&pipe).unwrap();
    let mut line = String::new();
    BufReader::new(server.stdout.take().unwrap()).read_line(&mut line).unwrap();
    let status = || std::fs::read_to_string(format!("/proc/{}/status", line.trim())).unwrap_or_default();
    eventually("it is git", || status().contains("Name:\tgit"));
    server.kill().unwrap();
    server.wait().unwrap();
    eventually("it has ended", || status().is_empty() || status().contains("State:\tZ"));
}
