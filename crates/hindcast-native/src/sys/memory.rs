//! The memory of another process.

use std::{
    fs::{File, OpenOptions},
    io,
    os::{
        fd::{AsFd as _, BorrowedFd},
        unix::fs::FileExt,
    },
};

use hindcast_symbols::{Memory, Unreadable};

use super::Tid;

/// A process's memory, as it is: with our breakpoints in it.
#[derive(Debug)]
pub(crate) struct ProcessMemory(File);

impl ProcessMemory {
    /// Must be opened again after an exec, which gives the process another memory.
    pub(crate) fn open(process: Tid) -> io::Result<Self> {
        OpenOptions::new().read(true).write(true).open(format!("/proc/{}/mem", process.0)).map(Self)
    }

    pub(super) fn descriptor(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }

    /// Also writes where the process itself may only read or execute.
    pub(crate) fn write(&self, address: u64, bytes: &[u8]) -> Result<(), Unreadable> {
        self.0.write_all_at(bytes, address).map_err(|_| Unreadable(address))
    }

    /// Reads as much as there is.
    pub(crate) fn read_some(&self, address: u64, buffer: &mut [u8]) -> usize {
        let mut done = 0;
        while done < buffer.len() {
            match self.0.read_at(&mut buffer[done..], address.wrapping_add(done as u64)) {
                Ok(0) | Err(_) => break,
                Ok(count) => done += count,
            }
        }
        done
    }
}

impl Memory for ProcessMemory {
    fn read(&self, address: u64, buffer: &mut [u8]) -> Result<(), Unreadable> {
        match self.read_some(address, buffer) {
            all if all == buffer.len() => Ok(()),
            some => Err(Unreadable(address.wrapping_add(some as u64))),
        }
    }
}

/// Gives a process no more than so much address space. Without that it is only less bounded, so a failure does not matter.
pub(crate) fn limit_memory(process: Tid, most: u64) {
    let limit = libc::rlimit { rlim_cur: most, rlim_max: most };
    // SAFETY: `limit` lives for the call, and nothing is written.
    unsafe { libc::prlimit(process.0, libc::RLIMIT_AS, &raw const limit, std::ptr::null_mut()) };
}
