//! Whether what the rows of an export say is true of each other: what no condition of SQL tells.

use hindcast_core::knowledge::{LARGEST_PASSAGE, Language, SMALLEST_PASSAGE, check_id, hash_of};
use rusqlite::{Connection, OptionalExtension, Row, types::ValueRef};
use sha2::{Digest, Sha256};

use super::export_check::has_table;
use crate::embed::is_model_name;

/// Titles, headings, descriptions and paths are taken from documents as they are; these are more bytes than anybody reads.
const LONGEST_LINE: usize = 1 << 20;
/// More bytes than a MIME type has.
const LONGEST_TYPE: usize = 256;
/// More numbers than the vectors of any model have.
const LONGEST_VECTOR: usize = 16 * 1024;

/// What is wrong with the first row that is not as it is made here; none where all are. The tables are as an export makes them, and
/// all text is UTF-8. `models` says how many numbers the vectors of known models have.
pub(super) fn row_fault(
    connection: &Connection,
    models: &[(String, usize)],
) -> rusqlite::Result<Option<String>> {
    for check in [collection_fault, settings_fault, tag_fault, document_fault] {
        if let Some(fault) = check(connection)? {
            return Ok(Some(fault));
        }
    }
    vector_fault(connection, models)
}

/// The first column of a text in a table that is not UTF-8.
pub(super) fn encoding_fault(connection: &Connection, table: &str) -> rusqlite::Result<Option<String>> {
    let mut asked = connection.prepare(&format!("SELECT * FROM moved.\"{}\"", table.replace('"', "\"\"")))?;
    let columns: Vec<String> = asked.column_names().map(str::to_owned).collect();
    let mut rows = asked.query([])?;
    while let Some(row) = rows.next()? {
        for (at, column) in columns.iter().enumerate() {
            if let ValueRef::Text(text) = row.get_ref(at)?
                && std::str::from_utf8(text).is_err()
            {
                return Ok(Some(format!("a text in `{}` of `{table}` is not UTF-8", column.escape_debug())));
            }
        }
    }
    Ok(None)
}

fn collection_fault(connection: &Connection) -> rusqlite::Result<Option<String>> {
    let (id, name): (String, String) =
        connection
            .query_row("SELECT id, name FROM moved.collection", [], |row| Ok((row.get(0)?, row.get(1)?)))?;
    let checked = check_id(&id).and_then(|()| check_id(name.trim()));
    Ok(checked.err().map(|problem| format!("its name cannot be: {problem}")))
}

fn settings_fault(connection: &Connection) -> rusqlite::Result<Option<String>> {
    if has_table(connection, "settings")? {
        let settings = connection
            .query_row("SELECT model, vectors_by, language, passage_bytes FROM moved.settings", [], |row| {
                let models: [Option<String>; 2] = [row.get(0)?, row.get(1)?];
                Ok((models, row.get::<_, Option<String>>(2)?, row.get::<_, Option<i64>>(3)?))
            })
            .optional()?;
        if let Some((models, language, passage_bytes)) = settings {
            if let Some(model) = models.into_iter().flatten().find(|model| !is_model_name(model)) {
                return Ok(Some(no_model(&model)));
            }
            if let Some(language) = language.filter(|language| !is_code(language)) {
                return Ok(Some(no_language(&language)));
            }
            let sizes = i64::from(SMALLEST_PASSAGE)..=i64::from(LARGEST_PASSAGE);
            if let Some(bytes) = passage_bytes.filter(|bytes| !sizes.contains(bytes)) {
                return Ok(Some(format!("passages cannot have {bytes} bytes")));
            }
        }
    }
    if has_table(connection, "languages")? {
        let mut asked = connection.prepare("SELECT DISTINCT language FROM moved.languages")?;
        let mut rows = asked.query([])?;
        while let Some(row) = rows.next()? {
            let language: String = row.get(0)?;
            if !is_code(&language) {
                return Ok(Some(no_language(&language)));
            }
        }
    }
    Ok(None)
}

/// Whether it is how a language is written down.
fn is_code(code: &str) -> bool {
    Language::of_tag(code).is_some_and(|language| language.code() == code)
}

fn no_model(model: &str) -> String {
    let shown: String = model.escape_debug().take(60).collect();
    format!("a model cannot be called `{shown}`")
}

fn no_language(language: &str) -> String {
    let shown: String = language.escape_debug().take(60).collect();
    format!("the language `{shown}` is not known to word search")
}

fn tag_fault(connection: &Connection) -> rusqlite::Result<Option<String>> {
    // Those of a document itself are what its front matter says; a person gives short ones.
    let mut found = connection.prepare(
        "SELECT 1 FROM moved.tags WHERE tag = '' OR octet_length(tag) > iif(is_given, 200, 10000)
         UNION ALL SELECT 1 FROM moved.tags GROUP BY document HAVING count(*) > 10000 LIMIT 1",
    )?;
    Ok(found.exists([])?.then(|| "a document has an empty tag, one that is too long, or too many".to_owned()))
}

fn document_fault(connection: &Connection) -> rusqlite::Result<Option<String>> {
    let mut asked = connection.prepare(
        "SELECT key, id, name, description, mime_type, source_type, path, hash, original, text FROM moved.documents
         ORDER BY key",
    )?;
    let mut read = connection
        .prepare("SELECT hash, headings, text, first_byte, end_byte FROM moved.chunks WHERE id = ?1")?;
    let places = places(connection)?;
    let mut rows = asked.query([])?;
    while let Some(row) = rows.next()? {
        let key: i64 = row.get(0)?;
        let id: String = row.get(1)?;
        if let Err(problem) = check_id(&id) {
            return Ok(Some(format!("a document's name cannot be: {problem}")));
        }
        let line = |at: usize| row.get_ref(at)?.as_str_or_null().map_err(rusqlite::Error::from);
        for at in [2, 3, 6] {
            if line(at)?.is_some_and(|text| text.len() > LONGEST_LINE) {
                return Ok(Some(format!("a title, description or path of `{id}` is too long")));
            }
        }
        for at in [4, 5] {
            if line(at)?.is_some_and(|text| text.len() > LONGEST_TYPE || text.contains(char::is_control)) {
                return Ok(Some(format!("the type of `{id}` cannot be")));
            }
        }
        let (hash, original) = (row.get_ref(7)?.as_blob()?, row.get_ref(8)?.as_blob()?);
        if Sha256::digest(original)[..] != *hash {
            return Ok(Some(format!("the document `{id}` is not what its hash is of")));
        }
        let text = match line(9)? {
            Some(text) => text,
            None => match std::str::from_utf8(original) {
                Ok(text) => text,
                Err(_) => return Ok(Some(format!("the document `{id}` is not UTF-8"))),
            },
        };
        let own = &places[places.partition_point(|(document, ..)| *document < key)..];
        for (_, _, chunk) in own.iter().take_while(|(document, ..)| *document == key) {
            let fault = read.query_row([chunk], |passage| passage_fault(text, passage))?;
            if let Some(fault) = fault {
                return Ok(Some(format!("a passage of `{id}` {fault}")));
            }
        }
    }
    if !places.is_sorted_by(|one, next| (one.0, one.1) < (next.0, next.1)) {
        return Ok(Some("two passages have the same place".into()));
    }
    Ok(None)
}

/// Document, position and key of all passages, sorted: an export has no index by which a document finds its own.
fn places(connection: &Connection) -> rusqlite::Result<Vec<(i64, i64, i64)>> {
    let mut asked = connection.prepare("SELECT document, position, id FROM moved.chunks")?;
    let places = asked.query_map([], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?)))?;
    let mut places: Vec<_> = places.collect::<Result<_, _>>()?;
    places.sort_unstable();
    Ok(places)
}

/// What is wrong with a passage of a document with this text.
fn passage_fault(text: &str, passage: &Row<'_>) -> rusqlite::Result<Option<&'static str>> {
    let (hash, headings) = (passage.get_ref(0)?.as_blob()?, passage.get_ref(1)?.as_str()?);
    let said = passage.get_ref(2)?.as_str()?;
    let (first, end): (usize, usize) = (passage.get(3)?, passage.get(4)?);
    Ok(if headings.len() > LONGEST_LINE {
        Some("has headings that are too long")
    } else if text.get(first..end) != Some(said) {
        Some("is not what stands at its place")
    } else if hash_of(headings, said) != *hash {
        Some("is not what its hash is of")
    } else {
        None
    })
}

fn vector_fault(connection: &Connection, models: &[(String, usize)]) -> rusqlite::Result<Option<String>> {
    let mut vectors = connection.prepare("SELECT model, numbers FROM moved.vectors")?;
    let mut rows = vectors.query([])?;
    while let Some(row) = rows.next()? {
        let (model, numbers) = (row.get_ref(0)?.as_str()?, row.get_ref(1)?.as_blob()?);
        if !is_model_name(model) {
            return Ok(Some(no_model(model)));
        }
        let expected = models.iter().find(|(known, _)| known == model).map(|(_, length)| *length);
        let (whole, rest) = numbers.as_chunks();
        let is_long = !(1..=LONGEST_VECTOR).contains(&whole.len());
        if !rest.is_empty() || is_long || expected.is_some_and(|length| length != whole.len()) {
            return Ok(Some(format!("a vector of `{model}` has {} bytes", numbers.len())));
        }
        if whole.iter().any(|bytes| !f32::from_le_bytes(*bytes).is_finite()) {
            return Ok(Some("a vector has something that is no number".into()));
        }
    }
    Ok(None)
}
