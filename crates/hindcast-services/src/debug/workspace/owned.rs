//! The workspace of one owner, and its limits.

use std::{
    collections::HashMap,
    fs, io,
    path::{Path, PathBuf},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use super::{
    Piece, Workspace, WorkspaceFile,
    files::{Found, Name, failed, look, remove_empty_folders, write},
};
use crate::{Failure, FailureKind};

/// Files and folders that an owner may have.
pub(super) const MOST_ENTRIES: usize = 10_000;

/// Files that are written piece by piece, with the bytes that each was granted so far. They count by that, not by what is on
/// disk.
#[derive(Debug, Default)]
pub(in super::super) struct Growing(HashMap<PathBuf, u64>);

/// The workspace of one owner.
#[derive(Debug, Clone)]
pub(in super::super) struct OwnedFolder {
    pub(super) folder: PathBuf,
    pub(super) most_bytes: u64,
    /// Locked by whoever looks at the workspace or changes it.
    pub(super) growing: Arc<Mutex<Growing>>,
}

impl OwnedFolder {
    /// Writes a file, or appends to it.
    pub(super) fn put(&self, piece: &Piece<'_>) -> Result<WorkspaceFile, Failure> {
        let growing = self.lock();
        let name = Name::of(&self.folder, piece.path)?;
        growing.check(&name)?;
        let found = self.look()?;
        let there = found.files.iter().find(|(path, _)| *path == name.path).map(|(_, file)| file.bytes);
        let kept = if piece.append { there.unwrap_or_default() } else { 0 };
        let bytes = kept + piece.bytes.len() as u64;
        let others = growing.used(&found) - there.unwrap_or_default();
        let new_entries = name.missing_folders() + usize::from(there.is_none());
        if others + bytes > self.most_bytes || found.entries() + new_entries > MOST_ENTRIES && new_entries > 0
        {
            return Err(self.full(&growing, &found));
        }
        let written = write(&self.folder, &name.path, piece);
        written.map_err(|error| {
            remove_empty_folders(&self.folder, &name.path);
            failed("written", &name.shown, &error)
        })?;
        Ok(WorkspaceFile { path: name.shown, bytes, executable: piece.executable })
    }

    /// All files.
    pub(super) fn list(&self) -> Result<Workspace, Failure> {
        let growing = self.lock();
        let found = self.look()?;
        Ok(Workspace {
            folder: self.folder.clone(),
            bytes: growing.used(&found),
            most_bytes: self.most_bytes,
            total: found.files.len(),
            files: found.files.into_iter().map(|(_, file)| file).collect(),
        })
    }

    /// Removes a file, or a folder with all that is in it.
    pub(super) fn remove(&self, path: &Path) -> Result<(), Failure> {
        let growing = self.lock();
        let name = Name::of(&self.folder, path)?;
        growing.check(&name)?;
        let removed = match name.path.symlink_metadata() {
            Ok(data) if data.is_dir() => fs::remove_dir_all(&name.path),
            Ok(_) => fs::remove_file(&name.path),
            Err(error) => Err(error),
        };
        removed.map_err(|error| match error.kind() {
            io::ErrorKind::NotFound | io::ErrorKind::NotADirectory => {
                let details = format!("there is no `{}` in the workspace", name.shown);
                Failure::new(FailureKind::InvalidInput, details).hint("`workspace/list` shows what there is")
            }
            _ => failed("removed", &name.shown, &error),
        })?;
        remove_empty_folders(&self.folder, &name.path);
        Ok(())
    }

    /// Begins a file that is written piece by piece.
    pub(super) fn begin(&self, path: &Path) -> Result<(), Failure> {
        let mut growing = self.lock();
        let name = Name::of(&self.folder, path)?;
        growing.check(&name)?;
        let found = self.look()?;
        if found.entries() + growing.0.len() >= MOST_ENTRIES {
            return Err(self.full(&growing, &found));
        }
        growing.0.insert(name.path, 0);
        Ok(())
    }

    /// Grants such a file this size, and some more in advance; gives what it may have now.
    pub(super) fn grant(&self, path: &Path, bytes: u64) -> Result<u64, Failure> {
        const IN_ADVANCE: u64 = 1 << 20;
        let mut growing = self.lock();
        let found = self.look()?;
        let granted = growing.0.get(path).copied().unwrap_or_default();
        let left = self.most_bytes.saturating_sub(growing.used(&found) - granted);
        if bytes > left {
            return Err(self.full(&growing, &found));
        }
        let granted = left.min(bytes.saturating_add(IN_ADVANCE));
        growing.0.insert(path.to_owned(), granted);
        Ok(granted)
    }

    /// Ends such a file, which counts by its size from now on.
    pub(super) fn end(&self, path: &Path) {
        self.lock().0.remove(path);
    }

    fn look(&self) -> Result<Found, Failure> {
        look(&self.folder).map_err(|error| failed("listed", "the workspace", &error))
    }

    fn lock(&self) -> MutexGuard<'_, Growing> {
        self.growing.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn full(&self, growing: &Growing, found: &Found) -> Failure {
        let mut largest: Vec<_> = found.files.iter().map(|(_, file)| file).collect();
        largest.sort_by_key(|file| std::cmp::Reverse(file.bytes));
        let names: Vec<_> =
            largest.iter().take(3).map(|file| format!("`{}` ({} bytes)", file.path, file.bytes)).collect();
        let details = format!(
            "the workspace would have more than {} bytes or {MOST_ENTRIES} files and folders",
            self.most_bytes
        );
        let hint = match names.is_empty() {
            true => "put smaller files, or ask the operator to raise `debug.workspace_bytes`".to_owned(),
            false => format!("remove files with `workspace/remove`; the largest are {}", names.join(", ")),
        };
        Failure::new(FailureKind::QuotaExceeded, details)
            .hint(hint)
            .fact("limit", self.most_bytes)
            .fact("used", growing.used(found))
    }
}

impl Growing {
    /// The bytes that count.
    fn used(&self, found: &Found) -> u64 {
        let complete = found.files.iter().filter(|(path, _)| !self.0.contains_key(path));
        complete.map(|(_, file)| file.bytes).sum::<u64>() + self.0.values().sum::<u64>()
    }

    /// Refuses to touch a file that is being written, and folders around it.
    fn check(&self, name: &Name) -> Result<(), Failure> {
        if !self.0.keys().any(|path| path.starts_with(&name.path)) {
            return Ok(());
        }
        let details = format!("`{}` is being written", name.shown);
        Err(Failure::new(FailureKind::InvalidInput, details)
            .hint("wait for the `debugger/export_trace` that writes it, or use another path"))
    }
}

impl Found {
    fn entries(&self) -> usize {
        self.files.len() + self.folders
    }
}
