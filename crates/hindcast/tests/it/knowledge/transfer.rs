//! A collection as one file.

use std::{
    path::{Path, PathBuf},
    sync::{Arc, Mutex},
};

use rusqlite::Connection;
use serde_json::{Value, json};

use super::{Client, documents::pdf, knowledge, settings::ollama_heard, until};
use crate::server::{command, try_hindcast};

#[test]
fn a_collection_is_found_elsewhere_after_it_was_moved() {
    let (files, data, elsewhere) =
        (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    std::fs::write(files.path().join("heron.md"), "---\ntags: birds\n---\n# Heron\n\nIt stands in water.")
        .unwrap();
    std::fs::write(files.path().join("report.pdf"), pdf(&["First page.", "Quinces and medlars."])).unwrap();
    // What is there already keeps its keys.
    let other = files.path().join("heron.md");
    knowledge(elsewhere.path(), &["add", "other", other.to_str().unwrap()]);
    knowledge(data.path(), &["add", "Field Notes", files.path().to_str().unwrap()]);
    knowledge(data.path(), &["settings", "Field Notes", "--language", "de", "--passage-bytes", "500"]);
    let file = files.path().join("notes.hindcast");
    let moved = knowledge(data.path(), &["export", "Field Notes", file.to_str().unwrap()]);
    assert_eq!((&moved["collection"], &moved["documents"]), (&json!("Field_Notes"), &json!(2)));
    let moved = knowledge(elsewhere.path(), &["import", file.to_str().unwrap()]);
    assert_eq!(moved["documents"], 2);

    let search = |query: &str, filter: &[&str]| {
        let mut arguments = vec!["search", query, "--min-relevance", "0", "--collection", "Field Notes"];
        arguments.extend(filter);
        knowledge(elsewhere.path(), &arguments)["hits"][0].clone()
    };
    let hit = search("medlars", &["--mime-type", "application/pdf"]);
    assert_eq!((&hit["document"], &hit["page"]), (&json!("report"), &json!(2)), "{hit}");
    let hit = search("heron", &["--tag", "birds"]);
    assert_eq!((&hit["document"], &hit["headings"]), (&json!("heron"), &json!("Heron")), "{hit}");
    let listed = knowledge(elsewhere.path(), &["list"]);
    let counts: Vec<_> = listed.as_array().unwrap().iter().map(|one| one["documents"].clone()).collect();
    assert_eq!(counts, [1, 2], "{listed}");

    let settings = knowledge(elsewhere.path(), &["settings", "Field Notes"]);
    assert_eq!(
        (&settings["language"], &settings["passage_bytes"]),
        (&json!("de"), &json!(500)),
        "{settings}"
    );
    // The size holds for what is added from then on.
    let again = knowledge(
        elsewhere.path(),
        &["add", "Field Notes", files.path().join("report.pdf").to_str().unwrap()],
    );
    assert_eq!(again["files"][0]["outcome"], "updated", "{again}");

    let damaged = files.path().join("damaged.hindcast");
    let mut bytes = std::fs::read(&file).unwrap();
    bytes[4096..].fill(0xff);
    std::fs::write(&damaged, bytes).unwrap();
    for (folder, arguments, reason) in [
        (&data, ["export", "Field Notes", file.to_str().unwrap()], "exists already"),
        (&elsewhere, ["import", file.to_str().unwrap(), "--json"], "or is already"),
        (&elsewhere, ["import", "/nowhere/x", "--json"], "there is no file `/nowhere/x`"),
        (
            &elsewhere,
            ["import", other.to_str().unwrap(), "--json"],
            "is not an export of hindcast, or is damaged",
        ),
        (
            &elsewhere,
            ["import", damaged.to_str().unwrap(), "--json"],
            "is not an export of hindcast, or is damaged",
        ),
    ] {
        let output = try_hindcast(folder.path(), &[&["knowledge"], &arguments[..]].concat());
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(
            !output.status.success() && said.contains(reason) && !said.contains("panicked"),
            "{arguments:?}: {said}"
        );
    }
    let again = knowledge(elsewhere.path(), &["import", file.to_str().unwrap(), "--name", "Twice"]);
    assert_eq!(again["documents"], 2);
}

#[test]
fn vectors_move_with_their_collection_and_are_not_made_again() {
    let (files, data, elsewhere) =
        (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    for (name, text) in [("heron", "The heron stands in the water."), ("owl", "The owl hunts at night.")] {
        std::fs::write(files.path().join(format!("{name}.md")), text).unwrap();
    }
    let heard = Arc::<Mutex<Vec<String>>>::default();
    let hears = heard.clone();
    let ollama = ollama_heard(move |text| hears.lock().unwrap().push(text.into()));
    let environment = [("HINDCAST_KNOWLEDGE_OLLAMA_URL", &*ollama)];
    let run = |data: &tempfile::TempDir, arguments: &[&str]| -> Value {
        let output = command()
            .arg("--data-dir")
            .arg(data.path())
            .arg("knowledge")
            .args(arguments)
            .arg("--json")
            .envs(environment)
            .output()
            .unwrap();
        assert!(output.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
        serde_json::from_slice(&output.stdout).unwrap()
    };
    run(&data, &["add", "birds", files.path().to_str().unwrap()]);
    run(&data, &["settings", "birds", "--model", "ollama:letters"]);
    let is_heard = |text: &str| heard.lock().unwrap().iter().any(|heard| heard.contains(text));
    assert!(is_heard("The heron stands in the water.") && is_heard("The owl hunts at night."));
    let file = files.path().join("birds.hindcast");
    run(&data, &["export", "birds", file.to_str().unwrap()]);

    heard.lock().unwrap().clear();
    run(&elsewhere, &["import", file.to_str().unwrap()]);
    let mut client = Client::over(elsewhere, &environment);
    for (question, name) in [("the owl hunted one night", "owl"), ("herons in waters", "heron")] {
        let search = json!({ "query": question, "mode": "dense", "min_relevance": 0.0 });
        let found = client.call("knowledge/search", search);
        assert_eq!((&found["hits"][0]["document"], found.get("notices")), (&json!(name), None), "{found}");
        assert!(is_heard(question));
    }
    assert!(!is_heard("The heron stands in the water.") && !is_heard("The owl hunts at night."), "{heard:?}");
    let stats = client.read_json("resource://knowledge/birds/stats");
    assert_eq!(stats["healthStatus"]["hasMissingVectors"], false, "{stats}");
}

/// A folder with a document that has all that an export keeps, and its export without what a checksum would tell.
fn exported() -> (tempfile::TempDir, PathBuf) {
    let (files, data) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let heron = "---\ntags: birds\ndate: 2024-05-01\n---\n# Heron\n\nIt stands in water, for hours.";
    std::fs::write(files.path().join("heron.md"), heron).unwrap();
    knowledge(data.path(), &["add", "notes", files.path().to_str().unwrap()]);
    knowledge(data.path(), &["settings", "notes", "--language", "en", "--passage-bytes", "500"]);
    let file = files.path().join("notes.hindcast");
    knowledge(data.path(), &["export", "notes", file.to_str().unwrap()]);
    Connection::open(&file).unwrap().execute_batch("DROP TABLE seal").unwrap();
    (files, file)
}

/// A data folder that somebody uses.
struct Victim(tempfile::TempDir);

impl Victim {
    fn new() -> Self {
        let (files, data) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        std::fs::write(files.path().join("owl.md"), "The owl hunts at night.").unwrap();
        knowledge(data.path(), &["add", "mine", files.path().to_str().unwrap()]);
        Self(data)
    }

    /// Imports a file that is made of a good one, and returns why it was refused.
    #[track_caller]
    fn refuses(&self, good: &Path, tamper: impl FnOnce(&Connection)) -> String {
        let bad = good.with_extension("bad");
        std::fs::copy(good, &bad).unwrap();
        tamper(&Connection::open(&bad).unwrap());
        let output = try_hindcast(self.0.path(), &["knowledge", "import", bad.to_str().unwrap()]);
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(!output.status.success(), "it was imported: {}", String::from_utf8_lossy(&output.stdout));
        assert!(said.contains("is not an export of hindcast") && said.contains("hint: "), "{said}");
        assert!(!said.contains("panicked") && !said.contains('\u{1b}'), "{said}");
        said
    }

    /// Everything works as before, and nothing of a file is there.
    #[track_caller]
    fn is_unharmed(&self) {
        let listed = knowledge(self.0.path(), &["list"]);
        let ids: Vec<_> = listed.as_array().unwrap().iter().map(|one| one["id"].clone()).collect();
        assert_eq!(ids, ["mine"], "{listed}");
        let found = knowledge(self.0.path(), &["search", "owl heron water", "--min-relevance", "0"]);
        let hits: Vec<_> = found["hits"].as_array().unwrap().iter().map(|hit| &hit["document"]).collect();
        assert_eq!(hits, ["owl"], "{found}");
        let files = tempfile::tempdir().unwrap();
        std::fs::write(files.path().join("kite.md"), "The kite hangs in the wind.").unwrap();
        let added = knowledge(self.0.path(), &["add", "mine", files.path().to_str().unwrap()]);
        assert_eq!(added["files"][0]["outcome"], "added", "{added}");
    }
}

#[test]
fn no_text_of_an_export_may_be_other_than_utf_8() {
    let (_files, good) = exported();
    let victim = Victim::new();
    let connection = Connection::open(&good).unwrap();
    let columns = "SELECT tables.name, columns.name FROM sqlite_master AS tables, pragma_table_info(tables.name) AS columns
                   WHERE tables.type = 'table' AND columns.type = 'TEXT'";
    let mut columns = connection.prepare(columns).unwrap();
    let columns = columns.query_map([], |row| Ok((row.get(0)?, row.get(1)?))).unwrap();
    let columns: Vec<(String, String)> = columns.map(Result::unwrap).collect();
    assert!(columns.len() >= 20, "{columns:?}");
    for (table, column) in columns {
        let said = victim.refuses(&good, |bad| {
            let poison = format!("UPDATE {table} SET {column} = CAST(x'ff' AS TEXT)");
            if bad.execute(&poison, []).unwrap() == 0 {
                insert_any_row(bad, &table);
                assert_eq!(bad.execute(&poison, []).unwrap(), 1);
            }
        });
        assert!(said.contains(&format!("`{column}` of `{table}` is not UTF-8")), "{said}");
    }
    victim.is_unharmed();
}

fn insert_any_row(connection: &Connection, table: &str) {
    let values = format!(
        "SELECT group_concat(CASE type WHEN 'INTEGER' THEN '1' WHEN 'BLOB' THEN 'zeroblob(4)' ELSE '''''' END)
         FROM pragma_table_info('{table}')"
    );
    let values: String = connection.query_row(&values, [], |row| row.get(0)).unwrap();
    connection.execute(&format!("INSERT INTO {table} VALUES ({values})"), []).unwrap();
}

#[test]
fn an_export_that_says_what_is_not_so_is_refused() {
    let (_files, good) = exported();
    let victim = Victim::new();
    for (change, reason) in [
        ("UPDATE collection SET id = '../../etc'", "has a slash"),
        ("UPDATE collection SET id = 'a..b'", "has two dots"),
        ("UPDATE collection SET id = ''", "is empty"),
        ("UPDATE collection SET name = char(27) || '[31mred'", "has a control character"),
        ("UPDATE collection SET name = hex(zeroblob(200))", "is longer"),
        ("UPDATE documents SET id = char(10) || 'x'", "has a control character"),
        ("UPDATE documents SET name = hex(zeroblob(600000))", "is too long"),
        ("UPDATE documents SET mime_type = 'text/' || char(27)", "the type of"),
        ("UPDATE documents SET created_at = -1", "a time that cannot be"),
        ("UPDATE documents SET path = '/etc/passwd', modified = NULL", "a time that cannot be"),
        ("UPDATE documents SET text = 'another text'", "is not what stands at its place"),
        ("UPDATE documents SET original = zeroblob(size)", "is not what its hash is of"),
        ("UPDATE tags SET tag = ''", "an empty tag"),
        ("UPDATE settings SET model = '../../../etc/passwd'", "a model cannot be called"),
        ("UPDATE settings SET vectors_by = 'ollama:' || char(27)", "a model cannot be called"),
        ("UPDATE settings SET language = 'klingon'", "is not known to word search"),
        ("UPDATE settings SET passage_bytes = -1", "passages cannot have -1 bytes"),
        ("UPDATE settings SET passage_bytes = 1", "passages cannot have 1 bytes"),
        ("UPDATE settings SET passage_bytes = 9223372036854775807", "passages cannot have"),
        ("UPDATE chunks SET text = 'A forged passage.'", "is not what stands at its place"),
        ("UPDATE chunks SET headings = 'Owl'", "is not what its hash is of"),
        ("UPDATE chunks SET hash = zeroblob(32)", "is not what its hash is of"),
        ("UPDATE chunks SET first_byte = first_byte + 1", "is not what stands at its place"),
        ("UPDATE chunks SET first_line = -1", "a place that cannot be"),
        ("INSERT INTO vectors SELECT id, 'evil', zeroblob(400000) FROM chunks", "a vector of `evil`"),
        ("INSERT INTO vectors SELECT id, char(27), zeroblob(4) FROM chunks", "a model cannot be called"),
    ] {
        let said = victim.refuses(&good, |bad| bad.execute_batch(change).unwrap());
        assert!(said.contains(reason), "{change}: {said}");
    }
    victim.is_unharmed();
    // The file they are made of is a good one.
    knowledge(victim.0.path(), &["import", good.to_str().unwrap()]);
}

#[test]
fn a_passage_never_gets_the_vector_that_another_collection_was_imported_with() {
    let (files, data, elsewhere) =
        (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let heron = files.path().join("heron.md");
    std::fs::write(&heron, "The heron stands in the water.").unwrap();
    let heard = Arc::<Mutex<Vec<String>>>::default();
    let hears = heard.clone();
    let ollama = ollama_heard(move |text| hears.lock().unwrap().push(text.into()));
    let run = |data: &tempfile::TempDir, arguments: &[&str]| {
        let mut command = command();
        command.arg("--data-dir").arg(data.path()).arg("knowledge").args(arguments);
        let output = command.env("HINDCAST_KNOWLEDGE_OLLAMA_URL", &ollama).output().unwrap();
        assert!(output.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
    };
    run(&data, &["add", "birds", heron.to_str().unwrap()]);
    run(&data, &["settings", "birds", "--model", "ollama:letters"]);
    let file = files.path().join("birds.hindcast");
    run(&data, &["export", "birds", file.to_str().unwrap()]);
    let forged = "DROP TABLE seal; UPDATE vectors SET numbers = zeroblob(length(numbers))";
    Connection::open(&file).unwrap().execute_batch(forged).unwrap();
    run(&elsewhere, &["import", file.to_str().unwrap()]);
    heard.lock().unwrap().clear();
    run(&elsewhere, &["add", "mine", heron.to_str().unwrap()]);
    run(&elsewhere, &["settings", "mine", "--model", "ollama:letters"]);
    let told = heard.lock().unwrap().clone();
    assert!(told.iter().any(|text| text.contains("The heron stands in the water.")), "{told:?}");
}

/// One whose vectors were too short for the model would keep everybody from searching with it.
#[test]
fn vectors_of_a_model_that_is_not_here_are_left_out() {
    let (_files, file) = exported();
    let forged = "INSERT INTO vectors SELECT id, 'multilingual-e5-small', zeroblob(12) FROM chunks";
    Connection::open(&file).unwrap().execute_batch(forged).unwrap();
    let data = tempfile::tempdir().unwrap();
    let imported = knowledge(data.path(), &["import", file.to_str().unwrap()]);
    assert_eq!(imported["vectors_of"], json!([]), "{imported}");
    let kept = Connection::open(data.path().join("knowledge.db")).unwrap();
    let count: i64 = kept.query_row("SELECT count(*) FROM vectors", [], |row| row.get(0)).unwrap();
    assert_eq!(count, 0);
    let again =
        try_hindcast(data.path(), &["knowledge", "import", file.to_str().unwrap(), "--name", "again"]);
    let told = String::from_utf8_lossy(&again.stdout);
    assert!(told.contains("without the vectors of `multilingual-e5-small`"), "{told}");
}

#[test]
fn an_export_has_its_name_only_when_all_of_it_is_written() {
    let (files, data) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let words: String = (0..30_000).map(|number| format!("The heron number {number} stands.\n\n")).collect();
    std::fs::write(files.path().join("herons.md"), words).unwrap();
    knowledge(data.path(), &["add", "notes", files.path().to_str().unwrap()]);
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("notes.hindcast");
    let names = || {
        let names = std::fs::read_dir(folder.path()).unwrap();
        let mut names: Vec<_> =
            names.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        names
    };
    let mut command = command();
    command.arg("--data-dir").arg(data.path()).args(["knowledge", "export", "notes"]).arg(&file);
    let mut killed = command.spawn().unwrap();
    until("the export begins", || !names().is_empty());
    killed.kill().unwrap();
    killed.wait().unwrap();
    // It may have been faster than we are.
    if names() == ["notes.hindcast"] {
        std::fs::rename(&file, folder.path().join("notes.hindcast.partial")).unwrap();
    }
    assert_eq!(names(), ["notes.hindcast.partial"]);

    let export = ["export", "notes", file.to_str().unwrap()];
    assert_eq!(knowledge(data.path(), &export)["documents"], 1);
    assert_eq!(names(), ["notes.hindcast", "notes.hindcast.partial"], "the leftover stays as it is");
    let written = std::fs::read(&file).unwrap();
    let again = try_hindcast(data.path(), &[&["knowledge"], &export[..]].concat());
    let said = String::from_utf8_lossy(&again.stderr).into_owned();
    assert!(!again.status.success() && said.contains("exists already"), "{said}");
    assert!(std::fs::read(&file).unwrap() == written && names().len() == 2);
    let nowhere = folder.path().join("none/x").display().to_string();
    assert!(!try_hindcast(data.path(), &["knowledge", "export", "notes", &nowhere]).status.success());
    knowledge(data.path(), &["import", file.to_str().unwrap(), "--name", "again"]);
}
