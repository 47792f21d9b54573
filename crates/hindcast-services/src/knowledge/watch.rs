//! Folders whose files are kept up to date.

use std::{
    collections::{HashMap, HashSet, VecDeque},
    path::{Path, PathBuf},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use hindcast_core::{
    identity::Scope,
    knowledge::{Watch, WatchGrant},
    progress::Unwatched,
};
use notify::{RecommendedWatcher, RecursiveMode, Watcher as _};
use tokio::sync::Notify;

use super::{
    KnowledgeService, Stopping, blocking,
    follow::Failing,
    intake::Intake,
    lease::Leases,
    reading::Reader,
    selection::RULE_FILES,
    walk::{Found, Seen, Selection, WalkLimits, Walking, walk},
};
use crate::Failure;

/// Editors write a file in several steps; what follows closely is one change.
const SETTLE: Duration = Duration::from_millis(100);

/// How soon another process takes over, and a right that was taken away has its effect.
const LOOK_EVERY: Duration = Duration::from_secs(1);

/// More changes at once are one: look at everything again.
const MOST_PENDING: usize = 10_000;

/// Files of one folder that are taken in before others have their turn.
const BATCH: usize = 50;

/// What changed on the disk and was not looked at yet.
#[derive(Default)]
struct Pending {
    paths: HashSet<PathBuf>,
    /// So much happened that some of it was missed.
    is_everything: bool,
}

/// Hears of changes; the system tells on a thread of its own.
#[derive(Default)]
struct Ear {
    pending: Mutex<Pending>,
    heard: Notify,
}

impl Ear {
    fn hear(&self, event: notify::Result<notify::Event>) {
        let Ok(event) = event else { return };
        let mut pending = lock(&self.pending);
        if event.need_rescan() {
            pending.is_everything = true;
        } else if event.kind.is_access() {
            return;
        }
        pending.paths.extend(event.paths.into_iter().filter_map(changed));
        if pending.paths.len() > MOST_PENDING {
            *pending = Pending { paths: HashSet::new(), is_everything: true };
        }
        drop(pending);
        self.heard.notify_one();
    }
}

/// What to look at when something changed at a path: all of a folder whose rules changed.
fn changed(path: PathBuf) -> Option<PathBuf> {
    let is_rules = RULE_FILES.iter().any(|name| path.file_name().is_some_and(|file| file == *name));
    match path.parent() {
        Some(folder) if is_rules => Some(folder.into()),
        _ => Some(path).filter(|path| !is_hidden(path)),
    }
}

/// Temporary files of editors come and go; most are hidden.
fn is_hidden(path: &Path) -> bool {
    path.file_name().is_some_and(|name| name.as_encoded_bytes().starts_with(b"."))
}

fn lock<T>(value: &Mutex<T>) -> MutexGuard<'_, T> {
    value.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A watch that this process looks after.
struct Held {
    watch: Watch,
    /// The folders the system tells us about, by their true paths.
    folders: HashSet<PathBuf>,
    /// Whether there was something at its path when it was last looked at.
    is_there: bool,
    /// Which folder is at its path.
    folder: Option<FolderId>,
    /// Which folder it was that last had files.
    filled: Option<FolderId>,
}

/// A folder, whatever its path is: its file system, and its number there.
type FolderId = (u64, u64);

/// Files of a watch that are being taken in.
struct Job {
    watch: Watch,
    /// Whether it is all of the watch.
    is_whole: bool,
    intake: Intake,
    /// What is still to be looked at.
    found: VecDeque<Found>,
    /// What changed, and what was found there.
    paths: Vec<PathBuf>,
    seen: Seen,
    /// Which folder it is that last had files.
    filled: Option<FolderId>,
}

/// The watches of this process, and what changed there.
pub(super) struct Watching {
    service: Arc<KnowledgeService>,
    watcher: Arc<Mutex<Option<RecommendedWatcher>>>,
    ear: Arc<Ear>,
    leases: Leases,
    held: HashMap<i64, Held>,
    /// Watches to be read from their roots on.
    unread: HashSet<i64>,
    /// What is being taken in, in turn.
    jobs: VecDeque<Job>,
    /// Why watches were not read. Each reason is logged once for each grant, however often the folder comes and goes.
    refused: HashMap<i64, (WatchGrant, HashSet<String>)>,
    failing: Failing,
}

/// Whether a watch may be read, as far as the disk tells.
enum Place {
    There(Option<FolderId>),
    /// Nothing is there now.
    Missing,
    Refused(String),
}

impl Watching {
    pub(super) fn new(service: Arc<KnowledgeService>) -> Self {
        let leases = Leases::in_file(service.policy.lock_file.as_deref());
        Self {
            service,
            watcher: Arc::default(),
            ear: Arc::default(),
            leases,
            held: HashMap::new(),
            unread: HashSet::new(),
            jobs: VecDeque::new(),
            refused: HashMap::new(),
            failing: Failing::default(),
        }
    }

    /// Watches for as long as it is polled.
    pub(super) async fn run(mut self) {
        loop {
            let refreshed = self.refresh().await;
            self.failing.found(refreshed, "it is not known which folders to watch");
            self.begin().await;
            self.go_on().await;
            if !self.jobs.is_empty() {
                continue;
            }
            tokio::select! {
                () = self.settled() => {}
                () = self.service.watches_changed.notified() => {}
                () = tokio::time::sleep(LOOK_EVERY) => {}
            }
        }
    }

    /// Waits until something changed, and a little longer.
    async fn settled(&self) {
        self.ear.heard.notified().await;
        while tokio::time::timeout(SETTLE, self.ear.heard.notified()).await.is_ok() {}
    }

    /// Finds out what this process is to look after. What is new is read: it may have changed while nobody watched.
    async fn refresh(&mut self) -> Result<(), Failure> {
        let mut wanted = self.service.store.watches().await?;
        wanted.retain(|watch| watch.elsewhere.is_none());
        let gone: Vec<_> =
            self.held.keys().copied().filter(|key| wanted.iter().all(|watch| watch.key != *key)).collect();
        for key in gone {
            self.let_go(key).await;
        }
        self.refused.retain(|key, _| wanted.iter().any(|watch| watch.key == *key));
        for watch in wanted {
            match self.place(&watch).await? {
                Place::Refused(reason) => self.refuse(&watch, reason).await,
                Place::Missing => self.hold(watch, false, None).await,
                Place::There(folder) => self.hold(watch, true, folder).await,
            }
        }
        Ok(())
    }

    async fn hold(&mut self, watch: Watch, is_there: bool, folder: Option<FolderId>) {
        if !self.leases.hold(watch.key) {
            return;
        }
        let key = watch.key;
        let held = self.held.entry(key).or_insert_with(|| {
            self.unread.insert(key);
            Held { watch: watch.clone(), folders: HashSet::new(), is_there, folder, filled: None }
        });
        let is_other = folder != held.folder;
        if is_there != held.is_there || is_other {
            self.unread.insert(key);
        }
        (held.is_there, held.folder) = (is_there, folder);
        held.watch = watch;
        if is_other {
            // The system told of the one that was there before: a drive was taken out or put in, or it was made anew.
            let before = std::mem::take(&mut held.folders);
            self.unwatch(before.into_iter().collect()).await;
        }
    }

    async fn refuse(&mut self, watch: &Watch, reason: String) {
        self.let_go(watch.key).await;
        let told = self.refused.entry(watch.key).or_insert_with(|| (watch.grant.clone(), HashSet::new()));
        if told.0 != watch.grant {
            *told = (watch.grant.clone(), HashSet::new());
        }
        if told.1.insert(reason.clone()) {
            tracing::warn!(path = watch.path, %reason, "a watched folder is not read; add it again with `watch` to have it read");
        }
    }

    async fn let_go(&mut self, key: i64) {
        self.leases.release(key);
        self.unread.remove(&key);
        self.jobs.retain(|job| job.watch.key != key);
        let Some(held) = self.held.remove(&key) else { return };
        let folders = held.folders.into_iter();
        self.unwatch(folders.collect()).await;
    }

    /// Stops hearing of folders that no other watch needs.
    async fn unwatch(&self, folders: Vec<PathBuf>) {
        let is_free = |folder: &PathBuf| !self.held.values().any(|held| held.folders.contains(folder));
        let free: Vec<_> = folders.into_iter().filter(is_free).collect();
        let watcher = self.watcher.clone();
        let unwatched = blocking(move || {
            if let Some(watcher) = &mut *lock(&watcher) {
                for folder in free {
                    // It may be gone from the disk as well.
                    let _ = watcher.unwatch(&folder);
                }
            }
        });
        if let Err(failure) = unwatched.await {
            tracing::warn!(%failure, "folders are still watched");
        }
    }

    /// Whose rights count; none when they are gone.
    async fn reader(&self, grant: &WatchGrant) -> Option<Reader> {
        match grant {
            WatchGrant::Local => Some(Reader::Local),
            WatchGrant::Unknown => Some(Reader::Remote),
            WatchGrant::Key(key) => {
                let keys = self.service.keys.as_ref()?;
                keys.is_good_for(key, Scope::KnowledgeWrite).await.then_some(Reader::Remote)
            }
        }
    }

    async fn place(&self, watch: &Watch) -> Result<Place, Failure> {
        let Some(reader) = self.reader(&watch.grant).await else {
            return Ok(Place::Refused("the key that gave it is not good any more".into()));
        };
        let (policy, path) = (self.service.policy.reading.clone(), PathBuf::from(&watch.path));
        blocking(move || {
            let permit = policy.permit(reader);
            match permit.resolve(&path).and_then(|real| permit.open(&real)) {
                Ok(_) => Place::There(folder_at(&path)),
                Err(_) if !path.exists() && permit.covers(&path) => Place::Missing,
                Err(reason) => Place::Refused(reason),
            }
        })
        .await
    }

    /// Finds the files behind what changed.
    async fn begin(&mut self) {
        let Pending { paths, is_everything } = std::mem::take(&mut *lock(&self.ear.pending));
        if is_everything {
            self.unread.extend(self.held.keys());
        }
        let mut changed = Vec::new();
        for (key, held) in &self.held {
            let is_read = self.jobs.iter().any(|job| job.watch.key == *key && job.is_whole);
            if self.unread.contains(key) && !is_read {
                changed.push((*key, vec![PathBuf::from(&held.watch.path)], true));
                continue;
            }
            let heard: Vec<_> = paths.iter().filter(|path| held.hears_of(path)).cloned().collect();
            if !heard.is_empty() {
                changed.push((*key, heard, false));
            }
        }
        for (key, paths, is_whole) in changed {
            match self.find(key, paths, is_whole).await {
                Ok(job) => {
                    if is_whole {
                        self.unread.remove(&key);
                    }
                    self.jobs.extend(job);
                }
                Err(failure) => self.try_again(key, &failure),
            }
        }
    }

    /// Takes in a few files of the first job. The others have their turn before the rest: a large folder keeps no small change
    /// waiting.
    async fn go_on(&mut self) {
        let Some(mut job) = self.jobs.pop_front() else { return };
        // It may have been taken away meanwhile.
        if !self.held.contains_key(&job.watch.key) || self.reader(&job.watch.grant).await.is_none() {
            return;
        }
        match self.service.take_in_some(&mut job).await {
            Ok(true) => {}
            Ok(false) => self.jobs.push_back(job),
            Err(failure) => self.try_again(job.watch.key, &failure),
        }
    }

    fn try_again(&mut self, key: i64, failure: &Failure) {
        tracing::warn!(%failure, "changes of a watched folder were not taken in; they are tried again");
        self.unread.insert(key);
    }

    /// The files behind paths of a watch; from now on the system tells what happens to them.
    async fn find(&mut self, key: i64, paths: Vec<PathBuf>, is_whole: bool) -> Result<Option<Job>, Failure> {
        let Some((watch, filled)) = self.held.get(&key).map(|held| (held.watch.clone(), held.filled)) else {
            return Ok(None);
        };
        let Some(reader) = self.reader(&watch.grant).await else { return Ok(None) };
        let collections = self.service.store.collections(None).await?;
        let Some(collection) = collections.into_iter().find(|found| found.key == watch.collection) else {
            return Ok(None);
        };
        let (policy, roots) = (self.service.policy.reading.clone(), paths.clone());
        let limits = WalkLimits::of(reader, self.service.policy.max_file_bytes);
        let mut listening = Listening {
            stopping: self.service.stopping.clone(),
            watcher: self.watcher.clone(),
            ear: self.ear.clone(),
            folders: HashSet::new(),
            is_told: false,
        };
        let (root, patterns) = (PathBuf::from(&watch.path), watch.patterns.clone());
        let (permit, walked, folders, is_there, with_files) = blocking(move || {
            let permit = policy.permit(reader);
            if root.is_file() {
                // A file that is replaced by another of its name is seen by its folder only.
                root.parent().into_iter().for_each(|folder| listening.enter(folder));
            }
            let there: Vec<_> = roots.into_iter().filter(|root| root.exists()).collect();
            let walked = walk(&permit, &there, Selection::within(&patterns, &root), limits, &mut listening);
            (Arc::new(permit), walked, listening.folders, root.exists(), folder_with_files(&root))
        })
        .await?;
        self.keep_folders(key, folders, is_there).await;
        let filled = with_files.or(filled);
        if let Some(held) = self.held.get_mut(&key) {
            held.filled = filled;
        }
        for notice in &walked.notices {
            tracing::warn!(path = watch.path, "{notice}");
        }
        let (seen, intake) = (walked.seen(), self.service.intake_into(collection, permit));
        Ok(Some(Job { watch, is_whole, intake, found: walked.found.into(), paths, seen, filled }))
    }

    /// Remembers which folders belong to a watch, and forgets those that are gone.
    async fn keep_folders(&mut self, key: i64, new: HashSet<PathBuf>, is_there: bool) {
        let Some(held) = self.held.get_mut(&key) else { return };
        // When it comes back it is another folder, which has to be watched anew.
        held.is_there = is_there;
        held.folders.extend(new);
        let known: Vec<_> = held.folders.iter().cloned().collect();
        let gone = blocking(move || known.into_iter().filter(|folder| !folder.is_dir()).collect::<Vec<_>>());
        let Ok(gone) = gone.await else { return };
        if let Some(held) = self.held.get_mut(&key) {
            held.folders.retain(|folder| !gone.contains(folder));
        }
        self.unwatch(gone).await;
    }
}

impl KnowledgeService {
    /// Takes in some files of a job; tells whether that was all.
    async fn take_in_some(&self, job: &mut Job) -> Result<bool, Failure> {
        let batch: Vec<_> = job.found.drain(..job.found.len().min(BATCH)).collect();
        for report in self.add_found(&mut job.intake, batch, &Unwatched).await?.files {
            tracing::debug!(path = report.path, outcome = ?report.outcome, "a watched file was looked at");
        }
        if !job.found.is_empty() {
            return Ok(false);
        }
        let (root, filled) = (PathBuf::from(&job.watch.path), job.filled);
        let is_away = || {
            let root = root.clone();
            blocking(move || away(&root, filled).is_some())
        };
        if is_away().await? {
            return Ok(true);
        }
        let gone = self.vanished(&job.intake, &job.paths, &job.seen).await?;
        // The folder may have gone while its files were looked for.
        if gone.is_empty() || is_away().await? {
            return Ok(true);
        }
        for report in self.remove_gone(gone).await? {
            tracing::debug!(path = report.path, "a watched file is gone");
        }
        Ok(true)
    }

    /// Why a watched folder is not followed at the moment, if it is not there. A drive may not be plugged in.
    pub async fn watch_notice(&self, watch: &Watch) -> Result<Option<String>, Failure> {
        let reader = if watch.grant == WatchGrant::Local { Reader::Local } else { Reader::Remote };
        let (policy, path) = (self.policy.reading.clone(), PathBuf::from(&watch.path));
        let why = blocking(move || away(&path, None).filter(|_| policy.permit(reader).covers(&path))).await?;
        Ok(match why {
            Some(Away::Missing) => Some("is not there; its documents are kept".into()),
            Some(Away::Empty) if self.has_documents_below(watch.collection, &watch.path).await? => {
                Some("is empty; its documents are kept".into())
            }
            _ => None,
        })
    }
}

/// How a folder can be away, with all its files.
pub(super) enum Away {
    Missing,
    /// As the place of a drive that is not plugged in.
    Empty,
}

/// Whether a folder is away. One that is empty is, unless it is the same that had files: then they were deleted.
pub(super) fn away(root: &Path, filled: Option<FolderId>) -> Option<Away> {
    let Ok(metadata) = std::fs::metadata(root) else { return Some(Away::Missing) };
    let is_empty = metadata.is_dir() && !has_entries(root);
    let is_same = filled.is_some() && filled == id_of(&metadata);
    (is_empty && !is_same).then_some(Away::Empty)
}

fn has_entries(folder: &Path) -> bool {
    std::fs::read_dir(folder).is_ok_and(|mut entries| entries.next().is_some())
}

fn folder_with_files(root: &Path) -> Option<FolderId> {
    folder_at(root).filter(|_| has_entries(root))
}

/// Which folder is at a path.
fn folder_at(path: &Path) -> Option<FolderId> {
    std::fs::metadata(path).ok().filter(std::fs::Metadata::is_dir).as_ref().and_then(id_of)
}

#[cfg(unix)]
fn id_of(metadata: &std::fs::Metadata) -> Option<FolderId> {
    use std::os::unix::fs::MetadataExt as _;
    Some((metadata.dev(), metadata.ino()))
}

#[cfg(not(unix))]
fn id_of(_: &std::fs::Metadata) -> Option<FolderId> {
    None
}

impl Held {
    /// Whether a path is one of this watch.
    fn hears_of(&self, path: &Path) -> bool {
        let root = Path::new(&self.watch.path);
        path == root
            || path.starts_with(root)
            // A folder that a link leads to is somewhere else.
            || (path.parent().is_some_and(|folder| self.folders.contains(folder))
                && root.parent() != path.parent())
    }
}

/// Listens to every folder before it is read, so that nothing is missed in between.
struct Listening {
    stopping: Stopping,
    watcher: Arc<Mutex<Option<RecommendedWatcher>>>,
    ear: Arc<Ear>,
    folders: HashSet<PathBuf>,
    /// Whether it was said that a folder cannot be watched.
    is_told: bool,
}

impl Walking for Listening {
    fn is_stopped(&self) -> bool {
        self.stopping.is_set()
    }

    fn enter(&mut self, folder: &Path) {
        let mut watcher = lock(&self.watcher);
        if watcher.is_none() {
            let ear = self.ear.clone();
            *watcher = notify::recommended_watcher(move |event| ear.hear(event))
                .inspect_err(|error| tracing::warn!(%error, "folders cannot be watched"))
                .ok();
        }
        let Some(watcher) = &mut *watcher else { return };
        match watcher.watch(folder, RecursiveMode::NonRecursive) {
            Ok(()) => drop(self.folders.insert(folder.into())),
            Err(error) if !self.is_told => {
                self.is_told = true;
                tracing::warn!(%error, path = %folder.display(), "this folder, and perhaps more, is not watched; changes there are seen when it is added again");
            }
            Err(_) => {}
        }
    }
}
