//! What is asked and written of collections, documents and watches.

use std::ops::Range;

use async_trait::async_trait;
use hindcast_core::{
    Timestamp,
    identity::PrincipalId,
    knowledge::{
        Catalogue, Collection, CollectionKey, CollectionSettings, Document, DocumentKey, DocumentVersion,
        NewDocument, NewWatch, Ownership, Patterns, TextHash, Watch,
    },
    store::StoreError,
};
use tokio_postgres::Row;

use super::{
    super::{
        database::{Lease, column},
        texts::{kept, optional_text, text},
    },
    Change, LONGEST_REMOVAL, PostgresKnowledge,
    collections::{self, Hold},
    count, documents, next_generations, usage,
};
use crate::grants::{grant, granted_to};

/// All tables, for their size.
const SIZE: &str = "
    SELECT coalesce(sum(pg_total_relation_size(pg_class.oid)), 0)::bigint
    FROM pg_catalog.pg_class JOIN pg_catalog.pg_namespace ON pg_namespace.oid = relnamespace
    WHERE nspname = 'hindcast' AND relkind = 'r' AND relname IN ('generation', 'collections', 'documents', 'contents', 'tags',
        'chunks', 'vectors', 'removed_chunks', 'changes', 'watched', 'uses', 'collection_uses', 'queries', 'answers')";

#[async_trait]
impl Catalogue for PostgresKnowledge {
    async fn open_collection(
        &self,
        ownership: Ownership,
        maker: PrincipalId,
        id: String,
        name: String,
        now: Timestamp,
    ) -> Result<Collection, StoreError> {
        if let Some(found) = collections::find(&self.read().await?, &ownership, &id).await? {
            return Ok(found);
        }
        let lease = self.write().await?;
        lease.end(collections::open(&lease, &ownership, &maker, &id, &name, now).await).await
    }

    async fn collections(&self, principal: Option<PrincipalId>) -> Result<Vec<Collection>, StoreError> {
        collections::list(&self.read().await?, principal.as_ref()).await
    }

    async fn rename_collection(
        &self,
        key: CollectionKey,
        id: String,
        name: String,
        now: Timestamp,
    ) -> Result<(), StoreError> {
        let lease = self.write().await?;
        lease.end(collections::rename(&lease, key, &id, &name, now).await).await
    }

    async fn change_settings(
        &self,
        key: CollectionKey,
        settings: CollectionSettings,
    ) -> Result<(), StoreError> {
        let lease = self.write().await?;
        lease.end(collections::change_settings(&lease, key, &settings).await).await
    }

    /// PostgreSQL uses the space again, and gives it back as it sees fit.
    async fn remove_collection(&self, key: CollectionKey) -> Result<(), StoreError> {
        let mut lease = self.database.writer().await?;
        lease.begin_long(LONGEST_REMOVAL).await?;
        lease.end(collections::remove(&lease, key, false).await).await.map(drop)
    }

    async fn remove_unused_collection(&self, key: CollectionKey) -> Result<bool, StoreError> {
        let lease = self.write().await?;
        lease.end(collections::remove(&lease, key, true).await).await
    }

    async fn touch_collection(&self, key: CollectionKey, now: Timestamp) -> Result<(), StoreError> {
        usage::note_use(&self.database.lookup().await?, key, now).await
    }

    async fn documents(&self, collection: CollectionKey) -> Result<Vec<Document>, StoreError> {
        documents::list(&self.read().await?, &self.machine, collection).await
    }

    async fn some_documents(
        &self,
        collection: CollectionKey,
        wanted: Range<usize>,
    ) -> Result<Vec<Document>, StoreError> {
        documents::some(&self.read().await?, &self.machine, collection, wanted).await
    }

    async fn find_document(
        &self,
        collection: CollectionKey,
        id: &str,
    ) -> Result<Option<Document>, StoreError> {
        documents::named(&self.read().await?, &self.machine, collection, id).await
    }

    async fn document_at(
        &self,
        collection: CollectionKey,
        path: &str,
    ) -> Result<Option<Document>, StoreError> {
        documents::at(&self.read().await?, &self.machine, collection, path).await
    }

    async fn documents_below(
        &self,
        collection: CollectionKey,
        path: &str,
    ) -> Result<Vec<Document>, StoreError> {
        documents::below(&self.read().await?, &self.machine, collection, path.trim_end_matches('/')).await
    }

    async fn some_documents_below(
        &self,
        collection: CollectionKey,
        path: &str,
        after: &str,
        limit: usize,
    ) -> Result<Vec<Document>, StoreError> {
        let path = path.trim_end_matches('/');
        documents::some_below(&self.read().await?, &self.machine, collection, path, (after, limit)).await
    }

    async fn documents_of_content(
        &self,
        collection: CollectionKey,
        hash: TextHash,
    ) -> Result<Vec<Document>, StoreError> {
        documents::of_content(&self.read().await?, &self.machine, collection, hash).await
    }

    async fn document_text(&self, document: DocumentKey) -> Result<String, StoreError> {
        let asked = "
            SELECT text, CASE WHEN text IS NULL THEN original END FROM hindcast.contents WHERE document = $1";
        let found = self.read().await?.row(asked, &[&document.0]).await?.ok_or(StoreError::DocumentGone)?;
        match optional_text(&found, 0)? {
            Some(text) => Ok(text),
            None => String::from_utf8(column::<Option<Vec<u8>>>(&found, 1)?.unwrap_or_default())
                .map_err(|error| StoreError::Corrupt(error.to_string())),
        }
    }

    async fn keep_document(&self, document: NewDocument) -> Result<Document, StoreError> {
        let lease = self.write().await?;
        lease.end(documents::keep(&lease, &self.machine, &document).await).await
    }

    async fn add_tags(&self, document: DocumentKey, tags: Vec<String>) -> Result<(), StoreError> {
        let lease = self.write().await?;
        lease.end(documents::add_tags(&lease, document, &tags).await).await
    }

    async fn refresh_source(&self, document: DocumentVersion, modified: i64) -> Result<(), StoreError> {
        let refresh = "
            UPDATE hindcast.documents SET modified = $4
            WHERE key = $1 AND hash = $2 AND modified IS NOT DISTINCT FROM $3";
        let given = (document.key.0, document.hash.as_slice(), document.modified);
        self.read().await?.execute(refresh, &[&given.0, &given.1, &given.2, &modified]).await.map(drop)
    }

    async fn remove_document(&self, document: DocumentKey, now: Timestamp) -> Result<(), StoreError> {
        let lease = self.write().await?;
        let removed = documents::remove(&lease, &self.machine, &[document], |_| true, now).await;
        let removed = removed.and_then(|removed| match removed.is_empty() {
            true => Err(StoreError::DocumentGone),
            false => Ok(()),
        });
        lease.end(removed).await
    }

    async fn remove_unchanged(
        &self,
        documents: Vec<DocumentVersion>,
        now: Timestamp,
    ) -> Result<Vec<DocumentKey>, StoreError> {
        let keys: Vec<_> = documents.iter().map(|document| document.key).collect();
        let lease = self.write().await?;
        let is_same = |found: &Document| documents.contains(&found.version());
        lease.end(documents::remove(&lease, &self.machine, &keys, is_same, now).await).await
    }

    async fn watches(&self) -> Result<Vec<Watch>, StoreError> {
        let asked = "SELECT key, collection, path, granted_to, include, exclude, machine FROM hindcast.watched ORDER BY key";
        let rows = self.read().await?.rows(asked, &[]).await?;
        rows.iter().map(|row| watch(row, &self.machine)).collect()
    }

    async fn watch(&self, watch: NewWatch) -> Result<(), StoreError> {
        let lease = self.write().await?;
        lease.end(begin_watch(&lease, &self.machine, &watch).await).await
    }

    /// On whichever machine it is watched.
    async fn unwatch(
        &self,
        collection: CollectionKey,
        path: Option<String>,
    ) -> Result<Vec<String>, StoreError> {
        let lease = self.write().await?;
        lease.end(end_watches(&lease, collection, path.as_deref()).await).await
    }

    async fn size(&self) -> Result<u64, StoreError> {
        let row = self.read().await?.row(SIZE, &[]).await?;
        super::made(row.as_ref()).map(count)
    }
}

async fn begin_watch(lease: &Lease<'_>, machine: &str, watch: &NewWatch) -> Result<(), StoreError> {
    let collection = collections::hold(lease, watch.collection, Hold::Write).await?;
    lease
        .execute(
            "INSERT INTO hindcast.watched AS known (collection, machine, path, path_hash, granted_to, include, exclude)
             VALUES ($1, $2, $3::text, sha256(convert_to($3::text, 'UTF8')), $4, $5, $6)
             ON CONFLICT (collection, machine, path_hash) DO UPDATE SET
                 granted_to = CASE WHEN known.granted_to = 'local' THEN known.granted_to ELSE excluded.granted_to END,
                 include = excluded.include, exclude = excluded.exclude",
            &[
                &watch.collection.0,
                &kept(machine),
                &kept(&watch.path),
                &granted_to(&watch.grant),
                &kept(&watch.patterns.include.join("\n")),
                &kept(&watch.patterns.exclude.join("\n")),
            ],
        )
        .await?;
    tell_watchers(lease, &collection).await
}

async fn end_watches(
    lease: &Lease<'_>,
    collection: CollectionKey,
    path: Option<&str>,
) -> Result<Vec<String>, StoreError> {
    let found = collections::hold(lease, collection, Hold::Write).await?;
    let remove = "
        DELETE FROM hindcast.watched WHERE collection = $1
        AND ($2::text IS NULL OR path_hash = sha256(convert_to($2::text, 'UTF8'))) RETURNING path";
    let rows = lease.rows(remove, &[&collection.0, &path.map(kept)]).await?;
    tell_watchers(lease, &found).await?;
    rows.iter().map(|row| text(row, 0)).collect()
}

/// Those who watch folders must hear of it.
async fn tell_watchers(lease: &Lease<'_>, collection: &Collection) -> Result<(), StoreError> {
    let Collection { ownership, id, .. } = collection;
    let change = Change { ownership, collection: id, document: None, is_membership: false };
    next_generations(lease, &[change]).await.map(drop)
}

fn watch(row: &Row, machine: &str) -> Result<Watch, StoreError> {
    let lines = |at| text(row, at).map(|text| text.lines().map(str::to_owned).collect());
    let on = text(row, 6)?;
    Ok(Watch {
        key: column(row, 0)?,
        elsewhere: (on != machine).then_some(on),
        collection: CollectionKey(column(row, 1)?),
        path: text(row, 2)?,
        grant: grant(optional_text(row, 3)?),
        patterns: Patterns { include: lines(4)?, exclude: lines(5)? },
    })
}
