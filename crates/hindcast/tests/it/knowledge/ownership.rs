//! Whose a collection is, and who may do what with it.

use std::io::Write as _;

use serde_json::{Value, json};

use super::knowledge;
use crate::server::{Server, try_hindcast};

fn collections(server: &Server, key: &str) -> Vec<Value> {
    let read = server.rpc(key, "resources/read", json!({ "uri": "resource://knowledge/collections" })).json();
    let text = read["result"]["contents"][0]["text"].as_str().unwrap_or_else(|| panic!("{read}"));
    serde_json::from_str(text).unwrap()
}

#[test]
fn principals_see_their_own_and_the_shared_collections_and_no_others() {
    let server = Server::start(&[]);
    let (ada, ben) = (server.unlimited_key(), server.unlimited_key());
    let files = tempfile::tempdir().unwrap();
    std::fs::write(files.path().join("handbook.md"), "# Handbook\n\nThe shared heron stands still.").unwrap();
    knowledge(&server.data, &["add", "Handbook", files.path().to_str().unwrap()]);
    let secret = json!({ "collection": "secrets", "name": "plan", "text": "the secret heron flies at noon" });
    assert_eq!(server.call(&ada, "knowledge/add", secret)["error"], Value::Null);

    let ids = |key: &str| -> Vec<(String, bool)> {
        let seen = collections(&server, key);
        seen.iter().map(|one| (one["id"].as_str().unwrap().into(), one["shared"] == true)).collect()
    };
    assert_eq!(ids(&ada), [("Handbook".to_owned(), true), ("secrets".to_owned(), false)]);
    assert_eq!(ids(&ben), [("Handbook".to_owned(), true)]);
    let found = |key: &str| {
        let answer = server.call(key, "knowledge/search", json!({ "query": "heron", "min_relevance": 0.0 }));
        let hits = answer["result"]["structuredContent"]["hits"].as_array().unwrap().clone();
        hits.iter().map(|hit| hit["collection"].as_str().unwrap().to_owned()).collect::<Vec<_>>()
    };
    assert_eq!(found(&ben), ["Handbook"]);
    assert_eq!(found(&ada).len(), 2);
    for uri in ["document/plan", "documents", "stats"] {
        let uri = format!("resource://knowledge/secrets/{uri}");
        let read = server.rpc(&ben, "resources/read", json!({ "uri": uri })).json();
        assert_eq!(read["error"]["data"]["details"], "Collection 'secrets' does not exist", "{read}");
    }
    let removed = server.call(&ben, "knowledge/remove", json!({ "collection": "secrets" }));
    assert_eq!(removed["error"]["code"], -32602);
}

#[test]
fn health_shows_a_caller_only_its_own_figures() {
    let server = Server::start_with(&[("HINDCAST_KNOWLEDGE_OLLAMA_URL", "off")]);
    let (ada, ben) = (server.new_key(&["--tier", "enterprise"]), server.unlimited_key());
    let ada_key = ada["key"].as_str().unwrap();
    let note = |name: &str| json!({ "collection": name, "name": "n", "text": "some words" });
    for name in ["one", "two"] {
        assert_eq!(server.call(ada_key, "knowledge/add", note(name))["error"], Value::Null);
    }
    let before = health(&server, &ben);
    let connection = rusqlite::Connection::open(server.data.join("knowledge.db")).unwrap();
    let now = hindcast_core::Timestamp::now().as_nanosecond() as i64;
    for (conversation, answer) in [("c1", Some("yes")), ("c2", None)] {
        connection
            .execute(
                "INSERT INTO answers VALUES (?1, ?2, 'm', ?3, 'why?', ?4, 210, 5, 0)",
                rusqlite::params![conversation, ada["owner"].as_str().unwrap(), now, answer],
            )
            .unwrap();
    }
    let (seen, others) = (health(&server, ada_key), health(&server, &ben));
    let figures = |health: &Value| {
        let metrics = &health["metrics"];
        json!([
            health["components"]["sqliteDatabase"]["knowledgeBases"],
            metrics["successRate"],
            metrics["averageResponseTime"],
            metrics["errorsLast24Hours"],
            metrics["totalConversations"]
        ])
    };
    assert_eq!(figures(&seen), json!([2, "50%", "0.21s", 1, 2]));
    assert_eq!(figures(&others), json!([0, null, null, 0, 0]));
    assert_eq!((&others["metrics"], &others["recommendations"]), (&before["metrics"], &json!([])));
    assert_eq!(others["metrics"]["databaseSize"], "0 B", "what others have is nobody's business");
}

fn health(server: &Server, key: &str) -> Value {
    let read = server.rpc(key, "resources/read", json!({ "uri": "resource://system/health" })).json();
    serde_json::from_str(read["result"]["contents"][0]["text"].as_str().unwrap()).unwrap()
}

#[test]
fn reading_and_writing_need_their_scopes() {
    let server = Server::start(&[]);
    let reader = server.key(&["--scope", "knowledge:read"]);
    let stranger = server.key(&["--scope", "debug:read"]);
    let note = json!({ "collection": "x", "name": "n", "text": "words" });
    let refused = server.call(&reader, "knowledge/add", note);
    assert_eq!(
        (&refused["error"]["code"], &refused["error"]["data"]["required_scope"]),
        (&json!(-32003), &json!("knowledge:write"))
    );
    assert_eq!(collections(&server, &reader), Vec::<Value>::new());
    for uri in ["resource://knowledge/collections", "resource://system/health", "resource://system/models"] {
        let read = server.rpc(&stranger, "resources/read", json!({ "uri": uri })).json();
        assert_eq!(read["error"]["data"]["required_scope"], "knowledge:read", "{uri}");
        let listed = server.rpc(&stranger, "resources/list", json!({})).json();
        assert!(!listed.to_string().contains(uri));
    }
}

#[test]
fn a_remote_caller_reads_only_the_folders_that_the_operator_allows() {
    let files = tempfile::tempdir().unwrap();
    let (open, closed) = (files.path().join("open"), files.path().join("closed"));
    for folder in [&open, &closed] {
        std::fs::create_dir(folder).unwrap();
        std::fs::write(folder.join("a.md"), "words").unwrap();
    }
    let allowed = ("HINDCAST_KNOWLEDGE_ALLOWED_FOLDERS", open.to_str().unwrap());
    let server = Server::start_with(&[allowed]);
    let key = server.unlimited_key();
    let add = |path: &std::path::Path| {
        let answer = server.call(&key, "knowledge/add", json!({ "collection": "x", "paths": [path] }));
        answer["result"]["structuredContent"]["files"][0].clone()
    };
    assert_eq!(add(&open)["outcome"], "added");
    let reason = add(&closed)["reason"].as_str().unwrap().to_owned();
    assert!(reason.starts_with("it is not in one of the folders of `knowledge.allowed_folders`"), "{reason}");
    assert_eq!(add(&open.join("../closed/a.md"))["outcome"], "failed");
    let own = add(&server.data.join("audit.key"));
    assert_eq!(own["reason"], reason, "where the data folder is, is not told");
}

#[test]
fn a_refused_path_is_told_as_it_was_given_and_tells_nothing_of_the_server() {
    let files = tempfile::tempdir().unwrap();
    let root = files.path().canonicalize().unwrap();
    let (open, closed) = (root.join("open"), root.join("closed"));
    for folder in [&open, &closed] {
        std::fs::create_dir(folder).unwrap();
        std::fs::write(folder.join("a.md"), "words").unwrap();
    }
    for (link, target) in [("there", "a.md"), ("missing", "nothing.md")] {
        std::os::unix::fs::symlink(closed.join(target), open.join(link)).unwrap();
    }
    std::os::unix::fs::symlink(&closed, open.join("folder")).unwrap();
    let server = Server::start_with(&[("HINDCAST_KNOWLEDGE_ALLOWED_FOLDERS", open.to_str().unwrap())]);
    let everywhere = Server::start_with(&[("HINDCAST_KNOWLEDGE_ALLOWED_FOLDERS", "/")]);
    let refused = |server: &Server, path: &str| {
        let answer = server.call(
            &server.unlimited_key(),
            "knowledge/add",
            json!({ "collection": "x", "paths": [path] }),
        );
        let file = &answer["result"]["structuredContent"]["files"][0];
        assert_eq!((&file["path"], &file["outcome"]), (&json!(path), &json!("failed")), "{answer}");
        file["reason"].as_str().unwrap().to_owned()
    };
    let not_allowed = refused(&server, closed.join("a.md").to_str().unwrap());
    for path in ["/proc/self/cwd", "/dev/fd/0", "/nothing"] {
        assert_eq!(refused(&server, path), not_allowed, "{path}");
    }
    // Whether something is there outside is not told, by whichever way it is asked.
    for path in ["there", "missing", "folder", "folder/a.md", "folder/nothing.md"] {
        assert_eq!(refused(&server, open.join(path).to_str().unwrap()), not_allowed, "{path}");
    }
    let ways = ["closed", "nothing"].map(|way| format!("{}/{way}/../open/nothing.md", root.display()));
    assert_eq!(refused(&server, &ways[0]), refused(&server, &ways[1]));
    assert!(refused(&server, "a.md").contains("relative"));
    for path in ["/proc/self/cwd", "/dev/fd/0", "/proc/self/root/etc"] {
        assert!(refused(&everywhere, path).contains("not a file system with documents"), "{path}");
    }
}

#[test]
fn the_data_folder_is_not_read_under_another_path_either() {
    let may_mount = std::process::Command::new("unshare").args(["-Urm", "true"]).status();
    if !may_mount.is_ok_and(|status| status.success()) {
        // Past the test runner, which keeps what passing tests print to itself.
        let _ = writeln!(
            std::io::stderr(),
            "SKIPPED the_data_folder_is_not_read_under_another_path_either: no `unshare`"
        );
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path().canonicalize().unwrap();
    let (data, open) = (root.join("data"), root.join("open"));
    for path in ["data/inner", "open/bound", "open/part"] {
        std::fs::create_dir_all(root.join(path)).unwrap();
    }
    for path in ["data/own.md", "data/inner/own.md", "open/a.md"] {
        std::fs::write(root.join(path), "words").unwrap();
    }
    let add = |path: &str| {
        let script = "mount --bind \"$1\" \"$2/bound\" && mount --bind \"$1/inner\" \"$2/part\" && shift 2 && exec \"$@\"";
        let mut command = std::process::Command::new("unshare");
        for (name, value) in crate::server::command().get_envs() {
            match value {
                Some(value) => command.env(name, value),
                None => command.env_remove(name),
            };
        }
        command.args(["-Urm", "sh", "-ec", script, "sh"]).args([&data, &open]);
        command.arg(env!("CARGO_BIN_EXE_hindcast")).arg("--data-dir").arg(&data);
        command.args(["knowledge", "add", "notes", open.join(path).to_str().unwrap(), "--json"]);
        let output = command.output().unwrap();
        let read = serde_json::from_slice::<Value>(&output.stdout);
        read.unwrap_or_else(|_| panic!("{}", String::from_utf8_lossy(&output.stderr)))
    };
    let outcomes = |answer: &Value| -> Vec<(String, Value)> {
        let files = answer["files"].as_array().unwrap();
        let name = |file: &Value| file["path"].as_str().unwrap().replace(&*open.to_string_lossy(), "");
        files.iter().map(|file| (name(file), file["reason"].clone())).collect()
    };
    let own = json!("it is in hindcast's own data folder");
    let expected = [("/a.md", Value::Null), ("/bound", own.clone()), ("/part", own.clone())];
    assert_eq!(outcomes(&add("")), expected.map(|(name, reason)| (name.to_owned(), reason)));
    for path in ["bound", "bound/own.md", "part/own.md"] {
        assert_eq!(outcomes(&add(path)), [(format!("/{path}"), own.clone())]);
    }
}

/// The ids of the collections whose passages hold the word.
fn holders(server: &Server, key: &str, word: &str) -> Vec<String> {
    let search = json!({ "query": word, "min_relevance": 0.0, "mode": "lexical" });
    let answer = server.call(key, "knowledge/search", search);
    let hits = answer["result"]["structuredContent"]["hits"].as_array().unwrap_or_else(|| panic!("{answer}"));
    let holds = |hit: &&Value| hit["text"].as_str().unwrap().contains(word);
    hits.iter().filter(holds).map(|hit| hit["collection"].as_str().unwrap().to_owned()).collect()
}

#[track_caller]
fn add(server: &Server, key: &str, arguments: Value) -> Value {
    let answer = server.call(key, "knowledge/add", arguments);
    assert_eq!(answer["error"], Value::Null, "{answer}");
    answer["result"]["structuredContent"].clone()
}

#[test]
fn what_is_not_shared_stays_private_although_another_owner_shares_a_collection_of_that_name() {
    let server = Server::start(&[]);
    let (eve, bob) = (server.unlimited_key(), server.unlimited_key());
    let bait = json!({ "collection": "Notes", "name": "bait", "text": "baitword", "shared": true });
    assert_eq!(add(&server, &eve, bait)["shared"], true);

    let diary = json!({ "collection": "Notes", "name": "diary", "text": "bobword" });
    let added = add(&server, &bob, diary);
    assert_eq!((&added["collection"], &added["shared"]), (&json!("Notes"), &json!(false)));
    assert!(added["notices"][0].as_str().unwrap().contains("`shared: true`"), "{added}");
    let explicit = json!({ "collection": "Notes", "name": "plan", "text": "bobplan", "shared": false });
    assert_eq!(add(&server, &bob, explicit)["documents"], 2);
    for word in ["bobword", "bobplan"] {
        assert_eq!(holders(&server, &eve, word), Vec::<String>::new());
        assert_eq!(holders(&server, &bob, word), ["Notes"]);
    }

    // Both are there for Bob, each under an id of its own that reads its documents and no others.
    let ids: Vec<_> = collections(&server, &bob).iter().map(|one| one["id"].clone()).collect();
    assert_eq!(ids, ["Notes@shared", "Notes"]);
    assert_eq!(holders(&server, &bob, "baitword"), ["Notes@shared"]);
    let read = |id: &str, document: &str| {
        let uri = format!("resource://knowledge/{id}/document/{document}");
        server.rpc(&bob, "resources/read", json!({ "uri": uri })).json()["result"]["contents"][0]["text"]
            .clone()
    };
    assert_eq!(
        [read("Notes", "diary"), read("Notes@shared", "bait"), read("Notes", "bait")],
        [json!("bobword"), json!("baitword"), Value::Null]
    );

    let gift = json!({ "collection": "Notes", "name": "gift", "text": "giftword", "shared": true });
    let added = add(&server, &bob, gift);
    assert_eq!((&added["collection"], &added["shared"]), (&json!("Notes@shared"), &json!(true)), "{added}");
    assert_eq!(holders(&server, &eve, "giftword"), ["Notes"]);
    // No collection is called as if it were the shared one.
    let forged = json!({ "collection": "Notes@shared", "name": "n", "text": "forged" });
    assert_eq!(server.call(&bob, "knowledge/add", forged)["error"]["code"], -32602);
}

#[test]
fn only_its_owner_and_an_admin_remove_a_shared_collection() {
    let server = Server::start(&[]);
    let (eve, bob) = (server.unlimited_key(), server.unlimited_key());
    let admin = server.key(&["--tier", "enterprise", "--scope", "knowledge:read,knowledge:write,admin"]);
    let note = |collection: &str, shared: bool| json!({ "collection": collection, "name": "n", "text": format!("eveword in {collection}"), "shared": shared });
    for name in ["Notes", "Other"] {
        add(&server, &eve, note(name, true));
    }
    let remove =
        |key: &str, arguments: Value| server.call(key, "knowledge/remove", arguments)["error"].clone();
    for key in [&bob, &admin] {
        add(&server, key, note("Notes", false));
        assert_eq!(remove(key, json!({ "collection": "Notes" })), Value::Null);
        // His own is gone; the name does not mean another's now.
        let refused = remove(key, json!({ "collection": "Notes" }));
        assert!(refused["data"]["details"].as_str().unwrap().contains("somebody else"), "{refused}");
        let refused = remove(key, json!({ "collection": "Notes", "document": "n" }));
        assert!(refused["data"]["details"].as_str().unwrap().contains("somebody else"), "{refused}");
    }
    assert_eq!(remove(&bob, json!({ "collection": "Notes@shared" }))["code"], -32003);
    assert_eq!(holders(&server, &eve, "eveword").len(), 2);
    assert_eq!(remove(&admin, json!({ "collection": "Other@shared" })), Value::Null);
    let renamed = try_hindcast(&server.data, &["knowledge", "rename", "Notes", "Stolen", "--owner", "bob"]);
    assert!(!renamed.status.success() && String::from_utf8_lossy(&renamed.stderr).contains("somebody else"));
    assert_eq!(remove(&eve, json!({ "collection": "Notes" })), Value::Null);
    assert_eq!(collections(&server, &eve), Vec::<Value>::new());
}

#[test]
fn only_its_owner_and_an_admin_replace_a_text_of_a_shared_collection() {
    let server = Server::start(&[]);
    let (eve, bob) = (server.unlimited_key(), server.unlimited_key());
    let admin = server.key(&["--tier", "enterprise", "--scope", "knowledge:read,knowledge:write,admin"]);
    let note =
        |name: &str, text: &str| json!({ "collection": "Notes", "name": name, "text": text, "shared": true });
    add(&server, &eve, note("plan", "eveword first"));
    let refused = server.call(&bob, "knowledge/add", note("plan", "bobword instead"));
    assert_eq!(refused["error"]["code"], -32003, "{refused}");
    assert!(refused["error"]["data"]["details"].as_str().unwrap().contains("`plan`"), "{refused}");
    assert_eq!(holders(&server, &eve, "eveword").len(), 1);
    assert_eq!(add(&server, &bob, note("plan", "eveword first"))["unchanged"], 1);
    assert_eq!(add(&server, &bob, note("gift", "bobword"))["added"], 1);
    assert_eq!(add(&server, &eve, note("plan", "eveword second"))["updated"], 1);
    assert_eq!(add(&server, &admin, note("plan", "adminword"))["updated"], 1);
}

#[test]
fn an_owner_has_only_so_many_bytes_and_others_have_theirs() {
    let server = Server::start_with(&[("HINDCAST_KNOWLEDGE_OWNER_BYTES", "60000")]);
    let (ada, ben) = (server.unlimited_key(), server.unlimited_key());
    let add = |key: &str, number: usize| {
        // No two alike: what says the same has one vector.
        let words: Vec<_> =
            (0..800).map(|word| format!("w{}", (word * 7919 + number * 104_729) % 99_991)).collect();
        let note = json!({ "collection": "notes", "name": format!("n{number}"), "text": words.join(" ") });
        server.call(key, "knowledge/add", note)
    };
    let open = |key: &str, name: &str, text: &str| {
        let note = json!({ "collection": "open", "shared": true, "name": name, "text": text });
        server.call(key, "knowledge/add", note)
    };
    assert_eq!(open(&ada, "first", "words")["error"], Value::Null);
    let taken = (0..30).take_while(|number| add(&ada, *number)["error"].is_null()).count();
    assert!((1..15).contains(&taken), "{taken} were taken in");
    let refused = add(&ada, 100);
    let error = &refused["error"];
    assert_eq!(
        (error["code"].as_i64(), error["data"]["limit"].as_u64()),
        (Some(-32002), Some(60_000)),
        "{refused}"
    );
    assert!(error["data"]["hint"].as_str().unwrap().contains("the largest are `notes`"), "{refused}");
    // Others who add to what is shared learn nothing of what its maker has.
    let others = open(&ben, "second", &"other words ".repeat(8000));
    assert_eq!(others["error"]["code"], -32002, "{others}");
    assert!(!others.to_string().contains("notes") && others["error"]["data"]["used"].is_null(), "{others}");
    // It is neither half there, nor in the way of others, of what is there, or of what does not grow.
    let read =
        server.rpc(&ada, "resources/read", json!({ "uri": "resource://knowledge/notes/documents" })).json();
    assert!(!read.to_string().contains("n100"), "{read}");
    assert_eq!(add(&ben, 0)["error"], Value::Null);
    assert_eq!(add(&ada, 0)["error"], Value::Null);
    let removed = server.call(&ada, "knowledge/remove", json!({ "collection": "notes", "document": "n0" }));
    assert_eq!(removed["error"], Value::Null, "{removed}");
    assert_eq!(add(&ada, 0)["error"], Value::Null);
    // What was removed is counted again, without the vectors that nothing makes here.
    assert!((200..230).any(|number| add(&ada, number)["error"]["code"] == -32002));
    // The local user has as much as the disk.
    let files = tempfile::tempdir().unwrap();
    std::fs::write(files.path().join("large.md"), "word and word\n\n".repeat(20_000)).unwrap();
    knowledge(&server.data, &["add", "large", files.path().to_str().unwrap()]);
}
