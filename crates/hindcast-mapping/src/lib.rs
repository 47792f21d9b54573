//! Files as memory: read when looked at, given back when told to, harmless when they shrink.
//!
//! Debug information is large, and most of it is never asked for. A mapping costs what is looked at;
//! and because the file stands behind it, what was looked at can be given back at any time, even
//! while others still hold slices of it.
//!
//! A file that is cut short under a mapping would end the process with SIGBUS. Somebody who builds a
//! library again while it is debugged must not be able to do that, so the signal is caught
//! ([`shrunk`]) and zeros stand where the file was: whoever reads files takes them for hostile
//! anyway.
#![cfg(unix)]
#![allow(unsafe_code, reason = "mappings have no safe face")]

#[cfg(target_os = "linux")]
mod code;
mod plain;
mod shrunk;

use std::{fs::File, io, ops::Range, os::fd::AsRawFd, ptr, slice};

#[cfg(target_os = "linux")]
pub use code::give_back_code;
pub use plain::{open_plain, read_plain};

/// A whole file, mapped for reading.
#[derive(Debug)]
pub struct MappedFile {
    /// Before the mapping, so that it never covers what others map there next.
    _guard: shrunk::Guarded,
    mapping: Mapping,
}

#[derive(Debug)]
struct Mapping {
    address: *mut libc::c_void,
    length: usize,
}

// SAFETY: the mapping is only read, belongs to nobody else, and lives as long as this.
unsafe impl Send for Mapping {}
// SAFETY: as above; giving pages back changes nothing that a reader can see.
unsafe impl Sync for Mapping {}

impl MappedFile {
    /// Maps all of a file. Costs nothing that depends on its size.
    ///
    /// An error also where more files are mapped than can be guarded against shrinking: read them
    /// instead.
    pub fn new(file: &File) -> io::Result<Self> {
        let length = usize::try_from(file.metadata()?.len()).map_err(io::Error::other)?;
        if length == 0 {
            return Err(io::Error::from(io::ErrorKind::UnexpectedEof));
        }
        let (protection, flags) = (libc::PROT_READ, libc::MAP_PRIVATE | libc::MAP_NORESERVE);
        // SAFETY: a fresh mapping, at an address that the system chooses.
        let address = unsafe { libc::mmap(ptr::null_mut(), length, protection, flags, file.as_raw_fd(), 0) };
        if address == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        let mapping = Mapping { address, length };
        let start = address as usize;
        Ok(Self { _guard: shrunk::Guarded::new(start..start + length)?, mapping })
    }

    /// What the file holds; zeros behind the end of one that shrank.
    pub fn bytes(&self) -> &[u8] {
        // SAFETY: mapped for reading for as long as `self` lives, and no page of it can be missing.
        // Others may write to the file meanwhile: readers must expect any bytes, and must not rely on
        // reading the same ones twice.
        unsafe { slice::from_raw_parts(self.mapping.address.cast(), self.mapping.length) }
    }

    /// Gives the memory of a part back. It is read again where somebody looks at it again.
    pub fn give_back(&self, part: Range<usize>) {
        let Mapping { address, length } = self.mapping;
        let page = page_size();
        let start = part.start.min(length) / page * page;
        let end = part.end.min(length);
        if start < end {
            // SAFETY: within the mapping, which has nothing that the file does not have.
            unsafe { libc::madvise(address.byte_add(start), end - start, libc::MADV_DONTNEED) };
        }
    }
}

impl AsRef<[u8]> for MappedFile {
    fn as_ref(&self) -> &[u8] {
        self.bytes()
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: mapped when this was made; slices of it borrow the file and are gone.
        unsafe { libc::munmap(self.address, self.length) };
    }
}

fn page_size() -> usize {
    // SAFETY: asks for a number.
    let size = unsafe { libc::sysconf(libc::_SC_PAGESIZE) };
    usize::try_from(size).unwrap_or(4096)
}
