//! Rows of the knowledge base as they are, to move them from or to another store.
//!
//! What is read is what this machine sees: documents of other machines' files have no path elsewhere, and their watches stay here.

use async_trait::async_trait;
use hindcast_core::store::StoreError;
use tokio_postgres::{Row, types::ToSql};

use super::{
    super::{
        PostgresSettings,
        database::column,
        texts::{kept, optional_text},
    },
    LONGEST_REMOVAL, PostgresKnowledge, made,
};
use crate::knowledge_transfer::{
    Cell, Cells, Counters, Kind, MovableKnowledge, NUMBERED, Standing, TABLES, Table,
};

impl PostgresKnowledge {
    /// Connects and brings the tables up to date, also where a move here is not finished.
    pub async fn open_to_move(settings: &PostgresSettings, machine: String) -> Result<Self, StoreError> {
        Self::over(settings, machine).await
    }
}

/// Where rows of a table are read from. `$1` is the machine.
fn source(table: &Table) -> &'static str {
    match table.name {
        "collections" => {
            "(SELECT collections.*, accessed_at, coalesce(used, 0) AS used
              FROM hindcast.collections LEFT JOIN hindcast.collection_uses ON collection = key)"
        }
        "documents" => {
            "(SELECT key, collection, id, name, description, mime_type, source_type, reader, language, dated, size, chunks, hash,
                     created_at, updated_at, CASE WHEN machine IS NULL OR machine = $1 THEN path END AS path,
                     CASE WHEN machine IS NULL OR machine = $1 THEN modified END AS modified FROM hindcast.documents)"
        }
        "contents" => "hindcast.contents",
        "tags" => "hindcast.tags",
        "chunks" => "hindcast.chunks",
        "vectors" => "hindcast.vectors",
        "removed_chunks" => "hindcast.removed_chunks",
        "changes" => "hindcast.changes",
        "watched" => "(SELECT * FROM hindcast.watched WHERE machine = $1)",
        "queries" => "hindcast.queries",
        _ => "hindcast.answers",
    }
}

/// Columns that only this store has, and what they follow from. `$1` is the machine.
fn derived(table: &Table) -> &'static [(&'static str, &'static str)] {
    match table.name {
        "documents" => &[
            ("path_hash", "sha256(convert_to(path, 'UTF8'))"),
            ("machine", "CASE WHEN path !~ '^https?://' THEN $1::text END"),
        ],
        "tags" => &[("tag_hash", "sha256(convert_to(tag, 'UTF8'))")],
        // A zero or SUB of the text is two characters here.
        "chunks" => &[("bytes", "octet_length(translate(text, chr(26), ''))")],
        "watched" => &[("path_hash", "sha256(convert_to(path, 'UTF8'))"), ("machine", "$1::text")],
        _ => &[],
    }
}

#[async_trait]
impl MovableKnowledge for PostgresKnowledge {
    async fn standing(&self) -> Result<Standing, StoreError> {
        let asked = "
            SELECT generation.value > 0 OR uses.value > 0, moved_from, is_moved FROM hindcast.generation, hindcast.uses";
        let row = self.read().await?.row(asked, &[]).await?;
        let row =
            row.ok_or_else(|| StoreError::Corrupt("the knowledge base has lost its generation".into()))?;
        let (moved_from, is_moved) = (optional_text(&row, 1)?, column(&row, 2)?);
        Ok(match is_moved {
            true => Standing { is_used: column(&row, 0)?, moved_from, begun: None },
            false => {
                Standing { is_used: false, moved_from: None, begun: Some(moved_from.unwrap_or_default()) }
            }
        })
    }

    async fn counters(&self) -> Result<Counters, StoreError> {
        let lease = self.read().await?;
        let counted = lease.row("SELECT value FROM hindcast.generation", &[]).await?;
        let used = lease.row("SELECT value FROM hindcast.uses", &[]).await?;
        let mut last = [0; NUMBERED.len()];
        for (last, (table, key)) in last.iter_mut().zip(NUMBERED) {
            let asked = format!(
                "SELECT CASE WHEN is_called THEN last_value ELSE 0 END FROM hindcast.{table}_{key}_seq"
            );
            *last = made(lease.row(&asked, &[]).await?.as_ref())?;
        }
        Ok(Counters { generation: made(counted.as_ref())?, uses: made(used.as_ref())?, last })
    }

    async fn until(&self, table: &Table, after: i64) -> Result<Option<i64>, StoreError> {
        let (source, key) = (source(table), table.key());
        let asked = format!(
            "SELECT max({key}) FROM (
                 SELECT {key} FROM {source} AS source WHERE {key} > $2 AND $1::text IS NOT NULL ORDER BY {key} LIMIT $3
             ) AS batch"
        );
        let row = self.read().await?.row(&asked, &[&self.machine, &after, &table.batch()]).await?;
        row.as_ref().map(|row| column(row, 0)).transpose().map(Option::flatten)
    }

    async fn rows(&self, table: &Table, after: i64, until: i64) -> Result<Vec<Cells>, StoreError> {
        let (source, key, names) = (source(table), table.key(), table.names());
        let asked = format!(
            "SELECT {names} FROM {source} AS source WHERE {key} > $2 AND {key} <= $3 AND $1::text IS NOT NULL"
        );
        let rows = self.read().await?.rows(&asked, &[&self.machine, &after, &until]).await?;
        rows.iter().map(|row| cells(table, row)).collect()
    }

    async fn begin(&self, print: &str) -> Result<(), StoreError> {
        let mut lease = self.database.writer().await?;
        lease.begin_long(LONGEST_REMOVAL).await?;
        for table in ["collections", "removed_chunks", "changes", "answers"] {
            lease.execute(&format!("DELETE FROM hindcast.{table}"), &[]).await?;
        }
        lease.execute("UPDATE hindcast.uses SET value = 0", &[]).await?;
        let begin = "
            UPDATE hindcast.generation SET value = 0, truth = replace(gen_random_uuid()::text, '-', ''), moved_from = $1,
                is_moved = false";
        let begun = lease.execute(begin, &[&print]).await.map(drop);
        lease.end(begun).await
    }

    async fn go_on(&self) -> Result<Vec<i64>, StoreError> {
        let lease = self.read().await?;
        let mut last = Vec::new();
        for table in &TABLES {
            let asked = format!("SELECT max({}) FROM hindcast.{}", table.key(), table.name);
            let row = lease.row(&asked, &[]).await?;
            let key = row.as_ref().map(|row| column::<Option<i64>>(row, 0)).transpose()?.flatten();
            last.push(key.unwrap_or(i64::MIN));
        }
        Ok(last)
    }

    async fn put(&self, table: &Table, rows: Vec<Cells>) -> Result<(), StoreError> {
        let columns = Columns::of(table, &rows);
        let mut given: Vec<&(dyn ToSql + Sync)> = vec![&self.machine];
        given.extend(columns.0.iter().map(|column| &**column as &(dyn ToSql + Sync)));
        let lease = self.write().await?;
        for statement in statements(table) {
            lease.execute(&statement, &given).await?;
        }
        lease.commit().await
    }

    async fn finish(&self, counters: Counters, print: &str) -> Result<(), StoreError> {
        let lease = self.write().await?;
        for (last, (table, key)) in counters.last.into_iter().zip(NUMBERED) {
            let set = format!(
                "SELECT setval('hindcast.{table}_{key}_seq', greatest($1::bigint, 1), $1::bigint > 0)"
            );
            lease.row(&set, &[&last]).await?;
        }
        for table in ["queries", "answers"] {
            let set = format!(
                "SELECT setval('hindcast.{table}_number_seq', greatest(last, 1), last > 0)
                 FROM (SELECT coalesce(max(number), 0) AS last FROM hindcast.{table}) AS numbers"
            );
            lease.row(&set, &[]).await?;
        }
        lease.execute("UPDATE hindcast.uses SET value = $1", &[&counters.uses]).await?;
        let finish = "UPDATE hindcast.generation SET value = $1, moved_from = $2, is_moved = true";
        let finished = lease.execute(finish, &[&counters.generation, &print]).await.map(drop);
        lease.end(finished).await
    }
}

/// What puts rows that are given column by column.
fn statements(table: &Table) -> Vec<String> {
    let arrays: Vec<_> =
        (2..).zip(table.columns).map(|(at, (_, kind))| format!("${at}::{}[]", type_of(*kind))).collect();
    let (names, arrays) = (table.names(), arrays.join(", "));
    let new = format!("FROM unnest({arrays}) AS new ({names}) WHERE $1::text IS NOT NULL");
    if table.name == "collections" {
        let own: Vec<_> =
            table.columns.iter().map(|(name, _)| *name).filter(|name| !is_of_use(name)).collect();
        let own = own.join(", ");
        return vec![
            format!("INSERT INTO hindcast.collections ({own}) SELECT {own} {new}"),
            format!(
                "INSERT INTO hindcast.collection_uses (collection, accessed_at, used) SELECT key, accessed_at, used {new}
                 AND (accessed_at IS NOT NULL OR used > 0)"
            ),
        ];
    }
    let (mut into, mut values) = (names.clone(), names);
    for (name, value) in derived(table) {
        into = format!("{into}, {name}");
        values = format!("{values}, {value}");
    }
    vec![format!("INSERT INTO hindcast.{} ({into}) SELECT {values} {new}", table.name)]
}

fn is_of_use(column: &str) -> bool {
    ["accessed_at", "used"].contains(&column)
}

fn type_of(kind: Kind) -> &'static str {
    match kind {
        Kind::Number => "bigint",
        Kind::Flag => "bool",
        Kind::Real => "float8",
        Kind::Text => "text",
        Kind::Bytes => "bytea",
    }
}

/// Rows column by column, as one statement takes many.
struct Columns<'a>(Vec<Box<dyn ToSql + Sync + Send + 'a>>);

impl<'a> Columns<'a> {
    fn of(table: &Table, rows: &'a [Cells]) -> Self {
        let columns = (0..).zip(table.columns).map(|(at, (_, kind))| {
            let cells = rows.iter().map(move |row: &'a Cells| row.get(at).unwrap_or(&Cell::Null));
            match kind {
                Kind::Number => boxed(cells.map(number)),
                Kind::Flag => boxed(cells.map(|cell| number(cell).map(|number| number != 0))),
                Kind::Real => boxed(cells.map(|cell| match cell {
                    Cell::Real(real) => Some(*real),
                    _ => None,
                })),
                Kind::Text => boxed(cells.map(|cell| match cell {
                    Cell::Text(text) => Some(kept(text)),
                    _ => None,
                })),
                Kind::Bytes => boxed(cells.map(|cell| match cell {
                    Cell::Bytes(bytes) => Some(bytes.as_slice()),
                    _ => None,
                })),
            }
        });
        Self(columns.collect())
    }
}

fn number(cell: &Cell) -> Option<i64> {
    match cell {
        Cell::Number(number) => Some(*number),
        _ => None,
    }
}

fn boxed<'a, T: ToSql + Sync + Send + 'a>(
    values: impl Iterator<Item = Option<T>>,
) -> Box<dyn ToSql + Sync + Send + 'a> {
    Box::new(values.collect::<Vec<_>>())
}

fn cells(table: &Table, row: &Row) -> Result<Cells, StoreError> {
    let cell = |(at, (_, kind)): (usize, &(&str, Kind))| {
        let found = match kind {
            Kind::Number => column::<Option<i64>>(row, at)?.map(Cell::Number),
            Kind::Flag => column::<Option<bool>>(row, at)?.map(|flag| Cell::Number(flag.into())),
            Kind::Real => column::<Option<f64>>(row, at)?.map(Cell::Real),
            Kind::Text => optional_text(row, at)?.map(Cell::Text),
            Kind::Bytes => column::<Option<Vec<u8>>>(row, at)?.map(Cell::Bytes),
        };
        Ok(found.unwrap_or(Cell::Null))
    };
    table.columns.iter().enumerate().map(cell).collect()
}
