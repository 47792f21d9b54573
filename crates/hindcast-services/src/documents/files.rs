//! Which files may be read as documents, and reading them.

use std::{
    fs::File,
    io::{ErrorKind, Read},
    path::{Component, Path, PathBuf},
};

use serde::{Deserialize, Serialize};

use crate::{Failure, FailureKind};

/// The folders below which documents are read, and how large they may be.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FilePolicy {
    /// The folders; what is given as a relative path is looked for in each, in this order.
    pub folders: Vec<PathBuf>,
    /// The largest file.
    pub max_bytes: u64,
}

/// What tells whether a file is still the one that was read.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FileStamp {
    modified_ns: u128,
    size: u64,
    inode: u64,
}

/// A file that may be read, open.
#[derive(Debug)]
pub(super) struct Opened {
    pub(super) path: PathBuf,
    pub(super) stamp: FileStamp,
    file: File,
}

impl Opened {
    /// All of it; a file that grows meanwhile is still no longer than allowed.
    pub(super) fn read(self, policy: &FilePolicy) -> Result<Vec<u8>, Failure> {
        let mut bytes = Vec::with_capacity(usize::try_from(self.stamp.size).unwrap_or(0));
        let path = &self.path;
        self.file.take(policy.max_bytes + 1).read_to_end(&mut bytes).map_err(|error| {
            Failure::new(
                FailureKind::DocumentNotFound,
                format!("`{}` cannot be read: {error}", path.display()),
            )
            .hint("check the file and the rights of the server's user")
        })?;
        if bytes.len() as u64 > policy.max_bytes {
            return Err(too_large(path, bytes.len() as u64, policy.max_bytes));
        }
        Ok(bytes)
    }
}

impl FilePolicy {
    /// Opens the file that `name` means, if it may be read.
    pub(super) fn open(&self, name: &str) -> Result<Opened, Failure> {
        if name.contains("://") || name.contains('\0') {
            return Err(refused(name, "it is not a path of a file; nothing is read from the network"));
        }
        if self.folders.is_empty() {
            return Err(Failure::new(
                FailureKind::PermissionDenied,
                "no folder is set from which documents may be read",
            )
            .hint("have the operator set `documents.allowed_folders`")
            .fact("document", name));
        }
        let mut missing = None;
        for folder in &self.folders {
            match self.open_below(folder, name) {
                Err(failure) if failure.kind == FailureKind::DocumentNotFound => missing = Some(failure),
                Err(failure)
                    if failure.kind == FailureKind::PermissionDenied && Path::new(name).is_absolute() => {}
                decided => return decided,
            }
        }
        Err(missing
            .unwrap_or_else(|| refused(name, "it is not below a folder from which documents may be read")))
    }

    fn open_below(&self, folder: &Path, name: &str) -> Result<Opened, Failure> {
        let not_found = |error: &std::io::Error| {
            Failure::new(FailureKind::DocumentNotFound, format!("there is no document `{name}`: {error}"))
                .hint("check the path; it is taken relative to the allowed folders")
                .fact("document", name)
        };
        // Judged by its text first: whether something outside exists is nobody's business.
        let written = lexically(&folder.join(name));
        let real_folder = folder.canonicalize().map_err(|error| not_found(&error))?;
        if !written.starts_with(lexically(folder)) && !written.starts_with(&real_folder) {
            return Err(refused(name, "it is not below a folder from which documents may be read"));
        }
        let path = written.canonicalize().map_err(|error| match error.kind() {
            ErrorKind::PermissionDenied => refused(name, "the server's user may not read it"),
            _ => not_found(&error),
        })?;
        if !path.starts_with(&real_folder) {
            return Err(refused(name, "it leads out of the folders from which documents may be read"));
        }
        let file = open_without_waiting(&path).map_err(|error| match error.kind() {
            ErrorKind::PermissionDenied => refused(name, "the server's user may not read it"),
            _ => not_found(&error),
        })?;
        // What was opened counts, not what the path was when it was looked at.
        if opened_path(&file).is_some_and(|opened| !opened.starts_with(&real_folder)) {
            return Err(refused(name, "it leads out of the folders from which documents may be read"));
        }
        let metadata = file.metadata().map_err(|error| not_found(&error))?;
        if !metadata.is_file() {
            return Err(refused(name, "it is not a regular file"));
        }
        if metadata.len() > self.max_bytes {
            return Err(too_large(&path, metadata.len(), self.max_bytes));
        }
        Ok(Opened { path, stamp: FileStamp::of(&metadata), file })
    }
}

impl FileStamp {
    fn of(metadata: &std::fs::Metadata) -> Self {
        let modified =
            metadata.modified().ok().and_then(|time| time.duration_since(std::time::UNIX_EPOCH).ok());
        #[cfg(unix)]
        let inode = std::os::unix::fs::MetadataExt::ino(metadata);
        #[cfg(not(unix))]
        let inode = 0;
        Self { modified_ns: modified.map_or(0, |time| time.as_nanos()), size: metadata.len(), inode }
    }

    /// The size of the file.
    pub(super) fn size(&self) -> u64 {
        self.size
    }

    /// The stamp of a file as it is now; none when it is gone.
    pub(super) fn now(path: &Path) -> Option<Self> {
        std::fs::metadata(path).ok().map(|metadata| Self::of(&metadata))
    }
}

/// A path without `.` and `..`, by its text alone.
fn lexically(path: &Path) -> PathBuf {
    let mut clean = PathBuf::new();
    for component in path.components() {
        match component {
            Component::CurDir => {}
            Component::ParentDir => {
                clean.pop();
            }
            other => clean.push(other),
        }
    }
    clean
}

/// Opening a pipe would wait for its other end.
#[cfg(unix)]
fn open_without_waiting(path: &Path) -> std::io::Result<File> {
    use std::os::unix::fs::OpenOptionsExt;
    const O_NONBLOCK: i32 = 0o4000;
    File::options().read(true).custom_flags(O_NONBLOCK).open(path)
}

#[cfg(not(unix))]
fn open_without_waiting(path: &Path) -> std::io::Result<File> {
    File::open(path)
}

/// The path of an open file, where the system tells.
#[cfg(target_os = "linux")]
fn opened_path(file: &File) -> Option<PathBuf> {
    use std::os::fd::AsRawFd;
    std::fs::read_link(format!("/proc/self/fd/{}", file.as_raw_fd())).ok()
}

#[cfg(not(target_os = "linux"))]
fn opened_path(_file: &File) -> Option<PathBuf> {
    None
}

fn refused(name: &str, reason: &str) -> Failure {
    Failure::new(FailureKind::PermissionDenied, format!("`{name}` is not read: {reason}"))
        .hint("name a file below an allowed folder, or have the operator add to `documents.allowed_folders`")
        .fact("document", name)
}

fn too_large(path: &Path, bytes: u64, limit: u64) -> Failure {
    let path = path.display().to_string();
    Failure::new(
        FailureKind::InvalidInput,
        format!("`{path}` has {bytes} bytes, more than the {limit} that are read"),
    )
    .hint("split the document, or have the operator raise `documents.max_document_bytes`")
    .fact("document", path)
    .fact("limit", limit)
}
