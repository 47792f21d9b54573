//! The data folder: can it be made and written, is it private, is there room.

use std::{
    fs, io,
    path::{Path, PathBuf},
};

use super::Check;

const NAME: &str = "data folder";
const LEAST_FREE_BYTES: u64 = 100_000_000;
const CHOOSE_ANOTHER: &str = "choose another with `--data-dir`";

pub(super) fn check(folder: &Path) -> Check {
    let shown = folder.display();
    let existing = match nearest_existing(folder) {
        Ok(existing) => existing,
        Err(error) => return Check::fail(NAME, format!("{shown}: {error}"), CHOOSE_ANOTHER),
    };
    if !existing.is_dir() {
        let detail = format!("{} is not a folder", existing.display());
        return Check::fail(NAME, detail, format!("move it away, or {CHOOSE_ANOTHER}"));
    }
    if let Err(error) = try_writing(&existing) {
        let detail = if existing == folder {
            format!("cannot write in {shown}: {error}")
        } else {
            format!("cannot create {shown} in {}: {error}", existing.display())
        };
        let remedy = format!("make it writable for this user, or {CHOOSE_ANOTHER}");
        return Check::fail(NAME, detail, remedy);
    }
    let free = free_bytes(&existing);
    if let Some(free) = free.filter(|free| *free < LEAST_FREE_BYTES) {
        let detail = format!("only {} free in {}", megabytes(free), existing.display());
        return Check::fail(NAME, detail, format!("make room, or {CHOOSE_ANOTHER}"));
    }
    let free = free.map(|free| format!(", {} free", megabytes(free))).unwrap_or_default();
    if existing != folder {
        return Check::ok(NAME, format!("{shown} can be created{free}"));
    }
    match shared_mode(folder) {
        Some(mode) => Check::warn(
            NAME,
            format!("{shown} is open to other users (mode {mode:04o})"),
            format!("run `chmod 700 {shown}`: it holds keys"),
        ),
        None => Check::ok(NAME, format!("{shown} is writable and private{free}")),
    }
}

/// The folder itself, or the nearest one above it in which it would be created.
fn nearest_existing(folder: &Path) -> io::Result<PathBuf> {
    let absolute = std::path::absolute(folder)?;
    for candidate in absolute.ancestors() {
        match fs::symlink_metadata(candidate) {
            // As given where it exists, so that the caller can tell the folder from one above it.
            Ok(_) if candidate == absolute => return Ok(folder.to_owned()),
            Ok(_) => return Ok(candidate.to_owned()),
            // Below a file there is nothing either: the file will be found and named.
            Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) => {}
            Err(error) => return Err(error),
        }
    }
    Err(io::ErrorKind::NotFound.into())
}

/// Creates and removes a folder with a file in it, which is all that hindcast does there.
fn try_writing(folder: &Path) -> io::Result<()> {
    let trial = folder.join(format!(".hindcast-doctor-{}", std::process::id()));
    fs::create_dir(&trial)?;
    let file = trial.join("trial");
    let written = fs::write(&file, b"trial").and_then(|()| fs::remove_file(&file));
    if written.is_err() {
        // A full disk leaves an empty file behind.
        let _ = fs::remove_file(&file);
    }
    fs::remove_dir(&trial)?;
    written
}

#[cfg(unix)]
fn free_bytes(folder: &Path) -> Option<u64> {
    let found = nix::sys::statvfs::statvfs(folder).ok()?;
    // The widths of these fields differ between systems.
    #[allow(clippy::useless_conversion, clippy::unnecessary_cast)]
    Some((found.blocks_available() as u64).saturating_mul(found.fragment_size() as u64))
}

#[cfg(not(unix))]
fn free_bytes(_folder: &Path) -> Option<u64> {
    None
}

/// The permissions, when anybody but the owner has some.
#[cfg(unix)]
fn shared_mode(folder: &Path) -> Option<u32> {
    use std::os::unix::fs::PermissionsExt;
    let mode = fs::metadata(folder).ok()?.permissions().mode() & 0o7777;
    (mode & 0o077 != 0).then_some(mode)
}

#[cfg(not(unix))]
fn shared_mode(_folder: &Path) -> Option<u32> {
    None
}

fn megabytes(bytes: u64) -> String {
    format!("{} MB", bytes / 1_000_000)
}

#[cfg(all(test, unix))]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;
    use crate::doctor::Status;

    fn names(folder: &Path) -> Vec<String> {
        let entries = fs::read_dir(folder).expect("a folder");
        entries.map(|entry| entry.expect("an entry").file_name().to_string_lossy().into_owned()).collect()
    }

    #[test]
    fn a_folder_that_is_not_there_yet_can_be_created_and_still_is_not_there() {
        let above = tempfile::tempdir().expect("a folder");
        let checked = check(&above.path().join("share/hindcast"));
        assert_eq!(checked.status, Status::Ok, "{checked:?}");
        assert!(checked.detail.contains("can be created, "), "{checked:?}");
        assert!(names(above.path()).is_empty());
    }

    #[test]
    fn a_private_folder_is_fine_and_a_shared_one_is_not() {
        let folder = tempfile::tempdir().expect("a folder");
        for (mode, expected) in [(0o700, Status::Ok), (0o755, Status::Warn), (0o710, Status::Warn)] {
            let permissions = fs::Permissions::from_mode(mode);
            fs::set_permissions(folder.path(), permissions).expect("a mode");
            let checked = check(folder.path());
            assert_eq!(checked.status, expected, "{checked:?}");
            let remedy = checked.remedy.unwrap_or_default();
            assert_eq!(expected == Status::Warn, remedy.starts_with("run `chmod 700 "), "{remedy}");
        }
        assert!(names(folder.path()).is_empty());
    }

    #[test]
    fn a_file_in_the_way_is_named() {
        let above = tempfile::tempdir().expect("a folder");
        let file = above.path().join("file");
        fs::write(&file, "").expect("a file");
        for folder in [file.clone(), file.join("hindcast")] {
            let checked = check(&folder);
            assert_eq!(checked.status, Status::Fail);
            assert_eq!(checked.detail, format!("{} is not a folder", file.display()));
        }
    }

    #[test]
    fn a_folder_that_cannot_be_written_fails() {
        // Nobody, not even root, can create anything in /proc.
        let checked = check(Path::new("/proc/hindcast"));
        assert_eq!(checked.status, Status::Fail);
        assert!(checked.detail.starts_with("cannot create /proc/hindcast in /proc: "), "{checked:?}");
    }
}
