//! Where the titles of an outline stand on their pages.

/// A title may go over so many lines, with those that its number has for itself.
const MOST_LINES: usize = 12;

/// So many letters may stand before a title: `Chapter`, `Kapitel`, `Appendix A`.
const LONGEST_PREFIX: usize = 24;

/// The letters of a text, without case: readers differ in white space, signs, hyphens and ligatures.
pub(super) fn key(text: &str) -> String {
    let letters = text.chars().filter(|char| char.is_alphabetic());
    letters.flat_map(char::to_uppercase).flat_map(char::to_lowercase).collect()
}

/// The lines of a page, as keys.
pub(super) struct PageLines<'a> {
    lines: Vec<(&'a str, String)>,
}

impl<'a> PageLines<'a> {
    pub(super) fn new(lines: impl Iterator<Item = &'a str>) -> Self {
        Self { lines: lines.map(|line| (line, key(line))).collect() }
    }

    /// The first and the last line of a title, given as its key, from a line on: all letters of these lines are its own or those
    /// of its number.
    pub(super) fn find(&self, title: &str, from: usize) -> Option<(usize, usize)> {
        if title.is_empty() {
            return None;
        }
        (from..self.lines.len()).find_map(|first| Some((first, self.end_of(title, first)?)))
    }

    /// The last line of a title that begins on this line.
    fn end_of(&self, title: &str, first: usize) -> Option<usize> {
        if self.lines[first].0.trim().is_empty() {
            return None;
        }
        let mut letters = String::new();
        for (last, (line, key)) in self.lines.iter().enumerate().skip(first).take(MOST_LINES) {
            letters.push_str(key);
            if letters.len() > title.len() + LONGEST_PREFIX {
                return None;
            }
            if !line.trim().is_empty()
                && let Some(prefix) = letters.strip_suffix(title)
                && self.is_numbering(first, prefix)
            {
                return Some(last);
            }
        }
        None
    }

    /// Whether what stands from a line on, up to the end of these letters, numbers a title.
    fn is_numbering(&self, first: usize, prefix: &str) -> bool {
        if prefix.is_empty() {
            return true;
        }
        let mut left = prefix.len();
        let mut words = Vec::new();
        for (line, _) in &self.lines[first..] {
            for word in line.split_whitespace() {
                let letters = key(word).len();
                // `IV.Owls`: no number goes on as a word.
                let Some(less) = left.checked_sub(letters) else { return false };
                words.push(word);
                left = less;
                if left == 0 && letters > 0 {
                    return is_number_of_a_title(&words)
                        || (is_name_of_a_part(&words) && self.next_is_number(first, words.len()));
                }
            }
        }
        false
    }

    /// Whether the word behind so many is a number: `Chapter 7` has no letter in it.
    fn next_is_number(&self, first: usize, skipped: usize) -> bool {
        let mut words =
            self.lines[first..].iter().flat_map(|(line, _)| line.split_whitespace()).skip(skipped);
        words.next().is_some_and(|word| word.chars().all(|char| char.is_numeric() || ".:".contains(char)))
    }
}

/// `Chapter`, or `第`: what stands before a number that has no letters.
fn is_name_of_a_part(words: &[&str]) -> bool {
    matches!(words, [word] if word.chars().all(char::is_alphabetic) && !word.starts_with(char::is_lowercase))
}

/// `7A`, `第7章`, `Appendix A`, `Part IV`.
fn is_number_of_a_title(words: &[&str]) -> bool {
    let Some(last) = words.last() else { return false };
    let last = last.trim_end_matches(['.', ':', ')', '-', '–', '—']);
    let is_roman = !last.is_empty() && last.chars().all(|char| "IVXLC".contains(char));
    let is_letter = last.chars().count() == 1 && last.chars().all(char::is_uppercase);
    words.len() <= 3 && (last.chars().any(char::is_numeric) || is_roman || is_letter)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(page: &str, title: &str) -> Option<(usize, usize)> {
        PageLines::new(page.lines()).find(&key(title), 0)
    }

    #[test]
    fn titles_are_found_across_lines_behind_their_numbers() {
        assert_eq!(found("Text.\n\nThe hostname\n\nMore.", "The hostname"), Some((2, 2)));
        assert_eq!(
            found("7.9 What is meant by a\nvirtual package?\nIt is", "What is meant by a virtual package?"),
            Some((0, 1))
        );
        assert_eq!(
            found("end\n\nChapter 7\n\nBasics of the\nsystem\n\nThis", "Basics of the system"),
            Some((2, 5))
        );
        assert_eq!(found("Appendix A\nOﬃce adminis-\ntration", "Office administration"), Some((0, 2)));
        assert_eq!(found("第7章 ネットワーク\n", "ネットワーク"), Some((0, 0)));
        assert_eq!(found("A.1. Owls", "Owls"), Some((0, 0)));
    }

    #[test]
    fn what_only_has_a_title_in_it_is_not_taken_for_it() {
        for page in
            ["Set the hostname", "The hostname is set", "see\nthe hostname", "the\nhostname and more", ""]
        {
            assert_eq!(found(page, "the hostname is"), None, "{page}");
        }
        assert_eq!(found("Set the hostname", "The hostname"), None);
        assert_eq!(found("1234", "1234"), None);
    }
}
