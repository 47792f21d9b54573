//! The files that a remote caller brings to debug them.
//!
//! Only this service makes files in a workspace: what programs write there goes with their session. So there are no links in it,
//! and one lock is enough to keep to the limit.

use std::{
    fs::{self, File, OpenOptions},
    io::{self, Write as _},
    path::{Component, Path, PathBuf},
};

use hindcast_core::identity::Caller;

use super::DebugService;
use crate::{Failure, FailureKind};

/// Files that an owner may have.
const MOST_FILES: usize = 10_000;
/// Folders in each other.
const DEEPEST: usize = 16;

/// A file of a workspace.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WorkspaceFile {
    /// From the workspace's folder on.
    pub path: String,
    /// Its size.
    pub bytes: u64,
    /// Whether it can be launched.
    pub executable: bool,
}

/// What a workspace holds.
#[derive(Debug, Clone)]
pub struct Workspace {
    /// Where programs see it.
    pub folder: PathBuf,
    /// By their paths.
    pub files: Vec<WorkspaceFile>,
    /// All their sizes.
    pub bytes: u64,
    /// The most that they may have.
    pub most_bytes: u64,
}

/// What is put into a file.
#[derive(Debug)]
pub struct Piece<'a> {
    /// From the workspace's folder on.
    pub path: &'a Path,
    /// What it holds.
    pub bytes: &'a [u8],
    /// Whether it comes behind what is there.
    pub append: bool,
    /// Whether the file can be launched.
    pub executable: bool,
}

impl DebugService {
    /// Writes a file, or goes on with it.
    pub fn put_into_workspace(&self, caller: &Caller, piece: &Piece<'_>) -> Result<WorkspaceFile, Failure> {
        let _writing = self.workspaces.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        let workspace = self.workspace_of(caller)?;
        let file = inside(&workspace.folder, piece.path)?;
        let name = shown(piece.path);
        let there = workspace.files.iter().find(|known| *known.path == name).map(|known| known.bytes);
        let kept = if piece.append { there.unwrap_or_default() } else { 0 };
        let size = kept + piece.bytes.len() as u64;
        let others = workspace.bytes - there.unwrap_or_default();
        if others + size > workspace.most_bytes || there.is_none() && workspace.files.len() >= MOST_FILES {
            return Err(full(&workspace));
        }
        write(&file, piece).map_err(|error| failed("written", &name, &error))?;
        Ok(WorkspaceFile { path: name, bytes: size, executable: piece.executable })
    }

    /// All files of the caller's owner.
    pub fn workspace_of(&self, caller: &Caller) -> Result<Workspace, Failure> {
        let Some(policy) = self.policy.confinement.as_ref().filter(|_| caller.key.is_some()) else {
            return Err(Failure::new(FailureKind::InvalidInput, "the local user has no workspace")
                .hint("launch programs where they are"));
        };
        let folder = self.workspace(caller, policy)?;
        let mut files = Vec::new();
        collect(&folder, &folder, 0, &mut files)
            .map_err(|error| failed("listed", "the workspace", &error))?;
        files.sort_by(|one, other| one.path.cmp(&other.path));
        let bytes = files.iter().map(|file| file.bytes).sum();
        Ok(Workspace { folder, files, bytes, most_bytes: policy.workspace_bytes })
    }

    /// Removes a file, or a folder with all that is in it.
    pub fn remove_from_workspace(&self, caller: &Caller, path: &Path) -> Result<Workspace, Failure> {
        let _writing = self.workspaces.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        let folder = self.workspace_of(caller)?.folder;
        let found = inside(&folder, path)?;
        let name = shown(path);
        let removed = match found.symlink_metadata() {
            Ok(data) if data.is_dir() => fs::remove_dir_all(&found),
            Ok(_) => fs::remove_file(&found),
            Err(error) => Err(error),
        };
        removed.map_err(|error| match error.kind() {
            io::ErrorKind::NotFound => {
                Failure::new(FailureKind::InvalidInput, format!("there is no `{name}` in the workspace"))
                    .hint("`workspace/list` shows what there is")
            }
            _ => failed("removed", &name, &error),
        })?;
        self.workspace_of(caller)
    }
}

/// Where a path of a workspace is; only plain names may lead there.
fn inside(folder: &Path, path: &Path) -> Result<PathBuf, Failure> {
    let relative = path.strip_prefix(folder).unwrap_or(path);
    let is_plain = relative.components().all(|part| matches!(part, Component::Normal(_)));
    let depth = relative.components().count();
    if !is_plain || depth == 0 || depth > DEEPEST || relative.as_os_str().len() > 1000 {
        let details = format!("`{}` is no path of a file in the workspace", shown(path));
        return Err(Failure::new(FailureKind::InvalidInput, details)
            .hint("give a relative path without `..`, such as `build/app`"));
    }
    Ok(folder.join(relative))
}

fn shown(path: &Path) -> String {
    path.display().to_string().chars().take(1000).collect()
}

/// A file that is replaced is there whole, before or after; one that is gone on with is only read once it is complete.
fn write(file: &Path, piece: &Piece<'_>) -> io::Result<()> {
    let folder = file.parent().ok_or(io::ErrorKind::InvalidInput)?;
    make_folders(folder)?;
    if piece.append && file.exists() {
        let mut opened = OpenOptions::new().append(true).open(file)?;
        opened.write_all(piece.bytes)?;
        allow_reading(&opened, piece.executable)?;
        return opened.sync_all();
    }
    let mut beside = tempfile::NamedTempFile::new_in(folder)?;
    beside.write_all(piece.bytes)?;
    allow_reading(beside.as_file(), piece.executable)?;
    beside.as_file().sync_all()?;
    beside.persist(file).map_err(|error| error.error)?;
    File::open(folder)?.sync_all()
}

/// The tenant's programs may run as another user than the server; the folder above keeps everybody else away.
fn make_folders(folder: &Path) -> io::Result<()> {
    if folder.is_dir() {
        return Ok(());
    }
    if let Some(above) = folder.parent() {
        make_folders(above)?;
    }
    fs::create_dir(folder)?;
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt as _;
        fs::set_permissions(folder, fs::Permissions::from_mode(0o755))?;
    }
    Ok(())
}

#[cfg(unix)]
fn allow_reading(file: &File, executable: bool) -> io::Result<()> {
    use std::os::unix::fs::PermissionsExt as _;
    file.set_permissions(fs::Permissions::from_mode(if executable { 0o755 } else { 0o644 }))
}

#[cfg(not(unix))]
fn allow_reading(_file: &File, _executable: bool) -> io::Result<()> {
    Ok(())
}

fn collect(root: &Path, folder: &Path, depth: usize, files: &mut Vec<WorkspaceFile>) -> io::Result<()> {
    if depth > DEEPEST {
        return Ok(());
    }
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        let (path, data) = (entry.path(), entry.metadata()?);
        if data.is_dir() {
            collect(root, &path, depth + 1, files)?;
        } else if data.is_file() {
            let name = path.strip_prefix(root).map(shown).unwrap_or_default();
            files.push(WorkspaceFile { path: name, bytes: data.len(), executable: is_executable(&data) });
        }
    }
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

fn full(workspace: &Workspace) -> Failure {
    let mut largest: Vec<_> = workspace.files.iter().collect();
    largest.sort_by_key(|file| std::cmp::Reverse(file.bytes));
    let names: Vec<_> =
        largest.iter().take(3).map(|file| format!("`{}` ({} bytes)", file.path, file.bytes)).collect();
    let details =
        format!("the workspace would have more than {} bytes or {MOST_FILES} files", workspace.most_bytes);
    let hint = match names.is_empty() {
        true => "put smaller files, or ask the operator to raise `debug.workspace_bytes`".to_owned(),
        false => format!("remove files with `workspace/remove`; the largest are {}", names.join(", ")),
    };
    Failure::new(FailureKind::QuotaExceeded, details)
        .hint(hint)
        .fact("limit", workspace.most_bytes)
        .fact("used", workspace.bytes)
}

/// What the system says goes to the log: it may name the server's folders.
fn failed(what: &str, name: &str, error: &io::Error) -> Failure {
    tracing::error!(%error, name, "a file of a workspace cannot be {what}");
    let reason = match error.kind() {
        io::ErrorKind::StorageFull => "the disk is full",
        io::ErrorKind::NotADirectory | io::ErrorKind::IsADirectory | io::ErrorKind::AlreadyExists => {
            "a file and a folder have the same name"
        }
        _ => "the system does not let us",
    };
    Failure::new(FailureKind::Internal, format!("`{name}` cannot be {what}: {reason}"))
        .hint("use another path, or ask the operator to look at the server's log")
}
