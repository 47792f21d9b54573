//! Whether documents are being added now, by whichever process on the data folder.

use std::{
    fs::File,
    path::{Path, PathBuf},
    sync::{
        Arc, OnceLock,
        atomic::{AtomicUsize, Ordering},
    },
};

use super::byte_lock::{self, Lock};

/// The byte that is locked; those of watches are their keys, which begin at one.
const BYTE: i64 = 0;

/// The additions that are under way.
pub(super) struct Additions {
    here: Arc<AtomicUsize>,
    path: Option<PathBuf>,
    /// Through which those of other processes are seen.
    asked: OnceLock<Option<File>>,
}

/// One of them; it is over when this is dropped.
pub(super) struct Addition {
    here: Arc<AtomicUsize>,
    /// Its lock ends with it.
    _file: Option<File>,
}

impl Drop for Addition {
    fn drop(&mut self) {
        self.here.fetch_sub(1, Ordering::SeqCst);
    }
}

impl Additions {
    /// Processes see each other's by this file; without one, everybody sees only their own.
    pub(super) fn in_file(path: Option<&Path>) -> Self {
        Self { here: Arc::default(), path: path.map(Path::to_owned), asked: OnceLock::new() }
    }

    /// Begins one.
    pub(super) fn begin(&self) -> Addition {
        // Where others cannot be told, they wait for the indexes at each search.
        let file = self.path.as_deref().and_then(|path| byte_lock::open(path).ok());
        self.here.fetch_add(1, Ordering::SeqCst);
        Addition {
            here: self.here.clone(),
            _file: file.filter(|file| byte_lock::lock(file, BYTE, Lock::Together)),
        }
    }

    /// Whether one is under way, here or in another process.
    pub(super) fn is_any(&self) -> bool {
        if self.here.load(Ordering::SeqCst) > 0 {
            return true;
        }
        let opened = || self.path.as_deref().and_then(|path| byte_lock::open(path).ok());
        self.asked.get_or_init(opened).as_ref().is_some_and(|file| byte_lock::is_locked(file, BYTE))
    }
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;

    #[test]
    fn an_addition_is_seen_by_all_until_it_is_over() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("knowledge.lock");
        let (here, elsewhere) = (Additions::in_file(Some(&path)), Additions::in_file(Some(&path)));
        assert!(!here.is_any() && !elsewhere.is_any());
        let (first, second) = (here.begin(), elsewhere.begin());
        assert!(here.is_any() && elsewhere.is_any());
        drop(first);
        assert!(here.is_any() && elsewhere.is_any());
        drop(second);
        assert!(!here.is_any() && !elsewhere.is_any());
    }

    #[test]
    fn without_a_file_only_ones_own_are_seen() {
        let (here, elsewhere) = (Additions::in_file(None), Additions::in_file(None));
        let _addition = here.begin();
        assert!(here.is_any() && !elsewhere.is_any());
    }
}
