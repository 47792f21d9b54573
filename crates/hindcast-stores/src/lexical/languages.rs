//! Words of many languages as they are indexed and asked for: stemmed, without accents, and which of them say nothing.

use std::{
    collections::HashMap,
    sync::{Arc, LazyLock},
};

use hindcast_core::knowledge::Language;
use tantivy::tokenizer::{
    Language as Stemmed, RawTokenizer, Stemmer, StopWordFilter, TextAnalyzer, Token, TokenStream, Tokenizer,
};
use unicode_normalization::{UnicodeNormalization, char::is_combining_mark};

use super::words::{Purpose, Words, composed};

/// Words without a meaning of their own: they are indexed, but a question that has others is not asked for them.
const ENGLISH_STOP_WORDS: &[&str] = &[
    "a", "an", "and", "are", "as", "at", "be", "but", "by", "can", "do", "does", "for", "from", "had", "has",
    "have", "how", "i", "if", "in", "into", "is", "it", "its", "my", "no", "not", "of", "on", "or", "such",
    "that", "the", "their", "then", "there", "these", "they", "this", "to", "was", "we", "were", "what",
    "when", "where", "which", "who", "why", "will", "with", "you", "your",
];

/// The same for languages whose lists lack the words that questions begin with.
const QUESTION_WORDS: &[(Language, &[&str])] = &[
    (Language::French, &["comment", "quel", "quelle", "quels", "quelles", "quoi", "où", "pourquoi", "quand"]),
    (Language::Italian, &["quale", "quali", "quando", "posso"]),
    (Language::Spanish, &["cómo", "como", "cuál", "cuáles", "cuándo", "qué", "dónde", "puedo"]),
    (Language::Portuguese, &["como", "qual", "quais", "quando", "onde", "posso"]),
    (Language::Dutch, &["hoe", "welke", "waar", "waarom", "wanneer"]),
    (Language::German, &["wann", "warum", "wieso", "wer"]),
];

/// Small words of other languages that English texts about programs have as well. They do not tell what a question is written in:
/// `remove all characters` would be Italian.
const ENGLISH_AS_WELL: &[&str] = &[
    "ad", "ai", "algo", "all", "also", "alt", "am", "bare", "ben", "bin", "ci", "col", "com", "come", "dig",
    "die", "dir", "dog", "dos", "du", "ed", "end", "era", "fut", "hat", "he", "her", "io", "ma", "man", "me",
    "met", "min", "mis", "mit", "mod", "most", "non", "num", "op", "os", "over", "per", "sea", "sin", "so",
    "todo", "under", "van", "var", "vars", "want",
];

/// Words with their stems, which cost more to find than all else about a text: most words of a text were in one before.
#[derive(Default)]
pub(super) struct Stems {
    /// Of this language.
    language: Option<Language>,
    known: HashMap<String, String>,
}

impl Stems {
    /// More are not remembered.
    const MOST: usize = 50_000;

    /// The words of a text as they are indexed.
    pub(super) fn of_text(&mut self, text: &str, language: Language) -> Vec<Token> {
        if self.language != Some(language) || self.known.len() >= Self::MOST {
            *self = Self { language: Some(language), known: HashMap::new() };
        }
        let mut analyzer =
            TextAnalyzer::builder(RawTokenizer::default()).filter(Stemmer::new(stemmed(language))).build();
        let mut tokens = Vec::new();
        Words::for_purpose(Purpose::Index).token_stream(&composed(text)).process(&mut |token| {
            let stem = match self.known.get(&token.text) {
                Some(stem) => stem.clone(),
                None => {
                    let stem = stem(&mut analyzer, &token.text);
                    self.known.insert(token.text.clone(), stem.clone());
                    stem
                }
            };
            tokens.push(Token { text: stem, ..token_without_text(token) });
        });
        tokens
    }
}

/// Where a token stands, without what it says.
fn token_without_text(token: &Token) -> Token {
    let &Token { offset_from, offset_to, position, position_length, .. } = token;
    Token { offset_from, offset_to, position, position_length, text: String::new() }
}

/// A word as it is indexed.
fn stem(analyzer: &mut TextAnalyzer, word: &str) -> String {
    let mut stream = analyzer.token_stream(word);
    let mut stem = if stream.advance() { stream.token().text.clone() } else { word.to_owned() };
    fold(&mut stem);
    stem
}

/// A question, taken apart.
pub(super) struct Question {
    /// What its small words are of.
    pub(super) language: Language,
    /// Whether it has a word that tells one text from another.
    pub(super) is_telling: bool,
    /// Each meaningful word once, as each of the languages has it, without repetitions.
    pub(super) words: Vec<Vec<String>>,
}

impl Question {
    /// Takes a question apart for texts in these languages.
    pub(super) fn of(question: &str, languages: &[Language]) -> Self {
        let question = &*composed(question);
        let mut words: Vec<String> = Vec::new();
        Words::for_purpose(Purpose::Question).token_stream(question).process(&mut |token| {
            if !words.contains(&token.text) {
                words.push(token.text.clone());
            }
        });
        let language = by_script(question).unwrap_or_else(|| language_of(&words, languages));
        let is_telling = words.iter().any(|word| !is_stop_word(word, language));
        if is_telling {
            words.retain(|word| !is_stop_word(word, language));
        }
        let mut forms: Vec<Vec<String>> = Vec::new();
        for word in &words {
            let stems = stems(word, languages);
            if !forms.contains(&stems) {
                forms.push(stems);
            }
        }
        Self { language, is_telling, words: forms }
    }
}

/// The language of a question whose letters are mostly not Latin.
fn by_script(question: &str) -> Option<Language> {
    let (mut letters, mut others) = (0, 0);
    let mut found = None;
    for character in question.chars().filter(|character| character.is_alphabetic()) {
        letters += 1;
        let language = match character as u32 {
            0x0370..=0x03ff => Language::Greek,
            0x0400..=0x04ff => Language::Russian,
            0x0600..=0x06ff => Language::Arabic,
            0x0b80..=0x0bff => Language::Tamil,
            0x3040..=0x30ff => Language::Japanese,
            0x3400..=0x4dbf | 0x4e00..=0x9fff => Language::Chinese,
            0xac00..=0xd7af => Language::Korean,
            _ => continue,
        };
        others += 1;
        // Japanese has Chinese characters, and others besides.
        if found.is_none() || language == Language::Japanese {
            found = Some(language);
        }
    }
    found.filter(|_| others * 2 > letters)
}

/// The language that has most of the words as its stop words; English where none has more.
fn language_of(words: &[String], languages: &[Language]) -> Language {
    let small = |language: Language| words.iter().filter(move |word| is_stop_word(word, language));
    let is_telling = |word: &&String| word.len() > 1 && !ENGLISH_AS_WELL.contains(&word.as_str());
    let mut best = (Language::English, small(Language::English).count());
    for &language in languages.iter().filter(|language| **language != Language::English) {
        let count = small(language).filter(is_telling).count();
        if count > best.1 {
            best = (language, count);
        }
    }
    best.0
}

/// A word as texts in each of the languages have it; as English ones do first.
fn stems(word: &str, languages: &[Language]) -> Vec<String> {
    let mut stems: Vec<String> = Vec::new();
    for &language in [Language::English].iter().chain(languages) {
        let mut analyzer =
            TextAnalyzer::builder(RawTokenizer::default()).filter(Stemmer::new(stemmed(language))).build();
        let stem = stem(&mut analyzer, word);
        if !stems.contains(&stem) {
            stems.push(stem);
        }
    }
    stems
}

/// Whether a word, before stemming, says nothing in a language.
fn is_stop_word(word: &str, language: Language) -> bool {
    if language == Language::English {
        return ENGLISH_STOP_WORDS.contains(&word);
    }
    let more = QUESTION_WORDS.iter().find(|(one, _)| *one == language);
    if more.is_some_and(|(_, words)| words.contains(&word)) {
        return true;
    }
    let filter = STOP_WORDS.iter().find(|(one, _)| *one == language);
    filter.is_some_and(|(_, filter)| {
        let mut analyzer = TextAnalyzer::builder(RawTokenizer::default()).filter((**filter).clone()).build();
        !analyzer.token_stream(word).advance()
    })
}

/// The library's lists, of the languages that have one; they share their words with every copy.
static STOP_WORDS: LazyLock<Vec<(Language, Arc<StopWordFilter>)>> = LazyLock::new(|| {
    let filter = |language: &Language| {
        let others = (*language != Language::English).then(|| stemmed(*language));
        // A language without a stemmer goes as English, whose list is not its own.
        let own = others.filter(|stemmed| *stemmed != Stemmed::English)?;
        Some((*language, Arc::new(StopWordFilter::new(own)?)))
    };
    Language::ALL.iter().filter_map(filter).collect()
});

/// How a language is stemmed. Chinese, Japanese and Korean have no stems; the Latin words in their texts are mostly English.
fn stemmed(language: Language) -> Stemmed {
    match language {
        Language::Arabic => Stemmed::Arabic,
        Language::Danish => Stemmed::Danish,
        Language::Dutch => Stemmed::Dutch,
        Language::Finnish => Stemmed::Finnish,
        Language::French => Stemmed::French,
        Language::German => Stemmed::German,
        Language::Greek => Stemmed::Greek,
        Language::Hungarian => Stemmed::Hungarian,
        Language::Italian => Stemmed::Italian,
        Language::Norwegian => Stemmed::Norwegian,
        Language::Portuguese => Stemmed::Portuguese,
        Language::Romanian => Stemmed::Romanian,
        Language::Russian => Stemmed::Russian,
        Language::Spanish => Stemmed::Spanish,
        Language::Swedish => Stemmed::Swedish,
        Language::Tamil => Stemmed::Tamil,
        Language::Turkish => Stemmed::Turkish,
        Language::Chinese | Language::English | Language::Japanese | Language::Korean => Stemmed::English,
    }
}

/// Takes accents off Latin letters: many type without them.
fn fold(word: &mut String) {
    let is_accented = |character: char| matches!(character as u32, 0x00c0..=0x024f | 0x1e00..=0x1eff);
    if word.contains(is_accented) {
        *word = word.nfd().filter(|&character| !is_combining_mark(character)).collect();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ALL: &[Language] = Language::ALL;

    fn indexed(text: &str, language: Language) -> Vec<String> {
        let mut stems = Stems::default();
        let once: Vec<_> = stems.of_text(text, language).into_iter().map(|token| token.text).collect();
        let again: Vec<_> = stems.of_text(text, language).into_iter().map(|token| token.text).collect();
        assert_eq!(once, again, "a remembered stem is the same");
        once
    }

    #[test]
    fn every_language_is_stemmed_by_its_own_rules_on_both_sides() {
        for (language, text, question) in [
            (Language::English, "The connections were dropped.", "connecting"),
            (Language::German, "Die Verbindungen wurden getrennt.", "Verbindung"),
            (Language::French, "Les fichiers sont supprimés.", "fichier supprimer"),
            (Language::Spanish, "Las conexiones fueron interrumpidas.", "conexión"),
            (Language::Italian, "Le connessioni sono state interrotte.", "connessione"),
            (Language::Portuguese, "Os arquivos foram apagados.", "arquivo"),
            (Language::Dutch, "De verbindingen zijn verbroken.", "verbinding"),
            (Language::Swedish, "Anslutningarna avbröts.", "anslutning"),
            (Language::Russian, "Соединения были разорваны.", "соединение"),
        ] {
            let asked = Question::of(question, &[language]);
            let has = indexed(text, language);
            assert!(
                asked.words[0].iter().any(|word| has.contains(word)),
                "{language}: {has:?} {:?}",
                asked.words
            );
        }
    }

    #[test]
    fn a_word_has_one_form_where_only_english_is_written() {
        let question = Question::of("How do I read files? Read!", &[Language::English]);
        assert_eq!(question.words, [vec!["read".to_owned()], vec!["file".to_owned()]]);
        assert!(question.is_telling);
        assert_eq!(question.language, Language::English);
        assert_eq!(Question::of("to be or not to be", &[]).words.len(), 4);
        assert!(!Question::of("to be or not to be", &[]).is_telling);
        assert!(Question::of(" … ", ALL).words.is_empty());
    }

    #[test]
    fn small_words_tell_the_language_of_a_question() {
        for (question, language) in [
            ("Wie kann ich die Verbindung trennen?", Language::German),
            ("Comment est-ce que je peux installer un paquet ?", Language::French),
            ("Come posso installare un pacchetto con il gestore?", Language::Italian),
            ("¿Cómo puedo instalar un paquete en el sistema?", Language::Spanish),
            ("Die cast and die mould", Language::English),
            ("remove all characters in string in python", Language::English),
            ("get all dates between range", Language::English),
            ("bin means, mit license", Language::English),
            ("second y axis", Language::English),
            ("Passwort und Name", Language::German),
            ("liste des paquets", Language::French),
            ("check_same_thread", Language::English),
            ("パッケージを検索するには", Language::Japanese),
            ("如何安装软件包", Language::Chinese),
            ("как установить пакет apt", Language::Russian),
        ] {
            assert_eq!(Question::of(question, ALL).language, language, "{question}");
        }
        let german = Question::of("Wie kann ich die Verbindung trennen?", ALL);
        assert_eq!(german.words.len(), 2, "{:?}", german.words);
    }

    #[test]
    fn letters_are_the_same_however_they_are_encoded() {
        for (text, question) in [
            ("re\u{301}sume\u{301}", "r\u{e9}sum\u{e9}"),
            ("\u{304b}\u{3099}\u{3063}\u{3053}\u{3046}", "\u{304c}\u{3063}\u{3053}\u{3046}"),
            ("\u{ff21}\u{ff22}\u{ff23}", "abc"),
            ("e\u{fb03}cient", "efficient"),
            ("\u{ff76}\u{ff9e}\u{ff72}\u{ff84}\u{ff9e}", "\u{30ac}\u{30a4}\u{30c9}"),
            ("Linux\u{2122}", "linux"),
        ] {
            let asked = Question::of(question, &[Language::English]);
            let has = indexed(text, Language::English);
            let is_found = |forms: &Vec<String>| forms.iter().any(|form| has.contains(form));
            assert!(asked.words.iter().all(is_found), "{text}: {has:?} {:?}", asked.words);
        }
    }

    #[test]
    fn accents_need_not_be_typed() {
        let asked = Question::of("memoire", &[Language::French]);
        assert!(indexed("la mémoire", Language::French).iter().any(|word| asked.words[0].contains(word)));
        assert_eq!(indexed("Йод", Language::Russian), ["йод"], "only Latin letters lose theirs");
    }
}
