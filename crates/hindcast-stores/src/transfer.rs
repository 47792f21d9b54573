//! Moving keys, counts and the audit trail from one store to another, row by row.
//!
//! Until the last row has arrived and was compared, the trail in the target has no sealed head, and no server starts on it. What
//! was begun is gone on with: rows that are there are passed over.

use async_trait::async_trait;
use hindcast_core::{
    audit::{AuditKey, AuditRow, ChainEnd, ChainVerifier, SealedHead},
    identity::{KeyId, KeyRecord},
    store::{MetadataStore, StoreError},
};

/// Rows that are moved in one transaction.
const BATCH: usize = 1000;
/// How often rows that came meanwhile are fetched, before somebody must stop writing them.
const ROUNDS: usize = 3;

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

    /// Keeps a key and its count, in the place of those that are there.
    async fn put_key(&self, key: KeyRecord, count: Option<KeyCount>) -> Result<(), StoreError>;

    /// The last row of the trail, whether or not a head vouches for it.
    async fn last_row(&self) -> Result<Option<AuditRow>, StoreError>;

    /// Puts rows behind the last one and takes the head away.
    async fn put_rows(&self, rows: Vec<AuditRow>) -> Result<(), StoreError>;

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

/// Copies all of `from` to `to`, and compares. `tell` hears how many rows of how many are there. Both must be sealed with `key`.
pub async fn transfer(
    from: &dyn MovableStore,
    to: &dyn MovableStore,
    key: &AuditKey,
    tell: &mut (dyn FnMut(u64, u64) + Send),
) -> Result<Moved, StoreError> {
    from.settle_audit().await?;
    let head = head_of(from, key).await?;
    let begin = where_to_go_on(from, to).await?;
    put_keys(from, to).await?;
    let mut end = begin;
    let mut head = head;
    for _ in 0..ROUNDS {
        end = put_rows(from, to, end, head.seq, tell).await?;
        compare_rows(from, to, &head).await?;
        let now = head_of(from, key).await?;
        if now == head && put_keys(from, to).await? == 0 {
            to.put_head(head).await?;
            let keys = from.list_keys().await?.len() as u64;
            return Ok(Moved { keys, rows: end.seq, rows_there: begin.seq });
        }
        head = now;
    }
    Err(StoreError::Changed(
        "the store that is moved, which servers still write to: stop them first; it".into(),
    ))
}

async fn head_of(store: &dyn MovableStore, key: &AuditKey) -> Result<SealedHead, StoreError> {
    let head = store.sealed_head().await?.ok_or_else(|| {
        StoreError::Corrupt(
            "the trail that is to be moved has no sealed head · hint: `hindcast audit verify` tells more"
                .into(),
        )
    })?;
    match head.holds(key) {
        true => Ok(head),
        false => Err(StoreError::Corrupt(
            "the trail that is to be moved was not sealed with this data folder's audit.key · hint: restore that file".into(),
        )),
    }
}

/// The end of what an earlier try brought. A target with something of its own is refused: chains cannot be merged.
async fn where_to_go_on(from: &dyn MovableStore, to: &dyn MovableStore) -> Result<ChainEnd, StoreError> {
    let own = |what: String| {
        StoreError::Exists(format!("{what} in the target, which must be empty or an earlier copy: it"))
    };
    let ours = from.list_keys().await?;
    let is_ours = |key: &KeyRecord| ours.iter().any(|known| known.id == key.id);
    if let Some(key) = to.list_keys().await?.iter().find(|key| !is_ours(key)) {
        return Err(own(format!("a key `{}` of its own", key.id)));
    }
    let Some(last) = to.last_row().await? else { return Ok(ChainEnd::GENESIS) };
    let same = from.audit_rows(last.seq.saturating_sub(1), 1).await?;
    if same.first() != Some(&last) {
        return Err(own("an audit trail of its own".into()));
    }
    Ok((&last).into())
}

/// Puts keys and counts that differ; gives how many.
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

/// Records have no equality, so that nobody compares secrets by accident; here it is meant.
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
        "row {row} of the trail that is moved does not follow the one before · hint: `hindcast audit verify` tells more"
    ))
}

/// Reads every row in both, and holds the whole chain against the head.
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
