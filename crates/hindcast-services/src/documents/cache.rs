//! Documents that have been read, as long as there is room.

use std::{
    collections::HashMap,
    path::{Path, PathBuf},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use hindcast_core::Timestamp;
use hindcast_xml::Document;

use super::files::FileStamp;
use crate::Failure;

/// A document in the cache, for people.
#[derive(Debug, Clone)]
pub struct CachedDocument {
    /// What `xpath_query` and `validate_schema` also take for the path.
    pub id: String,
    /// The file.
    pub path: PathBuf,
    /// The memory it takes.
    pub bytes: usize,
    /// Its nodes, attributes apart.
    pub nodes: usize,
    /// When it was read.
    pub loaded_at: Timestamp,
    /// How often it was used since.
    pub hits: u64,
}

/// How well the cache does.
#[derive(Debug, Clone, Copy, Default)]
pub struct Counts {
    /// Documents that were there.
    pub hits: u64,
    /// Documents that had to be read.
    pub misses: u64,
    /// Documents that were dropped for room.
    pub evictions: u64,
    /// Documents that were read again because the file had changed.
    pub reloads: u64,
    /// The memory that all take.
    pub bytes: usize,
}

/// The cache. A document is read by whoever needs it first; others wait for that.
pub(super) struct DocumentCache {
    max_bytes: usize,
    inner: Mutex<Inner>,
}

#[derive(Default)]
struct Inner {
    places: HashMap<PathBuf, Place>,
    counts: Counts,
    uses: u64,
    last_id: u64,
}

struct Place {
    id: u64,
    /// Locked while it is read.
    slot: Arc<Mutex<Option<Loaded>>>,
    /// What is known of the document without the lock.
    known: Option<Known>,
    last_use: u64,
}

#[derive(Clone)]
struct Loaded {
    document: Arc<Document>,
    stamp: FileStamp,
}

struct Known {
    bytes: usize,
    nodes: usize,
    loaded_at: Timestamp,
    hits: u64,
}

/// A document, and whether it was there already.
pub(super) struct Fetched {
    pub(super) id: String,
    pub(super) document: Arc<Document>,
    pub(super) was_cached: bool,
}

impl DocumentCache {
    pub(super) fn new(max_bytes: usize) -> Self {
        Self { max_bytes, inner: Mutex::default() }
    }

    pub(super) fn max_bytes(&self) -> usize {
        self.max_bytes
    }

    /// The file behind an id that the cache gave out.
    pub(super) fn path_of(&self, id: &str) -> Option<PathBuf> {
        let number: u64 = id.strip_prefix("doc-")?.parse().ok()?;
        self.inner().places.iter().find(|(_, place)| place.id == number).map(|(path, _)| path.clone())
    }

    /// The document of a file in its present state, read by `read` unless it is there.
    pub(super) fn fetch(
        &self,
        path: &Path,
        stamp: &FileStamp,
        now: Timestamp,
        read: impl FnOnce() -> Result<Document, Failure>,
    ) -> Result<Fetched, Failure> {
        let (id, slot) = self.place(path);
        let mut held = slot.lock().unwrap_or_else(PoisonError::into_inner);
        let id = format!("doc-{id}");
        if let Some(loaded) = held.as_ref().filter(|loaded| loaded.stamp == *stamp) {
            let document = loaded.document.clone();
            drop(held);
            self.used(path);
            return Ok(Fetched { id, document, was_cached: true });
        }
        let is_reload = held.take().is_some();
        let document = match read() {
            Ok(document) => Arc::new(document),
            Err(failure) => {
                drop(held);
                self.forget(path, is_reload);
                return Err(failure);
            }
        };
        *held = Some(Loaded { document: document.clone(), stamp: stamp.clone() });
        drop(held);
        self.keep(path, &document, now, is_reload);
        Ok(Fetched { id, document, was_cached: false })
    }

    /// Counts, and what is there, the most recently used first.
    pub(super) fn contents(&self) -> (Counts, Vec<CachedDocument>) {
        let inner = self.inner();
        let mut places: Vec<_> = inner.places.iter().filter(|(_, place)| place.known.is_some()).collect();
        places.sort_by_key(|(_, place)| std::cmp::Reverse(place.last_use));
        let documents = places.into_iter().filter_map(|(path, place)| {
            let known = place.known.as_ref()?;
            Some(CachedDocument {
                id: format!("doc-{}", place.id),
                path: path.clone(),
                bytes: known.bytes,
                nodes: known.nodes,
                loaded_at: known.loaded_at,
                hits: known.hits,
            })
        });
        (inner.counts, documents.collect())
    }

    fn inner(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn place(&self, path: &Path) -> (u64, Arc<Mutex<Option<Loaded>>>) {
        let mut inner = self.inner();
        if let Some(place) = inner.places.get(path) {
            return (place.id, place.slot.clone());
        }
        inner.last_id += 1;
        let id = inner.last_id;
        let slot = Arc::<Mutex<Option<Loaded>>>::default();
        inner.places.insert(path.to_owned(), Place { id, slot: slot.clone(), known: None, last_use: 0 });
        (id, slot)
    }

    fn used(&self, path: &Path) {
        let mut inner = self.inner();
        inner.counts.hits += 1;
        inner.uses += 1;
        let uses = inner.uses;
        if let Some(place) = inner.places.get_mut(path) {
            place.last_use = uses;
            if let Some(known) = &mut place.known {
                known.hits += 1;
            }
        }
    }

    /// Makes room for a document that was read; one that is larger than all room is not kept.
    fn keep(&self, path: &Path, document: &Document, now: Timestamp, is_reload: bool) {
        let mut inner = self.inner();
        inner.counts.misses += 1;
        inner.counts.reloads += u64::from(is_reload);
        inner.uses += 1;
        let uses = inner.uses;
        let bytes = document.bytes();
        let known = Known { bytes, nodes: document.node_count(), loaded_at: now, hits: 0 };
        if let Some(place) = inner.places.get_mut(path) {
            place.last_use = uses;
            let before = place.known.replace(known).map_or(0, |known| known.bytes);
            inner.counts.bytes = inner.counts.bytes + bytes - before;
        }
        while inner.counts.bytes > self.max_bytes {
            let loaded = inner.places.iter().filter(|(_, place)| place.known.is_some());
            let Some(oldest) = loaded.min_by_key(|(_, place)| place.last_use).map(|(path, _)| path.clone())
            else {
                break;
            };
            let dropped = inner.places.remove(&oldest).and_then(|place| place.known);
            inner.counts.bytes -= dropped.map_or(0, |known| known.bytes);
            inner.counts.evictions += 1;
        }
    }

    fn forget(&self, path: &Path, had_document: bool) {
        let mut inner = self.inner();
        inner.counts.misses += 1;
        inner.counts.reloads += u64::from(had_document);
        if let Some(known) = inner.places.remove(path).and_then(|place| place.known) {
            inner.counts.bytes -= known.bytes;
        }
    }
}
