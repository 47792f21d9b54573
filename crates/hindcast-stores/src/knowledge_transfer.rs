//! Moving the knowledge base from one store to another, row by row.
//!
//! Tables are copied one after the other, by the number that their rows are walked by, and then compared. A move that was
//! interrupted continues behind the last number that arrived, unless the source has changed since. The target is used by nobody
//! before all has arrived.

use async_trait::async_trait;
use hindcast_core::store::StoreError;
use sha2::{Digest, Sha256};

use self::Kind::{Bytes, Flag, Number, Real, Text};
use crate::TransferError;

/// A value of a row, as every store has it.
#[derive(Debug, Clone, PartialEq, PartialOrd)]
#[allow(missing_docs)]
pub enum Cell {
    Null,
    Number(i64),
    Real(f64),
    Text(String),
    Bytes(Vec<u8>),
}

/// A row of a table, in the order of its columns.
pub type Cells = Vec<Cell>;

/// What a column holds. Each may also be empty.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum Kind {
    Number,
    Flag,
    Real,
    Text,
    Bytes,
}

/// A table that is moved. Rows are walked by the first column, which several rows may share.
#[derive(Debug)]
pub struct Table {
    /// Its name, and which table it is in messages.
    pub name: &'static str,
    /// Its columns.
    pub columns: &'static [(&'static str, Kind)],
    /// How many rows are moved at once.
    batch: i64,
}

impl Table {
    /// The column that rows are walked by.
    pub(crate) fn key(&self) -> &'static str {
        self.columns.first().map_or("", |(name, _)| name)
    }

    /// The names of all columns, as a statement lists them.
    pub(crate) fn names(&self) -> String {
        self.columns.iter().map(|(name, _)| *name).collect::<Vec<_>>().join(", ")
    }

    pub(crate) fn batch(&self) -> i64 {
        self.batch
    }
}

/// All tables, each after those that its rows refer to.
pub(crate) static TABLES: [Table; 11] = [
    Table {
        name: "collections",
        batch: 500,
        columns: &[
            ("key", Number),
            ("owner", Text),
            ("maker", Text),
            ("id", Text),
            ("name", Text),
            ("created_at", Number),
            ("updated_at", Number),
            ("accessed_at", Number),
            ("document_count", Number),
            ("chunk_count", Number),
            ("model", Text),
            ("language", Text),
            ("passage_bytes", Number),
            ("vectors_by", Text),
            ("used", Number),
        ],
    },
    Table {
        name: "documents",
        batch: 500,
        columns: &[
            ("key", Number),
            ("collection", Number),
            ("id", Text),
            ("name", Text),
            ("description", Text),
            ("mime_type", Text),
            ("source_type", Text),
            ("reader", Number),
            ("language", Text),
            ("dated", Number),
            ("size", Number),
            ("chunks", Number),
            ("hash", Bytes),
            ("created_at", Number),
            ("updated_at", Number),
            ("path", Text),
            ("modified", Number),
        ],
    },
    // A document may have a hundred megabytes.
    Table {
        name: "contents",
        batch: 8,
        columns: &[("document", Number), ("original", Bytes), ("text", Text)],
    },
    Table { name: "tags", batch: 500, columns: &[("document", Number), ("tag", Text), ("is_given", Flag)] },
    Table {
        name: "chunks",
        batch: 500,
        columns: &[
            ("id", Number),
            ("document", Number),
            ("collection", Number),
            ("position", Number),
            ("hash", Bytes),
            ("headings", Text),
            ("text", Text),
            ("first_byte", Number),
            ("end_byte", Number),
            ("first_line", Number),
            ("last_line", Number),
            ("page", Number),
            ("is_code", Flag),
            ("generation", Number),
        ],
    },
    Table {
        name: "vectors",
        batch: 500,
        columns: &[("chunk", Number), ("model", Text), ("generation", Number), ("numbers", Bytes)],
    },
    Table {
        name: "removed_chunks",
        batch: 5000,
        columns: &[("generation", Number), ("collection", Number), ("chunk", Number)],
    },
    Table {
        name: "changes",
        batch: 5000,
        columns: &[
            ("generation", Number),
            ("owner", Text),
            ("collection", Text),
            ("document", Text),
            ("is_membership", Flag),
        ],
    },
    Table {
        name: "watched",
        batch: 500,
        columns: &[
            ("key", Number),
            ("collection", Number),
            ("path", Text),
            ("granted_to", Text),
            ("include", Text),
            ("exclude", Text),
        ],
    },
    Table {
        name: "queries",
        batch: 2000,
        columns: &[
            ("number", Number),
            ("collection", Number),
            ("at", Number),
            ("text", Text),
            ("latency_us", Number),
            ("best_score", Real),
            ("asked", Flag),
        ],
    },
    Table {
        name: "answers",
        batch: 500,
        columns: &[
            ("number", Number),
            ("conversation", Text),
            ("owner", Text),
            ("model", Text),
            ("at", Number),
            ("question", Text),
            ("answer", Text),
            ("duration_ms", Number),
            ("tokens", Number),
            ("used", Number),
        ],
    },
];

/// The tables whose rows are numbered, with their numbers never given twice.
pub(crate) const NUMBERED: [(&str, &str); 4] =
    [("collections", "key"), ("documents", "key"), ("chunks", "id"), ("watched", "key")];

/// What a store counts besides its rows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Counters {
    /// How often something changed.
    pub generation: i64,
    /// How often something was used.
    pub uses: i64,
    /// The last number that was given in each of the numbered tables.
    pub(crate) last: [i64; NUMBERED.len()],
}

/// What there is in a store that something is moved to or from.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Standing {
    /// Something was ever put in, by whoever uses it.
    pub is_used: bool,
    /// The print of what a finished move brought.
    pub moved_from: Option<String>,
    /// The print of what an unfinished move was bringing.
    pub begun: Option<String>,
}

/// A knowledge base whose rows can be read and put as they are.
#[async_trait]
pub trait MovableKnowledge: Send + Sync {
    /// What there is.
    async fn standing(&self) -> Result<Standing, StoreError>;

    /// What it counts.
    async fn counters(&self) -> Result<Counters, StoreError>;

    /// The last number of the batch behind `after`; none when there is nothing more.
    async fn until(&self, table: &Table, after: i64) -> Result<Option<i64>, StoreError>;

    /// The rows behind `after` up to `until`, in any order.
    async fn rows(&self, table: &Table, after: i64, until: i64) -> Result<Vec<Cells>, StoreError>;

    /// Removes all there is, and notes what is going to be moved here. Nobody can use it until [`finish`](Self::finish).
    async fn begin(&self, print: &str) -> Result<(), StoreError>;

    /// Goes on with what was begun; gives the last number of each table, in their order.
    async fn go_on(&self) -> Result<Vec<i64>, StoreError>;

    /// Puts rows, all of them or none.
    async fn put(&self, table: &Table, rows: Vec<Cells>) -> Result<(), StoreError>;

    /// Puts what is counted, and lets everybody use it.
    async fn finish(&self, counters: Counters, print: &str) -> Result<(), StoreError>;
}

/// What was moved, or was there already.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct MovedKnowledge {
    /// Collections.
    pub collections: u64,
    /// Documents.
    pub documents: u64,
    /// Chunks.
    pub chunks: u64,
    /// Rows of all tables that were moved by this try.
    pub rows_moved: u64,
}

/// Copies all of `from` to `to`, and compares. Nothing of the target is usable before all is there.
pub async fn transfer_knowledge(
    from: &dyn MovableKnowledge,
    to: &dyn MovableKnowledge,
) -> Result<MovedKnowledge, TransferError> {
    let source = from.standing().await?;
    if source.begun.is_some() {
        return Err(TransferError::HalfMoved);
    }
    let (print, target) = (print_of(from).await?, to.standing().await?);
    if target.is_used {
        let there = print_of(to).await?;
        if there == print {
            return Ok(compare(from, to).await?);
        }
        if target.moved_from.as_ref() != Some(&there) && source.moved_from.as_ref() != Some(&there) {
            return Err(TransferError::Occupied("a knowledge base of its own".into()));
        }
    }
    if !source.is_used && !target.is_used && target.begun.is_none() {
        return Ok(MovedKnowledge::default());
    }
    if target.begun.as_ref() != Some(&print) {
        to.begin(&print).await?;
    }
    let mut rows_moved = 0;
    for (table, mut after) in TABLES.iter().zip(to.go_on().await?) {
        while let Some(until) = from.until(table, after).await? {
            let rows = from.rows(table, after, until).await?;
            rows_moved += rows.len() as u64;
            to.put(table, rows).await?;
            after = until;
        }
    }
    let compared = compare(from, to).await?;
    let counters = from.counters().await?;
    if print_of(from).await? != print {
        return Err(TransferError::StillWritten);
    }
    to.finish(counters, &print).await?;
    Ok(MovedKnowledge { rows_moved, ..compared })
}

/// Compares every row of both.
async fn compare(
    from: &dyn MovableKnowledge,
    to: &dyn MovableKnowledge,
) -> Result<MovedKnowledge, StoreError> {
    let mut found = MovedKnowledge::default();
    for table in &TABLES {
        let mut after = i64::MIN;
        let mut count = 0;
        while let Some(until) = from.until(table, after).await? {
            let (mut rows, mut copies) =
                (from.rows(table, after, until).await?, to.rows(table, after, until).await?);
            for rows in [&mut rows, &mut copies] {
                rows.sort_by(|one, other| one.partial_cmp(other).unwrap_or(std::cmp::Ordering::Equal));
            }
            if rows != copies {
                return Err(differs(table, after, until));
            }
            count += rows.len() as u64;
            after = until;
        }
        if let Some(more) = to.until(table, after).await? {
            return Err(differs(table, after, more));
        }
        match table.name {
            "collections" => found.collections = count,
            "documents" => found.documents = count,
            "chunks" => found.chunks = count,
            _ => {}
        }
    }
    Ok(found)
}

fn differs(table: &Table, after: i64, until: i64) -> StoreError {
    StoreError::Corrupt(format!(
        "rows of `{}` behind {after} up to {until} did not arrive as they were · hint: empty the target and try again",
        table.name
    ))
}

/// What tells one state of a knowledge base from every other: what it counts, its collections and its documents.
async fn print_of(store: &dyn MovableKnowledge) -> Result<String, StoreError> {
    let Counters { generation, uses, .. } = store.counters().await?;
    let mut hash = Sha256::new().chain_update(format!("{generation} {uses}"));
    for table in &TABLES[..2] {
        let mut after = i64::MIN;
        while let Some(until) = store.until(table, after).await? {
            let mut rows = store.rows(table, after, until).await?;
            rows.sort_by(|one, other| one.partial_cmp(other).unwrap_or(std::cmp::Ordering::Equal));
            hash.update(format!("{rows:?}"));
            after = until;
        }
    }
    Ok(hex::encode(hash.finalize()))
}
