//! Books: the pages of an EPUB in the order they are read.

use std::collections::HashMap;

use crate::{
    ExtractError, Extracted,
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
    let mut outline = Outline::default();
    for file in order.iter().filter_map(|id| files.get(id)) {
        let Some(page) = archive.text(file)? else { continue };
        // A page that cannot be read does not cost the book.
        if let Ok(extracted) = html::extract(&page) {
            outline.append(extracted);
        }
    }
    Ok(outline.finish(text_of(FORMAT, &description, "dc:title")?))
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
