//! The truth of the knowledge base: one SQLite file beside the server's own.
//!
//! A file of its own, because a document of a hundred megabytes is written in one transaction, and no request should wait
//! for that to have its audit row kept.

mod catalogue;
mod chunks;
mod documents;
mod export_check;
mod export_file;
mod export_rows;
mod moving;
mod schema;
mod transfer;
mod usage;

use std::{
    path::Path,
    sync::{Arc, Mutex},
};

use hindcast_core::{
    identity::PrincipalId,
    knowledge::{Generation, Ownership},
    store::StoreError,
};
use rusqlite::{Connection, OptionalExtension, params};

use super::{lock, schema::migrate, transaction::Transaction, unavailable};

pub use moving::KnowledgeFile;
pub use transfer::MovedCollection;

/// For how many generations it is known what they changed. An index that is further behind compares everything.
const REMEMBERED: u64 = 10_000;

/// Collections, documents, chunks, vectors and their use in one SQLite file. Several processes may hold the same file.
///
/// It is made or opened when it is needed first: who never puts anything in has no such file.
#[derive(Clone)]
pub struct SqliteKnowledge {
    path: Arc<Path>,
    connections: Arc<Mutex<Option<Connections>>>,
}

/// One writes and another reads, so that neither waits for the other.
#[derive(Clone)]
struct Connections {
    writer: Arc<Mutex<Connection>>,
    reader: Arc<Mutex<Connection>>,
}

impl SqliteKnowledge {
    /// The knowledge in a file, which need not be there yet.
    pub fn in_file(path: &Path) -> Self {
        Self { path: path.into(), connections: Arc::default() }
    }

    /// Hexadecimal digits that name this truth and no other, for as long as it exists. Makes the file if it is not there. Blocks.
    pub fn name(&self) -> Result<String, StoreError> {
        let connections = self.connections()?;
        let reader = lock(&connections.reader);
        reader.query_row("SELECT name FROM identity", [], |row| row.get(0)).map_err(unavailable)
    }

    fn connections(&self) -> Result<Connections, StoreError> {
        let mut connections = lock(&self.connections);
        if let Some(connections) = &*connections {
            return Ok(connections.clone());
        }
        let writer = schema::open(&self.path)?;
        migrate(&writer, &schema::MIGRATIONS)?;
        let reader = schema::open(&self.path)?;
        let opened =
            Connections { writer: Arc::new(Mutex::new(writer)), reader: Arc::new(Mutex::new(reader)) };
        Ok(connections.insert(opened).clone())
    }

    /// Lets go of the file, for all who share it here. It is opened again when it is needed.
    fn close(&self) {
        *lock(&self.connections) = None;
    }

    /// Whether nothing was ever put in.
    fn is_untouched(&self) -> bool {
        lock(&self.connections).is_none() && !self.path.exists()
    }

    /// Runs `job` in a transaction that is kept if it succeeds.
    async fn write<T: Send + 'static>(
        &self,
        job: impl FnOnce(&Transaction<'_>) -> Result<T, StoreError> + Send + 'static,
    ) -> Result<T, StoreError> {
        self.on_writer(move |connection| {
            let transaction = Transaction::begin(connection).map_err(unavailable)?;
            let done = job(&transaction)?;
            transaction.commit().map_err(unavailable)?;
            Ok(done)
        })
        .await
    }

    async fn on_writer<T: Send + 'static>(
        &self,
        job: impl FnOnce(&Connection) -> Result<T, StoreError> + Send + 'static,
    ) -> Result<T, StoreError> {
        let knowledge = self.clone();
        tokio::task::spawn_blocking(move || job(&lock(&knowledge.connections()?.writer)))
            .await
            .map_err(ended)?
    }

    async fn read<T: Send + 'static>(
        &self,
        job: impl FnOnce(&Connection) -> rusqlite::Result<T> + Send + 'static,
    ) -> Result<T, StoreError> {
        let knowledge = self.clone();
        let read = move || job(&lock(&knowledge.connections()?.reader)).map_err(unavailable);
        tokio::task::spawn_blocking(read).await.map_err(ended)?
    }
}

fn ended(error: tokio::task::JoinError) -> StoreError {
    StoreError::Unavailable(error.to_string())
}

/// What changed in a transaction; kept so that every process hears of it.
struct Change<'a> {
    ownership: &'a Ownership,
    collection: &'a str,
    document: Option<&'a str>,
    is_membership: bool,
}

/// Begins the next generation and writes down what it changes.
fn next_generation(transaction: &Transaction<'_>, change: &Change<'_>) -> rusqlite::Result<i64> {
    let generation: i64 = transaction
        .prepare_cached("UPDATE generation SET value = value + 1 RETURNING value")?
        .query_row([], |row| row.get(0))?;
    transaction.prepare_cached("INSERT INTO changes VALUES (?1, ?2, ?3, ?4, ?5)")?.execute(params![
        generation,
        owner(change.ownership),
        change.collection,
        change.document,
        change.is_membership
    ])?;
    let forgotten = generation - i64::try_from(REMEMBERED).unwrap_or(i64::MAX);
    transaction.prepare_cached("DELETE FROM changes WHERE generation <= ?1")?.execute([forgotten])?;
    transaction.prepare_cached("DELETE FROM removed_chunks WHERE generation <= ?1")?.execute([forgotten])?;
    Ok(generation)
}

fn generation(connection: &Connection) -> rusqlite::Result<Generation> {
    connection
        .prepare_cached("SELECT value FROM generation")?
        .query_row([], |row| row.get(0))
        .optional()
        .map(|value| Generation(value.unwrap_or_default()))
}

fn owner(ownership: &Ownership) -> Option<&str> {
    match ownership {
        Ownership::Shared => None,
        Ownership::Private(PrincipalId(owner)) => Some(owner),
    }
}

fn ownership(owner: Option<String>) -> Ownership {
    owner.map_or(Ownership::Shared, |owner| Ownership::Private(PrincipalId(owner.into())))
}

#[cfg(test)]
mod tests;
