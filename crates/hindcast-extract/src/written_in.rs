//! What a text is written in.

use whatlang::{Detector, Lang};

/// More of a text than this tells no more, in bytes.
const READ_AT_MOST: usize = 4 * 1024;

/// Fewer letters are a guess.
const FEWEST_LETTERS: usize = 40;

/// Languages whose texts look much like those of others and are rare: taken for what they look like.
const UNLIKELY: [Lang; 4] = [Lang::Epo, Lang::Lat, Lang::Afr, Lang::Cat];

/// The commonest words of languages that are written in Latin letters. In prose every tenth word and more is one of them.
const COMMON: &[(&str, &[&str])] = &[
    ("da", &["og", "i", "at", "det", "er", "en", "til", "af", "ikke", "for"]),
    (
        "de",
        &["der", "die", "das", "und", "ist", "nicht", "ein", "eine", "zu", "den", "mit", "von", "sie", "es"],
    ),
    ("es", &["de", "la", "que", "el", "en", "y", "los", "se", "del", "las", "un", "una", "por", "con"]),
    ("fi", &["ja", "on", "ei", "se", "että", "joka", "tai", "kun", "mutta", "ovat"]),
    ("fr", &["de", "la", "le", "et", "les", "des", "un", "une", "est", "en", "que", "du", "pour", "dans"]),
    ("hu", &["a", "az", "és", "hogy", "nem", "is", "egy", "van", "ha", "de"]),
    ("it", &["di", "che", "e", "la", "il", "un", "una", "per", "non", "è", "in", "con", "le", "del"]),
    ("nb", &["og", "i", "det", "er", "en", "til", "på", "av", "som", "ikke"]),
    ("nl", &["de", "het", "een", "en", "van", "is", "dat", "niet", "op", "te", "in", "zijn"]),
    ("pt", &["de", "que", "em", "um", "uma", "para", "não", "dos", "das", "são", "por", "mais"]),
    ("ro", &["de", "și", "în", "la", "a", "cu", "pe", "nu", "este", "un"]),
    ("sv", &["och", "i", "att", "det", "som", "en", "är", "av", "på", "inte"]),
    ("tr", &["ve", "bir", "bu", "için", "ile", "de", "da", "olarak", "olan", "daha"]),
];

/// Of how many words one must be a common one. Source code that looks like a language to the detector has next to none.
const COMMON_AT_LEAST: usize = 25;

/// The language of a text, as a code of ISO 639-1; none where it cannot be told, or where the text is mostly code. Code blocks
/// do not count.
pub fn written_in(text: &str) -> Option<&'static str> {
    let prose = prose(text);
    if prose.chars().filter(|character| character.is_alphabetic()).count() < FEWEST_LETTERS {
        return None;
    }
    let found = Detector::with_denylist(UNLIKELY.to_vec()).detect(&prose)?;
    let code = found.is_reliable().then(|| code(found.lang())).flatten()?;
    has_common_words(&prose, code).then_some(code)
}

/// Whether prose has the words that no prose of a language is without.
fn has_common_words(prose: &str, code: &str) -> bool {
    let Some((_, common)) = COMMON.iter().find(|(one, _)| *one == code) else { return true };
    let words = prose.split(|character: char| !character.is_alphanumeric()).filter(|word| !word.is_empty());
    let (mut all, mut found) = (0, 0);
    for word in words {
        all += 1;
        // One letter is a variable in code.
        found += usize::from(word.chars().count() > 1 && common.contains(&&*word.to_lowercase()));
    }
    found * COMMON_AT_LEAST >= all
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
            (
                "def render_template(template_name, **context):\n    \"\"\"Render a template into a response.\"\"\"\n    \
                 tmpl = jinja_env.get_template(template_name)\n    context[\"url_for\"] = url_for\n    return \
                 Response(tmpl.render(context), mimetype=\"text/html\")",
                None,
            ),
            ("", None),
        ] {
            assert_eq!(written_in(text), language, "{text}");
        }
        let mixed = "```\nlet connection = open(path).unwrap();\n```\nDie Verbindung wird nach einer Weile geschlossen, \
                     weil sonst zu viele offen sind.";
        assert_eq!(written_in(mixed), Some("de"));
    }
}
