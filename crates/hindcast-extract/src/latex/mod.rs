//! LaTeX as its readers see it: text and headings without commands, code as it is, mathematics as it was written.

mod accents;
mod commands;

use commands::{Command, Environment};

use crate::{Extracted, outline::Outline};

/// An option such as `[width=3cm]`, what stands between two signs after `\verb`, and a formula have at most so many bytes.
const LONGEST_OPTION: usize = 300;
const LONGEST_VERB: usize = 500;
const LONGEST_FORMULA: usize = 2000;

/// Reads every byte once: what is open is known by a stack, and nothing is looked for further than a formula is long.
pub(crate) fn extract(source: &str) -> Extracted {
    let mut reader = Reader {
        source,
        at: 0,
        line: 1,
        outline: Outline::default(),
        title: None,
        text: String::new(),
        lines: Vec::new(),
        open: Vec::new(),
        apart: 0,
        is_preamble: source.contains("\\begin{document}"),
        tables: 0,
        term: None,
    };
    while reader.at < source.len() && !reader.step() {}
    reader.end_paragraph();
    reader.outline.finish(reader.title)
}

/// What the end of a group means.
enum Close {
    /// What stands before it counts.
    Nothing,
    /// It is followed by this.
    Push(&'static str),
    /// The text from this byte on goes, and so do so many arguments that follow.
    Discard { from: usize, more: usize },
    /// The text from this byte on is a heading.
    Heading { level: u8, line: u64 },
    /// The text from this byte on is the document's title.
    Title { from: usize },
}

impl Close {
    fn is_apart(&self) -> bool {
        matches!(self, Self::Discard { .. } | Self::Heading { .. } | Self::Title { .. })
    }
}

struct Reader<'a> {
    source: &'a str,
    at: usize,
    /// The line of `at`, from 1.
    line: u64,
    outline: Outline,
    title: Option<String>,
    /// The paragraph so far.
    text: String,
    /// From which byte of the paragraph on which line of the source stands.
    lines: Vec<(usize, u64)>,
    open: Vec<Close>,
    /// Of these, groups that are no text of a paragraph.
    apart: usize,
    /// What comes before the document is for the program.
    is_preamble: bool,
    /// Tables that are open.
    tables: usize,
    /// Where the bracket stands that ends what a list explains.
    term: Option<usize>,
}

impl<'a> Reader<'a> {
    /// Reads on. Whether the document ends.
    fn step(&mut self) -> bool {
        let Some(char) = self.rest().chars().next() else { return true };
        match char {
            '\\' => return self.backslash(),
            '%' => self.skip_comment(),
            '\n' => self.end_line(),
            '{' => {
                self.at += 1;
                self.open.push(Close::Nothing);
            }
            '}' => self.close(),
            ']' if self.term == Some(self.at) => self.at += 1,
            '$' => self.dollars(),
            '~' => self.replace(1, " "),
            '&' if self.tables > 0 => self.replace(1, " | "),
            '-' if self.rest().starts_with("---") => self.replace(3, "—"),
            '-' if self.rest().starts_with("--") => self.replace(2, "–"),
            '`' if self.rest().starts_with("``") => self.replace(2, "“"),
            '\'' if self.rest().starts_with("''") => self.replace(2, "”"),
            ' ' | '\t' | '\r' => self.replace(1, " "),
            _ => {
                let end = self.rest().find(is_special).unwrap_or(self.rest().len());
                let words = &self.rest()[..end.max(char.len_utf8())];
                self.replace(words.len(), words);
            }
        }
        false
    }

    fn rest(&self) -> &'a str {
        &self.source[self.at..]
    }

    /// Puts this instead of so many bytes of the source that have no end of a line.
    fn replace(&mut self, bytes: usize, text: &str) {
        self.at += bytes;
        self.push(text);
    }

    fn push(&mut self, text: &str) {
        // Spaces are not doubled, and do not begin a line.
        let text = match self.text.chars().next_back() {
            None | Some('\n' | ' ') => text.trim_start_matches(' '),
            Some(_) => text,
        };
        if text.is_empty() {
            return;
        }
        if self.lines.last().is_none_or(|(_, line)| *line != self.line) {
            self.lines.push((self.text.len(), self.line));
        }
        self.text.push_str(text);
    }

    fn new_line(&mut self) {
        self.text.truncate(self.text.trim_end_matches(' ').len());
        if !self.text.is_empty() && !self.text.ends_with('\n') {
            self.text.push('\n');
        }
    }

    fn truncate(&mut self, len: usize) {
        self.text.truncate(len);
        while self.lines.pop_if(|(at, _)| *at >= len).is_some() {}
    }

    fn end_line(&mut self) {
        self.at += 1;
        self.line += 1;
        self.new_line();
        let next = self.rest().split('\n').next().unwrap_or_default();
        if next.trim().is_empty() {
            self.end_paragraph();
        }
    }

    /// Skips up to the next line, where TeX goes on as if there was no end of a line.
    fn skip_comment(&mut self) {
        self.at += self.rest().find('\n').unwrap_or(self.rest().len());
        if self.text.is_empty() || self.text.ends_with('\n') {
            // A line of its own leaves nothing.
            return;
        }
        let next = self.rest().get(1..).unwrap_or_default();
        let line = next.split('\n').next().unwrap_or_default();
        if !self.rest().is_empty() && !line.trim().is_empty() {
            self.at += 1 + line.len() - line.trim_start().len();
            self.line += 1;
        }
    }

    /// No argument of a command goes on behind an empty line: what is open was not closed.
    fn end_paragraph(&mut self) {
        let open = std::mem::take(&mut self.open);
        self.apart = 0;
        let discarded = open.iter().find_map(|close| match close {
            Close::Discard { from, .. } | Close::Title { from } => Some(*from),
            _ => None,
        });
        if let Some(from) = discarded {
            self.truncate(from);
        }
        let heading = open.iter().find_map(|close| match close {
            Close::Heading { level, line } => Some((*level, *line)),
            _ => None,
        });
        match heading {
            Some((level, line)) => self.heading(level, line),
            None if self.is_preamble => {}
            None => self.outline.body_on(&self.text, &self.lines),
        }
        self.text.clear();
        self.lines.clear();
    }

    fn heading(&mut self, level: u8, line: u64) {
        if !self.is_preamble {
            self.outline.on_line(line);
            self.outline.heading(level, &self.text);
        }
        self.text.clear();
        self.lines.clear();
    }

    fn close(&mut self) {
        self.at += 1;
        let close = self.open.pop();
        self.apart -= usize::from(close.as_ref().is_some_and(Close::is_apart));
        match close {
            None | Some(Close::Nothing) => {}
            Some(Close::Push(text)) => self.push(text),
            Some(Close::Discard { from, more }) => {
                self.truncate(from);
                self.discard(more);
                return;
            }
            Some(Close::Heading { level, line }) => {
                self.heading(level, line);
                return;
            }
            Some(Close::Title { from }) => {
                let title =
                    self.text[from.min(self.text.len())..].split_whitespace().collect::<Vec<_>>().join(" ");
                self.title = self.title.take().or(Some(title)).filter(|title| !title.is_empty());
                self.truncate(from);
            }
        }
        // What two arguments say is not one word.
        if self.rest().starts_with('{') {
            self.push(" ");
        }
    }

    /// Leaves out so many arguments from here on, and options between them.
    fn discard(&mut self, arguments: usize) {
        if arguments == 0 {
            return;
        }
        self.open_with(Close::Discard { from: self.text.len(), more: arguments - 1 });
    }

    fn skip_options(&mut self) {
        while let Some(option) = self.option() {
            self.at += option.len() + 2;
        }
    }

    /// What stands in brackets here, on this line.
    fn option(&self) -> Option<&'a str> {
        let inner = self.rest().strip_prefix('[')?;
        let mut depth = 0;
        for (at, char) in inner.char_indices().take(LONGEST_OPTION) {
            match char {
                '{' => depth += 1,
                '}' => depth -= 1,
                ']' if depth <= 0 => return Some(&inner[..at]),
                '\n' => return None,
                _ => {}
            }
        }
        None
    }

    /// Reads an argument whose end means this.
    fn open_with(&mut self, close: Close) {
        self.skip_options();
        if self.rest().starts_with('{') {
            self.at += 1;
            self.apart += usize::from(close.is_apart());
            self.open.push(close);
        }
    }

    /// A formula stays as it is.
    fn dollars(&mut self) {
        let sign = if self.rest().starts_with("$$") { "$$" } else { "$" };
        if !self.formula(sign, sign) {
            self.replace(1, "$");
        }
    }

    /// Copies what stands between two signs, if it ends within its paragraph.
    fn formula(&mut self, begin: &str, end: &str) -> bool {
        let inner = &self.rest()[begin.len()..];
        let inner = &inner[..inner.floor_char_boundary(LONGEST_FORMULA)];
        let paragraph = inner.split("\n\n").next().unwrap_or_default();
        let Some(length) = paragraph.find(end).filter(|length| *length > 0) else { return false };
        let sign = if matches!(end, "$" | "\\)") { "$" } else { "$$" };
        self.at += begin.len();
        self.push(sign);
        self.copy(&paragraph[..length]);
        self.replace(end.len(), sign);
        true
    }

    /// Copies a part of the source without its labels.
    fn copy(&mut self, part: &str) {
        let end = self.at + part.len();
        while self.at < end {
            let line = self.source[self.at..end].split('\n').next().unwrap_or_default();
            let (before, after) = line.split_once("\\label{").unwrap_or((line, ""));
            self.push(before);
            self.push(after.split_once('}').map_or("", |(_, after)| after));
            self.at += line.len();
            if self.at < end {
                self.new_line();
                (self.at, self.line) = (self.at + 1, self.line + 1);
            }
        }
    }

    /// A command. Whether it ends the document.
    fn backslash(&mut self) -> bool {
        let after = &self.rest()[1..];
        let name = &after
            [..after.find(|char: char| !char.is_ascii_alphabetic() && char != '@').unwrap_or(after.len())];
        if let Some((accented, length)) = accents::read(after) {
            self.replace(1 + length, &accented);
            return false;
        }
        if name.is_empty() {
            self.sign(after);
            return false;
        }
        self.at += 1 + name.len();
        if self.rest().starts_with('*') {
            self.at += 1;
        }
        if let Some(text) = commands::symbol(name) {
            self.push(text);
            self.skip_spaces();
            return false;
        }
        self.command(name)
    }

    /// A command whose name is a sign.
    fn sign(&mut self, after: &str) {
        let is_formula = match after.chars().next() {
            Some('(') => self.formula("\\(", "\\)"),
            Some('[') => self.formula("\\[", "\\]"),
            _ => false,
        };
        if is_formula {
            return;
        }
        match after.chars().next() {
            Some('\\') => {
                self.at += 2;
                self.skip_options();
                self.new_line();
            }
            // The end of the line is read as always.
            Some('\n') | None => self.replace(1, " "),
            Some(' ' | ',' | ';' | ':') => self.replace(2, " "),
            Some('!' | '/' | '-' | '@' | '(' | ')' | '[' | ']') => self.at += 2,
            Some(char) => {
                self.at += 1 + char.len_utf8();
                self.push(char.encode_utf8(&mut [0; 4]));
            }
        }
    }

    fn skip_spaces(&mut self) {
        self.at += self.rest().len() - self.rest().trim_start_matches([' ', '\t']).len();
    }

    fn command(&mut self, name: &str) -> bool {
        match commands::of(name) {
            Command::Begin => self.begin(),
            Command::End => return self.end(),
            Command::Heading(level) => {
                self.end_paragraph();
                let line = self.line;
                self.open_with(Close::Heading { level, line });
            }
            Command::Title => {
                let from = self.text.len();
                self.open_with(Close::Title { from });
            }
            Command::Discard(arguments) => self.discard(arguments),
            Command::Link => {
                // In an address nothing is a comment.
                if self.name().is_empty() {
                    self.discard(1);
                }
            }
            Command::Define => {
                let end = self.rest().find(['{', '\n']).unwrap_or(self.rest().len());
                let is_word = !self.rest().starts_with('{');
                self.at += if is_word { end } else { 0 };
                self.discard(usize::MAX);
            }
            Command::Aside => {
                self.push(" (");
                self.open_with(Close::Push(")"));
            }
            Command::Item => {
                self.new_line();
                self.push("- ");
                if let Some(term) = self.option() {
                    // What it says is read as any text, without its brackets.
                    self.term = Some(self.at + 1 + term.len());
                    self.at += 1;
                } else {
                    self.skip_spaces();
                }
            }
            Command::Verb => self.verb(),
            Command::Break => {
                self.new_line();
                self.skip_spaces();
            }
            Command::Paragraph => self.end_paragraph(),
            Command::Other => {
                self.skip_options();
                self.skip_spaces();
            }
        }
        false
    }

    /// `\verb|x|`, or `\lstinline{x}`.
    fn verb(&mut self) {
        self.skip_options();
        let Some(sign) = self.rest().chars().next() else { return };
        let end = if sign == '{' { '}' } else { sign };
        let inner = &self.rest()[sign.len_utf8()..];
        let line = &inner[..inner.floor_char_boundary(LONGEST_VERB)];
        let line = line.split('\n').next().unwrap_or_default();
        if let Some((code, _)) = line.split_once(end) {
            self.replace(sign.len_utf8() + code.len() + end.len_utf8(), &format!("`{code}`"));
        }
    }

    /// The name in braces.
    fn name(&mut self) -> &'a str {
        let inner = self.rest().strip_prefix('{').unwrap_or_default();
        let inner = &inner[..inner.floor_char_boundary(LONGEST_OPTION)];
        let Some((name, _)) = inner.split_once('}') else { return "" };
        self.at += name.len() + 2;
        self.line += name.matches('\n').count() as u64;
        name.trim()
    }

    fn begin(&mut self) {
        let name = self.name();
        match commands::environment(name) {
            Environment::Document => {
                self.end_paragraph();
                self.is_preamble = false;
            }
            Environment::Code => self.code(name),
            Environment::Skipped => drop(self.skip_to_end(name)),
            Environment::Formula => {
                self.new_line();
                self.push("$$");
                let end = self.rest().find(&format!("\\end{{{name}}}"));
                let part = &self.rest()[..end.unwrap_or(self.rest().len())];
                self.copy(part);
                self.push("$$");
            }
            Environment::Table => {
                self.tables += 1;
                self.new_line();
                self.discard(usize::MAX);
            }
            Environment::Float => {
                self.new_line();
                self.discard(usize::MAX);
            }
            Environment::Other => {
                self.new_line();
                self.skip_options();
            }
        }
    }

    /// Whether the document ends.
    fn end(&mut self) -> bool {
        let name = self.name();
        if matches!(commands::environment(name), Environment::Table) {
            self.tables = self.tables.saturating_sub(1);
        }
        self.new_line();
        name == "document"
    }

    /// Skips an environment in which nothing is a command, and gives what it has.
    fn skip_to_end(&mut self, name: &str) -> &'a str {
        let end = format!("\\end{{{name}}}");
        let rest = self.rest();
        let length = rest.find(&end).unwrap_or(rest.len());
        self.at += rest.len().min(length + end.len());
        self.line += rest[..length].matches('\n').count() as u64;
        &rest[..length]
    }

    fn code(&mut self, name: &str) {
        let first = self.line;
        let mut language = "";
        if let Some(option) = self.option() {
            language = option.split_once("language=").map_or("", |(_, language)| language);
            self.at += option.len() + 2;
        }
        if name == "minted" {
            language = self.name();
        }
        let end = language.find(|char: char| !char.is_ascii_alphanumeric()).unwrap_or(language.len());
        let code = self.skip_to_end(name);
        if self.is_preamble || self.apart > 0 {
            return;
        }
        let code = code.strip_prefix('\n').unwrap_or(code).trim_end();
        let open = std::mem::take(&mut self.open);
        self.end_paragraph();
        self.open = open;
        self.outline.body_from(&format!("```{}\n{code}\n```", language[..end].to_lowercase()), first);
    }
}

fn is_special(char: char) -> bool {
    "\\%{}$~&-`'] \t\r\n".contains(char)
}

#[cfg(test)]
mod tests;
