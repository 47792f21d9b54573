//! Names that users give: how long they may be, and how much of them is repeated.

use std::borrow::Cow;

/// No program has longer names, in bytes. Comparing a longer one with all names of a program takes seconds.
pub const LONGEST_NAME: usize = 4096;

/// How many characters of what a user wrote are repeated in an error.
const REPEATED: usize = 100;

/// The beginning of what a user wrote, to be repeated in an error.
pub fn cut(text: &str) -> Cow<'_, str> {
    match text.char_indices().nth(REPEATED) {
        None => text.into(),
        Some((end, _)) => format!("{}…", &text[..end]).into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_texts_are_cut_between_characters() {
        assert_eq!(cut("main"), "main");
        assert_eq!(cut(&"é".repeat(100)), "é".repeat(100));
        assert_eq!(cut(&"é".repeat(101)), "é".repeat(100) + "…");
    }
}
