//! The files of the index as they are open, and what is known of them.

use std::{
    collections::BTreeMap,
    fs,
    path::Path,
    sync::{PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard},
};

use hindcast_core::knowledge::{CollectionKey, Generation, IndexError, Language};
use tantivy::{Index, IndexReader, ReloadPolicy};

use super::{WORDS, files::Files, schema, sealed::SealedDirectory, statistics::Extent, unreadable, words};

/// The files of the index, and what reads them.
pub(super) struct Opened {
    pub(super) index: Index,
    pub(super) reader: IndexReader,
    pub(super) files: Files,
    committed: RwLock<Committed>,
}

impl Opened {
    pub(super) fn open(folder: &Path) -> Result<Self, IndexError> {
        let directory = tantivy::directory::MmapDirectory::open(folder)
            .map_err(|error| IndexError::Unavailable(error.to_string()))?;
        let index = Index::open_or_create(SealedDirectory(directory), schema().0).map_err(unreadable)?;
        // Chunks come already cut, each by the rules of its language; this is asked only whether it is there.
        index.tokenizers().register(WORDS, words::Words::for_purpose(words::Purpose::Index));
        // Before anything else is read: what is damaged may be read wrongly without a failure.
        let files = Files::open(folder, &index)?;
        let reader =
            index.reader_builder().reload_policy(ReloadPolicy::Manual).try_into().map_err(unreadable)?;
        Ok(Self { index, reader, files, committed: RwLock::default() })
    }

    pub(super) fn committed(&self) -> RwLockReadGuard<'_, Committed> {
        self.committed.read().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn note(&self) -> RwLockWriteGuard<'_, Committed> {
        self.committed.write().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What the last commit left.
#[derive(Default)]
pub(super) struct Committed {
    pub(super) generation: Option<Generation>,
    pub(super) collections: BTreeMap<CollectionKey, Extent>,
    /// What its chunks are written in.
    pub(super) languages: Vec<Language>,
}

/// Makes the folder an empty one, whatever is in it or stands there instead. All of it can be made again.
pub(super) fn clear(folder: &Path) -> std::io::Result<()> {
    if fs::symlink_metadata(folder).is_ok_and(|found| !found.is_dir()) {
        fs::remove_file(folder)?;
    }
    fs::create_dir_all(folder)?;
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        match entry.file_type()?.is_dir() {
            true => fs::remove_dir_all(entry.path())?,
            false => fs::remove_file(entry.path())?,
        }
    }
    Ok(())
}
