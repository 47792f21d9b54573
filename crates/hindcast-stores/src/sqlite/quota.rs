//! Usage counters: counted in memory, written down with the audit row of what was counted.
//!
//! Only the server that holds the data folder counts, so memory is the truth while it runs. Every counted
//! request leaves an audit row before it is answered, and the row's line in the journal also holds the
//! count: a crash can lose the count of what was not answered, never of what was.

use std::{
    collections::{HashMap, hash_map::Entry},
    sync::{Mutex, MutexGuard, PoisonError},
};

use hindcast_core::{
    Timestamp,
    identity::KeyId,
    quota::{FreeRate, Limits, Reservation, Usage, Windows},
};
use rusqlite::{Connection, OptionalExtension, params};
use serde::{Deserialize, Serialize};

use super::transaction::Transaction;
use crate::instants::nanoseconds;

/// How often a key was used in the windows it was last used in.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Counter {
    month: i64,
    month_used: u64,
    minute: i64,
    minute_used: u64,
    last_used_at: i64,
}

impl Counter {
    pub(super) fn read(connection: &Connection, id: &KeyId) -> rusqlite::Result<Self> {
        let stored = connection
            .prepare_cached(
                "SELECT month, month_used, minute, minute_used, last_used_at FROM usage WHERE key_id = ?1",
            )?
            .query_row([&*id.0], |row| {
                Ok(Self {
                    month: row.get(0)?,
                    month_used: row.get(1)?,
                    minute: row.get(2)?,
                    minute_used: row.get(3)?,
                    last_used_at: row.get(4)?,
                })
            })
            .optional()?;
        Ok(stored.unwrap_or_default())
    }

    pub(super) fn write(&self, transaction: &Transaction<'_>, id: &KeyId) -> rusqlite::Result<()> {
        let counted =
            params![&*id.0, self.month, self.month_used, self.minute, self.minute_used, self.last_used_at];
        // Nearly always there is a row; to replace it is to delete it, insert it and look for its key.
        let changed = transaction
            .prepare_cached(
                "UPDATE usage SET month = ?2, month_used = ?3, minute = ?4, minute_used = ?5, last_used_at = ?6
                 WHERE key_id = ?1",
            )?
            .execute(counted)?;
        if changed == 0 {
            transaction.execute(
                "INSERT INTO usage (key_id, month, month_used, minute, minute_used, last_used_at)
                 VALUES (?1, ?2, ?3, ?4, ?5, ?6)",
                counted,
            )?;
        }
        Ok(())
    }

    /// A counter belongs to its window. One from a later month (a clock that was set back) still counts,
    /// so that turning the clock does not refill a quota.
    fn usage(&self, limits: Limits, windows: &Windows) -> Usage {
        Usage {
            limits,
            month: if self.month >= windows.month { self.month_used } else { 0 },
            minute: if self.minute == windows.minute { self.minute_used } else { 0 },
            month_resets_at: windows.month_resets_at,
            minute_resets_at: windows.minute_resets_at,
        }
    }
}

/// The counters of the keys that were used since the start.
#[derive(Default)]
pub(super) struct Counters(Mutex<HashMap<KeyId, Counter>>);

/// What requests that are free have left of each key. Memory is enough: after a start they may come at once again.
#[derive(Default)]
pub(super) struct FreeRequests(Mutex<HashMap<KeyId, i64>>);

impl FreeRequests {
    pub(super) fn admit(&self, id: &KeyId, rate: FreeRate, now: Timestamp) -> bool {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let until = all.entry(id.clone()).or_default();
        match rate.admit(*until, nanoseconds(now)) {
            Some(left) => {
                *until = left;
                true
            }
            None => false,
        }
    }
}

impl Counters {
    fn all(&self) -> MutexGuard<'_, HashMap<KeyId, Counter>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Counts one request, or none. `stored` reads a counter that is not kept here yet.
    pub(super) fn reserve(
        &self,
        id: &KeyId,
        limits: Limits,
        now: Timestamp,
        stored: impl FnOnce() -> rusqlite::Result<Counter>,
    ) -> rusqlite::Result<Reservation> {
        let windows = Windows::at(now);
        let mut all = self.all();
        let counter = match all.entry(id.clone()) {
            Entry::Occupied(kept) => kept.into_mut(),
            Entry::Vacant(place) => place.insert(stored()?),
        };
        let before = counter.usage(limits, &windows);
        if let Some(period) = before.exhausted() {
            return Ok(Reservation::Refused(before, period));
        }
        let after = Usage { month: before.month + 1, minute: before.minute + 1, ..before };
        *counter = Counter {
            month: windows.month,
            month_used: after.month,
            minute: windows.minute,
            minute_used: after.minute,
            last_used_at: nanoseconds(now),
        };
        Ok(Reservation::Granted(after))
    }

    /// Where a key stands.
    pub(super) fn usage(
        &self,
        id: &KeyId,
        limits: Limits,
        now: Timestamp,
        stored: impl FnOnce() -> rusqlite::Result<Counter>,
    ) -> rusqlite::Result<Usage> {
        let counter = self.of(id).map_or_else(stored, Ok)?;
        Ok(counter.usage(limits, &Windows::at(now)))
    }

    /// What was counted here for a key.
    pub(super) fn of(&self, id: &KeyId) -> Option<Counter> {
        self.all().get(id).copied()
    }

    /// Writes all that was counted here.
    pub(super) fn write(&self, transaction: &Transaction<'_>) -> rusqlite::Result<()> {
        self.all().iter().try_for_each(|(id, counter)| counter.write(transaction, id))
    }

    /// Whether nothing was counted here.
    pub(super) fn is_empty(&self) -> bool {
        self.all().is_empty()
    }
}
