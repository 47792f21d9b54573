//! Queries and answers in their tables. They are committed without waiting for the disk, and figures are all that a crash of
//! the machine can take; answers, which conversations go on from, do wait.

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

use super::{
    super::{
        database::{Lease, column},
        keys::number,
        texts::{kept, optional_text, text},
    },
    PostgresKnowledge, count, made, ownership,
};
use crate::instants::{nanoseconds, timestamp};

/// How many different query texts are looked at for their topics.
const TEXTS: i64 = 5000;

/// Nothing is kept of a collection that has gone meanwhile, or is just being removed: nobody waits for that.
const RECORD_QUERY: &str = "
    WITH next AS (
        UPDATE hindcast.uses SET value = value + cardinality($1::bigint[]) RETURNING value
    ), used AS (
        SELECT key FROM hindcast.collections WHERE key = ANY($1::bigint[]) ORDER BY key FOR KEY SHARE SKIP LOCKED
    ), asked AS (
        INSERT INTO hindcast.queries (collection, at, text, latency_us, best_score, asked)
        SELECT key, $2::bigint, $3::text, $4::bigint, $5::float8, $6::bool FROM used
    )
    INSERT INTO hindcast.collection_uses (collection, accessed_at, used) SELECT key, $2::bigint, value FROM next, used
    ON CONFLICT (collection) DO UPDATE SET accessed_at = excluded.accessed_at, used = excluded.used";

const NOTE_USE: &str = "
    WITH next AS (
        UPDATE hindcast.uses SET value = value + 1 RETURNING value
    ), used AS (
        SELECT key FROM hindcast.collections WHERE key = $1 FOR KEY SHARE SKIP LOCKED
    )
    INSERT INTO hindcast.collection_uses (collection, accessed_at, used) SELECT key, $2::bigint, value FROM next, used
    ON CONFLICT (collection) DO UPDATE SET accessed_at = excluded.accessed_at, used = excluded.used";

const RECORD_ANSWER: &str = "
    WITH next AS (
        UPDATE hindcast.uses SET value = value + 1 RETURNING value
    )
    INSERT INTO hindcast.answers (conversation, owner, model, at, question, answer, duration_ms, tokens, used)
    SELECT $1::text, $2::text, $3::text, $4::bigint, $5::text, $6::text, $7::bigint, $8::bigint, value FROM next";

#[async_trait]
impl UsageLog for PostgresKnowledge {
    async fn record_query(&self, query: QueryRecord) -> Result<(), StoreError> {
        let collections: Vec<_> = query.collections.iter().map(|key| key.0).collect();
        let (at, latency) = (nanoseconds(query.at), number(query.latency_us));
        let best_score = query.best_score.map(f64::from);
        self.database
            .lookup()
            .await?
            .execute(
                RECORD_QUERY,
                &[&collections, &at, &kept(&query.text), &latency, &best_score, &query.is_asked],
            )
            .await
            .map(drop)
    }

    async fn query_figures(
        &self,
        collection: CollectionKey,
        since: Timestamp,
    ) -> Result<QueryFigures, StoreError> {
        let lease = self.read().await?;
        let texts = "
            SELECT text, count(*) FROM hindcast.queries WHERE collection = $1 AND asked
            GROUP BY text ORDER BY count(*) DESC, max(at) DESC LIMIT $2";
        let texts = lease.rows(texts, &[&collection.0, &TEXTS]).await?;
        let texts = texts.iter().map(|row| Ok((text(row, 0)?, count(column(row, 1)?))));
        let texts = texts.collect::<Result<_, StoreError>>()?;
        let figures = "
            SELECT count(*) FILTER (WHERE at >= $2), count(*), avg(best_score)
            FROM hindcast.queries WHERE collection = $1";
        let figures = lease.row(figures, &[&collection.0, &nanoseconds(since)]).await?;
        let Some(row) = figures else { return Ok(QueryFigures { texts, ..Default::default() }) };
        Ok(QueryFigures {
            recent: count(column(&row, 0)?),
            total: count(column(&row, 1)?),
            mean_best_score: column(&row, 2)?,
            texts,
        })
    }

    async fn recent_queries(&self, since: Timestamp) -> Result<Vec<(CollectionKey, u64)>, StoreError> {
        let asked = "SELECT collection, count(*) FROM hindcast.queries WHERE at >= $1 GROUP BY collection";
        let rows = self.read().await?.rows(asked, &[&nanoseconds(since)]).await?;
        rows.iter().map(|row| Ok((CollectionKey(column(row, 0)?), count(column(row, 1)?)))).collect()
    }

    async fn record_answer(&self, answer: AnswerRecord) -> Result<(), StoreError> {
        self.read()
            .await?
            .execute(
                RECORD_ANSWER,
                &[
                    &kept(&answer.conversation),
                    &kept(&answer.owner.0),
                    &kept(&answer.model),
                    &nanoseconds(answer.at),
                    &kept(&answer.question),
                    &answer.answer.as_deref().map(kept),
                    &number(answer.duration_ms),
                    &number(answer.tokens),
                ],
            )
            .await
            .map(drop)
    }

    async fn conversation(&self, id: &str, owner: &PrincipalId) -> Result<Option<Vec<Turn>>, StoreError> {
        let asked = "
            SELECT question, answer FROM hindcast.answers WHERE conversation = $1 AND owner = $2 ORDER BY at, number";
        let rows = self.read().await?.rows(asked, &[&kept(id), &kept(&owner.0)]).await?;
        let mut turns = Vec::new();
        for row in &rows {
            if let Some(answer) = optional_text(row, 1)? {
                turns.push(Turn { question: text(row, 0)?, answer });
            }
        }
        Ok((!rows.is_empty()).then_some(turns))
    }

    async fn used_since(&self, position: u64) -> Result<Option<Used>, StoreError> {
        let lease = self.read().await?;
        let now = count(made(lease.row("SELECT value FROM hindcast.uses", &[]).await?.as_ref())?);
        if now == position {
            return Ok(None);
        }
        let position = number(position);
        let collections = "
            SELECT owner, id FROM hindcast.collection_uses JOIN hindcast.collections ON key = collection WHERE used > $1";
        let collections = lease.rows(collections, &[&position]).await?;
        let collections =
            collections.iter().map(|row| Ok((ownership(optional_text(row, 0)?), text(row, 1)?)));
        let askers = "SELECT DISTINCT owner FROM hindcast.answers WHERE used > $1";
        let askers = lease.rows(askers, &[&position]).await?;
        let askers = askers.iter().map(|row| Ok(PrincipalId(text(row, 0)?.into())));
        Ok(Some(Used {
            position: now,
            collections: collections.collect::<Result<_, StoreError>>()?,
            askers: askers.collect::<Result<_, StoreError>>()?,
        }))
    }

    async fn model_figures(&self, owner: &PrincipalId) -> Result<Vec<ModelFigures>, StoreError> {
        let asked = "
            SELECT model, count(DISTINCT conversation), count(*), count(answer),
                   (avg(duration_ms) FILTER (WHERE answer IS NOT NULL))::float8, coalesce(sum(tokens), 0)::bigint, max(at)
            FROM hindcast.answers WHERE owner = $1 GROUP BY model ORDER BY model COLLATE \"C\"";
        let rows = self.read().await?.rows(asked, &[&kept(&owner.0)]).await?;
        rows.iter()
            .map(|row| {
                Ok(ModelFigures {
                    model: text(row, 0)?,
                    conversations: count(column(row, 1)?),
                    asked: count(column(row, 2)?),
                    answered: count(column(row, 3)?),
                    mean_duration_ms: column(row, 4)?,
                    tokens: count(column(row, 5)?),
                    last_used: column::<Option<i64>>(row, 6)?.map(timestamp),
                })
            })
            .collect()
    }

    async fn answer_figures(
        &self,
        owner: &PrincipalId,
        since: Timestamp,
        errors_since: Timestamp,
    ) -> Result<AnswerFigures, StoreError> {
        let asked = "
            SELECT count(*) FILTER (WHERE at >= $1), count(answer) FILTER (WHERE at >= $1),
                   (avg(duration_ms) FILTER (WHERE at >= $1 AND answer IS NOT NULL))::float8,
                   count(*) FILTER (WHERE at >= $2 AND answer IS NULL), count(DISTINCT conversation)
            FROM hindcast.answers WHERE owner = $3";
        let (since, errors_since) = (nanoseconds(since), nanoseconds(errors_since));
        let row = self.read().await?.row(asked, &[&since, &errors_since, &kept(&owner.0)]).await?;
        let Some(row) = row else { return Ok(AnswerFigures::default()) };
        Ok(AnswerFigures {
            asked: count(column(&row, 0)?),
            answered: count(column(&row, 1)?),
            mean_duration_ms: column(&row, 2)?,
            recent_errors: count(column(&row, 3)?),
            conversations: count(column(&row, 4)?),
        })
    }
}

/// Notes that a collection was searched or read.
pub(super) async fn note_use(
    lease: &Lease<'_>,
    key: CollectionKey,
    now: Timestamp,
) -> Result<(), StoreError> {
    lease.execute(NOTE_USE, &[&key.0, &nanoseconds(now)]).await.map(drop)
}
