//! Finding: by words, by meaning, or both.

use std::{collections::HashMap, sync::Arc, time::Instant};

use hindcast_core::{
    identity::Caller,
    knowledge::{
        ChunkId, ChunkSet, Collection, CollectionKey, DocumentFilter, FoundChunk, QueryRecord, ScoredChunk,
    },
};

use super::{
    KnowledgeService, blocking,
    fusion::{Evidence, fuse},
    hits::{Folding, with_staleness},
    intake::lexical_only,
    invalid,
};
use crate::Failure;

/// Enough that what one half puts at its end can still come to the front by the other.
const CANDIDATES: usize = 100;

/// Longer questions are cut by the model anyway.
const LONGEST_QUERY: usize = 10_000;

/// How many passages around a hit are shown at most, on each side.
pub const MOST_CONTEXT: usize = 5;

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

/// A question whose best passage is no more relevant has none: letters that are no words reach 0.13, stop words this.
const RELEVANT_AT_ALL: f32 = 0.15;

/// What is looked for, and where.
#[derive(Debug, Clone, Default)]
pub struct SearchRequest {
    /// What is looked for.
    pub query: String,
    /// Only in this collection.
    pub collection: Option<String>,
    /// How many hits at most.
    pub limit: usize,
    /// Only hits at least this relevant. Where absent all, if the best is relevant at all.
    pub min_relevance: Option<f32>,
    /// By what.
    pub mode: SearchMode,
    /// Only in these documents.
    pub filter: DocumentFilter,
    /// How many passages around each hit are told, on each side.
    pub context: usize,
    /// Whether passages that say nearly the same are told one by one.
    pub keeps_duplicates: bool,
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
    /// Passages that say nearly the same and are not told by themselves.
    pub duplicates: Vec<FoundChunk>,
    /// What stands before and after it.
    pub context: (Vec<String>, Vec<String>),
}

/// What was found.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct SearchAnswer {
    /// Best first.
    pub hits: Vec<Hit>,
    /// How relevant the best is that was not relevant enough, where there are no hits.
    pub best_below: Option<f32>,
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
        let best = ranked.first().map(|(_, score)| *score);
        let is_nothing = best.is_some_and(|best| best <= RELEVANT_AT_ALL);
        let least = request.min_relevance.unwrap_or(if is_nothing { f32::INFINITY } else { 0.0 });
        let mut folding = Folding::new(request.limit, request.keeps_duplicates);
        for (found, score) in ranked {
            if score < least {
                break;
            }
            folding.take(under_seen_id(found, &collections), score);
        }
        let mut hits = blocking(move || with_staleness(folding.hits())).await?;
        if request.context > 0 {
            for hit in &mut hits {
                hit.context =
                    self.store.neighbours(hit.found.chunk, request.context.min(MOST_CONTEXT)).await?;
            }
        }
        self.write_down(&request, &collections, &hits, started).await?;
        let best_below = best.filter(|_| hits.is_empty());
        Ok(SearchAnswer { hits, best_below, notices })
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
        let only = if request.filter.is_everything() {
            None
        } else {
            let only = self.store.filtered_chunks(&within, &request.filter).await?;
            if only.is_empty() {
                notices.push("no document fits the filters, so nothing was searched".into());
                return Ok(Vec::new());
            }
            Some(Arc::new(only))
        };
        let wanted = CANDIDATES.max(request.limit * 2);
        let (lexical, dense) = self.candidates(request, within, only, wanted, notices).await?;
        let ids: Vec<ChunkId> = lexical.iter().chain(&dense).map(|hit| hit.chunk).collect();
        let found = self.store.found_chunks(&ids).await?;
        let mut found: HashMap<_, _> = found.into_iter().map(|found| (found.chunk, found)).collect();
        let mut evidence = Evidence::from_candidates(found.values().map(|found| found.is_code));
        evidence.says_nothing = !self.indexing.lexical()?.is_telling(&request.query);
        let fused = fuse(&lexical, &dense, evidence);
        // A chunk that went since the index saw it is not there to be shown.
        Ok(fused.into_iter().filter_map(|hit| Some((found.remove(&hit.chunk)?, hit.score))).collect())
    }

    async fn candidates(
        &self,
        request: &SearchRequest,
        within: Vec<CollectionKey>,
        only: Option<Arc<ChunkSet>>,
        wanted: usize,
        notices: &mut Vec<String>,
    ) -> Result<(Vec<ScoredChunk>, Vec<ScoredChunk>), Failure> {
        let (vectors, embedder, query) =
            (self.indexing.vectors.clone(), self.embedder.clone(), request.query.clone());
        let (mode, collections, among) = (request.mode, within.clone(), only.clone());
        let by_meaning = blocking(move || match mode {
            SearchMode::Lexical => Ok(Ok(Vec::new())),
            // The model need not be waited for where nothing could be found with it.
            SearchMode::Hybrid if vectors.is_empty() => Ok(Ok(Vec::new())),
            SearchMode::Hybrid | SearchMode::Dense => embedder.embed(&[&query]).map(|made| {
                let vector = made.first();
                vector.map_or(Ok(Vec::new()), |vector| {
                    vectors.nearest(vector, Some(&collections), among.as_deref(), wanted)
                })
            }),
        });
        let (lexical, query) = (self.indexing.lexical()?, request.query.clone());
        let by_words = blocking(move || lexical.search(&query, Some(&within), only.as_deref(), wanted));
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
