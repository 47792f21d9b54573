//! Source text, from disk or from the program itself: bounded, and never through a link to somewhere else.

use std::{
    fs::File,
    io::{BufRead, BufReader, Read},
    path::{Path, PathBuf},
    sync::Arc,
};

use hindcast_core::debug::{DebugBackend, Location, SourceFile};
use schemars::JsonSchema;
use serde::Serialize;

use super::{policy::settled, secrets::Mask};

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
    /// It is outside the folders that the operator allows, whether it is there or not.
    Outside,
}

/// Which source files may be shown. Whoever builds a program decides which files its symbols name, so the operator's folders
/// hold for them, too.
#[derive(Debug, Clone, Default)]
pub(super) struct AllowedSources {
    /// Real paths; none where any may be shown.
    folders: Option<Arc<[PathBuf]>>,
    /// What a tenant's programs see. The server reads sources itself, so it must refuse what they could not open.
    seen: Option<Arc<SeenByTenant>>,
}

/// What the programs of a tenant can open.
#[derive(Debug, Clone)]
pub(super) struct SeenByTenant {
    /// The tenant's own folder; a real path.
    pub(super) workspace: PathBuf,
    /// Folders that are hidden but for that; real paths.
    pub(super) hidden: Vec<PathBuf>,
    /// Whether the programs run as a user that only sees what is open to everybody.
    pub(super) as_stranger: bool,
}

impl SeenByTenant {
    /// `folder` is the one that is shown to the tenant and has the file in it.
    fn sees(&self, real: &Path, folder: &Path) -> bool {
        if real.starts_with(&self.workspace) {
            return true;
        }
        let is_hidden = self.hidden.iter().any(|hidden| real.starts_with(hidden));
        !is_hidden && (!self.as_stranger || is_open_to_all(real, folder))
    }
}

/// Whether everybody may read the file, once in `folder`. What is not there is open: it is told to be missing.
#[cfg(unix)]
fn is_open_to_all(real: &Path, folder: &Path) -> bool {
    use std::os::unix::fs::PermissionsExt as _;
    let between = real.ancestors().take_while(|path| path.starts_with(folder));
    between.filter_map(|path| path.symlink_metadata().ok()).all(|found| {
        let needed = if found.is_dir() { 0o001 } else { 0o004 };
        found.permissions().mode() & needed == needed
    })
}

#[cfg(not(unix))]
fn is_open_to_all(_real: &Path, _folder: &Path) -> bool {
    false
}

impl AllowedSources {
    /// Those below the folders; all where there are none.
    pub(super) fn below(folders: &[PathBuf]) -> Self {
        let real = |folder: &PathBuf| folder.canonicalize().unwrap_or_else(|_| folder.clone());
        Self { folders: (!folders.is_empty()).then(|| folders.iter().map(real).collect()), seen: None }
    }

    /// Of these, those that a tenant's programs could open themselves.
    pub(super) fn seen_by(self, seen: SeenByTenant) -> Self {
        Self { seen: Some(Arc::new(seen)), ..self }
    }

    /// Refuses a file that is outside.
    pub(super) fn check(&self, path: &Path) -> Result<(), NotServed> {
        let Some(folders) = &self.folders else { return Ok(()) };
        let is_shown = |real: PathBuf| {
            let mut around = folders.iter().filter(|folder| real.starts_with(folder));
            around.any(|folder| self.seen.as_ref().is_none_or(|seen| seen.sees(&real, folder)))
        };
        if settled(path).is_some_and(is_shown) { Ok(()) } else { Err(NotServed::Outside) }
    }

    /// A source that an engine has found, if it may be shown. What the program carries is a part of it.
    pub(super) fn admit(&self, found: SourceFile) -> Result<SourceFile, NotServed> {
        if let (None, Some(path)) = (&found.text, &found.path) {
            self.check(path)?;
        }
        Ok(found)
    }
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
pub(super) fn line_of(
    backend: &mut dyn DebugBackend,
    location: &Location,
    sources: &AllowedSources,
    mask: Mask,
) -> Option<String> {
    let source = sources.admit(backend.source_file(location.file.as_deref()?).ok()??).ok()?;
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
    fn sources_outside_the_folders_are_not_admitted_whether_they_are_there_or_not() {
        let folder = tempfile::tempdir().unwrap();
        let folder = folder.path().canonicalize().unwrap();
        for name in ["inside", "outside"] {
            std::fs::create_dir(folder.join(name)).unwrap();
            std::fs::write(folder.join(name).join("a.cs"), "").unwrap();
        }
        std::os::unix::fs::symlink("../outside", folder.join("inside/leads")).unwrap();
        let found = |path: &str| SourceFile { path: Some(folder.join(path)), text: None, changed: false };
        let sources = AllowedSources::below(&[folder.join("inside")]);
        for path in ["inside/a.cs", "inside/missing.cs"] {
            assert!(sources.admit(found(path)).is_ok(), "{path}");
        }
        for path in ["outside/a.cs", "outside/missing.cs", "inside/leads/a.cs", "inside/../outside/a.cs"] {
            assert_eq!(sources.admit(found(path)).unwrap_err(), NotServed::Outside, "{path}");
            assert!(AllowedSources::default().admit(found(path)).is_ok(), "{path}");
            assert!(AllowedSources::below(&[]).admit(found(path)).is_ok(), "{path}");
        }
        let embedded = SourceFile { text: Some("class A;".into()), ..found("outside/a.cs") };
        assert!(sources.admit(embedded).is_ok());
    }

    #[cfg(unix)]
    #[test]
    fn a_tenant_is_shown_only_what_its_programs_could_open() {
        use std::os::unix::fs::PermissionsExt as _;
        let folder = tempfile::tempdir().unwrap();
        let folder = folder.path().canonicalize().unwrap();
        for (path, mode) in [
            ("src/open.c", 0o644),
            ("src/closed.c", 0o640),
            ("src/closed/a.c", 0o644),
            ("src/data/audit.key", 0o644),
            ("src/data/mine/a.c", 0o600),
            ("src/data/other/a.c", 0o644),
        ] {
            let file = folder.join(path);
            std::fs::create_dir_all(file.parent().unwrap()).unwrap();
            std::fs::write(&file, "").unwrap();
            std::fs::set_permissions(file, std::fs::Permissions::from_mode(mode)).unwrap();
        }
        let closed = std::fs::Permissions::from_mode(0o700);
        std::fs::set_permissions(folder.join("src/closed"), closed).unwrap();
        let seen = |as_stranger| {
            let (workspace, hidden) = (folder.join("src/data/mine"), vec![folder.join("src/data")]);
            AllowedSources::below(&[folder.join("src")]).seen_by(SeenByTenant {
                workspace,
                hidden,
                as_stranger,
            })
        };
        for (path, as_same_user, as_stranger) in [
            ("src/open.c", true, true),
            ("src/missing.c", true, true),
            ("src/closed.c", true, false),
            ("src/closed/a.c", true, false),
            ("src/data/audit.key", false, false),
            ("src/data/missing", false, false),
            ("src/data/mine/a.c", true, true),
            ("src/data/other/a.c", false, false),
        ] {
            let path = folder.join(path);
            assert_eq!(seen(false).check(&path).is_ok(), as_same_user, "{}", path.display());
            assert_eq!(seen(true).check(&path).is_ok(), as_stranger, "{}", path.display());
        }
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
