//! Which source files there are.

use std::{
    collections::BTreeSet,
    fs,
    path::{Path, PathBuf},
};

use hindcast_core::debug::{DebugError, Reason, SourceFile};

use super::Session;
use crate::protocol::Source;

/// So many files and folders are looked at to find one.
const MOST_ENTRIES: usize = 20_000;
const MOST_KNOWN: usize = 20_000;

/// Folders that hold no code of the program itself.
const PASSED_OVER: [&str; 12] = [
    "node_modules",
    "__pycache__",
    "target",
    "site-packages",
    "venv",
    ".venv",
    "env",
    "dist-packages",
    "vendor",
    "build",
    "dist",
    "bower_components",
];

/// Files that the program is known to consist of, and where to look for others.
#[derive(Debug)]
pub(super) struct Sources {
    known: BTreeSet<String>,
    folders: Vec<PathBuf>,
}

impl Sources {
    pub(super) fn new(cwd: &Path) -> Self {
        Self { known: BTreeSet::new(), folders: vec![cwd.to_owned()] }
    }

    /// A folder is looked into, too.
    pub(super) fn also_in(&mut self, folder: &Path) {
        if !self.folders.iter().any(|known| folder.starts_with(known)) {
            self.folders.push(folder.to_owned());
        }
    }

    /// The program's own folder is looked into, too.
    pub(super) fn begin_at(&mut self, program: &Path, script: Option<&str>) {
        let base = self.folders.first().cloned().unwrap_or_default();
        let script = script.map(|script| base.join(script));
        let is_script = script.as_deref().is_some_and(Path::is_file);
        let main = script.filter(|_| is_script).unwrap_or_else(|| program.to_owned());
        if let Some(folder) = main.parent().filter(|_| is_script)
            && !self.folders.iter().any(|known| folder.starts_with(known))
        {
            self.folders.push(folder.to_owned());
        } else if main.is_dir() {
            self.folders.push(main.clone());
        }
        if is_script {
            self.known.insert(main.display().to_string());
        }
    }

    /// A file is a part of the program.
    pub(super) fn learn(&mut self, source: &Source) {
        if let Some(path) = source.path.as_ref().filter(|path| path.starts_with('/'))
            && self.known.len() < MOST_KNOWN
        {
            self.known.insert(path.clone());
        }
    }

    pub(super) fn is_known(&self, path: &str) -> bool {
        self.known.contains(path)
    }

    /// Names that begin so.
    pub(super) fn beginning_with(&self, prefix: &str, limit: usize) -> Vec<String> {
        let name = |path: &String| path.rsplit('/').next().unwrap_or(path).to_owned();
        let fits = |path: &&String| path.starts_with(prefix) || name(path).starts_with(prefix);
        self.known.iter().filter(fits).take(limit).cloned().collect()
    }

    /// All files with one of these endings, those that are known first.
    pub(super) fn files(&self, extensions: &[String]) -> Vec<String> {
        let fits = |path: &Path| {
            let extension = path.extension().and_then(|extension| extension.to_str());
            extension.is_some_and(|extension| extensions.iter().any(|known| known == extension))
        };
        let mut files: Vec<String> =
            self.known.iter().filter(|path| fits(Path::new(path))).cloned().collect();
        let mut seen: BTreeSet<String> = files.iter().cloned().collect();
        self.walk(|path| {
            if fits(path) {
                let path = path.display().to_string();
                if seen.insert(path.clone()) {
                    files.push(path);
                }
            }
            false
        });
        files
    }

    /// Walks through the folders until `found` says so.
    fn walk(&self, mut found: impl FnMut(&Path) -> bool) {
        let mut left = MOST_ENTRIES;
        let mut waiting: std::collections::VecDeque<PathBuf> = self.folders.iter().cloned().collect();
        while let Some(folder) = waiting.pop_front() {
            let Ok(entries) = fs::read_dir(&folder) else { continue };
            let mut entries: Vec<_> = entries.flatten().collect();
            entries.sort_by_key(fs::DirEntry::file_name);
            for entry in entries {
                if left == 0 {
                    return;
                }
                left -= 1;
                let name = entry.file_name();
                let name = name.to_string_lossy();
                let Ok(kind) = entry.file_type() else { continue };
                if kind.is_dir() && !name.starts_with('.') && !PASSED_OVER.contains(&name.as_ref()) {
                    waiting.push_back(entry.path());
                } else if kind.is_file() && found(&entry.path()) {
                    return;
                }
            }
        }
    }
}

impl Session {
    /// The whole path of a file, of which a caller may give the end.
    pub(super) fn resolve(&mut self, file: &str) -> Result<String, DebugError> {
        let shown = |path: &Path| path.display().to_string();
        let given = Path::new(file);
        let candidates = self.sources.folders.iter().map(|folder| folder.join(given));
        if let Some(found) = candidates.into_iter().find(|path| path.is_file()) {
            let path = shown(&cleaned(&found));
            self.sources.known.insert(path.clone());
            return Ok(path);
        }
        let end = format!("/{}", file.trim_start_matches("./"));
        let known: Vec<_> = self.sources.known.iter().filter(|path| path.ends_with(&end)).cloned().collect();
        if let Some(path) = known.first() {
            return Ok(path.clone());
        }
        let mut found = None;
        if !given.is_absolute() {
            self.sources.walk(|path| {
                let is_it = shown(path).ends_with(&end);
                if is_it {
                    found = Some(shown(path));
                }
                is_it
            });
        }
        if let Some(path) = found {
            self.sources.known.insert(path.clone());
            return Ok(path);
        }
        let folders: Vec<_> = self.sources.folders.iter().map(|folder| shown(folder)).collect();
        Err(DebugError::BreakpointFailed(
            Reason::new(format!("there is no source file `{file}` below `{}`", folders.join("`, `")))
                .advise("give its absolute path"),
        ))
    }

    pub(super) fn source_of(&mut self, path: &str) -> Option<SourceFile> {
        if self.sources.is_known(path) && Path::new(path).is_file() {
            return Some(SourceFile::on_disk(PathBuf::from(path)));
        }
        self.seen.text_of(path).map(|text| SourceFile { path: None, text: Some(text), changed: false })
    }
}

/// Without `.` and `..`, but with its links: adapters know files by the names that they were started with.
fn cleaned(path: &Path) -> PathBuf {
    let mut clean = PathBuf::new();
    for part in path.components() {
        match part {
            std::path::Component::CurDir => {}
            std::path::Component::ParentDir => {
                clean.pop();
            }
            other => clean.push(other),
        }
    }
    clean
}
