//! Languages that people write in, as far as word search tells them apart.

use std::fmt;

macro_rules! languages {
    ($($name:ident $code:literal $english:literal,)*) => {
        /// A language that a text is written in.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum Language {
            $(#[doc = $english] $name,)*
        }

        impl Language {
            /// All of them.
            pub const ALL: &[Self] = &[$(Self::$name,)*];

            /// The code of ISO 639-1, such as `de`.
            pub fn code(self) -> &'static str {
                match self { $(Self::$name => $code,)* }
            }

            /// The English name, such as `German`.
            pub fn name(self) -> &'static str {
                match self { $(Self::$name => $english,)* }
            }
        }
    };
}

languages! {
    Arabic "ar" "Arabic",
    Chinese "zh" "Chinese",
    Danish "da" "Danish",
    Dutch "nl" "Dutch",
    English "en" "English",
    Finnish "fi" "Finnish",
    French "fr" "French",
    German "de" "German",
    Greek "el" "Greek",
    Hungarian "hu" "Hungarian",
    Italian "it" "Italian",
    Japanese "ja" "Japanese",
    Korean "ko" "Korean",
    Norwegian "nb" "Norwegian",
    Portuguese "pt" "Portuguese",
    Romanian "ro" "Romanian",
    Russian "ru" "Russian",
    Spanish "es" "Spanish",
    Swedish "sv" "Swedish",
    Tamil "ta" "Tamil",
    Turkish "tr" "Turkish",
}

impl Language {
    /// The language of a tag such as `de`, `de-AT`, `pt_BR` or `German`; none for one that word search does not know.
    pub fn of_tag(tag: &str) -> Option<Self> {
        let tag = tag.trim();
        let primary = tag.split(['-', '_']).next().unwrap_or(tag);
        // Two of Norwegian are written, and the older tag means either.
        if ["no", "nn"].iter().any(|code| primary.eq_ignore_ascii_case(code)) {
            return Some(Self::Norwegian);
        }
        let is_meant =
            |one: &&Self| one.code().eq_ignore_ascii_case(primary) || one.name().eq_ignore_ascii_case(tag);
        Self::ALL.iter().find(is_meant).copied()
    }
}

impl fmt::Display for Language {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.code())
    }
}

/// Whether words of this script are not set apart, or, as in Korean, carry endings: Thai, Lao, Japanese, Chinese, Hangul.
pub fn is_unspaced(character: char) -> bool {
    matches!(character as u32,
        0x0e00..=0x0eff | 0x3005..=0x3007 | 0x3040..=0x30ff | 0x3400..=0x4dbf | 0x4e00..=0x9fff | 0xac00..=0xd7af
        | 0xf900..=0xfaff | 0x20000..=0x3ffff)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tags_are_read_in_every_usual_form() {
        for (tag, language) in [
            ("de", Some(Language::German)),
            ("DE-at", Some(Language::German)),
            ("pt_BR", Some(Language::Portuguese)),
            ("no", Some(Language::Norwegian)),
            ("German", Some(Language::German)),
            ("tlh", None),
            ("", None),
        ] {
            assert_eq!(Language::of_tag(tag), language, "{tag}");
        }
        assert!(Language::ALL.iter().all(|&language| Language::of_tag(language.code()) == Some(language)));
    }
}
