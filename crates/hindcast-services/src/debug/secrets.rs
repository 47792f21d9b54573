//! Keys, tokens and passwords are taken out of everything that leaves a debug session.
//!
//! What looks like a secret is one. This protects against accidents, such as a key in a transcript; a
//! caller who wants to read a secret out of a program that they may debug can.

use std::{borrow::Cow, ops::Range};

use hindcast_core::debug::Variable;

/// What stands where a secret was.
pub const MASKED: &str = "***";

/// Takes secrets out, unless the session's owner asked for them.
#[derive(Debug, Clone, Copy)]
pub struct Mask {
    on: bool,
}

impl Mask {
    /// Takes secrets out if `on`.
    pub fn new(on: bool) -> Self {
        Self { on }
    }

    /// The text without secrets.
    pub fn text<'a>(&self, text: &'a str) -> Cow<'a, str> {
        let ranges = self.ranges(text);
        if ranges.is_empty() {
            return Cow::Borrowed(text);
        }
        let mut shown = String::with_capacity(text.len());
        let mut from = 0;
        for range in ranges {
            shown.push_str(&text[from..range.start]);
            shown.push_str(MASKED);
            from = range.end;
        }
        shown.push_str(&text[from..]);
        Cow::Owned(shown)
    }

    /// As [`text`](Self::text), in place.
    pub fn string(&self, text: &mut String) {
        if let Cow::Owned(shown) = self.text(text) {
            *text = shown;
        }
    }

    /// Where secrets are, in order and apart from each other.
    pub fn ranges(&self, text: &str) -> Vec<Range<usize>> {
        if self.on { secrets(text) } else { Vec::new() }
    }

    /// The variable without secrets: by what it holds, and by what it is called.
    pub fn variable(&self, variable: &mut Variable) {
        if !self.on {
            return;
        }
        if is_secret_name(&variable.name, &variable.value) {
            hide_texts(variable);
            return;
        }
        self.string(&mut variable.value);
        for child in &mut variable.children {
            self.variable(child);
        }
    }
}

const SECRET_NAMES: [&str; 8] =
    ["password", "passwd", "passphrase", "secret", "api_key", "apikey", "private_key", "credential"];

/// Whether a variable of this name and value holds a secret text. Numbers with such names are counts
/// and flags; a `token` is a secret only when it is as long as one.
fn is_secret_name(name: &str, value: &str) -> bool {
    let name = name.to_ascii_lowercase();
    let quoted = value.contains('"') || value.contains('{');
    let named = SECRET_NAMES.iter().any(|secret| name.contains(secret));
    let long = value.len() >= 22 && !value.contains(' ');
    quoted && (named || (name.contains("token") && long))
}

fn hide_texts(variable: &mut Variable) {
    if variable.value.contains('"') || variable.children.is_empty() {
        variable.value = MASKED.into();
    }
    variable.children.clear();
}

/// Tokens that are known by how they begin, with the least length of what follows.
const PREFIXES: [(&str, usize); 12] = [
    ("kdb_live_", 8),
    ("kdb_test_", 8),
    ("ghp_", 20),
    ("gho_", 20),
    ("ghs_", 20),
    ("github_pat_", 20),
    ("glpat-", 16),
    ("sk-", 20),
    ("sk_live_", 16),
    ("xoxb-", 16),
    ("AKIA", 16),
    ("eyJ", 30),
];

fn secrets(text: &str) -> Vec<Range<usize>> {
    let mut found = Vec::new();
    for (prefix, least) in PREFIXES {
        for (start, _) in text.match_indices(prefix) {
            let word_before = text[..start].ends_with(|letter: char| letter.is_alphanumeric());
            let body = &text[start + prefix.len()..];
            let length = body.find(|letter: char| !is_token_letter(letter)).unwrap_or(body.len());
            if length >= least && !word_before {
                found.push(start..start + prefix.len() + length);
            }
        }
    }
    private_keys(text, &mut found);
    bearer_tokens(text, &mut found);
    assigned(text, &mut found);
    passwords_of_urls(text, &mut found);
    merged(found)
}

fn is_token_letter(letter: char) -> bool {
    letter.is_ascii_alphanumeric() || "_-.".contains(letter)
}

fn private_keys(text: &str, found: &mut Vec<Range<usize>>) {
    for (start, _) in text.match_indices("-----BEGIN ") {
        let rest = &text[start..];
        let Some(head) = rest.find("PRIVATE KEY-----") else { continue };
        let end = rest.find("-----END ").map_or(text.len(), |end| start + end);
        let from = (start + head + "PRIVATE KEY-----".len()).min(end);
        if head < 60 && from < end {
            found.push(from..end);
        }
    }
}

fn bearer_tokens(text: &str, found: &mut Vec<Range<usize>>) {
    for (at, word) in text.match_indices("Bearer ") {
        let start = at + word.len();
        let length = text[start..].find(|letter: char| !is_token_letter(letter));
        let length = length.unwrap_or(text.len() - start);
        if length >= 12 {
            found.push(start..start + length);
        }
    }
}

/// `password=…`, `--api-key=…`, `"secret": "…"`. Code that computes one is not a secret.
fn assigned(text: &str, found: &mut Vec<Range<usize>>) {
    let lower = text.to_ascii_lowercase().replace('-', "_");
    for name in SECRET_NAMES.into_iter().chain(["pwd", "access_token", "auth_token", "access_key"]) {
        for (at, _) in lower.match_indices(name) {
            let rest = &text[at + name.len()..];
            let rest = rest.strip_prefix(['"', '\'']).unwrap_or(rest);
            let spaced = rest.trim_start_matches(' ');
            let Some(value) = spaced.strip_prefix(['=', ':']) else { continue };
            let trimmed = value.trim_start_matches(' ');
            let tight = spaced.len() == rest.len() && trimmed.len() == value.len();
            let (value, end) = match trimmed.strip_prefix(['"', '\'']) {
                Some(quoted) => (quoted, quoted.find(['"', '\'', '\n']).unwrap_or(quoted.len())),
                None if tight => {
                    let end = |letter: char| letter.is_whitespace() || "&;,\"')(".contains(letter);
                    let end = trimmed.find(end).unwrap_or(trimmed.len());
                    // A call or a comparison is code.
                    let code = trimmed[end..].starts_with('(') || trimmed.starts_with('=');
                    (trimmed, if code { 0 } else { end })
                }
                None => continue,
            };
            // Both end at the same byte.
            let start = text.len() - value.len();
            if end > 0 {
                found.push(start..start + end);
            }
        }
    }
}

fn passwords_of_urls(text: &str, found: &mut Vec<Range<usize>>) {
    for (at, mark) in text.match_indices("://") {
        let start = at + mark.len();
        let authority = &text[start..];
        let end = authority.find(|letter: char| letter.is_whitespace() || "/?#\"'".contains(letter));
        let authority = &authority[..end.unwrap_or(authority.len())];
        if let Some((user, _)) = authority.rsplit_once('@')
            && let Some(colon) = user.find(':')
            && colon + 1 < user.len()
        {
            found.push(start + colon + 1..start + user.len());
        }
    }
}

fn merged(mut ranges: Vec<Range<usize>>) -> Vec<Range<usize>> {
    ranges.sort_by_key(|range| range.start);
    let mut apart: Vec<Range<usize>> = Vec::new();
    for range in ranges {
        match apart.last_mut() {
            Some(last) if range.start <= last.end => last.end = last.end.max(range.end),
            _ => apart.push(range),
        }
    }
    apart
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(text: &str, shown: &str) {
        assert_eq!(Mask::new(true).text(text), shown);
        assert_eq!(Mask::new(false).text(text), text);
    }

    #[test]
    fn secrets_are_taken_out_by_their_shape() {
        check("key kdb_live_abcdefgh234 used", "key *** used");
        check("Authorization: Bearer abcdefghijklmnop", "Authorization: Bearer ***");
        check("--password=hunter2 --port=80", "--password=*** --port=80");
        check("{\"api-key\": \"abc\", \"n\": 1}", "{\"api-key\": \"***\", \"n\": 1}");
        check("postgres://ada:lovelace@db/x", "postgres://ada:***@db/x");
        check(
            "-----BEGIN RSA PRIVATE KEY-----\nMII\n-----END RSA PRIVATE KEY-----",
            "-----BEGIN RSA PRIVATE KEY-----***-----END RSA PRIVATE KEY-----",
        );
        check("AKIAIOSFODNN7EXAMPLE", MASKED);
    }

    #[test]
    fn code_and_plain_words_are_left_alone() {
        for text in [
            "let password = read_password(stdin);",
            "if (password == NULL) return;",
            "token = next_token();",
            "http://localhost:80/a@b",
            "password:",
            "the secret is out",
            "ask-anything",
        ] {
            check(text, text);
        }
    }

    #[test]
    fn variables_are_known_by_name_too() {
        let variable = |name: &str, value: &str| {
            let mut variable = Variable { name: name.into(), value: value.into(), ..Variable::default() };
            Mask::new(true).variable(&mut variable);
            variable.value
        };
        assert_eq!(variable("db_password", "0x4010 \"hunter2\""), MASKED);
        assert_eq!(variable("password_length", "7"), "7");
        assert_eq!(variable("token", "\"if\""), "\"if\"");
        assert_eq!(variable("token", "\"abcdefghijklmnopqrstuvw\""), MASKED);
        assert_eq!(variable("line", "\"--password=hunter2\""), "\"--password=***\"");
    }
}
