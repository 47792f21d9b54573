//! Setting or removing one value in the text of a JSON document and leaving every other byte alone: order of keys, indentation,
//! comments and the way numbers are written belong to the user, who may have the file under version control.

use std::ops::Range;

use serde::Serialize;
use serde_json::{Value, ser::PrettyFormatter};

/// The document with spaces in place of comments and of commas behind the last member, so that everything else stays where it is.
pub(super) fn without_comments(document: &str) -> String {
    let mut bytes = document.as_bytes().to_vec();
    let (mut at, mut last_comma) = (0, None);
    while at < bytes.len() {
        let end = match (bytes[at], bytes.get(at + 1)) {
            (b'"', _) => end_of_string(&bytes, at),
            (b'/', Some(b'/')) => at + bytes[at..].iter().take_while(|byte| **byte != b'\n').count(),
            (b'/', Some(b'*')) => {
                let closing = bytes[at + 2..].windows(2).position(|two| two == b"*/");
                closing.map_or(bytes.len(), |length| at + 2 + length + 2)
            }
            _ => at + 1,
        };
        match bytes[at] {
            b'/' if end > at + 1 => {
                bytes[at..end]
                    .iter_mut()
                    .filter(|byte| !byte.is_ascii_whitespace())
                    .for_each(|byte| *byte = b' ');
            }
            b',' => last_comma = Some(at),
            b'}' | b']' => {
                if let Some(comma) = last_comma.take() {
                    bytes[comma] = b' ';
                }
            }
            byte if byte.is_ascii_whitespace() => {}
            _ => last_comma = None,
        }
        at = end;
    }
    // Whole characters were replaced by as many spaces as they had bytes.
    String::from_utf8(bytes).unwrap_or_default()
}

fn end_of_string(bytes: &[u8], start: usize) -> usize {
    let mut at = start + 1;
    while at < bytes.len() && bytes[at] != b'"' {
        // Whatever is escaped does not end the string.
        at += if bytes[at] == b'\\' { 2 } else { 1 };
    }
    (at + 1).min(bytes.len())
}

/// `document` with `value` at `path`, making the objects on the way. `None` when `document` is not
/// a JSON object or something on the way is not an object; the document is expected to be valid
/// JSON, comments aside.
pub(super) fn set(document: &str, path: &[&str], value: &Value) -> Option<String> {
    let style = Style::of(document);
    let plain = without_comments(document);
    let mut scanner = Scanner { bytes: plain.as_bytes(), position: 0 };
    scanner.skip_space();
    let mut object = scanner.object(&plain)?;
    for (depth, key) in path.iter().enumerate() {
        let rest = &path[depth + 1..];
        // Of keys that are there twice, parsers take the last.
        let member = object.members.iter().rev().find(|member| member.key == *key);
        let Some(member) = member else {
            let nested = rest.iter().rev().fold(value.clone(), |inner, key| {
                Value::Object([((*key).to_owned(), inner)].into_iter().collect())
            });
            return insert(document, &object, key, &nested, depth + 1, &style);
        };
        if rest.is_empty() {
            let mut text = document.to_owned();
            text.replace_range(member.value.clone(), &style.render(value, depth + 1)?);
            return Some(text);
        }
        scanner.position = member.value.start;
        object = scanner.object(&plain)?;
    }
    None
}

/// `document` without the member at `path`; `None` when there is none.
pub(super) fn remove(document: &str, path: &[&str]) -> Option<String> {
    let plain = without_comments(document);
    let mut scanner = Scanner { bytes: plain.as_bytes(), position: 0 };
    scanner.skip_space();
    let (last, way) = path.split_last()?;
    let mut object = scanner.object(&plain)?;
    for key in way {
        let member = object.members.iter().rev().find(|member| member.key == *key)?;
        scanner.position = member.value.start;
        object = scanner.object(&plain)?;
    }
    let place = object.members.iter().rposition(|member| member.key == *last)?;
    let member = &object.members[place];
    let mut text = document.to_owned();
    // A comma may stand behind the last member, too.
    let comma = comma_in(&document[member.value.end..object.close]);
    let end = comma.map_or(member.value.end, |comma| member.value.end + comma + 1);
    match (place.checked_sub(1).map(|place| &object.members[place]), object.members.get(place + 1)) {
        // Up to the next one, so that a comment above this one stays.
        (_, Some(after)) => text.replace_range(member.start..after.start, ""),
        (Some(before), None) => {
            let between = &document[before.value.end..member.start];
            text.replace_range(before.value.end + between.trim_end().len()..end, "");
            if comma.is_none() {
                text.remove(before.value.end + comma_in(between)?);
            }
        }
        (None, None) if plain[object.open + 1..object.close] == document[object.open + 1..object.close] => {
            text.replace_range(object.open + 1..object.close, "");
        }
        // There are comments, which stay.
        (None, None) => text.replace_range(member.start..end, ""),
    }
    Some(text)
}

fn insert(
    document: &str,
    object: &Object,
    key: &str,
    value: &Value,
    depth: usize,
    style: &Style,
) -> Option<String> {
    let key = serde_json::to_string(key).ok()?;
    let line = format!("{}{key}: {}", style.line_start(depth), style.render(value, depth)?);
    let mut text = document.to_owned();
    match object.members.last() {
        None => {
            let inside = format!("{line}{}", style.line_start(depth - 1));
            text.replace_range(object.open + 1..object.close, &inside);
        }
        Some(last) => {
            let behind = &document[last.value.end..object.close];
            let closes_on_own_line = behind.contains('\n');
            let closing = if closes_on_own_line { String::new() } else { style.line_start(depth - 1) };
            // A comment behind the last one stays behind it.
            let end = last.value.end + behind.trim_end().len();
            text.insert_str(end, &format!("{line}{closing}"));
            if comma_in(behind).is_none() {
                text.insert(last.value.end, ',');
            }
        }
    }
    Some(text)
}

/// Where the comma is, outside of comments, in what stands behind a value.
fn comma_in(behind: &str) -> Option<usize> {
    // With a value behind it, it is not taken for the comma behind a last member.
    without_comments(&format!("{behind}\n0")).find(',')
}

/// How the document is laid out.
struct Style {
    indent: String,
    newline: &'static str,
}

impl Style {
    /// The first indented line tells; two spaces when there is none.
    fn of(document: &str) -> Self {
        let indents = document.lines().map(|line| {
            let text = line.trim_start_matches([' ', '\t']);
            (&line[..line.len() - text.len()], text)
        });
        let indent = indents
            .filter(|(indent, text)| !indent.is_empty() && !text.is_empty())
            .map(|(indent, _)| indent)
            .next();
        let newline = if document.contains("\r\n") { "\r\n" } else { "\n" };
        Self { indent: indent.unwrap_or("  ").to_owned(), newline }
    }

    fn line_start(&self, depth: usize) -> String {
        format!("{}{}", self.newline, self.indent.repeat(depth))
    }

    fn render(&self, value: &Value, depth: usize) -> Option<String> {
        let mut bytes = Vec::new();
        let formatter = PrettyFormatter::with_indent(self.indent.as_bytes());
        let mut serializer = serde_json::Serializer::with_formatter(&mut bytes, formatter);
        value.serialize(&mut serializer).ok()?;
        // A line break inside a JSON string is escaped, so each one here is between values.
        Some(String::from_utf8(bytes).ok()?.replace('\n', &self.line_start(depth)))
    }
}

/// Where an object and its members are in the text.
struct Object {
    open: usize,
    close: usize,
    members: Vec<Member>,
}

struct Member {
    start: usize,
    key: String,
    value: Range<usize>,
}

/// Walks over JSON that is known to be valid; on other text it gives up with `None`.
struct Scanner<'a> {
    bytes: &'a [u8],
    position: usize,
}

impl Scanner<'_> {
    fn object(&mut self, document: &str) -> Option<Object> {
        let open = self.position;
        self.expect(b'{')?;
        let mut members = Vec::new();
        loop {
            self.skip_space();
            match self.peek()? {
                b'}' => {
                    return Some(Object { open, close: self.position, members });
                }
                b',' => self.position += 1,
                _ => {
                    let start = self.position;
                    let key = serde_json::from_str(document.get(self.value()?)?).ok()?;
                    self.skip_space();
                    self.expect(b':')?;
                    self.skip_space();
                    members.push(Member { start, key, value: self.value()? });
                }
            }
        }
    }

    /// Steps over one value, however deep.
    fn value(&mut self) -> Option<Range<usize>> {
        let start = self.position;
        let mut depth = 0_usize;
        loop {
            match self.peek()? {
                b'"' => self.string()?,
                b'{' | b'[' => {
                    depth += 1;
                    self.position += 1;
                }
                b'}' | b']' => {
                    depth = depth.checked_sub(1)?;
                    self.position += 1;
                }
                b',' | b':' | b' ' | b'\t' | b'\r' | b'\n' => self.position += 1,
                _ => self.literal(),
            }
            if depth == 0 {
                return Some(start..self.position);
            }
        }
    }

    fn string(&mut self) -> Option<()> {
        self.expect(b'"')?;
        loop {
            match self.peek()? {
                b'"' => return self.expect(b'"'),
                // Whatever is escaped does not end the string.
                b'\\' => self.position += 2,
                _ => self.position += 1,
            }
        }
    }

    /// A number, `true`, `false` or `null`.
    fn literal(&mut self) {
        while self.peek().is_some_and(|byte| byte.is_ascii_alphanumeric() || b"+-.".contains(&byte)) {
            self.position += 1;
        }
    }

    fn skip_space(&mut self) {
        while self.peek().is_some_and(|byte| byte.is_ascii_whitespace()) {
            self.position += 1;
        }
    }

    fn expect(&mut self, byte: u8) -> Option<()> {
        (self.peek()? == byte).then(|| self.position += 1)
    }

    fn peek(&self) -> Option<u8> {
        self.bytes.get(self.position).copied()
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn only_the_value_at_the_path_changes() {
        for (before, expected) in [
            ("{}", "{\n  \"a\": {\n    \"b\": 1\n  }\n}"),
            ("{ }\n", "{\n  \"a\": {\n    \"b\": 1\n  }\n}\n"),
            (
                "{\"z\":1.50,\"y\":[{\"b\":2}]}",
                "{\"z\":1.50,\"y\":[{\"b\":2}],\n  \"a\": {\n    \"b\": 1\n  }\n}",
            ),
            (
                "{\n\t\"a\": {\n\t\t\"c\": \"}\\\"\"\n\t}\n}\n",
                "{\n\t\"a\": {\n\t\t\"c\": \"}\\\"\",\n\t\t\"b\": 1\n\t}\n}\n",
            ),
            ("{\n    \"a\": {}\n}", "{\n    \"a\": {\n        \"b\": 1\n    }\n}"),
            ("{\"a\": {\"b\": [true, {\"b\": null}], \"c\": -1e+3}}", "{\"a\": {\"b\": 1, \"c\": -1e+3}}"),
            ("{\"a\": {\"b\": 5}, \"a\": {\"b\": 6}}", "{\"a\": {\"b\": 5}, \"a\": {\"b\": 1}}"),
            ("{\r\n  \"z\": 1\r\n}\r\n", "{\r\n  \"z\": 1,\r\n  \"a\": {\r\n    \"b\": 1\r\n  }\r\n}\r\n"),
            ("{\"\\u0061\": {\"é\": 1}}", "{\"\\u0061\": {\"é\": 1,\n    \"b\": 1\n  }}"),
        ] {
            let after = set(before, &["a", "b"], &json!(1)).expect("an edited document");
            assert_eq!(after, expected, "{before}");
            let mut value: Value = serde_json::from_str(before).expect("valid JSON");
            value["a"]["b"] = json!(1);
            let parsed: Value = serde_json::from_str(&after).expect("still valid JSON");
            assert_eq!(parsed, value, "{before}");
        }
    }

    #[test]
    fn comments_and_trailing_commas_stay_where_they_are() {
        for (before, expected) in [
            (
                "{\n  // ünï, \"x\": {\n  \"z\": \"//\", // last\n}\n",
                "{\n  // ünï, \"x\": {\n  \"z\": \"//\", // last\n  \"a\": {\n    \"b\": 1\n  }\n}\n",
            ),
            (
                "{\n  \"z\": [1, 2,] /* two */ // end\n}",
                "{\n  \"z\": [1, 2,], /* two */ // end\n  \"a\": {\n    \"b\": 1\n  }\n}",
            ),
            ("{\"a\": {\"b\": 5 /* was 4 */}}", "{\"a\": {\"b\": 1 /* was 4 */}}"),
        ] {
            let after = set(before, &["a", "b"], &json!(1)).expect("an edited document");
            assert_eq!(after, expected);
            let parsed: Value = serde_json::from_str(&without_comments(&after)).expect("valid JSON");
            assert_eq!(parsed["a"]["b"], 1);
        }
    }

    #[test]
    fn a_removed_member_leaves_the_others_as_they_were() {
        for (before, expected) in [
            ("{\"a\": {\"b\": 1}}", "{\"a\": {}}"),
            ("{\"a\": {\n  \"x\": 1,\n  \"b\": {\"c\": [1]}\n}}", "{\"a\": {\n  \"x\": 1\n}}"),
            ("{\"a\": {\n  \"b\": 1,\n  \"x\": 2\n}}", "{\"a\": {\n  \"x\": 2\n}}"),
            (
                "{\"a\": {\n  // mine\n  \"x\": 1, // one\n  \"b\": 2,\n}}",
                "{\"a\": {\n  // mine\n  \"x\": 1, // one\n}}",
            ),
            ("{\"a\": {\n  // mine\n  \"b\": 2,\n}}", "{\"a\": {\n  // mine\n  \n}}"),
        ] {
            assert_eq!(remove(before, &["a", "b"]).as_deref(), Some(expected));
        }
        assert_eq!(remove("{\"a\": {}}", &["a", "b"]), None);
        assert_eq!(remove("{}", &["a", "b"]), None);
        assert_eq!(remove("[", &["a"]), None);
    }

    #[test]
    fn what_is_not_an_object_is_not_edited() {
        for document in ["", "[]", "1", "\"a\"", "{\"a\": 1}", "{\"a\": [1]}", "{\"a\"", "{\"a\": \"\\"] {
            assert_eq!(set(document, &["a", "b"], &json!(1)), None, "{document}");
        }
    }
}
