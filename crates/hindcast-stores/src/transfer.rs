//! Moving keys, counts and the audit trail from one store to another, row by row.
//!
//! Rows go first, then keys, then what else is moved (the knowledge base, the license), and the sealed head last. No server starts on rows without a head, so none starts
//! on half a store. A move that was interrupted continues behind the last row that arrived.

use async_trait::async_trait;
use hindcast_core::{
    audit::{AuditKey, AuditRow, ChainEnd, ChainVerifier, SealedHead},
    identity::{KeyId, KeyRecord},
    store::{MetadataStore, StoreError},
};

/// Rows that are moved in one transaction.
const BATCH: usize = 1000;
/// How often a source that changed is read again before the move gives up.
const ROUNDS: usize = 3;

/// Why nothing was moved, or not all of it.
#[derive(Debug, thiserror::Error)]
pub enum TransferError {
    /// One of the stores failed.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The target has something that is not in the source. Chains cannot be merged.
    #[error(
        "the target has {0} · hint: move to an empty store, or go on with the one that was copied before"
    )]
    Occupied(String),
    /// The source was filled in part by a move that did not end.
    #[error("the source itself was filled in part · hint: finish the move there first")]
    HalfMoved,
    /// The source changed in every round.
    #[error("servers still write to the source · hint: stop them, then run the same command again")]
    StillWritten,
}

/// How often a key was used, as stores keep it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeyCount {
    pub(crate) key: KeyId,
    pub(crate) month: i64,
    pub(crate) month_used: i64,
    pub(crate) minute: i64,
    pub(crate) minute_used: i64,
    pub(crate) last_used_at: i64,
}

/// A store whose rows can be read and put as they are.
#[async_trait]
pub trait MovableStore: MetadataStore {
    /// All counts, by key.
    async fn counts(&self) -> Result<Vec<KeyCount>, StoreError>;

    /// Keeps a key and its count in place of those that are there, and removes the head.
    async fn put_key(&self, key: KeyRecord, count: Option<KeyCount>) -> Result<(), StoreError>;

    /// The last row of the trail, whether or not a head vouches for it.
    async fn last_row(&self) -> Result<Option<AuditRow>, StoreError>;

    /// Puts rows behind the last one, and removes the head.
    async fn put_rows(&self, rows: Vec<AuditRow>) -> Result<(), StoreError>;

    /// Removes a trail that has its first row only, and the head.
    async fn remove_opening(&self) -> Result<(), StoreError>;

    /// The head as it is kept.
    async fn sealed_head(&self) -> Result<Option<SealedHead>, StoreError>;

    /// Puts the head.
    async fn put_head(&self, head: SealedHead) -> Result<(), StoreError>;
}

/// What was moved, or was there already.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Moved {
    /// Keys, with their counts.
    pub keys: u64,
    /// Rows of the audit trail.
    pub rows: u64,
    /// Rows that an earlier try had brought.
    pub rows_there: u64,
}

/// Copies all of `from` to `to`, and compares. Awaits `rest`, what else is moved, before the target becomes usable. `tell` hears how many rows of how
/// many are there. Both must be sealed with `key`. What it reports as moved is durable.
pub async fn transfer(
    from: &dyn MovableStore,
    to: &dyn MovableStore,
    key: &AuditKey,
    rest: impl Future<Output = Result<(), TransferError>> + Send,
    tell: &mut (dyn FnMut(u64, u64) + Send),
) -> Result<Moved, TransferError> {
    from.settle_audit().await?;
    // Rows that a server of the target left in its journal count as well.
    to.settle_audit().await?;
    let mut head = head_of(from, key).await?;
    let begin = where_to_go_on(from, to, key).await?;
    let mut end = begin;
    for _ in 0..ROUNDS {
        end = put_rows(from, to, end, head.seq, tell).await?;
        compare_rows(from, to, &head).await?;
        put_keys(from, to).await?;
        // Read both again: neither has changed meanwhile, and all keys arrived as they are.
        let now = head_of(from, key).await?;
        if now == head && put_keys(from, to).await? == 0 {
            rest.await?;
            to.put_head(head).await?;
            let keys = from.list_keys().await?.len() as u64;
            return Ok(Moved { keys, rows: end.seq, rows_there: begin.seq });
        }
        head = now;
    }
    Err(TransferError::StillWritten)
}

async fn head_of(store: &dyn MovableStore, key: &AuditKey) -> Result<SealedHead, StoreError> {
    let head = store.sealed_head().await?.ok_or_else(|| {
        StoreError::Corrupt(
            "the source's audit trail has no sealed head · hint: `hindcast audit verify` tells more".into(),
        )
    })?;
    match head.holds(key) {
        true => Ok(head),
        false => Err(StoreError::Corrupt(
            "the source's audit trail was not sealed with this data folder's audit.key · hint: restore that file".into(),
        )),
    }
}

/// The last row that an earlier move brought. Refuses a target with a key or a row that the source does not have.
async fn where_to_go_on(
    from: &dyn MovableStore,
    to: &dyn MovableStore,
    key: &AuditKey,
) -> Result<ChainEnd, TransferError> {
    let (ours, there) = (from.list_keys().await?, to.list_keys().await?);
    let is_ours = |key: &KeyRecord| ours.iter().any(|known| known.id == key.id);
    if let Some(key) = there.iter().find(|key| !is_ours(key)) {
        return Err(TransferError::Occupied(format!("a key `{}` that the source does not have", key.id)));
    }
    let Some(last) = to.last_row().await? else { return Ok(ChainEnd::GENESIS) };
    let same = from.audit_rows(last.seq.saturating_sub(1), 1).await?;
    if same.first() == Some(&last) {
        return Ok((&last).into());
    }
    // A command that only looked has opened a trail, and nothing has happened since.
    let is_unused = there.is_empty() && last.seq == 1 && last.record.is_opening();
    if is_unused && to.sealed_head().await?.is_some_and(|head| head.holds(key)) {
        to.remove_opening().await?;
        return Ok(ChainEnd::GENESIS);
    }
    Err(TransferError::Occupied("an audit trail of its own".into()))
}

/// Puts keys and counts that differ; returns how many.
async fn put_keys(from: &dyn MovableStore, to: &dyn MovableStore) -> Result<u64, StoreError> {
    let (keys, counts) = (from.list_keys().await?, from.counts().await?);
    let (there, counted) = (to.list_keys().await?, to.counts().await?);
    let mut put = 0;
    for key in keys {
        let count = counts.iter().find(|count| count.key == key.id).cloned();
        let has_key = there.iter().any(|known| is_same(known, &key));
        let has_count = counted.iter().find(|known| known.key == key.id) == count.as_ref();
        if !has_key || !has_count {
            to.put_key(key, count).await?;
            put += 1;
        }
    }
    Ok(put)
}

/// Records have no equality, so that nobody compares secrets by accident. Here the comparison is meant.
fn is_same(one: &KeyRecord, other: &KeyRecord) -> bool {
    one.secret == other.secret && format!("{one:?}") == format!("{other:?}")
}

async fn put_rows(
    from: &dyn MovableStore,
    to: &dyn MovableStore,
    mut end: ChainEnd,
    last: u64,
    tell: &mut (dyn FnMut(u64, u64) + Send),
) -> Result<ChainEnd, StoreError> {
    while end.seq < last {
        let wanted = usize::try_from(last - end.seq).unwrap_or(BATCH).min(BATCH);
        let rows = from.audit_rows(end.seq, wanted).await?;
        let begun = end;
        for row in &rows {
            if !end.precedes(row) {
                return Err(broken(row.seq));
            }
            end = row.into();
        }
        if end == begun {
            return Err(broken(end.seq + 1));
        }
        to.put_rows(rows).await?;
        tell(end.seq, last);
    }
    Ok(end)
}

fn broken(row: u64) -> StoreError {
    StoreError::Corrupt(format!(
        "row {row} of the source's audit trail does not follow the one before · hint: `hindcast audit verify` tells more"
    ))
}

/// Compares every row of both, and checks the whole chain against the head.
async fn compare_rows(
    from: &dyn MovableStore,
    to: &dyn MovableStore,
    head: &SealedHead,
) -> Result<(), StoreError> {
    let mut verifier = ChainVerifier::default();
    let mut end = ChainEnd::GENESIS;
    while end.seq < head.seq {
        let wanted = usize::try_from(head.seq - end.seq).unwrap_or(BATCH).min(BATCH);
        let (rows, copies) = (from.audit_rows(end.seq, wanted).await?, to.audit_rows(end.seq, wanted).await?);
        if rows.is_empty() || rows != copies {
            let differs = rows.iter().zip(&copies).find(|(row, copy)| row != copy);
            let row = differs.map_or(end.seq + 1 + rows.len().min(copies.len()) as u64, |(row, _)| row.seq);
            return Err(StoreError::Corrupt(format!(
                "row {row} did not arrive as it was · hint: empty the target and try again"
            )));
        }
        for copy in &copies {
            verifier.feed(copy).map_err(|bad| StoreError::Corrupt(bad.to_string()))?;
            end = copy.into();
        }
    }
    match end.hash == head.hash && end.seq == head.seq {
        true => Ok(()),
        false => Err(broken(head.seq)),
    }
}
