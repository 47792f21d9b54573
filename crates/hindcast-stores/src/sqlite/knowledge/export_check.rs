//! Whether a file that is to be imported is what an export writes. It may come from anybody.

use rusqlite::{Connection, ErrorCode, OptionalExtension, types::ValueRef};
use sha2::{Digest, Sha256};

use super::{
    export_rows::{encoding_fault, row_fault},
    transfer::EXPORTED,
};

/// What every export has.
const TABLES: [&str; 7] = ["format", "collection", "documents", "chunks", "vectors", "tags", "watched"];

/// What exports of older versions lack: the table, a condition that none of its rows fulfils, and what is wrong where one does.
const NEWER_FAULTS: [(&str, &str, &str); 3] = [
    (
        "dates",
        "a date is of no document, or a document has two",
        "SELECT 1 FROM moved.dates WHERE document NOT IN (SELECT key FROM moved.documents)
         UNION ALL SELECT 1 FROM moved.dates GROUP BY document HAVING count(*) > 1",
    ),
    (
        "languages",
        "a language is of no document, or a document has two",
        "SELECT 1 FROM moved.languages WHERE document NOT IN (SELECT key FROM moved.documents)
         UNION ALL SELECT 1 FROM moved.languages GROUP BY document HAVING count(*) > 1",
    ),
    (
        "settings",
        "it has settings of several collections",
        "SELECT 1 WHERE (SELECT count(*) FROM moved.settings) > 1",
    ),
];

/// Conditions that no row fulfils, and what is wrong where one does. Keys are added to those that are here, so they must be small.
const FAULTS: [(&str, &str); 10] = [
    ("the number of collections is not one", "SELECT 1 WHERE (SELECT count(*) FROM moved.collection) <> 1"),
    (
        "a document has a key, a size, a hash or a time that cannot be",
        "SELECT 1 FROM moved.documents WHERE key NOT BETWEEN 1 AND 1 << 40
             OR size IS NOT length(original) OR length(hash) <> 32 OR reader NOT BETWEEN 0 AND (1 << 32) - 1
             OR created_at < 0 OR updated_at < 0 OR (path IS NOT NULL AND modified IS NULL)",
    ),
    (
        "two documents have the same name or path",
        "SELECT 1 FROM moved.documents GROUP BY id HAVING count(*) > 1
         UNION ALL SELECT 1 FROM moved.documents WHERE path IS NOT NULL GROUP BY path HAVING count(*) > 1",
    ),
    (
        "a document does not have as many passages as it says",
        "SELECT 1 FROM moved.documents
             LEFT JOIN (SELECT document, count(*) AS held FROM moved.chunks GROUP BY document) ON document = key
         WHERE chunks <> coalesce(held, 0)",
    ),
    (
        "a passage is of no document",
        "SELECT 1 FROM moved.chunks WHERE document NOT IN (SELECT key FROM moved.documents)",
    ),
    (
        "a passage has a key, a hash or a place that cannot be",
        "SELECT 1 FROM moved.chunks WHERE id NOT BETWEEN 1 AND 1 << 40 OR length(hash) <> 32
             OR position NOT BETWEEN 0 AND 1 << 40 OR first_byte < 0 OR end_byte < first_byte
             OR first_line < 0 OR last_line NOT BETWEEN first_line AND 1 << 40
             OR (page IS NOT NULL AND page NOT BETWEEN 1 AND 1 << 40) OR is_code NOT IN (0, 1)",
    ),
    (
        "a vector is of no passage, or a passage has two of one model",
        "SELECT 1 FROM moved.vectors WHERE chunk NOT IN (SELECT id FROM moved.chunks)
         UNION ALL SELECT 1 FROM moved.vectors GROUP BY chunk, model HAVING count(*) > 1",
    ),
    (
        "vectors of one model have different lengths",
        "SELECT 1 FROM moved.vectors GROUP BY model HAVING min(length(numbers)) <> max(length(numbers))",
    ),
    (
        "vectors have other lengths than those of the same model here",
        "SELECT 1 FROM (SELECT model, max(length(numbers)) AS bytes FROM moved.vectors GROUP BY model) AS given
         WHERE bytes <> (SELECT length(numbers) FROM main.vectors WHERE main.vectors.model = given.model LIMIT 1)",
    ),
    (
        "a tag is of no document, or a document has it twice",
        "SELECT 1 FROM moved.tags WHERE document NOT IN (SELECT key FROM moved.documents) OR is_given NOT IN (0, 1)
         UNION ALL SELECT 1 FROM moved.tags GROUP BY document, tag HAVING count(*) > 1",
    ),
];

const DAMAGED: &str = "it does not say what was written: bytes of it were changed";

/// Whether a file is no whole database any more.
pub(super) fn is_damage(error: &rusqlite::Error) -> bool {
    matches!(error.sqlite_error_code(), Some(ErrorCode::NotADatabase | ErrorCode::DatabaseCorrupt))
}

/// What is wrong with the file that is attached as `moved`; none where it can be imported. `models` says how many numbers the
/// vectors of known models have.
pub(super) fn fault(connection: &Connection, models: &[(String, usize)]) -> Option<String> {
    match find(connection, models) {
        Ok(fault) => fault,
        Err(error) if is_damage(&error) => Some(DAMAGED.into()),
        // What cannot even be asked is not what an export writes.
        Err(error) => Some(error.to_string()),
    }
}

fn find(connection: &Connection, models: &[(String, usize)]) -> rusqlite::Result<Option<String>> {
    let tables = match tables(connection)? {
        Ok(tables) => tables,
        Err(fault) => return Ok(Some(fault)),
    };
    let sound: String = connection.query_row("PRAGMA moved.quick_check(1)", [], |row| row.get(0))?;
    if sound != "ok" {
        return Ok(Some(DAMAGED.into()));
    }
    if has_table(connection, "seal")? {
        let seal: Option<Vec<u8>> =
            connection.query_row("SELECT digest FROM moved.seal", [], |row| row.get(0)).optional()?;
        if seal.as_deref() != Some(&digest(connection)?) {
            return Ok(Some(DAMAGED.into()));
        }
    }
    for table in &tables {
        if let Some(fault) = encoding_fault(connection, table)? {
            return Ok(Some(fault));
        }
    }
    for (fault, condition) in FAULTS {
        if connection.prepare(condition)?.exists([])? {
            return Ok(Some(fault.to_owned()));
        }
    }
    for (table, fault, condition) in NEWER_FAULTS {
        if has_table(connection, table)? && connection.prepare(condition)?.exists([])? {
            return Ok(Some(fault.to_owned()));
        }
    }
    row_fault(connection, models)
}

/// The tables of the file, which must be as an export makes them; those that this program does not know come from a newer one. What
/// else a schema may have, such as views, triggers and columns that are computed, would run what somebody else wrote.
fn tables(connection: &Connection) -> rusqlite::Result<Result<Vec<String>, String>> {
    let expected = Connection::open_in_memory()?;
    expected.execute_batch(&EXPORTED.replace("moved.", "main."))?;
    let mut expected = expected.prepare("SELECT sql FROM sqlite_master WHERE name = ?1")?;
    let mut asked = connection.prepare("SELECT name, type, sql FROM moved.sqlite_master")?;
    let mut rows = asked.query([])?;
    let mut tables = Vec::new();
    while let Some(row) = rows.next()? {
        let (name, kind): (String, String) = (row.get(0)?, row.get(1)?);
        let shown = name.escape_debug();
        if kind != "table" {
            return Ok(Err(format!("it has a {}, `{shown}`", kind.escape_debug())));
        }
        let sql: String = row.get(2)?;
        let known: Option<String> = expected.query_row([&name], |row| row.get(0)).optional()?;
        match known {
            Some(known) if !known.split_whitespace().eq(sql.split_whitespace()) => {
                return Ok(Err(format!("its table `{shown}` is not one of an export")));
            }
            // A condition on its rows would be asked of them.
            None if sql.matches('(').count() != 1 || !is_plain(connection, &name)? => {
                return Ok(Err(format!("its table `{shown}` has more than columns")));
            }
            _ => tables.push(name),
        }
    }
    Ok(match TABLES.iter().find(|wanted| !tables.iter().any(|table| table == *wanted)) {
        Some(missing) => Err(format!("it has no table `{missing}`")),
        None => Ok(tables),
    })
}

/// Whether a table only keeps what is written to it.
fn is_plain(connection: &Connection, table: &str) -> rusqlite::Result<bool> {
    let strict =
        "SELECT 1 FROM pragma_table_list WHERE schema = 'moved' AND type = 'table' AND strict AND name = ?1";
    let computed = "SELECT 1 FROM pragma_table_xinfo(?1, 'moved') WHERE hidden <> 0";
    Ok(connection.prepare(strict)?.exists([table])? && !connection.prepare(computed)?.exists([table])?)
}

/// Whether the file has a table, which those of older versions may lack.
pub(super) fn has_table(connection: &Connection, name: &str) -> rusqlite::Result<bool> {
    connection.prepare("SELECT 1 FROM moved.sqlite_master WHERE type = 'table' AND name = ?1")?.exists([name])
}

/// What all rows of the file hash to, so that a changed byte is noticed. Whoever changes a file on purpose can compute it anew.
pub(super) fn digest(connection: &Connection) -> rusqlite::Result<[u8; 32]> {
    let mut digest = Sha256::new();
    // All that are there, also those of a newer version.
    let tables = "SELECT name FROM moved.sqlite_master WHERE type = 'table' AND name <> 'seal' AND name NOT LIKE 'sqlite_%' ORDER BY name";
    let mut tables = connection.prepare(tables)?;
    let tables: Vec<String> = tables.query_map([], |row| row.get(0))?.collect::<Result<_, _>>()?;
    for table in tables {
        digest.update(&table);
        let mut asked = connection
            .prepare(&format!("SELECT * FROM moved.\"{}\" ORDER BY rowid", table.replace('"', "\"\"")))?;
        let columns = asked.column_count();
        let mut rows = asked.query([])?;
        while let Some(row) = rows.next()? {
            for column in 0..columns {
                update(&mut digest, row.get_ref(column)?);
            }
        }
    }
    Ok(digest.finalize().into())
}

/// Adds a value with its type and length, so that no two rows look alike.
fn update(digest: &mut Sha256, value: ValueRef<'_>) {
    let (kind, bytes): (u8, &[u8]) = match value {
        ValueRef::Null => (0, &[]),
        ValueRef::Integer(number) => (1, &number.to_le_bytes()),
        ValueRef::Real(number) => (2, &number.to_le_bytes()),
        ValueRef::Text(text) => (3, text),
        ValueRef::Blob(bytes) => (4, bytes),
    };
    digest.update([kind]);
    digest.update((bytes.len() as u64).to_le_bytes());
    digest.update(bytes);
}

#[cfg(test)]
mod tests {
    use hindcast_core::{
        Timestamp,
        identity::PrincipalId,
        knowledge::{
            Catalogue, ChunkSource, NewChunk, NewDocument, NewVector, Ownership, Place, Tags, hash_of,
        },
        store::StoreError,
    };

    use super::super::SqliteKnowledge;
    use super::*;

    fn dated() -> Timestamp {
        "2024-05-01T00:00:00Z".parse().unwrap()
    }

    fn document(collection: hindcast_core::knowledge::CollectionKey, now: Timestamp) -> NewDocument {
        let vector = Some(NewVector { model: "m".into(), numbers: vec![1.0, 0.0] });
        let place = Place { bytes: (0, 5), lines: (1, 1), page: None };
        let chunk = NewChunk {
            hash: hash_of("", "words"),
            headings: String::new(),
            text: "words".into(),
            place,
            is_code: false,
            vector,
        };
        NewDocument {
            collection,
            replaces: None,
            ids: vec!["a".into()],
            name: "a".into(),
            description: String::new(),
            mime_type: "text/plain".into(),
            source_type: "text/plain".into(),
            reader: 1,
            language: None,
            dated: Some(dated()),
            tags: Tags { own: vec!["t".into()], given: Vec::new() },
            original: b"words".to_vec(),
            text: None,
            hash: Sha256::digest(b"words").into(),
            source: None,
            chunks: vec![chunk],
            now,
        }
    }

    #[tokio::test]
    async fn a_file_that_was_changed_after_it_was_exported_is_refused_and_nothing_is_written() {
        let folder = tempfile::tempdir().unwrap();
        let now: Timestamp = "2026-02-05T10:30:05Z".parse().unwrap();
        let store = SqliteKnowledge::in_file(&folder.path().join("k.db"));
        let open = async |id: &str| {
            let (owner, id) = (PrincipalId::local(), id.to_owned());
            store.open_collection(Ownership::Shared, owner, id.clone(), id, now).await.unwrap()
        };
        let from = open("from").await;
        store.keep_document(document(from.key, now)).await.unwrap();
        let good = folder.path().join("good");
        store.export_collection(from.key, &good).await.unwrap();
        let into = open("into").await;
        let models = [("m".to_owned(), 2)];
        for (number, change) in [
            "UPDATE vectors SET numbers = x'0000803f'",
            "UPDATE vectors SET numbers = x'0000803f0000c07f'",
            "UPDATE vectors SET chunk = 77",
            "INSERT INTO vectors SELECT chunk, 'other', x'000000' FROM vectors",
            "UPDATE documents SET size = -1",
            "UPDATE documents SET key = 9223372036854775800; UPDATE chunks SET document = 9223372036854775800",
            "UPDATE documents SET hash = x'00'",
            "UPDATE documents SET chunks = 1000000",
            "UPDATE chunks SET id = 9223372036854775800; UPDATE vectors SET chunk = 9223372036854775800",
            "UPDATE chunks SET first_byte = -1",
            "UPDATE chunks SET end_byte = 6",
            "UPDATE chunks SET document = 77; UPDATE documents SET chunks = 0",
            "UPDATE tags SET document = 77",
            "UPDATE dates SET document = 77",
            "INSERT INTO dates SELECT * FROM dates",
            "UPDATE documents SET hash = zeroblob(32)",
            "UPDATE documents SET original = CAST('sword' AS BLOB)",
            "UPDATE documents SET path = '/a'",
            "INSERT INTO documents SELECT key + 1, id, name, description, mime_type, source_type, reader, size, 0, hash,
                 created_at, updated_at, path, modified, original, text FROM documents",
            "UPDATE chunks SET text = 'sword'",
            "UPDATE chunks SET headings = 'else'",
            "UPDATE chunks SET hash = zeroblob(32)",
            "UPDATE chunks SET last_line = 9223372036854775807",
            "UPDATE chunks SET page = 0",
            "INSERT INTO vectors SELECT * FROM vectors",
            "UPDATE vectors SET model = '../m'",
            "UPDATE settings SET model = 'ollama:' || char(27)",
            "UPDATE settings SET vectors_by = '.'",
            "UPDATE settings SET language = 'tlh'",
            "UPDATE settings SET passage_bytes = 199",
            "INSERT INTO settings SELECT * FROM settings",
            "INSERT INTO languages VALUES (77, 'de')",
            "UPDATE tags SET tag = ''",
            "UPDATE collection SET id = 'a/b'",
            "UPDATE collection SET name = ' '",
            "UPDATE documents SET id = '..'",
            "CREATE INDEX x ON chunks (position)",
            "CREATE TABLE x (a INTEGER, b AS (a + 1) STORED)",
            "ALTER TABLE tags ADD COLUMN x TEXT",
            "CREATE TABLE x (a TEXT) STRICT; INSERT INTO x VALUES (CAST(x'ff' AS TEXT))",
            "CREATE TABLE x (a INTEGER CHECK (length(hex(zeroblob(a))) > 0)) STRICT",
            "DELETE FROM collection",
            "DROP TABLE chunks; CREATE VIEW chunks AS SELECT 1",
            "CREATE TRIGGER x AFTER INSERT ON tags BEGIN DELETE FROM tags; END",
            "DROP TABLE documents; CREATE TABLE documents (key)",
        ]
        .iter()
        .enumerate()
        {
            let bad = folder.path().join(format!("bad{number}"));
            std::fs::copy(&good, &bad).unwrap();
            // Whoever changes a file on purpose can leave out the seal, as older versions did.
            let change = format!("DROP TABLE seal; {change}");
            Connection::open(&bad).unwrap().execute_batch(&change).unwrap();
            let described = store.exported(&bad, &models).await;
            assert!(matches!(described, Err(StoreError::Corrupt(_))), "{change}: {described:?}");
            let imported = store.import_collection(&bad, into.key, now, &models).await;
            assert!(matches!(imported, Err(StoreError::Corrupt(_))), "{change}: {imported:?}");
        }
        let damaged = folder.path().join("damaged");
        std::fs::copy(&good, &damaged).unwrap();
        let changed = Connection::open(&damaged).unwrap().execute_batch("UPDATE chunks SET text = 'wordz'");
        changed.unwrap();
        let told = store.exported(&damaged, &models).await.unwrap_err().to_string();
        assert!(told.contains("bytes of it were changed · hint: "), "{told}");
        let bytes = std::fs::read(&good).unwrap();
        let mut refused = 0;
        for at in (200..bytes.len()).step_by(211) {
            let mut flipped = bytes.clone();
            flipped[at] ^= 4;
            std::fs::write(&damaged, flipped).unwrap();
            if let Err(error) = store.exported(&damaged, &models).await {
                let told = error.to_string();
                assert!(!told.contains(['\n', '*']) && told.len() < 400, "byte {at}: {told}");
                refused += 1;
            }
        }
        assert!(refused > 0);
        let text = folder.path().join("text");
        std::fs::write(&text, "no database, but long enough to be looked at ".repeat(100)).unwrap();
        let told = store.exported(&text, &models).await.unwrap_err().to_string();
        assert!(told.contains("text` is not an export of hindcast, or is damaged: "), "{told}");
        let imported = store.import_collection(&good, into.key, now, &models).await.unwrap();
        assert_eq!(imported.documents, 1, "nothing of the others is there");
        let there = store.documents(into.key).await.unwrap();
        assert_eq!(there[0].dated, Some(dated()));
        let chunks = store.chunk_ids(into.key).await.unwrap();
        let vectors = store.vectors("m", &chunks).await.unwrap();
        assert_eq!(vectors, [(into.key, chunks[0], vec![1.0, 0.0])]);
    }
}
