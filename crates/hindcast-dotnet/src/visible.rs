//! Names and texts of a program as people can see them: a program chooses its names, and may choose some that do something to a
//! terminal or pretend to be another line.

use std::{borrow::Cow, fmt::Write};

/// A name with escapes, as strings have them, for what cannot be seen.
pub(crate) fn visible(name: &str) -> Cow<'_, str> {
    if !name.contains(is_unseen) {
        return Cow::Borrowed(name);
    }
    let mut out = String::with_capacity(name.len() + 8);
    for character in name.chars() {
        if is_unseen(character) { escape(character, &mut out) } else { out.push(character) }
    }
    Cow::Owned(out)
}

/// Appends a character of a string.
pub(crate) fn escape(character: char, out: &mut String) {
    match character {
        '\\' => out.push_str("\\\\"),
        '\0' => out.push_str("\\0"),
        '\x07' => out.push_str("\\a"),
        '\x08' => out.push_str("\\b"),
        '\x0b' => out.push_str("\\v"),
        '\x0c' => out.push_str("\\f"),
        '\n' => out.push_str("\\n"),
        '\r' => out.push_str("\\r"),
        '\t' => out.push_str("\\t"),
        _ if is_unseen(character) => {
            let _ = write!(out, "\\u{:04x}", u32::from(character));
        }
        _ => out.push(character),
    }
}

/// Control characters; line and paragraph separators, marks of direction, and the mark of a byte order.
fn is_unseen(character: char) -> bool {
    character.is_control()
        || matches!(
            character,
            '\u{2028}' | '\u{2029}' | '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}' | '\u{feff}'
        )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_can_be_seen() {
        assert_eq!(visible("worker\n\u{1b}[31m\0"), "worker\\n\\u001b[31m\\0");
        assert_eq!(visible("\u{202e}tac\u{2066}"), "\\u202etac\\u2066");
        for plain in ["", "Grüße", "List<int>", r"C:\app\main.pdb"] {
            assert!(matches!(visible(plain), Cow::Borrowed(same) if same == plain));
        }
    }
}
