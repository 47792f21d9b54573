//! What a text calls itself and what it is about.

use std::borrow::Cow;

use jiff::Timestamp;

use crate::{Format, dated};

/// As much of a description as a list has room for.
const LONGEST: usize = 160;

/// The fields of front matter that say when a text was last changed, best first.
const DATES: [&str; 6] = ["updated", "lastmod", "last_modified", "modified", "date", "created"];

#[derive(Default)]
pub(crate) struct Summary {
    pub(crate) title: Option<String>,
    pub(crate) description: Option<String>,
    pub(crate) tags: Vec<String>,
    pub(crate) dated: Option<Timestamp>,
}

pub(crate) fn of(format: Format, text: &str) -> Summary {
    // Paragraphs are told by empty lines, which Windows writes otherwise.
    let text =
        if text.contains("\r\n") { Cow::Owned(text.replace("\r\n", "\n")) } else { Cow::Borrowed(text) };
    let text = &*text;
    match format {
        _ if matches!(format, Format::Markdown | Format::Latex) || format.is_converted() => of_markdown(text),
        Format::Text | Format::Rst | Format::AsciiDoc | Format::Org => {
            Summary { description: first_sentence(text), ..Summary::default() }
        }
        _ => Summary::default(),
    }
}

fn of_markdown(text: &str) -> Summary {
    let (front_matter, body) = FrontMatter::split(text);
    let field = |name: &str| {
        let value = front_matter.value(name)?.trim().trim_matches(['"', '\'']);
        (!value.is_empty()).then(|| value.to_owned())
    };
    let said = without_code_and_comments(body);
    let heading = said.lines().take(200).find_map(|line| line.strip_prefix("# "));
    let heading = heading.map(|heading| heading.trim().trim_end_matches('#').trim_end().to_owned());
    let prose = said.split("\n\n").map(str::trim).find(|block| {
        block.chars().next().is_some_and(|first| !"#|<-=`*>![".contains(first) || block.starts_with("**"))
    });
    Summary {
        title: field("title").or(heading),
        description: field("description").or_else(|| prose.and_then(first_sentence)),
        tags: front_matter.tags(),
        dated: DATES.iter().find_map(|name| dated::parse(&field(name)?)),
    }
}

/// As many lines as a document needs to name itself.
const MOST_LINES: usize = 2000;

/// The beginning of a text, with empty lines for its fenced code and its HTML comments.
fn without_code_and_comments(body: &str) -> String {
    let mut said = String::new();
    let mut fence: Option<&str> = None;
    let mut is_comment = false;
    for line in body.lines().take(MOST_LINES) {
        let (start, mark) = (line.trim_start(), fence_of(line));
        let mut is_said = false;
        if let Some(open) = fence {
            let closes =
                mark.is_some_and(|mark| mark.starts_with(open) && start[mark.len()..].trim().is_empty());
            fence = fence.filter(|_| !closes);
        } else if is_comment || start.starts_with("<!--") {
            is_comment = !line.contains("-->");
        } else if mark.is_some() {
            fence = mark;
        } else {
            is_said = true;
        }
        said.push_str(if is_said { line } else { "" });
        said.push('\n');
    }
    said
}

/// The signs that begin or end fenced code.
fn fence_of(line: &str) -> Option<&str> {
    let start = line.trim_start();
    let sign = start.chars().next().filter(|sign| "`~".contains(*sign))?;
    let mark = &start[..start.len() - start.trim_start_matches(sign).len()];
    // More blanks are indented code, and a line such as ```` ```code``` ```` is no fence.
    let is_fence = line.len() - start.len() < 4 && mark.len() >= 3;
    (is_fence && !(sign == '`' && start[mark.len()..].contains('`'))).then_some(mark)
}

/// The metadata that some Markdown files begin with.
struct FrontMatter<'text> {
    lines: &'text str,
    /// What stands between a field and its value: `:` in YAML, `=` in TOML.
    separator: char,
}

impl<'text> FrontMatter<'text> {
    /// Splits it off a text. It is empty where the text has none.
    fn split(text: &'text str) -> (Self, &'text str) {
        let none = Self { lines: "", separator: ':' };
        let Some(first) = text.split_inclusive('\n').next() else { return (none, text) };
        let (rule, separator) = match first {
            "---\n" | "---\r\n" => ("---", ':'),
            "+++\n" | "+++\r\n" => ("+++", '='),
            _ => return (none, text),
        };
        let start = first.len();
        let mut at = start;
        for line in text[start..].split_inclusive('\n') {
            let is_end = line.strip_prefix(rule).is_some_and(|rest| matches!(rest, "\n" | "\r\n"));
            if is_end || (separator == ':' && line.trim_end() == "...") {
                return (Self { lines: &text[start..at], separator }, &text[at + line.len()..]);
            }
            at += line.len();
        }
        (none, text)
    }

    /// A field's value as it is written. In TOML only fields above the first table are the document's own.
    fn value(&self, name: &str) -> Option<&'text str> {
        let is_own = |line: &&str| self.separator == ':' || !line.starts_with('[');
        self.lines.lines().take_while(is_own).find_map(|line| {
            let (key, value) = line.split_once(self.separator)?;
            key.trim_end().eq_ignore_ascii_case(name).then_some(value)
        })
    }

    /// The `tags`, in a line (`[a, b]`, `a, b`) or in lines of their own (`- a`, or an array of TOML).
    fn tags(&self) -> Vec<String> {
        let Some(value) = self.value("tags") else { return Vec::new() };
        let value_at = value.as_ptr() as usize - self.lines.as_ptr() as usize;
        let after = &self.lines[value_at + value.len()..];
        let first = value.trim();
        let listed: Vec<&str> = if first.is_empty() {
            after.lines().skip(1).map_while(|line| line.trim().strip_prefix("- ")).collect()
        } else if first.starts_with('[') {
            let array = &self.lines[value_at..];
            let end = array.find(']').unwrap_or(value.len());
            array[..end].trim().trim_start_matches('[').split(',').collect()
        } else {
            first.split(',').collect()
        };
        let clean =
            |tag: &&str| tag.trim().trim_matches(['"', '\'']).trim_start_matches('#').trim().to_owned();
        listed.iter().map(clean).filter(|tag| !tag.is_empty()).collect()
    }
}

fn first_sentence(text: &str) -> Option<String> {
    let mut sentence = String::new();
    for word in text.split_whitespace() {
        if sentence.len() + word.len() > LONGEST {
            return (!sentence.is_empty()).then(|| format!("{sentence} …"));
        }
        if !sentence.is_empty() {
            sentence.push(' ');
        }
        sentence.push_str(word);
        if word.ends_with(['.', '!', '?']) && sentence.len() > 20 {
            break;
        }
    }
    (!sentence.is_empty()).then_some(sentence)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn comments_in_code_and_of_html_name_nothing() {
        for (text, title, description) in [
            (
                "Install it so:\n\n```sh\n# remove everything first\nmake install\n```\n",
                None,
                "Install it so:",
            ),
            ("~~~\n# tilde\n~~~\n\nWords.\n\n# Real\n", Some("Real"), "Words."),
            ("````\n```\n# inner\n```\n````\n# Real #\n\nWords.\n", Some("Real"), "Words."),
            ("<!--\n# hidden\n-->\n\nVisible.\n", None, "Visible."),
            ("<!-- # one -->\n# Real\n\nWords.\n", Some("Real"), "Words."),
            ("```inline```\n# Real\n\nWords.\n", Some("Real"), "Words."),
            ("```\n\nnpm run it\n\n```\n\nWords.\n", None, "Words."),
        ] {
            let found = of(Format::Markdown, text);
            assert_eq!(
                (found.title.as_deref(), found.description.as_deref()),
                (title, Some(description)),
                "{text}"
            );
        }
    }

    #[test]
    fn a_document_names_itself() {
        let named = of(Format::Markdown, "---\ntitle: \"Named\"\ndescription: About it\n---\n# Other\n");
        assert_eq!((named.title.as_deref(), named.description.as_deref()), (Some("Named"), Some("About it")));
        for tags in
            ["tags: [birds, 'big ones']", "tags: birds, big ones", "tags:\n  - birds\n  - big ones\nother: x"]
        {
            let tagged = of(Format::Markdown, &format!("---\n{tags}\n---\nText"));
            assert_eq!(tagged.tags, ["birds", "big ones"], "{tags}");
        }
        let dated = of(Format::Markdown, "---\ndate: 2023-01-01\nupdated: '2024-05-01'\n---\nText").dated;
        assert_eq!(dated.unwrap().to_string(), "2024-05-01T00:00:00Z");
        for written in ["Date: 2012-11-10", "date : 2012-11-10 # first", "created: 2012-11-10\n...\nText\n"] {
            let dated = of(Format::Markdown, &format!("---\n{written}\n---\nText")).dated;
            assert_eq!(dated.unwrap().to_string(), "2012-11-10T00:00:00Z", "{written}");
        }
        for tags in ["tags = ['birds', \"big ones\"]", "tags = [\n  'birds',\n  'big ones',\n]"] {
            let toml = of(
                Format::Markdown,
                &format!(
                    "+++\ntitle = \"Named\"\ndate = 2024-05-01T12:00:00Z\n{tags}\n[extra]\nupdated = 2025-01-01\n+++\n# Other\n"
                ),
            );
            assert_eq!(
                (toml.title.as_deref(), toml.tags.join("|")),
                (Some("Named"), "birds|big ones".into())
            );
            assert_eq!(
                toml.dated.unwrap().to_string(),
                "2024-05-01T12:00:00Z",
                "of a table is not the text's own"
            );
        }
        let windows = of(
            Format::Markdown,
            "---\r\ntitle: Named\r\ntags:\r\n  - birds\r\n  - big ones\r\n---\r\n# Other\r\n\r\nIt is\r\nabout them, and more.\r\n\r\nMore.\r\n",
        );
        assert_eq!(
            (windows.title.as_deref(), &*windows.tags),
            (Some("Named"), &["birds".into(), "big ones".into()][..])
        );
        assert_eq!(windows.description.as_deref(), Some("It is about them, and more."));
        let plain =
            of(Format::Markdown, "# Chapter 1: The Keeper\n\nThe Keeper stood at the edge. He waited.\n");
        assert_eq!(plain.title.as_deref(), Some("Chapter 1: The Keeper"));
        assert_eq!(plain.description.as_deref(), Some("The Keeper stood at the edge."));
    }
}
