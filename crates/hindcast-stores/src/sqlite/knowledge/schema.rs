//! The tables of the knowledge base, in a file of their own.

use std::path::Path;

use hindcast_core::store::StoreError;
use rusqlite::{Connection, config::DbConfig};

use super::super::{schema::BUSY_TIMEOUT, unavailable};

/// Each entry takes the file from the version of its index to the next. Entries are only ever added.
pub(super) const MIGRATIONS: [&str; 8] = [
    "
    -- How often something changed; the derived indexes and the subscribers of every process follow it.
    CREATE TABLE generation (
        only   INTEGER PRIMARY KEY CHECK (only = 1),
        value  INTEGER NOT NULL
    ) STRICT;
    INSERT INTO generation VALUES (1, 0);

    CREATE TABLE collections (
        key          INTEGER PRIMARY KEY AUTOINCREMENT,
        owner        TEXT,                    -- NULL: shared
        id           TEXT NOT NULL,
        name         TEXT NOT NULL,
        created_at   INTEGER NOT NULL,
        updated_at   INTEGER NOT NULL,
        accessed_at  INTEGER
    ) STRICT;
    CREATE UNIQUE INDEX collection_id ON collections (id, coalesce(owner, ''));

    CREATE TABLE documents (
        key          INTEGER PRIMARY KEY AUTOINCREMENT,
        collection   INTEGER NOT NULL REFERENCES collections (key) ON DELETE CASCADE,
        id           TEXT NOT NULL,
        name         TEXT NOT NULL,
        description  TEXT NOT NULL,
        mime_type    TEXT NOT NULL,
        size         INTEGER NOT NULL,
        chunks       INTEGER NOT NULL,
        hash         BLOB NOT NULL,
        created_at   INTEGER NOT NULL,
        updated_at   INTEGER NOT NULL,
        path         TEXT,
        modified     INTEGER,
        UNIQUE (collection, id)
    ) STRICT;

    -- Apart from the rows that are listed: these are long.
    CREATE TABLE contents (
        document  INTEGER PRIMARY KEY REFERENCES documents (key) ON DELETE CASCADE,
        original  BLOB NOT NULL,
        text      TEXT                        -- NULL: the original is served as it is
    ) STRICT;

    CREATE TABLE chunks (
        id          INTEGER PRIMARY KEY AUTOINCREMENT,
        document    INTEGER NOT NULL REFERENCES documents (key) ON DELETE CASCADE,
        collection  INTEGER NOT NULL REFERENCES collections (key) ON DELETE CASCADE,
        position    INTEGER NOT NULL,
        hash        BLOB NOT NULL,
        headings    TEXT NOT NULL,
        text        TEXT NOT NULL,
        first_byte  INTEGER NOT NULL,
        end_byte    INTEGER NOT NULL,
        first_line  INTEGER NOT NULL,
        last_line   INTEGER NOT NULL,
        page        INTEGER,
        is_code     INTEGER NOT NULL,
        generation  INTEGER NOT NULL
    ) STRICT;
    CREATE INDEX chunk_document ON chunks (document);
    CREATE INDEX chunk_collection ON chunks (collection);
    CREATE INDEX chunk_generation ON chunks (generation);

    CREATE TABLE vectors (
        chunk       INTEGER NOT NULL REFERENCES chunks (id) ON DELETE CASCADE,
        model       TEXT NOT NULL,
        generation  INTEGER NOT NULL,
        numbers     BLOB NOT NULL,            -- f32, little-endian
        UNIQUE (chunk, model)
    ) STRICT;
    CREATE INDEX vector_generation ON vectors (generation);

    -- Chunks that went, until every index can be expected to have heard of it.
    CREATE TABLE removed_chunks (
        generation  INTEGER NOT NULL,
        collection  INTEGER NOT NULL,
        chunk       INTEGER NOT NULL
    ) STRICT;
    CREATE INDEX removed_generation ON removed_chunks (generation);

    CREATE TABLE changes (
        generation     INTEGER PRIMARY KEY,
        owner          TEXT,
        collection     TEXT NOT NULL,
        document       TEXT,
        is_membership  INTEGER NOT NULL
    ) STRICT;

    CREATE TABLE watched (
        collection  INTEGER NOT NULL REFERENCES collections (key) ON DELETE CASCADE,
        path        TEXT NOT NULL,
        PRIMARY KEY (collection, path)
    ) STRICT, WITHOUT ROWID;

    CREATE TABLE queries (
        collection  INTEGER NOT NULL REFERENCES collections (key) ON DELETE CASCADE,
        at          INTEGER NOT NULL,
        text        TEXT NOT NULL,
        latency_us  INTEGER NOT NULL,
        best_score  REAL
    ) STRICT;
    CREATE INDEX query_collection ON queries (collection, at);

    CREATE TABLE answers (
        conversation  TEXT NOT NULL,
        owner         TEXT NOT NULL,
        model         TEXT NOT NULL,
        at            INTEGER NOT NULL,
        question      TEXT NOT NULL,
        answer        TEXT,                   -- NULL: it failed
        duration_ms   INTEGER NOT NULL,
        tokens        INTEGER NOT NULL
    ) STRICT;
    CREATE INDEX answer_conversation ON answers (conversation);
    CREATE INDEX answer_time ON answers (at);
",
    "
    -- A document that was made from a file is identified by the file's path. Several processes could make several documents
    -- of one file before: the newest stays, under the oldest's id.
    CREATE TEMP TABLE ranked AS
        SELECT key, collection, path, id,
               row_number() OVER (PARTITION BY collection, path ORDER BY updated_at DESC, key DESC) AS place,
               first_value(id) OVER (PARTITION BY collection, path ORDER BY created_at, key) AS first_id
        FROM documents WHERE path IS NOT NULL;
    CREATE TEMP TABLE superseded AS
        SELECT key, row_number() OVER (ORDER BY key) AS number FROM ranked WHERE place > 1;
    INSERT INTO removed_chunks
        SELECT (SELECT value FROM generation) + number, chunks.collection, chunks.id
        FROM superseded JOIN chunks ON chunks.document = superseded.key;
    INSERT INTO changes
        SELECT (SELECT value FROM generation) + number, collections.owner, collections.id, documents.id, 1
        FROM superseded JOIN documents ON documents.key = superseded.key
        JOIN collections ON collections.key = documents.collection;
    UPDATE generation SET value = value + (SELECT count(*) FROM superseded);
    DELETE FROM documents WHERE key IN (SELECT key FROM superseded);
    UPDATE documents SET id = ranked.first_id
        FROM ranked WHERE ranked.key = documents.key AND ranked.place = 1 AND ranked.first_id <> documents.id;
    DROP TABLE superseded;
    DROP TABLE ranked;
    CREATE UNIQUE INDEX document_path ON documents (collection, path) WHERE path IS NOT NULL;
    CREATE INDEX document_hash ON documents (collection, hash) WHERE path IS NOT NULL;

    ALTER TABLE watched RENAME TO watched_before;
    CREATE TABLE watched (
        key         INTEGER PRIMARY KEY AUTOINCREMENT,
        collection  INTEGER NOT NULL REFERENCES collections (key) ON DELETE CASCADE,
        path        TEXT NOT NULL,
        granted_to  TEXT,                     -- 'local' or 'key ID'; NULL: unknown, so only what every key may read
        UNIQUE (collection, path)
    ) STRICT;
    -- Only the local user has the collections of that name.
    INSERT INTO watched (collection, path, granted_to)
        SELECT watched_before.collection, path, iif(owner = 'local', 'local', NULL)
        FROM watched_before JOIN collections ON collections.key = watched_before.collection;
    DROP TABLE watched_before;

    -- How often something was used; those who look at the figures follow it.
    CREATE TABLE uses (
        only   INTEGER PRIMARY KEY CHECK (only = 1),
        value  INTEGER NOT NULL
    ) STRICT;
    INSERT INTO uses VALUES (1, 0);
    ALTER TABLE collections ADD COLUMN used INTEGER NOT NULL DEFAULT 0;
    ALTER TABLE answers ADD COLUMN used INTEGER NOT NULL DEFAULT 0;
    CREATE INDEX answer_used ON answers (used);

    -- Whether the collection was asked by name. Of older queries that is not known; they count as before.
    ALTER TABLE queries ADD COLUMN asked INTEGER NOT NULL DEFAULT 1;
",
    "
    -- Who made a collection. Of older shared ones that is not known: they are the local user's.
    ALTER TABLE collections ADD COLUMN maker TEXT;
",
    "
    -- What the original is written in. Of older documents that is what they are served as, until they are read again.
    ALTER TABLE documents ADD COLUMN source_type TEXT;
    -- Which version of the readers made the text; a file that an older one read is read again when it is added.
    ALTER TABLE documents ADD COLUMN reader INTEGER NOT NULL DEFAULT 0;

    CREATE TABLE tags (
        document  INTEGER NOT NULL REFERENCES documents (key) ON DELETE CASCADE,
        tag       TEXT NOT NULL,
        is_given  INTEGER NOT NULL,           -- by whoever added it, and not by the document itself
        PRIMARY KEY (document, tag)
    ) STRICT, WITHOUT ROWID;
    CREATE INDEX tag_document ON tags (tag, document);

    -- What says the same is embedded once.
    CREATE INDEX chunk_hash ON chunks (hash);

    -- Which files of a watched folder are taken; lists of patterns, a line each.
    ALTER TABLE watched ADD COLUMN include TEXT NOT NULL DEFAULT '';
    ALTER TABLE watched ADD COLUMN exclude TEXT NOT NULL DEFAULT '';

    -- Counted as documents come and go: counting them anew for every document made taking in n of them cost n².
    ALTER TABLE collections ADD COLUMN document_count INTEGER NOT NULL DEFAULT 0;
    ALTER TABLE collections ADD COLUMN chunk_count INTEGER NOT NULL DEFAULT 0;
    UPDATE collections SET
        document_count = (SELECT count(*) FROM documents WHERE collection = collections.key),
        chunk_count = (SELECT coalesce(sum(chunks), 0) FROM documents WHERE collection = collections.key);
    CREATE TRIGGER document_came AFTER INSERT ON documents BEGIN
        UPDATE collections SET document_count = document_count + 1, chunk_count = chunk_count + NEW.chunks
            WHERE key = NEW.collection;
    END;
    CREATE TRIGGER document_went AFTER DELETE ON documents BEGIN
        UPDATE collections SET document_count = document_count - 1, chunk_count = chunk_count - OLD.chunks
            WHERE key = OLD.collection;
    END;
    CREATE TRIGGER document_changed AFTER UPDATE OF chunks ON documents BEGIN
        UPDATE collections SET chunk_count = chunk_count + NEW.chunks - OLD.chunks WHERE key = NEW.collection;
    END;
",
    "
    -- What a document is written in, as a code of ISO 639-1. Of older ones it is not known until they are read again.
    ALTER TABLE documents ADD COLUMN language TEXT;
",
    "
    -- What is decided for a collection; NULL: as usual.
    ALTER TABLE collections ADD COLUMN model TEXT;
    ALTER TABLE collections ADD COLUMN language TEXT;
    ALTER TABLE collections ADD COLUMN passage_bytes INTEGER;
    -- The model whose vectors answer.
    ALTER TABLE collections ADD COLUMN vectors_by TEXT;
    UPDATE collections SET vectors_by =
        (SELECT vectors.model FROM chunks JOIN vectors ON vectors.chunk = chunks.id
         WHERE chunks.collection = collections.key LIMIT 1);
",
    "
    -- Tells this truth from others whose vectors are on the same server.
    CREATE TABLE identity (
        only  INTEGER PRIMARY KEY CHECK (only = 1),
        name  TEXT NOT NULL
    ) STRICT;
    INSERT INTO identity VALUES (1, lower(hex(randomblob(16))));
",
    "
    -- When a document was last changed or sent, as it says itself. Of older ones it is not known until they are read again.
    ALTER TABLE documents ADD COLUMN dated INTEGER;
",
];

/// A connection set up as every connection to the file must be.
pub(super) fn open(path: &Path) -> Result<Connection, StoreError> {
    let connection = Connection::open(path).map_err(unavailable)?;
    connection.busy_timeout(BUSY_TIMEOUT).map_err(unavailable)?;
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_QPSG, true).map_err(unavailable)?;
    // The first has an effect only before the first table: what is removed can then be given back to the disk.
    connection
        .execute_batch(
            "PRAGMA auto_vacuum = INCREMENTAL; PRAGMA journal_mode = WAL; PRAGMA synchronous = NORMAL;
             PRAGMA foreign_keys = ON;",
        )
        .map_err(unavailable)?;
    Ok(connection)
}
