//! What a collection has, takes and is used for.

use hindcast_core::{Timestamp, identity::Caller, knowledge::Collection};

use super::{KnowledgeService, topics::topics};
use crate::Failure;

/// How much a collection is used.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum Activity {
    None,
    Low,
    Medium,
    High,
}

impl Activity {
    /// Its name on the wire.
    pub fn name(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Low => "low",
            Self::Medium => "medium",
            Self::High => "high",
        }
    }
}

/// What a number of queries in 30 days is called.
pub(super) fn activity(monthly_queries: u64) -> Activity {
    match monthly_queries {
        0 => Activity::None,
        1..10 => Activity::Low,
        10..50 => Activity::Medium,
        50.. => Activity::High,
    }
}

/// Thirty days before `now`.
pub(super) fn month_before(now: Timestamp) -> Timestamp {
    hours_before(now, 30 * 24)
}

pub(super) fn hours_before(now: Timestamp, hours: i64) -> Timestamp {
    now.checked_sub(jiff::SignedDuration::from_hours(hours)).unwrap_or(Timestamp::UNIX_EPOCH)
}

/// The figures of one collection.
#[derive(Debug, Clone, PartialEq)]
pub struct CollectionStats {
    /// The collection.
    pub collection: Collection,
    /// Queries of the last 30 days.
    pub monthly_queries: u64,
    /// Queries ever.
    pub total_queries: u64,
    /// The mean of the best hits' relevances; none without any.
    pub average_relevance: Option<f64>,
    /// What is asked most.
    pub topics: Vec<String>,
    /// Bytes of the documents as they came.
    pub document_bytes: u64,
    /// Bytes of the documents as they are kept.
    pub stored_bytes: u64,
    /// Bytes of all chunks.
    pub chunk_bytes: u64,
    /// Bytes of the vectors, kept and indexed.
    pub vector_bytes: u64,
    /// Chunks that are not found by meaning.
    pub missing_vectors: u64,
    /// Vectors that belong to no chunk.
    pub orphaned_vectors: u64,
    /// When that was checked.
    pub checked_at: Timestamp,
}

impl KnowledgeService {
    /// The figures behind a URI that names a collection.
    pub async fn stats_resource(
        &self,
        caller: &Caller,
        id: &str,
        uri: &str,
    ) -> Result<CollectionStats, Failure> {
        let collection = self.collection_resource(caller, id, uri).await?;
        self.stats(collection).await
    }

    /// The figures of a collection.
    pub async fn stats(&self, collection: Collection) -> Result<CollectionStats, Failure> {
        let now = self.clock.now();
        let queries = self.store.query_figures(collection.key, month_before(now)).await?;
        let storage = self.store.storage(collection.key, self.serving_model(&collection)).await?;
        // Its index is there once its model is open.
        let _ = self.meaning(self.serving_model(&collection)).await?;
        let check = self.indexing.check(collection.key, self.serving_model(&collection)).await?;
        Ok(CollectionStats {
            monthly_queries: queries.recent,
            total_queries: queries.total,
            average_relevance: queries.mean_best_score,
            topics: topics(&queries.texts, 3),
            document_bytes: storage.original_bytes,
            stored_bytes: storage.stored_bytes,
            chunk_bytes: storage.chunk_bytes,
            vector_bytes: storage.vector_bytes + check.index_bytes,
            missing_vectors: check.missing_vectors.max(storage.missing_vectors),
            orphaned_vectors: check.orphaned_vectors,
            checked_at: now,
            collection,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn activity_has_its_steps() {
        let steps: Vec<_> = [0, 1, 9, 10, 49, 50].map(|queries| activity(queries).name()).into();
        assert_eq!(steps, ["none", "low", "low", "medium", "medium", "high"]);
    }
}
