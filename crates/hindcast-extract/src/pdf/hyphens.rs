//! Words that a line cuts in two.

use std::collections::HashSet;

/// The words of a document that no line cuts, in lower case, also those with a hyphen in them.
pub(super) struct Words(HashSet<String>);

impl Words {
    /// The words of all pages.
    pub(super) fn of<'a>(pages: impl Iterator<Item = &'a str>) -> Self {
        let mut words = HashSet::new();
        for page in pages {
            let mut is_rest = false;
            for line in page.lines().map(str::trim) {
                let is_cut = cut(line).is_some();
                let mut runs = line.split_whitespace().skip(usize::from(is_rest)).peekable();
                while let Some(run) = runs.next() {
                    if is_cut && runs.peek().is_none() {
                        break;
                    }
                    let run = run.trim_matches(|char: char| !char.is_alphanumeric()).to_lowercase();
                    words.extend(run.split(|char: char| !char.is_alphanumeric()).map(str::to_owned));
                    words.insert(run);
                }
                is_rest = is_cut;
            }
        }
        Self(words)
    }

    /// The lines of a page without white space at their ends, and which line of the page each was. The second half of a word stands
    /// where the first does.
    pub(super) fn mended(&self, page: &str) -> (Vec<String>, Vec<usize>) {
        let (mut lines, mut places): (Vec<String>, Vec<usize>) = Default::default();
        for (place, line) in page.lines().map(str::trim_end).enumerate() {
            let Some((whole, rest)) = lines.last().and_then(|last| self.joined(last, line)) else {
                lines.push(line.to_owned());
                places.push(place);
                continue;
            };
            lines.pop();
            lines.push(whole);
            // A line that had nothing else is no empty one.
            if !rest.is_empty() {
                lines.push(rest.to_owned());
                places.push(place);
            }
        }
        (lines, places)
    }

    /// A line with the rest of its last word, and what is left of the next; none where the next does not go on with that word.
    fn joined<'a>(&self, line: &str, next: &'a str) -> Option<(String, &'a str)> {
        let first = cut(line)?;
        let next = next.trim_start();
        let second = &next[..next.find(|char: char| !char.is_alphabetic()).unwrap_or(next.len())];
        if !self.is_one(first, second) {
            return None;
        }
        let end = next.find(char::is_whitespace).unwrap_or(next.len());
        let whole = format!("{}{}", &line[..line.len() - 1], &next[..end]);
        Some((whole, next[end..].trim_start()))
    }

    /// Whether two halves are one word, rather than two with a hyphen between them.
    fn is_one(&self, first: &str, second: &str) -> bool {
        if !second.starts_with(char::is_lowercase) {
            return false;
        }
        let (first, second) = (first.to_lowercase(), second.to_lowercase());
        let has = |word: &str| self.0.contains(word);
        // `self-` before `contained`, or `pre-` before `and`: half of a word rarely is a word by itself.
        let is_compound = has(&format!("{first}-{second}")) || has(&second);
        has(&format!("{first}{second}")) || !is_compound
    }
}

/// The letters before the hyphen at the end of a line; none where it ends otherwise.
fn cut(line: &str) -> Option<&str> {
    let line = line.strip_suffix('-')?;
    let letters =
        line.chars().rev().take_while(|char| char.is_alphabetic()).map(char::len_utf8).sum::<usize>();
    let first = &line[line.len() - letters..];
    // `data-` of `meta-data-` is no first half, nor is an option such as `--file-`.
    let is_alone = line[..line.len() - letters].chars().next_back().is_none_or(|char| !"-_/.".contains(char));
    (is_alone && first.ends_with(char::is_lowercase)).then_some(first)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn halves_of_words_are_put_together_and_compounds_keep_their_hyphen() {
        let page = "The adminis-\ntration of a machine, di-\n  rectly. A well-known time-\nconsuming task, a well-\nknown one,\n\
                    in the Software-\nProject, takes time and is consuming. One more non-\n\nnext";
        let words = Words::of([page].into_iter());
        assert_eq!(
            words.mended(page).0,
            [
                "The administration",
                "of a machine, directly.",
                "A well-known time-",
                "consuming task, a well-",
                "known one,",
                "in the Software-",
                "Project, takes time and is consuming. One more non-",
                "",
                "next"
            ]
        );
    }

    #[test]
    fn a_hyphen_before_a_word_of_the_document_stays() {
        let page = "contained and reconfigured\na self-\ncontained unit, pre-\nand post-\nreconfigured";
        let lines =
            ["contained and reconfigured", "a self-", "contained unit, pre-", "and post-", "reconfigured"];
        assert_eq!(Words::of([page].into_iter()).mended(page).0, lines);
    }

    #[test]
    fn a_word_that_the_document_has_whole_is_one_even_if_its_halves_are_words() {
        let page = "every-\nbody\nelse";
        let whole = "Everybody and every body.";
        assert_eq!(Words::of([page, whole].into_iter()).mended(page).0, ["everybody", "else"]);
        assert_eq!(Words::of([page, "Every body."].into_iter()).mended(page).0, ["every-", "body", "else"]);
    }
}
