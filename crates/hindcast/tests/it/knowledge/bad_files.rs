//! Files that cannot be read, or should not be: told one by one, and nothing else is lost.

use std::io::{Cursor, Write};

use serde_json::json;

use super::{
    documents::{docx, pdf},
    knowledge,
};

#[test]
fn every_bad_file_is_told_with_its_reason_and_the_good_ones_go_in() {
    let files = tempfile::tempdir().unwrap();
    let data = tempfile::tempdir().unwrap();
    let folder = files.path();
    let write = |name: &str, bytes: &[u8]| std::fs::write(folder.join(name), bytes).unwrap();
    write("good one\nof two lines 🦀.md", b"# Good\n\nIt is good.");
    write("empty.md", b"");
    write("blank.md", b" \n\n");
    write("onebad.txt", &["Die Straßenbahn fährt über die Brücke.\n".repeat(9).as_bytes(), b"\xff"].concat());
    write("program.exe", b"MZ");
    write("latin.txt", b"caf\xe9");
    write("binary.txt", b"a\0b");
    write("broken.pdf", b"%PDF-1.7\nbroken");
    write("scanned.pdf", &pdf(&[""]));
    write("broken.docx", b"PK\x03\x04broken");
    write("bomb.docx", &bomb());
    write("fine.docx", &docx(&["It is fine."]));
    let large = std::fs::File::create(folder.join("large.txt")).unwrap();
    large.set_len(100 * 1024 * 1024 + 1).unwrap();
    #[cfg(unix)]
    {
        std::fs::create_dir(folder.join("inner")).unwrap();
        std::os::unix::fs::symlink(folder, folder.join("inner/loop")).unwrap();
        std::os::unix::fs::symlink(folder.join("nothing"), folder.join("dangling.md")).unwrap();
    }
    let report = knowledge(data.path(), &["add", "mixed", folder.to_str().unwrap()]);
    let outcome = |name: &str| {
        let files = report["files"].as_array().unwrap();
        let found = files.iter().find(|file| file["path"].as_str().unwrap().ends_with(name));
        let found = found.unwrap_or_else(|| panic!("{name} is not told: {report}"));
        let reason = found["reason"].as_str().unwrap_or_default();
        format!("{} {reason}", found["outcome"].as_str().unwrap())
    };
    let check = |name: &str, expected: &str| {
        let told = outcome(name);
        assert!(told.starts_with(expected), "{name}: {told}");
    };
    check("lines 🦀.md", "added");
    check("fine.docx", "added");
    let skipped = |at: usize| {
        let one = &report["skipped"][at];
        format!("{} {} {}", one["files"], one["kind"], one["reason"])
    };
    assert_eq!(skipped(0), "1 \".exe\" \"files of this type are not understood\"");
    assert_eq!(skipped(1), "2 \".md\" \"it is empty\"");
    check("latin.txt", "added");
    check("onebad.txt", "added");
    let found = knowledge(data.path(), &["search", "Brücke", "--mode", "lexical", "--min-relevance", "0"]);
    assert_eq!(found["hits"][0]["document"], "onebad", "{found}");
    check("binary.txt", "failed it is not text: byte 1 cannot be read");
    check("broken.pdf", "failed it is not a readable PDF file");
    check("scanned.pdf", "failed it has no text");
    check("broken.docx", "failed it is not a readable DOCX file");
    check("bomb.docx", "failed unpacked it is larger than");
    check("large.txt", "failed it has 104857601 bytes, more than the 104857600 that are allowed");
    #[cfg(unix)]
    {
        check("inner/loop", "failed it leads to a folder that is read already");
        check("dangling.md", "failed it is a link to nothing");
    }
    let listed = knowledge(data.path(), &["show", "mixed"]);
    assert_eq!(listed["document_list"].as_array().unwrap().len(), 4, "{listed}");
}

/// A small archive that unpacks to seventy megabytes.
fn bomb() -> Vec<u8> {
    let mut archive = zip::ZipWriter::new(Cursor::new(Vec::new()));
    archive.start_file("word/document.xml", zip::write::SimpleFileOptions::default()).unwrap();
    let blank = vec![b' '; 1 << 20];
    for _ in 0..70 {
        archive.write_all(&blank).unwrap();
    }
    archive.finish().unwrap().into_inner()
}

#[test]
fn what_is_asked_wrongly_says_what_to_do() {
    let mut client = super::Client::new();
    client.call("knowledge/add", serde_json::json!({ "collection": "a", "name": "good", "text": "words" }));
    let mut refused = |tool: &str, arguments: serde_json::Value| {
        let answer =
            client.request("tools/call", serde_json::json!({ "name": tool, "arguments": arguments }));
        let error = crate::server::helpful_error(&answer);
        format!("{} {}", error["code"], error["data"]["details"].as_str().unwrap())
    };
    let json = |text: &str| serde_json::from_str::<serde_json::Value>(text).unwrap();
    let cases = [
        ("knowledge/search", r#"{"query":" "}"#, "there is nothing to look for"),
        ("knowledge/search", r#"{"query":"x","limit":51}"#, "`limit` is 51"),
        ("knowledge/search", r#"{"query":"x","min_relevance":2}"#, "`min_relevance` is 2"),
        ("knowledge/search", r#"{"query":"x","collection":"nowhere"}"#, "there is no collection `nowhere`"),
        ("knowledge/add", r#"{"collection":"x"}"#, "there is nothing to add"),
        ("knowledge/add", r#"{"collection":"a/b","name":"n","text":"t"}"#, "The id 'a/b' has a slash"),
        (
            "knowledge/add",
            r#"{"collection":"a","name":"n","text":"t","mime_type":"image/png"}"#,
            "texts of the type `image/png`",
        ),
        (
            "knowledge/add",
            r#"{"collection":"a","name":"n","text":"t","watch":true}"#,
            "`watch` is for `paths`: a text has no file that could change",
        ),
        ("knowledge/add", r#"{"collection":"a","text":"t"}"#, "`text` needs a `name`"),
        ("knowledge/add", r#"{"collection":"a","name":"n"}"#, "`name` needs a `text`"),
        (
            "knowledge/add",
            r#"{"collection":"a","name":"n","text":" "}"#,
            "the text was not added: it is empty",
        ),
        ("knowledge/remove", r#"{"collection":"nowhere"}"#, "there is no collection `nowhere`"),
        ("knowledge/remove", r#"{"collection":"a","document":"none"}"#, "there is no document `none`"),
        ("knowledge/ask", r#"{"question":"x","conversation_id":"none"}"#, "there is no conversation `none`"),
    ];
    for (tool, arguments, details) in cases {
        let told = refused(tool, json(arguments));
        assert!(told.starts_with(&format!("-32602 {details}")), "{tool} {arguments}: {told}");
    }
}

#[test]
fn a_text_that_overflows_its_parser_does_not_take_the_server_with_it() {
    let mut client = super::Client::new();
    let mut add = |arguments: serde_json::Value| {
        client.request("tools/call", serde_json::json!({ "name": "knowledge/add", "arguments": arguments }))
    };
    let deep = serde_json::json!({ "collection": "c", "name": "a.go", "text": "{[".repeat(25_600) });
    let added = add(deep);
    assert!(added["error"].is_null(), "{added}");
    let letters = "Content-Type: message/rfc822\n\n".repeat(130_000);
    let mail = serde_json::json!({
        "collection": "c", "name": "m", "text": letters, "mime_type": "message/rfc822",
    });
    // The second time nobody dies of it.
    for _ in 0..2 {
        let answer = add(mail.clone());
        let error = crate::server::helpful_error(&answer);
        let told = error["data"]["details"].as_str().unwrap();
        assert!(told.contains("it is not a readable eml file: reading it took too long"), "{told}");
    }
    assert_eq!(
        client.call("knowledge/search", serde_json::json!({ "query": "{" }))["hits"],
        serde_json::json!([])
    );
}

#[test]
fn hundreds_of_files_of_kinds_that_are_not_taken_in_are_a_line_each_kind() {
    let files = tempfile::tempdir().unwrap();
    for number in 0..600 {
        std::fs::write(files.path().join(format!("picture{number}.svg")), "<svg/>").unwrap();
        std::fs::write(files.path().join(format!("object{number}.o")), [0x7f]).unwrap();
    }
    std::fs::write(files.path().join("note.md"), "# Note\n\nIt is here.").unwrap();
    let mut client = super::Client::new();
    let request = json!({ "collection": "mixed", "paths": [files.path()] });
    let answer = client.request("tools/call", json!({ "name": "knowledge/add", "arguments": request }));
    assert!(answer.to_string().len() < 3000, "{} bytes", answer.to_string().len());
    let skipped = &answer["result"]["structuredContent"]["skipped"];
    let kinds: Vec<_> = skipped.as_array().unwrap().iter().map(|one| (&one["kind"], &one["files"])).collect();
    assert_eq!(kinds, [(&".o".into(), &600.into()), (&".svg".into(), &600.into())], "{answer}");
}

#[test]
fn an_addition_in_the_background_tells_which_files_failed() {
    let files = tempfile::tempdir().unwrap();
    std::fs::write(files.path().join("note.md"), "# Note\n\nIt is here.").unwrap();
    std::fs::write(files.path().join("broken.pdf"), "%PDF-1.7\nbroken").unwrap();
    let mut client = super::Client::new();
    let paths = [files.path().to_owned(), "/nowhere/at/all".into()];
    let request = json!({ "collection": "mixed", "paths": paths, "background": true });
    let begun = client.call("knowledge/add", request);
    let mut ingest = json!(null);
    super::until("it has ended", || {
        let status = client.call("knowledge/status", json!({ "ingest": begun["ingest"] }));
        ingest = status["ingests"][0].clone();
        ingest["state"] != "running"
    });
    assert_eq!(ingest["state"], "done", "{ingest}");
    let failed = ingest["failed"].as_array().unwrap();
    let reason = |path: &str| {
        let found = failed.iter().find(|file| file["path"].as_str().unwrap().ends_with(path));
        found.unwrap_or_else(|| panic!("{path}: {ingest}"))["reason"].as_str().unwrap().to_owned()
    };
    assert_eq!(reason("/nowhere/at/all"), "there is no such file or folder");
    assert!(reason("broken.pdf").starts_with("it is not a readable PDF file"));
}
