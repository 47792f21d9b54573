//! `kill -9` of a server that adds a folder in the background while its client adds, removes and renames.

use std::{
    collections::BTreeSet,
    path::Path,
    sync::Arc,
    thread::park_timeout,
    time::{Duration, Instant},
};

use rusqlite::Connection;
use serde_json::{Value, json};

use super::{
    super::{Client, knowledge},
    DOCUMENTS, KILLS, check_wholeness, write_documents,
};
use crate::server::{Dice, kills};

/// Texts that the client was told are there, and no others, apart from what it was doing when the server died.
struct Told {
    there: BTreeSet<usize>,
    next: usize,
}

fn text(number: usize) -> Value {
    json!({ "collection": "texts", "name": format!("text {number}"), "text": format!("The heron number{number} stands.") })
}

fn removal(number: usize) -> Value {
    json!({ "collection": "texts", "document": format!("text_{number}") })
}

impl Told {
    /// Makes a change and waits for its answer.
    fn change(&mut self, client: &mut Client, dice: &mut Dice) {
        let removed = self.there.first().copied().filter(|_| self.there.len() > 1 && dice.roll(3) == 0);
        match removed {
            Some(number) => {
                client.call("knowledge/remove", removal(number));
                self.there.remove(&number);
            }
            None => {
                client.call("knowledge/add", text(self.next));
                self.there.insert(self.next);
                self.next += 1;
            }
        }
    }
}

/// The numbers of the texts that are there.
fn texts(data: &Path) -> BTreeSet<usize> {
    let connection = Connection::open(data.join("knowledge.db")).unwrap();
    let mut asked = connection
        .prepare("SELECT documents.id FROM documents JOIN collections ON collections.key = collection WHERE collections.id = 'texts'")
        .unwrap();
    let ids = asked.query_map([], |row| row.get::<_, String>(0)).unwrap();
    ids.map(|id| id.unwrap()["text_".len()..].parse().unwrap()).collect()
}

#[test]
fn a_server_killed_at_any_moment_keeps_what_it_has_answered() {
    let files = tempfile::tempdir().unwrap();
    write_documents(files.path());
    let folder = json!({ "collection": "all", "paths": [files.path()], "background": true });
    let data = Arc::new(tempfile::tempdir().unwrap());
    let mut dice = Dice(20_261_119);
    let mut told = Told { there: BTreeSet::new(), next: 0 };
    for round in 0..kills(KILLS) {
        let mut client = Client::over(data.clone(), &[]);
        if round % 3 == 2 {
            // What is removed is added again, and the names of all documents are free.
            client.call("knowledge/remove", json!({ "collection": "all" }));
        }
        client.call("knowledge/add", folder.clone());
        let end = Instant::now() + Duration::from_millis(dice.roll(600) as u64);
        told.change(&mut client, &mut dice);
        while Instant::now() < end {
            told.change(&mut client, &mut dice);
        }
        // It dies while it does these; either may be done.
        let (added, removed) = (told.next, *told.there.first().unwrap());
        for (tool, arguments) in [("knowledge/add", text(added)), ("knowledge/remove", removal(removed))] {
            client.tell("tools/call", json!({ "name": tool, "arguments": arguments }));
        }
        park_timeout(Duration::from_micros(dice.roll(30_000) as u64));
        drop(client);
        told.next += 1;
        told.there.remove(&removed);

        check_wholeness(data.path());
        let listed = texts(data.path());
        assert!(listed.is_superset(&told.there), "round {round}: {:?} of {listed:?}", told.there);
        let others: Vec<_> = listed.difference(&told.there).copied().collect();
        assert!(others.iter().all(|number| [added, removed].contains(number)), "round {round}: {others:?}");
        told.there = listed;
        for number in &told.there {
            let query = format!("number{number}");
            let found =
                knowledge(data.path(), &["search", &query, "--mode", "lexical", "--collection", "texts"]);
            assert_eq!(found["hits"][0]["document"], format!("text_{number}"), "round {round}: {found}");
        }
    }
    // What was interrupted completes when it is added again.
    let mut client = Client::over(data.clone(), &[]);
    client.call("knowledge/add", json!({ "collection": "all", "paths": [files.path()] }));
    assert_eq!(check_wholeness(data.path()), DOCUMENTS + told.there.len());
}
