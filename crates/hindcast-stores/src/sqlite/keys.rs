//! API keys in their table.

use std::{error::Error, str::FromStr};

use hindcast_core::{
    Timestamp,
    identity::{KeyId, KeyRecord, PrincipalId, SecretHash},
    quota::Limits,
    store::StoreError,
};
use rusqlite::{Connection, OptionalExtension, Row, params, types::Type};

use super::{transaction::Transaction, unavailable};
pub(super) use crate::instants::{nanoseconds, timestamp};

const SELECT: &str = "
    SELECT id, name, owner, environment, tier, per_month, per_minute, scopes, secret_hash,
           created_at, expires_at, revoked_at, rotated_at, allowed_ips, last_used_at
    FROM keys LEFT JOIN usage ON usage.key_id = keys.id";

pub(super) fn insert(transaction: &Transaction<'_>, key: &KeyRecord) -> Result<(), StoreError> {
    if find(transaction, &key.id).map_err(unavailable)?.is_some() {
        return Err(StoreError::Exists(format!("key `{}`", key.id)));
    }
    let addresses: Vec<_> = key.allowed_ips.iter().map(ToString::to_string).collect();
    transaction
        .execute(
            "INSERT INTO keys (id, name, owner, environment, tier, per_month, per_minute, scopes, secret_hash,
                               created_at, expires_at, revoked_at, rotated_at, allowed_ips)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14)",
            params![
                &*key.id.0,
                key.name,
                &*key.owner.0,
                key.environment.name(),
                key.tier.name(),
                key.own_limits.map(|limits| limits.per_month),
                key.own_limits.map(|limits| limits.per_minute),
                key.scopes.to_string(),
                key.secret.0,
                nanoseconds(key.created_at),
                key.expires_at.map(nanoseconds),
                key.revoked_at.map(nanoseconds),
                key.rotated_at.map(nanoseconds),
                addresses.join(" "),
            ],
        )
        .map_err(unavailable)?;
    Ok(())
}

pub(super) fn find(connection: &Connection, id: &KeyId) -> rusqlite::Result<Option<KeyRecord>> {
    connection.prepare_cached(&format!("{SELECT} WHERE id = ?1"))?.query_row([&*id.0], key).optional()
}

pub(super) fn list(connection: &Connection) -> rusqlite::Result<Vec<KeyRecord>> {
    connection.prepare_cached(&format!("{SELECT} ORDER BY created_at, id"))?.query_map([], key)?.collect()
}

pub(super) fn replace_secret(
    transaction: &Transaction<'_>,
    id: &KeyId,
    secret: &SecretHash,
    now: Timestamp,
) -> Result<(), StoreError> {
    let changed = transaction
        .execute(
            "UPDATE keys SET secret_hash = ?2, rotated_at = ?3 WHERE id = ?1",
            params![&*id.0, secret.0, nanoseconds(now)],
        )
        .map_err(unavailable)?;
    must_exist(changed, id)
}

pub(super) fn revoke(transaction: &Transaction<'_>, id: &KeyId, now: Timestamp) -> Result<(), StoreError> {
    let changed = transaction
        .execute(
            "UPDATE keys SET revoked_at = coalesce(revoked_at, ?2) WHERE id = ?1",
            params![&*id.0, nanoseconds(now)],
        )
        .map_err(unavailable)?;
    must_exist(changed, id)
}

fn must_exist(changed: usize, id: &KeyId) -> Result<(), StoreError> {
    if changed == 1 { Ok(()) } else { Err(StoreError::Missing(format!("key `{id}`"))) }
}

fn key(row: &Row<'_>) -> rusqlite::Result<KeyRecord> {
    let limits: (Option<u64>, Option<u64>) = (row.get(5)?, row.get(6)?);
    let secret: Vec<u8> = row.get(8)?;
    let addresses: String = row.get(13)?;
    let time = |column| row.get::<_, Option<i64>>(column).map(|time| time.map(timestamp));
    Ok(KeyRecord {
        id: KeyId(row.get::<_, String>(0)?.into()),
        name: row.get(1)?,
        owner: PrincipalId(row.get::<_, String>(2)?.into()),
        environment: parsed(row, 3)?,
        tier: parsed(row, 4)?,
        own_limits: limits.0.zip(limits.1).map(|(per_month, per_minute)| Limits { per_month, per_minute }),
        scopes: parsed(row, 7)?,
        secret: SecretHash(secret.try_into().map_err(|_| unreadable(8, Type::Blob, "not 32 bytes"))?),
        created_at: timestamp(row.get(9)?),
        expires_at: time(10)?,
        revoked_at: time(11)?,
        rotated_at: time(12)?,
        allowed_ips: addresses
            .split_whitespace()
            .map(|range| range.parse().map_err(|error| unreadable(13, Type::Text, error)))
            .collect::<rusqlite::Result<_>>()?,
        last_used_at: time(14)?,
    })
}

fn parsed<T: FromStr<Err: Error + Send + Sync + 'static>>(
    row: &Row<'_>,
    column: usize,
) -> rusqlite::Result<T> {
    row.get::<_, String>(column)?.parse().map_err(|error| unreadable(column, Type::Text, error))
}

fn unreadable(column: usize, kind: Type, reason: impl Into<Box<dyn Error + Send + Sync>>) -> rusqlite::Error {
    rusqlite::Error::FromSqlConversionFailure(column, kind, reason.into())
}
