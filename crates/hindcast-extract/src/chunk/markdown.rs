//! Markdown by its headings and blocks.

use std::ops::Range;

use pulldown_cmark::{Event, HeadingLevel, Options, Parser, Tag, TagEnd};

use super::{PROSE_BYTES, Piece, split::pack};

/// The headings that are open, by their level.
#[derive(Default)]
pub(super) struct HeadingPath(Vec<(HeadingLevel, String)>);

impl HeadingPath {
    fn enter(&mut self, level: HeadingLevel, heading: String) {
        self.0.retain(|(open, _)| *open < level);
        self.0.push((level, heading));
    }

    fn names(&self) -> Vec<String> {
        self.0.iter().map(|(_, heading)| heading.clone()).collect()
    }
}

/// A heading and the blocks below it.
struct Section {
    headings: Vec<String>,
    blocks: Vec<Range<usize>>,
    has_body: bool,
}

/// A section is never put together with another: each says its own headings.
pub(super) fn pieces(text: &str, part: Range<usize>, path: &mut HeadingPath) -> Vec<Piece> {
    let sections = sections(text, part, path);
    let any_body = sections.iter().any(|section| section.has_body);
    let mut pieces = Vec::new();
    for section in sections {
        // A heading alone says nothing that the headings of the next piece do not say.
        if any_body && !section.has_body {
            continue;
        }
        let ranges = pack(text, section.blocks, PROSE_BYTES);
        pieces.extend(ranges.into_iter().map(|range| Piece { range, headings: section.headings.clone() }));
    }
    pieces
}

fn sections(text: &str, part: Range<usize>, path: &mut HeadingPath) -> Vec<Section> {
    let options =
        Options::ENABLE_TABLES | Options::ENABLE_FOOTNOTES | Options::ENABLE_YAML_STYLE_METADATA_BLOCKS;
    let parser = Parser::new_ext(&text[part.clone()], options).into_offset_iter();
    let mut sections = vec![Section { headings: path.names(), blocks: Vec::new(), has_body: false }];
    let mut depth = 0_usize;
    let mut heading: Option<(HeadingLevel, String)> = None;
    for (event, range) in parser {
        let range = part.start + range.start..part.start + range.end;
        match event {
            Event::Start(Tag::Heading { level, .. }) if depth == 0 => {
                heading = Some((level, String::new()));
                depth += 1;
                sections.push(Section { headings: Vec::new(), blocks: vec![range], has_body: false });
            }
            Event::Start(_) => {
                if depth == 0 {
                    add_block(&mut sections, range);
                }
                depth += 1;
            }
            Event::End(TagEnd::Heading(_)) if depth == 1 => {
                depth = 0;
                if let Some((level, words)) = heading.take() {
                    path.enter(level, words.trim().to_owned());
                }
                if let Some(section) = sections.last_mut() {
                    section.headings = path.names();
                }
            }
            Event::End(_) => depth = depth.saturating_sub(1),
            Event::Text(words) | Event::Code(words) if heading.is_some() => {
                if let Some((_, heading)) = &mut heading {
                    heading.push_str(&words);
                }
            }
            _ if depth == 0 => add_block(&mut sections, range),
            _ => {}
        }
    }
    sections
}

fn add_block(sections: &mut [Section], range: Range<usize>) {
    if let Some(section) = sections.last_mut() {
        section.blocks.push(range);
        section.has_body = true;
    }
}
