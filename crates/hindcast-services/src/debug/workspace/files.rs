//! Names, folders and files of a workspace on disk.

use std::{
    fs::{self, File, OpenOptions},
    io::{self, Write as _},
    path::{Component, Path, PathBuf},
};

use super::{Piece, WorkspaceFile};
use crate::{Failure, FailureKind};

/// Folders in each other.
const DEEPEST: usize = 16;
/// The longest path, and the longest part of one that file systems take.
const LONGEST_PATH: usize = 1000;
const LONGEST_PART: usize = 255;
/// How the names of files end that are not complete. A kill may leave one; nobody can ask for such a name.
const INCOMPLETE: &str = ".hindcast-part";

/// A path of a workspace: one for each file, however the caller writes it.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Name {
    /// From the workspace's folder on, without `.` and doubled `/`.
    pub(super) shown: String,
    /// Where that is.
    pub(super) path: PathBuf,
}

impl Name {
    /// Only plain parts may lead there.
    pub(super) fn of(folder: &Path, named: &Path) -> Result<Self, Failure> {
        let relative = named.strip_prefix(folder).unwrap_or(named);
        let parts: Option<Vec<&str>> = relative
            .components()
            .filter(|part| *part != Component::CurDir)
            .map(|part| match part {
                Component::Normal(part) => part.to_str().filter(|part| is_plain(part)),
                _ => None,
            })
            .collect();
        let parts = parts.filter(|parts| !parts.is_empty() && parts.len() <= DEEPEST);
        let shown = parts.map(|parts| parts.join("/")).filter(|shown| shown.len() <= LONGEST_PATH);
        match shown {
            Some(shown) => Ok(Self { path: folder.join(&shown), shown }),
            None => Err(no_path(named)),
        }
    }

    /// How many folders must be made for it.
    pub(super) fn missing_folders(&self) -> usize {
        self.path.ancestors().skip(1).take_while(|folder| !folder.exists()).count()
    }
}

fn is_plain(part: &str) -> bool {
    part.len() <= LONGEST_PART && !part.chars().any(char::is_control) && !part.ends_with(INCOMPLETE)
}

fn no_path(named: &Path) -> Failure {
    let shown: String = named.display().to_string().chars().take(200).collect();
    Failure::new(FailureKind::InvalidInput, format!("`{shown}` is no path of a file in the workspace"))
        .hint(format!("give a relative path without `..`, such as `build/app`, of at most {DEEPEST} parts"))
}

/// What is in a workspace.
#[derive(Debug, Default)]
pub(super) struct Found {
    pub(super) files: Vec<(PathBuf, WorkspaceFile)>,
    pub(super) folders: usize,
}

/// Looks at a workspace, and removes what a killed server has left half written. To be called by the holder of its lock.
pub(super) fn look(root: &Path) -> io::Result<Found> {
    let mut found = Found::default();
    let mut folders = vec![root.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder)? {
            let entry = entry?;
            let (path, data) = (entry.path(), entry.metadata()?);
            let shown = path.strip_prefix(root).unwrap_or(&path).display().to_string();
            if data.is_dir() {
                found.folders += 1;
                folders.push(path);
            } else if shown.ends_with(INCOMPLETE) {
                fs::remove_file(path)?;
            } else if data.is_file() {
                let executable = is_executable(&data);
                found.files.push((path, WorkspaceFile { path: shown, bytes: data.len(), executable }));
            }
        }
    }
    found.files.sort_by(|(_, one), (_, other)| one.path.cmp(&other.path));
    Ok(found)
}

/// Writes a file. One that is replaced is there whole, before or after.
pub(super) fn write(root: &Path, file: &Path, piece: &Piece<'_>) -> io::Result<()> {
    let folder = file.parent().ok_or(io::ErrorKind::InvalidInput)?;
    make_folders(root, folder)?;
    if file.is_dir() {
        return Err(io::ErrorKind::IsADirectory.into());
    }
    if piece.append && file.exists() {
        let mut opened = OpenOptions::new().append(true).open(file)?;
        opened.write_all(piece.bytes)?;
        allow_reading(&opened, piece.executable)?;
        return opened.sync_all();
    }
    let mut beside = tempfile::Builder::new().suffix(INCOMPLETE).tempfile_in(folder)?;
    beside.write_all(piece.bytes)?;
    allow_reading(beside.as_file(), piece.executable)?;
    beside.as_file().sync_all()?;
    beside.persist(file).map_err(|error| error.error)?;
    File::open(folder)?.sync_all()
}

/// Makes `folder`, which is below `root`, and those between. The tenant's programs can look into them, whoever they run as:
/// `root`, or a folder above it, keeps everybody else away.
pub(in super::super) fn make_folders(root: &Path, folder: &Path) -> io::Result<()> {
    let below = folder.strip_prefix(root).map_err(io::Error::other)?;
    let mut made = root.to_owned();
    for part in below.components() {
        made.push(part);
        match fs::create_dir(&made) {
            Ok(()) => allow_entering(&made)?,
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists && made.is_dir() => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

/// Removes the folders above a path that have nothing in them any more, up to `root`.
pub(super) fn remove_empty_folders(root: &Path, path: &Path) {
    let above = path.ancestors().skip(1).take_while(|folder| *folder != root && folder.starts_with(root));
    // One that is not empty is not removed, nor are those above it.
    let _ = above.map(fs::remove_dir).try_for_each(|removed| removed);
}

#[cfg(unix)]
fn allow_entering(folder: &Path) -> io::Result<()> {
    use std::os::unix::fs::PermissionsExt as _;
    fs::set_permissions(folder, fs::Permissions::from_mode(0o755))
}

#[cfg(not(unix))]
fn allow_entering(_folder: &Path) -> io::Result<()> {
    Ok(())
}

/// Lets the tenant's programs read a file, which may run as another user than the server.
#[cfg(unix)]
pub(super) fn allow_reading(file: &File, executable: bool) -> io::Result<()> {
    use std::os::unix::fs::PermissionsExt as _;
    file.set_permissions(fs::Permissions::from_mode(if executable { 0o755 } else { 0o644 }))
}

#[cfg(not(unix))]
pub(super) fn allow_reading(_file: &File, _executable: bool) -> io::Result<()> {
    Ok(())
}

#[cfg(unix)]
fn is_executable(data: &fs::Metadata) -> bool {
    use std::os::unix::fs::PermissionsExt as _;
    data.permissions().mode() & 0o111 != 0
}

#[cfg(not(unix))]
fn is_executable(_data: &fs::Metadata) -> bool {
    false
}

/// Why the system did not do it. What it says goes to the log, because it may name the server's folders.
pub(super) fn failed(what: &str, name: &str, error: &io::Error) -> Failure {
    use io::ErrorKind::{AlreadyExists, InvalidFilename, IsADirectory, NotADirectory, StorageFull};
    let (kind, reason, hint) = match error.kind() {
        NotADirectory | IsADirectory | AlreadyExists => (
            FailureKind::InvalidInput,
            "a file and a folder have the same name",
            "use another path, or remove what is there with `workspace/remove`",
        ),
        InvalidFilename => {
            (FailureKind::InvalidInput, "the file system does not take that name", "use a shorter path")
        }
        StorageFull => (
            FailureKind::Internal,
            "the server's disk is full",
            "ask the operator to make room, and try again",
        ),
        _ => (
            FailureKind::Internal,
            "the system refuses it",
            "ask the operator to look at the server's log, and try again",
        ),
    };
    if kind == FailureKind::Internal {
        tracing::error!(%error, name, "a file of a workspace cannot be {what}");
    }
    Failure::new(kind, format!("`{name}` cannot be {what}: {reason}")).hint(hint)
}
