//! One debugger at a time.
//!
//! Two that attach to a .NET runtime at the same moment make it wait for ever, and nothing shows a native debugger that another
//! is attached without `ptrace`. So whoever attaches locks the folder of the process in `/proc`, which leaves nothing behind when
//! either of them dies.

use std::{
    fs::{File, TryLockError},
    io,
    time::{Duration, Instant},
};

/// How long to wait for a claim: what tidies up after a debugger that was killed has it for a moment.
const WITHIN: Duration = Duration::from_millis(500);
/// How long to wait before trying again.
const GLANCE: Duration = Duration::from_millis(5);

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
        let until = Instant::now() + WITHIN;
        loop {
            match folder.try_lock() {
                Ok(()) => return Ok(Some(Self { _lock: folder })),
                Err(TryLockError::WouldBlock) if Instant::now() < until => std::thread::sleep(GLANCE),
                Err(TryLockError::WouldBlock) => return Ok(None),
                Err(TryLockError::Error(error)) => return Err(error),
            }
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
        // One that is given up meanwhile is waited for.
        let waiting = std::thread::spawn(move || Claim::on(us).unwrap().is_some());
        drop(claim);
        assert!(waiting.join().unwrap());
        assert!(Claim::on(us).unwrap().is_some());
        assert!(Claim::on(u32::MAX).is_err());
    }
}
