//! From text to the numbers that a network reads, by the tokenizer that comes with it.

use tokenizers::{Tokenizer, TruncationParams, TruncationStrategy};

/// More characters than this for each token cannot matter: most tokens have some, and white space is soon over.
const CHARACTERS_A_TOKEN: usize = 16;

/// With so many tokens a vocabulary is one of many languages; those of one have 30,000 to 60,000.
const MANY_LANGUAGES: usize = 100_000;

/// A text as a network reads it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Text {
    pub(super) tokens: Vec<u32>,
    /// Where its second segment begins; behind the end where it has one.
    pub(super) second: usize,
}

/// The model's vocabulary and how it cuts.
pub(super) struct Tokens {
    tokenizer: Tokenizer,
    read_at_most: usize,
    vocabulary: usize,
}

impl Tokens {
    /// Reads a `tokenizer.json`, for a network with this window.
    pub(super) fn from_json(json: &[u8], window: usize) -> Result<Self, String> {
        let mut tokenizer = Tokenizer::from_bytes(json).map_err(|error| error.to_string())?;
        tokenizer.with_padding(None);
        let truncation = TruncationParams {
            max_length: window,
            strategy: TruncationStrategy::LongestFirst,
            ..TruncationParams::default()
        };
        tokenizer.with_truncation(Some(truncation)).map_err(|error| error.to_string())?;
        let vocabulary = tokenizer.get_vocab_size(true);
        Ok(Self { tokenizer, read_at_most: CHARACTERS_A_TOKEN * window, vocabulary })
    }

    /// Whether the vocabulary is of many languages.
    pub(super) fn is_multilingual(&self) -> bool {
        self.vocabulary >= MANY_LANGUAGES
    }

    /// The tokens of a text, with the marks for beginning and end, cut to the model's window.
    pub(super) fn of(&self, text: &str) -> Result<Text, String> {
        let encoding = self.tokenizer.encode_fast(self.beginning(text), true);
        encoding.map(|encoding| text_of(&encoding)).map_err(|error| error.to_string())
    }

    /// The tokens of a question and a passage, as one text; what is too long of them is cut off.
    pub(super) fn of_pair(&self, question: &str, passage: &str) -> Result<Text, String> {
        let pair = (self.beginning(question), self.beginning(passage));
        let encoding = self.tokenizer.encode_fast(pair, true);
        encoding.map(|encoding| text_of(&encoding)).map_err(|error| error.to_string())
    }

    fn beginning<'a>(&self, text: &'a str) -> &'a str {
        let end = text.char_indices().nth(self.read_at_most).map_or(text.len(), |(end, _)| end);
        &text[..end]
    }
}

fn text_of(encoding: &tokenizers::Encoding) -> Text {
    let tokens = encoding.get_ids().to_vec();
    let second = encoding.get_type_ids().iter().position(|&segment| segment == 1);
    Text { second: second.unwrap_or(tokens.len()), tokens }
}

#[cfg(test)]
mod tests {
    use super::*;

    const WORD_PIECE: &str = r###"{"version": "1.0", "truncation": null, "padding": null, "added_tokens": [],
        "normalizer": {"type": "BertNormalizer", "clean_text": true, "handle_chinese_chars": true, "strip_accents": null, "lowercase": true},
        "pre_tokenizer": {"type": "BertPreTokenizer"},
        "post_processor": {"type": "TemplateProcessing",
            "single": [{"SpecialToken": {"id": "[CLS]", "type_id": 0}}, {"Sequence": {"id": "A", "type_id": 0}}, {"SpecialToken": {"id": "[SEP]", "type_id": 0}}],
            "pair": [{"SpecialToken": {"id": "[CLS]", "type_id": 0}}, {"Sequence": {"id": "A", "type_id": 0}}, {"SpecialToken": {"id": "[SEP]", "type_id": 0}},
                {"Sequence": {"id": "B", "type_id": 1}}, {"SpecialToken": {"id": "[SEP]", "type_id": 1}}],
            "special_tokens": {"[CLS]": {"id": "[CLS]", "ids": [1], "tokens": ["[CLS]"]}, "[SEP]": {"id": "[SEP]", "ids": [2], "tokens": ["[SEP]"]}}},
        "decoder": null,
        "model": {"type": "WordPiece", "unk_token": "[UNK]", "continuing_subword_prefix": "##", "max_input_chars_per_word": 100,
            "vocab": {"[UNK]": 0, "[CLS]": 1, "[SEP]": 2, "un": 3, "##break": 4, "##able": 5, "u": 6, "##a": 7}}}"###;

    #[test]
    fn texts_and_pairs_are_cut_to_the_window() {
        let tokens = Tokens::from_json(WORD_PIECE.as_bytes(), 16).unwrap();
        assert_eq!(tokens.of("Unbreakable u").unwrap().tokens, [1, 3, 4, 5, 6, 2]);
        assert_eq!(tokens.of("unbroken u").unwrap().tokens, [1, 0, 6, 2]);
        assert_eq!(tokens.of("").unwrap(), Text { tokens: vec![1, 2], second: 2 });
        assert_eq!(tokens.of(&"u ".repeat(1000)).unwrap().tokens.len(), 16);
        assert_eq!(tokens.of_pair("u", "un").unwrap(), Text { tokens: vec![1, 6, 2, 3, 2], second: 3 });
        let long = tokens.of_pair("u", &"u ".repeat(1000)).unwrap();
        assert_eq!((long.tokens.len(), long.second), (16, 3));
        assert!(Tokens::from_json(b"{}", 16).is_err());
    }

    #[test]
    fn a_large_vocabulary_is_of_many_languages() {
        let of_size = |size: usize| {
            let more: String = (8..size).map(|number| format!(", \"w{number}\": {number}")).collect();
            let json = WORD_PIECE.replace("\"##a\": 7", &format!("\"##a\": 7{more}"));
            Tokens::from_json(json.as_bytes(), 16).unwrap()
        };
        assert!(!of_size(8).is_multilingual());
        assert!(!of_size(MANY_LANGUAGES - 1).is_multilingual());
        assert!(of_size(MANY_LANGUAGES).is_multilingual());
    }
}
