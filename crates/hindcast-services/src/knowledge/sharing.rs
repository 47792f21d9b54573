//! Keeping vectors on a server at the truth, together with other processes that do the same.
//!
//! A marker in the server says up to which generation of the truth everything is there. Whoever writes a document uploads its
//! vectors and moves the marker on; the others only do so when nobody else has for a while. Uploads and removals can be repeated,
//! so it does no harm when two processes do the same. Only a late upload could bring back a chunk that another process has
//! removed: so each process removes whatever went since it last looked itself, whatever the marker says.

use std::{
    collections::BTreeSet,
    hash::{BuildHasher, RandomState},
    sync::{Arc, atomic::Ordering},
    time::Duration,
};

use hindcast_core::{
    knowledge::{ChunkChanges, CollectionKey, Generation, IndexError},
    store::StoreError,
};

use super::{
    blocking,
    indexing::{BATCH, Indexing},
    meaning::{Meaning, Standing, is_away, words_only},
};
use crate::Failure;

/// Whoever wrote something brings its vectors to the server. If that has not happened for so long, another process does.
const GRACE: Duration = Duration::from_secs(3);

/// Whether this process uploads what a server lacks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Uploading {
    /// At once: this process has written it, or nobody else will.
    AtOnce,
    /// When no other process has for a while.
    WhenNobodyDoes,
    /// No: another task of this process does.
    Never,
}

/// Why the vectors on a server are not at the truth.
#[derive(Debug)]
pub(super) enum Trouble {
    /// The index failed.
    Index(IndexError),
    /// Something else did.
    Other(Failure),
}

impl From<IndexError> for Trouble {
    fn from(error: IndexError) -> Self {
        Self::Index(error)
    }
}

impl From<Failure> for Trouble {
    fn from(failure: Failure) -> Self {
        Self::Other(failure)
    }
}

impl From<StoreError> for Trouble {
    fn from(error: StoreError) -> Self {
        Self::Other(error.into())
    }
}

impl From<Trouble> for Failure {
    fn from(trouble: Trouble) -> Self {
        match trouble {
            Trouble::Index(error) => error.into(),
            Trouble::Other(failure) => failure,
        }
    }
}

impl Indexing {
    /// The models whose vectors are on a server.
    pub(super) fn shared_meanings(&self) -> Vec<Arc<Meaning>> {
        self.meanings().into_iter().filter(|meaning| meaning.is_shared()).collect()
    }

    /// Whether whoever only reads uploads what a server lacks: not where a task of this process does.
    pub(super) fn uploading_of_readers(&self) -> Uploading {
        match self.keeps_shared.load(Ordering::SeqCst) {
            true => Uploading::Never,
            false => Uploading::AtOnce,
        }
    }

    /// Brings the vectors on servers to the truth. Asks the servers what they have, even if this process believes to know.
    pub(super) async fn look_at_shared(&self, uploading: Uploading) -> Result<(), Failure> {
        let meanings = self.shared_meanings();
        if meanings.is_empty() || self.store.generation().await? == Generation::default() {
            return Ok(());
        }
        for meaning in meanings {
            let _turn = meaning.turn.lock().await;
            self.settle(&meaning, uploading).await?;
        }
        Ok(())
    }

    /// Brings the vectors of one model to the truth. Does not wait while another task fills them in.
    pub(super) async fn catch_up_shared(
        &self,
        meaning: &Meaning,
        now: Generation,
        uploading: Uploading,
    ) -> Result<(), Failure> {
        let standing = meaning.standing();
        if meaning.seen() == Some(now) && standing == Standing::Good {
            return Ok(());
        }
        let is_left_to_others = match (uploading, standing) {
            (Uploading::Never, Standing::Away(_)) => return Ok(()),
            (Uploading::Never, _) | (_, Standing::Filling { .. }) => true,
            _ => false,
        };
        let _turn = match meaning.turn.try_lock() {
            Ok(turn) => turn,
            Err(_) if is_left_to_others => return Ok(()),
            Err(_) => meaning.turn.lock().await,
        };
        self.settle(meaning, uploading).await
    }

    /// The same by whoever has the turn.
    async fn settle(&self, meaning: &Meaning, uploading: Uploading) -> Result<(), Failure> {
        match self.share(meaning, uploading).await {
            Err(Trouble::Index(error)) if is_away(&error) => {
                meaning.note_standing(Standing::Away(error));
                Ok(())
            }
            done => Ok(done?),
        }
    }

    async fn share(&self, meaning: &Meaning, uploading: Uploading) -> Result<(), Trouble> {
        let vectors = meaning.vectors.clone();
        let kept = blocking(move || vectors.generation()).await??;
        // Read after the marker, which another process may have moved on together with the truth.
        let now = self.store.generation().await?;
        // Without a marker the vectors were lost; one that is ahead is of a truth that was since restored.
        let Some(kept) = kept.filter(|kept| *kept <= now) else {
            return match uploading {
                Uploading::Never => {
                    meaning.note_standing(Standing::Filling { done: 0, total: 0 });
                    Ok(())
                }
                _ => self.fill_to(meaning, now).await,
            };
        };
        let own = meaning.seen().unwrap_or(kept).min(kept);
        if own == now {
            meaning.note_committed(now);
            meaning.note_caught_up();
            return Ok(());
        }
        if !meaning.is_our_turn(kept, now, uploading) {
            return Ok(());
        }
        match self.changes_since(meaning, own, kept).await? {
            Some(changes) => {
                let held = self.held_collections(meaning).await?;
                self.upload(meaning, held, changes, Existing::Replaced).await?;
                self.note_uploaded(meaning, (kept < now).then_some(now), now).await
            }
            None => self.fill_to(meaning, now).await,
        }
    }

    /// What went after `own`, and what came after `kept`; none when that is too long ago to tell.
    async fn changes_since(
        &self,
        meaning: &Meaning,
        own: Generation,
        kept: Generation,
    ) -> Result<Option<ChunkChanges>, Trouble> {
        let model = meaning.embedder.model();
        let Some(mut changes) = self.store.vector_changes(model, own).await? else { return Ok(None) };
        if own < kept {
            let Some(later) = self.store.vector_changes(model, kept).await? else { return Ok(None) };
            changes.added = later.added;
        }
        Ok(Some(changes))
    }

    /// Compares the vectors with the truth, and fills in or removes what differs.
    pub(super) async fn fill(&self, meaning: &Meaning) -> Result<(), Trouble> {
        let _turn = meaning.turn.lock().await;
        let now = self.store.generation().await?;
        self.fill_to(meaning, now).await
    }

    /// The same. Several servers share the work: each begins at another place, and leaves out what is there meanwhile.
    async fn fill_to(&self, meaning: &Meaning, now: Generation) -> Result<(), Trouble> {
        meaning.note_standing(Standing::Filling { done: 0, total: 0 });
        let comparison = self.compare(meaning).await?;
        let (mut changes, total) = (comparison.changes, comparison.total);
        let missing = changes.added.len();
        meaning.note_standing(Standing::Filling { done: total.saturating_sub(missing as u64), total });
        if missing > 0 {
            tracing::info!(missing, total, "vectors are filled in");
            let start = usize::try_from(RandomState::new().hash_one(missing)).unwrap_or_default() % missing;
            changes.added.rotate_left(start / BATCH * BATCH);
        }
        let vectors = meaning.vectors.clone();
        let held = blocking(move || vectors.collections()).await??;
        self.upload(meaning, held, changes, Existing::LeftOut).await?;
        self.note_uploaded(meaning, Some(now), now).await
    }

    /// The collections that a server may have something of. Asked once: from then on they are those that the truth had.
    async fn held_collections(&self, meaning: &Meaning) -> Result<Vec<CollectionKey>, Trouble> {
        if let Some(known) = meaning.known_collections() {
            return Ok(known.into_iter().collect());
        }
        let vectors = meaning.vectors.clone();
        Ok(blocking(move || vectors.collections()).await??)
    }

    async fn upload(
        &self,
        meaning: &Meaning,
        held: Vec<CollectionKey>,
        changes: ChunkChanges,
        existing: Existing,
    ) -> Result<(), Trouble> {
        let truth: BTreeSet<_> = self.store.collection_keys().await?.into_iter().collect();
        let orphaned = held.into_iter().filter(|key| !truth.contains(key)).collect();
        self.remove_vectors(meaning, orphaned, &changes).await?;
        for batch in changes.added.chunks(BATCH) {
            let mut ids: Vec<_> = batch.iter().map(|(_, chunk)| *chunk).collect();
            if existing == Existing::LeftOut {
                let vectors = meaning.vectors.clone();
                ids = blocking(move || vectors.absent(&ids)).await??;
            }
            self.add_vectors(meaning, &ids).await?;
            meaning.note_filled(batch.len() as u64);
        }
        meaning.note_collections(truth);
        Ok(())
    }

    /// Notes that the server has everything up to a generation, there as well unless another process has done so.
    async fn note_uploaded(
        &self,
        meaning: &Meaning,
        commit: Option<Generation>,
        now: Generation,
    ) -> Result<(), Trouble> {
        if let Some(generation) = commit {
            let vectors = meaning.vectors.clone();
            blocking(move || vectors.commit(generation)).await??;
        }
        meaning.note_committed(now);
        meaning.note_caught_up();
        Ok(())
    }

    /// What a person should know about vectors on servers after something was written.
    pub(super) fn notice_of_shared(&self) -> Option<String> {
        self.shared_meanings().iter().find_map(|meaning| match meaning.standing() {
            Standing::Away(error) => Some(words_only(&error)),
            Standing::Good | Standing::Filling { .. } => None,
        })
    }
}

/// What becomes of vectors that are on the server already.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Existing {
    Replaced,
    LeftOut,
}

impl Meaning {
    /// Whether this process uploads what the server lacks: what it has at `kept`, and the truth at `now`.
    fn is_our_turn(&self, kept: Generation, now: Generation, uploading: Uploading) -> bool {
        self.note_answer();
        match uploading {
            Uploading::AtOnce => true,
            Uploading::WhenNobodyDoes => kept == now || self.unmoved_for(kept) >= GRACE,
            Uploading::Never => {
                if self.seen().is_none() {
                    self.note_committed(kept);
                }
                false
            }
        }
    }
}
