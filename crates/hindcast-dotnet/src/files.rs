//! Reading files that a program names: it may name anything, also what never ends.

use std::{
    fs::File,
    io::{self, Read},
    path::Path,
};

/// Assemblies and symbols that are read are no larger.
pub(crate) const LARGEST_READ: u64 = 512 << 20;
/// Nor are those that are mapped.
pub(crate) const LARGEST_MAPPED: u64 = 1 << 30;
/// Nor are sources.
pub(crate) const LARGEST_SOURCE: u64 = 16 << 20;

/// Why a file is not read.
#[derive(Debug, thiserror::Error)]
pub(crate) enum FileError {
    #[error(transparent)]
    System(#[from] io::Error),
    #[error("it is larger than {} MB", limit >> 20)]
    TooLarge { limit: u64 },
}

impl FileError {
    pub(crate) fn is_missing(&self) -> bool {
        use io::ErrorKind::{NotADirectory, NotFound};
        matches!(self, Self::System(error) if matches!(error.kind(), NotFound | NotADirectory))
    }
}

/// Opens a plain file of at most `limit` bytes.
pub(crate) fn open_plain(path: &Path, limit: u64) -> Result<File, FileError> {
    let file = hindcast_mapping::open_plain(path)?;
    if file.metadata()?.len() > limit {
        return Err(FileError::TooLarge { limit });
    }
    Ok(file)
}

/// All of a plain file of at most `limit` bytes.
pub(crate) fn read_plain(path: &Path, limit: u64) -> Result<Vec<u8>, FileError> {
    let mut bytes = Vec::new();
    // It may grow meanwhile, and some files of the system do not tell their size.
    open_plain(path, limit)?.take(limit + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > limit { Err(FileError::TooLarge { limit }) } else { Ok(bytes) }
}

#[cfg(test)]
mod tests {
    use nix::{sys::stat::Mode, unistd::mkfifo};

    use super::*;

    fn said(path: &Path, limit: u64) -> String {
        read_plain(path, limit).unwrap_err().to_string()
    }

    #[test]
    fn only_plain_files_that_are_not_too_large_are_read() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        std::fs::write(at("file"), "four").unwrap();
        std::os::unix::fs::symlink(at("file"), at("link")).unwrap();
        assert_eq!(read_plain(&at("link"), 4).unwrap(), b"four");
        assert_eq!(said(&at("file"), 3), "it is larger than 0 MB");

        File::create(at("sparse")).unwrap().set_len(LARGEST_MAPPED + 1).unwrap();
        assert_eq!(said(&at("sparse"), LARGEST_MAPPED), "it is larger than 1024 MB");
        // Files of the system say that they are empty.
        assert_eq!(said(Path::new("/proc/self/status"), 10), "it is larger than 0 MB");

        mkfifo(&at("pipe"), Mode::S_IRUSR).unwrap();
        std::os::unix::fs::symlink("/dev/zero", at("endless")).unwrap();
        for name in ["pipe", "endless", "."] {
            assert_eq!(said(&at(name), 4), "it is not a plain file", "{name}");
        }
        assert!(read_plain(&at("none"), 4).unwrap_err().is_missing());
        assert!(read_plain(&at("file/none"), 4).unwrap_err().is_missing());
        assert!(!read_plain(&at("pipe"), 4).unwrap_err().is_missing());
    }
}
