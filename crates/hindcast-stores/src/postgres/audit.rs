//! The audit trail in its tables: reading it, and adding to its end.

use std::borrow::Cow;

use futures::future::{try_join, try_join3};
use hindcast_core::{
    Timestamp,
    audit::{AuditFilter, AuditKey, AuditPage, AuditRecord, AuditRow, ChainEnd, ChainHash, SealedHead},
    identity::{KeyId, PrincipalId},
    store::StoreError,
};
use tokio_postgres::Row;

use super::{
    database::{Database, Lease, column},
    schema,
    texts::{kept, optional_text as text},
};
use crate::instants::{nanoseconds, timestamp};

const HEAD: &str = "SELECT seq, hash, signature FROM hindcast.audit_head WHERE single = 1";

/// Whoever has the head's row adds to the chain; all others, on whichever server, wait.
const HOLD_HEAD: &str = "SELECT seq, hash, signature FROM hindcast.audit_head WHERE single = 1 FOR UPDATE";

const MOVE_HEAD: &str = "
    INSERT INTO hindcast.audit_head (single, seq, hash, signature) VALUES (1, $1, $2, $3)
    ON CONFLICT (single) DO UPDATE SET seq = $1, hash = $2, signature = $3";

const ADD: &str = "
    INSERT INTO hindcast.audit (seq, time, principal, key_id, ip, method, tool, target, session_id, outcome, duration_us, hash)
    SELECT * FROM unnest($1::bigint[], $2::bigint[], $3::text[], $4::text[], $5::text[], $6::text[], $7::text[], $8::text[],
                         $9::text[], $10::text[], $11::bigint[], $12::bytea[])";

const ROWS: &str = "
    SELECT seq, time, principal, key_id, ip, method, tool, target, session_id, outcome, duration_us, hash
    FROM hindcast.audit WHERE seq >= $1 ORDER BY seq LIMIT $2";

const SEARCH: &str = "
    SELECT seq, time, principal, key_id, ip, method, tool, target, session_id, outcome, duration_us, hash
    FROM hindcast.audit
    WHERE seq < $1 AND time >= $2 AND time <= $3
      AND ($4::text IS NULL OR principal = $4) AND ($5::text IS NULL OR session_id = $5)
      AND ($7::text IS NULL OR method <> $7)
    ORDER BY seq DESC LIMIT $6";

/// Gives a new trail its first row, and refuses one that another key sealed.
pub(super) async fn open_trail(
    database: &Database,
    key: &AuditKey,
    now: Timestamp,
) -> Result<(), StoreError> {
    let lease = database.work().await?;
    if end(&lease, key, HEAD).await?.seq > 0 {
        return Ok(());
    }
    // There is no head yet to be held.
    lease.begin().await?;
    lease.batch(schema::LOCK).await?;
    open_locked(&lease, key, now).await?;
    lease.commit().await
}

async fn open_locked(lease: &Lease<'_>, key: &AuditKey, now: Timestamp) -> Result<(), StoreError> {
    let end = end(lease, key, HEAD).await?;
    if end.seq > 0 {
        return Ok(());
    }
    let first = end.followed_by(AuditRecord::opening(now));
    add(lease, std::slice::from_ref(&first)).await?;
    move_head(lease, &SealedHead::new(first.seq, first.hash, key)).await
}

/// Appends records behind the end, whoever wrote that, in one transaction; gives the new end. `seen` is the last end that was
/// seen here: a trail that ends before it has lost rows.
pub(super) async fn append(
    database: &Database,
    key: &AuditKey,
    records: Vec<AuditRecord>,
    seen: ChainEnd,
) -> Result<ChainEnd, StoreError> {
    let lease = database.writer().await?;
    let client = lease.client()?;
    let hold = lease.prepare(HOLD_HEAD).await?;
    let add = lease.prepare(ADD).await?;
    let move_head = lease.prepare(MOVE_HEAD).await?;
    let begun = try_join(client.batch_execute("BEGIN"), client.query_opt(&hold, &[]));
    let (_, found) = lease.timed(begun).await?;
    // From here on the head is held, until the transaction or the connection ends.
    lease.set_inside(true);
    let mut end = judged(found.as_ref(), key)?;
    if end.seq < seen.seq || (end.seq == seen.seq && end != seen) {
        return Err(StoreError::Corrupt(format!(
            "the audit trail ends with row {}, and row {} was written · hint: the database was set back; restore it, or start again to go on from there",
            end.seq, seen.seq
        )));
    }
    let mut rows = Vec::with_capacity(records.len());
    for record in records {
        let row = end.followed_by(record);
        end = (&row).into();
        rows.push(row);
    }
    let head = SealedHead::new(end.seq, end.hash, key);
    let (columns, seq, hash) = (Columns::of(&rows), head.seq.cast_signed(), head.hash.0.as_slice());
    let given = columns.given();
    let moved: [&(dyn tokio_postgres::types::ToSql + Sync); 3] = [&seq, &hash, &head.seal];
    // Sent together: the others on this chain wait for one way over the network, not for three. If one fails, the commit is none.
    let ended = try_join3(
        client.execute(&add, &given),
        client.execute(&move_head, &moved),
        client.batch_execute("COMMIT"),
    );
    lease.timed(ended).await?;
    lease.set_inside(false);
    Ok(end)
}

/// Adds rows as they are; they must follow each other and the last one.
pub(super) async fn add(lease: &Lease<'_>, rows: &[AuditRow]) -> Result<(), StoreError> {
    lease.execute(ADD, &Columns::of(rows).given()).await.map(|_| ())
}

pub(super) async fn move_head(lease: &Lease<'_>, head: &SealedHead) -> Result<(), StoreError> {
    let (seq, hash) = (head.seq.cast_signed(), head.hash.0.as_slice());
    lease.execute(MOVE_HEAD, &[&seq, &hash, &head.seal]).await.map(|_| ())
}

/// Rows column by column, as one statement takes many.
struct Columns<'a> {
    seq: Vec<i64>,
    time: Vec<i64>,
    texts: [Vec<Option<Cow<'a, str>>>; 8],
    duration_us: Vec<i64>,
    hash: Vec<&'a [u8]>,
}

impl<'a> Columns<'a> {
    fn of(rows: &'a [AuditRow]) -> Self {
        let texts = |text: fn(&'a AuditRecord) -> Option<&'a str>| {
            rows.iter().map(|row| text(&row.record).map(kept)).collect::<Vec<_>>()
        };
        Self {
            seq: rows.iter().map(|row| row.seq.cast_signed()).collect(),
            time: rows.iter().map(|row| nanoseconds(row.record.time)).collect(),
            texts: [
                texts(|record| record.principal.as_ref().map(|principal| &*principal.0)),
                texts(|record| record.key_id.as_ref().map(|key| &*key.0)),
                texts(|record| record.ip.as_deref()),
                texts(|record| Some(&record.method)),
                texts(|record| record.tool.as_deref()),
                texts(|record| record.target.as_deref()),
                texts(|record| record.session_id.as_deref()),
                texts(|record| Some(&record.outcome)),
            ],
            duration_us: rows.iter().map(|row| row.record.duration_us.cast_signed()).collect(),
            hash: rows.iter().map(|row| row.hash.0.as_slice()).collect(),
        }
    }

    fn given(&self) -> [&(dyn tokio_postgres::types::ToSql + Sync); 12] {
        let [principal, key_id, ip, method, tool, target, session_id, outcome] = &self.texts;
        [
            &self.seq,
            &self.time,
            principal,
            key_id,
            ip,
            method,
            tool,
            target,
            session_id,
            outcome,
            &self.duration_us,
            &self.hash,
        ]
    }
}

async fn end(lease: &Lease<'_>, key: &AuditKey, head: &str) -> Result<ChainEnd, StoreError> {
    let mut found = lease.row(head, &[]).await?;
    if found.is_none() && !lease.rows(ROWS, &[&i64::MIN, &1_i64]).await?.is_empty() {
        // Another server may have begun the trail in between.
        found = lease.row(head, &[]).await?;
        if found.is_none() {
            return Err(StoreError::Corrupt(
                "the audit trail has lost its sealed head · hint: finish `hindcast store migrate`, or restore the database from a backup".into(),
            ));
        }
    }
    match found {
        None => Ok(ChainEnd::GENESIS),
        found => judged(found.as_ref(), key),
    }
}

/// The end of a chain whose head was sealed with our key: going on from another would vouch for rows that nobody checked.
fn judged(head: Option<&Row>, key: &AuditKey) -> Result<ChainEnd, StoreError> {
    let Some(head) = head else {
        return Err(StoreError::Corrupt(
            "the audit trail has no head · hint: restore the database from a backup".into(),
        ));
    };
    let head = sealed(head)?;
    if !head.holds(key) {
        return Err(StoreError::Corrupt(
            "the audit trail was not sealed with this data folder's audit.key · hint: copy that file from the data folder of a server that uses this database".into(),
        ));
    }
    Ok(ChainEnd { seq: head.seq, hash: head.hash })
}

pub(super) async fn head(database: &Database) -> Result<Option<SealedHead>, StoreError> {
    database.work().await?.row(HEAD, &[]).await?.as_ref().map(sealed).transpose()
}

pub(super) async fn rows(database: &Database, after: u64, limit: usize) -> Result<Vec<AuditRow>, StoreError> {
    // From the very first, also where somebody gave it a place that we never do.
    let first =
        if after == 0 { i64::MIN } else { i64::try_from(after).unwrap_or(i64::MAX).saturating_add(1) };
    let limit = i64::try_from(limit).unwrap_or(i64::MAX);
    database.work().await?.rows(ROWS, &[&first, &limit]).await?.iter().map(row).collect()
}

pub(super) async fn search(database: &Database, filter: &AuditFilter) -> Result<AuditPage, StoreError> {
    let found = database
        .work()
        .await?
        .rows(
            SEARCH,
            &[
                &filter.before.map_or(i64::MAX, |before| i64::try_from(before).unwrap_or(i64::MAX)),
                &filter.start_time.map_or(i64::MIN, nanoseconds),
                &filter.end_time.map_or(i64::MAX, nanoseconds),
                &filter.principal.as_ref().map(|principal| kept(&principal.0)),
                &filter.session_id.as_deref().map(kept),
                &i64::try_from(filter.limit).unwrap_or(i64::MAX).saturating_add(1),
                &filter.without_method.map(kept),
            ],
        )
        .await?;
    let more = found.len() > filter.limit;
    let rows = found.iter().take(filter.limit).map(row).collect::<Result<_, _>>()?;
    Ok(AuditPage { rows, more })
}

fn row(row: &Row) -> Result<AuditRow, StoreError> {
    Ok(AuditRow {
        seq: place(row, 0)?,
        record: AuditRecord {
            time: timestamp(column(row, 1)?),
            principal: text(row, 2)?.map(|text| PrincipalId(text.into())),
            key_id: text(row, 3)?.map(|text| KeyId(text.into())),
            ip: text(row, 4)?,
            method: Cow::Owned(text(row, 5)?.unwrap_or_default()),
            tool: text(row, 6)?,
            target: text(row, 7)?,
            session_id: text(row, 8)?,
            outcome: Cow::Owned(text(row, 9)?.unwrap_or_default()),
            // A negative duration was never written by us: reading it as another number breaks the
            // hash, which is what should happen.
            duration_us: column::<i64>(row, 10)?.cast_unsigned(),
        },
        hash: chain_hash(row, 11)?,
    })
}

fn sealed(row: &Row) -> Result<SealedHead, StoreError> {
    Ok(SealedHead { seq: place(row, 0)?, hash: chain_hash(row, 1)?, seal: column(row, 2)? })
}

/// A place below 1 was never written by us: read as a huge one it fits nowhere.
fn place(row: &Row, at: usize) -> Result<u64, StoreError> {
    column::<i64>(row, at).map(i64::cast_unsigned)
}

/// A hash of the wrong length was never written by us either, and matches nothing.
fn chain_hash(row: &Row, at: usize) -> Result<ChainHash, StoreError> {
    Ok(ChainHash(column::<&[u8]>(row, at)?.try_into().unwrap_or([0xff; 32])))
}
