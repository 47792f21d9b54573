//! Finding: by words, by meaning, or both.

use std::{collections::HashMap, sync::Arc, time::Instant};

use hindcast_core::{
    Timestamp,
    identity::Caller,
    knowledge::{
        ChunkId, ChunkSet, Collection, CollectionKey, DocumentFilter, EmbedError, FoundChunk, IndexError,
        Language, QueryRecord, ScoredChunk,
    },
};

use super::{
    KnowledgeService, blocking,
    embedding::{embedded_text, lexical_only},
    fusion::{Evidence, fuse, relevance_of_judgement},
    hits::{Folding, with_file_states},
    invalid,
    meaning::{Meaning, is_away, words_only},
    sharing::Uploading,
    weighing,
};
use crate::{Failure, ToolNames};

/// Enough that what one half puts at its end can still come to the front by the other.
const CANDIDATES: usize = 100;

/// Longer questions are cut by the model anyway.
const LONGEST_QUERY: usize = 10_000;

/// So many of the best passages are read by a cross-encoder, each as costly as embedding it.
const RERANKED: usize = 20;

/// How many hits there are at most.
const MOST_HITS: usize = 50;

/// How many passages around a hit are shown at most, on each side.
const MOST_CONTEXT: usize = 5;

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

/// Said where nothing was found, or nothing but meaning was searched, by a model that does not know the question's language.
fn meaning_in_foreign_language(mode: SearchMode) -> String {
    let instead = match mode {
        SearchMode::Dense => "with `mode` hybrid or lexical and words of the documents",
        SearchMode::Hybrid | SearchMode::Lexical => "with a few words that the documents have",
    };
    format!(
        "the embedding model knows only English and the question is in another language, so what is near in meaning counts for little · \
         hint: search {instead}, or let the collection use `multilingual-e5-small` (`hindcast models pull`, `hindcast knowledge settings`)"
    )
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

/// What became of a file since it was taken in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FileState {
    /// It says the same, or nothing is known of it here.
    Unchanged,
    /// It says something else.
    Changed,
    /// It is not there.
    Gone,
}

impl FileState {
    /// What makes a passage stale, in words.
    pub fn why_stale(self) -> Option<&'static str> {
        match self {
            Self::Unchanged => None,
            Self::Changed => Some("the file has changed since"),
            Self::Gone => Some("the file is gone"),
        }
    }
}

/// A chunk that was found.
#[derive(Debug, Clone, PartialEq)]
pub struct Hit {
    /// The chunk, with its document.
    pub found: FoundChunk,
    /// How relevant it is, 0..1.
    pub score: f32,
    /// What became of its file since it was taken in.
    pub file: FileState,
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

impl SearchRequest {
    /// Refuses what is beyond the limits of those who search.
    pub fn check(&self) -> Result<(), Failure> {
        if !(1..=MOST_HITS).contains(&self.limit) {
            return Err(invalid(format!("`limit` is {}, not between 1 and {MOST_HITS}", self.limit))
                .hint(format!("give a number from 1 to {MOST_HITS}, or leave it out for 5")));
        }
        if let Some(relevance) = self.min_relevance.filter(|relevance| !(0.0..=1.0).contains(relevance)) {
            return Err(invalid(format!("`min_relevance` is {relevance}, not between 0 and 1"))
                .hint("give a number from 0 to 1, or leave it out"));
        }
        if self.context > MOST_CONTEXT {
            return Err(invalid(format!("`context` is {}, not between 0 and {MOST_CONTEXT}", self.context))
                .hint(format!("give a number from 0 to {MOST_CONTEXT}")));
        }
        Ok(())
    }
}

/// The moment that a date or a time means, in UTC where no zone is given. `field` is what it was given as.
pub fn moment(field: &str, text: &str) -> Result<Timestamp, Failure> {
    let in_utc = |text: &str| {
        let time: jiff::civil::DateTime = text.parse().ok()?;
        Some(time.to_zoned(jiff::tz::TimeZone::UTC).ok()?.timestamp())
    };
    // All of the last day is meant.
    let end_of_day = |text: &str| {
        let day: jiff::civil::Date =
            text.parse().ok().filter(|_| field.ends_with("until") && text.len() == 10)?;
        let time = day.at(23, 59, 59, 999_999_999);
        Some(time.to_zoned(jiff::tz::TimeZone::UTC).ok()?.timestamp())
    };
    let text = text.trim();
    end_of_day(text).or_else(|| text.parse().ok()).or_else(|| in_utc(text)).ok_or_else(|| {
        let shown: String = text.chars().take(80).collect();
        invalid(format!("`{field}` is `{shown}`, which is no date"))
            .hint("write it as `2021-01-01` or `2021-01-01T12:00:00Z`")
    })
}

impl KnowledgeService {
    /// Searches what the caller sees, and writes down that it was searched.
    pub async fn search(&self, caller: &Caller, request: SearchRequest) -> Result<SearchAnswer, Failure> {
        let started = Instant::now();
        check_query(&request.query)?;
        let mut request = request;
        if let Some(source_type) = &mut request.filter.source_type {
            source_type.make_ascii_lowercase();
        }
        let collections = match &request.collection {
            Some(name) => vec![self.collection(caller, name).await?],
            None => self.collections(caller).await?,
        };
        let mut notices = Vec::new();
        let Ranked { found: ranked, is_foreign } = self.rank(&request, &collections, &mut notices).await?;
        let ranked = self.reranked(&request, ranked, &mut notices).await?;
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
        let mut hits = blocking(move || with_file_states(folding.hits())).await?;
        let is_by_meaning = match request.mode {
            SearchMode::Dense => true,
            SearchMode::Hybrid => hits.is_empty(),
            SearchMode::Lexical => false,
        };
        notices.extend(self.notices_of_ingests(caller, &collections));
        if is_foreign && is_by_meaning {
            notices.push(meaning_in_foreign_language(request.mode));
        }
        if request.context > 0 {
            for hit in &mut hits {
                hit.context =
                    self.store.neighbours(hit.found.chunk, request.context.min(MOST_CONTEXT)).await?;
            }
        }
        self.write_down(&request, &collections, &hits, started).await;
        let best_below = best.filter(|_| hits.is_empty());
        Ok(SearchAnswer { hits, best_below, notices })
    }

    /// All candidates, best first.
    async fn rank(
        &self,
        request: &SearchRequest,
        collections: &[Collection],
        notices: &mut Vec<String>,
    ) -> Result<Ranked, Failure> {
        let within: Vec<_> = collections.iter().map(|collection| collection.key).collect();
        if within.is_empty() {
            return Ok(Ranked::default());
        }
        self.catch_up_for_search(notices).await;
        let only = if request.filter.is_everything() {
            None
        } else {
            let only = self.store.filtered_chunks(&within, &request.filter).await?;
            if only.is_empty() {
                notices.push(nothing_fits(&request.filter));
                return Ok(Ranked::default());
            }
            Some(Arc::new(only))
        };
        let meanings = self.meanings(request, collections, notices).await?;
        // A model that was opened just now has an index that is behind.
        self.catch_up_for_search(notices).await;
        let Candidates { lexical, dense, is_foreign, without_vectors } =
            self.candidates(request, meanings, within, only, notices).await?;
        notices.extend(words_only_without(&without_vectors, collections));
        let has_meaning = !dense.is_empty();
        let ids: Vec<ChunkId> = lexical.iter().chain(&dense).map(|hit| hit.chunk).collect();
        let found = self.store.found_chunks(&ids).await?;
        let mut found: HashMap<_, _> = found.into_iter().map(|found| (found.chunk, found)).collect();
        // Snippets are found by what they do. In files of code the names and comments are those of their project, and so are the words of
        // who asks.
        let is_snippet = |found: &FoundChunk| found.is_code && found.document.chunks == 1;
        let mut evidence = Evidence::from_candidates(found.values().map(is_snippet));
        evidence.says_nothing = !self.indexing.lexical()?.is_telling(&request.query);
        evidence.is_foreign = is_foreign;
        evidence.searched = collections.iter().map(|collection| collection.chunks).sum();
        let fused = fuse(&lexical, &dense, evidence);
        // A chunk that went since the index saw it is not there to be shown.
        let found = fused.into_iter().filter_map(|hit| Some((found.remove(&hit.chunk)?, hit.score)));
        let mut found: Vec<_> = found.collect();
        weighing::weigh(&request.query, &mut found);
        Ok(Ranked { found, is_foreign: is_foreign && has_meaning })
    }

    /// Brings the indexes to the truth, except while documents are being added, here or in another process: waiting for each commit
    /// made searches fifty times slower, and `follow` indexes what is added within a moment. An addition here is over only when the
    /// indexes have it.
    /// Indexes that cannot be written, because the disk is full for example, are searched as they are.
    pub(super) async fn catch_up_for_search(&self, notices: &mut Vec<String>) {
        if self.additions.is_any() && self.indexing.has_caught_up().await.unwrap_or(false) {
            return;
        }
        if let Err(failure) = self.indexing.catch_up(self.indexing.uploading_of_readers()).await {
            tracing::warn!(%failure, "the indexes stay behind");
            let hint = failure.advice(ToolNames::Slash).unwrap_or_else(|| "the server's log says why".into());
            let notice = format!(
                "what was added lately may be missing: the indexes could not be written · hint: {hint}"
            );
            if !notices.contains(&notice) {
                notices.push(notice);
            }
        }
    }

    /// The models of the collections, each with those it serves. What cannot be searched by meaning is said.
    pub(super) async fn meanings(
        &self,
        request: &SearchRequest,
        collections: &[Collection],
        notices: &mut Vec<String>,
    ) -> Result<Vec<(Arc<Meaning>, Vec<CollectionKey>)>, Failure> {
        let mut meanings: Vec<(Arc<Meaning>, Vec<CollectionKey>)> = Vec::new();
        if request.mode == SearchMode::Lexical {
            return Ok(meanings);
        }
        for collection in collections {
            let model = self.serving_model(collection);
            let meaning = match self.meaning(model).await? {
                Ok(meaning) => meaning,
                Err(error) => {
                    let notice = lexical_only(&error);
                    if !notices.contains(&notice) {
                        notices.push(notice);
                    }
                    continue;
                }
            };
            match meanings.iter_mut().find(|(one, _)| Arc::ptr_eq(one, &meaning)) {
                Some((_, keys)) => keys.push(collection.key),
                None => meanings.push((meaning, vec![collection.key])),
            }
        }
        Ok(meanings)
    }

    pub(super) async fn candidates(
        &self,
        request: &SearchRequest,
        meanings: Vec<(Arc<Meaning>, Vec<CollectionKey>)>,
        within: Vec<CollectionKey>,
        only: Option<Arc<ChunkSet>>,
        notices: &mut Vec<String>,
    ) -> Result<Candidates, Failure> {
        let wanted = CANDIDATES.max(request.limit * 2);
        let (query, mode, among) = (request.query.clone(), request.mode, only.clone());
        notices.extend(meanings.iter().filter_map(|(meaning, _)| meaning.notice_of_filling()));
        let is_followed = self.indexing.uploading_of_readers() == Uploading::Never;
        let by_meaning = blocking(move || {
            let away = meanings.iter().find_map(|(meaning, _)| meaning.away());
            match away.filter(|_| is_followed) {
                Some(error) => Ok(Err(error)),
                None => nearest(&meanings, mode, &query, among.as_deref(), wanted),
            }
        });
        let (lexical, query) = (self.indexing.lexical()?, request.query.clone());
        let language = lexical.language_of(&query);
        let by_words = blocking(move || lexical.search(&query, Some(&within), only.as_deref(), wanted));
        let (by_meaning, by_words) = match mode {
            // Words help only where there is no model.
            SearchMode::Dense => match by_meaning.await? {
                Ok(Ok(found)) => (Ok(Ok(found)), Ok(Vec::new())),
                failed => (failed, by_words.await?),
            },
            SearchMode::Lexical | SearchMode::Hybrid => tokio::try_join!(by_meaning, by_words)?,
        };
        let ByMeaning { chunks: dense, knows_languages, without_vectors } = match by_meaning {
            Ok(Err(error)) if is_away(&error) => {
                notices.push(words_only(&error));
                ByMeaning::default()
            }
            Ok(found) => found?,
            Err(error) => {
                notices.push(lexical_only(&error));
                ByMeaning::default()
            }
        };
        let is_foreign = language != Language::English && !knows_languages;
        Ok(Candidates { lexical: by_words?, dense, is_foreign, without_vectors })
    }

    /// Lets a cross-encoder that knows the question's language read the best passages, where one is installed, and puts them in its
    /// order.
    async fn reranked(
        &self,
        request: &SearchRequest,
        mut ranked: Vec<(FoundChunk, f32)>,
        notices: &mut Vec<String>,
    ) -> Result<Vec<(FoundChunk, f32)>, Failure> {
        let Some(models) = self.models.clone().filter(|_| request.mode == SearchMode::Hybrid) else {
            return Ok(ranked);
        };
        let is_english = self.indexing.lexical()?.language_of(&request.query) == Language::English;
        let rest = ranked.split_off(ranked.len().min(RERANKED));
        let (query, texts) = (request.query.clone(), ranked.iter().map(passage).collect::<Vec<_>>());
        let judged = blocking(move || {
            let reranker = models.reranker().filter(|reranker| is_english || reranker.is_multilingual())?;
            Some(reranker.judge(&query, &texts.iter().map(String::as_str).collect::<Vec<_>>()))
        })
        .await?;
        match judged {
            Some(Ok(judged)) => {
                for ((_, score), judgement) in ranked.iter_mut().zip(judged) {
                    *score = judgement;
                }
                ranked.sort_by(|(_, one), (_, other)| other.total_cmp(one));
                ranked.iter_mut().for_each(|(_, score)| *score = relevance_of_judgement(*score));
                weighing::weigh(&request.query, &mut ranked);
                let last = ranked.last().map_or(1.0, |(_, score)| *score);
                // Those that were not read come behind, in their order.
                ranked.extend(rest.into_iter().map(|(found, score)| (found, score.min(last))));
            }
            Some(Err(error)) => {
                notices.push(format!("the passages were not reranked: {error}"));
                ranked.extend(rest);
            }
            None => ranked.extend(rest),
        }
        Ok(ranked)
    }

    async fn write_down(
        &self,
        request: &SearchRequest,
        collections: &[Collection],
        hits: &[Hit],
        started: Instant,
    ) {
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
            // The figures are worth less than the answer.
            if let Err(error) = self.store.record_query(query).await {
                tracing::warn!(%error, "a search is missing in the figures");
                return;
            }
        }
        self.used.notify_one();
    }
}

/// What was found, best first.
#[derive(Default)]
struct Ranked {
    found: Vec<(FoundChunk, f32)>,
    /// Whether a model was asked that does not know the question's language.
    is_foreign: bool,
}

/// Says which filters leave nothing to be searched.
fn nothing_fits(filter: &DocumentFilter) -> String {
    let given = [
        ("path", filter.path.is_some()),
        ("mime_type", filter.source_type.is_some()),
        ("tag", filter.tag.is_some()),
        ("since", filter.since.is_some()),
        ("until", filter.until.is_some()),
    ];
    let given: Vec<_> =
        given.iter().filter(|(_, is_given)| *is_given).map(|(name, _)| format!("`{name}`")).collect();
    let hint = match &filter.source_type {
        Some(kind) if !kind.contains('/') => " · hint: types are such as `application/pdf`",
        _ => "",
    };
    format!("no document fits the filters ({}), so nothing was searched{hint}", given.join(", "))
}

/// What the two halves found.
pub(super) struct Candidates {
    pub(super) lexical: Vec<ScoredChunk>,
    pub(super) dense: Vec<ScoredChunk>,
    /// Whether the question is in a language that no model here knows.
    is_foreign: bool,
    without_vectors: Vec<WithoutVectors>,
}

/// What the models found.
#[derive(Default)]
struct ByMeaning {
    chunks: Vec<ScoredChunk>,
    /// Whether one of them knows more than English.
    knows_languages: bool,
    without_vectors: Vec<WithoutVectors>,
}

/// A model and the collections that it should find something in, where its index is empty.
type WithoutVectors = (Arc<Meaning>, Vec<CollectionKey>);

/// What is nearest by all models.
fn nearest(
    meanings: &[(Arc<Meaning>, Vec<CollectionKey>)],
    mode: SearchMode,
    question: &str,
    only: Option<&ChunkSet>,
    limit: usize,
) -> Result<Result<ByMeaning, IndexError>, EmbedError> {
    let mut found = ByMeaning::default();
    for (meaning, within) in meanings {
        // The model need not be waited for where nothing could be found with it.
        let is_empty = match meaning.vectors.is_empty() {
            Ok(is_empty) => is_empty,
            Err(error) => return Ok(Err(error)),
        };
        if mode == SearchMode::Hybrid && is_empty {
            found.without_vectors.push((meaning.clone(), within.clone()));
            continue;
        }
        match meaning.nearest(question, within, only, limit)? {
            Ok(nearest) => found.chunks.extend(nearest),
            Err(error) => return Ok(Err(error)),
        }
        found.knows_languages |= meaning.embedder.is_multilingual();
    }
    found.chunks.sort_by(|one: &ScoredChunk, other| {
        other.score.total_cmp(&one.score).then(one.chunk.cmp(&other.chunk))
    });
    found.chunks.truncate(limit);
    Ok(Ok(found))
}

/// Which models have no vectors of passages that could be found: these are found by their words only.
fn words_only_without(
    without_vectors: &[WithoutVectors],
    collections: &[Collection],
) -> impl Iterator<Item = String> {
    let has_passages = |keys: &[CollectionKey]| {
        collections.iter().any(|collection| collection.chunks > 0 && keys.contains(&collection.key))
    };
    // That a server lacks them for now is said otherwise.
    let is_unsaid =
        move |(meaning, keys): &&WithoutVectors| meaning.notice_of_filling().is_none() && has_passages(keys);
    without_vectors.iter().filter(is_unsaid).map(|(meaning, _)| {
        let place = meaning.vectors.server().map_or(String::new(), |server| format!(" in {server} yet"));
        let model = meaning.embedder.model();
        format!(
            "found by words only, not by meaning: no passage has a vector of the embedding model `{model}`{place} · hint: \
             `hindcast models pull {model}` installs it, and `hindcast knowledge reindex` makes the vectors"
        )
    })
}

/// What a cross-encoder reads of a passage.
fn passage((found, _): &(FoundChunk, f32)) -> String {
    embedded_text(&found.headings, &found.text)
}

/// Gives the passage the id by which the caller sees its collection.
pub(super) fn under_seen_id(mut found: FoundChunk, collections: &[Collection]) -> FoundChunk {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_date_is_the_beginning_of_its_day_in_utc() {
        for (text, expected) in [
            ("2021-01-01", "2021-01-01T00:00:00Z"),
            ("2021-01-01T12:30:00", "2021-01-01T12:30:00Z"),
            ("2021-01-01T12:30:00+02:00", "2021-01-01T10:30:00Z"),
        ] {
            assert_eq!(moment("since", text).unwrap().to_string(), expected);
        }
        for text in ["", "yesterday", "2021-13-01"] {
            assert!(moment("until", text).unwrap_err().to_string().starts_with("`until` is"), "{text}");
        }
    }
}
