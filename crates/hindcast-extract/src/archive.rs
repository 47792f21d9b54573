//! Documents that are archives of XML files.

use std::io::{Cursor, Read};

use quick_xml::{
    Reader,
    events::{BytesStart, Event},
};
use zip::ZipArchive;

use crate::ExtractError;

/// What all parts of one document may unpack to. A thousand pages are about 20 MB.
pub(crate) const LARGEST: u64 = 64 * 1024 * 1024;

/// An archive that is not trusted.
pub(crate) struct Archive<'a> {
    zip: ZipArchive<Cursor<&'a [u8]>>,
    format: &'static str,
    /// Bytes that may still be unpacked.
    left: u64,
}

impl<'a> Archive<'a> {
    pub(crate) fn open(format: &'static str, bytes: &'a [u8]) -> Result<Self, ExtractError> {
        let zip = ZipArchive::new(Cursor::new(bytes))
            .map_err(|_| ExtractError::Broken { format, reason: "it is incomplete or damaged".into() })?;
        Ok(Self { zip, format, left: LARGEST })
    }

    pub(crate) fn broken(&self, reason: impl Into<String>) -> ExtractError {
        ExtractError::Broken { format: self.format, reason: reason.into() }
    }

    /// One file; none when it is not there.
    pub(crate) fn bytes(&mut self, name: &str) -> Result<Option<Vec<u8>>, ExtractError> {
        let format = self.format;
        let broken = |reason: String| ExtractError::Broken { format, reason };
        let file = match self.zip.by_name(name) {
            Ok(file) => file,
            Err(zip::result::ZipError::FileNotFound) => return Ok(None),
            Err(error) => return Err(broken(error.to_string())),
        };
        let mut bytes = Vec::new();
        // What the archive says about sizes may be a lie; what comes out is counted.
        file.take(self.left + 1).read_to_end(&mut bytes).map_err(|error| broken(error.to_string()))?;
        self.left = self.left.checked_sub(bytes.len() as u64).ok_or(ExtractError::TooLarge(LARGEST))?;
        Ok(Some(bytes))
    }

    pub(crate) fn text(&mut self, name: &str) -> Result<Option<String>, ExtractError> {
        let Some(bytes) = self.bytes(name)? else { return Ok(None) };
        let text = crate::encoding::decoded(&bytes).map_err(|error| self.broken(error.to_string()))?;
        Ok(Some(text.into_owned()))
    }

    pub(crate) fn needed(&mut self, name: &str) -> Result<String, ExtractError> {
        let text = self.text(name)?;
        text.ok_or_else(|| self.broken(format!("it has no {name}")))
    }
}

/// What of the XML matters.
pub(crate) enum Piece<'a> {
    Start(&'a BytesStart<'a>),
    End(&'a str),
    Text(&'a str),
}

/// Goes through a part, piece by piece.
pub(crate) fn walk(
    format: &'static str,
    xml: &str,
    mut take: impl FnMut(&Piece<'_>),
) -> Result<(), ExtractError> {
    let broken = |reason: String| ExtractError::Broken { format, reason };
    let mut reader = Reader::from_str(xml);
    reader.config_mut().expand_empty_elements = true;
    loop {
        match reader.read_event().map_err(|error| broken(error.to_string()))? {
            Event::Start(start) => take(&Piece::Start(&start)),
            Event::End(end) => take(&Piece::End(end.name().as_ref())),
            Event::Text(text) => take(&Piece::Text(&text)),
            Event::GeneralRef(reference) => {
                let name: &str = &reference;
                let character = reference.resolve_char_ref().map_err(|error| broken(error.to_string()))?;
                let text = match (character, name) {
                    (Some(character), _) => character.to_string(),
                    (None, "amp") => "&".into(),
                    (None, "lt") => "<".into(),
                    (None, "gt") => ">".into(),
                    (None, "quot") => "\"".into(),
                    (None, "apos") => "'".into(),
                    // Entities of its own are how XML bombs are built; no program writes any.
                    (None, name) => return Err(broken(format!("it has an entity `{name}` of its own"))),
                };
                take(&Piece::Text(&text));
            }
            Event::Eof => return Ok(()),
            _ => {}
        }
    }
}

pub(crate) fn attribute(start: &BytesStart<'_>, name: &str) -> Option<String> {
    let attribute = start.try_get_attribute(name).ok().flatten()?;
    let value = quick_xml::escape::unescape(&attribute.value).ok().map(|value| value.into_owned());
    Some(value.unwrap_or_else(|| attribute.value.into_owned()))
}

/// The text of the first element of this name.
pub(crate) fn text_of(
    format: &'static str,
    xml: &str,
    element: &str,
) -> Result<Option<String>, ExtractError> {
    let (mut inside, mut is_done, mut text) = (false, false, String::new());
    walk(format, xml, |piece| match piece {
        Piece::Start(start) if !is_done && start.name().as_ref() == element => inside = true,
        Piece::End(name) if inside && *name == element => (inside, is_done) = (false, true),
        Piece::Text(piece) if inside => text.push_str(piece),
        _ => {}
    })?;
    let text = text.trim();
    Ok((!text.is_empty()).then(|| text.to_owned()))
}

/// What the relationships of a part lead to, by id; targets are resolved against `folder`.
pub(crate) fn relationships(
    format: &'static str,
    xml: &str,
    folder: &str,
) -> Result<Vec<(String, String)>, ExtractError> {
    let mut found = Vec::new();
    walk(format, xml, |piece| {
        if let Piece::Start(start) = piece
            && start.name().as_ref() == "Relationship"
            && let (Some(id), Some(target)) = (attribute(start, "Id"), attribute(start, "Target"))
        {
            found.push((id, resolved(folder, &target)));
        }
    })?;
    Ok(found)
}

/// A path of an archive that is written relative to a folder of it.
pub(crate) fn resolved(folder: &str, target: &str) -> String {
    let mut parts: Vec<&str> = if target.starts_with('/') { Vec::new() } else { folder.split('/').collect() };
    for part in target.split('/') {
        match part {
            "" | "." => {}
            ".." => drop(parts.pop()),
            part => parts.push(part),
        }
    }
    parts.retain(|part| !part.is_empty());
    parts.join("/")
}
