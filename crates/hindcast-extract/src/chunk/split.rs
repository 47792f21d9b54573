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

/// A part of the limit up to which a piece is small.
const SMALL: usize = 8;

/// Puts neighbours together as long as they fit, and cuts what does not fit alone. What is small goes with the beginning of what is
/// cut: a heading says nothing without its section.
pub(super) fn pack(text: &str, blocks: Vec<Range<usize>>, limit: usize) -> Vec<Range<usize>> {
    let mut packed: Vec<Range<usize>> = Vec::new();
    for block in blocks {
        match packed.last_mut() {
            Some(last) if block.end - last.start <= limit => last.end = block.end,
            _ if block.len() <= limit => packed.push(block),
            Some(last) if last.len() <= limit / SMALL => {
                let room = limit - last.len();
                let mut parts = vec![last.clone()];
                parts.extend(parts_of(text, block, room, limit));
                packed.pop();
                packed.extend(pack(text, parts, limit));
            }
            _ => packed.extend(pack(text, parts_of(text, block, limit, limit), limit)),
        }
    }
    packed
}

/// The paragraphs of a part of a text.
pub(super) fn paragraphs(text: &str, range: Range<usize>) -> Vec<Range<usize>> {
    let parts = cut_after(text, range.clone(), "\n\n");
    if parts.len() > 1 { parts } else { cut_after(text, range, "\n\r\n") }
}

/// Parts that begin at the margin behind an empty line: functions of a language that is not parsed, with the empty lines in them.
pub(super) fn blocks_at_margin(text: &str) -> Vec<Range<usize>> {
    let mut blocks: Vec<Range<usize>> = Vec::new();
    for paragraph in paragraphs(text, 0..text.len()) {
        let line = text[paragraph.clone()].trim_start_matches(['\n', '\r']);
        let goes_on = line.starts_with(|char: char| char.is_whitespace() || "})]".contains(char));
        match blocks.last_mut() {
            Some(last) if goes_on || closes(line) => last.end = paragraph.end,
            _ => blocks.push(paragraph),
        }
    }
    blocks
}

/// Words that end what began before: Ruby's and SQL's functions, and what a shell repeats or chooses.
const CLOSERS: [&str; 4] = ["end", "done", "esac", "fi"];

/// Whether a line begins with the end of a block.
fn closes(line: &str) -> bool {
    let word = line.split(|char: char| !char.is_alphanumeric() && char != '_').next().unwrap_or_default();
    CLOSERS.iter().any(|closer| word.eq_ignore_ascii_case(closer))
}

/// What a text is cut after, best first: paragraphs, lines, sentences, clauses, words.
const SEAMS: [&str; 8] = ["\n\n", "\n\r\n", "\n", ". ", "! ", "? ", ", ", " "];

/// The parts of a text at the best seams there are. Where it has none they fit, the first in `room`.
fn parts_of(text: &str, range: Range<usize>, room: usize, limit: usize) -> Vec<Range<usize>> {
    let at_seams = SEAMS.iter().map(|seam| cut_after(text, range.clone(), seam));
    at_seams
        .into_iter()
        .find(|parts| parts.len() > 1)
        .unwrap_or_else(|| cut_anywhere(text, range.clone(), room, limit))
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
fn cut_anywhere(text: &str, range: Range<usize>, room: usize, limit: usize) -> Vec<Range<usize>> {
    let mut parts = Vec::new();
    let mut start = range.start;
    while start < range.end {
        let mut end = range.end.min(start + if parts.is_empty() { room } else { limit });
        while !text.is_char_boundary(end) {
            end -= 1;
        }
        parts.push(start..end);
        start = end;
    }
    parts
}
