//! How much room there is on a disk.

use std::path::Path;

use crate::{Failure, FailureKind};

/// With less room than this, nothing more is taken in.
const NEEDED: u64 = 32 << 20;

/// How many bytes can still be written where this folder is; none where that cannot be told.
pub fn disk_room(folder: &Path) -> Option<u64> {
    #[cfg(unix)]
    {
        let told = nix::sys::statvfs::statvfs(folder).ok()?;
        // Some file systems have no limit and tell nothing.
        (told.blocks() > 0).then(|| told.blocks_available().saturating_mul(told.fragment_size()))
    }
    #[cfg(not(unix))]
    {
        let _ = folder;
        None
    }
}

/// Refuses to take in `more` bytes where the disk would be full afterwards.
pub(crate) fn check_disk(folder: &Path, more: u64) -> Result<(), Failure> {
    match disk_room(folder) {
        Some(left) if left < more.saturating_add(NEEDED) => Err(Failure::new(
            FailureKind::Internal,
            format!("the server's disk is full: it has {} MB left", left >> 20),
        )
        .hint("tell the operator to make room on the disk of the data folder, or remove documents that are not needed")),
        _ => Ok(()),
    }
}
