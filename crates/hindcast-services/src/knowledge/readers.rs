//! How many documents are read at once: a reader may take gigabytes.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, PoisonError, Weak},
};

use hindcast_core::identity::PrincipalId;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// So many readers work at once.
const MOST: usize = 4;

/// So many of them work for one owner. Those who wait take turns: an owner has no more than these in the queue of all.
const MOST_OF_OWNER: usize = 2;

/// The places of readers.
pub(super) struct Readers {
    all: Arc<Semaphore>,
    of_owners: Mutex<HashMap<PrincipalId, Weak<Semaphore>>>,
}

/// Allows one reader to work until it is dropped.
pub(super) struct ReaderPlace {
    _of_owner: Option<OwnedSemaphorePermit>,
    _of_all: Option<OwnedSemaphorePermit>,
}

impl Default for Readers {
    fn default() -> Self {
        Self { all: Arc::new(Semaphore::new(MOST)), of_owners: Mutex::default() }
    }
}

impl Readers {
    /// Waits until a reader may work for an owner.
    pub(super) async fn place(&self, owner: &PrincipalId) -> ReaderPlace {
        // Nobody closes them, so there is always a permit in the end.
        let of_owner = self.of(owner).acquire_owned().await.ok();
        let of_all = self.all.clone().acquire_owned().await.ok();
        ReaderPlace { _of_owner: of_owner, _of_all: of_all }
    }

    fn of(&self, owner: &PrincipalId) -> Arc<Semaphore> {
        let mut owners = self.of_owners.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = owners.get(owner).and_then(Weak::upgrade) {
            return known;
        }
        owners.retain(|_, places| places.strong_count() > 0);
        let places = Arc::new(Semaphore::new(MOST_OF_OWNER));
        owners.insert(owner.clone(), Arc::downgrade(&places));
        places
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[tokio::test]
    async fn an_owner_with_many_documents_leaves_places_to_others() {
        let readers = Readers::default();
        let place = async |owner: &str| {
            let owner = PrincipalId(owner.into());
            tokio::time::timeout(Duration::ZERO, readers.place(&owner)).await.ok()
        };
        let (first, second) = (place("a").await, place("a").await);
        assert!(first.is_some() && second.is_some() && place("a").await.is_none());
        let others = [place("b").await, place("c").await];
        assert!(others.iter().all(Option::is_some), "they do not wait for the first");
        assert!(place("d").await.is_none(), "four work at once");
        drop(first);
        assert!(place("d").await.is_some());
        assert!(place("a").await.is_some());
        drop((second, others));
        assert!(place("e").await.is_some());
        assert_eq!(readers.of_owners.lock().unwrap().len(), 1, "owners who do not read are forgotten");
    }
}
