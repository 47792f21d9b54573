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
                Ok(Some(opened)) => return Ok(opened),
                Ok(None) => {}
                Err(failure) if failure.kind == FailureKind::DocumentNotFound => missing = Some(failure),
                Err(failure) => return Err(failure),
            }
        }
        Err(missing
            .unwrap_or_else(|| refused(name, "it is not below a folder from which documents may be read")))
    }

    /// Nothing when the name does not mean something in this folder.
    fn open_below(&self, folder: &Path, name: &str) -> Result<Option<Opened>, Failure> {
        let not_found = |error: &std::io::Error| {
            Failure::new(FailureKind::DocumentNotFound, format!("there is no document `{name}`: {error}"))
                .hint("check the path; it is taken relative to the allowed folders")
                .fact("document", name)
        };
        let leads_out = || refused(name, "it leads out of the folders from which documents may be read");
        // Judged by its text first: whether something outside exists is nobody's business.
        let folder = std::path::absolute(folder).map_err(|error| not_found(&error))?;
        let written = lexically(&folder.join(name));
        let is_really_below = || folder.canonicalize().is_ok_and(|real| written.starts_with(real));
        if !written.starts_with(lexically(&folder)) && !is_really_below() {
            return Ok(None);
        }
        let path = written.canonicalize().map_err(|error| match error.kind() {
            ErrorKind::PermissionDenied => refused(name, "the server's user may not read it"),
            _ => not_found(&error),
        })?;
        if !self.holds(&path) {
            return Err(leads_out());
        }
        // Opening a device or a socket may already do something.
        if std::fs::metadata(&path).is_ok_and(|metadata| !metadata.is_file()) {
            return Err(refused(name, "it is not a regular file"));
        }
        let file = open_without_waiting(&path).map_err(|error| match error.kind() {
            ErrorKind::PermissionDenied => refused(name, "the server's user may not read it"),
            _ => not_found(&error),
        })?;
        // What was opened counts, not what the path was when it was looked at.
        if opened_path(&file).is_some_and(|opened| !self.holds(&opened)) {
            return Err(leads_out());
        }
        let metadata = file.metadata().map_err(|error| not_found(&error))?;
        if !metadata.is_file() {
            return Err(refused(name, "it is not a regular file"));
        }
        if metadata.len() > self.max_bytes {
            return Err(too_large(&path, metadata.len(), self.max_bytes));
        }
        Ok(Some(Opened { path, stamp: FileStamp::of(&metadata), file }))
    }

    /// Whether a path without links is below one of the folders.
    fn holds(&self, path: &Path) -> bool {
        self.folders.iter().any(|folder| folder.canonicalize().is_ok_and(|real| path.starts_with(real)))
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
pub(crate) fn lexically(path: &Path) -> PathBuf {
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
pub(crate) fn opened_path(file: &File) -> Option<PathBuf> {
    use std::os::fd::AsRawFd;
    std::fs::read_link(format!("/proc/self/fd/{}", file.as_raw_fd())).ok()
}

#[cfg(not(target_os = "linux"))]
pub(crate) fn opened_path(_file: &File) -> Option<PathBuf> {
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

#[cfg(test)]
mod tests {
    use super::*;

    /// `open/` may be read, `secret.xml` beside it not.
    struct Shelf {
        root: tempfile::TempDir,
        policy: FilePolicy,
    }

    impl Shelf {
        fn new() -> Self {
            let root = tempfile::tempdir().unwrap();
            let folder = root.path().join("open");
            std::fs::create_dir_all(folder.join("inner")).unwrap();
            std::fs::write(folder.join("a.xml"), "<a/>").unwrap();
            std::fs::write(root.path().join("secret.xml"), "<secret/>").unwrap();
            Self { policy: allow(&[&folder]), root }
        }

        fn folder(&self) -> &Path {
            &self.policy.folders[0]
        }

        fn at(&self, name: &str) -> String {
            self.root.path().join(name).display().to_string()
        }

        #[cfg(unix)]
        fn link(&self, name: &str, target: impl AsRef<Path>) {
            std::os::unix::fs::symlink(target, self.folder().join(name)).unwrap();
        }
    }

    fn allow(folders: &[&Path]) -> FilePolicy {
        FilePolicy { folders: folders.iter().map(|folder| folder.to_path_buf()).collect(), max_bytes: 100 }
    }

    #[track_caller]
    fn check_read(policy: &FilePolicy, name: &str, text: &str) {
        let bytes = policy.open(name).and_then(|opened| opened.read(policy)).unwrap();
        assert_eq!(String::from_utf8(bytes).unwrap(), text, "{name}");
    }

    #[track_caller]
    fn check_refused(policy: &FilePolicy, name: &str, kind: FailureKind, reason: &str) {
        let failure = policy.open(name).expect_err(name);
        assert_eq!(failure.kind, kind, "{name}: {}", failure.details);
        assert!(failure.details.contains(reason), "{name}: {}", failure.details);
        assert!(!failure.remedies.is_empty() && failure.facts["document"] == name, "{name}");
    }

    #[test]
    fn what_is_below_a_folder_is_read_however_it_is_named() {
        let shelf = Shelf::new();
        for name in ["a.xml", "./a.xml", "inner/../a.xml", "inner/../../open/a.xml", &shelf.at("open/a.xml")]
        {
            check_read(&shelf.policy, name, "<a/>");
        }
    }

    #[test]
    fn what_is_outside_is_refused_whether_it_is_there_or_not() {
        let shelf = Shelf::new();
        // A folder whose name only begins like that of an allowed one.
        std::fs::create_dir(shelf.root.path().join("opening")).unwrap();
        std::fs::write(shelf.root.path().join("opening/a.xml"), "<a/>").unwrap();
        for name in [
            "../secret.xml",
            "../missing.xml",
            "inner/../../secret.xml",
            "../../../../../../../../etc/passwd",
            "/etc/passwd",
            "/missing",
            "../opening/a.xml",
            &shelf.at("secret.xml"),
            &shelf.at("missing.xml"),
            &shelf.at("open/../secret.xml"),
        ] {
            check_refused(&shelf.policy, name, FailureKind::PermissionDenied, "is not below a folder");
        }
    }

    #[test]
    fn what_is_missing_below_a_folder_is_not_found() {
        let shelf = Shelf::new();
        for name in ["missing.xml", "a.xml/x", "inner/missing.xml", &shelf.at("open/missing.xml")] {
            check_refused(&shelf.policy, name, FailureKind::DocumentNotFound, "there is no document");
        }
        let gone = allow(&[&shelf.root.path().join("gone")]);
        check_refused(&gone, "a.xml", FailureKind::DocumentNotFound, "there is no document");
        check_refused(&gone, "/etc/passwd", FailureKind::PermissionDenied, "is not below a folder");
    }

    #[test]
    fn addresses_are_no_paths() {
        let shelf = Shelf::new();
        for name in ["http://127.0.0.1:9/a.xml", "https://example.org/a.xml", "file:///etc/passwd", "a.xml\0"]
        {
            check_refused(
                &shelf.policy,
                name,
                FailureKind::PermissionDenied,
                "nothing is read from the network",
            );
        }
    }

    #[test]
    fn without_folders_nothing_is_read() {
        check_refused(&allow(&[]), "a.xml", FailureKind::PermissionDenied, "no folder is set");
    }

    #[test]
    fn a_relative_folder_is_taken_from_the_working_folder() {
        // Tests run in the folder of their crate.
        for folder in [".", "./src/.."] {
            let mut here = allow(&[Path::new(folder)]);
            here.max_bytes = 1 << 20;
            assert!(here.open("Cargo.toml").is_ok());
            for name in ["../hindcast-xml/Cargo.toml", "../missing", "/etc/passwd", "/missing"] {
                check_refused(&here, name, FailureKind::PermissionDenied, "is not below a folder");
            }
        }
    }

    #[test]
    fn several_folders_are_searched_in_their_order() {
        let (first, second) = (Shelf::new(), Shelf::new());
        let policy = allow(&[first.folder(), second.folder()]);
        std::fs::write(second.folder().join("a.xml"), "<second/>").unwrap();
        std::fs::write(second.folder().join("b.xml"), "<b/>").unwrap();
        check_read(&policy, "a.xml", "<a/>");
        check_read(&policy, "b.xml", "<b/>");
        check_read(&policy, &second.at("open/a.xml"), "<second/>");
        check_refused(
            &policy,
            &second.at("secret.xml"),
            FailureKind::PermissionDenied,
            "is not below a folder",
        );
        check_refused(
            &policy,
            &second.at("open/c.xml"),
            FailureKind::DocumentNotFound,
            "there is no document",
        );
    }

    #[cfg(unix)]
    #[test]
    fn links_are_followed_only_as_far_as_they_stay_inside() {
        let (shelf, other) = (Shelf::new(), Shelf::new());
        shelf.link("same.xml", "a.xml");
        shelf.link("file.xml", "../secret.xml");
        shelf.link("folder", "..");
        shelf.link("twice.xml", "file.xml");
        shelf.link("etc", "/etc");
        shelf.link("loop.xml", "loop.xml");
        shelf.link("nothing.xml", "nowhere.xml");
        shelf.link("other.xml", other.folder().join("a.xml"));
        check_read(&shelf.policy, "same.xml", "<a/>");
        for name in ["file.xml", "folder/secret.xml", "twice.xml", "etc/passwd", "other.xml"] {
            check_refused(&shelf.policy, name, FailureKind::PermissionDenied, "leads out of the folders");
        }
        for name in ["loop.xml", "nothing.xml"] {
            check_refused(&shelf.policy, name, FailureKind::DocumentNotFound, "there is no document");
        }
        check_read(&allow(&[shelf.folder(), other.folder()]), "other.xml", "<a/>");
        // The folder itself may be a link; both of its names are good.
        let alias = shelf.root.path().join("alias");
        std::os::unix::fs::symlink(shelf.folder(), &alias).unwrap();
        let aliased = allow(&[&alias]);
        for name in ["a.xml", &shelf.at("alias/a.xml"), &shelf.at("open/a.xml")] {
            check_read(&aliased, name, "<a/>");
        }
        check_refused(&aliased, "file.xml", FailureKind::PermissionDenied, "leads out of the folders");
    }

    #[cfg(unix)]
    #[test]
    fn only_regular_files_are_opened() {
        let shelf = Shelf::new();
        let _socket = std::os::unix::net::UnixListener::bind(shelf.folder().join("socket.xml")).unwrap();
        let pipe =
            std::process::Command::new("mkfifo").arg(shelf.folder().join("pipe.xml")).status().unwrap();
        assert!(pipe.success());
        for name in ["inner", ".", "", "socket.xml", "pipe.xml"] {
            check_refused(&shelf.policy, name, FailureKind::PermissionDenied, "not a regular file");
        }
        for device in ["zero", "null", "/dev/tty"] {
            check_refused(
                &allow(&[Path::new("/dev")]),
                device,
                FailureKind::PermissionDenied,
                "not a regular file",
            );
        }
    }

    #[test]
    fn a_file_is_no_larger_than_allowed_even_when_it_grows() {
        let shelf = Shelf::new();
        let file = shelf.folder().join("a.xml");
        std::fs::write(&file, "x".repeat(100)).unwrap();
        let opened = shelf.policy.open("a.xml").unwrap();
        check_read(&shelf.policy, "a.xml", &"x".repeat(100));
        std::fs::write(&file, "x".repeat(101)).unwrap();
        for failure in [shelf.policy.open("a.xml").unwrap_err(), opened.read(&shelf.policy).unwrap_err()] {
            assert_eq!(failure.kind, FailureKind::InvalidInput);
            assert!(failure.details.contains("has 101 bytes, more than the 100"), "{}", failure.details);
        }
    }

    #[test]
    fn a_stamp_tells_a_changed_file() {
        let shelf = Shelf::new();
        let file = shelf.folder().join("a.xml");
        let stamp = shelf.policy.open("a.xml").unwrap().stamp;
        assert_eq!(FileStamp::now(&file), Some(stamp.clone()));
        let same_time = std::fs::metadata(&file).unwrap().modified().unwrap();
        // Another file of the same size and time in its place.
        let new = shelf.folder().join("new.xml");
        std::fs::write(&new, "<b/>").unwrap();
        std::fs::File::options().write(true).open(&new).unwrap().set_modified(same_time).unwrap();
        std::fs::rename(&new, &file).unwrap();
        assert_ne!(FileStamp::now(&file), Some(stamp));
        std::fs::remove_file(&file).unwrap();
        assert_eq!(FileStamp::now(&file), None);
    }
}
