//! Debian's reference as PDF, which has bookmarks and a table of contents.

use crate::{documents, read};

#[test]
fn headings_and_pages_are_told_and_the_contents_are_not_searched() {
    let Some(folder) = documents() else { return };
    let read = read(&folder.join("usr/share/debian-reference/debian-reference.en.pdf"));
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
