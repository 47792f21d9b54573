//! Files that other programs wrote: openpyxl, python-pptx, odfpy, EbookLib.

use hindcast_extract::{ExtractError, Format, extract};

use crate::read;

/// Headings, page and text.
type Told = (String, Option<u64>, String);

fn told(name: &str) -> (Option<String>, Vec<Told>) {
    let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/files").join(name);
    let read = read(&path);
    let chunks = read.chunks.into_iter();
    (
        read.extracted.title,
        chunks.map(|(text, chunk)| (chunk.headings.join(" › "), chunk.page, text)).collect(),
    )
}

fn row(headings: &str, page: Option<u64>, text: &str) -> Told {
    (headings.into(), page, text.into())
}

#[test]
fn a_sheet_has_its_rows_below_the_names_of_the_columns() {
    let (_, chunks) = told("birds.xlsx");
    let birds = "## Name | Wingspan (cm) | Habitat\n\n| Heron | 180 | lakes |\n\n| Owl | 95 | forest |\n\n| Wren | 15 | hedges |";
    let expected = [
        row("Birds › Name | Wingspan (cm) | Habitat", None, birds),
        row("Fish › | Species | Length", None, "## | Species | Length\n\n|  | Pike | 1.1 |"),
    ];
    assert_eq!(chunks, expected);
}

#[test]
fn slides_are_pages_with_their_titles_and_notes() {
    let (_, chunks) = told("talk.pptx");
    let expected = [
        row("Herons of the lake", Some(1), "# Herons of the lake\n\nA talk"),
        row(
            "How they fish",
            Some(2),
            "# How they fish\n\nThey stand still\nThey strike\n\nNotes: Remember the video of the strike.",
        ),
    ];
    assert_eq!(chunks, expected);
}

#[test]
fn a_text_of_open_document_has_its_headings() {
    let (_, chunks) = told("notes.odt");
    let expected = [
        row("Field notes", None, "# Field notes\n\nThe heron was seen at dawn."),
        row("Field notes › Second day", None, "## Second day\n\n- two owls"),
    ];
    assert_eq!(chunks, expected);
}

#[test]
fn a_book_is_read_in_its_order_without_its_contents() {
    let (title, chunks) = told("book.epub");
    assert_eq!(title.as_deref(), Some("The Book of Herons"));
    let expected = [
        row("Morning", None, "# Morning\n\nThe heron wakes."),
        row("Evening", None, "# Evening\n\nThe heron sleeps."),
    ];
    assert_eq!(chunks, expected);
}

/// Every beginning of a file is a broken file, and so is one with a changed byte: refused or read, never a panic.
#[test]
fn broken_files_are_refused_and_not_more() {
    for name in ["birds.xlsx", "talk.pptx", "notes.odt", "book.epub"] {
        let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/files").join(name);
        let bytes = std::fs::read(path).unwrap();
        let format = Format::of_name(name).unwrap();
        for part in 1..20 {
            let cut = &bytes[..bytes.len() * part / 20];
            assert!(matches!(extract(format, cut), Err(ExtractError::Broken { .. })), "{name} {part}");
            let mut changed = bytes.clone();
            let at = bytes.len() * part / 20;
            changed[at] ^= 0x55;
            let _ = extract(format, &changed);
        }
    }
}
