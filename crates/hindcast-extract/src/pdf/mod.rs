//! The text of a PDF, page by page, with the headings that its bookmarks name.

mod hyphens;

use std::{collections::HashMap, ops::Range, panic::AssertUnwindSafe};

use pdf_extract::{Document, Object, ObjectId, PlainTextOutput, output_doc_page};

use crate::{Block, ExtractError, Extracted, Role};
use hyphens::Words;

/// A line longer than this is no heading.
const LONGEST_HEADING: usize = 120;

pub(crate) fn extract(bytes: &[u8]) -> Result<Extracted, ExtractError> {
    let broken = |reason: String| ExtractError::Broken { format: "PDF", reason };
    // The reader expects well-formed files in places, and panics where they are not.
    let (pages, bookmarks) = std::panic::catch_unwind(|| read(bytes))
        .map_err(|_| broken("its structure is damaged".into()))?
        .map_err(|error| broken(error.to_string()))?;
    let mut text = String::new();
    let mut places = Vec::with_capacity(pages.len());
    let has_text = pages.iter().any(|page| !page.text.trim().is_empty());
    if !has_text && pages.iter().any(|page| page.has_failed) {
        return Err(broken("none of its pages can be read".into()));
    }
    if !has_text && has_images(bytes) {
        return Err(ExtractError::Scanned(pages.len()));
    }
    let words = Words::of(pages.iter().map(|page| &*page.text));
    let mut notices = Vec::new();
    for (number, page) in (1..).zip(&pages) {
        if !text.is_empty() {
            text.push_str("\n\n");
        }
        let start = text.len();
        push_tidied(&mut text, &words.mended(&page.text));
        if let Some(notice) = page.notice(number).filter(|_| has_text) {
            if text.len() > start {
                text.push_str("\n\n");
            }
            notices.push(text.len()..text.len() + notice.len());
            text.push_str(&notice);
        }
        places.push(start..text.len());
    }
    let mut blocks = blocks(&text, &places, &bookmarks);
    // What a page does not say is told to whoever reads it, and not searched.
    for block in blocks.iter_mut().filter(|block| notices.contains(&block.range)) {
        block.role = Role::Links;
    }
    Ok(Extracted { text: Some(text), pages: places, blocks, ..Extracted::default() })
}

/// A title, how deep it is, and the page it stands on, from 1.
struct Bookmark {
    level: u8,
    title: String,
    page: usize,
}

/// What was read of a page.
struct Page {
    text: String,
    has_image: bool,
    has_failed: bool,
}

impl Page {
    /// What a reader must know who does not see it.
    fn notice(&self, number: usize) -> Option<String> {
        match (self.has_failed, self.text.trim().is_empty()) {
            (true, true) => Some(format!("[page {number} cannot be read]")),
            (true, false) => Some(format!("[the rest of page {number} cannot be read]")),
            (false, true) if self.has_image => Some(format!("[page {number} is an image without text]")),
            (false, _) => None,
        }
    }
}

fn read(bytes: &[u8]) -> Result<(Vec<Page>, Vec<Bookmark>), pdf_extract::OutputError> {
    let mut document = Document::load_mem(bytes)?;
    if document.is_encrypted() {
        // Many are encrypted with no password, only to forbid changes.
        document.decrypt("")?;
    }
    let (mut pages, mut failed) = (Vec::new(), None);
    for (number, id) in document.get_pages() {
        let mut text = String::new();
        // A page that cannot be read does not cost the others.
        let read = std::panic::catch_unwind(AssertUnwindSafe(|| {
            output_doc_page(&document, &mut PlainTextOutput::new(&mut text), number)
        }));
        let has_failed = !matches!(read, Ok(Ok(())));
        failed = read.ok().and_then(Result::err).or(failed);
        pages.push(Page { text, has_image: has_image(&document, id), has_failed });
    }
    if let Some(error) = failed.filter(|_| pages.iter().all(|page| page.text.trim().is_empty())) {
        return Err(error);
    }
    let bookmarks = document.get_toc().map(|contents| contents.toc).unwrap_or_default();
    let bookmarks = bookmarks.into_iter().map(|entry| Bookmark {
        level: u8::try_from(entry.level.clamp(1, 10)).unwrap_or(1),
        title: entry.title,
        page: entry.page,
    });
    Ok((pages, bookmarks.collect()))
}

/// Whether a page shows a picture, by what it says it needs.
fn has_image(document: &Document, page: ObjectId) -> bool {
    let Ok((own, shared)) = document.get_page_resources(page) else { return false };
    let shared = shared.into_iter().filter_map(|id| document.get_dictionary(id).ok());
    own.into_iter().chain(shared).any(|resources| {
        let Ok(objects) = document.get_dict_in_dict(resources, b"XObject") else { return false };
        objects.iter().any(|(_, object)| {
            let stream =
                object.as_reference().and_then(|id| document.get_object(id)).and_then(Object::as_stream);
            let kind = stream.and_then(|stream| stream.dict.get(b"Subtype")).and_then(Object::as_name);
            kind.is_ok_and(|kind| kind == b"Image")
        })
    })
}

/// Whether any page is a picture: the dictionaries of pictures are never compressed.
fn has_images(bytes: &[u8]) -> bool {
    let has = |mark: &[u8]| bytes.windows(mark.len()).any(|window| window == mark);
    has(b"/Subtype/Image") || has(b"/Subtype /Image")
}

/// Paragraphs, and the headings among them. Pages of the table of contents are served but not searched.
fn blocks(text: &str, pages: &[Range<usize>], bookmarks: &[Bookmark]) -> Vec<Block> {
    let mut on_page: HashMap<usize, Vec<&Bookmark>> = HashMap::new();
    for bookmark in bookmarks {
        on_page.entry(bookmark.page).or_default().push(bookmark);
    }
    let mut blocks = Vec::new();
    for (number, page) in (1..).zip(pages) {
        let is_contents = is_contents(&text[page.clone()]);
        let mut expected = on_page.remove(&number).unwrap_or_default();
        let mut is_new = true;
        for (range, line) in lines(text, page.clone()) {
            if line.trim().is_empty() {
                is_new = true;
                continue;
            }
            let named = expected.iter().position(|bookmark| is_title(line, &bookmark.title));
            let heading = match named {
                Some(at) => {
                    let bookmark = expected.remove(at);
                    Some((bookmark.level, bookmark.title.trim().to_owned()))
                }
                None if bookmarks.is_empty() => numbered(line),
                None => None,
            };
            match heading {
                _ if is_contents => blocks.push(Block { range, role: Role::Links }),
                Some((level, name)) => {
                    blocks.push(Block { range, role: Role::Heading { level, name } });
                    is_new = true;
                }
                None => add_line(&mut blocks, range, std::mem::take(&mut is_new)),
            }
        }
    }
    blocks
}

fn add_line(blocks: &mut Vec<Block>, range: Range<usize>, is_new: bool) {
    match blocks.last_mut() {
        Some(Block { range: last, role: Role::Body }) if !is_new => last.end = range.end,
        _ => blocks.push(Block { range, role: Role::Body }),
    }
}

fn lines(text: &str, part: Range<usize>) -> impl Iterator<Item = (Range<usize>, &str)> {
    let mut start = part.start;
    text[part].split_inclusive('\n').map(move |line| {
        let range = start..start + line.trim_end().len();
        start += line.len();
        (range, line.trim_end())
    })
}

/// Whether a line is a title, maybe with its number.
fn is_title(line: &str, title: &str) -> bool {
    let letters = |text: &str| {
        text.chars().filter(|char| char.is_alphabetic()).flat_map(char::to_lowercase).collect::<String>()
    };
    let (line, title) = (letters(line), letters(title));
    !title.is_empty() && (line == title || (line.len() < title.len() + 12 && line.ends_with(&title)))
}

/// A heading such as `5.1. Network setup`, with the level that its number has.
fn numbered(line: &str) -> Option<(u8, String)> {
    let line = line.trim();
    let (number, name) = line.split_once(char::is_whitespace)?;
    let parts: Vec<_> = number.trim_end_matches('.').split('.').collect();
    let is_number = parts.len() <= 4
        && parts
            .iter()
            .all(|part| (1..=3).contains(&part.len()) && part.bytes().all(|byte| byte.is_ascii_digit()));
    // `3. Boil the eggs.` is an item of a list.
    let is_deep = parts.len() > 1;
    let name = name.trim();
    let is_name =
        name.chars().next().is_some_and(char::is_uppercase) && !name.ends_with(['.', ',', ';', ':']);
    (is_number && is_deep && is_name && line.len() <= LONGEST_HEADING)
        .then(|| (parts.len() as u8, line.to_owned()))
}

/// Whether most lines of a page lead to other pages.
fn is_contents(page: &str) -> bool {
    let lines: Vec<_> = page.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
    let leads = |line: &&&str| {
        let number = line.len() - line.trim_end_matches(|char: char| char.is_ascii_digit()).len();
        let before = line[..line.len() - number].trim_end();
        number > 0 && (before.ends_with("..") || before.ends_with(". .") || before.ends_with('…'))
    };
    lines.len() >= 5 && lines.iter().filter(leads).count() * 2 > lines.len()
}

/// With at most one empty line between others.
fn push_tidied(text: &mut String, page: &[String]) {
    let mut is_first = true;
    let mut gap = false;
    for line in page {
        if line.is_empty() {
            gap = !is_first;
            continue;
        }
        if !is_first {
            text.push_str(if gap { "\n\n" } else { "\n" });
        }
        text.extend(line.chars().filter(|char| !char.is_control() || *char == '\t'));
        (is_first, gap) = (false, false);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_are_tidied() {
        let mut text = String::new();
        let page = "\n\n  Title \n\n\n\nfirst line  \nsecond\u{7} line\n\n";
        push_tidied(&mut text, &Words::of([page].into_iter()).mended(page));
        assert_eq!(text, "  Title\n\nfirst line\nsecond line");
    }

    #[test]
    fn headings_are_told_by_bookmarks_or_numbers() {
        assert_eq!(numbered("5.1.2. The hostname"), Some((3, "5.1.2. The hostname".into())));
        for line in ["3. Boil the eggs.", "2.5 litres of water", "1.1 million people live there.", "Words"] {
            assert_eq!(numbered(line), None, "{line}");
        }
        assert!(
            is_title("  3.2  The hostname", "The hostname")
                && !is_title("The hostname is set", "The hostname")
        );
    }

    #[test]
    fn a_page_of_contents_is_told() {
        let contents =
            "Contents\n1 Birds . . . . . 3\n1.1 Herons ........ 4\n1.2 Owls ....... 12\n2 Fish … 20\n";
        assert!(is_contents(contents));
        assert!(!is_contents("In 2020\nthere were 5\nherons and 7\nowls and 12\nducks in 3\nlakes"));
    }

    #[test]
    fn what_is_no_pdf_is_refused() {
        for bytes in [&b"%PDF-1.4 nothing of the kind"[..], b"hello", b"%PDF-1.7\n1 0 obj<<>>endobj\n%%EOF"] {
            assert!(
                matches!(extract(bytes), Err(ExtractError::Broken { .. } | ExtractError::NoText)),
                "{bytes:?}"
            );
        }
    }
}
