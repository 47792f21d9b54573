//! Rows of the knowledge base as they are, to move them from or to another store.
//!
//! What is moved here goes to a file beside the one that is used, and takes its place when all has arrived.

use std::{
    fs, io,
    path::{Path, PathBuf},
    sync::{Arc, Mutex},
};

use async_trait::async_trait;
use hindcast_core::store::StoreError;
use rusqlite::{OptionalExtension, Row, params_from_iter, types::Value};

use super::{
    super::{lock, unavailable},
    SqliteKnowledge,
};
use crate::knowledge_transfer::{
    Cell, Cells, Counters, Kind, MovableKnowledge, NUMBERED, Standing, TABLES, Table,
};

/// The knowledge base of a file, to move something from or to it.
pub struct KnowledgeFile {
    path: Arc<Path>,
    /// The file that is read and written: the one that is used, or the one that is being filled.
    current: Mutex<SqliteKnowledge>,
}

impl KnowledgeFile {
    /// The knowledge in a file, which need not be there yet.
    pub fn at(path: &Path) -> Self {
        Self { path: path.into(), current: Mutex::new(SqliteKnowledge::in_file(path)) }
    }

    fn current(&self) -> SqliteKnowledge {
        lock(&self.current).clone()
    }

    /// The file that is being filled.
    fn beside(&self) -> PathBuf {
        with_end(&self.path, ".moving")
    }

    fn turn_to(&self, path: &Path) {
        *lock(&self.current) = SqliteKnowledge::in_file(path);
    }
}

/// A path with this behind its name.
fn with_end(path: &Path, end: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(end);
    name.into()
}

/// Removes a file of SQLite's with those beside it.
fn remove(path: &Path) -> Result<(), StoreError> {
    for file in [with_end(path, "-wal"), with_end(path, "-shm"), path.to_owned()] {
        match fs::remove_file(&file) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(of_disk(&file, &error)),
            _ => {}
        }
    }
    Ok(())
}

fn of_disk(file: &Path, error: &io::Error) -> StoreError {
    StoreError::Unavailable(format!("`{}`: {error}", file.display()))
}

/// What the column is called here.
fn named<'a>(table: &Table, name: &'a str) -> &'a str {
    match (table.name, name) {
        ("queries" | "answers", "number") => "rowid",
        _ => name,
    }
}

fn names(table: &Table) -> String {
    table.columns.iter().map(|(name, _)| named(table, name)).collect::<Vec<_>>().join(", ")
}

#[async_trait]
impl MovableKnowledge for KnowledgeFile {
    async fn standing(&self) -> Result<Standing, StoreError> {
        let mut begun = None;
        if self.beside().exists() {
            let filled = SqliteKnowledge::in_file(&self.beside());
            // One that was killed before its first commit has brought nothing.
            let asked = filled.read(|connection| {
                let there = "SELECT count(*) FROM sqlite_master WHERE name = 'moving'";
                match connection.query_row(there, [], |row| row.get::<_, i64>(0))? {
                    0 => Ok(None),
                    _ => connection.query_row("SELECT print FROM moving", [], |row| row.get(0)).optional(),
                }
            });
            begun = asked.await?;
            filled.close();
        }
        self.turn_to(&self.path);
        let current = self.current();
        let is_used = match current.is_untouched() {
            true => false,
            false => {
                let Counters { generation, uses, .. } = self.counters().await?;
                generation > 0 || uses > 0
            }
        };
        Ok(Standing { is_used, moved_from: None, begun })
    }

    async fn counters(&self) -> Result<Counters, StoreError> {
        if self.current().is_untouched() {
            return Ok(Counters { generation: 0, uses: 0, last: [0; NUMBERED.len()] });
        }
        let read = self.current();
        read.read(|connection| {
            let mut last = [0; NUMBERED.len()];
            for (last, (table, _)) in last.iter_mut().zip(NUMBERED) {
                let asked = "SELECT seq FROM sqlite_sequence WHERE name = ?1";
                *last =
                    connection.query_row(asked, [table], |row| row.get(0)).optional()?.unwrap_or_default();
            }
            Ok(Counters {
                generation: connection.query_row("SELECT value FROM generation", [], |row| row.get(0))?,
                uses: connection.query_row("SELECT value FROM uses", [], |row| row.get(0))?,
                last,
            })
        })
        .await
    }

    async fn until(&self, table: &Table, after: i64) -> Result<Option<i64>, StoreError> {
        if self.current().is_untouched() {
            return Ok(None);
        }
        let (key, batch) = (named(table, table.key()), table.batch());
        let asked = format!(
            "SELECT max(walked) FROM (SELECT {key} AS walked FROM {} WHERE {key} > ?1 ORDER BY {key} LIMIT ?2)",
            table.name
        );
        let read = self.current();
        read.read(move |connection| {
            connection.prepare_cached(&asked)?.query_row([after, batch], |row| row.get(0))
        })
        .await
    }

    async fn rows(&self, table: &Table, after: i64, until: i64) -> Result<Vec<Cells>, StoreError> {
        if self.current().is_untouched() {
            return Ok(Vec::new());
        }
        let (key, columns) = (named(table, table.key()), table.columns);
        let asked = format!("SELECT {} FROM {} WHERE {key} > ?1 AND {key} <= ?2", names(table), table.name);
        let read = self.current();
        read.read(move |connection| {
            connection.prepare_cached(&asked)?.query_map([after, until], |row| cells(columns, row))?.collect()
        })
        .await
    }

    async fn begin(&self, print: &str) -> Result<(), StoreError> {
        self.current().close();
        remove(&self.beside())?;
        self.turn_to(&self.beside());
        let print = print.to_owned();
        let current = self.current();
        current
            .write(move |transaction| {
                let begun = transaction
                    .execute_batch("CREATE TABLE moving (print TEXT NOT NULL) STRICT")
                    .and_then(|()| transaction.execute("INSERT INTO moving VALUES (?1)", [print]));
                begun.map(drop).map_err(unavailable)
            })
            .await
    }

    async fn go_on(&self) -> Result<Vec<i64>, StoreError> {
        self.current().close();
        self.turn_to(&self.beside());
        let read = self.current();
        read.read(|connection| {
            let last = TABLES.iter().map(|table| {
                let asked = format!("SELECT max({}) FROM {}", named(table, table.key()), table.name);
                let last: Option<i64> = connection.query_row(&asked, [], |row| row.get(0))?;
                Ok(last.unwrap_or(i64::MIN))
            });
            last.collect()
        })
        .await
    }

    async fn put(&self, table: &Table, rows: Vec<Cells>) -> Result<(), StoreError> {
        let places: Vec<_> = (1..=table.columns.len()).map(|place| format!("?{place}")).collect();
        let put = format!("INSERT INTO {} ({}) VALUES ({})", table.name, names(table), places.join(", "));
        // These are counted when the documents come.
        let counted: Vec<_> = (0..)
            .zip(table.columns)
            .filter(|(_, (name, _))| ["document_count", "chunk_count"].contains(name))
            .map(|(at, _): (usize, _)| at)
            .collect();
        let current = self.current();
        current
            .write(move |transaction| {
                let mut insert = transaction.prepare_cached(&put).map_err(unavailable)?;
                for row in rows {
                    let values = (0..).zip(row).map(|(at, cell)| match counted.contains(&at) {
                        true => Value::Integer(0),
                        false => value(cell),
                    });
                    insert.execute(params_from_iter(values)).map_err(unavailable)?;
                }
                Ok(())
            })
            .await
    }

    async fn finish(&self, counters: Counters, _print: &str) -> Result<(), StoreError> {
        let current = self.current();
        current
            .write(move |transaction| {
                let finish = || {
                    for (last, (table, _)) in counters.last.into_iter().zip(NUMBERED) {
                        transaction.execute("DELETE FROM sqlite_sequence WHERE name = ?1", [table])?;
                        let number = "INSERT INTO sqlite_sequence (name, seq) VALUES (?1, ?2)";
                        transaction.execute(number, rusqlite::params![table, last])?;
                    }
                    transaction.execute("UPDATE generation SET value = ?1", [counters.generation])?;
                    transaction.execute("UPDATE uses SET value = ?1", [counters.uses])?;
                    transaction.execute_batch("DROP TABLE moving")
                };
                finish().map_err(unavailable)
            })
            .await?;
        current
            .on_writer(|connection| {
                let wait = "PRAGMA wal_checkpoint(TRUNCATE)";
                connection.query_row(wait, [], |_| Ok(())).map_err(unavailable)
            })
            .await?;
        current.close();
        let beside = self.beside();
        fs::File::open(&beside).and_then(|file| file.sync_all()).map_err(|error| of_disk(&beside, &error))?;
        remove(&self.path)?;
        fs::rename(&beside, &self.path).map_err(|error| of_disk(&beside, &error))?;
        self.turn_to(&self.path);
        Ok(())
    }
}

fn cells(columns: &[(&str, Kind)], row: &Row<'_>) -> rusqlite::Result<Cells> {
    let cell = |at| {
        Ok(match row.get::<_, Value>(at)? {
            Value::Null => Cell::Null,
            Value::Integer(number) => Cell::Number(number),
            Value::Real(real) => Cell::Real(real),
            Value::Text(text) => Cell::Text(text),
            Value::Blob(bytes) => Cell::Bytes(bytes),
        })
    };
    (0..columns.len()).map(cell).collect()
}

fn value(cell: Cell) -> Value {
    match cell {
        Cell::Null => Value::Null,
        Cell::Number(number) => Value::Integer(number),
        Cell::Real(real) => Value::Real(real),
        Cell::Text(text) => Value::Text(text),
        Cell::Bytes(bytes) => Value::Blob(bytes),
    }
}
