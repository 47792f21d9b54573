//! What comes up from the services: something a client may be looking at has changed.

use std::sync::Arc;

use crate::identity::PrincipalId;

/// A change that subscribers may want to hear of.
#[derive(Debug, Clone)]
pub struct Event {
    /// Who may hear of it.
    pub audience: Audience,
    /// What changed.
    pub change: Change,
}

/// Who may hear of a change.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Audience {
    /// Every principal.
    Everyone,
    /// Only this one: its debug sessions, its usage, its documents.
    Principal(PrincipalId),
}

impl Audience {
    /// Whether `principal` belongs to this audience.
    pub fn includes(&self, principal: &PrincipalId) -> bool {
        match self {
            Self::Everyone => true,
            Self::Principal(only) => only == principal,
        }
    }
}

/// What changed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Change {
    /// The content behind this URI.
    Resource(Arc<str>),
    /// The set of resources that exist.
    ResourceList,
}
