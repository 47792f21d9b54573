//! From text to the numbers that the network reads: BERT's WordPiece, lower case.

use std::collections::HashMap;

use serde::Deserialize;
use unicode_categories::UnicodeCategories;
use unicode_normalization::UnicodeNormalization;

use super::network::WINDOW;

/// More characters than this cannot matter: a token has at least one, and white space is soon over.
const READ_AT_MOST: usize = 16 * WINDOW;
/// Longer words are not words, by the model's own rule.
const LONGEST_WORD: usize = 100;

/// The model's vocabulary.
pub(super) struct Tokens {
    /// Tokens that can begin a word, and those that go on with one, without their marks.
    beginnings: HashMap<String, u32>,
    continuations: HashMap<String, u32>,
    longest: usize,
    unknown: u32,
    first: u32,
    last: u32,
}

impl Tokens {
    /// Reads a `tokenizer.json`.
    pub(super) fn from_json(json: &[u8]) -> Result<Self, String> {
        #[derive(Deserialize)]
        struct File {
            model: Model,
        }
        #[derive(Deserialize)]
        struct Model {
            vocab: HashMap<String, u32>,
        }
        let file: File = serde_json::from_slice(json).map_err(|error| error.to_string())?;
        let vocabulary = file.model.vocab;
        let special = |name: &str| vocabulary.get(name).copied().ok_or(format!("it has no {name}"));
        let (unknown, first, last) = (special("[UNK]")?, special("[CLS]")?, special("[SEP]")?);
        let longest = vocabulary.keys().map(String::len).max().unwrap_or(0);
        let (mut beginnings, mut continuations) = (HashMap::new(), HashMap::new());
        for (token, number) in vocabulary {
            match token.strip_prefix("##") {
                Some(continuation) => continuations.insert(continuation.to_owned(), number),
                None => beginnings.insert(token, number),
            };
        }
        Ok(Self { beginnings, continuations, longest, unknown, first, last })
    }

    /// The tokens of a text, with the marks for beginning and end, cut to the model's window.
    pub(super) fn of(&self, text: &str) -> Vec<u32> {
        let end = text.char_indices().nth(READ_AT_MOST).map_or(text.len(), |(end, _)| end);
        let plain = plain(&text[..end]);
        let mut tokens = vec![self.first];
        for word in words(&plain) {
            self.cut(word, &mut tokens);
            if tokens.len() >= WINDOW {
                break;
            }
        }
        tokens.truncate(WINDOW - 1);
        tokens.push(self.last);
        tokens
    }

    /// Cuts a word into the longest pieces there are, from left to right; a word that cannot be cut whole is unknown.
    fn cut(&self, word: &str, tokens: &mut Vec<u32>) {
        let before = tokens.len();
        let mut rest = word;
        while !rest.is_empty() {
            let pieces = if rest.len() == word.len() { &self.beginnings } else { &self.continuations };
            let ends = rest.char_indices().map(|(start, character)| start + character.len_utf8());
            let ends: Vec<usize> = ends.take_while(|&end| end <= self.longest).collect();
            let longest = ends.into_iter().rev().find_map(|end| Some((end, *pieces.get(&rest[..end])?)));
            match longest {
                Some((end, token)) if word.chars().count() <= LONGEST_WORD => {
                    tokens.push(token);
                    rest = &rest[end..];
                }
                _ => {
                    tokens.truncate(before);
                    tokens.push(self.unknown);
                    return;
                }
            }
        }
    }
}

/// Lower case without accents and control characters, Chinese characters apart.
fn plain(text: &str) -> String {
    let mut clean = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            _ if character.is_whitespace() => clean.push(' '),
            '\0' | '\u{fffd}' => {}
            _ if character.is_other_control()
                || character.is_other_format()
                || character.is_other_private_use() => {}
            _ if is_chinese(character) => clean.extend([' ', character, ' ']),
            _ => clean.push(character),
        }
    }
    clean.nfd().filter(|character| !character.is_mark_nonspacing()).flat_map(char::to_lowercase).collect()
}

/// Runs without white space; every punctuation mark is a word.
fn words(text: &str) -> impl Iterator<Item = &str> {
    let is_mark = |character: char| character.is_ascii_punctuation() || character.is_punctuation();
    text.split(' ').filter(|run| !run.is_empty()).flat_map(move |run| {
        run.split_inclusive(is_mark).flat_map(move |piece| {
            let mark = piece.char_indices().next_back().filter(|(_, last)| is_mark(*last));
            let (word, mark) = piece.split_at(mark.map_or(piece.len(), |(start, _)| start));
            [word, mark].into_iter().filter(|word| !word.is_empty())
        })
    })
}

fn is_chinese(character: char) -> bool {
    matches!(character as u32,
        0x4e00..=0x9fff | 0x3400..=0x4dbf | 0x20000..=0x2a6df | 0x2a700..=0x2ceaf | 0xf900..=0xfaff | 0x2f800..=0x2fa1f)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_cut_at_spaces_and_marks() {
        let plain = plain("Naïve caf\u{e9}—déjà_vu(x)\t你好\u{200b}!");
        let words: Vec<&str> = words(&plain).collect();
        assert_eq!(words, ["naive", "cafe", "—", "deja", "_", "vu", "(", "x", ")", "你", "好", "!"]);
    }

    #[test]
    fn a_word_is_cut_into_the_longest_known_pieces_or_is_unknown() {
        let vocabulary = r###"{"[UNK]":0,"[CLS]":1,"[SEP]":2,"un":3,"##break":4,"##able":5,"u":6,"##a":7}"###;
        let tokens =
            Tokens::from_json(format!(r#"{{"model":{{"vocab":{vocabulary}}}}}"#).as_bytes()).unwrap();
        assert_eq!(tokens.of("Unbreakable u"), [1, 3, 4, 5, 6, 2]);
        assert_eq!(tokens.of("unbroken u"), [1, 0, 6, 2]);
        assert_eq!(tokens.of(""), [1, 2]);
        assert_eq!(tokens.of(&"u ".repeat(1000)).len(), WINDOW);
        assert!(Tokens::from_json(b"{}").is_err());
    }
}
