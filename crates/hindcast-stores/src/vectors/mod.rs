//! Near vectors by usearch, derived from the truth.
//!
//! Every collection has segments of its own, so that a search in one costs what that one costs and a collection that goes
//! takes its files with it. A kept segment is a file that is mapped, never changed: opening a million vectors reads next
//! to nothing. New vectors grow in memory until the commit; removed ones are struck off a list until a segment is mostly
//! holes and is made anew.

mod manifest;
mod segment;

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    num::NonZero,
    path::{Path, PathBuf},
    sync::{Condvar, Mutex, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard},
};

use hindcast_core::knowledge::{
    ChunkId, CollectionKey, Generation, IndexError, ScoredChunk, VectorEntry, VectorRead, VectorWrite,
};

use manifest::Manifest;
use segment::{Segment, SegmentRecord};

/// A segment of this many vectors is full. Each search looks into all segments, so larger is faster to search; a commit
/// writes the last one whole, so smaller is cheaper to change.
const FULL_SEGMENT: usize = 1 << 16;

/// So many are added at once. Searches wait meanwhile: one that ran beside would miss what is being linked anew.
const BATCH: usize = 256;

/// The vectors in a folder.
pub struct VectorIndex {
    folder: PathBuf,
    model: String,
    dimension: usize,
    threads: usize,
    vectors: RwLock<Vectors>,
    /// Held while something is changed; searches go on between its steps.
    changing: Mutex<()>,
    searches: Gate,
}

/// All segments, by collection.
#[derive(Default)]
struct Vectors {
    collections: BTreeMap<CollectionKey, Vec<Segment>>,
    generation: Option<Generation>,
    /// Numbers the files; a name is never used twice.
    next_name: u64,
}

impl VectorIndex {
    /// Opens the vectors of one model, making the folder the first time. Vectors of another model, or such that cannot be
    /// read, are left behind: the index is then empty and has no generation.
    pub fn open(folder: &Path, model: &str, dimension: usize) -> Result<Self, IndexError> {
        fs::create_dir_all(folder).map_err(|error| IndexError::Unavailable(error.to_string()))?;
        let cores = std::thread::available_parallelism().map_or(1, NonZero::get);
        let index = Self {
            folder: folder.into(),
            model: model.into(),
            dimension,
            // As many searches as cores, and as many additions besides.
            threads: 2 * cores,
            vectors: RwLock::default(),
            changing: Mutex::new(()),
            searches: Gate::of(cores),
        };
        let kept = match index.read() {
            Ok(vectors) => vectors,
            Err(error) => {
                tracing::warn!("{error}; it is made again");
                Vectors::default()
            }
        };
        *index.writing() = kept;
        Ok(index)
    }

    fn read(&self) -> Result<Vectors, IndexError> {
        let Some(manifest) = Manifest::read(&self.folder, &self.model, self.dimension)? else {
            return Ok(Vectors::default());
        };
        let mut collections: BTreeMap<CollectionKey, Vec<Segment>> = BTreeMap::new();
        for (collection, records) in &manifest.collections {
            let open =
                |record: &SegmentRecord| Segment::open(&self.folder, record, self.dimension, self.threads);
            let segments = records.iter().map(open).collect::<Result<_, _>>()?;
            collections.insert(CollectionKey(*collection), segments);
        }
        let generation = Some(Generation(manifest.generation));
        manifest.remove_other_files(&self.folder);
        Ok(Vectors { collections, generation, next_name: manifest.next_name })
    }

    fn reading(&self) -> RwLockReadGuard<'_, Vectors> {
        self.vectors.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn writing(&self) -> RwLockWriteGuard<'_, Vectors> {
        self.vectors.write().unwrap_or_else(PoisonError::into_inner)
    }

    fn check_dimension(&self, vector: &[f32]) -> Result<(), IndexError> {
        if vector.len() == self.dimension {
            return Ok(());
        }
        Err(IndexError::Dimension { expected: self.dimension, given: vector.len() })
    }

    /// Adds to one collection.
    fn add_to(&self, collection: CollectionKey, entries: &[VectorEntry<'_>]) -> Result<(), IndexError> {
        for batch in entries.chunks(BATCH) {
            let chunks: Vec<ChunkId> = batch.iter().map(|entry| entry.chunk).collect();
            let mut vectors = self.writing();
            let segments = vectors.collections.entry(collection).or_default();
            for segment in segments.iter_mut() {
                for &chunk in &chunks {
                    segment.remove(chunk)?;
                }
            }
            let growing = self.growing(segments)?;
            growing.reserve(&chunks, self.threads)?;
            add_on_all_cores(growing, batch)?;
        }
        Ok(())
    }

    /// The segment that takes new vectors: the last, unless it is full.
    fn growing<'a>(&self, segments: &'a mut Vec<Segment>) -> Result<&'a mut Segment, IndexError> {
        match segments.last() {
            Some(last) if last.len() < FULL_SEGMENT => {
                if !last.is_growing() {
                    let grown = last.grow(self.dimension, self.threads)?;
                    segments.pop();
                    segments.push(grown);
                }
            }
            _ => segments.push(Segment::new(self.dimension, self.threads)?),
        }
        segments.last_mut().ok_or_else(|| IndexError::Unavailable("no segment".into()))
    }

    /// Moves what is left of sparse segments to the growing one.
    fn tighten(&self) -> Result<(), IndexError> {
        let mut moved = Vec::new();
        {
            let mut vectors = self.writing();
            for (&collection, segments) in &mut vectors.collections {
                for sparse in segments.extract_if(.., |segment| segment.is_sparse()) {
                    let chunks = sparse.chunks()?;
                    let kept =
                        chunks.into_iter().map(|chunk| Ok((chunk, sparse.vector(chunk, self.dimension)?)));
                    moved.push((collection, kept.collect::<Result<Vec<_>, IndexError>>()?));
                }
            }
        }
        for (collection, kept) in &moved {
            let entries: Vec<VectorEntry<'_>> = kept
                .iter()
                .map(|(chunk, vector)| VectorEntry { chunk: *chunk, collection: *collection, vector })
                .collect();
            self.add_to(*collection, &entries)?;
        }
        Ok(())
    }

    /// Writes the segments that are not on disk yet. Searches go on meanwhile.
    fn keep_segments(&self, generation: Generation) -> Result<Manifest, IndexError> {
        let vectors = self.reading();
        let mut manifest = Manifest::new(&self.model, self.dimension, generation.0);
        manifest.next_name = vectors.next_name;
        for (collection, segments) in &vectors.collections {
            let mut records = Vec::new();
            for segment in segments.iter().filter(|segment| segment.len() > 0) {
                records.push(segment.keep(&self.folder, &manifest.next_name.to_string())?);
                manifest.next_name += 1;
            }
            if !records.is_empty() {
                manifest.collections.insert(collection.0, records);
            }
        }
        Ok(manifest)
    }
}

impl VectorRead for VectorIndex {
    fn nearest(
        &self,
        query: &[f32],
        within: Option<&[CollectionKey]>,
        limit: usize,
    ) -> Result<Vec<ScoredChunk>, IndexError> {
        self.check_dimension(query)?;
        if limit == 0 {
            return Ok(Vec::new());
        }
        let _place = self.searches.enter();
        let vectors = self.reading();
        let mut nearest = Vec::new();
        for (collection, segments) in &vectors.collections {
            if within.is_some_and(|within| !within.contains(collection)) {
                continue;
            }
            for segment in segments.iter().filter(|segment| segment.len() > 0) {
                nearest.extend(segment.nearest(query, limit)?);
            }
        }
        nearest.sort_by(|one, other| other.score.total_cmp(&one.score).then(one.chunk.cmp(&other.chunk)));
        nearest.truncate(limit);
        Ok(nearest)
    }

    fn len(&self) -> usize {
        self.reading().collections.values().flatten().map(Segment::len).sum()
    }

    fn stored_bytes(&self, collection: CollectionKey) -> u64 {
        self.reading().collections.get(&collection).into_iter().flatten().map(Segment::bytes).sum()
    }
}

impl VectorWrite for VectorIndex {
    fn add(&self, entries: &[VectorEntry<'_>]) -> Result<(), IndexError> {
        entries.iter().try_for_each(|entry| self.check_dimension(entry.vector))?;
        let _changing = self.changing.lock().unwrap_or_else(PoisonError::into_inner);
        let mut by_collection: BTreeMap<CollectionKey, BTreeMap<ChunkId, VectorEntry<'_>>> = BTreeMap::new();
        for entry in entries {
            by_collection.entry(entry.collection).or_default().insert(entry.chunk, *entry);
        }
        for (collection, entries) in by_collection {
            self.add_to(collection, &entries.into_values().collect::<Vec<_>>())?;
        }
        Ok(())
    }

    fn remove(&self, collection: CollectionKey, chunks: &[ChunkId]) -> Result<(), IndexError> {
        let _changing = self.changing.lock().unwrap_or_else(PoisonError::into_inner);
        let mut vectors = self.writing();
        let Some(segments) = vectors.collections.get_mut(&collection) else { return Ok(()) };
        for &chunk in chunks {
            for segment in segments.iter_mut() {
                if segment.remove(chunk)? {
                    break;
                }
            }
        }
        Ok(())
    }

    fn remove_collection(&self, collection: CollectionKey) -> Result<(), IndexError> {
        let _changing = self.changing.lock().unwrap_or_else(PoisonError::into_inner);
        self.writing().collections.remove(&collection);
        Ok(())
    }

    fn collections(&self) -> Vec<CollectionKey> {
        let vectors = self.reading();
        let filled = vectors
            .collections
            .iter()
            .filter(|(_, segments)| segments.iter().any(|segment| segment.len() > 0));
        filled.map(|(&collection, _)| collection).collect()
    }

    fn contents(&self, collection: CollectionKey) -> Result<Vec<ChunkId>, IndexError> {
        let vectors = self.reading();
        let mut contents = BTreeSet::new();
        for segment in vectors.collections.get(&collection).into_iter().flatten() {
            contents.extend(segment.chunks()?);
        }
        Ok(contents.into_iter().collect())
    }

    fn generation(&self) -> Option<Generation> {
        self.reading().generation
    }

    fn commit(&self, generation: Generation) -> Result<(), IndexError> {
        let _changing = self.changing.lock().unwrap_or_else(PoisonError::into_inner);
        self.tighten()?;
        let manifest = self.keep_segments(generation)?;
        manifest.write(&self.folder)?;
        // From here on the new files count. What grew is mapped from them and its memory given back.
        let mut vectors = self.writing();
        vectors.collections.retain(|collection, _| manifest.collections.contains_key(&collection.0));
        for (collection, segments) in &mut vectors.collections {
            segments.retain(|segment| segment.len() > 0);
            let records = manifest.collections.get(&collection.0).into_iter().flatten();
            for (segment, record) in
                segments.iter_mut().zip(records).filter(|(segment, _)| segment.is_growing())
            {
                *segment = Segment::open(&self.folder, record, self.dimension, self.threads)?;
            }
        }
        (vectors.generation, vectors.next_name) = (Some(generation), manifest.next_name);
        drop(vectors);
        manifest.remove_other_files(&self.folder);
        Ok(())
    }
}

/// Adds what there is room for.
fn add_on_all_cores(segment: &Segment, entries: &[VectorEntry<'_>]) -> Result<(), IndexError> {
    let cores = std::thread::available_parallelism().map_or(1, NonZero::get);
    let share = entries.len().div_ceil(cores).max(32);
    std::thread::scope(|scope| {
        let add = |entries: &[VectorEntry<'_>]| {
            entries.iter().try_for_each(|entry| segment.add(entry.chunk, entry.vector))
        };
        let mut shares = entries.chunks(share);
        let own = shares.next().unwrap_or_default();
        let others: Vec<_> = shares.map(|share| scope.spawn(move || add(share))).collect();
        let mut added = add(own);
        for other in others {
            let other =
                other.join().unwrap_or_else(|_| Err(IndexError::Unavailable("a thread failed".into())));
            added = added.and(other);
        }
        added
    })
}

/// Lets so many in at a time: the engine has a place for each and refuses whoever finds none.
struct Gate {
    free: Mutex<usize>,
    left: Condvar,
}

impl Gate {
    fn of(places: usize) -> Self {
        Self { free: Mutex::new(places), left: Condvar::new() }
    }

    fn enter(&self) -> GatePlace<'_> {
        let free = self.free.lock().unwrap_or_else(PoisonError::into_inner);
        let mut free = self.left.wait_while(free, |free| *free == 0).unwrap_or_else(PoisonError::into_inner);
        *free -= 1;
        GatePlace(self)
    }
}

struct GatePlace<'a>(&'a Gate);

impl Drop for GatePlace<'_> {
    fn drop(&mut self) {
        *self.0.free.lock().unwrap_or_else(PoisonError::into_inner) += 1;
        self.0.left.notify_one();
    }
}

#[cfg(test)]
mod tests;
