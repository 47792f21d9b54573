//! What a text is written in.

use whatlang::{Detector, Lang};

/// More of a text than this tells no more, in bytes.
const READ_AT_MOST: usize = 4 * 1024;

/// Fewer letters are a guess.
const FEWEST_LETTERS: usize = 40;

/// Languages whose texts look much like those of others and are rare: taken for what they look like.
const UNLIKELY: [Lang; 4] = [Lang::Epo, Lang::Lat, Lang::Afr, Lang::Cat];

/// The language of a text, as a code of ISO 639-1; none where it cannot be told, or where the text is mostly code. Code blocks
/// do not count.
pub fn written_in(text: &str) -> Option<&'static str> {
    let prose = prose(text);
    if prose.chars().filter(|character| character.is_alphabetic()).count() < FEWEST_LETTERS {
        return None;
    }
    let found = Detector::with_denylist(UNLIKELY.to_vec()).detect(&prose)?;
    found.is_reliable().then(|| code(found.lang())).flatten()
}

/// The beginning of a text without its fenced code blocks.
fn prose(text: &str) -> String {
    let mut prose = String::new();
    let mut in_code = false;
    for line in text.lines() {
        let is_fence = line.trim_start().starts_with("```");
        in_code ^= is_fence;
        if !in_code && !is_fence {
            prose.push_str(line);
            prose.push('\n');
        }
        if prose.len() > READ_AT_MOST {
            break;
        }
    }
    let end = prose.floor_char_boundary(READ_AT_MOST);
    prose.truncate(end);
    prose
}

fn code(language: Lang) -> Option<&'static str> {
    Some(match language {
        Lang::Ara => "ar",
        Lang::Cmn => "zh",
        Lang::Dan => "da",
        Lang::Deu => "de",
        Lang::Ell => "el",
        Lang::Eng => "en",
        Lang::Fin => "fi",
        Lang::Fra => "fr",
        Lang::Hun => "hu",
        Lang::Ita => "it",
        Lang::Jpn => "ja",
        Lang::Kor => "ko",
        Lang::Nld => "nl",
        Lang::Nob => "nb",
        Lang::Por => "pt",
        Lang::Ron => "ro",
        Lang::Rus => "ru",
        Lang::Spa => "es",
        Lang::Swe => "sv",
        Lang::Tam => "ta",
        Lang::Tur => "tr",
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prose_tells_its_language_and_code_does_not() {
        for (text, language) in [
            ("The connection is closed when nobody has used it for a while.", Some("en")),
            ("Die Verbindung wird geschlossen, wenn sie eine Weile niemand benutzt hat.", Some("de")),
            ("La connexion est fermée lorsque personne ne l'a utilisée pendant un moment.", Some("fr")),
            (
                "La connessione viene chiusa quando nessuno la usa per un po' di tempo, perché altrimenti ce ne sarebbero \
                 troppe aperte e il programma non potrebbe aprirne delle altre.",
                Some("it"),
            ),
            (
                "Соединение закрывается, если им некоторое время никто не пользовался, потому что иначе их было бы открыто \
                 слишком много, и программа не могла бы открыть ещё одно.",
                Some("ru"),
            ),
            (
                "接続は、しばらく誰も使用しなかった場合に閉じられます。しばらくお待ちください。接続が切れました。",
                Some("ja"),
            ),
            ("fn main() {}", None),
            ("", None),
        ] {
            assert_eq!(written_in(text), language, "{text}");
        }
        let mixed = "```\nlet connection = open(path).unwrap();\n```\nDie Verbindung wird nach einer Weile geschlossen, \
                     weil sonst zu viele offen sind.";
        assert_eq!(written_in(mixed), Some("de"));
    }
}
