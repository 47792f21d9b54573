//! The data folder: what is kept, and who may read it.

#[cfg(unix)]
use std::sync::OnceLock;
use std::{
    fs::{self, File, OpenOptions},
    io::{self, Read, Write},
    path::{Path, PathBuf},
};

use anyhow::{Context, Result, bail};
use base64::{Engine as _, prelude::BASE64_STANDARD};
use ed25519_dalek::SigningKey;
#[cfg(unix)]
use nix::sys::stat::{Mode, umask};

/// All that hindcast keeps in its data folder, but for the workspaces.
#[cfg(unix)]
const OURS: [&str; 19] = [
    "audit.key",
    "ballast",
    "first.key",
    "hindcast.db",
    "hindcast.db-shm",
    "hindcast.db-wal",
    "hindcast.journal",
    "indexes",
    "knowledge.db",
    "knowledge.db-shm",
    "knowledge.db-wal",
    "license.json",
    "machine.name",
    "models",
    "page.address",
    "serve.lock",
    "tickets",
    "tls",
    "watching.lock",
];

/// The mask that this process was started with, once it has one of its own.
#[cfg(unix)]
static STARTED_WITH: OnceLock<Mode> = OnceLock::new();

/// Has all that this process makes from now on be its owner's alone, whatever library makes it. Programs that it starts for
/// others must get back the mask that it was started with.
pub(crate) fn keep_from_others() {
    #[cfg(unix)]
    STARTED_WITH.get_or_init(|| umask(Mode::S_IRWXG | Mode::S_IRWXO));
}

/// The mask for programs that are started for others, where it is not that of this process.
#[cfg(unix)]
pub(crate) fn usual_umask() -> Option<u32> {
    STARTED_WITH.get().map(|mask| mask.bits())
}

/// Takes a file or folder, and all that is in it, from everybody but its owner. Links are left alone.
#[cfg(unix)]
fn take_from_others(path: &Path) {
    let is_folder = close(path);
    if is_folder {
        let entries = fs::read_dir(path).into_iter().flatten().flatten();
        entries.for_each(|entry| take_from_others(&entry.path()));
    }
}

/// Closes a file or folder to everybody but its owner, and says whether it is a folder.
#[cfg(unix)]
fn close(path: &Path) -> bool {
    use std::os::unix::fs::{MetadataExt, PermissionsExt};
    let Ok(metadata) = path.symlink_metadata() else { return false };
    if metadata.is_symlink() {
        return false;
    }
    let mode = metadata.mode() & 0o7777;
    if mode & 0o077 != 0
        && let Err(error) = fs::set_permissions(path, fs::Permissions::from_mode(mode & !0o077))
    {
        tracing::warn!(%error, path = %path.display(), "others may read this; take the rights to it from them");
    }
    metadata.is_dir()
}

/// A folder that exists.
pub(crate) struct DataFolder(PathBuf);

impl DataFolder {
    /// Opens it, making it the first time.
    pub(crate) fn open(path: &Path) -> Result<Self> {
        private_folder(path).with_context(|| format!("cannot make the data folder `{}`", path.display()))?;
        // The folder itself may have been there before, for others to see: what is ours in it is not for them.
        #[cfg(unix)]
        for name in OURS {
            take_from_others(&path.join(name));
        }
        // What is in it is for programs that run as other users, who see it through their confinement.
        #[cfg(unix)]
        close(&path.join("workspaces"));
        Ok(Self(path.into()))
    }

    /// Opens it only when it is there.
    pub(crate) fn existing(path: &Path) -> Result<Self> {
        if !path.is_dir() {
            bail!("there is no data folder at `{}` · hint: name it with `--data-dir`", path.display());
        }
        Ok(Self(path.into()))
    }

    pub(crate) fn database(&self) -> PathBuf {
        self.0.join("hindcast.db")
    }

    /// The truth of the knowledge base.
    pub(crate) fn knowledge(&self) -> PathBuf {
        self.0.join("knowledge.db")
    }

    /// By this processes agree who watches which folder, and see that others add documents.
    pub(crate) fn knowledge_lock(&self) -> PathBuf {
        let path = self.0.join("watching.lock");
        // Made here, so that others cannot lock it. Without it folders are watched without a lock, which is told.
        drop(private().create(true).truncate(false).open(&path));
        path
    }

    /// The name by which a shared knowledge base knows the machine whose files are read, made the first time: the host's name, for
    /// people, and a number that no other data folder has.
    pub(crate) fn machine_name(&self) -> Result<String> {
        let path = self.0.join("machine.name");
        let named = match fs::read_to_string(&path) {
            Ok(name) => Ok(name.trim().to_owned()),
            Err(error) if error.kind() == io::ErrorKind::NotFound => new_machine_name(&path),
            Err(error) => Err(error),
        };
        let name = named.with_context(|| format!("cannot read or make `{}`", path.display()))?;
        if name.is_empty() {
            bail!("`{}` is empty · hint: restore it, or remove it to get a new name", path.display());
        }
        Ok(name)
    }

    /// What is derived from it.
    pub(crate) fn indexes(&self) -> PathBuf {
        self.0.join("indexes")
    }

    /// Removes what is derived from the knowledge base that was in the folder before.
    pub(crate) fn remove_kept_indexes(&self) -> io::Result<()> {
        match fs::remove_dir_all(self.indexes().join("kept")) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
            _ => Ok(()),
        }
    }

    /// Where models are kept.
    pub(crate) fn models(&self) -> PathBuf {
        self.0.join("models")
    }

    /// Where `hindcast ui` leaves its tickets.
    pub(crate) fn tickets(&self) -> PathBuf {
        self.0.join("tickets")
    }

    /// Where the page of the server is that serves from here, for as long as it does.
    pub(crate) fn page_address(&self) -> PathBuf {
        self.0.join("page.address")
    }

    /// Whether a server serves from here.
    pub(crate) fn is_served(&self) -> Result<bool> {
        let file = private().create(true).truncate(false).open(self.0.join("serve.lock"))?;
        match file.try_lock() {
            Ok(()) => Ok(false),
            Err(fs::TryLockError::WouldBlock) => Ok(true),
            Err(fs::TryLockError::Error(error)) => {
                Err(error).context("cannot look at the lock of the data folder")
            }
        }
    }

    pub(crate) fn license(&self) -> PathBuf {
        self.0.join("license.json")
    }

    /// Puts a license in place of the one before, all of it or nothing.
    pub(crate) fn keep_license(&self, text: &str) -> io::Result<()> {
        let beside = self.license().with_extension("new");
        let mut file = private().create(true).truncate(true).open(&beside)?;
        file.write_all(text.as_bytes())?;
        file.sync_all()?;
        fs::rename(&beside, self.license())
    }

    /// Writes the first API key to a file that only its owner can read, for who starts the server without a terminal.
    pub(crate) fn keep_first_key(&self, key: &str) -> Result<PathBuf> {
        let path = self.0.join("first.key");
        let written = private().create(true).truncate(true).open(&path).and_then(|mut file| {
            file.write_all(key.as_bytes())?;
            file.write_all(b"\n")?;
            file.sync_all()
        });
        written.with_context(|| format!("cannot write the first key to `{}`", path.display()))?;
        Ok(path)
    }

    /// Where our own certificate is kept.
    pub(crate) fn tls(&self) -> Result<PathBuf> {
        let folder = self.0.join("tls");
        private_folder(&folder).with_context(|| format!("cannot make `{}`", folder.display()))?;
        Ok(folder)
    }

    /// Makes this process the folder's only server, until the file is dropped or the process ends.
    pub(crate) fn lock(&self) -> Result<File> {
        let path = self.0.join("serve.lock");
        let file = private().create(true).truncate(false).open(&path)?;
        match file.try_lock() {
            Ok(()) => Ok(file),
            Err(fs::TryLockError::WouldBlock) => bail!(
                "another hindcast serves from `{}` · hint: stop it, or give this one its own `--data-dir`",
                self.0.display()
            ),
            Err(fs::TryLockError::Error(error)) => Err(error).context("cannot lock the data folder"),
        }
    }

    /// The key that signs the audit trail, made the first time.
    pub(crate) fn audit_key(&self) -> Result<SigningKey> {
        let path = self.0.join("audit.key");
        let key = match read_key(&path) {
            Ok(key) => key,
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                new_key(&path).with_context(|| format!("cannot make the audit key `{}`", path.display()))?
            }
            Err(error) => {
                return Err(error).with_context(|| format!("cannot read the audit key `{}`", path.display()));
            }
        };
        Ok(key)
    }

    /// The key that signs the audit trail; none when there is no key yet.
    pub(crate) fn existing_audit_key(&self) -> Result<Option<SigningKey>> {
        match read_key(&self.0.join("audit.key")) {
            Ok(key) => Ok(Some(key)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error).context("cannot read the audit key"),
        }
    }
}

/// If another process was faster, its name is the one.
fn new_machine_name(path: &Path) -> io::Result<String> {
    let mut number = [0; 8];
    getrandom::fill(&mut number).map_err(io::Error::other)?;
    let name = format!("{}-{:016x}", host_name(), u64::from_be_bytes(number));
    let beside = path.with_extension(format!("new-{}", std::process::id()));
    let mut file = private().create_new(true).open(&beside)?;
    file.write_all(name.as_bytes())?;
    file.sync_all()?;
    // A link, not a rename: it fails when the name is taken.
    let linked = fs::hard_link(&beside, path);
    fs::remove_file(&beside)?;
    match linked {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => Err(error),
        _ => fs::read_to_string(path).map(|name| name.trim().to_owned()),
    }
}

fn host_name() -> String {
    #[cfg(unix)]
    if let Ok(name) = nix::unistd::gethostname() {
        return name.to_string_lossy().into_owned();
    }
    "host".into()
}

/// Opens files for writing that, when they are made, only their owner can read.
pub(crate) fn private() -> OpenOptions {
    let mut options = OpenOptions::new();
    options.write(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    options
}

/// Makes a folder that only its owner can enter, and those that lead there.
pub(crate) fn private_folder(path: &Path) -> io::Result<()> {
    let mut builder = fs::DirBuilder::new();
    builder.recursive(true);
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder.create(path)
}

/// Reads a private key that [`new_key`] wrote.
pub(crate) fn read_key(path: &Path) -> io::Result<SigningKey> {
    let mut text = String::new();
    File::open(path)?.read_to_string(&mut text)?;
    let bytes = BASE64_STANDARD.decode(text.trim()).map_err(io::Error::other)?;
    let bytes: [u8; 32] = bytes.try_into().map_err(|_| io::Error::other("it is not 32 bytes in base64"))?;
    Ok(SigningKey::from_bytes(&bytes))
}

/// Makes a private key in a file that only its owner can read. If another process was faster, its
/// key is the one.
pub(crate) fn new_key(path: &Path) -> io::Result<SigningKey> {
    let mut bytes = [0; 32];
    getrandom::fill(&mut bytes).map_err(io::Error::other)?;
    let beside = path.with_extension(format!("new-{}", std::process::id()));
    let mut file = private().create_new(true).open(&beside)?;
    file.write_all(BASE64_STANDARD.encode(bytes).as_bytes())?;
    file.sync_all()?;
    // A link, not a rename: it fails when the name is taken.
    let linked = fs::hard_link(&beside, path);
    fs::remove_file(&beside)?;
    match linked {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => Err(error),
        _ => read_key(path),
    }
}
