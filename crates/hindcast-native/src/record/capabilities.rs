//! What this machine allows, found out by trying it in a child of our own.

use std::sync::OnceLock;

use hindcast_core::debug::Capability;

use crate::sys;

/// Tried once; then remembered.
pub(crate) fn capabilities() -> Vec<Capability> {
    static KNOWN: OnceLock<Vec<Capability>> = OnceLock::new();
    KNOWN.get_or_init(probe).clone()
}

fn probe() -> Vec<Capability> {
    let capability = |name: &str, works: bool, without: &str| Capability {
        name: name.into(),
        works,
        note: (!works).then(|| without.into()),
    };
    vec![
        capability(
            "the time stamp counter can be made to trap",
            sys::dies_of(sys::Trial::TimeStampCounter),
            "programs that read it cannot be replayed exactly",
        ),
        capability(
            "the processor's description can be made to trap",
            sys::dies_of(sys::Trial::ProcessorFeatures),
            "programs that use random numbers of the processor cannot be replayed exactly",
        ),
    ]
}
