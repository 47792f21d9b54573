//! Usage counters: counted in memory, written with the next batch.
//!
//! Only the server that holds the data folder counts, so memory is the truth while it runs. Every counted
//! request leaves an audit row before it is answered, and the batch that holds the row also holds the
//! count: a crash can lose the count of what was not answered, never of what was.

use std::{
    collections::{HashMap, hash_map::Entry},
    sync::{Mutex, MutexGuard, PoisonError},
};

use hindcast_core::{
    Timestamp,
    identity::KeyId,
    quota::{Limits, Reservation, Usage, Windows},
};
use rusqlite::{Connection, OptionalExtension, params};

use super::{keys::nanoseconds, transaction::Transaction};

/// How often a key was used in the windows it was last used in.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Counter {
    month: i64,
    month_used: u64,
    minute: i64,
    minute_used: u64,
    last_used_at: i64,
}

impl Counter {
    fn read(connection: &Connection, id: &KeyId) -> rusqlite::Result<Self> {
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

    fn write(&self, transaction: &Transaction<'_>, id: &KeyId) -> rusqlite::Result<()> {
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
pub(super) struct Counters(Mutex<HashMap<KeyId, Kept>>);

struct Kept {
    counter: Counter,
    /// What is in the file.
    written: Counter,
}

impl Counters {
    fn kept(&self) -> MutexGuard<'_, HashMap<KeyId, Kept>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Counts one request, or none.
    pub(super) fn reserve(
        &self,
        connection: &Connection,
        id: &KeyId,
        limits: Limits,
        now: Timestamp,
    ) -> rusqlite::Result<Reservation> {
        let windows = Windows::at(now);
        let mut all = self.kept();
        let kept = match all.entry(id.clone()) {
            Entry::Occupied(kept) => kept.into_mut(),
            Entry::Vacant(place) => {
                let counter = Counter::read(connection, id)?;
                place.insert(Kept { counter, written: counter })
            }
        };
        let before = kept.counter.usage(limits, &windows);
        if let Some(period) = before.exhausted() {
            return Ok(Reservation::Refused(before, period));
        }
        let after = Usage { month: before.month + 1, minute: before.minute + 1, ..before };
        kept.counter = Counter {
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
        connection: &Connection,
        id: &KeyId,
        limits: Limits,
        now: Timestamp,
    ) -> rusqlite::Result<Usage> {
        let kept = self.kept().get(id).map(|kept| kept.counter);
        let counter = kept.map_or_else(|| Counter::read(connection, id), Ok)?;
        Ok(counter.usage(limits, &Windows::at(now)))
    }

    /// Writes what changed; gives it back for [`Counters::written`] once it is committed.
    pub(super) fn write(&self, transaction: &Transaction<'_>) -> rusqlite::Result<Vec<(KeyId, Counter)>> {
        let changed: Vec<_> = self
            .kept()
            .iter()
            .filter(|(_, kept)| kept.counter != kept.written)
            .map(|(id, kept)| (id.clone(), kept.counter))
            .collect();
        for (id, counter) in &changed {
            counter.write(transaction, id)?;
        }
        Ok(changed)
    }

    /// These are in the file now.
    pub(super) fn written(&self, committed: Vec<(KeyId, Counter)>) {
        let mut all = self.kept();
        for (id, counter) in committed {
            if let Some(kept) = all.get_mut(&id) {
                kept.written = counter;
            }
        }
    }
}
