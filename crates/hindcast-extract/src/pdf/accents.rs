//! Accents that a PDF draws as signs of their own, as TeX's older fonts have them: `Math´ematiques`.

use unicode_normalization::char::compose;

/// What is drawn, and what it means on the letter behind it.
const ACCENTS: [(char, char); 7] = [
    ('´', '\u{301}'),
    ('`', '\u{300}'),
    ('¨', '\u{308}'),
    ('ˆ', '\u{302}'),
    ('˜', '\u{303}'),
    ('ˇ', '\u{30c}'),
    ('˚', '\u{30a}'),
];

/// The text with such accents on their letters.
pub(super) fn put_on_letters(text: String) -> String {
    if !text.contains(ACCENTS.map(|(sign, _)| sign)) {
        return text;
    }
    let mut whole = String::with_capacity(text.len());
    let mut rest = text.chars().peekable();
    while let Some(char) = rest.next() {
        let accent = ACCENTS.iter().find(|(sign, _)| *sign == char).map(|(_, accent)| *accent);
        // A backtick is a quotation mark as well, unless it stands within a word.
        let may_be_one = char != '`' || whole.chars().next_back().is_some_and(char::is_alphabetic);
        let letter = rest.peek().map(|letter| if *letter == 'ı' { 'i' } else { *letter });
        match accent.filter(|_| may_be_one).and_then(|accent| compose(letter?, accent)) {
            Some(composed) => {
                rest.next();
                whole.push(composed);
            }
            None => whole.push(char),
        }
    }
    whole
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn accents_are_put_on_the_letters_behind_them() {
        for (drawn, meant) in [
            ("Institut de Math´ematiques, Universit´e", "Institut de Mathématiques, Université"),
            ("`A la carte: tr`es bien, na¨ıve Gr¨oße", "`A la carte: très bien, naïve Größe"),
            ("``quoted'' and `code`, 20˚ north", "``quoted'' and `code`, 20˚ north"),
            ("´ alone and ~ tilde", "´ alone and ~ tilde"),
        ] {
            assert_eq!(put_on_letters(drawn.into()), meant);
        }
    }
}
