//! Replacing a file so that a reader sees the old text or the new one, never half of it.

use std::{
    fs::{self, File, OpenOptions},
    io::{self, Write},
    path::Path,
};

/// Writes `text` beside the file and renames it there. Folders are made; mode and owner of an
/// existing file are kept.
pub(super) fn replace(path: &Path, text: &str) -> io::Result<()> {
    // Settings are often links into a folder under version control: replace the file, not the link.
    let target = fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
    let (Some(folder), Some(name)) = (target.parent(), target.file_name()) else {
        return Err(io::ErrorKind::InvalidInput.into());
    };
    fs::create_dir_all(folder)?;
    let temporary = folder.join(format!(".{}.{}.tmp", name.to_string_lossy(), std::process::id()));
    let file = OpenOptions::new().write(true).create_new(true).open(&temporary)?;
    let written = fill(file, text, &target).and_then(|()| fs::rename(&temporary, &target));
    if written.is_err() {
        // The first error is the one to report.
        let _ = fs::remove_file(&temporary);
    }
    written
}

fn fill(mut file: File, text: &str, target: &Path) -> io::Result<()> {
    if let Ok(existing) = fs::metadata(target) {
        keep_owner(&file, &existing);
        file.set_permissions(existing.permissions())?;
    }
    file.write_all(text.as_bytes())?;
    // Otherwise a crash can leave the new name with no contents.
    file.sync_all()
}

#[cfg(unix)]
fn keep_owner(file: &File, existing: &fs::Metadata) {
    use std::os::unix::fs::{MetadataExt, fchown};
    // Only root can and has to: for everybody else it is the same owner anyway.
    let _ = fchown(file, Some(existing.uid()), Some(existing.gid()));
}

#[cfg(not(unix))]
fn keep_owner(_file: &File, _existing: &fs::Metadata) {}

#[cfg(all(test, unix))]
mod tests {
    use std::os::unix::fs::{PermissionsExt, symlink};

    use super::*;

    #[test]
    fn mode_and_link_are_kept_and_no_temporary_file_stays() {
        let folder = tempfile::tempdir().expect("a folder");
        let file = folder.path().join("real.json");
        fs::write(&file, "old").expect("a file");
        fs::set_permissions(&file, fs::Permissions::from_mode(0o600)).expect("a mode");
        let link = folder.path().join("link.json");
        symlink(&file, &link).expect("a link");
        replace(&link, "new").expect("a new text");
        assert_eq!(fs::read_to_string(&file).expect("the file"), "new");
        assert!(fs::symlink_metadata(&link).expect("the link").is_symlink());
        let mode = fs::metadata(&file).expect("the file").permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
        assert_eq!(fs::read_dir(folder.path()).expect("the folder").count(), 2);
    }

    #[test]
    fn missing_folders_are_made() {
        let folder = tempfile::tempdir().expect("a folder");
        let file = folder.path().join("a/b/new.json");
        replace(&file, "new").expect("a new file");
        assert_eq!(fs::read_to_string(&file).expect("the file"), "new");
    }

    #[test]
    fn a_failure_leaves_everything_as_it_was() {
        let folder = tempfile::tempdir().expect("a folder");
        // A folder cannot be replaced by a file.
        let target = folder.path().join("taken");
        fs::create_dir_all(target.join("full")).expect("a folder");
        replace(&target, "new").expect_err("an error");
        assert!(target.join("full").is_dir());
        assert_eq!(fs::read_dir(folder.path()).expect("the folder").count(), 1);
    }
}
