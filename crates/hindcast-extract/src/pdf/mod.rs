//! The text of a PDF, page by page, with the headings that its bookmarks name, or else those that its letters and numbers show.

mod accents;
mod budget;
mod hyphens;
mod large;
mod outline;
mod pages;
mod running;
mod sizes;
mod titles;

use std::{collections::HashMap, ops::Range};

use crate::{Block, ExtractError, Extracted, Role};
use hyphens::Words;
use large::Large;
use outline::Bookmark;
use running::{MOST_TITLES, Title};
use titles::{PageLines, key};

/// A line longer than this is no heading.
const LONGEST_HEADING: usize = 120;

pub(crate) fn extract(bytes: &[u8]) -> Result<Extracted, ExtractError> {
    // The reader expects well-formed files in places, and panics where they are not.
    let (pages, bookmarks) = std::panic::catch_unwind(|| pages::read(bytes))
        .map_err(|_| broken("its structure is damaged".into()))??;
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
    let (mut lines, places_of_lines): (Vec<_>, Vec<_>) =
        pages.iter().map(|page| words.mended(&page.text)).unzip();
    let titles: Vec<_> =
        bookmarks.iter().map(|bookmark| Title { key: key(&bookmark.title), page: bookmark.page }).collect();
    running::remove(&mut lines, &titles);
    let read: Vec<_> = pages
        .iter()
        .zip(lines.iter().zip(&places_of_lines))
        .map(|(page, (lines, places))| large::Page { lines, places, sizes: &page.sizes })
        .collect();
    let mut large = if bookmarks.is_empty() { large::headings(&read) } else { Vec::new() }.into_iter();
    let (mut notices, mut by_size) = (Vec::new(), BySize::default());
    for (number, (page, lines)) in (1..).zip(pages.iter().zip(&lines)) {
        if !text.is_empty() {
            text.push_str("\n\n");
        }
        let start = text.len();
        let starts = push_tidied(&mut text, lines);
        by_size.add(large.next().unwrap_or_default(), &starts);
        if let Some(notice) = page.notice(number).filter(|_| has_text) {
            if text.len() > start {
                text.push_str("\n\n");
            }
            notices.push(text.len()..text.len() + notice.len());
            text.push_str(&notice);
        }
        places.push(start..text.len());
    }
    let mut blocks = blocks(&text, &places, &bookmarks, &by_size);
    // What a page does not say is told to whoever reads it, and not searched.
    for block in blocks.iter_mut().filter(|block| notices.contains(&block.range)) {
        block.role = Role::Links;
    }
    Ok(Extracted { text: Some(text), pages: places, blocks, ..Extracted::default() })
}

fn broken(reason: String) -> ExtractError {
    ExtractError::Broken { format: "PDF", reason }
}

/// Whether any page is a picture: the dictionaries of pictures are never compressed.
fn has_images(bytes: &[u8]) -> bool {
    let has = |mark: &[u8]| bytes.windows(mark.len()).any(|window| window == mark);
    has(b"/Subtype/Image") || has(b"/Subtype /Image")
}

/// Paragraphs, and the headings among them. Pages of the table of contents are served but not searched.
fn blocks(text: &str, pages: &[Range<usize>], bookmarks: &[Bookmark], by_size: &BySize) -> Vec<Block> {
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
                // What follows is said of the last.
                let (start, end, above) = (range.start, lines[last].0.end, bookmarks.len() - 1);
                let ranges = std::iter::repeat_n(start..start, above).chain(std::iter::once(start..end));
                blocks.extend(ranges.zip(bookmarks).map(|(range, bookmark)| heading(range, bookmark)));
                (is_new, at) = (true, last + 1);
            } else if let Some((last, heading)) = by_size.headings.get(&range.start) {
                while lines.get(at).is_some_and(|(range, _)| range.start <= *last) {
                    at += 1;
                }
                let role = Role::Heading { level: heading.level, name: heading.name.clone() };
                blocks.push(Block { range: range.start..lines[at - 1].0.end, role });
                is_new = true;
            } else if let Some((level, name)) = numbered(line).filter(|_| bookmarks.is_empty()) {
                // Large letters stand above those of the text.
                let level = if by_size.deepest == 0 { level } else { by_size.deepest + level - 1 };
                blocks.push(Block { range: range.clone(), role: Role::Heading { level, name } });
                is_new = true;
            } else {
                add_line(&mut blocks, range.clone(), std::mem::take(&mut is_new));
            }
        }
    }
    blocks
}

/// The headings that are told by their size, by where they begin in the text, with where their last line does.
#[derive(Default)]
struct BySize {
    headings: HashMap<usize, (usize, Large)>,
    deepest: u8,
}

impl BySize {
    /// Adds those of a page whose lines begin there.
    fn add(&mut self, headings: Vec<Large>, starts: &[usize]) {
        for heading in headings {
            self.deepest = self.deepest.max(heading.level);
            self.headings.insert(starts[heading.first], (starts[heading.last], heading));
        }
    }
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
                    // What was not found before it has ended here.
                    let mut here = std::mem::take(&mut headings.on_next_page);
                    here.push(bookmark);
                    let mut found = headings.found.iter_mut();
                    match found.find(|(start, (end, _))| **start <= last && first <= *end) {
                        Some((_, (_, same))) => same.extend(here),
                        None => drop(headings.found.insert(first, (last, here))),
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

/// With at most one empty line between others. Gives where each line begins; an empty one where the last does.
fn push_tidied(text: &mut String, page: &[String]) -> Vec<usize> {
    let mut starts = Vec::with_capacity(page.len());
    let mut start = text.len();
    let mut is_first = true;
    let mut gap = false;
    for line in page {
        if line.is_empty() {
            gap = !is_first;
            starts.push(start);
            continue;
        }
        if !is_first {
            text.push_str(if gap { "\n\n" } else { "\n" });
        }
        start = text.len();
        starts.push(start);
        text.extend(line.chars().filter(|char| !char.is_control() || *char == '\t'));
        (is_first, gap) = (false, false);
    }
    starts
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_are_tidied() {
        let mut text = String::new();
        let page = "\n\n  Title \n\n\n\nfirst line  \nsecond\u{7} line\n\n";
        push_tidied(&mut text, &Words::of([page].into_iter()).mended(page).0);
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
