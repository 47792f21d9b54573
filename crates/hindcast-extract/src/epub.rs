//! Books: the pages of an EPUB in the order they are read.

use std::collections::HashMap;

use crate::{
    Block, ExtractError, Extracted, Role,
    archive::{Archive, Piece, attribute, resolved, text_of, walk},
    html,
    outline::Outline,
};

const FORMAT: &str = "EPUB";

pub(crate) fn extract(bytes: &[u8]) -> Result<Extracted, ExtractError> {
    let mut archive = Archive::open(FORMAT, bytes)?;
    let container = archive.needed("META-INF/container.xml")?;
    let mut package = None;
    walk(FORMAT, &container, |piece| {
        if let Piece::Start(start) = piece
            && start.name().as_ref() == "rootfile"
        {
            package = package.take().or_else(|| attribute(start, "full-path"));
        }
    })?;
    let package = package.ok_or_else(|| archive.broken("its container names no package"))?;
    let description = archive.needed(&package)?;
    let folder = package.rsplit_once('/').map_or("", |(folder, _)| folder);
    let (mut files, mut order) = (HashMap::new(), Vec::new());
    walk(FORMAT, &description, |piece| {
        let Piece::Start(start) = piece else { return };
        match start.name().as_ref().rsplit(':').next() {
            Some("item") => {
                let is_contents =
                    attribute(start, "properties").is_some_and(|all| all.split(' ').any(|one| one == "nav"));
                if let (Some(id), Some(target), false) =
                    (attribute(start, "id"), attribute(start, "href"), is_contents)
                {
                    files.insert(id, resolved(folder, &decoded(&target)));
                }
            }
            Some("itemref") => order.extend(attribute(start, "idref")),
            _ => {}
        }
    })?;
    let title = text_of(FORMAT, &description, "dc:title")?;
    let mut outline = Outline::default();
    for file in order.iter().filter_map(|id| files.get(id)) {
        let Some(page) = archive.text(file)? else { continue };
        // A page that cannot be read does not cost the book.
        if let Ok(extracted) = html::extract(&page) {
            // The headings of the chapter before do not hold in one that begins without any.
            if !matches!(extracted.blocks.first(), None | Some(Block { role: Role::Heading { .. }, .. })) {
                let name = extracted.title.clone().filter(|name| Some(name) != title.as_ref());
                let stem = || {
                    file.rsplit('/').next().and_then(|name| name.split('.').next()).unwrap_or(file).to_owned()
                };
                outline.heading(1, &name.unwrap_or_else(stem));
            }
            outline.append(extracted);
        }
    }
    Ok(outline.finish(title))
}

/// A path without percent-encoding.
fn decoded(path: &str) -> String {
    let mut bytes = Vec::with_capacity(path.len());
    let mut rest = path.bytes();
    while let Some(byte) = rest.next() {
        let mut ahead = rest.clone();
        let digits =
            [ahead.next(), ahead.next()].map(|digit| digit.and_then(|digit| char::from(digit).to_digit(16)));
        match (byte, digits) {
            (b'%', [Some(high), Some(low)]) => {
                bytes.push((high * 16 + low) as u8);
                rest = ahead;
            }
            _ => bytes.push(byte),
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

#[cfg(test)]
mod tests {
    use std::io::{Cursor, Write as _};

    use super::*;
    use crate::{Format, chunk};

    #[test]
    fn a_chapter_without_a_heading_has_not_that_of_the_one_before() {
        let mut archive = zip::ZipWriter::new(Cursor::new(Vec::new()));
        let page = |title: &str, body: &str| {
            format!("<html><head><title>{title}</title></head><body>{body}</body></html>")
        };
        for (name, text) in [
            ("META-INF/container.xml", "<container><rootfile full-path=\"book.opf\"/></container>".to_owned()),
            (
                "book.opf",
                "<package><metadata><dc:title>Herons</dc:title></metadata><manifest><item id=\"a\" href=\"a.xhtml\"/><item id=\"b\" href=\"b.xhtml\"/>\
                 <item id=\"c\" href=\"text/part3.xhtml\"/></manifest><spine><itemref idref=\"a\"/><itemref idref=\"b\"/><itemref idref=\"c\"/></spine></package>"
                    .to_owned(),
            ),
            ("a.xhtml", page("Herons", "<h2>Morning</h2><p>They wake.</p>")),
            ("b.xhtml", page("Evening", "<p>They sleep.</p>")),
            ("text/part3.xhtml", page("Herons", "<p>They dream.</p>")),
        ] {
            archive.start_file(name, zip::write::SimpleFileOptions::default()).unwrap();
            archive.write_all(text.as_bytes()).unwrap();
        }
        let extracted = extract(&archive.finish().unwrap().into_inner()).unwrap();
        let text = extracted.text.clone().unwrap();
        let found = chunk(Format::Epub, &text, &extracted).unwrap();
        let headings: Vec<_> = found.iter().map(|chunk| chunk.headings.join(" › ")).collect();
        assert_eq!(headings, ["Morning", "Evening", "part3"]);
    }
}
