//! Python's documentation: HTML that Sphinx wrote.

use std::{
    collections::HashSet,
    path::{Path, PathBuf},
};

use hindcast_extract::{Block, Chunk, Role};

use crate::{Read, documents, files, read};

fn html() -> Option<PathBuf> {
    Some(documents()?.join("usr/share/doc/python3.11/html"))
}

/// The words between tags, without entities and white space, to compare loosely.
fn letters(text: &str) -> String {
    text.chars().filter(char::is_ascii_alphanumeric).collect()
}

/// What stands between the tags of headings and terms, found without a parser.
fn headings(html: &str, tags: &[&str]) -> HashSet<String> {
    let mut found = HashSet::new();
    for tag in tags {
        for part in html.split(&format!("<{tag}")).skip(1) {
            let Some(end) = part.find(&format!("</{tag}>")) else { continue };
            let words =
                part[..end].split('<').map(|piece| piece.split_once('>').map_or(piece, |(_, text)| text));
            let words = words.collect::<String>();
            let entities = words
                .split('&')
                .skip(1)
                .filter_map(|part| part.split_once(';'))
                .map(|(name, _)| format!("&{name};"));
            found.insert(letters(&entities.fold(words.clone(), |words, entity| words.replace(&entity, ""))));
        }
    }
    found
}

/// Reading all of it takes long, so one test holds against it all that must be so.
#[test]
fn no_heading_is_a_comment_of_code_no_word_has_markup_and_what_is_around_the_content_makes_no_chunk() {
    let Some(folder) = html() else { return };
    let (mut chunks, mut strange) = (0, Vec::new());
    for path in files(&folder, ".html") {
        let Ok(bytes) = std::fs::read(&path) else { continue };
        // A page for the search, which a script fills.
        if path.ends_with("search.html") || bytes.is_empty() {
            continue;
        }
        let Read { extracted, chunks: read } = read(&path);
        for (text, chunk) in &read {
            has_nothing_around(&path, text, chunk);
        }
        let source = String::from_utf8_lossy(&bytes);
        let lost = lost_headings(extracted.blocks, &source);
        assert!(lost.is_empty(), "{}: {lost:?}", path.display());
        if path.starts_with(folder.join("library")) {
            chunks += read.len();
            strange.extend(strange_headings(&path, &String::from_utf8(bytes).unwrap(), read));
        }
    }
    assert!(chunks > 10_000, "{chunks}");
    assert!(
        strange.len() * 1000 < chunks,
        "{} of {chunks}: {:?}",
        strange.len(),
        &strange[..strange.len().min(5)]
    );
    let contents = read(&folder.join("contents.html"));
    assert!(contents.chunks.len() <= 2, "a table of contents is not searched: {}", contents.chunks.len());
    assert!(
        contents.extracted.text.unwrap().contains("check_same_thread")
            || contents.extracted.blocks.len() > 1000
    );
    assert!(read(&folder.join("genindex-P.html")).chunks.len() <= 2);
}

/// The headings of a page's content that no block of what is read has.
fn lost_headings(blocks: Vec<Block>, source: &str) -> Vec<String> {
    let Some((_, content)) = source.split_once("role=\"main\"") else { return Vec::new() };
    let content = content.split("class=\"sphinxsidebar\"").next().unwrap_or_default();
    let kept: HashSet<_> = blocks
        .into_iter()
        .filter_map(|block| match block.role {
            Role::Heading { name, .. } => Some(letters(&name)),
            _ => None,
        })
        .collect();
    let found = headings(content, &["h1", "h2", "h3", "h4", "h5", "h6"]);
    found.into_iter().filter(|heading| !heading.is_empty() && !kept.contains(heading)).collect()
}

/// A page has no markup in its words; the headings that the page itself does not have.
fn strange_headings(path: &Path, source: &str, read: Vec<(String, Chunk)>) -> Vec<(PathBuf, Vec<String>)> {
    let known = headings(source, &["h1", "h2", "h3", "h4", "h5", "h6", "dt"]);
    let mut strange = Vec::new();
    for (text, chunk) in read {
        let last = chunk.headings.last();
        let last = letters(last.unwrap_or_else(|| panic!("no heading: {}: {text}", path.display())));
        if !known.contains(&last) && !known.iter().any(|known| known.contains(&last)) {
            strange.push((path.to_owned(), chunk.headings));
        }
        let outside_code = text.split("```").step_by(2).collect::<String>();
        assert!(!outside_code.contains("](") || source.contains("]("), "{}: {text}", path.display());
        assert!(!outside_code.contains("\\_") || source.contains("\\_"), "{}: {text}", path.display());
        assert!(!text.contains('¶'), "{}: {text}", path.display());
    }
    strange
}

fn has_nothing_around(path: &Path, text: &str, chunk: &Chunk) {
    for around in ["previous |", "Show Source", "Report a Bug", "Created using Sphinx", "Theme\nAuto"] {
        assert!(!text.contains(around), "{}: {text}", path.display());
    }
    let is_contents = chunk.headings.iter().any(|heading| heading == "Table of Contents");
    assert!(!is_contents, "{}: {text}", path.display());
}

#[test]
fn a_function_is_found_with_its_name_and_its_lines() {
    let Some(folder) = html() else { return };
    let path = folder.join("library/sqlite3.html");
    let source = std::fs::read_to_string(&path).unwrap();
    let (text, chunk) = read(&path)
        .chunks
        .into_iter()
        .find(|(text, _)| text.starts_with("sqlite3.connect("))
        .expect("the function has a section");
    assert!(text.contains("check_same_thread=True"), "{text}");
    let headings = [
        "sqlite3 — DB-API 2.0 interface for SQLite databases",
        "Reference",
        "Module functions",
        "sqlite3.connect",
    ];
    assert_eq!(chunk.headings, headings);
    let (first, last) = (chunk.lines.0 as usize - 1, chunk.lines.1 as usize);
    let lines: Vec<_> = source.lines().collect();
    assert!(
        lines[first..last].join("\n").contains("id=\"sqlite3.connect\"") || lines[first].contains("sqlite3.")
    );
    assert!(lines[first..last].join("\n").contains("check_same_thread"));
}
