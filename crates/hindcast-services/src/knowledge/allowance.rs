//! How many bytes an owner's documents and vectors may take.

use std::{
    collections::HashMap,
    sync::{Mutex, PoisonError},
};

use hindcast_core::{
    Timestamp,
    identity::PrincipalId,
    knowledge::{Collection, Document},
};
use jiff::SignedDuration;

use super::{KnowledgeService, preparing::Prepared};
use crate::{Failure, FailureKind, disk::check_disk};

/// How long a count is trusted. Other servers write, too, and counting goes through all rows of an owner.
const TRUSTED: SignedDuration = SignedDuration::from_secs(30);

/// What each owner was last seen to have.
#[derive(Default)]
pub(super) struct Allowance {
    counted: Mutex<HashMap<PrincipalId, Counted>>,
}

#[derive(Debug, Clone, Copy)]
struct Counted {
    bytes: u64,
    at: Timestamp,
}

impl Allowance {
    fn known(&self, owner: &PrincipalId, now: Timestamp) -> Option<u64> {
        let mut counted = self.counted.lock().unwrap_or_else(PoisonError::into_inner);
        counted.retain(|_, counted| now.duration_since(counted.at) < TRUSTED);
        counted.get(owner).map(|counted| counted.bytes)
    }

    fn set(&self, owner: &PrincipalId, bytes: u64, at: Timestamp) {
        let mut counted = self.counted.lock().unwrap_or_else(PoisonError::into_inner);
        counted.insert(owner.clone(), Counted { bytes, at });
    }

    /// Adds a document to what is known, until it is counted again.
    fn grow(&self, owner: &PrincipalId, less: u64, more: u64) {
        let mut counted = self.counted.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(counted) = counted.get_mut(owner) {
            counted.bytes = counted.bytes.saturating_sub(less).saturating_add(more);
        }
    }

    /// Forgets a count: something was removed.
    pub(super) fn forget(&self, owner: &PrincipalId) {
        self.counted.lock().unwrap_or_else(PoisonError::into_inner).remove(owner);
    }
}

impl KnowledgeService {
    /// Makes room for a document on the disk and in the allowance of whoever made the collection, or says why there is none. The
    /// local user has as much as the disk.
    pub(super) async fn take_room(
        &self,
        collection: &Collection,
        asker: &PrincipalId,
        known: Option<&Document>,
        prepared: &Prepared,
    ) -> Result<(), Failure> {
        let owner = &collection.maker;
        let vector = self.embedder.dimension() as u64 * 4;
        let texts: usize = prepared.chunks.iter().map(|chunk| chunk.text.len()).sum();
        let served = prepared.extracted.text.as_ref().map_or(0, String::len);
        let more = (prepared.original.len() + texts + served) as u64 + prepared.chunks.len() as u64 * vector;
        if let Some(disk) = &self.policy.disk {
            check_disk(disk, more)?;
        }
        if *owner == PrincipalId::local() {
            return Ok(());
        }
        let less = known.map_or(0, |known| 2 * known.size + known.chunks * vector);
        let used = self.used_by(owner).await?;
        // What does not grow always fits, so that a full collection can still be changed.
        if more > less && used.saturating_sub(less).saturating_add(more) > self.policy.owner_bytes {
            // What the owner has elsewhere is nobody else's business.
            return Err(match asker == owner {
                true => self.no_room(owner, used, more).await,
                false => Failure::new(
                    FailureKind::QuotaExceeded,
                    format!("whoever made the shared collection `{}` has no room left", collection.id),
                )
                .hint("ask its owner to remove documents, or add to a collection of your own"),
            });
        }
        self.allowance.grow(owner, less, more);
        Ok(())
    }

    /// The bytes of an owner's documents, the texts made of them, passages and vectors.
    async fn used_by(&self, owner: &PrincipalId) -> Result<u64, Failure> {
        let now = self.clock.now();
        if let Some(bytes) = self.allowance.known(owner, now) {
            return Ok(bytes);
        }
        let mut bytes = 0;
        for collection in self.collections_of(owner).await? {
            let storage = self.store.storage(collection.key, self.serving_model(&collection)).await?;
            bytes += storage.original_bytes + storage.text_bytes + storage.chunk_bytes + storage.vector_bytes;
        }
        self.allowance.set(owner, bytes, now);
        Ok(bytes)
    }

    async fn collections_of(&self, owner: &PrincipalId) -> Result<Vec<Collection>, Failure> {
        let mut own = self.store.collections(Some(owner.clone())).await?;
        own.retain(|collection| collection.maker == *owner);
        Ok(own)
    }

    async fn no_room(&self, owner: &PrincipalId, used: u64, more: u64) -> Failure {
        let limit = self.policy.owner_bytes;
        let mut own = self.collections_of(owner).await.unwrap_or_default();
        own.retain(|collection| collection.chunks > 0);
        own.sort_by_key(|collection| std::cmp::Reverse(collection.chunks));
        let largest: Vec<_> = own
            .iter()
            .take(3)
            .map(|collection| format!("`{}` ({} passages)", collection.id, collection.chunks))
            .collect();
        let hint = match largest.is_empty() {
            true => "add something smaller, or ask the operator to raise `knowledge.owner_bytes`".to_owned(),
            false => format!(
                "remove documents or collections with `knowledge/remove`; the largest are {}",
                largest.join(", ")
            ),
        };
        let details = format!(
            "documents, passages and vectors take {used} bytes, and this one would add {more}: {limit} are allowed"
        );
        Failure::new(FailureKind::QuotaExceeded, details).hint(hint).fact("limit", limit).fact("used", used)
    }
}
