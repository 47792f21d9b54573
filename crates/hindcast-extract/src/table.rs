//! Tables as text: rows below the names of their columns.

use std::ops::Range;

use crate::{Block, Format, Role};

/// The rows, the first of which names the columns. Served as they came.
pub(crate) fn blocks(format: Format, text: &str) -> Vec<Block> {
    let mut at = text.len() - text.trim_start_matches(['\n', '\r']).len();
    let separator = if format == Format::Tsv { b'\t' } else { separator(text, at) };
    let mut blocks = Vec::new();
    while at < text.len() {
        let mut columns = Vec::new();
        let is_header = blocks.is_empty();
        let end = row(text, at, separator, |field| {
            if is_header {
                columns.push(name(&text[field]));
            }
        });
        if !text[at..end].trim().is_empty() {
            let role = match is_header {
                true => Role::Heading { level: 1, name: columns.join(" | ") },
                false => Role::Body,
            };
            blocks.push(Block { range: at..end, role });
        }
        at = end + 1;
    }
    blocks
}

/// The sign that separates most fields in the first row.
fn separator(text: &str, first: usize) -> u8 {
    let fields = |sign: u8| {
        let mut fields = 0_usize;
        row(text, first, sign, |_| fields += 1);
        fields
    };
    b",;\t|".iter().copied().max_by_key(|sign| (fields(*sign), *sign == b',')).unwrap_or(b',')
}

/// Goes through the fields of the row that begins at a byte; tells where it ends. A quote opens only at the beginning of a field,
/// and only where another closes it: in quotes a row may have several lines.
fn row(text: &str, start: usize, separator: u8, mut take: impl FnMut(Range<usize>)) -> usize {
    let bytes = text.as_bytes();
    let mut field = start;
    loop {
        let mut at = field;
        if bytes.get(at) == Some(&b'"') {
            at = behind_quotes(bytes, at).unwrap_or(at);
        }
        let is_end = |byte: &u8| *byte == separator || *byte == b'\n';
        at = bytes[at..].iter().position(is_end).map_or(bytes.len(), |found| at + found);
        take(field..at);
        if bytes.get(at) != Some(&separator) {
            return at;
        }
        field = at + 1;
    }
}

/// Behind the quote that closes the one at `open`. Two quotes stand for one.
fn behind_quotes(bytes: &[u8], open: usize) -> Option<usize> {
    let mut at = open + 1;
    loop {
        at += bytes[at..].iter().position(|byte| *byte == b'"')? + 1;
        if bytes.get(at) != Some(&b'"') {
            return Some(at);
        }
        at += 1;
    }
}

/// What a field says, without quotes and in one line.
fn name(field: &str) -> String {
    let field = field.trim();
    let inner = field.strip_prefix('"').and_then(|field| field.strip_suffix('"'));
    let said = inner.map_or_else(|| field.to_owned(), |inner| inner.replace("\"\"", "\""));
    said.split_whitespace().collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Extracted, chunk, extract};

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

    /// The name of the columns and the rows.
    fn told(format: Format, text: &str) -> (String, Vec<&str>) {
        let blocks = blocks(format, text);
        let Some(Block { role: Role::Heading { name, .. }, .. }) = blocks.first() else { panic!("{text}") };
        (name.clone(), blocks.iter().skip(1).map(|block| text[block.range.clone()].trim_end()).collect())
    }

    #[test]
    fn a_quote_within_a_field_is_no_more_than_that() {
        let (columns, rows) = told(Format::Csv, "part,count\nbolt,5\"\nnut,7\nscrew 3\",9\n");
        assert_eq!((&*columns, &*rows), ("part | count", &["bolt,5\"", "nut,7", "screw 3\",9"][..]));
        let (_, rows) = told(Format::Tsv, "part\tsize\nbolt\t5\"\nnut\t\"7\n8\"\nscrew\t9\n");
        assert_eq!(rows, ["bolt\t5\"", "nut\t\"7\n8\"", "screw\t9"]);
        let (_, rows) = told(Format::Csv, "a,b\nc,\"\"\nd,\"say \"\"x\"\"\"\n\"never closed,1\ne,2\n");
        assert_eq!(rows.len(), 4, "{rows:?}");
    }

    #[test]
    fn the_names_of_columns_may_have_separators_and_quotes_in_them() {
        let (columns, rows) =
            told(Format::Csv, "\r\n\"size, in cm\";\"the \"\"name\"\"\";\"a\nb\"\r\n1;2;3\r\n");
        assert_eq!((&*columns, &*rows), ("size, in cm | the \"name\" | a b", &["1;2;3"][..]));
        let marked = extract(Format::Csv, "\u{feff}name,size\nowl,3\n".as_bytes()).unwrap();
        let heading = Role::Heading { level: 1, name: "name | size".into() };
        assert_eq!(marked.blocks[0].role, heading);
        assert!(marked.text.is_some_and(|text| text.starts_with("name,size")));
    }
}
