//! The pieces of a text that are found: whole sections, paragraphs and functions where they fit.

mod code;
mod markdown;
mod sections;
mod split;

use std::ops::Range;

use crate::{ExtractError, Extracted, Format};
use split::{LineEnds, pack};

/// About 240 tokens of English prose: what the embedding model reads of a chunk.
const PROSE_BYTES: usize = 1000;

/// About 250 tokens of code, which has shorter words and more signs.
const CODE_BYTES: usize = 800;

/// A piece of a text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Chunk {
    /// Where it stands; it neither begins nor ends with white space.
    pub range: Range<usize>,
    /// First and last line in the original, from 1.
    pub lines: (u64, u64),
    /// The page, from 1, where there are pages.
    pub page: Option<u64>,
    /// The headings that lead to it, outermost first; in code the names of what it is inside of.
    pub headings: Vec<String>,
}

/// A piece before it is known on which lines it stands.
struct Piece {
    range: Range<usize>,
    headings: Vec<String>,
}

/// The chunks of a text, in order. Together they have everything that is not white space or a list of links.
pub fn chunk(format: Format, text: &str, extracted: &Extracted) -> Result<Vec<Chunk>, ExtractError> {
    chunk_within(format, text, extracted, None)
}

/// The same, with no chunk larger than so many bytes; the usual sizes where absent. A text whose chunks would have far more bytes
/// than itself is refused.
pub fn chunk_within(
    format: Format,
    text: &str,
    extracted: &Extracted,
    largest: Option<usize>,
) -> Result<Vec<Chunk>, ExtractError> {
    let (prose, code) = (largest.unwrap_or(PROSE_BYTES), largest.unwrap_or(CODE_BYTES));
    let whole = 0..text.len();
    let pages = if extracted.pages.is_empty() { std::slice::from_ref(&whole) } else { &extracted.pages };
    let lines = Lines { original: &extracted.lines, served: LineEnds::of(text) };
    let mut chunks = Vec::new();
    // Headings of a page hold on the next.
    let mut path = sections::HeadingPath::default();
    for (number, page) in (1..).zip(pages) {
        let pieces = match format {
            _ if !extracted.blocks.is_empty() => {
                sections::pieces(text, sections::of_blocks(&extracted.blocks, page.clone(), &mut path), prose)
            }
            Format::Markdown | Format::Docx | Format::Notebook => {
                markdown::pieces(text, page.clone(), &mut path, prose)
            }
            Format::Code(language) => code::pieces(text, language, code),
            Format::Json | Format::Yaml | Format::Toml | Format::Xml => plain(text, page, code),
            _ => plain(text, page, prose),
        };
        let page = (!extracted.pages.is_empty()).then_some(number);
        chunks.extend(pieces.into_iter().filter_map(|piece| placed(text, piece, page, &lines)));
        if path.is_too_long() {
            return Err(ExtractError::TooManyHeadings);
        }
    }
    Ok(chunks)
}

/// On which line of the original a byte of the text stands.
struct Lines<'a> {
    original: &'a [(usize, u64)],
    served: LineEnds,
}

impl Lines<'_> {
    fn line_of(&self, byte: usize) -> u64 {
        match self.original.partition_point(|(start, _)| *start <= byte).checked_sub(1) {
            Some(before) => self.original[before].1,
            None => self.original.first().map_or_else(|| self.served.line_of(byte), |(_, line)| *line),
        }
    }
}

fn plain(text: &str, page: &Range<usize>, limit: usize) -> Vec<Piece> {
    let ranges = pack(text, split::paragraphs(text, page.clone()), limit);
    ranges.into_iter().map(|range| Piece { range, headings: Vec::new() }).collect()
}

/// None when there is nothing but white space.
fn placed(text: &str, piece: Piece, page: Option<u64>, lines: &Lines<'_>) -> Option<Chunk> {
    let range = trimmed(text, piece.range)?;
    let lines = (lines.line_of(range.start), lines.line_of(range.end - 1));
    Some(Chunk { range, lines, page, headings: sections::bounded(piece.headings) })
}

fn trimmed(text: &str, range: Range<usize>) -> Option<Range<usize>> {
    let piece = &text[range.clone()];
    let start = range.start + (piece.len() - piece.trim_start().len());
    let end = start + piece.trim().len();
    (start < end).then_some(start..end)
}

#[cfg(test)]
mod tests;
