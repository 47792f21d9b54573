//! Collections in their table.

use hindcast_core::{
    Timestamp,
    identity::PrincipalId,
    knowledge::{Collection, CollectionKey, CollectionSettings, Language, Ownership},
    store::StoreError,
};
use tokio_postgres::Row;

use super::{
    super::{
        database::{Lease, column},
        texts::{kept, optional_text, text},
    },
    Change, count, hold_generation, next_generations, owner, ownership,
};
use crate::instants::{nanoseconds, timestamp};

const COLLECTION: &str = "
    SELECT collections.key, owner, id, name, created_at, updated_at, accessed_at, document_count, chunk_count,
           coalesce(owner, maker, 'local'), model, language, passage_bytes, vectors_by
    FROM hindcast.collections LEFT JOIN hindcast.collection_uses ON collection_uses.collection = collections.key";

/// How a collection is held while it, or something in it, is written.
#[derive(Clone, Copy)]
pub(super) enum Hold {
    /// Whoever only uses it goes on.
    Write,
    /// Nobody else may hold it in any way.
    Remove,
}

/// The collection, which nobody else writes to until the transaction ends.
pub(super) async fn hold(
    lease: &Lease<'_>,
    key: CollectionKey,
    hold: Hold,
) -> Result<Collection, StoreError> {
    let strength = match hold {
        Hold::Write => "FOR NO KEY UPDATE",
        Hold::Remove => "FOR UPDATE",
    };
    let held = format!("{COLLECTION} WHERE collections.key = $1 {strength} OF collections");
    let held = lease.row(&held, &[&key.0]).await?;
    held.as_ref().map(collection).transpose()?.ok_or(StoreError::CollectionGone)
}

pub(super) async fn find(
    lease: &Lease<'_>,
    ownership: &Ownership,
    id: &str,
) -> Result<Option<Collection>, StoreError> {
    let found = format!("{COLLECTION} WHERE id = $1 AND owner IS NOT DISTINCT FROM $2");
    let found = lease.row(&found, &[&kept(id), &owner(ownership).map(kept)]).await?;
    found.as_ref().map(collection).transpose()
}

pub(super) async fn list(
    lease: &Lease<'_>,
    principal: Option<&PrincipalId>,
) -> Result<Vec<Collection>, StoreError> {
    let rows = match principal {
        Some(principal) => {
            let seen = format!("{COLLECTION} WHERE owner IS NULL OR owner = $1 ORDER BY collections.key");
            lease.rows(&seen, &[&kept(&principal.0)]).await?
        }
        None => lease.rows(&format!("{COLLECTION} ORDER BY collections.key"), &[]).await?,
    };
    rows.iter().map(collection).collect()
}

/// Makes a collection unless it is there.
pub(super) async fn open(
    lease: &Lease<'_>,
    ownership: &Ownership,
    maker: &PrincipalId,
    id: &str,
    name: &str,
    now: Timestamp,
) -> Result<Collection, StoreError> {
    // Whoever makes or renames one has the generation's row, so none comes after this look.
    hold_generation(lease).await?;
    if let Some(found) = find(lease, ownership, id).await? {
        return Ok(found);
    }
    let change = Change { ownership, collection: id, document: None, is_membership: true };
    next_generations(lease, &[change]).await?;
    lease
        .execute(
            "INSERT INTO hindcast.collections (owner, maker, id, name, created_at, updated_at)
             VALUES ($1, $2, $3, $4, $5, $5)",
            &[&owner(ownership).map(kept), &kept(&maker.0), &kept(id), &kept(name), &nanoseconds(now)],
        )
        .await?;
    find(lease, ownership, id).await?.ok_or_else(|| StoreError::Missing(format!("collection `{id}`")))
}

pub(super) async fn rename(
    lease: &Lease<'_>,
    key: CollectionKey,
    id: &str,
    name: &str,
    now: Timestamp,
) -> Result<(), StoreError> {
    let old = hold(lease, key, Hold::Write).await?;
    // Under both names: what was there is gone, and something else has come.
    let change =
        |collection| Change { ownership: &old.ownership, collection, document: None, is_membership: true };
    next_generations(lease, &[change(&*old.id), change(id)]).await?;
    if find(lease, &old.ownership, id).await?.is_some_and(|taken| taken.key != key) {
        return Err(StoreError::Exists(format!("collection `{id}`")));
    }
    let rename = "UPDATE hindcast.collections SET id = $2, name = $3, updated_at = $4 WHERE key = $1";
    lease.execute(rename, &[&key.0, &kept(id), &kept(name), &nanoseconds(now)]).await.map(drop)
}

pub(super) async fn change_settings(
    lease: &Lease<'_>,
    key: CollectionKey,
    settings: &CollectionSettings,
) -> Result<(), StoreError> {
    let old = hold(lease, key, Hold::Write).await?;
    let change =
        Change { ownership: &old.ownership, collection: &old.id, document: None, is_membership: false };
    let generation = next_generations(lease, &[change]).await?;
    let code = settings.language.map(Language::code);
    lease
        .execute(
            "UPDATE hindcast.collections SET model = $2, language = $3, passage_bytes = $4,
                 vectors_by = coalesce(vectors_by,
                     (SELECT vectors.model FROM hindcast.chunks JOIN hindcast.vectors ON vectors.chunk = chunks.id
                      WHERE chunks.collection = $1 LIMIT 1))
             WHERE key = $1",
            &[&key.0, &settings.model.as_deref().map(kept), &code, &settings.passage_bytes.map(i64::from)],
        )
        .await?;
    if settings.language != old.settings.language {
        // Source code has no language of this kind.
        let documents = "
            UPDATE hindcast.documents SET language = $2 WHERE collection = $1
            AND NOT EXISTS (SELECT FROM hindcast.chunks WHERE document = documents.key AND is_code)";
        lease.execute(documents, &[&key.0, &code]).await?;
        let chunks = "UPDATE hindcast.chunks SET generation = $2 WHERE collection = $1 AND NOT is_code";
        lease.execute(chunks, &[&key.0, &generation]).await?;
    }
    Ok(())
}

/// Removes a collection; where `is_unused` is asked for, only one without documents and watches. Tells whether it did.
pub(super) async fn remove(
    lease: &Lease<'_>,
    key: CollectionKey,
    is_unused: bool,
) -> Result<bool, StoreError> {
    let old = hold(lease, key, Hold::Remove).await?;
    let used = "
        SELECT key FROM hindcast.collections WHERE key = $1
        AND (EXISTS (SELECT FROM hindcast.documents WHERE collection = $1)
             OR EXISTS (SELECT FROM hindcast.watched WHERE collection = $1))";
    if is_unused && lease.row(used, &[&key.0]).await?.is_some() {
        return Ok(false);
    }
    // What is in it goes first. That may take long, and the others need not wait for it.
    for table in [
        "DELETE FROM hindcast.chunks WHERE collection = $1",
        "DELETE FROM hindcast.documents WHERE collection = $1",
        "DELETE FROM hindcast.queries WHERE collection = $1",
    ] {
        lease.execute(table, &[&key.0]).await?;
    }
    let change =
        Change { ownership: &old.ownership, collection: &old.id, document: None, is_membership: true };
    next_generations(lease, &[change]).await?;
    // Its chunks need no tombstones: an index compares its collections with ours.
    lease.execute("DELETE FROM hindcast.removed_chunks WHERE collection = $1", &[&key.0]).await?;
    lease.execute("DELETE FROM hindcast.collections WHERE key = $1", &[&key.0]).await?;
    Ok(true)
}

fn collection(row: &Row) -> Result<Collection, StoreError> {
    Ok(Collection {
        key: CollectionKey(column(row, 0)?),
        ownership: ownership(optional_text(row, 1)?),
        id: text(row, 2)?,
        name: text(row, 3)?,
        created_at: timestamp(column(row, 4)?),
        updated_at: timestamp(column(row, 5)?),
        accessed_at: column::<Option<i64>>(row, 6)?.map(timestamp),
        documents: count(column(row, 7)?),
        chunks: count(column(row, 8)?),
        maker: PrincipalId(text(row, 9)?.into()),
        settings: CollectionSettings {
            model: optional_text(row, 10)?,
            language: language(row, 11)?,
            passage_bytes: column::<Option<i64>>(row, 12)?.and_then(|bytes| u32::try_from(bytes).ok()),
        },
        vectors_by: optional_text(row, 13)?,
    })
}

pub(super) fn language(row: &Row, at: usize) -> Result<Option<Language>, StoreError> {
    Ok(column::<Option<&str>>(row, at)?.and_then(Language::of_tag))
}
