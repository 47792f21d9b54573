//! Whether the files of the index are as tantivy wrote them.

use std::{
    fs,
    path::{Path, PathBuf},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    thread::JoinHandle,
    time::SystemTime,
};

use hindcast_core::knowledge::IndexError;
use tantivy::{Index, index::SegmentComponent};

use super::unreadable;

/// The checksums of as many bytes are verified before the index is used: a quarter of a second where they are in memory. Those
/// of a larger index are verified in the background.
const VERIFIED_AT_ONCE: u64 = 512 << 20;

/// The committed files of an index.
pub(super) struct Files {
    folder: PathBuf,
    index: Index,
    /// As they were when this process verified or wrote them. They are never written again, only replaced by others.
    sound: Mutex<Vec<Stamp>>,
    /// What is known to be damaged.
    damage: Arc<Mutex<Option<String>>>,
    verification: Mutex<Option<JoinHandle<()>>>,
}

#[derive(Clone, PartialEq, Eq)]
struct Stamp {
    name: PathBuf,
    bytes: u64,
    modified: Option<SystemTime>,
}

impl Files {
    /// The files of an index that was opened just now. Fails where one of them is damaged.
    pub(super) fn open(folder: &Path, index: &Index) -> Result<Self, IndexError> {
        let files = Self {
            folder: folder.to_owned(),
            index: index.clone(),
            sound: Mutex::default(),
            damage: Arc::default(),
            verification: Mutex::default(),
        };
        files.note_sound()?;
        let total: u64 = lock(&files.sound).iter().map(|stamp| stamp.bytes).sum();
        if total <= VERIFIED_AT_ONCE {
            verify_all(index)?;
        } else {
            files.verify_in_background();
        }
        Ok(files)
    }

    fn verify_in_background(&self) {
        let (index, damage) = (self.index.clone(), self.damage.clone());
        *lock(&self.verification) = Some(std::thread::spawn(move || {
            if let Err(IndexError::Corrupt(reason)) = verify_all(&index) {
                *lock(&damage) = Some(reason);
            }
        }));
    }

    /// Waits until all files that were there at the opening are verified.
    pub(super) fn finish_verification(&self) {
        if let Some(verification) = lock(&self.verification).take() {
            let _ = verification.join();
        }
    }

    /// Notes that the index is not to be used any more.
    pub(super) fn note_damage(&self, damage: &IndexError) {
        let reason = match damage {
            IndexError::Corrupt(reason) => reason.clone(),
            other => other.to_string(),
        };
        lock(&self.damage).get_or_insert(reason);
    }

    /// The failure for those who wanted to use the index, where that was noted.
    pub(super) fn damage(&self) -> Option<IndexError> {
        lock(&self.damage).clone().map(IndexError::Corrupt)
    }

    /// Notes how the committed files are, after a commit of this process.
    pub(super) fn note_sound(&self) -> Result<(), IndexError> {
        let names = committed(&self.index)?;
        let stamps = names.into_iter().map(|name| self.stamp(name)).collect::<Result<_, _>>()?;
        *lock(&self.sound) = stamps;
        Ok(())
    }

    /// Fails if a file was damaged since it was verified. Costs a look at the time and length of each; the content of those
    /// that differ is verified.
    pub(super) fn look(&self) -> Result<(), IndexError> {
        if let Some(damage) = self.damage() {
            return Err(damage);
        }
        let mut sound = lock(&self.sound);
        let is_touched = |stamp: &Stamp| self.stamp(stamp.name.clone()).ok().as_ref() != Some(stamp);
        if !sound.iter().any(is_touched) {
            return Ok(());
        }
        let still = committed(&self.index)?;
        // Another process may have merged some into others.
        sound.retain(|stamp| still.contains(&stamp.name));
        for stamp in &mut *sound {
            let now = self.stamp(stamp.name.clone())?;
            // A file that became shorter must not be read: its end is mapped to nothing, and reading it would kill the process.
            if now.bytes != stamp.bytes {
                return Err(damaged(&stamp.name, "it has another length than it was written with"));
            }
            if now != *stamp {
                verify(&self.index, &stamp.name)?;
                *stamp = now;
            }
        }
        Ok(())
    }

    /// Fails where a file is damaged. Reads all of them.
    pub(super) fn verify(&self) -> Result<(), IndexError> {
        self.look()?;
        verify_all(&self.index)
    }

    fn stamp(&self, name: PathBuf) -> Result<Stamp, IndexError> {
        let found = fs::metadata(self.folder.join(&name)).map_err(|error| damaged(&name, error))?;
        Ok(Stamp { bytes: found.len(), modified: found.modified().ok(), name })
    }
}

/// The files of the last commit.
fn committed(index: &Index) -> Result<Vec<PathBuf>, IndexError> {
    const COMPONENTS: [SegmentComponent; 6] = [
        SegmentComponent::Postings,
        SegmentComponent::Positions,
        SegmentComponent::FastFields,
        SegmentComponent::FieldNorms,
        SegmentComponent::Terms,
        SegmentComponent::Store,
    ];
    let mut names = Vec::new();
    for segment in index.load_metas().map_err(unreadable)?.segments {
        names.extend(COMPONENTS.into_iter().map(|component| segment.relative_path(component)));
        if segment.has_deletes() {
            names.push(segment.relative_path(SegmentComponent::Delete));
        }
    }
    Ok(names)
}

fn verify_all(index: &Index) -> Result<(), IndexError> {
    for name in committed(index)? {
        if let Err(damage) = verify(index, &name) {
            // A file that was merged into another meanwhile is not missed.
            if committed(index)?.contains(&name) {
                return Err(damage);
            }
        }
    }
    Ok(())
}

fn verify(index: &Index, name: &Path) -> Result<(), IndexError> {
    match index.directory().validate_checksum(name) {
        Ok(true) => Ok(()),
        Ok(false) => Err(damaged(name, "its checksum is wrong")),
        Err(error) => Err(damaged(name, error)),
    }
}

fn damaged(name: &Path, why: impl std::fmt::Display) -> IndexError {
    IndexError::Corrupt(format!("the file `{}` of the word index is damaged: {why}", name.display()))
}

fn lock<T>(value: &Mutex<T>) -> MutexGuard<'_, T> {
    value.lock().unwrap_or_else(PoisonError::into_inner)
}
