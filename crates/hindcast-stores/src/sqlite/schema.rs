//! The tables, and how an older file becomes a newer one.

use std::{path::Path, time::Duration};

use hindcast_core::store::StoreError;
use rusqlite::{Connection, config::DbConfig};

use super::{transaction::Transaction, unavailable};

/// Each entry takes the file from the version of its index to the next. Entries are only ever added.
pub(super) const MIGRATIONS: [&str; 3] = [
    "
    CREATE TABLE keys (
        id           TEXT PRIMARY KEY,
        name         TEXT NOT NULL,
        owner        TEXT NOT NULL,
        environment  TEXT NOT NULL,
        tier         TEXT NOT NULL,
        per_month    INTEGER,
        per_minute   INTEGER,
        scopes       TEXT NOT NULL,
        secret_hash  BLOB NOT NULL,
        created_at   INTEGER NOT NULL,
        expires_at   INTEGER,
        revoked_at   INTEGER,
        rotated_at   INTEGER,
        allowed_ips  TEXT NOT NULL
    ) STRICT, WITHOUT ROWID;

    -- The current windows only: a key's usage is one row that is updated in place.
    CREATE TABLE usage (
        key_id        TEXT PRIMARY KEY REFERENCES keys(id),
        month         INTEGER NOT NULL,
        month_used    INTEGER NOT NULL,
        minute        INTEGER NOT NULL,
        minute_used   INTEGER NOT NULL,
        last_used_at  INTEGER NOT NULL
    ) STRICT, WITHOUT ROWID;

    CREATE TABLE audit (
        seq          INTEGER PRIMARY KEY,
        time         INTEGER NOT NULL,
        principal    TEXT,
        key_id       TEXT,
        ip           TEXT,
        method       TEXT NOT NULL,
        tool         TEXT,
        target       TEXT,
        session_id   TEXT,
        outcome      TEXT NOT NULL,
        duration_us  INTEGER NOT NULL,
        hash         BLOB NOT NULL
    ) STRICT;

    CREATE TABLE audit_head (
        only       INTEGER PRIMARY KEY CHECK (only = 1),
        seq        INTEGER NOT NULL,
        hash       BLOB NOT NULL,
        signature  TEXT NOT NULL
    ) STRICT;
",
    "-- audit_head.signature holds a seal from here on, which a program that knows only version 1 takes
     -- for a forgery. A signature of version 1 is good until the next row.",
    "-- From here on rows may wait in a journal beside this file, where a program that knows only version 2 does
     -- not look for the end of the chain.",
];

/// How long another process may keep the file to itself before we give up.
pub(super) const BUSY_TIMEOUT: Duration = Duration::from_secs(5);

/// A connection set up as every connection to the file must be.
pub(super) fn open(path: &Path) -> Result<Connection, StoreError> {
    make_private(path);
    let connection = Connection::open(path).map_err(unavailable)?;
    connection.busy_timeout(BUSY_TIMEOUT).map_err(unavailable)?;
    // Otherwise every bound value makes SQLite plan the statement anew, at several times its cost.
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_QPSG, true).map_err(unavailable)?;
    // A commit is on the disk when it is done: then the journal forgets what it holds.
    connection
        .execute_batch("PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL; PRAGMA foreign_keys = ON;")
        .map_err(unavailable)?;
    Ok(connection)
}

/// Makes a new file its owner's alone. SQLite gives the files beside it the same rights.
fn make_private(path: &Path) {
    if path.exists() {
        return;
    }
    let mut options = std::fs::OpenOptions::new();
    options.write(true).create(true).truncate(false);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    // What stands in the way stands in SQLite's way, too, and that is told.
    drop(options.open(path));
}

/// Brings the file to the newest version, in one transaction. Each migration takes it from the version of its index to the next.
pub(super) fn migrate(connection: &Connection, migrations: &[&str]) -> Result<(), StoreError> {
    let transaction = Transaction::begin(connection).map_err(unavailable)?;
    let version: usize =
        transaction.query_row("PRAGMA user_version", [], |row| row.get(0)).map_err(unavailable)?;
    let pending = migrations.get(version..).ok_or_else(|| {
        StoreError::Corrupt(format!(
            "the file has version {version}, this program knows {} · hint: use the newer hindcast that made it",
            migrations.len()
        ))
    })?;
    if pending.is_empty() {
        return Ok(());
    }
    for migration in pending {
        transaction.execute_batch(migration).map_err(unavailable)?;
    }
    transaction.pragma_update(None, "user_version", migrations.len()).map_err(unavailable)?;
    transaction.commit().map_err(unavailable)
}
