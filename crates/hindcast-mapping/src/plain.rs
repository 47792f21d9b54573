//! Opening files that others have named.

use std::{
    fs::{File, OpenOptions},
    io::{self, Read as _},
    os::unix::fs::OpenOptionsExt as _,
    path::Path,
};

/// Opens a plain file to read it. Anything else is refused, and at once: opening a pipe would wait for whoever writes to it, and
/// a device may never end.
pub fn open_plain(path: &Path) -> io::Result<File> {
    let file = OpenOptions::new().read(true).custom_flags(libc::O_NONBLOCK | libc::O_NOCTTY).open(path)?;
    // What was opened counts, not what was there before.
    if !file.metadata()?.is_file() {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "it is not a plain file"));
    }
    Ok(file)
}

/// All of a plain file that has at most so many bytes.
pub fn read_plain(path: &Path, most: u64) -> io::Result<Vec<u8>> {
    let file = open_plain(path)?;
    let mut bytes = Vec::new();
    file.take(most.saturating_add(1)).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > most {
        return Err(io::Error::new(io::ErrorKind::FileTooLarge, "it is too large"));
    }
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pipes_and_devices_are_refused_at_once() {
        let folder = tempfile::tempdir().unwrap();
        let pipe = folder.path().join("pipe.dwo");
        let made = std::process::Command::new("mkfifo").arg(&pipe).status().unwrap();
        assert!(made.success());
        for path in [&pipe, Path::new("/dev/zero"), folder.path()] {
            assert_eq!(
                open_plain(path).unwrap_err().kind(),
                io::ErrorKind::InvalidInput,
                "{}",
                path.display()
            );
        }
        let plain = folder.path().join("plain");
        std::fs::write(&plain, "text").unwrap();
        assert_eq!(read_plain(&plain, 4).unwrap(), b"text");
        assert_eq!(read_plain(&plain, 3).unwrap_err().kind(), io::ErrorKind::FileTooLarge);
    }
}
