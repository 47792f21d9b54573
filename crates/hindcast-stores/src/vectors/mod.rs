//! Near vectors by usearch, derived from the truth.
//!
//! Every collection has segments of its own, so that a search in one costs what that one costs and a collection that goes
//! takes its files with it. A kept segment is a file that is mapped, never changed: opening a million vectors reads next
//! to nothing. New vectors grow in memory until the commit; removed ones are struck off a list until a segment has too
//! many holes and is made anew. Each search looks into all segments, so those that are small become one.

mod manifest;
mod segment;

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    num::NonZero,
    ops::Range,
    path::{Path, PathBuf},
    sync::{Condvar, Mutex, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard},
};

use hindcast_core::knowledge::{
    ChunkId, ChunkSet, CollectionKey, Generation, IndexError, ScoredChunk, VectorEntry, VectorRead,
    VectorWrite,
};

use rayon::prelude::*;

use manifest::Manifest;
use segment::{Segment, SegmentRecord};

/// How many vectors segments have.
#[derive(Clone, Copy)]
struct Sizes {
    /// A kept segment below this takes more: a commit then writes it whole.
    small: usize,
    /// One that has this many takes no more. A search costs about the same in a large segment as in a small one, but what
    /// grows is in memory.
    full: usize,
}

const SIZES: Sizes = Sizes { small: 1 << 13, full: 1 << 17 };

/// So many are added at once. Searches wait meanwhile: one that ran beside would miss what is being linked anew.
const BATCH: usize = 256;

/// The vectors in a folder.
pub struct VectorIndex {
    folder: PathBuf,
    model: String,
    dimension: usize,
    threads: usize,
    sizes: Sizes,
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
            sizes: SIZES,
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
            let entries: Vec<_> = batch.iter().map(|entry| (entry.chunk, entry.vector)).collect();
            add_on_all_cores(growing, &entries)?;
        }
        Ok(())
    }

    /// The segment that takes new vectors: the last, unless it has enough.
    fn growing<'a>(&self, segments: &'a mut Vec<Segment>) -> Result<&'a mut Segment, IndexError> {
        match segments.last_mut() {
            Some(last) if last.is_growing() && last.len() < self.sizes.full => {}
            Some(last) if last.len() < self.sizes.small => *last = last.grow(self.dimension, self.threads)?,
            _ => segments.push(Segment::new(self.dimension, self.threads)?),
        }
        segments.last_mut().ok_or_else(|| IndexError::Unavailable("no segment".into()))
    }

    /// Makes kept segments with many holes anew, and small neighbours one; says whether there were any. Searches go on
    /// meanwhile.
    fn tidy(&self) -> Result<bool, IndexError> {
        let mut has_changed = false;
        loop {
            let (collection, untidy, made) = {
                let vectors = self.reading();
                let mut untidy = vectors.collections.iter().filter_map(|(collection, segments)| {
                    untidy(segments, self.sizes.full).map(|untidy| (*collection, segments, untidy))
                });
                let Some((collection, segments, untidy)) = untidy.next() else { return Ok(has_changed) };
                (collection, untidy.clone(), self.made_one(&segments[untidy])?)
            };
            // Nobody else has changed anything: whoever does holds `changing`.
            if let Some(segments) = self.writing().collections.get_mut(&collection) {
                segments.splice(untidy, [made]);
            }
            has_changed = true;
        }
    }

    /// The vectors of kept segments in one. What is in the largest need not be linked again, unless it has many holes.
    fn made_one(&self, segments: &[Segment]) -> Result<Segment, IndexError> {
        let whole = segments.iter().enumerate().filter(|(_, segment)| !segment.is_sparse());
        let largest = whole.max_by_key(|(_, segment)| segment.len()).map(|(number, _)| number);
        let mut made = match largest {
            Some(largest) => segments[largest].grow(self.dimension, self.threads)?,
            None => Segment::new(self.dimension, self.threads)?,
        };
        for (number, segment) in segments.iter().enumerate() {
            if Some(number) == largest {
                continue;
            }
            let chunks = segment.chunks()?;
            made.reserve(&chunks, self.threads)?;
            for chunks in chunks.chunks(BATCH) {
                let vectors = chunks.iter().map(|chunk| segment.vector(*chunk, self.dimension));
                let vectors = vectors.collect::<Result<Vec<_>, _>>()?;
                let entries: Vec<_> = chunks.iter().copied().zip(vectors.iter().map(Vec::as_slice)).collect();
                add_on_all_cores(&made, &entries)?;
            }
        }
        Ok(made)
    }

    /// Writes what is not on disk yet; from then on it is mapped from there and its memory given back.
    fn keep(&self, generation: Generation) -> Result<(), IndexError> {
        let manifest = self.keep_segments(generation)?;
        manifest.write(&self.folder)?;
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
        only: Option<&ChunkSet>,
        limit: usize,
    ) -> Result<Vec<ScoredChunk>, IndexError> {
        self.check_dimension(query)?;
        if limit == 0 || only.is_some_and(ChunkSet::is_empty) {
            return Ok(Vec::new());
        }
        let _place = self.searches.enter();
        let vectors = self.reading();
        let segments: Vec<&Segment> = vectors
            .collections
            .iter()
            .filter(|(collection, _)| within.is_none_or(|within| within.contains(collection)))
            .flat_map(|(_, segments)| segments)
            .filter(|segment| segment.len() > 0)
            .collect();
        let found = segments.par_iter().map(|segment| segment.nearest(query, only, limit));
        let mut nearest = found.collect::<Result<Vec<_>, _>>()?.concat();
        nearest.sort_by(|one, other| other.score.total_cmp(&one.score).then(one.chunk.cmp(&other.chunk)));
        nearest.truncate(limit);
        Ok(nearest)
    }

    fn len(&self) -> Result<usize, IndexError> {
        Ok(self.reading().collections.values().flatten().map(Segment::len).sum())
    }

    fn is_empty(&self) -> Result<bool, IndexError> {
        Ok(self.reading().collections.values().flatten().all(|segment| segment.len() == 0))
    }

    fn stored_bytes(&self, collection: CollectionKey) -> Result<u64, IndexError> {
        Ok(self.reading().collections.get(&collection).into_iter().flatten().map(Segment::bytes).sum())
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

    fn collections(&self) -> Result<Vec<CollectionKey>, IndexError> {
        let vectors = self.reading();
        let filled = vectors
            .collections
            .iter()
            .filter(|(_, segments)| segments.iter().any(|segment| segment.len() > 0));
        Ok(filled.map(|(&collection, _)| collection).collect())
    }

    fn contents(&self, collection: CollectionKey) -> Result<Vec<ChunkId>, IndexError> {
        let vectors = self.reading();
        let mut contents = BTreeSet::new();
        for segment in vectors.collections.get(&collection).into_iter().flatten() {
            contents.extend(segment.chunks()?);
        }
        Ok(contents.into_iter().collect())
    }

    fn generation(&self) -> Result<Option<Generation>, IndexError> {
        Ok(self.reading().generation)
    }

    fn commit(&self, generation: Generation) -> Result<(), IndexError> {
        let _changing = self.changing.lock().unwrap_or_else(PoisonError::into_inner);
        self.keep(generation)?;
        while self.tidy()? {
            self.keep(generation)?;
        }
        Ok(())
    }
}

/// Segments that should be one: one with many holes, or two of which the first is not much larger than the second, so that
/// a vector is linked anew only each time its segment doubles.
fn untidy(segments: &[Segment], full: usize) -> Option<Range<usize>> {
    let sparse = segments.iter().position(Segment::is_sparse).map(|at| at..at + 1);
    let is_even = |pair: &[Segment]| {
        let (one, other) = (pair[0].len(), pair[1].len());
        // What has just been made one is not kept yet.
        one < 2 * other && one + other <= full && pair.iter().all(|segment| !segment.is_growing())
    };
    sparse.or_else(|| segments.windows(2).position(is_even).map(|at| at..at + 2))
}

/// Adds what there is room for.
fn add_on_all_cores(segment: &Segment, entries: &[(ChunkId, &[f32])]) -> Result<(), IndexError> {
    let cores = std::thread::available_parallelism().map_or(1, NonZero::get);
    let share = entries.len().div_ceil(cores).max(32);
    std::thread::scope(|scope| {
        let add = |entries: &[(ChunkId, &[f32])]| {
            entries.iter().try_for_each(|(chunk, vector)| segment.add(*chunk, vector))
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
