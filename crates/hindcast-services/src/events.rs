//! Where services announce changes and transports listen.

use std::sync::Arc;

use hindcast_core::{
    event::{Audience, Change, Event},
    identity::PrincipalId,
};
use tokio::sync::broadcast;

/// How far a listener may fall behind before it is told only that it did.
const BACKLOG: usize = 1024;

/// Announces changes to whoever listens; free when nobody does.
#[derive(Clone)]
pub struct Events(broadcast::Sender<Event>);

impl Default for Events {
    fn default() -> Self {
        Self(broadcast::Sender::new(BACKLOG))
    }
}

impl Events {
    /// The content behind `uri` changed, as `principal` sees it.
    pub fn changed_for(&self, principal: &PrincipalId, uri: &Arc<str>) {
        self.send(Audience::Principal(principal.clone()), uri);
    }

    /// Other resources exist for `principal` now.
    pub fn list_changed_for(&self, principal: &PrincipalId) {
        let audience = Audience::Principal(principal.clone());
        // An error only says that nobody listens.
        let _ = self.0.send(Event { audience, change: Change::ResourceList });
    }

    /// Other resources exist for all now.
    pub fn list_changed(&self) {
        // An error only says that nobody listens.
        let _ = self.0.send(Event { audience: Audience::Everyone, change: Change::ResourceList });
    }

    /// The content behind `uri` changed for all.
    pub fn changed(&self, uri: &Arc<str>) {
        self.send(Audience::Everyone, uri);
    }

    fn send(&self, audience: Audience, uri: &Arc<str>) {
        // An error only says that nobody listens.
        let _ = self.0.send(Event { audience, change: Change::Resource(uri.clone()) });
    }

    /// Everything announced from now on.
    pub fn listen(&self) -> broadcast::Receiver<Event> {
        self.0.subscribe()
    }
}
