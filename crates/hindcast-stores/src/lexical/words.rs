//! What counts as a word, in prose and in code alike.

use tantivy::tokenizer::{Language, Stemmer, TextAnalyzer, Token, TokenStream, Tokenizer};

/// Longer words are data (hashes, encoded files), not something to look for.
const LONGEST_WORD: usize = 64;

/// Words without a meaning of their own: they are indexed, but a question that has others is not asked for them.
const STOP_WORDS: &[&str] = &[
    "a", "an", "and", "are", "as", "at", "be", "but", "by", "can", "do", "does", "for", "from", "had", "has",
    "have", "how", "i", "if", "in", "into", "is", "it", "its", "my", "no", "not", "of", "on", "or", "such",
    "that", "the", "their", "then", "there", "these", "they", "this", "to", "was", "we", "were", "what",
    "when", "where", "which", "who", "why", "will", "with", "you", "your",
];

/// Whether a word, before stemming, says nothing.
pub(super) fn is_stop_word(word: &str) -> bool {
    STOP_WORDS.contains(&word)
}

/// Cuts text into words: lower case, stemmed as English, identifiers whole and in parts.
pub(super) fn analyzer() -> TextAnalyzer {
    TextAnalyzer::builder(Words::default()).filter(Stemmer::new(Language::English)).build()
}

/// The words of a question, before stemming, each once.
pub(super) fn of_question(question: &str) -> Vec<String> {
    let mut words = Words::default();
    let mut found: Vec<String> = Vec::new();
    words.token_stream(question).process(&mut |token| {
        if !found.contains(&token.text) {
            found.push(token.text.clone());
        }
    });
    if found.iter().any(|word| !is_stop_word(word)) {
        found.retain(|word| !is_stop_word(word));
    }
    found
}

/// The cutting alone.
#[derive(Clone, Default)]
pub(super) struct Words {
    token: Token,
}

impl Tokenizer for Words {
    type TokenStream<'a> = WordStream<'a>;

    fn token_stream<'a>(&'a mut self, text: &'a str) -> WordStream<'a> {
        self.token.reset();
        WordStream { text, rest: 0, parts: Vec::new(), token: &mut self.token }
    }
}

/// Goes through a text.
pub(super) struct WordStream<'a> {
    text: &'a str,
    /// Where the next run of letters is looked for.
    rest: usize,
    /// Parts of the last identifier that are still to be told, last first.
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

    /// The next run of letters, digits and underscores. Scripts without spaces are cut into single characters.
    fn next_run(&mut self) -> Option<(usize, usize)> {
        let is_word = |character: char| character.is_alphanumeric() || character == '_';
        let start = self.rest + self.text[self.rest..].find(is_word)?;
        let mut end = start;
        for character in self.text[start..].chars() {
            if !is_word(character) || (is_unspaced(character) && end > start) {
                break;
            }
            end += character.len_utf8();
            if is_unspaced(character) {
                break;
            }
        }
        self.rest = end;
        Some((start, end))
    }
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

fn is_unspaced(character: char) -> bool {
    matches!(character as u32, 0x0e00..=0x0eff | 0x3040..=0x30ff | 0x3400..=0x4dbf | 0x4e00..=0x9fff | 0xf900..=0xfaff | 0x20000..=0x3ffff)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(text: &str) -> Vec<String> {
        let mut words = Vec::new();
        analyzer().token_stream(text).process(&mut |token| words.push(token.text.clone()));
        words
    }

    #[test]
    fn identifiers_are_found_whole_and_by_their_parts() {
        for (text, expected) in [
            ("read_file", &["read_fil", "read", "file"][..]),
            ("getUserName", &["getusernam", "get", "user", "name"]),
            ("HTTPServer", &["httpserver", "http", "server"]),
            ("__init__", &["init"]),
            ("utf8", &["utf8"]),
            ("___", &[]),
        ] {
            assert_eq!(words(text), expected, "{text}");
        }
    }

    #[test]
    fn prose_is_stemmed_and_scripts_without_spaces_are_cut() {
        assert_eq!(words("The connections were Dropped."), ["the", "connect", "were", "drop"]);
        assert_eq!(words("日本 x"), ["日", "本", "x"]);
    }

    #[test]
    fn a_question_is_asked_for_its_meaningful_words() {
        assert_eq!(of_question("How do I read a file? Read!"), ["read", "file"]);
        assert_eq!(of_question("to be or not to be"), ["to", "be", "or", "not"]);
        assert!(of_question(" … ").is_empty());
    }
}
