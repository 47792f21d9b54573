//! Manual pages: the macros `man` and `mdoc` as headings and plain text.

mod escapes;
mod macros;
mod mdoc;
mod registers;
mod version;

use crate::{Extracted, outline::Outline};
use escapes::{Escapes, raw_arguments};
use macros::Macros;
use registers::Registers;

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
        page.line += 1;
        page.take(line);
    }
    page.take_unended();
    page.end_paragraph();
    Extracted { tags: page.version.into_iter().collect(), ..page.outline.finish(page.title) }
}

#[derive(Default)]
struct Page {
    outline: Outline,
    title: Option<String>,
    /// The software it is about, with its version.
    version: Option<String>,
    /// The line of the source that is read, from 1.
    line: u64,
    paragraph: String,
    /// From which byte of the paragraph on which line of the source stands.
    lines: Vec<(usize, u64)>,
    /// What comes next is not set apart from what is there.
    is_tight: bool,
    /// Lines are kept as they are.
    is_literal: bool,
    /// The next line of text names what the paragraph is about.
    is_term: bool,
    /// The next line of text is a heading of this level.
    heading: Option<u8>,
    /// What `mdoc` calls the program where it names none.
    name: String,
    /// The arguments of the function that `mdoc` is declaring.
    function: Option<usize>,
    /// Braces that are open of what a condition leaves out.
    left_out: usize,
    /// Whether the last condition that may have an else held.
    held: bool,
    escapes: Escapes,
    macros: Macros,
    registers: Registers,
    table: Table,
    /// What separates the cells of the table.
    cell_end: Option<char>,
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
    fn take(&mut self, mut line: &str) {
        if self.macros.is_defining() {
            if self.macros.take(line) {
                self.take_whole(line.trim_start());
            }
            return;
        }
        if self.left_out > 0 {
            return self.leave_out(line);
        }
        while let Some(request) = line.strip_prefix(['.', '\'']).map(str::trim_start) {
            let then = match request.split_once([' ', '\t']).unwrap_or((request, "")) {
                ("if", rest) => {
                    let (holds, then) = self.registers.condition(rest);
                    holds.then_some(then).ok_or(then)
                }
                ("ie", rest) => {
                    let (holds, then) = self.registers.condition(rest);
                    self.held = holds;
                    holds.then_some(then).ok_or(then)
                }
                _ if request.starts_with("el") && !request[2..].starts_with(char::is_alphanumeric) => {
                    let then = &request[2..];
                    if self.held { Err(then) } else { Ok(then) }
                }
                _ => break,
            };
            match then {
                Ok(then) => line = then.trim_start().trim_start_matches("\\{").trim_start(),
                Err(then) => return self.leave_out(then),
            }
            if line.trim_end_matches('\\').is_empty() {
                return;
            }
        }
        self.take_whole(line);
    }

    /// Takes the lines of a macro that the page does not end.
    fn take_unended(&mut self) {
        let Some(definition) = self.macros.unended() else { return };
        self.line = definition.line;
        for line in &definition.body {
            self.line += 1;
            self.take(line);
        }
    }

    /// Takes what a macro of the page stands for; only what it was given where that is too much.
    fn expand(&mut self, name: &str, rest: &str) {
        let arguments = raw_arguments(rest);
        let Some(lines) = self.macros.begin_use(name, &arguments) else {
            let words = self.escapes.arguments(rest).join(" ");
            return self.said(&words);
        };
        let held = self.held;
        let around = self.registers.count_arguments(Some(arguments.len()));
        for line in &lines {
            self.take(line);
        }
        self.registers.count_arguments(around);
        self.held = held;
        self.macros.end_use();
    }

    /// Skips what a condition leaves out, up to the end of its braces.
    fn leave_out(&mut self, line: &str) {
        let (opened, closed) = (line.matches("\\{").count(), line.matches("\\}").count());
        self.left_out = (self.left_out + opened).saturating_sub(closed);
    }

    fn take_whole(&mut self, line: &str) {
        match self.table {
            Table::Layout => return self.layout(line),
            // Lines of signs are rules.
            Table::Rows if ["_", "=", "T{", "T}"].contains(&line.trim()) => return,
            Table::Rows if !line.starts_with('.') => return self.row(line),
            _ => {}
        }
        let request = line.strip_prefix(['.', '\'']).map(str::trim_start);
        let Some(request) = request else {
            // What stands before the title is for troff.
            if self.title.is_some() || !self.outline.text.is_empty() {
                let text = self.escapes.unescaped(line);
                self.text(&text);
                self.is_tight = line.ends_with("\\c");
            }
            return;
        };
        let request = request.trim_end_matches("\\}");
        let (name, rest) = request.split_once([' ', '\t']).unwrap_or((request, ""));
        self.request(name, rest);
    }

    fn layout(&mut self, line: &str) {
        if let Some((_, option)) = line.split_once("tab").filter(|_| line.trim_end().ends_with(';')) {
            self.cell_end = option.trim_start().strip_prefix('(').and_then(|option| option.chars().next());
        } else if line.trim_end().ends_with('.') {
            self.table = Table::Rows;
        }
    }

    fn row(&mut self, line: &str) {
        let end = self.cell_end.unwrap_or('\t');
        let cells: Vec<_> =
            self.escapes.unescaped(line).split(end).map(|cell| cell.trim().to_owned()).collect();
        let row = cells.join(" | ");
        self.add(row.trim_start_matches("T}").trim_end_matches("T{"), true);
        self.break_line();
    }

    fn request(&mut self, name: &str, rest: &str) {
        let arguments = || self.escapes.arguments(rest);
        let words = || arguments().join(" ");
        match name {
            "TH" | "Dt" => {
                let words = arguments();
                let section = words.get(1).map(|section| format!("({section})")).unwrap_or_default();
                self.title = words.first().map(|name| format!("{}{section}", name.to_lowercase()));
                self.version = version::told_by(&words);
            }
            "SH" | "Sh" => self.heading(1, &words()),
            "SS" | "Ss" => self.heading(2, &words()),
            "PP" | "P" | "LP" | "Pp" | "sp" | "HP" | "Bl" | "El" | "Lp" => self.end_paragraph(),
            "TP" | "TQ" => {
                self.end_paragraph();
                self.is_term = true;
            }
            "IP" => {
                let term = arguments().into_iter().next().unwrap_or_default();
                self.end_paragraph();
                self.add(&term, false);
                self.break_line();
            }
            "It" => {
                self.end_paragraph();
                self.mdoc(rest);
                self.break_line();
            }
            "TS" => {
                self.end_paragraph();
                (self.table, self.cell_end) = (Table::Layout, None);
            }
            "T&" => self.table = Table::Layout,
            "TE" => {
                self.end_paragraph();
                self.table = Table::Outside;
            }
            "br" | "RS" | "RE" | "ti" | "in" | "ce" | "YS" => self.break_line(),
            "nf" | "EX" | "Bd" => {
                self.end_paragraph();
                self.is_literal = name != "Bd" || rest.contains("literal") || rest.contains("unfilled");
            }
            "fi" | "EE" | "Ed" => {
                self.end_paragraph();
                self.is_literal = false;
            }
            "B" | "I" | "SM" | "SB" | "R" | "UR" | "MT" | "SY" => {
                let words = words();
                self.said(&words);
            }
            // Neighbours in turns of two fonts are one word.
            "BI" | "BR" | "IB" | "IR" | "RB" | "RI" => {
                let word = arguments().concat();
                self.said(&word);
            }
            "UE" | "ME" => {
                let behind = words();
                self.is_tight = true;
                self.said(&behind);
            }
            "MR" => {
                let words = arguments();
                let word = |at: usize| words.get(at).map_or("", String::as_str);
                let page = format!("{}({}){}", word(0), word(1), word(2));
                self.said(&page);
            }
            "OP" => {
                let option = format!("[{}]", words());
                self.said(&option);
            }
            "ds" | "ds1" => self.escapes.define(rest),
            "de" | "de1" | "am" | "am1" | "ig" => self.macros.begin(name, rest, self.line),
            "als" => self.macros.alias(rest),
            "nr" => self.registers.set(rest),
            "rr" => self.registers.remove(rest),
            _ if self.macros.is_known(name) => self.expand(name, rest),
            "Dl" | "D1" => {
                self.break_line();
                self.mdoc(rest);
                self.break_line();
            }
            // Of a reference: its author, its title and so on.
            _ if name.starts_with('%') => {
                let part = format!("{},", words());
                self.said(&part);
            }
            "Re" if self.paragraph.ends_with(',') => {
                self.paragraph.pop();
                self.paragraph.push('.');
            }
            _ if mdoc::is_macro(name) => self.mdoc(&format!("{name} {rest}")),
            _ => {}
        }
    }

    fn heading(&mut self, level: u8, name: &str) {
        self.end_paragraph();
        self.is_literal = false;
        if name.trim().is_empty() {
            self.heading = Some(level);
            return;
        }
        self.heading = None;
        self.outline.on_line(self.line);
        self.outline.heading(level, name);
    }

    /// A line of text; an empty one ends the paragraph.
    fn text(&mut self, text: &str) {
        match text.trim().is_empty() && !self.is_literal {
            true => self.end_paragraph(),
            false => self.said(text),
        }
    }

    /// Text that a request has; one without arguments has none.
    fn said(&mut self, text: &str) {
        if let Some(level) = self.heading.take_if(|_| !text.trim().is_empty()) {
            return self.heading(level, text);
        }
        self.add(text, false);
        if !text.trim().is_empty() && std::mem::take(&mut self.is_term) {
            self.break_line();
        }
    }

    /// Adds to the paragraph; without a blank before it where the text is tight, unless it has one.
    fn add(&mut self, text: &str, begins_tight: bool) {
        let is_tight = (std::mem::take(&mut self.is_tight) || begins_tight) && !text.starts_with(' ');
        self.lines.push((self.paragraph.len(), self.line));
        if self.is_literal {
            self.paragraph.push_str(text);
            self.paragraph.push('\n');
            return;
        }
        let text = text.trim();
        if !text.is_empty() && !is_tight && !self.paragraph.is_empty() && !self.paragraph.ends_with('\n') {
            self.paragraph.push(' ');
        }
        self.paragraph.push_str(text);
    }

    fn break_line(&mut self) {
        if !self.paragraph.is_empty() && !self.paragraph.ends_with('\n') {
            self.paragraph.push('\n');
        }
    }

    fn end_paragraph(&mut self) {
        (self.is_term, self.is_tight, self.function) = (false, false, None);
        let paragraph = std::mem::take(&mut self.paragraph);
        self.outline.body_on(&paragraph, &std::mem::take(&mut self.lines));
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
        let expected = "# NAME\n\ncat — concatenate files\n\n# SYNOPSIS\n\ncat [-bn] [file ...]\n\n# SEE ALSO\n\nmore(1), ls(1)";
        assert_eq!(page.text.as_deref(), Some(expected));
    }

    fn text(page: &str) -> String {
        extract(page).text.unwrap()
    }

    #[test]
    fn the_macros_of_mdoc_keep_their_text() {
        let page = ".Dd May 1\n.Dt STRAY 3\n.Sh NAME\n.Nm stray\n.Nd finds it\n.Sh SYNOPSIS\n.In stray.h\n.Ft int\n\
                    .Fo stray_find\n.Fa \"const char *name\"\n.Fa \"int flags\"\n.Fc\n.Ft void\n.Fn stray_end \"int how\" flags ;\n\
                    .Sh DESCRIPTION\nCall it as\n.Dl stray -v file\nor\n.D1 Ic run Ar it\nThe name is\n.Qq in quotes ,\nor\n.Aq Ar mail .\n\
                    .Oo\n.Fl a\n.Oc\nand\n.Fl Fl long , b\n.Pf x Ar y Ns z\n.Bq so Brq .\n.Sh AUTHORS\n.An -nosplit\n.An Ada Heron Aq Mt ada@example.org\n";
        assert_eq!(
            text(page),
            "# NAME\n\nstray — finds it\n\n# SYNOPSIS\n\n<stray.h> int stray_find(const char *name, int flags) void \
             stray_end(int how, flags);\n\n# DESCRIPTION\n\nCall it as\nstray -v file\nor\nrun it\nThe name is \"in quotes\", \
             or <mail>. [-a] and --long, -b xyz [so {}].\n\n# AUTHORS\n\nAda Heron <ada@example.org>"
        );
    }

    #[test]
    fn what_a_condition_leaves_out_is_not_told() {
        let page = ".TH X 1\n.ie n \\{\\\n.ds Q \"\\(dq\n.\\}\n.el \\{\\\n.ds Q ``\nfor paper\n.\\}\n.SH\nNAME\n.if t gone\n.if n kept\n\
                    .el\\{\\\nalso \\{ gone\n\\} still\n.\\}\n\\*Qquoted\\*Q \\s10big\\s0\n.MR ls 1 ,\n.UR https://example.org\nsite\n.UE .\nlast\\c\n.B word\n";
        assert_eq!(text(page), "# NAME\n\nkept \"quoted\" big ls(1), https://example.org site. lastword");
        let nested = ".if n ".repeat(100_000) + "deep";
        assert_eq!(text(&format!(".TH X 1\n{nested}\n")), "deep");
    }

    #[test]
    fn a_macro_ends_where_troff_ends_it() {
        let page = ".TH FOO 1\n.SH NAME\nfoo \\- x\n.SH DESCRIPTION\nBefore.\n.ie \\n(.g \\{\\\n.  am URL\n.    ad l\n.  .\n\
                    .\\}\n.PP\nAfter the glockenspiel.\n";
        assert_eq!(text(page), "# NAME\n\nfoo - x\n\n# DESCRIPTION\n\nBefore.\n\nAfter the glockenspiel.");
        let page = ".TH BAZ 1\n.SH NAME\nbaz \\- ocarina\n.de XX YY\n.B hello\n..\n.YY\n.SH DESCRIPTION\nThe hurdy-gurdy.\n";
        assert_eq!(text(page), "# NAME\n\nbaz - ocarina\n\n# DESCRIPTION\n\nThe hurdy-gurdy.");
        let page = ".if \\n(zZ=1 .ig zZ\n.TH BAR 1\n.SH NAME\nbar \\- mandolin\n.zZ\n";
        assert_eq!(text(page), "# NAME\n\nbar - mandolin");
        let page =
            ".TH X 1\n.ig XX\ngone\n..\n.XX\n.SH NAME\nx \\- kept\n.de NO\nstill here\n.de MORE\nand here\n";
        assert_eq!(text(page), "# NAME\n\nx - kept still here and here");
        let many = extract(&format!(".TH X 1\n{}", ".de X\nword\n".repeat(50_000))).text.unwrap();
        assert_eq!(many.matches("word").count(), 50_000);
    }

    #[test]
    fn macros_that_a_page_defines_keep_their_text() {
        let page = ".TH ZED 1\n.SH NAME\nzed \\- z\n.de FN\n\\fI\\\\$1\\fP\n..\n.SH FILES\nRead\n.FN /etc/praline.conf\nat start.\n";
        assert_eq!(text(page), "# NAME\n\nzed - z\n\n# FILES\n\nRead /etc/praline.conf at start.");
        let page = ".TH X 1\n.de URL\n\\fI\\\\$2\\fP <\\\\$1>\\\\$3\n..\n.als MTO URL\n.am URL\n.  ad l\n.  .\n\
                    .URL https://example.org \"the site\" .\n.MTO a@example.org Ada ,\nat\\c\n.URL b.org \"\" .\n";
        assert_eq!(text(page), "the site <https://example.org>. Ada <a@example.org>, at <b.org>.");
        let page = ".TH X 1\n.de AP\n.ie !\"\\\\$2\"\" \\{\\\n\\\\$1 of \\\\$2\n.\\}\n.el .B only \\\\$1\n.if \\\\n(.$>2 and more: \\\\$*\n..\n\
                    .ie n .AP one \"two three\"\n.el gone\n.AP alone\n.AP a b c\n";
        assert_eq!(text(page), "one of two three only alone a of b and more: a b c");
        let endless = text(".TH X 1\n.de A\n.A again \\\\$1\n.A and \\\\$1\n..\nbefore\n.A word\nbehind\n");
        assert!(endless.starts_with("before again again") && endless.ends_with("behind"), "{endless}");
        let grows = ".de A\n.A \\\\$1\\\\$1 \\\\$*\n.A \\\\$*\n..\n.A word\n".repeat(100);
        assert!(extract(&format!(".TH X 1\nx\n{grows}")).text.is_some_and(|text| text.len() < 32 << 20));
    }

    #[test]
    fn tables_have_their_own_signs_between_cells() {
        let page = ".TH X 1\n.TS\nallbox tab(@);\nl l\nl l.\nname@size\n_\nowl@T{\nthree\nT}\n.TE\nAfter.\n";
        assert_eq!(text(page), "name | size\nowl |\nthree\n\nAfter.");
    }

    #[test]
    fn passages_tell_the_lines_of_the_source() {
        let page = ".\\\" comment\n.TH X 1\n.SH NAME\nx \\- finds\nit\n.SH OTHER\n.nf\n\nfirst\nsecond\n.fi\nLast\n.B line\n";
        let extracted = extract(page);
        let text = extracted.text.clone().unwrap();
        let found = crate::chunk(crate::Format::Man, &text, &extracted).unwrap();
        let lines: Vec<_> = found.iter().map(|chunk| (&text[chunk.range.clone()], chunk.lines)).collect();
        assert_eq!(
            lines,
            [("# NAME\n\nx - finds it", (3, 5)), ("# OTHER\n\nfirst\nsecond\n\nLast line", (6, 13))]
        );
    }
}
