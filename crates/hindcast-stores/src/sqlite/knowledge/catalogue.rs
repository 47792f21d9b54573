//! Collections and documents in their tables.

use std::collections::HashMap;

use async_trait::async_trait;
use hindcast_core::{
    Timestamp,
    identity::PrincipalId,
    knowledge::{
        Catalogue, Collection, CollectionKey, Document, DocumentKey, NewChunk, NewDocument, Ownership,
        SourceFile, TextHash, WatchedPath,
    },
    store::StoreError,
};
use rusqlite::{Connection, OptionalExtension, Row, params, types::Type};

use super::{
    super::{
        keys::{nanoseconds, timestamp},
        transaction::Transaction,
        unavailable,
    },
    Change, SqliteKnowledge, next_generation, owner, ownership,
};

const COLLECTION: &str = "
    SELECT key, owner, id, name, created_at, updated_at, accessed_at,
           (SELECT count(*) FROM documents WHERE collection = collections.key),
           (SELECT coalesce(sum(chunks), 0) FROM documents WHERE collection = collections.key)
    FROM collections";

pub(super) const DOCUMENT_COLUMNS: &str = "
    documents.key, documents.collection, documents.id, documents.name, documents.description, documents.mime_type,
    documents.size, documents.chunks, documents.hash, documents.created_at, documents.updated_at, documents.path,
    documents.modified";

#[async_trait]
impl Catalogue for SqliteKnowledge {
    async fn open_collection(
        &self,
        ownership: Ownership,
        id: String,
        name: String,
        now: Timestamp,
    ) -> Result<Collection, StoreError> {
        self.write(move |transaction| {
            let found = find_collection(transaction, &ownership, &id).map_err(unavailable)?;
            if let Some(found) = found {
                return Ok(found);
            }
            insert_collection(transaction, &ownership, &id, &name, now).map_err(unavailable)?;
            find_collection(transaction, &ownership, &id)
                .map_err(unavailable)?
                .ok_or_else(|| StoreError::Missing(format!("collection `{id}`")))
        })
        .await
    }

    async fn collections(&self, principal: Option<PrincipalId>) -> Result<Vec<Collection>, StoreError> {
        if self.is_untouched() {
            return Ok(Vec::new());
        }
        self.read(move |connection| {
            let mut statement = connection.prepare_cached(&format!(
                "{COLLECTION} WHERE ?1 IS NULL OR owner IS NULL OR owner = ?1 ORDER BY key"
            ))?;
            statement.query_map([principal.as_ref().map(|principal| &*principal.0)], collection)?.collect()
        })
        .await
    }

    async fn rename_collection(
        &self,
        key: CollectionKey,
        id: String,
        name: String,
        now: Timestamp,
    ) -> Result<(), StoreError> {
        self.write(move |transaction| {
            let old = collection_by_key(transaction, key)?;
            let taken = find_collection(transaction, &old.ownership, &id).map_err(unavailable)?;
            if taken.is_some_and(|taken| taken.key != key) {
                return Err(StoreError::Exists(format!("collection `{id}`")));
            }
            rename(transaction, &old, &id, &name, now).map_err(unavailable)
        })
        .await
    }

    async fn remove_collection(&self, key: CollectionKey) -> Result<(), StoreError> {
        self.on_writer(move |connection| {
            let transaction = Transaction::begin(connection).map_err(unavailable)?;
            let old = collection_by_key(&transaction, key)?;
            remove(&transaction, &old).map_err(unavailable)?;
            transaction.commit().map_err(unavailable)?;
            give_back(connection);
            Ok(())
        })
        .await
    }

    async fn touch_collection(&self, key: CollectionKey, now: Timestamp) -> Result<(), StoreError> {
        self.write(move |transaction| {
            transaction
                .prepare_cached("UPDATE collections SET accessed_at = ?2 WHERE key = ?1")
                .and_then(|mut update| update.execute(params![key.0, nanoseconds(now)]))
                .map(drop)
                .map_err(unavailable)
        })
        .await
    }

    async fn documents(&self, collection: CollectionKey) -> Result<Vec<Document>, StoreError> {
        self.read(move |connection| {
            let mut statement = connection.prepare_cached(&format!(
                "SELECT {DOCUMENT_COLUMNS} FROM documents WHERE collection = ?1 ORDER BY key"
            ))?;
            statement.query_map([collection.0], |row| document(row, 0))?.collect()
        })
        .await
    }

    async fn find_document(
        &self,
        collection: CollectionKey,
        id: &str,
    ) -> Result<Option<Document>, StoreError> {
        let id = id.to_owned();
        self.read(move |connection| {
            connection
                .prepare_cached(&format!(
                    "SELECT {DOCUMENT_COLUMNS} FROM documents WHERE collection = ?1 AND id = ?2"
                ))?
                .query_row(params![collection.0, id], |row| document(row, 0))
                .optional()
        })
        .await
    }

    async fn document_text(&self, document: DocumentKey) -> Result<String, StoreError> {
        let found = self
            .read(move |connection| {
                connection
                    .prepare_cached(
                        "SELECT text, iif(text IS NULL, original, NULL) FROM contents WHERE document = ?1",
                    )?
                    .query_row([document.0], |row| {
                        Ok((row.get::<_, Option<String>>(0)?, row.get::<_, Option<Vec<u8>>>(1)?))
                    })
                    .optional()
            })
            .await?;
        let (text, original) = found.ok_or_else(|| StoreError::Missing("such document any more".into()))?;
        match text {
            Some(text) => Ok(text),
            None => String::from_utf8(original.unwrap_or_default())
                .map_err(|error| StoreError::Corrupt(error.to_string())),
        }
    }

    async fn replace_document(&self, document: NewDocument) -> Result<Document, StoreError> {
        self.write(move |transaction| replace_document(transaction, &document)).await
    }

    async fn refresh_source(&self, document: DocumentKey, modified: i64) -> Result<(), StoreError> {
        self.write(move |transaction| {
            transaction
                .execute("UPDATE documents SET modified = ?2 WHERE key = ?1", params![document.0, modified])
                .map(drop)
                .map_err(unavailable)
        })
        .await
    }

    async fn remove_document(&self, document: DocumentKey, now: Timestamp) -> Result<(), StoreError> {
        self.on_writer(move |connection| {
            let transaction = Transaction::begin(connection).map_err(unavailable)?;
            remove_document(&transaction, document, now)?;
            transaction.commit().map_err(unavailable)?;
            give_back(connection);
            Ok(())
        })
        .await
    }

    async fn watched_paths(&self) -> Result<Vec<WatchedPath>, StoreError> {
        self.read(|connection| {
            connection
                .prepare_cached("SELECT collection, path FROM watched")?
                .query_map([], |row| {
                    Ok(WatchedPath { collection: CollectionKey(row.get(0)?), path: row.get(1)? })
                })?
                .collect()
        })
        .await
    }

    async fn watch_path(&self, watched: WatchedPath) -> Result<(), StoreError> {
        self.write(move |transaction| {
            let collection = collection_by_key(transaction, watched.collection)?;
            let Collection { ownership, id, .. } = &collection;
            let change = Change { ownership, collection: id, document: None, is_membership: false };
            transaction
                .execute(
                    "INSERT OR IGNORE INTO watched VALUES (?1, ?2)",
                    params![watched.collection.0, watched.path],
                )
                // Those who watch folders must hear of it.
                .and_then(|_| next_generation(transaction, &change))
                .map(drop)
                .map_err(unavailable)
        })
        .await
    }

    async fn size(&self) -> Result<u64, StoreError> {
        self.read(|connection| {
            connection.query_row(
                "SELECT page_count * page_size FROM pragma_page_count(), pragma_page_size()",
                [],
                |row| row.get(0),
            )
        })
        .await
    }
}

fn find_collection(
    connection: &Connection,
    ownership: &Ownership,
    id: &str,
) -> rusqlite::Result<Option<Collection>> {
    connection
        .prepare_cached(&format!("{COLLECTION} WHERE id = ?1 AND owner IS ?2"))?
        .query_row(params![id, owner(ownership)], collection)
        .optional()
}

fn collection_by_key(connection: &Connection, key: CollectionKey) -> Result<Collection, StoreError> {
    connection
        .prepare_cached(&format!("{COLLECTION} WHERE key = ?1"))
        .and_then(|mut statement| statement.query_row([key.0], collection).optional())
        .map_err(unavailable)?
        .ok_or_else(|| StoreError::Missing("such collection any more".into()))
}

fn insert_collection(
    transaction: &Transaction<'_>,
    ownership: &Ownership,
    id: &str,
    name: &str,
    now: Timestamp,
) -> rusqlite::Result<()> {
    next_generation(transaction, &Change { ownership, collection: id, document: None, is_membership: true })?;
    transaction.execute(
        "INSERT INTO collections (owner, id, name, created_at, updated_at) VALUES (?1, ?2, ?3, ?4, ?4)",
        params![owner(ownership), id, name, nanoseconds(now)],
    )?;
    Ok(())
}

fn rename(
    transaction: &Transaction<'_>,
    old: &Collection,
    id: &str,
    name: &str,
    now: Timestamp,
) -> rusqlite::Result<()> {
    // Under both names: what was there is gone, and something else has come.
    for id in [&*old.id, id] {
        let ownership = &old.ownership;
        let change = Change { ownership, collection: id, document: None, is_membership: true };
        next_generation(transaction, &change)?;
    }
    transaction.execute(
        "UPDATE collections SET id = ?2, name = ?3, updated_at = ?4 WHERE key = ?1",
        params![old.key.0, id, name, nanoseconds(now)],
    )?;
    Ok(())
}

fn remove(transaction: &Transaction<'_>, old: &Collection) -> rusqlite::Result<()> {
    let Collection { ownership, id, key, .. } = old;
    next_generation(transaction, &Change { ownership, collection: id, document: None, is_membership: true })?;
    // Its chunks need no tombstones: an index compares its collections with ours.
    transaction.execute("DELETE FROM removed_chunks WHERE collection = ?1", [key.0])?;
    transaction.execute("DELETE FROM collections WHERE key = ?1", [key.0])?;
    Ok(())
}

/// Gives free pages back to the disk. Nothing depends on it: what fails is done at the next removal.
fn give_back(connection: &Connection) {
    let vacuumed = connection
        .prepare("PRAGMA incremental_vacuum")
        .and_then(|mut statement| {
            // Each step frees one page.
            let mut pages = statement.query([])?;
            while pages.next()?.is_some() {}
            Ok(())
        })
        .and_then(|()| connection.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(())));
    if let Err(error) = vacuumed {
        tracing::debug!(%error, "free pages were not given back to the disk");
    }
}

fn remove_document(
    transaction: &Transaction<'_>,
    key: DocumentKey,
    now: Timestamp,
) -> Result<(), StoreError> {
    let document = document_by_key(transaction, key)?;
    let collection = collection_by_key(transaction, document.collection)?;
    let change = Change {
        ownership: &collection.ownership,
        collection: &collection.id,
        document: Some(&document.id),
        is_membership: true,
    };
    let write = || {
        let generation = next_generation(transaction, &change)?;
        transaction.execute(
            "INSERT INTO removed_chunks SELECT ?2, collection, id FROM chunks WHERE document = ?1",
            params![key.0, generation],
        )?;
        transaction.execute("DELETE FROM documents WHERE key = ?1", [key.0])?;
        note_update(transaction, collection.key, now)
    };
    write().map_err(unavailable)
}

fn document_by_key(connection: &Connection, key: DocumentKey) -> Result<Document, StoreError> {
    connection
        .prepare_cached(&format!("SELECT {DOCUMENT_COLUMNS} FROM documents WHERE key = ?1"))
        .and_then(|mut statement| statement.query_row([key.0], |row| document(row, 0)).optional())
        .map_err(unavailable)?
        .ok_or_else(|| StoreError::Missing("such document any more".into()))
}

fn note_update(transaction: &Transaction<'_>, key: CollectionKey, now: Timestamp) -> rusqlite::Result<()> {
    transaction
        .prepare_cached("UPDATE collections SET updated_at = ?2 WHERE key = ?1")?
        .execute(params![key.0, nanoseconds(now)])?;
    Ok(())
}

fn replace_document(transaction: &Transaction<'_>, new: &NewDocument) -> Result<Document, StoreError> {
    let collection = collection_by_key(transaction, new.collection)?;
    if let Some(replaced) = new.replaces {
        document_by_key(transaction, replaced)?;
    } else if id_is_taken(transaction, new).map_err(unavailable)? {
        return Err(StoreError::Exists(format!("document `{}`", new.id)));
    }
    let change = Change {
        ownership: &collection.ownership,
        collection: &collection.id,
        document: Some(&new.id),
        is_membership: new.replaces.is_none(),
    };
    let write = || {
        let generation = next_generation(transaction, &change)?;
        let key = write_document(transaction, new)?;
        write_chunks(transaction, new, key, generation)?;
        note_update(transaction, new.collection, new.now)?;
        Ok(key)
    };
    let key = write().map_err(unavailable)?;
    document_by_key(transaction, key)
}

fn id_is_taken(transaction: &Transaction<'_>, new: &NewDocument) -> rusqlite::Result<bool> {
    transaction
        .prepare_cached("SELECT 1 FROM documents WHERE collection = ?1 AND id = ?2")?
        .exists(params![new.collection.0, new.id])
}

fn write_document(transaction: &Transaction<'_>, new: &NewDocument) -> rusqlite::Result<DocumentKey> {
    let now = nanoseconds(new.now);
    let key: i64 = transaction
        .prepare_cached(
            "INSERT INTO documents (key, collection, id, name, description, mime_type, size, chunks, hash, created_at,
                                    updated_at, path, modified)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?10, ?11, ?12)
             ON CONFLICT (key) DO UPDATE SET
                 name = excluded.name, description = excluded.description, mime_type = excluded.mime_type,
                 size = excluded.size, chunks = excluded.chunks, hash = excluded.hash,
                 updated_at = excluded.updated_at, path = excluded.path, modified = excluded.modified
             RETURNING key",
        )?
        .query_row(
            params![
                new.replaces.map(|replaced| replaced.0),
                new.collection.0,
                new.id,
                new.name,
                new.description,
                new.mime_type,
                new.original.len(),
                new.chunks.len(),
                new.hash,
                now,
                new.source.as_ref().map(|source| &source.path),
                new.source.as_ref().map(|source| source.modified),
            ],
            |row| row.get(0),
        )?;
    transaction.prepare_cached("INSERT OR REPLACE INTO contents VALUES (?1, ?2, ?3)")?.execute(params![
        key,
        new.original,
        new.text
    ])?;
    Ok(DocumentKey(key))
}

/// Chunks that say what an old one said keep its row; the rest of the old ones go.
fn write_chunks(
    transaction: &Transaction<'_>,
    new: &NewDocument,
    document: DocumentKey,
    generation: i64,
) -> rusqlite::Result<()> {
    let mut old = old_chunks(transaction, document)?;
    for (position, chunk) in new.chunks.iter().enumerate() {
        let kept = old.get_mut(&chunk.hash).and_then(Vec::pop);
        let id = write_chunk(transaction, new, document, kept, position, chunk, generation)?;
        if let Some(vector) = &chunk.vector {
            write_vector(transaction, id, &vector.model, &vector.numbers, generation)?;
        }
    }
    let mut bury = transaction.prepare_cached("INSERT INTO removed_chunks VALUES (?1, ?2, ?3)")?;
    let mut delete = transaction.prepare_cached("DELETE FROM chunks WHERE id = ?1")?;
    for id in old.into_values().flatten() {
        bury.execute([generation, new.collection.0, id])?;
        delete.execute([id])?;
    }
    Ok(())
}

fn old_chunks(
    transaction: &Transaction<'_>,
    document: DocumentKey,
) -> rusqlite::Result<HashMap<TextHash, Vec<i64>>> {
    let mut old: HashMap<_, Vec<_>> = HashMap::new();
    let mut statement = transaction
        .prepare_cached("SELECT hash, id FROM chunks WHERE document = ?1 ORDER BY position DESC")?;
    let mut rows = statement.query([document.0])?;
    while let Some(row) = rows.next()? {
        old.entry(row.get(0)?).or_default().push(row.get(1)?);
    }
    Ok(old)
}

fn write_chunk(
    transaction: &Transaction<'_>,
    new: &NewDocument,
    document: DocumentKey,
    kept: Option<i64>,
    position: usize,
    chunk: &NewChunk,
    generation: i64,
) -> rusqlite::Result<i64> {
    let place = &chunk.place;
    transaction
        .prepare_cached(
            "INSERT INTO chunks (id, document, collection, position, hash, headings, text, first_byte, end_byte,
                                 first_line, last_line, page, is_code, generation)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14)
             ON CONFLICT (id) DO UPDATE SET
                 position = excluded.position, first_byte = excluded.first_byte, end_byte = excluded.end_byte,
                 first_line = excluded.first_line, last_line = excluded.last_line, page = excluded.page
             RETURNING id",
        )?
        .query_row(
            params![
                kept,
                document.0,
                new.collection.0,
                position,
                chunk.hash,
                chunk.headings,
                chunk.text,
                place.bytes.0,
                place.bytes.1,
                place.lines.0,
                place.lines.1,
                place.page,
                chunk.is_code,
                generation,
            ],
            |row| row.get(0),
        )
}

pub(super) fn write_vector(
    transaction: &Transaction<'_>,
    chunk: i64,
    model: &str,
    numbers: &[f32],
    generation: i64,
) -> rusqlite::Result<()> {
    let bytes: Vec<u8> = numbers.iter().flat_map(|number| number.to_le_bytes()).collect();
    transaction
        .prepare_cached(
            "INSERT INTO vectors (chunk, model, generation, numbers) VALUES (?1, ?2, ?3, ?4)
             ON CONFLICT (chunk, model) DO UPDATE SET numbers = excluded.numbers, generation = excluded.generation",
        )?
        .execute(params![chunk, model, generation, bytes])?;
    Ok(())
}

fn collection(row: &Row<'_>) -> rusqlite::Result<Collection> {
    Ok(Collection {
        key: CollectionKey(row.get(0)?),
        ownership: ownership(row.get(1)?),
        id: row.get(2)?,
        name: row.get(3)?,
        created_at: timestamp(row.get(4)?),
        updated_at: timestamp(row.get(5)?),
        accessed_at: row.get::<_, Option<i64>>(6)?.map(timestamp),
        documents: row.get(7)?,
        chunks: row.get(8)?,
    })
}

/// Reads [`DOCUMENT_COLUMNS`], of which the first is column `first`.
pub(super) fn document(row: &Row<'_>, first: usize) -> rusqlite::Result<Document> {
    let size = row.get(first + 6)?;
    let source = match row.get::<_, Option<String>>(first + 11)? {
        Some(path) => Some(SourceFile { path, modified: row.get(first + 12)?, size }),
        None => None,
    };
    Ok(Document {
        key: DocumentKey(row.get(first)?),
        collection: CollectionKey(row.get(first + 1)?),
        id: row.get(first + 2)?,
        name: row.get(first + 3)?,
        description: row.get(first + 4)?,
        mime_type: row.get(first + 5)?,
        size,
        chunks: row.get(first + 7)?,
        hash: hash(row, first + 8)?,
        created_at: timestamp(row.get(first + 9)?),
        updated_at: timestamp(row.get(first + 10)?),
        source,
    })
}

pub(super) fn hash(row: &Row<'_>, column: usize) -> rusqlite::Result<TextHash> {
    row.get::<_, Vec<u8>>(column)?
        .try_into()
        .map_err(|_| rusqlite::Error::FromSqlConversionFailure(column, Type::Blob, "not 32 bytes".into()))
}
