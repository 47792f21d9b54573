//! What is made of documents that people have: documentation of Debian, unpacked by `cargo xtask peers`.

#![allow(clippy::unwrap_used, reason = "these are tests")]

mod broken;
mod debian;
mod headings;
mod installed;
mod manual;
mod office;
mod pdf;
mod python;
mod scanned;

use std::{
    io::Write,
    path::{Path, PathBuf},
};

use hindcast_extract::{Chunk, Extracted, Format, chunk, extract};

/// Where the documents are; none where they were not fetched, which is said.
fn documents() -> Option<PathBuf> {
    let folder = std::env::var_os("HINDCAST_PEERS").map(|peers| PathBuf::from(peers).join("documents"));
    if let Some(folder) = folder.filter(|folder| folder.is_dir()) {
        return Some(folder);
    }
    let reason = "HINDCAST_PEERS has no documents · hint: `cargo xtask peers`, then `cargo xtask test`";
    assert!(std::env::var_os("HINDCAST_REQUIRE_PEERS").is_none(), "{reason}");
    let test = std::thread::current().name().unwrap_or_default().to_owned();
    // Past the test runner, which keeps what passing tests print to itself.
    let _ = writeln!(std::io::stderr(), "SKIPPED {test}: {reason}");
    None
}

/// All files below a folder whose names end so, in order.
fn files(folder: &Path, end: &str) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut folders = vec![folder.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(&folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else if path.to_str().is_some_and(|path| path.ends_with(end)) {
                found.push(path);
            }
        }
    }
    found.sort();
    found
}

/// What is searched of a file.
struct Read {
    extracted: Extracted,
    chunks: Vec<(String, Chunk)>,
}

fn read(path: &Path) -> Read {
    let bytes = std::fs::read(path).unwrap();
    let format = Format::of_name(path.file_name().unwrap().to_str().unwrap()).unwrap();
    let extracted = extract(format, &bytes).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    let text = match &extracted.text {
        Some(text) => text.clone(),
        None => String::from_utf8(bytes).unwrap(),
    };
    let chunks = chunk(format, &text, &extracted).unwrap();
    let chunks = chunks.into_iter().map(|chunk| (text[chunk.range.clone()].to_owned(), chunk)).collect();
    Read { extracted, chunks }
}
