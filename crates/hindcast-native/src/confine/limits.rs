//! What one process of a tenant may take.

use hindcast_core::debug::ConfinementLimits;
use nix::sys::resource::{Resource, setrlimit};

use crate::sys;

/// A debugger of many copies has many descriptors.
const MOST_DESCRIPTORS: u64 = 4096;
const MOST_LOCKED: u64 = 8 << 20;
const MOST_SIGNALS: u64 = 4096;

/// What the engine itself may take beyond that: its allocator reserves more than it uses.
const ENGINE: u64 = 4 << 30;

pub(super) fn set(limits: &ConfinementLimits) -> nix::Result<()> {
    for (resource, most) in [
        // Not the address space: runtimes reserve far more than they use.
        (Resource::RLIMIT_DATA, limits.memory.saturating_add(ENGINE)),
        (Resource::RLIMIT_NPROC, limits.processes),
        (Resource::RLIMIT_FSIZE, limits.files),
        (Resource::RLIMIT_NOFILE, MOST_DESCRIPTORS),
        (Resource::RLIMIT_MEMLOCK, MOST_LOCKED),
        (Resource::RLIMIT_SIGPENDING, MOST_SIGNALS),
        (Resource::RLIMIT_CORE, 0),
    ] {
        let (_, hard) = nix::sys::resource::getrlimit(resource)?;
        let most = most.min(hard);
        setrlimit(resource, most, most)?;
    }
    sys::limit_programs(limits.memory);
    Ok(())
}
