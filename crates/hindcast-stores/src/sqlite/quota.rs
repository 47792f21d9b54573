//! Usage counters: one row a key, updated in place.

use hindcast_core::{
    Timestamp,
    identity::KeyId,
    quota::{Limits, Reservation, Usage, Windows},
    store::StoreError,
};
use rusqlite::{Connection, OptionalExtension, Transaction, params};

use super::{keys::nanoseconds, unavailable};

pub(super) fn reserve(
    transaction: &Transaction<'_>,
    id: &KeyId,
    limits: Limits,
    now: Timestamp,
) -> Result<Reservation, StoreError> {
    let before = usage(transaction, id, limits, now).map_err(unavailable)?;
    if let Some(period) = before.exhausted() {
        return Ok(Reservation::Refused(before, period));
    }
    let after = Usage { month: before.month + 1, minute: before.minute + 1, ..before };
    let windows = Windows::at(now);
    transaction
        .prepare_cached(
            "INSERT OR REPLACE INTO usage (key_id, month, month_used, minute, minute_used, last_used_at)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6)",
        )
        .and_then(|mut statement| {
            statement.execute(params![
                &*id.0,
                windows.month,
                after.month,
                windows.minute,
                after.minute,
                nanoseconds(now)
            ])
        })
        .map_err(unavailable)?;
    Ok(Reservation::Granted(after))
}

pub(super) fn usage(
    connection: &Connection,
    id: &KeyId,
    limits: Limits,
    now: Timestamp,
) -> rusqlite::Result<Usage> {
    let windows = Windows::at(now);
    let stored: Option<(i64, u64, i64, u64)> = connection
        .prepare_cached("SELECT month, month_used, minute, minute_used FROM usage WHERE key_id = ?1")?
        .query_row([&*id.0], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?, row.get(3)?)))
        .optional()?;
    let (month, month_used, minute, minute_used) = stored.unwrap_or_default();
    // A counter belongs to its window. One from the future (a clock that was set back) still counts,
    // so that turning the clock does not refill a quota.
    Ok(Usage {
        limits,
        month: if month >= windows.month { month_used } else { 0 },
        minute: if minute == windows.minute { minute_used } else { 0 },
        month_resets_at: windows.month_resets_at,
        minute_resets_at: windows.minute_resets_at,
    })
}
