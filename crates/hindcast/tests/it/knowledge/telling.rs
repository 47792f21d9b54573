//! What answers say about themselves: which file, by what was searched, and why something was refused.

use std::path::Path;

use serde_json::{Value, json};

use super::{Client, knowledge};
use crate::server::try_hindcast;

/// What the command line says, on standard output or as the error.
fn said(data: &Path, arguments: &[&str]) -> String {
    let output = try_hindcast(data, &[&["knowledge"], arguments].concat());
    let said = if output.status.success() { output.stdout } else { output.stderr };
    String::from_utf8_lossy(&said).into_owned()
}

/// Text and data of an answer.
#[track_caller]
fn answer(client: &mut Client, tool: &str, arguments: Value) -> (String, Value) {
    let answer = client.request("tools/call", json!({ "name": tool, "arguments": arguments }));
    let text = answer["result"]["content"][0]["text"].as_str().unwrap_or_else(|| panic!("{answer}"));
    (text.to_owned(), answer["result"]["structuredContent"].clone())
}

#[track_caller]
fn refusal(client: &mut Client, tool: &str, arguments: Value) -> String {
    let answer = client.request("tools/call", json!({ "name": tool, "arguments": arguments }));
    answer["error"].to_string()
}

#[test]
fn a_search_without_a_model_says_that_it_was_by_words_only() {
    let (files, data) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    std::fs::write(files.path().join("a.md"), "The heron stands in the water.").unwrap();
    knowledge(data.path(), &["add", "birds", files.path().to_str().unwrap()]);
    let notice = "found by words only, not by meaning";
    let told = said(data.path(), &["search", "heron"]);
    assert!(told.contains(&format!("notice: {notice}")), "{told}");
    let told = knowledge(data.path(), &["search", "heron"]);
    assert!(told["notices"][0].as_str().unwrap_or_default().contains(notice), "{told}");
    let told = said(data.path(), &["search", "heron", "--mode", "lexical"]);
    assert!(!told.contains("notice"), "who asks for words gets words: {told}");
    let mut client = Client::over(data, &[]);
    let (text, found) = answer(&mut client, "knowledge/search", json!({ "query": "heron" }));
    assert!(text.contains(notice) && found["notices"].to_string().contains(notice), "{text}");
}

#[test]
fn files_of_one_name_are_told_apart() {
    let (files, data) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let root = files.path().canonicalize().unwrap();
    for folder in ["a", "b"] {
        std::fs::create_dir(root.join(folder)).unwrap();
        std::fs::write(root.join(folder).join("README.md"), format!("The heron of the pond {folder}."))
            .unwrap();
    }
    knowledge(data.path(), &["add", "birds", root.to_str().unwrap()]);
    let paths = ["a", "b"].map(|folder| format!(" · {}", root.join(folder).join("README.md").display()));
    let search = ["search", "heron", "pond", "--min-relevance", "0"];
    for told in [said(data.path(), &search), said(data.path(), &["show", "birds"])] {
        assert!(paths.iter().all(|path| told.contains(path)), "{told}");
    }
    let mut client = Client::over(data, &[]);
    let search = json!({ "query": "heron pond", "min_relevance": 0.0 });
    let (text, _) = answer(&mut client, "knowledge/search", search);
    let listed = client.read_json("resource://knowledge/birds/documents");
    for path in &paths {
        let whole = path.trim_start_matches(" · ");
        let end = whole.rsplitn(3, '/').take(2).collect::<Vec<_>>();
        assert!(text.contains(&format!("/{}/{} · resource://", end[1], end[0])), "{text}");
        assert!(listed.as_array().unwrap().iter().any(|row| row["path"] == whole), "{listed}");
    }
}

#[test]
fn an_ingest_that_there_is_not_is_refused() {
    let mut client = Client::new();
    let refused = refusal(&mut client, "knowledge/status", json!({ "ingest": "zzz" }));
    assert!(refused.contains("there is no ingest `zzz`"), "{refused}");
}

#[test]
fn dates_narrow_a_search_and_limits_are_the_same_everywhere() {
    let (files, data) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    std::fs::write(files.path().join("a.md"), "The heron stands in the water.").unwrap();
    knowledge(data.path(), &["add", "birds", files.path().to_str().unwrap()]);
    let count = |filter: &[&str]| {
        let arguments = [&["search", "heron", "--min-relevance", "0"], filter].concat();
        knowledge(data.path(), &arguments)["hits"].as_array().unwrap().len()
    };
    assert_eq!([count(&["--since", "2021-01-01"]), count(&["--until", "2021-01-01"])], [1, 0]);
    let refusals = [
        (["--since", "yesterday"], json!({ "since": "yesterday" }), "since` is `yesterday`"),
        (["--until", "2021-13-01"], json!({ "until": "2021-13-01" }), "until` is `2021-13-01`"),
        (["--limit", "0"], json!({ "limit": 0 }), "`limit` is 0"),
        (["--limit", "51"], json!({ "limit": 51 }), "`limit` is 51"),
        (["--context", "9"], json!({ "context": 9 }), "`context` is 9"),
        (["--min-relevance", "2"], json!({ "min_relevance": 2.0 }), "`min_relevance` is 2"),
    ];
    for (option, _, reason) in &refusals {
        let told = said(data.path(), &[&["search", "heron"], &option[..]].concat());
        assert!(told.contains(reason), "{option:?}: {told}");
    }
    let mut client = Client::over(data, &[]);
    for (_, mut arguments, reason) in refusals {
        arguments["query"] = "heron".into();
        let refused = refusal(&mut client, "knowledge/search", arguments);
        assert!(refused.contains(reason), "{refused}");
    }
    let (_, found) =
        answer(&mut client, "knowledge/search", json!({ "query": "heron", "since": "2021-01-01" }));
    assert_eq!(found["hits"].as_array().unwrap().len(), 1, "{found}");
}

#[cfg(target_os = "linux")]
#[test]
fn a_file_whose_name_is_not_text_is_told_by_its_reason() {
    use std::os::unix::ffi::OsStrExt as _;
    let (files, data) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    std::fs::write(files.path().join(std::ffi::OsStr::from_bytes(b"\xff.md")), "The heron.").unwrap();
    std::fs::write(files.path().join("film.srt"), "The heron stands.").unwrap();
    std::fs::write(files.path().join("app.log.1"), "The heron started.").unwrap();
    let added = knowledge(data.path(), &["add", "birds", files.path().to_str().unwrap()]);
    let outcomes: Vec<_> = added["files"].as_array().unwrap().iter().map(|file| &file["outcome"]).collect();
    assert_eq!(outcomes, ["added", "added", "failed"], "{added}");
    assert!(added["files"][2]["reason"].as_str().unwrap().contains("name is not UTF-8"), "{added}");
}

#[test]
fn control_characters_are_spelt_out_in_texts() {
    let mut client = Client::new();
    let bell =
        json!({ "collection": "c", "name": "bell", "text": "# A \u{1b}[2J title\n\nThe heron \u{7} rings." });
    client.call("knowledge/add", bell);
    let (text, found) = answer(&mut client, "knowledge/search", json!({ "query": "heron rings" }));
    assert!(text.contains("\\u{7}") && !text.contains(['\u{1b}', '\u{7}']), "{text:?}");
    assert!(found["hits"][0]["text"].as_str().unwrap().contains('\u{7}'), "the data is as it is: {found}");
}
