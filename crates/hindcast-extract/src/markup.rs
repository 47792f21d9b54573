//! Headings of texts that are served as they came: reStructuredText, AsciiDoc, Org.

use std::ops::Range;

use crate::{Block, Format, Role};

/// The blocks of a text whose markup tells headings; none where it tells nothing more than paragraphs.
pub(crate) fn blocks(format: Format, text: &str) -> Vec<Block> {
    let mut blocks = match format {
        Format::Rst => rst(text),
        Format::AsciiDoc => by_line(text, |line| marked(line, '=')),
        Format::Org => by_line(text, |line| marked(line, '*')),
        _ => Vec::new(),
    };
    if !blocks.iter().any(|block| matches!(block.role, Role::Heading { .. })) {
        blocks.clear();
    }
    blocks
}

/// Lines with where they stand, without their ends.
fn lines(text: &str) -> impl Iterator<Item = (Range<usize>, &str)> {
    let mut start = 0;
    text.split_inclusive('\n').map(move |line| {
        let range = start..start + line.trim_end().len();
        start += line.len();
        (range, line.trim_end())
    })
}

/// Adds a paragraph's line to the block that it goes on with, or begins one.
fn add_line(blocks: &mut Vec<Block>, range: Range<usize>, is_new: bool) {
    match blocks.last_mut() {
        Some(Block { range: last, role: Role::Body }) if !is_new => last.end = range.end,
        _ => blocks.push(Block { range, role: Role::Body }),
    }
}

fn by_line<'a>(text: &'a str, heading: impl Fn(&'a str) -> Option<(u8, String)>) -> Vec<Block> {
    let mut blocks = Vec::new();
    let mut is_new = true;
    for (range, line) in lines(text) {
        if line.is_empty() {
            is_new = true;
        } else if let Some((level, name)) = heading(line) {
            blocks.push(Block { range, role: Role::Heading { level, name } });
            is_new = true;
        } else {
            add_line(&mut blocks, range, is_new);
            is_new = false;
        }
    }
    blocks
}

/// A heading that begins with as many signs as it is deep.
fn marked(line: &str, sign: char) -> Option<(u8, String)> {
    let level = line.chars().take_while(|char| *char == sign).count();
    let name = line[level..].strip_prefix(' ')?.trim();
    ((1..=6).contains(&level) && !name.is_empty()).then(|| (level as u8, name.to_owned()))
}

/// Titles are underlined, some also overlined; which sign is which level, their order tells.
fn rst(text: &str) -> Vec<Block> {
    let lines: Vec<_> = lines(text).collect();
    let mut known: Vec<(char, bool)> = Vec::new();
    let mut blocks: Vec<Block> = Vec::new();
    let (mut is_new, mut at) = (true, 0);
    while let Some((range, line)) = lines.get(at) {
        let below = lines.get(at + 1).map_or("", |(_, line)| line);
        let over = rule(line);
        let is_overlined = over.is_some()
            && lines.get(at + 2).is_some_and(|(_, under)| rule(under) == over)
            && !below.is_empty();
        let (name, sign, used) = match (over, rule(below)) {
            (Some(sign), _) if is_overlined => (below.trim(), sign, 3),
            (None, Some(sign))
                if !line.trim().is_empty()
                    && !line.starts_with(' ')
                    && below.chars().count() >= line.chars().count() =>
            {
                (line.trim(), sign, 2)
            }
            _ => {
                if line.is_empty() {
                    is_new = true;
                } else {
                    add_line(&mut blocks, range.clone(), is_new);
                    is_new = false;
                }
                at += 1;
                continue;
            }
        };
        let style = (sign, used == 3);
        let level = known.iter().position(|known| *known == style).unwrap_or_else(|| {
            known.push(style);
            known.len() - 1
        });
        let end = lines[at + used - 1].0.end;
        let role = Role::Heading { level: (level as u8).saturating_add(1), name: name.replace("``", "") };
        blocks.push(Block { range: range.start..end, role });
        (is_new, at) = (true, at + used);
    }
    blocks
}

/// The sign of a line that is nothing but one sign.
fn rule(line: &str) -> Option<char> {
    let first = line.chars().next().filter(char::is_ascii_punctuation)?;
    (line.len() >= 3 && line.chars().all(|char| char == first)).then_some(first)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(format: Format, text: &str) -> Vec<(u8, String)> {
        let blocks = blocks(format, text).into_iter();
        blocks
            .filter_map(|block| match block.role {
                Role::Heading { level, name } => Some((level, name)),
                _ => None,
            })
            .collect()
    }

    fn headings(expected: &[(u8, &str)]) -> Vec<(u8, String)> {
        expected.iter().map(|(level, name)| (*level, (*name).to_owned())).collect()
    }

    #[test]
    fn headings_are_told_by_each_markup() {
        let rst = "=====\nTitle\n=====\n\nWords.\n\nPart one\n--------\n\n::\n\n    ---\n    no\n\n``Deep``\n^^^^^^^^\n\nPart two\n--------\nx\n";
        assert_eq!(
            told(Format::Rst, rst),
            headings(&[(1, "Title"), (2, "Part one"), (3, "Deep"), (2, "Part two")])
        );
        assert_eq!(told(Format::AsciiDoc, "= A\n\n== B\nx\n====\n"), headings(&[(1, "A"), (2, "B")]));
        assert_eq!(told(Format::Org, "* A\n** B\n*bold*\n"), headings(&[(1, "A"), (2, "B")]));
        assert!(blocks(Format::Rst, "no headings\n\nat all").is_empty());
    }
}
