//! Room for sessions.

use std::sync::{Arc, atomic::Ordering};

use hindcast_core::identity::PrincipalId;

use super::{DebugService, MOST_SESSIONS, Session, State, closing};
use crate::{Failure, FailureKind};

/// Room for one more session, given back unless it is filled.
pub(super) struct Place<'a> {
    service: &'a DebugService,
    principal: &'a PrincipalId,
}

impl<'a> Place<'a> {
    pub(super) fn take(service: &'a DebugService, principal: &'a PrincipalId) -> Result<Self, Failure> {
        let mut desks = service.desks();
        if service.closed.load(Ordering::SeqCst) {
            return Err(closing());
        }
        let desk = desks.entry(principal.clone()).or_default();
        let alive = |session: &&Arc<Session>| session.standing.borrow().state != State::Exited;
        if desk.sessions.iter().filter(alive).count() + desk.beginning >= MOST_SESSIONS {
            return Err(Failure::new(
                FailureKind::InvalidInput,
                format!("there are {MOST_SESSIONS} debug sessions already"),
            )
            .hint("end one with `debugger/disconnect`; `debugger/status` lists them"));
        }
        desk.beginning += 1;
        Ok(Self { service, principal })
    }

    /// False when the server has begun to end since.
    pub(super) fn fill(self, session: Arc<Session>) -> bool {
        let mut desks = self.service.desks();
        let open = !self.service.closed.load(Ordering::SeqCst);
        if open {
            desks.entry(self.principal.clone()).or_default().sessions.push(session);
        }
        open
    }
}

impl Drop for Place<'_> {
    fn drop(&mut self) {
        let mut desks = self.service.desks();
        if let Some(desk) = desks.get_mut(self.principal) {
            desk.beginning -= 1;
            if desk.sessions.is_empty() && desk.beginning == 0 {
                desks.remove(self.principal);
            }
        }
    }
}
