//! A file that is written in the course of a session, within the limits of its owner.

use std::{
    fs::{File, OpenOptions},
    io::{self, Write},
    path::{Path, PathBuf},
};

use super::{OwnedFolder, files::allow_reading};
use crate::Failure;

/// Where a new file goes. What is not written by [`create`](Self::create) takes no room.
#[derive(Debug)]
pub struct NewFile {
    path: PathBuf,
    /// Whose limits hold; none outside of workspaces.
    owned: Option<OwnedFolder>,
}

impl NewFile {
    pub(super) fn in_workspace(owned: OwnedFolder, path: &Path) -> Result<Self, Failure> {
        owned.begin(path)?;
        Ok(Self { path: path.to_owned(), owned: Some(owned) })
    }

    /// Where that is.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Makes the file. Outside of workspaces only its owner can read it: what is recorded may be secret.
    pub(in super::super) fn create(&self) -> io::Result<GrowingFile<'_>> {
        let mut options = OpenOptions::new();
        options.write(true).create_new(true);
        #[cfg(unix)]
        std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
        let file = options.open(&self.path)?;
        if self.owned.is_some() {
            allow_reading(&file, false)?;
        }
        Ok(GrowingFile { new: self, file, written: 0, granted: 0, refusal: None })
    }
}

impl From<PathBuf> for NewFile {
    fn from(path: PathBuf) -> Self {
        Self { path, owned: None }
    }
}

impl Drop for NewFile {
    fn drop(&mut self) {
        if let Some(owned) = &self.owned {
            owned.end(&self.path);
        }
    }
}

/// A file that grows as far as its owner has room.
pub(in super::super) struct GrowingFile<'a> {
    new: &'a NewFile,
    file: File,
    written: u64,
    granted: u64,
    refusal: Option<Failure>,
}

impl GrowingFile<'_> {
    /// How long it is.
    pub(in super::super) fn written(&self) -> u64 {
        self.written
    }

    /// Why there was no more room, if that was so.
    pub(in super::super) fn take_refusal(&mut self) -> Option<Failure> {
        self.refusal.take()
    }
}

impl Write for GrowingFile<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let wanted = self.written + bytes.len() as u64;
        if let Some(owned) = self.new.owned.as_ref().filter(|_| wanted > self.granted) {
            self.granted = owned.grant(&self.new.path, wanted).map_err(|refusal| {
                let error = io::Error::new(io::ErrorKind::QuotaExceeded, refusal.details.clone());
                self.refusal = Some(refusal);
                error
            })?;
        }
        let written = self.file.write(bytes)?;
        self.written += written as u64;
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}
