//! Rows of the database as they are, to move them from or to another store.

use async_trait::async_trait;
use ed25519_dalek::SigningKey;
use hindcast_core::{
    audit::{AuditRow, SealedHead},
    identity::{KeyId, KeyRecord},
    store::StoreError,
};

use super::{
    PostgresStore, audit,
    database::{PostgresSettings, column},
    keys, schema,
};
use crate::transfer::{KeyCount, MovableStore};

impl PostgresStore {
    /// Connects and brings the tables up to date with nothing in them, not even the row that opens a trail.
    pub async fn open_to_fill(
        settings: &PostgresSettings,
        audit_key: SigningKey,
    ) -> Result<Self, StoreError> {
        let store = Self::over(settings, audit_key)?;
        schema::migrate(&store.database).await?;
        Ok(store)
    }

    async fn put_key_and_count(&self, key: &KeyRecord, count: Option<&KeyCount>) -> Result<(), StoreError> {
        let lease = self.database.work().await?;
        lease.begin().await?;
        lease.execute("DELETE FROM hindcast.audit_head", &[]).await?;
        for table in
            ["DELETE FROM hindcast.usage WHERE key_id = $1", "DELETE FROM hindcast.keys WHERE id = $1"]
        {
            lease.execute(table, &[&&*key.id.0]).await?;
        }
        keys::insert_with(&lease, key).await?;
        if let Some(count) = count {
            lease
                .execute(
                    "INSERT INTO hindcast.usage (key_id, month, month_used, minute, minute_used, last_used_at)
                     VALUES ($1, $2, $3, $4, $5, $6)",
                    &[
                        &&*count.key.0,
                        &count.month,
                        &count.month_used,
                        &count.minute,
                        &count.minute_used,
                        &count.last_used_at,
                    ],
                )
                .await?;
        }
        lease.commit().await
    }
}

#[async_trait]
impl MovableStore for PostgresStore {
    async fn counts(&self) -> Result<Vec<KeyCount>, StoreError> {
        let counts = "
            SELECT key_id, month, month_used, minute, minute_used, last_used_at
            FROM hindcast.usage ORDER BY key_id COLLATE \"C\"";
        let rows = self.database.work().await?.rows(counts, &[]).await?;
        rows.iter()
            .map(|row| {
                Ok(KeyCount {
                    key: KeyId(column::<&str>(row, 0)?.into()),
                    month: column(row, 1)?,
                    month_used: column(row, 2)?,
                    minute: column(row, 3)?,
                    minute_used: column(row, 4)?,
                    last_used_at: column(row, 5)?,
                })
            })
            .collect()
    }

    async fn put_key(&self, key: KeyRecord, count: Option<KeyCount>) -> Result<(), StoreError> {
        self.put_key_and_count(&key, count.as_ref()).await
    }

    async fn last_row(&self) -> Result<Option<AuditRow>, StoreError> {
        let last = self.database.work().await?.row("SELECT max(seq) FROM hindcast.audit", &[]).await?;
        let last = last.as_ref().map(|row| column::<Option<i64>>(row, 0)).transpose()?.flatten();
        let Some(last) = last else { return Ok(None) };
        let rows = audit::rows(&self.database, last.cast_unsigned().saturating_sub(1), 1).await?;
        Ok(rows.into_iter().next())
    }

    async fn put_rows(&self, rows: Vec<AuditRow>) -> Result<(), StoreError> {
        let lease = self.database.work().await?;
        lease.begin().await?;
        lease.execute("DELETE FROM hindcast.audit_head", &[]).await?;
        audit::add(&lease, &rows).await?;
        lease.commit().await
    }

    async fn remove_opening(&self) -> Result<(), StoreError> {
        let lease = self.database.work().await?;
        lease.begin().await?;
        lease.execute("DELETE FROM hindcast.audit_head", &[]).await?;
        lease.execute("DELETE FROM hindcast.audit WHERE seq = 1", &[]).await?;
        lease.commit().await
    }

    async fn sealed_head(&self) -> Result<Option<SealedHead>, StoreError> {
        audit::head(&self.database).await
    }

    async fn put_head(&self, head: SealedHead) -> Result<(), StoreError> {
        audit::move_head(&self.database.work().await?, &head).await
    }
}
