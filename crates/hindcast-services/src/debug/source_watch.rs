//! Telling subscribers when a source file changes.
//!
//! Files are looked at again and again rather than watched by the kernel: there are few of them, and this
//! also sees files on network file systems and those that an editor replaces by another.

use std::{
    collections::HashMap,
    path::{Path, PathBuf},
    sync::{Arc, Mutex, PoisonError},
    time::{Duration, SystemTime},
};

use hindcast_core::identity::{Caller, PrincipalId};
use tokio::task::AbortHandle;

use super::DebugService;
use crate::{Events, Failure, FailureKind};

/// How often a file is looked at.
const LOOK_AGAIN: Duration = Duration::from_millis(250);
/// How many files a principal may watch at once.
const MOST_OF_ONE: usize = 64;

/// How many files each principal watches.
#[derive(Clone, Default)]
pub(super) struct Watches(Arc<Mutex<HashMap<PrincipalId, usize>>>);

/// A source file that is watched until this is dropped.
pub struct SourceWatch {
    task: AbortHandle,
    principal: PrincipalId,
    watches: Watches,
}

impl DebugService {
    /// Announces `uri` whenever `file` changes.
    pub async fn watch_source(
        &self,
        caller: &Caller,
        uri: &str,
        file: PathBuf,
    ) -> Result<SourceWatch, Failure> {
        let (principal, watches) = (caller.principal.clone(), self.sources.clone());
        watches.take(&principal)?;
        // Looked at before the subscriber is answered, so that no change is missed from then on.
        let seen = look(file.clone()).await;
        let uri: Arc<str> = uri.into();
        let task = tokio::spawn(follow(file, seen, self.events.clone(), principal.clone(), uri));
        Ok(SourceWatch { task: task.abort_handle(), principal, watches })
    }
}

impl Watches {
    fn take(&self, principal: &PrincipalId) -> Result<(), Failure> {
        let mut counts = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let count = counts.entry(principal.clone()).or_default();
        if *count >= MOST_OF_ONE {
            let details = format!("{MOST_OF_ONE} source files are watched already");
            return Err(Failure::new(FailureKind::InvalidInput, details)
                .hint("unsubscribe from one with `resources/unsubscribe`"));
        }
        *count += 1;
        Ok(())
    }

    fn give_back(&self, principal: &PrincipalId) {
        let mut counts = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(count) = counts.get_mut(principal) {
            *count -= 1;
            if *count == 0 {
                counts.remove(principal);
            }
        }
    }
}

impl Drop for SourceWatch {
    fn drop(&mut self) {
        self.task.abort();
        self.watches.give_back(&self.principal);
    }
}

/// What changes when a file does; none where there is no file.
type Stamp = Option<(Option<SystemTime>, u64, u64)>;

async fn follow(file: PathBuf, mut seen: Stamp, events: Events, principal: PrincipalId, uri: Arc<str>) {
    loop {
        tokio::time::sleep(LOOK_AGAIN).await;
        let now = look(file.clone()).await;
        if now != seen {
            seen = now;
            events.changed_for(&principal, &uri);
        }
    }
}

async fn look(file: PathBuf) -> Stamp {
    // A file system on a network may take its time.
    tokio::task::spawn_blocking(move || stamp(&file)).await.ok().flatten()
}

fn stamp(file: &Path) -> Stamp {
    let metadata = file.symlink_metadata().ok()?;
    #[cfg(unix)]
    let number = std::os::unix::fs::MetadataExt::ino(&metadata);
    #[cfg(not(unix))]
    let number = 0;
    Some((metadata.modified().ok(), metadata.len(), number))
}
