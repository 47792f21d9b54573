//! Macros that a page defines.

use std::collections::HashMap;

/// Macros may use macros; deeper ones are made to hurt.
const DEEPEST: usize = 12;

/// What all uses of macros of a page become, in bytes, at most.
const MOST_EXPANDED: usize = 4 << 20;

/// A longer line of a macro is given no more arguments.
const LONGEST_LINE: usize = 1 << 16;

/// The macros that a page defines, and the one that it is defining.
#[derive(Default)]
pub(super) struct Macros {
    known: HashMap<String, Vec<String>>,
    open: Option<Definition>,
    /// No more are defined: the page has one that never ends.
    is_closed: bool,
    /// How many are being used within each other.
    depth: usize,
    /// How much was made of them.
    expanded: usize,
}

/// A macro whose end was not read yet.
pub(super) struct Definition {
    /// `de`, `am` or `ig`.
    request: String,
    name: String,
    /// The macro that ends it.
    end: Option<String>,
    /// Its lines as they stand in the page.
    pub(super) body: Vec<String>,
    /// Where the definition begins.
    pub(super) line: u64,
}

impl Macros {
    /// What `.de`, `.am` or `.ig` on this line of the page says.
    pub(super) fn begin(&mut self, request: &str, rest: &str, line: u64) {
        if self.is_closed {
            return;
        }
        let rest = rest.split_once("\\\"").map_or(rest, |(rest, _)| rest);
        let mut words = rest.split_whitespace().map(str::to_owned);
        let name = if request == "ig" { String::new() } else { words.next().unwrap_or_default() };
        let request = request.trim_end_matches('1').to_owned();
        self.open = Some(Definition { request, name, end: words.next(), body: Vec::new(), line });
    }

    pub(super) fn is_defining(&self) -> bool {
        self.open.is_some()
    }

    /// Takes a line of the macro that is being defined. Whether the line ends it and is a request as well.
    pub(super) fn take(&mut self, line: &str) -> bool {
        let Some(open) = &mut self.open else { return false };
        if !is_end(line, open.end.as_deref()) {
            open.body.push(line.to_owned());
            return false;
        }
        let is_request = open.end.is_some();
        self.define();
        is_request
    }

    fn define(&mut self) {
        let Some(Definition { request, name, body, .. }) = self.open.take() else { return };
        let body = body.into_iter().map(|line| line.replace("\\\\", "\\"));
        match &*request {
            "de" => drop(self.known.insert(name, body.collect())),
            // What is added to macros that we do not have is not known to be all of them.
            "am" => {
                if let Some(known) = self.known.get_mut(&name) {
                    known.extend(body);
                }
            }
            _ => {}
        }
    }

    /// The macro that the page does not end: what seems to be in it is the page.
    pub(super) fn unended(&mut self) -> Option<Definition> {
        self.is_closed = true;
        self.open.take()
    }

    /// What `.als` says: a new name for a macro.
    pub(super) fn alias(&mut self, names: &str) {
        let mut names = names.split_whitespace();
        let (Some(new), Some(old)) = (names.next(), names.next()) else { return };
        let Some(body) = self.known.get(old) else { return };
        self.expanded += body.iter().map(|line| line.len() + 32).sum::<usize>();
        if self.expanded <= MOST_EXPANDED {
            self.known.insert(new.to_owned(), body.clone());
        }
    }

    pub(super) fn is_known(&self, name: &str) -> bool {
        self.known.contains_key(name)
    }

    /// The lines that a macro stands for, until [`Self::end_use`]. None where they would be too many.
    pub(super) fn begin_use(&mut self, name: &str, arguments: &[String]) -> Option<Vec<String>> {
        if self.depth == DEEPEST || self.expanded > MOST_EXPANDED {
            return None;
        }
        let mut lines = Vec::new();
        for line in self.known.get(name)? {
            let line = with_arguments(line, name, arguments);
            self.expanded += line.len() + 32;
            lines.push(line);
            if self.expanded > MOST_EXPANDED {
                return None;
            }
        }
        self.depth += 1;
        Some(lines)
    }

    pub(super) fn end_use(&mut self) {
        self.depth -= 1;
    }
}

/// Whether a line ends a macro: `..`, with blanks before the second full stop or not, or the request that it is to end with.
fn is_end(line: &str, end: Option<&str>) -> bool {
    let request = line.trim_start().strip_prefix(['.', '\'']).map(str::trim_start);
    request.is_some_and(|request| request.split([' ', '\t', '\\']).next() == Some(end.unwrap_or(".")))
}

/// A line of a macro with what it was given: `\$1` to `\$9`, all of them (`\$*`, and `\$@` in quotes), and its name (`\$0`).
fn with_arguments(line: &str, name: &str, arguments: &[String]) -> String {
    let mut out = String::with_capacity(line.len());
    let mut rest = line;
    while let Some(at) = rest.find('\\').filter(|_| out.len() < LONGEST_LINE) {
        let (before, escape) = rest.split_at(at);
        out.push_str(before);
        let asked = escape.strip_prefix("\\$").and_then(|asked| asked.chars().next());
        let given = |number: u32| arguments.get(number as usize - 1).map_or("", String::as_str);
        match asked {
            Some('0') => out.push_str(name),
            Some(digit @ '1'..='9') => out.push_str(given(digit.to_digit(10).unwrap_or(1))),
            Some('*') => out.push_str(&arguments.join(" ")),
            Some('@') => out.push_str(&format!("\"{}\"", arguments.join("\" \""))),
            _ => {
                let other = escape.chars().nth(1).map_or(1, |char| 1 + char.len_utf8());
                out.push_str(&escape[..other]);
                rest = &escape[other..];
                continue;
            }
        }
        rest = &escape[3..];
    }
    out.push_str(rest);
    out
}
