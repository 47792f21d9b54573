//! Keys, tokens and passwords are taken out of everything that leaves a debug session.
//!
//! What looks like a secret is one. This protects against accidents, such as a key in a transcript; a
//! caller who wants to read a secret out of a program that they may debug can.

mod assigned;
mod values;

use std::{borrow::Cow, ops::Range};

use hindcast_core::debug::{Breakpoint, BreakpointChange, Thread, Trigger, Variable};

pub use hindcast_core::debug::secret_names::MASKED;
use hindcast_core::debug::secret_names::{self as names, Named};
use values::ValueText;

use crate::Failure;

/// How engines begin to tell what code of the program said.
const THREW: &str = "the code threw ";

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
        without(text, self.ranges(text))
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

    /// A text with values in it as an engine writes them, such as `{password = "…"}`, without secrets.
    pub fn values<'a>(&self, text: &'a str) -> Cow<'a, str> {
        if self.on { masked_values(text, true) } else { Cow::Borrowed(text) }
    }

    /// The variable without secrets: by what it holds, and by what it is called.
    pub fn variable(&self, variable: &mut Variable) {
        if self.on {
            mask_variable(variable, names::named(&variable.name));
        }
    }

    /// The value of an expression without secrets. What only wraps a secret, such as `password + ""`, is one.
    pub fn evaluated(&self, expression: &str, value: &mut Variable) {
        if self.on {
            mask_variable(value, names::named(expression).or_else(|| names::named(&value.name)));
        }
    }

    /// What an engine says of an expression that has no value, without secrets. Such errors quote what the program holds: where
    /// the expression names a secret, no text of it is shown but the caller's own, and nothing that code of the program said.
    pub fn failed(&self, expression: &str, ran_code: bool, said: &mut String) {
        if !self.on {
            return;
        }
        let is_named = names::named(expression).is_some();
        // What the debugger itself says of code that it did not run is no secret.
        if is_named
            && ran_code
            && said.starts_with(THREW)
            && let Some(at) = said.find(": ")
        {
            said.replace_range(at + 2.., MASKED);
        }
        if is_named {
            let mut texts = ValueText::new(said).texts();
            texts.retain(|text| !expression.contains(&said[text.clone()]));
            if let Cow::Owned(shown) = without(said, texts) {
                *said = shown;
            }
        }
        if let Cow::Owned(shown) = self.values(said) {
            *said = shown;
        }
    }

    /// The expression that one of `pair.Item2`, `it.Value` and `arguments[1]` is part of, and the name of the part. The whole may
    /// tell that its part is a secret.
    pub fn whole_of<'e>(&self, expression: &'e str) -> Option<(&'e str, &'e str)> {
        let path = expression.split(',').next().unwrap_or(expression).trim();
        let is_path = path.chars().all(|letter| letter.is_alphanumeric() || "_.[]\"".contains(letter));
        let at = path.rfind(['.', '[']).filter(|at| self.on && is_path && *at > 0)?;
        let part = path[at..].trim_start_matches('.');
        Some((&path[..at], part))
    }

    /// The value of an expression that is part of another, which is given as it is shown: a part shows no more than the whole.
    pub fn part(&self, part: &str, whole: &Variable, value: &mut Variable) {
        let number = part.strip_prefix("Item").and_then(|number| number.parse::<usize>().ok());
        let of_number = number.and_then(|number| whole.children.get(number.checked_sub(1)?));
        let shown = whole.children.iter().find(|child| child.name == part).or(of_number);
        if self.on && shown.is_some_and(|shown| shown.value == MASKED) {
            hide(value);
        }
    }

    /// Whether an expression is that of a secret, so that its bytes are one, too.
    pub fn hides(&self, expression: &str) -> bool {
        let last = names::identifiers(expression).last();
        self.on && last.is_some_and(|(name, _)| names::ends_as_secret(name) == Some(Named::Secret))
    }

    /// The thread without secrets in what the program calls it.
    pub fn thread(&self, thread: &mut Thread) {
        self.string(&mut thread.name);
        thread.waits_for.iter_mut().for_each(|waits_for| self.string(waits_for));
        let descriptors = thread.wait.iter_mut().flat_map(|wait| &mut wait.descriptors);
        descriptors.filter_map(|descriptor| descriptor.file.as_mut()).for_each(|file| self.string(file));
    }

    /// The failure of a question about this expression without secrets.
    #[must_use]
    pub fn failed_expression(&self, expression: &str, ran_code: bool, mut failure: Failure) -> Failure {
        self.failed(expression, ran_code, &mut failure.details);
        failure
    }

    /// The failure without what looks like a secret.
    #[must_use]
    pub fn failure(&self, mut failure: Failure) -> Failure {
        self.string(&mut failure.details);
        failure
    }

    /// The breakpoint without secrets in the message that it logs.
    pub fn trigger(&self, trigger: &mut Trigger) {
        if let Trigger::Code(code) = trigger
            && let Some(message) = &mut code.log_message
        {
            self.template(message);
        }
    }

    /// What was counted, without secrets.
    pub fn counts(&self, breakpoint: &mut Breakpoint) {
        for count in &mut breakpoint.counts {
            if let Cow::Owned(shown) = self.values(&count.value) {
                count.value = shown;
            }
        }
    }

    /// As [`trigger`](Self::trigger), of a change.
    pub fn change(&self, change: &mut BreakpointChange) {
        if let Some(message) = &mut change.log_message {
            self.template(message);
        }
    }

    /// The engine fills the message, and of its text nobody can tell what came from where. So what would be a
    /// secret is taken out of the template.
    fn template(&self, message: &mut String) {
        if self.on
            && let Cow::Owned(shown) = without(message, values::secret_holes(message))
        {
            *message = shown;
        }
    }
}

fn without(text: &str, ranges: Vec<Range<usize>>) -> Cow<'_, str> {
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

fn masked_values(text: &str, brackets_may_be_pairs: bool) -> Cow<'_, str> {
    let mut found = secrets(text);
    found.extend(ValueText::new(text).secrets(brackets_may_be_pairs));
    without(text, merged(found))
}

fn mask_variable(variable: &mut Variable, named: Option<Named>) {
    match named {
        Some(Named::Secret) => return hide_texts(variable),
        Some(Named::Token) if ValueText::new(&variable.value).is_token(&variable.name) => {
            return hide(variable);
        }
        _ => {}
    }
    let is_pair = variable.type_name.to_ascii_lowercase().contains("pair");
    if let Cow::Owned(shown) = masked_values(&variable.value, is_pair) {
        variable.value = shown;
    }
    let key = values::key_of_pair(&variable.children);
    let pairs = variable.children.windows(2).map(|pair| values::takes_secret(&pair[0], &pair[1]));
    let is_argument: Vec<_> = std::iter::once(false).chain(pairs).collect();
    for (child, (at, is_argument)) in variable.children.iter_mut().zip(is_argument.into_iter().enumerate()) {
        let by_key = key.filter(|_| at > 0).or(is_argument.then_some(Named::Secret));
        mask_variable(child, by_key.or_else(|| names::named(&child.name)));
    }
}

/// Hides every text in what has the name of a secret. Numbers with such names are counts and flags.
fn hide_texts(variable: &mut Variable) {
    let value = ValueText::new(&variable.value);
    let listed =
        variable.value.starts_with(['[', '{']) && variable.value.contains(|it: char| it.is_ascii_digit());
    // Without quotes, where those were not wanted.
    let is_text = value.is_one_text()
        || (variable.type_name == "string"
            && !variable.value.starts_with("null")
            && !variable.value.starts_with('<'));
    if is_text || is_single_quoted(&variable.value) || (listed && names::is_bytes(&variable.type_name)) {
        return hide(variable);
    }
    let shown = without(&variable.value, value.texts());
    if let Cow::Owned(shown) = shown {
        variable.value = shown;
    }
    variable.children.iter_mut().for_each(hide_texts);
}

/// Whether there is a text in it as Python and Ruby write them; one letter is a character of C.
fn is_single_quoted(value: &str) -> bool {
    let mut parts = value.split('\'');
    parts.next();
    parts.step_by(2).any(|text| text.chars().count() > 1 && !text.starts_with('\\'))
}

fn hide(variable: &mut Variable) {
    variable.value = MASKED.into();
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
    assigned::find(text, &mut found);
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

/// What follows the name of a scheme in the headers of HTTP.
fn bearer_tokens(text: &str, found: &mut Vec<Range<usize>>) {
    for scheme in ["Bearer ", "Basic "] {
        for (at, word) in text.match_indices(scheme) {
            let start = at + word.len();
            let is_part = |letter: char| is_token_letter(letter) || "+/=~".contains(letter);
            let length = text[start..].find(|letter: char| !is_part(letter)).unwrap_or(text.len() - start);
            let token = text[start..start + length].trim_end_matches('.');
            let is_word = token.chars().skip(1).all(|letter| letter.is_ascii_lowercase());
            if token.len() >= 12 && !(is_word && scheme == "Basic ") {
                found.push(start..start + token.len());
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
    use hindcast_core::debug::{ThreadId, ThreadState};

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
    fn what_failed_is_told_without_the_secrets_that_it_is_about() {
        let check = |expression: &str, ran_code: bool, said: &str, shown: &str| {
            let mut masked = said.to_owned();
            Mask::new(true).failed(expression, ran_code, &mut masked);
            assert_eq!(masked, shown, "{expression}");
            let mut plain = said.to_owned();
            Mask::new(false).failed(expression, ran_code, &mut plain);
            assert_eq!(plain, said);
        };
        let no_key = "there is no item with the key \"hunter2\"";
        check("map[password]", false, no_key, "there is no item with the key \"***\"");
        check("map[name]", false, no_key, no_key);
        check("map[\"password\"]", false, "no item \"password\"", "no item \"password\"");
        check("Connect(password)", true, "the code threw A.B: bad hunter2", "the code threw A.B: ***");
        check(
            "Connect(name)",
            true,
            "the code threw A.B: password=hunter2",
            "the code threw A.B: password=***",
        );
        let cannot_run = "code cannot be run here: the thread is not at a safe point";
        check("Tool.Secret()", true, cannot_run, cannot_run);
        check(
            "password",
            false,
            "`password` cannot be read: it is gone",
            "`password` cannot be read: it is gone",
        );
    }

    #[test]
    fn a_part_shows_no_more_than_its_whole() {
        let mask = Mask::new(true);
        assert_eq!(mask.whole_of("list[0].Item2"), Some(("list[0]", "Item2")));
        assert_eq!(mask.whole_of("arguments[1],nq"), Some(("arguments", "[1]")));
        for expression in ["name", "a + b.c", "Call().Item2", ".5"] {
            assert_eq!(mask.whole_of(expression), None, "{expression}");
        }
        assert_eq!(Mask::new(false).whole_of("it.Item2"), None);
        let of = |name: &str, value: &str, children| Variable {
            name: name.into(),
            value: value.into(),
            children,
            ..Variable::default()
        };
        let text = "\"hunter2\"";
        let check = |first: &str, second: &str, option: &str, part: &str, shown: &str| {
            let children = vec![of(first, option, Vec::new()), of(second, text, Vec::new())];
            let mut whole = of("it", "", children);
            mask.variable(&mut whole);
            let mut value = of("", text, Vec::new());
            mask.part(part, &whole, &mut value);
            assert_eq!(value.value, shown, "{part}");
        };
        check("user", "password", "\"ann\"", "Item2", MASKED);
        check("user", "password", "\"ann\"", "Item1", text);
        check("name", "value", "\"password\"", "Item2", MASKED);
        check("[0]", "[1]", "\"--password\"", "[1]", MASKED);
        check("[0]", "[1]", "\"--user\"", "[1]", text);
    }

    #[test]
    fn threads_are_named_without_secrets() {
        let mut thread = Thread {
            id: ThreadId(4),
            name: "password=hunter2".into(),
            state: ThreadState::Suspended,
            location: None,
            waits_for: Some("a lock, which thread 5 (password=hunter2) holds".into()),
            wait: None,
        };
        Mask::new(true).thread(&mut thread);
        assert_eq!(thread.name, "password=***");
        assert_eq!(thread.waits_for.as_deref(), Some("a lock, which thread 5 (password=***) holds"));
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
}
