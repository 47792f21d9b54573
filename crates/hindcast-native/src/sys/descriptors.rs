//! Descriptors of another process, and who else can write to the file behind one.

use std::{
    fs::{self, File},
    io,
    os::fd::{AsRawFd as _, FromRawFd as _, OwnedFd},
    sync::Once,
};

use super::Tid;

/// Whom [`has_no`] looks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Users {
    /// Anyone who has the file open for writing.
    Writers,
    /// Anyone who has the file open, other than by this very descriptor.
    Others,
}

/// Whether a descriptor of the process can be written to.
pub(crate) fn is_writable(process: Tid, descriptor: i32) -> io::Result<bool> {
    Ok(flags(process, descriptor)? & libc::O_ACCMODE != libc::O_RDONLY)
}

/// Whether what is read and written by a descriptor of the process does not pass the page cache.
pub(crate) fn is_direct(process: Tid, descriptor: i32) -> io::Result<bool> {
    Ok(flags(process, descriptor)? & libc::O_DIRECT != 0)
}

fn flags(process: Tid, descriptor: i32) -> io::Result<i32> {
    let text = fs::read_to_string(format!("/proc/{}/fdinfo/{descriptor}", process.0))?;
    let flags = text.lines().find_map(|line| line.strip_prefix("flags:"));
    let flags = flags.and_then(|flags| i32::from_str_radix(flags.trim(), 8).ok());
    flags.ok_or_else(|| io::Error::other("no such field"))
}

/// The descriptors of a process.
pub(crate) fn descriptors(process: Tid) -> io::Result<Vec<i32>> {
    let entries = fs::read_dir(format!("/proc/{}/fd", process.0))?;
    Ok(entries.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok()).collect())
}

/// What a descriptor of a process is: a path, or `pipe:[12345]`.
pub(crate) fn file_of(process: Tid, descriptor: i32) -> Option<String> {
    let file = fs::read_link(format!("/proc/{}/fd/{descriptor}", process.0)).ok()?;
    Some(file.to_string_lossy().into_owned())
}

/// The descriptors that an epoll descriptor of a process watches, in their order.
pub(crate) fn watched_by(process: Tid, epoll: i32) -> Vec<i32> {
    let text = fs::read_to_string(format!("/proc/{}/fdinfo/{epoll}", process.0)).unwrap_or_default();
    let target = |line: &str| line.strip_prefix("tfd:")?.split_ascii_whitespace().next()?.parse().ok();
    let mut watched: Vec<_> = text.lines().filter_map(target).collect();
    watched.sort_unstable();
    watched
}

/// A descriptor of another process as one of our own. Both are one open file: drop it soon, since closing releases locks.
pub(crate) fn borrow_descriptor(process: Tid, descriptor: i32) -> io::Result<File> {
    // SAFETY: both calls take plain numbers, and what they return belongs to us.
    unsafe {
        let handle = owned(libc::syscall(libc::SYS_pidfd_open, process.0, 0))?;
        let descriptor = owned(libc::syscall(libc::SYS_pidfd_getfd, handle.as_raw_fd(), descriptor, 0))?;
        Ok(File::from(descriptor))
    }
}

/// # Safety
/// The number is what a system call returned that makes a descriptor.
unsafe fn owned(result: libc::c_long) -> io::Result<OwnedFd> {
    if result < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: see above; nobody else has it.
    Ok(unsafe { OwnedFd::from_raw_fd(result as i32) })
}

/// Whether a file has no such users; `None` where the system does not tell. The system grants a lease only then.
pub(crate) fn has_no(users: Users, file: &File) -> Option<bool> {
    static IGNORED: Once = Once::new();
    let descriptor = file.as_raw_fd();
    let lease = match users {
        Users::Writers => libc::F_RDLCK,
        Users::Others => libc::F_WRLCK,
    };
    // SAFETY: the descriptor is open, and all arguments are plain numbers.
    unsafe {
        // Whoever opens the file in the short time that we have the lease has this signal sent to us.
        IGNORED.call_once(|| {
            libc::signal(libc::SIGIO, libc::SIG_IGN);
        });
        let owner = libc::fcntl(descriptor, libc::F_GETOWN);
        if libc::fcntl(descriptor, libc::F_SETLEASE, lease) == 0 {
            libc::fcntl(descriptor, libc::F_SETLEASE, libc::F_UNLCK);
            // The lease made us the owner of a file that is not ours alone.
            libc::fcntl(descriptor, libc::F_SETOWN, owner);
            return Some(true);
        }
    }
    match io::Error::last_os_error().raw_os_error() {
        Some(libc::EAGAIN) => Some(false),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn others_that_have_a_file_open_are_noticed() {
        let path = tempfile::NamedTempFile::new().unwrap().into_temp_path();
        let writer = File::options().read(true).write(true).open(&path).unwrap();
        assert_eq!(has_no(Users::Others, &writer), Some(true));
        let other = File::options().write(true).open(&path).unwrap();
        assert_eq!(has_no(Users::Others, &writer), Some(false));
        drop(other);
        assert_eq!(has_no(Users::Others, &writer), Some(true));
        let ourselves = Tid(std::process::id() as i32);
        assert!(is_writable(ourselves, writer.as_raw_fd()).unwrap());
        let borrowed = borrow_descriptor(ourselves, writer.as_raw_fd()).unwrap();
        assert_eq!(has_no(Users::Others, &borrowed), Some(true), "it is the same open file");
        drop(borrowed);
        let reader = File::open(&path).unwrap();
        assert!(!is_writable(ourselves, reader.as_raw_fd()).unwrap());
        assert_eq!(has_no(Users::Writers, &reader), Some(false));
        drop(writer);
        assert_eq!(has_no(Users::Writers, &reader), Some(true));
        assert!(descriptors(ourselves).unwrap().contains(&reader.as_raw_fd()));
    }
}
