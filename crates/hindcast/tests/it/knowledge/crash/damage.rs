//! Files of the word index are damaged by whatever damages files. The index is made from the store, so nothing is lost or missed.

use std::{fs, io::Write as _, path::Path, sync::Arc};

use serde_json::{Value, json};

use super::super::{Client, knowledge};
use crate::server::try_hindcast;

const DOCUMENTS: usize = 6;
/// Endings of the files that tantivy writes.
const KINDS: [&str; 8] =
    [".term", ".idx", ".pos", ".store", ".fast", ".fieldnorm", "meta.json", ".managed.json"];

/// What is done to a file.
#[derive(Debug, Clone, Copy)]
enum Damage {
    Flipped,
    Shortened,
    Removed,
}

/// Damages the files of the word index with an ending.
fn damage(data: &Path, kind: &str, how: Damage) {
    let folder = data.join("indexes/kept/lexical");
    let paths = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let meant: Vec<_> = paths.filter(|path| path.to_str().unwrap().ends_with(kind)).collect();
    assert!(!meant.is_empty(), "there is no {kind}");
    for path in meant {
        match how {
            Damage::Flipped => {
                let mut bytes = fs::read(&path).unwrap();
                // What is behind the content is tantivy's own checksum.
                let end = bytes.len() - 120;
                bytes[..end].iter_mut().step_by(3).for_each(|byte| *byte ^= 0x15);
                fs::File::options().write(true).open(&path).unwrap().write_all(&bytes).unwrap();
            }
            Damage::Shortened => fs::File::options().write(true).open(&path).unwrap().set_len(0).unwrap(),
            Damage::Removed => fs::remove_file(&path).unwrap(),
        }
    }
}

fn text(number: usize) -> String {
    format!("# Lake {number}\n\nThe heron of lake{number} stands in the water.\n")
}

fn search(number: usize) -> Value {
    json!({ "query": format!("lake{number}"), "mode": "lexical", "min_relevance": 0.0, "limit": 1 })
}

/// Fails unless the best hit is the document that has the word.
#[track_caller]
fn check(found: &Value, number: usize, case: &str) {
    let text = found["hits"][0]["text"].as_str().unwrap_or_default();
    assert!(text.contains(&format!("lake{number} ")), "{case}: {found}");
}

#[track_caller]
fn check_all_by_program(data: &Path, case: &str) {
    for number in 1..DOCUMENTS {
        let word = format!("lake{number}");
        let arguments = ["search", &word, "--mode", "lexical", "--min-relevance", "0", "--limit", "1"];
        check(&knowledge(data, &arguments), number, case);
    }
}

#[track_caller]
fn check_all_by_client(client: &mut Client, case: &str) {
    for number in 1..DOCUMENTS {
        check(&client.call("knowledge/search", search(number)), number, case);
    }
}

#[test]
fn a_damaged_word_index_is_made_again_by_whichever_command_comes_first() {
    let (files, data) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    for number in 0..DOCUMENTS {
        fs::write(files.path().join(format!("lake{number}.md")), text(number)).unwrap();
    }
    let path = files.path().to_str().unwrap();
    for kind in KINDS {
        knowledge(data.path(), &["add", "lakes", path]);
        knowledge(data.path(), &["remove", "lakes", "lake0.md"]);
        damage(data.path(), kind, Damage::Flipped);
        check_all_by_program(data.path(), kind);
        knowledge(data.path(), &["add", "lakes", path]);
        knowledge(data.path(), &["remove", "lakes", "lake0.md"]);
        damage(data.path(), kind, Damage::Flipped);
        let reindexed = try_hindcast(data.path(), &["knowledge", "reindex"]);
        let said = String::from_utf8_lossy(&reindexed.stdout);
        assert!(
            reindexed.status.success() && said.contains("the indexes agree with the store"),
            "{kind}: {said}"
        );
        // It has said so because it is so: nothing is left for a search to make again.
        let searched = try_hindcast(data.path(), &["knowledge", "search", "lake1", "--mode", "lexical"]);
        let log = String::from_utf8_lossy(&searched.stderr);
        assert!(!log.contains("made again"), "{kind}: {log}");
        check_all_by_program(data.path(), kind);
    }
}

#[test]
fn a_server_notices_that_its_word_index_is_damaged_before_it_answers() {
    let folder = Arc::new(tempfile::tempdir().unwrap());
    let mut client = Client::over(folder.clone(), &[]);
    let add = |client: &mut Client, number: usize| {
        let name = format!("lake{number}");
        let added = client
            .call("knowledge/add", json!({ "collection": "lakes", "name": name, "text": text(number) }));
        assert!(!added.to_string().contains("room"), "{added}");
    };
    (0..DOCUMENTS).for_each(|number| add(&mut client, number));
    let mut next = DOCUMENTS;
    for kind in &KINDS[..6] {
        for how in [Damage::Flipped, Damage::Shortened, Damage::Removed] {
            let case = format!("{kind} {how:?}");
            damage(folder.path(), kind, how);
            check_all_by_client(&mut client, &format!("{case}, then searched"));
            damage(folder.path(), kind, how);
            add(&mut client, next);
            next += 1;
            check_all_by_client(&mut client, &format!("{case}, then written"));
        }
        client.kill();
        damage(folder.path(), kind, Damage::Flipped);
        client = Client::over(folder.clone(), &[]);
        check_all_by_client(&mut client, &format!("{kind}, then started again"));
    }
}
