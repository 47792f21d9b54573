//! A transaction that writes.

use std::ops::Deref;

use rusqlite::Connection;

/// Everything that is written through it is kept together, or not at all.
///
/// Like rusqlite's own, but its two statements are prepared once for a connection: they are part of
/// every request.
pub(super) struct Transaction<'a> {
    connection: &'a Connection,
    open: bool,
}

impl<'a> Transaction<'a> {
    /// Begins by taking the one place for writers, so that what is read inside stays true.
    pub(super) fn begin(connection: &'a Connection) -> rusqlite::Result<Self> {
        connection.prepare_cached("BEGIN IMMEDIATE")?.execute([])?;
        Ok(Self { connection, open: true })
    }

    pub(super) fn commit(mut self) -> rusqlite::Result<()> {
        self.connection.prepare_cached("COMMIT")?.execute([])?;
        self.open = false;
        Ok(())
    }
}

impl Deref for Transaction<'_> {
    type Target = Connection;

    fn deref(&self) -> &Connection {
        self.connection
    }
}

impl Drop for Transaction<'_> {
    fn drop(&mut self) {
        // After some errors SQLite has already rolled it back.
        let open = self.open && !self.connection.is_autocommit();
        if open && let Err(error) = self.connection.execute_batch("ROLLBACK") {
            tracing::error!(%error, "a transaction could not be rolled back");
        }
    }
}
