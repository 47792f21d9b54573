//! Folders whose files are kept up to date.

use std::{
    collections::{HashMap, HashSet},
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use hindcast_core::{
    identity::Caller,
    knowledge::{CollectionKey, WatchedPath},
    progress::Unwatched,
};
use notify::{RecommendedWatcher, RecursiveMode, Watcher};
use tokio::sync::mpsc;

use super::{KnowledgeService, blocking, walk::walk};
use crate::Failure;

/// Editors write a file in several steps; what follows closely is one change.
const SETTLE: Duration = Duration::from_millis(100);

/// What is watched, and what changed there.
pub(super) struct Watching {
    service: Arc<KnowledgeService>,
    watcher: Option<RecommendedWatcher>,
    changes: mpsc::UnboundedReceiver<PathBuf>,
    /// Keeps the channel open where nothing can be watched.
    _sender: mpsc::UnboundedSender<PathBuf>,
    roots: HashMap<PathBuf, HashSet<CollectionKey>>,
    pending: HashSet<PathBuf>,
}

impl Watching {
    pub(super) fn start(service: Arc<KnowledgeService>) -> Self {
        let (sender, changes) = mpsc::unbounded_channel();
        let tell = sender.clone();
        let watcher = notify::recommended_watcher(move |event: notify::Result<notify::Event>| {
            for path in
                event.ok().filter(|event| !event.kind.is_access()).into_iter().flat_map(|event| event.paths)
            {
                // An error says that nobody listens any more.
                let _ = tell.send(path);
            }
        });
        let watcher = watcher.inspect_err(|error| tracing::warn!(%error, "folders cannot be watched")).ok();
        Self { service, watcher, changes, _sender: sender, roots: HashMap::new(), pending: HashSet::new() }
    }

    /// Watches what is to be watched now. What is new is read at once: it may have changed while nobody watched.
    pub(super) async fn refresh(&mut self) {
        let watched = match self.service.store.watched_paths().await {
            Ok(watched) => watched,
            Err(error) => return tracing::warn!(%error, "it is not known which folders to watch"),
        };
        let mut wanted: HashMap<PathBuf, HashSet<CollectionKey>> = HashMap::new();
        for WatchedPath { collection, path } in watched {
            wanted.entry(path.into()).or_default().insert(collection);
        }
        for gone in self.roots.keys().filter(|root| !wanted.contains_key(*root)) {
            if let Some(watcher) = &mut self.watcher {
                // It may be gone from the disk as well.
                let _ = watcher.unwatch(gone);
            }
        }
        for (root, collections) in &wanted {
            if self.roots.get(root) == Some(collections) {
                continue;
            }
            // A file that is replaced by another of its name is seen by its folder only.
            let (path, mode) = match root.parent() {
                Some(folder) if root.is_file() => (folder, RecursiveMode::NonRecursive),
                _ => (&**root, RecursiveMode::Recursive),
            };
            if let Some(watcher) = &mut self.watcher
                && let Err(error) = watcher.watch(path, mode)
            {
                tracing::warn!(%error, path = %root.display(), "this folder is not watched");
            }
            self.pending.insert(root.clone());
        }
        self.roots = wanted;
        self.take_in().await;
    }

    /// Waits until something changed, and a little longer.
    pub(super) async fn changed(&mut self) {
        let Some(first) = self.changes.recv().await else { return std::future::pending().await };
        self.pending.insert(first);
        while let Ok(Some(next)) = tokio::time::timeout(SETTLE, self.changes.recv()).await {
            self.pending.insert(next);
        }
    }

    /// Takes in what changed, if anything did.
    pub(super) async fn take_in(&mut self) {
        let changed: Vec<PathBuf> = self.pending.drain().collect();
        let mut by_collection: HashMap<CollectionKey, Vec<PathBuf>> = HashMap::new();
        for path in changed.into_iter().filter(|path| !is_hidden(path)) {
            for (root, collections) in &self.roots {
                if path.starts_with(root) {
                    for collection in collections {
                        by_collection.entry(*collection).or_default().push(path.clone());
                    }
                }
            }
        }
        for (collection, paths) in by_collection {
            if let Err(failure) = self.service.take_in_changed(collection, paths).await {
                tracing::warn!(%failure, "changes of a watched folder were not taken in");
            }
        }
    }
}

/// Temporary files of editors come and go; most are hidden.
fn is_hidden(path: &Path) -> bool {
    path.file_name().is_some_and(|name| name.as_encoded_bytes().starts_with(b"."))
}

impl KnowledgeService {
    async fn take_in_changed(&self, key: CollectionKey, paths: Vec<PathBuf>) -> Result<(), Failure> {
        let collections = self.store.collections(None).await?;
        let Some(collection) = collections.into_iter().find(|collection| collection.key == key) else {
            return Ok(());
        };
        let mut intake = self.intake_into(collection).await?;
        let policy = self.policy.reading.clone();
        let existing: Vec<_> = paths.iter().filter(|path| path.exists()).cloned().collect();
        // Whether it may be read was decided when it was given to be watched.
        let found = blocking(move || walk(&policy, &Caller::local(), &existing)).await?;
        let mut reports = self.add_found(&mut intake, found, &Unwatched).await?;
        reports.extend(self.remove_vanished(&mut intake, &paths).await?);
        for report in reports {
            tracing::debug!(path = report.path, outcome = ?report.outcome, "a watched file changed");
        }
        Ok(())
    }
}
