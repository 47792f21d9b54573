//! What a search answers: filters, near-duplicates, context, and nothing where nothing is relevant.

use serde_json::{Value, json};

use super::{Client, documents::pdf, knowledge};
use crate::sdk;

fn text(client: &mut Client, arguments: Value) -> String {
    let answer = client.request("tools/call", json!({ "name": "knowledge/search", "arguments": arguments }));
    assert!(answer["result"]["structuredContent"]["hits"].is_array(), "{answer}");
    answer["result"]["content"][0]["text"].as_str().unwrap_or_else(|| panic!("{answer}")).to_owned()
}

/// Filters narrow what is searched, so what fits is found behind any number of better passages that do not.
#[test]
fn filters_apply_before_the_best_are_chosen() {
    let files = tempfile::tempdir().unwrap();
    let data = tempfile::tempdir().unwrap();
    std::fs::create_dir(files.path().join("rare")).unwrap();
    for number in 0..1500 {
        let text = format!("# Heron {number}\n\nThe heron, a heron, number {number} of many herons.");
        std::fs::write(files.path().join(format!("{number}.md")), text).unwrap();
    }
    let quiet = "---\ntags: [quiet]\ndate: 2019-05-01\n---\nAmong the many birds that live at the lake there is also one heron.";
    std::fs::write(files.path().join("rare/lake.md"), quiet).unwrap();
    std::fs::write(files.path().join("report.pdf"), pdf(&["Somewhere in this report a heron is named."]))
        .unwrap();
    knowledge(data.path(), &["add", "birds", files.path().to_str().unwrap()]);
    let other = tempfile::tempdir().unwrap();
    std::fs::write(other.path().join("pond.md"), "Of all the ponds in the country this one has had a heron.")
        .unwrap();
    knowledge(data.path(), &["add", "ponds", other.path().to_str().unwrap()]);
    let found = |filter: &[&str]| -> Vec<String> {
        let mut arguments = vec!["search", "heron", "--min-relevance", "0"];
        arguments.extend(filter);
        let answer = knowledge(data.path(), &arguments);
        let hits = answer["hits"].as_array().unwrap();
        hits.iter().map(|hit| hit["document"].as_str().unwrap().to_owned()).collect()
    };
    assert_eq!(found(&[]).len(), 5);
    assert_eq!(found(&["--path", "/rare/"]), ["lake"]);
    assert_eq!(found(&["--mime-type", "application/pdf"]), ["report"]);
    assert_eq!(found(&["--tag", "quiet"]), ["lake"]);
    assert_eq!(found(&["--until", "2020-01-01"]), ["lake"]);
    assert!(!found(&["--since", "2020-01-01", "--limit", "50"]).contains(&"lake".to_owned()));
    assert_eq!(found(&["--collection", "ponds"]), ["pond"]);
    assert!(found(&["--tag", "loud"]).is_empty());
    let answer = knowledge(data.path(), &["search", "heron", "--tag", "loud"]);
    assert!(answer["notices"].to_string().contains("no document fits the filters"), "{answer}");
}

#[test]
fn tags_that_were_given_stay_when_the_file_changes() {
    let files = tempfile::tempdir().unwrap();
    let data = tempfile::tempdir().unwrap();
    let file = files.path().join("note.md");
    let (folder, file) = (files.path().to_str().unwrap(), file.as_path());
    let tagged = |tag: &str| {
        let answer = knowledge(data.path(), &["search", "heron", "--tag", tag, "--min-relevance", "0"]);
        answer["hits"].as_array().unwrap().len()
    };
    std::fs::write(file, "---\ntags: first\n---\nA heron.").unwrap();
    knowledge(data.path(), &["add", "notes", folder]);
    assert_eq!((tagged("first"), tagged("given")), (1, 0));
    knowledge(data.path(), &["add", "notes", folder, "--tag", "given"]);
    assert_eq!(tagged("given"), 1, "also of a file that did not change");
    std::fs::write(file, "---\ntags: second\n---\nAnother heron.").unwrap();
    knowledge(data.path(), &["add", "notes", folder]);
    assert_eq!((tagged("first"), tagged("second"), tagged("given")), (0, 1, 1));
}

#[test]
fn passages_that_say_the_same_are_one_hit() {
    let mut client = Client::new();
    let text = "The quick heron stands in the shallow water of the lake and waits for a fish to come near.";
    for (name, text) in
        [("one", text), ("two", &format!("{text} ")), ("three", &text.replace("quick", "Quick"))]
    {
        client.call("knowledge/add", json!({ "collection": "birds", "name": name, "text": text }));
    }
    let owl = "An owl hunts at night, and a heron sleeps.";
    client.call("knowledge/add", json!({ "collection": "birds", "name": "owl", "text": owl }));
    let found = client.call("knowledge/search", json!({ "query": "heron water", "min_relevance": 0.0 }));
    let hits = found["hits"].as_array().unwrap();
    assert_eq!(hits.len(), 2, "{found}");
    assert_eq!(hits[0]["also"].as_array().unwrap().len(), 2, "{found}");
}

#[test]
fn context_shows_what_stands_around_a_hit() {
    let mut client = Client::new();
    let text = "# A\n\nThe first part.\n\n# B\n\nThe heron part.\n\n# C\n\nThe last part.";
    client.call("knowledge/add", json!({ "collection": "birds", "name": "book", "text": text }));
    let shown =
        self::text(&mut client, json!({ "query": "heron", "limit": 1, "context": 1, "min_relevance": 0.0 }));
    let places: Vec<_> =
        ["first part", "heron part", "last part"].iter().map(|part| shown.find(part)).collect();
    assert!(places.iter().all(Option::is_some) && places.is_sorted(), "{shown}");
    let alone = self::text(&mut client, json!({ "query": "heron", "limit": 1, "min_relevance": 0.0 }));
    assert!(!alone.contains("first part"), "{alone}");
}

#[test]
fn nothing_relevant_is_an_answer() {
    let mut client = Client::new();
    for (name, text) in [
        ("heron", "The heron stands in the water of the lake and waits for a fish."),
        ("owl", "The owl hunts at night, and it is heard by the people of the village."),
        ("bread", "Bread is made of flour and water, and baked in the oven for an hour."),
    ] {
        client.call("knowledge/add", json!({ "collection": "notes", "name": name, "text": text }));
    }
    for nonsense in ["asdf", "the of and", "qwertz uiop", "is it of the"] {
        let shown = text(&mut client, json!({ "query": nonsense }));
        assert!(shown.starts_with("Nothing relevant found"), "{nonsense}: {shown}");
    }
    let shown = text(&mut client, json!({ "query": "heron lake" }));
    assert!(shown.starts_with("1 passage"), "{shown}");
}

/// Five hits cost an agent little, and one that is not enough is read whole.
#[test]
fn five_hits_of_real_documents_take_at_most_five_thousand_bytes() {
    let Some(peers) = sdk::peers() else { return };
    let library = peers.join("documents/usr/share/doc/python3.11/html/library");
    let data = tempfile::tempdir().unwrap();
    let pages = ["sqlite3", "subprocess", "csv", "re", "shutil", "tempfile", "threading", "logging.handlers"];
    // Hits tell whole paths.
    let documents = tempfile::tempdir().unwrap();
    let folder = documents.path().join("a folder with a long name in a tree of projects");
    std::fs::create_dir(&folder).unwrap();
    for page in pages.map(|page| format!("{page}.html")) {
        std::fs::copy(library.join(&page), folder.join(&page)).unwrap();
    }
    knowledge(data.path(), &["add", "Python", folder.to_str().unwrap()]);
    let mut client = Client::over(data, &[]);
    for question in [
        "connection from several threads",
        "temporary directory that is removed",
        "match groups",
        "run a program and capture its output",
        "how do I rotate log files",
        "delimiter and quoting of a file with comma separated values",
        "copy a whole directory tree",
        "lock that one thread may acquire several times",
    ] {
        let arguments = json!({ "query": question });
        let call = json!({ "name": "knowledge/search", "arguments": arguments });
        let answer = client.request("tools/call", call);
        let size = answer.to_string().len();
        let hits = answer["result"]["structuredContent"]["hits"].as_array().unwrap().clone();
        assert_eq!(hits.len(), 5, "{answer}");
        assert!((3000..=5000).contains(&size), "{question}: {size} bytes\n{answer}");
        let read = client.call("knowledge/search", json!({ "query": question, "limit": 1, "context": 1 }));
        let (whole, shown) = (read["hits"][0]["text"].as_str().unwrap(), hits[0]["text"].as_str().unwrap());
        assert!(whole.contains(shown.trim_matches('…')), "{shown}\n{whole}");
        println!("{question}: {size} bytes, of the first hit {} of {}", shown.len(), whole.len());
    }
}
