//! The folder of the index, with a digest behind what tantivy writes without a checksum.

use std::{io, path::Path, sync::Arc};

use sha2::{Digest as _, Sha256};
use tantivy::directory::{
    Directory, DirectoryLock, FileHandle, Lock, MmapDirectory, WatchCallback, WatchHandle, WritePtr,
    error::{DeleteError, LockError, OpenReadError, OpenWriteError},
};

/// What stands between a file and its digest, in hexadecimal digits.
const SEAL: &[u8] = b"\nsha256 ";

/// Files of an index. Segments carry checksums of tantivy's own; `meta.json` and the list of files carry none, and a flipped
/// bit there can bring removed chunks back. They are written and replaced together with their digest, so a crash leaves both.
#[derive(Debug, Clone)]
pub(super) struct SealedDirectory(pub(super) MmapDirectory);

impl Directory for SealedDirectory {
    fn get_file_handle(&self, path: &Path) -> Result<Arc<dyn FileHandle>, OpenReadError> {
        self.0.get_file_handle(path)
    }

    fn delete(&self, path: &Path) -> Result<(), DeleteError> {
        self.0.delete(path)
    }

    fn exists(&self, path: &Path) -> Result<bool, OpenReadError> {
        self.0.exists(path)
    }

    fn open_write(&self, path: &Path) -> Result<WritePtr, OpenWriteError> {
        self.0.open_write(path)
    }

    /// Gives what was written, or an error where it is not that any more. Indexes of earlier versions have no digests.
    fn atomic_read(&self, path: &Path) -> Result<Vec<u8>, OpenReadError> {
        let mut data = self.0.atomic_read(path)?;
        let Some(end) = data.windows(SEAL.len()).rposition(|window| window == SEAL) else { return Ok(data) };
        if data[end + SEAL.len()..] != *hex::encode(Sha256::digest(&data[..end])).as_bytes() {
            let error = io::Error::new(io::ErrorKind::InvalidData, "the digest is wrong");
            return Err(OpenReadError::wrap_io_error(error, path.to_path_buf()));
        }
        data.truncate(end);
        Ok(data)
    }

    fn atomic_write(&self, path: &Path, data: &[u8]) -> io::Result<()> {
        let digest = hex::encode(Sha256::digest(data));
        self.0.atomic_write(path, &[data, SEAL, digest.as_bytes()].concat())
    }

    fn sync_directory(&self) -> io::Result<()> {
        self.0.sync_directory()
    }

    fn acquire_lock(&self, lock: &Lock) -> Result<DirectoryLock, LockError> {
        self.0.acquire_lock(lock)
    }

    fn watch(&self, callback: WatchCallback) -> tantivy::Result<WatchHandle> {
        self.0.watch(callback)
    }
}
