//! What a program prints after it was let go.
#![expect(unsafe_code, reason = "a process that outlives us is made by `fork`")]

use std::{fs::File, io, os::fd::AsRawFd};

use libc::{c_int, pollfd};
use nix::{sys::wait::waitpid, unistd::ForkResult};

/// Reads both streams to their ends in a process of its own, which ends with them: a program whose output nobody reads is
/// killed by the next thing that it prints. Nobody keeps what is read.
pub(crate) fn read_for_nobody(streams: [&File; 2]) -> io::Result<()> {
    let streams = streams.map(|stream| stream.as_raw_fd());
    // SAFETY: the child only makes system calls.
    match unsafe { nix::unistd::fork() }? {
        // It ends at once, so that the one that reads is nobody's child here.
        ForkResult::Parent { child } => drop(waitpid(child, None)?),
        // SAFETY: we are the child.
        ForkResult::Child => unsafe {
            // What is meant for us is not meant for it.
            libc::setsid();
            if libc::fork() == 0 {
                read_to_ends(streams);
            }
            libc::_exit(0)
        },
    }
    Ok(())
}

/// # Safety
/// Only in a forked child. Allocates nothing.
unsafe fn read_to_ends(streams: [c_int; 2]) {
    let mut buffer = [0u8; 16 << 10];
    // SAFETY: all pointers are to memory of this function, of the lengths that are named.
    unsafe {
        // Who waits for the end of our other descriptors must not wait for it.
        let [first, second] = streams.map(|stream| libc::fcntl(stream, libc::F_DUPFD, 2));
        // Our own input is at 0: it is not to be read instead.
        if first == -1 || second == -1 || libc::dup2(first, 0) == -1 || libc::dup2(second, 1) == -1 {
            return;
        }
        libc::syscall(libc::SYS_close_range, 2, c_int::MAX, 0);
        let mut open = [0, 1].map(|fd| pollfd { fd, events: libc::POLLIN, revents: 0 });
        while open.iter().any(|stream| stream.fd >= 0) {
            libc::poll(open.as_mut_ptr(), open.len() as libc::nfds_t, -1);
            for stream in open.iter_mut().filter(|stream| stream.fd >= 0 && stream.revents != 0) {
                let read = libc::read(stream.fd, buffer.as_mut_ptr().cast(), buffer.len());
                let error = *libc::__errno_location();
                // A terminal that nobody has open any more is an I/O error.
                if read == 0 || read < 0 && error != libc::EAGAIN && error != libc::EINTR {
                    stream.fd = -1;
                }
            }
        }
    }
}
