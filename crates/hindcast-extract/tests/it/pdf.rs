//! Debian's reference as PDF, which has bookmarks and a table of contents.

use std::{path::Path, process::Command};

use hindcast_extract::Chunk;
use pdf_extract::{Document, Object};

use crate::{Read, documents, read};

/// The reference in a language, and the letters of each of its pages.
fn reference(folder: &Path, language: &str) -> (Read, Vec<String>) {
    let path = folder.join(format!("usr/share/debian-reference/debian-reference.{language}.pdf"));
    (read(&path), pages(&path))
}

/// The letters of every page as poppler reads them, in the order in which the file has its text. It leaves out what runs off the
/// edge of a page, such as long paths, so the pages are made larger first.
fn pages(path: &Path) -> Vec<String> {
    let mut document = Document::load(path).unwrap();
    for dictionary in document.objects.values_mut().filter_map(|object| object.as_dict_mut().ok()) {
        if dictionary.has(b"MediaBox") {
            dictionary.set("MediaBox", [-2000, -2000, 4000, 4000].map(Object::from).to_vec());
        }
    }
    let folder = tempfile::tempdir().unwrap();
    let large = folder.path().join("large.pdf");
    document.save(&large).unwrap();
    let output = Command::new("pdftotext").arg("-raw").arg(large).arg("-").output();
    let output = output.expect("`pdftotext` is missing · hint: install poppler-utils");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let text = String::from_utf8(output.stdout).unwrap();
    // Behind every page stands its end.
    text.split_terminator('\u{c}').map(letters).collect()
}

/// Letters and digits: readers differ in white space, hyphens and ligatures.
fn letters(text: &str) -> String {
    let text = text.replace('ﬀ', "ff").replace('ﬁ', "fi").replace('ﬂ', "fl").replace('ﬃ', "ffi");
    text.chars().filter(|character| character.is_alphanumeric()).collect()
}

/// Every passage stands as a whole on the page that it is told to be on.
fn check_pages(read: &Read, pages: &[String]) {
    assert_eq!(read.extracted.pages.len(), pages.len());
    let page_of = |chunk: &Chunk| usize::try_from(chunk.page.unwrap()).unwrap();
    let is_elsewhere = |(text, chunk): &&(String, Chunk)| !pages[page_of(chunk) - 1].contains(&letters(text));
    let wrong: Vec<_> = read.chunks.iter().filter(is_elsewhere).collect();
    let (count, first) = (wrong.len(), wrong.iter().take(5).collect::<Vec<_>>());
    assert_eq!(count, 0, "of {} passages, such as {first:#?}", read.chunks.len());
}

#[test]
fn headings_and_pages_are_told_and_the_contents_are_not_searched() {
    let Some(folder) = documents() else { return };
    let (read, pages) = reference(&folder, "en");
    check_pages(&read, &pages);
    assert!(read.extracted.pages.len() > 200, "{}", read.extracted.pages.len());
    let with_heading = read.chunks.iter().filter(|(_, chunk)| !chunk.headings.is_empty()).count();
    assert!(with_heading * 10 > read.chunks.len() * 9, "{with_heading} of {}", read.chunks.len());
    let leads = |text: &str| text.lines().filter(|line| line.contains(". . . . .")).count();
    let contents = read.chunks.iter().filter(|(text, _)| leads(text) > 3).count();
    assert!(contents * 100 < read.chunks.len(), "{contents} of {}", read.chunks.len());
    let (_, hostname) = read
        .chunks
        .iter()
        .find(|(_, chunk)| {
            chunk.headings.last().is_some_and(|heading| heading.contains("The hostname resolution"))
        })
        .expect("a section of chapter 5");
    assert!(hostname.page.is_some());
    assert!(
        hostname.headings.iter().any(|heading| heading.contains("Network setup")),
        "{:?}",
        hostname.headings
    );
}

/// They have their letters in fonts of their own.
#[test]
fn passages_in_other_languages_stand_on_their_pages() {
    let Some(folder) = documents() else { return };
    if std::env::var_os("HINDCAST_ORACLES").is_none_or(|oracles| oracles != "full") {
        return;
    }
    for language in ["de", "fr", "ja"] {
        let (read, pages) = reference(&folder, language);
        check_pages(&read, &pages);
    }
}
