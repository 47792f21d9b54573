//! One debugger at a time.
//!
//! Two that attach to a runtime at the same moment make it wait for ever. So whoever attaches locks the folder of the process in
//! `/proc`, which leaves nothing behind when either of them dies.

use std::{fs::File, io};

use nix::{
    errno::Errno,
    fcntl::{Flock, FlockArg},
};

/// The right to attach to a process, as long as it is held.
#[derive(Debug)]
pub(crate) struct Claim {
    _lock: Flock<File>,
}

impl Claim {
    /// Claims a process; none where another debugger has claimed it.
    pub(crate) fn on(pid: u32) -> io::Result<Option<Self>> {
        let folder = File::open(format!("/proc/{pid}"))?;
        match Flock::lock(folder, FlockArg::LockExclusiveNonblock) {
            Ok(lock) => Ok(Some(Self { _lock: lock })),
            Err((_, Errno::EWOULDBLOCK)) => Ok(None),
            Err((_, error)) => Err(error.into()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_is_claimed_once() {
        let us = std::process::id();
        let claim = Claim::on(us).unwrap();
        assert!(claim.is_some());
        assert!(Claim::on(us).unwrap().is_none());
        drop(claim);
        assert!(Claim::on(us).unwrap().is_some());
        assert!(Claim::on(u32::MAX).is_err());
    }
}
