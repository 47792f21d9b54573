//! The vectors of one model in Qdrant.

use std::{
    collections::BTreeSet,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};

use hindcast_core::knowledge::{
    ChunkId, ChunkSet, CollectionKey, Generation, IndexError, ScoredChunk, VectorEntry, VectorRead,
    VectorWrite,
};
use reqwest::Method;
use serde::{Serialize, de::DeserializeOwned};
use serde_json::{Value, json};

use super::{
    SERVER,
    client::{QdrantClient, READ_LIMIT, WRITE_LIMIT, refused},
    wire::{
        COLLECTION, CollectionInfo, Count, Facets, Found, Listed, Marker, MarkerPoint, Page, Payload, Point,
        Upsert, in_any_collection, in_collections,
    },
};

const DISTANCE: &str = "Cosine";
/// The point that says what is there. No chunk has such an id.
const MARKER: &str = "00000000-0000-4000-8000-68696e646361";
/// How widely the graph is searched. Among vectors that resemble each other little, 128 found 77 of 100 true neighbours in one of
/// three collections, 512 found 97 to 99, and this nearly all, in about the same time.
const BREADTH_OF_SEARCH: usize = 768;
/// Numbers that go into one request: in JSON they take some ten bytes each, and Qdrant takes 32 MB.
const NUMBERS_AT_ONCE: usize = 1 << 20;
/// Ids that go into one request.
const IDS_AT_ONCE: usize = 10_000;
/// Among so many chunks that may be found, each is compared.
const COMPARED: usize = IDS_AT_ONCE;
/// The most results that are fetched to leave out those that may not be found.
const MOST_FETCHED: usize = 4096;
/// More collections than anybody has.
const MOST_COLLECTIONS: usize = 1_000_000;

/// Vectors that a Qdrant collection keeps.
pub(super) struct QdrantIndex {
    client: Arc<QdrantClient>,
    path: String,
    model: String,
    dimension: usize,
    /// Whether the collection was there and was ours when it was last looked at.
    is_open: AtomicBool,
    /// Whether there was a vector at some time.
    has_vectors: AtomicBool,
}

impl QdrantIndex {
    pub(super) fn new(client: Arc<QdrantClient>, name: &str, model: &str, dimension: usize) -> Self {
        Self {
            client,
            path: format!("collections/{name}"),
            model: model.into(),
            dimension,
            is_open: AtomicBool::new(false),
            has_vectors: AtomicBool::new(false),
        }
    }

    fn below(&self, what: &str) -> String {
        format!("{}/{what}", self.path)
    }

    /// Makes sure that the collection is there and fits; makes it the first time, or after it was lost.
    fn open(&self) -> Result<(), IndexError> {
        if self.is_open.load(Ordering::SeqCst) {
            return Ok(());
        }
        let info = match self.client.get::<CollectionInfo>(&self.path)? {
            Some(info) => info,
            None => self.make()?,
        };
        self.check(&info)?;
        if !info.payload_schema.contains_key(COLLECTION) {
            let index = json!({
                "field_name": COLLECTION,
                "field_schema": { "type": "keyword", "is_tenant": true },
            });
            self.write(Method::PUT, "index", &index)?;
        }
        self.is_open.store(true, Ordering::SeqCst);
        Ok(())
    }

    fn make(&self) -> Result<CollectionInfo, IndexError> {
        // Half the memory, and as exact as the index in the data folder.
        let wanted = json!({
            "vectors": { "size": self.dimension, "distance": DISTANCE, "datatype": "float16" },
        });
        let made = self.client.send(Method::PUT, &self.path, Some(&wanted), WRITE_LIMIT);
        match self.client.get(&self.path)? {
            Some(info) => Ok(info),
            // Where another server was faster, ours failed and that does not matter.
            None => Err(made.err().unwrap_or(IndexError::Lost { server: SERVER })),
        }
    }

    fn check(&self, info: &CollectionInfo) -> Result<(), IndexError> {
        let vectors = &info.config.params.vectors;
        let (size, distance) = (&vectors["size"], &vectors["distance"]);
        if *size == self.dimension && *distance == DISTANCE {
            return Ok(());
        }
        Err(IndexError::Mismatch {
            server: SERVER,
            found: format!("of {size} numbers compared by {distance}"),
            expected: format!("of {} numbers compared by {DISTANCE}", self.dimension),
        })
    }

    fn check_dimension(&self, vector: &[f32]) -> Result<(), IndexError> {
        if vector.len() == self.dimension {
            return Ok(());
        }
        Err(IndexError::Dimension { expected: self.dimension, given: vector.len() })
    }

    /// Notes that the collection went.
    fn lost(&self) -> IndexError {
        self.is_open.store(false, Ordering::SeqCst);
        self.has_vectors.store(false, Ordering::SeqCst);
        IndexError::Lost { server: SERVER }
    }

    fn read<T: DeserializeOwned>(&self, what: &str, body: &impl Serialize) -> Result<T, IndexError> {
        self.open()?;
        let found = self.client.ask(Method::POST, &self.below(what), Some(body), READ_LIMIT)?;
        found.ok_or_else(|| self.lost())
    }

    /// Changes something, and waits until it is done.
    fn write(&self, method: Method, what: &str, body: &impl Serialize) -> Result<(), IndexError> {
        let path = format!("{}?wait=true", self.below(what));
        match self.client.send(method, &path, Some(body), WRITE_LIMIT)? {
            Some(_) => Ok(()),
            None => Err(self.lost()),
        }
    }

    fn query(
        &self,
        query: &[f32],
        filter: &Value,
        limit: usize,
        is_exact: bool,
    ) -> Result<Vec<ScoredChunk>, IndexError> {
        let params =
            if is_exact { json!({ "exact": true }) } else { json!({ "hnsw_ef": BREADTH_OF_SEARCH }) };
        let body = json!({
            "query": query,
            "filter": filter,
            "params": params,
            "limit": limit,
            "with_payload": false,
            "with_vector": false,
        });
        let found: Found = self.read("points/query", &body)?;
        let hit = |point: &Listed| {
            let chunk = ChunkId(point.chunk()?);
            Some(ScoredChunk { chunk, score: point.score })
        };
        let mut hits: Vec<_> = found.points.iter().filter_map(hit).collect();
        sort(&mut hits);
        Ok(hits)
    }

    /// The nearest of some. Few are compared one by one. Of many the best of all are fetched and the others left out; where
    /// that leaves too few, they are compared in pieces.
    fn nearest_of_some(
        &self,
        query: &[f32],
        filter: &Value,
        only: &ChunkSet,
        limit: usize,
    ) -> Result<Vec<ScoredChunk>, IndexError> {
        let mut fetched = limit.saturating_mul(4);
        while only.len() > COMPARED && fetched <= MOST_FETCHED {
            let mut hits = self.query(query, filter, fetched, false)?;
            let all = hits.len();
            hits.retain(|hit| only.contains(hit.chunk));
            if hits.len() >= limit || all < fetched {
                hits.truncate(limit);
                return Ok(hits);
            }
            fetched *= 4;
        }
        let ids: Vec<i64> = only.iter().map(|chunk| chunk.0).collect();
        let mut nearest = Vec::new();
        for piece in ids.chunks(IDS_AT_ONCE) {
            let among = json!({ "must": [filter, { "has_id": piece }] });
            nearest.extend(self.query(query, &among, limit, true)?);
        }
        sort(&mut nearest);
        nearest.truncate(limit);
        Ok(nearest)
    }
}

/// Best first; of equals the older.
fn sort(hits: &mut [ScoredChunk]) {
    hits.sort_by(|one, other| other.score.total_cmp(&one.score).then(one.chunk.cmp(&other.chunk)));
}

fn point<'a>(entry: &VectorEntry<'a>) -> Point<'a> {
    let payload = Payload { collection: entry.collection.0.to_string() };
    Point { id: entry.chunk.0, vector: entry.vector, payload }
}

/// What points a search may find.
fn filter(within: Option<&[CollectionKey]>) -> Value {
    match within {
        Some(within) => in_collections(within.iter().map(|key| key.0)),
        None => in_any_collection(),
    }
}

impl VectorRead for QdrantIndex {
    fn nearest(
        &self,
        query: &[f32],
        within: Option<&[CollectionKey]>,
        only: Option<&ChunkSet>,
        limit: usize,
    ) -> Result<Vec<ScoredChunk>, IndexError> {
        self.check_dimension(query)?;
        if limit == 0 || within.is_some_and(<[_]>::is_empty) || only.is_some_and(ChunkSet::is_empty) {
            return Ok(Vec::new());
        }
        match only {
            Some(only) => self.nearest_of_some(query, &filter(within), only, limit),
            None => self.query(query, &filter(within), limit, false),
        }
    }

    fn len(&self) -> Result<usize, IndexError> {
        let body = json!({ "filter": in_any_collection(), "exact": true });
        Ok(self.read::<Count>("points/count", &body)?.count)
    }

    fn is_empty(&self) -> Result<bool, IndexError> {
        if self.has_vectors.load(Ordering::SeqCst) {
            return Ok(false);
        }
        let body = json!({ "filter": in_any_collection(), "limit": 1, "with_payload": false });
        let is_empty = self.read::<Page>("points/scroll", &body)?.points.is_empty();
        self.has_vectors.store(!is_empty, Ordering::SeqCst);
        Ok(is_empty)
    }

    /// Nothing: they are on Qdrant's disk.
    fn stored_bytes(&self, _collection: CollectionKey) -> Result<u64, IndexError> {
        Ok(0)
    }

    fn server(&self) -> Option<&'static str> {
        Some(SERVER)
    }
}

impl VectorWrite for QdrantIndex {
    fn add(&self, entries: &[VectorEntry<'_>]) -> Result<(), IndexError> {
        entries.iter().try_for_each(|entry| self.check_dimension(entry.vector))?;
        self.open()?;
        for batch in entries.chunks((NUMBERS_AT_ONCE / self.dimension.max(1)).max(1)) {
            // Qdrant may take equal ids of one request in any order: the last counts.
            let mut seen = BTreeSet::new();
            let last = batch.iter().rev().filter(|entry| seen.insert(entry.chunk)).map(point);
            self.write(Method::PUT, "points", &Upsert { points: last.collect() })?;
        }
        Ok(())
    }

    fn remove(&self, collection: CollectionKey, chunks: &[ChunkId]) -> Result<(), IndexError> {
        self.open()?;
        for batch in chunks.chunks(IDS_AT_ONCE) {
            let ids: Vec<i64> = batch.iter().map(|chunk| chunk.0).collect();
            let these = json!({ "must": [in_collections([collection.0]), { "has_id": ids }] });
            self.write(Method::POST, "points/delete", &json!({ "filter": these }))?;
        }
        Ok(())
    }

    fn remove_collection(&self, collection: CollectionKey) -> Result<(), IndexError> {
        self.open()?;
        let body = json!({ "filter": in_collections([collection.0]) });
        self.write(Method::POST, "points/delete", &body)
    }

    fn collections(&self) -> Result<Vec<CollectionKey>, IndexError> {
        let body = json!({ "key": COLLECTION, "limit": MOST_COLLECTIONS, "exact": true });
        let facets: Facets = self.read("facet", &body)?;
        let key = |value: &str| value.parse().map(CollectionKey);
        let mut keys = facets
            .hits
            .iter()
            .filter(|hit| hit.count > 0)
            .map(|hit| key(&hit.value).map_err(|_| refused(format!("`{}` is no collection", hit.value))))
            .collect::<Result<Vec<_>, _>>()?;
        keys.sort();
        Ok(keys)
    }

    fn contents(&self, collection: CollectionKey) -> Result<Vec<ChunkId>, IndexError> {
        let mut contents = Vec::new();
        let mut offset = Value::Null;
        loop {
            let body = json!({
                "filter": in_collections([collection.0]),
                "limit": IDS_AT_ONCE,
                "offset": offset,
                "with_payload": false,
                "with_vector": false,
            });
            let page: Page = self.read("points/scroll", &body)?;
            contents.extend(page.points.iter().filter_map(Listed::chunk).map(ChunkId));
            match page.next_page_offset {
                Some(next) if !next.is_null() => offset = next,
                _ => break,
            }
        }
        contents.sort();
        Ok(contents)
    }

    fn absent(&self, chunks: &[ChunkId]) -> Result<Vec<ChunkId>, IndexError> {
        let mut absent = Vec::new();
        for batch in chunks.chunks(IDS_AT_ONCE) {
            let ids: Vec<i64> = batch.iter().map(|chunk| chunk.0).collect();
            let body = json!({ "ids": ids, "with_payload": false, "with_vector": false });
            let found: Vec<Listed> = self.read("points", &body)?;
            let found: BTreeSet<_> = found.iter().filter_map(Listed::chunk).collect();
            absent.extend(batch.iter().filter(|chunk| !found.contains(&chunk.0)));
        }
        Ok(absent)
    }

    fn generation(&self) -> Result<Option<Generation>, IndexError> {
        let body = json!({ "ids": [MARKER], "with_payload": true, "with_vector": false });
        let found = match self.read::<Vec<MarkerPoint>>("points", &body) {
            // It was emptied since it was last looked at: made again, it has none.
            Err(IndexError::Lost { .. }) => self.read("points", &body)?,
            found => found?,
        };
        match found.first().map(|found| &found.payload) {
            None => Ok(None),
            Some(marker) if marker.model == self.model => Ok(Some(Generation(marker.generation))),
            Some(marker) => Err(IndexError::Mismatch {
                server: SERVER,
                found: format!("of the model `{}`", marker.model),
                expected: format!("those of `{}`", self.model),
            }),
        }
    }

    fn commit(&self, generation: Generation) -> Result<(), IndexError> {
        self.open()?;
        // It must have a vector, which no search finds: all look only at points that belong to a collection.
        let mut vector = vec![0.0; self.dimension];
        vector.first_mut().into_iter().for_each(|first| *first = 1.0);
        let marker = Marker { model: self.model.clone(), generation: generation.0 };
        let point = json!({ "id": MARKER, "vector": vector, "payload": marker });
        self.write(Method::PUT, "points", &json!({ "points": [point] }))
    }
}
