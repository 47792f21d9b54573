//! The chunks and vectors of a document, written many at a time.

use std::collections::HashMap;

use hindcast_core::{
    knowledge::{ChunkId, CollectionKey, DocumentKey, NewChunk, NewDocument, NewVector, TextHash},
    store::StoreError,
};

use super::{
    super::{
        database::{Lease, column},
        keys::number,
        texts::kept,
    },
    documents::hash,
};

/// Chunks that are written by one statement.
const BATCH: usize = 500;

/// The rows that a document is written to.
pub(super) struct NewRows {
    pub(super) document: DocumentKey,
    /// The row of each chunk, and whether it is a new one.
    chunks: Vec<(i64, bool)>,
    /// Rows of chunks that the document no longer has.
    pub(super) gone: Vec<i64>,
}

impl NewRows {
    /// Chunks that say what an old one said keep its row; the others get new ones, ascending.
    pub(super) async fn reserved(
        lease: &Lease<'_>,
        new: &NewDocument,
        mut old: HashMap<TextHash, Vec<i64>>,
        known: Option<DocumentKey>,
    ) -> Result<Self, StoreError> {
        let kept: Vec<_> =
            new.chunks.iter().map(|chunk| old.get_mut(&chunk.hash).and_then(Vec::pop)).collect();
        let missing = kept.iter().filter(|kept| kept.is_none()).count();
        let mut free = numbers(lease, "hindcast.chunks_id_seq", missing).await?.into_iter();
        let document = match known {
            Some(known) => known.0,
            None => one(numbers(lease, "hindcast.documents_key_seq", 1).await?.into_iter().next())?,
        };
        let row = |kept: Option<i64>| match kept {
            Some(kept) => Ok((kept, false)),
            None => one(free.next()).map(|new| (new, true)),
        };
        let chunks = kept.into_iter().map(row).collect::<Result<_, StoreError>>()?;
        Ok(Self { document: DocumentKey(document), chunks, gone: old.into_values().flatten().collect() })
    }
}

fn one(number: Option<i64>) -> Result<i64, StoreError> {
    number.ok_or_else(|| StoreError::Corrupt("a sequence gave fewer numbers than it was asked for".into()))
}

/// Numbers that nobody else gets, ascending.
async fn numbers(lease: &Lease<'_>, sequence: &str, count: usize) -> Result<Vec<i64>, StoreError> {
    if count == 0 {
        return Ok(Vec::new());
    }
    let next = format!("SELECT nextval('{sequence}') FROM generate_series(1, $1::bigint)");
    let rows = lease.rows(&next, &[&number(count as u64)]).await?;
    let mut numbers = rows.iter().map(|row| column(row, 0)).collect::<Result<Vec<_>, _>>()?;
    numbers.sort_unstable();
    Ok(numbers)
}

/// The rows of a document's chunks by what they hash to, the first in it last.
pub(super) async fn old_chunks(
    lease: &Lease<'_>,
    document: DocumentKey,
) -> Result<HashMap<TextHash, Vec<i64>>, StoreError> {
    let asked = "SELECT hash, id FROM hindcast.chunks WHERE document = $1 ORDER BY position DESC";
    let mut old: HashMap<_, Vec<_>> = HashMap::new();
    for row in lease.rows(asked, &[&document.0]).await? {
        old.entry(hash(&row, 0)?).or_default().push(column(&row, 1)?);
    }
    Ok(old)
}

/// Writes all chunks of a document, and the vectors that came with them.
pub(super) async fn write_chunks(
    lease: &Lease<'_>,
    new: &NewDocument,
    rows: &NewRows,
    generation: i64,
) -> Result<(), StoreError> {
    let all: Vec<_> = (0_i64..).zip(rows.chunks.iter().zip(&new.chunks)).collect();
    for batch in all.chunks(BATCH) {
        let of_kind = |is_new: bool| {
            let batch = batch.iter().filter(move |(_, ((_, new), _))| *new == is_new);
            batch.map(|(position, ((id, _), chunk))| (*position, *id, *chunk)).collect::<Vec<_>>()
        };
        insert_chunks(lease, new.collection, rows.document, &of_kind(true), generation).await?;
        move_chunks(lease, &of_kind(false)).await?;
        let vectors =
            batch.iter().filter_map(|(_, ((id, _), chunk))| Some((ChunkId(*id), chunk.vector.as_ref()?)));
        write_vectors(lease, vectors.collect(), generation).await?;
    }
    Ok(())
}

/// Places of chunks column by column, as one statement takes many.
struct Places {
    ids: Vec<i64>,
    positions: Vec<i64>,
    first_bytes: Vec<i64>,
    end_bytes: Vec<i64>,
    first_lines: Vec<i64>,
    last_lines: Vec<i64>,
    pages: Vec<Option<i64>>,
}

impl Places {
    fn of(chunks: &[(i64, i64, &NewChunk)]) -> Self {
        let column = |value: fn(&NewChunk) -> u64| {
            chunks.iter().map(|(_, _, chunk)| number(value(chunk))).collect::<Vec<_>>()
        };
        Self {
            ids: chunks.iter().map(|(_, id, _)| *id).collect(),
            positions: chunks.iter().map(|(position, _, _)| *position).collect(),
            first_bytes: column(|chunk| chunk.place.bytes.0),
            end_bytes: column(|chunk| chunk.place.bytes.1),
            first_lines: column(|chunk| chunk.place.lines.0),
            last_lines: column(|chunk| chunk.place.lines.1),
            pages: chunks.iter().map(|(_, _, chunk)| chunk.place.page.map(number)).collect(),
        }
    }
}

async fn insert_chunks(
    lease: &Lease<'_>,
    collection: CollectionKey,
    document: DocumentKey,
    chunks: &[(i64, i64, &NewChunk)],
    generation: i64,
) -> Result<(), StoreError> {
    if chunks.is_empty() {
        return Ok(());
    }
    let places = Places::of(chunks);
    let chunks = || chunks.iter().map(|(_, _, chunk)| *chunk);
    let hashes: Vec<_> = chunks().map(|chunk| chunk.hash.as_slice()).collect();
    let headings: Vec<_> = chunks().map(|chunk| kept(&chunk.headings)).collect();
    let texts: Vec<_> = chunks().map(|chunk| kept(&chunk.text)).collect();
    let bytes: Vec<_> = chunks().map(|chunk| number(chunk.text.len() as u64)).collect();
    let are_code: Vec<_> = chunks().map(|chunk| chunk.is_code).collect();
    let insert = "
        INSERT INTO hindcast.chunks (document, collection, generation, id, position, first_byte, end_byte, first_line,
            last_line, page, hash, headings, text, bytes, is_code)
        SELECT $1::bigint, $2::bigint, $3::bigint, new.* FROM unnest($4::bigint[], $5::bigint[], $6::bigint[], $7::bigint[],
            $8::bigint[], $9::bigint[], $10::bigint[], $11::bytea[], $12::text[], $13::text[], $14::bigint[], $15::bool[]) AS new";
    lease
        .execute(
            insert,
            &[
                &document.0,
                &collection.0,
                &generation,
                &places.ids,
                &places.positions,
                &places.first_bytes,
                &places.end_bytes,
                &places.first_lines,
                &places.last_lines,
                &places.pages,
                &hashes,
                &headings,
                &texts,
                &bytes,
                &are_code,
            ],
        )
        .await
        .map(drop)
}

/// Says where chunks stand that were there before.
async fn move_chunks(lease: &Lease<'_>, chunks: &[(i64, i64, &NewChunk)]) -> Result<(), StoreError> {
    if chunks.is_empty() {
        return Ok(());
    }
    let places = Places::of(chunks);
    let update = "
        UPDATE hindcast.chunks SET position = new.position, first_byte = new.first_byte, end_byte = new.end_byte,
            first_line = new.first_line, last_line = new.last_line, page = new.page
        FROM unnest($1::bigint[], $2::bigint[], $3::bigint[], $4::bigint[], $5::bigint[], $6::bigint[], $7::bigint[])
            AS new (id, position, first_byte, end_byte, first_line, last_line, page)
        WHERE chunks.id = new.id
        AND (chunks.position, chunks.first_byte, chunks.end_byte, chunks.first_line, chunks.last_line, chunks.page)
            IS DISTINCT FROM (new.position, new.first_byte, new.end_byte, new.first_line, new.last_line, new.page)";
    lease
        .execute(
            update,
            &[
                &places.ids,
                &places.positions,
                &places.first_bytes,
                &places.end_bytes,
                &places.first_lines,
                &places.last_lines,
                &places.pages,
            ],
        )
        .await
        .map(drop)
}

/// Writes vectors of chunks that are there; of others, none.
pub(super) async fn write_vectors(
    lease: &Lease<'_>,
    vectors: Vec<(ChunkId, &NewVector)>,
    generation: i64,
) -> Result<(), StoreError> {
    for batch in vectors.chunks(BATCH) {
        let chunks: Vec<_> = batch.iter().map(|(chunk, _)| chunk.0).collect();
        let models: Vec<_> = batch.iter().map(|(_, vector)| kept(&vector.model)).collect();
        let numbers: Vec<_> = batch.iter().map(|(_, vector)| bytes_of(&vector.numbers)).collect();
        let write = "
            INSERT INTO hindcast.vectors (chunk, model, generation, numbers)
            SELECT chunks.id, new.model, $1::bigint, new.numbers
            FROM unnest($2::bigint[], $3::text[], $4::bytea[]) AS new (chunk, model, numbers)
            JOIN hindcast.chunks ON chunks.id = new.chunk
            ON CONFLICT (chunk, model) DO UPDATE SET numbers = excluded.numbers, generation = excluded.generation";
        lease.execute(write, &[&generation, &chunks, &models, &numbers]).await?;
    }
    Ok(())
}

/// Removes chunks, and says to the indexes that they are gone.
pub(super) async fn bury_chunks(
    lease: &Lease<'_>,
    collection: CollectionKey,
    chunks: &[i64],
    generation: i64,
) -> Result<(), StoreError> {
    if chunks.is_empty() {
        return Ok(());
    }
    let bury = "
        WITH gone AS (DELETE FROM hindcast.chunks WHERE id = ANY($3::bigint[]) RETURNING id)
        INSERT INTO hindcast.removed_chunks (generation, collection, chunk) SELECT $1::bigint, $2::bigint, id FROM gone";
    lease.execute(bury, &[&generation, &collection.0, &chunks]).await.map(drop)
}

fn bytes_of(numbers: &[f32]) -> Vec<u8> {
    numbers.iter().flat_map(|number| number.to_le_bytes()).collect()
}
