//! The text of a PDF, page by page, with the headings that its bookmarks name.

mod budget;
mod hyphens;
mod outline;
mod running;
mod titles;

use std::{collections::HashMap, ops::Range, panic::AssertUnwindSafe};

use pdf_extract::{
    ConvertToFmt, Dictionary, Document, Error, Object, ObjectId, OutputError, PlainTextOutput,
    encryption::DecryptionError, output_doc_page,
};

use crate::{Block, ExtractError, Extracted, Role};
use budget::{Budget, LoadError, TooMuch};
use hyphens::Words;
use outline::Bookmark;
use running::{MOST_TITLES, Title};
use titles::{PageLines, key};

/// A line longer than this is no heading.
const LONGEST_HEADING: usize = 120;

/// The text of a page, and of all pages, in bytes. A letter may stand for many.
const LONGEST_PAGE: usize = 4 << 20;
const LONGEST_TEXT: usize = 128 << 20;

pub(crate) fn extract(bytes: &[u8]) -> Result<Extracted, ExtractError> {
    // The reader expects well-formed files in places, and panics where they are not.
    let (pages, bookmarks) =
        std::panic::catch_unwind(|| read(bytes)).map_err(|_| broken("its structure is damaged".into()))??;
    let mut text = String::new();
    let mut places = Vec::with_capacity(pages.len());
    let has_text = pages.iter().any(|page| !page.text.trim().is_empty());
    if !has_text && let Some(megabytes) = pages.iter().find_map(|page| page.exceeds) {
        return Err(budget::too_much(megabytes));
    }
    if !has_text && pages.iter().any(|page| page.has_failed) {
        return Err(broken("none of its pages can be read".into()));
    }
    if !has_text && has_images(bytes) {
        return Err(ExtractError::Scanned(pages.len()));
    }
    let words = Words::of(pages.iter().map(|page| &*page.text));
    let mut lines: Vec<_> = pages.iter().map(|page| words.mended(&page.text)).collect();
    let titles: Vec<_> =
        bookmarks.iter().map(|bookmark| Title { key: key(&bookmark.title), page: bookmark.page }).collect();
    running::remove(&mut lines, &titles);
    let mut notices = Vec::new();
    for (number, (page, lines)) in (1..).zip(pages.iter().zip(&lines)) {
        if !text.is_empty() {
            text.push_str("\n\n");
        }
        let start = text.len();
        push_tidied(&mut text, lines);
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

fn broken(reason: String) -> ExtractError {
    ExtractError::Broken { format: "PDF", reason }
}

/// What was read of a page.
#[derive(Default)]
struct Page {
    text: String,
    has_image: bool,
    has_failed: bool,
    /// The megabytes that it is not read for, because it unpacks to more.
    exceeds: Option<u64>,
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

fn read(bytes: &[u8]) -> Result<(Vec<Page>, Vec<Bookmark>), ExtractError> {
    let mut document = budget::load(bytes).map_err(|error| match error {
        LoadError::Pdf(error) => refused(&error),
        LoadError::TooMuch(megabytes) => budget::too_much(megabytes),
    })?;
    if document.is_encrypted() {
        // Many are encrypted with no password, only to forbid changes.
        document.decrypt("").map_err(|error| refused(&error))?;
    }
    let sizes = budget::measure(&mut document).map_err(budget::too_much)?;
    let ids: Vec<_> = document.page_iter().collect();
    let mut budget = Budget::new(&document, &sizes);
    let mut costs = Vec::with_capacity(ids.len());
    for id in &ids {
        costs.push(match budget.take_page(*id) {
            Ok(()) => None,
            Err(TooMuch::Page(megabytes)) => Some(megabytes),
            Err(TooMuch::Document(megabytes)) => return Err(budget::too_much(megabytes)),
        });
    }
    let bookmarks = outline::bookmarks(&document, &ids);
    let (mut pages, mut failed, mut left) = (Vec::new(), None, LONGEST_TEXT);
    for (id, exceeds) in ids.into_iter().zip(costs) {
        let has_image = has_image(&document, id);
        if exceeds.is_some() {
            pages.push(Page { exceeds, has_image, has_failed: true, ..Page::default() });
            continue;
        }
        let mut text = String::new();
        let read = read_page(&mut document, id, PageText { text: &mut text, left: left.min(LONGEST_PAGE) });
        left = left.saturating_sub(text.len());
        let has_failed = read.is_err();
        failed = read.err().flatten().or(failed);
        pages.push(Page { text, has_image, has_failed, exceeds });
    }
    let has_text = pages.iter().any(|page| !page.text.trim().is_empty());
    let is_too_much = pages.iter().any(|page| page.exceeds.is_some());
    match failed {
        Some(error) if !has_text && !is_too_much => Err(broken(error.to_string())),
        _ => Ok((pages, bookmarks)),
    }
}

/// Why a file cannot be read.
fn refused(error: &Error) -> ExtractError {
    match error {
        Error::InvalidPassword | Error::Decryption(DecryptionError::IncorrectPassword) => {
            ExtractError::Protected
        }
        error => broken(error.to_string()),
    }
}

/// Writes the text of a page. Fails with the reason, where there is one.
fn read_page(document: &mut Document, page: ObjectId, text: PageText<'_>) -> Result<(), Option<OutputError>> {
    // The library goes through all pages to find one, so the document is made to have no other.
    const CATALOG: ObjectId = (u32::MAX, 0);
    const PAGES: ObjectId = (u32::MAX - 1, 0);
    let pages = [("Type", Object::from("Pages")), ("Kids", vec![Object::from(page)].into())];
    let catalog = [("Type", Object::from("Catalog")), ("Pages", Object::from(PAGES))];
    document.objects.insert(PAGES, Dictionary::from_iter(pages).into());
    document.objects.insert(CATALOG, Dictionary::from_iter(catalog).into());
    document.trailer.set("Root", CATALOG);
    // A page that cannot be read does not cost the others.
    let read = AssertUnwindSafe(|| output_doc_page(document, &mut PlainTextOutput::new(text), 1));
    match std::panic::catch_unwind(read) {
        Ok(read) => read.map_err(Some),
        Err(_) => Err(None),
    }
}

/// Takes the text of a page as long as there is room.
struct PageText<'a> {
    text: &'a mut String,
    left: usize,
}

impl std::fmt::Write for PageText<'_> {
    fn write_str(&mut self, text: &str) -> std::fmt::Result {
        self.left = self.left.checked_sub(text.len()).ok_or(std::fmt::Error)?;
        self.text.push_str(text);
        Ok(())
    }
}

impl ConvertToFmt for PageText<'_> {
    type Writer = Self;

    fn convert(self) -> Self {
        self
    }
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
    let mut carried = Vec::new();
    for (number, page) in (1..).zip(pages) {
        let is_contents = is_contents(&text[page.clone()]);
        let lines: Vec<_> = lines(text, page.clone()).collect();
        let expected = on_page.remove(&number).unwrap_or_default();
        let searched: &[(Range<usize>, &str)] = if is_contents { &[] } else { &lines };
        let mut headings = Headings::of(searched, &expected);
        let from_top = carried.iter().chain(&headings.from_top);
        blocks.extend(from_top.map(|bookmark| heading(page.start..page.start, bookmark)));
        carried = std::mem::take(&mut headings.on_next_page);
        let (mut is_new, mut at) = (true, 0);
        while let Some((range, line)) = lines.get(at) {
            at += 1;
            if line.trim().is_empty() {
                is_new = true;
                continue;
            }
            if is_contents {
                blocks.push(Block { range: range.clone(), role: Role::Links });
            } else if let Some((last, bookmarks)) = headings.found.remove(&(at - 1)) {
                let end = lines[last].0.end;
                let ranges = std::iter::once(range.start..end).chain(std::iter::repeat(end..end));
                blocks.extend(ranges.zip(bookmarks).map(|(range, bookmark)| heading(range, bookmark)));
                (is_new, at) = (true, last + 1);
            } else if let Some((level, name)) = numbered(line).filter(|_| bookmarks.is_empty()) {
                blocks.push(Block { range: range.clone(), role: Role::Heading { level, name } });
                is_new = true;
            } else {
                add_line(&mut blocks, range.clone(), std::mem::take(&mut is_new));
            }
        }
    }
    blocks
}

fn heading(range: Range<usize>, bookmark: &Bookmark) -> Block {
    Block { range, role: Role::Heading { level: bookmark.level, name: bookmark.title.clone() } }
}

/// Where the headings of a page stand.
#[derive(Default)]
struct Headings<'a> {
    /// By their first line: the last, and the bookmarks that lead to it.
    found: HashMap<usize, (usize, Vec<&'a Bookmark>)>,
    /// Not found, and nothing before them: they hold from the top.
    from_top: Vec<&'a Bookmark>,
    /// Not found behind others: what stands between is theirs or not, but the next page is.
    on_next_page: Vec<&'a Bookmark>,
}

impl<'a> Headings<'a> {
    fn of(lines: &[(Range<usize>, &str)], expected: &[&'a Bookmark]) -> Self {
        let mut headings = Self::default();
        if expected.is_empty() {
            return headings;
        }
        let page = PageLines::new(lines.iter().map(|(_, line)| *line));
        let mut from = 0;
        for bookmark in expected.iter().copied().take(MOST_TITLES) {
            let title = key(&bookmark.title);
            match page.find(&title, from).or_else(|| page.find(&title, 0)) {
                Some((first, last)) => {
                    let mut found = headings.found.iter_mut();
                    match found.find(|(start, (end, _))| **start <= last && first <= *end) {
                        Some((_, (_, same))) => same.push(bookmark),
                        None => drop(headings.found.insert(first, (last, vec![bookmark]))),
                    }
                    from = from.max(last + 1);
                }
                None if headings.found.is_empty() => headings.from_top.push(bookmark),
                None => headings.on_next_page.push(bookmark),
            }
        }
        headings
    }
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
    fn headings_without_bookmarks_are_told_by_their_numbers() {
        assert_eq!(numbered("5.1.2. The hostname"), Some((3, "5.1.2. The hostname".into())));
        for line in ["3. Boil the eggs.", "2.5 litres of water", "1.1 million people live there.", "Words"] {
            assert_eq!(numbered(line), None, "{line}");
        }
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
