//! A file for what does not fit into memory. It has no name: nothing is left behind when we end, however that happens.

use std::{env, fs::File, io, os::unix::fs::FileExt as _, path::PathBuf};

use nix::fcntl::{FallocateFlags, fallocate};

/// The file, and how much of it is used.
#[derive(Debug)]
pub(super) struct Spill {
    file: File,
    end: u64,
}

/// Where something is in the file.
#[derive(Debug, Clone, Copy)]
pub(super) struct Extent {
    offset: u64,
    length: usize,
}

impl Extent {
    pub(super) fn len(self) -> u64 {
        self.length as u64
    }

    fn end(self) -> u64 {
        self.offset + self.len()
    }
}

/// Where large temporary files go. Not `/tmp`, which is often memory itself.
pub(super) fn folder() -> PathBuf {
    env::var_os("TMPDIR").filter(|folder| !folder.is_empty()).map_or("/var/tmp".into(), PathBuf::from)
}

impl Spill {
    pub(super) fn new() -> io::Result<Self> {
        Ok(Self { file: tempfile::tempfile_in(folder())?, end: 0 })
    }

    #[cfg(test)]
    pub(super) fn to(file: File) -> Self {
        Self { file, end: 0 }
    }

    /// Adds something, compressed.
    pub(super) fn put(&mut self, bytes: &[u8]) -> io::Result<Extent> {
        let packed = lz4_flex::block::compress(bytes);
        self.file.write_all_at(&packed, self.end)?;
        let extent = Extent { offset: self.end, length: packed.len() };
        self.end = extent.end();
        Ok(extent)
    }

    /// Reads back what was of this length before it was compressed.
    pub(super) fn get(&self, extent: Extent, length: usize) -> io::Result<Vec<u8>> {
        let mut packed = vec![0; extent.length];
        self.file.read_exact_at(&mut packed, extent.offset)?;
        let bytes = lz4_flex::block::decompress(&packed, length).map_err(io::Error::other)?;
        if bytes.len() == length { Ok(bytes) } else { Err(io::ErrorKind::InvalidData.into()) }
    }

    /// Gives the room back that everything up to here takes.
    pub(super) fn forget_to(&self, extent: Extent) {
        let mode = FallocateFlags::FALLOC_FL_PUNCH_HOLE | FallocateFlags::FALLOC_FL_KEEP_SIZE;
        // Where the file system cannot do it, the room stays taken until the end.
        let _ = fallocate(&self.file, mode, 0, extent.end() as i64);
    }
}
