//! Sections: a heading and the blocks below it.

use std::ops::Range;

use super::{Piece, split::pack};
use crate::{Block, Role};

/// The headings that are open, by their level.
#[derive(Default)]
pub(super) struct HeadingPath(Vec<(u8, String)>);

impl HeadingPath {
    pub(super) fn enter(&mut self, level: u8, heading: String) {
        self.0.retain(|(open, _)| *open < level);
        self.0.push((level, heading));
    }

    pub(super) fn names(&self) -> Vec<String> {
        self.0.iter().map(|(_, heading)| heading.clone()).collect()
    }
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
        path.enter(level, name.clone());
        sections.push(Section { headings: path.names(), blocks: vec![block.range.clone()], has_body });
    }
    sections
}
