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

#[cfg(test)]
mod tests {
    use hindcast_xml::schema::Verdict;

    use super::*;

    struct Desk {
        folder: tempfile::TempDir,
        cache: VerdictCache,
    }

    impl Desk {
        fn new() -> Self {
            let desk = Self { folder: tempfile::tempdir().unwrap(), cache: VerdictCache::default() };
            std::fs::write(desk.document(), "<a/>").unwrap();
            std::fs::write(desk.schema(), "<schema/>").unwrap();
            desk
        }

        fn document(&self) -> PathBuf {
            self.folder.path().join("a.xml")
        }

        fn schema(&self) -> PathBuf {
            self.folder.path().join("a.xsd")
        }

        fn keep(&self, limit: usize) {
            let stamped = |path: PathBuf| (path.clone(), FileStamp::now(&path).unwrap());
            let sources = vec![stamped(self.document()), stamped(self.schema())];
            let verdict = Verdict { violations: Vec::new(), total: 0 };
            let validation = Validation { verdict, schema_version: "1.0".into(), was_cached: false };
            self.cache.keep(self.document(), self.schema(), limit, sources, validation);
        }

        fn has(&self, limit: usize) -> bool {
            let found = self.cache.find(&self.document(), &self.schema(), limit);
            found.is_some_and(|validation| validation.was_cached)
        }
    }

    #[test]
    fn a_verdict_holds_until_one_of_its_files_changes() {
        for changed in [Desk::document, Desk::schema] {
            let desk = Desk::new();
            desk.keep(10);
            assert!(desk.has(10) && !desk.has(20));
            std::fs::write(changed(&desk), "something longer").unwrap();
            assert!(!desk.has(10));
            desk.keep(10);
            std::fs::remove_file(changed(&desk)).unwrap();
            assert!(!desk.has(10));
            assert_eq!(desk.cache.counts(), (0, 1));
        }
    }

    #[test]
    fn the_verdict_used_longest_ago_makes_room() {
        let desk = Desk::new();
        (0..MOST).for_each(|limit| desk.keep(limit));
        assert!(desk.has(0));
        desk.keep(MOST);
        assert!(desk.has(0) && !desk.has(1) && desk.has(2) && desk.has(MOST));
        assert_eq!(desk.cache.counts().0, MOST);
    }
}
