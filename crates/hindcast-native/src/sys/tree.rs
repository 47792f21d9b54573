//! A process above all that a launched program starts, which ends them when we do.
//!
//! What is not traced does not die with us. So the program is started by a process of ours to which all that loses its
//! parent is given; when we end the tree, or die, it kills whatever is below it.

use std::{
    io::{PipeReader, PipeWriter, Write as _},
    os::fd::AsRawFd,
};

use libc::{c_char, c_int, pid_t};

use super::{Tid, dying};

/// All that a program starts. Dropping it ends them, and waits until they are gone.
#[derive(Debug)]
pub(crate) struct Tree {
    keeper: Tid,
    /// Its end is the end of the tree.
    life: Option<PipeWriter>,
}

impl Tree {
    /// Under a process that runs [`keep`].
    pub(super) fn under(keeper: Tid, life: PipeWriter) -> Self {
        Self { keeper, life: Some(life) }
    }

    /// Lets all go on without us.
    pub(crate) fn release(mut self) {
        // A keeper that is gone ends nobody.
        let _ = self.life.take().map(|mut life| life.write_all(&[1]));
    }
}

impl Drop for Tree {
    fn drop(&mut self) {
        // Copies of the program are below the keeper by now. Until we took note of their ends it cannot.
        dying::bury_dismissed();
        self.life = None;
        dying::bury(self.keeper);
    }
}

/// Between two looks at what is left.
const GLANCE_MICROSECONDS: libc::useconds_t = 1000;

/// What is left then cannot be ended: it waits for a device.
const MOST_LOOKS: u32 = 10_000;

/// Becomes the process to which orphans of the tree are given.
///
/// # Safety
/// Only in a forked child.
pub(super) unsafe fn adopt_orphans() {
    // SAFETY: the call takes no pointers.
    unsafe { libc::prctl(libc::PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) };
}

/// Waits until the tree is to end, and ends it.
///
/// # Safety
/// Only in a forked child. Allocates nothing.
pub(super) unsafe fn keep(life: &PipeReader) -> ! {
    // SAFETY: see above; all pointers are to memory of this function.
    unsafe {
        // What is meant for whoever started us is not meant for it.
        libc::setsid();
        let mut all: libc::sigset_t = std::mem::zeroed();
        libc::sigfillset(&raw mut all);
        libc::sigprocmask(libc::SIG_SETMASK, &raw const all, std::ptr::null_mut());
        // Nobody asks how an orphan ended.
        libc::signal(libc::SIGCHLD, libc::SIG_IGN);
        // Who waits for the end of our descriptors waits for us, not for it.
        let life = life.as_raw_fd();
        if life > 0 {
            libc::syscall(libc::SYS_close_range, 0, life - 1, 0);
        }
        libc::syscall(libc::SYS_close_range, life + 1, c_int::MAX, 0);
        let mut byte = 0u8;
        let mut read = -1;
        while read == -1 {
            read = libc::read(life, (&raw mut byte).cast(), 1);
        }
        // Whoever loses its parent by the end of one round is killed in the next.
        let mut looks = 0;
        while read == 0 && looks < MOST_LOOKS && kill_children() {
            libc::usleep(GLANCE_MICROSECONDS);
            looks += 1;
        }
        libc::_exit(0)
    }
}

/// Kills all children; false where there are none that live.
///
/// # Safety
/// As [`keep`].
unsafe fn kill_children() -> bool {
    const NAME: usize = 19;
    const LENGTH: usize = 16;
    let mut any = false;
    let mut buffer = [0u64; 1024];
    // SAFETY: the system writes whole entries, of the length that each says, and a name that ends with a zero.
    unsafe {
        let own = libc::getpid();
        let folder = libc::open(c"/proc".as_ptr(), libc::O_RDONLY | libc::O_DIRECTORY);
        loop {
            let read = libc::syscall(libc::SYS_getdents64, folder, buffer.as_mut_ptr(), size_of_val(&buffer));
            if read <= 0 {
                libc::close(folder);
                return any;
            }
            let mut at = buffer.as_ptr().cast::<u8>();
            let end = at.add(read as usize);
            while at < end {
                let name = at.add(NAME).cast::<c_char>();
                let process = libc::atoi(name);
                if process > 0 && is_living_child(name, own) {
                    // One that took other rights is not ours to end.
                    any |= libc::kill(process, libc::SIGKILL) == 0;
                }
                at = at.add(usize::from(at.add(LENGTH).cast::<u16>().read_unaligned()));
            }
        }
    }
}

/// Whether the process of this number is a child of `parent` that has not ended.
///
/// # Safety
/// As [`keep`]; `process` ends with a zero.
unsafe fn is_living_child(process: *const c_char, parent: pid_t) -> bool {
    let mut path = [0u8; 64];
    let mut text = [0u8; 512];
    // SAFETY: the longest path is shorter than the buffer, which ends with zeroes; the last byte of `text` stays a zero.
    unsafe {
        let mut length = 0;
        let mut append = |from: *const c_char| {
            let mut from = from.cast::<u8>();
            while *from != 0 && length + 1 < path.len() {
                path[length] = *from;
                length += 1;
                from = from.add(1);
            }
        };
        append(c"/proc/".as_ptr());
        append(process);
        append(c"/stat".as_ptr());
        let file = libc::open(path.as_ptr().cast(), libc::O_RDONLY);
        if file == -1 {
            return false;
        }
        libc::read(file, text.as_mut_ptr().cast(), text.len() - 1);
        libc::close(file);
    }
    // Its number, its name in brackets, its state, its parent.
    let Some(state) = text.iter().rposition(|&byte| byte == b')').map(|bracket| bracket + 2) else {
        return false;
    };
    let Some(&[letter, b' ', ref rest @ ..]) = text.get(state..) else { return false };
    let digits = rest.iter().take_while(|byte| byte.is_ascii_digit());
    let its_parent = digits.fold(0, |number: pid_t, digit| number * 10 + pid_t::from(digit - b'0'));
    its_parent == parent && letter != b'Z' && letter != b'X'
}
