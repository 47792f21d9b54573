//! Cutting text where it hurts least, and putting small pieces together.

use std::ops::Range;

/// Where lines end, to tell on which line a byte stands.
pub(super) struct LineEnds(Vec<usize>);

impl LineEnds {
    pub(super) fn of(text: &str) -> Self {
        Self(text.bytes().enumerate().filter(|(_, byte)| *byte == b'\n').map(|(at, _)| at).collect())
    }

    /// The line of a byte, from 1.
    pub(super) fn line_of(&self, byte: usize) -> u64 {
        self.0.partition_point(|end| *end < byte) as u64 + 1
    }
}

/// Puts neighbours together as long as they fit, and cuts what does not fit alone.
pub(super) fn pack(text: &str, blocks: Vec<Range<usize>>, limit: usize) -> Vec<Range<usize>> {
    let mut packed: Vec<Range<usize>> = Vec::new();
    for block in blocks {
        match packed.last_mut() {
            Some(last) if block.end - last.start <= limit => last.end = block.end,
            _ if block.len() <= limit => packed.push(block),
            _ => packed.extend(cut(text, block, limit)),
        }
    }
    packed
}

/// The paragraphs of a part of a text.
pub(super) fn paragraphs(text: &str, range: Range<usize>) -> Vec<Range<usize>> {
    cut_after(text, range, "\n\n")
}

/// Parts that begin at the margin behind an empty line: functions of a language that is not parsed, with the empty lines in them.
pub(super) fn blocks_at_margin(text: &str) -> Vec<Range<usize>> {
    let mut blocks: Vec<Range<usize>> = Vec::new();
    for paragraph in paragraphs(text, 0..text.len()) {
        let first = text[paragraph.clone()].trim_start_matches(['\n', '\r']).chars().next();
        let goes_on = first.is_some_and(|char| char.is_whitespace() || "})]".contains(char));
        match blocks.last_mut() {
            Some(last) if goes_on => last.end = paragraph.end,
            _ => blocks.push(paragraph),
        }
    }
    blocks
}

/// What a text is cut after, best first: paragraphs, lines, sentences, clauses, words.
const SEAMS: [&str; 7] = ["\n\n", "\n", ". ", "! ", "? ", ", ", " "];

/// Pieces that fit, cut at the best seams there are.
fn cut(text: &str, range: Range<usize>, limit: usize) -> Vec<Range<usize>> {
    for seam in SEAMS {
        let parts = cut_after(text, range.clone(), seam);
        if parts.len() > 1 {
            return pack(text, parts, limit);
        }
    }
    cut_anywhere(text, range, limit)
}

fn cut_after(text: &str, range: Range<usize>, seam: &str) -> Vec<Range<usize>> {
    let mut parts = Vec::new();
    let mut start = range.start;
    for (at, _) in text[range.clone()].match_indices(seam) {
        let end = range.start + at + seam.len();
        parts.push(start..end);
        start = end;
    }
    if start < range.end {
        parts.push(start..range.end);
    }
    parts
}

/// Text without any seam, such as Base64: cut between characters.
fn cut_anywhere(text: &str, range: Range<usize>, limit: usize) -> Vec<Range<usize>> {
    let mut parts = Vec::new();
    let mut start = range.start;
    while start < range.end {
        let mut end = range.end.min(start + limit);
        while !text.is_char_boundary(end) {
            end -= 1;
        }
        parts.push(start..end);
        start = end;
    }
    parts
}
