//! How a session's thread is rung for, and how it tells what changed.

use std::sync::{
    Arc, Mutex, PoisonError,
    atomic::{AtomicBool, Ordering},
};

use hindcast_core::{debug::Interrupt, identity::PrincipalId};

use super::{BREAKPOINTS_URI, SESSION_URI, THREADS_URI, TIMELINE_URI};
use crate::Events;

/// Where the current engine's interrupt is kept for those outside.
#[derive(Clone, Default)]
pub(super) struct Bell(Arc<Hung>);

#[derive(Default)]
struct Hung {
    interrupt: Mutex<Option<Arc<dyn Interrupt>>>,
    /// Whether the thread is busy though the program stands still.
    busy: AtomicBool,
}

impl Bell {
    pub(super) fn ring(&self) {
        let interrupt = self.0.interrupt.lock().unwrap_or_else(PoisonError::into_inner).clone();
        if let Some(interrupt) = interrupt {
            interrupt.interrupt();
        }
    }

    /// Who sends a command now has to ring. Who sent one before is seen by looking for commands after this.
    pub(super) fn set_busy(&self, busy: bool) {
        self.0.busy.store(busy, Ordering::SeqCst);
    }

    pub(super) fn is_busy(&self) -> bool {
        self.0.busy.load(Ordering::SeqCst)
    }

    /// Does away with an engine that does not answer; false where that cannot be done.
    pub(super) fn abandon(&self) -> bool {
        let interrupt = self.0.interrupt.lock().unwrap_or_else(PoisonError::into_inner).clone();
        interrupt.is_some_and(|interrupt| interrupt.abandon())
    }

    pub(super) fn set(&self, interrupt: Option<Arc<dyn Interrupt>>) {
        *self.0.interrupt.lock().unwrap_or_else(PoisonError::into_inner) = interrupt;
    }
}

/// Tells subscribers what changed.
#[derive(Clone)]
pub(super) struct Announcer {
    pub(super) events: Events,
    pub(super) principal: PrincipalId,
}

impl Announcer {
    pub(super) fn session(&self) {
        self.events.changed_for(&self.principal, &Arc::from(SESSION_URI));
        self.events.changed_for(&self.principal, &Arc::from(THREADS_URI));
    }

    pub(super) fn breakpoints(&self) {
        self.events.changed_for(&self.principal, &Arc::from(BREAKPOINTS_URI));
    }

    pub(super) fn timeline(&self) {
        self.events.changed_for(&self.principal, &Arc::from(TIMELINE_URI));
    }
}
