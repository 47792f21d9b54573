//! Locks of single bytes of a file, by which processes on one data folder know of each other.
//!
//! The system gives a lock back when its process ends, however it ends. Where the system has no such locks, or the file cannot be
//! locked, everybody has every lock and nobody hears of the others.

use std::{
    fs::{File, OpenOptions},
    io,
    path::Path,
};

/// How a byte is locked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Lock {
    /// By one only.
    Alone,
    /// By any number.
    Together,
    /// Not any more.
    Released,
}

/// Opens the file, which is made if it is not there.
pub(super) fn open(path: &Path) -> io::Result<File> {
    OpenOptions::new().create(true).truncate(false).read(true).write(true).open(path)
}

/// Changes the lock of a byte; false only if somebody else has it.
pub(super) fn lock(file: &File, byte: i64, lock: Lock) -> bool {
    system::set(file, byte, lock)
}

/// Whether somebody has a lock of a byte through another opening of the file, here or in another process. Takes no lock.
pub(super) fn is_locked(file: &File, byte: i64) -> bool {
    system::is_locked(file, byte)
}

#[cfg(target_os = "linux")]
mod system {
    use std::fs::File;

    use nix::{
        errno::Errno,
        fcntl::{FcntlArg, fcntl},
        libc,
    };

    use super::Lock;

    pub(super) fn set(file: &File, byte: i64, lock: Lock) -> bool {
        let kind = match lock {
            Lock::Alone => libc::F_WRLCK,
            Lock::Together => libc::F_RDLCK,
            Lock::Released => libc::F_UNLCK,
        };
        let range = range(byte, kind);
        !matches!(fcntl(file, FcntlArg::F_OFD_SETLK(&range)), Err(Errno::EAGAIN | Errno::EACCES))
    }

    pub(super) fn is_locked(file: &File, byte: i64) -> bool {
        let mut found = range(byte, libc::F_WRLCK);
        let asked = fcntl(file, FcntlArg::F_OFD_GETLK(&mut found));
        asked.is_ok() && i32::from(found.l_type) != libc::F_UNLCK
    }

    fn range(byte: i64, kind: i32) -> libc::flock {
        libc::flock {
            l_type: i16::try_from(kind).unwrap_or_default(),
            l_whence: i16::try_from(libc::SEEK_SET).unwrap_or_default(),
            l_start: byte,
            l_len: 1,
            l_pid: 0,
        }
    }
}

#[cfg(not(target_os = "linux"))]
mod system {
    use std::fs::File;

    use super::Lock;

    pub(super) fn set(_file: &File, _byte: i64, _lock: Lock) -> bool {
        true
    }

    pub(super) fn is_locked(_file: &File, _byte: i64) -> bool {
        false
    }
}
