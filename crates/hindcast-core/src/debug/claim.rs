//! One debugger at a time.
//!
//! Two that attach to a .NET runtime at the same moment make it wait for ever, and nothing shows a native debugger that another
//! is attached without `ptrace`. So whoever attaches locks the folder of the process in `/proc`, which leaves nothing behind when
//! either of them dies.

use std::{
    fs::{File, TryLockError},
    io,
};

/// The right to attach to a process, as long as it is held.
#[derive(Debug)]
pub struct Claim {
    _lock: File,
}

impl Claim {
    /// Claims a process; none where another debugger has claimed it.
    ///
    /// # Errors
    ///
    /// When there is no such process, or the system cannot lock.
    pub fn on(pid: u32) -> io::Result<Option<Self>> {
        let folder = File::open(format!("/proc/{pid}"))?;
        match folder.try_lock() {
            Ok(()) => Ok(Some(Self { _lock: folder })),
            Err(TryLockError::WouldBlock) => Ok(None),
            Err(TryLockError::Error(error)) => Err(error),
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
