//! Sections: a heading and the blocks below it.

use std::ops::Range;

use super::{Piece, split::pack};
use crate::{Block, Role};

/// What the headings of a piece have together at most, in bytes: every piece carries them.
const LONGEST_PATH: usize = 600;

/// What the headings of all sections of a text have together at most, in bytes.
const MOST_PATHS: usize = 256 << 20;

/// The headings that are open, by their level.
#[derive(Default)]
pub(super) struct HeadingPath {
    open: Vec<(u8, String)>,
    /// Bytes of headings that were told.
    told: usize,
}

impl HeadingPath {
    pub(super) fn enter(&mut self, level: u8, heading: &str) {
        self.open.retain(|(open, _)| *open < level);
        self.open.push((level, cut(heading)));
    }

    /// The headings of a section; none for sections behind those that have too many together.
    pub(super) fn names(&mut self) -> Vec<String> {
        if self.is_too_long() {
            return Vec::new();
        }
        let names = bounded(self.open.iter().map(|(_, heading)| heading.clone()).collect());
        // A section takes memory by itself, too.
        self.told += names.iter().map(|name| name.len() + 24).sum::<usize>() + 64;
        names
    }

    pub(super) fn is_too_long(&self) -> bool {
        self.told > MOST_PATHS
    }
}

/// The innermost headings that fit, which say most about what is below them.
pub(super) fn bounded(mut headings: Vec<String>) -> Vec<String> {
    let mut left = LONGEST_PATH;
    let fits = |heading: &&String| match left.checked_sub(heading.len()) {
        Some(less) => {
            left = less;
            true
        }
        None => false,
    };
    let kept = headings.iter().rev().take_while(fits).count();
    let dropped = headings.len() - kept;
    if dropped > 0 {
        headings.splice(..dropped, ["…".to_owned()]);
    }
    headings
}

/// A heading that fits a path.
fn cut(heading: &str) -> String {
    if heading.len() <= LONGEST_PATH {
        return heading.to_owned();
    }
    let end = heading.floor_char_boundary(LONGEST_PATH - '…'.len_utf8());
    format!("{}…", &heading[..end])
}

/// A heading and the blocks below it.
pub(super) struct Section {
    pub(super) headings: Vec<String>,
    pub(super) blocks: Vec<Range<usize>>,
    pub(super) has_body: bool,
}

impl Section {
    pub(super) fn new(headings: Vec<String>) -> Self {
        Self { headings, blocks: Vec::new(), has_body: false }
    }
}

/// A section is never put together with another: each says its own headings.
pub(super) fn pieces(text: &str, sections: Vec<Section>, largest: usize) -> Vec<Piece> {
    let any_body = sections.iter().any(|section| section.has_body);
    let mut pieces = Vec::new();
    for section in sections {
        // A heading alone says nothing that the headings of the next piece do not say.
        if any_body && !section.has_body {
            continue;
        }
        let ranges = pack(text, section.blocks, largest);
        pieces.extend(ranges.into_iter().map(|range| Piece { range, headings: section.headings.clone() }));
    }
    pieces
}

/// The sections of the blocks that stand in `part`.
pub(super) fn of_blocks(blocks: &[Block], part: Range<usize>, path: &mut HeadingPath) -> Vec<Section> {
    let mut sections = vec![Section::new(path.names())];
    for block in blocks.iter().filter(|block| part.start <= block.range.start && block.range.end <= part.end)
    {
        let (level, name, has_body) = match &block.role {
            Role::Heading { level, name } => (*level, name, false),
            Role::Term { level, name } => (*level, name, true),
            Role::Body => {
                if let Some(section) = sections.last_mut() {
                    section.blocks.push(block.range.clone());
                    section.has_body = true;
                }
                continue;
            }
            Role::Links => {
                // What follows is not to be put together with what stands before.
                let headings = path.names();
                if sections.last().is_some_and(|section| section.has_body) {
                    sections.push(Section::new(headings));
                }
                continue;
            }
        };
        path.enter(level, name);
        sections.push(Section { headings: path.names(), blocks: vec![block.range.clone()], has_body });
    }
    sections
}
