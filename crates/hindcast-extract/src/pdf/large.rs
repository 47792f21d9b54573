//! Headings by the size of their letters, for documents whose outline tells none.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

use super::{
    LONGEST_HEADING, is_contents,
    sizes::{LineSize, Size, Sizes},
};

/// Headings are at least so many hundredths of the text's size, and so many tenths of a point larger.
const LARGER: u32 = 107;
const LARGER_BY: Size = 8;

/// Letters that are less than so many hundredths larger are a heading only behind an empty line.
const CLEARLY_LARGER: u32 = 115;

/// Sizes that are less than so many hundredths apart are one.
const SAME: u32 = 104;

/// A name that stands on a page twice, and so many times in all, names no section but a box: `Note`, `Tip`.
const MOST_SAME: usize = 3;

/// A title goes over so many lines.
const MOST_LINES: usize = 3;

/// So many titles follow each other with nothing between, and so many of the same size: labels of a figure are more.
const MOST_TITLES: usize = 5;
const MOST_ALIKE: usize = 2;

/// What stands before a larger title, such as `Chapter 7`, has so many characters.
const LONGEST_PREFIX: usize = 24;

/// Levels that are told apart.
const DEEPEST: u8 = 6;

/// What is known of a page.
pub(super) struct Page<'a> {
    pub(super) lines: &'a [String],
    /// Which line of the page's text each line was.
    pub(super) places: &'a [usize],
    pub(super) sizes: &'a Sizes,
}

/// A heading by its size.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Large {
    /// Its first and its last line.
    pub(super) first: usize,
    pub(super) last: usize,
    /// 1 is outermost.
    pub(super) level: u8,
    pub(super) name: String,
}

/// A heading before it is known how deep it is.
struct Title {
    first: usize,
    last: usize,
    size: Size,
    name: String,
}

/// The headings of each page.
pub(super) fn headings(pages: &[Page<'_>]) -> Vec<Vec<Large>> {
    let mut letters: BTreeMap<Size, u64> = BTreeMap::new();
    for (size, count) in pages.iter().flat_map(|page| &page.sizes.letters) {
        *letters.entry(*size).or_default() += count;
    }
    // Letters that are turned tell nothing of those that stand.
    letters.remove(&0);
    let Some((body, _)) = letters.iter().max_by_key(|(_, count)| **count) else { return Vec::new() };
    let mut found: Vec<_> = pages.iter().map(|page| page.titles(*body)).collect();
    let boxes = boxes(&found);
    for titles in &mut found {
        titles.retain(|title| !boxes.contains(&title.name));
    }
    let levels = Levels::of(found.iter().flatten().map(|title| title.size).collect());
    let large = |title: Title| {
        let level = levels.of_size(title.size);
        Large { first: title.first, last: title.last, level, name: title.name }
    };
    found.into_iter().map(|titles| titles.into_iter().map(large).collect()).collect()
}

/// Names that are no headings because they are those of many.
fn boxes(pages: &[Vec<Title>]) -> HashSet<String> {
    // How often in all, and on one page.
    let mut times: HashMap<&str, (usize, usize)> = HashMap::new();
    for titles in pages {
        let mut on_page: HashMap<&str, usize> = HashMap::new();
        for title in titles {
            *on_page.entry(&title.name).or_default() += 1;
        }
        for (name, count) in on_page {
            let (all, most) = times.entry(name).or_default();
            (*all, *most) = (*all + count, count.max(*most));
        }
    }
    let is_box = |(all, most): &(usize, usize)| *all > MOST_SAME && *most > 1;
    times.into_iter().filter(|(_, times)| is_box(times)).map(|(name, _)| name.to_owned()).collect()
}

/// The sizes of titles, the largest of each level.
struct Levels(Vec<Size>);

impl Levels {
    fn of(sizes: BTreeSet<Size>) -> Self {
        let mut levels: Vec<Size> = Vec::new();
        for size in sizes.into_iter().rev() {
            if levels.last().is_none_or(|last| is_larger(*last, size, SAME)) {
                levels.push(size);
            }
        }
        Self(levels)
    }

    fn of_size(&self, size: Size) -> u8 {
        let level = self.0.iter().take_while(|largest| **largest >= size).count();
        u8::try_from(level).unwrap_or(DEEPEST).clamp(1, DEEPEST)
    }
}

/// Whether a size is at least so many hundredths of another.
fn is_larger(size: Size, other: Size, hundredths: u32) -> bool {
    u32::from(size) * 100 >= u32::from(other) * hundredths
}

impl Page<'_> {
    fn titles(&self, body: Size) -> Vec<Title> {
        if is_contents(&self.lines.join("\n")) {
            return Vec::new();
        }
        let sizes: Vec<_> = (0..self.lines.len()).map(|at| self.large(at, body)).collect();
        if self.is_of_large(&sizes) {
            return Vec::new();
        }
        let mut titles = Vec::new();
        let mut run: Vec<Title> = Vec::new();
        for (at, size) in sizes.iter().enumerate() {
            if self.lines[at].trim().is_empty() {
                continue;
            }
            match size {
                Some(size) => self.add(&mut run, at, *size),
                None => titles.extend(kept(std::mem::take(&mut run))),
            }
        }
        titles.extend(kept(run));
        titles
    }

    fn size(&self, at: usize) -> Option<LineSize> {
        self.sizes.lines.get(*self.places.get(at)?).copied()
    }

    /// The size of a line that may be a heading.
    fn large(&self, at: usize, body: Size) -> Option<Size> {
        let size = self.size(at)?;
        let line = self.lines[at].trim();
        let is_large =
            is_larger(size.smallest, body, LARGER) && size.smallest >= body.saturating_add(LARGER_BY);
        let is_alone = || at == 0 || self.lines[at - 1].trim().is_empty() || self.is_as_large(at - 1, size);
        (is_large
            && size.letters > 0
            && !size.is_divided
            && line.chars().count() <= LONGEST_HEADING
            && !line.ends_with(['.', ',', ';', '。', '、'])
            && ![". .", "...", ".  ."].iter().any(|leader| line.contains(leader))
            && (is_larger(size.smallest, body, CLEARLY_LARGER) || is_alone()))
        .then_some(size.largest)
    }

    fn is_as_large(&self, at: usize, size: LineSize) -> bool {
        self.size(at).is_some_and(|other| other.smallest >= size.smallest)
    }

    /// Whether most of a page is large, as on a cover or a poster.
    fn is_of_large(&self, sizes: &[Option<Size>]) -> bool {
        let letters = |at: usize| self.size(at).map_or(0, |size| u64::from(size.letters));
        let all: u64 = (0..sizes.len()).map(letters).sum();
        let large: Vec<_> = (0..sizes.len()).filter(|at| sizes[*at].is_some()).collect();
        large.len() > MOST_LINES && large.into_iter().map(letters).sum::<u64>() * 2 > all
    }

    /// Adds a large line to the title that it goes on with, or begins one.
    fn add(&self, run: &mut Vec<Title>, at: usize, size: Size) {
        let line = self.lines[at].trim();
        match run.last_mut() {
            Some(title) if title.last + 1 == at && title.size == size => {
                title.last = at;
                push_word(&mut title.name, line);
            }
            _ => run.push(Title { first: at, last: at, size, name: line.to_owned() }),
        }
    }
}

/// The titles of lines that follow each other with nothing between, if they are titles.
fn kept(run: Vec<Title>) -> Vec<Title> {
    let is_long = |title: &Title| {
        title.last - title.first >= MOST_LINES || title.name.chars().count() > LONGEST_HEADING * 2
    };
    let alike = |title: &Title| run.iter().filter(|other| other.size == title.size).count();
    if run.len() > MOST_TITLES || run.iter().any(|title| is_long(title) || alike(title) > MOST_ALIKE) {
        return Vec::new();
    }
    let mut titles: Vec<Title> = Vec::new();
    for mut title in run {
        // `Chapter 7` stands above what it is called.
        if let Some(prefix) =
            titles.pop_if(|before| before.size < title.size && before.name.chars().count() <= LONGEST_PREFIX)
        {
            title.first = prefix.first;
            let name = std::mem::replace(&mut title.name, prefix.name);
            push_word(&mut title.name, &name);
        }
        titles.push(title);
    }
    titles.retain(|title| has_words(&title.name));
    titles
}

/// Whether a name is more than single letters, as labels are and the beginnings of an index's parts.
fn has_words(name: &str) -> bool {
    let is_word = |word: &str| word.chars().filter(|char| char.is_alphabetic()).count() > 1;
    name.split(|char: char| !char.is_alphanumeric()).any(is_word)
}

/// Puts the next line behind a title. Chinese and Japanese have no spaces.
fn push_word(name: &mut String, word: &str) {
    let is_wide = |char: char| matches!(char, '\u{2e80}'..='\u{9fff}' | '\u{ff00}'..='\u{ffef}');
    let is_between = !(name.ends_with(is_wide) && word.starts_with(is_wide));
    name.extend(is_between.then_some(' '));
    name.push_str(word);
}
