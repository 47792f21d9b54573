//! Secrets in text, by the names that they are given to: `password=…`, `"apiKey": "…"`, `<secret>…</secret>`.

use std::ops::Range;

use hindcast_core::debug::secret_names::{self as names, Named};

/// What stands for no value, and what code declares a value to be.
const NO_SECRETS: [&str; 28] = [
    "any",
    "bool",
    "boolean",
    "bytes",
    "char",
    "empty",
    "expired",
    "false",
    "hidden",
    "incorrect",
    "invalid",
    "missing",
    "nil",
    "no",
    "none",
    "null",
    "number",
    "object",
    "ok",
    "optional",
    "required",
    "securestring",
    "str",
    "string",
    "true",
    "undefined",
    "wrong",
    "yes",
];
/// What may stand before the secret of an `Authorization`.
const SCHEMES: [&str; 7] = ["basic", "bearer", "digest", "negotiate", "ntlm", "token", "aws4-hmac-sha256"];

/// Where texts are that are given to the name of a secret. Code that computes one is not a secret, and neither is a sentence
/// about one.
pub(super) fn find(text: &str, found: &mut Vec<Range<usize>>) {
    for (name, after) in names::identifiers(text) {
        let at = Place { text, start: after - name.len(), after };
        let secret = match names::ends_as_secret(name) {
            Some(named) => at.given(name, named),
            None if names::is_header(name) => at.header(),
            None if names::is_signature(name) && at.is_in_a_query() => at.given(name, Named::Secret),
            None => None,
        };
        found.extend(secret.filter(|secret| !secret.is_empty()));
    }
}

/// Where a name is in a text.
#[derive(Clone, Copy)]
struct Place<'t> {
    text: &'t str,
    start: usize,
    after: usize,
}

/// A value behind its sign.
struct Given<'t> {
    sign: char,
    value: &'t str,
    /// Whether there is no space around the sign.
    is_tight: bool,
}

impl<'t> Place<'t> {
    fn given(self, name: &str, named: Named) -> Option<Range<usize>> {
        let secret = match self.sign() {
            Some(given) => self.behind_sign(&given, name, named)?,
            None => self.element().or_else(|| self.of_pair()).or_else(|| self.argument(name))?,
        };
        // One character is a token of a parser.
        (named == Named::Secret || secret.len() > 1).then_some(secret)
    }

    fn rest(self) -> &'t str {
        &self.text[self.after..]
    }

    fn line_before(self) -> &'t str {
        let before = &self.text[..self.start];
        before.rfind('\n').map_or(before, |end| &before[end + 1..])
    }

    /// What begins at `value`, which is the end of the text.
    fn range(self, value: &str, length: usize) -> Range<usize> {
        let start = self.text.len() - value.len();
        start..start + length
    }

    fn sign(self) -> Option<Given<'t>> {
        let rest = without_quote(self.rest());
        let spaced = rest.trim_start_matches(' ');
        let sign = spaced.chars().next().filter(|sign| "=:".contains(*sign))?;
        // Ruby has a mapping in an arrow.
        let (sign, length) = if spaced.starts_with("=>") { (':', 2) } else { (sign, 1) };
        let value = spaced[length..].trim_start_matches(' ');
        Some(Given { sign, value, is_tight: rest.len() == value.len() + length })
    }

    fn behind_sign(self, given: &Given<'t>, name: &str, named: Named) -> Option<Range<usize>> {
        let value = given.value;
        if let Some((inner, length)) = quoted(value) {
            return Some(self.range(inner, length));
        }
        if given.is_tight {
            let end = |letter: char| letter.is_whitespace() || "&;,\"')(".contains(letter);
            let length = value.find(end).unwrap_or(value.len());
            // The quote behind it is one inside of another text.
            let is_quoted = value[length..].starts_with(['"', '\'']);
            let word = if is_quoted { value[..length].trim_end_matches('\\') } else { &value[..length] };
            // A call or a comparison is code.
            let is_code = value[length..].starts_with('(') || value.starts_with('=');
            let is_folder = ["PWD", "OLDPWD"].contains(&name) && word.starts_with('/');
            return (!is_code && !is_folder).then(|| self.range(value, word.len()));
        }
        let length = match given.sign {
            ':' => self.of_mapping(value)?,
            _ => self.of_record(value).or_else(|| self.of_setting(value))?,
        };
        // Parsers print tokens, too.
        (named == Named::Secret || looks_random(&value[..length])).then(|| self.range(value, length))
    }

    /// `password: x`, and no sentence as `password: must not be empty`.
    fn of_mapping(self, value: &str) -> Option<usize> {
        let length = word_length(value);
        let word = &value[..length];
        if !may_be_secret(word) {
            return None;
        }
        let after = value[length..].trim_start_matches(' ');
        let next = after.split(|letter: char| letter.is_whitespace()).next().unwrap_or_default();
        let ends = after.is_empty() || after.starts_with(['\n', '\r', '#', '"', '\\']);
        let goes_on = next.len() > 1 && (next.ends_with(':') || next[1..].contains('='));
        (ends || goes_on || looks_random(word)).then_some(length)
    }

    /// `Login { User = u, Password = x }`, as records and objects without a type describe themselves. Code that makes one has the
    /// same form.
    fn of_record(self, value: &str) -> Option<usize> {
        let before = self.line_before();
        let open = before.rfind('{')?;
        let maker = before[..open].trim_end_matches(' ');
        let is_code = maker.ends_with(')')
            || maker.ends_with("with")
            || maker.rsplit([';', '=', '(', ',']).next().is_some_and(|word| word.trim().starts_with("new"));
        let length = value.find([',', '}', '\n', '"', ';']).map_or(value.len(), |end| end);
        let shown = value[..length].trim_end_matches([' ', '\\']);
        let is_ended = value[length..].starts_with(';');
        (!is_code && !is_ended && may_be_secret(shown)).then_some(shown.len())
    }

    /// `password = x` in a line of its own.
    fn of_setting(self, value: &str) -> Option<usize> {
        let length = word_length(value);
        let is_all = value[length..].trim_start_matches([' ', '\r']).is_empty()
            || value[length..].trim_start_matches([' ', '\r']).starts_with(['\n', '"', '\\']);
        let begins = self.line_before().trim_matches([' ', '\t', '"']).is_empty();
        (begins && is_all && may_be_secret(&value[..length])).then_some(length)
    }

    /// `<password>x</password>`.
    fn element(self) -> Option<Range<usize>> {
        let before = self.text[..self.start].rsplit(|letter: char| !is_xml_name(letter));
        let prefix = before.clone().next().unwrap_or_default();
        let is_open = self.text[..self.start - prefix.len()].ends_with('<');
        let (attributes, content) = self.rest().split_once('>').filter(|_| is_open)?;
        let is_tag = !attributes.contains('<') && !attributes.ends_with('/');
        let length = content.find('<').filter(|end| is_tag && content[*end..].starts_with("</"))?;
        Some(self.range(content, length))
    }

    /// `key="password" value="x"` and `"name": "password", "value": "x"`.
    fn of_pair(self) -> Option<Range<usize>> {
        let rest = self.rest();
        let closed = without_quote(rest);
        let next = without_quote(closed.trim_start_matches([' ', ',', '\n', '\r', '\t']));
        let is_value = next.len() < rest.len() && next.get(..5)?.eq_ignore_ascii_case("value");
        let value = without_quote(next.get(5..).filter(|_| is_value)?).trim_start_matches(' ');
        let value = value.strip_prefix(['=', ':'])?.trim_start_matches(' ');
        let (inner, length) = quoted(value)?;
        Some(self.range(inner, length))
    }

    /// `--password x`.
    fn argument(self, name: &str) -> Option<Range<usize>> {
        let value = self.rest().strip_prefix([' ', ',']).filter(|_| name.starts_with("--"))?;
        let length = word_length(value);
        let is_last = value[length..].trim_start_matches(' ').starts_with('-');
        let is_word = !value.starts_with('-') && (is_last || looks_random(&value[..length]));
        (is_word && may_be_secret(&value[..length])).then(|| self.range(value, length))
    }

    /// `Authorization: Basic x` and `Cookie: a=x; b=y`, which say who someone is.
    fn header(self) -> Option<Range<usize>> {
        let given = self.sign()?;
        let is_line = quoted(given.value).is_none();
        let (value, length) = quoted(given.value).unwrap_or_else(|| {
            let end = given.value.find(['\n', '\r', '"']);
            (given.value, end.unwrap_or(given.value.len()))
        });
        // A quote behind `=` is one of the header's own, and ends no text around it.
        let has_quotes = is_line && value[..length].ends_with('=') && value[length..].starts_with('"');
        let length = if has_quotes { value.find(['\n', '\r']).unwrap_or(value.len()) } else { length };
        let value_end = self.range(value, length).end;
        let line = &value[..length];
        if names::is_cookie(&self.text[self.start..self.after]) {
            return line.contains('=').then(|| self.range(value, line.trim_end_matches('\\').len()));
        }
        let (scheme, rest) = line.split_once(' ').unwrap_or(("", line));
        let is_known = SCHEMES.contains(&scheme.to_ascii_lowercase().as_str());
        let word = rest.split([' ', '\\']).next().unwrap_or_default();
        let start = value_end - rest.len();
        match is_known || scheme.is_empty() {
            // Of several parts, all.
            true if word.ends_with(',') || word.contains("=\"") => Some(start..value_end),
            true if looks_random(word) => Some(start..start + word.len()),
            _ => None,
        }
    }

    fn is_in_a_query(self) -> bool {
        self.text[..self.start].ends_with(['?', '&'])
    }
}

fn is_xml_name(letter: char) -> bool {
    letter.is_alphanumeric() || "_-.:".contains(letter)
}

/// How long the first word is: up to a space, or to what ends a value.
fn word_length(text: &str) -> usize {
    let end = |letter: char| letter.is_whitespace() || ",;\"')}]\\".contains(letter);
    text.find(end).unwrap_or(text.len())
}

/// Whether a value without quotes can be one. Numbers with such names are counts and flags; brackets are code or structures.
fn may_be_secret(value: &str) -> bool {
    let is_number = value.starts_with(|first: char| first.is_ascii_digit() || first == '-')
        && value.split(' ').next().is_some_and(|word| {
            word.starts_with("0x")
                || word.chars().all(|letter| letter.is_ascii_digit() || "-.,".contains(letter))
        });
    let is_code = value.contains(['(', '{', '[', '<', '`']) || value.contains("::") || value.contains("=>");
    let is_reference = value.starts_with(['&', '*', '"', '\'', '=', '…', '@', '$']) && !looks_random(value);
    // The name of another variable.
    let is_named = value.chars().all(|letter| letter.is_alphanumeric() || "_.".contains(letter))
        && names::ends_as_secret(value.rsplit('.').next().unwrap_or(value)).is_some();
    let is_said = NO_SECRETS.contains(&value.trim_end_matches(['.', '!', '?']).to_ascii_lowercase().as_str());
    !(value.is_empty()
        || is_number
        || is_code
        || is_reference
        || is_named
        || is_said
        || value == super::MASKED)
}

/// Whether no word of a language looks like this: there are digits or signs in it, or capitals behind small letters.
fn looks_random(word: &str) -> bool {
    let word = word.trim_end_matches(['.', '!', '?', ':']);
    let has_sign = word.contains(|letter: char| letter.is_ascii_digit() || "!@#$%^+=/~".contains(letter));
    let mut letters = word.chars().zip(word.chars().skip(1));
    word.len() > 3 && (has_sign || letters.any(|(one, next)| one.is_lowercase() && next.is_uppercase()))
}

/// Without the quote that closes a name, which is escaped where all of this is in another text.
fn without_quote(text: &str) -> &str {
    text.trim_start_matches('\\').strip_prefix(['"', '\'']).unwrap_or(text)
}

/// What is behind an opening quote, and how long it is. In a text inside of a text quotes are escaped.
fn quoted(text: &str) -> Option<(&str, usize)> {
    let inner = text.trim_start_matches('\\');
    let escapes = text.len() - inner.len();
    let quote = inner.chars().next().filter(|first| "\"'".contains(*first))?;
    Some((&inner[1..], end_of_quoted(&inner[1..], quote, escapes)))
}

/// How long what is before the closing quote is; a line ends it, too. The closing quote has as many escapes as the opening one.
pub(super) fn end_of_quoted(text: &str, quote: char, escapes: usize) -> usize {
    let mut backslashes = 0;
    for (at, letter) in text.char_indices() {
        if letter == '\n' {
            return at;
        }
        let closes = backslashes <= escapes && (backslashes == escapes || escapes > 0);
        if letter == quote && (closes || backslashes % (2 * (escapes + 1)) == escapes) {
            return at - backslashes.min(escapes);
        }
        backslashes = if letter == '\\' { backslashes + 1 } else { 0 };
    }
    text.len()
}

#[cfg(test)]
mod tests;
