//! Documents in every format: in by their path, out whole, and found again.

use std::{
    io::{Cursor, Write},
    path::Path,
};

use serde_json::{Value, json};

use super::{Client, knowledge};

/// A PDF with these pages, each a line of text.
pub(super) fn pdf(pages: &[&str]) -> Vec<u8> {
    let mut objects = vec![
        "<< /Type /Catalog /Pages 2 0 R >>".to_owned(),
        String::new(),
        "<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica /Encoding /WinAnsiEncoding >>".to_owned(),
    ];
    let mut kids = Vec::new();
    for page in pages {
        let content = format!("BT /F1 12 Tf 72 720 Td ({page}) Tj ET");
        objects.push(format!("<< /Length {} >>\nstream\n{content}\nendstream", content.len()));
        let content = objects.len();
        objects.push(format!(
            "<< /Type /Page /Parent 2 0 R /MediaBox [0 0 612 792] /Contents {content} 0 R /Resources << /Font << /F1 3 0 R >> >> >>"
        ));
        kids.push(format!("{} 0 R", objects.len()));
    }
    objects[1] = format!("<< /Type /Pages /Kids [{}] /Count {} >>", kids.join(" "), kids.len());
    let mut file = b"%PDF-1.4\n".to_vec();
    let mut offsets = Vec::new();
    for (index, object) in objects.iter().enumerate() {
        offsets.push(file.len());
        write!(file, "{} 0 obj\n{object}\nendobj\n", index + 1).unwrap();
    }
    let start = file.len();
    write!(file, "xref\n0 {}\n0000000000 65535 f \n", objects.len() + 1).unwrap();
    for offset in offsets {
        writeln!(file, "{offset:010} 00000 n ").unwrap();
    }
    write!(file, "trailer\n<< /Size {} /Root 1 0 R >>\nstartxref\n{start}\n%%EOF\n", objects.len() + 1)
        .unwrap();
    file
}

/// A Word document with these paragraphs, each on a page of its own.
pub(super) fn docx(paragraphs: &[&str]) -> Vec<u8> {
    let mut archive = zip::ZipWriter::new(Cursor::new(Vec::new()));
    archive.start_file("word/document.xml", zip::write::SimpleFileOptions::default()).unwrap();
    let pages: Vec<_> =
        paragraphs.iter().map(|text| format!("<w:p><w:r><w:t>{text}</w:t></w:r></w:p>")).collect();
    let pages = pages.join("<w:p><w:r><w:br w:type=\"page\"/></w:r></w:p>");
    write!(archive, "<?xml version=\"1.0\"?><w:document><w:body>{pages}</w:body></w:document>").unwrap();
    archive.finish().unwrap().into_inner()
}

fn write_all(folder: &Path) {
    let files: [(&str, Vec<u8>); 6] = [
        ("guide.md", b"# The Guide\n\nFirst words.\n\n## Storage\n\nThe zeppelin hangar stores helium.\n".to_vec()),
        ("report.pdf", pdf(&["The first page is about apples.", "The last page is about quinces and medlars."])),
        ("letter.docx", docx(&["Dear reader of the first page.", "On the last page the marmot whistles."])),
        (
            "page.html",
            b"<html><head><title>Weather</title><script>steal()</script></head><body><h1>Fog</h1><p>Banks of fog drift over the estuary.</p></body></html>".to_vec(),
        ),
        ("motor.rs", b"/// Winds the capstan.\nfn wind_capstan(turns: u32) -> u32 {\n    turns * 7\n}\n".to_vec()),
        ("settings.toml", b"[lighthouse]\nlamp = \"fresnel\"\n".to_vec()),
    ];
    for (name, bytes) in files {
        std::fs::write(folder.join(name), bytes).unwrap();
    }
}

#[test]
fn documents_of_every_format_come_out_whole_and_are_found_by_their_last_page() {
    let files = tempfile::tempdir().unwrap();
    write_all(files.path());
    let mut client = Client::new();
    let added = client.call("knowledge/add", json!({ "collection": "All Kinds", "paths": [files.path()] }));
    assert_eq!((&added["added"], &added["failed"]), (&json!(6), &json!(0)), "{added}");

    let document = |id: &str| format!("resource://knowledge/All_Kinds/document/{id}");
    let whole = std::fs::read_to_string(files.path().join("guide.md")).unwrap();
    assert_eq!(client.read(&document("guide")), whole);
    assert_eq!(
        client.read(&document("motor.rs")),
        std::fs::read_to_string(files.path().join("motor.rs")).unwrap()
    );
    assert!(client.read(&document("settings")).contains("fresnel"));
    let html = client.read(&document("page"));
    assert!(html.contains("# Fog") && html.contains("estuary") && !html.contains("steal"), "{html}");

    for (question, id, page, lines) in [
        ("quinces and medlars", "report", json!(2), None),
        ("where does the marmot whistle", "letter", json!(2), None),
        ("zeppelin hangar helium", "guide", Value::Null, Some((5, 7))),
        ("wind capstan turns", "motor.rs", Value::Null, Some((1, 4))),
        ("fog over the estuary", "page", Value::Null, None),
        ("fresnel lamp of the lighthouse", "settings", Value::Null, Some((1, 2))),
    ] {
        let found = client.call("knowledge/search", json!({ "query": question, "min_relevance": 0.0 }));
        let best = &found["hits"][0];
        assert_eq!(
            (&best["document"], best.get("page").unwrap_or(&Value::Null)),
            (&json!(id), &page),
            "{question}: {found}"
        );
        if let Some((first, last)) = lines {
            assert_eq!(
                (&best["first_line"], &best["last_line"]),
                (&json!(first), &json!(last)),
                "{question}"
            );
        }
    }
    let report = client.read(&document("report"));
    assert!(report.contains("apples") && report.contains("medlars"), "{report}");
    let listed = client.read_json("resource://knowledge/All_Kinds/documents");
    let types: Vec<_> = listed
        .as_array()
        .unwrap()
        .iter()
        .map(|one| (one["id"].as_str().unwrap(), one["mimeType"].as_str().unwrap()))
        .collect();
    assert!(
        types.contains(&("report", "text/markdown")) && types.contains(&("motor.rs", "text/x-rust")),
        "{types:?}"
    );
}

/// `HINDCAST_ORACLES=full` takes the largest file that is allowed.
#[test]
fn a_large_file_comes_out_whole_and_is_found_by_its_last_line() {
    let files = tempfile::tempdir().unwrap();
    let data = tempfile::tempdir().unwrap();
    let size = hindcast_fixtures::oracle_size(4 << 20, 100 << 20);
    let last = "The keeper Zephyrine hid the ledger in the lighthouse.\n";
    let mut text = String::with_capacity(size);
    for number in 0.. {
        let paragraph =
            format!("Paragraph {number} of a long report about tides and currents. ").repeat(10) + "\n\n";
        if text.len() + paragraph.len() + last.len() > size {
            break;
        }
        text.push_str(&paragraph);
    }
    text.push_str(&" ".repeat(size - text.len() - last.len()));
    text.push_str(last);
    std::fs::write(files.path().join("large.txt"), &text).unwrap();

    let report = knowledge(data.path(), &["add", "long", files.path().to_str().unwrap()]);
    assert_eq!(report["files"][0]["outcome"], "added", "{report}");
    let found = knowledge(data.path(), &["search", "Zephyrine", "--mode", "lexical", "--min-relevance", "0"]);
    assert!(found["hits"][0]["text"].as_str().is_some_and(|text| text.contains("ledger")), "{found}");
    let connection = rusqlite::Connection::open(data.path().join("knowledge.db")).unwrap();
    let whole: Vec<u8> = connection.query_row("SELECT original FROM contents", [], |row| row.get(0)).unwrap();
    assert!(whole == text.as_bytes(), "{} bytes of {size}", whole.len());
}

#[test]
fn only_what_changed_is_taken_in_again_and_what_is_gone_goes() {
    let files = tempfile::tempdir().unwrap();
    let data = tempfile::tempdir().unwrap();
    for name in ["a.md", "b.md", "c.md"] {
        std::fs::write(files.path().join(name), format!("# {name}\n\nfirst")).unwrap();
    }
    let path = files.path().to_str().unwrap();
    let add = || {
        let report = knowledge(data.path(), &["add", "notes", path]);
        let mut outcomes: Vec<_> = report["files"]
            .as_array()
            .unwrap()
            .iter()
            .map(|file| {
                format!("{} {}", file["document"].as_str().unwrap_or("?"), file["outcome"].as_str().unwrap())
            })
            .collect();
        outcomes.sort();
        outcomes
    };
    assert_eq!(add(), ["a added", "b added", "c added"]);
    assert_eq!(add(), ["a unchanged", "b unchanged", "c unchanged"]);
    std::fs::write(files.path().join("b.md"), "# b.md\n\nsecond").unwrap();
    std::fs::remove_file(files.path().join("c.md")).unwrap();
    let found = knowledge(data.path(), &["search", "first", "--min-relevance", "0"]);
    let stale = |id: &str| {
        let hits = found["hits"].as_array().unwrap();
        let hit = hits.iter().find(|hit| hit["document"] == id).unwrap_or_else(|| panic!("{found}"));
        (hit["stale"].clone(), hit["why_stale"].clone())
    };
    assert_eq!(stale("a"), (json!(false), json!(null)));
    assert_eq!(stale("b"), (json!(true), json!("the file has changed since")));
    assert_eq!(stale("c"), (json!(true), json!("the file is gone")));
    assert_eq!(add(), ["a unchanged", "b updated", "c removed"]);
    let shown = knowledge(data.path(), &["show", "notes", "b"]);
    assert_eq!(shown["text"], "# b.md\n\nsecond");
}

#[test]
fn removing_a_collection_gives_the_disk_back() {
    let data = tempfile::tempdir().unwrap();
    let files = tempfile::tempdir().unwrap();
    let words: String = (0..200_000).map(|number| format!("word{number} ")).collect();
    std::fs::write(files.path().join("large.txt"), &words).unwrap();
    std::fs::write(files.path().join("small.txt"), "little").unwrap();
    let path = |name: &str| files.path().join(name).to_str().unwrap().to_owned();
    let used = || -> u64 {
        let mut sum = 0;
        let mut folders = vec![data.path().to_owned()];
        while let Some(folder) = folders.pop() {
            for entry in std::fs::read_dir(folder).unwrap().flatten() {
                let metadata = entry.metadata().unwrap();
                if metadata.is_dir() { folders.push(entry.path()) } else { sum += metadata.len() }
            }
        }
        sum
    };
    knowledge(data.path(), &["add", "kept", &path("small.txt")]);
    let before = used();
    knowledge(data.path(), &["add", "large", &path("large.txt")]);
    assert!(used() > before + words.len() as u64);
    knowledge(data.path(), &["remove", "large"]);
    let after = used();
    assert!(after < before + 200_000, "{before} bytes before, {after} after");
    assert_eq!(knowledge(data.path(), &["list"]).as_array().unwrap().len(), 1);
    let stats = knowledge(data.path(), &["stats", "kept"]);
    assert_eq!(stats["orphaned_vectors"], 0);
}
