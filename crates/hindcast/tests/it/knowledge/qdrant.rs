//! Vectors in Qdrant: what is found through a server, and what becomes of it when Qdrant is killed, emptied or has strangers in it.

use std::{
    path::Path,
    process::Stdio,
    time::{Duration, Instant},
};

use hindcast_fixtures::{postgres::Cluster, qdrant};
use serde_json::{Value, json};

use super::{Client, until};
use crate::{
    sdk,
    server::{Server, command},
    several_servers::run,
};

const HEALTH: &str = "resource://system/health";

/// Texts without a word in common with the questions about them.
const NOTES: [(&str, &str, &str); 3] = [
    ("kitchen", "Simmer the onions in butter until golden, then pour in the stock.", "recipe for soup"),
    ("garage", "The vehicle will not start when the battery is flat.", "why does my car not go"),
    ("garden", "Prune roses in late winter, before new shoots appear.", "when should I cut back flowers"),
];

/// A Qdrant and a data folder with the embedding model; none where the tests are skipped.
fn prepared() -> Option<(qdrant::Server, tempfile::TempDir)> {
    let data = data_with_model()?;
    Some((qdrant::Server::start()?, data))
}

fn data_with_model() -> Option<tempfile::TempDir> {
    let models = sdk::peers()?.join("models/all-MiniLM-L6-v2");
    let data = tempfile::tempdir().unwrap();
    std::fs::create_dir(data.path().join("models")).unwrap();
    std::os::unix::fs::symlink(models, data.path().join("models/all-MiniLM-L6-v2")).unwrap();
    Some(data)
}

fn client(qdrant: &qdrant::Server, data: tempfile::TempDir) -> Client {
    Client::over(data, &[("HINDCAST_VECTORS_URL", &*qdrant.url())])
}

fn add_notes(client: &mut Client) {
    for (name, text, _) in NOTES {
        let added =
            client.call("knowledge/add", json!({ "collection": "house", "name": name, "text": text }));
        assert_eq!(added.get("notices"), None, "{added}");
    }
}

fn dense(client: &mut Client, question: &str) -> Value {
    client.call("knowledge/search", json!({ "query": question, "mode": "dense", "min_relevance": 0.0 }))
}

/// Whether every note is found by what it means, and nothing is missing.
fn finds_all(client: &mut Client) -> bool {
    NOTES.iter().all(|(name, _, question)| {
        let found = dense(client, question);
        found["hits"][0]["document"] == *name && found.get("notices").is_none()
    })
}

fn vector_store(client: &mut Client) -> Value {
    client.read_json(HEALTH)["components"]["qdrantVectorStore"].clone()
}

/// Writes many small documents; gives how many.
fn write_documents(folder: &Path) -> usize {
    for number in 0..120 {
        let text = format!("# Note {number}\n\nThis note is about the number{number} and nothing else.\n");
        std::fs::write(folder.join(format!("note{number}.md")), text).unwrap();
    }
    120
}

#[test]
fn a_server_finds_by_meaning_what_is_in_qdrant_and_says_how_it_does() {
    let Some((qdrant, data)) = prepared() else { return };
    let url = qdrant.url();
    let server = Server::launch(data.path(), &[], &[("HINDCAST_VECTORS_URL", &url)], Stdio::inherit());
    let key =
        server.key(&["--tier", "enterprise", "--scope", "knowledge:read", "--scope", "knowledge:write"]);
    for (name, text, _) in NOTES {
        let note = json!({ "collection": "house", "name": name, "text": text });
        let added = server.call(&key, "knowledge/add", note);
        assert_eq!(added["result"]["structuredContent"].get("notices"), None, "{added}");
    }
    for (name, _, question) in NOTES {
        for mode in ["dense", "hybrid"] {
            let search = json!({ "query": question, "mode": mode, "min_relevance": 0.0 });
            let found = server.call(&key, "knowledge/search", search)["result"]["structuredContent"].clone();
            assert_eq!(found["hits"][0]["document"], name, "{question}: {found}");
            assert_eq!(found.get("notices"), None, "{found}");
        }
    }
    let read = |uri: &str| {
        let answer = server.rpc(&key, "resources/read", json!({ "uri": uri })).json();
        serde_json::from_str::<Value>(answer["result"]["contents"][0]["text"].as_str().unwrap()).unwrap()
    };
    let health = read(HEALTH);
    let component = &health["components"]["qdrantVectorStore"];
    assert_eq!(
        (&component["status"], &component["collections"]),
        (&json!("Operational"), &json!(1)),
        "{health}"
    );
    assert_eq!(health["components"].get("embeddedVectorStore"), None);
    let expected = json!({ "inSync": true, "orphanedCollections": [], "missingCollections": [] });
    assert_eq!(health["synchronization"], expected);
    assert_eq!(read("resource://knowledge/house/stats")["healthStatus"]["isHealthy"], true);

    let removed = server.call(&key, "knowledge/remove", json!({ "collection": "house" }));
    assert_eq!(removed.get("error"), None, "{removed}");
    assert_eq!(read(HEALTH)["components"]["qdrantVectorStore"]["collections"], 0);
    let collections = qdrant.ask("GET", "/collections", "").unwrap();
    assert_eq!(collections.matches("hindcast-").count(), 1, "{collections}");
}

#[test]
fn doctor_tries_the_server_and_says_what_is_wrong_with_it() {
    let Some(qdrant) = qdrant::Server::start_with(&[("QDRANT__SERVICE__API_KEY", "sesame")]) else { return };
    let data = tempfile::tempdir().unwrap();
    let key = data.path().join("key");
    let check = |url: &str, secret: &str| {
        std::fs::write(&key, secret).unwrap();
        let output = command()
            .args(["doctor", "--json", "--vectors-url", url, "--data-dir"])
            .arg(data.path())
            .env("HINDCAST_VECTORS_API_KEY_FILE", &key)
            .output()
            .unwrap();
        let told: Value = serde_json::from_slice(&output.stdout).unwrap();
        let checks = told["checks"].as_array().unwrap();
        checks.iter().find(|check| check["name"] == "vectors").unwrap().clone()
    };
    let good = check(&qdrant.url(), "sesame\n");
    assert_eq!(good["status"], "ok", "{good}");
    assert!(good["detail"].as_str().unwrap().starts_with("Qdrant 1."), "{good}");
    let wrong = check(&qdrant.url(), "guess");
    assert_eq!(wrong["status"], "fail", "{wrong}");
    assert!(
        wrong["detail"].as_str().unwrap().contains("401") && !wrong.to_string().contains("guess"),
        "{wrong}"
    );
    let nobody = check("http://127.0.0.1:1", "sesame");
    assert!(nobody["detail"].as_str().unwrap().contains("does not answer"), "{nobody}");
}

#[test]
fn qdrant_killed_during_an_ingest_costs_nothing_that_was_acknowledged() {
    let Some((mut qdrant, data)) = prepared() else { return };
    let files = tempfile::tempdir().unwrap();
    let documents = write_documents(files.path());
    let mut client = client(&qdrant, data);
    add_notes(&mut client);
    client
        .call("knowledge/add", json!({ "collection": "notes", "paths": [files.path()], "background": true }));
    let count = |client: &mut Client| {
        let collections = client.read_json("resource://knowledge/collections");
        let notes = collections.as_array().unwrap().iter().find(|one| one["id"] == "notes").cloned();
        notes.map_or(0, |notes| notes["documentCount"].as_u64().unwrap())
    };
    until("some documents are there", || count(&mut client) > 20);
    qdrant.kill();

    // Searches go on by words, soon, and say so; neither address nor port is told.
    let port = qdrant.url().rsplit_once(':').unwrap().1.to_owned();
    for mode in ["hybrid", "dense"] {
        let begin = Instant::now();
        let found = client
            .call("knowledge/search", json!({ "query": "Prune roses", "mode": mode, "min_relevance": 0.0 }));
        assert!(begin.elapsed() < Duration::from_secs(5), "{:?}", begin.elapsed());
        assert_eq!(found["hits"][0]["document"], "garden", "{found}");
        let notice = found["notices"][0].as_str().unwrap_or_else(|| panic!("{found}"));
        assert_eq!(
            notice,
            "found by words only, not by meaning: Qdrant, which keeps the vectors, does not answer"
        );
        assert!(!found.to_string().contains(&port), "{found}");
    }
    until("it is said to be offline", || vector_store(&mut client)["status"] == "Offline");
    let health = client.read_json(HEALTH);
    assert_eq!((&health["status"], &health["synchronization"]["inSync"]), (&json!("Critical"), &Value::Null));
    let advice = health["recommendations"].to_string();
    assert!(advice.contains("Qdrant is offline") && !advice.contains(&port), "{advice}");
    // What is taken in meanwhile is acknowledged, and with what it lacks.
    let added = client.call(
        "knowledge/add",
        json!({ "collection": "house", "name": "late", "text": "Herons wade in ponds." }),
    );
    assert!(added["notices"][0].as_str().is_some_and(|notice| notice.contains("Qdrant")), "{added}");
    until("all documents are there", || count(&mut client) == documents as u64);
    let stats = client.request("resources/read", json!({ "uri": "resource://knowledge/notes/stats" }));
    assert!(stats["error"].to_string().contains("Qdrant, which keeps the vectors"), "{stats}");

    qdrant.go_on();
    until("it is said to be there", || vector_store(&mut client)["status"] == "Operational");
    until("all notes are found", || finds_all(&mut client));
    until("no vector is missing", || {
        let stats = client.read_json("resource://knowledge/notes/stats");
        stats["healthStatus"]["isHealthy"] == true
    });
    let late = dense(&mut client, "birds at the water");
    assert_eq!(late["hits"][0]["document"], "late", "{late}");
    assert_eq!(client.read_json(HEALTH)["synchronization"]["inSync"], true);
}

#[test]
fn an_emptied_qdrant_is_filled_again_by_whichever_process_is_there() {
    let Some((mut qdrant, data)) = prepared() else { return };
    let mut first = client(&qdrant, data);
    add_notes(&mut first);
    assert!(finds_all(&mut first));
    qdrant.empty();
    until("all notes are found again", || finds_all(&mut first));

    // What one process has filled in, another finds there.
    let mut second = first.beside_with(&[("HINDCAST_VECTORS_URL", &*qdrant.url())]);
    until("the other process finds them", || finds_all(&mut second));
    let added =
        json!({ "collection": "house", "name": "pond", "text": "Herons wade where the water is low." });
    second.call("knowledge/add", added);
    let begin = Instant::now();
    until("what the other process has added is found", || {
        dense(&mut first, "birds that stand in a lake")["hits"][0]["document"] == "pond"
    });
    assert!(begin.elapsed() < Duration::from_secs(2), "{:?}", begin.elapsed());
    qdrant.empty();
    for client in [&mut first, &mut second] {
        until("all notes are found once more", || finds_all(client));
        until("nothing is missing", || {
            client.read_json("resource://knowledge/house/stats")["healthStatus"]["isHealthy"] == true
        });
    }
    second.kill();
    let removed = json!({ "collection": "house", "document": "pond" });
    first.call("knowledge/remove", removed);
    assert_eq!(first.read_json("resource://knowledge/house/stats")["healthStatus"]["isHealthy"], true);
}

/// How often vectors or a marker were written to it.
fn uploads(qdrant: &qdrant::Server) -> u64 {
    let figures = qdrant.ask("GET", "/metrics", "").unwrap();
    let is_upload = |line: &&str| {
        line.starts_with("rest_responses_total{method=\"PUT\"") && line.contains("{collection_name}/points\"")
    };
    let count = |line: &str| line.rsplit_once(' ').unwrap().1.parse::<u64>().unwrap();
    figures.lines().filter(is_upload).map(count).sum()
}

#[test]
fn servers_on_one_postgresql_share_their_vectors_and_those_on_another_have_their_own() {
    let Some((qdrant, data)) = prepared() else { return };
    let (Some(cluster), Some(beside), Some(elsewhere)) =
        (Cluster::start(), data_with_model(), data_with_model())
    else {
        return;
    };
    let (database, another) = (cluster.new_database(), cluster.new_database());
    let vectors = qdrant.url();
    let launch = |data: &Path, database: &str| {
        let environment = [("HINDCAST_STORE_URL", database), ("HINDCAST_VECTORS_URL", &*vectors)];
        Server::launch(data, &[], &environment, Stdio::inherit())
    };
    let key = |data: &Path, database: &str| {
        let scopes = ["--tier", "enterprise", "--scope", "knowledge:read", "--scope", "knowledge:write"];
        let made =
            run(database, data, &[&["keys", "create", "--name", "test", "--json"], &scopes[..]].concat());
        serde_json::from_slice::<Value>(&made.stdout).unwrap()["key"].as_str().unwrap().to_owned()
    };
    let call = |server: &Server, key: &str, tool: &str, arguments: Value| {
        let answer = server.call(key, tool, arguments);
        assert_eq!(answer["error"], Value::Null, "{answer}");
        answer["result"]["structuredContent"].clone()
    };
    let add = |server: &Server, key: &str, name: &str, text: &str| {
        let note = json!({ "collection": "house", "name": name, "text": text });
        let added = call(server, key, "knowledge/add", note);
        assert_eq!(added.get("notices"), None, "{added}");
    };
    let dense = |server: &Server, key: &str, question: &str| {
        let search = json!({ "query": question, "mode": "dense", "min_relevance": 0.0 });
        call(server, key, "knowledge/search", search)["hits"].clone()
    };
    let first = launch(data.path(), &database);
    let writer = key(data.path(), &database);
    for (name, text, _) in NOTES {
        add(&first, &writer, name, text);
    }

    let uploaded = uploads(&qdrant);
    assert!(uploaded > 0);
    std::fs::copy(data.path().join("audit.key"), beside.path().join("audit.key")).unwrap();
    let second = launch(beside.path(), &database);
    for (name, _, question) in NOTES {
        until("the other server finds it", || dense(&second, &writer, question)[0]["document"] == name);
    }
    assert_eq!(uploads(&qdrant), uploaded, "what is there is not uploaded again");

    add(&second, &writer, "pond", "Herons wade where the water is low.");
    let begin = Instant::now();
    let question = "birds that stand in a lake";
    until("what the other server has added is found", || {
        dense(&first, &writer, question)[0]["document"] == "pond"
    });
    assert!(begin.elapsed() < Duration::from_secs(2), "{:?}", begin.elapsed());
    call(&second, &writer, "knowledge/remove", json!({ "collection": "house", "document": "pond" }));
    until("what the other server has removed is not found", || {
        let hits = dense(&first, &writer, question);
        hits.as_array().unwrap().iter().all(|hit| hit["document"] != "pond")
    });

    let stranger = launch(elsewhere.path(), &another);
    let writer_there = key(elsewhere.path(), &another);
    add(&stranger, &writer_there, "attic", "Old letters are kept in a box under the roof.");
    let hits = dense(&stranger, &writer_there, NOTES[0].2);
    assert_eq!(hits.as_array().unwrap().len(), 1, "{hits}");
    let listed = qdrant.ask("GET", "/collections", "").unwrap();
    assert_eq!(listed.matches("hindcast-").count(), 2, "{listed}");
}

#[test]
fn vectors_that_belong_to_nothing_are_told_and_removed() {
    let Some((qdrant, data)) = prepared() else { return };
    let mut client = client(&qdrant, data);
    add_notes(&mut client);
    let listed: Value = serde_json::from_str(&qdrant.ask("GET", "/collections", "").unwrap()).unwrap();
    let name = listed["result"]["collections"][0]["name"].as_str().unwrap().to_owned();
    let stranger =
        json!({ "points": [{ "id": 4711, "vector": vec![0.1; 384], "payload": { "collection": "99" } }] });
    let path = format!("/collections/{name}/points?wait=true");
    qdrant.ask("PUT", &path, &stranger.to_string()).unwrap();
    let synchronization = client.read_json(HEALTH)["synchronization"].clone();
    let expected = json!({ "inSync": false, "orphanedCollections": ["99"], "missingCollections": [] });
    assert_eq!(synchronization, expected);
    let url = qdrant.url();
    let reindexed = command()
        .args(["knowledge", "reindex", "--vectors-url", &url, "--data-dir"])
        .arg(client.data())
        .output()
        .unwrap();
    assert!(reindexed.status.success(), "{}", String::from_utf8_lossy(&reindexed.stderr));
    assert_eq!(client.read_json(HEALTH)["synchronization"]["inSync"], true);

    // The vectors of a collection that went missing are told, too, until they are filled in.
    let all = json!({ "filter": { "must_not": [{ "is_empty": { "key": "collection" } }] } });
    qdrant.ask("POST", &format!("/collections/{name}/points/delete?wait=true"), &all.to_string()).unwrap();
    let synchronization = client.read_json(HEALTH)["synchronization"].clone();
    let expected = json!({ "inSync": false, "orphanedCollections": [], "missingCollections": ["house"] });
    assert_eq!(synchronization, expected);
}
