//! Waits for files, pipes and sockets.

use hindcast_core::debug::{Descriptor, Wait, WaitKind};

use super::{Waits, call::Blocking, of};
use crate::sys;

/// How many descriptors of one call are told.
const MOST: usize = 16;
/// As many as `select` takes.
const SELECTABLE: u64 = 1024;

/// Calls whose first argument is a descriptor that they wait for.
const AT_ONE: [(i64, &str); 24] = [
    (libc::SYS_read, "read"),
    (libc::SYS_pread64, "pread"),
    (libc::SYS_readv, "readv"),
    (libc::SYS_preadv, "preadv"),
    (libc::SYS_preadv2, "preadv2"),
    (libc::SYS_write, "write"),
    (libc::SYS_pwrite64, "pwrite"),
    (libc::SYS_writev, "writev"),
    (libc::SYS_pwritev, "pwritev"),
    (libc::SYS_recvfrom, "recvfrom"),
    (libc::SYS_recvmsg, "recvmsg"),
    (libc::SYS_recvmmsg, "recvmmsg"),
    (libc::SYS_sendto, "sendto"),
    (libc::SYS_sendmsg, "sendmsg"),
    (libc::SYS_sendmmsg, "sendmmsg"),
    (libc::SYS_accept, "accept"),
    (libc::SYS_accept4, "accept"),
    (libc::SYS_connect, "connect"),
    (libc::SYS_fsync, "fsync"),
    (libc::SYS_fdatasync, "fdatasync"),
    (libc::SYS_splice, "splice"),
    (libc::SYS_ioctl, "ioctl"),
    (libc::SYS_io_uring_enter, "io_uring_enter"),
    (libc::SYS_mq_timedreceive, "mq_receive"),
];

impl Waits<'_> {
    /// For one of some descriptors, or for the lock of a file.
    pub(super) fn for_files(&self, call: &Blocking) -> Option<Wait> {
        let [first, second, third, fourth, fifth, _] = call.arguments;
        if let Some((_, name)) = AT_ONE.iter().find(|(number, _)| *number == call.number) {
            return Some(self.ready(name, vec![first as i32]));
        }
        Some(match call.number {
            libc::SYS_flock => self.file_lock(first as i32),
            libc::SYS_fcntl if matches!(second as i32, libc::F_SETLKW | libc::F_OFD_SETLKW) => {
                self.file_lock(first as i32)
            }
            libc::SYS_poll => {
                let wait = self.ready("poll", self.polled(first, second));
                or_sleep(within(wait, third as i32))
            }
            libc::SYS_ppoll => {
                or_sleep(self.timed(self.ready("ppoll", self.polled(first, second)), third, 1_000_000))
            }
            libc::SYS_select => {
                let wait = self.ready("select", self.selected(first, [second, third, fourth]));
                or_sleep(self.timed(wait, fifth, 1000))
            }
            libc::SYS_pselect6 => {
                let wait = self.ready("pselect", self.selected(first, [second, third, fourth]));
                or_sleep(self.timed(wait, fifth, 1_000_000))
            }
            libc::SYS_epoll_wait | libc::SYS_epoll_pwait => {
                within(self.ready("epoll_wait", self.watched(first as i32)), fourth as i32)
            }
            libc::SYS_epoll_pwait2 => {
                self.timed(self.ready("epoll_pwait2", self.watched(first as i32)), fourth, 1_000_000)
            }
            _ => return None,
        })
    }

    fn ready(&self, call: &str, mut numbers: Vec<i32>) -> Wait {
        numbers.truncate(MOST);
        let descriptors = numbers.into_iter().map(|number| self.descriptor(number)).collect();
        Wait { descriptors, ..of(WaitKind::Descriptor, call) }
    }

    fn file_lock(&self, number: i32) -> Wait {
        let descriptors = vec![self.descriptor(number)];
        Wait { descriptors, holder_unknown: true, ..of(WaitKind::Lock, "file") }
    }

    fn descriptor(&self, number: i32) -> Descriptor {
        let link = self.process.and_then(|process| sys::file_of(process, number));
        let file = link.map(|link| match link.split_once(":[") {
            Some(("pipe", _)) => "a pipe".to_owned(),
            Some(("socket", _)) => "a socket".to_owned(),
            Some(("anon_inode", kind)) => kind.trim_end_matches(']').to_owned(),
            _ => link,
        });
        Descriptor { number, file }
    }

    /// The descriptors of an array of `pollfd`.
    fn polled(&self, array: u64, count: u64) -> Vec<i32> {
        let number = |index| Some(self.word(array.wrapping_add(8 * index))? as i32);
        // Negative ones are left out.
        (0..count.min(SELECTABLE)).filter_map(number).filter(|number| *number >= 0).collect()
    }

    /// The descriptors in any of the sets.
    fn selected(&self, count: u64, sets: [u64; 3]) -> Vec<i32> {
        let is_in = |set: u64, number: u64| {
            let byte = self.scene.memory.read_uint(set.wrapping_add(number / 8), 1);
            set != 0 && byte.is_ok_and(|byte| byte >> (number % 8) & 1 == 1)
        };
        let numbers = (0..count.min(SELECTABLE)).filter(|number| sets.iter().any(|set| is_in(*set, *number)));
        numbers.filter_map(|number| i32::try_from(number).ok()).collect()
    }

    /// What an epoll descriptor watches; itself where that is not known.
    fn watched(&self, epoll: i32) -> Vec<i32> {
        let watched = self.process.map(|process| sys::watched_by(process, epoll)).unwrap_or_default();
        if watched.is_empty() { vec![epoll] } else { watched }
    }
}

/// The wait for so many milliseconds at most, or for ever.
fn within(wait: Wait, milliseconds: i32) -> Wait {
    Wait { timeout_ms: u32::try_from(milliseconds).ok(), ..wait }
}

/// Who waits for no descriptor waits for time, or for a signal.
fn or_sleep(wait: Wait) -> Wait {
    match (wait.descriptors.is_empty(), wait.is_for_ever()) {
        (false, _) => wait,
        (true, false) => Wait { kind: WaitKind::Time, object: None, ..wait },
        (true, true) => Wait { kind: WaitKind::SystemSignal, object: None, ..wait },
    }
}
