//! The audit trail in its tables.

use std::borrow::Cow;

use hindcast_core::{
    Timestamp,
    audit::{AuditFilter, AuditKey, AuditPage, AuditRecord, AuditRow, ChainEnd, ChainHash, SealedHead},
    identity::{KeyId, PrincipalId},
    store::StoreError,
};
use rusqlite::{Connection, OptionalExtension, Row, params};

use super::{transaction::Transaction, unavailable};
use crate::instants::{nanoseconds, timestamp};

const COLUMNS: &str =
    "seq, time, principal, key_id, ip, method, tool, target, session_id, outcome, duration_us, hash";

/// Adds rows behind the last one.
pub(super) struct Appender {
    end: ChainEnd,
}

impl Appender {
    /// Reads the end inside the transaction: another process may have moved it. An end that was moved
    /// without the key is not gone on from: the next seal would vouch for it.
    pub(super) fn at_end(connection: &Connection, key: &AuditKey) -> Result<Self, StoreError> {
        match head(connection).map_err(unavailable)? {
            Some(head) if head.holds(key) => {
                Ok(Self { end: ChainEnd { seq: head.seq, hash: head.hash } })
            },
            Some(_) => Err(StoreError::Corrupt(
                "the audit trail was not sealed with this data folder's audit.key · hint: restore that file, or start with a new data folder".into(),
            )),
            None if !rows(connection, 0, 1).map_err(unavailable)?.is_empty() => Err(StoreError::Corrupt(
                "the audit trail has lost its sealed head · hint: restore the data folder from a backup".into(),
            )),
            None => Ok(Self { end: ChainEnd::GENESIS }),
        }
    }

    /// For rows that another store has put into their order.
    pub(super) fn behind_whatever_is_there() -> Self {
        Self { end: ChainEnd::GENESIS }
    }

    /// The end that it stands at.
    pub(super) fn end(&self) -> ChainEnd {
        self.end
    }

    /// Adds a row that follows the last one; others must not come here.
    pub(super) fn append(&mut self, transaction: &Transaction<'_>, row: &AuditRow) -> rusqlite::Result<()> {
        let record = &row.record;
        transaction
            .prepare_cached(
                "INSERT INTO audit (seq, time, principal, key_id, ip, method, tool, target, session_id, outcome, duration_us, hash)
                 VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12)",
            )?
            .execute(params![
                row.seq,
                nanoseconds(record.time),
                record.principal.as_ref().map(|principal| &*principal.0),
                record.key_id.as_ref().map(|key| &*key.0),
                record.ip,
                record.method,
                record.tool,
                record.target,
                record.session_id,
                record.outcome,
                record.duration_us,
                row.hash.0,
            ])?;
        self.end = ChainEnd { seq: row.seq, hash: row.hash };
        Ok(())
    }

    pub(super) fn seal(self, transaction: &Transaction<'_>, key: &AuditKey) -> rusqlite::Result<()> {
        put_head(transaction, &SealedHead::new(self.end.seq, self.end.hash, key))
    }
}

/// Puts the head in the place of the one before.
pub(super) fn put_head(transaction: &Transaction<'_>, head: &SealedHead) -> rusqlite::Result<()> {
    let sealed = params![head.seq, head.hash.0, head.seal];
    // There is a head to be moved, except the first time.
    let moved = transaction
        .prepare_cached("UPDATE audit_head SET seq = ?1, hash = ?2, signature = ?3 WHERE only = 1")?
        .execute(sealed)?;
    if moved == 0 {
        transaction
            .execute("INSERT INTO audit_head (only, seq, hash, signature) VALUES (1, ?1, ?2, ?3)", sealed)?;
    }
    Ok(())
}

/// Gives a new trail its first row, and refuses one that another key sealed: going on with a new
/// key would vouch for rows that nobody checked.
pub(super) fn open_trail(connection: &Connection, key: &AuditKey, now: Timestamp) -> Result<(), StoreError> {
    let transaction = Transaction::begin(connection).map_err(unavailable)?;
    let mut appender = Appender::at_end(&transaction, key)?;
    if appender.end.seq > 0 {
        return Ok(());
    }
    let first = appender.end().followed_by(AuditRecord::opening(now));
    appender.append(&transaction, &first).map_err(unavailable)?;
    appender.seal(&transaction, key).map_err(unavailable)?;
    transaction.commit().map_err(unavailable)
}

pub(super) fn head(connection: &Connection) -> rusqlite::Result<Option<SealedHead>> {
    connection
        .prepare_cached("SELECT seq, hash, signature FROM audit_head")?
        .query_row([], |row| {
            Ok(SealedHead { seq: place(row, 0)?, hash: chain_hash(row, 1)?, seal: row.get(2)? })
        })
        .optional()
}

pub(super) fn rows(connection: &Connection, after: u64, limit: usize) -> rusqlite::Result<Vec<AuditRow>> {
    // From the very first, also where somebody gave it a place that we never do.
    let first =
        if after == 0 { i64::MIN } else { i64::try_from(after).unwrap_or(i64::MAX).saturating_add(1) };
    connection
        .prepare_cached(&format!("SELECT {COLUMNS} FROM audit WHERE seq >= ?1 ORDER BY seq LIMIT ?2"))?
        .query_map(params![first, limit], row)?
        .collect()
}

pub(super) fn search(connection: &Connection, filter: &AuditFilter) -> rusqlite::Result<AuditPage> {
    let mut rows: Vec<_> = connection
        .prepare_cached(&format!(
            "SELECT {COLUMNS} FROM audit
             WHERE seq < ?1 AND time >= ?2 AND time <= ?3
               AND (?4 IS NULL OR principal = ?4) AND (?5 IS NULL OR session_id = ?5)
               AND (?7 IS NULL OR method <> ?7)
             ORDER BY seq DESC LIMIT ?6"
        ))?
        .query_map(
            params![
                filter.before.unwrap_or(i64::MAX as u64),
                filter.start_time.map_or(i64::MIN, nanoseconds),
                filter.end_time.map_or(i64::MAX, nanoseconds),
                filter.principal.as_ref().map(|principal| &*principal.0),
                filter.session_id,
                filter.limit + 1,
                filter.without_method,
            ],
            row,
        )?
        .collect::<rusqlite::Result<_>>()?;
    let more = rows.len() > filter.limit;
    rows.truncate(filter.limit);
    Ok(AuditPage { rows, more })
}

fn row(row: &Row<'_>) -> rusqlite::Result<AuditRow> {
    Ok(AuditRow {
        seq: place(row, 0)?,
        record: AuditRecord {
            time: timestamp(row.get(1)?),
            principal: row.get::<_, Option<String>>(2)?.map(|text| PrincipalId(text.into())),
            key_id: row.get::<_, Option<String>>(3)?.map(|text| KeyId(text.into())),
            ip: row.get(4)?,
            method: Cow::Owned(row.get(5)?),
            tool: row.get(6)?,
            target: row.get(7)?,
            session_id: row.get(8)?,
            outcome: Cow::Owned(row.get(9)?),
            // A negative duration was never written by us: reading it as another number breaks the
            // hash, which is what should happen.
            duration_us: row.get::<_, i64>(10)?.cast_unsigned(),
        },
        hash: chain_hash(row, 11)?,
    })
}

/// A place below 1 was never written by us: read as a huge one it fits nowhere.
fn place(row: &Row<'_>, column: usize) -> rusqlite::Result<u64> {
    row.get::<_, i64>(column).map(i64::cast_unsigned)
}

/// A hash of the wrong length was never written by us either, and matches nothing.
fn chain_hash(row: &Row<'_>, column: usize) -> rusqlite::Result<ChainHash> {
    let bytes: Vec<u8> = row.get(column)?;
    Ok(ChainHash(bytes.try_into().unwrap_or([0xff; 32])))
}
