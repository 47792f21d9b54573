//! Collections in their tables, and what is asked of documents.

use std::ops::Range;

use async_trait::async_trait;
use hindcast_core::{
    Timestamp,
    identity::PrincipalId,
    knowledge::{
        Catalogue, Collection, CollectionKey, CollectionSettings, Document, DocumentKey, DocumentVersion,
        Language, NewDocument, NewWatch, Ownership, Patterns, TextHash, Watch,
    },
    store::StoreError,
};
use rusqlite::{Connection, OptionalExtension, Row, params};

use super::{
    super::{
        keys::{nanoseconds, timestamp},
        transaction::Transaction,
        unavailable,
    },
    Change, SqliteKnowledge,
    documents::{
        DOCUMENT_COLUMNS, document, document_at, document_named, keep_document, language, remove_document,
        remove_unchanged, write_tags,
    },
    next_generation, owner, ownership,
    usage::note_use,
};
use crate::grants::{grant, granted_to};

const COLLECTION: &str = "
    SELECT key, owner, id, name, created_at, updated_at, accessed_at,
           document_count, chunk_count,
           coalesce(owner, maker, 'local'), model, language, passage_bytes, vectors_by
    FROM collections";

#[async_trait]
impl Catalogue for SqliteKnowledge {
    async fn open_collection(
        &self,
        ownership: Ownership,
        maker: PrincipalId,
        id: String,
        name: String,
        now: Timestamp,
    ) -> Result<Collection, StoreError> {
        self.write(move |transaction| {
            let found = find_collection(transaction, &ownership, &id).map_err(unavailable)?;
            if let Some(found) = found {
                return Ok(found);
            }
            next_generation(
                transaction,
                &Change { ownership: &ownership, collection: &id, document: None, is_membership: true },
            )
            .and_then(|_| {
                transaction.execute(
                    "INSERT INTO collections (owner, maker, id, name, created_at, updated_at)
                     VALUES (?1, ?2, ?3, ?4, ?5, ?5)",
                    params![owner(&ownership), &*maker.0, id, name, nanoseconds(now)],
                )
            })
            .map_err(unavailable)?;
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

    async fn change_settings(
        &self,
        key: CollectionKey,
        settings: CollectionSettings,
    ) -> Result<(), StoreError> {
        self.write(move |transaction| {
            let old = collection_by_key(transaction, key)?;
            change_settings(transaction, &old, &settings).map_err(unavailable)
        })
        .await
    }

    async fn remove_collection(&self, key: CollectionKey) -> Result<(), StoreError> {
        self.remove(move |transaction| {
            let old = collection_by_key(transaction, key)?;
            remove(transaction, &old).map_err(unavailable)
        })
        .await
    }

    async fn remove_unused_collection(&self, key: CollectionKey) -> Result<bool, StoreError> {
        self.remove(move |transaction| {
            let is_used: bool = transaction
                .query_row(
                    "SELECT EXISTS (SELECT 1 FROM documents WHERE collection = ?1)
                         OR EXISTS (SELECT 1 FROM watched WHERE collection = ?1)",
                    [key.0],
                    |row| row.get(0),
                )
                .map_err(unavailable)?;
            if is_used {
                return Ok(false);
            }
            let old = collection_by_key(transaction, key)?;
            remove(transaction, &old).map_err(unavailable)?;
            Ok(true)
        })
        .await
    }

    async fn touch_collection(&self, key: CollectionKey, now: Timestamp) -> Result<(), StoreError> {
        self.write(move |transaction| note_use(transaction, key, now).map_err(unavailable)).await
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

    async fn some_documents(
        &self,
        collection: CollectionKey,
        wanted: Range<usize>,
    ) -> Result<Vec<Document>, StoreError> {
        self.read(move |connection| {
            // Of what is skipped only the keys are looked at.
            let mut statement = connection.prepare_cached(&format!(
                "SELECT {DOCUMENT_COLUMNS} FROM documents WHERE key IN
                     (SELECT key FROM documents WHERE collection = ?1 ORDER BY key LIMIT ?2 OFFSET ?3) ORDER BY key"
            ))?;
            let bounds = params![collection.0, wanted.len() as i64, wanted.start as i64];
            statement.query_map(bounds, |row| document(row, 0))?.collect()
        })
        .await
    }

    async fn find_document(
        &self,
        collection: CollectionKey,
        id: &str,
    ) -> Result<Option<Document>, StoreError> {
        let id = id.to_owned();
        self.read(move |connection| document_named(connection, collection, &id)).await
    }

    async fn document_at(
        &self,
        collection: CollectionKey,
        path: &str,
    ) -> Result<Option<Document>, StoreError> {
        let path = path.to_owned();
        self.read(move |connection| document_at(connection, collection, &path)).await
    }

    async fn documents_below(
        &self,
        collection: CollectionKey,
        path: &str,
    ) -> Result<Vec<Document>, StoreError> {
        let path = path.trim_end_matches('/').to_owned();
        self.read(move |connection| {
            // `0` is what follows `/`.
            let mut statement = connection.prepare_cached(&format!(
                "SELECT {DOCUMENT_COLUMNS} FROM documents
                 WHERE collection = ?1 AND path IS NOT NULL AND (path = ?2 OR (path > ?3 AND path < ?4))"
            ))?;
            let bounds = params![collection.0, path, format!("{path}/"), format!("{path}0")];
            statement.query_map(bounds, |row| document(row, 0))?.collect()
        })
        .await
    }

    async fn some_documents_below(
        &self,
        collection: CollectionKey,
        path: &str,
        after: &str,
        limit: usize,
    ) -> Result<Vec<Document>, StoreError> {
        let (path, after) = (path.trim_end_matches('/').to_owned(), after.to_owned());
        self.read(move |connection| {
            // One range of the index, in its order.
            let mut statement = connection.prepare_cached(&format!(
                "SELECT {DOCUMENT_COLUMNS} FROM documents
                 WHERE collection = ?1 AND path IS NOT NULL AND path >= ?2 AND path < ?4 AND path > ?5
                 AND (path = ?2 OR path > ?3) ORDER BY path LIMIT ?6"
            ))?;
            let (first, end) = (format!("{path}/"), format!("{path}0"));
            let bounds = params![collection.0, path, first, end, after, limit as i64];
            statement.query_map(bounds, |row| document(row, 0))?.collect()
        })
        .await
    }

    async fn documents_of_content(
        &self,
        collection: CollectionKey,
        hash: TextHash,
    ) -> Result<Vec<Document>, StoreError> {
        self.read(move |connection| {
            let mut statement = connection.prepare_cached(&format!(
                "SELECT {DOCUMENT_COLUMNS} FROM documents
                 WHERE collection = ?1 AND hash = ?2 AND path IS NOT NULL"
            ))?;
            statement.query_map(params![collection.0, hash], |row| document(row, 0))?.collect()
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
        let (text, original) = found.ok_or(StoreError::DocumentGone)?;
        match text {
            Some(text) => Ok(text),
            None => String::from_utf8(original.unwrap_or_default())
                .map_err(|error| StoreError::Corrupt(error.to_string())),
        }
    }

    async fn keep_document(&self, document: NewDocument) -> Result<Document, StoreError> {
        self.write(move |transaction| keep_document(transaction, &document)).await
    }

    async fn add_tags(&self, document: DocumentKey, tags: Vec<String>) -> Result<(), StoreError> {
        self.write(move |transaction| {
            let exists = transaction.prepare_cached("SELECT 1 FROM documents WHERE key = ?1");
            let is_there = exists.and_then(|mut found| found.exists([document.0])).map_err(unavailable)?;
            if is_there {
                write_tags(transaction, document, &tags, true).map_err(unavailable)
            } else {
                Ok(())
            }
        })
        .await
    }

    async fn refresh_source(&self, document: DocumentVersion, modified: i64) -> Result<(), StoreError> {
        self.write(move |transaction| {
            transaction
                .execute(
                    "UPDATE documents SET modified = ?4 WHERE key = ?1 AND hash = ?2 AND modified IS ?3",
                    params![document.key.0, document.hash, document.modified, modified],
                )
                .map(drop)
                .map_err(unavailable)
        })
        .await
    }

    async fn remove_document(&self, document: DocumentKey, now: Timestamp) -> Result<(), StoreError> {
        self.remove(move |transaction| remove_document(transaction, document, now)).await
    }

    async fn remove_unchanged(
        &self,
        documents: Vec<DocumentVersion>,
        now: Timestamp,
    ) -> Result<Vec<DocumentKey>, StoreError> {
        self.remove(move |transaction| {
            let mut removed = Vec::new();
            for document in documents {
                if remove_unchanged(transaction, document, now)? {
                    removed.push(document.key);
                }
            }
            Ok(removed)
        })
        .await
    }

    async fn watches(&self) -> Result<Vec<Watch>, StoreError> {
        self.read(|connection| {
            connection
                .prepare_cached(
                    "SELECT key, collection, path, granted_to, include, exclude FROM watched ORDER BY key",
                )?
                .query_map([], |row| {
                    Ok(Watch {
                        key: row.get(0)?,
                        elsewhere: None,
                        collection: CollectionKey(row.get(1)?),
                        path: row.get(2)?,
                        grant: grant(row.get(3)?),
                        patterns: Patterns {
                            include: lines(&row.get::<_, String>(4)?),
                            exclude: lines(&row.get::<_, String>(5)?),
                        },
                    })
                })?
                .collect()
        })
        .await
    }

    async fn watch(&self, watch: NewWatch) -> Result<(), StoreError> {
        self.write(move |transaction| {
            let collection = collection_by_key(transaction, watch.collection)?;
            let Collection { ownership, id, .. } = &collection;
            let change = Change { ownership, collection: id, document: None, is_membership: false };
            transaction
                .execute(
                    "INSERT INTO watched (collection, path, granted_to, include, exclude) VALUES (?1, ?2, ?3, ?4, ?5)
                     ON CONFLICT (collection, path) DO UPDATE SET
                         granted_to = iif(granted_to IS 'local', granted_to, excluded.granted_to),
                         include = excluded.include, exclude = excluded.exclude",
                    params![
                        watch.collection.0,
                        watch.path,
                        granted_to(&watch.grant),
                        watch.patterns.include.join("\n"),
                        watch.patterns.exclude.join("\n")
                    ],
                )
                // Those who watch folders must hear of it.
                .and_then(|_| next_generation(transaction, &change))
                .map(drop)
                .map_err(unavailable)
        })
        .await
    }

    async fn unwatch(
        &self,
        collection: CollectionKey,
        path: Option<String>,
    ) -> Result<Vec<String>, StoreError> {
        self.write(move |transaction| {
            let found = collection_by_key(transaction, collection)?;
            let remove = || {
                let mut statement = transaction.prepare_cached(
                    "DELETE FROM watched WHERE collection = ?1 AND (?2 IS NULL OR path = ?2) RETURNING path",
                )?;
                let removed: Vec<String> = statement
                    .query_map(params![collection.0, path], |row| row.get(0))?
                    .collect::<Result<_, _>>()?;
                let Collection { ownership, id, .. } = &found;
                // Those who watch folders must hear of it.
                next_generation(
                    transaction,
                    &Change { ownership, collection: id, document: None, is_membership: false },
                )?;
                Ok(removed)
            };
            remove().map_err(unavailable)
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

impl SqliteKnowledge {
    /// Removes something in a transaction, and then gives the space back to the disk.
    async fn remove<T: Send + 'static>(
        &self,
        job: impl FnOnce(&Transaction<'_>) -> Result<T, StoreError> + Send + 'static,
    ) -> Result<T, StoreError> {
        self.on_writer(move |connection| {
            let transaction = Transaction::begin(connection).map_err(unavailable)?;
            let done = job(&transaction)?;
            transaction.commit().map_err(unavailable)?;
            give_back(connection);
            Ok(done)
        })
        .await
    }
}

fn lines(text: &str) -> Vec<String> {
    text.lines().map(str::to_owned).collect()
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

pub(super) fn collection_by_key(
    connection: &Connection,
    key: CollectionKey,
) -> Result<Collection, StoreError> {
    connection
        .prepare_cached(&format!("{COLLECTION} WHERE key = ?1"))
        .and_then(|mut statement| statement.query_row([key.0], collection).optional())
        .map_err(unavailable)?
        .ok_or(StoreError::CollectionGone)
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

fn change_settings(
    transaction: &Transaction<'_>,
    old: &Collection,
    settings: &CollectionSettings,
) -> rusqlite::Result<()> {
    let Collection { ownership, id, key, .. } = old;
    let change = Change { ownership, collection: id, document: None, is_membership: false };
    let generation = next_generation(transaction, &change)?;
    let code = settings.language.map(Language::code);
    transaction.execute(
        "UPDATE collections SET model = ?2, language = ?3, passage_bytes = ?4, vectors_by = coalesce(vectors_by,
             (SELECT vectors.model FROM chunks JOIN vectors ON vectors.chunk = chunks.id
              WHERE chunks.collection = collections.key LIMIT 1))
         WHERE key = ?1",
        params![key.0, settings.model, code, settings.passage_bytes],
    )?;
    if settings.language != old.settings.language {
        // Source code has no language of this kind.
        transaction.execute(
            "UPDATE documents SET language = ?2 WHERE collection = ?1
             AND NOT EXISTS (SELECT 1 FROM chunks WHERE document = documents.key AND is_code)",
            params![key.0, code],
        )?;
        transaction.execute(
            "UPDATE chunks SET generation = ?2 WHERE collection = ?1 AND NOT is_code",
            params![key.0, generation],
        )?;
    }
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
        maker: PrincipalId(row.get::<_, String>(9)?.into()),
        settings: CollectionSettings {
            model: row.get(10)?,
            language: language(row, 11)?,
            passage_bytes: row.get(12)?,
        },
        vectors_by: row.get(13)?,
    })
}
