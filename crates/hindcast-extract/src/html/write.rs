//! The content of a page as Markdown without markup in the words, and the blocks it has.

use super::{
    content::{Content, Part},
    tree::{Kind, NodeId, Step, Tree},
};
use crate::{Block, Role};

/// Longer signatures are cut to their name in headings.
const LONGEST_NAME: usize = 120;

/// Below all headings of HTML.
const TERM_LEVEL: u8 = 7;

/// What a page says.
#[derive(Default)]
pub(super) struct Written {
    pub(super) text: String,
    /// From which byte of the text on which line of the source is shown.
    pub(super) lines: Vec<(usize, u64)>,
    pub(super) blocks: Vec<Block>,
}

pub(super) fn write(tree: &Tree, content: &Content<'_>) -> Written {
    let mut writer = Writer::new(tree, content);
    tree.walk(content.root, |_, step| match step {
        Step::Enter(node) => writer.enter(node),
        Step::Leave(node) => {
            writer.leave(node);
            true
        }
    });
    writer.end_block();
    writer.finish()
}

/// What becomes of the block that is being written.
#[derive(Clone, Copy, PartialEq)]
enum Opens {
    Body,
    Heading(u8),
    Term(u8),
}

/// Whether backticks are around the words.
#[derive(Clone, Copy, PartialEq)]
enum Tick {
    Off,
    Wanted,
    Open,
}

struct Writer<'a> {
    tree: &'a Tree,
    content: &'a Content<'a>,
    written: Written,
    /// Which blocks are in lists of links that nobody called so.
    guessed: Vec<usize>,
    /// Where the open block begins; none between blocks.
    start: Option<usize>,
    /// Whether the open block has more than the sign it begins with.
    has_words: bool,
    opens: Opens,
    /// White space was read that is written before the next word.
    is_spaced: bool,
    tick: Tick,
    /// Elements that are open and matter for what is inside of them.
    pre: usize,
    code: usize,
    contents: usize,
    links: usize,
    terms: u8,
    /// Numbers of ordered lists; none for bullets.
    lists: Vec<Option<u64>>,
    /// Cells of the open row, where the table shows data; none in others.
    tables: Vec<Option<Table>>,
    /// The next block follows the last on a line of its own, without an empty one.
    is_close: bool,
}

#[derive(Default)]
struct Table {
    rows: usize,
    cells: usize,
}

impl<'a> Writer<'a> {
    fn new(tree: &'a Tree, content: &'a Content<'a>) -> Self {
        Self {
            tree,
            content,
            written: Written::default(),
            guessed: Vec::new(),
            start: None,
            has_words: false,
            opens: Opens::Body,
            is_spaced: false,
            tick: Tick::Off,
            pre: 0,
            code: 0,
            contents: 0,
            links: 0,
            terms: 0,
            lists: Vec::new(),
            tables: Vec::new(),
            is_close: false,
        }
    }

    fn enter(&mut self, node: NodeId) -> bool {
        let tree = self.tree;
        let found = &tree[node];
        match &found.kind {
            Kind::Text(text) => {
                self.text(text, found.line);
                return false;
            }
            Kind::Other => return false,
            Kind::Document => return true,
            Kind::Element { .. } => {}
        }
        let part = self.content.part(node);
        if part == Part::Left {
            return false;
        }
        self.enter_list(part);
        match found.tag() {
            "br" if self.pre > 0 => self.raw("\n"),
            "br" if self.start.is_some() && !self.in_table() => {
                self.trim();
                self.raw("\n");
            }
            "br" => self.is_spaced = true,
            "hr" => self.end_block(),
            "img" => self.text(found.attribute("alt").unwrap_or_default(), found.line),
            "code" | "kbd" | "samp" | "tt" if self.pre == 0 => self.enter_code(),
            "pre" => self.enter_pre(node),
            "table" => self.enter_table(node),
            "tr" => self.enter_row(found.line),
            "td" | "th" => self.enter_cell(),
            "ul" | "menu" => self.enter_items(None),
            "ol" => {
                let first = found.attribute("start").and_then(|start| start.parse().ok());
                self.enter_items(Some(first.unwrap_or(1)));
            }
            "li" => self.enter_item(found.line),
            "dl" => self.terms += u8::from(has_terms(tree, node)),
            "dt" => self.enter_term(node),
            tag => match heading_level(tag) {
                Some(level) => {
                    self.end_block();
                    self.opens = Opens::Heading(level);
                }
                None if is_block(tag) => self.break_block(),
                None => {}
            },
        }
        true
    }

    fn leave(&mut self, node: NodeId) {
        let tree = self.tree;
        let found = &tree[node];
        let tag = found.tag();
        match tag {
            "code" | "kbd" | "samp" | "tt" if self.pre == 0 => self.leave_code(),
            "pre" => self.leave_pre(),
            "table" => self.leave_table(),
            "tr" => self.leave_row(),
            "td" | "th" => {}
            "ul" | "menu" | "ol" => {
                self.end_block();
                self.lists.pop();
                self.is_close = !self.lists.is_empty();
            }
            "dl" => {
                self.end_block();
                self.terms -= u8::from(has_terms(tree, node));
            }
            "dt" => self.end_block(),
            _ if heading_level(tag).is_some() => self.end_block(),
            _ if is_block(tag) => self.break_block(),
            _ => {}
        }
        match self.content.part(node) {
            Part::Contents => self.contents -= 1,
            Part::Links => self.links -= 1,
            Part::Content | Part::Left => {}
        }
    }

    fn enter_list(&mut self, part: Part) {
        // What is before it is not part of it.
        match part {
            Part::Contents => {
                self.break_block();
                self.contents += 1;
            }
            Part::Links => {
                self.break_block();
                self.links += 1;
            }
            Part::Content | Part::Left => {}
        }
    }

    fn in_table(&self) -> bool {
        matches!(self.tables.last(), Some(Some(_)))
    }

    /// Ends the block, except in the cell of a table, where everything stays on its row, and behind the sign of a list.
    fn break_block(&mut self) {
        if self.in_table() || (self.start.is_some() && !self.has_words) {
            self.is_spaced = true;
        } else if !matches!(self.opens, Opens::Heading(_) | Opens::Term(_)) {
            self.end_block();
        } else {
            self.is_spaced = true;
        }
    }

    fn enter_code(&mut self) {
        self.code += 1;
        if self.code == 1 && self.opens == Opens::Body {
            self.tick = Tick::Wanted;
        }
    }

    fn leave_code(&mut self) {
        self.code -= 1;
        if self.code == 0 {
            if self.tick == Tick::Open {
                self.written.text.push('`');
            }
            self.tick = Tick::Off;
        }
    }

    fn enter_pre(&mut self, node: NodeId) {
        self.pre += 1;
        if self.pre > 1 || self.in_table() {
            return;
        }
        self.end_block();
        let language = language(self.tree, node).unwrap_or_default();
        self.begin_block(self.tree[node].line);
        self.raw(&format!("```{language}\n"));
    }

    fn leave_pre(&mut self) {
        self.pre -= 1;
        if self.pre > 0 || self.in_table() {
            return;
        }
        let text = &mut self.written.text;
        text.truncate(text.trim_end().len());
        self.raw("\n```");
        self.end_block();
    }

    fn enter_items(&mut self, first: Option<u64>) {
        self.break_block();
        self.is_close = !self.lists.is_empty();
        self.lists.push(first);
    }

    fn enter_item(&mut self, line: u64) {
        if self.in_table() || self.opens != Opens::Body {
            self.is_spaced = true;
            return;
        }
        self.end_block();
        let depth = self.lists.len().saturating_sub(1);
        let sign = match self.lists.last_mut() {
            Some(Some(number)) => {
                *number += 1;
                format!("{}. ", *number - 1)
            }
            _ => "- ".to_owned(),
        };
        self.is_close |= self.written.blocks.last().is_some_and(|last| {
            self.written.text[last.range.clone()]
                .trim_start()
                .starts_with(['-', '1', '2', '3', '4', '5', '6', '7', '8', '9'])
        });
        self.begin_block(line);
        self.raw(&format!("{}{sign}", "  ".repeat(depth.min(8))));
    }

    fn enter_table(&mut self, node: NodeId) {
        let is_inner = self.in_table();
        self.break_block();
        let is_data = is_inner || self.content.is_data_table(node);
        self.tables.push(is_data.then(Table::default));
    }

    fn leave_table(&mut self) {
        if !self.in_table() {
            self.break_block();
        }
        self.tables.pop();
        self.is_close = false;
    }

    fn enter_row(&mut self, line: u64) {
        if !self.in_table() {
            return self.break_block();
        }
        self.end_block();
        let Some(Some(table)) = self.tables.last_mut() else { return };
        table.cells = 0;
        self.is_close = table.rows > 0;
        table.rows += 1;
        self.begin_block(line);
        self.raw("|");
    }

    fn enter_cell(&mut self) {
        match self.tables.last_mut() {
            Some(Some(table)) => {
                table.cells += 1;
                let is_first = table.cells == 1;
                if !is_first {
                    self.trim();
                    self.raw(" |");
                }
                self.is_spaced = false;
                self.raw(" ");
            }
            _ => self.break_block(),
        }
    }

    fn leave_row(&mut self) {
        let Some(Some(table)) = self.tables.last() else { return self.break_block() };
        let (cells, is_first) = (table.cells, table.rows == 1);
        self.trim();
        self.raw(" |");
        if is_first {
            self.raw(&format!("\n|{}", " --- |".repeat(cells)));
        }
        self.end_block();
    }

    fn enter_term(&mut self, node: NodeId) {
        if self.in_table() {
            return;
        }
        self.end_block();
        if is_term(self.tree, node) {
            self.opens = Opens::Term(TERM_LEVEL.saturating_add(self.terms));
        }
    }

    /// A text that begins on this line.
    fn text(&mut self, text: &str, mut line: u64) {
        if self.pre > 0 && !self.in_table() {
            self.has_words |= !text.trim().is_empty();
            for piece in text.split_inclusive('\n') {
                self.note_line(line);
                self.raw(piece);
                line += u64::from(piece.ends_with('\n'));
            }
            return;
        }
        for piece in text.split_inclusive(char::is_whitespace) {
            let word = piece.trim_end_matches(char::is_whitespace);
            if !word.is_empty() {
                self.word(word, line);
            }
            self.is_spaced |= word.len() < piece.len();
            line += u64::from(piece.ends_with('\n'));
        }
    }

    fn word(&mut self, word: &str, line: u64) {
        if self.start.is_none() {
            self.begin_block(line);
        }
        self.note_line(line);
        self.has_words |= word.contains(char::is_alphanumeric);
        let text = &mut self.written.text;
        if self.is_spaced && !text.ends_with(char::is_whitespace) && Some(text.len()) != self.start {
            text.push(' ');
        }
        self.is_spaced = false;
        if self.tick == Tick::Wanted {
            text.push('`');
            self.tick = Tick::Open;
        }
        // A bar would begin the next cell.
        if matches!(self.tables.last(), Some(Some(_))) {
            text.push_str(&word.replace('|', "¦"))
        } else {
            text.push_str(word)
        }
    }

    fn raw(&mut self, text: &str) {
        self.written.text.push_str(text);
        self.is_spaced = false;
    }

    fn trim(&mut self) {
        let least = self.start.unwrap_or(self.written.text.len());
        let text = &mut self.written.text;
        text.truncate(text.trim_end().len().max(least));
    }

    fn note_line(&mut self, line: u64) {
        let lines = &mut self.written.lines;
        if lines.last().is_none_or(|(_, last)| *last != line) {
            lines.push((self.written.text.len(), line));
        }
    }

    fn begin_block(&mut self, line: u64) {
        if !self.written.text.is_empty() {
            let is_close = std::mem::take(&mut self.is_close);
            self.written.text.push_str(if is_close { "\n" } else { "\n\n" });
        }
        self.is_spaced = false;
        self.start = Some(self.written.text.len());
        self.has_words = false;
        self.note_line(line);
        if let Opens::Heading(level) = self.opens {
            self.raw(&format!("{} ", "#".repeat(level.into())));
        }
    }

    /// Ends the open block, if there is one. A block without words is taken back.
    fn end_block(&mut self) {
        let opens = std::mem::replace(&mut self.opens, Opens::Body);
        self.is_spaced = false;
        if self.tick == Tick::Open {
            self.written.text.push('`');
            self.tick = Tick::Wanted;
        }
        let Some(start) = self.start.take() else { return };
        let text = &mut self.written.text;
        text.truncate(text.trim_end().len().max(start));
        let block = &text[start..];
        if !self.has_words {
            text.truncate(text[..start].trim_end().len());
            let end = text.len();
            self.written.lines.retain(|(at, _)| *at < end);
            return;
        }
        let name = || {
            let name = block.trim_start_matches('#').trim();
            name.replace('`', "")
        };
        let role = match opens {
            Opens::Heading(level) => Role::Heading { level, name: name() },
            _ if self.contents > 0 || self.links > 0 => Role::Links,
            Opens::Term(level) => Role::Term { level, name: term_name(&name()) },
            Opens::Body => Role::Body,
        };
        if role == Role::Links && self.contents == 0 {
            self.guessed.push(self.written.blocks.len());
        }
        let range = start..text.len();
        self.written.blocks.push(Block { range, role });
    }

    fn finish(mut self) -> Written {
        let has_body =
            self.written.blocks.iter().any(|block| matches!(block.role, Role::Body | Role::Term { .. }));
        if !has_body {
            for index in self.guessed {
                self.written.blocks[index].role = Role::Body;
            }
        }
        self.written
    }
}

fn heading_level(tag: &str) -> Option<u8> {
    match tag.as_bytes() {
        [b'h', level @ b'1'..=b'6'] => Some(level - b'0'),
        _ => None,
    }
}

fn is_block(tag: &str) -> bool {
    const BLOCKS: &[&str] = &[
        "address",
        "article",
        "aside",
        "blockquote",
        "body",
        "caption",
        "center",
        "dd",
        "details",
        "div",
        "fieldset",
        "figcaption",
        "figure",
        "footer",
        "form",
        "header",
        "html",
        "legend",
        "main",
        "option",
        "p",
        "section",
        "summary",
        "tbody",
        "tfoot",
        "thead",
    ];
    BLOCKS.contains(&tag)
}

/// Whether a `dt` names something that is looked up: a function in Sphinx's pages, a word in a glossary.
fn is_term(tree: &Tree, node: NodeId) -> bool {
    let in_glossary = || tree[node].parent.is_some_and(|list| tree[list].has_class("glossary"));
    tree[node].has_class("sig") || tree[node].has_class("sig-object") || in_glossary()
}

fn has_terms(tree: &Tree, list: NodeId) -> bool {
    tree[list].children.iter().any(|&child| tree[child].tag() == "dt" && is_term(tree, child))
}

/// A signature without its parameters.
fn term_name(signature: &str) -> String {
    let name = signature.split('(').next().unwrap_or(signature).trim();
    let name = if name.is_empty() { signature } else { name };
    name.chars().take(LONGEST_NAME).collect()
}

/// The language of a code block, as its classes or those around it say.
fn language(tree: &Tree, pre: NodeId) -> Option<String> {
    let inner = tree.find(pre, |node| node.tag() == "code");
    let parent = tree[pre].parent;
    let outer = parent.and_then(|parent| tree[parent].parent);
    let named = [inner, Some(pre), parent, outer].into_iter().flatten().find_map(|node| {
        tree[node].classes().find_map(|class| {
            let class = class.to_ascii_lowercase();
            let named = ["language-", "lang-", "highlight-", "brush:"]
                .iter()
                .find_map(|start| class.strip_prefix(start));
            named.map(str::to_owned)
        })
    })?;
    let is_language = (1..20).contains(&named.len())
        && named.chars().all(|char| char.is_ascii_alphanumeric() || "+-#".contains(char))
        && !["default", "none", "text", "source"].contains(&&*named);
    is_language.then_some(named)
}
