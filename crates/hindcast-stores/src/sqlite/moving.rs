//! Rows of the embedded store as they are, to move them from or to another store.

use std::path::Path;

use async_trait::async_trait;
use ed25519_dalek::SigningKey;
use hindcast_core::{
    audit::{AuditKey, AuditRow, SealedHead},
    identity::{KeyId, KeyRecord},
    store::StoreError,
};
use rusqlite::params;

use super::{SqliteStore, audit, audit::Appender, keys, lock, schema, unavailable};
use crate::transfer::{KeyCount, MovableStore};

impl SqliteStore {
    /// Opens or makes the file with nothing in it, not even the row that opens a trail.
    pub fn open_to_fill(path: &Path, audit_key: SigningKey) -> Result<Self, StoreError> {
        let connection = schema::open(path)?;
        schema::migrate(&connection, &schema::MIGRATIONS)?;
        Self::over(path, connection, AuditKey::new(audit_key).into())
    }
}

#[async_trait]
impl MovableStore for SqliteStore {
    async fn counts(&self) -> Result<Vec<KeyCount>, StoreError> {
        self.scan(|connection| {
            connection
                .prepare(
                    "SELECT key_id, month, month_used, minute, minute_used, last_used_at FROM usage ORDER BY key_id",
                )?
                .query_map([], |row| {
                    Ok(KeyCount {
                        key: KeyId(row.get::<_, String>(0)?.into()),
                        month: row.get(1)?,
                        month_used: row.get(2)?,
                        minute: row.get(3)?,
                        minute_used: row.get(4)?,
                        last_used_at: row.get(5)?,
                    })
                })?
                .collect()
        })
        .await
    }

    async fn put_key(&self, key: KeyRecord, count: Option<KeyCount>) -> Result<(), StoreError> {
        let put = move |transaction: &super::transaction::Transaction<'_>| {
            transaction.execute("DELETE FROM audit_head", []).map_err(unavailable)?;
            for table in ["DELETE FROM usage WHERE key_id = ?1", "DELETE FROM keys WHERE id = ?1"] {
                transaction.execute(table, [&*key.id.0]).map_err(unavailable)?;
            }
            keys::insert(transaction, &key)?;
            if let Some(count) = count {
                transaction
                    .execute(
                        "INSERT INTO usage (key_id, month, month_used, minute, minute_used, last_used_at)
                         VALUES (?1, ?2, ?3, ?4, ?5, ?6)",
                        params![
                            &*count.key.0,
                            count.month,
                            count.month_used,
                            count.minute,
                            count.minute_used,
                            count.last_used_at
                        ],
                    )
                    .map_err(unavailable)?;
            }
            Ok(())
        };
        self.ledger.write(put).await
    }

    async fn last_row(&self) -> Result<Option<AuditRow>, StoreError> {
        let last = self
            .scan(|connection| {
                connection.query_row("SELECT max(seq) FROM audit", [], |row| row.get::<_, Option<i64>>(0))
            })
            .await?;
        let Some(last) = last else { return Ok(None) };
        self.scan(move |connection| audit::rows(connection, last.cast_unsigned().saturating_sub(1), 1))
            .await
            .map(|rows| rows.into_iter().next())
    }

    async fn put_rows(&self, rows: Vec<AuditRow>) -> Result<(), StoreError> {
        let put = move |transaction: &super::transaction::Transaction<'_>| {
            transaction.execute("DELETE FROM audit_head", []).map_err(unavailable)?;
            let mut appender = Appender::behind_whatever_is_there();
            rows.iter().try_for_each(|row| appender.append(transaction, row)).map_err(unavailable)
        };
        self.ledger.write(put).await
    }

    async fn remove_opening(&self) -> Result<(), StoreError> {
        let remove = |transaction: &super::transaction::Transaction<'_>| {
            for table in ["DELETE FROM audit_head", "DELETE FROM audit WHERE seq = 1"] {
                transaction.execute(table, []).map_err(unavailable)?;
            }
            Ok(())
        };
        self.ledger.write(remove).await
    }

    async fn sealed_head(&self) -> Result<Option<SealedHead>, StoreError> {
        audit::head(&lock(&self.lookups).connection).map_err(unavailable)
    }

    async fn put_head(&self, head: SealedHead) -> Result<(), StoreError> {
        self.ledger.write(move |transaction| audit::put_head(transaction, &head).map_err(unavailable)).await
    }
}
