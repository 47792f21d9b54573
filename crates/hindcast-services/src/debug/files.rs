//! The files that callers name: programs, core files, recordings, input.

use std::path::{Path, PathBuf};

use hindcast_core::debug::TraceHead;

use crate::{Failure, FailureKind};

/// The path of a program: as written, below its folder, or in `PATH`. Links stay as they are, because
/// programs go by the name they are called with.
pub(super) fn find_program(program: &Path, cwd: Option<&Path>) -> Result<PathBuf, Failure> {
    if program.as_os_str().is_empty() {
        return Err(Failure::new(FailureKind::InvalidInput, "`program` is empty")
            .hint("give the path of an executable"));
    }
    let path = std::env::var_os("PATH").unwrap_or_default();
    let bare = program.components().count() == 1 && !program.has_root();
    let folders = std::env::split_paths(&path).filter(|_| bare);
    let mut candidates = cwd
        .map(|cwd| cwd.join(program))
        .into_iter()
        .chain(folders.map(|folder| folder.join(program)).chain([program.to_owned()]));
    let found = candidates.find(|candidate| candidate.is_file()).and_then(|it| std::path::absolute(it).ok());
    found.ok_or_else(|| {
        let shown: String = program.display().to_string().chars().take(200).collect();
        Failure::new(FailureKind::InvalidInput, format!("there is no program `{shown}`"))
            .hint("give the absolute path of an executable; build it first if need be")
    })
}

/// Where a path leads to, links and all.
pub(super) fn real(path: &Path) -> PathBuf {
    path.canonicalize().unwrap_or_else(|_| path.to_owned())
}

/// The program that a recording is of, as it says itself.
pub(super) fn recorded_program(trace: &Path) -> Result<PathBuf, Failure> {
    let head = std::fs::File::open(trace).map_err(Into::into).and_then(TraceHead::read);
    head.map(|head| real(Path::new(&head.target.executable))).map_err(|error| {
        let text = error.to_string();
        let (details, hint) = text.split_once(" · hint: ").unwrap_or((&text, "export the recording again"));
        Failure::new(FailureKind::InvalidInput, details).hint(hint)
    })
}

/// The real path of a plain file.
pub(super) fn readable(file: &Path) -> Result<PathBuf, Failure> {
    let shown: String = file.display().to_string().chars().take(200).collect();
    let refuse =
        |details: String, hint: &str| Err(Failure::new(FailureKind::InvalidInput, details).hint(hint));
    match file.canonicalize() {
        Ok(found) if found.is_file() => Ok(found),
        Ok(found) if found.is_dir() => refuse(format!("`{shown}` is a folder"), "name a file in it"),
        Ok(_) => {
            refuse(format!("`{shown}` is not a plain file"), "copy what it holds to a file, and name that")
        }
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            refuse(format!("there is no file `{shown}`"), "give an absolute path")
        }
        Err(error) => refuse(
            format!("`{shown}` cannot be opened: {error}"),
            "give the absolute path of a file that the server's user may read",
        ),
    }
}
