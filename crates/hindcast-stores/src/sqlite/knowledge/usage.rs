//! Queries and answers in their tables.

use async_trait::async_trait;
use hindcast_core::{
    Timestamp,
    identity::PrincipalId,
    knowledge::{
        AnswerFigures, AnswerRecord, CollectionKey, ModelFigures, QueryFigures, QueryRecord, Turn, UsageLog,
        Used,
    },
    store::StoreError,
};
use rusqlite::params;

use super::{
    super::{
        keys::{nanoseconds, timestamp},
        transaction::Transaction,
        unavailable,
    },
    SqliteKnowledge, ownership,
};

/// How many different query texts are looked at for their topics.
const TEXTS: usize = 5000;

#[async_trait]
impl UsageLog for SqliteKnowledge {
    async fn record_query(&self, query: QueryRecord) -> Result<(), StoreError> {
        self.write(move |transaction| {
            let write = || {
                // Nothing is kept of a collection that has gone meanwhile.
                let mut insert = transaction.prepare_cached(
                    "INSERT INTO queries (collection, at, text, latency_us, best_score, asked)
                     SELECT key, ?2, ?3, ?4, ?5, ?6 FROM collections WHERE key = ?1",
                )?;
                for collection in &query.collections {
                    let at = nanoseconds(query.at);
                    insert.execute(params![
                        collection.0,
                        at,
                        query.text,
                        query.latency_us,
                        query.best_score,
                        query.is_asked
                    ])?;
                    note_use(transaction, *collection, query.at)?;
                }
                Ok(())
            };
            write().map_err(unavailable)
        })
        .await
    }

    async fn query_figures(
        &self,
        collection: CollectionKey,
        since: Timestamp,
    ) -> Result<QueryFigures, StoreError> {
        self.read(move |connection| {
            let texts = connection
                .prepare_cached(
                    "SELECT text, count(*) FROM queries WHERE collection = ?1 AND asked
                     GROUP BY text ORDER BY count(*) DESC, max(at) DESC LIMIT ?2",
                )?
                .query_map(params![collection.0, TEXTS], |row| Ok((row.get(0)?, row.get(1)?)))?
                .collect::<rusqlite::Result<_>>()?;
            connection
                .prepare_cached(
                    "SELECT count(*) FILTER (WHERE at >= ?2), count(*), avg(best_score)
                     FROM queries WHERE collection = ?1",
                )?
                .query_row(params![collection.0, nanoseconds(since)], |row| {
                    Ok(QueryFigures {
                        recent: row.get(0)?,
                        total: row.get(1)?,
                        mean_best_score: row.get(2)?,
                        texts,
                    })
                })
        })
        .await
    }

    async fn recent_queries(&self, since: Timestamp) -> Result<Vec<(CollectionKey, u64)>, StoreError> {
        self.read(move |connection| {
            connection
                .prepare_cached(
                    "SELECT collection, count(*) FROM queries WHERE at >= ?1 GROUP BY collection",
                )?
                .query_map([nanoseconds(since)], |row| Ok((CollectionKey(row.get(0)?), row.get(1)?)))?
                .collect()
        })
        .await
    }

    async fn record_answer(&self, answer: AnswerRecord) -> Result<(), StoreError> {
        self.write(move |transaction| {
            let position = next_use(transaction).map_err(unavailable)?;
            transaction
                .execute(
                    "INSERT INTO answers (conversation, owner, model, at, question, answer, duration_ms, tokens, used)
                     VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9)",
                    params![
                        answer.conversation,
                        &*answer.owner.0,
                        answer.model,
                        nanoseconds(answer.at),
                        answer.question,
                        answer.answer,
                        answer.duration_ms,
                        answer.tokens,
                        position
                    ],
                )
                .map(drop)
                .map_err(unavailable)
        })
        .await
    }

    async fn conversation(&self, id: &str, owner: &PrincipalId) -> Result<Option<Vec<Turn>>, StoreError> {
        let (id, owner) = (id.to_owned(), owner.clone());
        self.read(move |connection| {
            let rows: Vec<(String, Option<String>)> = connection
                .prepare_cached(
                    "SELECT question, answer FROM answers WHERE conversation = ?1 AND owner = ?2 ORDER BY at",
                )?
                .query_map(params![id, &*owner.0], |row| Ok((row.get(0)?, row.get(1)?)))?
                .collect::<rusqlite::Result<_>>()?;
            let exists = !rows.is_empty();
            let turns =
                rows.into_iter().filter_map(|(question, answer)| Some(Turn { question, answer: answer? }));
            Ok(exists.then(|| turns.collect()))
        })
        .await
    }

    async fn used_since(&self, position: u64) -> Result<Option<Used>, StoreError> {
        if self.is_untouched() {
            return Ok(None);
        }
        self.read(move |connection| {
            let now: u64 =
                connection.prepare_cached("SELECT value FROM uses")?.query_row([], |row| row.get(0))?;
            if now == position {
                return Ok(None);
            }
            let collections = connection
                .prepare_cached("SELECT owner, id FROM collections WHERE used > ?1")?
                .query_map([position], |row| Ok((ownership(row.get(0)?), row.get(1)?)))?
                .collect::<rusqlite::Result<_>>()?;
            let askers = connection
                .prepare_cached("SELECT DISTINCT owner FROM answers WHERE used > ?1")?
                .query_map([position], |row| Ok(PrincipalId(row.get::<_, String>(0)?.into())))?
                .collect::<rusqlite::Result<_>>()?;
            Ok(Some(Used { position: now, collections, askers }))
        })
        .await
    }

    async fn model_figures(&self, owner: &PrincipalId) -> Result<Vec<ModelFigures>, StoreError> {
        let owner = owner.clone();
        self.read(move |connection| {
            connection
                .prepare_cached(
                    "SELECT model, count(DISTINCT conversation), count(*), count(answer),
                            avg(iif(answer IS NULL, NULL, duration_ms)), sum(tokens), max(at)
                     FROM answers WHERE owner = ?1 GROUP BY model",
                )?
                .query_map([&*owner.0], |row| {
                    Ok(ModelFigures {
                        model: row.get(0)?,
                        conversations: row.get(1)?,
                        asked: row.get(2)?,
                        answered: row.get(3)?,
                        mean_duration_ms: row.get(4)?,
                        tokens: row.get(5)?,
                        last_used: row.get::<_, Option<i64>>(6)?.map(timestamp),
                    })
                })?
                .collect()
        })
        .await
    }

    async fn answer_figures(
        &self,
        owner: &PrincipalId,
        since: Timestamp,
        errors_since: Timestamp,
    ) -> Result<AnswerFigures, StoreError> {
        let owner = owner.clone();
        self.read(move |connection| {
            connection
                .prepare_cached(
                    "SELECT count(*) FILTER (WHERE at >= ?1), count(answer) FILTER (WHERE at >= ?1),
                            avg(duration_ms) FILTER (WHERE at >= ?1 AND answer IS NOT NULL),
                            count(*) FILTER (WHERE at >= ?2 AND answer IS NULL), count(DISTINCT conversation)
                     FROM answers WHERE owner = ?3",
                )?
                .query_row(params![nanoseconds(since), nanoseconds(errors_since), &*owner.0], |row| {
                    Ok(AnswerFigures {
                        asked: row.get(0)?,
                        answered: row.get(1)?,
                        mean_duration_ms: row.get(2)?,
                        recent_errors: row.get(3)?,
                        conversations: row.get(4)?,
                    })
                })
        })
        .await
    }
}

/// Notes that a collection was searched or read.
pub(super) fn note_use(
    transaction: &Transaction<'_>,
    collection: CollectionKey,
    at: Timestamp,
) -> rusqlite::Result<()> {
    let position = next_use(transaction)?;
    transaction
        .prepare_cached("UPDATE collections SET accessed_at = ?2, used = ?3 WHERE key = ?1")?
        .execute(params![collection.0, nanoseconds(at), position])?;
    Ok(())
}

fn next_use(transaction: &Transaction<'_>) -> rusqlite::Result<i64> {
    transaction
        .prepare_cached("UPDATE uses SET value = value + 1 RETURNING value")?
        .query_row([], |row| row.get(0))
}
