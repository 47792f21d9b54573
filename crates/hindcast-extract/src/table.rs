//! Tables as text: rows below the names of their columns.

use std::ops::Range;

use crate::{Block, Format, Role};

/// The rows, the first of which names the columns. Served as they came.
pub(crate) fn blocks(format: Format, text: &str) -> Vec<Block> {
    let separator = if format == Format::Tsv { '\t' } else { separator(text) };
    let mut rows = rows(text).into_iter();
    let Some(header) = rows.next() else { return Vec::new() };
    let columns: Vec<_> =
        text[header.clone()].split(separator).map(|name| name.trim().trim_matches('"').trim()).collect();
    let heading = Role::Heading { level: 1, name: columns.join(" | ") };
    let mut blocks = vec![Block { range: header, role: heading }];
    blocks.extend(rows.map(|range| Block { range, role: Role::Body }));
    blocks
}

/// The sign that the first row has most of.
fn separator(text: &str) -> char {
    let first = text.lines().next().unwrap_or_default();
    [',', ';', '\t', '|']
        .into_iter()
        .max_by_key(|sign| (first.matches(*sign).count(), *sign == ','))
        .unwrap_or(',')
}

/// Where the rows stand; in quotes a row may have several lines.
fn rows(text: &str) -> Vec<Range<usize>> {
    let (mut rows, mut start, mut is_quoted) = (Vec::new(), 0, false);
    for (at, byte) in text.bytes().enumerate() {
        match byte {
            b'"' => is_quoted = !is_quoted,
            b'\n' if !is_quoted => {
                rows.push(start..at);
                start = at + 1;
            }
            _ => {}
        }
    }
    rows.push(start..text.len());
    rows.retain(|row| !text[row.clone()].trim().is_empty());
    rows
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Extracted, chunk};

    #[test]
    fn rows_are_found_below_the_names_of_their_columns() {
        let mut text = "name;size\n".to_owned();
        for number in 0..200 {
            text += &format!("\"bird {number};\nsecond line\";{number}\n");
        }
        let extracted = Extracted { blocks: blocks(Format::Csv, &text), ..Extracted::default() };
        let chunks = chunk(Format::Csv, &text, &extracted).unwrap();
        assert!(chunks.len() > 3);
        assert!(chunks.iter().all(|chunk| chunk.headings == ["name | size"]), "{chunks:?}");
        assert!(chunks.iter().skip(1).all(|chunk| text[chunk.range.clone()].starts_with("\"bird")));
    }
}
