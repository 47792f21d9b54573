//! API keys in their table.

use std::{error::Error, str::FromStr};

use hindcast_core::{
    Timestamp,
    identity::{KeyId, KeyRecord, PrincipalId, SecretHash},
    quota::Limits,
    store::StoreError,
};
use tokio_postgres::Row;

use super::database::{Database, Lease, column};
use crate::instants::{nanoseconds, timestamp};

const FIND: &str = "
    SELECT id, name, owner, environment, tier, per_month, per_minute, scopes, secret_hash,
           created_at, expires_at, revoked_at, rotated_at, allowed_ips, last_used_at
    FROM hindcast.keys LEFT JOIN hindcast.usage ON key_id = id
    WHERE id = $1";

const LIST: &str = "
    SELECT id, name, owner, environment, tier, per_month, per_minute, scopes, secret_hash,
           created_at, expires_at, revoked_at, rotated_at, allowed_ips, last_used_at
    FROM hindcast.keys LEFT JOIN hindcast.usage ON key_id = id
    ORDER BY created_at, id COLLATE \"C\"";

pub(super) async fn insert(database: &Database, key: &KeyRecord) -> Result<(), StoreError> {
    insert_with(&database.work().await?, key).await
}

pub(super) async fn insert_with(lease: &Lease<'_>, key: &KeyRecord) -> Result<(), StoreError> {
    let addresses: Vec<_> = key.allowed_ips.iter().map(ToString::to_string).collect();
    let inserted = lease
        .execute(
            "INSERT INTO hindcast.keys (id, name, owner, environment, tier, per_month, per_minute, scopes, secret_hash,
                                        created_at, expires_at, revoked_at, rotated_at, allowed_ips)
             VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14)
             ON CONFLICT (id) DO NOTHING",
            &[
                &&*key.id.0,
                &key.name,
                &&*key.owner.0,
                &key.environment.name(),
                &key.tier.name(),
                &key.own_limits.map(|limits| number(limits.per_month)),
                &key.own_limits.map(|limits| number(limits.per_minute)),
                &key.scopes.to_string(),
                &key.secret.0.as_slice(),
                &nanoseconds(key.created_at),
                &key.expires_at.map(nanoseconds),
                &key.revoked_at.map(nanoseconds),
                &key.rotated_at.map(nanoseconds),
                &addresses.join(" "),
            ],
        )
        .await?;
    if inserted == 1 { Ok(()) } else { Err(StoreError::Exists(format!("key `{}`", key.id))) }
}

pub(super) async fn find(database: &Database, id: &KeyId) -> Result<Option<KeyRecord>, StoreError> {
    let found = database.lookup().await?.row(FIND, &[&&*id.0]).await?;
    found.as_ref().map(key).transpose()
}

pub(super) async fn list(database: &Database) -> Result<Vec<KeyRecord>, StoreError> {
    database.work().await?.rows(LIST, &[]).await?.iter().map(key).collect()
}

pub(super) async fn replace_secret(
    database: &Database,
    id: &KeyId,
    secret: &SecretHash,
    now: Timestamp,
) -> Result<(), StoreError> {
    let changed = database
        .work()
        .await?
        .execute(
            "UPDATE hindcast.keys SET secret_hash = $2, rotated_at = $3 WHERE id = $1",
            &[&&*id.0, &secret.0.as_slice(), &nanoseconds(now)],
        )
        .await?;
    must_exist(changed, id)
}

pub(super) async fn revoke(database: &Database, id: &KeyId, now: Timestamp) -> Result<(), StoreError> {
    let changed = database
        .work()
        .await?
        .execute(
            "UPDATE hindcast.keys SET revoked_at = coalesce(revoked_at, $2) WHERE id = $1",
            &[&&*id.0, &nanoseconds(now)],
        )
        .await?;
    must_exist(changed, id)
}

fn must_exist(changed: u64, id: &KeyId) -> Result<(), StoreError> {
    if changed == 1 { Ok(()) } else { Err(StoreError::Missing(format!("key `{id}`"))) }
}

fn key(row: &Row) -> Result<KeyRecord, StoreError> {
    let limits: (Option<i64>, Option<i64>) = (column(row, 5)?, column(row, 6)?);
    let limit = |limit: i64| u64::try_from(limit).unwrap_or_default();
    let secret: Vec<u8> = column(row, 8)?;
    let addresses: &str = column(row, 13)?;
    let time = |place| column::<Option<i64>>(row, place).map(|time| time.map(timestamp));
    Ok(KeyRecord {
        id: KeyId(column::<&str>(row, 0)?.into()),
        name: column(row, 1)?,
        owner: PrincipalId(column::<&str>(row, 2)?.into()),
        environment: parsed(row, 3)?,
        tier: parsed(row, 4)?,
        own_limits: limits.0.zip(limits.1).map(|(per_month, per_minute)| Limits {
            per_month: limit(per_month),
            per_minute: limit(per_minute),
        }),
        scopes: parsed(row, 7)?,
        secret: SecretHash(
            secret.try_into().map_err(|_| StoreError::Corrupt("a key's secret is not 32 bytes".into()))?,
        ),
        created_at: timestamp(column(row, 9)?),
        expires_at: time(10)?,
        revoked_at: time(11)?,
        rotated_at: time(12)?,
        allowed_ips: addresses
            .split_whitespace()
            .map(|range| range.parse().map_err(|error| unreadable(&error)))
            .collect::<Result<_, _>>()?,
        last_used_at: time(14)?,
    })
}

fn parsed<T: FromStr<Err: Error>>(row: &Row, place: usize) -> Result<T, StoreError> {
    column::<&str>(row, place)?.parse().map_err(|error| unreadable(&error))
}

fn unreadable(error: &dyn Error) -> StoreError {
    StoreError::Corrupt(error.to_string())
}

/// A count as PostgreSQL keeps it; what does not fit is beyond all that is ever counted.
pub(super) fn number(count: u64) -> i64 {
    i64::try_from(count).unwrap_or(i64::MAX)
}
