//! A collection as one file.

use std::sync::{Arc, Mutex};

use serde_json::{Value, json};

use super::{Client, documents::pdf, knowledge, settings::ollama_heard};
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
