//! How much of the server one owner of keys has at a time, so that there is always some left for others.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use hindcast_core::identity::{Caller, KeyId, PrincipalId};

/// Requests that one owner may have under way.
pub(super) const MOST_REQUESTS: usize = 512;
/// Event streams that one owner may have open…
pub(super) const MOST_STREAMS: usize = 256;
/// …and one of its keys.
pub(super) const MOST_STREAMS_OF_KEY: usize = 128;
/// Bodies of the largest size that one owner may be sending…
const MOST_BODIES: usize = 4;
/// …and all together.
const MOST_BODIES_OF_ALL: usize = 32;

/// Everybody's share.
#[derive(Clone)]
pub(super) struct Crowd {
    shares: Arc<Mutex<Shares>>,
    largest_body: usize,
}

#[derive(Default)]
struct Shares {
    owners: HashMap<PrincipalId, Share>,
    streams_of_keys: HashMap<KeyId, usize>,
    bytes: usize,
}

#[derive(Default)]
struct Share {
    requests: usize,
    streams: usize,
    bytes: usize,
}

/// What an owner has too much of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct TooMuch {
    pub(super) of: &'static str,
    pub(super) limit: usize,
    /// Whether others take it, not this owner.
    pub(super) is_of_others: bool,
}

/// A request that counts, with what it takes, until it is dropped.
pub(super) struct Presence {
    crowd: Crowd,
    owner: PrincipalId,
    key: Option<KeyId>,
    is_stream: bool,
    bytes: usize,
}

impl Crowd {
    pub(super) fn new(largest_body: usize) -> Self {
        Self { shares: Arc::default(), largest_body }
    }

    /// Counts a request in.
    pub(super) fn enter(&self, caller: &Caller) -> Result<Presence, TooMuch> {
        let mut shares = self.shares();
        let share = shares.owners.entry(caller.principal.clone()).or_default();
        if share.requests >= MOST_REQUESTS {
            return Err(TooMuch { of: "requests under way", limit: MOST_REQUESTS, is_of_others: false });
        }
        share.requests += 1;
        let (owner, key) = (caller.principal.clone(), caller.key.as_ref().map(|key| key.id.clone()));
        Ok(Presence { crowd: self.clone(), owner, key, is_stream: false, bytes: 0 })
    }

    fn shares(&self) -> MutexGuard<'_, Shares> {
        self.shares.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Presence {
    /// Counts it as an event stream instead, which may stay for ever.
    pub(super) fn become_stream(&mut self) -> Result<(), TooMuch> {
        let mut shares = self.crowd.shares();
        let too_many = |limit| Err(TooMuch { of: "open event streams", limit, is_of_others: false });
        // Looked at before anything is counted, so that a refusal leaves nothing behind.
        let of_owner = shares.owners.get(&self.owner).map_or(0, |share| share.streams);
        let of_key = self.key.as_ref().and_then(|key| shares.streams_of_keys.get(key)).copied();
        if of_owner >= MOST_STREAMS {
            return too_many(MOST_STREAMS);
        }
        if of_key.unwrap_or_default() >= MOST_STREAMS_OF_KEY {
            return too_many(MOST_STREAMS_OF_KEY);
        }
        if let Some(key) = self.key.clone() {
            *shares.streams_of_keys.entry(key).or_default() += 1;
        }
        let share = shares.owners.entry(self.owner.clone()).or_default();
        share.streams += 1;
        share.requests -= 1;
        self.is_stream = true;
        Ok(())
    }

    /// Counts bytes of its body, which it keeps until it is dropped.
    pub(super) fn take_bytes(&mut self, bytes: usize) -> Result<(), TooMuch> {
        let mut shares = self.crowd.shares();
        let (most, most_of_all) =
            (MOST_BODIES * self.crowd.largest_body, MOST_BODIES_OF_ALL * self.crowd.largest_body);
        let all = shares.bytes;
        let share = shares.owners.entry(self.owner.clone()).or_default();
        let too_many = |limit, is_of_others| TooMuch { of: "bytes of bodies", limit, is_of_others };
        if share.bytes + bytes > most {
            return Err(too_many(most, false));
        }
        if all + bytes > most_of_all {
            return Err(too_many(most_of_all, true));
        }
        share.bytes += bytes;
        shares.bytes += bytes;
        self.bytes += bytes;
        Ok(())
    }
}

impl Drop for Presence {
    fn drop(&mut self) {
        let mut shares = self.crowd.shares();
        shares.bytes -= self.bytes;
        if let Some(key) = self.key.as_ref().filter(|_| self.is_stream)
            && let Some(streams) = shares.streams_of_keys.get_mut(key)
        {
            *streams -= 1;
            if *streams == 0 {
                shares.streams_of_keys.remove(key);
            }
        }
        if let Some(share) = shares.owners.get_mut(&self.owner) {
            share.bytes -= self.bytes;
            *(if self.is_stream { &mut share.streams } else { &mut share.requests }) -= 1;
            if share.requests == 0 && share.streams == 0 {
                shares.owners.remove(&self.owner);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn owner(name: &str) -> Caller {
        Caller { principal: PrincipalId(name.into()), ..Caller::local() }
    }

    #[test]
    fn what_one_owner_has_too_much_of_another_still_gets() {
        let crowd = Crowd::new(1000);
        let (greedy, other) = (owner("greedy"), owner("other"));
        let mut requests: Vec<_> = (0..MOST_REQUESTS).map(|_| crowd.enter(&greedy).unwrap()).collect();
        assert_eq!(crowd.enter(&greedy).err().unwrap().limit, MOST_REQUESTS);
        assert!(crowd.enter(&other).is_ok());
        for presence in requests.iter_mut().take(MOST_STREAMS) {
            presence.become_stream().unwrap();
        }
        let mut one_more = crowd.enter(&greedy).unwrap();
        assert_eq!(one_more.become_stream().unwrap_err().limit, MOST_STREAMS);
        one_more.key = Some(KeyId("refused".into()));
        assert!(one_more.become_stream().is_err());
        assert!(crowd.shares().streams_of_keys.is_empty(), "a refusal leaves nothing behind");
        requests.clear();
        assert!(one_more.become_stream().is_ok(), "there is room again");
        drop(one_more);
        assert!(crowd.shares().streams_of_keys.is_empty());
    }

    #[test]
    fn bytes_are_counted_for_each_owner_and_for_all_and_given_back() {
        let crowd = Crowd::new(1000);
        let mut presence = crowd.enter(&owner("greedy")).unwrap();
        presence.take_bytes(4000).unwrap();
        assert!(!presence.take_bytes(1).unwrap_err().is_of_others);
        let mut others: Vec<_> = (0..7).map(|n| crowd.enter(&owner(&n.to_string())).unwrap()).collect();
        for other in &mut others {
            other.take_bytes(4000).unwrap();
        }
        assert!(crowd.enter(&owner("late")).unwrap().take_bytes(1).unwrap_err().is_of_others);
        drop(presence);
        assert!(crowd.enter(&owner("late")).unwrap().take_bytes(4000).is_ok());
        drop(others);
        assert!(crowd.shares().owners.is_empty());
    }
}
