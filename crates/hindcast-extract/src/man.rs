//! Manual pages: the macros `man` and `mdoc` as headings and plain text.

use crate::{Extracted, outline::Outline};

/// Whether a text is written for `troff`, whatever its file is called.
pub(crate) fn is_troff(text: &str) -> bool {
    let macros = [".TH ", ".SH", ".Dd ", ".Dt ", ".so ", ".de "];
    text.lines().take(200).any(|line| macros.iter().any(|known| line.starts_with(known)))
}

/// Whether a page only names another one to be shown in its place.
pub(crate) fn leads_elsewhere(text: &str) -> bool {
    let mut lines = text.lines().filter(|line| !line.starts_with(".\\\"") && !line.trim().is_empty());
    lines.next().is_some_and(|line| line.starts_with(".so ")) && lines.next().is_none()
}

pub(crate) fn extract(text: &str) -> Extracted {
    let mut page = Page::default();
    for line in text.lines() {
        page.take(line);
    }
    page.end_paragraph();
    page.outline.finish(page.title)
}

#[derive(Default)]
struct Page {
    outline: Outline,
    title: Option<String>,
    paragraph: String,
    /// Lines are kept as they are.
    is_literal: bool,
    /// The next line of text names what the paragraph is about.
    is_term: bool,
    /// What `mdoc` calls the program where it names none.
    name: String,
    /// A macro is being defined, which is not text.
    in_definition: bool,
    table: Table,
}

/// Where in a table of `tbl` a line stands.
#[derive(Default, PartialEq)]
enum Table {
    #[default]
    Outside,
    /// In what says how it is laid out, which ends with a full stop.
    Layout,
    Rows,
}

impl Page {
    fn take(&mut self, line: &str) {
        if self.in_definition {
            self.in_definition = line.trim() != "..";
            return;
        }
        match self.table {
            Table::Layout => {
                if line.trim_end().ends_with('.') {
                    self.table = Table::Rows;
                }
                return;
            }
            // Lines of signs are rules.
            Table::Rows if ["_", "=", "T{", "T}"].contains(&line.trim()) => return,
            Table::Rows if !line.starts_with('.') => {
                let cells: Vec<_> = unescaped(line).split('\t').map(|cell| cell.trim().to_owned()).collect();
                let row = cells.join(" | ");
                self.paragraph.push_str(row.trim_start_matches("T}").trim_end_matches("T{"));
                return self.break_line();
            }
            _ => {}
        }
        let request = line.strip_prefix(['.', '\'']).map(str::trim_start);
        let Some(request) = request else {
            // What stands before the title is for troff.
            if self.title.is_some() || !self.outline.text.is_empty() {
                self.text(&unescaped(line));
            }
            return;
        };
        let (name, rest) = request.split_once([' ', '\t']).unwrap_or((request, ""));
        let words = || arguments(rest).join(" ");
        match name {
            "TH" | "Dt" => {
                let words = arguments(rest);
                let section = words.get(1).map(|section| format!("({section})")).unwrap_or_default();
                self.title = words.first().map(|name| format!("{}{section}", name.to_lowercase()));
            }
            "SH" | "Sh" => self.heading(1, &words()),
            "SS" | "Ss" => self.heading(2, &words()),
            "PP" | "P" | "LP" | "Pp" | "sp" | "HP" => self.end_paragraph(),
            "TP" | "TQ" => {
                self.end_paragraph();
                self.is_term = true;
            }
            "IP" | "It" => {
                self.end_paragraph();
                let term = if name == "It" {
                    self.mdoc(rest)
                } else {
                    arguments(rest).first().cloned().unwrap_or_default()
                };
                if !term.is_empty() {
                    self.paragraph = term;
                    self.break_line();
                }
            }
            "TS" => {
                self.end_paragraph();
                self.table = Table::Layout;
            }
            "TE" => {
                self.end_paragraph();
                self.table = Table::Outside;
            }
            "br" => self.break_line(),
            "nf" | "EX" | "Bd" => {
                self.end_paragraph();
                self.is_literal = name != "Bd" || rest.contains("literal") || rest.contains("unfilled");
            }
            "fi" | "EE" | "Ed" => {
                self.end_paragraph();
                self.is_literal = false;
            }
            "B" | "I" | "SM" | "SB" | "R" | "UR" | "MT" => self.text(&words()),
            // Neighbours in turns of two fonts are one word.
            "BI" | "BR" | "IB" | "IR" | "RB" | "RI" => self.text(&arguments(rest).concat()),
            "SY" => self.text(&words()),
            "OP" => self.text(&format!("[{}]", words())),
            "de" | "de1" | "am" => self.in_definition = true,
            "Nm" | "Nd" | "Fl" | "Ar" | "Op" | "Pa" | "Cm" | "Ev" | "Xr" | "Sy" | "Em" | "Dq" | "Sq"
            | "Pq" | "Li" | "Va" | "Vt" | "Fn" | "Fa" | "Ft" | "Dv" | "Er" | "In" | "Ql" | "Ic" | "Lk"
            | "Oo" | "Oc" | "Ns" | "Tn" | "Ux" => {
                let said = self.mdoc(&format!("{name} {rest}"));
                self.text(&said);
            }
            _ => {}
        }
    }

    fn heading(&mut self, level: u8, name: &str) {
        self.end_paragraph();
        self.is_literal = false;
        self.outline.heading(level, name);
    }

    fn text(&mut self, text: &str) {
        if self.is_literal {
            self.paragraph.push_str(text);
            self.paragraph.push('\n');
            return;
        }
        let text = text.trim();
        if text.is_empty() {
            return self.end_paragraph();
        }
        if !self.paragraph.is_empty() && !self.paragraph.ends_with('\n') {
            self.paragraph.push(' ');
        }
        self.paragraph.push_str(text);
        if std::mem::take(&mut self.is_term) {
            self.break_line();
        }
    }

    fn break_line(&mut self) {
        if !self.paragraph.is_empty() && !self.paragraph.ends_with('\n') {
            self.paragraph.push('\n');
        }
    }

    fn end_paragraph(&mut self) {
        self.is_term = false;
        let paragraph = std::mem::take(&mut self.paragraph);
        self.outline.body(&paragraph);
    }

    /// A line of `mdoc`, whose macros may stand within it.
    fn mdoc(&mut self, line: &str) -> String {
        let mut said: Vec<String> = Vec::new();
        let mut words = arguments(line).into_iter().peekable();
        let mut closing = Vec::new();
        while let Some(word) = words.next() {
            match &*word {
                "Nm" => {
                    match words.next_if(|next| !is_macro(next) && next.chars().any(char::is_alphanumeric)) {
                        Some(name) => {
                            if self.name.is_empty() {
                                self.name.clone_from(&name);
                            }
                            said.push(name);
                        }
                        None => said.push(self.name.clone()),
                    }
                }
                "Nd" => said.push("—".into()),
                "Fl" => {
                    let flag = words.next_if(|next| !is_macro(next)).unwrap_or_default();
                    said.push(format!("-{flag}"));
                }
                "Op" | "Oo" => {
                    said.push("[".into());
                    closing.push("]");
                }
                "Oc" => {
                    closing.pop();
                    said.push("]".into());
                }
                "Xr" => {
                    let page = words.next().unwrap_or_default();
                    let section = words.next_if(|next| next.len() <= 2).map(|section| format!("({section})"));
                    said.push(page + &section.unwrap_or_default());
                }
                "Pq" => {
                    said.push("(".into());
                    closing.push(")");
                }
                word if is_macro(word) => {}
                _ => said.push(word),
            }
        }
        said.extend(closing.into_iter().rev().map(str::to_owned));
        let text = said.join(" ");
        text.replace("[ ", "[")
            .replace(" ]", "]")
            .replace("( ", "(")
            .replace(" )", ")")
            .replace(" ,", ",")
            .replace(" .", ".")
    }
}

fn is_macro(word: &str) -> bool {
    const MACROS: [&str; 32] = [
        "Nm", "Nd", "Fl", "Ar", "Op", "Pa", "Cm", "Ev", "Xr", "Sy", "Em", "Dq", "Sq", "Pq", "Li", "Va", "Vt",
        "Fn", "Fa", "Ft", "Dv", "Er", "In", "Ql", "Ic", "Lk", "Oo", "Oc", "Ns", "Tn", "Ux", "No",
    ];
    MACROS.contains(&word)
}

/// The words of a request; quotes hold some together.
fn arguments(line: &str) -> Vec<String> {
    let (mut words, mut word, mut is_quoted, mut is_open) = (Vec::new(), String::new(), false, false);
    let mut characters = line.chars().peekable();
    while let Some(char) = characters.next() {
        match char {
            '\\' if characters.peek() == Some(&'"') => break,
            '\\' => {
                word.push('\\');
                word.extend(characters.next());
                is_open = true;
            }
            '"' => (is_quoted, is_open) = (!is_quoted, true),
            ' ' | '\t' if !is_quoted => {
                if std::mem::take(&mut is_open) {
                    words.push(unescaped(&std::mem::take(&mut word)));
                }
            }
            char => {
                word.push(char);
                is_open = true;
            }
        }
    }
    if is_open {
        words.push(unescaped(&word));
    }
    words
}

/// The characters that escapes stand for, without fonts and sizes.
fn unescaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find('\\') {
        out.push_str(&rest[..at]);
        rest = &rest[at + 1..];
        let Some(kind) = rest.chars().next() else { break };
        rest = &rest[kind.len_utf8()..];
        match kind {
            '"' => return out,
            'f' | 's' | 'm' | '*' | 'n' | 'k' | 'F' => rest = after_name(rest),
            'h' | 'v' | 'w' | 'o' | 'z' | 'N' => {
                rest = rest
                    .strip_prefix('\'')
                    .and_then(|rest| rest.split_once('\''))
                    .map_or(rest, |(_, rest)| rest);
            }
            '(' => {
                let end = rest.char_indices().nth(2).map_or(rest.len(), |(end, _)| end);
                out.push_str(special(&rest[..end]));
                rest = &rest[end..];
            }
            '[' => {
                let (name, after) = rest.split_once(']').unwrap_or((rest, ""));
                out.push_str(special(name));
                rest = after;
            }
            'e' | '\\' => out.push('\\'),
            '~' | '0' | ' ' => out.push(' '),
            '&' | '|' | '^' | '/' | ',' | '%' | ':' | ')' | 'c' | 'p' | 'd' | 'u' => {}
            other => out.push(other),
        }
    }
    out.push_str(rest);
    out
}

/// Behind a name of one character, two (`(xx`) or any number (`[xxx]`).
fn after_name(rest: &str) -> &str {
    let skipped = match rest.chars().next() {
        Some('[') => return rest.split_once(']').map_or("", |(_, rest)| rest),
        Some('(') => 3,
        Some('+' | '-') => 2,
        Some(_) => 1,
        None => 0,
    };
    rest.char_indices().nth(skipped).map_or("", |(at, _)| &rest[at..])
}

fn special(name: &str) -> &'static str {
    match name {
        "aq" | "cq" | "oq" => "'",
        "dq" | "lq" | "rq" => "\"",
        "bu" => "•",
        "em" => "—",
        "en" => "–",
        "hy" | "mi" => "-",
        "co" => "©",
        "rg" => "®",
        "ha" => "^",
        "ti" => "~",
        "rs" => "\\",
        "ga" => "`",
        "->" => "→",
        "<-" => "←",
        ">=" => "≥",
        "<=" => "≤",
        _ => "",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_macro_packages_become_headings_and_text() {
        let man = ".\\\" comment\n.TH LS 1 \"May 2020\"\n.SH NAME\nls \\- list directory contents\n.SH OPTIONS\n.TP\n\\fB\\-a\\fR, \\fB\\-\\-all\\fR\n\
                   do not ignore entries\n.PP\n.BR grep (1)\nis \\(dqother\\(dq.\n.nf\n  code  here\n.fi\n";
        let page = extract(man);
        assert_eq!(page.title.as_deref(), Some("ls(1)"));
        let expected = "# NAME\n\nls - list directory contents\n\n# OPTIONS\n\n-a, --all\ndo not ignore entries\n\ngrep(1) is \"other\".\n\n  code  here";
        assert_eq!(page.text.as_deref(), Some(expected));
        let mdoc = ".Dd May 1\n.Dt CAT 1\n.Sh NAME\n.Nm cat\n.Nd concatenate files\n.Sh SYNOPSIS\n.Nm\n.Op Fl bn\n.Op Ar\n.Sh SEE ALSO\n.Xr more 1 ,\n.Xr ls 1\n";
        let page = extract(mdoc);
        let expected =
            "# NAME\n\ncat — concatenate files\n\n# SYNOPSIS\n\ncat [-bn] []\n\n# SEE ALSO\n\nmore(1), ls(1)";
        assert_eq!(page.text.as_deref(), Some(expected));
    }
}
