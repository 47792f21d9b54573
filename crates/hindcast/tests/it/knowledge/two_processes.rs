//! Several processes over one data folder: a file is one document, whoever takes it in.

use std::{path::Path, process::Stdio};

use serde_json::{Value, json};

use super::{Client, knowledge, until};
use crate::server::command;

const FILES: usize = 61;

fn write_files(folder: &Path, word: &str) {
    for number in 0..FILES {
        let text = format!("# Note {number}\n\nThis note says {word} and number{number}.\n");
        std::fs::write(folder.join(format!("note{number}.md")), text).unwrap();
    }
}

/// The names of all documents, in their order.
fn names(client: &mut Client) -> Vec<String> {
    let listed = client.read_json("resource://knowledge/notes/documents");
    let mut names: Vec<_> =
        listed.as_array().unwrap().iter().map(|one| one["name"].as_str().unwrap().to_owned()).collect();
    names.sort();
    names
}

/// How many hits of a search by words hold the word.
fn holding(client: &mut Client, word: &str) -> usize {
    let search = json!({ "query": word, "limit": 50, "min_relevance": 0.0, "mode": "lexical" });
    let hits = client.call("knowledge/search", search)["hits"].as_array().unwrap().clone();
    hits.iter().filter(|hit| hit["text"].as_str().unwrap().contains(word)).count()
}

#[test]
fn four_servers_that_watch_one_folder_have_each_file_once() {
    let files = tempfile::tempdir().unwrap();
    let first = Client::new();
    let mut clients = vec![first.beside(), first.beside(), first.beside(), first];
    // All watch the empty folder, then all files come at once.
    let watch = json!({ "collection": "notes", "paths": [files.path()], "watch": true });
    clients[0].call("knowledge/add", json!({ "collection": "notes", "name": "seed", "text": "seed words" }));
    for client in &mut clients {
        client.call("knowledge/add", watch.clone());
    }
    write_files(files.path(), "alder");
    let marker = |text: &str| std::fs::write(files.path().join("zz-marker.md"), text).unwrap();
    marker("# Marker\n\nfirstmarker\n");
    for client in &mut clients {
        until("all files are there", || {
            names(client).len() >= FILES + 2 && holding(client, "firstmarker") > 0
        });
        until("the newest is found", || holding(client, "alder") == 50);
    }
    // Whoever is slower has had its turn when it has seen the next change, too.
    marker("# Marker\n\nsecondmarker\n");
    for client in &mut clients {
        until("the next change is found", || holding(client, "secondmarker") > 0);
        let names = names(client);
        assert_eq!(names.len(), FILES + 2, "{names:?}");
    }

    // What was rewritten is not found by what it said before.
    write_files(files.path(), "birch");
    for client in &mut clients {
        until("the new words are found", || holding(client, "birch") == 50);
        until("the old words are not", || holding(client, "alder") == 0);
        assert_eq!(names(client).len(), FILES + 2);
    }

    // Whichever watches is killed; the last one goes on.
    let mut last = clients.pop().unwrap();
    clients.into_iter().for_each(Client::kill);
    write_files(files.path(), "cedar");
    until("the one that is left watches", || holding(&mut last, "cedar") == 50);
    until("and forgets", || holding(&mut last, "birch") == 0);

    // What was deleted is gone, for both.
    let mut other = last.beside();
    for number in 1..FILES {
        std::fs::remove_file(files.path().join(format!("note{number}.md"))).unwrap();
    }
    for client in [&mut last, &mut other] {
        until("what is gone goes", || names(client).len() == 3);
        until("and is not found", || holding(client, "cedar") == 1);
    }
}

#[test]
fn commands_that_add_one_folder_at_once_make_each_file_one_document() {
    const FILES: usize = 300;
    let files = tempfile::tempdir().unwrap();
    for number in 0..FILES {
        std::fs::write(files.path().join(format!("{number}.txt")), format!("this is number{number}"))
            .unwrap();
    }
    for processes in [2, 4] {
        let data = tempfile::tempdir().unwrap();
        let add = |_| {
            let mut command = command();
            command
                .args(["knowledge", "add", "all", "--json"])
                .arg(files.path())
                .arg("--data-dir")
                .arg(data.path());
            command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
        };
        let running: Vec<_> = (0..processes).map(add).collect();
        let mut outcomes = Vec::new();
        for process in running {
            let output = process.wait_with_output().unwrap();
            assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
            let report: Value = serde_json::from_slice(&output.stdout).unwrap();
            outcomes.extend(report["files"].as_array().unwrap().clone());
        }
        let count = |outcome: &str| outcomes.iter().filter(|file| file["outcome"] == outcome).count();
        assert_eq!((count("added"), count("unchanged")), (FILES, FILES * (processes - 1)));
        assert_eq!(knowledge(data.path(), &["list"])[0]["documents"], FILES);
    }
}

#[test]
fn a_file_that_moves_keeps_its_id() {
    let files = tempfile::tempdir().unwrap();
    let mut client = Client::new();
    std::fs::create_dir(files.path().join("drafts")).unwrap();
    std::fs::write(files.path().join("drafts/plan.md"), "# The plan\n\nPlant an alder.\n").unwrap();
    let watch = json!({ "collection": "notes", "paths": [files.path()], "watch": true });
    let added = client.call("knowledge/add", watch);
    assert_eq!(added["files"][0]["document"], "plan");
    std::fs::rename(files.path().join("drafts"), files.path().join("final")).unwrap();
    let path = |client: &mut Client| {
        let search = json!({ "query": "alder", "min_relevance": 0.0, "mode": "lexical" });
        let hit = client.call("knowledge/search", search)["hits"][0].clone();
        (hit["document"].as_str().map(str::to_owned), hit["path"].as_str().unwrap_or_default().to_owned())
    };
    until("the new path is known", || path(&mut client).1.ends_with("final/plan.md"));
    assert_eq!(path(&mut client).0.as_deref(), Some("plan"));
    assert_eq!(names(&mut client), ["The plan"]);
    // The folder is still watched under its new name.
    std::fs::write(files.path().join("final/plan.md"), "# The plan\n\nPlant a birch.\n").unwrap();
    until("the new words are found", || holding(&mut client, "birch") == 1);
}
