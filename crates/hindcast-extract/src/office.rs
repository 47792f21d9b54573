//! Presentations.

use crate::{
    ExtractError, Extracted,
    archive::{Archive, Piece, attribute, relationships, text_of, walk},
    outline::Outline,
};

/// What a document of Office says it is called.
pub(crate) fn core_title(
    archive: &mut Archive<'_>,
    format: &'static str,
) -> Result<Option<String>, ExtractError> {
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
    for (number, slide) in (1..).zip(slides) {
        outline.page();
        let Some(xml) = archive.text(&slide)? else { continue };
        let shapes = self::shapes(FORMAT, &xml)?;
        // The title of a slide does not hold on the next.
        if !shapes.iter().any(|(is_title, _)| *is_title) {
            outline.heading(1, &format!("Slide {number}"));
        }
        for (is_title, paragraphs) in shapes {
            match is_title {
                true => outline.heading(1, &paragraphs.join(" ")),
                false => outline.body(&paragraphs.join("\n")),
            }
        }
        if let Some(xml) = notes(&mut archive, FORMAT, &slide)? {
            let shapes = self::shapes(FORMAT, &xml)?;
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
    // Other programs are shown the same in another way.
    let mut fallbacks = 0_usize;
    let mut shapes = vec![(false, Vec::new())];
    let (mut paragraph, mut in_text) = (String::new(), false);
    walk(format, xml, |piece| match piece {
        Piece::Start(start) if start.name().as_ref() == "mc:Fallback" => fallbacks += 1,
        Piece::End("mc:Fallback") => fallbacks = fallbacks.saturating_sub(1),
        _ if fallbacks > 0 => {}
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
