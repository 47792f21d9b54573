//! One knowledge base of several servers: what one takes in, all find and hear of, whatever ends meanwhile.

use std::{
    net::SocketAddr,
    path::Path,
    process::Stdio,
    sync::atomic::{AtomicBool, AtomicUsize, Ordering},
    time::{Duration, Instant},
};

use hindcast_fixtures::postgres::Cluster;
use serde_json::{Value, json};

use crate::{
    knowledge::{
        subscriptions::{hears, listen},
        until,
    },
    server::{Connection, Dice, Server, command, eventually},
    several_servers::{Servers, SetOnDrop, get, run},
};

/// What the servers promise each other.
const SOON: Duration = Duration::from_secs(2);

fn writer(servers: &Servers) -> String {
    let scopes = ["--tier", "enterprise", "--scope", "knowledge:read", "--scope", "knowledge:write"];
    servers.key(&scopes)["key"].as_str().unwrap().to_owned()
}

fn text(name: &str, text: &str) -> Value {
    json!({ "collection": "notes", "name": name, "text": text })
}

/// Adds a document; tells whether that was acknowledged.
fn try_add(address: SocketAddr, key: &str, document: &Value) -> bool {
    let call = json!({ "name": "knowledge/add", "arguments": document });
    let call = json!({ "jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": call });
    let reply = Connection::try_to(address)
        .and_then(|mut connection| connection.try_post(key, call.to_string().as_bytes()));
    reply.is_ok_and(|reply| reply.status == 200 && reply.json()["result"]["structuredContent"].is_object())
}

#[track_caller]
fn add(server: &Server, key: &str, document: Value) -> Value {
    let answer = server.call(key, "knowledge/add", document);
    assert_eq!(answer["error"], Value::Null, "{answer}");
    answer["result"]["structuredContent"].clone()
}

/// The ids of the documents whose passages have this word.
fn found(server: &Server, key: &str, word: &str) -> Vec<String> {
    let search = json!({ "query": word, "limit": 50, "min_relevance": 0.0, "mode": "lexical" });
    let answer = server.call(key, "knowledge/search", search);
    let hits = answer["result"]["structuredContent"]["hits"].as_array().cloned();
    let hits = hits.unwrap_or_else(|| panic!("{answer}"));
    let holding = hits.iter().filter(|hit| hit["text"].as_str().unwrap().contains(word));
    holding.map(|hit| hit["document"].as_str().unwrap().to_owned()).collect()
}

/// Every document that is there is there whole; gives how many there are.
fn whole_documents(servers: &Servers) -> usize {
    let half = "
        SELECT (SELECT count(*) FROM hindcast.documents
                WHERE chunks <> (SELECT count(*) FROM hindcast.chunks WHERE document = key)
                OR NOT EXISTS (SELECT FROM hindcast.contents WHERE document = key AND octet_length(original) = size))
             + (SELECT count(*) FROM hindcast.collections
                WHERE document_count <> (SELECT count(*) FROM hindcast.documents WHERE collection = collections.key)
                OR chunk_count <> (SELECT count(*) FROM hindcast.chunks WHERE collection = collections.key))
             + (SELECT abs(count(*) - (SELECT value FROM hindcast.generation)) FROM hindcast.changes)";
    assert_eq!(servers.sql(half), "0", "something is there in part");
    servers.sql("SELECT count(*) FROM hindcast.documents").parse().unwrap()
}

fn all_find_and_hear_of_it(count: usize) {
    let Some(servers) = Servers::start(count) else { return };
    let key = writer(&servers);
    add(&servers.servers[0], &key, text("first", "the heron stands in the lake"));
    let documents = "resource://knowledge/notes/documents";
    let mut took = Vec::new();
    for (number, writing) in servers.servers.iter().enumerate() {
        let others: Vec<_> =
            servers.servers.iter().filter(|server| server.address != writing.address).collect();
        let mut streams: Vec<_> = others.iter().map(|server| listen(server, &key, documents)).collect();
        let (word, changed) = (format!("word{number}"), format!("changed{number}"));
        add(writing, &key, text(&format!("new{number}"), &format!("this one has {word}")));
        let begun = Instant::now();
        for (server, stream) in others.iter().zip(&mut streams) {
            assert!(hears(stream, SOON), "server of {} hears nothing", server.address);
            assert_eq!(found(server, &key, &word), [format!("new{number}")]);
        }
        took.push(begun.elapsed());
        // What was replaced and removed is so everywhere.
        add(writing, &key, text(&format!("new{number}"), &format!("this one was {changed}")));
        for server in &others {
            eventually("the new words are found", || found(server, &key, &changed).len() == 1);
            assert!(found(server, &key, &word).is_empty());
        }
        let remove = json!({ "collection": "notes", "document": format!("new{number}") });
        let removed = writing.call(&key, "knowledge/remove", remove);
        assert_eq!(removed["error"], Value::Null, "{removed}");
        for server in &others {
            eventually("what is gone is not found", || found(server, &key, &changed).is_empty());
        }
    }
    assert!(took.iter().all(|took| *took < SOON), "{took:?}");
    assert_eq!(whole_documents(&servers), 1);
}

#[test]
fn what_one_of_two_servers_takes_in_the_other_finds_and_hears_of_within_two_seconds() {
    all_find_and_hear_of_it(2);
}

#[test]
fn what_one_of_three_servers_takes_in_the_others_find_and_hear_of_within_two_seconds() {
    all_find_and_hear_of_it(3);
}

#[test]
fn documents_that_were_acknowledged_around_restarts_of_postgresql_are_there_whole_and_found_everywhere() {
    let Some(mut servers) = Servers::start(2) else { return };
    let key = writer(&servers);
    let addresses: Vec<_> = servers.servers.iter().map(|server| server.address).collect();
    let (stop, number) = (AtomicBool::new(false), AtomicUsize::new(0));
    let client = |client: usize| {
        let mut acknowledged = Vec::new();
        while !stop.load(Ordering::Relaxed) {
            let number = number.fetch_add(1, Ordering::Relaxed);
            let name = format!("document{number}");
            let words = format!("# One\n\nsaid{number}x here\n\n# Two\n\nsaid{number}x again\n");
            if try_add(addresses[client % 2], &key, &text(&name, &words)) {
                acknowledged.push(number);
            }
        }
        acknowledged
    };
    let ready = |servers: &[Server]| {
        for server in servers {
            eventually("it is ready", || get(server, "/readyz").status == 200);
        }
    };
    let client = &client;
    let acknowledged: Vec<usize> = std::thread::scope(|scope| {
        let clients: Vec<_> = (0..4).map(|number| scope.spawn(move || client(number))).collect();
        let stopping = SetOnDrop(&stop);
        for round in 0..4 {
            ready(&servers.servers);
            let before = number.load(Ordering::Relaxed);
            until("documents are taken in", || number.load(Ordering::Relaxed) > before + 20);
            if round % 2 == 0 {
                servers.cluster.crash();
            } else {
                servers.cluster.stop();
            }
            servers.cluster.go_on();
        }
        ready(&servers.servers);
        drop(stopping);
        clients.into_iter().flat_map(|client| client.join().unwrap()).collect()
    });
    assert!(acknowledged.len() > 40, "{}", acknowledged.len());
    let there = whole_documents(&servers);
    assert!(there >= acknowledged.len(), "{there} of {}", acknowledged.len());
    for (place, number) in acknowledged.iter().enumerate() {
        let server = &servers.servers[place % 2];
        let expected = format!("document{number}");
        assert_eq!(found(server, &key, &format!("said{number}x")).first(), Some(&expected));
    }
}

#[test]
fn a_server_that_is_killed_while_it_takes_in_leaves_whole_documents_that_the_other_finds() {
    let Some(mut servers) = Servers::start(2) else { return };
    let key = writer(&servers);
    let mut dice = Dice(20_261_118);
    let number = AtomicUsize::new(0);
    let mut acknowledged = Vec::new();
    for _ in 0..3 {
        let killed = servers.servers.pop().unwrap();
        let (pid, address) = (killed.pid(), killed.address);
        let client = || {
            let next = || {
                let number = number.fetch_add(1, Ordering::Relaxed);
                let words = format!("# One\n\nsaid{number}x here\n\n# Two\n\nsaid{number}x again\n");
                try_add(address, &key, &text(&format!("document{number}"), &words)).then_some(number)
            };
            std::iter::from_fn(next).collect::<Vec<_>>()
        };
        let wanted = number.load(Ordering::Relaxed) + 10 + dice.roll(40);
        let done: Vec<usize> = std::thread::scope(|scope| {
            let clients: Vec<_> = (0..4).map(|_| scope.spawn(client)).collect();
            until("documents are taken in", || number.load(Ordering::Relaxed) > wanted);
            let kill = std::process::Command::new("kill").args(["-KILL", &pid.to_string()]).status().unwrap();
            assert!(kill.success());
            clients.into_iter().flat_map(|client| client.join().unwrap()).collect()
        });
        acknowledged.extend(done);
        drop(killed);
        let environment = [("HINDCAST_STORE_URL", &*servers.url)];
        let data = servers.folders[1].path();
        let again = Server::launch(data, &[], &environment, Stdio::inherit());
        servers.servers.push(again);
    }
    assert!(acknowledged.len() > 20, "{}", acknowledged.len());
    // A transaction that nobody ends is ended by PostgreSQL when it sees that its client is gone.
    until("no transaction is left", || {
        servers.sql("SELECT count(*) FROM pg_stat_activity WHERE state LIKE 'idle in transaction%'") == "0"
    });
    assert!(whole_documents(&servers) >= acknowledged.len());
    for (place, number) in acknowledged.iter().enumerate() {
        let server = &servers.servers[place % 2];
        let expected = format!("document{number}");
        assert_eq!(found(server, &key, &format!("said{number}x")).first(), Some(&expected));
    }
}

fn knowledge(servers: &Servers, folder: &Path, arguments: &[&str]) -> Value {
    let output = run(&servers.url, folder, &[&["knowledge"], arguments, &["--json"]].concat());
    assert!(output.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).unwrap()
}

#[test]
fn a_folder_is_watched_by_the_server_whose_it_is_and_all_find_what_it_reads() {
    let files = tempfile::tempdir().unwrap();
    let shelf = files.path().canonicalize().unwrap();
    let allowed = [("HINDCAST_KNOWLEDGE_ALLOWED_FOLDERS", shelf.to_str().unwrap())];
    let Some(servers) = Servers::start_with(2, &allowed) else { return };
    let key = writer(&servers);
    std::fs::write(shelf.join("bird.md"), "# Bird\n\nthe heron waits").unwrap();
    let watch = json!({ "collection": "notes", "paths": [shelf], "watch": true });
    add(&servers.servers[0], &key, watch);
    let [one, two] = [0, 1].map(|place| servers.folders[place].path());
    let owner = servers.sql("SELECT owner FROM hindcast.collections");
    let machine =
        |folder: &Path| knowledge(&servers, folder, &["watches", "--owner", &owner])[0]["machine"].clone();
    assert_eq!(machine(one), Value::Null);
    assert_eq!(machine(two), std::fs::read_to_string(one.join("machine.name")).unwrap());
    std::fs::write(shelf.join("bird.md"), "# Bird\n\nthe otter swims").unwrap();
    for server in &servers.servers {
        eventually("the new words are found", || found(server, &key, "otter") == ["bird"]);
    }
    // On the other server there is no such file, so it is not what the document was made from.
    let path = shelf.to_str().unwrap();
    let hit = |folder: &Path| {
        let search = ["search", "otter", "--owner", &owner, "--mode", "lexical", "--min-relevance", "0"];
        knowledge(&servers, folder, &search)["hits"][0].clone()
    };
    std::fs::remove_file(shelf.join("bird.md")).unwrap();
    let empty = knowledge(&servers, two, &["add", "notes", path, "--owner", &owner]);
    assert_eq!(empty["files"], json!([]), "what the other machine has is not removed: {empty}");
    assert_ne!(hit(two)["stale"], true);
    for server in &servers.servers {
        eventually("what is gone is not found", || found(server, &key, "otter").is_empty());
    }
    let unwatched = knowledge(&servers, two, &["unwatch", "notes", "--owner", &owner]);
    assert_eq!(unwatched["unwatched"], json!([path]));
}

#[test]
fn an_ingest_during_which_postgresql_is_killed_is_completed_by_a_second_run() {
    const FILES: usize = 300;
    let Some(mut servers) = Servers::start(1) else { return };
    let files = tempfile::tempdir().unwrap();
    for number in 0..FILES {
        let paragraph = format!("Paragraph of document number{number}x with words to find.\n\n").repeat(8);
        let text = format!("# Document {number}\n\n{paragraph}");
        std::fs::write(files.path().join(format!("d{number}.md")), text).unwrap();
    }
    let path = files.path().to_str().unwrap();
    let data = servers.folders[0].path().to_owned();
    let mut before = 0;
    for round in 1..=3 {
        let mut ingest = command();
        ingest.env("HINDCAST_STORE_URL", &servers.url).args(["knowledge", "add", "all", path, "--data-dir"]);
        let mut ingest = ingest.arg(&data).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        until("documents are taken in", || {
            servers.sql("SELECT count(*) FROM hindcast.documents").parse::<usize>().unwrap() > round * 20
        });
        servers.cluster.crash();
        servers.cluster.go_on();
        ingest.wait().unwrap();
        let now = whole_documents(&servers);
        assert!(now >= before, "documents were lost: {before}, then {now}");
        before = now;
    }
    let report = knowledge(&servers, &data, &["add", "all", path]);
    assert_eq!(report["collection"]["documents"], FILES);
    assert_eq!(whole_documents(&servers), FILES);
    let search = ["search", "number123x", "--mode", "lexical", "--min-relevance", "0"];
    assert_eq!(knowledge(&servers, &data, &search)["hits"][0]["document"], "d123");
}

#[test]
fn a_knowledge_base_moves_to_postgresql_and_back_with_its_server() {
    let Some(cluster) = Cluster::start() else { return };
    let url = cluster.new_database();
    let server = Server::start(&[]);
    let key = server.unlimited_key();
    add(&server, &key, text("bird", "the heron waits"));
    assert_eq!(found(&server, &key, "heron"), ["bird"]);
    let data = server.stop();
    let migrate = |to: &str| {
        let output = run(&url, &data.path, &["store", "migrate", "--to", to, "--json"]);
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        serde_json::from_slice::<Value>(&output.stdout).unwrap()
    };
    let moved = migrate("postgres");
    assert_eq!((&moved["collections"], &moved["documents"]), (&json!(1), &json!(1)), "{moved}");
    assert_eq!(migrate("postgres")["knowledge_rows_moved"], 0, "all is there");
    let status = run(&url, &data.path, &["store", "status", "--json"]);
    let status: Value = serde_json::from_slice(&status.stdout).unwrap();
    assert_eq!((&status["documents"], &status["unfinished_move"]), (&json!(1), &json!(false)), "{status}");

    let server = Server::launch(&data.path, &[], &[("HINDCAST_STORE_URL", &url)], Stdio::inherit());
    assert_eq!(found(&server, &key, "heron"), ["bird"]);
    add(&server, &key, text("fish", "the trout swims"));
    drop(server.stop());
    let exported = run(&url, &data.path, &["knowledge", "export", "notes", "never.db"]);
    let told = String::from_utf8_lossy(&exported.stderr).into_owned();
    assert!(!exported.status.success() && told.contains("hint: `hindcast store migrate"), "{told}");

    assert_eq!(migrate("sqlite")["documents"], 2);
    let server = Server::start_in(&data.path, &[]);
    assert_eq!(found(&server, &key, "heron"), ["bird"]);
    assert_eq!(found(&server, &key, "trout"), ["fish"]);
}
