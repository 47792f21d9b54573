//! Documents and their chunks in their tables.

use std::collections::HashMap;

use hindcast_core::{
    Timestamp,
    knowledge::{
        CollectionKey, Document, DocumentKey, DocumentVersion, Language, NewChunk, NewDocument, SourceFile,
        TextHash,
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
    Change,
    catalogue::collection_by_key,
    next_generation,
};

pub(super) const DOCUMENT_COLUMNS: &str = "
    documents.key, documents.collection, documents.id, documents.name, documents.description, documents.mime_type,
    documents.size, documents.chunks, documents.hash, documents.created_at, documents.updated_at, documents.path,
    documents.modified, coalesce(documents.source_type, documents.mime_type), documents.reader,
    documents.language, documents.dated";

pub(super) fn remove_document(
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
        .ok_or(StoreError::DocumentGone)
}

fn note_update(transaction: &Transaction<'_>, key: CollectionKey, now: Timestamp) -> rusqlite::Result<()> {
    transaction
        .prepare_cached("UPDATE collections SET updated_at = ?2 WHERE key = ?1")?
        .execute(params![key.0, nanoseconds(now)])?;
    Ok(())
}

/// Removes a document unless it has changed; tells whether it did.
pub(super) fn remove_unchanged(
    transaction: &Transaction<'_>,
    expected: DocumentVersion,
    now: Timestamp,
) -> Result<bool, StoreError> {
    match document_by_key(transaction, expected.key) {
        Ok(found) if found.version() == expected => {
            remove_document(transaction, expected.key, now).map(|()| true)
        }
        Ok(_) | Err(StoreError::DocumentGone) => Ok(false),
        Err(error) => Err(error),
    }
}

/// Here it is decided which document a file is: the one with its path, whichever process brings it.
pub(super) fn keep_document(
    transaction: &Transaction<'_>,
    new: &NewDocument,
) -> Result<Document, StoreError> {
    let collection = collection_by_key(transaction, new.collection)?;
    let there = document_there(transaction, new).map_err(unavailable)?;
    if there.as_ref().map(Document::version) != new.replaces {
        let named = new.source.as_ref().map(|source| &source.path).or(new.ids.first());
        return Err(StoreError::Changed(format!("the document `{}`", named.map_or("", |name| name))));
    }
    let id = match &there {
        Some(there) => there.id.clone(),
        None => free_id(transaction, new).map_err(unavailable)?,
    };
    let change = Change {
        ownership: &collection.ownership,
        collection: &collection.id,
        document: Some(&id),
        is_membership: there.is_none(),
    };
    let write = || {
        let generation = next_generation(transaction, &change)?;
        let key = write_document(transaction, new, &id)?;
        write_chunks(transaction, new, key, generation)?;
        if there.as_ref().is_some_and(|there| there.language != new.language) {
            // Words are stemmed by their language, so those that stay are indexed again.
            transaction
                .prepare_cached("UPDATE chunks SET generation = ?2 WHERE document = ?1")?
                .execute(params![key.0, generation])?;
        }
        note_update(transaction, new.collection, new.now)?;
        Ok(key)
    };
    let key = write().map_err(unavailable)?;
    document_by_key(transaction, key)
}

/// The document of that path, or of that id where there is no path; else the one it says it replaces, whose file has moved.
fn document_there(transaction: &Transaction<'_>, new: &NewDocument) -> rusqlite::Result<Option<Document>> {
    let same = match &new.source {
        Some(source) => document_at(transaction, new.collection, &source.path)?,
        None => {
            let id = new.ids.first().map_or("", |id| id);
            document_named(transaction, new.collection, id)?
        }
    };
    match (same, new.replaces) {
        (None, Some(replaced)) => transaction
            .prepare_cached(&format!("SELECT {DOCUMENT_COLUMNS} FROM documents WHERE key = ?1"))?
            .query_row([replaced.key.0], |row| document(row, 0))
            .optional(),
        (same, _) => Ok(same),
    }
}

pub(super) fn document_at(
    connection: &Connection,
    collection: CollectionKey,
    path: &str,
) -> rusqlite::Result<Option<Document>> {
    connection
        .prepare_cached(&format!(
            "SELECT {DOCUMENT_COLUMNS} FROM documents WHERE collection = ?1 AND path = ?2"
        ))?
        .query_row(params![collection.0, path], |row| document(row, 0))
        .optional()
}

pub(super) fn document_named(
    connection: &Connection,
    collection: CollectionKey,
    id: &str,
) -> rusqlite::Result<Option<Document>> {
    connection
        .prepare_cached(&format!(
            "SELECT {DOCUMENT_COLUMNS} FROM documents WHERE collection = ?1 AND id = ?2"
        ))?
        .query_row(params![collection.0, id], |row| document(row, 0))
        .optional()
}

/// The first id that nobody has, or the first one with a number behind it.
fn free_id(transaction: &Transaction<'_>, new: &NewDocument) -> rusqlite::Result<String> {
    let mut is_taken =
        transaction.prepare_cached("SELECT 1 FROM documents WHERE collection = ?1 AND id = ?2")?;
    for id in &new.ids {
        if !is_taken.exists(params![new.collection.0, id])? {
            return Ok(id.clone());
        }
    }
    let first = new.ids.first().map_or("document", |id| id);
    let mut number = 2_u64;
    loop {
        let id = format!("{first}-{number}");
        if !is_taken.exists(params![new.collection.0, id])? {
            return Ok(id);
        }
        number += 1;
    }
}

fn write_document(
    transaction: &Transaction<'_>,
    new: &NewDocument,
    id: &str,
) -> rusqlite::Result<DocumentKey> {
    let now = nanoseconds(new.now);
    let key: i64 = transaction
        .prepare_cached(
            "INSERT INTO documents (key, collection, id, name, description, mime_type, size, chunks, hash, created_at,
                                    updated_at, path, modified, source_type, reader, language, dated)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?10, ?11, ?12, ?13, ?14, ?15, ?16)
             ON CONFLICT (key) DO UPDATE SET
                 name = excluded.name, description = excluded.description, mime_type = excluded.mime_type,
                 size = excluded.size, chunks = excluded.chunks, hash = excluded.hash,
                 updated_at = excluded.updated_at, path = excluded.path, modified = excluded.modified,
                 source_type = excluded.source_type, reader = excluded.reader, language = excluded.language,
                 dated = excluded.dated
             RETURNING key",
        )?
        .query_row(
            params![
                new.replaces.map(|replaced| replaced.key.0),
                new.collection.0,
                id,
                new.name,
                new.description,
                new.mime_type,
                new.original.len(),
                new.chunks.len(),
                new.hash,
                now,
                new.source.as_ref().map(|source| &source.path),
                new.source.as_ref().map(|source| source.modified),
                new.source_type,
                new.reader,
                new.language.map(Language::code),
                new.dated.map(nanoseconds),
            ],
            |row| row.get(0),
        )?;
    transaction.prepare_cached("INSERT OR REPLACE INTO contents VALUES (?1, ?2, ?3)")?.execute(params![
        key,
        new.original,
        new.text
    ])?;
    let key = DocumentKey(key);
    transaction.prepare_cached("DELETE FROM tags WHERE document = ?1 AND NOT is_given")?.execute([key.0])?;
    write_tags(transaction, key, &new.tags.given, true)?;
    write_tags(transaction, key, &new.tags.own, false)?;
    Ok(key)
}

/// Tags that are there stay, and stay given if they were.
pub(super) fn write_tags(
    transaction: &Transaction<'_>,
    document: DocumentKey,
    tags: &[String],
    is_given: bool,
) -> rusqlite::Result<()> {
    let mut write = transaction.prepare_cached(
        "INSERT INTO tags VALUES (?1, ?2, ?3) ON CONFLICT DO UPDATE SET is_given = is_given OR excluded.is_given",
    )?;
    for tag in tags {
        write.execute(params![document.0, tag, is_given])?;
    }
    Ok(())
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

/// Reads [`DOCUMENT_COLUMNS`], of which the first is column `first`.
pub(super) fn document(row: &Row<'_>, first: usize) -> rusqlite::Result<Document> {
    let size = row.get(first + 6)?;
    let source = match row.get::<_, Option<String>>(first + 11)? {
        Some(path) => Some(SourceFile { path, modified: row.get(first + 12)?, size, is_elsewhere: false }),
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
        source_type: row.get(first + 13)?,
        reader: row.get(first + 14)?,
        language: language(row, first + 15)?,
        dated: row.get::<_, Option<i64>>(first + 16)?.map(timestamp),
        source,
    })
}

pub(super) fn language(row: &Row<'_>, column: usize) -> rusqlite::Result<Option<Language>> {
    Ok(row.get::<_, Option<String>>(column)?.and_then(|code| Language::of_tag(&code)))
}

pub(super) fn hash(row: &Row<'_>, column: usize) -> rusqlite::Result<TextHash> {
    row.get::<_, Vec<u8>>(column)?
        .try_into()
        .map_err(|_| rusqlite::Error::FromSqlConversionFailure(column, Type::Blob, "not 32 bytes".into()))
}
