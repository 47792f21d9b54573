//! A file that gets its name when all of it is written.

use std::{
    fs::{self, File},
    io::ErrorKind,
    path::{Path, PathBuf},
};

use hindcast_core::store::StoreError;

/// More leftovers of exports that were killed than anybody keeps.
const MOST_LEFTOVERS: u32 = 1000;

/// A file beside the one it is to become, named after it: `notes.hindcast.partial`. It is removed unless it is finished. One that is
/// left by a killed process stays; the next one has a number.
pub(super) struct PartialFile {
    path: PathBuf,
    is_finished: bool,
}

impl PartialFile {
    /// Makes the file, which nobody had before. Fails where there is a file of the wanted name.
    pub(super) fn beside(wanted: &Path) -> Result<Self, StoreError> {
        if wanted.symlink_metadata().is_ok() {
            return Err(exists(wanted));
        }
        for number in 1..=MOST_LEFTOVERS {
            let mut path = wanted.as_os_str().to_owned();
            path.push(if number == 1 { ".partial".to_owned() } else { format!(".{number}.partial") });
            let path = PathBuf::from(path);
            match File::create_new(&path) {
                Ok(_) => return Ok(Self { path, is_finished: false }),
                Err(error) if error.kind() == ErrorKind::AlreadyExists => {}
                Err(error) => return Err(of_disk(&path, &error)),
            }
        }
        Err(StoreError::Unavailable(format!(
            "too many `.partial` files beside `{}` · hint: remove them, exports that were killed left them",
            wanted.display()
        )))
    }

    /// Where it is until it is finished.
    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Gives the file its name, unless somebody else took that meanwhile.
    pub(super) fn finish(mut self, wanted: &Path) -> Result<(), StoreError> {
        // Unlike renaming, linking never replaces a file.
        match fs::hard_link(&self.path, wanted) {
            Ok(()) => return Ok(()),
            Err(error) if error.kind() == ErrorKind::AlreadyExists => return Err(exists(wanted)),
            // Not every file system has links.
            Err(_) if wanted.symlink_metadata().is_ok() => return Err(exists(wanted)),
            Err(_) => {}
        }
        fs::rename(&self.path, wanted).map_err(|error| of_disk(wanted, &error))?;
        self.is_finished = true;
        Ok(())
    }
}

impl Drop for PartialFile {
    fn drop(&mut self) {
        if !self.is_finished {
            // What cannot be removed says by its name what it is.
            let _ = fs::remove_file(&self.path);
        }
    }
}

fn exists(file: &Path) -> StoreError {
    StoreError::Exists(format!("the file `{}`", file.display()))
}

fn of_disk(file: &Path, error: &std::io::Error) -> StoreError {
    StoreError::Unavailable(format!("`{}`: {error}", file.display()))
}
