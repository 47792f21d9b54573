//! The named pipes by which a runtime talks to its debugger.
//!
//! They are in the folder for temporary files, `clr-debug-pipe-PID-TIME-in` and `-out`. The runtime means its own folder, and the
//! debugging library that of the process it is loaded into.

use std::{
    io,
    os::unix::{ffi::OsStrExt, fs::symlink},
    path::{Path, PathBuf},
};

/// The folder of a process for temporary files.
pub(crate) fn folder_of(pid: u32) -> PathBuf {
    let environment = std::fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
    let folder = environment.split(|byte| *byte == 0).find_map(|entry| entry.strip_prefix(b"TMPDIR="));
    let folder = folder.filter(|folder| !folder.is_empty()).unwrap_or(b"/tmp");
    Path::new(std::ffi::OsStr::from_bytes(folder)).to_owned()
}

/// The pipes of a process that are in a folder.
pub(crate) fn pipes_in(folder: &Path, pid: u32) -> impl Iterator<Item = PathBuf> {
    let prefix = format!("clr-debug-pipe-{pid}-");
    let entries = std::fs::read_dir(folder).into_iter().flatten().filter_map(Result::ok);
    entries
        .filter(move |entry| entry.file_name().to_string_lossy().starts_with(&prefix))
        .map(|entry| entry.path())
}

/// Makes the pipes of a process with another folder be in ours, too, as long as it lives.
#[derive(Debug)]
pub(crate) struct Bridge(Vec<PathBuf>);

impl Bridge {
    pub(crate) fn to(pid: u32) -> io::Result<Self> {
        let (ours, theirs) = (std::env::temp_dir(), folder_of(pid));
        let mut bridge = Self(Vec::new());
        if is_same_folder(&ours, &theirs) {
            return Ok(bridge);
        }
        for pipe in pipes_in(&theirs, pid) {
            let link = ours.join(pipe.file_name().unwrap_or_default());
            symlink(&pipe, &link)?;
            bridge.0.push(link);
        }
        Ok(bridge)
    }
}

impl Drop for Bridge {
    fn drop(&mut self) {
        for link in &self.0 {
            // Somebody may have tidied up.
            let _ = std::fs::remove_file(link);
        }
    }
}

fn is_same_folder(one: &Path, other: &Path) -> bool {
    match (one.canonicalize(), other.canonicalize()) {
        (Ok(one), Ok(other)) => one == other,
        _ => one == other,
    }
}
