//! Whether a file that is to be imported is what an export writes. It may come from anybody.

use rusqlite::{Connection, ErrorCode, OptionalExtension, types::ValueRef};
use sha2::{Digest, Sha256};

/// What every export has.
const TABLES: [&str; 7] = ["format", "collection", "documents", "chunks", "vectors", "tags", "watched"];

/// What exports of older versions lack: the table, a condition that none of its rows fulfils, and what is wrong where one does.
const NEWER_FAULTS: [(&str, &str, &str); 1] = [(
    "dates",
    "a date is of no document",
    "SELECT 1 FROM moved.dates WHERE typeof(dated) <> 'integer' OR document NOT IN (SELECT key FROM moved.documents)",
)];

/// Conditions that no row fulfils, and what is wrong where one does. Keys are added to those that are here, so they must be small.
const FAULTS: [(&str, &str); 9] = [
    ("the number of collections is not one", "SELECT 1 WHERE (SELECT count(*) FROM moved.collection) <> 1"),
    (
        "a document has a key, a size, a hash or a time that cannot be",
        "SELECT 1 FROM moved.documents WHERE typeof(key) <> 'integer' OR key NOT BETWEEN 1 AND 1 << 40
             OR typeof(id) <> 'text' OR length(id) NOT BETWEEN 1 AND 1000 OR typeof(name) <> 'text'
             OR typeof(original) <> 'blob' OR typeof(text) NOT IN ('text', 'null') OR size IS NOT length(original)
             OR typeof(hash) <> 'blob' OR length(hash) <> 32 OR typeof(reader) <> 'integer' OR reader NOT BETWEEN 0 AND (1 << 32) - 1
             OR typeof(created_at) <> 'integer' OR typeof(updated_at) <> 'integer'
             OR typeof(modified) NOT IN ('integer', 'null')",
    ),
    (
        "a document does not have as many passages as it says",
        "SELECT 1 FROM moved.documents WHERE chunks IS NOT (SELECT count(*) FROM moved.chunks WHERE document = key)",
    ),
    (
        "a passage is of no document",
        "SELECT 1 FROM moved.chunks WHERE document IS NULL OR document NOT IN (SELECT key FROM moved.documents)",
    ),
    (
        "a passage has a key, a hash or a place that cannot be",
        "SELECT 1 FROM moved.chunks JOIN (SELECT key, octet_length(coalesce(text, original)) AS bytes FROM moved.documents)
             ON key = document
         WHERE typeof(id) <> 'integer' OR id NOT BETWEEN 1 AND 1 << 40 OR typeof(hash) <> 'blob' OR length(hash) <> 32
             OR typeof(position) <> 'integer' OR position NOT BETWEEN 0 AND 1 << 40
             OR typeof(headings) <> 'text' OR typeof(moved.chunks.text) <> 'text'
             OR typeof(first_byte) <> 'integer' OR typeof(end_byte) <> 'integer' OR first_byte < 0 OR end_byte < first_byte
             OR end_byte > bytes OR typeof(first_line) <> 'integer' OR typeof(last_line) <> 'integer' OR first_line < 0
             OR last_line < first_line OR typeof(page) NOT IN ('integer', 'null') OR page < 0 OR is_code NOT IN (0, 1)",
    ),
    (
        "a vector is of no passage",
        "SELECT 1 FROM moved.vectors WHERE chunk IS NULL OR chunk NOT IN (SELECT id FROM moved.chunks)",
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
        "a tag is of no document",
        "SELECT 1 FROM moved.tags WHERE document NOT IN (SELECT key FROM moved.documents) OR is_given NOT IN (0, 1)
             OR typeof(tag) <> 'text'",
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
    let mut kinds = connection.prepare("SELECT name, type FROM moved.sqlite_master")?;
    let kinds: Vec<(String, String)> =
        kinds.query_map([], |row| Ok((row.get(0)?, row.get(1)?)))?.collect::<Result<_, _>>()?;
    // Views and triggers would run what somebody else wrote.
    if let Some((name, kind)) = kinds.iter().find(|(_, kind)| kind != "table" && kind != "index") {
        return Ok(Some(format!("it has a {kind}, `{}`", name.escape_debug())));
    }
    let mut tables = connection
        .prepare("SELECT name FROM pragma_table_list WHERE schema = 'moved' AND type = 'table' AND strict")?;
    let tables: Vec<String> = tables.query_map([], |row| row.get(0))?.collect::<Result<_, _>>()?;
    if let Some(missing) = TABLES.iter().find(|wanted| !tables.iter().any(|table| table == *wanted)) {
        return Ok(Some(format!("it has no table `{missing}`")));
    }
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
    let mut vectors = connection.prepare("SELECT model, numbers FROM moved.vectors")?;
    let mut rows = vectors.query([])?;
    while let Some(row) = rows.next()? {
        let (model, numbers) = (row.get_ref(0)?.as_str()?, row.get_ref(1)?.as_blob()?);
        let expected = models.iter().find(|(known, _)| known == model).map(|(_, length)| *length);
        let (whole, rest) = numbers.as_chunks();
        if !rest.is_empty() || whole.is_empty() || expected.is_some_and(|length| length != whole.len()) {
            return Ok(Some(format!("a vector of `{}` has {} bytes", model.escape_debug(), numbers.len())));
        }
        if whole.iter().any(|bytes| !f32::from_le_bytes(*bytes).is_finite()) {
            return Ok(Some("a vector has something that is no number".into()));
        }
    }
    Ok(None)
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
        knowledge::{Catalogue, ChunkSource, NewChunk, NewDocument, NewVector, Ownership, Place, Tags},
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
            hash: [1; 32],
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
            hash: [2; 32],
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
        assert!(told.ends_with("bytes of it were changed"), "{told}");
        let bytes = std::fs::read(&good).unwrap();
        let mut refused = 0;
        for at in (200..bytes.len()).step_by(211) {
            let mut flipped = bytes.clone();
            flipped[at] ^= 4;
            std::fs::write(&damaged, flipped).unwrap();
            if let Err(error) = store.exported(&damaged, &models).await {
                let told = error.to_string();
                assert!(!told.contains(['\n', '*']) && told.len() < 300, "byte {at}: {told}");
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
