//! Lines that pages have at their edges for whoever leafs through them: running titles and page numbers.

use std::collections::HashMap;

use super::titles::{PageLines, key};

/// As many pages must have the same before it counts as running.
const FEWEST: usize = 3;

/// So many lines at each edge of a page may run.
const AT_EDGE: usize = 2;

/// Only pages with at least so many lines show what runs: pages that say the same are not all edge.
const FEWEST_LINES: usize = 5;

/// A title that is cut short in a running line has at least so many letters.
const SHORTEST_PART: usize = 3;

/// A title of less letters runs only where it repeats.
const SHORTEST_TITLE: usize = 12;

/// So many titles of a page are looked for.
pub(super) const MOST_TITLES: usize = 200;

/// A title of the outline, as a key, and the page that it stands on, from 1.
pub(super) struct Title {
    pub(super) key: String,
    pub(super) page: usize,
}

/// Empties the running lines of all pages. What stands behind such a line at the top, or before it at the bottom, is looked at
/// only then: a line within the text always stays.
pub(super) fn remove(pages: &mut [Vec<String>], titles: &[Title]) {
    let running = Running::of(pages, titles);
    let mut on_page: HashMap<usize, Vec<&str>> = HashMap::new();
    for title in titles {
        on_page.entry(title.page).or_default().push(&title.key);
    }
    for (number, lines) in (1..).zip(pages.iter_mut()) {
        let headings = headings(lines, on_page.get(&number).map(Vec::as_slice).unwrap_or_default());
        for at in running.on_page(number, lines, &headings) {
            lines[at].clear();
        }
    }
}

/// The lines that are titles of what begins on a page. A title that runs at the top stands below it once more.
fn headings(lines: &[String], titles: &[&str]) -> Vec<usize> {
    if titles.is_empty() {
        return Vec::new();
    }
    let page = PageLines::new(lines.iter().map(String::as_str));
    let top = said(lines).get(AT_EDGE - 1).map_or(0, |last| last + 1);
    let mut found = Vec::new();
    for title in titles.iter().take(MOST_TITLES) {
        let Some((mut first, mut last)) = page.find(title, 0) else { continue };
        if last < top {
            (first, last) = page.find(title, last + 1).unwrap_or((first, last));
        }
        found.extend(first..=last);
    }
    found
}

/// What runs in a document.
struct Running<'a> {
    /// The keys of lines, by how many pages have them at the top and at the bottom.
    lines: [HashMap<String, usize>; 2],
    /// How far printed page numbers are from those of the file, by how many pages have them.
    distances: HashMap<i64, usize>,
    titles: HashMap<&'a str, usize>,
    /// All titles in order, to find those that begin with something.
    ordered: Vec<&'a str>,
}

impl<'a> Running<'a> {
    fn of(pages: &[Vec<String>], titles: &'a [Title]) -> Self {
        let mut running = [HashMap::new(), HashMap::new()];
        let mut distances = HashMap::new();
        for (number, lines) in (1..).zip(pages) {
            let shown = said(lines);
            let mut of_page = Vec::new();
            for (edge, at) in edges(&shown) {
                let line = &lines[at];
                if let Some(printed) = page_number(line) {
                    let distance = number - printed;
                    if !of_page.contains(&distance) {
                        of_page.push(distance);
                    }
                } else if shown.len() >= FEWEST_LINES {
                    for key in keys(number, line) {
                        *running[edge].entry(key).or_default() += 1;
                    }
                }
            }
            for distance in of_page {
                *distances.entry(distance).or_default() += 1;
            }
        }
        let mut first: HashMap<&str, usize> = HashMap::new();
        for title in titles.iter().filter(|title| !title.key.is_empty()) {
            let page = first.entry(&title.key).or_insert(title.page);
            *page = title.page.min(*page);
        }
        let mut ordered: Vec<_> = first.keys().copied().collect();
        ordered.sort_unstable();
        Self { lines: running, distances, titles: first, ordered }
    }

    /// The lines of a page that run.
    fn on_page(&self, number: usize, lines: &[String], headings: &[usize]) -> Vec<usize> {
        let shown = said(lines);
        let runs = |at: usize, edge: usize| !headings.contains(&at) && self.runs(number, &lines[at], edge);
        let mut found: Vec<_> = shown.iter().copied().take(AT_EDGE).take_while(|at| runs(*at, 0)).collect();
        found.extend(shown.iter().rev().copied().take(AT_EDGE).take_while(|at| runs(*at, 1)));
        found
    }

    fn runs(&self, number: usize, line: &str, edge: usize) -> bool {
        let page = i64::try_from(number).unwrap_or(i64::MAX);
        if let Some(printed) = page_number(line) {
            let distance = page - printed;
            return self.distances.get(&distance).is_some_and(|pages| *pages >= FEWEST);
        }
        let repeats = |key: String| self.lines[edge].get(&key).is_some_and(|pages| *pages >= FEWEST);
        keys(page, line).into_iter().any(repeats) || self.has_begun(number, line) || self.is_of_titles(line)
    }

    /// Whether a line is a title, maybe with its number, of a section that began before.
    fn has_begun(&self, number: usize, line: &str) -> bool {
        let words: Vec<_> = line.split_whitespace().filter(|word| !is_number(word)).collect();
        let key = key(&words.join(" "));
        // A word of the text may be a title elsewhere.
        key.len() >= SHORTEST_TITLE && self.titles.get(&*key).is_some_and(|page| *page <= number)
    }

    /// Whether a line in capitals is nothing but titles with their numbers, whole or cut short: `CHAPTER 7. BASICS OF … 7.9. WHAT`.
    fn is_of_titles(&self, line: &str) -> bool {
        if !is_in_capitals(line) {
            return false;
        }
        let mut parts = vec![String::new()];
        let mut numbers = 0;
        for word in line.split_whitespace() {
            let is_between = is_number(word);
            numbers += usize::from(is_between);
            if is_between || word == "…" || word == "..." {
                parts.push(String::new());
            } else if let Some(part) = parts.last_mut() {
                part.push_str(&key(word));
            }
        }
        parts.retain(|part| !part.is_empty());
        let is_title = |part: &String| part.len() >= SHORTEST_PART && self.begins_a_title(part);
        // Before a number may stand what the part is called, such as `CHAPTER`.
        let named = usize::from(parts.len() > 1 && !is_title(&parts[0]));
        numbers > 0 && parts.len() > named && parts[named..].iter().all(is_title)
    }

    fn begins_a_title(&self, part: &str) -> bool {
        let at = self.ordered.partition_point(|title| *title < part);
        self.ordered.get(at).is_some_and(|title| title.starts_with(part))
    }
}

/// Which lines of a page say something.
fn said(lines: &[String]) -> Vec<usize> {
    (0..lines.len()).filter(|at| !lines[*at].trim().is_empty()).collect()
}

/// The first and the last lines, with the edge that they stand at. A line of a short page may stand at both.
fn edges(shown: &[usize]) -> impl Iterator<Item = (usize, usize)> + '_ {
    let top = shown.iter().take(AT_EDGE).map(|at| (0, *at));
    top.chain(shown.iter().rev().take(AT_EDGE).map(|at| (1, *at)))
}

/// What a line has in common with those that run with it: its letters and numbers, and the same with one number as its distance to
/// the page. `Article 12` and `Article 17` have nothing in common; `Birds 3` and `4 Birds` do, on pages 3 and 4. A line without letters
/// has no keys.
fn keys(page: i64, line: &str) -> Vec<String> {
    let letters = key(line);
    if letters.is_empty() {
        return Vec::new();
    }
    let numbers: Vec<_> =
        line.split(|char: char| !char.is_numeric()).filter(|number| !number.is_empty()).collect();
    let others = |skipped: Option<usize>| {
        let others = numbers.iter().enumerate().filter(|(at, _)| Some(*at) != skipped);
        others.map(|(_, number)| format!("|{number}")).collect::<String>()
    };
    let mut keys = vec![format!("{letters}{}", others(None))];
    // The page is numbered before a title or behind it, maybe with how many there are.
    let count = numbers.len();
    for at in [Some(0), count.checked_sub(2), count.checked_sub(1)].into_iter().flatten() {
        if let Some(printed) = numbers.get(at).and_then(|number| value(number)) {
            let key = format!("{letters}#{}{}", page - printed, others(Some(at)));
            if !keys.contains(&key) {
                keys.push(key);
            }
        }
    }
    keys
}

/// A number in the digits of Europe, Arabia, Persia, India or Japan.
fn value(number: &str) -> Option<i64> {
    number.chars().try_fold(0_i64, |value, char| {
        let digit = ['0', '٠', '۰', '०', '０'].iter().find_map(|zero| {
            let digit = u32::from(char).checked_sub(u32::from(*zero))?;
            (digit < 10).then_some(i64::from(digit))
        })?;
        value.checked_mul(10)?.checked_add(digit)
    })
}

fn is_in_capitals(line: &str) -> bool {
    // `ß` is written so in capitals, too.
    let is_small = |char: char| char.is_lowercase() && char != 'ß';
    line.chars().any(char::is_uppercase) && !line.chars().any(is_small)
}

/// Whether a word is the number of a section or a page, such as `12`, `7.9.` or `A.1`.
fn is_number(word: &str) -> bool {
    let word = word.trim_end_matches(['.', ':']);
    word.chars().any(|char| char.is_ascii_digit())
        && word.split('.').all(|part| {
            !part.is_empty() && (part.bytes().all(|byte| byte.is_ascii_digit()) || part.chars().count() == 1)
        })
}

/// The number that a line consists of, in digits or Roman, maybe between dashes.
fn page_number(line: &str) -> Option<i64> {
    let number = line.trim().trim_matches(['-', '–', '—', '|', '[', ']']).trim();
    if number.is_empty() || number.len() > 8 {
        return None;
    }
    if number.bytes().all(|byte| byte.is_ascii_digit()) {
        return number.parse().ok();
    }
    roman(number)
}

/// A Roman number in small or large letters.
fn roman(number: &str) -> Option<i64> {
    let is_one_case = number == number.to_lowercase() || number == number.to_uppercase();
    let value = |char: char| match char.to_ascii_lowercase() {
        'i' => Some(1),
        'v' => Some(5),
        'x' => Some(10),
        'l' => Some(50),
        'c' => Some(100),
        'd' => Some(500),
        'm' => Some(1000),
        _ => None,
    };
    let values: Vec<i64> = number.chars().map(value).collect::<Option<_>>()?;
    let sum = (0..values.len()).map(|at| match values.get(at + 1) {
        Some(next) if *next > values[at] => -values[at],
        _ => values[at],
    });
    is_one_case.then(|| sum.sum())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn removed(pages: &[&str], titles: &[(&str, usize)]) -> Vec<String> {
        let mut lines: Vec<Vec<String>> =
            pages.iter().map(|page| page.lines().map(str::to_owned).collect()).collect();
        let titles: Vec<_> =
            titles.iter().map(|(title, page)| Title { key: key(title), page: *page }).collect();
        remove(&mut lines, &titles);
        lines
            .iter()
            .map(|page| said(page).iter().map(|at| &*page[*at]).collect::<Vec<_>>().join("|"))
            .collect()
    }

    #[test]
    fn what_repeats_at_the_edges_goes_and_what_stands_within_stays() {
        let pages = [
            "Birds of the lake 1\nHerons stand.\na\nb\nc\nAnnual report\n7",
            "Birds of the lake 2\nOwls sit.\nBirds of the lake\nb\nc\nAnnual report\n8",
            "Birds of the lake 3\nDucks swim.\na\nb\nc\nAnnual report\n9",
        ];
        assert_eq!(
            removed(&pages, &[]),
            ["Herons stand.|a|b|c", "Owls sit.|Birds of the lake|b|c", "Ducks swim.|a|b|c"]
        );
        // Two are no rule, and numbers that do not count up are no page numbers.
        assert_eq!(removed(&pages[..2], &[])[0], pages[0].replace('\n', "|"));
        let years = ["a\nb\nc\nd\n1990", "e\nf\ng\nh\n1990", "i\nj\nk\nl\n1990"];
        assert_eq!(removed(&years, &[]), years.map(|page| page.replace('\n', "|")));
    }

    #[test]
    fn lines_that_differ_in_a_number_that_is_not_the_page_stay() {
        let bodies =
            ["Herons stand\nThey\nwait\nlong", "Owls sit\nIn a\nhigh\ntree", "Ducks swim\nOn\nthe\nlake"];
        let told = |lines: [&str; 3]| {
            let pages = [0, 1, 2].map(|page| format!("{}\n{}", lines[page], bodies[page]));
            let rest = removed(&pages.each_ref().map(|page| &**page), &[]);
            let stays = |page: usize| rest[page] == pages[page].replace('\n', "|");
            let goes = |page: usize| rest[page] == bodies[page].replace('\n', "|");
            ((0..3).all(stays), (0..3).all(goes))
        };
        for lines in [
            ["Article 12", "Article 17", "Article 21"],
            ["第１２条", "第１７条", "第２１条"],
            ["المادة ١٢", "المادة ١٧", "المادة ٢١"],
            ["Table 3 of 12", "Table 7 of 12", "Table 8 of 12"],
        ] {
            assert_eq!(told(lines), (true, false), "{lines:?}");
        }
        for lines in [
            ["Article 12", "Article 12", "Article 12"],
            ["Birds 1", "2 Birds", "Birds 3"],
            ["3.2 Birds 47", "48 3.2 Birds", "3.2 Birds 49"],
            ["Page 1 of 3", "Page 2 of 3", "Page 3 of 3"],
            ["第１頁", "第２頁", "第３頁"],
            ["صفحة ١", "صفحة ٢", "صفحة ٣"],
        ] {
            assert_eq!(told(lines), (false, true), "{lines:?}");
        }
    }

    #[test]
    fn pages_that_say_nothing_else_are_no_evidence() {
        let pages = ["Herons.\nOwls."; 5];
        assert_eq!(removed(&pages, &[]), ["Herons.|Owls."; 5]);
    }

    #[test]
    fn running_titles_are_told_by_the_outline() {
        let titles = [
            ("Basics of the package management system", 2),
            ("What is a Virtual Package?", 2),
            ("Large packages", 3),
        ];
        let pages = [
            "One",
            "7.9 What is a Virtual Package?\nIt is a name.",
            "CHAPTER 7. BASICS OF THE PACKAGE … 7.9. WHAT IS A VIRTUAL …\n7.10 Large packages\nThey are large.",
            "7.9 What is a Virtual Package?\nIt goes on.\nNO SMOKING 7. HERE",
        ];
        assert_eq!(
            removed(&pages, &titles),
            [
                "One",
                "7.9 What is a Virtual Package?|It is a name.",
                "7.10 Large packages|They are large.",
                "It goes on.|NO SMOKING 7. HERE"
            ]
        );
    }

    #[test]
    fn page_numbers_are_read() {
        for (line, number) in [(" 27", 27), ("xiv", 14), ("- 3 -", 3), ("IX", 9)] {
            assert_eq!(page_number(line), Some(number), "{line}");
        }
        for line in ["", "27a", "mix it", "7.9", "Mix", "123456789"] {
            assert_eq!(page_number(line), None, "{line}");
        }
    }
}
