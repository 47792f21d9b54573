//! One process at a time keeps a watched folder up to date.

use std::{
    collections::HashSet,
    fs::File,
    path::{Path, PathBuf},
};

use super::byte_lock::{self, Lock};

/// The watches that this process has to itself, each a locked byte of one file.
///
/// The system gives a lock back when its process ends, so another one can take over at once. Where the file cannot be locked everybody
/// watches: that costs work and changes nothing else.
pub(super) struct Leases {
    path: Option<PathBuf>,
    file: Option<File>,
    held: HashSet<i64>,
}

impl Leases {
    /// Leases in a file, which is made when the first is asked for; without a file every lease is had.
    pub(super) fn in_file(path: Option<&Path>) -> Self {
        Self { path: path.map(Path::to_owned), file: None, held: HashSet::new() }
    }

    /// Takes the lease of a watch, or keeps it; tells whether it is ours.
    pub(super) fn hold(&mut self, watch: i64) -> bool {
        if self.held.contains(&watch) {
            return true;
        }
        let Some(path) = &self.path else { return true };
        if self.file.is_none() {
            let opened = byte_lock::open(path);
            self.file =
                opened.inspect_err(|error| tracing::warn!(%error, "watched folders have no lock")).ok();
        }
        let Some(file) = &self.file else { return true };
        let is_ours = byte_lock::lock(file, watch, Lock::Alone);
        if is_ours {
            self.held.insert(watch);
        }
        is_ours
    }

    /// Lets another process have it.
    pub(super) fn release(&mut self, watch: i64) {
        if let Some(file) = &self.file
            && self.held.remove(&watch)
        {
            byte_lock::lock(file, watch, Lock::Released);
        }
    }
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;

    #[test]
    fn one_has_a_lease_until_it_releases_it_or_ends() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("watching.lock");
        let (mut first, mut second) = (Leases::in_file(Some(&path)), Leases::in_file(Some(&path)));
        assert!(first.hold(1) && first.hold(1) && first.hold(2));
        assert!(!second.hold(1) && second.hold(3));
        first.release(1);
        assert!(second.hold(1) && !first.hold(1) && !second.hold(2));
        drop(first);
        assert!(second.hold(2));
    }
}
