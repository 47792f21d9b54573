//! Whose rights count for a watched folder, as stores keep it.

use hindcast_core::{identity::KeyId, knowledge::WatchGrant};

/// How a grant is written.
pub(crate) fn granted_to(grant: &WatchGrant) -> Option<String> {
    match grant {
        WatchGrant::Local => Some("local".into()),
        WatchGrant::Key(key) => Some(format!("key {key}")),
        WatchGrant::Unknown => None,
    }
}

/// What was written as a grant.
pub(crate) fn grant(granted_to: Option<String>) -> WatchGrant {
    match granted_to.as_deref() {
        Some("local") => WatchGrant::Local,
        Some(text) => match text.strip_prefix("key ") {
            Some(key) => WatchGrant::Key(KeyId(key.into())),
            None => WatchGrant::Unknown,
        },
        None => WatchGrant::Unknown,
    }
}
