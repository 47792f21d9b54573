//! Documents in their tables.

use std::{collections::HashMap, ops::Range};

use hindcast_core::{
    Timestamp,
    knowledge::{CollectionKey, Document, DocumentKey, Language, NewDocument, SourceFile, TextHash},
    store::StoreError,
};
use tokio_postgres::Row;

use super::{
    super::{
        database::{Lease, column},
        keys::number,
        texts::{kept, optional_text, text},
    },
    Change,
    collections::{self, Hold, language},
    count, next_generations,
    rows::{NewRows, bury_chunks, old_chunks, write_chunks},
};
use crate::instants::{nanoseconds, timestamp};

pub(super) const DOCUMENT_COLUMNS: &str = "
    documents.key, documents.collection, documents.id, documents.name, documents.description, documents.mime_type,
    documents.size, documents.chunks, documents.hash, documents.created_at, documents.updated_at, documents.path,
    documents.modified, coalesce(documents.source_type, documents.mime_type), documents.reader, documents.language,
    documents.machine, documents.dated";

/// How many numbers are tried at once for an id that others have.
const NUMBERS: i64 = 1000;

pub(super) async fn list(
    lease: &Lease<'_>,
    machine: &str,
    collection: CollectionKey,
) -> Result<Vec<Document>, StoreError> {
    let asked =
        format!("SELECT {DOCUMENT_COLUMNS} FROM hindcast.documents WHERE collection = $1 ORDER BY key");
    lease.rows(&asked, &[&collection.0]).await?.iter().map(|row| document(row, 0, machine)).collect()
}

pub(super) async fn some(
    lease: &Lease<'_>,
    machine: &str,
    collection: CollectionKey,
    wanted: Range<usize>,
) -> Result<Vec<Document>, StoreError> {
    let asked = format!(
        "SELECT {DOCUMENT_COLUMNS} FROM hindcast.documents WHERE collection = $1 ORDER BY key LIMIT $2 OFFSET $3"
    );
    let bounds = (wanted.len() as i64, wanted.start as i64);
    let rows = lease.rows(&asked, &[&collection.0, &bounds.0, &bounds.1]).await?;
    rows.iter().map(|row| document(row, 0, machine)).collect()
}

pub(super) async fn named(
    lease: &Lease<'_>,
    machine: &str,
    collection: CollectionKey,
    id: &str,
) -> Result<Option<Document>, StoreError> {
    let asked =
        format!("SELECT {DOCUMENT_COLUMNS} FROM hindcast.documents WHERE collection = $1 AND id = $2");
    let found = lease.row(&asked, &[&collection.0, &kept(id)]).await?;
    found.as_ref().map(|row| document(row, 0, machine)).transpose()
}

/// The document of a file here, or of a page.
pub(super) async fn at(
    lease: &Lease<'_>,
    machine: &str,
    collection: CollectionKey,
    path: &str,
) -> Result<Option<Document>, StoreError> {
    let asked = format!(
        "SELECT {DOCUMENT_COLUMNS} FROM hindcast.documents
         WHERE collection = $1 AND path IS NOT NULL AND path_hash = sha256(convert_to($2::text, 'UTF8'))
         AND (machine IS NULL OR machine = $3)"
    );
    let found = lease.row(&asked, &[&collection.0, &kept(path), &kept(machine)]).await?;
    found.as_ref().map(|row| document(row, 0, machine)).transpose()
}

pub(super) async fn below(
    lease: &Lease<'_>,
    machine: &str,
    collection: CollectionKey,
    path: &str,
) -> Result<Vec<Document>, StoreError> {
    // `0` is what follows `/`. The index has the beginnings of paths.
    let asked = format!(
        "SELECT {DOCUMENT_COLUMNS} FROM hindcast.documents
         WHERE collection = $1 AND path IS NOT NULL AND (machine IS NULL OR machine = $5)
         AND left(path, 500) >= left($2::text, 500) AND left(path, 500) <= left($4::text, 500)
         AND (path = $2 OR (path > $3 AND path < $4))"
    );
    let path = kept(path);
    let (first, end) = (format!("{path}/"), format!("{path}0"));
    let rows = lease.rows(&asked, &[&collection.0, &path, &first, &end, &kept(machine)]).await?;
    rows.iter().map(|row| document(row, 0, machine)).collect()
}

/// The same in the order of their paths: so many from the first path behind one on.
pub(super) async fn some_below(
    lease: &Lease<'_>,
    machine: &str,
    collection: CollectionKey,
    path: &str,
    (after, limit): (&str, usize),
) -> Result<Vec<Document>, StoreError> {
    let asked = format!(
        "SELECT {DOCUMENT_COLUMNS} FROM hindcast.documents
         WHERE collection = $1 AND path IS NOT NULL AND (machine IS NULL OR machine = $5)
         AND left(path, 500) >= left($2::text, 500) AND left(path, 500) <= left($4::text, 500)
         AND (path = $2 OR (path > $3 AND path < $4))
         AND left(path, 500) >= left($6::text, 500) AND path > $6 ORDER BY left(path, 500), path LIMIT $7"
    );
    let path = kept(path);
    let (first, end) = (format!("{path}/"), format!("{path}0"));
    let limit = limit as i64;
    let rows = lease
        .rows(&asked, &[&collection.0, &path, &first, &end, &kept(machine), &kept(after), &limit])
        .await?;
    rows.iter().map(|row| document(row, 0, machine)).collect()
}

pub(super) async fn of_content(
    lease: &Lease<'_>,
    machine: &str,
    collection: CollectionKey,
    hash: TextHash,
) -> Result<Vec<Document>, StoreError> {
    let asked = format!(
        "SELECT {DOCUMENT_COLUMNS} FROM hindcast.documents
         WHERE collection = $1 AND hash = $2 AND path IS NOT NULL AND (machine IS NULL OR machine = $3)"
    );
    let rows = lease.rows(&asked, &[&collection.0, &hash.as_slice(), &kept(machine)]).await?;
    rows.iter().map(|row| document(row, 0, machine)).collect()
}

/// Here it is decided which document a file is: the one with its path on this machine, whichever server brings it.
pub(super) async fn keep(
    lease: &Lease<'_>,
    machine: &str,
    new: &NewDocument,
) -> Result<Document, StoreError> {
    let collection = collections::hold(lease, new.collection, Hold::Write).await?;
    let there = document_there(lease, machine, new).await?;
    if there.as_ref().map(Document::version) != new.replaces {
        let named = new.source.as_ref().map(|source| &source.path).or(new.ids.first());
        return Err(StoreError::Changed(format!("the document `{}`", named.map_or("", |name| name))));
    }
    let id = match &there {
        Some(there) => there.id.clone(),
        None => free_id(lease, new).await?,
    };
    let old = match &there {
        Some(there) => old_chunks(lease, there.key).await?,
        None => HashMap::new(),
    };
    let rows = NewRows::reserved(lease, new, old, there.as_ref().map(|there| there.key)).await?;
    write_document(lease, machine, new, &id, rows.document).await?;
    write_tags(lease, rows.document, new, there.is_some()).await?;
    let change = Change {
        ownership: &collection.ownership,
        collection: &collection.id,
        document: Some(&id),
        is_membership: there.is_none(),
    };
    let generation = next_generations(lease, &[change]).await?;
    write_chunks(lease, new, &rows, generation).await?;
    if there.as_ref().is_some_and(|there| there.language != new.language) {
        // Words are stemmed by their language, so those that stay are indexed again.
        let again = "UPDATE hindcast.chunks SET generation = $2 WHERE document = $1";
        lease.execute(again, &[&rows.document.0, &generation]).await?;
    }
    bury_chunks(lease, new.collection, &rows.gone, generation).await?;
    let before = there.as_ref().map_or(0, |there| number(there.chunks));
    let counts = (i64::from(there.is_none()), number(new.chunks.len() as u64) - before);
    note_update(lease, new.collection, new.now, counts).await?;
    let kept = held(lease, machine, rows.document).await?;
    kept.ok_or_else(|| StoreError::Corrupt("a document is not there after it was kept".into()))
}

/// The document of that path, or of that id where there is no path; else the one it says it replaces, whose file has moved.
/// Nobody changes it until the transaction ends.
async fn document_there(
    lease: &Lease<'_>,
    machine: &str,
    new: &NewDocument,
) -> Result<Option<Document>, StoreError> {
    let same = match &new.source {
        Some(source) => at(lease, machine, new.collection, &source.path).await?,
        None => named(lease, machine, new.collection, new.ids.first().map_or("", |id| id)).await?,
    };
    match same.map(|same| same.key).or(new.replaces.map(|replaced| replaced.key)) {
        Some(key) => held(lease, machine, key).await,
        None => Ok(None),
    }
}

async fn held(lease: &Lease<'_>, machine: &str, key: DocumentKey) -> Result<Option<Document>, StoreError> {
    let asked = format!("SELECT {DOCUMENT_COLUMNS} FROM hindcast.documents WHERE key = $1 FOR NO KEY UPDATE");
    let found = lease.row(&asked, &[&key.0]).await?;
    found.as_ref().map(|row| document(row, 0, machine)).transpose()
}

/// The first id that nobody has, or the first one with a number behind it.
async fn free_id(lease: &Lease<'_>, new: &NewDocument) -> Result<String, StoreError> {
    let wanted: Vec<_> = new.ids.iter().map(|id| kept(id)).collect();
    let taken = "SELECT id FROM hindcast.documents WHERE collection = $1 AND id = ANY($2::text[])";
    let taken = lease.rows(taken, &[&new.collection.0, &wanted]).await?;
    let taken = taken.iter().map(|row| text(row, 0)).collect::<Result<Vec<_>, _>>()?;
    if let Some(id) = new.ids.iter().find(|id| !taken.contains(id)) {
        return Ok(id.clone());
    }
    let first = new.ids.first().map_or("document", |id| id);
    let free = "
        SELECT number FROM generate_series($3::bigint, $3::bigint + $4::bigint - 1) AS number
        WHERE NOT EXISTS (
            SELECT FROM hindcast.documents WHERE collection = $1 AND id = $2::text || '-' || number
        ) ORDER BY number LIMIT 1";
    let mut tried = 2;
    loop {
        let found = lease.row(free, &[&new.collection.0, &kept(first), &tried, &NUMBERS]).await?;
        if let Some(row) = found {
            return Ok(format!("{first}-{}", column::<i64>(&row, 0)?));
        }
        tried += NUMBERS;
    }
}

async fn write_document(
    lease: &Lease<'_>,
    machine: &str,
    new: &NewDocument,
    id: &str,
    key: DocumentKey,
) -> Result<(), StoreError> {
    let path = new.source.as_ref().map(|source| kept(&source.path));
    let machine = new.source.as_ref().filter(|source| !source.is_page()).map(|_| kept(machine));
    lease
        .execute(
            "INSERT INTO hindcast.documents (key, collection, id, name, description, mime_type, size, chunks, hash,
                 created_at, updated_at, path, path_hash, modified, source_type, reader, language, machine, dated)
             VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $10, $11::text, sha256(convert_to($11::text, 'UTF8')), $12,
                 $13, $14, $15, $16, $17)
             ON CONFLICT (key) DO UPDATE SET
                 name = excluded.name, description = excluded.description, mime_type = excluded.mime_type,
                 size = excluded.size, chunks = excluded.chunks, hash = excluded.hash,
                 updated_at = excluded.updated_at, path = excluded.path, path_hash = excluded.path_hash,
                 modified = excluded.modified, source_type = excluded.source_type, reader = excluded.reader,
                 language = excluded.language, machine = excluded.machine, dated = excluded.dated",
            &[
                &key.0,
                &new.collection.0,
                &kept(id),
                &kept(&new.name),
                &kept(&new.description),
                &kept(&new.mime_type),
                &number(new.original.len() as u64),
                &number(new.chunks.len() as u64),
                &new.hash.as_slice(),
                &nanoseconds(new.now),
                &path,
                &new.source.as_ref().map(|source| source.modified),
                &kept(&new.source_type),
                &i64::from(new.reader),
                &new.language.map(Language::code),
                &machine,
                &new.dated.map(nanoseconds),
            ],
        )
        .await?;
    let contents = "
        INSERT INTO hindcast.contents (document, original, text) VALUES ($1, $2, $3)
        ON CONFLICT (document) DO UPDATE SET original = excluded.original, text = excluded.text";
    lease.execute(contents, &[&key.0, &new.original, &new.text.as_deref().map(kept)]).await.map(drop)
}

/// Tags that are there stay if they were given; those of the document itself are decided anew.
async fn write_tags(
    lease: &Lease<'_>,
    key: DocumentKey,
    new: &NewDocument,
    was_there: bool,
) -> Result<(), StoreError> {
    if was_there {
        let own = "DELETE FROM hindcast.tags WHERE document = $1 AND NOT is_given";
        lease.execute(own, &[&key.0]).await?;
    }
    put_tags(lease, key, &new.tags.given, true).await?;
    put_tags(lease, key, &new.tags.own, false).await
}

/// Gives a document tags besides those it has, if it is there.
pub(super) async fn add_tags(lease: &Lease<'_>, key: DocumentKey, tags: &[String]) -> Result<(), StoreError> {
    let collection = "SELECT collection FROM hindcast.documents WHERE key = $1";
    let Some(row) = lease.row(collection, &[&key.0]).await? else { return Ok(()) };
    let found = match collections::hold(lease, CollectionKey(column(&row, 0)?), Hold::Write).await {
        Ok(_) => lease.row(collection, &[&key.0]).await?,
        Err(StoreError::CollectionGone) => None,
        Err(error) => return Err(error),
    };
    match found {
        Some(_) => put_tags(lease, key, tags, true).await,
        None => Ok(()),
    }
}

/// Tags that are there stay, and stay given if they were.
async fn put_tags(
    lease: &Lease<'_>,
    key: DocumentKey,
    tags: &[String],
    is_given: bool,
) -> Result<(), StoreError> {
    if tags.is_empty() {
        return Ok(());
    }
    let tags: Vec<_> = tags.iter().map(|tag| kept(tag)).collect();
    let put = "
        INSERT INTO hindcast.tags AS known (document, tag, tag_hash, is_given)
        SELECT DISTINCT $1::bigint, tag, sha256(convert_to(tag, 'UTF8')), $3::bool FROM unnest($2::text[]) AS tag
        ON CONFLICT (document, tag_hash) DO UPDATE SET is_given = known.is_given OR excluded.is_given";
    lease.execute(put, &[&key.0, &tags, &is_given]).await.map(drop)
}

/// Removes those of the documents that are `wanted`, as they are now; gives which these were.
pub(super) async fn remove(
    lease: &Lease<'_>,
    machine: &str,
    keys: &[DocumentKey],
    wanted: impl Fn(&Document) -> bool + Send,
    now: Timestamp,
) -> Result<Vec<DocumentKey>, StoreError> {
    let keys: Vec<_> = keys.iter().map(|key| key.0).collect();
    let collections = "
        SELECT DISTINCT collection FROM hindcast.documents WHERE key = ANY($1::bigint[]) ORDER BY collection";
    let mut held = HashMap::new();
    for row in lease.rows(collections, &[&keys]).await? {
        let key = CollectionKey(column(&row, 0)?);
        match collections::hold(lease, key, Hold::Write).await {
            Ok(collection) => drop(held.insert(key, collection)),
            Err(StoreError::CollectionGone) => {}
            Err(error) => return Err(error),
        }
    }
    let asked = format!(
        "SELECT {DOCUMENT_COLUMNS} FROM unnest($1::bigint[]) WITH ORDINALITY AS wanted (key, place)
         JOIN hindcast.documents ON documents.key = wanted.key ORDER BY place FOR UPDATE OF documents"
    );
    let mut removed = Vec::new();
    for row in lease.rows(&asked, &[&keys]).await? {
        let found = document(&row, 0, machine)?;
        if wanted(&found) && !removed.iter().any(|known: &Document| known.key == found.key) {
            removed.push(found);
        }
    }
    if removed.is_empty() {
        return Ok(Vec::new());
    }
    let mut changes = Vec::with_capacity(removed.len());
    for document in &removed {
        let collection = held.get(&document.collection).ok_or(StoreError::CollectionGone)?;
        changes.push(Change {
            ownership: &collection.ownership,
            collection: &collection.id,
            document: Some(&document.id),
            is_membership: true,
        });
    }
    let last = next_generations(lease, &changes).await?;
    let keys: Vec<_> = removed.iter().map(|document| document.key.0).collect();
    let bury = "
        INSERT INTO hindcast.removed_chunks (generation, collection, chunk)
        SELECT $2::bigint - cardinality($1::bigint[]) + place, chunks.collection, chunks.id
        FROM unnest($1::bigint[]) WITH ORDINALITY AS gone (key, place)
        JOIN hindcast.chunks ON chunks.document = gone.key";
    lease.execute(bury, &[&keys, &last]).await?;
    lease.execute("DELETE FROM hindcast.documents WHERE key = ANY($1::bigint[])", &[&keys]).await?;
    for collection in held.keys() {
        let gone = removed.iter().filter(|document| document.collection == *collection);
        let (documents, chunks) =
            gone.fold((0, 0), |(documents, chunks), gone| (documents - 1, chunks - number(gone.chunks)));
        if documents < 0 {
            note_update(lease, *collection, now, (documents, chunks)).await?;
        }
    }
    Ok(removed.into_iter().map(|document| document.key).collect())
}

/// Notes when a collection changed, and by how many documents and chunks.
async fn note_update(
    lease: &Lease<'_>,
    key: CollectionKey,
    now: Timestamp,
    (documents, chunks): (i64, i64),
) -> Result<(), StoreError> {
    let update = "
        UPDATE hindcast.collections
        SET updated_at = $2, document_count = document_count + $3, chunk_count = chunk_count + $4 WHERE key = $1";
    lease.execute(update, &[&key.0, &nanoseconds(now), &documents, &chunks]).await.map(drop)
}

/// Reads [`DOCUMENT_COLUMNS`], of which the first is column `first`.
pub(super) fn document(row: &Row, first: usize, machine: &str) -> Result<Document, StoreError> {
    let size = count(column(row, first + 6)?);
    let on = optional_text(row, first + 16)?;
    let source = match optional_text(row, first + 11)? {
        Some(path) => Some(SourceFile {
            path,
            modified: column::<Option<i64>>(row, first + 12)?.unwrap_or_default(),
            size,
            is_elsewhere: on.is_some_and(|on| on != machine),
        }),
        None => None,
    };
    Ok(Document {
        key: DocumentKey(column(row, first)?),
        collection: CollectionKey(column(row, first + 1)?),
        id: text(row, first + 2)?,
        name: text(row, first + 3)?,
        description: text(row, first + 4)?,
        mime_type: text(row, first + 5)?,
        size,
        chunks: count(column(row, first + 7)?),
        hash: hash(row, first + 8)?,
        created_at: timestamp(column(row, first + 9)?),
        updated_at: timestamp(column(row, first + 10)?),
        source_type: text(row, first + 13)?,
        reader: u32::try_from(column::<i64>(row, first + 14)?).unwrap_or_default(),
        language: language(row, first + 15)?,
        dated: column::<Option<i64>>(row, first + 17)?.map(timestamp),
        source,
    })
}

pub(super) fn hash(row: &Row, at: usize) -> Result<TextHash, StoreError> {
    column::<&[u8]>(row, at)?.try_into().map_err(|_| StoreError::Corrupt("a hash is not 32 bytes".into()))
}
