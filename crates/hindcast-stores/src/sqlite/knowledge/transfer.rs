//! A collection as one file, to be kept or carried elsewhere: a SQLite file with its documents, chunks, vectors and settings.

use std::path::Path;

use hindcast_core::{
    Timestamp,
    knowledge::{Collection, CollectionKey},
    store::StoreError,
};
use rusqlite::{Connection, OptionalExtension, params};

use super::{
    super::{keys::nanoseconds, transaction::Transaction, unavailable},
    Change, SqliteKnowledge,
    catalogue::collection_by_key,
    export_check::{digest, fault, has_table, is_damage},
    export_file::PartialFile,
    next_generation,
};

/// Grows when a reader of older files could not read newer ones.
const FORMAT: i64 = 1;

/// The tables of an export. Older ones lack the last; a table that is there never changes, or older files are not as this says.
pub(super) const EXPORTED: &str = "
    CREATE TABLE moved.format (version INTEGER NOT NULL) STRICT;
    CREATE TABLE moved.collection (id TEXT NOT NULL, name TEXT NOT NULL) STRICT;
    CREATE TABLE moved.documents (
        key INTEGER PRIMARY KEY, id TEXT NOT NULL, name TEXT NOT NULL, description TEXT NOT NULL, mime_type TEXT NOT NULL,
        source_type TEXT, reader INTEGER NOT NULL, size INTEGER NOT NULL, chunks INTEGER NOT NULL, hash BLOB NOT NULL,
        created_at INTEGER NOT NULL, updated_at INTEGER NOT NULL, path TEXT, modified INTEGER, original BLOB NOT NULL, text TEXT
    ) STRICT;
    CREATE TABLE moved.chunks (
        id INTEGER PRIMARY KEY, document INTEGER NOT NULL, position INTEGER NOT NULL, hash BLOB NOT NULL, headings TEXT NOT NULL,
        text TEXT NOT NULL, first_byte INTEGER NOT NULL, end_byte INTEGER NOT NULL, first_line INTEGER NOT NULL,
        last_line INTEGER NOT NULL, page INTEGER, is_code INTEGER NOT NULL
    ) STRICT;
    CREATE TABLE moved.vectors (chunk INTEGER NOT NULL, model TEXT NOT NULL, numbers BLOB NOT NULL) STRICT;
    CREATE TABLE moved.tags (document INTEGER NOT NULL, tag TEXT NOT NULL, is_given INTEGER NOT NULL) STRICT;
    CREATE TABLE moved.languages (document INTEGER NOT NULL, language TEXT NOT NULL) STRICT;
    CREATE TABLE moved.dates (document INTEGER NOT NULL, dated INTEGER NOT NULL) STRICT;
    CREATE TABLE moved.settings (model TEXT, language TEXT, passage_bytes INTEGER, vectors_by TEXT) STRICT;
    CREATE TABLE moved.watched (path TEXT NOT NULL, include TEXT NOT NULL, exclude TEXT NOT NULL) STRICT;
    CREATE TABLE moved.seal (digest BLOB NOT NULL) STRICT;
";

/// A collection in a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MovedCollection {
    /// Its id where it came from.
    pub id: String,
    /// Its name for people.
    pub name: String,
    /// How many documents it has.
    pub documents: u64,
    /// The folders that were watched for it. They are not watched by being moved: their rights were those of another place.
    pub watched: Vec<String>,
    /// The models that made the vectors that were moved.
    pub models: Vec<String>,
}

impl SqliteKnowledge {
    /// Writes a collection to a file that is not there yet, as of one moment. The file has its name only when all of it is written.
    pub async fn export_collection(
        &self,
        key: CollectionKey,
        file: &Path,
    ) -> Result<MovedCollection, StoreError> {
        let file = file.to_owned();
        self.on_writer(move |connection| {
            let partial = PartialFile::beside(&file)?;
            let name = attached_name(partial.path())?;
            let written = with_attached(connection, &name, || export(connection, key))?;
            partial.finish(&file)?;
            Ok(written)
        })
        .await
    }

    /// What is in a file that was exported. `models` says how many numbers the vectors of known models have.
    pub async fn exported(
        &self,
        file: &Path,
        models: &[(String, usize)],
    ) -> Result<MovedCollection, StoreError> {
        let (name, models) = (existing(file)?, models.to_vec());
        self.on_writer(move |connection| {
            with_attached(connection, &name, || {
                check_version(connection)?;
                check(connection, &name, &models)?;
                described(connection)
            })
        })
        .await
    }

    /// Puts the documents of a file into a collection that has none, with the vectors of these models. Others are left out: how
    /// long they must be is not known here, and one of another length would stop the model's whole index.
    pub async fn import_collection(
        &self,
        file: &Path,
        key: CollectionKey,
        now: Timestamp,
        models: &[(String, usize)],
    ) -> Result<MovedCollection, StoreError> {
        let (name, models) = (existing(file)?, models.to_vec());
        self.on_writer(move |connection| {
            with_attached(connection, &name, || {
                // A large file is checked for long, and others want to write to the store meanwhile.
                let version = data_version(connection)?;
                check_version(connection)?;
                check(connection, &name, &models)?;
                let transaction = Transaction::begin(connection).map_err(unavailable)?;
                if data_version(connection)? != version {
                    return Err(no_export(&name, "somebody changed it while it was read"));
                }
                let mut found = described(connection)?;
                let models: Vec<_> = models.iter().map(|(model, _)| model.as_str()).collect();
                import(&transaction, key, now, &models)?;
                found.models.retain(|model| models.contains(&model.as_str()));
                transaction.commit().map_err(unavailable)?;
                Ok(found)
            })
        })
        .await
    }
}

/// Changes when another connection changes the file.
fn data_version(connection: &Connection) -> Result<i64, StoreError> {
    connection.query_row("PRAGMA moved.data_version", [], |row| row.get(0)).map_err(unavailable)
}

fn check(connection: &Connection, file: &str, models: &[(String, usize)]) -> Result<(), StoreError> {
    match fault(connection, models) {
        Some(reason) => Err(no_export(file, &reason)),
        None => Ok(()),
    }
}

fn no_export(file: &str, reason: &str) -> StoreError {
    // The library repeats what is in a damaged file.
    let reason: String = reason.chars().take_while(|char| !char.is_control()).take(160).collect();
    StoreError::Corrupt(format!(
        "`{file}` is not an export of hindcast, or is damaged: {reason} · hint: nothing of it was imported; export the \
         collection again where it comes from"
    ))
}

fn attached_name(file: &Path) -> Result<String, StoreError> {
    let name = file.to_str();
    name.map(str::to_owned).ok_or_else(|| StoreError::Unavailable("the file's name is not UTF-8".into()))
}

/// The name of a file that is there: attaching would make one that is not.
fn existing(file: &Path) -> Result<String, StoreError> {
    if !file.is_file() {
        return Err(StoreError::Missing(format!("the file `{}`", file.display())));
    }
    attached_name(file)
}

fn with_attached<T>(
    connection: &Connection,
    name: &str,
    work: impl FnOnce() -> Result<T, StoreError>,
) -> Result<T, StoreError> {
    connection.pragma_update(None, "trusted_schema", false).map_err(unavailable)?;
    let foreign = |error: rusqlite::Error| match is_damage(&error) {
        true => no_export(name, &error.to_string()),
        false => unavailable(error),
    };
    connection.execute("ATTACH ?1 AS moved", [name]).map_err(foreign)?;
    let done = work();
    connection.execute("DETACH moved", []).map_err(unavailable)?;
    done
}

fn export(connection: &Connection, key: CollectionKey) -> Result<MovedCollection, StoreError> {
    let Collection { id, name, .. } = collection_by_key(connection, key)?;
    let write = || {
        // What is written belongs to nobody yet: a journal beside it would only be left when this process is killed.
        connection.execute_batch("PRAGMA moved.journal_mode = MEMORY; BEGIN")?;
        connection.execute_batch(EXPORTED)?;
        connection.execute("INSERT INTO moved.format VALUES (?1)", [FORMAT])?;
        connection.execute("INSERT INTO moved.collection VALUES (?1, ?2)", params![id, name])?;
        for copy in [
            "INSERT INTO moved.documents SELECT key, id, name, description, mime_type, source_type, reader, size, chunks, hash,
                 created_at, updated_at, path, modified, original, text
             FROM main.documents JOIN main.contents ON document = key WHERE collection = ?1",
            "INSERT INTO moved.chunks SELECT id, document, position, hash, headings, text, first_byte, end_byte, first_line,
                 last_line, page, is_code FROM main.chunks WHERE collection = ?1",
            "INSERT INTO moved.vectors SELECT chunk, model, numbers FROM main.vectors JOIN main.chunks ON id = chunk
             WHERE collection = ?1",
            "INSERT INTO moved.tags SELECT document, tag, is_given FROM main.tags JOIN main.documents ON key = document
             WHERE collection = ?1",
            "INSERT INTO moved.languages SELECT key, language FROM main.documents WHERE collection = ?1 AND language IS NOT NULL",
            "INSERT INTO moved.dates SELECT key, dated FROM main.documents WHERE collection = ?1 AND dated IS NOT NULL",
            "INSERT INTO moved.settings SELECT model, language, passage_bytes, vectors_by FROM main.collections WHERE key = ?1",
            "INSERT INTO moved.watched SELECT path, include, exclude FROM main.watched WHERE collection = ?1",
        ] {
            connection.execute(copy, [key.0])?;
        }
        connection.execute("INSERT INTO moved.seal VALUES (?1)", [digest(connection)?])?;
        connection.execute_batch("COMMIT")
    };
    if let Err(error) = write() {
        // There may be no transaction to end.
        let _ = connection.execute_batch("ROLLBACK");
        return Err(unavailable(error));
    }
    described(connection)
}

/// Whether this program knows what is in the file. One that is damaged is left to the check.
fn check_version(connection: &Connection) -> Result<(), StoreError> {
    let asked = connection.query_row("SELECT version FROM moved.format", [], |row| row.get::<_, i64>(0));
    match asked.optional().ok().flatten() {
        Some(version) if version != FORMAT => Err(StoreError::Corrupt(format!(
            "it was exported as version {version}, this program knows {FORMAT}"
        ))),
        _ => Ok(()),
    }
}

fn described(connection: &Connection) -> Result<MovedCollection, StoreError> {
    let read = || {
        let (id, name) = connection
            .query_row("SELECT id, name FROM moved.collection", [], |row| Ok((row.get(0)?, row.get(1)?)))?;
        let documents = connection.query_row("SELECT count(*) FROM moved.documents", [], |row| row.get(0))?;
        let mut watched = connection.prepare("SELECT path FROM moved.watched ORDER BY path")?;
        let watched = watched.query_map([], |row| row.get(0))?.collect::<Result<_, _>>()?;
        let mut models = connection.prepare("SELECT DISTINCT model FROM moved.vectors ORDER BY model")?;
        let models = models.query_map([], |row| row.get(0))?.collect::<Result<_, _>>()?;
        Ok(MovedCollection { id, name, documents, watched, models })
    };
    read().map_err(unavailable)
}

fn import(
    transaction: &Transaction<'_>,
    key: CollectionKey,
    now: Timestamp,
    models: &[&str],
) -> Result<(), StoreError> {
    let collection = collection_by_key(transaction, key)?;
    if collection.documents > 0 {
        return Err(StoreError::Exists(format!("the collection `{}`, with documents,", collection.id)));
    }
    let write = || {
        let Collection { ownership, id, .. } = &collection;
        let change = Change { ownership, collection: id, document: None, is_membership: true };
        let generation = next_generation(transaction, &change)?;
        // Keys are given anew, behind all there ever were here.
        let last = |table: &str| {
            transaction.query_row(
                "SELECT coalesce((SELECT seq FROM main.sqlite_sequence WHERE name = ?1), 0)",
                [table],
                |row| row.get::<_, i64>(0),
            )
        };
        let (documents, chunks) = (last("documents")?, last("chunks")?);
        transaction.execute(
            "INSERT INTO main.documents (key, collection, id, name, description, mime_type, source_type, reader, size, chunks,
                 hash, created_at, updated_at, path, modified)
             SELECT key + ?1, ?2, id, name, description, mime_type, source_type, reader, size, chunks, hash, created_at,
                 updated_at, path, modified FROM moved.documents WHERE key > 0 AND length(hash) = 32 ORDER BY key",
            params![documents, key.0],
        )?;
        transaction.execute(
            "INSERT INTO main.contents SELECT key + ?1, original, text FROM moved.documents",
            [documents],
        )?;
        transaction.execute(
            "INSERT INTO main.chunks (id, document, collection, position, hash, headings, text, first_byte, end_byte, first_line,
                 last_line, page, is_code, generation)
             SELECT id + ?1, document + ?2, ?3, position, hash, headings, text, first_byte, end_byte, first_line, last_line, page,
                 is_code, ?4 FROM moved.chunks WHERE id > 0 AND length(hash) = 32 ORDER BY id",
            params![chunks, documents, key.0, generation],
        )?;
        for model in models {
            transaction.execute(
                "INSERT INTO main.vectors (chunk, model, generation, numbers)
                 SELECT chunk + ?1, model, ?2, numbers FROM moved.vectors WHERE model = ?3",
                params![chunks, generation, model],
            )?;
        }
        transaction.execute(
            "INSERT INTO main.tags SELECT document + ?1, tag, is_given FROM moved.tags",
            [documents],
        )?;
        if has_table(transaction, "settings")? && has_table(transaction, "languages")? {
            import_settings(transaction, key, documents)?;
        }
        if has_table(transaction, "dates")? {
            transaction.execute(
                "UPDATE main.documents SET dated = moved.dates.dated FROM moved.dates
                 WHERE main.documents.key = moved.dates.document + ?1",
                [documents],
            )?;
        }
        transaction.execute(
            "UPDATE main.collections SET updated_at = ?2 WHERE key = ?1",
            params![key.0, nanoseconds(now)],
        )?;
        Ok(())
    };
    write().map_err(unavailable)
}

/// What was decided for the collection, and the languages of its documents.
fn import_settings(connection: &Connection, key: CollectionKey, documents: i64) -> rusqlite::Result<()> {
    connection.execute(
        "UPDATE main.documents SET language = moved.languages.language FROM moved.languages
         WHERE main.documents.key = moved.languages.document + ?1",
        [documents],
    )?;
    connection.execute(
        "UPDATE main.collections SET model = moved.settings.model, language = moved.settings.language, vectors_by =
             moved.settings.vectors_by, passage_bytes = moved.settings.passage_bytes
         FROM moved.settings WHERE main.collections.key = ?1",
        [key.0],
    )?;
    Ok(())
}
