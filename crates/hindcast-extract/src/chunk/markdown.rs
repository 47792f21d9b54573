//! Markdown by its headings and blocks.

use std::ops::Range;

use pulldown_cmark::{Event, HeadingLevel, Options, Parser, Tag, TagEnd};

use super::{
    Piece,
    sections::{self, HeadingPath, Section},
};

pub(super) fn pieces(text: &str, part: Range<usize>, path: &mut HeadingPath, largest: usize) -> Vec<Piece> {
    sections::pieces(text, sections(text, part, path), largest)
}

fn sections(text: &str, part: Range<usize>, path: &mut HeadingPath) -> Vec<Section> {
    let options = Options::ENABLE_TABLES
        | Options::ENABLE_FOOTNOTES
        | Options::ENABLE_YAML_STYLE_METADATA_BLOCKS
        | Options::ENABLE_PLUSES_DELIMITED_METADATA_BLOCKS;
    let parser = Parser::new_ext(&text[part.clone()], options).into_offset_iter();
    let mut sections = vec![Section::new(path.names())];
    let mut depth = 0_usize;
    let mut heading: Option<(HeadingLevel, String)> = None;
    let mut metadata = None;
    for (event, range) in parser {
        let range = part.start + range.start..part.start + range.end;
        match event {
            Event::Start(Tag::Heading { level, .. }) if depth == 0 => {
                heading = Some((level, String::new()));
                depth += 1;
                sections.push(Section { headings: Vec::new(), blocks: vec![range], has_body: false });
            }
            // What a note says about itself is told with the document, and is no passage to be read.
            Event::Start(Tag::MetadataBlock(_)) if depth == 0 => {
                metadata = Some(range);
                depth += 1;
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
                    path.enter(level as u8, words.trim());
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
    if let Some(metadata) = metadata.filter(|_| sections.iter().all(|section| section.blocks.is_empty())) {
        add_block(&mut sections, metadata);
    }
    sections
}

fn add_block(sections: &mut [Section], range: Range<usize>) {
    if let Some(section) = sections.last_mut() {
        section.blocks.push(range);
        section.has_body = true;
    }
}
