//! Chunks and vectors, as indexes and searches ask for them.

use async_trait::async_trait;
use hindcast_core::{
    knowledge::{
        ChangeRecord, ChunkChanges, ChunkId, ChunkSet, ChunkSource, CollectionKey, DocumentFilter,
        DocumentKey, FoundChunk, Generation, IndexedChunk, NewVector, Place, Storage, TextHash,
    },
    store::StoreError,
};
use tokio_postgres::Row;

use super::{
    super::{
        database::{Lease, column},
        keys::number,
        texts::{kept, optional_text, text},
    },
    CHANNEL, PostgresKnowledge, REMEMBERED,
    collections::{self, Hold, language},
    count,
    documents::{DOCUMENT_COLUMNS, document, hash},
    generation, hold_generation, made, ownership,
    rows::write_vectors,
};
use crate::instants::nanoseconds;

#[async_trait]
impl ChunkSource for PostgresKnowledge {
    async fn generation(&self) -> Result<Generation, StoreError> {
        generation(&self.read().await?).await
    }

    async fn await_news(&self) {
        self.wait_for_news().await;
    }

    async fn changes(&self, after: Generation) -> Result<Vec<ChangeRecord>, StoreError> {
        let asked = "
            SELECT generation, owner, collection, document, is_membership FROM hindcast.changes
            WHERE generation > $1 ORDER BY generation";
        let rows = self.read().await?.rows(asked, &[&number(after.0)]).await?;
        rows.iter()
            .map(|row| {
                Ok(ChangeRecord {
                    generation: Generation(count(column(row, 0)?)),
                    ownership: ownership(optional_text(row, 1)?),
                    collection: text(row, 2)?,
                    document: optional_text(row, 3)?,
                    is_membership: column(row, 4)?,
                })
            })
            .collect()
    }

    async fn chunk_changes(&self, after: Generation) -> Result<Option<ChunkChanges>, StoreError> {
        let lease = self.read().await?;
        let added = "SELECT collection, id FROM hindcast.chunks WHERE generation > $1";
        let added = pairs(&lease.rows(added, &[&number(after.0)]).await?)?;
        changes(&lease, after, added).await
    }

    async fn vector_changes(
        &self,
        model: &str,
        after: Generation,
    ) -> Result<Option<ChunkChanges>, StoreError> {
        let lease = self.read().await?;
        let added = "
            SELECT chunks.collection, chunks.id FROM hindcast.vectors JOIN hindcast.chunks ON chunks.id = vectors.chunk
            WHERE vectors.generation > $1 AND vectors.model = $2";
        let added = pairs(&lease.rows(added, &[&number(after.0), &kept(model)]).await?)?;
        changes(&lease, after, added).await
    }

    async fn collection_keys(&self) -> Result<Vec<CollectionKey>, StoreError> {
        let rows = self.read().await?.rows("SELECT key FROM hindcast.collections ORDER BY key", &[]).await?;
        rows.iter().map(|row| column(row, 0).map(CollectionKey)).collect()
    }

    async fn chunk_ids(&self, collection: CollectionKey) -> Result<Vec<ChunkId>, StoreError> {
        let asked = "SELECT id FROM hindcast.chunks WHERE collection = $1 ORDER BY id";
        ids(&self.read().await?.rows(asked, &[&collection.0]).await?)
    }

    async fn vector_ids(&self, collection: CollectionKey, model: &str) -> Result<Vec<ChunkId>, StoreError> {
        let asked = "
            SELECT id FROM hindcast.chunks WHERE collection = $1
            AND EXISTS (SELECT FROM hindcast.vectors WHERE chunk = chunks.id AND model = $2) ORDER BY id";
        ids(&self.read().await?.rows(asked, &[&collection.0, &kept(model)]).await?)
    }

    async fn indexed_chunks(&self, chunks: &[ChunkId]) -> Result<Vec<IndexedChunk>, StoreError> {
        let asked = "
            SELECT chunks.id, chunks.collection, headings, text, is_code, language, documents.name
            FROM hindcast.chunks JOIN hindcast.documents ON documents.key = chunks.document
            WHERE chunks.id = ANY($1::bigint[]) ORDER BY chunks.id";
        let rows = self.read().await?.rows(asked, &[&id_list(chunks)]).await?;
        rows.iter()
            .map(|row| {
                let (chunk, name) = (indexed(row)?, text(row, 6)?);
                let headings = match &chunk.headings {
                    headings if headings.is_empty() || *headings == name => name,
                    headings => format!("{name} › {headings}"),
                };
                Ok(IndexedChunk { headings, language: language(row, 5)?, ..chunk })
            })
            .collect()
    }

    async fn vectors(
        &self,
        model: &str,
        chunks: &[ChunkId],
    ) -> Result<Vec<(CollectionKey, ChunkId, Vec<f32>)>, StoreError> {
        let asked = "
            SELECT chunks.collection, chunks.id, numbers FROM unnest($1::bigint[]) WITH ORDINALITY AS wanted (id, place)
            JOIN hindcast.vectors ON vectors.chunk = wanted.id AND model = $2
            JOIN hindcast.chunks ON chunks.id = vectors.chunk ORDER BY place";
        let rows = self.read().await?.rows(asked, &[&id_list(chunks), &kept(model)]).await?;
        rows.iter()
            .map(|row| {
                let (collection, chunk) = pair(row)?;
                Ok((collection, chunk, numbers(row, 2)?))
            })
            .collect()
    }

    async fn found_chunks(&self, chunks: &[ChunkId]) -> Result<Vec<FoundChunk>, StoreError> {
        let asked = format!(
            "SELECT chunks.id, chunks.text, chunks.headings, first_byte, end_byte, first_line, last_line, page, is_code,
                    collections.id, {DOCUMENT_COLUMNS}
             FROM unnest($1::bigint[]) WITH ORDINALITY AS wanted (id, place)
             JOIN hindcast.chunks ON chunks.id = wanted.id
             JOIN hindcast.documents ON documents.key = chunks.document
             JOIN hindcast.collections ON collections.key = chunks.collection ORDER BY place"
        );
        let rows = self.read().await?.rows(&asked, &[&id_list(chunks)]).await?;
        rows.iter().map(|row| found(row, &self.machine)).collect()
    }

    async fn neighbours(
        &self,
        chunk: ChunkId,
        count: usize,
    ) -> Result<(Vec<String>, Vec<String>), StoreError> {
        let asked = "
            SELECT beside.position < this.position, beside.text FROM hindcast.chunks AS this
            JOIN hindcast.chunks AS beside ON beside.document = this.document
            WHERE this.id = $1 AND beside.position <> this.position
            AND beside.position BETWEEN this.position - $2 AND this.position + $2 ORDER BY beside.position";
        let count = i64::try_from(count).unwrap_or(i64::from(u32::MAX)).min(i64::from(u32::MAX));
        let (mut before, mut after) = (Vec::new(), Vec::new());
        for row in self.read().await?.rows(asked, &[&chunk.0, &count]).await? {
            if column(&row, 0)? { &mut before } else { &mut after }.push(text(&row, 1)?);
        }
        Ok((before, after))
    }

    async fn filtered_chunks(
        &self,
        collections: &[CollectionKey],
        filter: &DocumentFilter,
    ) -> Result<ChunkSet, StoreError> {
        let asked = "
            SELECT chunks.id FROM hindcast.documents JOIN hindcast.chunks ON chunks.document = documents.key
            WHERE documents.collection = ANY($1::bigint[])
            AND ($2::text IS NULL OR strpos(coalesce(path, documents.id), $2) > 0)
            AND ($3::text IS NULL OR coalesce(source_type, mime_type) = $3)
            AND ($4::text IS NULL OR EXISTS (
                SELECT FROM hindcast.tags WHERE document = documents.key AND tag_hash = sha256(convert_to($4::text, 'UTF8'))
            ))
            AND ($5::bigint IS NULL OR coalesce(dated, nullif(modified, 0), updated_at) >= $5)
            AND ($6::bigint IS NULL OR coalesce(dated, nullif(modified, 0), updated_at) < $6)";
        let keys: Vec<_> = collections.iter().map(|key| key.0).collect();
        let narrowed = |text: &Option<String>| text.as_deref().map(|text| kept(text).into_owned());
        let rows = self
            .read()
            .await?
            .rows(
                asked,
                &[
                    &keys,
                    &narrowed(&filter.path),
                    &narrowed(&filter.source_type),
                    &narrowed(&filter.tag),
                    &filter.since.map(nanoseconds),
                    &filter.until.map(nanoseconds),
                ],
            )
            .await?;
        Ok(ids(&rows)?.into_iter().collect())
    }

    async fn embedded_hashes(&self, document: DocumentKey, model: &str) -> Result<Vec<TextHash>, StoreError> {
        let asked = "
            SELECT hash FROM hindcast.chunks WHERE document = $1
            AND EXISTS (SELECT FROM hindcast.vectors WHERE chunk = chunks.id AND model = $2)";
        let rows = self.read().await?.rows(asked, &[&document.0, &kept(model)]).await?;
        rows.iter().map(|row| hash(row, 0)).collect()
    }

    async fn vectors_of(
        &self,
        collection: CollectionKey,
        model: &str,
        hashes: Vec<TextHash>,
    ) -> Result<Vec<(TextHash, Vec<f32>)>, StoreError> {
        if hashes.is_empty() {
            return Ok(Vec::new());
        }
        let asked = "
            SELECT wanted.hash, found.numbers FROM unnest($1::bytea[]) AS wanted (hash)
            CROSS JOIN LATERAL (
                SELECT numbers FROM hindcast.chunks JOIN hindcast.vectors ON vectors.chunk = chunks.id AND model = $2
                WHERE chunks.hash = wanted.hash AND chunks.collection = $3 LIMIT 1
            ) AS found";
        let hashes: Vec<_> = hashes.iter().map(TextHash::as_slice).collect();
        let rows = self.read().await?.rows(asked, &[&hashes, &kept(model), &collection.0]).await?;
        rows.iter().map(|row| Ok((hash(row, 0)?, numbers(row, 1)?))).collect()
    }

    async fn document_without_vector(
        &self,
        document: DocumentKey,
        model: &str,
        limit: usize,
    ) -> Result<Vec<IndexedChunk>, StoreError> {
        let asked = "
            SELECT id, collection, headings, text, is_code FROM hindcast.chunks WHERE document = $1
            AND NOT EXISTS (SELECT FROM hindcast.vectors WHERE chunk = chunks.id AND model = $2)
            ORDER BY position LIMIT $3";
        let limit = number(limit as u64);
        let rows = self.read().await?.rows(asked, &[&document.0, &kept(model), &limit]).await?;
        rows.iter().map(indexed).collect()
    }

    async fn without_vector(
        &self,
        collection: CollectionKey,
        model: &str,
        limit: usize,
    ) -> Result<Vec<IndexedChunk>, StoreError> {
        let asked = "
            SELECT id, collection, headings, text, is_code FROM hindcast.chunks WHERE collection = $1
            AND NOT EXISTS (SELECT FROM hindcast.vectors WHERE chunk = chunks.id AND model = $2) LIMIT $3";
        let limit = number(limit as u64);
        let rows = self.read().await?.rows(asked, &[&collection.0, &kept(model), &limit]).await?;
        rows.iter().map(indexed).collect()
    }

    async fn keep_vectors(&self, vectors: Vec<(ChunkId, NewVector)>) -> Result<(), StoreError> {
        let lease = self.write().await?;
        lease.end(keep_vectors(&lease, &vectors).await).await
    }

    async fn retire_other_models(&self, collection: CollectionKey, model: &str) -> Result<(), StoreError> {
        let lease = self.write().await?;
        lease.end(retire_other_models(&lease, collection, model).await).await
    }

    async fn storage(&self, collection: CollectionKey, model: &str) -> Result<Storage, StoreError> {
        let lease = self.read().await?;
        let chunks = "
            SELECT coalesce(sum(bytes), 0)::bigint, coalesce(sum(octet_length(numbers)), 0)::bigint,
                   count(*) FILTER (WHERE numbers IS NULL)
            FROM hindcast.chunks LEFT JOIN hindcast.vectors ON vectors.chunk = chunks.id AND vectors.model = $2
            WHERE collection = $1";
        let documents = "
            SELECT coalesce(sum(size), 0)::bigint, coalesce(sum(octet_length(original)), 0)::bigint,
                   coalesce(sum(octet_length(text)), 0)::bigint
            FROM hindcast.documents JOIN hindcast.contents ON contents.document = documents.key WHERE collection = $1";
        let chunks = lease.row(chunks, &[&collection.0, &kept(model)]).await?;
        let documents = lease.row(documents, &[&collection.0]).await?;
        let sum = |row: &Option<Row>, at| match row {
            Some(row) => column(row, at).map(count),
            None => Ok(0),
        };
        Ok(Storage {
            chunk_bytes: sum(&chunks, 0)?,
            vector_bytes: sum(&chunks, 1)?,
            missing_vectors: sum(&chunks, 2)?,
            original_bytes: sum(&documents, 0)?,
            stored_bytes: sum(&documents, 1)?,
            text_bytes: sum(&documents, 2)?,
        })
    }
}

/// What came, and what went, after a generation. What went is read, and the generation looked at, after what came: if nothing
/// after it is forgotten by then, nothing was forgotten before.
async fn changes(
    lease: &Lease<'_>,
    after: Generation,
    added: Vec<(CollectionKey, ChunkId)>,
) -> Result<Option<ChunkChanges>, StoreError> {
    let removed = "SELECT collection, chunk FROM hindcast.removed_chunks WHERE generation > $1";
    let removed = pairs(&lease.rows(removed, &[&number(after.0)]).await?)?;
    let now = generation(lease).await?;
    // An index from the future belongs to another truth.
    let is_forgotten = after > now || now.0 - after.0 >= REMEMBERED;
    Ok((!is_forgotten).then_some(ChunkChanges { added, removed }))
}

async fn keep_vectors(lease: &Lease<'_>, vectors: &[(ChunkId, NewVector)]) -> Result<(), StoreError> {
    let chunks: Vec<_> = vectors.iter().map(|(chunk, _)| chunk.0).collect();
    // A collection that is removed loses its chunks before the generation's row is held.
    let hold = "
        SELECT key FROM hindcast.collections
        WHERE key IN (SELECT collection FROM hindcast.chunks WHERE id = ANY($1::bigint[])) ORDER BY key FOR KEY SHARE";
    lease.rows(hold, &[&chunks]).await?;
    let next = "
        WITH next AS (UPDATE hindcast.generation SET value = value + 1 RETURNING value)
        SELECT value, pg_notify($1, '') FROM next";
    let generation = made(lease.row(next, &[&CHANNEL]).await?.as_ref())?;
    let vectors = vectors.iter().map(|(chunk, vector)| (*chunk, vector)).collect();
    write_vectors(lease, vectors, generation).await
}

async fn retire_other_models(
    lease: &Lease<'_>,
    collection: CollectionKey,
    model: &str,
) -> Result<(), StoreError> {
    match collections::hold(lease, collection, Hold::Write).await {
        Ok(_) => {}
        Err(StoreError::CollectionGone) => return Ok(()),
        Err(error) => return Err(error),
    }
    hold_generation(lease).await?;
    let serving = "UPDATE hindcast.collections SET vectors_by = $2 WHERE key = $1";
    lease.execute(serving, &[&collection.0, &kept(model)]).await?;
    let forget = "
        DELETE FROM hindcast.vectors WHERE model <> $2
        AND chunk IN (SELECT id FROM hindcast.chunks WHERE collection = $1)";
    lease.execute(forget, &[&collection.0, &kept(model)]).await.map(drop)
}

fn pairs(rows: &[Row]) -> Result<Vec<(CollectionKey, ChunkId)>, StoreError> {
    rows.iter().map(pair).collect()
}

fn pair(row: &Row) -> Result<(CollectionKey, ChunkId), StoreError> {
    Ok((CollectionKey(column(row, 0)?), ChunkId(column(row, 1)?)))
}

fn ids(rows: &[Row]) -> Result<Vec<ChunkId>, StoreError> {
    rows.iter().map(|row| column(row, 0).map(ChunkId)).collect()
}

fn id_list(chunks: &[ChunkId]) -> Vec<i64> {
    chunks.iter().map(|chunk| chunk.0).collect()
}

/// A chunk without its document's name and language.
fn indexed(row: &Row) -> Result<IndexedChunk, StoreError> {
    Ok(IndexedChunk {
        chunk: ChunkId(column(row, 0)?),
        collection: CollectionKey(column(row, 1)?),
        headings: text(row, 2)?,
        text: text(row, 3)?,
        is_code: column(row, 4)?,
        language: None,
    })
}

fn found(row: &Row, machine: &str) -> Result<FoundChunk, StoreError> {
    let number = |at| column(row, at).map(count);
    Ok(FoundChunk {
        chunk: ChunkId(column(row, 0)?),
        text: text(row, 1)?,
        headings: text(row, 2)?,
        place: Place {
            bytes: (number(3)?, number(4)?),
            lines: (number(5)?, number(6)?),
            page: column::<Option<i64>>(row, 7)?.map(count),
        },
        is_code: column(row, 8)?,
        collection: text(row, 9)?,
        document: document(row, 10, machine)?,
    })
}

fn numbers(row: &Row, at: usize) -> Result<Vec<f32>, StoreError> {
    let bytes: &[u8] = column(row, at)?;
    Ok(bytes.as_chunks().0.iter().map(|bytes| f32::from_le_bytes(*bytes)).collect())
}
