//! Whose a protocol session is.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, PoisonError},
};

use hindcast_core::identity::{Caller, PrincipalId, ScopeSet};
use rmcp::transport::streamable_http_server::session::{SessionManager as _, local::LocalSessionManager};

/// More sessions than this at once are refused to one principal.
pub(super) const MOST_PER_PRINCIPAL: usize = 256;

/// Remembers the owner of each session. Sessions that ended are swept out now and then.
pub(super) struct Sessions {
    manager: Arc<LocalSessionManager>,
    owners: Mutex<Owners>,
}

#[derive(Default)]
struct Owners {
    by_session: HashMap<Arc<str>, Owner>,
    sweep_at: usize,
}

/// Who opened a session, and what they may do: a stream shows all that was done in it.
#[derive(PartialEq, Eq)]
struct Owner {
    principal: PrincipalId,
    scopes: ScopeSet,
}

impl Owner {
    fn of(caller: &Caller) -> Self {
        Self { principal: caller.principal.clone(), scopes: caller.scopes }
    }
}

impl Sessions {
    pub(super) fn new(manager: Arc<LocalSessionManager>) -> Self {
        Self { manager, owners: Mutex::new(Owners { by_session: HashMap::new(), sweep_at: 64 }) }
    }

    /// Whether the principal may open another.
    pub(super) async fn has_room(&self, principal: &PrincipalId) -> bool {
        if self.count(principal) < MOST_PER_PRINCIPAL {
            return true;
        }
        self.sweep().await;
        self.count(principal) < MOST_PER_PRINCIPAL
    }

    fn count(&self, principal: &PrincipalId) -> usize {
        self.owners().by_session.values().filter(|owner| owner.principal == *principal).count()
    }

    pub(super) async fn opened(&self, session: &str, caller: &Caller) {
        let crowded = {
            let mut owners = self.owners();
            owners.by_session.insert(session.into(), Owner::of(caller));
            owners.by_session.len() >= owners.sweep_at
        };
        if crowded {
            self.sweep().await;
        }
    }

    pub(super) fn belongs_to(&self, session: &str, caller: &Caller) -> bool {
        self.owners().by_session.get(session) == Some(&Owner::of(caller))
    }

    async fn sweep(&self) {
        let known: Vec<_> = self.owners().by_session.keys().cloned().collect();
        let mut gone = Vec::new();
        for session in known {
            if !matches!(self.manager.has_session(&session).await, Ok(true)) {
                gone.push(session);
            }
        }
        let mut owners = self.owners();
        owners.by_session.retain(|session, _| !gone.contains(session));
        owners.sweep_at = (owners.by_session.len() * 2).max(64);
    }

    fn owners(&self) -> std::sync::MutexGuard<'_, Owners> {
        self.owners.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
