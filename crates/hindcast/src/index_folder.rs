//! Where the derived indexes of the knowledge base are, when several processes use one data folder.

use std::{
    fs::{self, File, TryLockError},
    io,
    path::{Path, PathBuf},
};

use anyhow::{Context, Result};

use crate::data_folder::{private, private_folder};

/// Smaller files are copied: among them are those that an index writes anew.
const LARGEST_COPY: u64 = 1 << 20;

/// The folder that this process alone changes.
///
/// The first process has the one that is kept. Another that comes while the first lives gets a folder of its own, which begins
/// as a copy of the kept one, by links and so at no cost, and goes with it. Both follow the same truth.
pub(crate) struct IndexFolder {
    path: PathBuf,
    is_passing: bool,
    /// Held as long as the folder is used.
    _lock: File,
}

impl IndexFolder {
    /// Takes the kept folder, or makes one of our own.
    pub(crate) fn open(indexes: &Path) -> Result<Self> {
        let unusable = || format!("cannot use the indexes in `{}`", indexes.display());
        private_folder(indexes).with_context(unusable)?;
        remove_abandoned(indexes);
        let kept = indexes.join("kept");
        if let Some(lock) = try_lock(&indexes.join("kept.lock")).with_context(unusable)? {
            private_folder(&kept).with_context(unusable)?;
            return Ok(Self { path: kept, is_passing: false, _lock: lock });
        }
        let name = format!("passing-{}", std::process::id());
        let lock = try_lock(&indexes.join(format!("{name}.lock"))).with_context(unusable)?;
        let lock = lock.with_context(unusable)?;
        let path = indexes.join(name);
        // A file that the other process replaced meanwhile only makes the copy one that has to be made again.
        if let Err(error) = copy(&kept, &path) {
            tracing::debug!(%error, "the indexes were not copied and are made again");
        }
        private_folder(&path).with_context(unusable)?;
        Ok(Self { path, is_passing: true, _lock: lock })
    }

    /// Where the indexes of further models go.
    pub(crate) fn folder(&self) -> &Path {
        &self.path
    }

    pub(crate) fn lexical(&self) -> PathBuf {
        self.path.join("lexical")
    }

    pub(crate) fn vectors(&self) -> PathBuf {
        self.path.join("vectors")
    }
}

impl Drop for IndexFolder {
    fn drop(&mut self) {
        if self.is_passing {
            remove(&self.path);
        }
    }
}

/// Folders of processes that were killed.
fn remove_abandoned(indexes: &Path) {
    let entries = fs::read_dir(indexes).into_iter().flatten().flatten();
    for entry in entries {
        let lock = entry.path();
        let is_lock = lock.extension().is_some_and(|end| end == "lock");
        let is_passing = entry.file_name().as_encoded_bytes().starts_with(b"passing-");
        if is_lock && is_passing && matches!(try_lock(&lock), Ok(Some(_))) {
            remove(&lock.with_extension(""));
        }
    }
}

fn remove(folder: &Path) {
    let removed = fs::remove_dir_all(folder).and_then(|()| fs::remove_file(folder.with_extension("lock")));
    if let Err(error) = removed {
        tracing::debug!(%error, folder = %folder.display(), "a passing index was not removed");
    }
}

/// None when another process has it.
fn try_lock(path: &Path) -> io::Result<Option<File>> {
    let file = private().create(true).truncate(false).open(path)?;
    match file.try_lock() {
        Ok(()) => Ok(Some(file)),
        Err(TryLockError::WouldBlock) => Ok(None),
        Err(TryLockError::Error(error)) => Err(error),
    }
}

fn copy(from: &Path, to: &Path) -> io::Result<()> {
    private_folder(to)?;
    for entry in fs::read_dir(from)? {
        let entry = entry?;
        let (source, target) = (entry.path(), to.join(entry.file_name()));
        let metadata = entry.metadata()?;
        if metadata.is_dir() {
            copy(&source, &target)?;
        } else if metadata.len() <= LARGEST_COPY || fs::hard_link(&source, &target).is_err() {
            fs::copy(&source, &target)?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_second_gets_a_copy_that_goes_with_it() {
        let data = tempfile::tempdir().unwrap();
        let first = IndexFolder::open(data.path()).unwrap();
        fs::create_dir_all(first.lexical()).unwrap();
        fs::write(first.lexical().join("words"), "a").unwrap();
        let second = IndexFolder::open(data.path()).unwrap();
        let passing = second.path.clone();
        assert_ne!(first.path, passing);
        assert_eq!(fs::read_to_string(second.lexical().join("words")).unwrap(), "a");
        drop(second);
        assert!(!passing.exists());
        drop(first);
        assert!(!IndexFolder::open(data.path()).unwrap().is_passing);
    }

    #[test]
    fn what_a_killed_process_left_is_removed() {
        let data = tempfile::tempdir().unwrap();
        fs::create_dir_all(data.path().join("passing-1/lexical")).unwrap();
        fs::write(data.path().join("passing-1.lock"), "").unwrap();
        IndexFolder::open(data.path()).unwrap();
        assert!(!data.path().join("passing-1").exists());
        assert!(!data.path().join("passing-1.lock").exists());
    }
}
