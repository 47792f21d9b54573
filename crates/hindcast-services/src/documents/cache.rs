//! Documents that have been read, as long as there is room.

use std::{
    collections::HashMap,
    path::{Path, PathBuf},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use hindcast_core::{Timestamp, identity::PrincipalId};
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
    /// The same for each reader; the memory is that of what they see.
    counts_of: HashMap<PrincipalId, Counts>,
    uses: u64,
    last_id: u64,
}

struct Place {
    id: u64,
    /// Locked while it is read.
    slot: Arc<Mutex<Option<Loaded>>>,
    /// What is known of the document without the lock.
    known: Option<Known>,
    /// Who has used it, and how often since it was read.
    readers: HashMap<PrincipalId, u64>,
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

    /// The document of a file in its present state for `reader`, read by `read` unless it is there.
    pub(super) fn fetch(
        &self,
        reader: &PrincipalId,
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
            self.used(reader, path);
            return Ok(Fetched { id, document, was_cached: true });
        }
        let is_reload = held.take().is_some();
        let document = match read() {
            Ok(document) => Arc::new(document),
            Err(failure) => {
                drop(held);
                self.forget(reader, path, is_reload);
                return Err(failure);
            }
        };
        *held = Some(Loaded { document: document.clone(), stamp: stamp.clone() });
        drop(held);
        self.keep(reader, path, &document, now, is_reload);
        Ok(Fetched { id, document, was_cached: false })
    }

    /// Counts, and what is there, the most recently used first; of one reader or of all.
    pub(super) fn contents(&self, reader: Option<&PrincipalId>) -> (Counts, Vec<CachedDocument>) {
        let inner = self.inner();
        let is_seen = |place: &Place| {
            place.known.is_some() && reader.is_none_or(|reader| place.readers.contains_key(reader))
        };
        let mut places: Vec<_> = inner.places.iter().filter(|(_, place)| is_seen(place)).collect();
        places.sort_by_key(|(_, place)| std::cmp::Reverse(place.last_use));
        let documents = places.into_iter().filter_map(|(path, place)| {
            let known = place.known.as_ref()?;
            Some(CachedDocument {
                id: format!("doc-{}", place.id),
                path: path.clone(),
                bytes: known.bytes,
                nodes: known.nodes,
                loaded_at: known.loaded_at,
                hits: reader.map_or(known.hits, |reader| place.readers.get(reader).copied().unwrap_or(0)),
            })
        });
        let documents: Vec<_> = documents.collect();
        let counts = match reader {
            None => inner.counts,
            Some(reader) => Counts {
                bytes: documents.iter().map(|document| document.bytes).sum(),
                ..inner.counts_of.get(reader).copied().unwrap_or_default()
            },
        };
        (counts, documents)
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
        inner.places.insert(
            path.to_owned(),
            Place { id, slot: slot.clone(), known: None, readers: HashMap::new(), last_use: 0 },
        );
        (id, slot)
    }

    fn used(&self, reader: &PrincipalId, path: &Path) {
        let mut inner = self.inner();
        inner.count(reader, |counts| counts.hits += 1);
        inner.uses += 1;
        let uses = inner.uses;
        if let Some(place) = inner.places.get_mut(path) {
            place.last_use = uses;
            if let Some(known) = &mut place.known {
                known.hits += 1;
            }
            *place.readers.entry(reader.clone()).or_default() += 1;
        }
    }

    /// Makes room for a document that was read; one that is larger than all room is not kept.
    fn keep(&self, reader: &PrincipalId, path: &Path, document: &Document, now: Timestamp, is_reload: bool) {
        let mut inner = self.inner();
        inner.read(reader, is_reload);
        let bytes = document.bytes();
        if bytes > self.max_bytes {
            inner.remove(path);
            return;
        }
        inner.uses += 1;
        let uses = inner.uses;
        let known = Known { bytes, nodes: document.node_count(), loaded_at: now, hits: 0 };
        if let Some(place) = inner.places.get_mut(path) {
            place.last_use = uses;
            place.readers.insert(reader.clone(), 0);
            place.readers.values_mut().for_each(|hits| *hits = 0);
            let before = place.known.replace(known).map_or(0, |known| known.bytes);
            inner.counts.bytes = inner.counts.bytes + bytes - before;
        }
        while inner.counts.bytes > self.max_bytes {
            let loaded = inner.places.iter().filter(|(_, place)| place.known.is_some());
            let Some(oldest) = loaded.min_by_key(|(_, place)| place.last_use).map(|(path, _)| path.clone())
            else {
                break;
            };
            let readers = inner.remove(&oldest);
            inner.counts.evictions += 1;
            for reader in readers {
                inner.counts_of.entry(reader).or_default().evictions += 1;
            }
        }
    }

    fn forget(&self, reader: &PrincipalId, path: &Path, had_document: bool) {
        let mut inner = self.inner();
        inner.read(reader, had_document);
        inner.remove(path);
    }
}

impl Inner {
    /// Gives who has used it.
    fn remove(&mut self, path: &Path) -> Vec<PrincipalId> {
        let Some(place) = self.places.remove(path) else { return Vec::new() };
        self.counts.bytes -= place.known.map_or(0, |known| known.bytes);
        place.readers.into_keys().collect()
    }

    fn read(&mut self, reader: &PrincipalId, is_reload: bool) {
        self.count(reader, |counts| {
            counts.misses += 1;
            counts.reloads += u64::from(is_reload);
        });
    }

    fn count(&mut self, reader: &PrincipalId, count: impl Fn(&mut Counts)) {
        count(&mut self.counts);
        count(self.counts_of.entry(reader.clone()).or_default());
    }
}

#[cfg(test)]
mod tests {
    use std::{
        sync::{
            atomic::{AtomicUsize, Ordering},
            mpsc,
        },
        thread,
    };

    use hindcast_xml::Limits;

    use super::*;
    use crate::{FailureKind, documents::FilePolicy};

    /// A cache, and files that are read into it.
    struct Shelf {
        cache: DocumentCache,
        folder: tempfile::TempDir,
        reads: AtomicUsize,
    }

    impl Shelf {
        fn new(max_bytes: usize) -> Self {
            Self {
                cache: DocumentCache::new(max_bytes),
                folder: tempfile::tempdir().unwrap(),
                reads: AtomicUsize::new(0),
            }
        }

        /// A document with so many elements below its root.
        fn write(&self, name: &str, elements: usize) {
            std::fs::write(self.folder.path().join(name), document_text(elements)).unwrap();
        }

        /// Whether the document was there, and its nodes.
        fn fetch(&self, name: &str) -> Result<(bool, usize), Failure> {
            self.fetch_after(name, || ())
        }

        /// As `fetch`, but before the file is read something else happens.
        fn fetch_after(&self, name: &str, before: impl FnOnce()) -> Result<(bool, usize), Failure> {
            let policy = FilePolicy { folders: vec![self.folder.path().to_owned()], max_bytes: 1 << 20 };
            let opened = policy.open(name)?;
            let (path, stamp) = (opened.path.clone(), opened.stamp.clone());
            let fetched =
                self.cache.fetch(&PrincipalId::local(), &path, &stamp, Timestamp::UNIX_EPOCH, || {
                    before();
                    self.reads.fetch_add(1, Ordering::SeqCst);
                    crate::documents::load_document(opened, &policy)
                })?;
            Ok((fetched.was_cached, fetched.document.node_count()))
        }

        fn reads(&self) -> usize {
            self.reads.load(Ordering::SeqCst)
        }

        /// The names of all documents, the most recently used first.
        fn names(&self) -> Vec<String> {
            let documents = self.cache.contents(None).1;
            documents.iter().map(|kept| kept.path.file_name().unwrap().display().to_string()).collect()
        }
    }

    fn document_text(elements: usize) -> String {
        format!("<a>{}</a>", "<b/>".repeat(elements))
    }

    fn bytes_of(elements: usize) -> usize {
        hindcast_xml::read(document_text(elements), &Limits::default()).unwrap().bytes()
    }

    #[test]
    fn a_document_is_read_once_and_every_use_is_counted() {
        let shelf = Shelf::new(1 << 20);
        shelf.write("one.xml", 5);
        let (first, second, third) = (shelf.fetch("one.xml"), shelf.fetch("one.xml"), shelf.fetch("one.xml"));
        let nodes = first.unwrap().1;
        assert_eq!((second.unwrap(), third.unwrap()), ((true, nodes), (true, nodes)));
        assert_eq!(shelf.reads(), 1);
        let (counts, documents) = shelf.cache.contents(None);
        assert_eq!((counts.hits, counts.misses, counts.evictions, counts.reloads), (2, 1, 0, 0));
        assert_eq!((documents[0].hits, documents[0].nodes), (2, nodes));
        assert_eq!((counts.bytes, documents[0].bytes), (bytes_of(5), bytes_of(5)));
        assert_eq!(shelf.cache.path_of(&documents[0].id).as_ref(), Some(&documents[0].path));
    }

    #[test]
    fn what_was_used_longest_ago_makes_room() {
        let shelf = Shelf::new(bytes_of(100) * 5 / 2);
        for name in ["one.xml", "two.xml", "three.xml"] {
            shelf.write(name, 100);
        }
        for name in ["one.xml", "two.xml", "one.xml", "three.xml"] {
            shelf.fetch(name).unwrap();
        }
        assert_eq!(shelf.names(), ["three.xml", "one.xml"]);
        let counts = shelf.cache.contents(None).0;
        assert_eq!((counts.evictions, counts.bytes), (1, 2 * bytes_of(100)));
        assert!(!shelf.fetch("two.xml").unwrap().0, "it is read again");
        assert_eq!(shelf.names(), ["two.xml", "three.xml"]);
    }

    #[test]
    fn the_memory_never_exceeds_its_bound() {
        let bound = bytes_of(1000);
        let shelf = Shelf::new(bound);
        for round in 0..200_usize {
            let name = format!("{}.xml", round % 7);
            shelf.write(&name, (round * 37) % 1200);
            shelf.fetch(&name).unwrap();
            let (counts, documents) = shelf.cache.contents(None);
            assert!(counts.bytes <= bound, "{counts:?}");
            assert_eq!(counts.bytes, documents.iter().map(|kept| kept.bytes).sum::<usize>());
        }
        assert!(shelf.cache.contents(None).0.evictions > 0);
    }

    #[test]
    fn a_document_larger_than_all_room_drives_nothing_out() {
        let shelf = Shelf::new(bytes_of(100));
        shelf.write("small.xml", 50);
        shelf.write("large.xml", 200);
        shelf.fetch("small.xml").unwrap();
        for _ in 0..2 {
            assert_eq!(shelf.fetch("large.xml").unwrap(), (false, 202), "it is answered, but not kept");
        }
        assert_eq!(shelf.names(), ["small.xml"]);
        // One that has grown out of it goes.
        shelf.write("small.xml", 300);
        shelf.fetch("small.xml").unwrap();
        let (counts, documents) = shelf.cache.contents(None);
        assert_eq!((counts.bytes, counts.evictions, documents.len()), (0, 0, 0));
    }

    #[test]
    fn a_file_that_changed_is_read_again() {
        let shelf = Shelf::new(1 << 20);
        shelf.write("one.xml", 1);
        shelf.fetch("one.xml").unwrap();
        let id = shelf.cache.contents(None).1[0].id.clone();
        shelf.write("one.xml", 2);
        assert_eq!(shelf.fetch("one.xml").unwrap(), (false, 4));
        assert_eq!(shelf.fetch("one.xml").unwrap(), (true, 4));
        let (counts, documents) = shelf.cache.contents(None);
        assert_eq!((counts.reloads, counts.misses, counts.hits), (1, 2, 1));
        assert_eq!(counts.bytes, bytes_of(2), "the old one is not counted any more");
        assert_eq!((&documents[0].id, documents[0].hits), (&id, 1));
    }

    #[test]
    fn what_cannot_be_read_any_more_is_forgotten() {
        let shelf = Shelf::new(1 << 20);
        shelf.write("one.xml", 1);
        shelf.fetch("one.xml").unwrap();
        std::fs::write(shelf.folder.path().join("one.xml"), "<broken").unwrap();
        assert_eq!(shelf.fetch("one.xml").unwrap_err().kind, FailureKind::InvalidInput);
        let (counts, documents) = shelf.cache.contents(None);
        assert_eq!((counts.bytes, counts.misses, documents.len()), (0, 2, 0));
        shelf.write("one.xml", 3);
        assert_eq!(shelf.fetch("one.xml").unwrap(), (false, 5));
    }

    #[test]
    fn concurrent_readers_share_one_reading() {
        const READERS: usize = 8;
        let shelf = Shelf::new(1 << 20);
        shelf.write("one.xml", 5);
        let arrived = AtomicUsize::new(0);
        thread::scope(|scope| {
            for _ in 0..READERS {
                scope.spawn(|| {
                    arrived.fetch_add(1, Ordering::SeqCst);
                    // Whoever reads does not end before all others want the same.
                    let wait = || {
                        while arrived.load(Ordering::SeqCst) < READERS {
                            thread::yield_now()
                        }
                    };
                    shelf.fetch_after("one.xml", wait).unwrap();
                });
            }
        });
        let counts = shelf.cache.contents(None).0;
        assert_eq!((shelf.reads(), counts.misses, counts.hits), (1, 1, READERS as u64 - 1));
    }

    #[test]
    fn readers_of_other_documents_do_not_wait() {
        let shelf = Shelf::new(1 << 20);
        shelf.write("slow.xml", 5);
        shelf.write("quick.xml", 5);
        let (begun, has_begun) = mpsc::channel();
        let (end, may_end) = mpsc::channel::<()>();
        thread::scope(|scope| {
            let slow = scope.spawn(|| {
                shelf.fetch_after("slow.xml", move || {
                    begun.send(()).unwrap();
                    may_end.recv().unwrap();
                })
            });
            has_begun.recv().unwrap();
            assert!(!shelf.fetch("quick.xml").unwrap().0);
            assert_eq!(shelf.names(), ["quick.xml"], "what is being read is not there yet");
            end.send(()).unwrap();
            slow.join().unwrap().unwrap();
        });
        assert_eq!(shelf.names(), ["slow.xml", "quick.xml"]);
    }
}
