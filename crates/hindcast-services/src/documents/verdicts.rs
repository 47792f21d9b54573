//! Verdicts that still hold: neither the document nor a file of the schema has changed.

use std::{
    collections::HashMap,
    path::{Path, PathBuf},
    sync::{Mutex, PoisonError},
};

use super::{Validation, files::FileStamp};

/// Verdicts that are kept.
const MOST: usize = 256;

#[derive(Default)]
pub(super) struct VerdictCache {
    inner: Mutex<Inner>,
}

#[derive(Default)]
struct Inner {
    kept: HashMap<(PathBuf, PathBuf, usize), Kept>,
    uses: u64,
    hits: u64,
}

struct Kept {
    sources: Vec<(PathBuf, FileStamp)>,
    validation: Validation,
    last_use: u64,
}

impl VerdictCache {
    /// The verdict on these files, if they are as they were.
    pub(super) fn find(&self, document: &Path, schema: &Path, limit: usize) -> Option<Validation> {
        let key = (document.to_owned(), schema.to_owned(), limit);
        let mut inner = self.inner.lock().unwrap_or_else(PoisonError::into_inner);
        inner.uses += 1;
        let uses = inner.uses;
        let kept = inner.kept.get_mut(&key)?;
        if kept.sources.iter().any(|(path, stamp)| FileStamp::now(path).as_ref() != Some(stamp)) {
            inner.kept.remove(&key);
            return None;
        }
        kept.last_use = uses;
        let validation = Validation { was_cached: true, ..kept.validation.clone() };
        inner.hits += 1;
        Some(validation)
    }

    pub(super) fn keep(
        &self,
        document: PathBuf,
        schema: PathBuf,
        limit: usize,
        sources: Vec<(PathBuf, FileStamp)>,
        validation: Validation,
    ) {
        let mut inner = self.inner.lock().unwrap_or_else(PoisonError::into_inner);
        inner.uses += 1;
        let last_use = inner.uses;
        inner.kept.insert((document, schema, limit), Kept { sources, validation, last_use });
        if inner.kept.len() > MOST
            && let Some(oldest) =
                inner.kept.iter().min_by_key(|(_, kept)| kept.last_use).map(|(key, _)| key.clone())
        {
            inner.kept.remove(&oldest);
        }
    }

    /// How many there are, and how often one was found.
    pub(super) fn counts(&self) -> (usize, u64) {
        let inner = self.inner.lock().unwrap_or_else(PoisonError::into_inner);
        (inner.kept.len(), inner.hits)
    }
}
