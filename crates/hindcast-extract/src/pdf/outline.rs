//! The outline of a PDF: its bookmarks, and the pages that they lead to.

use std::collections::{HashMap, HashSet};

use pdf_extract::{Dictionary, Document, Object, ObjectId, decode_text_string};

/// A book of five thousand pages has half as many.
const MOST_BOOKMARKS: usize = 20_000;

/// Entries of the tree of names that are looked at.
const MOST_NAMES: usize = 200_000;

/// Deeper levels count as this one.
const DEEPEST: u8 = 10;

/// In bytes, before they are decoded.
const LONGEST_TITLE: usize = 1000;
const LONGEST_NAME: usize = 256;

/// A title, how deep it is, and the page it stands on, from 1.
pub(super) struct Bookmark {
    pub(super) level: u8,
    pub(super) title: String,
    pub(super) page: usize,
}

/// The bookmarks in their order. What leads nowhere is left out, and so is what comes behind more than any book has.
pub(super) fn bookmarks(document: &Document, pages: &[ObjectId]) -> Vec<Bookmark> {
    let mut numbers = HashMap::new();
    for (number, page) in (1..).zip(pages) {
        numbers.entry(*page).or_insert(number);
    }
    let Ok(catalog) = document.catalog() else { return Vec::new() };
    let destinations = Destinations { document, names: named(document, catalog, &numbers), numbers };
    let first = dictionary(document, catalog, b"Outlines").and_then(|outline| reference(outline, b"First"));
    let mut open: Vec<(ObjectId, u8)> = first.map(|first| (first, 1)).into_iter().collect();
    let (mut seen, mut found) = (HashSet::new(), Vec::new());
    while let Some((id, level)) = open.pop() {
        // An outline may lead back to itself.
        if seen.len() >= MOST_BOOKMARKS || !seen.insert(id) {
            continue;
        }
        let Ok(node) = document.get_dictionary(id) else { continue };
        open.extend(reference(node, b"Next").map(|next| (next, level)));
        open.extend(reference(node, b"First").map(|first| (first, level.saturating_add(1).min(DEEPEST))));
        if let (Some(title), Some(page)) = (title(document, node), destinations.of(node)) {
            found.push(Bookmark { level, title, page });
        }
    }
    found
}

/// What names and arrays lead to.
struct Destinations<'a> {
    document: &'a Document,
    names: HashMap<&'a [u8], usize>,
    numbers: HashMap<ObjectId, usize>,
}

impl Destinations<'_> {
    fn of(&self, node: &Dictionary) -> Option<usize> {
        let action = || dictionary(self.document, node, b"A").and_then(|action| action.get(b"D").ok());
        let (_, target) = self.document.dereference(node.get(b"Dest").ok().or_else(action)?).ok()?;
        match target {
            Object::String(name, _) | Object::Name(name) => self.names.get(&**name).copied(),
            target => page_of(self.document, target, &self.numbers),
        }
    }
}

/// The page of a destination such as `[12 0 R /XYZ 85 425 null]`, which may stand in a dictionary.
fn page_of(document: &Document, target: &Object, numbers: &HashMap<ObjectId, usize>) -> Option<usize> {
    let (_, target) = document.dereference(target).ok()?;
    let target = match target {
        Object::Dictionary(holder) => document.dereference(holder.get(b"D").ok()?).ok()?.1,
        target => target,
    };
    numbers.get(&target.as_array().ok()?.first()?.as_reference().ok()?).copied()
}

/// The destinations that have names, and their pages.
fn named<'a>(
    document: &'a Document,
    catalog: &'a Dictionary,
    numbers: &HashMap<ObjectId, usize>,
) -> HashMap<&'a [u8], usize> {
    let mut names = HashMap::new();
    let mut add = |name: &'a [u8], target: &Object| {
        if name.len() <= LONGEST_NAME
            && let Some(page) = page_of(document, target, numbers)
        {
            names.insert(name, page);
        }
    };
    if let Some(old) = dictionary(document, catalog, b"Dests") {
        old.iter().take(MOST_NAMES).for_each(|(name, target)| add(name, target));
    }
    let root =
        dictionary(document, catalog, b"Names").and_then(|names| dictionary(document, names, b"Dests"));
    let mut open: Vec<&Dictionary> = root.into_iter().collect();
    let (mut seen, mut left) = (HashSet::new(), MOST_NAMES);
    while let Some(node) = open.pop() {
        for pair in array(document, node, b"Names").chunks_exact(2) {
            let Some(less) = left.checked_sub(1) else { return names };
            left = less;
            if let Ok(name) = pair[0].as_str() {
                add(name, &pair[1]);
            }
        }
        for kid in array(document, node, b"Kids").iter().filter_map(|kid| kid.as_reference().ok()) {
            let Some(less) = left.checked_sub(1) else { return names };
            left = less;
            if seen.insert(kid) {
                open.extend(document.get_dictionary(kid));
            }
        }
    }
    names
}

fn title(document: &Document, node: &Dictionary) -> Option<String> {
    let (_, title) = document.dereference(node.get(b"Title").ok()?).ok()?;
    let bytes = title.as_str().ok()?;
    let bytes = &bytes[..bytes.len().min(LONGEST_TITLE)];
    let units = |unit: fn([u8; 2]) -> u16| {
        let units: Vec<_> = bytes[2..].chunks_exact(2).map(|pair| unit([pair[0], pair[1]])).collect();
        String::from_utf16_lossy(&units)
    };
    let text = match bytes {
        [0xfe, 0xff, ..] => units(u16::from_be_bytes),
        [0xff, 0xfe, ..] => units(u16::from_le_bytes),
        [0xef, 0xbb, 0xbf, rest @ ..] => String::from_utf8_lossy(rest).into_owned(),
        // Some write UTF-8 without saying so.
        _ => match std::str::from_utf8(bytes) {
            Ok(text) => text.to_owned(),
            Err(_) => {
                let cut = Object::String(bytes.to_vec(), pdf_extract::StringFormat::Literal);
                decode_text_string(&cut).unwrap_or_else(|_| String::from_utf8_lossy(bytes).into_owned())
            }
        },
    };
    let words = text.split(|char: char| char.is_whitespace() || char.is_control());
    let text = words.filter(|word| !word.is_empty()).collect::<Vec<_>>().join(" ");
    (!text.is_empty()).then_some(text)
}

pub(super) fn dictionary<'a>(
    document: &'a Document,
    holder: &'a Dictionary,
    name: &[u8],
) -> Option<&'a Dictionary> {
    document.dereference(holder.get(name).ok()?).ok()?.1.as_dict().ok()
}

fn array<'a>(document: &'a Document, holder: &'a Dictionary, name: &[u8]) -> &'a [Object] {
    let found = holder.get(name).and_then(|found| document.dereference(found));
    found.and_then(|(_, found)| found.as_array()).map(Vec::as_slice).unwrap_or_default()
}

fn reference(holder: &Dictionary, name: &[u8]) -> Option<ObjectId> {
    holder.get(name).and_then(Object::as_reference).ok()
}
