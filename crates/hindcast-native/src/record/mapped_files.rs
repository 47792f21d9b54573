//! Files that a program has mapped: what it sees there is part of what it is told from outside.

use std::{
    fs::{self, File},
    io,
    os::{fd::AsRawFd as _, unix::fs::MetadataExt as _},
    rc::Rc,
};

/// A file that is mapped again in a replica.
#[derive(Debug)]
pub(crate) struct MappedFile {
    file: File,
    device: u64,
    inode: u64,
    /// When it was mapped: its size, and when it was last written to.
    stamp: (u64, i64, i64),
}

impl MappedFile {
    pub(crate) fn new(file: File) -> io::Result<Self> {
        let data = file.metadata()?;
        Ok(Self { device: data.dev(), inode: data.ino(), stamp: stamp(&data), file })
    }

    pub(crate) fn file(&self) -> &File {
        &self.file
    }

    pub(crate) fn inode(&self) -> u64 {
        self.inode
    }

    /// Whether it has been written to since it was mapped.
    pub(crate) fn is_changed(&self) -> bool {
        self.file.metadata().map_or(true, |data| stamp(&data) != self.stamp)
    }

    pub(crate) fn path(&self) -> io::Result<String> {
        let path = fs::read_link(format!("/proc/self/fd/{}", self.file.as_raw_fd()))?;
        let path = path.to_string_lossy();
        Ok(path.strip_suffix(" (deleted)").unwrap_or(&path).to_owned())
    }
}

fn stamp(data: &fs::Metadata) -> (u64, i64, i64) {
    (data.len(), data.mtime(), data.mtime_nsec())
}

/// All files that were mapped during a recording.
#[derive(Debug, Default)]
pub(crate) struct MappedFiles(Vec<Rc<MappedFile>>);

impl MappedFiles {
    /// The file at a path, as it is now.
    pub(super) fn open(&mut self, path: &str) -> io::Result<Rc<MappedFile>> {
        let data = fs::metadata(path)?;
        let is_it = |known: &&Rc<MappedFile>| {
            (known.device, known.inode, known.stamp) == (data.dev(), data.ino(), stamp(&data))
        };
        if let Some(known) = self.0.iter().find(is_it) {
            return Ok(known.clone());
        }
        // Not a pipe, whose opening would not end.
        if !data.is_file() {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        let file = Rc::new(MappedFile::new(File::open(path)?)?);
        self.0.push(file.clone());
        Ok(file)
    }

    /// Those that have been written to since.
    pub(crate) fn changed(&self) -> Vec<&MappedFile> {
        self.0.iter().filter(|file| file.is_changed()).map(|file| &**file).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_that_is_written_to_after_it_was_mapped_is_another_file() {
        let path = tempfile::NamedTempFile::new().unwrap().into_temp_path();
        fs::write(&path, "one").unwrap();
        let name = path.to_str().unwrap();
        let mut files = MappedFiles::default();
        let first = files.open(name).unwrap();
        assert!(Rc::ptr_eq(&first, &files.open(name).unwrap()));
        assert!(files.changed().is_empty());
        fs::write(&path, "three").unwrap();
        let second = files.open(name).unwrap();
        assert!(!Rc::ptr_eq(&first, &second));
        assert!(first.is_changed() && !second.is_changed());
        assert_eq!(files.changed().len(), 1);
        assert!(files.open("/dev").is_err());
    }
}
