//! Who may read which files, and opening them so that what was checked is what is read.

use std::{
    collections::HashSet,
    fs::{self, File, Metadata},
    io::{ErrorKind, Read as _},
    path::{Path, PathBuf},
};

use hindcast_core::identity::Caller;

use crate::documents::{lexically, opened_path};

/// Where files may be read from.
#[derive(Debug, Clone, Default)]
pub struct ReadPolicy {
    /// Folders whose files may be read for callers over HTTP.
    pub allowed_folders: Vec<PathBuf>,
    /// Folders that nobody's documents come from: our own.
    pub forbidden_folders: Vec<PathBuf>,
}

/// Whose rights count.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Reader {
    /// The user of this machine.
    Local,
    /// The holder of a key, from anywhere.
    Remote,
}

impl Reader {
    pub(super) fn of(caller: &Caller) -> Self {
        if caller.key.is_some() { Self::Remote } else { Self::Local }
    }
}

/// What one reader may read.
#[derive(Debug, Clone)]
pub(super) struct Permit {
    reader: Reader,
    /// By their true paths.
    allowed: Vec<PathBuf>,
    /// As the operator wrote them.
    allowed_as_given: Vec<PathBuf>,
    /// By their true paths.
    forbidden: Vec<PathBuf>,
    /// The same folders and those in them: they may be mounted at other paths, too.
    forbidden_folders: HashSet<FolderId>,
}

/// A folder, whichever path leads to it: its device and inode.
type FolderId = (u64, u64);

/// More folders than a data folder has.
const MOST_FORBIDDEN: usize = 1000;

/// More links than the kernel follows.
const MOST_LINKS: usize = 40;

const NOT_ALLOWED: &str = "it is not in one of the folders of `knowledge.allowed_folders` · hint: give `name` and `text`, or \
                           let the operator add the folder";
const OWN_DATA: &str = "it is in hindcast's own data folder";
const RELATIVE: &str = "it is a relative path · hint: give the whole path, from `/` on";
const KERNEL: &str = "it is in /proc, /sys or another place where the kernel shows its state, not a file system with documents";

impl ReadPolicy {
    /// What this reader may read. Looks at the folders, so it may wait for a disk.
    pub(super) fn permit(&self, reader: Reader) -> Permit {
        let real = |folders: &[PathBuf]| {
            folders.iter().map(|folder| fs::canonicalize(folder).unwrap_or_else(|_| folder.clone())).collect()
        };
        let forbidden: Vec<_> = real(&self.forbidden_folders);
        Permit {
            reader,
            allowed: real(&self.allowed_folders),
            allowed_as_given: self.allowed_folders.clone(),
            forbidden_folders: folders_in(&forbidden),
            forbidden,
        }
    }
}

impl Permit {
    /// Why a file, by its true path, must not be read.
    fn refusal(&self, path: &Path) -> Option<&'static str> {
        // First what a remote reader may know: where the data folder is, is not told.
        if self.reader == Reader::Remote && !is_in(&self.allowed, path) {
            return Some(NOT_ALLOWED);
        }
        is_in(&self.forbidden, path).then_some(OWN_DATA)
    }

    fn is_forbidden(&self, metadata: &Metadata) -> bool {
        folder_id(metadata).is_some_and(|id| self.forbidden_folders.contains(&id))
    }

    /// Whether the reader is somebody elsewhere.
    pub(super) fn is_remote(&self) -> bool {
        self.reader == Reader::Remote
    }

    /// Whether a path that leads nowhere now may be read once there is something.
    pub(super) fn covers(&self, path: &Path) -> bool {
        self.refusal(&lexically(path)).is_none()
    }

    /// The true path of something that may be read.
    pub(super) fn resolve(&self, path: &Path) -> Result<PathBuf, String> {
        match self.reader {
            Reader::Local => self.resolve_allowed(path),
            Reader::Remote => self.resolve_allowed(&self.judge_text(path)?),
        }
    }

    /// Judges a path by its text alone, before anything is looked at: whether something is there outside is nobody's business.
    /// Returns the path without `..`, which could lead through folders outside.
    fn judge_text(&self, path: &Path) -> Result<PathBuf, String> {
        if path.is_relative() {
            return Err(RELATIVE.into());
        }
        let path = lexically(path);
        match self.refusal(&path) {
            Some(NOT_ALLOWED) if is_in(&self.allowed_as_given, &path) => {}
            Some(refusal) => return Err(refusal.to_owned()),
            None => {}
        }
        // A link there tells how the server runs, wherever it leads.
        if path.ancestors().any(|part| open_place(part).is_ok_and(|place| is_kernel_file_system(&place))) {
            return Err(KERNEL.into());
        }
        Ok(path)
    }

    fn resolve_allowed(&self, path: &Path) -> Result<PathBuf, String> {
        let real = fs::canonicalize(path).map_err(|error| self.unresolved(path, &error))?;
        if let Some(refusal) = self.refusal(&real) {
            return Err(refusal.to_owned());
        }
        let is_forbidden = |folder: &Path| fs::metadata(folder).is_ok_and(|about| self.is_forbidden(&about));
        if real.ancestors().any(is_forbidden) {
            return Err(OWN_DATA.into());
        }
        Ok(real)
    }

    /// Why a path leads nowhere. A link may lead out of the allowed folders to nothing, which is not told either.
    fn unresolved(&self, path: &Path, error: &std::io::Error) -> String {
        if self.reader == Reader::Remote {
            let place = missing_place(path, MOST_LINKS);
            if let Some(refusal) = place.map_or(Some(NOT_ALLOWED), |place| self.refusal(&place)) {
                return refusal.to_owned();
            }
        }
        match error.kind() {
            ErrorKind::NotFound if path.is_symlink() => "it is a link to nothing".to_owned(),
            ErrorKind::NotFound => "there is no such file or folder".to_owned(),
            _ => unreadable(error),
        }
    }

    /// Opens a file or folder by its true path. What was opened is checked, not what the path led to before: a link that was
    /// put in its place meanwhile leads nowhere, and opening has no effect on a pipe or a device.
    pub(super) fn open(&self, path: &Path) -> Result<Opened, String> {
        let place = open_place(path).map_err(|error| unreadable(&error))?;
        let metadata = place.metadata().map_err(|error| unreadable(&error))?;
        match opened_path(&place) {
            Some(opened) => {
                if let Some(refusal) = self.refusal(&opened) {
                    return Err(refusal.to_owned());
                }
            }
            None if self.reader == Reader::Remote => {
                return Err("it cannot be checked where it is · hint: let the operator mount /proc".into());
            }
            None => {}
        }
        if self.is_forbidden(&metadata) {
            return Err(OWN_DATA.into());
        }
        if is_kernel_file_system(&place) {
            return Err(KERNEL.into());
        }
        Ok(Opened { place, path: path.into(), metadata })
    }
}

fn is_in(folders: &[PathBuf], path: &Path) -> bool {
    folders.iter().any(|folder| path.starts_with(folder))
}

/// The true path that a path would have if something were there.
fn missing_place(path: &Path, links: usize) -> Option<PathBuf> {
    if let Ok(real) = fs::canonicalize(path) {
        return Some(real);
    }
    let here = missing_place(path.parent()?, links)?.join(path.file_name()?);
    match fs::read_link(&here) {
        Ok(target) => missing_place(&lexically(&here.parent()?.join(target)), links.checked_sub(1)?),
        Err(_) => Some(here),
    }
}

/// These folders and all in them.
fn folders_in(roots: &[PathBuf]) -> HashSet<FolderId> {
    let mut found = HashSet::new();
    let mut pending = roots.to_vec();
    while let Some(folder) = pending.pop() {
        let id = fs::symlink_metadata(&folder).ok().as_ref().and_then(folder_id);
        if found.len() < MOST_FORBIDDEN && id.is_some_and(|id| found.insert(id)) {
            let entries = fs::read_dir(&folder).into_iter().flatten().flatten();
            let is_folder = |entry: &fs::DirEntry| entry.file_type().is_ok_and(|kind| kind.is_dir());
            pending.extend(entries.filter(is_folder).map(|entry| entry.path()));
        }
    }
    found
}

#[cfg(unix)]
fn folder_id(metadata: &Metadata) -> Option<FolderId> {
    use std::os::unix::fs::MetadataExt;
    metadata.is_dir().then(|| (metadata.dev(), metadata.ino()))
}

#[cfg(not(unix))]
fn folder_id(_metadata: &Metadata) -> Option<FolderId> {
    None
}

/// A file or folder that may be read.
pub(super) struct Opened {
    /// Names it without reading from it.
    place: File,
    path: PathBuf,
    pub(super) metadata: Metadata,
}

impl Opened {
    /// The names in a folder, in their order, without hidden ones.
    pub(super) fn names(&self) -> Result<Vec<std::ffi::OsString>, String> {
        let entries = fs::read_dir(self.way()).map_err(|error| unreadable(&error))?;
        let mut names: Vec<_> = entries.filter_map(|entry| Some(entry.ok()?.file_name())).collect();
        names.retain(|name| !name.as_encoded_bytes().starts_with(b"."));
        names.sort();
        Ok(names)
    }

    /// All bytes of a file.
    pub(super) fn read(&self, limit: u64) -> Result<Vec<u8>, String> {
        let mut bytes = Vec::new();
        let file = File::open(self.way()).map_err(|error| unreadable(&error))?;
        // It may have grown since it was looked at.
        file.take(limit + 1).read_to_end(&mut bytes).map_err(|error| unreadable(&error))?;
        if bytes.len() as u64 > limit {
            return Err(format!("it has more than the {limit} bytes that are allowed"));
        }
        Ok(bytes)
    }

    /// A path that leads to what was opened, whatever is at its path now.
    #[cfg(target_os = "linux")]
    fn way(&self) -> PathBuf {
        use std::os::fd::AsRawFd;
        let way = PathBuf::from(format!("/proc/self/fd/{}", self.place.as_raw_fd()));
        if way.exists() { way } else { self.path.clone() }
    }

    #[cfg(not(target_os = "linux"))]
    fn way(&self) -> PathBuf {
        self.path.clone()
    }
}

/// Whether there is nothing at a path any more, or only by a link that was put there.
pub(super) fn is_gone(path: &Path) -> bool {
    match fs::canonicalize(path) {
        Ok(real) => real != path,
        Err(error) => matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory),
    }
}

fn unreadable(error: &std::io::Error) -> String {
    format!("it cannot be read: {error}")
}

#[cfg(target_os = "linux")]
fn open_place(path: &Path) -> std::io::Result<File> {
    use std::os::unix::fs::OpenOptionsExt;

    use nix::fcntl::OFlag;
    let flags = OFlag::O_PATH | OFlag::O_NOFOLLOW;
    File::options().read(true).custom_flags(flags.bits()).open(path)
}

#[cfg(not(target_os = "linux"))]
fn open_place(path: &Path) -> std::io::Result<File> {
    File::open(path)
}

/// Whether a file is made up by the kernel when it is read: such files have no size, no end, or effects.
#[cfg(target_os = "linux")]
fn is_kernel_file_system(place: &File) -> bool {
    use nix::sys::statfs::{FsType, fstatfs};
    // proc, sysfs, cgroup, cgroup2, devpts, debugfs, tracefs, securityfs, selinuxfs, smackfs, bpf, pstore, efivarfs, configfs,
    // fusectl, mqueue, hugetlbfs, binfmt_misc, nsfs, pipefs, sockfs, anonymous inodes, resctrl, apparmorfs, openpromfs, usbfs,
    // autofs, binder, rpc_pipefs, nfsd.
    const MADE_UP: [FsType; 30] = [
        FsType(0x9fa0),
        FsType(0x6265_6572),
        FsType(0x27_e0eb),
        FsType(0x6367_7270),
        FsType(0x1cd1),
        FsType(0x6462_6720),
        FsType(0x7472_6163),
        FsType(0x7363_6673),
        FsType(0xf97c_ff8c),
        FsType(0x4341_5d53),
        FsType(0xcafe_4a11),
        FsType(0x6165_676c),
        FsType(0xde5e_81e4),
        FsType(0x6265_6570),
        FsType(0x6573_5543),
        FsType(0x1980_0202),
        FsType(0x9584_58f6),
        FsType(0x4249_4e4d),
        FsType(0x6e73_6673),
        FsType(0x5049_5045),
        FsType(0x534f_434b),
        FsType(0x0904_1934),
        FsType(0x0765_5821),
        FsType(0x5a3c_69f0),
        FsType(0x9fa1),
        FsType(0x9fa2),
        FsType(0x0187),
        FsType(0x6c6f_6f70),
        FsType(0x6759_6969),
        FsType(0x6e66_7364),
    ];
    fstatfs(place).is_ok_and(|about| MADE_UP.contains(&about.filesystem_type()))
}

#[cfg(not(target_os = "linux"))]
fn is_kernel_file_system(_place: &File) -> bool {
    false
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    fn permit(reader: Reader, allowed: &Path) -> Permit {
        let policy = ReadPolicy { allowed_folders: vec![allowed.into()], forbidden_folders: Vec::new() };
        policy.permit(reader)
    }

    #[test]
    fn what_is_opened_is_checked_whatever_was_put_in_its_place() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().canonicalize().unwrap();
        let (open, closed) = (root.join("open"), root.join("closed"));
        for path in [&open, &closed] {
            fs::create_dir(path).unwrap();
            fs::write(path.join("a.md"), path.as_os_str().as_encoded_bytes()).unwrap();
        }
        let permit = permit(Reader::Remote, &open);
        let file = permit.resolve(&open.join("a.md")).unwrap();
        let opened = permit.open(&file).unwrap();
        // After the check its folder becomes a link that leads out.
        fs::rename(&open, root.join("moved")).unwrap();
        symlink(&closed, &open).unwrap();
        assert_eq!(
            opened.read(1000).unwrap(),
            open.as_os_str().as_encoded_bytes(),
            "what was opened is read"
        );
        assert!(permit.open(&file).is_err_and(|reason| reason == NOT_ALLOWED));
        // The file itself becomes a link.
        fs::remove_file(&open).unwrap();
        fs::rename(root.join("moved"), &open).unwrap();
        fs::remove_file(&file).unwrap();
        symlink(closed.join("a.md"), &file).unwrap();
        assert!(!permit.open(&file).is_ok_and(|opened| opened.metadata.is_file()));
    }

    #[test]
    fn whether_something_is_there_outside_is_not_told() {
        let folder = tempfile::tempdir().unwrap();
        let permit = permit(Reader::Remote, folder.path());
        for path in ["/etc/passwd", "/etc/nothing", "/nothing/at/all"] {
            assert_eq!(permit.resolve(Path::new(path)), Err(NOT_ALLOWED.to_owned()), "{path}");
        }
        let inside = permit.resolve(&folder.path().join("nothing"));
        assert_eq!(inside, Err("there is no such file or folder".to_owned()));
    }

    #[test]
    fn a_forbidden_folder_is_told_by_its_inode_and_not_by_its_path() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().canonicalize().unwrap();
        fs::create_dir_all(root.join("data/inner")).unwrap();
        fs::write(root.join("data/inner/a.md"), "words").unwrap();
        let policy = ReadPolicy { allowed_folders: Vec::new(), forbidden_folders: vec![root.join("data")] };
        let permit = policy.permit(Reader::Local);
        fs::rename(root.join("data"), root.join("elsewhere")).unwrap();
        for path in ["elsewhere", "elsewhere/inner", "elsewhere/inner/a.md"] {
            assert_eq!(permit.resolve(&root.join(path)), Err(OWN_DATA.to_owned()), "{path}");
        }
        assert!(permit.open(&root.join("elsewhere/inner")).is_err_and(|reason| reason == OWN_DATA));
        assert!(permit.open(&root).is_ok());
    }

    #[test]
    fn what_the_kernel_makes_up_is_told_by_its_file_system_and_not_by_its_name() {
        let folder = tempfile::tempdir().unwrap();
        symlink("/proc/self", folder.path().join("notes")).unwrap();
        let permit = permit(Reader::Local, folder.path());
        for path in ["/proc", "/sys", "/proc/self/status"].map(PathBuf::from) {
            assert!(permit.open(&path).is_err_and(|reason| reason.contains("not a file system")), "{path:?}");
        }
        let linked = permit.resolve(&folder.path().join("notes")).unwrap();
        assert!(permit.open(&linked).is_err());
        fs::create_dir(folder.path().join("proc")).unwrap();
        assert!(permit.open(&folder.path().join("proc")).is_ok());
    }
}
