//! The files behind the paths that were given.

use std::{
    collections::HashSet,
    fs,
    path::{Path, PathBuf},
};

use hindcast_core::identity::Caller;

/// Where files may be read from.
#[derive(Debug, Clone, Default)]
pub struct ReadPolicy {
    /// Folders whose files may be read for callers over HTTP.
    pub allowed_folders: Vec<PathBuf>,
    /// Folders that nobody's documents come from: our own.
    pub forbidden_folders: Vec<PathBuf>,
}

impl ReadPolicy {
    /// Why a file, by its true path, must not be read for this caller.
    fn refusal(&self, caller: &Caller, path: &Path) -> Option<String> {
        let is_in = |folders: &[PathBuf]| {
            folders.iter().any(|folder| {
                fs::canonicalize(folder)
                    .map_or_else(|_| path.starts_with(folder), |folder| path.starts_with(folder))
            })
        };
        if is_in(&self.forbidden_folders) {
            return Some("it is in hindcast's own data folder".into());
        }
        let is_remote = caller.key.is_some();
        if is_remote && !is_in(&self.allowed_folders) {
            return Some(
                "it is not in one of the folders of `knowledge.allowed_folders` · hint: give `name` and `text`, or let the \
                 operator add the folder"
                    .into(),
            );
        }
        None
    }
}

/// A file that was found, or why it cannot be read.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Found {
    /// As it is shown.
    pub(super) shown: String,
    /// Where it truly is, and the name it has below the path that was given.
    pub(super) file: Result<FoundFile, String>,
}

#[derive(Debug, PartialEq, Eq)]
pub(super) struct FoundFile {
    pub(super) path: PathBuf,
    /// Folders and name below the path that was given.
    pub(super) relative: PathBuf,
}

/// All files, in the order of their names. Links are followed, each folder is read once, hidden files are left out.
pub(super) fn walk(policy: &ReadPolicy, caller: &Caller, roots: &[PathBuf]) -> Vec<Found> {
    let mut walk = Walk { policy, caller, found: Vec::new(), folders: HashSet::new(), files: HashSet::new() };
    for root in roots {
        let base = match root.file_name() {
            Some(name) if root.is_file() => PathBuf::from(name),
            _ => PathBuf::new(),
        };
        walk.take(root, &base, 0);
    }
    walk.found
}

/// Deeper than people nest folders.
const DEEPEST: usize = 100;

struct Walk<'a> {
    policy: &'a ReadPolicy,
    caller: &'a Caller,
    found: Vec<Found>,
    folders: HashSet<PathBuf>,
    files: HashSet<PathBuf>,
}

impl Walk<'_> {
    fn take(&mut self, path: &Path, relative: &Path, depth: usize) {
        match self.look(path, depth) {
            Ok(Entry::Folder(children)) => {
                for child in children {
                    let name = child.file_name().unwrap_or_default();
                    self.take(&child, &relative.join(name), depth + 1);
                }
            }
            Ok(Entry::File(path)) => {
                if self.files.insert(path.clone()) {
                    let file = FoundFile { path: path.clone(), relative: relative.into() };
                    self.found.push(Found { shown: shown(&path), file: Ok(file) });
                }
            }
            Err(reason) => self.found.push(Found { shown: shown(path), file: Err(reason) }),
        }
    }

    fn look(&mut self, path: &Path, depth: usize) -> Result<Entry, String> {
        let is_link = path.is_symlink();
        let real = fs::canonicalize(path).map_err(|error| match error.kind() {
            std::io::ErrorKind::NotFound if is_link => "it is a link to nothing".to_owned(),
            std::io::ErrorKind::NotFound => "there is no such file or folder".to_owned(),
            _ => format!("it cannot be read: {error}"),
        })?;
        if let Some(refusal) = self.policy.refusal(self.caller, &real) {
            return Err(refusal);
        }
        let kind = fs::metadata(&real).map_err(|error| format!("it cannot be read: {error}"))?.file_type();
        if kind.is_file() {
            return Ok(Entry::File(real));
        }
        if !kind.is_dir() {
            return Err("it is neither a file nor a folder".into());
        }
        if !self.folders.insert(real.clone()) || depth > DEEPEST {
            return Err("it leads to a folder that is read already".into());
        }
        let entries = fs::read_dir(&real).map_err(|error| format!("it cannot be read: {error}"))?;
        let mut children: Vec<_> = entries.filter_map(|entry| Some(entry.ok()?.path())).collect();
        children
            .retain(|child| child.file_name().is_some_and(|name| !name.as_encoded_bytes().starts_with(b".")));
        children.sort();
        Ok(Entry::Folder(children))
    }
}

enum Entry {
    File(PathBuf),
    Folder(Vec<PathBuf>),
}

/// A path as text, always the same for the same path.
pub(super) fn shown(path: &Path) -> String {
    match path.to_str() {
        Some(text) => text.to_owned(),
        None => path.as_os_str().as_encoded_bytes().escape_ascii().to_string(),
    }
}

#[cfg(all(test, unix))]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn every_file_is_found_once_and_loops_are_told() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().canonicalize().unwrap();
        fs::create_dir_all(root.join("sub/.hidden")).unwrap();
        for name in ["a.md", "sub/with space\nand line.md", "sub/🦀.txt", "sub/.hidden/x.md"] {
            fs::write(root.join(name), "words").unwrap();
        }
        symlink(&root, root.join("sub/loop")).unwrap();
        symlink(root.join("nowhere"), root.join("dangling")).unwrap();
        symlink(root.join("a.md"), root.join("z.md")).unwrap();
        let found = walk(&ReadPolicy::default(), &Caller::local(), std::slice::from_ref(&root));
        let told: Vec<_> = found
            .iter()
            .map(|found| {
                let name = Path::new(&found.shown).strip_prefix(&root).unwrap().to_str().unwrap();
                (name, found.file.as_ref().err().map(String::as_str))
            })
            .collect();
        let expected = [
            ("a.md", None),
            ("dangling", Some("it is a link to nothing")),
            ("sub/loop", Some("it leads to a folder that is read already")),
            ("sub/with space\nand line.md", None),
            ("sub/🦀.txt", None),
        ];
        assert_eq!(told, expected);
    }

    #[test]
    fn links_out_of_the_allowed_folders_are_not_followed_for_remote_callers() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().canonicalize().unwrap();
        fs::create_dir_all(root.join("open")).unwrap();
        fs::create_dir_all(root.join("data")).unwrap();
        fs::write(root.join("secret.md"), "words").unwrap();
        symlink(root.join("secret.md"), root.join("open/link.md")).unwrap();
        let policy = ReadPolicy {
            allowed_folders: vec![root.join("open")],
            forbidden_folders: vec![root.join("data")],
        };
        let local = walk(&policy, &Caller::local(), &[root.join("open")]);
        assert!(local[0].file.is_ok());
        assert!(walk(&policy, &Caller::local(), &[root.join("data")])[0].file.is_err());
    }
}
