//! Spreadsheets of Office: each sheet with its rows below the names of its columns.

use jiff::{SignedDuration, civil};
use quick_xml::events::BytesStart;

use crate::{
    ExtractError, Extracted,
    archive::{Archive, Piece, attribute, relationships, walk},
    office::core_title,
    outline::Outline,
};

const FORMAT: &str = "XLSX";

/// So many rows of a sheet are read; more are data, not text.
const MOST_ROWS: usize = 50_000;

const MOST_COLUMNS: usize = 1000;

/// What the rows have together at most, in bytes: many cells may share a long text.
const LARGEST: usize = 32 * 1024 * 1024;

pub(crate) fn extract(bytes: &[u8]) -> Result<Extracted, ExtractError> {
    let mut archive = Archive::open(FORMAT, bytes)?;
    let workbook = archive.needed("xl/workbook.xml")?;
    let links = archive.needed("xl/_rels/workbook.xml.rels")?;
    let links = relationships(FORMAT, &links, "xl")?;
    let shared = match archive.text("xl/sharedStrings.xml")? {
        Some(xml) => shared_strings(&xml)?,
        None => Vec::new(),
    };
    let styles = match archive.text("xl/styles.xml")? {
        Some(xml) => styles(&xml)?,
        None => Vec::new(),
    };
    let (mut sheets, mut is_1904) = (Vec::new(), false);
    walk(FORMAT, &workbook, |piece| {
        let Piece::Start(start) = piece else { return };
        match start.name().as_ref() {
            "sheet" => {
                if let (Some(name), Some(id)) = (attribute(start, "name"), attribute(start, "r:id")) {
                    sheets.push((name, id));
                }
            }
            "workbookPr" => {
                is_1904 =
                    attribute(start, "date1904").is_some_and(|is_1904| matches!(&*is_1904, "1" | "true"));
            }
            _ => {}
        }
    })?;
    let title = core_title(&mut archive, FORMAT)?;
    let mut outline = Outline::default();
    for (name, id) in sheets {
        let Some((_, target)) = links.iter().find(|(link, _)| *link == id) else { continue };
        let Some(xml) = archive.text(target)? else { continue };
        outline.heading(1, &name);
        let mut sheet = Sheet { shared: &shared, styles: &styles, is_1904, outline, ..Sheet::default() };
        walk(FORMAT, &xml, |piece| sheet.take(piece))?;
        outline = sheet.finish();
    }
    Ok(outline.finish(title))
}

fn shared_strings(xml: &str) -> Result<Vec<String>, ExtractError> {
    let (mut strings, mut text, mut in_text, mut readings) = (Vec::new(), String::new(), false, 0_usize);
    walk(FORMAT, xml, |piece| match piece {
        Piece::Start(start) if start.name().as_ref() == "rPh" => readings += 1,
        Piece::End("rPh") => readings = readings.saturating_sub(1),
        Piece::Start(start) if start.name().as_ref() == "t" => in_text = readings == 0,
        Piece::End("t") => in_text = false,
        Piece::End("si") => strings.push(std::mem::take(&mut text)),
        Piece::Text(piece) if in_text => text.push_str(piece),
        _ => {}
    })?;
    Ok(strings)
}

/// How a number is shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Style {
    Number,
    Date,
    Time,
    DateAndTime,
    /// Hours that are not cut at a day.
    Duration,
}

/// The styles of cells, by their number.
fn styles(xml: &str) -> Result<Vec<Style>, ExtractError> {
    let (mut own, mut styles, mut in_cells) = (Vec::new(), Vec::new(), false);
    walk(FORMAT, xml, |piece| match piece {
        Piece::Start(start) => match start.name().as_ref() {
            "numFmt" => {
                if let (Some(id), Some(code)) = (attribute(start, "numFmtId"), attribute(start, "formatCode"))
                {
                    own.push((id, style_of(&code)));
                }
            }
            "cellXfs" => in_cells = true,
            "xf" if in_cells => {
                let id = attribute(start, "numFmtId").unwrap_or_default();
                let known = own.iter().find(|(own, _)| *own == id).map(|(_, style)| *style);
                styles.push(known.unwrap_or_else(|| built_in(id.parse().unwrap_or(0))));
            }
            _ => {}
        },
        Piece::End("cellXfs") => in_cells = false,
        _ => {}
    })?;
    Ok(styles)
}

/// The formats that every program knows by their numbers.
fn built_in(id: u32) -> Style {
    match id {
        14..=17 | 27..=31 | 36 | 50..=54 | 57 | 58 => Style::Date,
        18..=21 | 32..=35 | 45 | 47 | 55 | 56 => Style::Time,
        22 => Style::DateAndTime,
        46 => Style::Duration,
        _ => Style::Number,
    }
}

/// What a format such as `yyyy\-mm\-dd` or `[h]:mm` shows.
fn style_of(code: &str) -> Style {
    let (mut has_date, mut has_time, mut has_month) = (false, false, false);
    let code = code.split(';').next().unwrap_or_default().to_ascii_lowercase();
    let code = code.replace("am/pm", "h").replace("a/p", "h");
    let mut signs = code.chars();
    while let Some(sign) = signs.next() {
        match sign {
            '"' => drop(signs.by_ref().find(|sign| *sign == '"')),
            '\\' | '_' | '*' => drop(signs.next()),
            // A colour, a language, or hours that go on beyond a day.
            '[' => {
                let inner: String = signs.by_ref().take_while(|sign| *sign != ']').collect();
                if !inner.is_empty() && inner.chars().all(|sign| "hms".contains(sign)) {
                    return Style::Duration;
                }
            }
            'y' | 'd' => has_date = true,
            'h' | 's' => has_time = true,
            'm' => has_month = true,
            // `General`, and numbers.
            'g' | '0' | '#' | '?' if !has_date && !has_time && !has_month => return Style::Number,
            _ => {}
        }
    }
    match (has_date || (has_month && !has_time), has_time) {
        (true, true) => Style::DateAndTime,
        (true, false) => Style::Date,
        (false, true) => Style::Time,
        (false, false) => Style::Number,
    }
}

/// A number of days as a date and a time as ISO 8601 writes them; none where it is no day that the program knows.
fn dated(number: &str, style: Style, is_1904: bool) -> Option<String> {
    let days: f64 = number.trim().parse().ok()?;
    if style == Style::Number || !(0.0..2_958_466.0).contains(&days) {
        return None;
    }
    let seconds = (days * 86_400.0).round() as i64;
    let (whole, rest) = (seconds / 86_400, seconds % 86_400);
    let time = format!("{:02}:{:02}:{:02}", rest / 3600, rest / 60 % 60, rest % 60);
    if style == Style::Duration {
        return Some(format!("{}:{:02}:{:02}", seconds / 3600, rest / 60 % 60, rest % 60));
    }
    if style == Style::Time && whole == 0 {
        return Some(time);
    }
    // Lotus had a 29 February 1900, and so has whoever reads its files.
    let epoch = match (is_1904, whole) {
        (true, _) => civil::date(1904, 1, 1),
        (false, 0 | 60) => return None,
        (false, 1..60) => civil::date(1899, 12, 31),
        (false, _) => civil::date(1899, 12, 30),
    };
    let date = epoch.checked_add(SignedDuration::from_hours(whole * 24)).ok()?;
    Some(if style == Style::Date { date.to_string() } else { format!("{date}T{time}") })
}

/// A sheet that is being read.
#[derive(Default)]
struct Sheet<'a> {
    shared: &'a [String],
    styles: &'a [Style],
    is_1904: bool,
    outline: Outline,
    rows: usize,
    row: Vec<String>,
    /// Where the sheet has the row, from 1.
    number: u64,
    bytes: usize,
    has_columns: bool,
    kind: String,
    style: Option<Style>,
    column: usize,
    value: String,
    in_value: bool,
    readings: usize,
    has_more_rows: bool,
    has_more_columns: bool,
    is_large: bool,
}

impl Sheet<'_> {
    fn take(&mut self, piece: &Piece<'_>) {
        if self.has_more_rows || self.is_large {
            return;
        }
        match piece {
            Piece::Start(start) => self.start(start),
            Piece::End("rPh") => self.readings = self.readings.saturating_sub(1),
            Piece::End("v" | "t") => self.in_value = false,
            Piece::End("c") => self.end_cell(),
            Piece::End("row") => self.end_row(),
            Piece::Text(text) if self.in_value => self.value.push_str(text),
            _ => {}
        }
    }

    fn start(&mut self, start: &BytesStart<'_>) {
        match start.name().as_ref() {
            "row" => {
                self.rows += 1;
                self.has_more_rows = self.rows > MOST_ROWS;
                let number = attribute(start, "r").and_then(|number| number.parse().ok());
                self.number = number.unwrap_or(self.number + 1);
                self.row.clear();
            }
            "c" => {
                self.kind = attribute(start, "t").unwrap_or_default();
                let style = attribute(start, "s").and_then(|style| style.parse::<usize>().ok());
                self.style = style.and_then(|style| self.styles.get(style).copied());
                let place = attribute(start, "r").unwrap_or_default();
                self.column = column_of(&place).unwrap_or(self.row.len());
                self.value.clear();
            }
            "rPh" => self.readings += 1,
            "v" | "t" => self.in_value = self.readings == 0,
            _ => {}
        }
    }

    fn end_cell(&mut self) {
        let value = std::mem::take(&mut self.value);
        let text = match (&*self.kind, value.trim()) {
            ("s", index) => index
                .parse()
                .ok()
                .and_then(|index: usize| self.shared.get(index))
                .cloned()
                .unwrap_or_default(),
            ("b", "1") => "TRUE".into(),
            ("b", "0") => "FALSE".into(),
            ("" | "n", number) => {
                let date = self.style.and_then(|style| dated(number, style, self.is_1904));
                date.unwrap_or_else(|| number.to_owned())
            }
            _ => value,
        };
        if text.trim().is_empty() {
            return;
        }
        if self.column >= MOST_COLUMNS {
            self.has_more_columns = true;
            return;
        }
        self.bytes += text.len();
        self.is_large |= self.bytes > LARGEST;
        self.row.resize(self.row.len().max(self.column + 1), String::new());
        self.row[self.column] = text.split_whitespace().collect::<Vec<_>>().join(" ");
    }

    fn end_row(&mut self) {
        let row = std::mem::take(&mut self.row);
        if row.is_empty() {
            return;
        }
        self.bytes += row.len() * 3;
        self.outline.on_line(self.number);
        // The first row that has something names the columns.
        match std::mem::replace(&mut self.has_columns, true) {
            true => self.outline.body(&format!("| {} |", row.join(" | "))),
            false => self.outline.heading(2, &row.join(" | ")),
        }
    }

    /// What was left out is told below the rows.
    fn finish(mut self) -> Outline {
        let mut left_out = Vec::new();
        if self.has_more_rows {
            left_out.push(format!("rows beyond {MOST_ROWS}"));
        }
        if self.has_more_columns {
            left_out.push(format!("columns beyond {MOST_COLUMNS}"));
        }
        if self.is_large {
            left_out.push(format!("rows behind {LARGEST} bytes of text"));
        }
        if !left_out.is_empty() {
            self.outline.notice(&format!("[left out of this sheet: {}]", left_out.join(", ")));
        }
        self.outline
    }
}

/// The number of a column, from 0, by a place such as `AB12`.
fn column_of(place: &str) -> Option<usize> {
    let letters: Vec<u8> = place.bytes().take_while(u8::is_ascii_uppercase).collect();
    if letters.is_empty() || letters.len() > 3 {
        return None;
    }
    Some(letters.iter().fold(0, |number, letter| number * 26 + usize::from(letter - b'A') + 1) - 1)
}

#[cfg(test)]
mod tests {
    use std::io::{Cursor, Write as _};

    use super::*;
    use crate::{Format, chunk};

    const LINKS: &str =
        "<Relationships><Relationship Id=\"r1\" Target=\"worksheets/one.xml\"/></Relationships>";

    fn workbook(sheet: &str, shared: &str, styles: &str, properties: &str) -> Vec<u8> {
        let mut archive = zip::ZipWriter::new(Cursor::new(Vec::new()));
        let book = format!(
            "<workbook>{properties}<sheets><sheet name=\"One &amp; only\" r:id=\"r1\"/></sheets></workbook>"
        );
        for (name, text) in [
            ("xl/workbook.xml", &*book),
            ("xl/_rels/workbook.xml.rels", LINKS),
            ("xl/sharedStrings.xml", shared),
            ("xl/styles.xml", styles),
            ("xl/worksheets/one.xml", sheet),
        ] {
            archive.start_file(name, zip::write::SimpleFileOptions::default()).unwrap();
            archive.write_all(text.as_bytes()).unwrap();
        }
        archive.finish().unwrap().into_inner()
    }

    fn text(sheet: &str) -> String {
        extract(&workbook(sheet, "<sst/>", "<styleSheet/>", "")).unwrap().text.unwrap()
    }

    #[test]
    fn how_words_are_read_aloud_is_no_part_of_a_cell() {
        let shared = "<sst><si><t>東京</t><rPh sb=\"0\" eb=\"2\"><t>トウキョウ</t></rPh></si></sst>";
        let sheet = "<sheetData><row r=\"3\"><c r=\"A3\" t=\"s\"><v>0</v></c><c r=\"B3\" t=\"inlineStr\"><is><t>鷺</t><rPh><t>サギ</t></rPh>\
                     <r><t>です</t></r></is></c></row><row r=\"7\"><c r=\"B7\" t=\"b\"><v>1</v></c></row></sheetData>";
        let extracted = extract(&workbook(sheet, shared, "<styleSheet/>", "")).unwrap();
        let text = extracted.text.clone().unwrap();
        assert_eq!(text, "# One & only\n\n## 東京 | 鷺です\n\n|  | TRUE |");
        let found = chunk(Format::Xlsx, &text, &extracted).unwrap();
        assert_eq!(found[0].lines, (3, 7), "rows of the sheet");
    }

    #[test]
    fn dates_are_told_as_dates() {
        let styles = "<styleSheet><numFmts><numFmt numFmtId=\"164\" formatCode=\"[$-409]d\\-mmm\\-yy;@\"/>\
            <numFmt numFmtId=\"165\" formatCode=\"0.00&quot; days&quot;\"/></numFmts><cellStyleXfs><xf numFmtId=\"14\"/></cellStyleXfs>\
            <cellXfs><xf numFmtId=\"0\"/><xf numFmtId=\"14\"/><xf numFmtId=\"22\"/><xf numFmtId=\"164\"/><xf numFmtId=\"165\"/>\
            <xf numFmtId=\"20\"/><xf numFmtId=\"46\"/></cellXfs></styleSheet>";
        let cells: String = [
            (0, "45413"),
            (1, "45413"),
            (2, "45413.52083333"),
            (3, "59"),
            (4, "45413"),
            (5, "0.25"),
            (6, "1.5"),
            (1, "60"),
            (1, "-3"),
        ]
        .iter()
        .map(|(style, value)| format!("<c s=\"{style}\"><v>{value}</v></c>"))
        .collect();
        let sheet = format!("<sheetData><row>{cells}</row></sheetData>");
        let read = |properties: &str| {
            extract(&workbook(&sheet, "<sst/>", styles, properties)).unwrap().text.unwrap()
        };
        let expected = "# One & only\n\n## 45413 | 2024-05-01 | 2024-05-01T12:30:00 | 1900-02-28 | 45413 | 06:00:00 | 36:00:00 | 60 | -3";
        assert_eq!(read(""), expected);
        assert!(read("<workbookPr date1904=\"1\"/>").contains("45413 | 2028-05-02 | 2028-05-02T12:30:00"));
        for (code, style) in [
            ("General", Style::Number),
            ("#,##0.00 [$€-407]", Style::Number),
            ("\"day\" 0", Style::Number),
            ("yyyy/mm/dd hh:mm", Style::DateAndTime),
            ("mmmm", Style::Date),
            ("mm:ss", Style::Time),
            ("h:mm AM/PM", Style::Time),
            ("[mm]:ss", Style::Duration),
            ("[Red]dd.mm.yy", Style::Date),
        ] {
            assert_eq!(style_of(code), style, "{code}");
        }
    }

    #[test]
    fn what_is_left_out_of_a_large_sheet_is_told() {
        let rows = "<row><c><v>1</v></c></row>".repeat(MOST_ROWS + 1);
        let said = text(&format!("<sheetData>{rows}</sheetData>"));
        assert!(
            said.ends_with("[left out of this sheet: rows beyond 50000]"),
            "{}",
            &said[said.len() - 60..]
        );
        let said = text(&format!("<sheetData>{}</sheetData>", "<row><c><v>1</v></c></row>".repeat(10)));
        assert!(!said.contains("left out"));
        let said =
            text("<sheetData><row><c r=\"A1\"><v>1</v></c><c r=\"ALM1\"><v>2</v></c></row></sheetData>");
        assert_eq!(said, "# One & only\n\n## 1\n\n[left out of this sheet: columns beyond 1000]");
        let rows = "<row><c r=\"ALL1\"><v>1</v></c></row>".repeat(MOST_ROWS);
        let said = text(&format!("<sheetData>{rows}</sheetData>"));
        assert!(said.len() < LARGEST * 2 && said.ends_with("bytes of text]"), "{}", said.len());
    }
}
