//! A text that is put together block by block.

use crate::{Block, Extracted, Role};

/// Text, blocks and pages so far.
#[derive(Default)]
pub(crate) struct Outline {
    pub(crate) text: String,
    blocks: Vec<Block>,
    /// From which byte on which line of the original is told.
    lines: Vec<(usize, u64)>,
    /// The line of what comes next.
    line: Option<u64>,
    pages: Vec<std::ops::Range<usize>>,
    page_start: Option<usize>,
}

impl Outline {
    /// Begins a section of this level, 1 being outermost.
    pub(crate) fn heading(&mut self, level: u8, name: &str) {
        let name = name.split_whitespace().collect::<Vec<_>>().join(" ");
        if !name.is_empty() {
            let text = format!("{} {name}", "#".repeat(level.clamp(1, 6).into()));
            self.push(&text, Role::Heading { level, name });
        }
    }

    /// Adds something that is said.
    pub(crate) fn body(&mut self, text: &str) {
        self.push(text, Role::Body);
    }

    /// Adds what a reader must know about the text, which is served but not searched.
    pub(crate) fn notice(&mut self, text: &str) {
        self.push(text, Role::Links);
    }

    /// Adds something whose lines stand in the original from this one on.
    pub(crate) fn body_from(&mut self, text: &str, first: u64) {
        self.on_line(first);
        self.body(text);
        let Some(start) = self.blocks.last().map(|block| block.range.start) else { return };
        let ends: Vec<usize> = self.text[start..].match_indices('\n').map(|(at, _)| start + at + 1).collect();
        self.lines.extend(ends.into_iter().zip(first + 1..));
    }

    /// Adds something that is said, with the lines of the original from these bytes of it on.
    pub(crate) fn body_on(&mut self, text: &str, lines: &[(usize, u64)]) {
        self.line = None;
        let before = self.blocks.len();
        self.body(text);
        let Some(block) = self.blocks.get(before) else { return };
        let left_out = text.len() - text.trim_start_matches(['\n', '\r']).len();
        let placed = lines.iter().map(|(at, line)| (block.range.start + at.saturating_sub(left_out), *line));
        self.lines.extend(placed.filter(|(at, _)| *at < block.range.end));
    }

    /// Says on which line of the original the next block stands.
    pub(crate) fn on_line(&mut self, line: u64) {
        self.line = Some(line);
    }

    /// Begins the next page.
    pub(crate) fn page(&mut self) {
        self.end_page();
        self.page_start = Some(self.text.len());
    }

    fn end_page(&mut self) {
        if let Some(start) = self.page_start.take() {
            // What separates it from the page before belongs to neither.
            let start = start + (self.text.len() - start).min(if start == 0 { 0 } else { 2 });
            self.pages.push(start..self.text.len());
        }
    }

    fn push(&mut self, text: &str, role: Role) {
        let text = text.trim_matches(['\n', '\r']).trim_end();
        if text.trim().is_empty() {
            return;
        }
        if !self.text.is_empty() {
            self.text.push_str("\n\n");
        }
        let start = self.text.len();
        self.lines.extend(self.line.take().map(|line| (start, line)));
        self.text.push_str(text);
        self.blocks.push(Block { range: start..self.text.len(), role });
    }

    /// Adds what another reader made.
    pub(crate) fn append(&mut self, extracted: Extracted) {
        let Some(text) = extracted.text.filter(|text| !text.trim().is_empty()) else { return };
        if !self.text.is_empty() {
            self.text.push_str("\n\n");
        }
        let start = self.text.len();
        self.text.push_str(&text);
        let moved =
            |block: Block| Block { range: start + block.range.start..start + block.range.end, ..block };
        self.blocks.extend(extracted.blocks.into_iter().map(moved));
    }

    pub(crate) fn finish(mut self, title: Option<String>) -> Extracted {
        self.end_page();
        let title = title.map(|title| title.trim().to_owned()).filter(|title| !title.is_empty());
        Extracted {
            text: Some(self.text),
            title,
            pages: self.pages,
            lines: self.lines,
            blocks: self.blocks,
            ..Extracted::default()
        }
    }
}
