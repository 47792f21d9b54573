//! Watched folders: only what the one who gave them may read, bounded, and never in the way of the server.

use std::{
    path::Path,
    time::{Duration, Instant},
};

use rusqlite::Connection;
use serde_json::{Value, json};

use super::{Client, until};
use crate::server::{Data, Server, eventually, hindcast};

/// Long enough for a busy machine, and far less than a walk of everything.
const PROMPT: Duration = Duration::from_secs(9);

struct Folders {
    _root: tempfile::TempDir,
    open: std::path::PathBuf,
    closed: std::path::PathBuf,
}

impl Folders {
    fn new() -> Self {
        let root = tempfile::tempdir().unwrap();
        let path = root.path().canonicalize().unwrap();
        let (open, closed) = (path.join("open"), path.join("closed"));
        for folder in [&open, &closed] {
            std::fs::create_dir(folder).unwrap();
        }
        std::fs::write(open.join("a.md"), "# Open\n\nfreely told").unwrap();
        std::fs::write(closed.join("b.md"), "# Closed\n\nsecretly kept").unwrap();
        Self { _root: root, open, closed }
    }

    fn serve(&self) -> Server {
        Server::start_with(&[("HINDCAST_KNOWLEDGE_ALLOWED_FOLDERS", self.open.to_str().unwrap())])
    }
}

fn watch(server: &Server, key: &str, path: &Path) -> Value {
    let arguments = json!({ "collection": "x", "paths": [path], "watch": true, "shared": true });
    server.call(key, "knowledge/add", arguments)["result"]["structuredContent"].clone()
}

/// The documents whose text holds the word, by path.
fn found(server: &Server, key: &str, word: &str) -> Vec<String> {
    let search = json!({ "query": word, "min_relevance": 0.0, "mode": "lexical", "limit": 50 });
    let answer = server.call(key, "knowledge/search", search);
    let hits = answer["result"]["structuredContent"]["hits"].as_array().unwrap_or_else(|| panic!("{answer}"));
    let holds = |hit: &&Value| hit["text"].as_str().unwrap().contains(word);
    hits.iter().filter(holds).map(|hit| hit["path"].as_str().unwrap_or_default().to_owned()).collect()
}

/// Changes a file of a folder that is watched, and waits until that was taken in: by then the watcher has also looked at
/// whatever it was given before.
fn see_a_change(server: &Server, key: &str, file: &Path, word: &str) {
    std::fs::write(file, format!("# Changed\n\n{word}")).unwrap();
    eventually("a change is taken in", || !found(server, key, word).is_empty());
}

fn watched(data: &Path) -> Vec<String> {
    let connection = Connection::open(data.join("knowledge.db")).unwrap();
    let mut statement = connection.prepare("SELECT path FROM watched").unwrap();
    statement.query_map([], |row| row.get(0)).unwrap().map(Result::unwrap).collect()
}

/// A stop that does not end within seconds is a hang.
fn check_stops(mut server: Server) -> Data {
    let started = Instant::now();
    server.signal("TERM");
    let process = server.pid();
    eventually("it has ended", || {
        let state = std::fs::read_to_string(format!("/proc/{process}/stat")).unwrap_or_default();
        state.is_empty() || state.contains(") Z ")
    });
    assert!(started.elapsed() < PROMPT, "{:?}", started.elapsed());
    assert!(server.ended().success());
    server.stopped()
}

#[test]
fn a_refused_folder_is_neither_watched_nor_read() {
    let folders = Folders::new();
    let server = folders.serve();
    let key = server.unlimited_key();
    let linked = folders.open.join("link");
    std::os::unix::fs::symlink(&folders.closed, &linked).unwrap();
    assert_eq!(watch(&server, &key, &folders.open)["added"], 1);
    for refused in [&folders.closed, &folders.closed.join("b.md"), &folders.open.join("../closed"), &linked] {
        let answer = watch(&server, &key, refused);
        assert_eq!(
            (&answer["failed"], &answer["files"][0]["outcome"]),
            (&json!(1), &json!("failed")),
            "{answer}"
        );
    }
    assert_eq!(watched(&server.data), [folders.open.to_str().unwrap()]);
    std::fs::write(folders.closed.join("c.md"), "# Closed\n\nsecretly changed").unwrap();
    see_a_change(&server, &key, &folders.open.join("a.md"), "openly");
    assert_eq!(found(&server, &key, "secretly"), Vec::<String>::new());
    // Whether something is there outside is not told either.
    let reason = |path: &Path| watch(&server, &key, path)["files"][0]["reason"].clone();
    assert_eq!(reason(&folders.closed.join("missing")), reason(&folders.closed.join("b.md")));
    check_stops(server);
}

#[test]
fn kernel_file_systems_are_never_walked() {
    let server = Server::start_with(&[("HINDCAST_KNOWLEDGE_ALLOWED_FOLDERS", "/")]);
    let key = server.unlimited_key();
    for folder in ["/proc", "/proc/self/fd", "/sys", "/dev/pts"] {
        let answer = watch(&server, &key, Path::new(folder));
        let reason = answer["files"][0]["reason"].as_str().unwrap_or_default().to_owned();
        assert!(reason.contains("not a file system with documents"), "{folder}: {answer}");
    }
    assert_eq!(watched(&server.data), Vec::<String>::new());
    check_stops(server);
}

/// Has a folder added and watched, and does not wait for the answer.
fn begin_to_watch(server: &Server, key: &str, path: &Path) -> crate::server::Connection {
    let arguments = json!({ "collection": "all", "paths": [path], "watch": true });
    let call = json!({ "jsonrpc": "2.0", "id": 1, "method": "tools/call",
                       "params": { "name": "knowledge/add", "arguments": arguments } });
    let body = call.to_string();
    let head = format!(
        "POST /mcp HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nAuthorization: Bearer {key}\r\nContent-Length: {}\r\n\r\n",
        body.len()
    );
    let mut connection = server.connect();
    connection.send(&[head.as_bytes(), body.as_bytes()].concat()).unwrap();
    connection
}

/// Somebody else is served soon.
fn check_serves(server: &Server, key: &str) {
    let asked = Instant::now();
    assert_eq!(server.rpc(key, "tools/list", json!({})).status, 200);
    assert!(asked.elapsed() < Duration::from_secs(5), "{:?}", asked.elapsed());
}

#[test]
fn while_a_large_folder_is_walked_or_taken_in_others_are_served_and_a_stop_is_heeded() {
    const FILES: u64 = 1500;
    // A hundred thousand files are walked.
    let server = Server::start_with(&[("HINDCAST_KNOWLEDGE_ALLOWED_FOLDERS", "/usr")]);
    let key = server.unlimited_key();
    let _busy = begin_to_watch(&server, &key, Path::new("/usr"));
    check_serves(&server, &key);
    check_stops(server);

    // Many are taken in.
    let files = tempfile::tempdir().unwrap();
    for number in 0..FILES {
        std::fs::write(files.path().join(format!("{number}.md")), format!("# Number {number}")).unwrap();
    }
    let allowed = [("HINDCAST_KNOWLEDGE_ALLOWED_FOLDERS", files.path().to_str().unwrap())];
    let server = Server::start_with(&allowed);
    let key = server.unlimited_key();
    let _busy = begin_to_watch(&server, &key, files.path());
    let documents = |server: &Server| {
        let uri = json!({ "uri": "resource://knowledge/collections" });
        let read = server.rpc(&key, "resources/read", uri).json();
        let text = read["result"]["contents"][0]["text"].as_str().unwrap_or("[]").to_owned();
        let collections: Vec<Value> = serde_json::from_str(&text).unwrap();
        collections.first().and_then(|one| one["documentCount"].as_u64()).unwrap_or_default()
    };
    until("documents come in", || documents(&server) > 3);
    check_serves(&server, &key);
    let data = check_stops(server);
    // What was cut short is gone on with by whoever starts next, if it was to be watched by then.
    let connection = Connection::open(data.path.join("knowledge.db")).unwrap();
    let count: u64 = connection.query_row("SELECT count(*) FROM documents", [], |row| row.get(0)).unwrap();
    assert!((4..FILES).contains(&count), "{count}");
    let server = Server::launch(&data.path, &[], &allowed, std::process::Stdio::inherit());
    until("the rest comes in", || documents(&server) == FILES);
    check_stops(server);
}

/// A data folder as an older version left it: it stored what it had refused.
fn left_by_an_older_version(folders: &Folders) -> Data {
    let server = folders.serve();
    let key = server.unlimited_key();
    assert_eq!(watch(&server, &key, &folders.open)["added"], 1);
    let data = server.stop();
    let connection = Connection::open(data.path.join("knowledge.db")).unwrap();
    connection
        .execute_batch(
            "DROP TABLE watched;
             CREATE TABLE watched (
                 collection  INTEGER NOT NULL REFERENCES collections (key) ON DELETE CASCADE,
                 path        TEXT NOT NULL,
                 PRIMARY KEY (collection, path)
             ) STRICT, WITHOUT ROWID;
             DROP INDEX IF EXISTS document_path;
             DROP TABLE IF EXISTS uses;
             ALTER TABLE collections DROP COLUMN used;
             ALTER TABLE collections DROP COLUMN maker;
             DROP INDEX document_hash;
             DROP INDEX answer_used;
             ALTER TABLE answers DROP COLUMN used;
             ALTER TABLE queries DROP COLUMN asked;
             DROP TRIGGER document_came;
             DROP TRIGGER document_went;
             DROP TRIGGER document_changed;
             ALTER TABLE collections DROP COLUMN document_count;
             ALTER TABLE collections DROP COLUMN chunk_count;
             ALTER TABLE documents DROP COLUMN source_type;
             ALTER TABLE documents DROP COLUMN reader;
             ALTER TABLE documents DROP COLUMN language;
             ALTER TABLE documents DROP COLUMN dated;
             ALTER TABLE collections DROP COLUMN model;
             ALTER TABLE collections DROP COLUMN language;
             ALTER TABLE collections DROP COLUMN passage_bytes;
             ALTER TABLE collections DROP COLUMN vectors_by;
             DROP TABLE tags;
             DROP TABLE identity;
             DROP INDEX chunk_hash;
             PRAGMA user_version = 1;",
        )
        .unwrap();
    for path in [&*folders.open, &folders.closed, Path::new("/proc"), Path::new("/usr")] {
        connection.execute("INSERT INTO watched VALUES (1, ?1)", [path.to_str().unwrap()]).unwrap();
    }
    data
}

#[test]
fn what_an_older_version_stored_though_it_was_refused_is_not_read() {
    let folders = Folders::new();
    let data = left_by_an_older_version(&folders);
    let allowed = [("HINDCAST_KNOWLEDGE_ALLOWED_FOLDERS", folders.open.to_str().unwrap())];
    let server = Server::launch(&data.path, &[], &allowed, std::process::Stdio::inherit());
    let key = server.unlimited_key();
    // The allowed one is watched as before.
    see_a_change(&server, &key, &folders.open.join("a.md"), "openly");
    assert_eq!(found(&server, &key, "secretly"), Vec::<String>::new());
    let read =
        server.rpc(&key, "resources/read", json!({ "uri": "resource://knowledge/collections" })).json();
    assert!(read.to_string().contains(r#"\"documentCount\": 1"#), "{read}");
    check_stops(server);
}

#[test]
fn a_watched_folder_is_read_only_as_long_as_the_key_that_gave_it_is_good() {
    let folders = Folders::new();
    let other = folders.open.join("other");
    let own = folders.open.join("own");
    for folder in [&other, &own] {
        std::fs::create_dir(folder).unwrap();
        std::fs::write(folder.join("a.md"), "# First\n\nfirst").unwrap();
    }
    let server = folders.serve();
    let (key, revoked) = (server.unlimited_key(), server.new_key(&["--tier", "enterprise"]));
    assert_eq!(watch(&server, &key, &own)["added"], 1);
    assert_eq!(watch(&server, revoked["key"].as_str().unwrap(), &other)["added"], 1);
    see_a_change(&server, &key, &other.join("a.md"), "while");
    hindcast(&server.data, &["keys", "revoke", revoked["id"].as_str().unwrap()]);
    std::fs::write(other.join("a.md"), "# After\n\nafterwards").unwrap();
    see_a_change(&server, &key, &own.join("a.md"), "openly");
    assert_eq!(found(&server, &key, "afterwards"), Vec::<String>::new());
    check_stops(server);
}

#[test]
fn a_link_that_is_put_in_place_of_a_watched_folder_leads_nowhere() {
    let folders = Folders::new();
    let (inner, other) = (folders.open.join("inner"), folders.open.join("other"));
    for folder in [&inner, &other] {
        std::fs::create_dir(folder).unwrap();
        std::fs::write(folder.join("b.md"), "# First\n\nfirst").unwrap();
    }
    let server = folders.serve();
    let key = server.unlimited_key();
    for folder in [&inner, &other] {
        assert_eq!(watch(&server, &key, folder)["added"], 1);
    }
    // The folder itself, and a file of another one, lead out from now on.
    std::fs::rename(&inner, folders.open.join("moved")).unwrap();
    std::os::unix::fs::symlink(&folders.closed, &inner).unwrap();
    std::os::unix::fs::symlink(folders.closed.join("b.md"), other.join("c.md")).unwrap();
    std::fs::write(folders.closed.join("b.md"), "# Closed\n\nsecretly changed").unwrap();
    see_a_change(&server, &key, &other.join("b.md"), "openly");
    assert_eq!(found(&server, &key, "secretly"), Vec::<String>::new());
    check_stops(server);
}

#[test]
fn folders_that_come_and_go_do_not_fill_the_log() {
    let folders = Folders::new();
    let (inner, link, other) =
        (folders.open.join("inner"), folders.open.join("link"), folders.open.join("other"));
    for folder in [&inner, &other] {
        std::fs::create_dir(folder).unwrap();
        std::fs::write(folder.join("a.md"), "# First\n\nfirst").unwrap();
    }
    std::os::unix::fs::symlink(&folders.closed, &link).unwrap();
    let (data, log) = (tempfile::tempdir().unwrap(), tempfile::NamedTempFile::new().unwrap());
    let allowed = [("HINDCAST_KNOWLEDGE_ALLOWED_FOLDERS", folders.open.to_str().unwrap())];
    let server = Server::launch(data.path(), &[], &allowed, log.reopen().unwrap());
    let key = server.unlimited_key();
    for folder in [&inner, &other, &folders.open] {
        assert_eq!(watch(&server, &key, folder)["added"], 1);
    }
    let swap = |one: &Path, two: &Path| {
        use nix::fcntl::{AT_FDCWD, RenameFlags, renameat2};
        renameat2(AT_FDCWD, one, AT_FDCWD, two, RenameFlags::RENAME_EXCHANGE).unwrap();
    };
    let refusals = || {
        let log = std::fs::read_to_string(log.path()).unwrap();
        log.lines().filter(|line| line.contains("a watched folder is not read")).count()
    };
    for round in 0..3 {
        swap(&inner, &link);
        eventually("the link is refused", || refusals() > 0);
        see_a_change(&server, &key, &other.join("a.md"), &format!("refused{round}"));
        swap(&inner, &link);
        see_a_change(&server, &key, &inner.join("a.md"), &format!("read{round}"));
    }
    for _ in 0..1000 {
        swap(&inner, &other);
    }
    std::fs::remove_dir_all(&inner).unwrap();
    see_a_change(&server, &key, &other.join("a.md"), "finally");
    assert_eq!(refusals(), 1);
    check_stops(server);
    let log = std::fs::read_to_string(log.path()).unwrap();
    assert!(!log.contains("notify"), "{log}");
}

#[test]
fn pipes_and_sockets_in_a_watched_folder_are_told_and_not_waited_for() {
    let files = tempfile::tempdir().unwrap();
    let pipe = files.path().join("pipe.md");
    assert!(std::process::Command::new("mkfifo").arg(&pipe).status().unwrap().success());
    let _socket = std::os::unix::net::UnixListener::bind(files.path().join("socket.md")).unwrap();
    std::fs::write(files.path().join("a.md"), "# First\n\nfirst").unwrap();
    let mut client = Client::new();
    let watch = json!({ "collection": "notes", "paths": [files.path()], "watch": true });
    let added = client.call("knowledge/add", watch);
    assert_eq!((&added["added"], &added["failed"]), (&json!(1), &json!(2)), "{added}");
    assert_eq!(added["files"][0]["reason"], "it is neither a file nor a folder");
    std::fs::write(files.path().join("a.md"), "# Second\n\nsecondly").unwrap();
    eventually("a change is taken in", || {
        let search = json!({ "query": "secondly", "min_relevance": 0.0, "mode": "lexical" });
        client.call("knowledge/search", search)["hits"][0]["text"] == "# Second\n\nsecondly"
    });
}

#[test]
fn the_documents_of_a_watched_folder_that_is_away_are_kept_and_followed_when_it_returns() {
    let folders = Folders::new();
    let (inner, other, off) =
        (folders.open.join("inner"), folders.open.join("other"), folders.open.join("off"));
    for folder in [&inner, &other] {
        std::fs::create_dir(folder).unwrap();
    }
    for (folder, file) in [(&inner, "a.md"), (&inner, "b.md"), (&other, "c.md")] {
        std::fs::write(folder.join(file), format!("# {file}\n\nlasting words of {file}")).unwrap();
    }
    let server = folders.serve();
    let key = server.unlimited_key();
    for folder in [&inner, &other] {
        watch(&server, &key, folder);
    }
    see_a_change(&server, &key, &inner.join("a.md"), "lasting");
    let status = |server: &Server| server.call(&key, "knowledge/status", json!({}))["result"].to_string();
    assert!(!status(&server).contains("are kept"), "{}", status(&server));

    std::fs::rename(&inner, &off).unwrap();
    see_a_change(&server, &key, &other.join("c.md"), "lasting first");
    assert_eq!(found(&server, &key, "lasting").len(), 3);
    let told = format!("{} is not there; its documents are kept", inner.display());
    assert!(status(&server).contains(&told), "{}", status(&server));

    // An empty folder in its place, and then itself again.
    std::fs::create_dir(&inner).unwrap();
    see_a_change(&server, &key, &other.join("c.md"), "lasting once");
    eventually("it is seen", || status(&server).contains("is empty; its documents are kept"));
    assert_eq!(found(&server, &key, "lasting").len(), 3);
    std::fs::remove_dir(&inner).unwrap();
    std::fs::rename(&off, &inner).unwrap();
    see_a_change(&server, &key, &inner.join("a.md"), "lasting again");
    std::fs::rename(&inner, &off).unwrap();

    // The place of a drive that is not plugged in when the server starts.
    std::fs::create_dir(&inner).unwrap();
    let data = check_stops(server);
    let allowed = [("HINDCAST_KNOWLEDGE_ALLOWED_FOLDERS", folders.open.to_str().unwrap())];
    let server = Server::launch(&data.path, &[], &allowed, std::process::Stdio::inherit());
    see_a_change(&server, &key, &other.join("c.md"), "lasting second");
    assert_eq!(found(&server, &key, "lasting").len(), 3);
    assert!(status(&server).contains("is empty; its documents are kept"), "{}", status(&server));

    std::fs::remove_dir(&inner).unwrap();
    std::fs::rename(&off, &inner).unwrap();
    std::fs::remove_file(inner.join("b.md")).unwrap();
    eventually("what is missing inside goes", || found(&server, &key, "lasting").len() == 2);
    see_a_change(&server, &key, &inner.join("a.md"), "returned");
    // Where the files were, an empty folder has none any more.
    std::fs::remove_file(inner.join("a.md")).unwrap();
    eventually("the last file goes, too", || found(&server, &key, "returned").is_empty());
    check_stops(server);
}

#[test]
fn what_comes_to_be_ignored_in_a_watched_folder_goes_and_what_was_named_in_spite_of_it_stays() {
    let folders = Folders::new();
    for name in ["b.md", "named.md"] {
        std::fs::write(folders.open.join(name), format!("# {name}\n\nlasting words of {name}")).unwrap();
    }
    std::fs::write(folders.open.join(".ignore"), "named.md\n").unwrap();
    let server = folders.serve();
    let key = server.unlimited_key();
    assert_eq!(watch(&server, &key, &folders.open)["added"], 2);
    let named = json!({ "collection": "x", "paths": [folders.open.join("named.md")], "shared": true });
    server.call(&key, "knowledge/add", named);
    assert_eq!(found(&server, &key, "lasting").len(), 2);
    see_a_change(&server, &key, &folders.open.join("a.md"), "openly");
    std::fs::write(folders.open.join(".gitignore"), "b.md\n").unwrap();
    let left = [folders.open.join("named.md").to_str().unwrap().to_owned()];
    eventually("what is ignored goes", || found(&server, &key, "lasting") == left);
    check_stops(server);
}

#[test]
fn a_folder_that_is_unwatched_over_mcp_keeps_its_documents_and_is_not_followed() {
    let folders = Folders::new();
    let (inner, other) = (folders.open.join("inner"), folders.open.join("other"));
    for folder in [&inner, &other] {
        std::fs::create_dir(folder).unwrap();
        std::fs::write(folder.join("a.md"), "# Note\n\nlasting words").unwrap();
    }
    let server = folders.serve();
    let key = server.unlimited_key();
    for folder in [&inner, &other] {
        watch(&server, &key, folder);
    }
    let unwatch = |path: &str| {
        let arguments = json!({ "collection": "x", "unwatch": path });
        server.call(&key, "knowledge/remove", arguments)
    };
    let paths = || {
        let status = server.call(&key, "knowledge/status", json!({}))["result"]["structuredContent"].clone();
        let watches = status["watches"].as_array().unwrap().iter();
        watches.map(|watch| watch["path"].clone()).collect::<Vec<_>>()
    };
    let refused = unwatch(folders.closed.to_str().unwrap());
    assert!(refused["error"].to_string().contains("no such folder is watched"), "{refused}");
    assert_eq!(paths(), [json!(inner), json!(other)]);
    // A slash at its end names the same folder.
    let unwatched = unwatch(&format!("{}/", inner.display()))["result"]["structuredContent"].clone();
    assert_eq!((&unwatched["unwatched"], unwatched.get("document")), (&json!([inner]), None), "{unwatched}");
    assert_eq!(paths(), [json!(other)]);
    std::fs::write(inner.join("a.md"), "# Note\n\nunseen words").unwrap();
    see_a_change(&server, &key, &other.join("a.md"), "followed");
    assert!(found(&server, &key, "unseen").is_empty());
    assert_eq!(found(&server, &key, "lasting"), [inner.join("a.md").to_str().unwrap()]);
    assert_eq!(unwatch("*")["result"]["structuredContent"]["unwatched"], json!([other]));
    assert_eq!((paths(), watched(&server.data)), (Vec::new(), Vec::new()));
    check_stops(server);
}
