//! Chunks and vectors, as indexes and searches ask for them.

use std::time::Duration;

use async_trait::async_trait;
use hindcast_core::{
    knowledge::{
        ChangeRecord, ChunkChanges, ChunkId, ChunkSet, ChunkSource, CollectionKey, DocumentFilter,
        DocumentKey, FoundChunk, Generation, IndexedChunk, NewVector, Place, Storage, TextHash,
    },
    store::StoreError,
};
use rusqlite::{Connection, OptionalExtension, Row, params};

use super::{
    super::{keys::nanoseconds, unavailable},
    REMEMBERED, SqliteKnowledge,
    documents::{DOCUMENT_COLUMNS, document, hash, language, write_vector},
    generation, ownership,
};

/// How soon it is seen what another process wrote: a file tells nobody.
const LOOK_EVERY: Duration = Duration::from_millis(250);

const INDEXED: &str = "
    SELECT chunks.id, chunks.collection,
           documents.name || iif(headings = '' OR headings = documents.name, '', ' › ' || headings), text, is_code, language
    FROM chunks JOIN documents ON documents.key = chunks.document";

#[async_trait]
impl ChunkSource for SqliteKnowledge {
    async fn generation(&self) -> Result<Generation, StoreError> {
        if self.is_untouched() {
            return Ok(Generation::default());
        }
        self.read(generation).await
    }

    async fn await_news(&self) {
        tokio::time::sleep(LOOK_EVERY).await;
    }

    async fn changes(&self, after: Generation) -> Result<Vec<ChangeRecord>, StoreError> {
        self.read(move |connection| {
            connection
                .prepare_cached(
                    "SELECT generation, owner, collection, document, is_membership FROM changes
                     WHERE generation > ?1 ORDER BY generation",
                )?
                .query_map([after.0], |row| {
                    Ok(ChangeRecord {
                        generation: Generation(row.get(0)?),
                        ownership: ownership(row.get(1)?),
                        collection: row.get(2)?,
                        document: row.get(3)?,
                        is_membership: row.get(4)?,
                    })
                })?
                .collect()
        })
        .await
    }

    async fn chunk_changes(&self, after: Generation) -> Result<Option<ChunkChanges>, StoreError> {
        self.read(move |connection| {
            if is_forgotten(connection, after)? {
                return Ok(None);
            }
            let added = connection
                .prepare_cached("SELECT collection, id FROM chunks WHERE generation > ?1")?
                .query_map([after.0], pair)?
                .collect::<rusqlite::Result<_>>()?;
            Ok(Some(ChunkChanges { added, removed: removed(connection, after)? }))
        })
        .await
    }

    async fn vector_changes(
        &self,
        model: &str,
        after: Generation,
    ) -> Result<Option<ChunkChanges>, StoreError> {
        let model = model.to_owned();
        self.read(move |connection| {
            if is_forgotten(connection, after)? {
                return Ok(None);
            }
            let added = connection
                .prepare_cached(
                    "SELECT chunks.collection, chunks.id FROM vectors JOIN chunks ON chunks.id = vectors.chunk
                     WHERE vectors.generation > ?1 AND vectors.model = ?2",
                )?
                .query_map(params![after.0, model], pair)?
                .collect::<rusqlite::Result<_>>()?;
            Ok(Some(ChunkChanges { added, removed: removed(connection, after)? }))
        })
        .await
    }

    async fn collection_keys(&self) -> Result<Vec<CollectionKey>, StoreError> {
        self.read(|connection| {
            connection
                .prepare_cached("SELECT key FROM collections ORDER BY key")?
                .query_map([], |row| row.get(0).map(CollectionKey))?
                .collect()
        })
        .await
    }

    async fn chunk_ids(&self, collection: CollectionKey) -> Result<Vec<ChunkId>, StoreError> {
        self.read(move |connection| {
            connection
                .prepare_cached("SELECT id FROM chunks WHERE collection = ?1 ORDER BY id")?
                .query_map([collection.0], |row| row.get(0).map(ChunkId))?
                .collect()
        })
        .await
    }

    async fn vector_ids(&self, collection: CollectionKey, model: &str) -> Result<Vec<ChunkId>, StoreError> {
        let model = model.to_owned();
        self.read(move |connection| {
            connection
                .prepare_cached(
                    "SELECT id FROM chunks WHERE collection = ?1
                     AND EXISTS (SELECT 1 FROM vectors WHERE chunk = chunks.id AND model = ?2) ORDER BY id",
                )?
                .query_map(params![collection.0, model], |row| row.get(0).map(ChunkId))?
                .collect()
        })
        .await
    }

    async fn indexed_chunks(&self, chunks: &[ChunkId]) -> Result<Vec<IndexedChunk>, StoreError> {
        let ids = id_list(chunks);
        self.read(move |connection| {
            connection
                .prepare_cached(&format!("{INDEXED} WHERE chunks.id IN (SELECT value FROM json_each(?1))"))?
                .query_map([ids], indexed)?
                .collect()
        })
        .await
    }

    async fn vectors(
        &self,
        model: &str,
        chunks: &[ChunkId],
    ) -> Result<Vec<(CollectionKey, ChunkId, Vec<f32>)>, StoreError> {
        let (ids, model) = (id_list(chunks), model.to_owned());
        self.read(move |connection| {
            connection
                .prepare_cached(
                    "SELECT chunks.collection, chunks.id, numbers
                     FROM json_each(?1) JOIN vectors ON vectors.chunk = value JOIN chunks ON chunks.id = vectors.chunk
                     WHERE model = ?2",
                )?
                .query_map(params![ids, model], |row| {
                    let (collection, chunk) = pair(row)?;
                    Ok((collection, chunk, numbers(row, 2)?))
                })?
                .collect()
        })
        .await
    }

    async fn found_chunks(&self, chunks: &[ChunkId]) -> Result<Vec<FoundChunk>, StoreError> {
        let ids = id_list(chunks);
        self.read(move |connection| {
            connection
                .prepare_cached(&format!(
                    "SELECT chunks.id, chunks.text, chunks.headings, first_byte, end_byte, first_line, last_line, page,
                            is_code, collections.id, {DOCUMENT_COLUMNS}
                     FROM json_each(?1) JOIN chunks ON chunks.id = value
                     JOIN documents ON documents.key = chunks.document
                     JOIN collections ON collections.key = chunks.collection"
                ))?
                .query_map([ids], found)?
                .collect()
        })
        .await
    }

    async fn neighbours(
        &self,
        chunk: ChunkId,
        count: usize,
    ) -> Result<(Vec<String>, Vec<String>), StoreError> {
        self.read(move |connection| {
            let mut statement = connection.prepare_cached(
                "SELECT beside.position < this.position, beside.text FROM chunks AS this
                 JOIN chunks AS beside ON beside.document = this.document
                 WHERE this.id = ?1 AND beside.position <> this.position
                 AND beside.position BETWEEN this.position - ?2 AND this.position + ?2 ORDER BY beside.position",
            )?;
            let mut rows = statement.query(params![chunk.0, count])?;
            let (mut before, mut after) = (Vec::new(), Vec::new());
            while let Some(row) = rows.next()? {
                if row.get(0)? { &mut before } else { &mut after }.push(row.get(1)?);
            }
            Ok((before, after))
        })
        .await
    }

    async fn filtered_chunks(
        &self,
        collections: &[CollectionKey],
        filter: &DocumentFilter,
    ) -> Result<ChunkSet, StoreError> {
        let keys: Vec<_> = collections.iter().map(|key| key.0.to_string()).collect();
        let keys = format!("[{}]", keys.join(","));
        let filter = filter.clone();
        self.read(move |connection| {
            connection
                .prepare_cached(
                    "SELECT chunks.id FROM documents JOIN chunks ON chunks.document = documents.key
                     WHERE documents.collection IN (SELECT value FROM json_each(?1))
                     AND (?2 IS NULL OR instr(coalesce(path, documents.id), ?2) > 0)
                     AND (?3 IS NULL OR coalesce(source_type, mime_type) = ?3)
                     AND (?4 IS NULL OR EXISTS (SELECT 1 FROM tags WHERE document = documents.key AND tag = ?4))
                     AND (?5 IS NULL OR coalesce(dated, nullif(modified, 0), updated_at) >= ?5)
                     AND (?6 IS NULL OR coalesce(dated, nullif(modified, 0), updated_at) < ?6)",
                )?
                .query_map(
                    params![
                        keys,
                        filter.path,
                        filter.source_type,
                        filter.tag,
                        filter.since.map(nanoseconds),
                        filter.until.map(nanoseconds)
                    ],
                    |row| row.get(0).map(ChunkId),
                )?
                .collect()
        })
        .await
    }

    async fn embedded_hashes(&self, document: DocumentKey, model: &str) -> Result<Vec<TextHash>, StoreError> {
        let model = model.to_owned();
        self.read(move |connection| {
            connection
                .prepare_cached(
                    "SELECT hash FROM chunks WHERE document = ?1
                     AND EXISTS (SELECT 1 FROM vectors WHERE chunk = chunks.id AND model = ?2)",
                )?
                .query_map(params![document.0, model], |row| hash(row, 0))?
                .collect()
        })
        .await
    }

    async fn vectors_of(
        &self,
        collection: CollectionKey,
        model: &str,
        hashes: Vec<TextHash>,
    ) -> Result<Vec<(TextHash, Vec<f32>)>, StoreError> {
        let model = model.to_owned();
        self.read(move |connection| {
            // The sign keeps SQLite from walking a whole collection for every hash.
            let mut statement = connection.prepare_cached(
                "SELECT numbers FROM chunks JOIN vectors ON vectors.chunk = chunks.id AND model = ?2
                 WHERE hash = ?1 AND +collection = ?3 LIMIT 1",
            )?;
            let mut found = Vec::new();
            for hash in hashes {
                let vector = statement
                    .query_row(params![hash, model, collection.0], |row| numbers(row, 0))
                    .optional()?;
                found.extend(vector.map(|vector| (hash, vector)));
            }
            Ok(found)
        })
        .await
    }

    async fn document_without_vector(
        &self,
        document: DocumentKey,
        model: &str,
        limit: usize,
    ) -> Result<Vec<IndexedChunk>, StoreError> {
        let model = model.to_owned();
        self.read(move |connection| {
            connection
                .prepare_cached(
                    "SELECT id, collection, headings, text, is_code, NULL FROM chunks WHERE document = ?1
                     AND NOT EXISTS (SELECT 1 FROM vectors WHERE chunk = chunks.id AND model = ?2)
                     ORDER BY position LIMIT ?3",
                )?
                .query_map(params![document.0, model, limit], indexed)?
                .collect()
        })
        .await
    }

    async fn without_vector(
        &self,
        collection: CollectionKey,
        model: &str,
        limit: usize,
    ) -> Result<Vec<IndexedChunk>, StoreError> {
        let model = model.to_owned();
        self.read(move |connection| {
            connection
                .prepare_cached(
                    "SELECT id, collection, headings, text, is_code, NULL FROM chunks
                     WHERE collection = ?1
                     AND NOT EXISTS (SELECT 1 FROM vectors WHERE chunk = chunks.id AND model = ?2) LIMIT ?3",
                )?
                .query_map(params![collection.0, model, limit], indexed)?
                .collect()
        })
        .await
    }

    async fn keep_vectors(&self, vectors: Vec<(ChunkId, NewVector)>) -> Result<(), StoreError> {
        self.write(move |transaction| {
            let write = || {
                let generation: i64 = transaction
                    .prepare_cached("UPDATE generation SET value = value + 1 RETURNING value")?
                    .query_row([], |row| row.get(0))?;
                let mut exists = transaction.prepare_cached("SELECT 1 FROM chunks WHERE id = ?1")?;
                for (chunk, vector) in &vectors {
                    if exists.exists([chunk.0])? {
                        write_vector(transaction, chunk.0, &vector.model, &vector.numbers, generation)?;
                    }
                }
                Ok(())
            };
            write().map_err(unavailable)
        })
        .await
    }

    async fn retire_other_models(&self, collection: CollectionKey, model: &str) -> Result<(), StoreError> {
        let model = model.to_owned();
        self.write(move |transaction| {
            let retire = || {
                transaction.execute(
                    "UPDATE collections SET vectors_by = ?2 WHERE key = ?1",
                    params![collection.0, model],
                )?;
                transaction.execute(
                    "DELETE FROM vectors WHERE model <> ?2
                     AND chunk IN (SELECT id FROM chunks WHERE collection = ?1)",
                    params![collection.0, model],
                )
            };
            retire().map(drop).map_err(unavailable)
        })
        .await
    }

    async fn storage(&self, collection: CollectionKey, model: &str) -> Result<Storage, StoreError> {
        let model = model.to_owned();
        self.read(move |connection| {
            let (chunk_bytes, vector_bytes, missing_vectors) = connection
                .prepare_cached(
                    "SELECT coalesce(sum(octet_length(text)), 0), coalesce(sum(length(numbers)), 0),
                            coalesce(sum(numbers IS NULL), 0)
                     FROM chunks LEFT JOIN vectors ON vectors.chunk = chunks.id AND vectors.model = ?2
                     WHERE collection = ?1",
                )?
                .query_row(params![collection.0, model], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?)))?;
            let (original_bytes, stored_bytes, text_bytes) = connection
                .prepare_cached(
                    "SELECT coalesce(sum(size), 0), coalesce(sum(length(original)), 0), coalesce(sum(octet_length(text)), 0)
                     FROM documents JOIN contents ON contents.document = documents.key WHERE collection = ?1",
                )?
                .query_row([collection.0], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?)))?;
            Ok(Storage {
                vector_bytes,
                chunk_bytes,
                original_bytes,
                text_bytes,
                stored_bytes,
                missing_vectors,
            })
        })
        .await
    }
}

/// Whether what changed after `after` is not known in full any more.
fn is_forgotten(connection: &Connection, after: Generation) -> rusqlite::Result<bool> {
    let now = generation(connection)?;
    // An index from the future belongs to another truth.
    Ok(after > now || now.0 - after.0 >= REMEMBERED)
}

fn removed(connection: &Connection, after: Generation) -> rusqlite::Result<Vec<(CollectionKey, ChunkId)>> {
    connection
        .prepare_cached("SELECT collection, chunk FROM removed_chunks WHERE generation > ?1")?
        .query_map([after.0], pair)?
        .collect()
}

fn pair(row: &Row<'_>) -> rusqlite::Result<(CollectionKey, ChunkId)> {
    Ok((CollectionKey(row.get(0)?), ChunkId(row.get(1)?)))
}

fn id_list(chunks: &[ChunkId]) -> String {
    let ids: Vec<_> = chunks.iter().map(|chunk| chunk.0.to_string()).collect();
    format!("[{}]", ids.join(","))
}

fn indexed(row: &Row<'_>) -> rusqlite::Result<IndexedChunk> {
    Ok(IndexedChunk {
        chunk: ChunkId(row.get(0)?),
        collection: CollectionKey(row.get(1)?),
        headings: row.get(2)?,
        text: row.get(3)?,
        is_code: row.get(4)?,
        language: language(row, 5)?,
    })
}

fn found(row: &Row<'_>) -> rusqlite::Result<FoundChunk> {
    Ok(FoundChunk {
        chunk: ChunkId(row.get(0)?),
        text: row.get(1)?,
        headings: row.get(2)?,
        place: Place {
            bytes: (row.get(3)?, row.get(4)?),
            lines: (row.get(5)?, row.get(6)?),
            page: row.get(7)?,
        },
        is_code: row.get(8)?,
        collection: row.get(9)?,
        document: document(row, 10)?,
    })
}

fn numbers(row: &Row<'_>, column: usize) -> rusqlite::Result<Vec<f32>> {
    let bytes = row.get_ref(column)?.as_blob()?;
    Ok(bytes.as_chunks().0.iter().map(|bytes| f32::from_le_bytes(*bytes)).collect())
}
