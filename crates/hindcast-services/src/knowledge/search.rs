//! Finding: by words, by meaning, or both.

use std::{collections::HashMap, time::Instant};

use hindcast_core::{
    Timestamp,
    identity::Caller,
    knowledge::{ChunkId, Collection, CollectionKey, FoundChunk, QueryRecord, ScoredChunk, SourceFile},
};
use sha2::{Digest, Sha256};

use super::{
    KnowledgeService, blocking,
    fusion::{Evidence, fuse},
    intake::lexical_only,
    invalid,
};
use crate::Failure;

/// Enough that what one half puts at its end can still come to the front by the other.
const CANDIDATES: usize = 100;

/// With filters most candidates may fall away.
const FILTERED_CANDIDATES: usize = 1000;

/// Longer questions are cut by the model anyway.
const LONGEST_QUERY: usize = 10_000;

/// A file larger than this is not read only to see whether it changed.
const LARGEST_COMPARED: u64 = 4 * 1024 * 1024;

/// By what is searched.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum SearchMode {
    /// Words and meaning.
    #[default]
    Hybrid,
    /// Words only.
    Lexical,
    /// Meaning only.
    Dense,
}

/// What is looked for, and where.
#[derive(Debug, Clone, Default)]
pub struct SearchRequest {
    /// What is looked for.
    pub query: String,
    /// Only in this collection.
    pub collection: Option<String>,
    /// How many hits at most.
    pub limit: usize,
    /// Only hits at least this relevant.
    pub min_relevance: f32,
    /// By what.
    pub mode: SearchMode,
    /// Only documents whose path contains this.
    pub path: Option<String>,
    /// Only documents that are served as this.
    pub mime_type: Option<String>,
    /// Only documents that changed from here on.
    pub since: Option<Timestamp>,
    /// Only documents that last changed before.
    pub until: Option<Timestamp>,
}

/// A chunk that was found.
#[derive(Debug, Clone, PartialEq)]
pub struct Hit {
    /// The chunk, with its document.
    pub found: FoundChunk,
    /// How relevant it is, 0..1.
    pub score: f32,
    /// Whether the file has changed since it was taken in.
    pub is_stale: bool,
}

/// What was found.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct SearchAnswer {
    /// Best first.
    pub hits: Vec<Hit>,
    /// What else a person should know.
    pub notices: Vec<String>,
}

impl KnowledgeService {
    /// Searches what the caller sees, and writes down that it was searched.
    pub async fn search(&self, caller: &Caller, request: SearchRequest) -> Result<SearchAnswer, Failure> {
        let started = Instant::now();
        check_query(&request.query)?;
        let collections = match &request.collection {
            Some(name) => vec![self.collection(caller, name).await?],
            None => self.collections(caller).await?,
        };
        let mut notices = Vec::new();
        let ranked = self.rank(&request, &collections, &mut notices).await?;
        let mut hits = Vec::new();
        for (found, score) in ranked {
            if score < request.min_relevance || hits.len() == request.limit {
                break;
            }
            if fits(&request, &found) {
                let found = under_seen_id(found, &collections);
                hits.push(Hit { found, score, is_stale: false });
            }
        }
        let hits = blocking(move || with_staleness(hits)).await?;
        self.write_down(&request, &collections, &hits, started).await?;
        Ok(SearchAnswer { hits, notices })
    }

    /// All candidates, best first.
    async fn rank(
        &self,
        request: &SearchRequest,
        collections: &[Collection],
        notices: &mut Vec<String>,
    ) -> Result<Vec<(FoundChunk, f32)>, Failure> {
        let within: Vec<_> = collections.iter().map(|collection| collection.key).collect();
        if within.is_empty() {
            return Ok(Vec::new());
        }
        self.indexing.catch_up().await?;
        let is_filtered = request.path.is_some()
            || request.mime_type.is_some()
            || request.since.is_some()
            || request.until.is_some();
        let wanted = if is_filtered { FILTERED_CANDIDATES } else { CANDIDATES.max(request.limit * 2) };
        let (lexical, dense) = self.candidates(request, within, wanted, notices).await?;
        let ids: Vec<ChunkId> = lexical.iter().chain(&dense).map(|hit| hit.chunk).collect();
        let found = self.store.found_chunks(&ids).await?;
        let mut found: HashMap<_, _> = found.into_iter().map(|found| (found.chunk, found)).collect();
        let evidence = Evidence::from_candidates(found.values().map(|found| found.is_code));
        let fused = fuse(&lexical, &dense, evidence);
        // A chunk that went since the index saw it is not there to be shown.
        Ok(fused.into_iter().filter_map(|hit| Some((found.remove(&hit.chunk)?, hit.score))).collect())
    }

    async fn candidates(
        &self,
        request: &SearchRequest,
        within: Vec<CollectionKey>,
        wanted: usize,
        notices: &mut Vec<String>,
    ) -> Result<(Vec<ScoredChunk>, Vec<ScoredChunk>), Failure> {
        let (vectors, embedder, query) =
            (self.indexing.vectors.clone(), self.embedder.clone(), request.query.clone());
        let (mode, collections) = (request.mode, within.clone());
        let by_meaning = blocking(move || match mode {
            SearchMode::Lexical => Ok(Ok(Vec::new())),
            // The model need not be waited for where nothing could be found with it.
            SearchMode::Hybrid if vectors.is_empty() => Ok(Ok(Vec::new())),
            SearchMode::Hybrid | SearchMode::Dense => embedder.embed(&[&query]).map(|made| {
                let vector = made.first();
                vector.map_or(Ok(Vec::new()), |vector| vectors.nearest(vector, Some(&collections), wanted))
            }),
        });
        let (lexical, query) = (self.indexing.lexical()?, request.query.clone());
        let by_words = blocking(move || lexical.search(&query, Some(&within), wanted));
        let (by_meaning, by_words) = match mode {
            // Words help only where there is no model.
            SearchMode::Dense => match by_meaning.await? {
                Ok(found) => (Ok(found), Ok(Vec::new())),
                Err(error) => (Err(error), by_words.await?),
            },
            SearchMode::Lexical | SearchMode::Hybrid => tokio::try_join!(by_meaning, by_words)?,
        };
        let dense = match by_meaning {
            Ok(found) => found?,
            Err(error) => {
                notices.push(lexical_only(&error));
                Vec::new()
            }
        };
        Ok((by_words?, dense))
    }

    async fn write_down(
        &self,
        request: &SearchRequest,
        collections: &[Collection],
        hits: &[Hit],
        started: Instant,
    ) -> Result<(), Failure> {
        let best = |key: CollectionKey| {
            hits.iter().find(|hit| hit.found.document.collection == key).map(|hit| hit.score)
        };
        for collection in collections {
            let best_score = best(collection.key);
            // A search in everything touches what it found.
            if request.collection.is_none() && best_score.is_none() {
                continue;
            }
            let query = QueryRecord {
                collections: vec![collection.key],
                is_asked: request.collection.is_some(),
                text: request.query.chars().take(1000).collect(),
                latency_us: u64::try_from(started.elapsed().as_micros()).unwrap_or(u64::MAX),
                best_score,
                at: self.clock.now(),
            };
            self.store.record_query(query).await?;
        }
        self.wrote.notify_one();
        Ok(())
    }
}

/// Gives the passage the id by which the caller sees its collection.
fn under_seen_id(mut found: FoundChunk, collections: &[Collection]) -> FoundChunk {
    if let Some(seen) = collections.iter().find(|seen| seen.key == found.document.collection) {
        found.collection.clone_from(&seen.id);
    }
    found
}

fn check_query(query: &str) -> Result<(), Failure> {
    if query.trim().is_empty() {
        return Err(invalid("there is nothing to look for").hint("give some words, or a question"));
    }
    if query.len() > LONGEST_QUERY {
        return Err(invalid(format!("the query is longer than {LONGEST_QUERY} bytes")));
    }
    Ok(())
}

fn fits(request: &SearchRequest, found: &FoundChunk) -> bool {
    let document = &found.document;
    let path = document.source.as_ref().map_or(&*document.id, |source| &*source.path);
    request.path.as_ref().is_none_or(|part| path.contains(&**part))
        && request.mime_type.as_ref().is_none_or(|mime_type| document.mime_type == *mime_type)
        && request.since.is_none_or(|since| document.updated_at >= since)
        && request.until.is_none_or(|until| document.updated_at < until)
}

fn with_staleness(mut hits: Vec<Hit>) -> Vec<Hit> {
    for hit in &mut hits {
        let document = &hit.found.document;
        hit.is_stale = document.source.as_ref().is_some_and(|source| has_changed(source, &document.hash));
    }
    hits
}

/// Whether a file says something else than it did. One that is gone does.
fn has_changed(source: &SourceFile, hash: &[u8; 32]) -> bool {
    let Ok(metadata) = std::fs::metadata(&source.path) else { return true };
    if metadata.len() != source.size {
        return true;
    }
    let modified = metadata.modified().ok().and_then(|time| time.duration_since(std::time::UNIX_EPOCH).ok());
    if modified.is_some_and(|age| age.as_nanos() == source.modified.unsigned_abs().into()) {
        return false;
    }
    source.size > LARGEST_COMPARED
        || std::fs::read(&source.path).map_or(true, |bytes| Sha256::digest(&bytes)[..] != hash[..])
}
