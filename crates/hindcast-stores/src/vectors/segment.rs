//! A part of a collection's vectors with the graph that finds the near ones.

use std::{
    collections::{BTreeSet, HashSet},
    fs::{self, File},
    io::{self, Write},
    path::{Path, PathBuf},
};

use hindcast_core::knowledge::{ChunkId, ChunkSet, IndexError, ScoredChunk};
use serde::{Deserialize, Serialize};
use usearch::{Index, IndexOptions, MetricKind, ScalarKind};

/// Neighbours of a vector in the graph, and how widely is looked around for them: more finds more of the true nearest, and
/// takes longer. `cargo xtask bench knowledge` measures both.
const CONNECTIVITY: usize = 16;
const BREADTH_OF_ADDING: usize = 128;
const BREADTH_OF_SEARCH: usize = 128;
/// So few vectors are all looked at, which takes a millisecond or two. A graph takes less, but misses some, and others each time that it is
/// built by several threads.
const LOOKED_THROUGH: usize = 1 << 14;

/// So few that may be found are looked at one by one.
const LOOKED_THROUGH_OF_SOME: usize = 20_000;

/// What a committed segment is called and how it is checked.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct SegmentRecord {
    pub(super) name: String,
    /// Size of the graph's file: a copy that was cut off must not be mapped.
    bytes: u64,
    vectors: usize,
    #[serde(default)]
    removed: HashSet<i64>,
}

/// Vectors in memory, or a file that is looked at where it lies.
pub(super) struct Segment {
    graph: Index,
    /// Chunks of a kept graph, which cannot change, that were removed since.
    removed: HashSet<i64>,
    state: State,
}

enum State {
    /// On disk, and mapped from there.
    Kept { record: SegmentRecord, folder: PathBuf },
    /// In memory; these are its chunks.
    Growing { chunks: BTreeSet<i64> },
}

impl Segment {
    /// An empty one.
    pub(super) fn new(dimension: usize, threads: usize) -> Result<Self, IndexError> {
        let graph = new_graph(dimension)?;
        graph.reserve_capacity_and_threads(1, threads).map_err(engine)?;
        Ok(Self { graph, removed: HashSet::new(), state: State::Growing { chunks: BTreeSet::new() } })
    }

    /// One that was kept; its file is mapped, not read.
    pub(super) fn open(
        folder: &Path,
        record: &SegmentRecord,
        dimension: usize,
        threads: usize,
    ) -> Result<Self, IndexError> {
        let graph = new_graph(dimension)?;
        let file = graph_file(folder, &record.name);
        let bytes = fs::metadata(&file).map_err(|error| unreadable(&file, &error))?.len();
        if bytes != record.bytes {
            return Err(IndexError::Corrupt(format!(
                "`{}` has {bytes} bytes of {}",
                file.display(),
                record.bytes
            )));
        }
        graph.reserve_capacity_and_threads(1, threads).map_err(engine)?;
        graph.view(utf8(&file)?).map_err(|error| unreadable(&file, &error))?;
        if graph.size() != record.vectors || graph.dimensions() != dimension {
            return Err(IndexError::Corrupt(format!("`{}` is another index", file.display())));
        }
        let state = State::Kept { record: record.clone(), folder: folder.into() };
        Ok(Self { graph, removed: record.removed.clone(), state })
    }

    /// The same vectors in memory, where more can come to them.
    pub(super) fn grow(&self, dimension: usize, threads: usize) -> Result<Self, IndexError> {
        let mut grown = Self::new(dimension, threads)?;
        if let State::Kept { record, folder } = &self.state {
            let file = graph_file(folder, &record.name);
            grown.graph.load(utf8(&file)?).map_err(|error| unreadable(&file, &error))?;
            for &chunk in &self.removed {
                grown.graph.remove(chunk as u64).map_err(engine)?;
            }
        }
        grown.state = State::Growing { chunks: self.chunks()?.iter().map(|chunk| chunk.0).collect() };
        Ok(grown)
    }

    /// How many vectors can be found in it.
    pub(super) fn len(&self) -> usize {
        self.graph.size() - self.removed.len()
    }

    pub(super) fn bytes(&self) -> u64 {
        match &self.state {
            State::Kept { record, .. } => record.bytes + 8 * record.vectors as u64,
            State::Growing { .. } => 0,
        }
    }

    pub(super) fn is_growing(&self) -> bool {
        matches!(self.state, State::Growing { .. })
    }

    /// Whether so much of it is removed that it should be made anew.
    pub(super) fn is_sparse(&self) -> bool {
        self.removed.len() * 4 > self.graph.size()
    }

    /// Makes the chunk unfindable; says whether it was findable. Must not be done while somebody searches.
    pub(super) fn remove(&mut self, chunk: ChunkId) -> Result<bool, IndexError> {
        match &mut self.state {
            State::Growing { chunks } => match chunks.remove(&chunk.0) {
                true => self.graph.remove(chunk.0 as u64).map_err(engine).map(|removed| removed > 0),
                false => Ok(false),
            },
            State::Kept { .. } => Ok(self.graph.contains(chunk.0 as u64) && self.removed.insert(chunk.0)),
        }
    }

    /// Makes room for more; must be done before [`Self::add`], while nobody searches.
    pub(super) fn reserve(&mut self, chunks: &[ChunkId], threads: usize) -> Result<(), IndexError> {
        let State::Growing { chunks: held } = &mut self.state else {
            return Err(IndexError::Unavailable("a kept segment does not grow".into()));
        };
        held.extend(chunks.iter().map(|chunk| chunk.0));
        let wanted = held.len();
        // Growing by halves: every reservation moves what is there.
        if wanted > self.graph.capacity() {
            let roomy = wanted.max(self.graph.capacity() * 3 / 2);
            self.graph.reserve_capacity_and_threads(roomy, threads).map_err(engine)?;
        }
        Ok(())
    }

    /// Adds a vector there is room for. Several threads may, while nobody searches.
    pub(super) fn add(&self, chunk: ChunkId, vector: &[f32]) -> Result<(), IndexError> {
        self.graph.add(chunk.0 as u64, vector).map_err(engine)
    }

    /// The nearest, best first.
    pub(super) fn nearest(
        &self,
        query: &[f32],
        only: Option<&ChunkSet>,
        limit: usize,
    ) -> Result<Vec<ScoredChunk>, IndexError> {
        match only {
            Some(only) => self.nearest_of(query, only, limit),
            None => self.nearest_of_all(query, limit),
        }
    }

    /// The nearest of some. A graph leads past those that may not be found only as long as they are not most: few are looked at
    /// one by one, and so are all where the graph has led to too few.
    fn nearest_of(
        &self,
        query: &[f32],
        only: &ChunkSet,
        limit: usize,
    ) -> Result<Vec<ScoredChunk>, IndexError> {
        let fits = |chunk: i64| only.contains(ChunkId(chunk)) && !self.removed.contains(&chunk);
        if only.len() > LOOKED_THROUGH_OF_SOME && only.len() * 10 > self.graph.size() {
            let found =
                self.graph.filtered_search(query, limit, |chunk| fits(chunk as i64)).map_err(engine)?;
            if found.keys.len() == limit {
                let hits = found.keys.iter().zip(&found.distances);
                return Ok(hits.map(|(&key, &distance)| hit(key as i64, 1.0 - distance)).collect());
            }
        }
        let mut hits = Vec::new();
        let mut vector = vec![0.0; query.len()];
        for chunk in only.iter().filter(|chunk| fits(chunk.0)) {
            // Those of other segments are not here.
            if self.graph.get(chunk.0 as u64, &mut vector).map_err(engine)? > 0 {
                hits.push(hit(chunk.0, vector.iter().zip(query).map(|(one, other)| one * other).sum()));
            }
        }
        hits.sort_by(|one, other| other.score.total_cmp(&one.score).then(one.chunk.cmp(&other.chunk)));
        hits.truncate(limit);
        Ok(hits)
    }

    fn nearest_of_all(&self, query: &[f32], limit: usize) -> Result<Vec<ScoredChunk>, IndexError> {
        let found = if self.graph.size() <= LOOKED_THROUGH {
            self.graph.exact_search(query, limit + self.removed.len())
        } else if self.removed.is_empty() {
            self.graph.search(query, limit)
        } else {
            self.graph.filtered_search(query, limit, |chunk| !self.removed.contains(&(chunk as i64)))
        };
        let found = found.map_err(engine)?;
        let hits = found.keys.iter().zip(&found.distances);
        Ok(hits
            .filter(|(key, _)| !self.removed.contains(&(**key as i64)))
            .take(limit)
            .map(|(&key, &distance)| hit(key as i64, 1.0 - distance))
            .collect())
    }

    /// The chunks that can be found in it.
    pub(super) fn chunks(&self) -> Result<Vec<ChunkId>, IndexError> {
        let all: Vec<i64> = match &self.state {
            State::Growing { chunks } => chunks.iter().copied().collect(),
            State::Kept { record, folder } => {
                let file = chunks_file(folder, &record.name);
                let bytes = fs::read(&file).map_err(|error| unreadable(&file, &error))?;
                bytes.as_chunks::<8>().0.iter().map(|bytes| i64::from_le_bytes(*bytes)).collect()
            }
        };
        Ok(all.into_iter().filter(|chunk| !self.removed.contains(chunk)).map(ChunkId).collect())
    }

    /// A chunk's vector as it is kept.
    pub(super) fn vector(&self, chunk: ChunkId, dimension: usize) -> Result<Vec<f32>, IndexError> {
        let mut vector = vec![0.0; dimension];
        self.graph.get(chunk.0 as u64, &mut vector).map_err(engine)?;
        Ok(vector)
    }

    /// Writes it under a new name if it has none yet, durably, and says how it is recorded.
    pub(super) fn keep(&self, folder: &Path, name: &str) -> Result<SegmentRecord, IndexError> {
        let chunks = match &self.state {
            State::Kept { record, .. } => {
                return Ok(SegmentRecord { removed: self.removed.clone(), ..record.clone() });
            }
            State::Growing { chunks } => chunks,
        };
        let file = graph_file(folder, name);
        self.graph.save(utf8(&file)?).map_err(engine)?;
        let failed =
            |error: io::Error| IndexError::Unavailable(format!("cannot write `{}`: {error}", file.display()));
        File::open(&file).and_then(|file| file.sync_all()).map_err(failed)?;
        let bytes = fs::metadata(&file).map_err(failed)?.len();
        let listed: Vec<u8> = chunks.iter().flat_map(|chunk| chunk.to_le_bytes()).collect();
        let mut list = File::create(chunks_file(folder, name)).map_err(failed)?;
        list.write_all(&listed).and_then(|()| list.sync_all()).map_err(failed)?;
        Ok(SegmentRecord { name: name.into(), bytes, vectors: chunks.len(), removed: self.removed.clone() })
    }
}

fn hit(chunk: i64, score: f32) -> ScoredChunk {
    ScoredChunk { chunk: ChunkId(chunk), score }
}

impl SegmentRecord {
    /// The files that belong to it.
    pub(super) fn files(&self) -> [String; 2] {
        [format!("{}.graph", self.name), format!("{}.chunks", self.name)]
    }
}

fn new_graph(dimension: usize) -> Result<Index, IndexError> {
    let options = IndexOptions {
        dimensions: dimension,
        // Of vectors of length one the inner product is the cosine.
        metric: MetricKind::IP,
        quantization: ScalarKind::F16,
        connectivity: CONNECTIVITY,
        expansion_add: BREADTH_OF_ADDING,
        expansion_search: BREADTH_OF_SEARCH,
        multi: false,
    };
    Index::new(&options).map_err(engine)
}

fn graph_file(folder: &Path, name: &str) -> PathBuf {
    folder.join(format!("{name}.graph"))
}

fn chunks_file(folder: &Path, name: &str) -> PathBuf {
    folder.join(format!("{name}.chunks"))
}

fn utf8(path: &Path) -> Result<&str, IndexError> {
    path.to_str().ok_or_else(|| {
        IndexError::Unavailable(format!(
            "the path `{}` is not UTF-8 · hint: choose another data folder",
            path.display()
        ))
    })
}

fn unreadable(file: &Path, error: &dyn std::fmt::Display) -> IndexError {
    IndexError::Corrupt(format!("`{}`: {error}", file.display()))
}

fn engine(error: impl std::fmt::Display) -> IndexError {
    IndexError::Unavailable(error.to_string())
}
