//! The data folder: what is kept, and who may read it.

use std::{
    fs::{self, File, OpenOptions},
    io::{self, Read, Write},
    path::{Path, PathBuf},
};

use anyhow::{Context, Result, bail};
use base64::{Engine as _, prelude::BASE64_STANDARD};
use ed25519_dalek::SigningKey;

/// A folder that exists and only its owner can enter.
pub(crate) struct DataFolder(PathBuf);

impl DataFolder {
    /// Opens it, making it the first time.
    pub(crate) fn open(path: &Path) -> Result<Self> {
        let mut builder = fs::DirBuilder::new();
        builder.recursive(true);
        #[cfg(unix)]
        std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
        builder.create(path).with_context(|| format!("cannot make the data folder `{}`", path.display()))?;
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

    /// By this processes agree who watches which folder.
    pub(crate) fn watch_lock(&self) -> PathBuf {
        self.0.join("watching.lock")
    }

    /// What is derived from it.
    pub(crate) fn indexes(&self) -> PathBuf {
        self.0.join("indexes")
    }

    /// Where models are kept.
    pub(crate) fn models(&self) -> PathBuf {
        self.0.join("models")
    }

    pub(crate) fn license(&self) -> PathBuf {
        self.0.join("license.json")
    }

    /// Where our own certificate is kept.
    pub(crate) fn tls(&self) -> Result<PathBuf> {
        Ok(Self::open(&self.0.join("tls"))?.0)
    }

    /// Makes this process the folder's only server, until the file is dropped or the process ends.
    pub(crate) fn lock(&self) -> Result<File> {
        let path = self.0.join("serve.lock");
        let file = OpenOptions::new().create(true).truncate(false).write(true).open(&path)?;
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
    let mut options = OpenOptions::new();
    options.write(true).create_new(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    let mut file = options.open(&beside)?;
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
