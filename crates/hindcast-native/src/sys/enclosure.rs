//! What of a confinement has no safe face: the fork into the namespaces, giving up rights, system calls without a wrapper.

use std::{ffi::CString, io, os::unix::ffi::OsStrExt as _, path::Path};

use super::Tid;

/// Forks; none in the child. Refused where this process has other threads, which a child would not have.
pub(crate) fn fork_alone() -> io::Result<Option<Tid>> {
    if std::fs::read_dir("/proc/self/task")?.count() != 1 {
        return Err(io::Error::other("other threads run already"));
    }
    // SAFETY: there is one thread, so the child has all that this process has.
    match unsafe { libc::fork() } {
        -1 => Err(io::Error::last_os_error()),
        0 => Ok(None),
        process => Ok(Some(Tid(process))),
    }
}

/// Makes all that is mounted at `path`, at any depth, read-only, without devices and without setuid programs.
pub(crate) fn make_read_only(path: &Path) -> io::Result<()> {
    const READ_ONLY: u64 = 0x1;
    const NO_SETUID: u64 = 0x2;
    const NO_DEVICES: u64 = 0x4;
    let path = CString::new(path.as_os_str().as_bytes())?;
    // What to set, what to clear, propagation, and a descriptor that is not used.
    let attributes = [READ_ONLY | NO_SETUID | NO_DEVICES, 0, 0, 0u64];
    // SAFETY: path and attributes live for the call, which is told the size of the latter.
    let answer = unsafe {
        libc::syscall(
            libc::SYS_mount_setattr,
            libc::AT_FDCWD,
            path.as_ptr(),
            libc::AT_RECURSIVE,
            attributes.as_ptr(),
            size_of_val(&attributes),
        )
    };
    if answer == -1 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

/// Makes `folder` the root, and puts the old one at `folder/old`.
pub(crate) fn change_root(folder: &Path, old: &Path) -> io::Result<()> {
    let (folder, old) =
        (CString::new(folder.as_os_str().as_bytes())?, CString::new(old.as_os_str().as_bytes())?);
    // SAFETY: both paths live for the call.
    let answer = unsafe { libc::syscall(libc::SYS_pivot_root, folder.as_ptr(), old.as_ptr()) };
    if answer == -1 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

/// Brings the loopback device of a new network namespace up.
pub(crate) fn start_loopback() -> io::Result<()> {
    // SAFETY: `request` lives for the calls and names the device; the socket is closed at the end.
    unsafe {
        let socket = libc::socket(libc::AF_INET, libc::SOCK_DGRAM | libc::SOCK_CLOEXEC, 0);
        if socket == -1 {
            return Err(io::Error::last_os_error());
        }
        let mut request: libc::ifreq = std::mem::zeroed();
        request.ifr_name[0] = b'l' as libc::c_char;
        request.ifr_name[1] = b'o' as libc::c_char;
        request.ifr_ifru.ifru_flags = (libc::IFF_UP | libc::IFF_RUNNING) as libc::c_short;
        let answer = libc::ioctl(socket, libc::SIOCSIFFLAGS as _, &raw const request);
        let failed = io::Error::last_os_error();
        libc::close(socket);
        if answer == -1 { Err(failed) } else { Ok(()) }
    }
}

/// Gives up every capability, also those that programs could get by being executed; and becomes the user and group of this
/// number, which a process of root may.
pub(crate) fn give_up_rights(user: Option<u32>) -> io::Result<()> {
    const VERSION_3: u32 = 0x2008_0522;
    let header = [VERSION_3, 0];
    let none = [0u32; 6];
    // SAFETY: header and sets have the size that this version of the call expects, and live for the calls; no groups are read
    // where there are 0.
    let answers = unsafe {
        // Those that the kernel does not know are refused, and nobody has them.
        for capability in 0..64 {
            libc::prctl(libc::PR_CAPBSET_DROP, capability, 0, 0, 0);
        }
        libc::prctl(libc::PR_CAP_AMBIENT, libc::PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0);
        let became = user.map_or([0; 3], |number| {
            [
                libc::setgroups(0, std::ptr::null()),
                libc::setresgid(number, number, number),
                libc::setresuid(number, number, number),
            ]
        });
        if became.contains(&-1) {
            -1
        } else {
            libc::syscall(libc::SYS_capset, header.as_ptr(), none.as_ptr())
        }
    };
    if answers == -1 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

/// Becomes the user and group of this number and keeps what capabilities that leaves.
pub(crate) fn become_user(number: u32) -> io::Result<()> {
    // SAFETY: no groups are read where there are 0.
    let answers = unsafe {
        [
            libc::setgroups(0, std::ptr::null()),
            libc::setresgid(number, number, number),
            libc::setresuid(number, number, number),
            // Its own files in /proc, which the namespaces are set up by, are closed to it otherwise.
            libc::prctl(libc::PR_SET_DUMPABLE, 1, 0, 0, 0),
        ]
    };
    if answers.contains(&-1) { Err(io::Error::last_os_error()) } else { Ok(()) }
}

/// Ends this process when its parent ends, and lets it be traced again: a change of user forbids both.
pub(crate) fn settle_as_child(dies_with_parent: bool) -> io::Result<()> {
    // SAFETY: these calls take no pointers.
    let answers = unsafe {
        [
            libc::prctl(libc::PR_SET_DUMPABLE, 1, 0, 0, 0),
            if dies_with_parent { libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL) } else { 0 },
            libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0),
        ]
    };
    if answers.contains(&-1) { Err(io::Error::last_os_error()) } else { Ok(()) }
}

/// Leaves more of the processor to others.
pub(crate) fn be_modest() {
    const STEPS: libc::c_int = 10;
    // SAFETY: the call takes no pointers. It never fails for a process that wants less.
    unsafe { libc::setpriority(libc::PRIO_PROCESS, 0, STEPS) };
}
