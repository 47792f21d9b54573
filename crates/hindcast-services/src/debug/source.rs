//! Source text, from disk or from the program itself: bounded, and never through a link to somewhere else.

use std::{
    fs::File,
    io::{BufRead, BufReader, Read},
    path::Path,
};

use hindcast_core::debug::{DebugBackend, Location, SourceFile};
use schemars::JsonSchema;
use serde::Serialize;

use super::secrets::Mask;

/// Longer files are not read.
const LARGEST: u64 = 8 << 20;
/// Longer lines are cut.
const LONGEST_LINE: usize = 160;

/// A line of source.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct SourceLine {
    /// From 1.
    pub line: u32,
    /// Without the line end; long ones are cut.
    pub text: String,
    /// Whether the program stands here.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub current: bool,
    /// Whether a breakpoint is here.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub breakpoint: bool,
}

/// Why a source file is not served.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum NotServed {
    /// It is not a plain file where the symbols say, but a link or something else.
    Elsewhere,
    /// It is not there.
    Missing,
    /// It is too long.
    TooLong,
}

/// `around` lines before `line`, that line, and as many after it. Empty where the file cannot be read.
pub(super) fn lines_around(path: &Path, line: u32, around: u32) -> Vec<SourceLine> {
    match open(path) {
        Ok(file) => select_lines(BufReader::new(file.take(LARGEST)), line, around),
        Err(_) => Vec::new(),
    }
}

/// The same of a source file on disk, or of the text that the program carries.
pub(super) fn lines_of(source: &SourceFile, line: u32, around: u32) -> Vec<SourceLine> {
    match (&source.text, &source.path) {
        (Some(text), _) => select_lines(text.as_bytes(), line, around),
        (None, Some(path)) => lines_around(path, line, around),
        (None, None) => Vec::new(),
    }
}

fn select_lines(mut reader: impl BufRead, line: u32, around: u32) -> Vec<SourceLine> {
    let first = line.saturating_sub(around).max(1);
    let last = line.saturating_add(around);
    let mut lines = Vec::new();
    let mut bytes = Vec::new();
    for number in 1..=last {
        bytes.clear();
        match reader.read_until(b'\n', &mut bytes) {
            Ok(read) if read > 0 => {}
            _ => break,
        }
        if number >= first {
            let text = cut(String::from_utf8_lossy(&bytes).trim_end());
            lines.push(SourceLine { line: number, text, current: number == line, breakpoint: false });
        }
    }
    lines
}

/// The line of a location, trimmed and without secrets.
pub(super) fn line_of(backend: &mut dyn DebugBackend, location: &Location, mask: Mask) -> Option<String> {
    let source = backend.source_file(location.file.as_deref()?).ok()??;
    let line = lines_of(&source, location.line?, 0).pop()?;
    Some(mask.text(line.text.trim()).into_owned())
}

/// Whether the file is one that is served. No part of the path may be a link.
pub(super) fn check(path: &Path) -> Result<(), NotServed> {
    let real = path.canonicalize().map_err(|_| NotServed::Missing)?;
    let metadata = path.symlink_metadata().map_err(|_| NotServed::Missing)?;
    if real == path && metadata.is_file() { Ok(()) } else { Err(NotServed::Elsewhere) }
}

/// The whole file, with what is not UTF-8 replaced.
pub(super) fn whole_file(path: &Path) -> Result<String, NotServed> {
    check(path)?;
    let mut bytes = Vec::new();
    open(path)?.take(LARGEST + 1).read_to_end(&mut bytes).map_err(|_| NotServed::Missing)?;
    if bytes.len() as u64 > LARGEST {
        return Err(NotServed::TooLong);
    }
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

/// Only plain files: opening a pipe or a device could wait for ever or change something.
fn open(path: &Path) -> Result<File, NotServed> {
    let metadata = path.symlink_metadata().map_err(|_| NotServed::Missing)?;
    if !metadata.is_file() {
        return Err(NotServed::Elsewhere);
    }
    File::open(path).map_err(|_| NotServed::Missing)
}

fn cut(line: &str) -> String {
    let line = line.replace('\t', "    ");
    match line.char_indices().nth(LONGEST_LINE) {
        None => line,
        Some((end, _)) => line[..end].to_owned() + "…",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_bounded_and_need_not_be_utf8() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.c");
        let mut text = b"one\n\xff\xfe two\n\tthree\n".to_vec();
        text.extend(vec![b'x'; 5000]);
        std::fs::write(&path, text).unwrap();
        let lines = lines_around(&path, 2, 1);
        let texts: Vec<_> = lines.iter().map(|line| (line.line, line.text.as_str(), line.current)).collect();
        assert_eq!(texts, [(1, "one", false), (2, "\u{fffd}\u{fffd} two", true), (3, "    three", false)]);
        assert_eq!(lines_around(&path, 4, 0)[0].text.chars().count(), LONGEST_LINE + 1);
        assert!(lines_around(&path, u32::MAX, 3).is_empty());
        assert!(lines_around(&folder.path().join("b.c"), 1, 3).is_empty());
    }

    #[cfg(unix)]
    #[test]
    fn links_are_not_followed() {
        let folder = tempfile::tempdir().unwrap();
        let folder = folder.path().canonicalize().unwrap();
        std::os::unix::fs::symlink("/etc/passwd", folder.join("a.c")).unwrap();
        std::os::unix::fs::symlink("/etc", folder.join("src")).unwrap();
        assert_eq!(whole_file(&folder.join("a.c")), Err(NotServed::Elsewhere));
        assert_eq!(whole_file(&folder.join("src/passwd")), Err(NotServed::Elsewhere));
        assert!(lines_around(&folder.join("a.c"), 1, 3).is_empty());
        assert_eq!(whole_file(&folder.join("b.c")), Err(NotServed::Missing));
    }
}
