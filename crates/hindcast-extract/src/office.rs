//! Presentations, spreadsheets and OpenDocument texts.

use crate::{
    ExtractError, Extracted,
    archive::{Archive, Piece, attribute, relationships, text_of, walk},
    outline::Outline,
};

/// So many rows of a sheet are read; more are data, not text.
const MOST_ROWS: usize = 50_000;

fn core_title(archive: &mut Archive<'_>, format: &'static str) -> Result<Option<String>, ExtractError> {
    match archive.text("docProps/core.xml")? {
        Some(core) => text_of(format, &core, "dc:title"),
        None => Ok(None),
    }
}

/// Slides in their order, each a page with its title.
pub(crate) fn pptx(bytes: &[u8]) -> Result<Extracted, ExtractError> {
    const FORMAT: &str = "PPTX";
    let mut archive = Archive::open(FORMAT, bytes)?;
    let presentation = archive.needed("ppt/presentation.xml")?;
    let links = archive.needed("ppt/_rels/presentation.xml.rels")?;
    let links = relationships(FORMAT, &links, "ppt")?;
    let mut slides = Vec::new();
    walk(FORMAT, &presentation, |piece| {
        if let Piece::Start(start) = piece
            && start.name().as_ref() == "p:sldId"
            && let Some(id) = attribute(start, "r:id")
        {
            slides.extend(links.iter().find(|(link, _)| *link == id).map(|(_, target)| target.clone()));
        }
    })?;
    let title = core_title(&mut archive, FORMAT)?;
    let mut outline = Outline::default();
    for slide in slides {
        outline.page();
        let Some(xml) = archive.text(&slide)? else { continue };
        for (is_title, paragraphs) in shapes(FORMAT, &xml)? {
            match is_title {
                true => outline.heading(1, &paragraphs.join(" ")),
                false => outline.body(&paragraphs.join("\n")),
            }
        }
        if let Some(xml) = notes(&mut archive, FORMAT, &slide)? {
            let shapes = shapes(FORMAT, &xml)?;
            let said: Vec<_> = shapes.into_iter().flat_map(|(_, paragraphs)| paragraphs).collect();
            // A notes page without notes has the slide's number only.
            if said.iter().any(|text| text.chars().any(char::is_alphabetic)) {
                outline.body(&format!("Notes: {}", said.join("\n")));
            }
        }
    }
    Ok(outline.finish(title))
}

/// The notes of a slide, which its relationships name.
fn notes(
    archive: &mut Archive<'_>,
    format: &'static str,
    slide: &str,
) -> Result<Option<String>, ExtractError> {
    let (folder, name) = slide.rsplit_once('/').unwrap_or(("", slide));
    let Some(links) = archive.text(&format!("{folder}/_rels/{name}.rels"))? else { return Ok(None) };
    let links = relationships(format, &links, folder)?;
    match links.iter().find(|(_, target)| target.contains("notesSlides/")) {
        Some((_, target)) => archive.text(target),
        None => Ok(None),
    }
}

/// The paragraphs of each shape of a slide, and whether they are its title.
fn shapes(format: &'static str, xml: &str) -> Result<Vec<(bool, Vec<String>)>, ExtractError> {
    let mut shapes = vec![(false, Vec::new())];
    let (mut paragraph, mut in_text) = (String::new(), false);
    walk(format, xml, |piece| match piece {
        Piece::Start(start) => match start.name().as_ref() {
            "p:sp" | "p:graphicFrame" => shapes.push((false, Vec::new())),
            "p:ph" => {
                let kind = attribute(start, "type").unwrap_or_default();
                if let Some(shape) = shapes.last_mut() {
                    shape.0 = matches!(&*kind, "title" | "ctrTitle");
                }
            }
            "a:t" => in_text = true,
            "a:br" => paragraph.push('\n'),
            _ => {}
        },
        Piece::End("a:t") => in_text = false,
        Piece::End("a:p") => {
            let text = std::mem::take(&mut paragraph);
            if let Some(shape) = shapes.last_mut().filter(|_| !text.trim().is_empty()) {
                shape.1.push(text.trim().to_owned());
            }
        }
        Piece::Text(text) if in_text => paragraph.push_str(text),
        _ => {}
    })?;
    shapes.retain(|(_, paragraphs)| !paragraphs.is_empty());
    // What a slide is about comes first, wherever it stands on it.
    shapes.sort_by_key(|(is_title, _)| !is_title);
    Ok(shapes)
}

/// Sheets, each with its rows below the names of its columns.
pub(crate) fn xlsx(bytes: &[u8]) -> Result<Extracted, ExtractError> {
    const FORMAT: &str = "XLSX";
    let mut archive = Archive::open(FORMAT, bytes)?;
    let workbook = archive.needed("xl/workbook.xml")?;
    let links = archive.needed("xl/_rels/workbook.xml.rels")?;
    let links = relationships(FORMAT, &links, "xl")?;
    let shared = match archive.text("xl/sharedStrings.xml")? {
        Some(xml) => shared_strings(FORMAT, &xml)?,
        None => Vec::new(),
    };
    let mut sheets = Vec::new();
    walk(FORMAT, &workbook, |piece| {
        if let Piece::Start(start) = piece
            && start.name().as_ref() == "sheet"
            && let (Some(name), Some(id)) = (attribute(start, "name"), attribute(start, "r:id"))
        {
            sheets.push((name, id));
        }
    })?;
    let title = core_title(&mut archive, FORMAT)?;
    let mut outline = Outline::default();
    for (name, id) in sheets {
        let Some((_, target)) = links.iter().find(|(link, _)| *link == id) else { continue };
        let Some(xml) = archive.text(target)? else { continue };
        outline.heading(1, &name);
        let rows = rows(FORMAT, &xml, &shared)?;
        let mut rows = rows.iter().filter(|row| row.iter().any(|cell| !cell.is_empty()));
        // The first row that has something names the columns.
        if let Some(columns) = rows.next() {
            outline.heading(2, &columns.join(" | "));
        }
        for row in rows {
            outline.body(&format!("| {} |", row.join(" | ")));
        }
    }
    Ok(outline.finish(title))
}

fn shared_strings(format: &'static str, xml: &str) -> Result<Vec<String>, ExtractError> {
    let (mut strings, mut text, mut in_text) = (Vec::new(), String::new(), false);
    walk(format, xml, |piece| match piece {
        Piece::Start(start) if start.name().as_ref() == "t" => in_text = true,
        Piece::End("t") => in_text = false,
        Piece::End("si") => strings.push(std::mem::take(&mut text)),
        Piece::Text(piece) if in_text => text.push_str(piece),
        _ => {}
    })?;
    Ok(strings)
}

fn rows(format: &'static str, xml: &str, shared: &[String]) -> Result<Vec<Vec<String>>, ExtractError> {
    let mut rows: Vec<Vec<String>> = Vec::new();
    let (mut kind, mut column, mut value, mut in_value) = (String::new(), 0_usize, String::new(), false);
    walk(format, xml, |piece| {
        if rows.len() > MOST_ROWS {
            return;
        }
        match piece {
            Piece::Start(start) => match start.name().as_ref() {
                "row" => rows.push(Vec::new()),
                "c" => {
                    kind = attribute(start, "t").unwrap_or_default();
                    let place = attribute(start, "r").unwrap_or_default();
                    column = column_of(&place).unwrap_or_else(|| rows.last().map_or(0, Vec::len));
                    value.clear();
                }
                "v" | "t" => in_value = true,
                _ => {}
            },
            Piece::End("v" | "t") => in_value = false,
            Piece::End("c") => {
                let text = match (&*kind, value.trim().parse::<usize>()) {
                    ("s", Ok(index)) => shared.get(index).cloned().unwrap_or_default(),
                    _ => value.clone(),
                };
                if let Some(row) = rows.last_mut().filter(|_| column < 1000) {
                    row.resize(row.len().max(column + 1), String::new());
                    row[column] = text.split_whitespace().collect::<Vec<_>>().join(" ");
                }
            }
            Piece::Text(text) if in_value => value.push_str(text),
            _ => {}
        }
    })?;
    Ok(rows)
}

/// The number of a column, from 0, by a place such as `AB12`.
fn column_of(place: &str) -> Option<usize> {
    let letters: Vec<u8> = place.bytes().take_while(u8::is_ascii_uppercase).collect();
    if letters.is_empty() || letters.len() > 3 {
        return None;
    }
    Some(letters.iter().fold(0, |number, letter| number * 26 + usize::from(letter - b'A') + 1) - 1)
}

/// Texts, presentations and sheets of OpenDocument.
pub(crate) fn open_document(bytes: &[u8]) -> Result<Extracted, ExtractError> {
    const FORMAT: &str = "OpenDocument";
    let mut archive = Archive::open(FORMAT, bytes)?;
    let content = archive.needed("content.xml")?;
    let title = match archive.text("meta.xml")? {
        Some(meta) => text_of(FORMAT, &meta, "dc:title")?,
        None => None,
    };
    let mut outline = Outline::default();
    let (mut text, mut level, mut lists) = (String::new(), None, 0_usize);
    let (mut row, mut ignored): (Option<Vec<String>>, usize) = (None, 0);
    walk(FORMAT, &content, |piece| match piece {
        Piece::Start(start) => match start.name().as_ref() {
            "office:annotation" | "text:tracked-changes" => ignored += 1,
            "draw:page" => outline.page(),
            "text:h" => {
                level = Some(
                    attribute(start, "text:outline-level").and_then(|level| level.parse().ok()).unwrap_or(1),
                );
            }
            "text:list-item" => lists += 1,
            "text:s" | "text:tab" => text.push(' '),
            "text:line-break" => text.push('\n'),
            "table:table-row" => row = Some(Vec::new()),
            "table:table-cell" => {
                if let Some(row) = &mut row {
                    row.push(String::new());
                }
            }
            _ => {}
        },
        Piece::End(name) => match *name {
            "office:annotation" | "text:tracked-changes" => ignored = ignored.saturating_sub(1),
            "text:list-item" => lists = lists.saturating_sub(1),
            "text:h" | "text:p" => {
                let said = std::mem::take(&mut text);
                match (row.as_mut().and_then(|row| row.last_mut()), level.take()) {
                    (Some(cell), _) => cell.push_str(said.trim()),
                    (None, Some(level)) => outline.heading(level, &said),
                    (None, None) if lists > 0 && !said.trim().is_empty() => {
                        outline.body(&format!("- {}", said.trim()))
                    }
                    (None, None) => outline.body(&said),
                }
            }
            "table:table-row" => {
                let cells = row.take().unwrap_or_default();
                if cells.iter().any(|cell| !cell.is_empty()) {
                    outline.body(&format!("| {} |", cells.join(" | ")));
                }
            }
            _ => {}
        },
        Piece::Text(piece) if ignored == 0 => text.push_str(piece),
        Piece::Text(_) => {}
    })?;
    Ok(outline.finish(title))
}
