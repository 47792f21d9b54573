//! Debug information that was moved to a file of its own.

use std::{
    fmt::Write,
    path::{Path, PathBuf},
};

use crate::elf::ElfFile;

const GLOBAL_FOLDER: &str = "/usr/lib/debug";

/// The file that has the debug information of `elf`, if it is on this machine and of the same build.
pub(super) fn find(elf: &ElfFile, path: &Path) -> Option<(PathBuf, ElfFile)> {
    by_build_id(elf).or_else(|| by_link(elf, path))
}

fn by_build_id(elf: &ElfFile) -> Option<(PathBuf, ElfFile)> {
    let id = elf.build_id()?;
    let (first, rest) = id.split_first()?;
    let mut name = String::new();
    for byte in rest {
        let _ = write!(name, "{byte:02x}");
    }
    let path = PathBuf::from(format!("{GLOBAL_FOLDER}/.build-id/{first:02x}/{name}.debug"));
    let found = ElfFile::open(&path).ok()?;
    (found.build_id().as_deref() == Some(&id)).then_some((path, found))
}

fn by_link(elf: &ElfFile, path: &Path) -> Option<(PathBuf, ElfFile)> {
    let (name, checksum) = elf.debug_link()?;
    let real = path.canonicalize().unwrap_or_else(|_| path.to_owned());
    let folder = real.parent()?;
    let global = Path::new(GLOBAL_FOLDER).join(folder.strip_prefix("/").unwrap_or(folder));
    let candidates = [folder.join(&name), folder.join(".debug").join(&name), global.join(&name)];
    candidates.into_iter().find_map(|candidate| {
        let found = ElfFile::open(&candidate).ok()?;
        (found.checksum() == Some(checksum)).then_some((candidate, found))
    })
}
