//! Linux's manual pages.

use hindcast_extract::{ExtractError, Format, chunk, extract};

use crate::{documents, files};

#[test]
fn every_page_has_its_sections_and_no_macros() {
    let Some(folder) = documents() else { return };
    let pages = files(&folder.join("usr/share/man"), ".gz");
    assert!(pages.len() > 100, "{}", pages.len());
    for path in pages {
        let bytes = std::fs::read(&path).unwrap();
        let name = path.file_name().unwrap().to_str().unwrap();
        let Some(format) = Format::of_name(name) else { continue };
        let extracted = match extract(format, &bytes) {
            Err(ExtractError::Redirect) => continue,
            extracted => extracted.unwrap_or_else(|error| panic!("{name}: {error}")),
        };
        let text = extracted.text.clone().unwrap();
        let is_macro = |line: &&str| {
            line.starts_with('.')
                && line[1..].starts_with(|char: char| char.is_ascii_uppercase())
                && line.len() < 5
        };
        // Pages about macros name them.
        let is_about_macros = name.starts_with("man-pages.") || name.starts_with("man.");
        assert!(is_about_macros || !text.lines().any(|line| is_macro(&line)), "{name}: {text}");
        assert!(is_about_macros || !text.contains("\\fB") && !text.contains("\\fI"), "{name}: {text}");
        let chunks = chunk(format, &text, &extracted).unwrap();
        let sections = chunks.iter().filter(|chunk| !chunk.headings.is_empty()).count();
        assert!(sections * 10 >= chunks.len() * 9, "{name}: {sections} of {}", chunks.len());
    }
}
