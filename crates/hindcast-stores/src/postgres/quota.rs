//! Usage, counted and decided in the database: whoever comes, from whichever server, takes the key's row in turn.
//!
//! Clocks of servers differ a little. Whoever is late when a window has just begun counts in the new one, so that two servers
//! do not take the count from each other.

use hindcast_core::{
    Timestamp,
    identity::KeyId,
    quota::{FreeRate, Limits, Reservation, Usage, Windows},
    store::StoreError,
};

use super::{
    database::{Database, Lease, column},
    keys::number,
};
use crate::instants::nanoseconds;

/// How many minutes ahead of ours the clock of another server may be.
const MINUTES_AHEAD: i64 = 2;

/// One statement, so that the row is locked for as long as it takes the database to run it and not for a way over the network.
///
/// A month that lies in the future counts, so that turning the clock does not refill a quota. The next one is stayed in,
/// because another server may be there; those further off were a mistake and are left.
const RESERVE: &str = "
    INSERT INTO hindcast.usage AS kept (key_id, month, month_used, minute, minute_used, last_used_at)
    VALUES ($1, $2, 1, $3, 1, $4)
    ON CONFLICT (key_id) DO UPDATE SET
        month = CASE WHEN kept.month = $2 + 1 THEN kept.month ELSE $2 END,
        month_used = CASE WHEN kept.month >= $2 THEN kept.month_used + 1 ELSE 1 END,
        minute = CASE WHEN kept.minute BETWEEN $3 AND $3 + $7 THEN kept.minute ELSE $3 END,
        minute_used = CASE WHEN kept.minute BETWEEN $3 AND $3 + $7 THEN kept.minute_used + 1 ELSE 1 END,
        last_used_at = greatest(kept.last_used_at, $4)
    WHERE CASE WHEN kept.month >= $2 THEN kept.month_used ELSE 0 END < $5
      AND CASE WHEN kept.minute BETWEEN $3 AND $3 + $7 THEN kept.minute_used ELSE 0 END < $6
    RETURNING month_used, minute_used";

const USAGE: &str = "
    SELECT CASE WHEN month >= $2 THEN month_used ELSE 0 END,
           CASE WHEN minute BETWEEN $3 AND $3 + $4 THEN minute_used ELSE 0 END
    FROM hindcast.usage WHERE key_id = $1";

/// How often a refusal is looked at again that the count does not explain: somebody else moved it in between.
const LOOKS: usize = 3;

/// Counts one request against both limits, or none.
pub(super) async fn reserve(
    database: &Database,
    id: &KeyId,
    limits: Limits,
    now: Timestamp,
) -> Result<Reservation, StoreError> {
    let windows = Windows::at(now);
    let lease = database.lookup().await?;
    for _ in 0..LOOKS {
        if limits.per_month > 0 && limits.per_minute > 0 {
            let (per_month, per_minute) = (number(limits.per_month), number(limits.per_minute));
            let (month, minute, last_used_at) = (windows.month, windows.minute, nanoseconds(now));
            let counted = lease
                .row(
                    RESERVE,
                    &[&&*id.0, &month, &minute, &last_used_at, &per_month, &per_minute, &MINUTES_AHEAD],
                )
                .await?;
            if let Some(row) = counted {
                let counts = (column(&row, 0)?, column(&row, 1)?);
                return Ok(Reservation::Granted(with_counts(limits, &windows, counts)));
            }
        }
        let stands = look(&lease, id, limits, &windows).await?;
        if let Some(period) = stands.exhausted() {
            return Ok(Reservation::Refused(stands, period));
        }
    }
    Err(StoreError::Unavailable(format!("the count of key `{id}` does not come to rest · hint: try again")))
}

/// The same as [`FreeRate::admit`] in one statement, so that servers take turns.
const ADMIT_FREE: &str = "
    INSERT INTO hindcast.free_requests AS kept (key_id, until) VALUES ($1, $2::bigint + $3::bigint)
    ON CONFLICT (key_id) DO UPDATE SET until = greatest(kept.until, $2) + $3
    WHERE kept.until - $2 <= $4
    RETURNING until";

/// Admits a request that is free unless it comes too often.
pub(super) async fn admit_free(
    database: &Database,
    id: &KeyId,
    rate: FreeRate,
    now: Timestamp,
) -> Result<bool, StoreError> {
    let (now, ahead) = (nanoseconds(now), rate.ahead());
    let admitted = database.lookup().await?.row(ADMIT_FREE, &[&&*id.0, &now, &rate.period, &ahead]).await?;
    Ok(admitted.is_some())
}

/// Where the key stands, without counting.
pub(super) async fn usage(
    database: &Database,
    id: &KeyId,
    limits: Limits,
    now: Timestamp,
) -> Result<Usage, StoreError> {
    look(&database.lookup().await?, id, limits, &Windows::at(now)).await
}

async fn look(lease: &Lease<'_>, id: &KeyId, limits: Limits, windows: &Windows) -> Result<Usage, StoreError> {
    let given: [&(dyn tokio_postgres::types::ToSql + Sync); 4] =
        [&&*id.0, &windows.month, &windows.minute, &MINUTES_AHEAD];
    let counts = match lease.row(USAGE, &given).await? {
        Some(row) => (column(&row, 0)?, column(&row, 1)?),
        None => (0, 0),
    };
    Ok(with_counts(limits, windows, counts))
}

fn with_counts(limits: Limits, windows: &Windows, (month, minute): (i64, i64)) -> Usage {
    let count = |count| u64::try_from(count).unwrap_or_default();
    Usage {
        limits,
        month: count(month),
        minute: count(minute),
        month_resets_at: windows.month_resets_at,
        minute_resets_at: windows.minute_resets_at,
    }
}
