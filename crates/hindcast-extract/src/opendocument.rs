//! Texts, presentations and spreadsheets of OpenDocument.

use quick_xml::events::BytesStart;

use crate::{
    ExtractError, Extracted,
    archive::{Archive, Piece, attribute, text_of, walk},
    outline::Outline,
};

const FORMAT: &str = "OpenDocument";

/// A cell that is repeated more often fills the sheet and says nothing.
const MOST_COLUMNS: usize = 1000;

/// So many rows of a sheet are read; more are data, not text.
const MOST_ROWS: u64 = 50_000;

/// What the rows of all sheets have together at most, in bytes: a few signs can repeat a long cell a thousand times.
const LARGEST: usize = 32 * 1024 * 1024;

pub(crate) fn extract(bytes: &[u8]) -> Result<Extracted, ExtractError> {
    let mut archive = Archive::open(FORMAT, bytes)?;
    let content = archive.needed("content.xml")?;
    let title = match archive.text("meta.xml")? {
        Some(meta) => text_of(FORMAT, &meta, "dc:title")?,
        None => None,
    };
    let mut reader = Reader::default();
    walk(FORMAT, &content, |piece| reader.take(piece))?;
    reader.close_all();
    Ok(reader.outline.finish(title))
}

/// What is said in one place: the text itself, or a note or a box that is anchored in a paragraph of it.
#[derive(Default)]
struct Place {
    text: String,
    level: Option<u8>,
    lists: usize,
    row: Option<Row>,
    /// What the notes and boxes of the paragraph say, which stands behind it.
    behind: Vec<String>,
}

/// A row of a table.
#[derive(Default)]
struct Row {
    cells: Vec<String>,
    /// How often the cell that is being read stands there.
    repeated: usize,
    /// Where the sheet has it, from 1.
    number: u64,
    /// How many bytes more cells may be repeated.
    left: usize,
}

#[derive(Default)]
struct Reader {
    outline: Outline,
    place: Place,
    /// The places that the place is in.
    outer: Vec<Place>,
    /// Elements of what is not text that are open.
    ignored: usize,
    is_sheet: bool,
    /// The rows of the sheet so far.
    rows: u64,
    has_columns: bool,
    is_cut: bool,
    slides: usize,
}

/// What readers do not see as text.
fn is_ignored(name: &str) -> bool {
    matches!(
        name,
        "office:annotation"
            | "text:tracked-changes"
            | "text:note-citation"
            | "text:ruby-text"
            | "svg:title"
            | "svg:desc"
    )
}

/// What stands in a paragraph or a cell and has paragraphs of its own.
fn is_inner(name: &str) -> bool {
    matches!(name, "text:note-body" | "draw:text-box" | "table:table")
}

impl Reader {
    fn take(&mut self, piece: &Piece<'_>) {
        match piece {
            Piece::Start(start) if is_ignored(start.name().as_ref()) => self.ignored += 1,
            Piece::End(name) if is_ignored(name) => self.ignored = self.ignored.saturating_sub(1),
            _ if self.ignored > 0 => {}
            Piece::Start(start) => self.start(start),
            Piece::End(name) => self.end(name),
            Piece::Text(text) => self.place.text.push_str(text),
        }
    }

    fn start(&mut self, start: &BytesStart<'_>) {
        let name = start.name();
        let repeated =
            |name: &str| attribute(start, name).and_then(|count| count.parse::<u64>().ok()).unwrap_or(1);
        match name.as_ref() {
            "office:spreadsheet" => self.is_sheet = true,
            "draw:page" => {
                self.outline.page();
                self.slides += 1;
                // What the slide before is about does not hold here.
                let name = attribute(start, "draw:name").unwrap_or_else(|| format!("Slide {}", self.slides));
                self.outline.heading(1, &name);
            }
            "table:table" if self.is_sheet && self.outer.is_empty() && self.place.row.is_none() => {
                (self.rows, self.has_columns, self.is_cut) = (0, false, false);
                self.outline.heading(1, &attribute(start, "table:name").unwrap_or_default());
            }
            inner if is_inner(inner) => self.outer.push(std::mem::take(&mut self.place)),
            "text:h" => {
                let level = attribute(start, "text:outline-level").and_then(|level| level.parse().ok());
                self.place.level = Some(level.unwrap_or(1));
            }
            "text:list-item" => self.place.lists += 1,
            "text:s" | "text:tab" => self.place.text.push(' '),
            "text:line-break" => self.place.text.push('\n'),
            "table:table-row" => {
                let number = self.rows + 1;
                self.rows = self.rows.saturating_add(repeated("table:number-rows-repeated"));
                self.place.row = Some(Row { number, left: LARGEST, ..Row::default() });
            }
            "table:table-cell" | "table:covered-table-cell" => {
                let repeated = repeated("table:number-columns-repeated");
                if let Some(row) = &mut self.place.row {
                    row.cells.push(String::new());
                    row.repeated = usize::try_from(repeated).unwrap_or(MOST_COLUMNS);
                }
            }
            _ => {}
        }
    }

    fn end(&mut self, name: &str) {
        match name {
            "text:list-item" => self.place.lists = self.place.lists.saturating_sub(1),
            "text:h" | "text:p" => self.end_paragraph(),
            "table:table-cell" | "table:covered-table-cell" => self.end_cell(),
            "table:table-row" => self.end_row(),
            "table:table" if self.is_sheet && self.outer.is_empty() => self.end_sheet(),
            inner if is_inner(inner) => self.close(),
            _ => {}
        }
    }

    fn end_sheet(&mut self) {
        if std::mem::take(&mut self.is_cut) {
            self.outline.notice("[the rest of this sheet is left out: it is too large]");
        }
    }

    /// Ends an inner place: what it says belongs to the paragraph or the cell around it.
    fn close(&mut self) {
        let Some(outer) = self.outer.pop() else { return };
        let mut inner = std::mem::replace(&mut self.place, outer);
        let rest = std::mem::take(&mut inner.text);
        inner.behind.extend(Some(rest).filter(|rest| !rest.trim().is_empty()));
        if self.outer.is_empty() && self.place.row.is_none() && self.place.text.trim().is_empty() {
            // A table of the text, or a box that no paragraph has.
            self.write_all(inner.behind);
        } else {
            self.place.behind.append(&mut inner.behind);
        }
    }

    fn close_all(&mut self) {
        while !self.outer.is_empty() {
            self.close();
        }
        self.end_paragraph();
    }

    fn write_all(&mut self, said: Vec<String>) {
        for said in said {
            self.outline.body(&said);
        }
    }

    fn end_paragraph(&mut self) {
        let said = std::mem::take(&mut self.place.text);
        let said = said.trim();
        let level = self.place.level.take();
        let is_inner = !self.outer.is_empty();
        let item =
            if self.place.lists > 0 && !said.is_empty() { format!("- {said}") } else { said.to_owned() };
        if let Some(cell) = self.place.row.as_mut().and_then(|row| row.cells.last_mut()) {
            for said in std::iter::once(said.to_owned()).chain(self.place.behind.drain(..)) {
                if !cell.is_empty() && !said.is_empty() {
                    cell.push(' ');
                }
                cell.push_str(&said);
            }
        } else if is_inner {
            self.place.behind.push(item);
        } else {
            match level {
                Some(level) => self.outline.heading(level, said),
                None => self.outline.body(&item),
            }
            let behind = std::mem::take(&mut self.place.behind);
            self.write_all(behind);
        }
    }

    fn end_cell(&mut self) {
        let behind = std::mem::take(&mut self.place.behind);
        let Some(row) = &mut self.place.row else { return };
        let Some(cell) = row.cells.last_mut() else { return };
        for said in behind {
            cell.push(' ');
            cell.push_str(&said);
        }
        *cell = cell.split_whitespace().collect::<Vec<_>>().join(" ");
        // Empty ones are made where another follows.
        let (cell, repeated) = (cell.clone(), std::mem::take(&mut row.repeated));
        let most = (MOST_COLUMNS + 1).saturating_sub(row.cells.len()).min(row.left / (cell.len() + 1));
        let more = if self.is_sheet { repeated.saturating_sub(1).min(most) } else { 0 };
        row.left -= more * cell.len();
        row.cells.extend(std::iter::repeat_n(cell, more));
    }

    fn end_row(&mut self) {
        let Some(mut row) = self.place.row.take() else { return };
        let used = row.cells.iter().rposition(|cell| !cell.is_empty()).map_or(0, |last| last + 1);
        if self.is_sheet && self.outer.is_empty() && used > 0 {
            self.is_cut |= used > MOST_COLUMNS || row.number > MOST_ROWS || self.outline.text.len() > LARGEST;
            row.cells.truncate(used.min(MOST_COLUMNS));
            if row.number > MOST_ROWS || self.outline.text.len() > LARGEST {
                return;
            }
            self.outline.on_line(row.number);
            // The first row that has something names the columns.
            match std::mem::replace(&mut self.has_columns, true) {
                true => self.outline.body(&format!("| {} |", row.cells.join(" | "))),
                false => self.outline.heading(2, &row.cells.join(" | ")),
            }
        } else if used > 0 {
            let within_row = self.outer.last().is_some_and(|outer| outer.row.is_some());
            let said = match within_row {
                true => format!("{};", row.cells.join(", ")),
                false => format!("| {} |", row.cells.join(" | ")),
            };
            self.place.behind.push(said);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Cursor, Write as _};

    use super::*;
    use crate::{Format, chunk};

    fn document(body: &str) -> Vec<u8> {
        let mut archive = zip::ZipWriter::new(Cursor::new(Vec::new()));
        archive.start_file("content.xml", zip::write::SimpleFileOptions::default()).unwrap();
        write!(
            archive,
            "<office:document-content><office:body>{body}</office:body></office:document-content>"
        )
        .unwrap();
        archive.finish().unwrap().into_inner()
    }

    fn text(body: &str) -> String {
        extract(&document(body)).unwrap().text.unwrap()
    }

    #[test]
    fn comments_are_left_out_and_notes_and_boxes_stand_behind_their_paragraph() {
        let said = text(
            "<office:text><text:h text:outline-level=\"1\">Field <office:annotation><dc:creator>Ada</dc:creator><text:p>Really?</text:p>\
             </office:annotation>notes</text:h><text:p>The heron<office:annotation><text:list><text:list-item><text:p>No!</text:p>\
             </text:list-item></text:list></office:annotation> stands<text:note><text:note-citation>1</text:note-citation><text:note-body>\
             <text:p>Ardea cinerea.</text:p></text:note-body></text:note> still.</text:p><text:p><draw:frame><draw:text-box>\
             <text:p>In a box.</text:p></draw:text-box></draw:frame></text:p><text:p>After.</text:p></office:text>",
        );
        assert_eq!(said, "# Field notes\n\nThe heron stands still.\n\nArdea cinerea.\n\nIn a box.\n\nAfter.");
    }

    #[test]
    fn a_table_in_a_cell_does_not_cost_the_row() {
        let cell = |inner: &str| format!("<table:table-cell>{inner}</table:table-cell>");
        let paragraph = |words: &str| format!("<text:p>{words}</text:p>");
        let table =
            |cells: &str| format!("<table:table><table:table-row>{cells}</table:table-row></table:table>");
        let inner = table(&(cell(&paragraph("b")) + &cell(&paragraph("c"))));
        let outer = table(&(cell(&paragraph("a")) + &cell(&inner) + &cell(&paragraph("d"))));
        assert_eq!(text(&format!("<office:text>{outer}</office:text>")), "| a | b, c; | d |");
    }

    #[test]
    fn repeated_cells_of_a_sheet_stand_where_they_are_and_rows_are_lines() {
        let sheet = "<office:spreadsheet><table:table table:name=\"Birds\"><table:table-row table:number-rows-repeated=\"3\">\
            <table:table-cell table:number-columns-repeated=\"1024\"/></table:table-row><table:table-row><table:table-cell>\
            <text:p>name</text:p></table:table-cell><table:table-cell table:number-columns-repeated=\"2\"/><table:table-cell><text:p>size</text:p>\
            </table:table-cell></table:table-row><table:table-row><table:table-cell table:number-columns-repeated=\"3\"><text:p>owl</text:p>\
            </table:table-cell><table:table-cell><text:p>9</text:p></table:table-cell><table:table-cell \
            table:number-columns-repeated=\"4000000000\"/></table:table-row></table:table></office:spreadsheet>";
        let extracted = extract(&document(sheet)).unwrap();
        let text = extracted.text.clone().unwrap();
        assert_eq!(text, "# Birds\n\n## name | | | size\n\n| owl | owl | owl | 9 |");
        let found = chunk(Format::Ods, &text, &extracted).unwrap();
        assert_eq!(found[0].lines, (4, 5), "rows of the sheet");
        let wide = "<office:spreadsheet><table:table table:name=\"W\"><table:table-row><table:table-cell \
            table:number-columns-repeated=\"4000000000\"><text:p>x</text:p></table:table-cell></table:table-row></table:table></office:spreadsheet>";
        let extracted = extract(&document(wide)).unwrap().text.unwrap();
        assert!(
            extracted.len() < 10_000 && extracted.ends_with("left out: it is too large]"),
            "{}",
            extracted.len()
        );
    }
}
