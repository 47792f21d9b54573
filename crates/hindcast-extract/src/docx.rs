//! The text of a Word document, as Markdown.

use std::{collections::HashMap, ops::Range};

use quick_xml::events::BytesStart;

use crate::{
    ExtractError, Extracted,
    archive::{self, Archive, Piece, attribute},
};

const FORMAT: &str = "DOCX";

pub(crate) fn extract(bytes: &[u8]) -> Result<Extracted, ExtractError> {
    let mut archive = Archive::open(FORMAT, bytes)?;
    let body = archive.needed("word/document.xml")?;
    let styles = match archive.text("word/styles.xml")? {
        Some(xml) => styles(&xml)?,
        None => HashMap::new(),
    };
    let mut notes = HashMap::new();
    for (part, kind) in [("word/footnotes.xml", Note::Foot), ("word/endnotes.xml", Note::End)] {
        if let Some(xml) = archive.text(part)? {
            let mut reader = Writer { styles: Some(&styles), ..Writer::default() };
            archive::walk(FORMAT, &xml, |piece| reader.take(piece))?;
            notes.extend(reader.notes_read.into_iter().map(|(id, text)| ((kind, id), text)));
        }
    }
    let mut writer = Writer { styles: Some(&styles), notes: Some(&notes), ..Writer::default() };
    archive::walk(FORMAT, &body, |event| writer.take(event))?;
    writer.finish();
    let title = match archive.text("docProps/core.xml")? {
        Some(core) => archive::text_of(FORMAT, &core, "dc:title")?,
        None => None,
    };
    let pages = writer.pages();
    Ok(Extracted {
        text: Some(writer.place.text),
        title: title.or(writer.title),
        pages,
        ..Extracted::default()
    })
}

/// What a paragraph of a style is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Style {
    Title,
    /// 1 is outermost.
    Heading(usize),
    Body,
}

/// A style of `word/styles.xml`, and the one that it differs from.
#[derive(Default)]
struct Described {
    says: Option<Style>,
    based_on: Option<String>,
}

/// The styles of paragraphs by their ids, which are in the language of the word processor: names and outline levels are not.
fn styles(xml: &str) -> Result<HashMap<String, Style>, ExtractError> {
    let mut described: HashMap<String, Described> = HashMap::new();
    let mut open: Option<(String, Described)> = None;
    archive::walk(FORMAT, xml, |piece| match piece {
        Piece::Start(start) => {
            let value = || attribute(start, "w:val").unwrap_or_default();
            match (start.name().as_ref(), &mut open) {
                ("w:style", open) => {
                    let id = attribute(start, "w:styleId").unwrap_or_default();
                    *open = Some((id, Described::default()));
                }
                // An outline level decides, also one that says that this is no heading.
                ("w:outlineLvl", Some((_, style))) if style.says != Some(Style::Title) => {
                    style.says = Some(of_outline(&value()));
                }
                ("w:name", Some((_, style))) => style.says = style.says.or(of_name(&value())),
                ("w:basedOn", Some((_, style))) => style.based_on = Some(value()),
                _ => {}
            }
        }
        Piece::End("w:style") => described.extend(open.take()),
        _ => {}
    })?;
    let says = |id: &String| {
        let mut id = id;
        // Styles that are made to hurt lead in circles.
        for _ in 0..20 {
            let style = described.get(id)?;
            if style.says.is_some() {
                return style.says;
            }
            id = style.based_on.as_ref()?;
        }
        None
    };
    Ok(described.keys().map(|id| (id.clone(), says(id).unwrap_or(Style::Body))).collect())
}

fn of_outline(level: &str) -> Style {
    level
        .parse()
        .ok()
        .filter(|level| *level < 9)
        .map_or(Style::Body, |level: usize| Style::Heading(level + 1))
}

/// By the name that a style has in every language, or by an id that is written like it.
fn of_name(name: &str) -> Option<Style> {
    let name = name.to_ascii_lowercase();
    let level = name.strip_prefix("heading").and_then(|level| level.trim().parse().ok());
    if name == "title" { Some(Style::Title) } else { level.map(Style::Heading) }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Note {
    Foot,
    End,
}

type Notes = HashMap<(Note, String), String>;

/// What is written in one place: the document, or a box or a table that is anchored in a paragraph or a cell.
#[derive(Default)]
struct Place {
    text: String,
    paragraph: String,
    /// What the paragraph begins with: a heading's hashes, a list's dash.
    prefix: String,
    is_title: bool,
    /// Cells of the table row that is being read; none outside tables.
    row: Option<Vec<String>>,
    /// Notes and boxes of the paragraph, which stand behind it.
    behind: Vec<String>,
    /// Whether it is a table in a cell.
    is_inner_table: bool,
}

/// Puts the document together, paragraph by paragraph.
#[derive(Default)]
struct Writer<'a> {
    styles: Option<&'a HashMap<String, Style>>,
    notes: Option<&'a Notes>,
    /// The notes of a part that has nothing else.
    notes_read: Vec<(String, String)>,
    note: Option<String>,
    /// How many notes were told so far.
    told: usize,
    title: Option<String>,
    place: Place,
    /// The places that the place is in.
    outer: Vec<Place>,
    in_run_text: bool,
    /// Elements that are open of what was deleted, moved away, or is shown otherwise.
    left_out: usize,
    /// Where the word processor saw a page end when it last laid the document out.
    rendered_breaks: Vec<usize>,
    /// Where the author wanted a page to end.
    wanted_breaks: Vec<usize>,
    /// Of each kind those that stand within the paragraph or the row: their page begins behind it.
    breaks_within: (usize, usize),
}

/// What is no part of the text as it stands. The fallback of something says the same in another way.
fn is_left_out(name: &str) -> bool {
    matches!(name, "w:del" | "w:moveFrom" | "mc:Fallback" | "w:rt")
}

impl Writer<'_> {
    fn take(&mut self, piece: &Piece<'_>) {
        match piece {
            Piece::Start(start) if is_left_out(start.name().as_ref()) => self.left_out += 1,
            Piece::End(name) if is_left_out(name) => self.left_out = self.left_out.saturating_sub(1),
            _ if self.left_out > 0 => {}
            Piece::Start(start) => self.start(start),
            Piece::End(name) => self.end(name),
            Piece::Text(text) if self.in_run_text => self.place.paragraph.push_str(text),
            Piece::Text(_) => {}
        }
    }

    fn start(&mut self, start: &BytesStart<'_>) {
        let value = |name: &str| attribute(start, name).unwrap_or_default();
        match start.name().as_ref() {
            "w:t" | "m:t" => self.in_run_text = true,
            "w:tab" | "w:ptab" => self.place.paragraph.push('\t'),
            "w:noBreakHyphen" => self.place.paragraph.push('-'),
            "w:br" if value("w:type") == "page" => self.page_break(false),
            "w:br" | "w:cr" => self.place.paragraph.push('\n'),
            "w:lastRenderedPageBreak" => self.page_break(true),
            "w:pStyle" => {
                let id = value("w:val");
                let style = self.styles.and_then(|styles| styles.get(&id)).copied().or_else(|| of_name(&id));
                self.style(style.unwrap_or(Style::Body));
            }
            "w:outlineLvl" => self.style(of_outline(&value("w:val"))),
            "w:numPr" if self.place.prefix.is_empty() => self.place.prefix = "- ".into(),
            "w:tbl" if self.place.row.is_some() => {
                let inner = Place { is_inner_table: true, ..Place::default() };
                self.outer.push(std::mem::replace(&mut self.place, inner));
            }
            "w:txbxContent" => self.outer.push(std::mem::take(&mut self.place)),
            "w:tr" => self.place.row = Some(Vec::new()),
            "w:tc" => {
                if let Some(row) = &mut self.place.row {
                    row.push(String::new());
                }
            }
            "w:footnoteReference" => self.refer(Note::Foot, value("w:id")),
            "w:endnoteReference" => self.refer(Note::End, value("w:id")),
            // Separators have a type.
            "w:footnote" | "w:endnote" if matches!(&*value("w:type"), "" | "normal") => {
                self.note = Some(value("w:id"));
            }
            _ => {}
        }
    }

    fn style(&mut self, style: Style) {
        match style {
            Style::Title => (self.place.prefix, self.place.is_title) = ("# ".into(), true),
            Style::Heading(level) => self.place.prefix = format!("{} ", "#".repeat(level.clamp(1, 6))),
            Style::Body => {}
        }
    }

    /// What stands before a break within a paragraph is on the page before, so the paragraph is.
    fn page_break(&mut self, is_rendered: bool) {
        let is_within = !self.outer.is_empty()
            || !self.place.paragraph.trim().is_empty()
            || self.place.row.as_ref().is_some_and(|row| row.iter().any(|cell| !cell.is_empty()));
        let at = self.place.text.len();
        match (is_within, is_rendered) {
            (true, true) => self.breaks_within.0 += 1,
            (true, false) => self.breaks_within.1 += 1,
            (false, true) => self.rendered_breaks.push(at),
            (false, false) => self.wanted_breaks.push(at),
        }
    }

    fn refer(&mut self, kind: Note, id: String) {
        let Some(text) = self.notes.and_then(|notes| notes.get(&(kind, id))) else { return };
        self.told += 1;
        let mark = format!("[^{}]", self.told);
        self.place.paragraph.push_str(&mark);
        self.place.behind.push(format!("{mark}: {text}"));
    }

    fn end(&mut self, name: &str) {
        match name {
            "w:t" | "m:t" => self.in_run_text = false,
            "w:p" => self.end_paragraph(),
            "w:tr" => self.end_row(),
            "w:tbl" if self.place.is_inner_table => self.close(),
            "w:tbl" => self.place.text.push('\n'),
            "w:txbxContent" => self.close(),
            "w:footnote" | "w:endnote" => {
                self.end_paragraph();
                let text = std::mem::take(&mut self.place.text);
                let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
                if let Some(id) = self.note.take().filter(|_| !text.is_empty()) {
                    self.notes_read.push((id, text));
                }
            }
            _ => {}
        }
    }

    /// Ends a place: what it says stands behind the paragraph that it is anchored in, or in the cell.
    fn close(&mut self) {
        self.end_paragraph();
        let Some(outer) = self.outer.pop() else { return };
        let inner = std::mem::replace(&mut self.place, outer);
        let said = inner.text.trim();
        if said.is_empty() {
            return;
        }
        if inner.is_inner_table {
            let rows: Vec<_> = said.lines().map(str::trim).filter(|row| !row.is_empty()).collect();
            if let Some(cell) = self.place.row.as_mut().and_then(|row| row.last_mut()) {
                add_to_cell(cell, &rows.join("; "));
                return;
            }
        }
        self.place.behind.push(said.to_owned());
    }

    fn finish(&mut self) {
        while !self.outer.is_empty() {
            self.close();
        }
        self.end_paragraph();
    }

    fn end_row(&mut self) {
        let cells = self.place.row.take().unwrap_or_default();
        match self.place.is_inner_table {
            true => self.write(&cells.join(", "), "\n"),
            false => self.write(&format!("| {} |", cells.join(" | ")), "\n"),
        }
        self.write_behind();
    }

    fn end_paragraph(&mut self) {
        let paragraph = std::mem::take(&mut self.place.paragraph);
        let prefix = std::mem::take(&mut self.place.prefix);
        let is_title = std::mem::take(&mut self.place.is_title);
        let words = paragraph.trim();
        if !words.is_empty() {
            if self.outer.is_empty() && (is_title || (self.title.is_none() && prefix == "# ")) {
                self.title = Some(words.to_owned());
            }
            if let Some(cell) = self.place.row.as_mut().and_then(|row| row.last_mut()) {
                add_to_cell(cell, words);
                return;
            }
            self.write(&format!("{prefix}{words}"), if prefix == "- " { "\n" } else { "\n\n" });
        }
        if self.place.row.is_none() {
            self.write_behind();
        }
    }

    /// Writes what stands behind a paragraph or a row, and begins the pages that end in it.
    fn write_behind(&mut self) {
        for said in std::mem::take(&mut self.place.behind) {
            self.write(&said, "\n\n");
        }
        if self.outer.is_empty() {
            let (at, (rendered, wanted)) = (self.place.text.len(), std::mem::take(&mut self.breaks_within));
            self.rendered_breaks.extend(std::iter::repeat_n(at, rendered));
            self.wanted_breaks.extend(std::iter::repeat_n(at, wanted));
        }
    }

    fn write(&mut self, block: &str, after: &str) {
        let is_item = block.starts_with("- ") || block.starts_with("| ");
        let text = &mut self.place.text;
        if !is_item && text.ends_with('\n') && !text.ends_with("\n\n") && after != "\n" {
            text.push('\n');
        }
        text.push_str(block);
        text.push_str(after);
    }

    fn pages(&self) -> Vec<Range<usize>> {
        let breaks =
            if self.rendered_breaks.is_empty() { &self.wanted_breaks } else { &self.rendered_breaks };
        if breaks.is_empty() {
            return Vec::new();
        }
        let starts = std::iter::once(0).chain(breaks.iter().copied());
        let ends = breaks.iter().copied().chain([self.place.text.len()]);
        starts.zip(ends).map(|(start, end)| start..end).collect()
    }
}

fn add_to_cell(cell: &mut String, words: &str) {
    if !cell.is_empty() {
        cell.push(' ');
    }
    cell.push_str(&words.replace('\n', " "));
}

#[cfg(test)]
pub(crate) mod tests {
    use std::io::{Cursor, Write as _};

    use zip::write::SimpleFileOptions;

    use super::*;

    /// A document with this body.
    pub(crate) fn docx(body: &str) -> Vec<u8> {
        with_parts(body, &[])
    }

    fn with_parts(body: &str, parts: &[(&str, &str)]) -> Vec<u8> {
        let mut archive = zip::ZipWriter::new(Cursor::new(Vec::new()));
        for (name, text) in parts {
            archive.start_file(*name, SimpleFileOptions::default()).unwrap();
            archive.write_all(text.as_bytes()).unwrap();
        }
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

    fn text(body: &str) -> String {
        extract(&docx(body)).unwrap().text.unwrap().trim().to_owned()
    }

    fn run(text: &str) -> String {
        format!("<w:r><w:t>{text}</w:t></w:r>")
    }

    #[test]
    fn headings_are_told_by_what_their_style_is_in_any_language() {
        let styles = "<w:styles>\
            <w:style w:type=\"paragraph\" w:styleId=\"berschrift1\"><w:name w:val=\"heading 1\"/></w:style>\
            <w:style w:styleId=\"Titre2\"><w:name w:val=\"Mon titre\"/><w:pPr><w:outlineLvl w:val=\"1\"/></w:pPr></w:style>\
            <w:style w:styleId=\"Eigen\"><w:name w:val=\"Eigen\"/><w:basedOn w:val=\"Titre2\"/></w:style>\
            <w:style w:styleId=\"Titel\"><w:name w:val=\"Title\"/></w:style>\
            <w:style w:styleId=\"Inhalt\"><w:name w:val=\"TOC Heading\"/><w:basedOn w:val=\"berschrift1\"/><w:pPr><w:outlineLvl w:val=\"9\"/></w:pPr></w:style>\
            <w:style w:styleId=\"Kreis\"><w:name w:val=\"x\"/><w:basedOn w:val=\"Kreis\"/></w:style>\
            <w:style w:styleId=\"Heading3\"><w:name w:val=\"Text body\"/></w:style></w:styles>";
        let body: String = [
            ("Titel", "Vögel"),
            ("berschrift1", "Reiher"),
            ("Titre2", "Hérons"),
            ("Eigen", "Eigenes"),
            ("Inhalt", "Inhalt"),
            ("Kreis", "Rund"),
            ("Heading3", "Kein Titel"),
            ("Heading4", "Unbeschrieben"),
        ]
        .map(|(style, text)| paragraph(style, text))
        .concat();
        let direct = format!("<w:p><w:pPr><w:outlineLvl w:val=\"2\"/></w:pPr>{}</w:p>", run("Direkt"));
        let extracted = extract(&with_parts(&(body + &direct), &[("word/styles.xml", styles)])).unwrap();
        assert_eq!(extracted.title.as_deref(), Some("Vögel"));
        assert_eq!(
            extracted.text.unwrap().trim(),
            "# Vögel\n\n# Reiher\n\n## Hérons\n\n## Eigenes\n\nInhalt\n\nRund\n\nKein Titel\n\n#### Unbeschrieben\n\n### Direkt"
        );
    }

    #[test]
    fn notes_stand_behind_what_they_are_about() {
        let footnotes = "<w:footnotes><w:footnote w:type=\"separator\" w:id=\"0\"><w:p><w:r><w:t>line</w:t></w:r></w:p></w:footnote>\
            <w:footnote w:id=\"2\"><w:p><w:r><w:t>Ardea</w:t></w:r></w:p><w:p><w:r><w:t>cinerea.</w:t></w:r></w:p></w:footnote></w:footnotes>";
        let endnotes = "<w:endnotes><w:endnote w:id=\"2\"><w:p><w:r><w:t>At dawn.</w:t></w:r></w:p></w:endnote></w:endnotes>";
        let body = format!(
            "<w:p>{}<w:r><w:footnoteReference w:id=\"2\"/></w:r>{}</w:p><w:tbl><w:tr><w:tc><w:p>{}<w:r><w:endnoteReference w:id=\"2\"/></w:r></w:p>\
             </w:tc></w:tr></w:tbl>{}",
            run("The heron"),
            run(" stands."),
            run("seen"),
            paragraph("", "After.")
        );
        let parts = [("word/footnotes.xml", footnotes), ("word/endnotes.xml", endnotes)];
        assert_eq!(
            extract(&with_parts(&body, &parts)).unwrap().text.unwrap().trim(),
            "The heron[^1] stands.\n\n[^1]: Ardea cinerea.\n\n| seen[^2] |\n\n[^2]: At dawn.\n\n\nAfter."
        );
    }

    #[test]
    fn boxes_are_told_once_and_what_was_moved_or_deleted_is_not() {
        let inner = format!("<w:txbxContent><w:p>{}</w:p></w:txbxContent>", run("In a box."));
        let body = format!(
            "<w:p>{}<w:r><mc:AlternateContent><mc:Choice>{inner}</mc:Choice><mc:Fallback>{inner}</mc:Fallback></mc:AlternateContent></w:r>{}</w:p>\
             <w:p><w:moveFrom>{}</w:moveFrom><w:del><w:r><w:delText>gone</w:delText></w:r></w:del></w:p>\
             <w:p><w:pPr><w:rPr><w:del/></w:rPr></w:pPr><w:moveTo>{}</w:moveTo><w:ins>{}</w:ins></w:p>",
            run("Before"),
            run(" after."),
            run("Moved."),
            run("Moved."),
            run(" New.")
        );
        assert_eq!(text(&body), "Before after.\n\nIn a box.\n\nMoved. New.");
    }

    #[test]
    fn a_table_in_a_cell_does_not_cost_the_row() {
        let cell = |inner: &str| format!("<w:tc>{inner}</w:tc>");
        let words = |text: &str| format!("<w:p>{}</w:p>", run(text));
        let table = |cells: &str| format!("<w:tbl><w:tr>{cells}</w:tr></w:tbl>");
        let inner = table(&(cell(&words("b")) + &cell(&words("c"))));
        assert_eq!(
            text(&table(&(cell(&words("a")) + &cell(&(inner + &words("x"))) + &cell(&words("d"))))),
            "| a | b, c x | d |"
        );
    }

    #[test]
    fn a_page_begins_behind_the_paragraph_that_it_breaks() {
        let rendered = "<w:r><w:lastRenderedPageBreak/></w:r>";
        let body =
            format!("<w:p>{}{rendered}{}</w:p>{}", run("On one"), run(" and two."), paragraph("", "On two."));
        let extracted = extract(&docx(&body)).unwrap();
        let text = extracted.text.unwrap();
        let pages: Vec<_> = extracted.pages.into_iter().map(|page| text[page].trim()).collect();
        assert_eq!(pages, ["On one and two.", "On two."]);
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
