//! Secrets in the texts that engines write for values: `{user = "ann", password = 0x4010 "hunter2"}`.

use std::ops::Range;

use hindcast_core::debug::{
    Variable,
    secret_names::{self as names, Named},
};

use super::assigned;

/// The longest text that is the name of something.
const LONGEST_NAME: usize = 64;
/// How many small numbers in a list may be a key.
const BYTES_OF_A_KEY: usize = 8;
/// How the two parts of a pair are called.
const PAIRS: [(&str, &str); 7] = [
    ("key", "value"),
    ("name", "value"),
    ("first", "second"),
    ("item1", "item2"),
    ("0", "1"),
    ("__0", "__1"),
    ("k", "v"),
];

/// The text of a value, and where texts of the program are in it.
pub(super) struct ValueText<'t> {
    text: &'t str,
    literals: Vec<Literal>,
}

/// `"text"`, `'c'` or `99 'c'`.
#[derive(Debug, Clone)]
struct Literal {
    whole: Range<usize>,
    content: Range<usize>,
    is_character: bool,
}

impl<'t> ValueText<'t> {
    pub(super) fn new(text: &'t str) -> Self {
        let mut literals = Vec::new();
        let mut at = 0;
        while let Some(found) = text[at..].find(['"', '\'']).map(|found| at + found) {
            let literal = match text.as_bytes()[found] {
                b'"' => Some(quoted(text, found)),
                _ => character(text, found),
            };
            at = literal.as_ref().map_or(found + 1, |literal| literal.whole.end);
            literals.extend(literal);
        }
        Self { text, literals }
    }

    /// Whether it is a text, perhaps behind its address or in `Some`, and no list or structure.
    pub(super) fn is_one_text(&self) -> bool {
        let [literal] = self.literals.as_slice() else { return false };
        let around = [&self.text[..literal.whole.start], &self.text[literal.whole.end..]];
        !around.iter().any(|text| text.contains(['{', '[', ',']))
    }

    /// Whether it is the text of a token of this name. A character is one that a parser reads, unless it was
    /// picked out of a text.
    pub(super) fn is_token(&self, name: &str) -> bool {
        let is_picked = name.contains('[');
        self.is_one_text() && self.literals.iter().all(|literal| is_picked || !literal.is_character)
    }

    /// The contents of all texts, but for those that values are found by.
    pub(super) fn texts(&self) -> Vec<Range<usize>> {
        self.texts_within(0..self.text.len())
    }

    fn texts_within(&self, range: Range<usize>) -> Vec<Range<usize>> {
        let within =
            |literal: &&Literal| range.start <= literal.whole.start && literal.whole.end <= range.end;
        let hidden = self.literals.iter().filter(within).filter(|literal| !self.is_key(literal));
        hidden
            .map(|literal| if literal.is_character { literal.whole.clone() } else { literal.content.clone() })
            .filter(|range| !range.is_empty())
            .collect()
    }

    fn is_key(&self, literal: &Literal) -> bool {
        self.text[..literal.whole.start].ends_with('[') && self.text[literal.whole.end..].starts_with("] = ")
    }

    /// Where values are that have the name of a secret: `password = "…"`, `["PASSWORD"] = "…"`, `("password", "…")`.
    /// The brackets of `["password", "…"]` are those of a pair, or of a list that happens to name something.
    pub(super) fn secrets(&self, brackets_may_be_pairs: bool) -> Vec<Range<usize>> {
        let mut found = Vec::new();
        for (name, end) in names::identifiers(self.text) {
            if self.literals.iter().any(|literal| literal.whole.contains(&(end - 1))) {
                continue;
            }
            if let (Some(named), Some(value)) = (names::named(name), self.assigned_at(end)) {
                self.hide(value, named, &mut found);
            }
        }
        for literal in self.literals.iter().filter(|literal| !literal.is_character) {
            let Some(named) = secret_name(&self.text[literal.content.clone()]) else { continue };
            let after = literal.whole.end;
            let after_key = if self.text[after..].starts_with(']') { after + 1 } else { after };
            if let Some(value) = self.assigned_at(after_key) {
                self.hide(value, named, &mut found);
            } else if let Some(value) = self.other_half(literal, brackets_may_be_pairs) {
                self.hide(value, named, &mut found);
            } else if let Some(value) = self.argument_of(literal) {
                self.hide(value, named, &mut found);
            }
        }
        found
    }

    fn hide(&self, value: Range<usize>, named: Named, found: &mut Vec<Range<usize>>) {
        let inner = ValueText::new(&self.text[value.clone()]);
        match named {
            Named::Token if !inner.is_token("") => {}
            _ if is_key_in_bytes(inner.text) => found.push(value),
            _ => found.extend(self.texts_within(value)),
        }
    }

    /// The value that ` = ` or `: ` gives to what ends there.
    fn assigned_at(&self, end: usize) -> Option<Range<usize>> {
        let rest = &self.text[end..];
        let value = [" = ", ": ", " => ", "=>", "="].iter().find_map(|sign| rest.strip_prefix(sign))?;
        let start = self.text.len() - value.len();
        Some(start..self.end_of_value(start))
    }

    /// What is with a key in a pair or a tuple.
    fn other_half(&self, key: &Literal, brackets_may_be_pairs: bool) -> Option<Range<usize>> {
        let start = self.text[key.whole.end..].strip_prefix(", ")?;
        let start = self.text.len() - start.len();
        // The address of a C string.
        let before = self.text[..key.whole.start].trim_end_matches(' ');
        let word = before.rfind(|letter: char| !letter.is_ascii_alphanumeric()).map_or(0, |at| at + 1);
        let before =
            if before[word..].starts_with("0x") { before[..word].trim_end_matches(' ') } else { before };
        if let Some(named) = before.strip_suffix(['=', ':']).map(|before| before.trim_end_matches(' ')) {
            let first = named.rsplit(|letter: char| !is_name_letter(letter)).next()?;
            let opens = named[..named.len() - first.len()].trim_end_matches(' ').ends_with(['{', '(']);
            let second = self.text[start..].split(|letter: char| !is_name_letter(letter)).next()?;
            return (opens && is_pair(first, second)).then(|| start..self.end_of_value(start));
        }
        let end = self.end_of_value(start);
        match before.chars().next_back()? {
            // Of a tuple all the rest.
            '(' => Some(start..self.end_of_list(start)),
            '[' | '{' if brackets_may_be_pairs && self.text[end..].starts_with([']', '}']) => {
                Some(start..end)
            }
            _ => None,
        }
    }

    /// What is behind an option in a list of arguments: `["--password", "…"]`.
    fn argument_of(&self, option: &Literal) -> Option<Range<usize>> {
        let value = self.text[option.whole.end..].strip_prefix(", ")?;
        let start = self.text.len() - value.len();
        let follows = names::takes_secret(&self.text[option.content.clone()]) && !value.starts_with("\"-");
        follows.then(|| start..self.end_of_value(start))
    }

    fn end_of_value(&self, start: usize) -> usize {
        self.end(start, true)
    }

    fn end_of_list(&self, start: usize) -> usize {
        self.end(start, false)
    }

    fn end(&self, start: usize, at_comma: bool) -> usize {
        let mut depth = 0u32;
        let mut at = start;
        while let Some(letter) = self.text[at..].chars().next() {
            if let Some(literal) = self.literals.iter().find(|literal| literal.whole.contains(&at)) {
                at = literal.whole.end.max(at + 1);
                continue;
            }
            match letter {
                '{' | '[' | '(' => depth += 1,
                '}' | ']' | ')' if depth == 0 => return at,
                '}' | ']' | ')' => depth -= 1,
                ',' if depth == 0 && at_comma => return at,
                '\n' => return at,
                _ => {}
            }
            at += letter.len_utf8();
        }
        self.text.len()
    }
}

fn quoted(text: &str, start: usize) -> Literal {
    let content = start + 1..start + 1 + assigned::end_of_quoted(&text[start + 1..], '"', 0);
    let end = text.len().min(content.end + 1);
    Literal { whole: start..end, content, is_character: false }
}

/// A character, with the number that C has for it. An apostrophe is none.
fn character(text: &str, start: usize) -> Option<Literal> {
    if text[..start].ends_with(char::is_alphanumeric) {
        return None;
    }
    let inner = &text[start + 1..];
    let length = match inner.strip_prefix('\\') {
        Some(escaped) => 1 + escaped.chars().next()?.len_utf8(),
        None => inner.chars().next()?.len_utf8(),
    };
    // An escape may go on: `\x7f`.
    let more = inner
        .get(length..)?
        .find('\'')
        .filter(|more| *more == 0 || (inner.starts_with('\\') && *more <= 8))?;
    let content = start + 1..start + 1 + length + more;
    let number = text[..start].trim_end_matches(' ').trim_end_matches(|letter: char| letter.is_ascii_digit());
    let number = if text[..start].ends_with(' ') {
        number.strip_suffix('-').unwrap_or(number)
    } else {
        &text[..start]
    };
    let begin = if text[number.len()..start].trim().is_empty() { start } else { number.len() };
    Some(Literal { whole: begin..content.end + 1, content, is_character: true })
}

/// What a text names, if it names a secret.
fn secret_name(text: &str) -> Option<Named> {
    let is_name = text.len() <= LONGEST_NAME
        && text.chars().all(|letter| is_name_letter(letter) || ".:-".contains(letter));
    if is_name { names::named(text) } else { None }
}

fn is_name_letter(letter: char) -> bool {
    letter.is_alphanumeric() || letter == '_'
}

fn is_pair(first: &str, second: &str) -> bool {
    PAIRS.iter().any(|(one, other)| first.eq_ignore_ascii_case(one) && second.eq_ignore_ascii_case(other))
}

/// What the first part of a pair or a tuple names, if that is a secret; it tells what the others are.
pub(super) fn key_of_pair(children: &[Variable]) -> Option<Named> {
    let [first, second, ..] = children else { return None };
    if !is_pair(&first.name, &second.name) {
        return None;
    }
    let value = ValueText::new(&first.value);
    let literal = value.literals.first().filter(|_| value.is_one_text())?;
    secret_name(&first.value[literal.content.clone()])
}

/// Whether this item of a list of arguments is an option whose secret comes next.
pub(super) fn takes_secret(item: &Variable, next: &Variable) -> bool {
    let value = ValueText::new(&item.value);
    let Some(option) = value.literals.first().filter(|_| value.is_one_text()) else { return false };
    item.name.starts_with('[')
        && names::takes_secret(&item.value[option.content.clone()])
        && !next.value.contains("\"-")
}

/// Whether it is a list of so many bytes as a key has.
fn is_key_in_bytes(text: &str) -> bool {
    let Some(list) = text.strip_prefix(['[', '{']) else { return false };
    let items: Vec<_> = list.trim_end_matches([']', '}', '…', ' ', ',']).split(", ").collect();
    items.len() >= BYTES_OF_A_KEY && items.iter().all(|item| item.parse::<u8>().is_ok())
}

/// The expressions of a template, with their braces, that would show a secret. What only measures or compares one
/// does not.
pub(super) fn secret_holes(template: &str) -> Vec<Range<usize>> {
    let mut holes = Vec::new();
    let mut at = 0;
    while let Some(open) = template[at..].find('{').map(|found| at + found) {
        if template[open..].starts_with("{{") {
            at = open + 2;
            continue;
        }
        // The engine says what is wrong with one that is not closed.
        let Some(end) = end_of_hole(template, open) else { break };
        let expression = &template[open + 1..end - 1];
        if names::named(expression).is_some() && !measures(expression) {
            holes.push(open..end);
        }
        at = end;
    }
    holes
}

/// Braces in quotes do not end it, and those of an interpolated string are in pairs.
fn end_of_hole(template: &str, open: usize) -> Option<usize> {
    let literals = ValueText::new(&template[open..]).literals;
    let mut depth = 0u32;
    for (at, letter) in template[open..].char_indices() {
        if literals.iter().any(|literal| literal.whole.contains(&at)) {
            continue;
        }
        match letter {
            '{' => depth += 1,
            '}' if depth == 1 => return Some(open + at + 1),
            '}' => depth -= 1,
            _ => {}
        }
    }
    None
}

fn measures(expression: &str) -> bool {
    let compares =
        ["==", "!=", "<", ">"].iter().any(|sign| expression.contains(sign)) && !expression.contains('?');
    let lower = expression.to_ascii_lowercase();
    let counts = ["length", ".count", "len()", "size()", "strlen(", "sizeof("].iter().any(|word| {
        lower.trim_end_matches([')', ' ']).ends_with(word.trim_end_matches([')', '(']))
            || lower.starts_with(word)
    });
    compares || counts
}

#[cfg(test)]
mod tests;
