//! Text of others on its way to a terminal, where some characters are commands.

use std::{borrow::Cow, fmt::Write as _};

/// The text in one line that only shows what it says: line breaks, control characters and those that turn the direction of
/// writing are spelt out, such as `\u{1b}`.
pub fn printable(text: &str) -> Cow<'_, str> {
    escaped(text, acts_on_terminals)
}

/// The same of a text that may have lines and tabs. Lines may end as Windows ends them.
pub fn printable_lines(text: &str) -> Cow<'_, str> {
    let is_escaped = |letter| acts_on_terminals(letter) && !matches!(letter, '\n' | '\t');
    match text.contains("\r\n") {
        true => Cow::Owned(escaped(&text.replace("\r\n", "\n"), is_escaped).into_owned()),
        false => escaped(text, is_escaped),
    }
}

fn escaped(text: &str, is_escaped: impl Fn(char) -> bool) -> Cow<'_, str> {
    if !text.contains(&is_escaped) {
        return Cow::Borrowed(text);
    }
    let mut shown = String::with_capacity(text.len() + 8);
    for letter in text.chars() {
        match letter {
            letter if !is_escaped(letter) => shown.push(letter),
            '\n' => shown.push_str("\\n"),
            '\r' => shown.push_str("\\r"),
            '\t' => shown.push_str("\\t"),
            // Writing to a text never fails.
            letter => drop(write!(shown, "\\u{{{:x}}}", u32::from(letter))),
        }
    }
    Cow::Owned(shown)
}

/// Whether a terminal would do something else than show it: control characters, line separators, and marks by which text is
/// shown in another order than it is read.
pub fn acts_on_terminals(letter: char) -> bool {
    letter.is_control()
        || matches!(letter, '\u{2028}' | '\u{2029}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_terminal_would_obey_is_spelt_out() {
        assert_eq!(printable("\u{1b}]0;title\u{7}"), "\\u{1b}]0;title\\u{7}");
        assert_eq!(printable("a\nforged row\r"), "a\\nforged row\\r");
        assert_eq!(printable("\u{9b}31m \u{202e}txt.exe"), "\\u{9b}31m \\u{202e}txt.exe");
        assert_eq!(printable_lines("a\n\tb\u{1b}[2J"), "a\n\tb\\u{1b}[2J");
        assert_eq!(printable_lines("a\r\nb\rforged"), "a\nb\\rforged");
    }

    #[test]
    fn what_people_write_stays_as_it_is() {
        for text in ["naïve 東京 עברית 👩‍👩‍👧", "C:\\new", ""] {
            assert!(matches!(printable(text), Cow::Borrowed(same) if same == text), "{text}");
        }
    }
}
