//! What counts as a word, in prose and in code alike.

use std::borrow::Cow;

use hindcast_core::knowledge::is_unspaced;
use tantivy::tokenizer::{Token, TokenStream, Tokenizer};
use unicode_normalization::{IsNormalized, UnicodeNormalization, is_nfc_quick};

/// Longer words are data (hashes, encoded files), not something to look for.
const LONGEST_WORD: usize = 64;

/// For whom a text is cut into words.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Purpose {
    /// To be found: scripts without spaces are told by characters and by pairs of them.
    Index,
    /// To find: of such scripts pairs, and a character only where it stands alone.
    Question,
}

/// The text with each letter in its usual form: accents composed, ligatures apart, wide and narrow letters as others.
pub(super) fn composed(text: &str) -> Cow<'_, str> {
    // Signs such as ™ and ² stay: they would become letters and digits of the word before them.
    let is_form = |character: char| matches!(character as u32, 0xfb00..=0xfb06 | 0xff01..=0xffef);
    if is_nfc_quick(text.chars()) == IsNormalized::Yes && !text.contains(is_form) {
        return text.into();
    }
    let mut usual = String::with_capacity(text.len());
    for character in text.chars() {
        match is_form(character) {
            true => usual.extend(std::iter::once(character).nfkc()),
            false => usual.push(character),
        }
    }
    usual.nfc().collect::<String>().into()
}

/// Cuts text into words: lower case, identifiers whole and in parts.
#[derive(Clone)]
pub(super) struct Words {
    purpose: Purpose,
    token: Token,
}

impl Words {
    pub(super) fn for_purpose(purpose: Purpose) -> Self {
        Self { purpose, token: Token::default() }
    }
}

impl Tokenizer for Words {
    type TokenStream<'a> = WordStream<'a>;

    fn token_stream<'a>(&'a mut self, text: &'a str) -> WordStream<'a> {
        self.token.reset();
        WordStream { text, purpose: self.purpose, rest: 0, parts: Vec::new(), token: &mut self.token }
    }
}

/// Goes through a text.
pub(super) struct WordStream<'a> {
    text: &'a str,
    purpose: Purpose,
    /// Where the next run of letters is looked for.
    rest: usize,
    /// Parts of the last identifier or unspaced run that are still to be told, last first.
    parts: Vec<(usize, usize)>,
    token: &'a mut Token,
}

impl TokenStream for WordStream<'_> {
    fn advance(&mut self) -> bool {
        if let Some((start, end)) = self.parts.pop() {
            self.tell(start, end);
            return true;
        }
        while let Some((start, end)) = self.next_run() {
            if self.text[start..end].starts_with(is_unspaced) {
                self.parts = self.characters(start, end);
                self.parts.reverse();
                if let Some((start, end)) = self.parts.pop() {
                    self.tell(start, end);
                    return true;
                }
                continue;
            }
            let parts = parts(&self.text[start..end]);
            if let [(from, to)] = parts[..] {
                if to - from <= LONGEST_WORD {
                    self.tell(start + from, start + to);
                    return true;
                }
                continue;
            }
            let short = parts.into_iter().filter(|(from, to)| to - from <= LONGEST_WORD);
            self.parts = short.map(|(from, to)| (start + from, start + to)).collect();
            self.parts.reverse();
            if end - start <= LONGEST_WORD && !self.parts.is_empty() {
                self.tell(start, end);
                return true;
            }
            if let Some((start, end)) = self.parts.pop() {
                self.tell(start, end);
                return true;
            }
        }
        false
    }

    fn token(&self) -> &Token {
        self.token
    }

    fn token_mut(&mut self) -> &mut Token {
        self.token
    }
}

impl WordStream<'_> {
    fn tell(&mut self, start: usize, end: usize) {
        self.token.position = self.token.position.wrapping_add(1);
        (self.token.offset_from, self.token.offset_to) = (start, end);
        self.token.text.clear();
        self.token.text.extend(self.text[start..end].chars().flat_map(char::to_lowercase));
    }

    /// The next run of letters, digits and underscores; one of a script without spaces by itself.
    fn next_run(&mut self) -> Option<(usize, usize)> {
        let is_word = |character: char| character.is_alphanumeric() || character == '_';
        let start = self.rest + self.text[self.rest..].find(is_word)?;
        let run = &self.text[start..];
        let is_unspaced_run = run.starts_with(is_unspaced);
        let ends = |character: char| !is_word(character) || is_unspaced(character) != is_unspaced_run;
        let end = start + run.find(ends).unwrap_or(run.len());
        self.rest = end;
        Some((start, end))
    }

    /// The characters and pairs of characters of a run in a script without spaces.
    fn characters(&self, start: usize, end: usize) -> Vec<(usize, usize)> {
        let places: Vec<(usize, usize)> = self.text[start..end]
            .char_indices()
            .map(|(at, character)| (start + at, start + at + character.len_utf8()))
            .collect();
        let mut parts = Vec::with_capacity(2 * places.len());
        for (number, &(from, to)) in places.iter().enumerate() {
            if self.purpose == Purpose::Index || places.len() == 1 {
                parts.push((from, to));
            }
            if let Some(&(_, to)) = places.get(number + 1) {
                parts.push((from, to));
            }
        }
        parts
    }
}

/// Pairs with hiragana count this much: in Japanese it writes endings and particles, and nouns rarely.
const GRAMMAR: f32 = 0.3;

/// How much a word of a question counts.
pub(super) fn weight(word: &str) -> f32 {
    let has_hiragana = word.chars().any(|character| matches!(character as u32, 0x3040..=0x309f));
    if has_hiragana { GRAMMAR } else { 1.0 }
}

/// Where an identifier's words begin and end: `snake_case`, `camelCase`, `HTTPServer`. A plain word is its only part; a run
/// of underscores has none.
fn parts(run: &str) -> Vec<(usize, usize)> {
    let mut parts = Vec::new();
    let mut start = 0;
    let mut characters = run.char_indices().peekable();
    let (mut before, mut upper_before) = (None, false);
    while let Some((at, character)) = characters.next() {
        let upper = character.is_uppercase();
        let next_is_lower = characters.peek().is_some_and(|(_, next)| next.is_lowercase());
        let begins = match before {
            Some('_') | None => false,
            Some(_) => upper && (!upper_before || next_is_lower),
        };
        if character == '_' || begins {
            if at > start {
                parts.push((start, at));
            }
            start = if character == '_' { at + 1 } else { at };
        }
        (before, upper_before) = (Some(character), upper);
    }
    if run.len() > start {
        parts.push((start, run.len()));
    }
    parts
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(purpose: Purpose, text: &str) -> Vec<String> {
        let mut words = Vec::new();
        Words::for_purpose(purpose).token_stream(text).process(&mut |token| words.push(token.text.clone()));
        words
    }

    #[test]
    fn identifiers_are_found_whole_and_by_their_parts() {
        for (text, expected) in [
            ("read_file", &["read_file", "read", "file"][..]),
            ("getUserName", &["getusername", "get", "user", "name"]),
            ("HTTPServer", &["httpserver", "http", "server"]),
            ("__init__", &["init"]),
            ("utf8", &["utf8"]),
            ("___", &[]),
        ] {
            assert_eq!(words(Purpose::Index, text), expected, "{text}");
        }
    }

    #[test]
    fn scripts_without_spaces_are_found_by_pairs_and_by_single_characters() {
        assert_eq!(words(Purpose::Index, "日本語x 一"), ["日", "日本", "本", "本語", "語", "x", "一"]);
        assert_eq!(words(Purpose::Question, "日本語x 一"), ["日本", "本語", "x", "一"]);
        assert_eq!(words(Purpose::Question, "연결을"), ["연결", "결을"]);
    }
}
