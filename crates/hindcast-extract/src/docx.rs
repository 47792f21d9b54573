//! The text of a Word document, as Markdown.

use std::ops::Range;

use quick_xml::events::BytesStart;

use crate::{
    ExtractError, Extracted,
    archive::{self, Archive, Piece, attribute},
};

const FORMAT: &str = "DOCX";

pub(crate) fn extract(bytes: &[u8]) -> Result<Extracted, ExtractError> {
    let mut archive = Archive::open(FORMAT, bytes)?;
    let body = archive.needed("word/document.xml")?;
    let mut writer = Writer::default();
    archive::walk(FORMAT, &body, |event| writer.take(event))?;
    writer.end_paragraph();
    let title = match archive.text("docProps/core.xml")? {
        Some(core) => archive::text_of(FORMAT, &core, "dc:title")?,
        None => None,
    };
    let pages = writer.pages();
    Ok(Extracted { text: Some(writer.text), title: title.or(writer.title), pages, ..Extracted::default() })
}

/// Puts the document together, paragraph by paragraph.
#[derive(Default)]
struct Writer {
    text: String,
    title: Option<String>,
    paragraph: String,
    /// What the paragraph begins with: a heading's hashes, a list's dash.
    prefix: String,
    is_title: bool,
    in_run_text: bool,
    /// Cells of the table row that is being read; none outside tables.
    row: Option<Vec<String>>,
    /// Where the word processor saw a page end when it last laid the document out.
    rendered_breaks: Vec<usize>,
    /// Where the author wanted a page to end.
    wanted_breaks: Vec<usize>,
}

impl Writer {
    fn take(&mut self, piece: &Piece<'_>) {
        match piece {
            Piece::Start(start) => self.start(start),
            Piece::End(name) => self.end(name),
            Piece::Text(text) if self.in_run_text => self.paragraph.push_str(text),
            Piece::Text(_) => {}
        }
    }

    fn start(&mut self, start: &BytesStart<'_>) {
        match start.name().as_ref() {
            "w:t" => self.in_run_text = true,
            "w:tab" => self.paragraph.push('\t'),
            "w:br" if attribute(start, "w:type").as_deref() == Some("page") => {
                self.wanted_breaks.push(self.text.len());
            }
            "w:br" | "w:cr" => self.paragraph.push('\n'),
            "w:lastRenderedPageBreak" => self.rendered_breaks.push(self.text.len()),
            "w:pStyle" => self.style(&attribute(start, "w:val").unwrap_or_default()),
            "w:numPr" if self.prefix.is_empty() => self.prefix = "- ".into(),
            "w:tr" => self.row = Some(Vec::new()),
            "w:tc" => {
                if let Some(row) = &mut self.row {
                    row.push(String::new());
                }
            }
            _ => {}
        }
    }

    fn style(&mut self, style: &str) {
        if style == "Title" {
            (self.prefix, self.is_title) = ("# ".into(), true);
        } else if let Some(level) =
            style.strip_prefix("Heading").and_then(|level| level.parse::<usize>().ok())
        {
            self.prefix = format!("{} ", "#".repeat(level.clamp(1, 6)));
        }
    }

    fn end(&mut self, name: &str) {
        match name {
            "w:t" => self.in_run_text = false,
            "w:p" => self.end_paragraph(),
            "w:tr" => {
                let cells = self.row.take().unwrap_or_default();
                self.write(&format!("| {} |", cells.join(" | ")), "\n");
            }
            "w:tbl" => self.text.push('\n'),
            _ => {}
        }
    }

    fn end_paragraph(&mut self) {
        let paragraph = std::mem::take(&mut self.paragraph);
        let prefix = std::mem::take(&mut self.prefix);
        let is_title = std::mem::take(&mut self.is_title);
        let words = paragraph.trim();
        if words.is_empty() {
            return;
        }
        if is_title || (self.title.is_none() && prefix == "# ") {
            self.title = Some(words.to_owned());
        }
        if let Some(cell) = self.row.as_mut().and_then(|row| row.last_mut()) {
            if !cell.is_empty() {
                cell.push(' ');
            }
            cell.push_str(&words.replace('\n', " "));
            return;
        }
        self.write(&format!("{prefix}{words}"), if prefix == "- " { "\n" } else { "\n\n" });
    }

    fn write(&mut self, block: &str, after: &str) {
        let is_item = block.starts_with("- ") || block.starts_with("| ");
        if !is_item && self.text.ends_with('\n') && !self.text.ends_with("\n\n") {
            self.text.push('\n');
        }
        self.text.push_str(block);
        self.text.push_str(after);
    }

    fn pages(&self) -> Vec<Range<usize>> {
        let breaks =
            if self.rendered_breaks.is_empty() { &self.wanted_breaks } else { &self.rendered_breaks };
        if breaks.is_empty() {
            return Vec::new();
        }
        let starts = std::iter::once(0).chain(breaks.iter().copied());
        let ends = breaks.iter().copied().chain([self.text.len()]);
        starts.zip(ends).map(|(start, end)| start..end).collect()
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use std::io::{Cursor, Write as _};

    use zip::write::SimpleFileOptions;

    use super::*;

    /// A document with this body.
    pub(crate) fn docx(body: &str) -> Vec<u8> {
        let mut archive = zip::ZipWriter::new(Cursor::new(Vec::new()));
        archive.start_file("word/document.xml", SimpleFileOptions::default()).unwrap();
        write!(archive, "<?xml version='1.0'?><w:document><w:body>{body}</w:body></w:document>").unwrap();
        archive.finish().unwrap().into_inner()
    }

    fn paragraph(style: &str, text: &str) -> String {
        format!("<w:p><w:pPr><w:pStyle w:val=\"{style}\"/></w:pPr><w:r><w:t>{text}</w:t></w:r></w:p>")
    }

    #[test]
    fn headings_lists_tables_and_pages_are_kept() {
        let body = [
            paragraph("Title", "The Report"),
            paragraph("Heading2", "Part &amp; parcel"),
            paragraph("", "First page."),
            "<w:p><w:r><w:br w:type=\"page\"/></w:r></w:p>".into(),
            "<w:p><w:pPr><w:numPr/></w:pPr><w:r><w:t>item</w:t></w:r></w:p>".into(),
            "<w:tbl><w:tr><w:tc><w:p><w:r><w:t>a</w:t></w:r></w:p></w:tc><w:tc><w:p><w:r><w:t>b</w:t></w:r></w:p></w:tc></w:tr></w:tbl>".into(),
            paragraph("", "Last page."),
        ];
        let extracted = extract(&docx(&body.concat())).unwrap();
        let text = extracted.text.unwrap();
        assert_eq!(
            text.trim(),
            "# The Report\n\n## Part & parcel\n\nFirst page.\n\n- item\n| a | b |\n\nLast page."
        );
        assert_eq!(extracted.title.as_deref(), Some("The Report"));
        assert_eq!(extracted.pages.len(), 2);
        assert!(text[extracted.pages[1].clone()].contains("Last page."));
    }

    #[test]
    fn a_zip_bomb_is_refused_before_it_fills_the_memory() {
        let mut archive = zip::ZipWriter::new(Cursor::new(Vec::new()));
        archive.start_file("word/document.xml", SimpleFileOptions::default()).unwrap();
        let zeros = vec![b' '; 1 << 20];
        for _ in 0..65 {
            archive.write_all(&zeros).unwrap();
        }
        let bomb = archive.finish().unwrap().into_inner();
        assert!(bomb.len() < 1 << 20);
        assert_eq!(extract(&bomb), Err(ExtractError::TooLarge(archive::LARGEST)));
    }

    #[test]
    fn what_is_no_docx_is_refused() {
        assert!(matches!(extract(b"PK\x03\x04 not really"), Err(ExtractError::Broken { .. })));
        assert!(matches!(extract(&docx("<w:p></w:r>")), Err(ExtractError::Broken { .. })));
    }
}
